"""An executable: one row for each person or car that came into the picture during the chunk.

    CREATE FOREIGN TABLE passers (chunk timestamptz, kind text DEFAULT '', direction text DEFAULT '', speed float8 DEFAULT 0)
      SERVER … OPTIONS (executable 'count_people', chunk '5s', stride '0s', timeout '1s', max_rows '8', …);

The background is the median of the chunk itself, since a chunk knows no other; what differs from it is grouped into blobs, blobs are
linked from frame to frame, and an object counts in the chunk in which its front crosses a line near the edge of the picture.
Chunks of 5 seconds or more: in shorter ones a passing car may cover its part of the street for half of the time.
"""

from collections.abc import Iterator
from typing import Any

import cv2
import numpy as np

cv2.setNumThreads(1)

SCALE = 2  # work at half the size
LINE = 48  # pixels from the edge at which an object counts
CONTRAST = 30  # levels of the strongest colour between an object and the street
SMALLEST = 24  # pixels of a blob, at half the size
CAR = 34  # pixels: nobody is wider, no car is narrower


Box = tuple[int, int, int, int]  # left, top, right, bottom
Seen = tuple[int, int, int]  # frame, left, right
Row = dict[str, str | float]


def process(chunk: Any) -> Iterator[Row]:
    """Rows of the chunk, in the order of arrival."""
    found = [passage(track, chunk.width, float(chunk.fps)) for track in tracks(chunk.frames)]
    for _, row in sorted((p for p in found if p is not None), key=lambda p: p[0]):
        yield row


def blobs(frames: Any) -> Iterator[list[Box]]:
    """For each frame the boxes of what is not street, in full-size pixels."""
    small = np.stack([cv2.resize(f, None, fx=1 / SCALE, fy=1 / SCALE, interpolation=cv2.INTER_AREA) for f in frames])
    some = small[:: max(1, len(small) // 15)]
    street = np.sort(some, axis=0)[len(some) // 2].astype(np.float32)
    brightness = float(np.median(street[::4, ::4]))
    near = cv2.getStructuringElement(cv2.MORPH_RECT, (5, 5))
    for picture in small:
        # the light drifts: compare at equal brightness
        background = cv2.convertScaleAbs(street, alpha=float(np.median(picture[::4, ::4])) / brightness)
        blue, green, red = cv2.split(cv2.absdiff(picture, background))
        mask = cv2.threshold(cv2.max(cv2.max(blue, green), red), CONTRAST, 255, cv2.THRESH_BINARY)[1]
        mask = cv2.morphologyEx(mask, cv2.MORPH_CLOSE, near)
        _, _, boxes, _ = cv2.connectedComponentsWithStats(mask)
        yield [(SCALE * x, SCALE * y, SCALE * (x + w), SCALE * (y + h)) for x, y, w, h, area in boxes[1:].tolist() if area >= SMALLEST]


def tracks(frames: Any) -> list[list[Seen]]:
    """Where each object was seen. People and cars keep to their lane, so height tells them apart."""
    running: list[Track] = []
    ended: list[Track] = []
    for number, boxes in enumerate(blobs(frames)):
        left_over = sorted(boxes)
        for track in sorted(running, key=lambda t: -len(t.seen)):
            near = [(track.distance(b, number), b) for b in left_over if track.same_lane(b)]
            if near and min(near)[0] < 60:
                track.add(number, min(near)[1])
                left_over.remove(min(near)[1])
        ended += [t for t in running if t.seen[-1][0] < number - 2]
        running = [t for t in running if t.seen[-1][0] >= number - 2]
        running += [Track(number, box) for box in left_over]
    return [t.seen for t in ended + running if len(t.seen) > 1]


class Track:
    """One object, from frame to frame."""

    def __init__(self, number: int, box: Box) -> None:
        self.seen: list[Seen] = []
        self.add(number, box)

    def add(self, number: int, box: Box) -> None:
        self.seen.append((number, box[0], box[2]))
        self.top, self.bottom = box[1], box[3]

    def same_lane(self, box: Box) -> bool:
        return min(box[3], self.bottom) - max(box[1], self.top) > 0.4 * min(box[3] - box[1], self.bottom - self.top)

    def distance(self, box: Box, number: int) -> float:
        """How far the box is from where the object should be by now."""
        last, left, right = self.seen[-1]
        expected = (left + right) / 2
        if len(self.seen) > 1:
            first, left, right = self.seen[-4:][0]
            expected += (expected - (left + right) / 2) / (last - first) * (number - last)
        return abs((box[0] + box[2]) / 2 - expected)


def passage(track: list[Seen], width: int, fps: float) -> tuple[float, Row] | None:
    """(when, row) if the track's object came in during this chunk, else None."""
    frame = np.array([f for f, _, _ in track], float)
    left, right = (np.array([t[i] for t in track], float) for i in (1, 2))
    to_right = left[-1] + right[-1] > left[0] + right[0]
    front = right if to_right else width - left  # how far its front has come
    inside = front < width - 2  # further it is cut off by the edge
    if inside.sum() < 2 or front[inside][-1] < LINE:
        return None
    speed = float(np.polyfit(frame[inside], front[inside], 1)[0])
    if speed < 1:
        return None
    if front[0] > LINE + 2 * speed:  # it did not come from the edge: a piece of something, or seen by the chunk before
        return None
    past = int(np.argmax(front >= LINE))
    crossed = frame[past] - (front[past] - LINE) / speed
    if crossed <= -1:  # before the first frame of this chunk: the chunk before has counted it
        return None
    kind = "car" if (right - left).max() > CAR else "person"
    return crossed, {"kind": kind, "direction": "right" if to_right else "left", "speed": speed * fps}

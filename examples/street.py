"""Renders a street as a fixed camera sees it, and tells the truth about it: python examples/street.py OUT_DIR.

Writes street.mp4 and street.json. The picture has a textured background, sensor noise, light that drifts, and people and cars that
cross it in six lanes; the same seed gives the same scene. An object counts when its front has come `tripwire` pixels into the picture,
which no edge effect of a chunk can blur: each object is counted in one frame.
"""

from __future__ import annotations

import argparse
import json
from dataclasses import asdict, dataclass, replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import av
import cv2
import numpy as np
from numpy.typing import NDArray

__all__ = ["Passage", "Scene", "main", "render", "traffic", "truth"]

WIDTH, HEIGHT, FPS = 640, 360, 10
TRIPWIRE = 48
Image = NDArray[np.uint8]

#: kind, direction (+1 is to the right), y of the lowest pixel row
LANES = (("person", 1, 62), ("person", -1, 116), ("car", -1, 172), ("car", 1, 226), ("person", 1, 286), ("person", -1, 344))
SPEEDS = {"person": (170.0, 230.0), "car": (200.0, 260.0)}  # pixels per second: nobody stays longer than 4 seconds
CLOTHES = ((40, 40, 190), (200, 90, 30), (235, 235, 225), (30, 25, 30), (40, 200, 230), (30, 120, 25))
PAINT = ((30, 30, 200), (235, 235, 235), (25, 25, 28), (200, 110, 20), (20, 190, 220))


@dataclass(frozen=True)
class Passage:
    """One object's way through the picture."""

    kind: str
    direction: str
    speed: float  # pixels per second
    enter_frame: int  # first frame in which some of it is visible
    exit_frame: int  # one past the last
    counted_frame: int  # first frame in which its front is past the tripwire
    bottom: int
    width: int
    height: int
    start: float  # x of its left edge in frame 0
    colour: tuple[int, int, int]

    def left(self, frame: int) -> int:
        """x of the left edge."""
        sign = 1 if self.direction == "right" else -1
        return round(self.start + sign * self.speed * frame / FPS)


@dataclass(frozen=True)
class Scene:
    """Everything that happens, and for how long."""

    seed: int
    frames: int
    passages: tuple[Passage, ...]


def traffic(seconds: int, seed: int) -> Scene:
    """Arrivals by chance in each lane, kept far enough apart that nobody catches up with the one in front."""
    chance = np.random.default_rng(seed)
    passages: list[Passage] = []
    for kind, sign, bottom in LANES:
        begin, before = float(chance.uniform(0.5, 4)), None
        while begin < seconds:
            one = _passage(kind, sign, bottom, begin, chance)
            if before is None or _apart(before, one):
                passages.append(one)
                before = one
                begin += 1
            begin += float(chance.exponential(5))
    frames = seconds * FPS
    seen = [p for p in passages if p.exit_frame <= frames]  # whoever would still be there at the end never comes
    return Scene(seed, frames, tuple(sorted(seen, key=lambda p: (p.counted_frame, p.bottom))))


def _passage(kind: str, sign: int, bottom: int, begin: float, chance: np.random.Generator) -> Passage:
    speed = round(float(chance.uniform(*SPEEDS[kind])), 1)
    width, height = (int(chance.integers(18, 23)), int(chance.integers(40, 46))) if kind == "person" else \
                    (int(chance.integers(90, 111)), int(chance.integers(34, 41)))
    colours = CLOTHES if kind == "person" else PAINT
    colour = colours[int(chance.integers(len(colours)))]
    start = (-width if sign > 0 else WIDTH) - sign * speed * begin
    draft = Passage(kind, "right" if sign > 0 else "left", speed, 0, 0, 0, bottom, width, height, start, colour)
    frame = max(0, int(begin * FPS) - 2)
    found: dict[str, int] = {}
    while "exit" not in found:
        left = draft.left(frame)
        front = left + width if sign > 0 else WIDTH - left
        if front > 0:
            found.setdefault("enter", frame)
        if front >= TRIPWIRE:
            found.setdefault("counted", frame)
        if front >= WIDTH + width:
            found["exit"] = frame
        frame += 1
    return replace(draft, enter_frame=found["enter"], exit_frame=found["exit"], counted_frame=found["counted"])


def _apart(before: Passage, after: Passage) -> bool:
    """At least 40 pixels between the two while both are visible."""
    for frame in range(after.enter_frame, max(before.exit_frame, after.enter_frame + 1)):
        first, second = (before, after) if before.left(frame) < after.left(frame) else (after, before)
        if first.left(frame) + first.width + 40 > second.left(frame):
            return False
    return after.enter_frame >= before.enter_frame + 3


def truth(scene: Scene) -> dict[str, Any]:
    """What a perfect observer knows, and the policy that protects everybody in the scene."""
    longest = max((p.exit_frame - p.enter_frame for p in scene.passages), default=0)

    def counts(seconds: int) -> list[dict[str, int]]:
        size = seconds * FPS
        return [{kind: sum(p.kind == kind and a <= p.counted_frame < a + size for p in scene.passages) for kind in ("person", "car")}
                for a in range(0, scene.frames, size)]

    return {"width": WIDTH, "height": HEIGHT, "fps": FPS, "frames": scene.frames, "seed": scene.seed, "tripwire": TRIPWIRE,
            "longest_stay_frames": longest, "rho_seconds": float(Fraction(longest, FPS)),
            "total": {kind: sum(p.kind == kind for p in scene.passages) for kind in ("person", "car")},
            "per_5_seconds": counts(5), "per_10_seconds": counts(10), "per_minute": counts(60),
            "objects": [{k: v for k, v in asdict(p).items() if k not in ("start", "colour")} for p in scene.passages]}


def background(chance: np.random.Generator) -> Image:
    """Two pavements and a road, all of rough stone."""
    image = np.empty((HEIGHT, WIDTH, 3), np.float32)
    image[:124], image[124:234], image[234:] = (128, 134, 138), (92, 90, 88), (140, 144, 146)
    image[176:180, ::1] = np.where((np.arange(WIDTH) // 30 % 2 == 0)[None, :, None], 170, image[176:180])
    for scale, strength in ((1, 5), (4, 6), (32, 8)):
        grain = chance.normal(0, strength, (HEIGHT // scale + 1, WIDTH // scale + 1)).astype(np.float32)
        image += cv2.resize(grain, (WIDTH, HEIGHT), interpolation=cv2.INTER_LINEAR)[:, :, None]
    for x in range(0, WIDTH, 40):  # joints between the slabs
        image[:124, x] -= 18
        image[234:, x] -= 18
    return np.clip(image, 0, 255).astype(np.uint8)


def draw(image: Image, one: Passage, frame: int) -> None:
    """A person (head, body, legs that move) or a car (body, windows, wheels), inside its box."""
    x, y, w, h = one.left(frame), one.bottom - one.height, one.width, one.height
    dark = tuple(c // 3 for c in one.colour)
    if one.kind == "person":
        swing = round((w / 2 - 3) * abs(float(np.sin(frame * 0.9 + one.start))))
        middle = x + w // 2
        cv2.rectangle(image, (x + 1, y + h // 5), (x + w - 2, y + h * 2 // 3), one.colour, -1)
        for side in (-1, 1):
            cv2.line(image, (middle, y + h * 2 // 3), (middle + side * swing, one.bottom - 2), dark, 4)
        cv2.circle(image, (middle, y + h // 7 + 1), h // 7, (110, 150, 200), -1)
        return
    cv2.rectangle(image, (x, y + h // 3), (x + w - 1, one.bottom - 6), one.colour, -1)
    cv2.rectangle(image, (x + w // 5, y), (x + w * 4 // 5, y + h // 2), one.colour, -1)
    cv2.rectangle(image, (x + w // 4, y + 3), (x + w * 3 // 4, y + h // 3), (60, 50, 40), -1)
    for at in (w // 5, w * 4 // 5):
        cv2.circle(image, (x + at, one.bottom - 6), 5, (15, 15, 15), -1)


def render(scene: Scene, path: Path) -> None:
    """Encodes the scene; a key frame every second makes far jumps cheap."""
    chance = np.random.default_rng(scene.seed + 1)
    street = background(chance)
    noises = [chance.normal(0, 2, (HEIGHT + 16, WIDTH + 16)).astype(np.int16) for _ in range(4)]
    with av.open(str(path), "w") as out:
        stream: Any = out.add_stream("libx264", rate=FPS)
        stream.width, stream.height, stream.pix_fmt, stream.gop_size = WIDTH, HEIGHT, "yuv420p", FPS
        stream.codec_context.thread_count = 1  # the same file on every machine
        stream.options = {"preset": "superfast", "crf": "28"}
        for number in range(scene.frames):
            image = street.copy()
            for one in scene.passages:
                if one.enter_frame <= number < one.exit_frame:
                    draw(image, one, number)
            light = 1 + 0.08 * np.sin(2 * np.pi * number / (90 * FPS))
            dx, dy = (int(v) for v in chance.integers(0, 16, 2))
            noise = noises[number % 4][dy:dy + HEIGHT, dx:dx + WIDTH]
            lit = cv2.convertScaleAbs(image, alpha=light)
            noisy: Any = cv2.add(lit, cv2.merge([noise, noise, noise]), dtype=cv2.CV_8U)
            frame = av.VideoFrame.from_ndarray(noisy, "bgr24")
            frame.pts, frame.time_base = number, Fraction(1, FPS)
            out.mux(stream.encode(frame))
        out.mux(stream.encode(None))


def main() -> None:
    """Writes the video and its truth."""
    parser = argparse.ArgumentParser(description="Render a street scene with known truth.")
    parser.add_argument("out", metavar="OUT_DIR", type=Path)
    parser.add_argument("--seconds", type=int, default=240)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    if options.seconds < 10:
        parser.error("a scene has at least 10 seconds")
    scene = traffic(options.seconds, options.seed)
    options.out.mkdir(parents=True, exist_ok=True)
    partial = options.out / ".street.partial.mp4"
    render(scene, partial)
    (options.out / "street.json").write_text(json.dumps(truth(scene), indent=1) + "\n")
    partial.replace(options.out / "street.mp4")  # the video is there when it is complete
    total = truth(scene)["total"]
    print(f"{options.out / 'street.mp4'}: {options.seconds} s, {total['person']} people and {total['car']} cars, "
          f"nobody visible for longer than {truth(scene)['rho_seconds']} s")


if __name__ == "__main__":
    main()

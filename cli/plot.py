"""Simple plots as PNG files, drawn with OpenCV, which the engine needs anyway."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path

import cv2
import numpy as np

from .files import replace_file

__all__ = ["Plot", "bars", "ticks"]

Colour = tuple[int, int, int]  # blue, green, red, as OpenCV has them
INK, GREY, LIGHT = (60, 50, 40), (140, 130, 120), (228, 224, 220)
#: told apart also by those who see fewer colours
COLOURS: tuple[Colour, ...] = ((178, 114, 0), (0, 94, 213), (115, 158, 0), (167, 121, 204), (0, 159, 230), (233, 180, 86))
_FONT = cv2.FONT_HERSHEY_SIMPLEX
#: drawn at twice the size and shrunk: OpenCV's letters are thin
_FINE = 2


class Plot:
    """Axes from (x0, y0) to (x1, y1), and what is drawn between them."""

    def __init__(self, title: str, x: tuple[float, float], y: tuple[float, float], width: int = 960, height: int = 420) -> None:
        self._x, self._y = x, y
        self._canvas = np.full((height * _FINE, width * _FINE, 3), 255, np.uint8)
        self._box = (76, 56, width - 40, height - 64)  # left, top, right, bottom
        self._text(title, self._box[0], 22, INK, 0.6)

    def axes(self, x_ticks: Sequence[tuple[float, str]], y_ticks: Sequence[tuple[float, str]], x_label: str, y_label: str) -> None:
        left, top, right, bottom = self._box
        for value, label in y_ticks:
            at = self._at(self._x[0], value)[1]
            self._line([(left, at), (right, at)], LIGHT, 1)
            self._text(label, left - 8, at + 4, GREY, align="right")
        for value, label in x_ticks:
            at = self._at(value, self._y[0])[0]
            self._line([(at, bottom), (at, bottom + 5)], GREY, 1)
            self._text(label, at, bottom + 20, GREY, align="centre")
        self._line([(left, top), (left, bottom), (right, bottom)], GREY, 1)
        self._text(x_label, (left + right) / 2, bottom + 46, INK, align="centre")
        self._text(y_label, left, top - 10, INK)

    def area(self, steps: Sequence[tuple[float, float, float]], colour: Colour = COLOURS[0]) -> None:
        """A step function (from, to, value), filled down to the axis."""
        outline = []
        for x0, x1, value in steps:
            a, b, ground = self._at(x0, value), self._at(x1, value), self._at(x1, self._y[0])
            corners = np.array([a, b, ground, (a[0], ground[1])]) * _FINE
            pale = tuple(int(255 - (255 - channel) * 0.25) for channel in colour)
            cv2.fillPoly(self._canvas, [corners.round().astype(np.int32)], pale)
            outline += [a, b]
        self._line(outline, colour, 2)

    def curve(self, points: Sequence[tuple[float, float]], number: int) -> None:
        self._line([self._at(x, y) for x, y in points], COLOURS[number % len(COLOURS)], 2)

    def legend(self, labels: Sequence[str], high: bool = False) -> None:
        """What the curves are, in a box at the lower right, or at the upper; to be drawn last."""
        height = 20 * len(labels) + 10
        right, bottom = self._box[2] - 12, self._box[1] + 12 + height if high else self._box[3] - 12
        left, top = right - 180, bottom - height
        corners = np.array([(left, top), (right, bottom)]) * _FINE
        cv2.rectangle(self._canvas, corners[0].tolist(), corners[1].tolist(), (255, 255, 255), -1)
        cv2.rectangle(self._canvas, corners[0].tolist(), corners[1].tolist(), LIGHT, _FINE)
        for number, label in enumerate(labels):
            at = top + 20 * (number + 1)
            self._line([(left + 10, at - 4), (left + 35, at - 4)], COLOURS[number % len(COLOURS)], 2)
            self._text(label, left + 44, at, INK)

    def cross(self, x: float, y: float, label: str) -> None:
        """An X at a point, with words below it."""
        across, down = self._at(x, y)
        for slope in (-1, 1):
            self._line([(across - 7, down - 7 * slope), (across + 7, down + 7 * slope)], INK, 3)
        self._text(label, across, down + 26, INK, align="centre" if across < self._box[2] - 120 else "right")

    def upright(self, x: float, label: str) -> None:
        """A line across, where something changes."""
        at = self._at(x, self._y[0])[0]
        self._line([(at, self._box[1]), (at, self._box[3])], GREY, 1)
        self._text(label, at + 6, self._box[1] + 12, GREY)

    def save(self, path: Path) -> None:
        height, width = self._canvas.shape[0] // _FINE, self._canvas.shape[1] // _FINE
        done, data = cv2.imencode(".png", cv2.resize(self._canvas, (width, height), interpolation=cv2.INTER_AREA))
        replace_file(path, data.tobytes() if done else b"")

    def _at(self, x: float, y: float) -> tuple[float, float]:
        left, top, right, bottom = self._box
        across = (x - self._x[0]) / ((self._x[1] - self._x[0]) or 1)
        up = (y - self._y[0]) / ((self._y[1] - self._y[0]) or 1)
        return left + across * (right - left), bottom - min(max(up, 0), 1) * (bottom - top)

    def _line(self, points: Sequence[tuple[float, float]], colour: Colour, width: int) -> None:
        cv2.polylines(self._canvas, [(np.array(points) * _FINE).round().astype(np.int32)], False, colour, width * _FINE - 1, cv2.LINE_AA)

    def _text(self, text: str, x: float, y: float, colour: Colour, size: float = 0.43, align: str = "left") -> None:
        text = text.encode("ascii", "replace").decode()  # the font has no more
        (width, _), _ = cv2.getTextSize(text, _FONT, size * _FINE, _FINE)
        x = x * _FINE - {"left": 0.0, "centre": width / 2, "right": float(width)}[align]
        cv2.putText(self._canvas, text, (round(x), round(y * _FINE)), _FONT, size * _FINE, colour, _FINE, cv2.LINE_AA)


def ticks(top: float) -> list[float]:
    """Round numbers from 0 to the top, about six.

    >>> ticks(8), ticks(130), ticks(0.4)
    ([0.0, 2.0, 4.0, 6.0, 8.0], [0.0, 20.0, 40.0, 60.0, 80.0, 100.0, 120.0], [0.0, 0.1, 0.2, 0.3, 0.4])
    """
    unit = 10.0 ** math.floor(math.log10(top / 5))
    step = next(unit * factor for factor in (1, 2, 5, 10) if top / (unit * factor) <= 7)
    return [round(n * step, 12) for n in range(int(top / step + 1e-9) + 1)]


def bars(values: Sequence[float], top: float, rows: int = 6, fancy: bool = True) -> list[str]:
    """A bar for each value, as lines of text from top to bottom.

    >>> bars([0, 1, 2], 2, rows=2, fancy=False)
    ['  #', ' ##']
    """
    lines = []
    for row in range(rows, 0, -1):
        line = ""
        for value in values:
            eighths = round(8 * (min(max(value / top, 0), 1) * rows - row + 1)) if top else 0
            full = max(0, min(8, eighths))
            line += (" ▁▂▃▄▅▆▇█"[full] if fancy else "#" if full >= 4 else " ")
        lines.append(line)
    return lines

"""How long slots are: long enough for all that has to be done for each of them, whatever the pictures show."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from types import SimpleNamespace
from typing import Any, cast

from privid.engine.durations import PIXELS_PER_SECOND, Durations
from privid.engine.timetable import NANO
from tests.calculus import builders


def test_a_slot_is_as_long_as_decoding_its_frames_takes() -> None:
    lanes = cast(Any, [SimpleNamespace(guard=0.0025, warm=False)])
    durations, table = Durations(lanes, lambda _: False), builders.table()
    quick = replace(table, timeout=Fraction(2, 1000))
    small, large = (replace(quick, camera=replace(quick.camera, footage=replace(quick.camera.footage, width=width, height=height)))
                    for width, height in ((64, 48), (1920, 1080)))
    frames = table.grid.size
    assert durations.pitch(small) < durations.pitch(large)
    assert durations.pitch(large) >= NANO * frames * 1920 * 1080 // PIXELS_PER_SECOND

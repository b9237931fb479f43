"""Room for decoded frames is taken before the charge, and depends on public sizes alone."""

from __future__ import annotations

import time

import pytest

from privid.engine.frame_space import FrameSpace
from privid.errors import EngineUnavailable
from privid.video import Spares


def test_what_has_its_place_leaves_less_for_others_and_a_role_has_half_at_most() -> None:
    space = FrameSpace(100 << 20)
    with pytest.raises(EngineUnavailable, match="take 51 MB of memory, and 50 MB are left"):
        space.take("ana", 51 << 20)
    first, second = space.take("ana", 40 << 20), space.take("ben", 50 << 20)
    with pytest.raises(EngineUnavailable, match="take 11 MB of memory, and 10 MB are left"):
        space.take("cleo", 11 << 20)
    with pytest.raises(EngineUnavailable):
        space.take("ben", 1 << 20)
    first.end()
    first.end()
    space.take("cleo", 11 << 20)
    second.end()
    space.take("ben", 50 << 20)


def test_a_spare_decoder_is_there_at_once_and_one_that_has_died_is_passed_over() -> None:
    spares = Spares(2)
    try:
        while spares._ready.qsize() < 2:
            time.sleep(0.01)
        begun = time.monotonic()
        one = spares.take()
        assert time.monotonic() - begun < 0.1 and one.alive
        while spares._ready.qsize() < 2:
            time.sleep(0.01)
        dead = spares._ready.get_nowait()
        dead.cancel()
        spares._ready.put(dead)
        for _ in range(2):
            other = spares.take()
            assert other.alive
            other.close()
        one.close()
    finally:
        spares.close()

"""privid mask: an image becomes a mask."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import cv2
import numpy as np

from privid.video.shapes import read_bitmap
from tests.conftest import run_privid


def test_what_is_dark_in_an_image_is_masked(stack: Any, unique: Callable[[str], str], make_video: Callable[..., Path],
                                            tmp_path: Path) -> None:
    camera = unique("masked")
    make_video(stack.videos / "masked.mp4", [7] * 60)
    stack.camera(camera, "masked.mp4", rho="5s")
    picture = np.full((48, 64, 3), 255, dtype=np.uint8)
    picture[:24, 10:20] = (0, 0, 120)
    cv2.imwrite(str(tmp_path / "benches.png"), picture)
    (tmp_path / "text.png").write_text("no image")
    common = ("mask", "--data", stack.data, "--rho", "2s", "--pieces", "2", "--visible", "3s", camera, "benches")
    assert "7.8% of the picture is black, rho 2s, pieces 2, visible 3s" in run_privid(*common, tmp_path / "benches.png").stdout
    (name, pieces, visible, image), = stack.run(
        "SELECT name, pieces, extract(epoch FROM visible)::float8, image FROM privid.masks WHERE camera = %s", camera)
    expected = np.zeros((48, 64), dtype=np.bool_)
    expected[:24, 10:20] = True
    assert (name, pieces, visible) == ("benches", 2, 3) and (read_bitmap(image) == expected).all()
    for file, words in (("benches.png", "already exists"), ("text.png", "is not an image"), ("none.png", "could not read")):
        refused = run_privid(*common, tmp_path / file, check=False)
        assert refused.returncode == 1 and words in refused.stderr

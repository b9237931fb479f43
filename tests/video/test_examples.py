"""The street scene tells the truth about itself, and the example executables find it in the pixels."""

from __future__ import annotations

import importlib.util
import json
import subprocess
import sys
import time
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from privid.video import Decoder, open_footage

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
SECONDS = 60


def _module(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(f"example_{name}", EXAMPLES / f"{name}.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # dataclasses look their module up
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def street() -> ModuleType:
    return _module("street")


class Rendered:
    """A rendered scene: its truth, and its frames as the product decodes them."""

    def __init__(self, folder: Path) -> None:
        subprocess.run([sys.executable, str(EXAMPLES / "street.py"), str(folder), "--seconds", str(SECONDS)], check=True, timeout=120,
                       stdout=subprocess.DEVNULL)
        self.truth: dict[str, Any] = json.loads((folder / "street.json").read_text())
        self.footage = open_footage(folder, "street.mp4", None, folder / "cache")
        with Decoder(folder, self.footage) as decoder:
            decoder.read(0, self.footage.frames, folder)
        self.frames: NDArray[np.uint8] = np.load(folder / "frames.npy", mmap_mode="r")

    def chunk(self, first: int, count: int) -> SimpleNamespace:
        """What an executable is given."""
        return SimpleNamespace(frames=self.frames[first:first + count], fps=10.0, width=640, height=360, camera="street", region="",
                               start=None, metadata={})


@pytest.fixture(scope="module")
def scene(tmp_path_factory: pytest.TempPathFactory) -> Rendered:
    return Rendered(tmp_path_factory.mktemp("street"))


def test_the_scene_is_the_same_each_time_and_another_with_another_seed(street: ModuleType) -> None:
    assert street.truth(street.traffic(60, 1)) == street.truth(street.traffic(60, 1))
    assert street.traffic(60, 1).passages != street.traffic(60, 2).passages


def test_the_default_scene_fits_the_demo(street: ModuleType) -> None:
    """Four seconds protect everybody, and eight rows hold what comes in five seconds."""
    truth = street.truth(street.traffic(240, 1))
    assert truth["rho_seconds"] <= 4 and truth["longest_stay_frames"] == max(o["exit_frame"] - o["enter_frame"] for o in truth["objects"])
    assert max(sum(c.values()) for c in truth["per_5_seconds"]) <= 8
    for parts in ("per_5_seconds", "per_10_seconds", "per_minute"):
        assert {k: sum(c[k] for c in truth[parts]) for k in ("person", "car")} == truth["total"]
    assert truth["total"]["person"] > 100 and truth["total"]["car"] > 50


def test_the_truth_agrees_with_the_pixels(scene: Rendered) -> None:
    truth, frames = scene.truth, scene.frames
    assert (scene.footage.frames, scene.footage.fps, len(frames)) == (truth["frames"], truth["fps"], SECONDS * 10)
    street = np.median(frames[::15], axis=0).astype(int)

    def apart(frame: int, rows: slice) -> NDArray[np.float64]:
        """How much each column of a lane differs from the empty street, at equal brightness."""
        here = frames[frame, rows].astype(float) * (street[:, ::9].mean() / frames[frame, :, ::9].mean())
        columns: NDArray[np.float64] = np.abs(here - street[rows]).max(axis=2).mean(axis=0)
        return columns

    for one in truth["objects"]:
        rows = slice(one["bottom"] - one["height"], one["bottom"])
        edge = slice(0, 76) if one["direction"] == "right" else slice(564, 640)
        lane = [o for o in truth["objects"] if o["bottom"] == one["bottom"] and o is not one]
        before, after = one["enter_frame"] - 1, one["exit_frame"]
        alone = [f for f in (before, after) if not any(o["enter_frame"] <= f < o["exit_frame"] for o in lane)]
        assert all(apart(f, rows).max() < 25 for f in alone if 0 <= f < len(frames))
        assert apart(one["counted_frame"], rows)[edge].max() > 30


def test_the_counting_executable_finds_what_the_truth_tells(scene: Rendered) -> None:
    process = _module("count_people").process
    wrong = found = 0
    for seconds in (5, 10):
        size = seconds * 10
        for first in range(0, SECONDS * 10, size):
            rows = list(process(scene.chunk(first, size)))
            told = sorted((o["kind"], o["direction"]) for o in scene.truth["objects"] if first <= o["counted_frame"] < first + size)
            seen = sorted((r["kind"], r["direction"]) for r in rows)
            assert len(rows) <= 16 and all(150 < r["speed"] < 280 for r in rows)
            found += len(told)
            wrong += len(set(_tally(told)) ^ set(_tally(seen)))
    assert found > 60
    assert wrong <= found // 30


def _tally(rows: list[tuple[str, str]]) -> list[tuple[str, str, int]]:
    return [(*row, rows[:i].count(row)) for i, row in enumerate(rows)]


def test_the_counting_executable_is_quick_enough_for_a_slot_of_a_second(scene: Rendered) -> None:
    process = _module("count_people").process
    begin = time.process_time()
    list(process(scene.chunk(100, 50)))
    assert time.process_time() - begin < 0.7


def test_brightness_is_the_mean_of_the_pixels(scene: Rendered) -> None:
    (row,) = _module("brightness").process(scene.chunk(0, 20))
    assert abs(row["brightness"] - float(scene.frames[:20].mean())) < 1


def test_the_plain_program_counts_frames_and_pixels(tmp_path: Path) -> None:
    (tmp_path / "chunk.json").write_text(json.dumps({"start": "2026-03-01T06:00:00+00:00", "fps": 10.0, "camera": "c", "region": "",
                                                     "width": 64, "height": 48, "frames": 50, "metadata": {}}) + "\n")
    done = subprocess.run([str(EXAMPLES / "count_frames.sh"), str(tmp_path)], check=True, capture_output=True, text=True, timeout=20)
    assert json.loads(done.stdout) == {"frames": 50, "pixels": 50 * 64 * 48}

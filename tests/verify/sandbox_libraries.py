"""Libraries that people write programs with: each is imported warm, where nothing can be written, and says what it says in a cold start.

Builds a runtime of all of them first, which takes some minutes and 3 GB; usage: sandbox_libraries [DIRECTORY TO KEEP IT IN]
"""

from __future__ import annotations

import sys
import tempfile
import time
from pathlib import Path

import numpy as np

from privid.sandbox import runtime
from privid.sandbox.executable import install
from privid.sandbox.lane import Outcome, Program
from tests.sandbox import conftest

NAME = "libraries"
PROGRAMS = {
    "numpy": ("import numpy as np", "float(np.linalg.svd(chunk.frames[0, :, :, 0].astype(float), compute_uv=False).sum())"),
    "cv2": ("import cv2", "int(cv2.goodFeaturesToTrack(cv2.cvtColor(chunk.frames[0], cv2.COLOR_BGR2GRAY), 20, 0.01, 3).sum())"),
    "cv2 threads": ("import cv2", "[cv2.setNumThreads(4), int(cv2.GaussianBlur(chunk.frames[0], (5, 5), 0).sum())][1]"),
    "scipy": ("import scipy.ndimage, scipy.optimize, scipy.signal, scipy.stats",
              "float(scipy.ndimage.gaussian_filter(chunk.frames[0], 2).sum())"),
    "PIL": ("from PIL import Image", "sum(Image.fromarray(chunk.frames[0]).resize((9, 9)).tobytes())"),
    "skimage": ("import skimage.feature, skimage.filters, skimage.measure", "float(skimage.filters.sobel(chunk.frames[0, :, :, 0]).sum())"),
    "torch": ("import torch\ntorch.manual_seed(1)\nlayer = torch.nn.Conv2d(3, 4, 3)",
              "float(layer(torch.from_numpy(chunk.frames[:2].copy()).permute(0, 3, 1, 2).float()).sum().detach())"),
    "torch threads": ("import torch", "[torch.set_num_threads(4), int((torch.ones(300, 300) @ torch.ones(300, 300)).sum())][1]"),
    "onnxruntime": ("import numpy as np, onnxruntime\nsession = onnxruntime.InferenceSession('/app/files/model.onnx')",
                    "session.run(None, {'x': chunk.frames[0, :1, :4, 0].astype(np.float32)})[0].tolist()"),
    "tempfile": ("import tempfile\nplace = tempfile.gettempdir()",
                 "[place, tempfile.gettempdir(), tempfile.TemporaryFile().write(b'x'), len(tempfile.mkdtemp())]"),
    "all at once": ("import cv2, onnxruntime, PIL.Image, scipy.stats, skimage.measure, torch", "int(chunk.frames.sum())"),
}


def _field(number: int, value: int | bytes | str) -> bytes:
    """One field in the encoding of protocol buffers; numbers below 128."""
    if isinstance(value, int):
        return bytes([number << 3, value])
    data = value.encode() if isinstance(value, str) else value
    return bytes([number << 3 | 2, len(data)]) + data


def model() -> bytes:
    """y = relu(x · w): ONNX's smallest interesting network, made here."""
    def tensor(name: str, *shape: int) -> bytes:
        dimensions = b"".join(_field(1, _field(1, size)) for size in shape)
        return _field(1, name) + _field(2, _field(1, _field(1, 1) + _field(2, dimensions)))

    weights = np.array([1, -2, 3, 4], np.float32).reshape(4, 1).tobytes()
    graph = (_field(1, _field(1, "x") + _field(1, "w") + _field(2, "m") + _field(4, "MatMul")) +
             _field(1, _field(1, "m") + _field(2, "y") + _field(4, "Relu")) + _field(2, "g") +
             _field(5, _field(1, 4) + _field(1, 1) + _field(2, 1) + _field(8, "w") + _field(9, weights)) +
             _field(11, tensor("x", 1, 4)) + _field(12, tensor("y", 1, 1)))
    return _field(1, 8) + bytes([7 << 3 | 2, len(graph) & 127 | 128, len(graph) >> 7]) + graph + _field(8, _field(2, 13))


def check(trial: conftest.Trial, name: str, files: Path) -> None:
    setup, value = PROGRAMS[name]
    path = trial.scratch / f"library-{name.replace(' ', '-')}"
    kind = install(f"{setup}\ndef process(chunk):\n    yield {{'n': {value}}}\n".encode(), name, path)
    said = []
    for warm in (True, False):
        program = Program(path, kind, runtime=NAME, files=files, warm=warm)
        trial.lane.announce(program, 1)
        while not trial.lane.ready(program):
            time.sleep(0.01)
        assert trial.lane._nurse is not None
        assert trial.lane._nurse.why_cold(program) is None, f"{name}: {trial.lane._nurse.why_cold(program)}"
        result = trial.lane.run_soon(program, trial.chunk, 4.0 if warm else 20.0)
        assert result.outcome is Outcome.OK, f"{name}, warm {warm}: {result.outcome} {result.stderr.decode()[-2000:]}"
        said.append((bytes(result.stdout), result.ended - result.started))
        trial.lane.dismiss(program)
    assert said[0][0] == said[1][0], f"{name}: {said}"
    print(f"{name}: {said[0][0].decode().strip()[:60]}  warm {1000 * said[0][1]:.0f} ms, cold {1000 * said[1][1]:.0f} ms", flush=True)


def main(directory: Path) -> None:
    runtime._homes = lambda: [directory]
    runtime.RUNTIMES[NAME] = (*runtime.RUNTIMES["torch"], "pillow", "scikit-image", "scipy==1.17.1")
    conftest.build_runtime = lambda: runtime.build_runtime(NAME)  # type: ignore[assignment,attr-defined,misc]
    with conftest.trials() as make:
        trial = make(0)
        files = trial.scratch / "files"
        files.mkdir()
        (files / "model.onnx").write_bytes(model())
        for name in PROGRAMS:
            check(trial, name, files)


if __name__ == "__main__":
    if len(sys.argv) > 1:
        main(Path(sys.argv[1]))
    else:
        with tempfile.TemporaryDirectory(prefix="privid-libraries-") as made:
            main(Path(made))

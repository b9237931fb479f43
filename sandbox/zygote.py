"""Runs inside the sandbox: imports a module before any frame exists, then forks children that each wait for a chunk of their own.

Self-contained but for the launcher and the library beside it. Nothing here is trusted: the module runs in the same process. What must
hold of a child (no descriptor, no capability, the filter, namespaces of its own) is enforced by the zygote's filter or verified by the lane
from outside.
Usage: zygote.py CHUNK_DIRECTORY MODULE_FILE CHILDREN CLONE_FLAGS
"""

from __future__ import annotations

import ctypes
import gc
import importlib.machinery
import importlib.util
import os
import sys
import time
from pathlib import Path
from typing import Any

HERE = Path("/usr/lib/privid")
#: Made by the lane in a child's own /tmp; opened and unlinked before Python goes on in the child.
OUTPUT, ERRORS = "/tmp/.output", "/tmp/.errors"
#: Generators of randomness that a module may use without making its own: the module each is in, and how its state is read.
_GENERATORS = {"random": "getstate", "numpy.random.mtrand": "get_state"}
#: Finds a directory for temporary files by writing to it. There will be one, though it cannot be written to yet.
_TEMPORARY = "tempfile"


def main(arguments: list[str]) -> None:
    directory, file = arguments[0], Path(arguments[1])
    children, flags = int(arguments[2]), int(arguments[3])
    launcher = _load("launcher", HERE / "launcher.py")
    library = ctypes.PyDLL(str(HERE / "litter.so"))  # which, unlike a CDLL, keeps the interpreter's lock: nobody else is there to have it
    block = (HERE / "filter").read_bytes()
    sys.argv = [str(HERE / "launcher.py"), directory, str(file)]
    _rehearse(launcher)  # all that a run needs is loaded once
    watch = _Watch()
    sys.meta_path.insert(0, watch)
    process = launcher.load_process(file)
    if watch in sys.meta_path:
        sys.meta_path.remove(watch)
    fresh = watch.untouched()
    gc.collect()
    gc.freeze()
    # An ordinary fork first: it leaves the module's threads behind and gives libraries their chance to prepare for that.
    mother = os.fork()
    if mother:
        os.waitpid(mother, 0)
        os._exit(1)
    watch.restore()
    places = [os.fsencode(path) for path in (f"{directory}/chunk.json", OUTPUT, ERRORS)]
    os.chdir("/")
    os.closerange(0, 1 << 16)
    if library.litter(children, ctypes.c_ulong(flags), block, len(block) // 8, *places) == 0:
        _reseed(fresh)
        _run(launcher, process, directory)
    while True:
        time.sleep(3600)


def _rehearse(launcher: Any) -> None:
    """What a run does, but for the module's own part."""
    output = launcher.Output(os.open(os.devnull, os.O_WRONLY))
    launcher.write_rows([{"frames": launcher.load_chunk(HERE / "rehearsal").frames.sum()}], output)
    output.close()


class _Watch:
    """Notes the state of a generator when the module loads it, and says where temporary files go. To load these for a module that needs
    none would be a good part of what its children cost."""

    def __init__(self) -> None:
        self.found: dict[str, Any] = {name: _state(name) for name in _GENERATORS if name in sys.modules}
        self.left: dict[str, Any] = {}
        if _TEMPORARY in sys.modules:
            sys.modules[_TEMPORARY].tempdir = "/tmp"  # type: ignore[attr-defined]

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> Any:
        """Python's own answer, but for the note that is taken at the end of a load."""
        spec = importlib.machinery.PathFinder.find_spec(name, path, target) if name in (*_GENERATORS, _TEMPORARY) else None
        if spec is None or spec.loader is None:
            return None
        loader: Any = spec.loader
        load = loader.exec_module

        def note(module: Any) -> None:
            del loader.exec_module
            load(module)
            if name == _TEMPORARY:
                module.tempdir = "/tmp"
            else:
                self.found[name] = _state(name)

        loader.exec_module = note
        return spec

    def untouched(self) -> list[str]:
        """Those that the module has not seeded, nor drawn from."""
        self.left = {name: _state(name) for name in self.found}
        return [name for name, state in self.left.items() if state == self.found[name]]

    def restore(self) -> None:
        """Python gives every child of a fork another seed."""
        if "random" in self.left:
            sys.modules["random"].setstate(self.left["random"])


def _state(name: str) -> Any:
    state = getattr(sys.modules[name], _GENERATORS[name])()
    return state if name == "random" else (state[0], state[1].tobytes(), *state[2:])


def _reseed(fresh: list[str]) -> None:
    """Other randomness for each child; but a module that has seeded a generator keeps its sequence, as it would in a run of its own."""
    for name in fresh:
        if name == "random":
            sys.modules[name].seed()
        else:  # as its own seed() would, with less to compute
            numpy = sys.modules["numpy"]
            sys.modules[name].set_state(("MT19937", numpy.frombuffer(os.urandom(4 * 624), numpy.uint32), 624, 0, 0.0))


def _load(name: str, file: Path) -> Any:
    spec = importlib.util.spec_from_file_location(name, file)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def _run(launcher: Any, process: Any, directory: str) -> None:
    try:
        launcher.work(process, directory)
        code = 0
    except SystemExit as end:
        code = end.code if isinstance(end.code, int) else int(end.code is not None)
    except BaseException:
        sys.excepthook(*sys.exc_info())
        code = 1
    os._exit(code)


if __name__ == "__main__":
    main(sys.argv[1:])

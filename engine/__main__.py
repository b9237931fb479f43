"""The engine as a process: python -m privid.engine."""

from __future__ import annotations

import argparse
import fcntl
import logging
import os
import signal
import sys
import threading
from collections.abc import Sequence
from contextlib import ExitStack, suppress
from functools import partial
from pathlib import Path

from psycopg.conninfo import conninfo_to_dict

from privid import __version__, video
from privid.closed import open_file
from privid.errors import PrividError
from privid.ledger import Ledger
from privid.room.priority import SLOW, set_share
from privid.room.room import Room
from privid.sandbox.capabilities import runs_bound
from privid.sandbox.cores import claim_cores
from privid.sandbox.intermission import Intermission
from privid.sandbox.lane import Lane
from privid.sandbox.run import Limits
from privid.sandbox.runtime import find_runtime
from privid.sandbox.stock import Stock
from privid.sockets import remove_socket

from .attachments import Attachments
from .bulletin import Bulletin
from .chunks import ChunkCache
from .definitions import Sources
from .evaluation import Evaluations
from .folders import Folders
from .kept import segments_of
from .log import Log
from .memory import Beside, reserved
from .obstacle import Obstacle
from .programs import Programs, describe
from .reading import Readings
from .release import Desk
from .runner import Runner
from .scenes import Scenes
from .scratch import make_scratch, part_mounts
from .server import Server, listen
from .session import Session

__all__ = ["main"]


def main(arguments: Sequence[str] | None = None) -> int:
    """Serve until SIGTERM or SIGINT."""
    options = _parse(arguments)
    log = Log()
    _log_everything(log)
    os.umask(0o022)
    if os.getsid(0) == os.getpid():  # not of whoever started it
        set_share(0, SLOW)
    apart = part_mounts()
    sys.setswitchinterval(0.0005)  # a lane's thread must not wait at the gate because another thread reads output
    try:
        with ExitStack() as cleanup:
            _lock(options.data, cleanup)
            server = _build(options, log, cleanup, apart)
            server.stop_on(signal.SIGTERM, signal.SIGINT)
            log.write("engine started", version=__version__, pid=os.getpid(), lanes=options.lanes)
            server.serve()
            log.write("engine stopping")
    except PrividError as error:
        log.write("engine not started", error=error.message, detail=error.detail, hint=error.hint)
        return 1
    except OSError as error:
        log.write("engine not started", error=error.strerror, path=str(error.filename))
        return 1
    log.write("engine stopped")
    return 0


def _parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m privid.engine", description="The privid engine.")
    parser.add_argument("--data", type=Path, required=True, metavar="DIR", help="data directory of the stack")
    parser.add_argument("--videos", type=Path, required=True, metavar="PATH", help="root of the cameras' sources")
    parser.add_argument("--socket", type=Path, required=True, metavar="PATH", help="Unix socket to listen on")
    parser.add_argument("--conninfo", required=True, metavar="TEXT", help="how to reach PostgreSQL, with the database's name")
    parser.add_argument("--peer-uid", type=int, required=True, metavar="N", help="operating-system user that PostgreSQL runs as")
    parser.add_argument("--lanes", type=int, default=max(1, len(os.sched_getaffinity(0)) - 1), metavar="N",
                        help="programs that run at the same time (default: one per core but one)")
    parser.add_argument("--cold", action="store_true", help="start every program from nothing, also where warm starts are possible")
    options = parser.parse_args(arguments)
    if not 1 <= options.lanes <= 512:
        parser.error("--lanes must be between 1 and 512")
    for name in ("data", "videos", "socket"):  # processes of ours that are told of them work elsewhere
        setattr(options, name, getattr(options, name).absolute())
    return options


def _lock(data: Path, cleanup: ExitStack) -> None:
    """One engine per data directory; the lock goes with the process, however it ends."""
    file = open_file(data / "engine.lock", os.O_RDWR)
    cleanup.callback(os.close, file)
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        raise PrividError(f'another engine is running on data directory "{data}"',
                          hint="Stop it first: privid down. Who holds the lock, lslocks tells.") from None


def _build(options: argparse.Namespace, log: Log, cleanup: ExitStack, apart: bool) -> Server:
    """Wire the rooms; what is made last is ended first."""
    cache = options.data / "cache"
    chunks = ChunkCache(cache / "chunks.db")
    cleanup.callback(chunks.close)
    ledger = Ledger(options.conninfo, mark=options.data / "state" / "ledger.mark")
    cleanup.callback(ledger.close)
    runtime, limits = find_runtime(), Limits()
    scratch = make_scratch(options.data, cleanup, apart=apart)
    intermission, stock = Intermission(), Stock(options.lanes)
    cleanup.callback(stock.close)
    lanes = [Lane(index, runtime=runtime, limits=limits, scratch=scratch, cores=cores, warm=not options.cold, intermission=intermission,
                  stock=stock, log=lambda reason: log.write("program not started warm", reason=reason))
             for index, cores in enumerate(_share_cores(options.lanes, cleanup))]
    readings = Readings(segments_of(cache / "chunks.db"))
    cleanup.callback(readings.close)
    programs = Programs(runtime, limits, readings, lambda table: ledger.content(table.owner, table.executable))
    attachments = Attachments(ledger)
    bulletin = Bulletin(ledger, options.lanes, log)
    cleanup.callback(bulletin.stop)
    spares = video.Spares(options.lanes + 1)
    cleanup.callback(spares.close)
    runner = Runner(lanes, chunks, scratch, log, starts_warm=programs.starts_warm, read_file=attachments.content,
                    open_reader=lambda footage: video.Decoder(options.videos, footage, spares.take), describe=describe,
                    read_output=programs.read_output, post=bulletin.post)
    cleanup.callback(runner.stop)
    scenes = Scenes(ledger)
    sources = Sources(lambda source, fps: video.open_footage(options.videos, source, fps, cache / "footage"), video.make_grid,
                      attachments.executable, scenes, Folders(ledger).check)
    room = Room(options.data, ledger.pool, log.write)
    cleanup.callback(room.close)
    reserve = reserved(runs_bound(options.lanes, limits))
    evaluations = Evaluations(room, segments_of(cache / "chunks.db"), log)
    room.gauge.memory = Beside(reserve).free
    room.gauge.busy_until = lambda: max(runner.busy_until(), evaluations.busy_until())
    room.gauge.free()  # looked at now: later only while nothing runs
    cleanup.callback(evaluations.close)
    desk = Desk(ledger, sources, programs, runner, chunks, room, evaluations, Obstacle(log), scenes, log)
    database = _database(options.conninfo)
    listener = listen(options.socket, options.peer_uid)
    cleanup.callback(_leave, options.socket, options.peer_uid)
    return Server(listener, options.peer_uid, partial(Session, desk, ledger, database, log), log)


def _leave(path: Path, peer_uid: int) -> None:
    with suppress(PrividError):  # somebody has put something else there
        remove_socket(path, {os.getuid(), peer_uid}, own=True)


def _share_cores(lanes: int, cleanup: ExitStack) -> list[frozenset[int] | None]:
    """A core for each lane alone, and the others for this process and its decoders, where there are enough."""
    cores = sorted(os.sched_getaffinity(0))
    if lanes >= len(cores):
        return [None] * lanes
    own = claim_cores(lanes, cores, cleanup)
    os.sched_setaffinity(0, set(cores) - set(own))
    return [frozenset({core}) for core in own]


def _database(conninfo: str) -> str:
    given = conninfo_to_dict(conninfo)
    return str(given.get("dbname") or given.get("user") or "")


class _Forward(logging.Handler):
    """What libraries log: the words they were written with, without the values."""

    def __init__(self, log: Log) -> None:
        super().__init__(logging.WARNING)
        self._log = log

    def emit(self, record: logging.LogRecord) -> None:
        self._log.write("library", logger=record.name, level=record.levelname, message=str(record.msg) if record.args else "")


def _log_everything(log: Log) -> None:
    """No other line than ours on standard error, for others might quote data."""
    logging.basicConfig(handlers=[_Forward(log)], force=True)

    def thread_failed(failed: threading.ExceptHookArgs) -> None:
        if failed.exc_value is not None:
            log.failure("thread failed", failed.exc_value, thread=failed.thread.name if failed.thread else None)

    threading.excepthook = thread_failed
    sys.excepthook = lambda kind, error, trace: log.failure("engine failed", error) and None


if __name__ == "__main__":
    sys.exit(main())

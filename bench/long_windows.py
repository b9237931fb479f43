"""Windows of a year: how long EXPLAIN of the paper's Q4 and Q5 takes at their own size (two cameras, 365 days, chunks of 15 s), and what
memory of the engine, beside a bare SELECT over as many rows; a month by hours; and how soon a cancelled EXPLAIN has ended."""

from __future__ import annotations

import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from fractions import Fraction
from pathlib import Path
from typing import Any

import av
import numpy as np
import psycopg

from privid.cli.stack import Stack

Connection = psycopg.Connection[tuple[Any, ...]]

BEGIN = datetime(2013, 7, 1, tzinfo=UTC)
DAYS, SECONDS, FILE_DAYS = 365, 15, 5
CHUNKS = DAYS * 86_400 // SECONDS
MONTH = "timestamptz '2013-08-01 00:00+00' AND timestamptz '2013-08-31 23:59+00'"
TIMES = 5
#: of the taxis, which the paper lists
PLATES = ", ".join(["none", *(f"B-{n}" for n in range(300))])

STATEMENTS = {
    "Q4, a year": """
        SELECT sum(range(v, 0, 16)) FROM (
            SELECT plate, avg(range(shift, 0, 16)) AS v FROM (
                SELECT plate, day(chunk), extract(epoch FROM max(chunk) - min(chunk))::float8 / 3600 AS shift
                FROM (SELECT plate, chunk FROM porto10 UNION ALL SELECT plate, chunk FROM porto27) u GROUP BY 1, 2) q
            GROUP BY plate) r""",
    "Q5, a year": """
        SELECT sum(range(n, 0, 300)) FROM (
            SELECT d, count(*) AS n FROM (SELECT plate, day(chunk) AS d FROM porto10 INTERSECT SELECT plate, day(chunk) FROM porto27) q
            GROUP BY d) r""",
    "hours of a year": "SELECT date_trunc('hour', chunk), count(*) FROM porto10 GROUP BY 1",
    "a month by hours without Saturdays": f"""
        SELECT date_trunc('hour', chunk), count(*) FROM porto10
        WHERE chunk BETWEEN {MONTH} AND extract(dow FROM chunk) < 6 GROUP BY 1""",
    "a year, every chunk evaluated": "SELECT count(*) FROM porto10 WHERE to_char(chunk, 'HH24') < '06'",
}
BARE = "SELECT date_trunc('day', chunk), count(*) FROM plain GROUP BY 1"


def main() -> None:
    """Each line: what, seconds of EXPLAIN, megabytes that the engine took for it at most, seconds of the bare SELECT, and the ratio."""
    with running_stack() as stack, connect(stack, "analyst") as analyst, connect(stack, "owner") as owner:
        owner.execute("CREATE TEMP TABLE plain AS SELECT timestamptz '2013-07-01 00:00+00' + n * interval '15 s' AS chunk "
                      f"FROM generate_series(0, {CHUNKS - 1}) n")
        owner.execute("SET max_parallel_workers_per_gather = 0")
        bare = min(elapsed(owner, BARE) for _ in range(TIMES))
        for what, statement in STATEMENTS.items():
            first, memory = measured(stack, lambda text=statement: elapsed(analyst, f"EXPLAIN {text}"))
            again = min(elapsed(analyst, f"EXPLAIN {statement}") for _ in range(TIMES - 1))
            print(f"EXPLAIN, {what}: {min(first, again):.2f} s (the first time {first:.2f} s), {memory:.0f} MB; "
                  f"a bare SELECT over {CHUNKS} rows: {bare:.2f} s, ratio {min(first, again) / bare:.2f}", flush=True)
        print(f"a cancelled EXPLAIN ended after {cancelled(analyst):.2f} s", flush=True)


def cancelled(analyst: Connection) -> float:
    """Seconds from a cancel to the end of a long EXPLAIN."""
    slow = " OR ".join(f"to_char(chunk, 'HH24:MI:SS') = '{n}'" for n in range(20))
    timer = threading.Timer(0.5, analyst.cancel_safe)
    timer.start()
    began = time.perf_counter()
    try:
        analyst.execute(f"EXPLAIN SELECT count(*) FROM porto10 WHERE {slow}".encode())
    except psycopg.errors.QueryCanceled:
        return time.perf_counter() - began - 0.5
    raise SystemExit("the statement was too quick to be cancelled")


def measured(stack: Stack, work: Any) -> tuple[float, float]:
    """What it returns, and the megabytes by which the engine's memory grew at most."""
    status = Path(f"/proc/{engine_of(stack)}")
    (status / "clear_refs").write_text("5")
    before = memory_of(status, "VmRSS")
    result = work()
    return result, memory_of(status, "VmHWM") - before


def memory_of(process: Path, name: str) -> float:
    return next(int(line.split()[1]) / 1024 for line in (process / "status").read_text().splitlines() if line.startswith(f"{name}:"))


def engine_of(stack: Stack) -> int:
    """The process of the engine: the first of those that run it."""
    found = []
    for process in Path("/proc").iterdir():
        if process.name.isdigit():
            try:
                words = (process / "cmdline").read_bytes().split(b"\0")
            except OSError:
                continue
            if b"privid.engine" in words and any(str(stack.layout.data).encode() in word for word in words):
                found.append(int(process.name))
    return min(found)


def elapsed(connection: Connection, statement: str) -> float:
    began = time.perf_counter()
    connection.execute(statement.encode()).fetchall()
    return time.perf_counter() - began


# The stack

@contextmanager
def running_stack() -> Iterator[Stack]:
    """A stack of its own with two cameras of a year each, of which one frame is kept for every chunk."""
    with tempfile.TemporaryDirectory(prefix="privid-bench-", ignore_cleanup_errors=True) as place:
        Path(place).chmod(0o755)
        stack = Stack(Path(place) / "stack")
        stack.up()
        try:
            for shade, (name, rho) in enumerate((("porto10", "45s"), ("porto27", "195s"))):
                write_videos(stack.layout.videos / name, shade)
                with connect(stack, "owner") as owner:
                    owner.execute(f"CREATE SERVER {name} FOREIGN DATA WRAPPER privid OPTIONS (source '{name}/*.mp4', starts "
                                  f"'{BEGIN.isoformat()}', rho '{rho}', k '1', epsilon '1000')".encode())
                    owner.execute(f"GRANT USAGE ON FOREIGN SERVER {name} TO analyst".encode())
                with connect(stack, "analyst") as analyst:
                    analyst.execute("SELECT privid.upload('plates', %s)", (b"def process(chunk):\n    yield {'plate': 'B-7'}\n",))
                    analyst.execute(f"CREATE FOREIGN TABLE {name} (chunk timestamptz, plate text OPTIONS (keys '{PLATES}') DEFAULT 'none') "
                                    f"SERVER {name} OPTIONS (executable 'plates', begin '{BEGIN.isoformat()}', \"end\" "
                                    f"'{(BEGIN + timedelta(DAYS)).isoformat()}', chunk '{SECONDS}s', timeout '100ms', "
                                    "max_rows '3')".encode())
            yield stack
        finally:
            stack.down()


def connect(stack: Stack, user: str) -> Connection:
    return psycopg.connect(host=str(stack.layout.run), port=stack.layout.socket_port, dbname="privid", user=user, autocommit=True,
                           options="-c privid.allowance=86400s" if user == "analyst" else "")


def write_videos(folder: Path, shade: int) -> None:
    """A year of one picture in 15 seconds; every file has a few pictures of its own, again and again."""
    folder.mkdir()
    for number in range(DAYS // FILE_DAYS):
        write_video(folder / f"{number:03}.mp4", FILE_DAYS * 86_400 // SECONDS, [2 * number + shade, 255 - number])
    folder.chmod(0o755)


def write_video(path: Path, frames: int, shades: list[int]) -> None:
    rate = Fraction(1, SECONDS)
    with av.open(str(path), "w") as container:
        stream: Any = container.add_stream("mpeg4", rate=rate)
        stream.width, stream.height, stream.pix_fmt, stream.gop_size = 16, 16, "yuv420p", 1
        pictures = [packet for n in shades for packet in stream.encode(
            av.VideoFrame.from_ndarray(np.full((16, 16, 3), n % 256, np.uint8), "rgb24"))]
        pictures += stream.encode(None)
        bodies, base = [bytes(packet) for packet in pictures], pictures[0].time_base
        for n in range(frames):
            packet = av.Packet(bodies[n % len(bodies)])
            packet.stream, packet.time_base, packet.is_keyframe = stream, base, True
            packet.pts = packet.dts = round(n * SECONDS / base)
            packet.duration = round(SECONDS / base)
            container.mux_one(packet)
    path.chmod(0o644)


if __name__ == "__main__":
    main()

"""How long a charge and a check take in a ledger of a million fragments, beside an empty one; and over a camera of ten years."""

from __future__ import annotations

import random
import statistics
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from privid.ledger import Claim, Ledger, Use
from privid.model import Camera, Grid
from tests.ledger.postgres import Database, camera, record, temporary_server, video_file

FRAGMENTS = 1_000_000
RUNS = 50
#: ten years at 30 frames per second; five minutes of it are read at a time, in chunks of five seconds, 49 s protected
FRAMES = 10 * 365 * 86400 * 30
WINDOW, CHUNK, R = 9_000, 150, 1470
TINY = Fraction(1, 10**9)
#: the camera's owner asks, who needs no share
OWNER = record(role="olga")


def main() -> None:
    """Each line: what, milliseconds in the empty ledger, in the full one, and the ratio of the two."""
    with temporary_server() as server:
        database = Database(server)
        full, ledger = decade("full"), database.ledger
        begun = time.monotonic()
        share_out(database, full)
        fill(database, ledger.register(full))
        charge_shared(ledger, full, random.Random(0))  # the first one puts the steps in blocks
        print(f"{FRAGMENTS} fragments over ten years at 30 fps (made in {time.monotonic() - begun:.0f} s)")
        for what, work in (("check of a window of five minutes", check), ("check over 100,000 fragments", check_widely),
                           ("check over all of them", check_all), ("charge of a window of five minutes", charge),
                           ("the same, simple rule", charge_simply), ("charge of four hours in 1,000 pieces", charge_finely),
                           ("charge over 100,000 fragments", charge_widely), ("charge over all of them", charge_all),
                           ("five minutes under a share", charge_shared), ("100,000 fragments under a share", charge_shared_widely),
                           ("all of them under a share", charge_shared_all)):
            empty = decade(f"empty {what}")
            if "share" in what:
                share_out(database, empty)
            compare(what, ledger, work, empty, full)
        whole(ledger, decade("whole"))
        ledger.close()


def decade(name: str) -> Camera:
    """A camera of ten years, over footage that no other has."""
    made = camera(name, frames=FRAMES, r=R, fps=Fraction(30))
    return replace(made, footage=replace(made.footage, files=(video_file(name, 0, FRAMES),)))


def fill(database: Database, recording: int) -> None:
    """Steps of one millionth and two by turns, all over the timeline; the same under a share."""
    every = FRAMES // FRAGMENTS
    share = database.rows(f"INSERT INTO privid.share_accounts (recording, role) VALUES ({recording}, 'ana') RETURNING id")[0][0]
    for table, account in (("ledger", recording), ("share_ledger", share)):
        database.rows(f"""INSERT INTO privid.{table}
                          SELECT {account}, n::int8 * {every}, CASE n WHEN 0 THEN 1 ELSE (n % 2) * 2 - 1 END * 1e-6
                          FROM generate_series(0, {FRAGMENTS - 1}) n""")
        database.rows(f"ANALYZE privid.{table}")


def share_out(database: Database, footage: Camera) -> None:
    """Role ana has a share of it; the owner needs none."""
    database.create_server(footage)
    database.rows("SELECT privid.grant_budget(%s, 'ana', 0.9)", footage.name, user=footage.owner)


def window(chosen: random.Random) -> Grid:
    return Grid(chosen.randrange(FRAMES - WINDOW), WINDOW // CHUNK, CHUNK, CHUNK)


def check(ledger: Ledger, footage: Camera, chosen: random.Random) -> None:
    grid = window(chosen)
    ledger.remaining(footage, [grid.span_frames((0, grid.count))], [Use.of(grid, [(0, grid.count)], R)])


def wide(chosen: random.Random) -> tuple[int, int]:
    """A year, in which there are 100,000 fragments."""
    length = 100_000 * (FRAMES // FRAGMENTS)
    first = chosen.randrange(FRAMES - length)
    return first, first + length


def check_widely(ledger: Ledger, footage: Camera, chosen: random.Random) -> None:
    ledger.remaining(footage, [wide(chosen)])


def check_all(ledger: Ledger, footage: Camera, chosen: random.Random) -> None:
    ledger.remaining(footage, [(0, FRAMES)])


def charge(ledger: Ledger, footage: Camera, chosen: random.Random) -> None:
    grid = window(chosen)
    ledger.charge([Claim(footage, [grid.span_frames((0, grid.count))], TINY, [Use.of(grid, [(0, grid.count)], R)])], OWNER)


def charge_simply(ledger: Ledger, footage: Camera, chosen: random.Random) -> None:
    first = chosen.randrange(FRAMES - WINDOW)
    ledger.charge([Claim(footage, [(first, first + WINDOW)], TINY)], OWNER)


def charge_finely(ledger: Ledger, footage: Camera, chosen: random.Random) -> None:
    """As many chunks as are charged one by one."""
    grid = Grid(chosen.randrange(FRAMES - 500 * 900), 500, 600, 900)
    ledger.charge([Claim(footage, [grid.frames(j) for j in range(500)], TINY, [Use.of(grid, [(0, 500)], R)])], OWNER)


def charge_widely(ledger: Ledger, footage: Camera, chosen: random.Random) -> None:
    ledger.charge([Claim(footage, [wide(chosen)], TINY)], OWNER)


def charge_all(ledger: Ledger, footage: Camera, chosen: random.Random) -> None:
    ledger.charge([Claim(footage, [(0, FRAMES)], TINY)], OWNER)


def charge_shared(ledger: Ledger, footage: Camera, chosen: random.Random) -> None:
    grid = window(chosen)
    ledger.charge([Claim(footage, [grid.span_frames((0, grid.count))], TINY, [Use.of(grid, [(0, grid.count)], R)])], record())


def charge_shared_widely(ledger: Ledger, footage: Camera, chosen: random.Random) -> None:
    ledger.charge([Claim(footage, [wide(chosen)], TINY)], record())


def charge_shared_all(ledger: Ledger, footage: Camera, chosen: random.Random) -> None:
    ledger.charge([Claim(footage, [(0, FRAMES)], TINY)], record())


def compare(what: str, ledger: Ledger, work: Callable[[Ledger, Camera, random.Random], None], empty: Camera, full: Camera) -> None:
    """By turns, so that whatever else the machine does falls on both."""
    chosen = random.Random(1)
    runs = RUNS if work is not charge_finely else 20
    ledger.register(empty)
    times: tuple[list[float], list[float]] = ([], [])
    for _ in range(runs):
        for footage, taken in zip((empty, full), times, strict=True):
            begun = time.perf_counter()
            work(ledger, footage, chosen)
            taken.append(1000 * (time.perf_counter() - begun))
    first, second = map(statistics.median, times)
    print(f"{what:<36} empty {first:8.2f} ms   full {second:8.2f} ms   ratio {second / first:5.2f}")


def whole(ledger: Ledger, footage: Camera) -> None:
    """One release over all ten years, in chunks of five seconds."""
    grid = Grid(0, FRAMES // CHUNK, CHUNK, CHUNK)
    ledger.register(footage)
    begun = time.perf_counter()
    ledger.charge([Claim(footage, [(0, grid.count * CHUNK)], TINY, [Use.of(grid, [(0, grid.count)], R)])], OWNER)
    print(f"{'charge of ten years at once':<36} empty {1000 * (time.perf_counter() - begun):8.2f} ms, {grid.count} chunks")


if __name__ == "__main__":
    main()

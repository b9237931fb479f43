"""Numbers on the pages are the numbers in the code."""

from __future__ import annotations

import math
import re

from privid.cli.try_ import MAX_ROWS as TRIED
from privid.engine.definitions import MAX_ROWS, MAX_TIMEOUT, MIN_TIMEOUT
from privid.sandbox.rows import MAX_LINE_BYTES, MAX_TEXT
from privid.sandbox.run import Limits

from .pages import REPOSITORY, page, rows

MIB = 1024 * 1024


def test_the_limits_of_the_sandbox_are_those_that_analysts_are_told() -> None:
    limits, told = Limits(), {row[0]: row[1] for row in rows(page("analysts"))}
    assert f"`/tmp` of {limits.tmpfs // MIB} MiB" in told["files"]
    assert told["memory, processes"] == (f"{limits.memory // (1024 * MIB)} GiB; {limits.processes} processes and threads together; "
                                         f"{limits.files} open files")
    assert told["output"].startswith(f"{limits.stdout // MIB} MiB on standard output, lines of {MAX_LINE_BYTES // 1024} KiB, texts of "
                                     f"{MAX_TEXT} characters")


def test_the_bounds_of_options_are_those_of_the_engine_where_it_is_stricter_than_the_library() -> None:
    told = {row[0]: row[1] for row in rows(page("reference"))}
    assert f"from {float(MIN_TIMEOUT * 1000):g} ms to {float(MAX_TIMEOUT / 3600):g} h" in told["`timeout`"]
    assert f"from 1 to {MAX_ROWS:,}" in told["`max_rows`"]
    assert TRIED == MAX_ROWS


def test_what_an_epsilon_means_to_owners_is_computed_rightly() -> None:
    found = [[float(cell.strip("× %sure").replace(",", "").replace("certain", "100")) for cell in row] for row in rows(page("owners"))
             if re.fullmatch(r"[\d.]+", row[0])]
    assert len(found) >= 5
    for epsilon, factor, even, unlikely in found:
        odds = math.exp(epsilon)
        assert math.isclose(factor, odds, rel_tol=0.05)
        assert abs(even - 100 * odds / (1 + odds)) <= 0.06
        assert abs(unlikely - 100 * 0.01 * odds / (0.99 + 0.01 * odds)) <= 0.06


def test_the_default_of_each_setting_in_the_library_is_told_to_analysts() -> None:
    default = re.search(r"privid_epsilon = ([\d.]+);", (REPOSITORY / "fdw" / "module.c").read_text())
    assert default and f"is what each release takes; {default[1]} unless you set it" in page("analysts")

"""A short search for statements that take longer than their bound; tests/verify/room_bounds.py is the
long one, and shows what it finds where a check is missing."""

from __future__ import annotations

import contextlib
import gc
import warnings
from collections.abc import Iterator

import pytest

from tests.verify.room_bounds import SCARCE, is_finding, search, show, without
from tests.verify.room_bounds_grammar import FILLS
from tests.verify.room_bounds_stand import Refused, Trial, own_trial

SECONDS = 15

#: as long as a text may be, in letters that take longest
LONG = chr(0x1D49C) * 1024
JOINED = "SELECT count(*) FROM (SELECT a.k, count(*) AS n FROM {} GROUP BY a.k) q"
LIST = ",".join(map(str, range(1_000, 7_000)))
#: one statement for each check, of those that a search without it finds
NEEDED = {
    "joins": JOINED.format("(SELECT v AS k, w FROM grid GROUP BY v, w HAVING count(*) = 1) a "
                           "JOIN grid b ON a.k = b.v WHERE a.k = 7"),
    "texts": "SELECT count(*) FROM tiny LEFT JOIN longer p ON plate = p.t WHERE (" + " OR ".join(
        f"""pg_catalog."extract"(p.u, chunk - timestamptz '{2000 - i}-01-01 00:00:00+00') = 1""" for i in range(400)) + ") IS NOT TRUE",
    "lists": f"SELECT count(*) FROM thin WHERE v::int4 <> ALL ('{{{LIST}}}'::int8[])",
}


@pytest.fixture(scope="module")
def trial() -> Iterator[Trial]:
    with contextlib.ExitStack() as stack:
        with warnings.catch_warnings():
            # the server outlives the object that started it, as it does in life
            warnings.simplefilter("ignore", ResourceWarning)
            made = stack.enter_context(own_trial(SCARCE))
            gc.collect()
        yield made


def test_random_statements_over_the_worst_rows_stay_within_half_of_their_bounds(trial: Trial) -> None:
    found = search(trial, 5, 10_000, SECONDS)
    assert not found.findings, "\n".join(show(trial, *one) for one in found.findings[:3])
    assert found.ran > 10, found.report()


def test_every_computation_of_a_class_of_equalities_is_charged(trial: Trial) -> None:
    """Each of them is compared with its neighbours, though the statement compares it with one column; once 0.38 of its bound."""
    tests = " AND ".join(f"length(left(plate || '{letter}', 1024)) = b.k" for letter in "abcdefghijkl")
    ran = trial.run(f"SELECT count(*) FROM large JOIN (VALUES (1024), (2)) b(k) ON {tests}", lambda _: (LONG, 1.5, 2.5, True, "large"))
    assert ran.ended and ran.share < 0.25, ran


@pytest.mark.parametrize("check", NEEDED)
def test_without_a_check_a_statement_takes_longer_than_its_bound(trial: Trial, check: str) -> None:
    with without(check):
        ran = trial.run(NEEDED[check], FILLS["alike"])
    assert ran.share > 0.4, ran
    try:
        ran = trial.run(NEEDED[check], FILLS["alike"])
    except Refused as refusal:
        assert check in ("joins", "texts") or "too long" in str(refusal)
    else:
        assert ran.share < 0.25, ran


def test_without_the_memory_of_a_row_a_statement_takes_more_than_its_bound(trial: Trial) -> None:
    long = "plate || plate || plate || plate || plate || plate || plate || plate"
    tests = " OR ".join(f"right({long}, -{i}) = 'x'" for i in range(600))
    statement = f"SELECT count(*) FROM tiny WHERE ({tests}) IS NOT TRUE"
    with without("memory"):
        assert is_finding(trial.run(statement, FILLS["long and alike"]))
    assert not is_finding(trial.run(statement, FILLS["long and alike"]))


#: groups of which PostgreSQL expects few, joined by what most of them have
SKEWED = "SELECT count(*) FROM (SELECT a.w AS x FROM (SELECT w, max(v) AS k FROM heap GROUP BY w) a {} many p ON a.k = p.k) q"


@pytest.mark.parametrize("kind", ["JOIN", "LEFT JOIN"])
def test_a_join_by_a_key_that_most_rows_have_is_not_split_into_ever_more_files(trial: Trial, kind: str) -> None:
    statement, fill = SKEWED.format(kind), FILLS["one in most"]
    with without("batches"):  # how often a table splits depends on the key of its hashes, which every session has for itself
        assert any(is_finding(trial.run(statement, fill)) for _ in range(12))
    ran = trial.run(statement, fill)
    assert not is_finding(ran) and ran.share < 0.25, ran


def test_what_is_still_to_be_computed_of_a_row_is_in_the_bound_of_a_join(trial: Trial) -> None:
    """PostgreSQL joins the texts, and shortens them afterwards."""
    joined = "SELECT count(*) FROM (SELECT a.p || b.u AS x FROM (SELECT v, {} AS p FROM large) a JOIN many b ON a.v = b.k) q WHERE x > ''"
    least = [trial.bound(*trial.judged(joined.format(text))).memory for text in ("left(plate, 1)", "plate")]
    assert least[0] >= least[1] > 3_000 * 4_096


def _wide(number: int) -> tuple[str, str]:
    return ", ".join(f"v + {i} AS c{i}" for i in range(number)), ", ".join(f"c{i}" for i in range(number))


#: what compares, prints and plans many columns; of a level that has as many as there may be
WIDE = {
    "limit": "SELECT count(*) FROM (SELECT {0} FROM small ORDER BY c0 LIMIT 1) s",
    "sorted groups": "SELECT sum(range(n, 0, 1)) FROM (SELECT count(DISTINCT w) AS n FROM (SELECT plate, w, {0} FROM small) q "
                     "GROUP BY plate, {1}) s",
    "distinct in distinct": "SELECT count(*) FROM (SELECT DISTINCT {1} FROM (SELECT DISTINCT {1} FROM (SELECT DISTINCT {0} "
                            "FROM small) a) b) c",
}


@pytest.mark.parametrize("statement", WIDE.values(), ids=WIDE)
def test_many_columns_are_charged_for_each_other(trial: Trial, statement: str) -> None:
    ran = trial.run(statement.format(*_wide(95)), FILLS["alike"])
    assert ran.ended and ran.share < 0.25, ran
    with pytest.raises(Refused, match="more than 100 columns"):
        trial.run(statement.format(*_wide(101)), FILLS["alike"])


#: many conditions above many parts: each is asked of each part
ABOVE = ("SELECT count(*) FROM (" + " UNION ALL ".join(["SELECT v, plate FROM tiny"] * 24) + ") q WHERE "
         + " AND ".join(f"v > -{i}e5" for i in range(1, 700)))


def test_conditions_above_a_union_are_planned_within_their_bound(trial: Trial) -> None:
    assert trial.run(ABOVE, FILLS["alike"]).share < 0.25

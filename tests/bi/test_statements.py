"""What BI tools send is answered, or refused with a hint that works when it is followed."""

from __future__ import annotations

from collections.abc import Callable

import psycopg
import pytest

from .conftest import Connection
from .statements import Case, cases

CASES = cases()


@pytest.mark.parametrize("case", CASES, ids=[case.name for case in CASES])
def test_it_is_answered_or_its_hint_works(case: Case, tools: Callable[[str], Connection]) -> None:
    connection = tools(case.tool)
    if case.hint is None:
        connection.execute(case.statement.encode()).fetchall()
        return
    with pytest.raises(psycopg.Error) as refused:
        connection.execute(case.statement.encode())
    told = refused.value.diag
    assert told.sqlstate in ("PV001", "PV002"), told.message_primary
    assert told.message_hint is not None and case.hint in told.message_hint, (told.message_primary, told.message_hint)
    assert case.followed is not None and case.hint in case.followed
    connection.execute(case.followed.encode()).fetchall()


#: what the owner of a table can spare people: bounds of numbers, keys of texts
DECLARED = [case for case in CASES if case.hint is not None and ("range(speed" in case.hint or case.hint.startswith("kind IN"))]


@pytest.mark.parametrize("case", DECLARED, ids=[case.name for case in DECLARED])
def test_where_columns_declare_bounds_and_keys_it_is_answered_as_it_stands(case: Case, declared: Callable[[str], Connection]) -> None:
    declared(case.tool).execute(case.statement.encode()).fetchall()


def test_there_are_enough_of_them_from_every_tool() -> None:
    assert {case.tool for case in CASES} == {"superset", "grafana", "metabase", "tableau", "powerbi", "looker"}
    assert len(CASES) >= 110 and sum(case.hint is None for case in CASES) >= 75
    assert len({case.name for case in CASES}) == len({case.statement for case in CASES}) == len(CASES)

"""SECURITY.md names, for each actor, tests that there are."""

from __future__ import annotations

import ast
import re

import pytest

from .pages import REPOSITORY, code, rows, section

TEXT = (REPOSITORY / "SECURITY.md").read_text()
ACTORS = ["role without rights", "analyst", "two analysts", "owner", "two owners", "administrator with CREATEROLE",
          "administrator with pg_read_all_data", "administrator with pg_monitor", "administrator with pg_signal_backend",
          "administrator with REPLICATION", "other user of the machine", "somebody on the network", "thief of a backup"]
TABLE = {row[0]: row[1:] for row in rows(section(TEXT, "Who can do what"))}


def test_the_table_has_every_actor_and_no_other() -> None:
    assert list(TABLE) == ACTORS


@pytest.mark.parametrize("actor", ACTORS)
def test_each_actor_is_promised_something_not_promised_something_and_has_tests_that_there_are(actor: str) -> None:
    promised, not_promised, shown = TABLE[actor]
    assert len(promised) > 30 and len(not_promised) > 20
    names = code(shown)
    assert names and shown == ", ".join(f"`{name}`" for name in re.findall(r"`([^`]+)`", shown))
    for name in names:
        file, _, function = name.partition("::")
        defined = ast.parse((REPOSITORY / file).read_text()).body
        assert function in {part.name for part in defined if isinstance(part, ast.FunctionDef)} and function.startswith("test_"), name


@pytest.mark.parametrize("title", ["What a vulnerability is", "How to report one", "How fixes are told"])
def test_the_page_says(title: str) -> None:
    assert len(section(TEXT, title)) > 300

"""The reference lists everything that there is, and nothing that there is not."""

from __future__ import annotations

import argparse
import json
import re
from collections.abc import Callable
from typing import Any

import pytest

from privid.cli.main import COMMANDS, parser
from privid.errors import families

from .pages import REPOSITORY, code, page, rows, section

REFERENCE = page("reference")


def first_cells(title: str) -> set[str]:
    """All code spans in the first column of a section's tables."""
    return {span for row in rows(section(REFERENCE, title)) for span in code(row[0])}


LEVELS = [("ForeignServer", "Options of a camera"), ("ForeignTable", "Options of a table"), ("Attribute", "Options of a column")]


@pytest.mark.parametrize(("level", "title"), LEVELS)
def test_every_option_of_the_library_is_documented(level: str, title: str) -> None:
    source = (REPOSITORY / "fdw" / "options.c").read_text()
    options = set(re.findall(rf'\{{"(\w+)", {level}RelationId', source))
    assert len(options) >= 3
    assert first_cells(title) == options


@pytest.mark.parametrize(("level", "title"), LEVELS)
def test_an_option_is_called_required_when_it_is(level: str, title: str) -> None:
    source = (REPOSITORY / "fdw" / "options.c").read_text()
    required = set(re.findall(rf'\{{"(\w+)", {level}RelationId, [^}}]*true\}}', source))
    assert {span for row in rows(section(REFERENCE, title)) for span in code(row[0]) if "required" in row[1]} == required


def test_every_setting_is_documented_with_its_default(stack: Any) -> None:
    found = stack.run("SELECT name, boot_val FROM pg_settings WHERE name LIKE 'privid.%'", user="privid")
    documented = {span: row[1] for row in rows(section(REFERENCE, "Settings")) for span in code(row[0])}
    assert documented == {name: default or "empty" for name, default in found}


def test_every_view_is_documented_with_its_columns(stack: Any) -> None:
    found = stack.run("SELECT c.relname, array_agg(a.attname::text ORDER BY a.attnum) FROM pg_class c "
                      "JOIN pg_attribute a ON a.attrelid = c.oid WHERE c.relnamespace = 'privid'::regnamespace AND c.relkind = 'v' "
                      "AND a.attnum > 0 GROUP BY 1", user="privid")
    documented = {span: code(" ".join(row[1:])) for row in rows(section(REFERENCE, "Views")) for span in code(row[0])}
    assert set(documented) == {f"privid.{view}" for view, _ in found}
    for view, columns in found:
        assert set(columns) <= documented[f"privid.{view}"], view


def test_every_table_that_holds_state_is_documented(stack: Any) -> None:
    found = stack.run("SELECT relname FROM pg_class WHERE relnamespace = 'privid'::regnamespace AND relkind IN ('r', 'p')", user="privid")
    assert first_cells("Tables that hold state") == {f"privid.{name}" for (name,) in found}


def test_every_function_is_documented(stack: Any) -> None:
    found = {name for (name,) in stack.run("SELECT proname FROM pg_proc WHERE pronamespace = 'privid'::regnamespace", user="privid")}
    spans = first_cells("Functions")
    documented = {name for span in spans if (name := re.sub(r"^privid\.|\(.*", "", span)) and span.startswith("privid.")}
    wild = {name[:-1] for name in documented if name.endswith("*")}
    assert {name for name in found if not name.startswith(tuple(wild))} == {name for name in documented if not name.endswith("*")}
    assert all(any(name.startswith(stem) for name in found) for stem in wild)


def test_functions_that_work_without_the_schemas_name_are_said_to(stack: Any) -> None:
    found = {name for (name,) in stack.run(
        "SELECT p.proname FROM pg_proc p JOIN pg_depend d ON d.objid = p.oid AND d.deptype = 'e' JOIN pg_extension e ON e.oid = d.refobjid "
        "WHERE e.extname = 'privid' AND p.pronamespace = 'public'::regnamespace", user="privid")}
    told = {re.sub(r"^privid\.|\(.*", "", span) for row in rows(section(REFERENCE, "Functions"))
            if "without the schema" in row[1] or any(not span.startswith("privid.") for span in code(row[0])) for span in code(row[0])}
    assert told == found


def test_every_role_is_documented(stack: Any) -> None:
    found = stack.run("SELECT rolname FROM pg_roles WHERE rolname LIKE 'privid\\_%%'", user="privid")
    assert first_cells("Roles") == {name for (name,) in found}


def test_every_key_of_explain_is_documented(stack: Any, unique: Callable[[str], str]) -> None:
    camera = unique("camera")
    stack.camera(camera, "levels.mp4", rho="1s")
    stack.executable("brightness")
    stack.table(camera, camera, "brightness")
    shown = stack.run(f"EXPLAIN (FORMAT JSON) SELECT count(*) FROM {camera}")[0][0]
    body = re.search(r'"Privid": (\{.*\})', json.dumps(shown))
    assert body
    keys, _ = json.JSONDecoder().raw_decode(body[1])
    assert {span.strip('"') for span in first_cells("EXPLAIN")} == set(keys)


def subcommands() -> dict[str, argparse.ArgumentParser]:
    for action in parser()._actions:
        if isinstance(action, argparse._SubParsersAction):
            return dict(action.choices)
    raise AssertionError("no subcommands")


def test_every_command_is_documented_with_its_options() -> None:
    text = section(REFERENCE, "Command line")
    documented = {re.split(r"[ \[]", span)[1]: " ".join(row) for row in rows(text) for span in code(row[0]) if span.startswith("privid ")}
    assert set(documented) == set(COMMANDS)
    for name, command in subcommands().items():
        for action in command._actions:
            for option in action.option_strings:
                if option in ("-h", "--help"):
                    continue
                where = text if option in ("--data", "--dsn") else documented[name]
                assert re.search(rf"`{option}[ `]", where), f"privid {name} {option}"
            if not action.option_strings and action.metavar:
                assert str(action.metavar) in documented[name], f"privid {name} {action.metavar}"


def test_no_command_is_documented_with_an_option_that_it_does_not_have() -> None:
    known = subcommands()
    for row in rows(section(REFERENCE, "Command line")):
        name = next(iter(code(row[0]))).split()[1]
        options = {option for action in known[name]._actions for option in action.option_strings}
        for span in code(row[-1]):
            assert not span.startswith("-") or span.split()[0] in options | {"-U"}, f"privid {name}: {span}"


def test_every_family_of_errors_is_documented_and_no_other() -> None:
    source = "".join(path.read_text() for path in [*(REPOSITORY / "fdw").glob("*.[ch]")])
    macros = {"".join(re.findall(r"'(.)'", match)) for match in re.findall(r"#define ERRCODE_\w+\s+MAKE_SQLSTATE\((.*)\)", source)}
    scripts = {state for path in (REPOSITORY / "sql").glob("*.sql") for state in re.findall(r"ERRCODE = '(\w{5})'", path.read_text())}
    raised = {state for state in set(families()) | macros | scripts if state.startswith("PV")}
    assert len(raised) >= 9
    documented = {span for row in rows(page("errors")) for span in code(row[0])}
    assert raised == {state for state in documented if state.startswith("PV")}
    assert set(families()) | scripts <= documented

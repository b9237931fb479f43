"""The pages speak of what exists: files, links, commands, targets; and the README shows what is really said."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest

import privid
from privid.cli.main import COMMANDS
from privid.sandbox.executable import Kind, classify
from tests.conftest import write_video

from .pages import DOCS, PAGES, REPOSITORY, blocks, code, rows

ROOMS = "|".join(sorted(p.name for p in REPOSITORY.iterdir() if p.is_dir() and not p.name.startswith(".") and p.name != "build"))
pages = pytest.mark.parametrize("path", PAGES, ids=lambda path: path.name)


def targets() -> set[str]:
    return set(re.findall(r"^([a-z]+):", (REPOSITORY / "Makefile").read_text(), re.MULTILINE))


def test_the_two_commands_of_the_readme_exist() -> None:
    first = blocks((REPOSITORY / "README.md").read_text())[0]
    assert re.findall(r"^make (\w+)", first, re.MULTILINE) == ["demo", "test"]
    assert {"demo", "test"} <= targets()


@pages
def test_every_target_of_make_that_is_mentioned_exists(path: Path) -> None:
    text = path.read_text()
    shown = [*code(text), *(line for block in blocks(text) for line in block.splitlines())]
    assert {match[1] for span in shown if (match := re.match(r"\$? ?make ([a-z]+)\b", span.strip()))} <= targets()


@pages
def test_every_link_leads_somewhere(path: Path) -> None:
    for text, target in re.findall(r"\[([^\]]*)\]\(([^)\s]+)\)", path.read_text()):
        if re.match(r"https?:", target):
            continue
        file, _, anchor = target.partition("#")
        place = (path.parent / file).resolve() if file else path
        assert place.is_file(), f"{text}: {target}"
        if anchor:
            headings = re.findall(r"^#+ (.*)$", place.read_text(), re.MULTILINE)
            assert anchor in {re.sub(r"[^\w\- ]", "", h.lower()).replace(" ", "-") for h in headings}, target


@pages
def test_every_file_that_is_mentioned_exists(path: Path) -> None:
    for span in code(path.read_text()):
        if re.fullmatch(rf"({ROOMS})/[\w./*-]*", span) and not span.endswith((".mp4", ".so")):
            assert list(REPOSITORY.glob(span)), span
        if re.fullmatch(r"\w+\.[ch]", span):
            assert (REPOSITORY / "fdw" / span).is_file(), span
        if re.fullmatch(r"\w+\.py", span):
            assert list(REPOSITORY.glob(f"*/**/{span}")), span


@pages
def test_every_command_that_is_mentioned_exists(path: Path) -> None:
    text = path.read_text()
    shown = [*code(text), *(line for block in blocks(text) for line in block.splitlines())]
    for line in shown:
        for name in re.findall(r"(?:^|\.venv/bin/|[$;] |\()privid ([a-z]+)\b", line.strip()):
            assert name in COMMANDS, line


@pages
def test_pages_speak_of_the_product_and_not_of_anybodys_machine(path: Path) -> None:
    assert not re.search(r"/(work|root|home)/|/tmp/\w|TODO|FIXME|PLACEHOLDER", path.read_text())


def test_every_page_can_be_reached_from_the_readme() -> None:
    linked = set(re.findall(r"\((docs/\w+\.md|bench/README\.md|SECURITY\.md)\)", (REPOSITORY / "README.md").read_text()))
    assert {"SECURITY.md", *(f"docs/{p.name}" for p in DOCS.glob("*.md"))} <= linked


def test_the_changelog_begins_with_this_version_and_says_of_each_change_what_kind_it_is() -> None:
    text = (REPOSITORY / "CHANGELOG.md").read_text()
    assert re.findall(r"^## (\S+)", text, re.MULTILINE)[0] == privid.__version__
    for line in re.findall(r"^- (.*)$", text, re.MULTILINE):
        assert re.match(r"(Added|Changed|Fixed|Removed) ", line), line


# What the README shows

@pytest.fixture(scope="module")
def street(stack: Any) -> Iterator[Any]:
    """The README's camera and table, over a dark street of the same length; nothing of it is run."""
    write_video(stack.videos / "street.mp4", [0] * 2400, width=16, height=16)
    readme = (REPOSITORY / "README.md").read_text()
    for block in re.findall(r"^```sql\n(.*?)^```$", readme, re.MULTILINE | re.DOTALL):
        user = "owner" if "CREATE SERVER" in block else "analyst"
        if user == "analyst":
            stack.executable("count_people", (REPOSITORY / "examples" / "count_people.py").read_bytes())
        stack.run(block, user=user)
    yield stack
    stack.run("DROP FOREIGN TABLE passers")
    stack.run("DROP SERVER street", user="owner")


TRANSCRIPTS = [(path.name, block) for path in PAGES for block in blocks(path.read_text()) if block.startswith("analyst=> ")]
PROMPT = "analyst=> "


def lasting(lines: list[str]) -> list[str]:
    """Without what depends on the machine: the seconds, and whether it is busy."""
    return [re.sub(r"[\d.]+ s(?=,|$| after)", "… s", line.rstrip()) for line in lines if "has been too busy" not in line]


def test_what_explain_says_on_the_pages_is_what_it_says(street: Any) -> None:
    shown = [block for _, block in TRANSCRIPTS if "EXPLAIN" in block]
    assert len(shown) >= 2
    for block in shown:
        lines = block.splitlines()
        statements = [line.removeprefix(PROMPT) for line in lines if line.startswith(PROMPT)]
        told = lasting([line[1:] for line in lines if not line.startswith(PROMPT)])
        with street.connect() as connection:
            connection.execute(statements[0].encode())
            said = lasting([row[0] for row in connection.execute(statements[1].encode()).fetchall()])
        if told[-1].endswith("Derivation: ..."):  # cut short
            told[-1] = told[-1].removesuffix(" ...")
            said = said[:len(told)]
        assert told == said


def test_what_is_refused_on_the_pages_is_refused_in_these_words(street: Any) -> None:
    shown = [piece for _, block in TRANSCRIPTS for piece in block.split(PROMPT) if "\nERROR:" in piece]
    assert len(shown) >= 2
    for piece in shown:
        with pytest.raises(psycopg.Error) as refused:
            street.run(piece.splitlines()[0])
        said = refused.value.diag
        for word, text in (("ERROR", said.message_primary), ("DETAIL", said.message_detail), ("HINT", said.message_hint)):
            assert f"{word}:  {text}\n" in piece


@pages
def test_every_python_module_on_the_pages_can_be_uploaded(path: Path) -> None:
    for source in re.findall(r"^```python\n(.*?)^```$", path.read_text(), re.MULTILINE | re.DOTALL):
        assert classify(source.encode(), "shown") is Kind.MODULE


def test_the_form_that_the_refusal_of_undeclared_keys_suggests_is_accepted(street: Any) -> None:
    form = "SELECT key, count(kind) FROM (VALUES ('car'), ('person')) k(key) LEFT JOIN passers ON kind = key GROUP BY key"
    assert "over 2 keys" in "\n".join(row[0] for row in street.run(f"EXPLAIN {form}"))


def test_every_benchmark_is_described() -> None:
    assert {p.name for p in (REPOSITORY / "bench").glob("*.py")} == {
        span for row in rows((REPOSITORY / "bench" / "README.md").read_text()) for span in code(row[0]) if span.endswith(".py")}

"""Programs that a query file names: what lies below the query's own folder can be uploaded, and nothing else is even read."""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any, ClassVar, cast

import pytest

from privid.language.programs import read_program
from privid.language.source import Mistake
from privid.language.statements import Process
from tests.conftest import RunningStack, run_privid

PROGRAM = "def process(chunk):\n    yield {'v': float(chunk.frames[0, 0, 0, 0])}\n"
QUERY = """SPLIT {camera} BEGIN 03-01-2026/6:00am END 03-01-2026/6:00:05am BY TIME 1sec STRIDE 0sec INTO chunks;
PROCESS chunks USING good.py TIMEOUT 1sec PRODUCING 1 ROWS WITH SCHEMA (v:NUMBER=0) INTO before;
PROCESS chunks USING {file} TIMEOUT 1sec PRODUCING 1 ROWS WITH SCHEMA (v:NUMBER=0) INTO levels;
SELECT COUNT(*) FROM levels;
"""


class Folder:
    """A query in a folder, a program beside it, and a secret elsewhere."""

    def __init__(self, stack: RunningStack, place: Path, camera: str) -> None:
        self.stack, self.camera = stack, camera
        self.home, self.secret = place / "home", place / f"{camera}_secret.py"
        (self.home / "sub").mkdir(parents=True)
        self.secret.write_text(PROGRAM)
        (self.home / "good.py").write_text(PROGRAM)
        stack.camera(camera, "levels.mp4")

    def query(self, file: str, *options: str) -> tuple[int, str, str]:
        query = self.home / "q.privid"
        query.write_text(QUERY.format(camera=self.camera, file=file))
        done = run_privid("query", query, "--data", self.stack.data, *options, check=False)
        return done.returncode, done.stdout, done.stderr

    def uploaded(self) -> list[tuple[object, ...]]:
        return self.stack.run("SELECT name, sha256 FROM privid.executables ORDER BY 1")


@pytest.fixture
def folder(stack: RunningStack, tmp_path: Path, unique: Callable[[str], str]) -> Folder:
    return Folder(stack, tmp_path, unique("programs"))


@pytest.mark.parametrize("options", [(), ("--explain",)])
def test_a_program_outside_of_the_querys_folder_is_not_uploaded(folder: Folder, options: tuple[str, ...]) -> None:
    name, before = folder.secret.name, folder.uploaded()
    (folder.home / name).symlink_to(folder.secret)
    (folder.home / "out").symlink_to(folder.home.parent)
    (folder.home / "sub" / "far.py").symlink_to(Path("..") / ".." / name)
    for file, message in ((f"../{name}", "is not below"), (str(folder.secret), "is not below"), (f"sub/../../{name}", "is not below"),
                          (f"'../{name}'", "is not below"), (str(folder.home / "good.py"), "is not below"),
                          ("../missing.py", "is not below"),
                          (name, "is a link out of"), (f"out/{name}", "is a link out of"), ("sub/far.py", "is a link out of")):
        code, told, error = folder.query(file, *options)
        assert code == 1 and not told, told
        named = re.escape(file.strip("'"))
        assert re.match(rf'.*q.privid:3:22: ERROR:  file "{named}" {message} the folder of the query\n', error), error
        assert "HINT:  Put the file beside the query" in error
        assert folder.uploaded() == before  # nor was the one before it: programs are looked at before anything is done


def test_a_program_below_the_querys_folder_is_uploaded(folder: Folder) -> None:
    own = folder.camera
    (folder.home / "sub" / f"{own}.py").write_text(PROGRAM)
    (folder.home / f"{own}_link.py").symlink_to(Path("sub") / f"{own}.py")
    for file in (f"sub/{own}.py", f"./sub/./{own}.py", f"{own}_link.py"):
        code, _, error = folder.query(file)
        assert code == 0, error
    assert {own, f"{own}_link"} <= {name for name, _ in folder.uploaded()}


class Named:
    """As much of a PROCESS as names a file."""

    places: ClassVar[dict[str, int]] = {"executable": 0}

    def __init__(self, file: str) -> None:
        self.file = file


def read(file: str, folder: Path) -> bytes | None:
    return read_program(cast(Process, Named(file)), folder)


def test_links_that_stay_in_the_folder_are_walked_and_no_other(tmp_path: Path) -> None:
    home = tmp_path / "home"
    (home / "a" / "b").mkdir(parents=True)
    (home / "p.py").write_text("mine")
    (tmp_path / "secret.py").write_text("secret")
    for link, goal in (("a/up.py", "../p.py"), ("a/b/up.py", "../up.py"), ("abs.py", str(home / "p.py")), ("dir", "a/b/../../a"),
                       ("out.py", "a/../../secret.py"), ("absout.py", str(tmp_path / "secret.py")), ("sly.py", f"{home}/../secret.py")):
        (home / link).symlink_to(goal)
    for file in ("p.py", "./p.py", "a/up.py", "a/b/up.py", "abs.py", "dir/up.py", "dir/b/up.py"):
        assert read(file, home) == b"mine", file
    for file in ("out.py", "absout.py", "sly.py"):
        with pytest.raises(Mistake, match="is a link out of"):
            read(file, home)
    assert read("p.py/x", home) is None and read("a", home) is None and read("none.py", home) is None


def test_folders_that_are_renamed_meanwhile_lead_to_no_other_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever has written the query's folder exchanges folders for links, at any moment between two looks."""
    home, secret = tmp_path / "home", tmp_path / "secret"
    for folder, content in ((home / "sub", "mine"), (secret, "secret")):
        folder.mkdir(parents=True)
        (folder / "p.py").write_text(content)
    (home / "link").symlink_to(secret)
    real = os.open

    def exchanging(path: str | Path, *rest: Any, **more: Any) -> int:
        if str(path).endswith("p.py") and (home / "link").is_symlink():
            (home / "sub").rename(home / "was")
            (home / "link").rename(home / "sub")
        return real(path, *rest, **more)

    monkeypatch.setattr(os, "open", exchanging)
    assert read("sub/p.py", home) == b"mine" and (home / "sub").is_symlink()


def test_a_program_without_end_is_refused(tmp_path: Path) -> None:
    with (tmp_path / "sparse.py").open("wb") as sparse:
        sparse.truncate(1 << 40)
    os.mkfifo(tmp_path / "fifo.py")
    with pytest.raises(Mistake, match="more than 67108864 bytes"):
        read("sparse.py", tmp_path)
    assert read("fifo.py", tmp_path) is None


def test_what_is_no_file_is_not_read_as_one(folder: Folder) -> None:
    (folder.home / "loop.py").symlink_to("loop.py")
    code, _, error = folder.query("loop.py")
    assert code == 1 and 'could not read "loop.py"' in error
    code, _, error = folder.query("sub")
    assert code == 1 and 'executable "sub" does not exist' in error


def test_explain_uploads_nothing_and_says_what_it_explains(folder: Folder) -> None:
    own = f"{folder.camera}.py"
    (folder.home / own).write_text(PROGRAM)
    run_privid("upload", "--data", folder.stack.data, folder.home / "good.py")
    before = folder.uploaded()
    code, _, error = folder.query(own, "--explain")
    assert code == 1 and f'executable "{folder.camera}" does not exist, and --explain uploads nothing' in error and "privid upload" in error
    assert folder.uploaded() == before
    run_privid("upload", "--data", folder.stack.data, folder.home / own)
    before = folder.uploaded()
    code, told, error = folder.query(own, "--explain")
    assert code == 0 and "Privid Release" in told and "NOTICE" not in told, told + error
    (folder.home / own).write_text(PROGRAM + "# another\n")
    code, told, _ = folder.query(own, "--explain")
    assert code == 0 and f'NOTICE:  file "{own}" is not what was uploaded as executable "{folder.camera}"' in told
    assert folder.uploaded() == before


def test_names_and_texts_of_a_query_are_quoted_whatever_the_session_is_set_to(folder: Folder) -> None:
    """As is a role whose sessions take backslashes in texts for escapes."""
    folder.stack.run("ALTER ROLE analyst SET standard_conforming_strings = off", user="privid")
    try:
        query = folder.home / "q.privid"
        query.write_text(f"""SPLIT {folder.camera} BEGIN 03-01-2026/6:00am END 03-01-2026/6:00:05am BY TIME 1sec STRIDE 0sec INTO chunks;
PROCESS chunks USING good.py TIMEOUT 1sec PRODUCING 1 ROWS
  WITH SCHEMA ("a""b":STRING="\\'); DROP TABLE x; --", "%s {{}}":NUMBER=-1.5e1, v:NUMBER=0) INTO "x""; --";
SELECT COUNT(*) FROM "x""; --" WHERE "a""b" = '\\' OR "a""b" = ' OR 1=1 --' OR "%s {{}}" = -15;
""")
        done = run_privid("query", query, "--data", folder.stack.data)
        assert re.search(r"^ +5$", done.stdout, re.M), done.stdout  # the defaults of columns that the program does not know
    finally:
        folder.stack.run("ALTER ROLE analyst RESET standard_conforming_strings", user="privid")

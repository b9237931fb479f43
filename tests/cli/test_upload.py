"""privid upload: files become executables of a role."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from tests.conftest import BRIGHTNESS, RunningStack, run_privid


def test_files_become_executables_of_the_analyst(stack: RunningStack, tmp_path: Path, unique: Callable[[str], str]) -> None:
    files = [tmp_path / f"{unique('one')}.py", tmp_path / f"{unique('two')}.py"]
    for file in files:
        file.write_text(BRIGHTNESS)
    run_privid("upload", *files, "--data", stack.data)
    names = {name for (name,) in stack.run("SELECT name FROM privid.executables")}
    assert {file.stem for file in files} <= names
    assert not {file.stem for file in files} & {name for (name,) in stack.run("SELECT name FROM privid.executables", user="owner")}


def test_role_and_name_can_be_given(stack: RunningStack, tmp_path: Path, unique: Callable[[str], str]) -> None:
    file = tmp_path / "anything.py"
    file.write_text(BRIGHTNESS)
    run_privid("upload", file, "--name", unique("given"), "-U", "owner", "--data", stack.data)
    assert (unique("given"),) in stack.run("SELECT name FROM privid.executables", user="owner")


def test_what_cannot_be_uploaded_is_refused_with_a_reason(stack: RunningStack, tmp_path: Path) -> None:
    empty = tmp_path / "empty.py"
    empty.touch()
    refused = run_privid("upload", empty, "--data", stack.data, check=False)
    assert refused.returncode == 1 and 'executable "empty" is empty' in refused.stderr and "HINT" in refused.stderr
    missing = run_privid("upload", tmp_path / "missing.py", "--data", stack.data, check=False)
    assert missing.returncode == 1 and "could not read" in missing.stderr
    stopped = run_privid("upload", empty, "--data", tmp_path / "no-stack", check=False)
    assert stopped.returncode == 1 and "is not running" in stopped.stderr


def test_a_file_that_is_no_executable_is_attached_to_the_one_before_it(stack: RunningStack, tmp_path: Path,
                                                                       unique: Callable[[str], str]) -> None:
    module, weights = tmp_path / f"{unique('model')}.py", tmp_path / "weights.bin"
    module.write_text(BRIGHTNESS)
    weights.write_bytes(bytes(1000))
    done = run_privid("upload", module, weights, "--data", stack.data)
    assert "weights.bin: 1000 bytes, attached" in done.stdout
    assert stack.run("SELECT name, bytes FROM privid.attachments WHERE executable = %s", module.stem) == [("weights.bin", 1000)]
    stack.run("SELECT privid.remove(%s)", module.stem)
    assert stack.run("SELECT name FROM privid.attachments WHERE executable = %s", module.stem) == []


def test_nothing_is_in_progress_when_nothing_is_read(stack: RunningStack) -> None:
    assert run_privid("progress", "--data", stack.data).stdout == "Nothing is being read.\n"

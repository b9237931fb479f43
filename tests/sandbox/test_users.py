"""Users of lanes and broods: nobody has one of whom anything is left."""

from __future__ import annotations

import grp
import os
import pwd
import stat
import subprocess
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

from privid import accounts
from privid.errors import PrividError, SandboxFailed
from privid.sandbox import users
from privid.sandbox.brood import Brood
from privid.sandbox.executable import install
from privid.sandbox.lane import Program

from .conftest import ORDINARY, Trial

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="only root has users to give")


#: two users in all, of whom nobody else knows
FEW = ORDINARY + 1000


@pytest.fixture
def claim(tmp_path: Path) -> Callable[[], users.User]:
    return partial(users.claim_user, tmp_path / "users", FEW, 2)


def test_a_user_has_one_holder_at_a_time(claim: Callable[[], users.User]) -> None:
    held = [claim(), claim()]
    assert {user.uid for user in held} == {FEW, FEW + 1}
    with pytest.raises(SandboxFailed, match="all 2 users"):
        claim()
    held[0].close()
    again = claim()
    assert again.uid == held[0].uid
    for user in (again, held[1]):
        user.close()


def test_a_user_is_given_back_though_a_fork_of_the_holder_lives(claim: Callable[[], users.User]) -> None:
    held = [claim(), claim()]
    inherited = os.dup(held[0].lock)  # the same open file, as a process that was forked meanwhile has it
    held[0].close()
    again = claim()
    assert again.uid == held[0].uid
    for user in (again, held[1]):
        user.close()
    os.close(inherited)


def test_a_user_of_whom_a_process_lives_is_not_given(claim: Callable[[], users.User]) -> None:
    with subprocess.Popen(["sleep", "60"], user=FEW, group=FEW, extra_groups=[]) as left:
        try:
            for _ in range(8):
                user = claim()
                assert user.uid == FEW + 1
                user.close()
        finally:
            left.kill()


def test_a_number_that_somebody_has_is_not_given(claim: Callable[[], users.User], monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """An account, a group, containers of somebody's, a service: each would have a lane's rights, and a lane its."""
    def nobody(number: int) -> object:
        raise KeyError(number)

    def given() -> set[int]:
        held = [claim()]
        with pytest.raises(SandboxFailed, match="all 2 users"):
            held.append(claim())
        for user in held:
            user.close()
        return {user.uid for user in held}

    for module, name, entry in ((pwd, "getpwuid", pwd.struct_passwd(("x",) * 7)), (grp, "getgrgid", grp.struct_group(("x",) * 4))):
        with monkeypatch.context() as patched:
            patched.setattr(module, name, lambda number, entry=entry: entry if number == FEW else nobody(number))
            assert given() == {FEW + 1}, name
    monkeypatch.setattr(pwd, "getpwuid", nobody)
    for which in ("subuid", "subgid"):
        ranges = tmp_path / which
        ranges.write_text(f"# comment\nbroken\nx:y:z\nmallory:{FEW - 10}:11\n")
        with monkeypatch.context() as patched:
            patched.setattr(accounts, "SUBORDINATE", (tmp_path / "none", ranges))
            assert given() == {FEW + 1}, which
    (tmp_path / str(FEW)).touch()
    monkeypatch.setattr(accounts, "DYNAMIC", tmp_path)
    assert given() == {FEW + 1}


def test_directories_of_locks_are_closed_whatever_the_umask_and_not_made_below_somebody_elses(tmp_path: Path) -> None:
    before = os.umask(0)
    try:
        users.claim_user(tmp_path / "run" / "users", FEW, 2).close()
    finally:
        os.umask(before)
    assert stat.S_IMODE((tmp_path / "run").stat().st_mode) == 0o755
    assert stat.S_IMODE((tmp_path / "run" / "users").stat().st_mode) == 0o700
    (tmp_path / "run").chmod(0o777)
    with pytest.raises(PrividError, match="can be written to by other users"):
        users.claim_user(tmp_path / "run" / "users", FEW, 2).close()


def test_broods_have_users_of_their_own_until_nothing_of_them_is_left(make_trial: Callable[..., Trial],
                                                                      monkeypatch: pytest.MonkeyPatch) -> None:
    trial = make_trial(12)
    made: list[Brood] = []
    breed = trial.lane._breed

    def noted(program: Program, count: int) -> Brood:
        made.append(breed(program, count))
        return made[-1]

    assert trial.lane._nurse is not None
    monkeypatch.setattr(trial.lane._nurse, "_breed", noted)
    programs = []
    for name in ("one", "other"):
        path = trial.scratch / name
        programs.append(Program(path, install(f"name = {name!r}\ndef process(chunk): yield {{'n': 1}}\n".encode(), name, path)))
        trial.lane.announce(programs[-1], 2)
    while not all(trial.lane.ready(program) for program in programs):
        time.sleep(0.005)
    assert len({trial.lane.uid, *(brood.uid for brood in made)}) == 3
    assert {Path(f"/proc/{child.seen.pid}").stat().st_uid for child in made[0].children} == {made[0].uid}
    # one whose groups cannot be removed is not let go
    closed: list[int] = []
    close = users.User.close

    def let_go(user: users.User) -> None:
        closed.append(user.uid)
        close(user)

    monkeypatch.setattr(users.User, "close", let_go)
    group = type(made[0]._zygote)
    remove = group.remove
    monkeypatch.setattr(group, "remove", lambda self, patience: remove(self, patience) and self is not made[0]._zygote)
    for program in programs:
        trial.lane.dismiss(program)
    deadline = time.monotonic() + 20
    while made[1].uid not in closed or list((trial.scratch / "lane-12").glob("*-b*")):
        assert time.monotonic() < deadline
        time.sleep(0.01)
    assert closed == [made[1].uid]
    os.close(made[0]._user.lock)

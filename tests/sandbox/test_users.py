"""Users of lanes and broods: nobody has one of whom anything is left."""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from privid.errors import SandboxFailed
from privid.sandbox import users
from privid.sandbox.brood import Brood
from privid.sandbox.executable import install
from privid.sandbox.lane import Program

from .conftest import ORDINARY, Trial

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="only root has users to give")


@pytest.fixture
def few(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[int]:
    """Two users in all, of whom others know nothing."""
    monkeypatch.setattr(users, "_LOCKS", tmp_path / "users")
    monkeypatch.setattr(users, "FIRST_UID", ORDINARY + 1000)
    monkeypatch.setattr(users, "_COUNT", 2)
    yield ORDINARY + 1000


def test_a_user_has_one_holder_at_a_time(few: int) -> None:
    held = [users.claim_user(), users.claim_user()]
    assert {user.uid for user in held} == {few, few + 1}
    with pytest.raises(SandboxFailed, match="all 2 users"):
        users.claim_user()
    held[0].close()
    again = users.claim_user()
    assert again.uid == held[0].uid
    for user in (again, held[1]):
        user.close()


def test_a_user_is_given_back_though_a_fork_of_the_holder_lives(few: int) -> None:
    held = [users.claim_user(), users.claim_user()]
    inherited = os.dup(held[0].lock)  # the same open file, as a process that was forked meanwhile has it
    held[0].close()
    again = users.claim_user()
    assert again.uid == held[0].uid
    for user in (again, held[1]):
        user.close()
    os.close(inherited)


def test_a_user_of_whom_a_process_lives_is_not_given(few: int) -> None:
    with subprocess.Popen(["sleep", "60"], user=few, group=few, extra_groups=[]) as left:
        try:
            for _ in range(8):
                user = users.claim_user()
                assert user.uid == few + 1
                user.close()
        finally:
            left.kill()


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

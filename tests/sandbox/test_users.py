"""Users of lanes and broods: nobody has one of whom anything is left."""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

from privid.errors import SandboxFailed
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

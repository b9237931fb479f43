"""What one analyst learns of another through a camera, as its owner has decided (option visibility): tried on a stack, with two."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import psycopg

from privid.cli.processes import wait_until
from tests.conftest import BRIGHTNESS, RunningStack, write_video

__all__ = ["SETTINGS", "WAYS", "Street", "measure"]

SETTINGS = ("open", "own")

_COUNT = "SELECT count(*) FROM {first}.people WHERE v > 3"
_ELSE = "SELECT count(*) FROM {first}.people WHERE v > 4"


@dataclass
class Street:
    """A camera with one of the settings, and two analysts who may use it; the second also reads the first one's table."""

    stack: RunningStack
    setting: str

    def __post_init__(self) -> None:
        self.camera, self.first, self.second = (f"{name}_{self.setting}" for name in ("lane", "first", "second"))

    def build(self) -> None:
        stack, mark = self.stack, 100 + SETTINGS.index(self.setting)
        write_video(stack.videos / f"{self.camera}.mp4", [mark] * 40)
        stack.camera(self.camera, f"{self.camera}.mp4", rho="1s", epsilon="10", visibility=self.setting)
        for role, timeout in ((self.first, "400ms"), (self.second, "350ms")):  # so that neither runs what is the other's
            stack.run(f"CREATE ROLE {role} LOGIN IN ROLE privid_analyst; CREATE SCHEMA AUTHORIZATION {role}", user="privid")
            stack.run(f"GRANT USAGE ON FOREIGN SERVER {self.camera} TO {role}", user="owner")
            stack.executable("look", BRIGHTNESS, user=role)
            stack.table("people", self.camera, "look", user=role, end="2026-03-01 06:00:04+00", timeout=timeout)
        stack.run(f"GRANT USAGE ON SCHEMA {self.first} TO {self.second}; GRANT SELECT ON people TO {self.second}", user=self.first)
        stack.run(f"SELECT privid.grant_budget('{self.camera}', 'public', 9)", user="owner")

    def tear_down(self) -> None:
        self.stack.run(f"DROP SERVER {self.camera} CASCADE", user="owner")
        for role in (self.first, self.second):
            self.stack.run(f"DELETE FROM privid.executable_store WHERE owner = '{role}'", user="privid")
            self.stack.run(f"DROP OWNED BY {role} CASCADE; DROP ROLE {role}", user="privid")

    def ask(self, role: str, statement: str, epsilon: str = "1") -> list[str]:
        """Its notices."""
        told: list[str] = []
        with self.stack.connect(role) as session:
            session.add_notice_handler(lambda notice: told.append(notice.message_primary or ""))
            session.execute(f"SET privid.epsilon = {epsilon}".encode())
            session.execute(statement.format(first=self.first, second=self.second).encode()).fetchall()
        return told

    def refusal(self, role: str, statement: str, epsilon: str) -> str:
        """All that a refusal says."""
        try:
            self.ask(role, statement, epsilon)
        except psycopg.Error as error:
            return " ".join(filter(None, (error.sqlstate, error.diag.message_primary, error.diag.message_detail, error.diag.message_hint)))
        return ""

    def plan(self, role: str, statement: str) -> dict[str, Any]:
        """What EXPLAIN says of a release."""
        shown = self.stack.run(f"EXPLAIN (FORMAT JSON) {statement.format(first=self.first)}", user=role, settings={"privid.epsilon": "1"})
        found: dict[str, Any] = next(_releases(shown[0][0]))
        found["Hints"] = [hint for hint in found.get("Hints", []) if "too busy" not in hint]  # which the machine is, or not
        return found

    def gap(self) -> bool:
        """Whether the second analyst's next release has another number than the one after its last."""
        last = f"SELECT max(id) FROM privid.releases WHERE camera = '{self.camera}'"
        (before,), = self.stack.run(last, user=self.second)
        self.ask(self.second, "SELECT count(*) FROM {second}.people WHERE v > 2", "0.1")
        return self.stack.run(last, user=self.second) != [(before + 1,)]

    def idle(self) -> bool:
        return self.stack.run("SELECT count(*) FROM privid.timetable", user="privid") == [(0,)]

    def rows(self, statement: str) -> Callable[[], str]:
        return lambda: str(self.stack.run(statement.format(camera=self.camera), user=self.second))


def _releases(plan: Any) -> Any:
    if isinstance(plan, dict):
        if "Privid" in plan:
            yield plan["Privid"]
        plan = list(plan.values())
    if isinstance(plan, list):
        for part in plan:
            yield from _releases(part)


#: where the second analyst looks before and after the first one's release, and what stands there
WAYS: Mapping[str, Callable[[Street], Callable[[], str]]] = {
    "`privid.budget`": lambda s: s.rows("SELECT begins, ends, frames, remaining FROM privid.budget WHERE camera = '{camera}' ORDER BY 1"),
    "`privid.available`": lambda s: s.rows("SELECT * FROM privid.available('{camera}', 9.5)"),
    "`privid.exposure`: what was released so far": lambda s: s.rows("SELECT * FROM privid.exposure('{camera}', '5s', 2)"),
    "`privid.shares`: what is spent of a share of `public`": lambda s: s.rows("SELECT role, epsilon, spent, remaining FROM privid.shares "
                                                                              "WHERE camera = '{camera}'"),
    "`privid.releases`": lambda s: s.rows("SELECT * FROM privid.releases WHERE camera = '{camera}'"),
    "`privid.failures`": lambda s: s.rows("SELECT * FROM privid.failures WHERE camera = '{camera}'"),
    "`privid.cameras`, `privid.masks`, `privid.regions`": lambda s: s.rows(
        "SELECT c::text FROM privid.cameras c UNION ALL SELECT m::text FROM privid.masks m UNION ALL SELECT r::text FROM privid.regions r"),
    "`privid.executables`, `privid.quotas`": lambda s: s.rows("SELECT e::text FROM privid.executables e UNION ALL SELECT q::text "
                                                              "FROM privid.quotas q"),
    "EXPLAIN: Budget Remaining, Share Remaining": lambda s: lambda: str([s.plan(s.second, _ELSE)[key] for key in (
        "Budget Remaining", "Charges")]),
    "EXPLAIN: Slots, which chunks have been run": lambda s: lambda: str(s.plan(s.second, _ELSE)["Slots"]),
    "EXPLAIN: Seconds, on a machine that rests": lambda s: lambda: f"{s.plan(s.second, _ELSE)['Seconds']:.2f}",
    "EXPLAIN: Answered Before": lambda s: lambda: str(s.plan(s.second, _COUNT)["Answered Before"]),
    "EXPLAIN: hint at a program that has not been run before": lambda s: lambda: str(s.plan(s.second, _ELSE)["Hints"]),
    "EXPLAIN: the rest": lambda s: lambda: json.dumps({key: value for key, value in s.plan(s.second, _ELSE).items() if key not in (
        "Budget Remaining", "Charges", "Slots", "Seconds", "Answered Before", "Hints", "Text")}, sort_keys=True),
}


def measure(street: Street) -> dict[str, bool]:
    """By way, whether the second analyst saw that the first one did something."""
    assert wait_until(street.idle, 60)
    looks = {way: made(street) for way, made in WAYS.items()}
    street.stack.run(f"SELECT count(*) FROM {street.second}.people", user=street.second)  # that something of the second's own is there
    assert wait_until(street.idle, 60)
    before = {way: look() for way, look in looks.items()}
    seen = {"`privid.progress`, while it runs": _watched(street)}
    assert wait_until(street.idle, 60)
    seen |= {way: look() != before[way] for way, look in looks.items()}
    seen["numbers of one's own releases: how many others there were, of all cameras"] = street.gap()
    seen["an answer that is given again, at no charge"] = any("reused" in told for told in street.ask(street.second, _COUNT))
    # what is refused, where the first one has left less than the second asks for
    street.ask(street.first, "SELECT count(*) FROM {first}.people WHERE v > 5", "6")
    refused = street.refusal(street.second, "SELECT count(*) FROM {second}.people WHERE v > 6", "6")
    seen["a refusal: that others have consumed what one asks for"] = bool(refused)
    seen["a refusal: how much they have left, and where"] = "remaining" in refused or "between" in refused
    return seen


def _watched(street: Street) -> bool:
    """Whether the second analyst sees a job of the first one's while it is under way; the superuser does."""
    look = f"SELECT count(*) FROM privid.progress WHERE camera = '{street.camera}'"
    with ThreadPoolExecutor(1) as pool, street.stack.connect("privid") as operator, street.stack.connect(street.second) as other:
        running = pool.submit(street.ask, street.first, _COUNT)
        while operator.execute(look.encode()).fetchone() == (0,):
            assert not running.done(), running.result()
            time.sleep(0.01)
        theirs = other.execute(look.encode()).fetchone()
        assert operator.execute(look.encode()).fetchone() != (0,), "the job was over before anybody could look"
        running.result()
    return theirs != (0,)

"""A city at random: two owners and three analysts do whatever they like, and a small model of the rules says what each may and sees.

The model knows nothing of how the rules are kept: it has sets of what was granted. After each step everybody looks at everything, and sees
what the model says; a step that the model forbids is refused, and one that it allows is not.
"""

from __future__ import annotations

import contextlib
import random
import shutil
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import psycopg

from tests.conftest import LEVELS, STARTS, RunningStack, write_video

__all__ = ["FAULTS", "Disagreement", "RandomCity", "planted"]

OWNERS, ANALYSTS = ("olga", "oscar"), ("ana", "ben", "cleo")
#: everybody's look at everything; what is about other cities on the stack is left out
_LOOK = """
SELECT jsonb_build_object(
  'cameras', (SELECT coalesce(jsonb_agg(concat_ws(' ', camera, owner, epsilon, source) ORDER BY camera), '[]')
              FROM privid.cameras WHERE camera ~ %(mine)s),
  'masks', (SELECT coalesce(jsonb_agg(concat_ws(' ', camera, name) ORDER BY camera, name), '[]')
            FROM privid.masks WHERE camera ~ %(mine)s),
  'budget', (SELECT coalesce(jsonb_agg(x ORDER BY x), '[]') FROM (
               SELECT concat_ws(' ', camera, min(remaining)::float8) AS x FROM privid.budget WHERE camera ~ %(mine)s GROUP BY camera) x),
  'folders', (SELECT coalesce(jsonb_agg(concat_ws(' ', role, folder) ORDER BY role, folder), '[]')
              FROM privid.folders WHERE role ~ %(mine)s),
  'consents', (SELECT coalesce(jsonb_agg(concat_ws(' ', owner, role) ORDER BY owner, role), '[]')
               FROM privid.consents WHERE role ~ %(mine)s),
  'shares', (SELECT coalesce(jsonb_agg(concat_ws(' ', camera, role, epsilon) ORDER BY camera, role), '[]')
             FROM privid.shares WHERE camera ~ %(mine)s),
  'releases', (SELECT coalesce(jsonb_object_agg(x.key, x.n), '{}') FROM (
                 SELECT concat_ws(' ', who, camera) AS key, count(*) AS n FROM privid.releases WHERE camera ~ %(mine)s GROUP BY 1) x),
  'failures', (SELECT coalesce(jsonb_agg(DISTINCT f.camera), '[]') FROM privid.failures f WHERE f.camera ~ %(mine)s),
  'quotas', (SELECT coalesce(jsonb_agg(concat_ws(' ', role, quota)), '[]') FROM privid.quotas WHERE resource = 'jobs'))"""
_HISTORY = "SELECT coalesce(jsonb_agg(DISTINCT camera), '[]') FROM privid.history WHERE camera ~ %(mine)s"


class Disagreement(AssertionError):
    """Between the stack and the model."""


@dataclass
class Camera:
    owner: str
    folder: str
    footage: str
    epsilon: int
    users: set[str] = field(default_factory=set)
    shares: dict[str, int] = field(default_factory=dict)
    #: from the first share on, who has none consumes nothing
    shared: bool = False
    masks: dict[str, bool] = field(default_factory=dict)
    owners: set[str] = field(default_factory=set)


class RandomCity:
    """Names have a mark of their own; two owners' folders have copies of the same two recordings."""

    def __init__(self, stack: RunningStack, seed: int, mark: str) -> None:
        self.stack, self.chance, self.mark = stack, random.Random(seed), mark
        self.people = {name: f"{name}_{mark}" for name in (*OWNERS, *ANALYSTS)}
        self.done, self.number = Counter[str](), 0
        #: the model
        self.folders: set[tuple[str, str]] = set()
        self.cameras: dict[str, Camera] = {}
        self.gone: dict[str, set[str]] = {}
        self.accounts: dict[str, str] = {}
        self.spent: Counter[str] = Counter()
        self.consents: set[tuple[str, str]] = set()
        self.members: set[str] = set(ANALYSTS)
        self.tables: dict[tuple[str, str], str | None] = {}
        self.releases: Counter[tuple[str, str]] = Counter()
        self.jobs: dict[str, int] = {}
        self.history: dict[str, set[str]] = {}

    def build(self) -> None:
        for owner in OWNERS:
            self._admin(f"CREATE ROLE {self.people[owner]} LOGIN IN ROLE privid_owner")
            (self.stack.videos / self.people[owner]).mkdir()
        for number in range(2):
            chance = random.Random(f"{self.mark} {number}")
            levels = [chance.randrange(200) for _ in LEVELS[:40]]
            first = write_video(self.stack.videos / self.people["olga"] / f"{number}.mp4", levels)
            shutil.copy(first, self.stack.videos / self.people["oscar"] / f"{number}.mp4")
        for analyst in ANALYSTS:
            self._admin(f"CREATE ROLE {self.people[analyst]} LOGIN IN ROLE privid_analyst")
            self._admin(f"CREATE SCHEMA {self.people[analyst]} AUTHORIZATION {self.people[analyst]}")
            self.stack.executable("one", "#!/bin/sh\necho '{\"v\": 1}'\n", user=self.people[analyst])
        self.sessions = {name: self.stack.connect(role) for name, role in self.people.items()}
        for owner in OWNERS:  # so that there is something from the first step on
            self._admin(f"SELECT privid.grant_folder('{self.people[owner]}', '{self.people[owner]}')")
            self.folders.add((owner, owner))
            self._make(owner, owner, str(OWNERS.index(owner)), 100)
        for name, camera in self.cameras.items():
            for analyst in ANALYSTS:
                self._try(camera.owner, True, "grant usage", f"GRANT USAGE ON FOREIGN SERVER {name} TO {self.people[analyst]}")
                camera.users.add(analyst)

    def tear_down(self) -> None:
        for session in self.sessions.values():
            session.close()
        for camera in self.cameras:
            self._admin(f"DROP SERVER {camera} CASCADE")
        for role in self.people.values():
            self._admin(f"DELETE FROM privid.executable_store WHERE owner = '{role}'")
            self._admin(f"DELETE FROM privid.folder_grants WHERE role = '{role}'")
            self._admin(f"DROP OWNED BY {role} CASCADE; DROP ROLE {role}")

    def step(self) -> None:
        """One of somebody's, and everybody's look."""
        self.number += 1
        steps: dict[Callable[[], None], int] = {
            self._folder: 2,
            self._create: 3,
            self._drop: 1,
            self._alter: 1,
            self._use: 3,
            self._share: 2,
            self._consent: 2,
            self._mask: 2,
            self._quota: 1,
            self._role: 1,
            self._table: 5,
            self._ask: 6,
            self._raw: 1,
            self._give: 1,
        }
        self.chance.choices(list(steps), list(steps.values()))[0]()
        self.look()

    # What is tried

    def _admin(self, statement: str) -> None:
        self.stack.run(statement, user="privid")

    def _try(self, who: str, allowed: bool, what: str, statement: str, *values: Any) -> bool:
        """As somebody; whether it was done, which must be as the model says."""
        refused = None
        try:
            self.sessions[who].execute(statement.encode(), values or None)
        except psycopg.Error as error:
            refused = f"{error.sqlstate} {error}"
            if (
                error.sqlstate is None
                or (error.sqlstate[:2] in ("57", "58", "XX", "08", "42")
                and error.sqlstate not in ("42501", "42704", "42710"))
            ):
                raise Disagreement(f"step {self.number}: {who}: {statement} {values}: {refused}") from None
        if (refused is None) != allowed:
            raise Disagreement(
                f"step {self.number}: {who} {'may' if allowed else 'may not'} {what}: {statement} {values}: {refused or 'done'}"
            )
        self.done[f"{what} {'done' if allowed else 'refused'}"] += 1
        return allowed

    def _owner(self) -> str:
        return self.chance.choice(OWNERS)

    def _camera(self) -> str | None:
        return self.chance.choice(sorted(self.cameras)) if self.cameras else None

    def _anybody(self, favoured: str) -> str:
        """Mostly who may, as things stand."""
        return favoured if self.chance.random() < 0.6 else self.chance.choice((*OWNERS, *ANALYSTS))

    def _folder(self) -> None:
        role, folder = self._owner(), self._owner()
        if self.chance.random() < 0.3:
            who = self.chance.choice((*OWNERS, *ANALYSTS))
            self._try(who, False, "grant a folder", "SELECT privid.grant_folder(%s, %s)", self.people[who], self.people[folder])
        elif (role, folder) not in self.folders:
            self._admin(f"SELECT privid.grant_folder('{self.people[role]}', '{self.people[folder]}')")
            self.folders.add((role, folder))
        elif self.chance.random() < 0.5:
            self._admin(f"SELECT privid.revoke_folder('{self.people[role]}', '{self.people[folder]}')")
            self.folders.discard((role, folder))

    def _uses(self, owner: str, footage: str) -> bool:
        return self.accounts.get(footage, owner) == owner or (footage, owner) in self.consents

    def _create(self) -> None:
        self._make(self._owner(), self._owner(), str(self.chance.randrange(2)), self.chance.choice([100, 200]))

    def _make(self, owner: str, folder: str, footage: str, epsilon: int) -> None:
        name = f"c{self.number}_{footage}_{self.mark}"
        # who shares an account promises no less than its owner does
        most = max(
            (c.epsilon for c in self.cameras.values() if c.footage == footage and c.owner == self.accounts.get(footage)), default=epsilon
        )
        if (
            self.accounts.get(footage, owner) != owner
            and (footage, owner) in self.consents
            and not any(c.footage == footage and c.owner == self.accounts[footage] for c in self.cameras.values())
        ):
            return  # what it may promise then is another page's
        allowed = (
            (owner, folder) in self.folders
            and self._uses(owner, footage)
            and (self.accounts.get(footage, owner) == owner or epsilon <= most)
        )
        if self._try(
            owner,
            allowed,
            "create a camera",
            f"CREATE SERVER {name} FOREIGN DATA WRAPPER privid OPTIONS (source "
            f"'{self.people[folder]}/{footage}.mp4', starts '{STARTS}', rho '1s', k '1', epsilon '{epsilon}', quantum '20ms')",
        ):
            self.cameras[name] = Camera(owner, folder, footage, epsilon, owners={owner})
            self.accounts.setdefault(footage, owner)
            self.history[name] = {owner}

    def _drop(self) -> None:
        if (name := self._camera()) and len(self.cameras) > 2 + self.chance.randrange(3):
            who = self._anybody(self.cameras[name].owner)
            if self._try(who, who == self.cameras[name].owner, "drop a camera", f"DROP SERVER {name} CASCADE"):
                self.gone[name] = self.cameras.pop(name).owners
                self.tables = {key: mask for key, mask in self.tables.items() if key[1] != name}

    def _alter(self) -> None:
        if name := self._camera():
            who, camera = self._anybody(self.cameras[name].owner), self.cameras[name]
            epsilon = self.chance.choice([100, 200])
            mine = who == camera.owner
            if mine and not ((who, camera.folder) in self.folders and self.accounts[camera.footage] == who):
                return  # the promises of shared accounts are tests/spine/test_owners.py's
            if self._try(who, mine, "alter a camera", f"ALTER SERVER {name} OPTIONS (SET epsilon '{epsilon}')"):
                camera.epsilon = epsilon

    def _give(self) -> None:
        """A superuser gives a camera away, whose new owner must be granted its folder; nobody else can."""
        if name := self._camera():
            camera, who = self.cameras[name], self.chance.choice((*OWNERS, *ANALYSTS))
            other = OWNERS[1 - OWNERS.index(camera.owner)]
            self._try(who, False, "give a camera away", f"ALTER SERVER {name} OWNER TO {self.people[other]}")

    def _use(self) -> None:
        if name := self._camera():
            camera, analyst = self.cameras[name], self.chance.choice(ANALYSTS)
            grant = analyst not in camera.users or self.chance.random() < 0.3
            verb = ("GRANT", "TO") if grant else ("REVOKE", "FROM")
            who = self._anybody(camera.owner)
            if who != camera.owner:  # PostgreSQL refuses, or warns and does nothing
                session = self.sessions[who]
                before = self.stack.run("SELECT srvacl::text FROM pg_foreign_server WHERE srvname = %s", name, user="privid")
                with contextlib.suppress(psycopg.errors.InsufficientPrivilege):
                    session.execute(f"{verb[0]} USAGE ON FOREIGN SERVER {name} {verb[1]} {self.people[analyst]}".encode())
                if self.stack.run("SELECT srvacl::text FROM pg_foreign_server WHERE srvname = %s", name, user="privid") != before:
                    raise Disagreement(f"step {self.number}: {who} changed rights on {name}")
                return
            self._try(who, True, "grant usage", f"{verb[0]} USAGE ON FOREIGN SERVER {name} {verb[1]} {self.people[analyst]}")
            (camera.users.add if grant else camera.users.discard)(analyst)

    def _share(self) -> None:
        if name := self._camera():
            camera, who = self.cameras[name], self._anybody(self.cameras[name].owner)
            role = self.chance.choice(ANALYSTS)
            if role in camera.shares and self.chance.random() < 0.5:
                if self._try(who, who == camera.owner, "revoke a share", "SELECT privid.revoke_budget(%s, %s)", name, self.people[role]):
                    del camera.shares[role]
            elif self._try(who, who == camera.owner, "grant a share", "SELECT privid.grant_budget(%s, %s, 60)", name, self.people[role]):
                camera.shares[role], camera.shared = 60, True

    def _consent(self) -> None:
        if name := self._camera():
            camera, who, other = self.cameras[name], self._anybody(self.cameras[name].owner), self._owner()
            allowed = who == camera.owner == self.accounts[camera.footage]
            if (camera.footage, other) in self.consents:
                if self._try(who, allowed, "withdraw consent", "SELECT privid.withdraw_consent(%s, %s)", name, self.people[other]):
                    self.consents.discard((camera.footage, other))
                    self.history[name].add(other)
            elif self._try(who, allowed, "consent", "SELECT privid.consent(%s, %s)", name, self.people[other]):
                self.consents.add((camera.footage, other))
                self.history[name].add(other)

    def _mask(self) -> None:
        if name := self._camera():
            camera, who = self.cameras[name], self._anybody(self.cameras[name].owner)
            active = sorted(mask for mask, there in camera.masks.items() if there)
            if active and self.chance.random() < 0.4:
                if self._try(who, who == camera.owner, "withdraw a mask", "SELECT privid.drop_mask(%s, %s)", name, active[0]):
                    camera.masks[active[0]] = False
            elif self._try(
                who,
                who == camera.owner == self.accounts[camera.footage],  # over another's people there is nothing to promise
                "offer a mask",
                "SELECT privid.create_mask(%s, %s, ARRAY[polygon '((0,0),(9,0),(9,9))'], '1s')",
                name,
                f"m{self.number}",
            ):
                camera.masks[f"m{self.number}"] = True

    def _quota(self) -> None:
        who = self.chance.choice((*OWNERS, *ANALYSTS))
        self._try(who, False, "set a quota", "SELECT privid.set_quota(%s, jobs => 1000)", self.people[who])
        self.jobs[who] = self.chance.randrange(5, 30)
        self._admin(f"SELECT privid.set_quota('{self.people[who]}', jobs => {self.jobs[who]})")

    def _role(self) -> None:
        """Analysts come and go."""
        who = self.chance.choice(ANALYSTS)
        self._try(who, False, "make oneself an owner", f"GRANT privid_owner TO {self.people[who]}")
        self._try(who, False, "become another", f"SET ROLE {self.people[self._owner()]}")
        self._admin(
            f"{'REVOKE' if who in self.members else 'GRANT'} privid_analyst {'FROM' if who in self.members else 'TO'} {self.people[who]}"
        )
        self.members ^= {who}
        # who has USAGE may go on asking: it is REVOKE USAGE that ends that
        self._try(who, who in self.members, "upload", "SELECT privid.upload('two', 'def process(chunk): yield {}')")

    def _table(self) -> None:
        if name := self._camera():
            who, camera = self.chance.choice(ANALYSTS), self.cameras[name]
            if (who, name) in self.tables:
                self._try(who, True, "drop a table", f"DROP FOREIGN TABLE {self.people[who]}.t_{name}")
                del self.tables[who, name]
                return
            # the engine looks at the definition, too: a mask must be there, and the folder and the account the owner's
            mask = self.chance.choice([None, *sorted(camera.masks)])
            allowed = who in camera.users and (mask is None or camera.masks[mask]) and self._served(camera)
            options = f"executable 'one', begin '{STARTS}', \"end\" '2026-03-01 06:00:02+00', chunk '1s', timeout '60ms', max_rows '1'"
            if self._try(
                who,
                allowed,
                "create a table",
                f"CREATE FOREIGN TABLE {self.people[who]}.t_{name} (chunk timestamptz, v float8 DEFAULT 0) "
                f"SERVER {name} OPTIONS ({options}" + (f", mask '{mask}')" if mask else ")"),
            ):
                self.tables[who, name] = mask

    def _served(self, camera: Camera) -> bool:
        return (camera.owner, camera.folder) in self.folders and self._uses(camera.owner, camera.footage)

    def _ask(self) -> None:
        if not self.tables:
            return
        of, name = self.chance.choice(sorted(self.tables))
        camera, who = self.cameras[name], of if self.chance.random() < 0.8 else self.chance.choice((*OWNERS, *ANALYSTS))
        mask = self.tables[of, name]
        allowed = (
            who == of
            and who in camera.users
            and (mask is None or camera.masks[mask])
            and self._served(camera)
            and (not camera.shared or who in camera.shares)
        )
        query, explain = f"SELECT count(*) FROM {self.people[of]}.t_{name}", self.chance.random() < 0.3
        self.sessions[who].execute(b"SET privid.epsilon = 0.5; SET privid.reuse = off")
        if explain:
            allowed = allowed or (
                who == of and who in camera.users and (mask is None or camera.masks[mask]) and self._served(camera)
            )
            self._try(who, allowed, "preview", f"EXPLAIN {query}")
        elif self._try(who, allowed, "ask", query):
            self.releases[who, name] += 1
            self.spent[camera.footage] += 1

    def _raw(self) -> None:
        """No owner was given a table of an analyst's; no analyst reads rows of any."""
        if self.tables:
            of, name = self.chance.choice(sorted(self.tables))
            who = self.chance.choice((of, *OWNERS))
            self._try(who, False, "read raw rows", f"SELECT * FROM {self.people[of]}.t_{name}")
            self._try(of, False, "switch raw on", "SET privid.raw = on")

    # What is seen

    def look(self) -> None:
        mine = f"_{self.mark}$"
        for who, session in self.sessions.items():
            row = session.execute(_LOOK, {"mine": mine}).fetchone()
            assert row is not None
            seen, expected = row[0], self._expected(who)
            seen["failures"] = [camera for camera in seen["failures"] if camera not in expected["failures"]]
            expected["failures"] = []  # they are posted later; others' never are
            if who in OWNERS:
                row = session.execute(_HISTORY, {"mine": mine}).fetchone()
                assert row is not None
                seen["history"] = sorted(row[0])
                expected["history"] = sorted(camera for camera, readers in self.history.items() if who in readers)
            for what, value in expected.items():
                if seen[what] != value:
                    raise Disagreement(f"step {self.number}: {who} sees of {what}: {seen[what]}, but should see {value}")

    def _expected(self, me: str) -> dict[str, Any]:
        role, cameras = self.people, sorted(self.cameras.items())
        owned = {name for name, camera in cameras if camera.owner == me} | {name for name, owners in self.gone.items() if me in owners}
        releases = {f"{role[who]} {name}": count for (who, name), count in self.releases.items() if me == who or name in owned}
        return {
            "cameras": [
                f"{name} {role[c.owner]} {c.epsilon}" + (f" {role[c.folder]}/{c.footage}.mp4" if c.owner == me else "")
                for name, c in cameras
            ],
            "masks": [f"{name} {mask}" for name, c in cameras for mask, there in sorted(c.masks.items()) if there],
            "budget": sorted(f"{name} {c.epsilon - 0.5 * self.spent[c.footage]:g}" for name, c in cameras),
            "folders": [f"{role[who]} {role[folder]}" for who, folder in sorted(self.folders) if who == me],
            "consents": sorted(
                f"{role[self.accounts[footage]]} {role[who]}" for footage, who in self.consents if me in (self.accounts[footage], who)
            ),
            "shares": [
                f"{name} {role[who]} {share}" for name, c in cameras for who, share in sorted(c.shares.items()) if me in (who, c.owner)
            ],
            "releases": releases,
            "failures": sorted(owned),
            "quotas": [f"{role[me]} {self.jobs.get(me, 32)}"],
        }


#: what is wrong -> the function that is replaced, what stands in it (all of it, unless that is said), and what stands there instead.
#: Who gives shares is not among them, because row security keeps that as well.
FAULTS = {
    "everybody acts for everybody": ("acts_for(text,text)", "", "SELECT true"),
    "every folder is everybody's": ("in_folder(text,text)", "", "SELECT true"),
    "every camera is everybody's": ("check_camera(text)", "", "BEGIN END"),
    "every account is everybody's": ("owns_account(bigint,text)", "", "SELECT true"),
    "releases are everybody's": ("read_releases()", "WHERE l.role", "WHERE true OR l.role"),
    "history is everybody's": ("read_history()", "WHERE h.readers", "WHERE true OR h.readers"),
    "shares are seen by everybody": ("read_shares()", "(g.role", "(true OR g.role"),
    "failures are seen by everybody": ("read_failures()", "WHERE pg_has_role", "WHERE true OR pg_has_role"),
    "quotas are seen by everybody": ("read_quotas()", "WHERE who.rolname", "WHERE who.rolcanlogin OR who.rolname"),
}


@contextlib.contextmanager
def planted(stack: RunningStack, fault: tuple[str, str, str]) -> Iterator[None]:
    """As long as the block lasts."""
    name, old, new = fault
    (found,), = stack.run(f"SELECT pg_get_functiondef('privid.{name}'::regprocedure)", user="privid")
    head, body, tail = found.split("$function$")
    assert old in body, name
    try:
        stack.run("$function$".join([head, body.replace(old, new) if old else new, tail]), user="privid")
        yield
    finally:
        stack.run(found, user="privid")

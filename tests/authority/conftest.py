"""The world of the tests of holes that were found."""

from __future__ import annotations

import random
from collections.abc import Iterator

import pytest

from tests.authority.found_owners import ANA, ANNA, BERT, LOT, MAL, NOBODY, STREET, TEAM, Found
from tests.conftest import RunningStack, write_video


@pytest.fixture(scope="module")
def found(stack: RunningStack) -> Iterator[Found]:
    world = Found(stack)
    roles = {ANNA: "IN ROLE privid_owner", BERT: "IN ROLE privid_owner", TEAM: "IN ROLE privid_owner", ANA: "IN ROLE privid_analyst",
             MAL: "IN ROLE privid_analyst", NOBODY: ""}
    for role, how in roles.items():
        stack.run(f"CREATE ROLE {role} LOGIN {how}", user="privid")
    stack.run(f"GRANT {TEAM} TO {BERT}", user="privid")
    for owner, name, analyst in ((ANNA, STREET, ANA), (BERT, LOT, MAL)):
        (stack.videos / owner).mkdir(exist_ok=True)
        write_video(stack.videos / owner / f"{name}.mp4", [random.Random(name).randrange(200) for _ in range(20)])
        for role in (owner, TEAM):
            stack.run("SELECT privid.grant_folder(%s, %s)", role, owner, user="privid")
        world.camera(owner, name, name)
        world.run(owner, f"GRANT USAGE ON FOREIGN SERVER {name} TO {analyst}")
        stack.run(f"CREATE SCHEMA AUTHORIZATION {analyst}", user="privid")
        stack.executable("one", "#!/bin/sh\necho '{\"v\": 1}'\n", user=analyst)
        stack.table("t", name, "one", user=analyst, end="2026-03-01 06:00:01+00", timeout="200ms")
        world.run(analyst, "SELECT count(*) FROM t")
    yield world
    for name, in stack.run("SELECT srvname FROM pg_foreign_server WHERE srvname LIKE 'found\\_%%'", user="privid"):
        stack.run(f"DROP SERVER {name} CASCADE", user="privid")
    for role in roles:
        stack.run("DELETE FROM privid.executable_store WHERE owner = %s", role, user="privid")
        stack.run(f"DROP OWNED BY {role} CASCADE", user="privid")
    stack.run(f"DROP ROLE {', '.join(roles)}", user="privid")

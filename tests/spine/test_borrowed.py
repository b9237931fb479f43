"""Code that runs in a command of somebody else, such as a superuser's ANALYZE, has that role's session and none of its rights."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import psycopg
import pytest

from tests.conftest import RunningStack, write_video

SHAPES = '{"((0,0),(64,0),(64,10),(0,10))"}'

#: a table of a role with a function in an index, which ANALYZE of anybody evaluates with the rights of the table's owner
TRAP = """
CREATE SCHEMA {role} AUTHORIZATION {role}; SET ROLE {role};
CREATE TABLE {role}.told (what text);
CREATE FUNCTION {role}.act() RETURNS void LANGUAGE plpgsql AS $$
BEGIN
  {act};
  INSERT INTO {role}.told VALUES ('done');
EXCEPTION WHEN OTHERS THEN INSERT INTO {role}.told VALUES (sqlerrm);
END $$;
CREATE FUNCTION {role}.trap(int) RETURNS int LANGUAGE plpgsql IMMUTABLE AS $$
BEGIN IF current_setting('role') = 'none' THEN PERFORM {role}.act(); END IF; RETURN $1; END $$;
CREATE TABLE {role}.rows (x int); INSERT INTO {role}.rows SELECT generate_series(1, 100);
CREATE INDEX ON {role}.rows ({role}.trap(x)); RESET ROLE
"""


@pytest.fixture
def mallory(stack: RunningStack) -> Iterator[str]:
    """Another owner of cameras."""
    stack.run("CREATE ROLE mallory LOGIN IN ROLE privid_owner; SELECT privid.grant_folder('mallory', '.')", user="privid")
    yield "mallory"
    stack.run("DROP OWNED BY mallory CASCADE; DROP ROLE mallory", user="privid")


def spring(stack: RunningStack, role: str, act: str) -> set[str]:
    """What the role's code says of its act, in a superuser's ANALYZE."""
    stack.run(TRAP.format(role=role, act=act), user="privid")
    stack.run(f"ANALYZE {role}.rows", user="privid")
    return {str(what) for (what,) in stack.run(f"SELECT what FROM {role}.told", user="privid")}


def test_an_owner_puts_no_mask_on_a_camera_of_another(stack: RunningStack, mallory: str, unique: Callable[[str], str]) -> None:
    name = unique("borrowed")
    stack.camera(name, "levels.mp4", rho="1s")
    said = spring(stack, mallory, f"PERFORM privid.create_mask('{name}', 'none', '{SHAPES}'::polygon[], '0s')")
    assert said == {f'must be owner of camera "{name}"'}
    assert stack.run("SELECT count(*) FROM privid.masks WHERE camera = %s", name) == [(0,)]


def test_a_policy_that_an_owners_own_index_changes_is_in_history(stack: RunningStack, mallory: str, unique: Callable[[str], str]) -> None:
    name = unique("noted")
    write_video(stack.videos / f"{name}.mp4", [7] * 20)  # its account goes along with the camera
    stack.camera(name, f"{name}.mp4", rho="1s")
    stack.run(f"ALTER SERVER {name} OWNER TO {mallory}", user="privid")
    stack.run(f"GRANT USAGE ON FOREIGN DATA WRAPPER privid TO {mallory}", user="privid")
    assert spring(stack, mallory, f"SET LOCAL check_function_bodies = off; ALTER SERVER {name} OPTIONS (SET epsilon '7')") == {"done"}
    entries = stack.run("SELECT event, details->'epsilon'->>'to' FROM privid.history WHERE camera = %s", name, user=mallory)
    assert ("altered", "7") in entries


def test_dropping_what_a_stranger_owns_holds_up_nobody(stack: RunningStack, mallory: str, unique: Callable[[str], str]) -> None:
    name = unique("free")
    stack.camera(name, "levels.mp4", rho="1s")
    with stack.connect(mallory, autocommit=False) as stranger:
        with pytest.raises(psycopg.errors.InsufficientPrivilege):  # it would write rows of cameras, and hold them until it ends
            stranger.execute(b"DROP OWNED BY mallory")
        stack.run(f"ALTER SERVER {name} OPTIONS (SET epsilon '3')", user="owner", settings={"lock_timeout": "2s"})
    with stack.connect(mallory) as stranger, pytest.raises(psycopg.errors.InsufficientPrivilege):
        stranger.execute(f"DROP SERVER {name}".encode())

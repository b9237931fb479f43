"""Who cannot give a camera away does not keep its owner from changing it.

Found by attack: PostgreSQL writes a server's row for a GRANT that grants nothing, and for DROP OWNED, and its owner waits for that.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest
from psycopg import errors

from tests.conftest import RunningStack


@pytest.fixture
def camera(stack: RunningStack, unique: Callable[[str], str]) -> str:
    name = unique("granted")
    stack.camera(name, "levels.mp4")
    return name


@pytest.mark.parametrize("statement", ["GRANT USAGE ON FOREIGN SERVER {} TO analyst", "REVOKE USAGE ON FOREIGN SERVER {} FROM public",
                                       "GRANT ALL ON FOREIGN SERVER {} TO analyst WITH GRANT OPTION"])
def test_who_has_no_grant_option_writes_no_row_of_a_camera(stack: RunningStack, camera: str, statement: str) -> None:
    with stack.connect(autocommit=False) as analyst:
        with pytest.raises(errors.InsufficientPrivilege, match=f"permission denied for foreign server {camera}"):
            analyst.execute(statement.format(camera).encode())
        stack.run(f"REVOKE USAGE ON FOREIGN SERVER {camera} FROM analyst", user="owner", settings={"lock_timeout": "5s"})


def test_who_may_grant_nothing_writes_no_row_of_the_database(stack: RunningStack) -> None:
    with stack.connect(autocommit=False) as analyst:
        for statement in ("GRANT CONNECT ON DATABASE privid TO PUBLIC", "REVOKE TEMP ON DATABASE privid FROM owner"):
            with pytest.raises(errors.InsufficientPrivilege, match="permission denied for database privid"), analyst.transaction():
                analyst.execute(statement.encode())


def test_who_may_pass_a_right_on_does(stack: RunningStack, camera: str) -> None:
    stack.run(f"GRANT USAGE ON FOREIGN SERVER {camera} TO analyst WITH GRANT OPTION", user="owner")
    stack.run(f"GRANT USAGE ON FOREIGN SERVER {camera} TO privid_analyst")
    stack.run(f"REVOKE USAGE ON FOREIGN SERVER {camera} FROM analyst CASCADE", user="owner")


def test_a_role_drops_what_it_owns_by_name(stack: RunningStack, camera: str, unique: Callable[[str], str]) -> None:
    role = unique("leaver")
    stack.run(f"CREATE ROLE {role} LOGIN IN ROLE privid_analyst", user="privid")
    stack.run(f"GRANT USAGE ON FOREIGN SERVER {camera} TO {role}", user="owner")
    with stack.connect(role, autocommit=False) as leaver:
        leaver.execute("CREATE TEMP TABLE waited_for ()")
        for statement in (f"DROP OWNED BY {role}", f"DO 'BEGIN DROP OWNED BY {role}; END'"):
            with pytest.raises(errors.InsufficientPrivilege, match="must be superuser to run DROP OWNED"), leaver.transaction():
                leaver.execute(statement.encode())
        stack.run(f"REVOKE USAGE ON FOREIGN SERVER {camera} FROM {role}", user="owner", settings={"lock_timeout": "5s"})
    stack.run(f"DROP OWNED BY {role}; DROP ROLE {role}", user="privid")

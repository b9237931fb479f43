"""What a request says of cameras and roles is believed only where the catalog says the same."""

from __future__ import annotations

from typing import Any

import pytest

from privid.engine.current import Stated
from privid.errors import OutOfDate
from tests.engine.client import Refused
from tests.engine.conftest import House

LEVELS = [0] * 10 + [10] * 30


def ask(house: House, kind: str, request: dict[str, Any]) -> str:
    """The SQLSTATE of a refusal, or that there is none."""
    with house.engine.connect() as client:
        try:
            client.ask(kind, request)
        except Refused as refused:
            return refused.sqlstate
    return "00000"


def other_server(request: dict[str, Any], **changes: Any) -> dict[str, Any]:
    """The same request, which takes the camera for another one."""
    table = request["tables"][0]
    return {**request, "tables": [{**table, "server": {**table["server"], **changes}}]}


@pytest.mark.parametrize("kind", ["X", "R"])
@pytest.mark.parametrize("policy", [{"rho": "0s"}, {"k": "0"}, {"epsilon": "1000"}, {"source": "other.mp4"}, {"warm": "on"},
                                    {"visibility": "own"}])
def test_a_policy_that_is_not_the_cameras_is_refused(house: House, kind: str, policy: dict[str, str]) -> None:
    request = house.request(house.table(house.video(LEVELS), server={"rho": "1s"}))
    options = request["tables"][0]["server"]["options"]
    assert ask(house, kind, other_server(request, options={**options, **policy})) == "40001"


@pytest.mark.parametrize("kind", ["X", "R"])
def test_a_camera_by_a_name_or_of_an_owner_that_it_had_before_is_refused(house: House, kind: str) -> None:
    request = house.request(house.table(house.video(LEVELS), server={"rho": "1s"}))
    assert ask(house, kind, other_server(request, name="campus")) == "40001"
    assert ask(house, kind, other_server(request, owner="oscar")) == "40001"
    assert ask(house, kind, {**request, "role": "ben"}) == "40001"


def two_versions(house: House, older: dict[str, str], **changes: Any) -> list[dict[str, Any]]:
    """Requests of two tables on one camera, each of which takes it for what it is in one place, and for what it was in the other."""
    now = house.table(house.video(LEVELS), server={"rho": "1s", "epsilon": "1"})
    server = now["server"]
    was = {**now, "oid": 3, "server": {**server, "options": {**server["options"], **older}, **changes}}
    request = house.request(now)
    assert ask(house, "X", {**request, "tables": [now, {**now, "oid": 3}]}) == "00000"
    return [{**request, "tables": tables} for tables in ([was, now], [now, was], [now, was, now], [was, now, was])]


VERSIONS: list[tuple[dict[str, str], dict[str, Any]]] = [
    ({"rho": "0s"}, {}), ({"epsilon": "1000"}, {}), ({"warm": "off"}, {}), ({}, {"owner": "oscar"}), ({}, {"name": "campus"}),
    ({"rho": "0s"}, {"oid": 4})]


@pytest.mark.parametrize(("older", "changes"), VERSIONS)
def test_every_version_of_a_camera_that_a_request_states_is_compared(house: House, older: dict[str, str], changes: dict[str, Any]) -> None:
    for request in two_versions(house, older, **changes):
        if "oid" in changes:
            request["readers"] = [*request["readers"], {**request["readers"][0], "server": changes["oid"]}]
        assert {kind: ask(house, kind, request) for kind in "XR"} == dict.fromkeys("XR", "40001")
        with house.database.connect() as charging, pytest.raises(OutOfDate):
            Stated(request).confirm(charging)


def test_every_version_is_compared_before_raw_rows_are_read(house: House) -> None:
    for request in two_versions(house, {"source": "other.mp4"}):
        assert ask(house, "W", {**request, **house.asked_by("olga", request["tables"][0])}) == "40001"


def test_who_has_lost_the_right_to_use_a_camera_is_refused(house: House) -> None:
    request = house.request(house.table(house.video(LEVELS)))
    assert ask(house, "X", request) == "00000"
    name = request["tables"][0]["server"]["name"]
    house.database.rows(f'REVOKE USAGE ON FOREIGN SERVER "{name}" FROM ana')
    assert ask(house, "X", request) == ask(house, "R", request) == "42501"


def test_raw_rows_are_for_whoever_owns_the_camera_now(house: House) -> None:
    table = house.table(house.video(LEVELS))
    camera = table["server"]["name"]
    request = {**house.asked_by("olga", table), "tables": [table], "settings": {}}
    assert ask(house, "W", request) == "00000"
    assert ask(house, "W", {**house.asked_by("ana", table), "tables": [table], "settings": {}}) == "42501"
    house.database.rows(f'ALTER SERVER "{camera}" OWNER TO oscar')
    assert ask(house, "W", request) == "40001"
    assert ask(house, "W", other_server(request, owner="oscar")) == "42501"


#: what a release waits for: the account that it is charged to, and the answers that were given before
ACCOUNT, ANSWERS = "SELECT FROM privid.recordings FOR UPDATE", "LOCK TABLE privid.release_log"


def meanwhile(house: House, request: dict[str, Any], change: str, held: str = ACCOUNT) -> bytes:
    """What a release is told for which a change waits in the way of its charge, and is committed before it is charged."""
    assert ask(house, "X", request) == "00000"
    with house.database.connect() as other, house.engine.connect() as client:
        with other.transaction():
            other.execute(held.encode())
            client.send("R", request)
            waiting = "SELECT 1 FROM pg_stat_activity WHERE usename = 'privid_engine' AND wait_event_type = 'Lock'"
            for _ in range(1000):
                if house.database.rows(waiting):
                    break
                other.execute("SELECT pg_sleep(0.01)")
            else:
                pytest.fail("the engine does not wait")
            other.execute(change.encode())
        kind, body = client.receive()
    assert kind == "E", body
    assert house.database.rows("SELECT 1 FROM privid.release_log WHERE query = %s", request["query"]) == []
    return body


def test_a_policy_that_changes_between_judging_and_charging_is_seen(house: House) -> None:
    request = house.request(house.table(house.video(LEVELS), server={"rho": "1s"}), query="changed meanwhile")
    name = request["tables"][0]["server"]["name"]
    assert b'"40001"' in meanwhile(house, request, f"ALTER SERVER \"{name}\" OPTIONS (SET epsilon '0.5')")


@pytest.mark.parametrize(("change", "state"), [("ALTER SERVER \"{}\" OPTIONS (SET epsilon '0.5')", b'"40001"'),
                                               ('REVOKE USAGE ON FOREIGN SERVER "{}" FROM ana', b'"42501"')])
def test_what_changes_before_an_answer_is_given_again_is_seen(house: House, change: str, state: bytes) -> None:
    request = house.request(house.table(house.video(LEVELS), server={"rho": "1s"}), reuse=True)
    assert ask(house, "R", request) == "00000"
    name = request["tables"][0]["server"]["name"]
    assert state in meanwhile(house, {**request, "query": "again meanwhile"}, change.format(name), ANSWERS)


def test_a_mask_that_is_withdrawn_between_judging_and_charging_is_seen(house: House) -> None:
    source = house.video(LEVELS)
    camera = house.table(source, server={"rho": "1s"})["server"]["name"]
    house.database.rows("INSERT INTO privid.mask_store (camera, name, rho, pieces, shapes, created_by) "
                        "VALUES (%s, 'cover', '0s', 1, ARRAY[polygon '((0,0),(64,0),(64,48),(0,48))'], 'olga')", camera)
    request = house.request(house.table(source, server={"rho": "1s"}, mask="cover"), query="withdrawn meanwhile")
    told = meanwhile(house, request, "UPDATE privid.mask_store SET withdrawn = true WHERE name = 'cover'")
    assert b'"40001"' in told and b"withdrawn" in told

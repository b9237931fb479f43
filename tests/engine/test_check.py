"""The check of a definition, as CREATE SERVER and CREATE FOREIGN TABLE ask for it."""

from __future__ import annotations

import pytest

from tests.engine.client import Refused
from tests.engine.conftest import House


def test_a_sound_definition_is_accepted_and_its_camera_registered(house: House) -> None:
    source = house.video([0] * 40)
    with house.engine.connect() as client:
        assert client.ask("K", {"kind": "server", "server": house.server(source)}) == ("k", {"notices": []})
        assert client.ask("K", {"kind": "table", "table": house.table(source)}) == ("k", {"notices": []})
    camera = house.camera(source)
    assert house.database.rows("SELECT frames FROM privid.footage WHERE camera = %s", camera) == [(41,)]


def test_mistakes_are_heard_when_they_are_made(house: House) -> None:
    source = house.video([0] * 40)
    broken = house.engine.videos / "broken.mp4"
    broken.write_bytes((house.engine.videos / source).read_bytes()[:500])
    house.upload("novel", b"Call me Ishmael, who does process nothing")
    with house.engine.connect() as client:
        for body, sqlstate in [({"kind": "server", "server": house.server("missing.mp4")}, "PV007"),
                               ({"kind": "server", "server": house.server("broken.mp4")}, "PV007"),
                               ({"kind": "server", "server": house.server("../etc/passwd")}, "PV007"),
                               ({"kind": "table", "table": house.table(source, chunk="1.234s")}, "PV009"),
                               ({"kind": "table", "table": house.table(source, end="2026-03-01 05:00+00")}, "PV009"),
                               ({"kind": "table", "table": house.table(source, "novel")}, "PV008")]:
            with pytest.raises(Refused) as refused:
                client.ask("K", body)
            assert refused.value.sqlstate == sqlstate, body


def test_an_executable_may_be_uploaded_later(house: House) -> None:
    with house.engine.connect() as client:
        _, answer = client.ask("K", {"kind": "table", "table": house.table(house.video([0] * 40), "later")})
    assert len(answer["notices"]) == 1


def test_the_check_of_a_table_registers_no_policy_that_its_session_has_not_heard_was_changed(house: House) -> None:
    source = house.video([0] * 40)
    table = house.table(source, server={"epsilon": "1"})
    epsilon = "SELECT epsilon FROM privid.footage WHERE camera = %s"
    with house.engine.connect() as client:
        client.ask("K", {"kind": "table", "table": table})
        assert house.database.rows(epsilon, table["server"]["name"]) == [(1,)]
        stale = {**table["server"], "options": {**table["server"]["options"], "epsilon": "5"}}
        assert client.ask("K", {"kind": "table", "table": {**table, "server": stale}}) == ("k", {"notices": []})
    assert house.database.rows(epsilon, table["server"]["name"]) == [(1,)]

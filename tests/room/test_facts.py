"""A room that would evaluate otherwise than the served database is refused."""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Iterator
from dataclasses import replace

import psycopg
import pytest

from privid.errors import PrividError
from privid.ledger import Pool
from privid.room.facts import check_facts, read_facts
from privid.room.server import RoomServer
from tests.ledger.postgres import Server, pg_config
from tests.room.conftest import House, ServedDatabase, directory_for_data, running


@pytest.fixture(scope="module")
def others(served_server: Server) -> Iterator[Server]:
    """Databases of the served server that are unlike its first."""
    made = {"plain": "LC_COLLATE 'C' LC_CTYPE 'C'", "icu": "LOCALE_PROVIDER icu ICU_LOCALE 'de-u-co-phonebk'",
            "latin": "ENCODING 'LATIN1' LC_COLLATE 'C' LC_CTYPE 'C'"}
    with served_server.connect("postgres") as conn:
        for name, options in made.items():
            conn.execute(f"CREATE DATABASE {name} TEMPLATE template0 {options}".encode())
    yield served_server
    with served_server.connect("postgres") as conn:
        for name in made:
            conn.execute(f"DROP DATABASE {name}".encode())


def test_a_room_is_like_the_database_that_it_was_made_for(house: House, ledger_pool: Pool) -> None:
    house.server.check_equal(ledger_pool)  # with the rights and settings of an engine
    began = time.monotonic()
    house.server.check_equal(ledger_pool)
    assert time.monotonic() - began < 2  # 0.3 s on a machine that has nothing else to do


def test_another_collation_is_refused(house: House, others: Server) -> None:
    with pytest.raises(PrividError, match="differs from the served database in its LC_COLLATE") as refused:
        house.server.check_equal(ServedDatabase(others, "plain"))
    assert refused.value.detail == 'The served database has "C", the engine\'s own server "C.UTF-8".'
    assert refused.value.hint


def test_another_provider_of_collations_is_refused(house: House, others: Server) -> None:
    with pytest.raises(PrividError, match="in its locale provider"):
        house.server.check_equal(ServedDatabase(others, "icu"))


def test_a_room_is_made_with_icu_where_the_database_has_it(others: Server) -> None:
    database = ServedDatabase(others, "icu")
    with directory_for_data() as data, running(database, data) as house, house.server.connect(psycopg.Connection) as conn:
        facts = read_facts(conn)
        assert (facts.provider, facts.icu_locale) == ("icu", "de-u-co-phonebk") and facts.collation_version
        order = conn.execute("SELECT array_agg(w ORDER BY w) FROM unnest(ARRAY['Od', 'Öd', 'Of']) w").fetchone()
        assert order == (["Od", "Öd", "Of"],)


def test_a_database_that_is_not_in_utf8_is_refused(others: Server) -> None:
    with directory_for_data() as data:
        server = RoomServer(data)
        with pytest.raises(PrividError, match="has encoding LATIN1, not UTF8") as refused:
            server.start(ServedDatabase(others, "latin"))
        assert refused.value.hint and not (data / "room").exists()


@pytest.mark.parametrize(("changed", "told"), [
    ({"server_version": "150003"}, "server version"), ({"collation_version": "2.28"}, "version of the collation"),
    ({"ctype": "de_DE.UTF-8"}, "LC_CTYPE"), ({"icu_locale": "tr"}, "ICU locale")])
def test_every_fact_counts(house: House, changed: dict[str, str], told: str) -> None:
    with house.server.connect(psycopg.Connection) as conn:
        facts = read_facts(conn)
    check_facts(facts, facts)
    with pytest.raises(PrividError, match=told) as refused:
        check_facts(replace(facts, **changed), facts)
    assert refused.value.detail and next(iter(changed.values())) in refused.value.detail


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can show a server other time zone data")
def test_other_time_zone_data_is_refused(house: House, served_server: Server) -> None:
    # a zone of this one server reads as another does for everybody else
    served_server.stop()
    try:
        subprocess.run(["unshare", "--mount", "--propagation", "slave", "--", "sh", "-c",
                        'mount --bind /usr/share/zoneinfo/Asia/Tokyo /usr/share/zoneinfo/Asia/Kathmandu && cd "$1" && '
                        'exec setpriv --reuid=postgres --regid=postgres --clear-groups "$2/pg_ctl" -D "$1" -w -s -l "$1/log" start',
                        "sh", str(served_server.data), pg_config("--bindir")], check=True)
        with pytest.raises(PrividError, match="in its time zone data") as refused:
            house.server.check_equal(ServedDatabase(served_server, "prepared"))
        assert refused.value.detail and refused.value.hint and refused.value.detail.count("zones (digest ") == 2
    finally:
        served_server.stop()
        served_server.start()
    house.server.check_equal(ServedDatabase(served_server, "prepared"))

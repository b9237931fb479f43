"""Whatever surrounds a call of the extension's, its authority is the effective role's, and nobody's code but the caller's runs."""

from __future__ import annotations

from collections.abc import Iterator

import psycopg
import pytest

from tests.conftest import RunningStack

from .city import City
from .surroundings import Stand, search, standing


@pytest.fixture(scope="module")
def stand(stack: RunningStack) -> Iterator[Stand]:
    city = City(stack)
    city.build()
    try:
        with standing(city) as made:
            yield made
    finally:
        city.tear_down()


def test_every_function_view_and_statement_does_the_same_in_hostile_surroundings(stand: Stand) -> None:
    """By an owner; tests/verify/authority_surroundings.py asks as everybody."""
    assert search(stand, ("owner",)) == []
    assert len(stand.statements) > 150


#: what is wrong -> a function or a view that is
_PLANTED = {
    "a definer's function without a search path": "FUNCTION privid.planted() RETURNS text LANGUAGE plpgsql SECURITY DEFINER "
    "AS $$ BEGIN RETURN format('%s', lower('X')); END $$",
    "a definer's function whose search path leaves temporary objects first": "FUNCTION privid.planted() RETURNS bigint LANGUAGE plpgsql "
    "SECURITY DEFINER SET search_path = pg_catalog AS $$ BEGIN RETURN (SELECT count(*) FROM pg_roles); END $$",
    "a function of the caller's rights without a search path": "FUNCTION privid.planted() RETURNS boolean LANGUAGE plpgsql "
    "AS $$ BEGIN RETURN 'a'::text = 'b'::text; END $$",
    "a definer's function that asks whose session it is": "FUNCTION privid.planted() RETURNS text LANGUAGE sql SECURITY DEFINER "
    "SET search_path = pg_catalog, pg_temp AS 'SELECT session_user::text'",
    "a view that asks whose session it is": "VIEW privid.planted AS SELECT f.camera FROM privid.footage f "
    "WHERE f.owner = session_user; GRANT SELECT ON privid.planted TO PUBLIC",
    "a function that acts for whose session it is": "FUNCTION privid.planted() RETURNS void LANGUAGE sql SECURITY DEFINER "
    "SET search_path = pg_catalog, pg_temp AS $$ UPDATE privid.share_grants SET epsilon = 99 WHERE granted_by <> session_user $$",
}


@pytest.mark.parametrize("planted", _PLANTED)
def test_the_search_finds(stand: Stand, planted: str) -> None:
    stand.city.stack.run("CREATE " + _PLANTED[planted], user="privid")
    try:
        assert search(stand, ("owner",), about="planted") != []
    finally:
        kind = "VIEW privid.planted" if _PLANTED[planted].startswith("VIEW") else "FUNCTION privid.planted()"
        stand.city.stack.run(f"DROP {kind}", user="privid")
    assert search(stand, ("owner",), about="planted") == []


def test_a_refresh_of_a_materialized_view_defines_no_camera_and_no_table(stand: Stand) -> None:
    """Event triggers hear of nothing in there: folders and quotas would not be looked at."""
    camera = "CREATE SERVER planted FOREIGN DATA WRAPPER privid OPTIONS (source 'levels.mp4', " \
             "starts '2026-03-01 06:00+00', rho '0s', k '1', epsilon '1')"
    with stand.city.stack.connect("southernowner") as owner:
        for statement in (
            camera,
            "ALTER SERVER southerncamera OPTIONS (SET source 'levels.mp4')",
            "ALTER SERVER southerncamera RENAME TO planted",
        ):
            owner.execute(
                f"CREATE FUNCTION common.planted() RETURNS int LANGUAGE plpgsql AS $f$ BEGIN {statement}; RETURN 1; END $f$".encode()
            )
            owner.execute("CREATE MATERIALIZED VIEW common.planted AS SELECT common.planted() WITH NO DATA")
            with pytest.raises(psycopg.errors.FeatureNotSupported, match="while a materialized view is refreshed"):
                owner.execute("REFRESH MATERIALIZED VIEW common.planted")
            owner.execute("DROP MATERIALIZED VIEW common.planted; DROP FUNCTION common.planted()")
        owner.execute(
            "CREATE MATERIALIZED VIEW common.planted AS SELECT 1 AS one; CREATE UNIQUE INDEX ON common.planted (one); "
            "REFRESH MATERIALIZED VIEW CONCURRENTLY common.planted; DROP MATERIALIZED VIEW common.planted"
        )

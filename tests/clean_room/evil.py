"""Code of a hostile analyst that tells in analyst.booty who runs it: nobody else may stand there."""

from __future__ import annotations

from .pair import OPTIONS, PROGRAM, Pair

__all__ = ["DUMP", "OPTION_LIST", "others", "prepare"]

OPTION_LIST = ", ".join(
    f"\"{key}\" '{value}'" for key, value in {**OPTIONS, "executable": "event"}.items()
)

#: functions that PostgreSQL calls immutable, so that they are evaluated wherever constants are
EVIL = """
CREATE FUNCTION {0}.tell(what text) RETURNS void LANGUAGE plpgsql AS
    $$ BEGIN INSERT INTO analyst.booty VALUES (current_user, what); END $$;
CREATE FUNCTION {0}.evil() RETURNS text LANGUAGE plpgsql IMMUTABLE AS
    $$ BEGIN PERFORM {0}.tell('evil'); RETURN 'none'; END $$;
CREATE FUNCTION {0}.steal(plate text) RETURNS text LANGUAGE plpgsql IMMUTABLE COST 0.0001 AS
    $$ BEGIN PERFORM {0}.tell(plate); RETURN plate; END $$;
"""

#: a schema with such a default, as pg_dump 15 wrote it when 0.3.0 served the database
DUMP = (
    """
SET statement_timeout = 0;
SET lock_timeout = 0;
SET idle_in_transaction_session_timeout = 0;
SET client_encoding = 'UTF8';
SET standard_conforming_strings = on;
SELECT pg_catalog.set_config('search_path', '', false);
SET check_function_bodies = false;
SET xmloption = content;
SET client_min_messages = warning;
SET row_security = off;
CREATE SCHEMA {0};
ALTER SCHEMA {0} OWNER TO analyst;
GRANT ALL ON SCHEMA {0} TO PUBLIC;
"""
    + EVIL
    + """
ALTER FUNCTION {0}.tell(what text) OWNER TO analyst;
ALTER FUNCTION {0}.evil() OWNER TO analyst;
ALTER FUNCTION {0}.steal(plate text) OWNER TO analyst;
SET default_tablespace = '';
CREATE FOREIGN TABLE {0}.t (
    chunk timestamp with time zone,
    plate text DEFAULT {0}.evil()
)
SERVER event_a
OPTIONS (
    {1}
);
ALTER FOREIGN TABLE {0}.t OWNER TO analyst;
GRANT SELECT ON TABLE {0}.t TO PUBLIC;
"""
)


def prepare(pair: Pair) -> None:
    """What the analyst makes, and a second analyst."""
    stack = pair.stack
    stack.run("CREATE TABLE analyst.booty (who text, what text)")
    stack.run("GRANT USAGE ON SCHEMA analyst, event_a TO PUBLIC")
    stack.run("GRANT INSERT ON analyst.booty TO PUBLIC; GRANT SELECT ON event_a.t TO PUBLIC")
    stack.run(EVIL.format("analyst"))
    stack.run("CREATE OPERATOR analyst.### (LEFTARG = text, RIGHTARG = text, FUNCTION = textcat)")
    stack.run("CREATE DOMAIN analyst.trap AS text CHECK (analyst.steal(VALUE) IS NOT NULL)")
    stack.run("CREATE ROLE second LOGIN IN ROLE privid_analyst", user="privid")
    stack.run("GRANT USAGE ON FOREIGN SERVER event_a TO second", user="owner")
    stack.executable("event", PROGRAM, user="owner")


def others(pair: Pair) -> list[tuple[str, str]]:
    """Who else has run code of the analyst, and with what. The book is closed after a look."""
    found = pair.stack.run("SELECT DISTINCT who, what FROM analyst.booty WHERE who <> 'analyst'")
    pair.stack.run("TRUNCATE analyst.booty")
    return [(who, what) for who, what in found]

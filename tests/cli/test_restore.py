"""privid restore: everything is there afterwards, and nobody's code ran with more rights than theirs.

Each way in which a dump can make PostgreSQL run a function of an analyst is tried with pg_restore as
well, as its manual says to use it.
"""

from __future__ import annotations

import os
from fractions import Fraction
from pathlib import Path

import psycopg
import pytest

from privid.cli.archive import Archive, read_row
from privid.ledger import Claim, Ledger
from tests.conftest import run_privid
from tests.ledger.postgres import camera, record

from .restoring import Restoring

#: the functions that tables, domains and views of an analyst use: each becomes a superuser if it can
CODE = """
CREATE FUNCTION ana.become() RETURNS void LANGUAGE plpgsql AS $$
BEGIN
  BEGIN EXECUTE 'RESET SESSION AUTHORIZATION'; EXCEPTION WHEN OTHERS THEN NULL; END;
  BEGIN EXECUTE 'RESET ROLE'; EXCEPTION WHEN OTHERS THEN NULL; END;
  IF (SELECT r.rolsuper FROM pg_catalog.pg_roles r WHERE r.rolname = current_user) THEN
    ALTER ROLE ana SUPERUSER;
  END IF;
END $$;
CREATE FUNCTION ana.number(int) RETURNS int LANGUAGE plpgsql IMMUTABLE AS $$ BEGIN PERFORM ana.become(); RETURN $1; END $$;
CREATE FUNCTION ana.ok(int) RETURNS boolean LANGUAGE plpgsql IMMUTABLE AS $$ BEGIN PERFORM ana.become(); RETURN true; END $$;
CREATE DOMAIN ana.natural AS int CHECK (ana.ok(VALUE));
CREATE TYPE ana.pair AS (a ana.natural, b text);
"""

#: what an analyst writes -> whether pg_restore of a superuser runs it as the superuser
WAYS = {
    "check": ("CREATE TABLE ana.innocent (x int CHECK (ana.ok(x))); INSERT INTO ana.innocent VALUES (1)", True),
    "domain": ("CREATE TABLE ana.innocent (x ana.natural); INSERT INTO ana.innocent VALUES (1)", True),
    "domain in a composite type": ("CREATE TABLE ana.innocent (x ana.pair); INSERT INTO ana.innocent VALUES ((1, 'b'))", True),
    "generated column": ("""CREATE TABLE ana.innocent (x int, y int GENERATED ALWAYS AS (ana.number(x)) STORED);
                            INSERT INTO ana.innocent VALUES (1)""", True),
    "partition bound": ("""CREATE TABLE ana.innocent (x ana.natural) PARTITION BY LIST (x);
                           CREATE TABLE ana.part PARTITION OF ana.innocent FOR VALUES IN (1)""", True),
    "partition key": ("CREATE TABLE ana.innocent (x int) PARTITION BY RANGE ((x + ana.number(1)))", True),
    "literal in a view": ("CREATE VIEW ana.innocent AS SELECT '{1}'::ana.natural[] AS x", True),
    "literal in a default": ("CREATE TABLE ana.innocent (x ana.pair DEFAULT '(1,b)'::ana.pair)", True),
    "first value of an aggregate": ("""
        CREATE FUNCTION ana.add(ana.natural, int) RETURNS ana.natural LANGUAGE sql AS 'SELECT $1';
        CREATE AGGREGATE ana.innocent(int) (SFUNC = ana.add, STYPE = ana.natural, INITCOND = '1')""", True),
    "check after the rows": ("""CREATE TABLE ana.innocent (x int); INSERT INTO ana.innocent VALUES (1);
        CREATE FUNCTION ana.fine(ana.innocent) RETURNS boolean LANGUAGE plpgsql AS $$ BEGIN PERFORM ana.become(); RETURN true; END $$;
        ALTER TABLE ana.innocent ADD CHECK (ana.fine(innocent))""", True),
    "index beside a foreign key": ("""CREATE TABLE ana.keys (k int PRIMARY KEY); INSERT INTO ana.keys VALUES (1);
        CREATE TABLE ana.innocent (x int REFERENCES ana.keys); INSERT INTO ana.innocent VALUES (1);
        CREATE INDEX ON ana.innocent ((x + ana.number(1)))""", True),
    "cast of a foreign key": ("""CREATE TYPE ana.kind AS ENUM ('1');
        CREATE FUNCTION ana.code(ana.kind) RETURNS int LANGUAGE plpgsql IMMUTABLE AS $$ BEGIN PERFORM ana.become(); RETURN 1; END $$;
        CREATE CAST (ana.kind AS int) WITH FUNCTION ana.code(ana.kind) AS IMPLICIT;
        CREATE TABLE ana.keys (k int PRIMARY KEY); INSERT INTO ana.keys VALUES (1);
        CREATE TABLE ana.innocent (x ana.kind REFERENCES ana.keys); INSERT INTO ana.innocent VALUES ('1')""", True),
    # these PostgreSQL confines by itself
    "index": ("""CREATE TABLE ana.innocent (x int); INSERT INTO ana.innocent VALUES (1);
                 CREATE INDEX ON ana.innocent (ana.number(x))""", False),
    "exclusion constraint": ("""CREATE TABLE ana.innocent (x int, EXCLUDE USING btree (ana.number(x) WITH =));
                                INSERT INTO ana.innocent VALUES (1)""", False),
    "materialized view": ("CREATE MATERIALIZED VIEW ana.innocent AS SELECT ana.number(1) AS x", False),
    "trigger": ("""CREATE FUNCTION ana.fire() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN PERFORM ana.become(); RETURN new; END $$;
                   CREATE TABLE ana.innocent (x int); CREATE TRIGGER fire BEFORE INSERT ON ana.innocent FOR EACH ROW
                   EXECUTE FUNCTION ana.fire(); INSERT INTO ana.innocent VALUES (1)""", False),
}


@pytest.mark.parametrize("way", WAYS)
def test_code_of_an_analyst_runs_with_the_rights_of_the_analyst_at_most(restoring: Restoring, way: str) -> None:
    statements, as_superuser = WAYS[way]
    restoring.old_rows(CODE, "ana")
    restoring.old_rows(statements, "ana")
    assert not restoring.ana_is_superuser()
    restoring.dump()
    assert not restoring.ana_is_superuser(), "pg_dump"
    restoring.server.command("pg_restore", *restoring.socket, "--exit-on-error", "-d", restoring.new, restoring.file)
    assert restoring.ana_is_superuser() == as_superuser, "pg_restore"
    restoring.make_new()
    restoring.restore()
    assert not restoring.ana_is_superuser()
    if "AGGREGATE" not in statements:
        everything = "SELECT * FROM ana.innocent"
        assert restoring.new_rows(everything, "ana") == restoring.old_rows(everything, "ana")
    owners = "SELECT relname, relkind, relowner::regrole::text FROM pg_class WHERE relnamespace = 'ana'::regnamespace ORDER BY 1"
    assert restoring.new_rows(owners) == restoring.old_rows(owners)


def test_the_role_alone_would_not_confine_it(restoring: Restoring) -> None:
    restoring.old_rows(CODE, "ana")
    restoring.old_rows(WAYS["check"][0], "ana")
    for section, *role in (("pre-data",), ("data", "--role=ana")):
        restoring.server.command("pg_restore", *restoring.socket, f"--section={section}", *role, "-d", restoring.new,
                                 "--schema=ana" if role else "--strict-names", restoring.dump())
    assert restoring.ana_is_superuser()


@pytest.mark.parametrize("way", [
    "CREATE TABLE ana.late (x int); CREATE CONSTRAINT TRIGGER late AFTER INSERT ON ana.late DEFERRABLE INITIALLY DEFERRED FOR EACH ROW "
    "EXECUTE FUNCTION ana.fire(); INSERT INTO ana.late VALUES (1)",
    "DECLARE later CURSOR WITH HOLD FOR SELECT ana.number(1)",
    "PREPARE later AS SELECT ana.number(1)",
    "CREATE TEMPORARY TABLE later (x int CHECK (ana.ok(x)))",
])
def test_code_cannot_put_something_off_until_the_superuser_is_back(restoring: Restoring, way: str) -> None:
    restoring.old_rows(CODE + f"""
        CREATE FUNCTION ana.fire() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN PERFORM ana.become(); RETURN new; END $$;
        CREATE FUNCTION ana.plant(int) RETURNS boolean LANGUAGE plpgsql AS $$
        BEGIN IF current_database() LIKE '%new' THEN EXECUTE {way!r}; END IF; RETURN true; END $$;
        CREATE TABLE ana.innocent (x int CHECK (ana.plant(x))); INSERT INTO ana.innocent VALUES (1)""", "ana")
    restoring.dump()
    assert "within security-restricted operation" in restoring.refused()
    assert not restoring.ana_is_superuser()


def test_code_is_no_superuser_to_the_extension_either(restoring: Restoring) -> None:
    restoring.old_rows("""
        CREATE FUNCTION ana.who(int) RETURNS text LANGUAGE plpgsql IMMUTABLE AS $$
        BEGIN RETURN concat_ws(' ', session_user, current_user, privid.invoker(), privid.is_restoring()); END $$;
        CREATE TABLE ana.seen (x int, who text GENERATED ALWAYS AS (ana.who(x)) STORED); INSERT INTO ana.seen VALUES (1)""", "ana")
    restoring.dump()
    restoring.restore()
    assert restoring.new_rows("SELECT who FROM ana.seen") == [("ana ana ana f",)]


def test_settings_that_code_makes_end_with_it(restoring: Restoring) -> None:
    restoring.old_rows("""
        CREATE FUNCTION ana.set(int) RETURNS boolean LANGUAGE plpgsql AS $$
        BEGIN PERFORM set_config('search_path', 'ana', false), set_config('standard_conforming_strings', 'off', false); RETURN true; END $$;
        CREATE TABLE ana.a (x int CHECK (ana.set(x)), t text); INSERT INTO ana.a SELECT n, '\\' || n FROM generate_series(1, 2500) n;
        CREATE TABLE ana.b (t text); INSERT INTO ana.b VALUES ('\\'); CREATE INDEX ON ana.b (t)""", "ana")
    restoring.dump()
    restoring.restore()
    for table in ("a", "b"):
        everything = f"SELECT * FROM ana.{table} ORDER BY 1"
        assert restoring.new_rows(everything) == restoring.old_rows(everything)


# Everything is there

RICH = """
CREATE TYPE ana.mood AS ENUM ('fine', 'so so');
CREATE DOMAIN ana.short AS varchar(5) NOT NULL CHECK (VALUE <> '');
CREATE TABLE ana."odd name
with a line" ("a ""b" text, "c\td" bytea, e char(3), f int[], g jsonb, h ana.mood, i ana.short, j timestamptz, k float8, l "char");
INSERT INTO ana."odd name
with a line" VALUES (E'\\b\\f\\n\\r\\t\\v\\\\N \\'q\\' \\\\. ü', '\\x00ff5c', 'x', '{1,NULL,3}', '{"a": "\\\\n"}', 'so so', 'abc',
                     '2026-03-01 08:00+00', 'NaN', 'x'), ('\\N', '', NULL, NULL, NULL, NULL, 'z', NULL, 0.1, NULL);
INSERT INTO ana."odd name
with a line" ("a ""b", i) SELECT '\\.' || n, 'n' FROM generate_series(1, 2500) n;
CREATE TABLE ana.numbered (id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, s serial, twice bigint GENERATED ALWAYS AS (s * 2) STORED);
INSERT INTO ana.numbered SELECT FROM generate_series(1, 7);
CREATE TABLE ana.bare ();
INSERT INTO ana.bare DEFAULT VALUES;
INSERT INTO ana.bare DEFAULT VALUES;
CREATE TABLE ana.parts (x int) PARTITION BY RANGE (x);
CREATE TABLE ana.low PARTITION OF ana.parts FOR VALUES FROM (0) TO (10);
INSERT INTO ana.parts VALUES (3);
CREATE TABLE ana.guarded (x int PRIMARY KEY, who text);
INSERT INTO ana.guarded VALUES (1, 'ana'), (2, 'ben'), (3, 'ana');
ALTER TABLE ana.guarded ENABLE ROW LEVEL SECURITY;
ALTER TABLE ana.guarded FORCE ROW LEVEL SECURITY;
CREATE POLICY own ON ana.guarded USING (who = current_user AND x > 1);
GRANT USAGE ON SCHEMA ana TO ben;
GRANT SELECT, REFERENCES ON ana.guarded, ana.numbered TO ben;
CREATE TABLE ana.closed (x int); INSERT INTO ana.closed VALUES (1); REVOKE INSERT ON ana.closed FROM ana;
CREATE MATERIALIZED VIEW ana.sums AS SELECT sum(id) AS n FROM ana.numbered;
CREATE VIEW ana.see AS SELECT * FROM ana.sums;
COMMENT ON VIEW ana.see IS 'a sum';
CREATE INDEX by_s ON ana.numbered (s);
COMMENT ON INDEX ana.by_s IS 'an index';
ALTER DEFAULT PRIVILEGES IN SCHEMA ana GRANT SELECT ON TABLES TO ben;
SELECT lo_from_bytea(4711, '\\x00ff0a27');
"""
OF_BEN = """
CREATE TABLE ben.uses (id bigint REFERENCES ana.numbered, n int DEFAULT 5 CHECK (n > 0));
INSERT INTO ben.uses VALUES (3);
CREATE VIEW ben.see AS SELECT id FROM ana.numbered;
"""
OF_THE_SUPERUSER = """
CREATE TABLE public.rooms (id int PRIMARY KEY, name text); INSERT INTO public.rooms VALUES (1, 'hall');
GRANT SELECT ON public.rooms TO PUBLIC;
CREATE SCHEMA s AUTHORIZATION "role with spaces"; CREATE TABLE s.t (x int); INSERT INTO s.t VALUES (1);
ALTER TABLE s.t OWNER TO "role with spaces";
"""


def script_of(restoring: Restoring, database: str) -> str:
    """What pg_dump writes of it, without what differs by itself."""
    text = restoring.server.command("pg_dump", *restoring.socket, database)
    return "\n".join(line for line in text.splitlines() if "restrict " not in line)


def test_everything_is_there_afterwards_ledger_and_all(restoring: Restoring) -> None:
    campus = camera()
    options = "source 'x.mp4', starts '2026-03-01 06:00+00', rho '0.4s', k '1', epsilon '1'"
    restoring.old_rows(f"CREATE SERVER campus FOREIGN DATA WRAPPER privid OPTIONS ({options}); GRANT USAGE ON FOREIGN SERVER campus TO ana",
                       "olga")
    ledger = Ledger(restoring.server.conninfo(restoring.old, "privid_engine"))
    ledger.charge([Claim(campus, [(0, 40)], Fraction(1, 3))], record())
    restoring.old_rows("SELECT privid.grant_budget('campus', 'public', 0.9)", "olga")
    ledger.close()
    restoring.old_rows(OF_THE_SUPERUSER)
    restoring.old_rows(RICH, "ana")
    restoring.old_rows("CREATE FOREIGN TABLE ana.people (chunk timestamptz) SERVER campus", "ana")
    restoring.old_rows(OF_BEN, "ben")
    restoring.dump()
    told = restoring.restore().stdout
    assert told.startswith("Restored ") and "left out" not in told
    assert script_of(restoring, restoring.new) == script_of(restoring, restoring.old)
    assert restoring.new_rows("SELECT x FROM ana.guarded", "ana") == [(3,)]
    assert restoring.new_rows("SELECT n FROM ana.sums", "ana") == [(28,)]
    assert restoring.new_rows("SELECT * FROM privid.verify_history()") == []
    remaining = "SELECT frames::text, remaining::text FROM privid.budget ORDER BY 1"
    assert restoring.new_rows(remaining) == restoring.old_rows(remaining) != []
    with psycopg.connect(restoring.server.conninfo(restoring.new)) as conn:
        assert conn.execute("SELECT lo_get(4711)").fetchall() == [(b"\x00\xff\n'",)]


def test_rows_are_read_as_copy_writes_them() -> None:
    assert read_row(rb"a\tb" + b"\t" + rb"\N" + b"\t" + rb"\\N\\\n" + b"\t\n") == ["a\tb", None, "\\N\\\n", ""]


# What is refused


def test_what_cannot_be_restored_with_its_owners_rights_is_refused_or_left_out(restoring: Restoring) -> None:
    restoring.old_rows("CREATE TABLE public.given (x int); ALTER TABLE public.given OWNER TO ana; CREATE TABLE public.kept (x int)")
    restoring.old_rows("CREATE TABLE ana.t (x int)", "ana")
    restoring.old_rows("CREATE VIEW ben.see AS SELECT x FROM public.given", "ben")
    restoring.dump()
    told = restoring.refused()
    assert 'permission denied for schema public (with the rights of role "ana")' in told and "--without ana" in told
    told = restoring.restore("--without", "ana").stdout
    assert 'left out: table "public.given" of role "ana"\n' in told and 'left out: view "ben.see" of role "ben"\n' in told
    assert restoring.new_rows("SELECT relname FROM pg_class WHERE relnamespace = 'public'::regnamespace") == [("kept",)]


def test_what_a_superuser_has_must_not_use_code_of_others(restoring: Restoring) -> None:
    restoring.old_rows("CREATE DOMAIN ana.d AS int CHECK (VALUE > 0)", "ana")
    restoring.old_rows("CREATE TABLE public.mixed (x ana.d); INSERT INTO public.mixed VALUES (1)")
    restoring.dump()
    told = restoring.refused()
    assert 'table "public.mixed" of role "postgres" uses domain "ana.d" of role "ana"\nHINT:  Code of one role' in told


@pytest.mark.parametrize(("of_ben", "told"), [
    ("CREATE TABLE ben.t (x ana.natural)", 'table "ben.t" of role "ben" uses domain "ana.natural" of role "ana"'),
    ("CREATE TABLE ben.t (x int CHECK (ana.ok(x)))", 'table "ben.t" of role "ben" uses function "ana.ok(integer)" of role "ana"'),
    ("CREATE VIEW ben.v AS SELECT '{1}'::ana.natural[] AS x", 'view "ben.v" of role "ben" uses domain "ana.natural" of role "ana"'),
    ("CREATE TABLE ben.t (x int REFERENCES ana.keys)", 'fk constraint "ben.t t_x_fkey" of role "ben" uses function "ana.number(integer)"'),
])
def test_code_of_an_analyst_does_not_get_the_rights_of_another_role(restoring: Restoring, of_ben: str, told: str) -> None:
    restoring.old_rows(CODE + """
        GRANT USAGE ON SCHEMA ana TO ben; CREATE TABLE ana.keys (k int PRIMARY KEY); CREATE INDEX ON ana.keys ((k + ana.number(1)));
        GRANT SELECT, REFERENCES ON ana.keys TO ben""", "ana")
    restoring.old_rows(of_ben, "ben")
    restoring.dump()
    assert told in restoring.refused()


def test_a_dump_that_is_none_is_refused(restoring: Restoring) -> None:
    restoring.file.write_text("-- PostgreSQL database dump\n")
    assert "is not a custom-format dump\nHINT:  Make one with pg_dump --format custom." in restoring.refused()
    restoring.file.unlink()
    assert "does not exist" in restoring.refused()
    whole = restoring.dump().read_bytes()
    restoring.file.write_bytes(whole[:2000])
    assert "is cut off" in restoring.refused()
    restoring.file.write_bytes(whole[:5] + b"\x01\x10" + whole[7:])
    assert "has format 1.16, not 1.14\nHINT:  Make the dump with pg_dump of PostgreSQL 15." in restoring.refused()
    restoring.dump("--inserts")
    assert "Make the dump without --inserts." in restoring.refused()


def test_a_database_that_is_not_empty_is_refused(restoring: Restoring) -> None:
    restoring.dump()
    restoring.new_rows("CREATE TABLE public.mine ()")
    told = restoring.refused()
    assert 'is not empty: it has relation "mine"\nHINT:  Restore into a new one' in told


def test_who_is_no_superuser_is_refused(restoring: Restoring) -> None:
    restoring.dump()
    assert 'role "ana" is not a superuser\nHINT:  ' in restoring.refused(user="ana")


def test_a_running_engine_is_refused(restoring: Restoring) -> None:
    restoring.dump()
    with psycopg.connect(restoring.server.conninfo(restoring.new, "privid_engine")):
        assert "the engine is connected to database" in restoring.refused()


def test_a_role_that_is_missing_is_refused(restoring: Restoring) -> None:
    restoring.old_rows("CREATE ROLE gone; CREATE SCHEMA gone AUTHORIZATION gone")
    restoring.dump()
    restoring.old_rows("DROP OWNED BY gone; DROP ROLE gone")
    told = restoring.refused()
    assert 'role "gone" does not exist, and owns schema "gone"\nHINT:  Roles are no part' in told
    assert 'nothing in the dump belongs to role "nobody"' in restoring.refused("--without", "nobody")


def test_a_grant_to_a_role_that_is_missing_is_told(restoring: Restoring) -> None:
    restoring.old_rows("CREATE ROLE gone; GRANT USAGE ON SCHEMA ana TO gone")
    restoring.dump()
    restoring.old_rows("DROP OWNED BY gone; DROP ROLE gone")
    told = restoring.refused()
    assert 'role "gone" does not exist\nHINT:  Roles are no part' in told


def test_a_machine_without_pg_restore_is_told_what_to_install(restoring: Restoring, tmp_path: Path) -> None:
    restoring.dump()
    told = restoring.refused(PATH=str(tmp_path), PG_CONFIG="/nowhere/pg_config")
    assert "could not find pg_restore\nHINT:  Install PostgreSQL's client" in told


def test_a_database_must_be_named(restoring: Restoring) -> None:
    bare = {name: value for name, value in os.environ.items() if not name.startswith("PG")}
    done = run_privid("restore", restoring.dump(), check=False, env=bare)
    assert done.returncode == 1 and "it is not said into which database to restore\nHINT:  Give --dsn" in done.stderr


def test_the_variables_of_postgresql_name_the_database(restoring: Restoring) -> None:
    bare = {name: value for name, value in os.environ.items() if not name.startswith("PG")}
    variables = {"PGHOST": str(restoring.server.directory), "PGDATABASE": restoring.new, "PGUSER": "postgres"}
    run_privid("restore", restoring.dump(), env=bare | variables)
    assert restoring.new_rows("SELECT event FROM privid.history") == [("folder granted",)]


def test_the_contents_of_a_dump_are_read_as_pg_restore_lists_them(restoring: Restoring) -> None:
    restoring.old_rows(CODE, "ana")
    program = restoring.server.bin / "pg_restore"
    listed = restoring.server.command("pg_restore", "--list", restoring.dump())
    expected = [line.split("; ", 1) for line in listed.splitlines() if line and not line.startswith(";")]
    silent = ("ENCODING", "STDSTRINGS", "SEARCHPATH", "DATABASE")
    found = {str(entry.number): entry for entry in Archive(restoring.file, program).entries if entry.kind not in silent}
    assert list(found) == [number for number, _ in expected]
    for number, text in expected:
        entry = found[number]
        assert text.split(" ", 2)[2] == f"{entry.kind} {entry.schema or '-'} {entry.name} {entry.owner}"

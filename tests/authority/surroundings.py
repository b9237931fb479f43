"""Everything of the extension that can be called, called in hostile surroundings: what it does follows from the effective role alone.

A statement is asked plainly by a role first, in a session of its own. Then it is asked by the same effective role while the session is
somebody else's, inside a definer's function, a trigger, a deferred trigger, an index expression, a materialized view, a held cursor, under
a search path and among temporary objects that shadow what the extension names. The answer, the refusal and the rows that are changed must
be the same; and none of the shadows may run. What is asked comes from the catalog (sight.functions), so that a new function takes part.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import psycopg
from psycopg import sql

from .city import City
from .sight import functions

__all__ = ["Fault", "Stand", "search", "standing"]

Session = psycopg.Connection[tuple[Any, ...]]

SUPERUSER = "superuser"
#: who asks
ASKING = ("owner", "analyst", "other owner", "nobody")

_FUNCTIONS = """
CREATE SCHEMA stand; GRANT USAGE ON SCHEMA stand TO PUBLIC;
CREATE FUNCTION stand.changed() RETURNS text LANGUAGE sql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
  SELECT coalesce(string_agg(format('%s %s %s %s', relname, pg_stat_get_xact_tuples_inserted(oid), pg_stat_get_xact_tuples_updated(oid),
                                    pg_stat_get_xact_tuples_deleted(oid)), ',' ORDER BY relname), '')
  FROM pg_class WHERE relnamespace = 'privid'::regnamespace AND relkind = 'r' $$;
CREATE FUNCTION stand.difference(before text, after text) RETURNS text LANGUAGE sql SET search_path = pg_catalog, pg_temp AS $$
  SELECT string_agg(format('%s +%s ~%s -%s', split_part(a, ' ', 1), split_part(a, ' ', 2)::int8 - split_part(b, ' ', 2)::int8,
                           split_part(a, ' ', 3)::int8 - split_part(b, ' ', 3)::int8,
                           split_part(a, ' ', 4)::int8 - split_part(b, ' ', 4)::int8), ', ')
  FROM ROWS FROM (unnest(string_to_array($1, ',')), unnest(string_to_array($2, ','))) x(b, a) WHERE a <> b $$;
-- asks, tells, and takes it back; nothing in it is found by the search path
CREATE FUNCTION stand.ask(statement pg_catalog.text) RETURNS pg_catalog.text LANGUAGE plpgsql AS $$
DECLARE
  told pg_catalog.text;
  before pg_catalog.text;
BEGIN
  before := stand.changed();
  IF pg_catalog.starts_with(statement, 'SELECT') THEN
    EXECUTE statement INTO told;
  ELSE
    EXECUTE statement;
  END IF;
  RAISE EXCEPTION USING ERRCODE = 'ST000', MESSAGE = pg_catalog.concat(told, '; changed: ', stand.difference(before, stand.changed()));
EXCEPTION
  WHEN SQLSTATE 'ST000' THEN RETURN SQLERRM;
  WHEN OTHERS THEN RETURN pg_catalog.concat('refused: ', SQLSTATE, ' ', SQLERRM);
END $$;
CREATE FUNCTION stand.told(n pg_catalog.int8, outcome pg_catalog.text) RETURNS pg_catalog.int8 LANGUAGE plpgsql AS $$
BEGIN RAISE WARNING USING MESSAGE = pg_catalog.concat('told ', n, ' ', outcome); RETURN n; END $$;
CREATE TABLE stand.statements (n int8, statement text); GRANT SELECT ON stand.statements TO PUBLIC;
CREATE TABLE stand.asked (n int8, statement text, outcome text); GRANT ALL ON stand.asked TO PUBLIC;
CREATE FUNCTION stand.fire() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN NEW.outcome := stand.ask(NEW.statement); RETURN NEW; END $$;
CREATE TRIGGER fire BEFORE INSERT ON stand.asked FOR EACH ROW EXECUTE FUNCTION stand.fire();
CREATE TABLE stand.later (n int8, statement text); GRANT ALL ON stand.later TO PUBLIC;
CREATE FUNCTION stand.fire_later() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN PERFORM stand.told(NEW.n, stand.ask(NEW.statement)); RETURN NULL; END $$;
CREATE CONSTRAINT TRIGGER fire AFTER INSERT ON stand.later DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION stand.fire_later();
-- one role after the other, in one session with one cache of plans
CREATE FUNCTION stand.alternate(one pg_catalog.text, other pg_catalog.text) RETURNS TABLE (n pg_catalog.int8, outcome pg_catalog.text)
LANGUAGE plpgsql AS $$
DECLARE statement pg_catalog.text;
BEGIN
  FOR n, statement IN SELECT s.n, s.statement FROM stand.statements s ORDER BY 1 USING OPERATOR(pg_catalog.<) LOOP
    PERFORM pg_catalog.set_config('role', other, true);
    PERFORM stand.ask(statement);
    PERFORM pg_catalog.set_config('role', one, true);
    outcome := stand.ask(statement);
    RETURN NEXT;
  END LOOP;
END $$;
"""
#: for each role: a function with its rights, a table whose index and a view whose rows are made by asking
_OF_ROLE = """
CREATE FUNCTION stand.as_{tag}(statement pg_catalog.text) RETURNS pg_catalog.text LANGUAGE plpgsql SECURITY DEFINER
  AS $$ BEGIN RETURN stand.ask(statement); END $$;
ALTER FUNCTION stand.as_{tag} OWNER TO {role};
CREATE FUNCTION stand.index_{tag}(n pg_catalog.int8, statement pg_catalog.text) RETURNS pg_catalog.int8 LANGUAGE plpgsql IMMUTABLE
  AS $$ BEGIN RETURN stand.told(n, stand.ask(statement)); END $$;
CREATE TABLE stand.table_{tag} (n int8, statement text);
CREATE INDEX index_{tag} ON stand.table_{tag} (stand.index_{tag}(n, statement));
ALTER TABLE stand.table_{tag} OWNER TO {role};
CREATE MATERIALIZED VIEW stand.view_{tag} AS SELECT s.n, stand.ask(s.statement) AS outcome FROM stand.statements s WITH NO DATA;
ALTER MATERIALIZED VIEW stand.view_{tag} OWNER TO {role};
"""
#: shadows of all that sources of the extension may mean by an unqualified name: functions, operators, types, catalogs
_EVIL = r"""
CREATE SCHEMA evil; GRANT USAGE ON SCHEMA evil TO PUBLIC;
CREATE FUNCTION evil.tripped(what pg_catalog.text) RETURNS pg_catalog.bool LANGUAGE plpgsql AS $f$
BEGIN RAISE WARNING USING MESSAGE = pg_catalog.concat('evil ran: ', what, ' as ', CURRENT_USER); RETURN true; END $f$;
CREATE TYPE evil.size AS ENUM ('small', 'large');
CREATE FUNCTION evil.spoken(evil.size) RETURNS text LANGUAGE sql AS $$ SELECT evil.tripped('cast')::text $$;
CREATE CAST (evil.size AS text) WITH FUNCTION evil.spoken(evil.size) AS IMPLICIT;
DO $do$
DECLARE
  sources text := (SELECT string_agg(p.prosrc, ' ') FROM pg_proc p WHERE p.pronamespace = 'privid'::regnamespace);
  words   text[] := ARRAY(SELECT DISTINCT w[1] FROM regexp_matches(sources, '[a-z_][a-z0-9_]+', 'g') w);
  made    record;
BEGIN
  FOR made IN
    SELECT p.oid, p.proname AS name, p.proretset AS many, format_type(p.prorettype, NULL) AS result,
           array_to_string(ARRAY(SELECT format_type(t, NULL) FROM unnest(p.proargtypes) t), ', ') AS arguments
    FROM pg_proc p
    WHERE p.pronamespace = 'pg_catalog'::regnamespace AND p.prokind IN ('f', 'a') AND p.proname = ANY (words) AND p.provariadic = 0
      AND NOT EXISTS (SELECT FROM unnest(p.proargtypes || p.prorettype) a JOIN pg_type t ON t.oid = a
                      WHERE t.typtype = 'p' AND t.typname NOT IN ('anyelement', 'anyarray', 'record', 'void'))
  LOOP
    BEGIN
      EXECUTE format('CREATE FUNCTION evil.%I(%s) RETURNS %s %s LANGUAGE plpgsql AS %L', made.name, made.arguments,
                     CASE WHEN made.many THEN 'SETOF' ELSE '' END, made.result,
                     format('BEGIN PERFORM evil.tripped(%L); %s; END', made.name,
                            CASE WHEN made.many OR made.result = 'void' THEN 'RETURN' ELSE 'RETURN NULL' END));
    EXCEPTION WHEN OTHERS THEN NULL;
    END;
  END LOOP;
  FOR made IN SELECT * FROM (VALUES ('format'), ('concat'), ('jsonb_build_object'), ('jsonb_build_array')) v(name) LOOP
    EXECUTE format('CREATE FUNCTION evil.%I(VARIADIC text[]) RETURNS text LANGUAGE plpgsql AS %L', made.name,
                   format('BEGIN PERFORM evil.tripped(%L); RETURN NULL; END', made.name));
  END LOOP;
  FOR made IN
    SELECT o.oid, o.oprname AS name, format_type(nullif(o.oprleft, 0), NULL) AS l, format_type(o.oprright, NULL) AS r,
           format_type(o.oprresult, NULL) AS result
    FROM pg_operator o
    WHERE o.oprnamespace = 'pg_catalog'::regnamespace AND strpos(sources, o.oprname) > 0
      AND o.oprleft = ANY ('{-,text,name,int4,int8,numeric,jsonb,oid,bytea,float8,timestamptz,text[],anyarray,int8multirange}'::regtype[])
  LOOP
    BEGIN
      EXECUTE format('CREATE FUNCTION evil.operator_%s(%s) RETURNS %s LANGUAGE plpgsql AS %L', made.oid, concat_ws(', ', made.l, made.r),
                     made.result, format('BEGIN PERFORM evil.tripped(%L); RETURN NULL; END', made.name));
      EXECUTE format('CREATE OPERATOR evil.%s (FUNCTION = evil.operator_%s, %s RIGHTARG = %s)', made.name, made.oid,
                     'LEFTARG = ' || made.l || ',', made.r);
    EXCEPTION WHEN OTHERS THEN NULL;
    END;
  END LOOP;
  FOR made IN SELECT c.relname AS name FROM pg_class c WHERE c.relnamespace = 'pg_catalog'::regnamespace AND c.relkind IN ('r', 'v')
                AND c.relname = ANY (words) AND c.relname <> 'pg_statistic' LOOP
    EXECUTE format('CREATE VIEW evil.%I AS SELECT x.* FROM pg_catalog.%I x WHERE evil.tripped(%L)', made.name, made.name, made.name);
    EXECUTE format('GRANT SELECT ON evil.%I TO PUBLIC', made.name);
  END LOOP;
  FOR made IN SELECT * FROM (VALUES ('text'), ('name'), ('jsonb'), ('polygon'), ('bytea'), ('regnamespace'), ('regclass')) v(name) LOOP
    EXECUTE format('CREATE DOMAIN evil.%I AS pg_catalog.%I CHECK (evil.tripped(%L))', made.name, made.name, 'type ' || made.name);
  END LOOP;
END $do$;
"""
_HOSTILE = """
SET search_path = evil, pg_catalog;
DO $do$
DECLARE made pg_catalog.name;
BEGIN
  FOR made IN SELECT c.relname FROM pg_catalog.pg_class c WHERE c.relnamespace OPERATOR(pg_catalog.=) 'evil'::pg_catalog.regnamespace
                AND c.relkind OPERATOR(pg_catalog.=) 'v' LOOP
    EXECUTE pg_catalog.concat('CREATE TEMP VIEW ', made, ' AS SELECT x.* FROM pg_catalog.', made, ' x WHERE evil.tripped(''temporary ',
                              made, ''')');
    EXECUTE pg_catalog.concat('GRANT SELECT ON pg_temp.', made, ' TO PUBLIC');
  END LOOP;
END $do$;
"""
_TOLD = re.compile(r"told (\d+) (.*)", re.DOTALL)


@dataclass(frozen=True)
class Fault:
    """Something that did not follow from the effective role alone."""

    surrounding: str
    role: str
    statement: str
    plain: str
    found: str


@dataclass
class Stand:
    """The city, the shadows, and what is asked."""

    city: City
    statements: list[str] = field(default_factory=list)

    def build(self) -> None:
        run = self.city.stack.run
        run("CREATE ROLE mallory", user="privid")
        run(_FUNCTIONS, user="privid")
        run(_EVIL, user="privid")
        for role in ASKING:
            with self.city.stack.connect("privid") as session:
                session.execute(_OF_ROLE.format(tag=_tag(role), role=self.city.roles[role]).encode())

    def fill(self, about: str = "") -> None:
        """With what the catalog has now, or the part of it that names something."""
        self.statements = [statement for statement in _statements(self.city) if about in statement]
        with self.city.stack.connect("privid") as session:
            session.execute("TRUNCATE stand.statements")
            session.cursor().executemany("INSERT INTO stand.statements VALUES (%s, %s)", list(enumerate(self.statements)))

    def tear_down(self) -> None:
        self.city.stack.run("DROP SCHEMA IF EXISTS stand, evil CASCADE", user="privid")
        self.city.stack.run("DROP ROLE IF EXISTS mallory", user="privid")

    def name(self, role: str) -> str:
        return "privid" if role == SUPERUSER else self.city.roles[role]

    @contextlib.contextmanager
    def session(self, role: str, hostile: bool = True) -> Iterator[tuple[Session, list[str]]]:
        """One of a role's, among shadows; and the warnings in it."""
        with self.city.stack.connect(self.name(role)) as session:
            warnings: list[str] = []
            session.execute("SET statement_timeout = '120s'")
            if hostile:
                session.execute(_HOSTILE)
            session.add_notice_handler(lambda notice: warnings.append(notice.message_primary or ""))
            yield session, warnings


@contextlib.contextmanager
def standing(city: City) -> Iterator[Stand]:
    stand = Stand(city)
    try:
        stand.build()
        yield stand
    finally:
        stand.tear_down()


def search(stand: Stand, asking: tuple[str, ...] = ASKING, about: str = "") -> list[Fault]:
    """Everything in every surrounding, by each of these roles."""
    stand.fill(about)
    faults = []
    for role in (*asking, SUPERUSER):
        with stand.session(role, hostile=False) as (session, _):
            _asked(session)  # the engine notes a camera that it is asked about, whatever becomes of the statement
            plain = _asked(session)
        for surrounding, ways in _SURROUNDINGS.items():
            if role == SUPERUSER and surrounding not in ("path", "without row security"):
                continue
            outcomes, warnings = ways(stand, role)
            assert outcomes.keys() == plain.keys(), surrounding
            faults += [Fault(surrounding, role, "", "", warning) for warning in sorted(set(warnings)) if warning.startswith("evil ran")]
            for number, outcome in outcomes.items():
                # what is done with fewer rights than usual (maintenance) may be refused where it otherwise is not
                if _essence(outcome) != _essence(plain[number]) and not (surrounding in _STRICTER and outcome.startswith(_REFUSED)):
                    faults.append(Fault(surrounding, role, stand.statements[number], plain[number], outcome))
    return faults


def _essence(outcome: str) -> str:
    """Without what the engine notes of its own, how fast it has been, and the order of rows."""
    rows, _, changes = re.sub(r'""Seconds"":[0-9.]+', "", outcome).partition("; changed: ")
    return "|".join(sorted(row for row in rows.split("|") if ',engine,"' not in row and not row.startswith("(engine,"))) + changes


# The surroundings

Outcomes = tuple[dict[int, str], list[str]]


def _asked(session: Session, function: str = "ask") -> dict[int, str]:
    call = sql.SQL("SELECT s.n, stand.{}(s.statement) FROM stand.statements s").format(sql.Identifier(function))
    return dict(session.execute(call).fetchall())


def _in_path(stand: Stand, role: str) -> Outcomes:
    with stand.session(role) as (session, warnings):
        return _asked(session), warnings


def _without_row_security(stand: Stand, role: str) -> Outcomes:
    with stand.session(role) as (session, warnings):
        session.execute("SET row_security = off")
        return _asked(session), warnings


def _in_definer(stand: Stand, role: str) -> Outcomes:
    """Called by somebody with more rights, and with others."""
    found: dict[int, str] = {}
    everything: list[str] = []
    for caller in (SUPERUSER, "analyst" if role == "owner" else "owner"):
        with stand.session(caller) as (session, warnings):
            outcomes = _asked(session, f"as_{_tag(role)}")
            found = {
                n: outcome if _essence(found.get(n, outcome)) == _essence(outcome) else f"{found[n]} or {outcome}"
                for n, outcome in outcomes.items()
            }
            everything += warnings
    return found, everything


def _in_turn(stand: Stand, role: str) -> Outcomes:
    with stand.session(SUPERUSER) as (session, warnings):
        other = stand.name("analyst" if role == "owner" else "owner")
        return dict(session.execute("SELECT n, outcome FROM stand.alternate(%s, %s)", (stand.name(role), other)).fetchall()), warnings


def _after_discard(stand: Stand, role: str) -> Outcomes:
    """Plans of another's that were made before."""
    with stand.session(SUPERUSER) as (session, warnings):
        for who, discard in ((stand.name("owner"), "PLANS"), (stand.name("analyst"), "TEMP"), (stand.name(role), "SEQUENCES")):
            session.execute(sql.SQL("SET SESSION AUTHORIZATION {}").format(sql.Identifier(who)))
            outcomes = _asked(session)
            session.execute(sql.SQL("RESET SESSION AUTHORIZATION; DISCARD {}").format(sql.SQL(discard)))
        return outcomes, warnings


def _in_trigger(stand: Stand, role: str) -> Outcomes:
    with stand.session(SUPERUSER) as (session, warnings), session.transaction(force_rollback=True):
        session.execute(sql.SQL("SET LOCAL ROLE {}").format(sql.Identifier(stand.name(role))))
        session.execute("INSERT INTO stand.asked SELECT s.n, s.statement FROM stand.statements s")
        return dict(session.execute("SELECT n, outcome FROM stand.asked").fetchall()), warnings


def _at_commit(stand: Stand, role: str) -> Outcomes:
    """A deferred trigger: another has inserted, and is somebody else by then."""
    with stand.session(SUPERUSER) as (session, warnings):
        with session.transaction():
            session.execute("INSERT INTO stand.later SELECT s.n, s.statement FROM stand.statements s")
            session.execute(sql.SQL("SET LOCAL ROLE {}").format(sql.Identifier(stand.name(role))))
        return _told(warnings), warnings


def _in_index(stand: Stand, role: str, maintenance: str = "ANALYZE stand.table_{tag}") -> Outcomes:
    """As autovacuum does it: the session is the superuser's, and the effective role the table's owner."""
    table = sql.Identifier("stand", f"table_{_tag(role)}")
    with stand.session(SUPERUSER) as (session, warnings):
        session.execute(sql.SQL("SET ROLE {}").format(sql.Identifier(stand.name(role))))
        session.execute(sql.SQL("TRUNCATE {}").format(table))
        session.execute("RESET ROLE; SET search_path = evil, pg_catalog")
        session.execute(sql.SQL("INSERT INTO {} SELECT s.n, s.statement FROM stand.statements s").format(table))
        warnings.clear()
        session.execute(maintenance.format(tag=_tag(role)).encode())
        return _told(warnings), warnings


def _in_reindex(stand: Stand, role: str) -> Outcomes:
    return _in_index(stand, role, "REINDEX TABLE stand.table_{tag}")


def _in_restore(stand: Stand, role: str) -> Outcomes:
    """As pg_restore does it."""
    with stand.session(SUPERUSER) as (session, warnings):
        session.execute("SET check_function_bodies = off; SET row_security = off; SELECT pg_catalog.set_config('search_path', '', false)")
        view = sql.Identifier("stand", f"view_{_tag(role)}")
        session.execute(sql.SQL("REFRESH MATERIALIZED VIEW {}").format(view))
        return dict(session.execute(sql.SQL("SELECT n, outcome FROM {}").format(view)).fetchall()), warnings


def _in_held_cursor(stand: Stand, role: str) -> Outcomes:
    """It is read when the transaction ends, by whoever the session is then."""
    with stand.session(SUPERUSER) as (session, warnings):
        with session.transaction():
            session.execute("DECLARE held CURSOR WITH HOLD FOR SELECT s.n, stand.ask(s.statement) FROM stand.statements s")
            session.execute(sql.SQL("SET ROLE {}").format(sql.Identifier(stand.name(role))))
        session.execute("RESET ROLE")
        return dict(session.execute("FETCH ALL FROM held").fetchall()), warnings


_SURROUNDINGS: dict[str, Callable[[Stand, str], Outcomes]] = {
    "path": _in_path,
    "without row security": _without_row_security,
    "definer": _in_definer,
    "in turn": _in_turn,
    "discard": _after_discard,
    "trigger": _in_trigger,
    "at commit": _at_commit,
    "analyze": _in_index,
    "reindex": _in_reindex,
    "restore": _in_restore,
    "held cursor": _in_held_cursor,
}
_STRICTER = ("without row security", "analyze", "reindex", "restore")
#: for want of rights, because of what the statement itself uses, or in a refresh at all
_REFUSED = ("refused: 42501", "refused: 55006", "refused: 0A000")


def _told(warnings: list[str]) -> dict[int, str]:
    return {int(found[1]): found[2] for warning in warnings if (found := _TOLD.fullmatch(warning))}


def _tag(role: str) -> str:
    return role.replace(" ", "_")


# What is asked

#: what is meant, and does something
_MEANT = (
    "privid.create_mask('southerncamera', 'new', '{\"((0,0),(9,0),(9,9),(0,9))\"}', '1s', 2, NULL, '1s')",
    "privid.create_regions('southerncamera', 'new', '{\"left\": \"((0,0),(31,0),(31,47),(0,47))\", \"right\": [[32,0],[64,0],[64,48]]}', "
    "'soft', 2)",
    "privid.create_grid('southerncamera', 'grid', 2, 2, 32, 24, 10, 20, 5)",
    "privid.grant_budget('southerncamera', 'southernanalyst', 20)",
    "privid.revoke_budget('southerncamera', 'southernanalyst')",
    "privid.consent('southerncamera', 'looks_other_owner')",
    "privid.withdraw_consent('southerncamera', 'looks_other_owner')",
    "privid.upload('new', 'def process(chunk): pass')",
    "privid.upload('southernprogram', 'def process(chunk): pass')",
    "privid.attach('southernprogram', 'new', 'x')",
    "privid.detach('southernprogram', 'southernfile')",
    "privid.remove('southernprogram')",
    "privid.grant_folder('looks_other_owner', 'northern')",
    "privid.revoke_folder('southernowner', 'southernsource')",
    "privid.set_quota('southernanalyst', 1)",
    "privid.reset_quota('southernanalyst')",
    "privid.available('southerncamera', 1)",
    "privid.exposure('southerncamera', '5 s', 2)",
    "privid.label('small'::evil.size)",
    "privid.in_folder('southernowner', 'southernsource/x.mp4')",
    "pg_catalog.sign(privid.write_history('owners', 'southernanalyst', 'southerncamera', 'forged', '{}')::pg_catalog.float8)",
    "privid.reconcile_cameras('FORGED', true)",
)
_STATEMENTS = (
    "ALTER SERVER southerncamera OPTIONS (SET epsilon '90')",
    "ALTER SERVER southerncamera RENAME TO other",
    "DROP SERVER southerncamera CASCADE",
    "CREATE FOREIGN TABLE common.another (chunk timestamptz, v float8 DEFAULT 0) SERVER southerncamera OPTIONS ("
    "executable 'southernprogram', begin '2026-03-01 06:00+00', \"end\" '2026-03-01 06:00:02+00', chunk '1s', stride '0s', "
    "timeout '200ms', max_rows '1')",
    "DROP FOREIGN TABLE southernanalyst.southerntable",
    "GRANT USAGE ON FOREIGN SERVER southerncamera TO looks_stranger",
    "INSERT INTO privid.executable_store (owner, name, content) VALUES (CURRENT_USER, 'new', 'x')",
    "INSERT INTO privid.share_grants (camera, role, epsilon, granted_by) VALUES ('southerncamera', 'looks_stranger', 1, CURRENT_USER)",
    "DELETE FROM privid.history_log",
    "UPDATE privid.mask_store SET withdrawn = true",

    "SELECT x::pg_catalog.text FROM (SELECT pg_catalog.count(*) AS southernquestion FROM southernanalyst.southerntable) x",
)


def _statements(city: City) -> list[str]:
    listed = "SELECT pg_catalog.string_agg(x::pg_catalog.text, '|') FROM ({}) x"
    relations = city.stack.run(
        "SELECT relname FROM pg_class WHERE relnamespace = 'privid'::regnamespace AND relkind IN ('r', 'v') ORDER BY 1", user="privid"
    )
    found = [listed.format(f"SELECT * FROM privid.{name}") for (name,) in relations]
    found += [listed.format(call.as_string(None)) for calls in functions(city).values() for call in calls]
    found += [listed.format(f"SELECT * FROM {call}") for call in _MEANT]
    return [*found, *_STATEMENTS]

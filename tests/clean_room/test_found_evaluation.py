"""Code of an analyst that ran with the rights of whoever explained a release: behind functions of
PostgreSQL's own that look other code up, and in what belongs to an ordinary table."""

from __future__ import annotations

from collections.abc import Callable

import psycopg
import pytest

from .evil import others
from .pair import Pair

#: conditions of a view that reach code of the analyst through PostgreSQL's own functions
BEHIND = {
    "domain_in": "domain_in('x', 'analyst.trap'::regtype, -1) IS NOT NULL",
    "to_json": "plate = to_json('small'::{0})::text",
    "to_jsonb": "plate = to_jsonb('small'::{0})::text",
    "json_build_array": "plate = json_build_array('small'::{0})::text",
    "table_to_xml": "plate = table_to_xml('analyst.{0}_v', true, true, '')::text",
    "query_to_xml": "query_to_xml('SELECT analyst.evil()', true, true, '') IS NOT NULL",
    "ts_rewrite": "ts_rewrite('a'::tsquery, 'SELECT NULL::tsquery, "
    "to_tsquery(analyst.evil())') IS NOT NULL",
    "a cast behind ||": "plate = 'x' || 'small'::{0}",
    "the function itself": "plate = analyst.evil()",
}


@pytest.fixture(params=BEHIND)
def behind(evil: Pair, unique: Callable[[str], str], request: pytest.FixtureRequest) -> str:
    """A view that the analyst made, and everybody may read."""
    name = unique("behind")
    with evil.stack.connect() as connection:
        connection.execute(
            f"""
            SET search_path = analyst;
            CREATE TYPE {name} AS ENUM ('small');
            CREATE FUNCTION {name}_json({name}) RETURNS json LANGUAGE plpgsql AS
                $$ BEGIN PERFORM analyst.evil(); RETURN '1'; END $$;
            CREATE CAST ({name} AS json) WITH FUNCTION {name}_json({name});
            CREATE FUNCTION {name}_text({name}) RETURNS text LANGUAGE plpgsql IMMUTABLE AS
                $$ BEGIN PERFORM analyst.evil(); RETURN '1'; END $$;
            CREATE CAST ({name} AS text) WITH FUNCTION {name}_text({name});
            CREATE VIEW {name}_v AS SELECT analyst.evil() AS x;
            CREATE VIEW {name}_release AS SELECT count(*) FROM event_a.t
                WHERE {BEHIND[request.param].format(name)};
            GRANT SELECT ON {name}_release TO PUBLIC""".encode()
        )
    others(evil)
    return f"analyst.{name}_release"


def test_a_function_of_postgresql_runs_no_code_of_an_analyst(evil: Pair, behind: str) -> None:
    for user in ("second", "owner", "privid"):
        for verb in ("EXPLAIN ", ""):
            with pytest.raises(psycopg.Error) as caught:
                evil.stack.run(f"{verb}SELECT * FROM {behind}", user=user)
            assert caught.value.diag.sqlstate == "PV002", caught.value
            assert caught.value.diag.message_hint, caught.value
    assert others(evil) == []


@pytest.mark.parametrize("limit", ["length(analyst.evil()) - 4", "length(analyst.evil())"])
def test_whether_a_level_is_empty_is_not_asked_of_an_analysts_function(
    evil: Pair, unique: Callable[[str], str], limit: str
) -> None:
    name = unique("empty")
    evil.stack.run(f"CREATE VIEW analyst.{name} AS SELECT v FROM event_a.t LIMIT {limit}")
    evil.stack.run(f"GRANT SELECT ON analyst.{name} TO PUBLIC")
    others(evil)
    with pytest.raises(psycopg.Error) as caught:
        evil.stack.run(f"EXPLAIN SELECT * FROM analyst.{name}", user="owner")
    assert caught.value.diag.sqlstate == "PV001"
    assert others(evil) == []


# ------------------------------------------------------------------ ordinary tables

JOIN = "SELECT k, count(v) FROM analyst.{0} LEFT JOIN event_a.t ON plate = k GROUP BY k"

#: what belongs to an ordinary table of the analyst
TRAPS = {
    "an index expression": "CREATE INDEX ON {0} ((k || analyst.evil()))",
    "an index predicate": "CREATE INDEX ON {0} (k) WHERE k <> analyst.evil()",
    "statistics": "CREATE STATISTICS {0}_s ON (k || analyst.evil()) FROM {0}",
    "a constraint": "ALTER TABLE {0} ADD CHECK (k <> analyst.evil() || '!')",
    "a child's constraint": "CREATE TABLE {0}_c (CHECK (k <> analyst.evil() || '!')) "
    "INHERITS ({0})",
    "a child's index": "CREATE TABLE {0}_c () INHERITS ({0}); "
    "CREATE INDEX ON {0}_c ((k || analyst.evil()))",
    "a partition key": "DROP TABLE {0}; "
    "CREATE TABLE {0} (k text) PARTITION BY LIST ((k || analyst.evil())); "
    "CREATE TABLE {0}_d PARTITION OF {0} DEFAULT",
    "a partition's index": "DROP TABLE {0}; CREATE TABLE {0} (k text) PARTITION BY LIST (k); "
    "CREATE TABLE {0}_d PARTITION OF {0} DEFAULT; "
    "CREATE INDEX ON {0}_d ((k || analyst.evil()))",
}

#: conditions of its row security; none of them lets a release through
POLICIES = {
    "query_to_xml": "query_to_xml('SELECT analyst.evil()', true, true, '') IS NOT NULL",
    "domain_in": "domain_in(k::cstring, 'analyst.trap'::regtype, -1) IS NOT NULL",
    "a function": "k <> analyst.evil()",
    "a subquery": "k IN (SELECT analyst.evil())",
    "a setting": "set_config('privid.epsilon', '0.5', false) IS NOT NULL",
    "a whole row": "to_json(analyst.{0}.*) IS NOT NULL",
    "a system column": "{0}.ctid IS NOT NULL",
}


def ordinary(pair: Pair, name: str, definition: str) -> None:
    """A table of the analyst that everybody may read, with two keys in it."""
    with pair.stack.connect(options="-c search_path=analyst,public") as connection:
        connection.execute(f"CREATE TABLE {name} (k text)".encode())
        connection.execute(definition.format(name).encode())
        connection.execute(f"INSERT INTO {name} VALUES ('X'), ('none')".encode())
        connection.execute(f"ANALYZE {name}".encode())
        connection.execute(f"CREATE VIEW {name}_v AS {JOIN.format(name)}".encode())
        connection.execute(f"GRANT SELECT ON {name}, {name}_v TO PUBLIC".encode())
    others(pair)


@pytest.mark.parametrize("trap", TRAPS.values(), ids=TRAPS)
def test_reading_an_ordinary_table_runs_no_code_of_its_owner(
    evil: Pair, unique: Callable[[str], str], trap: str
) -> None:
    name = unique("keys")
    ordinary(evil, name, trap)
    for user in ("second", "owner", "privid"):
        for statement in (JOIN.format(name), f"SELECT * FROM analyst.{name}_v"):
            evil.stack.run(
                f"EXPLAIN {statement}", user=user, settings={"constraint_exclusion": "on"}
            )
            assert sorted(row[0] for row in evil.stack.run(statement, user=user)) == ["X", "none"]
    assert others(evil) == []


@pytest.mark.parametrize("policy", POLICIES.values(), ids=POLICIES)
def test_row_security_of_an_ordinary_table_runs_no_code_of_its_owner(
    evil: Pair, unique: Callable[[str], str], policy: str
) -> None:
    name = unique("keys")
    ordinary(evil, name, "ALTER TABLE {0} ENABLE ROW LEVEL SECURITY")
    evil.stack.run(f"CREATE POLICY p ON analyst.{name} USING ({policy.format(name)})")
    for user in ("second", "owner"):
        for verb in ("EXPLAIN ", ""):
            with pytest.raises(psycopg.Error) as caught:
                evil.stack.run(verb + JOIN.format(name), user=user)
            assert caught.value.diag.sqlstate == "PV002", caught.value
    assert others(evil) == []


@pytest.mark.parametrize(
    ("policy", "seen"),
    [
        ("who = current_user", ["none"]),
        ("who IN (current_user::text, 'x') AND lower(k) LIKE 'n%'", ["none"]),
        ("pg_has_role(who::name, 'member')", ["none"]),
        ("n < current_setting('app.limit')::int", ["X"]),
        ("since <= now() - interval '1 day'", ["X", "none"]),
        ("CASE WHEN n > 1 THEN coalesce(k, '') <> 'X' ELSE since < now() END", ["X", "none"]),
    ],
)
def test_row_security_of_plain_conditions_chooses_rows_at_every_level_of_partitions(
    evil: Pair, unique: Callable[[str], str], policy: str, seen: list[str]
) -> None:
    name = unique("keys")
    with evil.stack.connect(options="-c search_path=analyst,public") as connection:
        connection.execute(
            f"""
            CREATE TABLE {name} (gone int, k text, n int, who text,
                                 since timestamptz DEFAULT '2026-01-01') PARTITION BY RANGE (n);
            ALTER TABLE {name} DROP COLUMN gone;
            CREATE TABLE {name}_1 PARTITION OF {name} FOR VALUES FROM (0) TO (2);
            CREATE TABLE {name}_2 (who text, n int, since timestamptz, k text);
            ALTER TABLE {name} ATTACH PARTITION {name}_2 FOR VALUES FROM (2) TO (9);
            INSERT INTO {name} VALUES ('X', 1, 'owner'), ('none', 2, 'second');
            ALTER TABLE {name} ENABLE ROW LEVEL SECURITY;
            CREATE POLICY p ON {name} USING ({policy});
            GRANT SELECT ON {name} TO PUBLIC""".encode()
        )
    rows = evil.stack.run(JOIN.format(name), user="second", settings={"app.limit": "2"})
    assert sorted(row[0] for row in rows) == seen


def test_an_ordinary_table_is_read_with_the_rights_of_whoever_asks(
    evil: Pair, unique: Callable[[str], str]
) -> None:
    name = unique("keys")
    ordinary(evil, name, "ALTER TABLE {0} ADD n int")
    evil.stack.run(f"REVOKE SELECT ON analyst.{name} FROM PUBLIC")
    for inner in (JOIN.format(name), f"SELECT sum(range(n, 0, 5)) FROM ({JOIN}) q(k, n)"):
        for verb in ("EXPLAIN ", ""):
            with pytest.raises(psycopg.errors.InsufficientPrivilege):
                evil.stack.run(verb + inner.format(name), user="second")
    evil.stack.run(f"GRANT SELECT (k) ON analyst.{name} TO second")
    assert len(evil.stack.run(JOIN.format(name), user="second")) == 2
    with pytest.raises(psycopg.Error, match="through a view only"):
        evil.stack.run(f"SELECT * FROM analyst.{name}_v", user="owner")
    evil.stack.run(f"GRANT SELECT ON analyst.{name} TO owner")
    assert len(evil.stack.run(f"SELECT * FROM analyst.{name}_v", user="owner")) == 2


@pytest.mark.parametrize("salary", [1, 100_000])
def test_what_one_may_not_read_is_not_read_while_a_statement_is_planned(
    evil: Pair, unique: Callable[[str], str], salary: int
) -> None:
    """Which level is released is asked while planning; a refusal told whether two rows were equal."""
    name = unique("pay")
    evil.stack.run(f"CREATE SCHEMA {name}; GRANT USAGE ON SCHEMA {name} TO analyst", user="privid")
    evil.stack.run(f"CREATE TABLE {name}.t (dept text, person text, salary int)", user="privid")
    evil.stack.run(f"CREATE VIEW {name}.v AS SELECT * FROM {name}.t", user="privid")
    evil.stack.run(
        f"INSERT INTO {name}.t VALUES ('none', 'alice', 48213), ('none', 'bob', 1)", user="privid"
    )
    for form in ("", "EXPLAIN "):
        seen = evil.see(
            "a",
            f"{form}SELECT sum(n) FROM (SELECT p.dept, count(*) n FROM {name}.v p "
            "LEFT JOIN event_a.t ON plate = p.dept "
            f"WHERE p.person = 'bob' OR p.salary > {salary} GROUP BY p.dept) x",
        )
        assert (seen.sqlstate, seen.charged) == ("42501", 0), seen


def test_a_foreign_table_of_a_camera_is_no_part_of_an_ordinary_table(
    evil: Pair, unique: Callable[[str], str]
) -> None:
    name = unique("keys")
    with evil.connect("a") as connection:
        connection.execute(f"CREATE TABLE {name} (LIKE t)".encode())
        connection.execute(f"ALTER FOREIGN TABLE t INHERIT {name}".encode())
        try:
            with pytest.raises(psycopg.Error) as caught:
                connection.execute(
                    f"SELECT count(*) FROM {name} p JOIN event_b.t ON t.plate = p.plate".encode()
                )
            assert caught.value.diag.sqlstate == "PV002"
        finally:
            connection.execute(f"ALTER FOREIGN TABLE t NO INHERIT {name}".encode())

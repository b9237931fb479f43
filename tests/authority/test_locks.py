"""No statement waits for a strong lock on what everybody needs, whoever sends it: it is refused first.

The forms are those in which PostgreSQL's grammar lets a statement name a relation. Somebody reads and writes each relation meanwhile, so
that whatever asks for a lock which keeps others from that waits, and is found by its time limit.
"""

from __future__ import annotations

from collections.abc import Iterator

import psycopg
import pytest

from tests.conftest import RunningStack

#: of the extension: a table, a view, a materialized form is none; of PostgreSQL: what every statement over a camera reads
RELATIONS = ["privid.release_log", "privid.recordings", "privid.history_log", "privid.executable_store", "privid.budget", "privid.cameras",
             "pg_catalog.pg_class", "pg_catalog.pg_foreign_server", "pg_catalog.pg_foreign_table", "pg_catalog.pg_authid"]
#: {r}: the relation, {i}: an index of it or itself, {c}: a column
FORMS = [
    "ALTER INDEX {i} DEPENDS ON EXTENSION plpgsql", "ALTER MATERIALIZED VIEW {r} DEPENDS ON EXTENSION plpgsql",
    "ALTER TRIGGER x ON {r} DEPENDS ON EXTENSION plpgsql", "ALTER TRIGGER x ON {r} RENAME TO y",
    "CREATE RULE r AS ON INSERT TO {r} DO NOTHING", "CREATE OR REPLACE RULE r AS ON INSERT TO {r} DO ALSO SELECT 1",
    "ALTER RULE r ON {r} RENAME TO s", "DROP RULE r ON {r}", "DROP RULE IF EXISTS r ON {r}",
    "CREATE TRIGGER t BEFORE INSERT ON {r} FOR EACH ROW EXECUTE FUNCTION suppress_redundant_updates_trigger()",
    "CREATE CONSTRAINT TRIGGER t AFTER INSERT ON mine FROM {r} FOR EACH ROW EXECUTE FUNCTION suppress_redundant_updates_trigger()",
    "DROP TRIGGER t ON {r}", "DROP TRIGGER IF EXISTS refuse_others ON {r}",
    "CREATE TABLE x (i bigint REFERENCES {r})", "CREATE TABLE x (i bigint REFERENCES {r} ({c}))",
    "CREATE TABLE x (i bigint, FOREIGN KEY (i) REFERENCES {r} ({c}))", "ALTER TABLE mine ADD j bigint REFERENCES {r}",
    "ALTER TABLE mine ADD FOREIGN KEY (i) REFERENCES {r} ({c})",
    "CREATE TABLE x () INHERITS ({r})", "CREATE TABLE x PARTITION OF {r} DEFAULT", "CREATE TEMP TABLE x () INHERITS ({r})",
    "CREATE TABLE x PARTITION OF {r} FOR VALUES IN (1)", "ALTER TABLE mine INHERIT {r}", "ALTER TABLE mine NO INHERIT {r}",
    "ALTER TABLE parted ATTACH PARTITION {r} DEFAULT", "ALTER TABLE parted DETACH PARTITION {r}",
    "ALTER TABLE parted DETACH PARTITION {r} CONCURRENTLY", "CREATE TABLE x (LIKE {r} INCLUDING ALL)", "CREATE TABLE x OF {r}",
    "ALTER TABLE mine OF {r}", "CREATE FOREIGN TABLE x () INHERITS ({r}) SERVER nowhere",
    "CREATE FOREIGN TABLE x PARTITION OF {r} DEFAULT SERVER nowhere",
    "CREATE SCHEMA AUTHORIZATION CURRENT_ROLE CREATE TABLE x (i bigint REFERENCES {r})",
    "CREATE SCHEMA IF NOT EXISTS stranger CREATE TRIGGER t BEFORE INSERT ON {r} EXECUTE FUNCTION suppress_redundant_updates_trigger()",
    "CREATE INDEX ON {r} ({c})", "CREATE INDEX CONCURRENTLY ON {r} ({c})", "CREATE STATISTICS s ON {c}, {c} FROM {r}",
    "ALTER TABLE {r} ADD x int", "ALTER TABLE {r} RENAME TO y", "ALTER TABLE {r} RENAME {c} TO y", "ALTER TABLE {r} SET SCHEMA stranger",
    "ALTER TABLE {r} OWNER TO CURRENT_ROLE", "ALTER TABLE {r} CLUSTER ON x", "ALTER TABLE {r} ENABLE ROW LEVEL SECURITY",
    "ALTER TABLE {r} DISABLE TRIGGER ALL", "ALTER TABLE {r} SET LOGGED", "ALTER TABLE {r} REPLICA IDENTITY FULL",
    "ALTER VIEW {r} RENAME TO y", "ALTER VIEW {r} SET (security_barrier = off)", "ALTER SEQUENCE {r} OWNED BY mine.i",
    "ALTER SEQUENCE counter OWNED BY {r}.{c}", "ALTER INDEX {i} RENAME TO y", "ALTER INDEX {i} SET (fillfactor = 50)",
    "ALTER FOREIGN TABLE {r} ADD x int", "ALTER TYPE {r} ADD ATTRIBUTE x int", "ALTER INDEX {i} ATTACH PARTITION {i}",
    "DROP TABLE {r}", "DROP VIEW {r}", "DROP INDEX {i}", "DROP MATERIALIZED VIEW {r}", "DROP SEQUENCE {r}", "DROP FOREIGN TABLE {r}",
    "DROP INDEX CONCURRENTLY {i}", "TRUNCATE {r}", "CREATE OR REPLACE VIEW {r} AS SELECT 1", "REFRESH MATERIALIZED VIEW {r}",
    "REINDEX TABLE {r}", "REINDEX INDEX {i}", "REINDEX TABLE CONCURRENTLY {r}", "VACUUM FULL {r}", "CLUSTER {r} USING x", "CLUSTER {r}",
    *(f"LOCK TABLE {{r}} IN {mode} MODE" for mode in ("SHARE", "SHARE ROW EXCLUSIVE", "EXCLUSIVE", "ACCESS EXCLUSIVE")),
    "CREATE POLICY p ON {r}", "ALTER POLICY p ON {r} USING (true)", "DROP POLICY p ON {r}", "COMMENT ON TABLE {r} IS 'x'",
    "COMMENT ON COLUMN {r}.{c} IS 'x'", "COMMENT ON TRIGGER t ON {r} IS 'x'", "SECURITY LABEL ON TABLE {r} IS 'x'",
    "GRANT SELECT ON {r} TO PUBLIC", "REVOKE ALL ON {r} FROM PUBLIC", "CREATE PUBLICATION p FOR TABLE {r}",
    "ALTER EXTENSION privid DROP TABLE {r}", "ALTER EXTENSION plpgsql ADD TABLE {r}", "SELECT * FROM {r} FOR UPDATE",
    "DELETE FROM {r}", "COPY {r} FROM STDIN", "ANALYZE {r}",
]


@pytest.fixture(scope="module")
def stranger(stack: RunningStack) -> Iterator[str]:
    """A role without any right to privid's things, that has a schema and tables of its own."""
    stack.run("CREATE ROLE stranger LOGIN; CREATE SCHEMA AUTHORIZATION stranger", user="privid")
    stack.run("CREATE TABLE mine (i bigint); CREATE TABLE parted (i bigint) PARTITION BY LIST (i); CREATE SEQUENCE counter",
              user="stranger")
    yield "stranger"
    stack.run("DROP OWNED BY stranger CASCADE; DROP ROLE stranger", user="privid")


@pytest.mark.parametrize("relation", RELATIONS)
def test_no_statement_waits_for_a_lock_on_what_is_not_its_roles(stack: RunningStack, stranger: str, relation: str) -> None:
    waited = []
    with stack.connect("privid", autocommit=False) as busy:
        column, = busy.execute("SELECT attname FROM pg_attribute WHERE attrelid = %s::regclass AND attnum = 1", (relation,)).fetchall()[0]
        index = busy.execute("SELECT coalesce(min(indexrelid::regclass::text), %s) FROM pg_index WHERE indrelid = %s::regclass",
                             (relation, relation)).fetchall()[0][0]
        busy.execute(f"LOCK TABLE {relation} IN ROW EXCLUSIVE MODE".encode())
        for form in FORMS:
            statement = form.format(r=relation, i=index if "." in index else f"{relation.split('.')[0]}.{index}", c=column)
            with stack.connect(stranger, options="-c lock_timeout=150ms") as session:
                try:
                    if statement.startswith("COPY"):
                        with session.cursor().copy(statement.encode()) as copy:
                            copy.write(b"")
                    else:
                        session.execute(statement.encode())
                except psycopg.errors.LockNotAvailable:
                    waited.append(statement)
                except psycopg.Error:
                    pass
                if session.info.transaction_status.name == "IDLE":
                    session.execute("DROP TABLE IF EXISTS x CASCADE; DROP SCHEMA IF EXISTS s CASCADE")
    assert not waited


def test_a_name_that_could_come_to_mean_it_is_refused_too(stack: RunningStack, stranger: str) -> None:
    """PostgreSQL looks a name up again when it has waited: one's own table of that name may be gone by then."""
    stack.run("CREATE TABLE ledger (i int)", user=stranger)
    with stack.connect(stranger) as session:
        session.execute("SET search_path = stranger, privid")
        for name, refused in (("ledger", True), ("stranger.ledger", False)):
            statement = f"CREATE RULE r AS ON INSERT TO {name} DO NOTHING"
            if refused:
                with pytest.raises(psycopg.errors.InsufficientPrivilege, match="must be owner of table ledger"):
                    session.execute(statement.encode())
            else:
                session.execute(statement.encode())
    stack.run("DROP TABLE ledger", user=stranger)


def test_the_same_statements_wait_for_ones_own(stack: RunningStack, stranger: str) -> None:
    """What is refused is refused because of whose it is."""
    with stack.connect(stranger, autocommit=False) as busy:
        busy.execute("LOCK TABLE mine IN ROW EXCLUSIVE MODE")
        for form in FORMS[4], FORMS[9], "CREATE TABLE x () INHERITS ({r})":
            with stack.connect(stranger, options="-c lock_timeout=150ms") as session:
                if "INHERITS" in form:
                    session.execute(form.format(r="mine").encode())
                    continue
                with pytest.raises(psycopg.errors.LockNotAvailable):
                    session.execute(form.format(r="mine").encode())
    stack.run("DROP TABLE IF EXISTS stranger.x", user="privid")

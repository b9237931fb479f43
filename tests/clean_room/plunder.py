"""Code of an analyst that, wherever it runs in another's session, tries for raw rows."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from .pair import Connection, Pair

__all__ = ["PLUNDER", "loot", "owner_of"]

#: code that switches raw rows on and hands those of the camera over
PLUNDER = """
GRANT USAGE ON SCHEMA raid TO PUBLIC;
CREATE TABLE raid.loot (how text, who text, plate text, n bigint);
GRANT INSERT ON raid.loot TO PUBLIC;
CREATE FUNCTION raid.plunder(how text) RETURNS text LANGUAGE plpgsql AS $$ BEGIN
    INSERT INTO raid.loot VALUES (how, current_user, 'ran', 0);
    BEGIN
        PERFORM set_config('privid.raw', 'on', true);
        INSERT INTO raid.loot
            SELECT how, current_user, plate, count(*) FROM event_a.t GROUP BY plate;
    EXCEPTION WHEN OTHERS THEN NULL; END;
    BEGIN
        EXECUTE 'EXECUTE mine';
        INSERT INTO raid.loot VALUES (how, current_user, 'X', 1);
    EXCEPTION WHEN OTHERS THEN NULL; END;
    RETURN 'X'; END $$;
CREATE FUNCTION raid.stably(how text) RETURNS text LANGUAGE plpgsql STABLE AS
    $$ BEGIN RETURN raid.plunder(how); END $$;
CREATE FUNCTION raid.early(how text) RETURNS text LANGUAGE plpgsql IMMUTABLE AS
    $$ BEGIN RETURN raid.plunder(how); END $$;
CREATE TABLE raid.parted (k text) PARTITION BY LIST (k);
CREATE TABLE raid.parted_x PARTITION OF raid.parted FOR VALUES IN ('X');
CREATE TABLE raid.parted_y PARTITION OF raid.parted FOR VALUES IN ('Y');
CREATE VIEW raid.report AS
    SELECT * FROM raid.parted WHERE k = raid.stably('pruning');
CREATE DOMAIN raid.word AS text CHECK (raid.plunder('parameter') = 'X');
CREATE TABLE raid.guestbook (w raid.word);
CREATE VIEW raid.folds AS SELECT count(*) FROM event_a.t
    WHERE plate = 'X' AND domain_in('x', 'raid.word'::regtype, -1) IS NOT NULL;
CREATE TABLE raid.keys (k text);
INSERT INTO raid.keys VALUES ('X'), ('none');
ALTER TABLE raid.keys ENABLE ROW LEVEL SECURITY;
CREATE POLICY pol ON raid.keys USING
    (query_to_xml('SELECT raid.plunder(''policy'')', true, true, '') IS NOT NULL);
CREATE TABLE raid.listed (k text);
CREATE INDEX ON raid.listed ((k || raid.early('index')));
CREATE FUNCTION raid.fire() RETURNS trigger LANGUAGE plpgsql AS
    $$ BEGIN PERFORM raid.plunder('trigger'); RETURN NEW; END $$;
GRANT SELECT, INSERT ON raid.parted, raid.report, raid.guestbook, raid.keys,
    raid.listed, raid.folds TO PUBLIC;
"""


def loot(pair: Pair) -> tuple[set[str], list[tuple[str, str]]]:
    """Which code of the analyst ran in another's name, and which plates it got; emptied by that."""
    found = pair.stack.run("SELECT how, who, plate FROM raid.loot WHERE who <> 'analyst'")
    pair.stack.run("TRUNCATE raid.loot")
    ran = {how for how, _, plate in found if plate == "ran"}
    return ran, [(how, plate) for how, _, plate in found if plate != "ran"]


@contextmanager
def owner_of(pair: Pair, raw: str = "on") -> Iterator[Connection]:
    with pair.stack.connect("owner") as connection:
        connection.execute(f"SET privid.raw = {raw}".encode())
        yield connection

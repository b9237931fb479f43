"""A restore reads nothing of another role's: whoever reads runs what the other defined."""

from __future__ import annotations

import pytest

from .restoring import Restoring

#: code that tells in whose name it ran
CODE = """
CREATE TABLE ana.loot (what text); GRANT INSERT ON ana.loot TO PUBLIC; GRANT USAGE ON SCHEMA ana TO PUBLIC;
CREATE FUNCTION ana.tell() RETURNS void LANGUAGE plpgsql AS $$
BEGIN
  IF current_user <> 'ana' THEN INSERT INTO ana.loot VALUES (current_user); END IF;
END $$;
CREATE FUNCTION ana.number(int) RETURNS int LANGUAGE plpgsql IMMUTABLE AS $$ BEGIN PERFORM ana.tell(); RETURN $1; END $$;
"""

#: what ana has when ben makes his view, and what she adds before the dump
READ = {
    "child of a table": (
        "CREATE TABLE ana.seen (a int); CREATE TABLE ana.kid () INHERITS (ana.seen); INSERT INTO ana.kid VALUES (1)",
        "ALTER TABLE ana.kid ADD CONSTRAINT c CHECK (a < 100 + ana.number(1))"),
    "view with code in a text": (
        "CREATE TABLE ana.rows (a int); CREATE VIEW ana.seen AS SELECT a, ''::text AS note FROM ana.rows",
        "CREATE OR REPLACE VIEW ana.seen AS SELECT a, query_to_xml('SELECT ana.tell()', true, false, '')::text AS note FROM ana.rows"),
}


@pytest.mark.parametrize("way", READ)
def test_a_materialized_view_over_what_is_anothers_stays_empty(restoring: Restoring, way: str) -> None:
    made, added = READ[way]
    restoring.old_rows(CODE + made, "ana")
    restoring.old_rows("GRANT SELECT ON ana.seen TO PUBLIC", "ana")
    restoring.old_rows("CREATE MATERIALIZED VIEW ben.report AS SELECT count(*) AS n FROM ana.seen WHERE a > 0; "
                       "CREATE MATERIALIZED VIEW ben.above AS SELECT n + 1 AS n FROM ben.report", "ben")
    restoring.old_rows("CREATE MATERIALIZED VIEW ben.own AS SELECT 7 AS n", "ben")
    restoring.old_rows(added, "ana")
    restoring.dump()
    done = restoring.restore()
    assert restoring.new_rows("SELECT what FROM ana.loot") == []
    populated = "SELECT relname, relispopulated FROM pg_class WHERE relkind = 'm' ORDER BY 1"
    assert restoring.new_rows(populated) == [("above", False), ("own", True), ("report", False)]
    for name in ("report", "above"):
        assert f'not refreshed: materialized view data "ben.{name}"' in done.stdout


def test_row_security_holds_before_code_of_others_can_read(restoring: Restoring) -> None:
    restoring.old_rows("CREATE TABLE ben.kept (id int, secret text); INSERT INTO ben.kept VALUES (1, 'none'), (2, 'plate'); "
                       "ALTER TABLE ben.kept ENABLE ROW LEVEL SECURITY; CREATE POLICY few ON ben.kept USING (id = 1); "
                       "GRANT USAGE ON SCHEMA ben TO ana; GRANT SELECT ON ben.kept TO ana", "ben")
    restoring.old_rows("""
        CREATE TABLE ana.copied (secret text);
        CREATE FUNCTION ana.take() RETURNS void LANGUAGE plpgsql AS $$
        BEGIN INSERT INTO ana.copied SELECT secret FROM ben.kept; EXCEPTION WHEN OTHERS THEN NULL; END $$;
        CREATE FUNCTION ana.copy(int) RETURNS int LANGUAGE plpgsql IMMUTABLE AS $$ BEGIN PERFORM ana.take(); RETURN $1; END $$;
        CREATE TABLE ana.rows (x int); INSERT INTO ana.rows VALUES (1); CREATE INDEX ON ana.rows (ana.copy(x))""", "ana")
    assert restoring.old_rows("SELECT DISTINCT secret FROM ana.copied") == [("none",)]
    restoring.old_rows("TRUNCATE ana.copied", "ana")
    restoring.dump()
    restoring.restore()
    assert restoring.new_rows("SELECT DISTINCT secret FROM ana.copied WHERE secret <> 'none'") == []
    assert restoring.new_rows("SELECT secret FROM ben.kept", "ana") == [("none",)]

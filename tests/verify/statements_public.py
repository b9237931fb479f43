"""The ordinary tables of each analyst, and a look at all that a second session may have changed."""

from __future__ import annotations

__all__ = ["FURNITURE", "PUBLIC", "PUBLIC_TABLES"]

PUBLIC_TABLES = ("plates", "tolls", "words", "many", "spans", "loot")

#: The large one has many rows under each key, or one, as the second session likes it. The keys of
#: words hash to other places in each world.
PUBLIC = """
CREATE TABLE plates (plate text PRIMARY KEY, owner text NOT NULL, weight float8 NOT NULL);
INSERT INTO plates VALUES ('A', 'ann', 1), ('B', 'bob', 2), ('C', 'ann', 5), ('X', 'dan', 0),
    ('', 'eve', 3);
CREATE TABLE tolls (plate text NOT NULL, toll float8 NOT NULL);
INSERT INTO tolls VALUES ('A', 1), ('A', 2), ('B', 3), ('X', 4);
CREATE TABLE words (c1 text COLLATE "C" PRIMARY KEY, c2 text COLLATE "POSIX" NOT NULL,
    k text NOT NULL UNIQUE, n int NOT NULL UNIQUE);
INSERT INTO words VALUES ('A', 'A', 'A', 1), ('X', 'x', 'X', 2), ('', ' ', '', 3),
    ('b', 'B', 'B', 4);
INSERT INTO words SELECT x, x, x, 10 + i
    FROM unnest(string_to_array('C D % _ é ß NaN true', ' ')) WITH ORDINALITY u(x, i);
INSERT INTO words SELECT x, x, x, 30 + i
    FROM (SELECT md5('{seed}' || i) x, i FROM generate_series(1, 14) i) y;
CREATE TABLE many (plate text NOT NULL, n int NOT NULL);
INSERT INTO many SELECT p, i FROM unnest(ARRAY['A', 'B', 'X', '']) p, generate_series(1, 200) i;
CREATE TABLE spans (span interval, price numeric, at timestamptz);
INSERT INTO spans VALUES ('1 day', 1, '2026-03-01 06:00+00'),
    ('1 hour', 1.0, '2026-03-01 06:00:00.5+00');
CREATE TABLE loot (x text);
"""

#: of a schema: relations, columns, labels, indexes, children, functions, operators, cameras
FURNITURE = """
    WITH s AS (SELECT oid, nspowner FROM pg_namespace WHERE nspname = %(schema)s),
         r AS (SELECT c.* FROM pg_class c JOIN s ON c.relnamespace = s.oid)
    SELECT relname, relkind::text, relrowsecurity::text, relforcerowsecurity::text, relacl::text
    FROM r
    UNION ALL
    SELECT relname, attname, format_type(atttypid, atttypmod), attnotnull::text,
           attcollation::regcollation::text
    FROM r JOIN pg_attribute ON attrelid = r.oid WHERE attnum > 0 AND NOT attisdropped
    UNION ALL
    SELECT typname, enumlabel, enumsortorder::text, '', ''
    FROM pg_type t JOIN pg_enum ON enumtypid = t.oid JOIN s ON typnamespace = s.oid
    UNION ALL
    SELECT relname, pg_get_indexdef(indexrelid), indisunique::text, '', ''
    FROM r JOIN pg_index ON indrelid = r.oid
    UNION ALL
    SELECT relname, inhparent::regclass::text, '', '', ''
    FROM r JOIN pg_inherits ON inhrelid = r.oid
    UNION ALL
    SELECT relname, ftoptions::text, '', '', '' FROM r JOIN pg_foreign_table ON ftrelid = r.oid
    UNION ALL
    SELECT proname, '', '', '', '' FROM pg_proc JOIN s ON pronamespace = s.oid
    UNION ALL
    SELECT oprname, '', '', '', '' FROM pg_operator JOIN s ON oprnamespace = s.oid
    UNION ALL
    SELECT 'cameras', count(*)::text, '', '', ''
    FROM s, pg_foreign_server f WHERE has_server_privilege(s.nspowner, f.oid, 'USAGE')
"""

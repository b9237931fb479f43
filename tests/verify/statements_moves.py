"""What the second session does while statements run: definitions, rights, rows, interruptions.

Every move comes with what takes it back, whether or not it succeeded, so that each statement meets
the same world on both sides and in every run.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass

from .statements_forms import Step
from .statements_world import LABELS, TABLES, TYPE

__all__ = ["Move", "interruption", "move", "move_of"]


@dataclass(frozen=True)
class Move:
    """Some statements of another session, and those that take them back, in order."""

    name: str
    does: tuple[Step, ...]
    undoes: tuple[Step, ...] = ()


def _made(name: str, does: tuple[str, ...], undoes: tuple[str, ...] = (),
          who: str = "other") -> Move:
    return Move(name, tuple(Step(text, who) for text in does),
                tuple(Step(text, who) for text in undoes))


def move(rng: random.Random) -> Move:
    """Anything."""
    return rng.choices(list(_MOVES), list(_MOVES.values()))[0](rng)


def move_of(rng: random.Random, public: str) -> Move:
    """Something about the rows of a public table, and what is unique among them."""
    own = {"many": (_unique, _unique, _unique), "plates": (_not_unique, _column),
           "words": (_index, _column)}[public]
    return rng.choice((*own, _child, _policy))(rng)


def interruption(rng: random.Random) -> Move:
    """Ends what the first session does, or lets it wait."""
    return rng.choice((
        _made("cancel", ("SELECT pg_cancel_backend({pid})",)),
        _made("terminate", ("SELECT pg_terminate_backend({pid})",)),
        _made("lock", ("BEGIN", "LOCK TABLE plates, many, words IN ACCESS EXCLUSIVE MODE"),
              ("ROLLBACK",))))


# Types


def _label(rng: random.Random) -> Move:
    """One that rows of the event have; all chunks run anew under each list of labels."""
    label = LABELS[-1]
    return _made("rename label", (f"ALTER TYPE {TYPE} RENAME VALUE '{label}' TO 'renamed'",),
                 (f"ALTER TYPE {TYPE} RENAME VALUE 'renamed' TO '{label}'",))


def _add_label(rng: random.Random) -> Move:
    """Cannot be taken back, and is done once."""
    return _made("add label", (f"ALTER TYPE {TYPE} ADD VALUE IF NOT EXISTS 'extra'",))


def _rename_type(rng: random.Random) -> Move:
    return _made("rename type", (f"ALTER TYPE {TYPE} RENAME TO z_type",),
                 (f"ALTER TYPE z_type RENAME TO {TYPE}",))


# Inheritance


def _child(rng: random.Random) -> Move:
    """Rows that a table has only with its children."""
    parent, values = rng.choice((("plates", "x, 'kid', 9"), ("many", "x, 1"),
                                 ("words", "x, x, x, 9")))
    return _made("inherit", (
        f"CREATE TABLE z_kid (LIKE {parent})",
        f"INSERT INTO z_kid SELECT {values} FROM unnest(ARRAY['A', 'X', '']) x, "
        f"generate_series(1, 200)",
        f"ALTER TABLE z_kid INHERIT {parent}"),
        ("DROP TABLE IF EXISTS z_kid", f"ANALYZE {parent}"))  # forgets that there were children


def _foreign_child(rng: random.Random) -> Move:
    table = rng.choice(list(TABLES))
    return _made("inherit foreign", (f"CREATE TABLE z_parent (LIKE {table})",
                                     f"ALTER FOREIGN TABLE {table} INHERIT z_parent"),
                 (f"ALTER FOREIGN TABLE {table} NO INHERIT z_parent",
                  "DROP TABLE IF EXISTS z_parent"))


# What is unique


def _unique(rng: random.Random) -> Move:
    """Many rows of a key become one, and an index says so; an older snapshot sees the many."""
    return _made("make unique", ("DELETE FROM many WHERE n > 1",
                                 "CREATE UNIQUE INDEX z_index ON many (plate)"),
                 ("DROP INDEX IF EXISTS z_index", "TRUNCATE many",
                  "INSERT INTO many SELECT p, i FROM unnest(ARRAY['A', 'B', 'X', '']) p, "
                  "generate_series(1, 200) i"))


def _not_unique(rng: random.Random) -> Move:
    does = ["ALTER TABLE plates DROP CONSTRAINT plates_pkey"]
    if rng.random() < 0.7:
        does.append("INSERT INTO plates SELECT plate, 'dup', 1 "
                    "FROM plates, generate_series(1, 100)")
    return _made("drop key", tuple(does), ("DELETE FROM plates WHERE owner = 'dup'",
                                           "ALTER TABLE plates ADD PRIMARY KEY (plate)"))


def _index(rng: random.Random) -> Move:
    drop = "DROP INDEX IF EXISTS z_index"
    does, undoes = rng.choice((
        ("ALTER TABLE words DROP CONSTRAINT words_k_key", "ALTER TABLE words ADD UNIQUE (k)"),
        ("ALTER TABLE words DROP CONSTRAINT words_n_key", "ALTER TABLE words ADD UNIQUE (n)"),
        ("CREATE UNIQUE INDEX z_index ON words (c2)", drop),
        ("CREATE UNIQUE INDEX z_index ON spans (span)", drop),
        ("CREATE UNIQUE INDEX z_index ON spans (price)", drop),
        ("CREATE UNIQUE INDEX z_index ON many (plate) WHERE n = 1", drop),
        ("ALTER TABLE spans ADD UNIQUE (at) DEFERRABLE INITIALLY DEFERRED",
         "ALTER TABLE spans DROP CONSTRAINT spans_at_key")))
    return _made("index", (does,), (undoes,))


# Names and columns


def _rename(rng: random.Random) -> Move:
    table, column = rng.choice((("plates", "weight"), ("words", "k"), ("many", "plate"),
                                ("spans", "span")))
    if rng.random() < 0.5:
        return _made("rename table", (f"ALTER TABLE {table} RENAME TO z_other",),
                     (f"ALTER TABLE IF EXISTS z_other RENAME TO {table}",))
    return _made("rename column", (f"ALTER TABLE {table} RENAME {column} TO z_column",),
                 (f"ALTER TABLE {table} RENAME z_column TO {column}",))


def _rename_foreign(rng: random.Random) -> Move:
    table = rng.choice(list(TABLES))
    return _made("rename foreign", (f"ALTER FOREIGN TABLE {table} RENAME TO z_foreign",
                                    f"CREATE VIEW {table} AS SELECT * FROM z_foreign"),
                 (f"DROP VIEW IF EXISTS {table}",
                  f"ALTER FOREIGN TABLE IF EXISTS z_foreign RENAME TO {table}"))


def _column(rng: random.Random) -> Move:
    table, does, undoes = rng.choice((
        ("plates", "ADD COLUMN z int DEFAULT 1", "DROP COLUMN IF EXISTS z"),
        ("words", 'ALTER c2 TYPE text COLLATE "C"', 'ALTER c2 TYPE text COLLATE "POSIX"'),
        ("plates", 'ALTER plate TYPE text COLLATE "C"', 'ALTER plate TYPE text COLLATE "default"'),
        ("words", "ALTER k DROP NOT NULL", "ALTER k SET NOT NULL"),
        ("plates", "ALTER weight TYPE numeric", "ALTER weight TYPE float8")))
    return _made("column", (f"ALTER TABLE {table} {does}",), (f"ALTER TABLE {table} {undoes}",))


# Rights


def _rights(rng: random.Random) -> Move:
    table = rng.choice((*TABLES, "plates", "many", "words"))
    if rng.random() < 0.3:
        return _made("revoke camera", ("REVOKE USAGE ON FOREIGN SERVER {camera} FROM {role}",),
                     ("GRANT USAGE ON FOREIGN SERVER {camera} TO {role}",), "owner")
    return _made("revoke", (f"REVOKE ALL ON {table} FROM {{role}}",),
                 (f"GRANT ALL ON {table} TO {{role}}",))


def _policy(rng: random.Random) -> Move:
    table, column = rng.choice((("plates", "plate"), ("words", "k"), ("many", "plate")))
    return _made("policy", (f"CREATE POLICY z_policy ON {table} USING ({column} < 'C')",
                            f"ALTER TABLE {table} ENABLE ROW LEVEL SECURITY",
                            f"ALTER TABLE {table} FORCE ROW LEVEL SECURITY"),
                 (f"ALTER TABLE {table} NO FORCE ROW LEVEL SECURITY",
                  f"ALTER TABLE {table} DISABLE ROW LEVEL SECURITY",
                  f"DROP POLICY IF EXISTS z_policy ON {table}"))


# Objects that statements may meet by accident, and rows


def _impostor(rng: random.Random) -> Move:
    """Objects of the analyst with names that statements use."""
    made, signature, body = rng.choice((
        ("FUNCTION", "range(float8, float8, float8)",
         " RETURNS numeric LANGUAGE sql AS 'SELECT 1 / 0.0'"),
        ("FUNCTION", "lower(text)", " RETURNS text LANGUAGE sql AS 'SELECT $1'"),
        ("TYPE", "z_enum", " AS ENUM ('a')"),
        ("AGGREGATE", "count(text)", " (SFUNC = pg_catalog.textcat, STYPE = text)")))
    if rng.random() < 0.2:
        return _made("rule", ("CREATE RULE z_rule AS ON INSERT TO loot DO ALSO NOTIFY z",),
                     ("DROP RULE IF EXISTS z_rule ON loot",))
    return _made("impostor", (f"CREATE {made} {signature}{body}",),
                 (f"DROP {made} IF EXISTS {signature}",))


def _rows(rng: random.Random) -> Move:
    does, undoes = rng.choice((
        ("UPDATE plates SET weight = -weight - 9 WHERE weight >= 0",
         "UPDATE plates SET weight = -weight - 9 WHERE weight < 0"),
        ("INSERT INTO plates VALUES ('new', 'dup', 1)", "DELETE FROM plates WHERE owner = 'dup'"),
        ("INSERT INTO words VALUES ('zz', 'zz', 'zz', 99)", "DELETE FROM words WHERE n = 99"),
        ("CREATE STATISTICS z_stat ON plate, n FROM many", "DROP STATISTICS IF EXISTS z_stat"),
        ("ANALYZE plates, words, many", ""), ("VACUUM many", "")))
    return _made("rows", (does,), (undoes,) if undoes else ())


_MOVES: dict[Callable[[random.Random], Move], int] = {
    _label: 4, _add_label: 1, _rename_type: 2, _child: 6, _foreign_child: 2, _unique: 8,
    _not_unique: 4, _index: 5, _rename: 4, _rename_foreign: 2, _rights: 4, _policy: 4, _impostor: 4,
    _rows: 4, _column: 4}

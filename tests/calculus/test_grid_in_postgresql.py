"""The grid as PostgreSQL's numeric rounds to it, which is what the library's range does."""

from __future__ import annotations

import random
from fractions import Fraction

import psycopg

from privid.udf.grid import exponent, grid_step, snap


def test_values_are_put_on_the_grid_as_postgresql_rounds_them(connection: psycopg.Connection[tuple[object, ...]]) -> None:
    chance = random.Random(7)
    cases = []
    for _ in range(3000):
        high = chance.choice([1, 3, 60, 1e6, 1e13, 1e-5, 1e18]) * chance.choice([1, chance.random()])
        value = chance.uniform(-high, high) if chance.random() < 0.7 else round(chance.uniform(-high, high), 6) + 5e-7
        cases.append((value, -exponent(-high, high), grid_step(-high, high)))
    rows = connection.execute("SELECT pg_catalog.round(v::pg_catalog.numeric, d)::pg_catalog.text "
                              "FROM unnest(%s::float8[], %s::int4[]) WITH ORDINALITY t(v, d, n) ORDER BY n",
                              ([c[0] for c in cases], [c[1] for c in cases])).fetchall()
    assert [Fraction(str(text)) for (text,) in rows] == [snap(value, step) for value, _, step in cases]

"""docs/sql.md, written from the fixtures and the refusals: python -m tests.calculus.sql_page."""

from __future__ import annotations

import json
from pathlib import Path

from privid.calculus.rules import RULES

HERE = Path(__file__).resolve().parent
PAGE = HERE.parents[1] / "docs" / "sql.md"

HEAD = """# What SQL is answered, and what is refused

This page is written from the tests (`python -m tests.calculus.sql_page`): every statement below is one that a test asks, with the bound
that it gets. `people` has a camera that protects segments of 49 s, chunks of 5 s and at most 3 rows a chunk, unless a line says
otherwise; `t1` and `t2` have a camera each.

A *release* is the outermost aggregating level over foreign tables; everything above it is ordinary SQL over released rows, free of
charge: arithmetic on aggregates, ORDER BY, LIMIT, HAVING, joins, window functions. What stands below it must have a rule. `EXPLAIN`
shows the rules that applied, their bounds, the noise and hints, and costs nothing.

In brief:

- **FROM**: foreign tables; subqueries and CTEs of them; `UNION ALL`, `UNION`, `INTERSECT`, `EXCEPT`; joins of foreign tables with `=`,
  grouped by what they are joined on; joins with `VALUES` and ordinary tables on columns in which no
  value of theirs occurs twice.
- **WHERE, HAVING in subqueries, CASE, functions**: whatever cannot raise an error. Arithmetic, casts and many functions are made total:
  where PostgreSQL would raise, they yield NULL. Functions of `chunk` and `region` may be any in the list. A cast of a time to text
  writes it in ISO form, whatever `DateStyle` says.
- **Subqueries in WHERE**: `(SELECT x)` without FROM; `x IN (SELECT y FROM …)` and `EXISTS (SELECT … WHERE outer = inner AND …)`, each a
  condition of its own beside AND: of an ordinary table or VALUES a filter like others, of a foreign table a join, so it is
  grouped by what it compares.
- **Values without columns** (`now()`, `current_date - 7`, `current_setting('app.place')`): computed beforehand by functions of
  PostgreSQL that are not volatile and take and give plain values alone: numbers, text, boolean, dates and times, uuid, enums, arrays of
  these. Others, such as those of json, xml and the catalogs, are refused: they can look up and run what another role defined.
- **GROUP BY in the release**: trusted columns (`chunk`, `region`, functions of them, literals that name a part of a UNION ALL), and keys
  that the statement or the column declares: `key IN (…)`, `key = ANY (…)`, boolean and enum columns, columns with the option `keys`,
  `VALUES … LEFT JOIN`, `generate_series(…) LEFT JOIN`, a public table `LEFT JOIN`, `key = 'a' OR key = 'b'`; and expressions that have few
  values by their form: `CASE` and `COALESCE` of constants, booleans as numbers or texts, `width_bucket(x, low, high, bins)`.
  Every key is in the answer, every time.
- **GROUP BY in a subquery**: anything; `LIMIT` and `DISTINCT` too.
- **Aggregates of the release**: `count(*)`, `count(x)`, `count(DISTINCT x)`, and `sum`, `avg`, `variance`, `var_pop`, `var_samp`,
  `stddev`, `stddev_pop`, `stddev_samp` of a value with bounds: `range(x, low, high)`, a column with the options `low` and `high`, a number,
  a count of a subquery, a boolean as a number (`flag::int`), or CASE, COALESCE, LEAST and GREATEST of such. Arithmetic has none:
  `range(a + b, low, high)`. `percentile_cont(q)` and `percentile_disc(q) WITHIN GROUP (ORDER BY x)` of such a value, q a constant of
  at most four decimals: the answer is one of at most 101 public values, all values of the range if they are few, otherwise its bounds and
  points at equal distances between them, a hundredth of it apart; never a value between two of them. `FILTER (WHERE …)` with each.
  Argmax: `SELECT key … GROUP BY key ORDER BY count(*) DESC LIMIT 1`.
- **Aggregates of subqueries**: these and `min`, `max`.
- **Public answers**, which read nothing and cost nothing: `min` and `max` of a function of `chunk` over whole chunks, keys without
  aggregates (`SELECT DISTINCT hour(chunk) …`, `SELECT kind … GROUP BY kind`), the number of groups of trusted
  expressions (`SELECT count(*) FROM (SELECT DISTINCT hour(chunk) …)`), `LIMIT 0`, `WHERE false`.
"""

REFUSED = """## Refused

SQLSTATE PV002 means that no rule covers the form, PV001 that raw rows would be shown, 22023 that a value cannot be used. Each refusal
points at the place in the statement.

| what is written | message | hint |
|---|---|---|
"""

TITLES = {rule: name for name, rule in RULES.items()}


def accepted() -> str:
    parts = []
    for path in sorted((HERE / "fixtures").glob("*.json"), key=lambda p: list(RULES.values()).index(p.stem)):
        proof = f"calculus/rules/{path.stem}.md"
        lines = [f"### {TITLES[path.stem].capitalize()}", "", f"Proof: [{proof}](../{proof}).", "",
                 "| statement | why | changes by at most |", "|---|---|---|"]
        for case in json.loads(path.read_text()):
            changes = ", ".join(case["sensitivity"]) or "nothing"
            lines.append(f"| `{_cell(case['sql'])}` | {_cell(case['says'])} | {changes} |")
        parts.append("\n".join(lines))
    return "## Accepted\n\n" + "\n\n".join(parts) + "\n"


def refused(rows: list[tuple[str, str, str]]) -> str:
    return REFUSED + "".join(f"| {_cell(what)} | {_cell(message)} | {_cell(hint)} |\n" for what, message, hint in rows)


def _cell(text: str) -> str:
    return text.replace("|", "\\|")


def page(rows: list[tuple[str, str, str]]) -> str:
    return f"{HEAD}\n{accepted()}\n{refused(rows)}"


def main() -> None:
    from .test_sql_page import refusals

    PAGE.write_text(page(refusals()))


if __name__ == "__main__":
    main()

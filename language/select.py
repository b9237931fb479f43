"""A SELECT of the paper as a SELECT of PostgreSQL: read by sqlglot, changed rule by rule, written again."""

from __future__ import annotations

import re

from sqlglot import exp
from sqlglot.errors import SqlglotError

from .dialect import PrividSQL, SyntaxMistake
from .rules import RULES
from .source import Mistake
from .statements import Select

__all__ = ["to_sql"]

_BEGINNING = re.compile(r"\(*(SELECT|WITH|VALUES)\b")


_DIGITS = re.compile(r"\d{1001}")


def to_sql(select: Select) -> str:
    """The statement that PostgreSQL is given."""
    long = _DIGITS.search(select.text)
    if long is not None:
        raise Mistake("a number has more than 1000 digits", select.at + long.start(), hint="Write it with fewer digits.")
    try:
        query, *more = PrividSQL().parse(select.text)
        if more or not isinstance(query, exp.Query):
            raise SyntaxMistake("statement is not a SELECT", 0)
        for rule in RULES:
            rule(query)
        text = query.sql(dialect=PrividSQL, normalize_functions=False, comments=False)
        if not _BEGINNING.match(text):  # nothing that EXPLAIN could take for options of its own
            raise SyntaxMistake("statement is not a SELECT", 0)
        return text
    except SyntaxMistake as error:
        raise Mistake(error.message, select.at + error.at, hint=error.hint) from None
    except RecursionError:
        raise Mistake("statement is too complex to be analysed", select.at, hint="Write it with fewer nested parentheses.") from None
    except SqlglotError as error:  # of its tokenizer: a text that does not end, a sign that does not exist
        raise Mistake(f"syntax error: {str(error).splitlines()[0]}", select.at) from None

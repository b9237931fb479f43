"""PostgreSQL's SQL as sqlglot reads it, and the paper's additions to it: WITH KEYS after GROUP BY, and tables united in FROM."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, NoReturn

from sqlglot import exp
from sqlglot.dialects.postgres import Postgres
from sqlglot.errors import ParseError
from sqlglot.parsers.postgres import PostgresParser
from sqlglot.tokenizer_core import Token, TokenType

__all__ = ["Keys", "PrividSQL", "SyntaxMistake"]

_SET_OPERATIONS: dict[TokenType, type[exp.SetOperation]] = {
    TokenType.UNION: exp.Union, TokenType.INTERSECT: exp.Intersect, TokenType.EXCEPT: exp.Except}


class SyntaxMistake(ParseError):
    """A syntax error; sqlglot catches it where it tries one reading after another."""

    def __init__(self, message: str, at: int, hint: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.at = at
        self.hint = hint


@dataclass(frozen=True)
class Keys:
    """WITH KEYS [...]: where it stands, and one list of values, or one for each column."""

    at: int
    lists: tuple[tuple[exp.Expr, ...], ...]


class PrividSQL(Postgres):
    """Functions are kept as they are written: sqlglot knows many and would spell some of them in its own way."""

    class Parser(PostgresParser):
        FUNCTIONS: ClassVar[Any] = {}
        FUNCTION_PARSERS: ClassVar[Any] = {name: parse for name, parse in PostgresParser.FUNCTION_PARSERS.items()
                                           if name not in ("ARGMAX", "ARG_MAX")}

        def raise_error(self, message: str, token: Any = None) -> NoReturn:
            found = token or self._curr or None
            if found is None:
                raise SyntaxMistake("syntax error at end of statement", len(self.sql.rstrip()))
            text = self.sql[found.start:found.end + 1]
            raise SyntaxMistake("syntax error at or near " + (text if text.startswith('"') else f'"{text}"'), found.start)

        def _parse_group(self, skip_group_by_token: bool = False) -> exp.Group | None:
            group = super()._parse_group(skip_group_by_token)
            at = self._curr.start if self._curr else 0
            if group is not None and self._match_text_seq("WITH", "KEYS"):
                group.meta["keys"] = Keys(at, self._key_lists())
            return group

        def _key_lists(self) -> tuple[tuple[exp.Expr, ...], ...]:
            self._bracket(TokenType.L_BRACKET)
            if self._curr and self._curr.token_type == TokenType.L_BRACKET:
                lists = [self._key_list()]
                while self._match(TokenType.COMMA):
                    lists.append(self._key_list())
                self._bracket(TokenType.R_BRACKET)
                return tuple(lists)
            self._retreat(self._index - 1)
            return (self._key_list(),)

        def _key_list(self) -> tuple[exp.Expr, ...]:
            self._bracket(TokenType.L_BRACKET)
            keys = [self._key()]
            while self._match(TokenType.COMMA):
                keys.append(self._key())
            self._bracket(TokenType.R_BRACKET)
            return tuple(keys)

        def _bracket(self, kind: TokenType) -> None:
            if not self._match(kind):
                self.raise_error("bracket expected")

        def _key(self) -> exp.Expr:
            """A text in quotes of either kind, a number, true or false."""
            token: Token = self._curr
            if not token:
                self.raise_error("key expected")
            self._advance()
            if token.token_type in (TokenType.STRING, TokenType.IDENTIFIER):
                return exp.Literal.string(token.text)
            if token.token_type == TokenType.NUMBER:
                return exp.Literal.number(token.text)
            if token.token_type == TokenType.DASH and self._curr and self._curr.token_type == TokenType.NUMBER:
                self._advance()
                return exp.Neg(this=exp.Literal.number(self._prev.text))
            if token.token_type in (TokenType.TRUE, TokenType.FALSE):
                return exp.Boolean(this=token.token_type == TokenType.TRUE)
            return self.raise_error("key expected", token)

        def _parse_table(self, *args: Any, **options: Any) -> exp.Expr | None:
            """t1 UNION t2 in FROM: both tables whole. After UNION SELECT or UNION ( the whole statement is united, as always."""
            table = super()._parse_table(*args, **options)
            while table is not None and self._curr and self._curr.token_type in _SET_OPERATIONS:
                ahead: Token | None = self._next
                words = 1
                if ahead and ahead.token_type in (TokenType.ALL, TokenType.DISTINCT):
                    words, ahead = 2, self._tokens[self._index + 2] if self._index + 2 < len(self._tokens) else None
                if not ahead or ahead.token_type not in (TokenType.VAR, TokenType.IDENTIFIER):
                    break
                operation = _SET_OPERATIONS[self._curr.token_type]
                distinct = not (self._next and self._next.token_type == TokenType.ALL)
                self._advance(words)
                other = super()._parse_table(*args, **options)
                table = operation(this=_whole(table), expression=_whole(other), distinct=distinct).subquery(copy=False)
            return table


def _whole(table: Any) -> exp.Query:
    """All of a table, as a query."""
    if isinstance(table, exp.Subquery) and not table.alias:
        return table.this  # type: ignore[no-any-return]
    return exp.select("*").from_(table, copy=False)

"""From a place in the SQL that PostgreSQL was given back to the place in the file that it was made from."""

from __future__ import annotations

from difflib import SequenceMatcher

from sqlglot.tokenizer_core import Token

from .dialect import PrividSQL

__all__ = ["trace"]


def trace(sql: str, position: int, written: str) -> int:
    """Offset in the text as written of what stands at an offset of the SQL; the nearest thing before it when it was added on the way.

    Both are the same words in nearly the same order, so that lining them up finds the right one of several equal words.
    """
    made, source = _tokens(sql), _tokens(written)
    words = [[token.text.lower() for token in tokens] for tokens in (made, source)]
    meant = max((number for number, token in enumerate(made) if token.start <= position), default=0)
    found = 0
    for block in SequenceMatcher(None, words[0], words[1], autojunk=False).get_matching_blocks():
        if block.size and block.a <= meant:
            found = source[block.b + min(meant - block.a, block.size - 1)].start
    return found


def _tokens(text: str) -> list[Token]:
    return list(PrividSQL().tokenize(text))

"""Reads words, names and values of a SPLIT or PROCESS one after the other; whatever stands there instead is a syntax error."""

from __future__ import annotations

import re

from .source import Mistake

__all__ = ["Scanner"]

_SPACE = re.compile(r"\s*")
_WORD = re.compile(r"[A-Za-z_][A-Za-z0-9_$]*")
_QUOTED = re.compile(r'"((?:[^"]|"")*)"')
_STRING = re.compile(r"""'((?:[^']|'')*)'|"((?:[^"]|"")*)\"""")
#: what an error message shows: a quoted text, a run of letters and digits, or one sign
_TOKEN = re.compile(r"""'(?:[^']|'')*'|"(?:[^"]|"")*"|[\w.]+|\S""")


class Scanner:
    """Moves forward through text[start:stop]; `at` is always at the next thing to read."""

    def __init__(self, text: str, start: int, stop: int) -> None:
        self._text = text[:stop]
        self.at = start
        self._skip()

    def _skip(self) -> None:
        match = _SPACE.match(self._text, self.at)
        assert match is not None
        self.at = match.end()

    def match(self, pattern: re.Pattern[str]) -> re.Match[str] | None:
        """What the pattern finds right here, and past it."""
        found = pattern.match(self._text, self.at)
        if found:
            self.at = found.end()
            self._skip()
        return found

    def accept(self, *words: str) -> bool:
        """Whether these words (or signs) stand here one after the other; then goes past them."""
        start = self.at
        for word in words:
            found = self.match(_WORD if word[0].isalpha() else re.compile(re.escape(word)))
            if found is None or found[0].upper() != word:
                self.at = start
                return False
        return True

    def expect(self, *words: str) -> None:
        """These words, each a mistake of its own when it is missing."""
        for word in words:
            if not self.accept(word):
                raise self.mistake(f"{word} is expected here" if word[0].isalpha() else f'"{word}" is expected here')

    def name(self, what: str) -> str:
        """A name as SQL has them: folded to lower case unless it is quoted."""
        quoted = self.match(_QUOTED)
        if quoted and quoted[1]:
            return quoted[1].replace('""', '"')
        word = None if quoted else self.match(_WORD)
        if word is None:
            raise self.mistake(f"the name of {what} is expected here")
        return word[0].lower()

    def string(self) -> str | None:
        """A text in single or double quotes, if one stands here."""
        found = self.match(_STRING)
        if found is None:
            return None
        return found[1].replace("''", "'") if found[1] is not None else found[2].replace('""', '"')

    def end(self) -> None:
        """Nothing may be left."""
        if self.at < len(self._text):
            raise self.mistake('";" is expected here')

    def mistake(self, expected: str) -> Mistake:
        """PostgreSQL's syntax error for what stands here."""
        token = _TOKEN.match(self._text, self.at)
        hint = expected[0].upper() + expected[1:] + "."
        if token is None:
            return Mistake("syntax error at end of statement", len(self._text.rstrip()), hint=hint)
        near = token[0] if token[0].startswith('"') else f'"{token[0]}"'
        return Mistake(f"syntax error at or near {near}", self.at, hint=hint)

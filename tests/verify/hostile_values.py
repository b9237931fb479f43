"""Values that nobody means: numbers of thousands of digits, names of a hundred thousand bytes, JSON nested deeply, odd times, signs."""

from __future__ import annotations

import random
import string
from collections.abc import Callable

__all__ = ["BUILDERS", "Chance", "bitmap", "duration", "json_text", "moment", "mutated", "name", "number", "polygon", "text", "whole"]

Chance = random.Random

_DIGITS = (1, 18, 19, 40, 100, 101, 309, 1000, 4300, 4301, 20_000, 131_072, 200_000)
_SIGNS = (
    "\x01",
    "\x1b[2J",
    "\u202e",
    "\ufeff",
    "\u2028",
    "'",
    '"',
    "\\",
    "%s",
    "{}",
    "$1",
    ";",
    "--",
    "/*",
    "\n",
    "\t",
    "\r",
    "é",
    "\U0001f600",
)


def number(chance: Chance) -> str:
    """Long, tiny, of other scripts, of other notations, or none."""
    digits = chance.choice(_DIGITS)
    return chance.choice(
        [
            "9" * digits,
            "-" + "9" * digits,
            "0." + "0" * digits + "1",
            "1/" + "9" * digits,
            "9" * digits + "/7",
            "1e999",
            "1e-999",
            "1e99999",
            "-0",
            "NaN",
            "Infinity",
            "-inf",
            "0x10",
            "1_000",
            "",
            " ",
            "1/0",
            "0/0",
            "+-1",
            "1.5.5",
            "٣",
            "１２",
            "1,5",
            "1e",
            ".5",
            "5.",
            "1" + "." * 500,
            str(chance.uniform(-1e6, 1e6)),
            str(chance.randrange(-(2**70), 2**70)),
            str(2**31),
            str(2**63),
            "1.7976931348623157e308",
        ]
    )


def whole(chance: Chance) -> int:
    """What an int8 can be, and int4, and their ends."""
    return chance.choice([0, 1, -1, 2, 3, 255, 256, 257, 1000, 65536, 100_000, 1_000_000, 2**31 - 1, -(2**31), 2**63 - 1, -(2**63)])


def duration(chance: Chance) -> str:
    return number(chance) + chance.choice(["s", "ms", "us", "min", "h", "d", "", " s", "S", "secs", "fortnights", "s s", "µs"])


def moment(chance: Chance) -> str:
    return chance.choice(
        [
            "infinity",
            "-infinity",
            "now",
            "0001-01-01 00:00+14",
            "0001-01-01 00:00:00+15:59",
            "9999-12-31 23:59:59-14",
            "294276-12-31 00:00:00+00",
            "4713-01-01 00:00:00+00 BC",
            "2026-02-30 00:00+00",
            "2026-03-01 06:00:00.123456789+00",
            "2026-03-01 06:00:00+00:00:30",
            "2026-03-01T06:00Z",
            "2026-W09-7 06:00+00",
            "2026-060 06:00+00",
            "20260301T060000+00",
            "2026-03-01 24:00:00+00",
            "2026-03-01 06:00:60+00",
            "2026-03-01 06:00 Europe/Zurich",
            "March 1 06:00:00 2026 PST-",
            f"{number(chance)}-03-01 06:00+00",
            f"2026-03-01 06:00+{number(chance)}",
        ]
    )


def name(chance: Chance) -> str:
    return chance.choice(
        [
            "",
            " ",
            ".",
            "..",
            "../../etc/passwd",
            "/etc/passwd",
            "pg_catalog",
            "privid",
            "a" * 63,
            "a" * 64,
            "é" * 32,
            "a" * 1000,
            "a" * 100_000,
            *_SIGNS,
            "name" + chance.choice(_SIGNS),
            "".join(chance.choices(string.printable, k=chance.randrange(1, 70))),
        ]
    )


def text(chance: Chance) -> str:
    return chance.choice([name, number, duration, moment, json_text, polygon])(chance)


def polygon(chance: Chance) -> str:
    """As PostgreSQL reads them, more or less."""
    corners = chance.choice([0, 1, 2, 3, 4, 999, 1000, 1001, 20_000])
    values = [chance.choice(["0", "640", "-1", "1e6", "1e7", "1e308", "NaN", "Infinity", str(chance.uniform(0, 640))]) for _ in range(2)]
    return chance.choice(
        [
            "(" + ",".join(f"({chance.randrange(640)},{chance.randrange(480)})" for _ in range(corners)) + ")",
            f"(({values[0]},{values[1]}),(640,0),(0,480))",
            "(" * 20_000 + ")" * 20_000,
            "((0,0)",
            "",
            "()",
            "((0,0),(1,1),(0,1)) x",
        ]
    )


def json_text(chance: Chance) -> str:
    """Valid JSON or not; of regions or of anything."""
    shape = chance.choice(
        [
            '"((0,0),(32,0),(32,48),(0,48))"',
            "[[0,0],[32,0],[32,48]]",
            f'"{"(" * 3000}"',
            f"[[{'9' * 5000},0],[1,1],[0,1]]",
            "[[0],[1],[2]]",
            "[[[0,0],0],[1,1],[2,2]]",
            "[" * 500 + "]" * 500,
            '{"a": 1}',
            "null",
            "true",
            "1e400",
            '[["a","b"],["c","d"],["e","f"]]',
        ]
    )
    many = chance.choice([1, 2, 256, 257, 5000])
    return chance.choice(
        [
            "{" + ",".join(f'"r{i}": {shape}' for i in range(many)) + "}",
            shape,
            "{",
            "[" * 6000 + "]" * 6000,
            '{"' + "a" * 100 + f'": {shape}}}',
            '{"cell": [16, 16], "size": [4, 8], "speed": "' + "9" * 400 + '"}',
            '{"cell": [1e30, 0], "size": [], "speed": null}',
            '{"cell": "x", "size": [1, 1], "speed": 1}',
            '{"": ' + shape + "}",
            '{"\\u0000": 1}',
        ]
    )


def bitmap(chance: Chance) -> bytes:
    head = chance.choice(
        [b"P4\n64 48\n", b"P4\n999999 999999\n", b"P4\n0 0\n", b"P5\n64 48\n255\n", b"P4\n# x\n64 48\n", b"P4 64 48\n", b"", b"\0" * 100]
    )
    return head + bytes(chance.choice([0, 1, 8 * 48, 8 * 48 + 1, 100_000]))


def mutated(content: bytes, chance: Chance) -> bytes:
    """Bytes changed, cut out, doubled, or the end missing."""
    data = bytearray(content)
    for _ in range(chance.choice([1, 1, 2, 10])):
        at, length = chance.randrange(len(data) or 1), chance.randrange(1, 60)
        match chance.randrange(5):
            case 0 if data:
                data[at] = chance.randrange(256)
            case 1:
                del data[at : at + length]
            case 2:
                data[at:at] = data[at : at + length]
            case 3:
                data[at:at] = chance.choice(
                    [b'"', b"{", b"]", b"\\", b"\0", b"9" * 5000, b"[" * 3000, b"1e999", b"null", b"\xff", b"\\ud800"]
                )
            case _:
                del data[at + 200 :]
    return bytes(data)


#: what an argument of a function of this type can be
BUILDERS: dict[str, Callable[[Chance], object]] = {
    "text": text,
    "name": name,
    "numeric": number,
    "double precision": number,
    "integer": lambda c: max(min(whole(c), 2**31 - 1), -(2**31)),
    "bigint": whole,
    "bytea": bitmap,
    "jsonb": json_text,
    "boolean": lambda c: c.random() < 0.5,
    "timestamp with time zone": moment,
    "polygon": polygon,
    "polygon[]": lambda c: [polygon(c) for _ in range(c.choice([0, 1, 3, 1001]))],
    "interval": duration,
    "text[]": lambda c: [name(c) for _ in range(c.randrange(4))],
    "double precision[]": lambda c: [number(c)],
    "numeric[]": lambda c: [number(c)],
}

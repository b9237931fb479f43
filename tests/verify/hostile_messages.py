"""10,000 mutated messages to a running engine: each is answered, refused in words, or costs its connection; none is an internal error.

Messages are those that the library writes (EXPLAIN, the choice of releases, checks of definitions, raw access, scans, hello), with parts of
them exchanged for what nobody means, and their bytes changed. The engine serves on, and its memory is bounded.
"""

from __future__ import annotations

import argparse
import json
import random
import struct
from collections import Counter
from pathlib import Path
from typing import Any

from tests.engine.client import HELLO, Client
from tests.engine.conftest import House, open_house

from .hostile_values import duration, json_text, moment, mutated, name, number, whole

__all__ = ["send_mutated"]

MESSAGES = 10_000
#: what the engine may grow by while it is lied to, in KiB: what it holds for answers that are given again is part of it
GROWTH = 120_000


def _leaf(chance: random.Random) -> Any:
    maker = chance.choice([duration, moment, name, number, whole, json_text])
    return chance.choice([maker(chance)] * 4 + [None, True, [], {}, 1.5, 10**400, [[]], {"e": "col"}, ["a"] * 50, "\0", "\ud800"])


def _altered(message: Any, chance: random.Random) -> Any:
    """One part of it is another, or gone, or there twice, or wrapped up."""
    message = json.loads(json.dumps(message))
    places: list[tuple[Any, Any]] = []
    stack = [message]
    while stack:
        part = stack.pop()
        for key in list(part) if isinstance(part, dict) else range(len(part)):
            places.append((part, key))
            if isinstance(part[key], (dict, list)):
                stack.append(part[key])
    for _ in range(chance.choice([1, 1, 1, 3])):
        holder, key = chance.choice(places)
        if (isinstance(holder, list) and key >= len(holder)) or (isinstance(holder, dict) and key not in holder):
            continue
        match chance.randrange(5):
            case 0:
                del holder[key]
            case 1:
                wrapped = holder[key]
                for _ in range(chance.choice([1, 2, 60, 400])):
                    wrapped = [wrapped] if chance.random() < 0.5 else {"args": wrapped}
                holder[key] = wrapped
            case 2:
                other, there = chance.choice(places)
                if (isinstance(other, list) and there < len(other)) or (isinstance(other, dict) and there in other):
                    holder[key] = json.loads(json.dumps(other[there], default=str))
            case _:
                holder[key] = _leaf(chance)
    return message


def _written(message: Any, chance: random.Random) -> bytes:
    content = json.dumps(message).encode()
    return mutated(content, chance) if chance.random() < 0.3 else content


def send_mutated(house: House, count: int, seed: int) -> Counter[str]:
    """How the engine answered; anything but a refusal in words, an answer or the end of a connection is an assertion."""
    chance, outcomes = random.Random(seed), Counter[str]()
    table = house.table(house.video([0] * 40))
    explain = house.request(table)
    hello = {**HELLO, "database": house.database.name}
    kinds: list[tuple[str, Any]] = [
        ("X", explain),
        ("X", explain),
        ("T", {**explain, "candidates": [{"select": explain["select"], "inside": None}]}),
        ("T", {key: value for key, value in explain.items() if key != "select"} | {"candidate": {"number": 1}}),
        ("K", {"kind": "table", "table": table, "role": "ana"}),
        ("K", {"kind": "server", "server": table["server"], "role": "olga"}),
        ("W", {**explain, "role": "olga"}),
        ("S", {"handle": "00", "table": 0}),
        ("H", hello),
    ]
    for _ in range(count):
        kind, message = chance.choice(kinds)
        with Client(house.engine.socket) as client:
            if kind != "H":
                client.ask("H", hello)
            content = _written(_altered(message, chance), chance)
            length = 1 + len(content) if chance.random() < 0.97 else chance.randrange(2**32)
            try:
                client.socket.sendall(struct.pack("<I", length) + kind.encode() + content)
                if length != 1 + len(content):
                    client.socket.shutdown(1)
                answer, body = client.receive()
            except (EOFError, ConnectionError):
                outcomes["connection ended"] += 1
                continue
            assert b"internal error" not in body, (kind, content[:2000], body)
            outcomes[f"{json.loads(body)['sqlstate']}" if answer == "E" else f"answered {answer}"] += 1
    assert (
        not house.engine.events("internal error")
        and not house.engine.events("connection failed")
        and not house.engine.events("thread failed")
    )
    return outcomes


def resident(house: House) -> int:
    """KiB of the engine's own process."""
    assert house.engine.process is not None
    status = Path(f"/proc/{house.engine.process.pid}/status").read_text()
    return int(next(line for line in status.splitlines() if line.startswith("VmRSS")).split()[1])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--messages", type=int, default=MESSAGES, help="how many")
    parser.add_argument("--seed", type=int, default=1, help="of the mutations")
    options = parser.parse_args()
    with open_house() as house:
        send_mutated(house, 200, options.seed - 1)  # what it loads once is loaded
        before = resident(house)
        outcomes = send_mutated(house, options.messages, options.seed)
        grown = resident(house) - before
    for outcome, count in outcomes.most_common():
        print(f"{count:6} {outcome}")
    print(f"the engine grew by {grown} KiB")
    assert grown < GROWTH


if __name__ == "__main__":
    main()

"""Two owners of one stack, each with a camera and an analyst, and what tests of holes that were found do with them."""

from __future__ import annotations

import itertools
import random
from typing import Any

import psycopg

from tests.conftest import STARTS, RunningStack, write_video

ANNA, BERT, TEAM, ANA, MAL, NOBODY = "found_anna", "found_bert", "found_team", "found_ana", "found_mal", "found_nobody"
STREET, LOT = "found_street", "found_lot"
MASK = """SELECT privid.create_mask('{}', '{}', '{{"((0,0),(10,0),(10,10),(0,10))"}}', '1s')"""


class Found:
    """Anna's camera and Bert's, each with an analyst."""

    counted = itertools.count(1)  # over all modules: what two of them film is not the same

    def __init__(self, stack: RunningStack) -> None:
        self.stack = stack

    def name(self) -> str:
        return f"found_{next(self.counted)}"

    def film(self, owner: str) -> str:
        """The name of a camera, and a second of footage that nobody else has."""
        name = self.name()
        write_video(self.stack.videos / owner / f"{name}.mp4", random.Random(name).choices(range(200), k=20))
        return name

    def definition(self, owner: str, file: str, **options: str) -> str:
        given = {"source": f"{owner}/{file}.mp4", "starts": STARTS, "rho": "1s", "k": "1", "epsilon": "1000", "quantum": "20ms", **options}
        return f"FOREIGN DATA WRAPPER privid OPTIONS ({', '.join(f'{name} $${value}$$' for name, value in given.items())})"

    def camera(self, owner: str, name: str, file: str, **options: str) -> None:
        self.run(owner, f"CREATE SERVER {name} {self.definition(owner, file, **options)}")

    def run(self, user: str, statement: str, *values: Any) -> list[tuple[Any, ...]]:
        return self.stack.run(statement, *values, user=user, settings={"privid.reuse": "off", "statement_timeout": "8s"})

    def open(self, user: str) -> psycopg.Connection[tuple[Any, ...]]:
        return self.stack.connect(user, autocommit=False)

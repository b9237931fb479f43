"""A long search for accepted sequences by which one event loses more than epsilon, and the same search on a ledger without the margin."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from fractions import Fraction

from privid.ledger import Ledger, Use
from privid.ledger.recordings import Recording
from privid.ledger.steps import Step, evenly
from privid.model import Camera, Span
from tests.ledger import several
from tests.ledger.adversary import search
from tests.ledger.postgres import Database, temporary_server


class Weakened(Ledger):
    """Charges what is read, and not the stretch before it."""

    def _steps(self, camera: Camera, recording: Recording, spans: Sequence[Span], uses: Sequence[Use]) -> list[Step]:
        return evenly(recording.spans(spans))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=200, help="random sequences to climb from, for each rule")
    parser.add_argument("--climbs", type=int, default=30)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()

    def greatest(ledger: Ledger, linear: bool, mark: str, masks: bool = False) -> Fraction:
        return search(ledger.charge, rounds=options.rounds, climbs=options.climbs, seed=options.seed, linear=linear, mark=mark, masks=masks)

    with temporary_server() as server:
        database = Database(server)
        for linear, rule in ((True, "exact"), (False, "simple")):
            for masks, views in ((False, "one view"), (True, "several masks")):
                loss = greatest(database.ledger, linear, f"{rule} {masks}", masks)
                print(f"{rule} rule, {views}: greatest loss {float(loss):.4f} epsilon")
                assert loss <= 1
            loss = several.search(database.ledger, rounds=options.rounds, climbs=options.climbs, seed=options.seed, linear=linear,
                                  mark=f"{rule} several")
            print(f"{rule} rule, several cameras: greatest loss {float(loss):.4f} epsilon")
            assert loss <= 1
        weak = Weakened(server.conninfo(database.name, "privid_engine"))
        loss = greatest(weak, False, "weak")
        weak.close()
        database.ledger.close()
    print(f"without the margin: greatest loss {float(loss):.4f} epsilon")
    assert loss > 1, "the search is too weak to find what is there"


if __name__ == "__main__":
    main()

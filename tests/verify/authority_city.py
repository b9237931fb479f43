"""Cities at random, of two owners and three analysts, each of 200 steps: nobody sees or changes what the model of the rules forbids.

With --faults, the rules are broken one at a time, and the search must find each. A city is made again by its seed.
"""

from __future__ import annotations

import argparse
import time
from collections import Counter

from tests.authority.random_city import FAULTS, Disagreement, RandomCity, planted
from tests.conftest import RunningStack

from .statements_fuzz import own_stack

STEPS = 200


def run(stack: RunningStack, seed: int, steps: int, mark: str) -> tuple[Counter[str], Disagreement | None]:
    city = RandomCity(stack, seed, mark)
    city.build()
    try:
        for _ in range(steps):
            city.step()
    except Disagreement as found:
        return city.done, found
    finally:
        city.tear_down()
    return city.done, None


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cities", type=int, default=5, help="how many")
    parser.add_argument("--steps", type=int, default=STEPS, help="of each")
    parser.add_argument("--seed", type=int, default=1, help="of the first; the others follow")
    parser.add_argument("--faults", action="store_true", help="break the rules, and see that it is found")
    options = parser.parse_args()
    failed = False
    with own_stack() as stack:
        if options.faults:
            for number, (fault, change) in enumerate(FAULTS.items()):
                found, begun = None, time.monotonic()
                for seed in range(options.seed, options.seed + options.cities):
                    with planted(stack, change):
                        _, found = run(stack, seed, options.steps, f"f{number}s{seed}")
                    if found:
                        break
                print(f"{fault}: {str(found)[:160] if found else 'NOT FOUND'} ({time.monotonic() - begun:.0f} s)", flush=True)
                failed = failed or found is None
        else:
            total = Counter[str]()
            for seed in range(options.seed, options.seed + options.cities):
                done, found = run(stack, seed, options.steps, f"s{seed}")
                total += done
                print(f"seed {seed}: {found or 'as the model says'}", flush=True)
                failed = failed or found is not None
            for what, times in sorted(total.items()):
                print(f"{times:6} {what}")
    assert not failed


if __name__ == "__main__":
    main()

"""Ten thousand releases from 32 sessions that race for overlapping windows: some serial order explains which were accepted."""

from __future__ import annotations

import argparse
import time

from tests.ledger.postgres import Database, temporary_server
from tests.ledger.racing import check, race


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sessions", type=int, default=32)
    parser.add_argument("--releases", type=int, default=10_000)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    begun = time.monotonic()
    with temporary_server() as server:
        database = Database(server)
        accepted, refused = check(race(database, options.sessions, -(-options.releases // options.sessions), options.seed))
        database.ledger.close()
    print(f"{accepted + refused} releases from {options.sessions} sessions in {time.monotonic() - begun:.0f} s: {accepted} accepted, "
          f"{refused} refused, as in one order, none overdraws")


if __name__ == "__main__":
    main()

"""A thousand kills of backends, engines and postmasters at random moments under load: every answer seen is paid for, no charge is lost."""

from __future__ import annotations

import argparse
import time

from tests.ledger.killing import massacre
from tests.ledger.postgres import temporary_server


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kills", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    begun = time.monotonic()
    with temporary_server() as server:
        run = massacre(server, options.kills, options.seed)
        run.database.ledger.close()
    print(f"{options.kills} kills ({', '.join(f'{n} of {what}' for what, n in run.kills.items())}) in {time.monotonic() - begun:.0f} s: "
          f"{run.answers} answers seen, all paid for, no charge lost")


if __name__ == "__main__":
    main()

"""A thousand kills of backends, engines and postmasters at random moments under load: python -m tests.verify.ledger_kills [KILLS [SEED]]"""

from __future__ import annotations

import sys
import time

from tests.ledger.killing import massacre
from tests.ledger.postgres import temporary_server


def main() -> None:
    kills = int(sys.argv[1]) if len(sys.argv) > 1 else 1000
    seed = int(sys.argv[2]) if len(sys.argv) > 2 else 1
    begun = time.monotonic()
    with temporary_server() as server:
        run = massacre(server, kills, seed)
        run.database.ledger.close()
    print(f"{kills} kills ({', '.join(f'{n} of {what}' for what, n in run.kills.items())}) in {time.monotonic() - begun:.0f} s: "
          f"{run.answers} answers seen, all paid for, no charge lost")


if __name__ == "__main__":
    main()

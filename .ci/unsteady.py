"""Asks the tests that failed once more, alone. Exits with 0 only if there were few and all of them pass now."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

CACHE = Path(".pytest_cache/v")
#: what failed, and how the whole run ended, which tests/conftest.py notes
FAILED, ENDED = CACHE / "cache/lastfailed", CACHE / "privid/ended"
MOST = 5


def main() -> int:
    ended = json.loads(ENDED.read_text()) if ENDED.exists() else None
    failed = list(json.loads(FAILED.read_text())) if FAILED.exists() else []
    if ended != 1:
        print(f"not asked again: the run did not go to its end ({ended})")
        return 1
    if not 0 < len(failed) <= MOST or not all("::" in name for name in failed):
        print(f"not asked again: {len(failed)} tests failed")
        return 1
    again = subprocess.run([sys.executable, "-m", "pytest", *failed]).returncode
    if again == 0:
        print("UNSTEADY, failed once and passed alone:", *failed, sep="\n  ")
    return again


if __name__ == "__main__":
    sys.exit(main())

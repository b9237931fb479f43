"""Everything that can be called of the extension, by an owner, an analyst, another owner, somebody without rights and the superuser, in
hostile surroundings: its authority is the effective role's, and nobody's code but the caller's runs. make test asks as an owner."""

from __future__ import annotations

import argparse

from tests.authority.city import City
from tests.authority.surroundings import search, standing

from .statements_fuzz import own_stack


def main() -> None:
    argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter).parse_args()
    with own_stack() as stack:
        city = City(stack)
        city.build()
        with standing(city) as stand:
            faults = search(stand)
            print(f"{len(stand.statements)} statements")
            for fault in faults:
                print(fault)
        city.tear_down()
    assert not faults


if __name__ == "__main__":
    main()

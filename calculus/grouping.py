"""The groups of a release: trusted cells times declared keys, in the order of the statement's columns."""

from __future__ import annotations

from itertools import product
from math import prod

from privid.errors import NoRule
from privid.model import Evaluate, Key

from .algebra import Release
from .alike import alike_text
from .certificate import Cells, Listed, step
from .expressions import columns_of
from .finite import alternatives
from .rules import group_cells, group_keys, listing
from .tree import position
from .weight import Keys, of_product

__all__ = ["groups"]


def groups(release: Release, evaluate: Evaluate, of_nothing: bool) -> Cells:
    """Every group of the answer. Without GROUP BY there is one, without columns. `of_nothing`: there may be rows of no chunk."""
    row, scope = release.relation, release.scope
    trusted = [i for i, e in enumerate(release.group) if scope.trusted(e) and scope.local(e)]
    _check_listing(release)
    found = group_cells.cells([release.group[i] for i in trusted], row, scope, evaluate,
                              of_nothing=of_nothing) if trusted else [()]
    lists = _lists(release, [i for i in range(len(release.group)) if i not in trusted], evaluate)
    combinations = prod(len(keys) for _, keys in lists)
    Keys(release.group[0].loc if release.group else -1).check(
        len(found) * combinations, of_product([found, *(keys for _, keys in lists)]),
        f"{len(found)} cells with {combinations} keys each would be released, every one of them.",
        "Declare fewer keys, or group by longer bins.")
    derivation = row.derivation
    if trusted:
        derivation = step(group_cells.RULE, group_cells.says([release.group[i] for i in trusted], found), row.bound, [derivation])
    untrusted = [release.group[i] for places, _ in lists for i in places]
    if untrusted:
        derivation = step(group_keys.RULE, group_keys.says(untrusted, combinations), row.bound, [derivation])
    keys = []
    for cell, choice in product(found, product(*(keys for _, keys in lists))):
        key: list[str | None] = [None] * len(release.group)
        for i, text in zip(trusted, cell, strict=True):
            key[i] = text
        for (places, _), texts in zip(lists, choice, strict=True):
            for i, text in zip(places, texts, strict=True):
                key[i] = text
        keys.append(tuple(key))
    determined = listing.determined(row)
    within = determined is not None and all(columns_of(e) <= determined for e in untrusted)
    return Cells(tuple(keys), combinations, within, tuple(trusted), derivation)


def _lists(release: Release, places: list[int], evaluate: Evaluate) -> list[tuple[tuple[int, ...], list[Key]]]:
    """Declared keys: columns of one VALUES list together, every other column by itself."""
    found: list[tuple[tuple[int, ...], list[Key]]] = []
    together: dict[int, list[int]] = {}
    places, cases = _cases(release, places)
    found += cases
    for i in places:
        facts = release.scope.facts(release.group[i])
        if facts.values is not None:
            together.setdefault(id(facts.values[0]), []).append(i)
        elif release.scope.trusted(release.group[i]):
            # which rows a cell has is no longer its own matter, but its values are public
            found.append(((i,), group_cells.cells([release.group[i]], release.relation, release.scope, evaluate)))
        else:
            found.append(((i,), [(key,) for key in group_keys.declared(release.group[i], release.conditions, release.scope)]))
    for members in together.values():
        listed = [release.scope.facts(release.group[i]).values for i in members]
        rows = listed[0][0].rows if listed[0] is not None else ()
        picks = [place for known in listed if known is not None for place in (known[1],)]
        types = [release.group[i].type for i in members]
        keys: dict[Key, None] = {tuple(_alike(type_, row[place - 1]) for type_, place in zip(types, picks, strict=True)): None
                                 for row in rows}
        if any(release.scope.facts(release.group[i]).nullable for i in members):
            keys[tuple(None for _ in members)] = None  # rows that match none
        found.append((tuple(members), list(keys)))
    return found


def _cases(release: Release, places: list[int]) -> tuple[list[int], list[tuple[tuple[int, ...], list[Key]]]]:
    """CASEs of the same conditions are one column of several: a label, and the number that it is ordered by. The others, and these."""
    rest, found = list(places), []
    for i in places:
        same = [j for j in rest if alternatives([release.group[i], release.group[j]]) is not None]
        keys = alternatives([release.group[j] for j in same]) if i in rest and len(same) > 1 else None
        if keys is not None:
            found.append((tuple(same), keys))
            rest = [j for j in rest if j not in same]
    return rest, found


def _alike(type_: str, text: str | None) -> str | None:
    return None if text is None else alike_text(type_, text)


def _check_listing(release: Release) -> None:
    """Rows joined to public ones are released by columns of the public side."""
    listed = release.relation
    if not isinstance(listed, Listed):
        return
    width = len(listed.public.columns)
    own = [i for i, e in enumerate(release.group) if columns_of(e) and max(columns_of(e)) <= width]
    if not own or any(not release.scope.trusted(e) for i, e in enumerate(release.group) if i not in own):
        raise NoRule(f'"{listed.public.alias}" LEFT JOIN private rows has no rule without a GROUP BY of its own columns',
                     position=position(listed.loc), detail="The rows of the left side are public; what is joined to them is not.",
                     hint=f'Group by columns of "{listed.public.alias}", and by trusted columns.')

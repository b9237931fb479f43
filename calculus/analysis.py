"""One release from request to plan: certified relations, bounds, shares of epsilon, noise."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from fractions import Fraction
from typing import Any

from privid.errors import InvalidValue
from privid.model import Collected, Cost, Evaluate, Mechanism, Output, Plan, PublicRows, Span, Table, TableUse, union

from . import show
from .advice import hints
from .algebra import Release, build
from .alike import alike_below
from .bounds import draft
from .canonical import canonical
from .certificate import Cells, Derivation, Leaf, step
from .chunks import runs
from .draft import Draft
from .expressions import columns_of
from .filters import without_chunks
from .grouping import groups
from .nothing import has_rows_of_nothing
from .rules import argmax, laplace, quantile, share_epsilon
from .sources import Context
from .tree import Expr, Select
from .weight import Keys, of_key

__all__ = ["analyse"]


def analyse(select: Select, settings: Mapping[str, str], tables: Sequence[Table], epsilon: Fraction, evaluate: Evaluate,
            public: PublicRows) -> Plan:
    """What one segment can change in the answer, and the noise that hides it; or a refusal that says which rule is missing."""
    if epsilon <= 0:
        raise InvalidValue('"privid.epsilon" must be greater than zero', hint="SET privid.epsilon = 0.5;")
    context = Context(tables, evaluate, public)
    release = build(alike_below(select), context)
    of_nothing = has_rows_of_nothing(select)
    cells = groups(release, evaluate, of_nothing)
    drafts = _drafts(release, cells, evaluate)
    _probe(context, release.relation.leaves, evaluate)
    cameras = release.relation.cameras
    columns: list[Collected] = []
    places: list[tuple[int, ...]] = []
    for number, one in enumerate(drafts):
        wanted = one.columns(number)
        places.append(tuple(range(len(columns), len(columns) + len(wanted))))
        columns += wanted
    if release.argmax is not None:
        outputs, shares = _choose(release, drafts, places, cells, epsilon), [epsilon]
    else:
        weights = [one.weight(cameras) for one in drafts]
        shares = share_epsilon.split(weights, epsilon)
        outputs = tuple(quantile.output(one, share, weight, place) if one.quantile is not None else one.output(share, weight, place)
                        for one, share, weight, place in zip(drafts, shares, weights, places, strict=True))
    costs = _costs(release, drafts, outputs)
    noisy = [o.mechanism for o in outputs if o.scale]
    return Plan(
        uses=_uses(release.relation.leaves), outputs=outputs, keys=cells.keys, epsilon=epsilon if noisy else Fraction(0),
        mechanism=", ".join(dict.fromkeys(noisy)) or Mechanism.EXACT,
        canonical=_canonical(release, cells, drafts, settings, evaluate),
        derivation=_derivation(drafts, outputs, cells, release),
        hints=tuple(hints(release, cells, drafts, outputs, evaluate)), columns=tuple(columns),
        argmax=release.argmax.of if release.argmax is not None else None, costs=costs,
        linear=release.relation.linear and all(one.linear for one in drafts) and _alike(release.relation.leaves),
        of_nothing=of_nothing)


def _drafts(release: Release, cells: Cells, evaluate: Evaluate) -> list[Draft]:
    """One for each aggregate; those whose values are public have one for every group, which are weighed with each other."""
    found, size = [], 0
    for agg in release.aggs:
        found.append(draft(agg, release, cells, evaluate))
        size += of_key(found[-1].public or ())
        Keys(agg.loc).check(len(cells.keys), size)
    return found


def _choose(release: Release, drafts: Sequence[Draft], places: Sequence[tuple[int, ...]], cells: Cells,
            epsilon: Fraction) -> tuple[Output, ...]:
    cameras = dict(release.relation.cameras)
    return tuple(argmax.output(one, epsilon, cameras, place, len(cells.keys)) for one, place in zip(drafts, places, strict=True))


def _probe(context: Context, leaves: Sequence[Leaf], evaluate: Evaluate) -> None:
    """Trusted parts of expressions over rows may raise: they do so here, where it depends on nothing private. They are tried on every
    chunk that the inner query can meet: of a table that is scanned more than once, on those of all its scans."""
    met = {use.table.index: use for use in _uses(leaves)}
    wanted: dict[int, dict[Expr, None]] = {}
    for number, expr in context.probes:
        wanted.setdefault(number, {}).setdefault(expr)
    for leaf in leaves:
        use = met[leaf.use.table.index]
        exprs = list(wanted.get(leaf.number, ()))
        moving = [e for e in exprs if columns_of(e)]
        fixed = [e for e in exprs if not columns_of(e)]
        if moving:
            for _ in runs(moving, use, evaluate):
                pass
        if fixed and use.chunks:
            first = use.chunks[0][0]
            for _ in runs(fixed, TableUse(use.table, ((first, first + 1),)), evaluate):
                pass


def _uses(leaves: Sequence[Leaf]) -> tuple[TableUse, ...]:
    """Each table once, with all the runs that some scan of it reads."""
    tables: dict[int, tuple[Table, list[list[Span]]]] = {}
    for leaf in leaves:
        table = leaf.use.table
        _, regions = tables.setdefault(table.index, (table, [[] for _ in table.region_names]))
        for spans, more in zip(regions, leaf.use.by_region, strict=True):
            spans.extend(more)
    return tuple(TableUse.of(table, [union(spans) for spans in regions]) for table, regions in tables.values())


def _alike(leaves: Sequence[Leaf]) -> bool:
    """A table that is scanned more than once has the same runs each time, of the same chunks in the same regions: then what is charged for
    all its scans together (`_uses`) is what the noise of each was made for (ledger/PROOF.md, "Several scans of one table")."""
    first: dict[int, TableUse] = {}
    return all(first.setdefault(leaf.use.table.index, leaf.use).by_region == leaf.use.by_region for leaf in leaves)


def _costs(release: Release, drafts: Sequence[Draft], outputs: Sequence[Output]) -> tuple[Cost, ...]:
    """What each camera's own segments lose (rules/share_epsilon.md, "Several cameras")."""
    cameras = release.relation.cameras
    sensitivity = dict.fromkeys(cameras, Fraction(0))
    epsilon = dict.fromkeys(cameras, Fraction(0))
    for one, output in zip(drafts, outputs, strict=True):
        if not one.noisy:
            continue
        whole = one.weight(cameras) if release.argmax is None else max(cameras[name].k * w for name, w in one.weights.items())
        for name, own in one.weights.items():
            sensitivity[name] += own
            epsilon[name] += cameras[name].k * own * output.epsilon / whole
    return tuple(Cost(name, sensitivity[name], epsilon[name]) for name in cameras)


def _canonical(release: Release, cells: Cells, drafts: Sequence[Draft], settings: Mapping[str, Any], evaluate: Evaluate) -> str:
    # keys as a set, whatever order the statement lists them in; but of equal scores the first key wins
    keys = cells.keys if release.argmax is not None else sorted(cells.keys, key=json.dumps)
    answer: dict[str, Any] = {
        "keys": keys, "argmax": None if release.argmax is None else [release.argmax.agg, *release.argmax.of],
        "bounds": [[sorted((name, str(w)) for name, w in one.weights.items()), str(one.step), one.mechanism] for one in drafts]}
    filtered = [without_chunks(agg, release, evaluate) for agg in release.aggs]
    answer["filters"] = [chosen for _, chosen in filtered]
    return canonical(release.relation.form, release.group, [agg for agg, _ in filtered], answer, settings)


def _derivation(drafts: Sequence[Draft], outputs: Sequence[Output], cells: Cells, release: Release) -> Derivation:
    inputs = [one.derivation for one in drafts] or [cells.derivation]
    noisy = [o for o in outputs if o.scale]
    if not noisy:
        return step(Mechanism.EXACT, "nothing that is protected can change the answer", "delta=0", inputs)
    if len(noisy) > 1:
        inputs = [step(share_epsilon.RULE, f"{len(noisy)} aggregates need noise and have equal shares",
                       ", ".join(f"epsilon={show.number(o.epsilon)}" for o in outputs), inputs)]
    scales = ", ".join("+".join(show.number(s) for s in (o.scales or (o.scale,))) for o in outputs)
    ks = sorted({camera.k for camera in release.relation.cameras.values()})
    k = f"K={ks[0]}" if len(ks) == 1 else "K of each camera"
    if release.argmax is not None:
        says = f"the largest of the scores with exponential noise, scale K*Delta/epsilon with {k}"
        return step(Mechanism.PERMUTE, says, f"scale {scales}", inputs)
    if all(o.quantile is not None for o in noisy):
        says = f"the candidate of the best score with exponential noise, scale K*Delta/epsilon with {k}"
        return step(Mechanism.PERMUTE, says, f"scale {scales}", inputs)
    return step(laplace.RULE, f"scale K*delta/epsilon with {k}, on the grid of the values", f"scale {scales}", inputs)


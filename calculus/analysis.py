"""One release from request to plan: algebra, certificates, bounds, shares of epsilon, noise."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from fractions import Fraction
from typing import Any

from privid.errors import InvalidValue, NoRule
from privid.model import Evaluate, Output, Plan, Table

from . import show
from .algebra import Filter, Release, build
from .canonical import canonical
from .certificate import Bound, Cells, Certificate, Derivation, step
from .chunks import values
from .expressions import conjuncts
from .functions import names
from .grouping import groups
from .reader import parse_select
from .rules import AGGREGATES, certify, filter_rows, laplace, share_epsilon
from .tree import Aggregate, position

__all__ = ["EXACT", "analyse"]

#: the mechanism of a release that nothing protected can change
EXACT = "exact"

_INSTEAD = {
    "avg": "Release sum(range(value, low, high)) and count(*), and divide them outside.",
    "min": "Release counts by declared keys or bins instead.",
    "max": "Release counts by declared keys or bins instead.",
}
_OTHERWISE = "Use count(*), count(value) or sum(range(value, low, high))."


def analyse(request: Mapping[str, Any], tables: Sequence[Table], epsilon: Fraction, evaluate: Evaluate) -> Plan:
    """What one segment can change in the answer, and the noise that hides it; or a refusal that says which rule is missing."""
    if epsilon <= 0:
        raise InvalidValue('"privid.epsilon" must be greater than zero', hint="SET privid.epsilon = 0.5;")
    release = build(parse_select(request.get("select")), tables)
    for agg in release.aggs:
        _known(agg)
    row = certify(release.input, evaluate)
    cells = groups(release, row, evaluate)
    _probe(release, row, evaluate)
    bounds = [_bound(agg, row, cells) for agg in release.aggs]
    shares = share_epsilon.split([b.sensitivity for b in bounds], epsilon)
    k = release.table.camera.k
    outputs = tuple(laplace.output(agg, bound, share, k) for agg, bound, share in zip(release.aggs, bounds, shares, strict=True))
    noisy = any(o.scale for o in outputs)
    settings = request.get("settings")
    return Plan(
        uses=(row.use,), outputs=outputs, keys=cells.keys, epsilon=epsilon if noisy else Fraction(0),
        mechanism=laplace.RULE if noisy else EXACT,
        canonical=canonical(release, row.use, cells, bounds, settings if isinstance(settings, Mapping) else {}),
        derivation=_derivation(bounds, outputs, cells, k),
        hints=tuple(_hints(release, row, cells, bounds)),
        # counts and sums over rows that nothing caps: half the chunks, half the change
        linear=all(names(agg.name)[1] in ("count", "sum") for agg in release.aggs))


def _known(agg: Aggregate) -> None:
    if agg.name not in AGGREGATES:
        name = names(agg.name)[1]
        raise NoRule(f"aggregate {show.signature(agg.name)} has no rule", position=position(agg.loc),
                     detail=f"The rule for {name} is missing.", hint=_INSTEAD.get(name, _OTHERWISE))


def _probe(release: Release, row: Certificate, evaluate: Evaluate) -> None:
    """Trusted parts of expressions over rows may raise: they do so here, where it depends on nothing private."""
    if release.trust.probes:
        for _ in values(list(dict.fromkeys(release.trust.probes)), release.table, row.use.chunks, evaluate):
            pass


def _bound(agg: Aggregate, row: Certificate, cells: Cells) -> Bound:
    derivation = cells.derivation
    if agg.filter is not None:
        row = filter_rows.certify(conjuncts(agg.filter), replace(row, derivation=derivation))
        derivation = row.derivation
    return AGGREGATES[agg.name](agg, replace(row, derivation=derivation), cells.untrusted)


def _derivation(bounds: Sequence[Bound], outputs: Sequence[Output], cells: Cells, k: int) -> Derivation:
    inputs = [b.derivation for b in bounds] or [cells.derivation]
    noisy = [o for o in outputs if o.scale]
    if not noisy:
        return step(EXACT, "nothing that is protected can change the answer", "δ=0", inputs)
    if len(noisy) > 1:
        inputs = [step(share_epsilon.RULE, f"{len(noisy)} aggregates need noise and have equal shares",
                       ", ".join(f"ε={show.number(o.epsilon)}" for o in outputs), inputs)]
    scales = ", ".join(show.number(o.scale) for o in outputs)
    return step(laplace.RULE, f"scale K·δ/ε with K={k}, on the grid of the values", f"scale {scales}", inputs)


def _hints(release: Release, row: Certificate, cells: Cells, bounds: Sequence[Bound]) -> list[str]:
    """What would make the answer more accurate."""
    if release.table.pad or isinstance(release.input, Filter):
        return []
    padded = replace(row, n=0, sigma=row.tau)
    hints = []
    for agg, bound in zip(release.aggs, bounds, strict=True):
        better = _bound(agg, padded, cells).sensitivity
        # the number of rows of a padded table tells nothing, so counting them is no improvement
        if agg.filter is None and 0 < better < bound.sensitivity:
            hints.append(f"With the option pad 'on' {show.aggregate(agg)} would change by at most {show.number(better)} "
                         f"instead of {show.number(bound.sensitivity)}.")
    return hints

"""EXPLAIN: the plan as an ordered object and in words."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from typing import Any

from privid.model import Mechanism, Output, Plan

from .certificate import Derivation
from .show import number

__all__ = ["explain"]

#: cameras that are shown one by one
MANY = 8


def explain(plan: Plan, *, frames_charged: int, budget_remaining: Fraction | None, slots: int,
            seconds: Fraction | float, allowance: Fraction | float = 0) -> tuple[dict[str, Any], list[str]]:
    """The object "Privid" of EXPLAIN (FORMAT JSON), and the lines of the text form."""

    def each(value: Callable[[Output], Any]) -> Any:
        """Plain for one aggregate, a list for several."""
        found = [value(o) for o in plan.outputs]
        return found[0] if len(found) == 1 else found

    body: dict[str, Any] = {
        "Sensitivity": each(lambda o: _plain(o.sensitivity)),
        "Mechanism": each(lambda o: o.mechanism if o.scale else Mechanism.EXACT),
        "Noise Scale": each(lambda o: _plain(o.scale)),
        "Epsilon": each(lambda o: _plain(o.epsilon)),
        "Error 95%": each(lambda o: _plain(o.error95)),
        "Chunks": sum(use.count for use in plan.uses),
        "Frames Charged": frames_charged,
        "Budget Remaining": None if budget_remaining is None else _plain(budget_remaining),
        "Slots": slots,
        "Seconds": _plain(seconds),
        "Allowance": _plain(allowance),
        "Keys": len(plan.keys),
        "Aggregates": each(lambda o: o.label),
        "Derivation": plan.derivation,
    }
    if len(plan.costs) > 1:
        body["Cameras"] = [{"Camera": c.camera, "Sensitivity": _plain(c.sensitivity), "Epsilon": _plain(c.epsilon)} for c in plan.costs]
    if plan.hints:
        body["Hints"] = list(plan.hints)
    return body, _lines(plan, body)


def _lines(plan: Plan, body: dict[str, Any]) -> list[str]:
    lines = [_output_line(plan, o) for o in plan.outputs]
    groups = f", {len(plan.keys)} groups" if plan.keys != ((),) else ""
    if plan.reads:
        lines.append(f"Reads {body['Chunks']} chunks in {body['Slots']} slots, {body['Seconds']:g} s{groups}")
        lines.append(f"Computes for {body['Allowance']:g} s after the last slot, whatever the rows")
    else:
        lines.append(f"Reads nothing{groups}")
    if plan.epsilon:
        left = "" if body["Budget Remaining"] is None else f"; {body['Budget Remaining']:g} remains where least is left"
        charged = f"epsilon {number(plan.epsilon)} to" if len(plan.costs) < 2 else "each camera what its own segments lose, over"
        lines.append(f"Charges {charged} {body['Frames Charged']} frames{left}")
    else:
        lines.append("Charges nothing")
    if 1 < len(plan.costs) <= MANY:
        lines += [f"Camera {c.camera}: epsilon {number(c.epsilon)} is charged" for c in plan.costs]
    elif len(plan.costs) > MANY:
        worst = max(plan.costs, key=lambda c: c.epsilon)
        lines.append(f"{len(plan.costs)} cameras; the most that one is charged is {number(worst.epsilon)} (camera {worst.camera})")
    lines.append("Derivation:")
    lines += _tree(plan.derivation, 1)
    lines += [f"Hint: {hint}" for hint in plan.hints]
    return lines


def _output_line(plan: Plan, output: Output) -> str:
    if not output.scale:
        return f"{output.label}: exact, nothing protected can change it"
    if output.mechanism is Mechanism.PERMUTE:
        return (f"{output.label}: permute and flip at scale {number(output.scale)} (sensitivity {number(output.sensitivity)}, epsilon "
                f"{number(output.epsilon)}); the winner is within {number(output.error95)} of the best with probability 95 %")
    if output.quantile is not None:
        return (f"{output.label}: one of {len(output.quantile.candidates)} public values by permute and flip at scale "
                f"{number(output.scale)} (sensitivity {number(output.sensitivity)}, epsilon {number(output.epsilon)}); its rank is within "
                f"{number(output.error95)} rows of the quantile with probability 95 %")
    if output.scales:
        parts = ", ".join(f"{name} {number(scale)}" for name, scale in zip(("count", "sum", "squares"), output.scales, strict=False))
        within = "" if output.spread is not None or output.low is None or output.high is None else (
            f"; the answer stays within [{number(output.low)}, {number(output.high)}]")
        return f"{output.label}: {output.mechanism}, noise scales {parts} (epsilon {number(output.epsilon)}){within}"
    return (f"{output.label}: {output.mechanism} noise of scale {number(output.scale)} (sensitivity {number(output.sensitivity)}, "
            f"epsilon {number(output.epsilon)}); within +/-{number(output.error95)} with probability 95 %")


def _tree(node: Derivation, depth: int) -> list[str]:
    lines = [f"{'  ' * depth}{node['rule']}: {node['says']} -> {node['bound']}"]
    for below in node["inputs"]:
        lines += _tree(below, depth + 1)
    return lines


def _plain(value: Fraction | float) -> int | float:
    """A JSON number."""
    if isinstance(value, float):
        return value
    return value.numerator if value.denominator == 1 else float(value)

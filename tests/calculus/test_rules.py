"""Each rule against its fixture: statement in, derivation, bound and mechanism out."""

from __future__ import annotations

import json
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest

from privid.calculus.rules import RULES
from privid.model import Evaluate, Plan

from . import builders

HERE = Path(__file__).resolve().parent
PROOFS = HERE.parents[1] / "calculus" / "rules"
CASES = [(path.stem, case) for path in sorted((HERE / "fixtures").glob("*.json")) for case in json.loads(path.read_text())]


def plan_of(case: dict[str, Any], evaluate: Evaluate, epsilon: Fraction = Fraction(1)) -> Plan:
    """Fixtures write their statement with the words of builders."""
    words = {name: getattr(builders, name) for name in dir(builders) if not name.startswith("_")} | {"range": range, "str": str}
    select = eval(case["release"], {"__builtins__": {}}, words)  # the fixtures are ours
    described = case.get("tables", [case.get("table", {})])
    tables = [builders.table(**{"index": i, **one}) for i, one in enumerate(described)]
    return builders.analyse(builders.request(select), tables, epsilon, evaluate)


def steps(node: dict[str, Any]) -> list[dict[str, Any]]:
    """A derivation from the root along the first input."""
    return [node, *(steps(node["inputs"][0]) if node["inputs"] else [])]


@pytest.mark.parametrize(("rule", "case"), CASES, ids=[f"{rule}: {case['says']}" for rule, case in CASES])
def test_a_rule_gives_the_bound_of_its_fixture(rule: str, case: dict[str, Any], evaluate: Evaluate) -> None:
    plan = plan_of(case, evaluate)
    noisy = any(Fraction(s) for s in case["sensitivity"])
    assert [o.sensitivity for o in plan.outputs] == [Fraction(s) for s in case["sensitivity"]]
    assert plan.mechanism == case.get("mechanism", "discrete Laplace")
    assert plan.epsilon == Fraction(case.get("epsilon", 1))
    for word, value in (("scale", "scale"), ("shares", "epsilon"), ("steps", "step"), ("error95", "error95")):
        if word in case:
            assert [getattr(o, value) for o in plan.outputs] == [Fraction(s) for s in case[word]]
    if "keys" in case:
        assert plan.keys == tuple(map(tuple, case["keys"]))
    if "chunks" in case:
        assert plan.uses[0].chunks == tuple(map(tuple, case["chunks"]))
    if "columns" in case:
        assert [column.as_message() for column in plan.columns] == case["columns"]
    if "scales" in case:
        assert [[str(s) for s in o.scales] for o in plan.outputs] == case["scales"]
    if "public" in case:
        assert [None if o.public is None else list(o.public) for o in plan.outputs] == case["public"]
    if "costs" in case:
        assert {cost.camera: str(cost.epsilon) for cost in plan.costs} == case["costs"]
    path = steps(plan.derivation)
    if "derivation" in case:
        assert [node["rule"] for node in path] == case["derivation"]
    if "bound" in case:
        name = next(name for name, file in RULES.items() if file == rule)
        assert case["bound"] in [node["bound"] for node in path if node["rule"] == name]
    if "hint" in case:
        assert plan.hints == (case["hint"],)
    if "published" in case and noisy:
        assert plan.outputs[0].sensitivity > Fraction(case["published"]), "the published rule is the unsound one"


def test_every_rule_has_a_file_a_proof_and_a_fixture() -> None:
    files = {path.stem for path in PROOFS.glob("*.py")} - {"__init__"}
    assert files == set(RULES.values())
    assert files == {path.stem for path in PROOFS.glob("*.md")}
    assert files == {path.stem for path in (HERE / "fixtures").glob("*.json")}


def test_every_derivation_names_only_rules() -> None:
    for rule, case in CASES:
        assert set(case.get("derivation", [])) <= {*RULES, "exact", "permute and flip"}, rule

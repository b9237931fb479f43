"""What an answer can be at most is known before it is charged."""

from __future__ import annotations

import json
from collections.abc import Sequence
from fractions import Fraction

import pytest

from privid.engine.answers import answer_size, check_answer
from privid.engine.wire import LIMIT, pack_json
from privid.errors import InvalidValue
from privid.model import Key, Mechanism, Output, Plan, Quantile, Spread
from privid.udf import noise
from privid.udf.moments import _text


def output(step: str = "1", type_: str = "int8", scale: str = "4", **more: object) -> Output:
    return Output("count(*)", type_, Fraction(step), Fraction(4), Fraction(scale), Fraction(1), Fraction(12), **more)  # type: ignore[arg-type]


def plan(outputs: Sequence[Output], keys: Sequence[Key], **more: object) -> Plan:
    return Plan((), tuple(outputs), tuple(keys), Fraction(1), "", "", {}, **more)  # type: ignore[arg-type]


KEYS: list[Key] = [("a", None), ("\U0001d49c" * 50, "\x01\"\\"), ("é", "")]
OUTPUTS = {
    "a count": output(),
    "a sum on a fine grid": output("1/1000000", "numeric"),
    "a sum on a coarse grid": output("1" + "0" * 290, "numeric", "1" + "0" * 291),
    "a public value": output(scale="0", public=("x" * 100, None, "\U0001d49c" * 9), mechanism=Mechanism.EXACT),
    "a quantile": output(type_="float8", mechanism=Mechanism.QUANTILE, quantile=Quantile(Fraction(1, 2), ("1", "2" * 40), 5)),
    "an exact number": output("1/1000", "numeric", "0", mechanism=Mechanism.EXACT),
}


@pytest.mark.parametrize("one", OUTPUTS.values(), ids=OUTPUTS)
def test_no_answer_is_larger_than_its_bound(one: Output) -> None:
    asked = plan([one, output()], KEYS)
    large = str(2**62 * one.step) if one.step.denominator == 1 else "4611686018427.5"
    for value in ("0", large):
        rows, told = noise.answer(asked, [(*key, value if one.quantile is None else None, "7") for key in KEYS])
        sent = len(json.dumps({"rows": rows, "notice": told, "reused": False}))
        assert max(sent, len(pack_json("a", {"rows": rows, "notice": told, "reused": False}))) <= answer_size(asked)


@pytest.mark.parametrize("type_", ["numeric", "float8"])
@pytest.mark.parametrize("high", ["10", "1" + "0" * 100])
@pytest.mark.parametrize("spread", [None, Spread.VAR_SAMP])
def test_no_average_is_larger_than_its_bound(type_: str, high: str, spread: Spread | None) -> None:
    scales = (Fraction(4),) * (2 if spread is None else 3)
    one = output("1/1000" if high == "10" else "1" + "0" * 88, type_, mechanism=Mechanism.AVERAGE if spread is None else Mechanism.VARIANCE,
                 low=Fraction(0), high=Fraction(high), spread=spread, scales=scales, collects=tuple(range(len(scales))))
    asked = plan([one], [("k",)])
    bound = answer_size(asked) - answer_size(plan([], [("k",)])) - 2048 - 4
    value = Fraction(high) if spread is None else Fraction(high) ** 2 / 2
    assert len(_text(value, one)) <= bound


def test_an_answer_that_no_message_can_hold_is_refused_with_a_hint() -> None:
    many: list[Key] = [(str(n),) for n in range(20_000)]
    check_answer(plan([output()] * 80, many))
    with pytest.raises(InvalidValue, match="but the limit is 64 MB") as caught:
        check_answer(plan([output()] * 80, [*many, *((f"more {n}",) for n in range(20_000))]))
    assert caught.value.hint and answer_size(plan([output()] * 80, many)) < LIMIT

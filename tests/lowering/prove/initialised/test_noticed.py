"""A prover of "initialised" that is wrong is noticed: rules are made so, and a launch breaks what is proven."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import joinery as jn
import pytest

pytest.importorskip("z3")

from joinery.lowering.prove.initialised import sources
from joinery.lowering.prove.initialised.carried import Carried
from joinery.lowering.prove.initialised.definedness import Definedness
from joinery.lowering.prove.initialised.verdicts import Initialised
from joinery.lowering.prove.terms.formulas import both, either, negated
from joinery.lowering.prove.terms.polynomials import ZERO

from ....support.proving import differential
from ....support.proving.makers.undefined_cases import CASES, findings_of, text_of

KERNELS = 300


def noticed() -> str:
    """The first small kernel of which something is proven that launches break; "" if there is none."""
    for name, case in CASES.items():
        if case.right != "wrong":
            continue
        kernel = jn.kernel.from_ttir(text_of(case))
        proof = kernel.prove(extents={"x": 8, "y": 8, "o": 8}, grid=1, properties=("initialised",))
        proven = {each.line for each in proof.accesses if each.verdict == "proven"}
        if proven and (len(proven) == len(proof.accesses) or any(line in proven for line in findings_of(kernel))):
            return name
    return ""


def _absorbed_by_anything(self: Definedness, ev: Any, op: Any, lanes: Any) -> Any:
    x, y = op.operands
    by_one, by_two = self._decides(ev, op, x, lanes), self._decides(ev, op, y, lanes)
    return either(
        both(self.formula(ev, x, lanes), negated(by_two)), both(self.formula(ev, y, lanes), negated(by_one))
    )  # an undefined number that happens to be 0 decides, too


def _by_the_first_iteration(self: Carried, loop: Any, number: int, lanes: Any) -> Any:
    return self._first(loop, number, lanes)


def _only_where_it_starts(
    self: Carried, loop: Any, key: Any, when: Any, before: Callable[..., bool] = Carried._is_kept
) -> bool:
    return key[1] is not None or before(self, loop, key, when)


def _questions_without(what: str) -> Callable[..., Any]:
    def questions(self: Initialised, access: Any, level: Any, before: Any = Initialised._questions) -> Any:
        return [each for each in before(self, access, level) if not each.what.startswith(what)]

    return questions


def _made(without: str) -> Callable[..., Any]:
    """The rules, of which that of one operation forgets an operand that is a condition, an index or a mask."""

    def made(self: Definedness, ev: Any, ssa: Any, lanes: Any, before: Any = Definedness._made) -> Any:
        op = getattr(ssa, "op", None)
        if op is None or op.name != without or not self._possible.is_value(op.operands[_FORGOTTEN[without]]):
            return before(self, ev, ssa, lanes)
        kept = self._possible
        self._possible = _Without(kept, op.operands[_FORGOTTEN[without]])
        known = self.forget()
        try:
            return before(self, ev, ssa, lanes)
        finally:
            self._possible = kept
            self.remember(known)

    return made


_FORGOTTEN = {"arith.select": 0, "tt.gather": 1, "tt.dot": 1, "tt.join": 1}


class _Without:
    def __init__(self, inner: Any, value: Any) -> None:
        self._inner, self._value = inner, value

    def is_value(self, value: Any) -> bool:
        return value is not self._value and self._inner.is_value(value)


SABOTAGE: dict[str, tuple[Any, str, Any]] = {
    "one lane stands for all": (Definedness, "_any_lane", lambda *args: ZERO),
    "undefined numbers decide": (Definedness, "_absorbed", _absorbed_by_anything),
    "loops carry what they start with": (Carried, "_before", _by_the_first_iteration),
    "what is assumed of lanes is not shown": (Carried, "_is_kept", _only_where_it_starts),
    "masks are defined": (Initialised, "_questions", _questions_without("the mask")),
    "addresses are defined": (Initialised, "_questions", _questions_without("the address")),
    "what is stored is defined": (Initialised, "_questions", _questions_without("the stored")),
    "operands of atomics are defined": (Initialised, "_questions", _questions_without("an operand")),
    "conditions are defined": (Initialised, "_questions", _questions_without("the condition")),
    "bounds are defined": (Initialised, "_questions", _questions_without("a bound")),
    "conditions of select are defined": (Definedness, "_made", _made("arith.select")),
    "indices of gather are defined": (Definedness, "_made", _made("tt.gather")),
    "half of a join is defined": (Definedness, "_made", _made("tt.join")),
    "the right side of a product is defined": (Definedness, "_made", _made("tt.dot")),
    "nothing is captured": (sources, "captured", lambda op: iter(())),
}  # fmt: skip
"""What is made wrong: where, its name, what stands there then."""
QUICK = ("one lane stands for all", "what is assumed of lanes is not shown")


@pytest.mark.slow
@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=() if name in QUICK else pytest.mark.slow) for name in SABOTAGE]
)
def test_a_wrong_rule_is_noticed(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    owner, attribute, value = SABOTAGE[name]
    monkeypatch.setattr(owner, attribute, value)
    assert noticed()


@pytest.mark.slow
def test_a_wrong_rule_is_noticed_by_random_kernels(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Initialised, "_questions", _questions_without("the mask"))
    assert any(_is_broken(seed) for seed in range(KERNELS))


def _is_broken(seed: int) -> bool:
    try:
        differential.check(seed, 6, kind="undefined", properties=("bounds", "initialised"))
    except AssertionError:
        return True
    return False

"""What the interpreter computes, value by value, is one of the runs that the terms of the prover stand for."""

from __future__ import annotations

import random
from collections import Counter

import pytest

pytest.importorskip("z3")

from joinery.lowering.prove.evaluate import arithmetic, elements, rules
from joinery.lowering.prove.evaluate.evaluator import Evaluator, Lanes
from joinery.lowering.prove.evaluate.values import Integer, Value
from xdsl.ir import SSAValue

from ...support.proving.makers.mixed_kernels import mixed_kernel
from ...support.proving.makers.random_kernels import random_kernel
from ...support.proving.witness import check


@pytest.mark.slow
@pytest.mark.parametrize("first", range(0, 12, 6))
def test_terms_allow_what_random_kernels_compute(first: int) -> None:
    found: Counter[str] = Counter()
    for seed in range(first, first + 6):
        rng = random.Random(seed)
        found += check(mixed_kernel(rng), rng, 2, 15, f"mixed {seed}")
    assert found["sat"] > 80


@pytest.mark.slow
@pytest.mark.parametrize("first", range(0, 400, 40))
def test_terms_allow_what_many_random_kernels_compute(first: int) -> None:
    """`python -m tests.support.proving.witness mixed SEED COUNT LAUNCHES VALUES` tries others."""
    for seed in range(first, first + 40):
        rng = random.Random(seed)
        check((mixed_kernel if seed % 3 else random_kernel)(rng), rng, 3, 40, f"mixed {seed}")


@pytest.mark.one_in(2)
@pytest.mark.parametrize("name", [
    "arith.addi", pytest.param("arith.select", marks=pytest.mark.slow), "tt.make_range",
    pytest.param("scf.for:argument", marks=pytest.mark.slow),
])  # fmt: skip
def test_a_wrong_rule_is_noticed(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A rule is made wrong by 1, and a few kernels say so."""
    before = rules.RULES[name]

    def wrong(ev: Evaluator, ssa: SSAValue, lanes: Lanes) -> Value | None:
        found = before(ev, ssa, lanes)
        return Integer(found.value + 1, found.width, found.is_number) if isinstance(found, Integer) else found

    monkeypatch.setitem(rules.RULES, name, wrong)
    assert _is_noticed()


def _is_noticed() -> bool:
    for seed in range(40):
        rng = random.Random(seed)
        try:
            check(mixed_kernel(rng), rng, 2, 20, "")
        except AssertionError:
            return True
    return False


def test_every_operation_with_a_rule_is_listed_once() -> None:
    """What has no rule is a free number: a new operation proves nothing until somebody writes down what it means."""
    assert set(arithmetic.RULES) <= set(elements.RULES) <= set(rules.RULES)

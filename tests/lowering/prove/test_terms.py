"""Terms of values against the interpreter: what a program computes satisfies the term of each of its values.

If the facts of a term excluded the number that the program really computes, a proof could follow from that.
"""

from __future__ import annotations

import itertools
import math
import random

import joinery as jn
import numpy as np
import pytest

pytest.importorskip("z3")

from joinery.lowering.prove.evaluate.contexts import context
from joinery.lowering.prove.preparation import prepare
from joinery.lowering.prove.specify.specification import Specification
from joinery.lowering.prove.terms.atoms import Terms
from joinery.lowering.prove.terms.formulas import equal, negated
from joinery.lowering.prove.terms.polynomials import Polynomial, constant
from joinery.lowering.prove.terms.solver import Budget
from joinery.lowering.prove.world import World

from ...support.proving.makers.random_terms import NUMBERS, program
from ...support.tiers import both_tiers


def check(seed: int, bits: int) -> int:
    """Returns how many values of a random program have a term that stands for their number alone."""
    rng = random.Random(seed)
    kernel = jn.kernel.from_ttir(program(rng, 6, bits))
    a, b = rng.choice(NUMBERS), rng.choice(NUMBERS)
    out = np.zeros(6, np.int64)
    kernel.interpret(1, out, a, b)
    prepared = prepare(kernel._function)
    parsed = Specification((f"a == {a}", f"b == {b}"), (), ("1", "1", "1")).parsed()
    decided = 0
    world = World(prepared, parsed, Budget(10**6, 10**9))
    for number, access in enumerate(prepared.accesses):
        assert access.op.parent is not None
        assert access.stored is not None
        ev = context(world.run(), access.op.parent)
        term = ev.integer(access.stored, ())
        times = world.terms.atom(("times", number), "times") * (1 << 64)
        right = equal(term.value + times, int(out[number]))
        assert world.solver.check([*world.base, right]).verdict != "unsat", (seed, number, a, b, out[number], term)
        decided += world.is_impossible((), negated(equal(world.terms.wrapped(term.value, 64), int(out[number]))))
    return decided


@both_tiers
@pytest.mark.parametrize("bits", [32, 64])
def test_terms_of_random_programs_allow_what_the_interpreter_computes(bits: int, in_full: bool) -> None:
    decided = sum(check(seed, bits) for seed in range(1500 if in_full else 5))
    assert decided > (5000 if in_full else 15)  # of 9000, and of 30


def test_digits_are_all_0_exactly_where_their_sum_is() -> None:
    terms = Terms()
    box = [(-3, 3), (0, 3), (-2, 2)]
    atoms = [terms.atom(at, "xyz"[at], *each) for at, each in enumerate(box)]
    seen = 0
    for factors in itertools.product((1, 2, -3), (1, 4, -8), (0, 4, 16, 40), (-5, 0, 4)):
        whole = sum([atom * factor for atom, factor in zip(atoms, factors, strict=False)], constant(factors[3]))
        parts = terms.digits(whole)
        seen += len(parts) > 1
        for values in itertools.product(*[range(low, high + 1) for low, high in box]):
            numbers = {next(iter(atom.atoms)): each for atom, each in zip(atoms, values, strict=True)}
            exact = sum(factor * each for factor, each in zip(factors, values, strict=False)) + factors[3]
            assert all(_value(part, numbers) == 0 for part in parts) == (exact == 0)
    assert seen > 10


def _value(polynomial: Polynomial, numbers: dict[int, int]) -> int:
    return sum(factor * math.prod([numbers[atom] for atom in monomial]) for monomial, factor in polynomial)

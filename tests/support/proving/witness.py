"""Holds what the interpreter computes against the terms of the prover: every value of every run must be one that these allow.

Terms stand for values in every run, so there is nothing else to show: that a run's sizes, its program, the conditions of a
value's context, the facts of all atoms and the value itself can hold together. A fact that excludes a run, a condition that is
too strong, a shortcut that is not justified, a rule that is wrong by 1: each makes a run impossible that was there.
"""

from __future__ import annotations

import math
import random
import sys
from collections import Counter
from typing import Any

import joinery as jn
import numpy as np
from joinery.lowering.prove.evaluate.contexts import NotModelled, context
from joinery.lowering.prove.evaluate.values import Condition, Integer, Pointer
from joinery.lowering.prove.preparation import PreparedFunction, prepare
from joinery.lowering.prove.specify.specification import Specification
from joinery.lowering.prove.terms.formulas import Formula, both, equal, negated
from joinery.lowering.prove.terms.polynomials import Polynomial, TooLarge
from joinery.lowering.prove.terms.solver import Budget, _flattened
from joinery.lowering.prove.world import World
from joinery.lowering.tt import types as t
from joinery.promotion.float_modes import default_modes
from xdsl.ir import Operation, SSAValue

from .differential import MAKERS, arguments_of, grid_of, sizes_of
from .makers.random_kernels import RandomKernel
from .watching import run

LIMIT = 400_000


class Terms:
    """The terms of a kernel."""

    def __init__(self, prepared: PreparedFunction, specification: Specification) -> None:
        self.world = World(prepared, specification.parsed(), Budget(LIMIT, 1 << 60))
        self.accesses = {each.op: each for each in prepared.accesses}

    def at(
        self,
        op: Operation,
        ssa: SSAValue,
        lane: tuple[int, ...],
        actual: int,
        parameters: list[Any],
        is_live: bool,
    ) -> Formula | None:
        """Returns that an operation runs and a value of it is what it was in a lane; None if nothing is said of it.

        is_live: whether the value is looked at in the context of an access whose mask lets the lane through.
        """
        run = self.world.run()
        assert op.parent is not None
        ev = context(run, op.parent)
        lanes = run.lanes(t.shape_of(ssa.type))
        access = self.accesses.get(op)
        if is_live and access is not None and access.mask is not None:
            ev = ev.under(ev.condition(access.mask, lanes if t.is_tensor(access.mask.type) else ()).formula)
        value = ev.value(ssa, lanes)
        pinned = [equal(each, at) for each, at in zip(lanes, lane, strict=True)]
        match value:
            case Integer(number, width):
                made = equal(ev.signed(value), actual)  # what a shortcut takes for the number must be it
                if not value.is_number:
                    made = both(made, self._congruent(number, actual, width))
            case Condition(formula):
                made = formula if actual & 1 else negated(formula)
            case Pointer(base, offset):
                made = self._congruent(offset, actual - int(parameters[base]), 64)
            case _:
                return None
        return both(ev.formula, *pinned, made)

    def _congruent(self, number: Polynomial, actual: int, width: int) -> Formula:
        turns = self.world.terms.atom(("witness", number, actual, width), "turns")
        return equal(number + turns * (1 << width), actual)


def check(subject: RandomKernel, rng: random.Random, launches: int, values: int, label: str) -> Counter[str]:
    """Runs a kernel, and asks for some of its values whether the terms allow them."""
    kernel = jn.kernel.from_ttir(subject.text)
    found: Counter[str] = Counter()
    specification = Specification.of(subject.assume, subject.extents, subject.grid)
    with default_modes():
        prepared = prepare(kernel._function)
        terms = Terms(prepared, specification)
    parsed = specification.parsed()
    for sizes in sizes_of(subject, parsed, rng, launches):
        arguments = arguments_of(subject, parsed, sizes, rng.randrange(1 << 30))
        if arguments is None:
            continue
        before = [each.copy() if isinstance(each, np.ndarray) else each for each in arguments]
        grid = grid_of(parsed, sizes)
        arrays = [
            np.resize(each, max(each.size, 1) + 600)
            if isinstance(each, np.ndarray) and name not in ("idx", "t")
            else each
            for name, each in zip([*subject.elements, "n", "m"], arguments, strict=True)
        ]
        try:
            seen, parameters = run(prepared, grid, arrays)
        except jn.UserError:
            continue  # a number of other bits
        for op, program, its in rng.sample(seen, min(values, len(seen))):
            found[
                allow(
                    terms,
                    op,
                    program,
                    its,
                    parameters,
                    sizes,
                    rng,
                    f"{label}: {before}\n{specification}\n{subject.text}",
                )
            ] += 1
    return found


def allow(
    terms: Terms, op: Operation, program: tuple[int, int, int], its: list[tuple[SSAValue, Any]], parameters: list[Any],
    sizes: dict[str, int], rng: random.Random, label: str = "",
) -> str:  # fmt: skip
    """Asks whether the terms allow one of the values of an operation in a run; an assertion fails if they do not."""
    ssa, value = rng.choice(its) if its else (None, None)
    if ssa is None or not (t.is_integer(ssa.type) or t.is_pointer(ssa.type)):
        return "no number"
    if np.size(value) != math.prod(t.shape_of(ssa.type)):
        return "left out"  # a region of a reduction is run on whole blocks
    lane = tuple(rng.randrange(extent) for extent in t.shape_of(ssa.type))
    actual = int(np.asarray(value).reshape(t.shape_of(ssa.type))[lane])
    try:
        claim = terms.at(op, ssa, lane, actual, parameters, _is_live(terms, op, ssa, lane, its))
    except (NotModelled, TooLarge, RecursionError):
        return "left out"
    if claim is None:
        return "no term"
    world = terms.world
    pins = [equal(world.symbols[name], size) for name, size in sizes.items() if name in world.symbols]
    pins += [equal(own, at) for own, at in zip(world.run().program, program, strict=True)]
    answer = world.solver._ask(_parts([*world.base, *pins, claim]), exact=True)
    assert answer.verdict != "unsat", (
        f"{op}\n{ssa}\nlane {lane} of program {program} is {actual}\n{sizes}\n{label}"
    )
    return answer.verdict


def _is_live(
    terms: Terms, op: Operation, ssa: SSAValue, lane: tuple[int, ...], its: list[tuple[SSAValue, Any]]
) -> bool:
    """Whether an access's lane of a value takes part, so that the value may be looked at under its mask."""
    access = terms.accesses.get(op)
    if access is None or access.mask is None or access.is_gather or t.shape_of(ssa.type) != access.shape:
        return False
    mask = next(value for own, value in its if own is access.mask)
    return bool(np.broadcast_to(np.asarray(mask), access.shape)[lane])


def _parts(formulas: list[Formula]) -> list[Formula]:
    return list(dict.fromkeys(_flattened(formulas)))


def main() -> None:
    """Tries random kernels: which kind, the first seed, how many, launches of each, values of each."""
    kind, first, count, launches, values = sys.argv[1], *map(int, sys.argv[2:6])
    found: Counter[str] = Counter()
    for seed in range(first, first + count):
        rng = random.Random(seed)
        subject = MAKERS[kind](rng)
        try:
            found += check(subject, rng, launches, values, f"{kind} {seed}")
        except AssertionError as error:
            print(str(error)[:6000])
            found["FAULT"] += 1
            if found["FAULT"] > 2:
                break
    print(dict(found))


if __name__ == "__main__":
    main()

__all__ = ["Terms", "allow", "check"]

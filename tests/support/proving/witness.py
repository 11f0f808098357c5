"""Holds what the interpreter computes against the terms of the prover: every value of every run must be one that these allow.

Where all operations look at numbers that may wrap, terms stand for values without a condition. With exact numbers they do where
what they need is shown for the sizes of a launch.
"""

from __future__ import annotations

import math
import random
import sys
from collections import Counter
from typing import Any

import joinery as jn
import numpy as np
from joinery.lowering.prove.claims import needs_of_path, not_shown
from joinery.lowering.prove.evaluate.paths import NotModelled, path
from joinery.lowering.prove.evaluate.values import Condition, Integer, Pointer, Unknown
from joinery.lowering.prove.preparation import PreparedFunction, prepare
from joinery.lowering.prove.specify.expressions import evaluate
from joinery.lowering.prove.specify.specification import Specification
from joinery.lowering.prove.terms.formulas import Formula, both, equal, negated
from joinery.lowering.prove.terms.polynomials import Polynomial, TooLarge
from joinery.lowering.prove.terms.solver import Budget, _flattened
from joinery.lowering.prove.world import World
from joinery.lowering.tt import types as t
from joinery.promotion.float_modes import default_modes
from xdsl.ir import Operation, SSAValue

from .differential import arguments_of, sizes_of
from .mixed_kernels import mixed_kernel
from .random_kernels import RandomKernel, random_kernel
from .watching import run

LIMIT = 400_000
class Terms:
    """The terms of a kernel, in which every operation looks at numbers that may wrap."""

    def __init__(self, prepared: PreparedFunction, specification: Specification, is_wrapping: bool = True) -> None:
        wrapping = frozenset(prepared.function.walk()) if is_wrapping else frozenset()
        self.world = World(prepared, specification.parsed(), Budget(LIMIT, 1 << 60), wrapping)
        self.prepared = prepared

    def at(self, op: Operation, ssa: SSAValue, lane: tuple[int, ...], actual: int, parameters: list[Any]) -> Formula | None:
        """Returns that an operation runs and a value of it is what it was in a lane; None if nothing is said of it."""
        ev = self.world.first
        shape = t.shape_of(ssa.type)
        lanes = ev.lanes(shape)
        value = ev.value(ssa, lanes)
        here = both(*[each.formula for each in path(ev, op)])
        pinned = [equal(each, at) for each, at in zip(lanes, lane, strict=True)]
        match value:
            case Integer(number, width):
                made = self._congruent(number, actual, width)
            case Condition(formula):
                made = formula if actual & 1 else negated(formula)
            case Pointer(base, offset):
                made = self._congruent(offset, actual - int(parameters[base]), 64)
            case _:
                return None
        return both(here, *pinned, made)

    def are_needs_shown(self, op: Operation, ssa: SSAValue, sizes: list[Formula]) -> bool:
        """Returns whether all that the terms of a value, and of the way to it, need is shown for these sizes."""
        ev = self.world.first
        value, steps = ev.value(ssa, ev.lanes(t.shape_of(ssa.type))), path(ev, op)
        own = () if isinstance(value, Unknown) else value.needs
        needs = [*needs_of_path(steps), *[(need, both(*[each.formula for each in steps])) for need in own]]
        failed, reads = not_shown(self.world, sizes, needs)
        return not failed and not reads

    def _congruent(self, number: Polynomial, actual: int, width: int) -> Formula:
        turns = self.world.terms.atom(("witness", number, actual, width), "turns")
        return equal(number + turns * (1 << width), actual)


def check(
    subject: RandomKernel, rng: random.Random, launches: int, values: int, label: str, is_wrapping: bool = True
) -> Counter[str]:
    """Runs a kernel, and asks for some of its values whether the terms allow them."""
    kernel = jn.kernel.from_ttir(subject.text)
    found: Counter[str] = Counter()
    specification = Specification.of(subject.assume, subject.extents, subject.grid)
    with default_modes():
        prepared = prepare(kernel._function)
        terms = Terms(prepared, specification, is_wrapping)
    parsed = specification.parsed()
    for sizes in sizes_of(subject, parsed, rng, launches):
        arguments = arguments_of(subject, parsed, sizes, rng.randrange(1 << 30))
        if arguments is None:
            continue
        before = [each.copy() if isinstance(each, np.ndarray) else each for each in arguments]
        grid = (evaluate(parsed.grid[0], sizes), 1, 1)
        arrays = [
            np.resize(each, max(each.size, 1) + 600) if isinstance(each, np.ndarray) and name != "idx" else each
            for name, each in zip([*subject.elements, "n", "m"], arguments, strict=True)
        ]
        try:
            seen, parameters = run(prepared, grid, arrays)
        except jn.UserError:
            continue  # a number of other bits
        for op, program, its in rng.sample(seen, min(values, len(seen))):
            ssa, value = rng.choice(its) if its else (None, None)
            if ssa is None or not (t.is_integer(ssa.type) or t.is_pointer(ssa.type)):
                continue
            if np.size(value) != math.prod(t.shape_of(ssa.type)):
                continue  # a region of a reduction is run on whole blocks
            lane = tuple(rng.randrange(extent) for extent in t.shape_of(ssa.type))
            actual = int(np.asarray(value).reshape(t.shape_of(ssa.type))[lane])
            try:
                claim = terms.at(op, ssa, lane, actual, parameters)
            except (NotModelled, TooLarge, RecursionError):
                found["left out"] += 1
                continue
            if claim is None:
                found["no term"] += 1
                continue
            world = terms.world
            pins = [equal(world.symbols[name], size) for name, size in sizes.items() if name in world.symbols]
            if not is_wrapping and not terms.are_needs_shown(op, ssa, pins):
                found["needs"] += 1
                continue
            pins += [equal(own, at) for own, at in zip(world.first.program, program, strict=True)]
            answer = world.solver._ask(_parts([*world.base, *pins, claim]), exact=True)
            found[answer.verdict] += 1
            assert answer.verdict != "unsat", (
                f"{label}: {op}\n{ssa}\nlane {lane} of program {program} is {actual}\n{sizes} {before}\n{specification}\n"
                f"{subject.text}"
            )
    return found


def _parts(formulas: list[Formula]) -> list[Formula]:
    return list(dict.fromkeys(_flattened(formulas)))


def main() -> None:
    """Tries random kernels: which kind, the first seed, how many, launches of each, values of each; exact: with exact numbers."""  # noqa: E501
    kind, first, count, launches, values = sys.argv[1], *map(int, sys.argv[2:6])
    is_wrapping = sys.argv[6:] != ["exact"]
    found: Counter[str] = Counter()
    for seed in range(first, first + count):
        rng = random.Random(seed)
        subject = (mixed_kernel if kind == "mixed" else random_kernel)(rng)
        try:
            found += check(subject, rng, launches, values, f"{kind} {seed}", is_wrapping)
        except AssertionError as error:
            print(str(error)[:6000])
            found["FAULT"] += 1
            if found["FAULT"] > 2:
                break
    print(dict(found))


if __name__ == "__main__":
    main()

__all__ = ["Terms", "check"]

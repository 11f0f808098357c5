"""Asks whether the facts of a proof exclude a run: whatever numbers are free in it, the facts of all atoms can hold together.

A fact that is true only where something else is would make claims impossible that are not: for one, a fact of a loop that is
never reached, of whose result another value is made.
"""

from __future__ import annotations

import random
import sys
from collections import Counter
from collections.abc import Hashable, Sequence

import joinery as jn
from joinery.lowering.prove.preparation import prepare
from joinery.lowering.prove.prover import Prover
from joinery.lowering.prove.specify.specification import Specification
from joinery.lowering.prove.terms.atoms import Terms
from joinery.lowering.prove.terms.formulas import Formula, at_least, equal
from joinery.lowering.prove.terms.polynomials import variable
from joinery.lowering.prove.terms.solver import Budget, Solver
from joinery.lowering.prove.world import World
from joinery.promotion.float_modes import default_modes

from .differential import MAKERS

_DEFINED = ("wraps", "rest", "truncated rest", "multiple")
"""Atoms that others' facts define."""
_VALUES = (0, 1, 2, 3, 4, 7, 8, 100, 127, 128, 2**31 - 1, -1, -2, -128)


def contradiction(world: World, rng: random.Random, tries: int = 3) -> str:
    """What is free in terms that their facts do not allow; "" if nothing was found."""
    terms = world.terms
    solver = Solver(terms, Budget(2_000_000, 100_000_000))
    runs = [*world.base, *[at_least(axis, 1) for axis in world.grid]]
    facts = [fact for atom in terms.atoms for fact in atom.facts]
    facts += [fact for flag in range(len(terms.flag_names)) for fact in terms.flag_facts(flag)]
    if solver.is_impossible(*runs):
        return ""
    sizes = solver.model(runs)
    for _ in range(tries if sizes is not None else 1):
        given = [] if sizes is None else [*_fixed(terms, sizes), *_drawn(terms, sizes, rng)]
        if not solver.is_impossible(*runs, *given) and solver.is_impossible(*runs, *given, *facts):
            return f"the facts exclude a run: {given}"
    return ""


def _fixed(terms: Terms, sizes: dict[int, int]) -> list[Formula]:
    return [equal(variable(number), value) for number, value in sizes.items() if not terms.atoms[number].facts]


def _drawn(terms: Terms, sizes: dict[int, int], rng: random.Random) -> list[Formula]:
    """Numbers for what nothing defines: loaded ones, lanes, iterations, and those of another program."""
    keys = {number: key for key, number in terms._numbers.items()}
    found = []
    for number, atom in enumerate(terms.atoms):
        if atom.facts or number in sizes or _is_defined(keys, number):
            continue
        value = rng.choice(_VALUES)
        value = value if atom.low is None else max(value, atom.low)
        found.append(equal(variable(number), value if atom.high is None else min(value, atom.high)))
    return found


def _is_defined(keys: dict[int, Hashable], number: int) -> bool:
    key = keys[number]
    while isinstance(key, tuple) and key[0] == "renamed":
        key = keys[key[2]]
    return isinstance(key, tuple) and isinstance(key[0], str) and key[0] in _DEFINED


def check(text: str, assume: Sequence[str], extents: dict[str, str], grid: Sequence[str], rng: random.Random) -> str:
    """Proves a kernel, and asks of all terms that were made."""
    kernel = jn.kernel.from_ttir(text)
    specification = Specification.of(assume, extents, grid)
    with default_modes():
        prover = Prover(prepare(kernel._function), specification, None, 200_000)
        prover.prove(("bounds", "races", "overflow"))
    return contradiction(prover._bounds.world, rng)


def main() -> None:
    """Tries random kernels: which kind, the first seed, how many."""
    kind, first, count = sys.argv[1], *map(int, sys.argv[2:4])
    found: Counter[str] = Counter()
    for seed in range(first, first + count):
        rng = random.Random(seed)
        subject = MAKERS[kind](rng)
        try:
            said = check(subject.text, subject.assume, subject.extents, subject.grid, rng)
        except jn.UserError:
            found["refused"] += 1
            continue
        found["FAULT" if said else "consistent"] += 1
        if said:
            print(f"{kind} {seed}: {said[:3000]}\n{subject.text}", flush=True)
    print(dict(found))


if __name__ == "__main__":
    main()

__all__ = ["check", "contradiction"]

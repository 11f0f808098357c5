"""Shows step by step that two programs which touch one element are one program: number after number is the same in both.

Offsets are made of quotients and remainders of the program's index. A program that writes the tile of row `i // 8` and column
`i % 8` is the only one which does, as equal elements have equal rows and columns, and equal rows and columns have equal
indices. One question for all of that has all products of both programs in it, and takes long. Here each number that a program
computes is asked about by itself: can it be another one in a program that touches the same element? Where it cannot, the two
programs have one number from then on, and what is made of it is the same polynomial in both.

Nothing is assumed: the formulas of the pair with one number for two are as good as those with two, since the two are equal
wherever the formulas hold. What is left out, facts in a first question about each number, are hypotheses.
"""

from __future__ import annotations

from collections.abc import Sequence

from .. import claims
from ..preparation import Access
from ..terms.atoms import PROGRAM
from ..terms.formulas import (
    FALSE,
    Formula,
    at_least,
    both,
    either,
    equal,
    is_linear,
    less,
    negated,
    polynomials_of,
)
from ..terms.polynomials import Polynomial, variable
from ..terms.renaming import Renaming
from ..world import Level, World, others

_SHARE = 4
"""A question about one number may take the steps of a question divided by this."""
_EARLY = 20
"""So may one about all of them be answered before, with the steps of a question divided by this."""
_MAX_NUMBERS = 16
"""Most numbers of a program that are compared."""


def are_one_program(world: World, one: Access, two: Access, level: Level) -> bool:
    """Returns whether two programs that touch the same memory by these accesses are shown to be one.

    Returns False where no number is a quotient by a size, or a remainder: one question is enough there.

    level: conditions under which the accesses are inside their array, and others perhaps.
    """
    live, first, inside = claims.located(world, one, level)
    other_live, second, other_inside = claims.located(world, two, level)
    numbers = _numbers_of(world, [live, inside, other_live, other_inside], [first.offset, second.offset])
    if not _have_quotients(world, numbers):
        return False
    if world.is_impossible(level, *claims.programs_meet(world, one, two, level), share=_EARLY):
        return True
    base = world.run(level).base
    shown = _divided(world, level, live, numbers)
    others_shown = shown if two is one else _divided(world, level, other_live, numbers)
    same: list[int] = []
    while True:
        renaming = Renaming(world.terms, PROGRAM, same=same)
        facts = [renaming.formula(fact) for number in same for fact in world.terms.atoms[number].facts]
        meeting = [
            live, renaming.formula(other_live), *shown, *[renaming.formula(each) for each in others_shown],
            claims.overlap(first.offset, one.size, renaming.polynomial(second.offset), two.size),
        ]  # fmt: skip
        few = [*world.without_extents(base), *meeting, *[fact for fact in facts if is_linear(fact)]]
        rest = [each for each in numbers if each not in same]
        new = next((each for each in rest if _is_same(world, few, each, renaming)), None)
        if new is None:
            break
        same.append(new)
    apart = either(*others(world.run(level).program, renaming))
    insides = inside, renaming.formula(other_inside)
    return bool(same) and world.solver.is_impossible(*base, *meeting, *facts, *insides, apart)


def is_one_lane(world: World, access: Access, level: Level) -> bool:
    """Returns whether two lanes of a store that have one address and not surely one value are shown to be one lane.

    Returns False where no number is a quotient by a size, or a remainder, as those are what is left out here: what a program
    is does not matter, as both lanes are of one. level: conditions under which the access is inside its array.
    """
    live, first, _ = claims.located(world, access, level)
    if not _have_quotients(world, _numbers_of(world, [live], [first.offset])):
        return False
    few = [*world.without_extents(world.run(level).base), *claims.lanes_meet(world, access, level, with_extents=False)]
    return world.solver.is_impossible(*few, whole=frozenset(), share=_SHARE)


def _have_quotients(world: World, numbers: Sequence[int]) -> bool:
    return any(number in world.terms.divisions for number in numbers)


def _is_same(world: World, meeting: Sequence[Formula], number: int, renaming: Renaming) -> bool:
    """Returns whether a number is shown to be the same in both programs.

    It is if it is made of what is, and is asked for otherwise: first what follows from where they touch memory alone, and then
    what the number is besides.
    """
    copy = renaming.polynomial(variable(number))
    differs = negated(equal(variable(number), copy))
    if differs == FALSE:
        return True
    solver, own = world.solver, frozenset([number, *copy.atoms])
    parts = {atom for each in polynomials_of(world.terms.atoms[number].facts) for atom in each.atoms} - {number}
    if all(renaming.polynomial(variable(atom)) == variable(atom) for atom in parts):
        return solver.is_impossible(differs, whole=own, share=_SHARE)
    return any(solver.is_impossible(*meeting, differs, whole=whole, share=_SHARE) for whole in (frozenset(), own))


def _divided(world: World, level: Level, live: Formula, numbers: Sequence[int]) -> list[Formula]:
    """Returns what holds of quotients and remainders where an access is executed, of those that round down there."""
    found = []
    for number in numbers:
        division = world.terms.divisions.get(number)
        if division is None:
            continue
        value, divisor, rest = division
        rounds_down = both(at_least(value, 0), at_least(divisor, 1))
        if world.is_impossible(level, live, negated(rounds_down)):
            found.append(at_least(variable(number), 0))
            if rest.atoms == {number}:
                found.append(less(rest, divisor))
    return found


def _numbers_of(world: World, formulas: Sequence[Formula], polynomials: Sequence[Polynomial]) -> list[int]:
    """Returns the atoms that a program's offset and conditions are made of and that are equal in all its lanes."""
    terms = world.terms
    found: dict[int, None] = {}
    waiting = [*polynomials, *polynomials_of(formulas)]
    seen: set[Polynomial] = set()
    while waiting:
        polynomial = waiting.pop()
        if polynomial in seen:
            continue
        seen.add(polynomial)
        for atom in sorted(polynomial.atoms):
            own = terms.atoms[atom]
            if atom not in found and own.depends == {PROGRAM} and own.facts:
                found[atom] = None
                waiting += polynomials_of(own.facts)
    programs = {atom for each in world.run().program for atom in each.atoms}
    return sorted(found.keys() - programs)[:_MAX_NUMBERS]


__all__ = ["are_one_program", "is_one_lane"]

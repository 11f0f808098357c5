"""Splits an equation of two offsets into one for each axis, as numbers are compared digit by digit.

Where the columns of two elements differ by less than the width of a row, `width * (row - row') + (column - column') = 0` is
`row = row'` and `column = column'`: a multiple of the width that is less than it is 0. A solver of linear arithmetic takes each
product of sizes for a variable, and does not see that.
"""

from __future__ import annotations

from collections.abc import Sequence

from ..terms.formulas import Equal, Formula, at_least, at_most, either, equal
from ..terms.polynomials import Polynomial, variable
from ..world import Level, World

_SHARE = 4
"""A question about one width may take the steps of a question divided by this."""
_MAX_WIDTHS = 6
"""Most widths that are tried."""


def are_apart(world: World, level: Level, meeting: Sequence[Formula]) -> bool:
    """Returns whether formulas, of which one says that two offsets are equal, are shown not to hold together.

    level: conditions that hold, too.
    """
    if world.is_impossible(level, *meeting):
        return True
    parts = _parts(world, [*world.run(level).base, *meeting])
    return bool(parts) and world.is_impossible(level, *meeting, *parts)


def _parts(world: World, formulas: Sequence[Formula]) -> list[Formula]:
    """Returns what follows from formulas that all hold: what the parts are of sums of products that are 0."""
    found: list[Formula] = []
    waiting = [each.polynomial for each in formulas if isinstance(each, Equal)]
    left = _MAX_WIDTHS
    while waiting:
        of = waiting.pop()
        if of.divisor > 1 and not of.constant_part % of.divisor:
            of, _ = of.split(of.divisor)
        for width in _widths(world, of):
            factor = of.group(width)
            remainder = of - factor * variable(width)
            if left <= 0:
                return found
            left -= 1
            beyond = either(at_least(remainder, variable(width)), at_most(remainder, -variable(width)))
            if world.solver.is_impossible(*formulas, *found, beyond, share=_SHARE):
                found += [equal(factor, 0), equal(remainder, 0)]
                waiting += [factor, remainder]
                break
    return found


def _widths(world: World, difference: Polynomial) -> list[int]:
    """Returns the sizes that something is multiplied by, those of most products first."""
    products = [monomial for monomial, _ in difference if len(monomial) > 1]
    atoms = {atom for monomial in products for atom in monomial if not world.terms.atoms[atom].depends}
    return sorted(atoms, key=lambda atom: (-sum(atom in monomial for monomial in products), atom))


__all__ = ["are_apart"]

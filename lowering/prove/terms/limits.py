"""Finds between which numbers single atoms are, by what formulas that hold together say of them one after the other.

Each step is true of all integers with which the formulas hold: x <= 3000 and y < x give y <= 2999. What is left out makes a
range wider than it could be, and never narrower.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping

from .formulas import AtMost, Both, Equal, Formula
from .polynomials import Polynomial

Range = tuple[int | None, int | None]
_ROUNDS = 4
_MAX_TERMS = 8


def limits(formulas: Iterable[Formula], range_of: Callable[[int], Range]) -> dict[int, Range]:
    """Returns the ranges of atoms in sums that formulas, which all hold, compare with 0. range_of: what is known of atoms."""
    sums = [sum_ for sum_ in _sums(formulas) if sum_.is_linear and len(sum_.terms) <= _MAX_TERMS]
    found: dict[int, Range] = {}
    for sum_ in sums:
        for atom in sum_.atoms:
            if atom not in found:
                found[atom] = range_of(atom)
    for _ in range(_ROUNDS):
        before = dict(found)
        for sum_ in sums:
            _narrow(sum_, found)
        if found == before:
            break
    return found


def _sums(formulas: Iterable[Formula]) -> Iterator[Polynomial]:
    """Yields polynomials that are 0 or less."""
    for formula in formulas:
        match formula:
            case AtMost(polynomial):
                yield polynomial
            case Equal(polynomial):
                yield polynomial
                yield -polynomial
            case Both(parts):
                yield from _sums(parts)


def _narrow(sum_: Polynomial, found: dict[int, Range]) -> None:
    """Narrows the ranges of the atoms of a linear sum that is 0 or less."""
    ends = [(monomial, factor, _least(monomial, factor, found)) for monomial, factor in sum_]
    for at, (monomial, factor, _) in enumerate(ends):
        others = [least for number, (_, _, least) in enumerate(ends) if number != at]
        if not monomial or None in others:
            continue
        most = -sum(each for each in others if each is not None)  # factor * atom is at most this
        low, high = found[monomial[0]]
        if factor > 0:
            bound = most // factor
            found[monomial[0]] = low, bound if high is None else min(high, bound)
        else:
            bound = -(most // -factor)
            found[monomial[0]] = bound if low is None else max(low, bound), high


def _least(monomial: tuple[int, ...], factor: int, found: Mapping[int, Range]) -> int | None:
    """Returns the least number that a part of a sum may be; None: there is none."""
    if not monomial:
        return factor
    end = found[monomial[0]][0 if factor > 0 else 1]
    return None if end is None else factor * end


__all__ = ["Range", "limits"]

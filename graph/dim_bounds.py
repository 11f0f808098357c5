"""Lower bounds of dim polynomials: what decides clamps, comparisons and whether a size can be negative."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .dims import Atom, Dim, Extent


def lower(extent: Extent, depth: int) -> int | None:
    """A number `extent` is never below, or None. `depth` limits how many opaque atoms are looked through."""
    if isinstance(extent, int):
        return extent
    for coefficient, monomial in extent.terms:
        if monomial and (coefficient < 0 or not all(_is_nonnegative(atom, depth) for atom, _ in monomial)):
            return _by_cases(extent, depth - 1) if depth else None
    return _constant(extent)


def _is_nonnegative(atom: str | Atom, depth: int) -> bool:
    if isinstance(atom, str) or atom.kind == "max":
        return True
    dividend, divisor = atom.args
    positive = not isinstance(divisor, int) or divisor > 0
    if not positive or depth == 0:
        return False
    if atom.kind == "mod":
        return isinstance(divisor, int)
    bounds = (lower(dividend, depth - 1), lower(divisor, depth - 1))
    return all(bound is not None and bound >= 0 for bound in bounds)


def _by_cases(extent: Dim, depth: int) -> int | None:
    """Replaces one opaque atom that occurs linearly and alone by what bounds it."""
    for coefficient, monomial in extent.terms:
        if len(monomial) != 1 or monomial[0][1] != 1 or isinstance(monomial[0][0], str):
            continue
        kind, (first, second) = monomial[0][0].kind, monomial[0][0].args
        rest = extent.without(monomial)
        if kind == "max":
            # max(p, 0) is p or 0: a positive multiple is at least either of them, a negative one is one of them
            bounds = [lower(rest + first * coefficient, depth), lower(rest, depth)]
            known = [bound for bound in bounds if bound is not None]
            if coefficient > 0 and known:
                return max(known)
            if coefficient < 0 and len(known) == 2:
                return min(known)
        elif isinstance(second, int) and kind == "mod":
            bound = lower(rest + (coefficient * (second - 1) if coefficient < 0 else 0), depth)
            if bound is not None:
                return bound
        elif isinstance(second, int):  # q·floor(p/q) lies in [p - q + 1, p]
            nearest = first if coefficient < 0 else first - (second - 1)
            bound = lower(rest * second + nearest * coefficient, depth)
            if bound is not None:
                return -(-bound // second)
    return None


def _constant(extent: Dim) -> int:
    coefficient, monomial = extent.terms[-1]
    return 0 if monomial else coefficient

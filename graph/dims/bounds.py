"""Finds lower bounds of dim polynomials, which decide clamps, comparisons and whether sizes are negative."""

from __future__ import annotations

from typing import Protocol, Self, TypeVar

P_co = TypeVar("P_co", covariant=True)


class Factor(Protocol[P_co]):
    """An opaque factor of a monomial: `floordiv(p, q)`, `mod(p, q)` or `max(p, 0)`."""

    @property
    def kind(self) -> str: ...

    @property
    def args(self) -> tuple[int | P_co, int | P_co]: ...


class Polynomial(Protocol):
    """A sum of terms, reduced to what bounds need of a `Dim`."""

    @property
    def terms(self) -> tuple[tuple[int, tuple[tuple[str | Factor[Self], int], ...]], ...]: ...

    def without(self, monomial: tuple[object, ...]) -> int | Self: ...

    def __add__(self, other: int | Self) -> int | Self: ...

    def __radd__(self, other: int | Self) -> int | Self: ...

    def __sub__(self, other: int | Self) -> int | Self: ...

    def __mul__(self, other: int | Self) -> int | Self: ...


P = TypeVar("P", bound=Polynomial)

_MAX_STEPS = 2000


def lower(extent: int | P, depth: int) -> int | None:
    """Return a number that `extent` is never below, or None.

    `depth` limits how many nested opaque atoms are looked through. The search gives up after `_MAX_STEPS`,
    because an untrusted expression may have a thousand terms.
    """
    return _lower(extent, depth, [_MAX_STEPS])


def _lower(extent: int | P, depth: int, steps: list[int]) -> int | None:
    if isinstance(extent, int):
        return extent
    steps[0] -= 1
    if steps[0] < 0:
        return None
    for coefficient, monomial in extent.terms:
        if monomial and (coefficient < 0 or not all(_is_nonnegative(atom, depth, steps) for atom, _ in monomial)):
            return _by_cases(extent, depth - 1, steps) if depth else None
    return _constant(extent)


def _is_nonnegative(atom: str | Factor[P], depth: int, steps: list[int]) -> bool:
    if isinstance(atom, str) or atom.kind == "max":
        return True
    dividend, divisor = atom.args
    positive = not isinstance(divisor, int) or divisor > 0
    if not positive or depth == 0:
        return False
    if atom.kind == "mod" and isinstance(divisor, int):
        return True
    bounds = (_lower(dividend, depth - 1, steps), _lower(divisor, depth - 1, steps))
    return all(bound is not None and bound >= 0 for bound in bounds)


def _by_cases(extent: P, depth: int, steps: list[int]) -> int | None:
    """Return the best bound from replacing one opaque atom, which occurs linearly and alone, by its bounds.

    All such atoms are tried, because a case forgets what it implies about the others.
    """
    best: int | None = None
    for coefficient, monomial in extent.terms:
        if len(monomial) != 1 or monomial[0][1] != 1 or isinstance(monomial[0][0], str):
            continue
        found = _without(monomial[0][0], coefficient, extent.without(monomial), depth, steps)
        if found is not None and (best is None or found > best):
            best = found
        if best is not None and best > 0:
            break
    return best


def _without(atom: Factor[P], coefficient: int, rest: int | P, depth: int, steps: list[int]) -> int | None:
    """Return a lower bound of `coefficient * atom + rest`."""
    first, second = atom.args
    if atom.kind == "max":
        # max(p, 0) is p or 0: a positive multiple is at least either of them, a negative one is one of them
        bounds = [_lower(rest + first * coefficient, depth, steps), _lower(rest, depth, steps)]
        known = [bound for bound in bounds if bound is not None]
        if coefficient > 0 and known:
            return max(known)
        return min(known) if coefficient < 0 and len(known) == 2 else None
    if not isinstance(second, int):
        return None
    if atom.kind == "mod":
        return _lower(rest + (coefficient * (second - 1) if coefficient < 0 else 0), depth, steps)
    # q·floor(p/q) lies in [p - q + 1, p]
    nearest = first if coefficient < 0 else first - (second - 1)
    bound = _lower(rest * second + nearest * coefficient, depth, steps)
    return None if bound is None else -(-bound // second)


def _constant(extent: P) -> int:
    coefficient, monomial = extent.terms[-1]
    return 0 if monomial else coefficient

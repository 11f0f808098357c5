"""Reads from a kernel's terms what its grid and its extents may be: masks that bound programs, and the strides of addresses.

Nothing is proven here. A hint that is wrong makes a guess that is not proven.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Mapping, Sequence
from math import prod

from .evaluate.values import Pointer
from .terms.formulas import polynomials_of
from .terms.polynomials import Monomial, Polynomial, variable
from .world import AccessTerms, World

_MAX_QUOTIENTS = 6
_MAX_REST = 64
_MAX_HINTS = 2


class Hints:
    """What the terms of a function say of the sizes of a launch.

    Attributes:
        numbers: the sizes of the launch by name.
    """

    def __init__(self, world: World, accesses: Iterable[AccessTerms], numbers: Mapping[str, int]) -> None:
        """Starts with the terms of some accesses, made for a grid of any size."""
        self._terms = world.terms
        self._accesses = list(accesses)
        self.numbers = numbers
        self._names = {
            atom: name for name, symbol in world.symbols.items() if name in numbers
            for atom in symbol.atoms if symbol == variable(atom)
        }  # fmt: skip
        self._axes = {atom: axis for axis, index in enumerate(world.run().program) for atom in index.atoms}

    def _size(self, monomial: Monomial) -> str | None:
        """Returns a product of sizes as text; None if it has anything else, or is none."""
        if not monomial or any(atom not in self._names for atom in monomial):
            return None
        return " * ".join([self._names[atom] for atom in monomial])

    def _value(self, monomial: Monomial) -> int:
        return prod([self.numbers[self._names[atom]] for atom in monomial])

    # Grids

    def grids(self, axis: int, value: int) -> list[str]:
        """Returns numbers of programs along an axis that are `value`: what a mask bounds them by, or products of quotients."""
        found = self._in_masks(axis, value, self._terms.choices())
        if not found:
            quotients = list(itertools.islice(self._quotients(), _MAX_QUOTIENTS))
            pairs = itertools.combinations(quotients, 2)
            found = [f"{one} * {two}" for (one, x), (two, y) in pairs if x * y == value]
        return found or self._in_masks(axis, value, self._terms.extremes())

    def _in_masks(self, axis: int, value: int, alternatives: Iterable[tuple[int, Polynomial, Polynomial]]) -> list[str]:
        """Returns what masks bound programs by. alternatives: atoms that are one of two numbers, with these."""
        found: dict[str, None] = {}
        choices = {number: (one, two) for number, one, two in alternatives}
        for access in self._accesses:
            for polynomial in polynomials_of((access.live,)):
                either = [(atom, each) for atom in sorted(polynomial.atoms & choices.keys()) for each in choices[atom]]
                for each in (polynomial, *[polynomial.substituted(atom, one) for atom, one in either]):
                    found.update(dict.fromkeys(self._bounds(each, axis, value)))
        return list(found)

    def _bounds(self, polynomial: Polynomial, axis: int, value: int) -> Iterator[str]:
        for text, step in self._steps(polynomial, axis):
            for monomial, factor in polynomial:
                size = self._size(monomial)
                if factor == -1 and size is not None and size != text and -(-self._value(monomial) // step) == value:
                    yield size if text == "1" else f"cdiv({size}, {text})"

    def _steps(self, polynomial: Polynomial, axis: int) -> Iterator[tuple[str, int]]:
        """Yields what an index along an axis is multiplied by, a number or sizes, as text and as the number that it is."""
        factors = dict(polynomial.terms)
        own = [atom for atom, each in self._axes.items() if each == axis]
        number = sum(factors.get((atom,), 0) for atom in own)
        if number >= 1:
            yield f"{number}", number
        for monomial, factor in polynomial:
            sizes = tuple([atom for atom in monomial if atom not in own])
            text = self._size(sizes)
            if factor == 1 and text is not None and len(sizes) == len(monomial) - 1 and self._value(sizes) >= 1:
                yield text if len(sizes) == 1 else f"({text})", self._value(sizes)

    def _quotients(self) -> Iterator[tuple[str, int]]:
        """Yields the quotients of sizes that the kernel computes, rounded up, with their values."""
        for number, divisor in self._terms.quotients():
            block = divisor.number
            rest = number - (block or 1) + 1
            if block is None or block < 2 or len(rest.terms) != 1:
                continue
            ((monomial, factor),) = rest.terms
            size = self._size(monomial)
            if factor == 1 and size is not None:
                yield f"cdiv({size}, {block})", -(-self._value(monomial) // block)

    # Relations

    def products(self, grid: Sequence[str]) -> set[frozenset[str]]:
        """Returns pairs of a size that an index is multiplied by in an address, and one that bounds it in a mask or grid."""
        found: set[frozenset[str]] = set()
        programs = {variable(atom): grid[axis] for atom, axis in self._axes.items() if grid[axis] in self.numbers}
        for access in self._accesses:
            if not isinstance(access.pointer, Pointer):
                continue
            bounded = dict(programs)
            for polynomial in polynomials_of((access.live,)):
                for monomial, factor in polynomial:
                    if factor == -1 and len(monomial) == 1 and monomial[0] in self._names:
                        bounded[_direction(polynomial + variable(monomial[0]))] = self._names[monomial[0]]
            for atom in access.pointer.offset.atoms & self._names.keys():
                bound = bounded.get(_direction(access.pointer.offset.group(atom)))
                if bound is not None:
                    found.add(frozenset((self._names[atom], bound)))
        return found

    # Extents

    def extents(
        self, position: int, element: int, grid: Sequence[str], programs: Sequence[int], value: int
    ) -> tuple[list[str], list[str]]:
        """Returns numbers of elements of an array of `value` elements, by the strides of addresses in it: near, and shorter.

        An address `S * (16 * program + lane)` with a product of sizes S and lanes below 16 ends before `S * 16 * programs`.
        """
        found: dict[str, tuple[int, bool]] = {}
        for access in self._accesses:
            if isinstance(access.pointer, Pointer) and access.pointer.base == position:
                found.update(self._ends(access.pointer.offset, element, grid, programs))
        near = [
            text for text, (end, has_sizes) in found.items()
            if has_sizes and 0 <= value - end <= (_MAX_REST if end > _MAX_REST else 0)
        ]  # fmt: skip
        shorter = [text for text, (end, _) in found.items() if 0 < end <= value and text not in near]
        return near[:_MAX_HINTS], shorter[:_MAX_HINTS]

    def _ends(
        self, offset: Polynomial, element: int, grid: Sequence[str], programs: Sequence[int]
    ) -> Iterator[tuple[str, tuple[int, bool]]]:  # fmt: skip
        """Yields where addresses end, as text, as the number that it is, and whether sizes have a part in it."""
        steps: dict[Monomial, list[tuple[int, int]]] = {}
        for monomial, factor in offset:
            others = [atom for atom in monomial if atom not in self._names]
            size = tuple([atom for atom in monomial if atom in self._names])
            if len(others) == 1 and factor > 0 and factor % element == 0:
                steps.setdefault(size, []).append((others[0], factor // element))
        for size, parts in steps.items():
            text = self._size(size)
            by_axis = [(self._axes[atom], factor) for atom, factor in parts if atom in self._axes]
            rest = [(self._terms.atoms[atom].high, factor) for atom, factor in parts if atom not in self._axes]
            if (text is None and size) or len(by_axis) > 1:
                continue
            factors = [] if text is None else [text]
            reach = 1 + sum((high or 0) * factor for high, factor in rest)
            end = reach * self._value(size)
            if by_axis:
                ((axis, step),) = by_axis
                if step != reach:
                    continue
                end *= programs[axis]
                factors.append(grid[axis])
            if factors:
                yield " * ".join(factors if reach == 1 else [f"{reach}", *factors]), (end, text is not None)


def _direction(index: Polynomial) -> Polynomial:
    """Returns an index without its constant, and without the common divisor of the rest."""
    moving = index - index.constant_part
    return moving.split(moving.divisor)[0] if moving.divisor > 1 else moving


__all__ = ["Hints"]

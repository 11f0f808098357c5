"""Defines conditions over polynomials: comparisons with 0, joined by and, or and not.

They are keys of what is known of them, so those that are joined keep their hash: it would be made of all their parts each time.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import field
from typing import TypeAlias

from ....promotion.dataclass import dataclass
from .polynomials import Polynomial, constant


@dataclass(frozen=True, slots=True)
class Truth:
    """A condition that always holds, or never does."""

    value: bool


@dataclass(frozen=True, slots=True)
class AtMost:
    """Holds where `polynomial` <= 0."""

    polynomial: Polynomial

    def __hash__(self) -> int:
        return hash(self.polynomial) + 1


@dataclass(frozen=True, slots=True)
class Equal:
    """Holds where `polynomial` = 0."""

    polynomial: Polynomial

    def __hash__(self) -> int:
        return hash(self.polynomial) + 2


@dataclass(frozen=True, slots=True)
class Flag:
    """A condition of which nothing is known but its number."""

    number: int


@dataclass(frozen=True, slots=True)
class Both:
    """Holds where all parts do."""

    parts: tuple[Formula, ...]
    _hash: int = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "_hash", hash((3, self.parts)))

    def __hash__(self) -> int:
        return self._hash


@dataclass(frozen=True, slots=True)
class Either:
    """Holds where any part does."""

    parts: tuple[Formula, ...]
    _hash: int = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "_hash", hash((4, self.parts)))

    def __hash__(self) -> int:
        return self._hash


@dataclass(frozen=True, slots=True)
class Not:
    """Holds where `part` does not."""

    part: Formula
    _hash: int = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "_hash", hash((5, self.part)))

    def __hash__(self) -> int:
        return self._hash


Formula: TypeAlias = Truth | AtMost | Equal | Flag | Both | Either | Not

TRUE, FALSE = Truth(True), Truth(False)


def at_most(left: Polynomial, right: Polynomial | int) -> Formula:
    """Returns left <= right."""
    difference = left - right
    number = difference.number
    return AtMost(difference) if number is None else Truth(number <= 0)


def less(left: Polynomial, right: Polynomial | int) -> Formula:
    """Returns left < right."""
    return at_most(left + 1, right)


def at_least(left: Polynomial, right: Polynomial | int) -> Formula:
    """Returns left >= right."""
    return at_most(right - left, 0) if isinstance(right, Polynomial) else at_most(-left, -right)


def equal(left: Polynomial, right: Polynomial | int) -> Formula:
    """Returns left = right."""
    difference = left - right
    number = difference.number
    if number is not None:
        return Truth(number == 0)
    divisor = difference.divisor
    if difference.constant_part % divisor:
        return FALSE
    return Equal(difference)


def both(*parts: Formula) -> Formula:
    """Returns the conjunction, without what always holds."""
    found: dict[Formula, None] = {}
    for part in parts:
        if isinstance(part, Truth):
            if not part.value:
                return FALSE
        elif isinstance(part, Both):
            found.update(dict.fromkeys(part.parts))
        else:
            found[part] = None
    return TRUE if not found else next(iter(found)) if len(found) == 1 else Both(tuple(found))


def either(*parts: Formula) -> Formula:
    """Returns the disjunction, without what never holds."""
    found: dict[Formula, None] = {}
    for part in parts:
        if isinstance(part, Truth):
            if part.value:
                return TRUE
        elif isinstance(part, Either):
            found.update(dict.fromkeys(part.parts))
        else:
            found[part] = None
    return FALSE if not found else next(iter(found)) if len(found) == 1 else Either(tuple(found))


def negated(part: Formula) -> Formula:
    """Returns the condition that holds where `part` does not."""
    match part:
        case Truth(value):
            return Truth(not value)
        case AtMost(polynomial):
            return AtMost(constant(1) - polynomial)
        case Not(inner):
            return inner
        case _:
            return Not(part)


def implies(condition: Formula, result: Formula) -> Formula:
    """Returns that the result holds where the condition does."""
    return either(negated(condition), result)


def within(value: Polynomial, low: int, high: int) -> Formula:
    """Returns low <= value <= high."""
    return both(at_least(value, low), at_most(value, high))


def substituted(formula: Formula, atom: int, value: Polynomial) -> Formula:
    """Returns the formula with a value in place of an atom."""
    match formula:
        case AtMost(polynomial):
            return at_most(polynomial.substituted(atom, value), 0)
        case Equal(polynomial):
            return equal(polynomial.substituted(atom, value), 0)
        case Both(parts):
            return both(*[substituted(part, atom, value) for part in parts])
        case Either(parts):
            return either(*[substituted(part, atom, value) for part in parts])
        case Not(part):
            return negated(substituted(part, atom, value))
        case _:
            return formula


def mapped(formula: Formula, polynomial: Callable[[Polynomial], Polynomial], flag: Callable[[int], Formula]) -> Formula:
    """Returns the formula with other polynomials and flags in place of its own."""
    match formula:
        case AtMost(own):
            return at_most(polynomial(own), 0)
        case Equal(own):
            return equal(polynomial(own), 0)
        case Flag(number):
            return flag(number)
        case Both(parts):
            return both(*[mapped(part, polynomial, flag) for part in parts])
        case Either(parts):
            return either(*[mapped(part, polynomial, flag) for part in parts])
        case Not(part):
            return negated(mapped(part, polynomial, flag))
        case _:
            return formula


def is_larger(formula: Formula, size: int) -> bool:
    """Returns whether a formula, written out, has more than `size` parts. Looks at no more of it than that."""
    waiting, count = [formula], 0
    while waiting:
        count += 1
        if count > size:
            return True
        match waiting.pop():
            case Both(parts) | Either(parts):
                waiting += parts
            case Not(part):
                waiting.append(part)
    return False


def holds(formula: Formula, numbers: Mapping[int, int]) -> bool | None:
    """Returns whether a formula holds for numbers of atoms; None if that depends on other atoms, or on a flag."""
    match formula:
        case Truth(value):
            return value
        case AtMost(polynomial) | Equal(polynomial):
            if not polynomial.atoms <= numbers.keys():
                return None
            number = polynomial.value(numbers)
            return number <= 0 if isinstance(formula, AtMost) else number == 0
        case Flag():
            return None
        case Not(part):
            found = holds(part, numbers)
            return None if found is None else not found
        case Both(parts) | Either(parts):
            deciding = isinstance(formula, Either)
            all_found = [holds(part, numbers) for part in parts]
            return deciding if deciding in all_found else None if None in all_found else not deciding


def polynomials_of(formulas: Iterable[Formula]) -> Iterator[Polynomial]:
    """Yields the polynomials that formulas compare with 0."""
    for formula in formulas:
        match formula:
            case AtMost(polynomial) | Equal(polynomial):
                yield polynomial
            case Both(parts) | Either(parts):
                yield from polynomials_of(parts)
            case Not(part):
                yield from polynomials_of((part,))


def is_linear(formula: Formula) -> bool:
    """Returns whether there is no product of atoms in a formula."""
    return all(each.is_linear for each in polynomials_of((formula,)))


def flags_of(formulas: Iterable[Formula]) -> Iterator[int]:
    """Yields the numbers of the flags in formulas."""
    for formula in formulas:
        match formula:
            case Flag(number):
                yield number
            case Both(parts) | Either(parts):
                yield from flags_of(parts)
            case Not(part):
                yield from flags_of((part,))


__all__ = [
    "FALSE", "TRUE", "AtMost", "Both", "Either", "Equal", "Flag", "Formula", "Not", "Truth", "at_least", "at_most", "both",
    "either", "equal", "flags_of", "implies", "is_larger", "less", "mapped", "negated", "polynomials_of", "substituted",
    "within",
]  # fmt: skip

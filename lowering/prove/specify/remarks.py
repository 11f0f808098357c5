"""Says of a specification what fixes sizes, and what of a guess may be fitted to its launch rather than be what was meant."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import TypeAlias

from .expressions import (
    Call,
    Expression,
    Name,
    Number,
    Ordered,
    arrays_in,
    evaluate,
    names_in,
    parse_assumption,
    parse_size,
)
from .specification import Specification

Single: TypeAlias = Callable[[Sequence[Expression]], Mapping[Expression, int]]
"""Finds which of some sizes have one value under all assumptions, and that."""


def _none(sizes: Sequence[Expression]) -> Mapping[Expression, int]:
    return {}


def fixed(specification: Specification, single: Single = _none, axes: Collection[int] = ()) -> tuple[str, ...]:
    """Returns the sizes, extents and numbers of programs that a specification leaves one value: nothing is proven of others.

    Args:
        single: asked about those of which comparisons with numbers, and equations, do not say it by themselves.
        axes: those along which programs ask which one they are, so that one program written there is a choice, too.
    """
    parsed = specification.parsed()
    ranges = parsed.ranges()
    values = {name: low for name, (low, high) in ranges.items() if low is not None and low == high}
    equations = parsed.equations(())
    while True:  # what is equal to what is fixed is fixed, too
        known = {name for name, size in equations.items() if name not in values and {*names_in(size)} <= values.keys()}
        if not known:
            break
        values |= {name: evaluate(equations[name], values) for name in known}
    names = [Name(name) for name in parsed.names() if name not in values]
    sizes = [*parsed.grid, *parsed.extents.values()]
    open_ = [*names, *[each for each in sizes if _value(each, values) is None and each not in names]]
    found = single(list(dict.fromkeys(open_))) if open_ else {}
    values |= {name.name: found[name] for name in names if name in found}
    remarks = [f"{name} == {value}" for name, value in values.items()]
    for axis, size in enumerate(parsed.grid):
        number = found.get(size, _value(size, values))
        if number is not None and (size != Number(1) or axis in axes):
            remarks.append(f"{number} program{'' if number == 1 else 's'} along {'xyz'[axis]}")
    for name, size in parsed.extents.items():
        number = found.get(size, _value(size, values))
        if number is not None:
            remarks.append(f"{name} has {number} element{'' if number == 1 else 's'}")
    return tuple(remarks)


def _value(size: Expression, values: Mapping[str, int]) -> int | None:
    """Returns the number that a size is with these values; None if it has other names, or is none."""
    try:
        return evaluate(size, values) if {*names_in(size)} <= values.keys() else None
    except ZeroDivisionError:
        return None


def doubts(
    specification: Specification, elements: Mapping[str, int], numbers: Mapping[str, int],
    contents: Mapping[str, tuple[int, int]], own: Collection[int], axes: Collection[int],
) -> tuple[str, ...]:  # fmt: skip
    """Returns what of a guess is to be looked at: what may be fitted to the launch, and what no launch checks.

    An extent with a number added has as many elements as the array of the launch, and so may a kernel need that goes too far by
    so many. So it is with one that is some times a size, if the kernel has no such number.

    Args:
        elements: how many each array of the launch has.
        numbers: the integer parameters of the launch.
        contents: the least and the largest element of each array of integers.
        own: the numbers of the kernel itself, such as extents of its blocks.
        axes: those along which programs ask which one they are.
    """
    found = []
    for axis, text in enumerate(specification.grid):
        if axis in axes and parse_size(text, "grid") == Number(1):
            found.append(f"grid, axis {'xyz'[axis]}: 1: as in the launch; nothing is said of several programs")
    grid = specification.parsed().grid
    own = {*factors(own), *[axis.value for axis in grid if isinstance(axis, Number)]}
    programs = {axis.name for axis in grid if isinstance(axis, Name)} - numbers.keys()
    for name, text in specification.extents:
        size = parse_size(text, f"extent of {name}")
        has_blocks = _has_blocks(size, programs)
        if has_blocks or not _is_usual(size, {*numbers, *programs}, own):
            own_ = f"the launch's array has {elements[name]} elements" if name in elements else "chosen to fit the launch"
            simple = [one for one, number in numbers.items() if number == elements.get(name)]
            other = f"; {' and '.join(simple)} had that value, too" if simple else ""
            is_product = _is_usual(size, {*numbers, *programs}, None)
            why = "the kernel has no such number" if is_product else "no product of sizes"
            why = "so many elements for each program" if is_product and has_blocks else why
            found.append(f"extent of {name}: {text}: {why}, and may be fitted to a fault; {own_}{other}")
    for text in specification.assume:
        assumption = parse_assumption(text)
        arrays = list(dict.fromkeys(arrays_in(assumption)))
        if isinstance(assumption, Ordered):
            found.append(f"assume: {text}: it is so in the launch, and no launch checks it")
        elif arrays:
            ends = [(name, *contents[name]) for name in arrays]
            shown = [f"the launch's {name} has {low}" + (f" to {high}" if low < high else "") for name, low, high in ends]
            found.append(f"assume: {text}: {' and '.join(shown)}, and no launch checks it")
    return tuple(found)


def factors(own: Collection[int]) -> frozenset[int]:
    """Returns the factors that extents may have: the numbers of a kernel, and products of two of them."""
    return frozenset([1, *own, *[one * two for one in own for two in own]])


def is_usual_extent(text: str, sizes: Collection[str], own: Collection[int]) -> bool:
    """Returns whether an extent is a product of sizes and of a kernel's own factors, or what rows with a stride reach to."""
    return _is_usual(parse_size(text, "extent"), sizes, own)


def _is_usual(size: Expression, sizes: Collection[str], factors: Collection[int] | None) -> bool:
    """Returns whether a size is a product of sizes and of factors, or what rows with a stride reach to.

    sizes: names of parameters and of the grid. factors: numbers that there may be; None: any.
    """
    match size:
        case Call("+", Call("*", Call("-", rows, Number(1)), stride), columns):
            parts = (rows, stride, columns)
            return all(_is_product(each, sizes, factors) for each in parts) and not isinstance(columns, Number)
    return _is_product(size, sizes, factors) and any(True for _ in names_in(size))


def _has_blocks(size: Expression, programs: Collection[str]) -> bool:
    """Returns whether numbers of programs are multiplied by a number, as the extent is that a missing mask needs."""
    match size:
        case Call("*", left, right):
            names, parts = {*names_in(size)}, (left, right)
            has_number = any(isinstance(each, Number) and each.value != 1 for each in _factors_of(size))
            return (has_number and not names.isdisjoint(programs)) or any(_has_blocks(each, programs) for each in parts)
        case Call(_, left, right):
            return _has_blocks(left, programs) or _has_blocks(right, programs)
    return False


def _factors_of(size: Expression) -> list[Expression]:
    match size:
        case Call("*", left, right):
            return [*_factors_of(left), *_factors_of(right)]
    return [size]


def _is_product(size: Expression, sizes: Collection[str], factors: Collection[int] | None) -> bool:
    match size:
        case Name(name):
            return name in sizes
        case Number(value):
            return factors is None or value in factors
        case Call("*", left, right):
            return _is_product(left, sizes, factors) and _is_product(right, sizes, factors)
    return False


__all__ = ["doubts", "factors", "fixed", "is_usual_extent"]

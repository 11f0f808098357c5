"""Says of a specification what fixes sizes, and what of a guess may be fitted to its launch rather than be what was meant."""

from __future__ import annotations

from collections.abc import Mapping

from .expressions import Call, Expression, Name, Number, evaluate, names_in, parse_size
from .specification import Specification


def fixed(specification: Specification) -> tuple[str, ...]:
    """Returns the sizes, extents and numbers of programs that a specification leaves one value: nothing is proven of others."""
    parsed = specification.parsed()
    ranges = parsed.ranges()
    values = {name: low for name, (low, high) in ranges.items() if low is not None and low == high}
    equations = parsed.equations(())
    while True:  # what is equal to what is fixed is fixed, too
        known = {name for name, size in equations.items() if name not in values and {*names_in(size)} <= values.keys()}
        if not known:
            break
        values |= {name: evaluate(equations[name], values) for name in known}
    found = [f"{name} == {value}" for name, value in values.items()]
    for axis, size in zip("xyz", parsed.grid, strict=True):
        number = _value(size, values)
        if number is not None and number != 1:
            found.append(f"{number} programs along {axis}")
    for name, size in parsed.extents.items():
        number = _value(size, values)
        if number is not None:
            found.append(f"{name} has {number} elements")
    return tuple(found)


def _value(size: Expression, values: Mapping[str, int]) -> int | None:
    """Returns the number that a size is with these values; None if it has other names, or is none."""
    try:
        return evaluate(size, values) if {*names_in(size)} <= values.keys() else None
    except ZeroDivisionError:
        return None


def doubts(specification: Specification, elements: Mapping[str, int], numbers: Mapping[str, int]) -> tuple[str, ...]:
    """Returns what of a guess is to be looked at: extents that are no product of sizes, and what is assumed of elements.

    An extent with a number added has as many elements as the array of the launch, and so may a kernel need that goes too far by
    so many.

    elements: how many each array of the launch has. numbers: the integer parameters of the launch.
    """
    found = []
    for name, text in specification.extents:
        size = parse_size(text, f"extent of {name}")
        if not _is_usual(size, numbers):
            own = f"the launch's array has {elements[name]} elements" if name in elements else "chosen to fit the launch"
            simple = [one for one, number in numbers.items() if number == elements.get(name)]
            other = f"; {' and '.join(simple)} had that value, too" if simple else ""
            found.append(f"extent of {name}: {text}: no product of sizes, and may be fitted to a fault; {own}{other}")
    for text in specification.assume:
        if text.startswith("distinct("):
            found.append(f"assume: {text}: it is so in the launch, and no launch checks it")
    return tuple(found)


def _is_usual(size: Expression, numbers: Mapping[str, int]) -> bool:
    """Returns whether a size is a product of numbers and parameters, or what rows with a stride reach to."""
    match size:
        case Call("+", Call("*", Call("-", rows, Number(1)), stride), columns):
            return all(_is_product(each, numbers) for each in (rows, stride, columns)) and not isinstance(columns, Number)
    return _is_product(size, numbers) and any(True for _ in names_in(size))


def _is_product(size: Expression, numbers: Mapping[str, int]) -> bool:
    match size:
        case Name(name):
            return name in numbers
        case Call("*", left, right):
            return _is_product(left, numbers) and _is_product(right, numbers)
    return isinstance(size, Number)


__all__ = ["doubts", "fixed"]

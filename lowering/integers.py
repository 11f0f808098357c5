"""Defines the integer operations of `arith` on Python integers, for constant folding and for launches."""

from __future__ import annotations

from collections.abc import Callable, Mapping

Meaning = Callable[[int, int, int], int]


def signed(value: int, width: int) -> int:
    """Returns the value wrapped to `width` bits, as a signed integer."""
    value &= (1 << width) - 1
    return value - (1 << width) if value >> (width - 1) else value


def _quotient(x: int, y: int) -> int:
    return abs(x) // abs(y) * (1 if (x < 0) == (y < 0) else -1)


DIVISIONS: Mapping[str, Meaning] = {
    "divsi": lambda x, y, mask: _quotient(x, y),
    "divui": lambda x, y, mask: (x & mask) // (y & mask),
    "remsi": lambda x, y, mask: x - _quotient(x, y) * y,
    "remui": lambda x, y, mask: (x & mask) % (y & mask),
}
"""Divisions and remainders, undefined for y = 0."""
SHIFTS: Mapping[str, Meaning] = {
    "shli": lambda x, y, mask: x << y,
    "shrsi": lambda x, y, mask: x >> y,
    "shrui": lambda x, y, mask: (x & mask) >> y,
}
"""Shifts, defined only for 0 <= y < width."""
INTEGERS: Mapping[str, Meaning] = {
    "addi": lambda x, y, mask: x + y,
    "subi": lambda x, y, mask: x - y,
    "muli": lambda x, y, mask: x * y,
    "andi": lambda x, y, mask: x & y,
    "ori": lambda x, y, mask: x | y,
    "xori": lambda x, y, mask: x ^ y,
    "minsi": lambda x, y, mask: min(x, y),
    "maxsi": lambda x, y, mask: max(x, y),
    "minui": lambda x, y, mask: min(x & mask, y & mask),
    "maxui": lambda x, y, mask: max(x & mask, y & mask),
    **DIVISIONS,
    **SHIFTS,
}
"""All operations as functions (x, y, mask of the width) -> result before it wraps; x and y are signed."""

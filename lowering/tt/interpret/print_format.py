"""Formats what `tt.print` writes: one line per element, as Triton's device_print writes them.

    pid (0, 0, 0) idx ( 3) x: 42              one operand
    pid (0, 0, 0) idx () x: (operand 1) 7     a scalar, the second of several operands
    pid (0, 0, 0) done                        no operands

Indices are padded to the width of the largest. Numbers are written as C's %i, %u and %f do, with `hex` as %x with all digits of
the type (floats as %a).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from itertools import islice, product

import numpy as np

from ....promotion.arrays import Array
from ....promotion.errors import printable

MAX_LINES = 1 << 16
"""Most lines that one execution of a tt.print writes; one more line tells how many elements were left out."""


def print_lines(
    prefix: str,
    hexadecimal: bool,
    signed: Sequence[bool],
    program: Sequence[int],
    values: Sequence[Array | np.generic],
    pointers: Sequence[bool] = (),
) -> list[str]:
    """Returns the lines of one `tt.print`, without line ends.

    Args:
        prefix: stands between the position and the value; Triton's front end makes it " text: ". What would begin another
            line or drive a terminal is escaped.
        hexadecimal: bits instead of numbers.
        signed: for each value, whether its integers are signed.
        program: the program's position along x, y, z.
        values: arrays (one line per element) and NumPy scalars; integers have a signed dtype, i1 is bool.
        pointers: for each value, whether its integers are addresses.
    """
    position, prefix = f"pid ({', '.join(str(int(axis)) for axis in program)})", printable(prefix)
    if not values:
        return [f"{position}{prefix}"]
    arrays = [np.asarray(value) for value in values]
    lines: list[str] = []
    for number, array in enumerate(arrays):
        operand = f"(operand {number}) " if len(arrays) > 1 else ""
        is_pointer = number < len(pointers) and pointers[number]
        texts = map(_writer(array, hexadecimal, signed[number], is_pointer), _elements(array, MAX_LINES - len(lines)))
        lines += [
            f"{position} idx ({index}){prefix}{operand}{text}" for index, text in zip(_indices(array.shape), texts,
            strict=False)
        ]
    left = sum(array.size for array in arrays) - len(lines)
    return lines if not left else [*lines, f"{position}{prefix}… {left} more elements"]


def _elements(array: Array, count: int) -> list[float]:
    """Returns the first elements in row-major order as Python values."""
    flat = array.reshape(-1)[: max(0, count)]
    return list((flat if flat.dtype.kind in "bifu" else flat.astype(np.float64)).tolist())


def _indices(shape: tuple[int, ...]) -> Iterator[str]:
    widths = [len(str(extent - 1)) for extent in shape]
    for index in islice(product(*map(range, shape)), MAX_LINES):
        yield ", ".join(f"{position:{width}}" for position, width in zip(index, widths, strict=True))


def _writer(array: Array, hexadecimal: bool, is_signed: bool, is_pointer: bool) -> Callable[[float], str]:
    kind, width = array.dtype.kind, 1 if array.dtype == np.bool_ else 8 * array.dtype.itemsize
    if kind not in "biu":
        return _hexadecimal_float if hexadecimal else lambda value: f"{value:f}"
    mask = (1 << width) - 1
    if is_pointer:
        return lambda value: f"{int(value) & mask:#x}"
    if hexadecimal:
        return lambda value: f"0x{int(value) & mask:0{max(1, width // 4)}x}"
    if is_signed and width == 1:
        return lambda value: str(-int(value))
    return str if is_signed else lambda value: str(int(value) & mask)


def _hexadecimal_float(value: float) -> str:
    """Formats a float as C's %a does, without trailing zeros in the digits."""
    if not math.isfinite(value):
        return f"{value:f}"
    digits, exponent = value.hex().split("p")
    digits = digits.rstrip("0").rstrip(".") if "." in digits else digits
    return f"{digits}p{exponent}"

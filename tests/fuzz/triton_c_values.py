"""Says what operators of Triton-C do with NumPy's arrays, from the reference alone: no line of the front end is used."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

RANKS = {"bool": 0, "char": 1, "unsigned char": 1, "short": 2, "unsigned short": 2, "int": 3, "unsigned int": 3, "long": 4,
         "unsigned long": 4, "half": 6, "float": 7, "double": 8}  # fmt: skip
DTYPES: dict[str, Any] = {
    "bool": np.bool_, "char": np.int8, "unsigned char": np.uint8, "short": np.int16, "unsigned short": np.uint16,
    "int": np.int32, "unsigned int": np.uint32, "long": np.int64, "unsigned long": np.uint64, "half": np.float16,
    "float": np.float32, "double": np.float64,
}  # fmt: skip
FLOATS = frozenset(["half", "float", "double"])
INTEGERS = tuple(name for name in RANKS if name not in FLOATS and name != "bool")
Array = np.ndarray[Any, Any]


def promoted(type_: str) -> str:
    """Return the type after the integer promotions."""
    return "int" if RANKS[type_] < RANKS["int"] else type_


def common(a: str, b: str) -> str:
    """Return the type of the usual arithmetic conversions."""
    a, b = promoted(a), promoted(b)
    if RANKS[a] != RANKS[b]:
        return a if RANKS[a] > RANKS[b] else b
    return a if a.startswith("unsigned") else b


def converted(value: Array, type_: str) -> Array:
    """Convert as an assignment does. Floats that go to integers are in range, or the type is bool."""
    return value != 0 if type_ == "bool" else value.astype(DTYPES[type_])


def divided(x: Array, y: Array) -> Array:
    """Divide integers towards zero. y is never 0, and never -1 where x may be the least number."""
    quotient = x // y
    remainder = x - quotient * y
    return quotient + ((remainder != 0) & ((x < 0) != (y < 0))).astype(x.dtype)  # NumPy rounds down


def remainder_of(x: Array, y: Array) -> Array:
    return x - divided(x, y) * y


ARITHMETIC: dict[str, Callable[[Array, Array], Array]] = {
    "+": lambda x, y: x + y, "-": lambda x, y: x - y, "*": lambda x, y: x * y, "&": lambda x, y: x & y,
    "|": lambda x, y: x | y, "^": lambda x, y: x ^ y, "/": lambda x, y: x / y if x.dtype.kind == "f" else divided(x, y),
    "%": remainder_of, "min": np.fmin, "max": np.fmax,
}  # fmt: skip
"""Operators whose operands have one type, that of the result."""
COMPARISONS: dict[str, Callable[[Array, Array], Array]] = {
    "<": lambda x, y: x < y, "<=": lambda x, y: x <= y, ">": lambda x, y: x > y, ">=": lambda x, y: x >= y,
    "==": lambda x, y: x == y, "!=": lambda x, y: x != y,
}  # fmt: skip
REDUCTIONS: dict[str, Any] = {
    "+": np.add, "max": np.fmax, "min": np.fmin, "*": np.multiply, "&": np.bitwise_and, "|": np.bitwise_or,
}  # fmt: skip


def reduced(operator: str, value: Array, axis: int, type_: str) -> Array:
    """Reduce one axis to the type of the result: that of the elements, int for a sum of bools."""
    if value.dtype == np.bool_ and operator in ("max", "min"):
        return value.any(axis) if operator == "max" else value.all(axis)
    dtype = DTYPES[type_]
    return np.asarray(REDUCTIONS[operator].reduce(value.astype(dtype), axis, dtype=dtype))


def product(a: Array, b: Array, type_: str) -> Array:
    """Multiply matrices of small whole numbers exactly; a third axis counts batches and comes last."""
    if a.ndim == 3:
        return np.einsum("mkb,knb->mnb", a.astype(np.int64), b.astype(np.int64)).astype(DTYPES[type_])
    return (a.astype(np.int64) @ b.astype(np.int64)).astype(DTYPES[type_])


__all__ = [
    "ARITHMETIC", "COMPARISONS", "DTYPES", "FLOATS", "INTEGERS", "RANKS", "REDUCTIONS", "Array", "common", "converted",
    "product", "promoted", "reduced",
]  # fmt: skip

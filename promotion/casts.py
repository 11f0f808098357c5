"""Classifies what a cast between two dtypes can lose."""

from __future__ import annotations

import math
from typing import Literal

from .dtype import DType
from .errors import UserError

LossClass = Literal["exact", "rounding", "sign", "overflow"]
"""A class of damage that a cast can do to a value; `loss_class` defines each."""

LOSS_CLASSES: tuple[LossClass, ...] = ("exact", "rounding", "sign", "overflow")
"""Ordered from harmless to worst."""


def overflow_limit(dtype: DType) -> int | float:
    """Return the smallest magnitude that rounds (to nearest even) beyond the largest finite float."""
    _, exponent = math.frexp(dtype.max_value)
    half_unit = exponent - 2 - dtype.mantissa_bits
    even = math.ldexp(dtype.max_value, -half_unit - 1) % 2 == 0  # float8_e4m3fn: the tie rounds down to the largest number
    if half_unit >= 0:  # as an integer: the limit of float64 is no float
        whole = int(dtype.max_value) + (1 << half_unit)
        return math.nextafter(whole, math.inf) if even else whole
    limit = dtype.max_value + math.ldexp(1.0, half_unit)
    return math.nextafter(limit, math.inf) if even else limit


def loss_class(source: DType, target: DType) -> LossClass:
    """Return the worst thing that can happen to a finite value of `source` when it is cast to `target`.

    - "exact": every value survives;
    - "rounding": values stay in range but may lose digits (or their fraction);
    - "sign": all magnitudes fit, but some values change sign (int → uint of enough bits, uint → int of equal
      bits) or negative values have no counterpart;
    - "overflow": magnitudes exceed the target's range: integers wrap, float → int saturates, floats become
      infinite.

    Between floats, "overflow" compares the exponents of the largest values only: source values in the
    target's topmost binade that round past its largest value do not count. Raises `UserError` for complex to
    real, which has no cast.
    """
    if source is target or (source.kind == target.kind == "uint" and source.bits == target.bits):
        return "exact"
    if source.is_complex and not target.is_complex:
        raise UserError(
            f"there is no cast from {source} to {target}: take the real or the imaginary part first"
        )
    if target.is_float or target.is_complex:
        if source.is_float or source.is_complex:
            return _float_to_float(source, target)
        return _integer_to_float(source, target)
    if source.kind == "bool":
        return "exact"
    if source.is_float:
        if int(source.max_value) > target.max_value:
            return "overflow"
        return "sign" if source.is_signed and not target.is_signed else "rounding"
    if source.max_value <= target.max_value:
        return "exact" if source.min_value >= target.min_value else "sign"
    same_bits = source.kind == "uint" and target.kind == "int" and source.bits == target.bits
    return "sign" if same_bits else "overflow"


def _float_to_float(source: DType, target: DType) -> LossClass:
    if math.frexp(source.max_value)[1] > math.frexp(target.max_value)[1]:
        return "overflow"
    if source.is_signed and not target.is_signed:
        return "sign"
    fits = source.mantissa_bits <= target.mantissa_bits and (
        source.smallest_subnormal >= target.smallest_subnormal and source.max_value <= target.max_value
    )
    return "exact" if fits else "rounding"


def _integer_to_float(source: DType, target: DType) -> LossClass:
    largest = max(source.max_value, -source.min_value)
    if largest >= overflow_limit(target):
        return "overflow"
    if source.is_signed and not target.is_signed:
        return "sign"
    # A power of two needs one significant bit only, so -2**(bits-1) never is the binding case; zero must
    # exist too.
    digits = source.bits - (source.kind == "int")
    has_zero = target.smallest_subnormal < 1.0 and target.is_signed
    return "exact" if digits <= target.mantissa_bits + 1 and has_zero else "rounding"


def loss_example(source: DType, target: DType) -> str:
    """Return an example of what `source` → `target` damages ("16777217 becomes 16777216"); "" if nothing."""
    loss = loss_class(source, target)
    if loss == "exact":
        return ""
    if loss == "sign":
        if source.is_float:
            return "negative values have no counterpart"
        value = -1 if source.kind == "int" else int(source.max_value)
        return f"{value} becomes {value % 2**target.bits if source.kind == 'int' else value - 2**target.bits}"
    if loss == "overflow":
        return _overflow_example(source, target)
    digits = target.mantissa_bits + 1
    if not target.is_signed and not (source.is_float or target.is_integer):
        return "0 has no counterpart"
    if source.is_integer:
        return f"{2**digits + 1} becomes {2**digits}"
    if target.is_integer:
        return "1.5 becomes 1"
    if source.mantissa_bits > target.mantissa_bits:
        return f"1 + 2**-{digits} becomes 1"
    return f"2**{int(math.log2(source.smallest_subnormal))} becomes 0"


def _overflow_example(source: DType, target: DType) -> str:
    if target.is_float or target.is_complex:
        first = _first_value(source, overflow_limit(target))
        outcome = "inf" if target.has_infinity else "nan" if target.has_nan else f"{target.max_value:g}"
        return f"{int(first) if first < 2**64 and first == int(first) else first} becomes {outcome}"
    value = int(target.max_value) + 1
    if source.is_float:
        return f"{value} becomes {target.max_value}"
    return f"{value} becomes {1 if target.kind == 'bool' else int(target.min_value)}"


def _first_value(source: DType, limit: int | float) -> int | float:
    """Return the smallest value of `source` that is not below `limit`."""
    if not (source.is_float or source.is_complex):
        return math.ceil(limit)
    unit = math.frexp(limit)[1] - 1 - source.mantissa_bits
    if unit < 0:
        return math.ldexp(math.ceil(math.ldexp(limit, -unit)), unit)
    return -(-math.ceil(limit) // (1 << unit)) << unit

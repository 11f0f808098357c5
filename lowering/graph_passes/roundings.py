"""Decides which casts change no value, which rounding of a softmax's weights may precede their division by the sum, and which
casts of chosen numbers are made before the choice."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ...graph.symbol import Symbol
from ...promotion.dtype import DType
from ...promotion.errors import UserError

_WHOLE_BYTES = (8, 16, 32, 64)
_DEPTH = 16
"""Choices among choices up to which they are looked at."""


def keeps_values(source: DType, target: DType) -> bool:
    """Returns whether a cast changes no value: the dtypes are equal, or floats such that `target` has every
    value of `source`, infinities and NaN included."""
    if source is target:
        return True
    if not (source.is_float and target.is_float):
        return False
    return (
        source.mantissa_bits <= target.mantissa_bits
        and source.max_value <= target.max_value
        and source.smallest_subnormal >= target.smallest_subnormal
        and source.is_signed <= target.is_signed
        and source.has_infinity <= target.has_infinity
        and source.has_nan <= target.has_nan
    )


def rounds_weights(attrs: Mapping[str, Any], target: DType) -> bool:
    """Returns whether the cast of softmax weights p = e / l to the type of the product may round e = exp(s -
    m) instead, where m is the largest score so far.

    It may if it rounds to nearest in a 16-bit float. Rounding e errs by at most max(u e, η/2), for the
    relative error u and the least positive value η. In p this error is multiplied by exp(m - m') / l, which
    is at most 1, where m' is the largest of all scores. So the weight is off by at most max(u p, η/2), the
    bound of the cast as it stands.
    """
    return target.name in ("float16", "bfloat16") and attrs.get("rounding", "nearest") == "nearest"


def is_cast_of_choice(symbol: Symbol) -> bool:
    """Returns whether a cast is of one of several numbers and no wider than they are, as `cast(where(c, 255, 0), "uint8")`."""
    if symbol.op.name != "cast":
        return False
    x, dtype = symbol.inputs[0], symbol.dtype
    return dtype.bits in _WHOLE_BYTES and dtype.bits <= x.dtype.bits and _is_choice(x, _DEPTH) and _joins_with_itself(symbol)


def choice_of_casts(x: Symbol, cast: Symbol) -> Symbol:
    """Returns what `cast` makes of `x`, with the numbers of `x` cast instead of what is chosen."""
    made: dict[int, Symbol] = {}

    def of(value: Symbol) -> Symbol:
        found = made.get(value.id)
        if found is None:
            is_choice = value.op.name == "where"
            row, attrs = (value.op, value.attrs) if is_choice else (cast.op, cast.attrs)
            operands = [value.inputs[0], *map(of, value.inputs[1:])] if is_choice else [value]
            found = made[value.id] = x.graph.restore(row, operands, attrs, cast.dtype, value.shape, value.location)
        return found

    return of(x)


def _joins_with_itself(symbol: Symbol) -> bool:
    """Returns whether a choice of operands of the symbol's dtype has this dtype; a table of the user may say another."""
    try:
        return symbol.graph.rules.promote(symbol.dtype, symbol.dtype) is symbol.dtype
    except UserError:
        return False


def _is_choice(x: Symbol, depth: int) -> bool:
    return x.op.name == "where" and depth > 0 and all(_is_number(each) or _is_choice(each, depth - 1) for each in x.inputs[1:])


def _is_number(x: Symbol) -> bool:
    while x.op.name == "broadcast_to":
        x = x.inputs[0]
    return x.op.name == "constant" and not x.shape

"""Decides which casts change no value, and which rounding of a softmax's weights may precede their division
by the sum."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ...promotion.dtype import DType


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

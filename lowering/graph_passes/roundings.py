"""Which casts change no value, and which rounding of a softmax's weights may come before their division by the sum."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ...promotion.dtype import DType


def keeps_values(source: DType, target: DType) -> bool:
    """Whether a cast between these floats changes no value: every one of `source`, infinities and NaN too, is one of
    `target`."""
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
    """Whether the cast of softmax weights p = e / l to the type they are multiplied in may round e = exp(s - m) instead, with
    the largest score m so far.

    It may to the nearest value of a 16-bit float. That errs by at most max(u e, η/2), relative error u and least value η. What
    becomes of the error in p is that times exp(m - m') / l, with the largest score m' of all, which is at most 1. So the weight
    is off by at most max(u p, η/2), the bound of the cast as it stands.
    """
    return target.name in ("float16", "bfloat16") and attrs.get("rounding", "nearest") == "nearest"

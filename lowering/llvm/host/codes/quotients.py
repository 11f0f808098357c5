"""Divides by a known number in two instructions, where that is shown to round to the same whole numbers.

With h + l = 1/s to twice the precision, h and l floats, fma(x, h, x·l) is the quotient x / s rounded, for most s (N.
Brisebarre, J.-M. Muller, S. K. Raina, IEEE Transactions on Computers 53, 2004). Less is needed of it here: that rounding it to
a whole number between two bounds gives what rounding the IEEE quotient gives. Neither ever decreases as x grows, but where both
are rounded to 0, so they are equal for all x if they step from each number to the next at the same x, which is tried at every
step. For powers of two l is 0, and the product is the quotient.
"""

from __future__ import annotations

import functools
from typing import Any

import numpy as np

_AROUND = 8
"""Floats on either side of (k + 1/2) · s, among which a quotient steps from k to k + 1."""


@functools.lru_cache(maxsize=1024)
def two_factors(divisor: float, low: int, high: int) -> tuple[float, float] | None:
    """Returns h and l for quotients that are rounded to a whole number and clamped to [low, high]; None if they do not do."""
    s = np.float32(divisor)
    h, lower = halves_of_reciprocal(divisor)
    if float(s) != divisor or 0 < abs(float(lower)) < 2.0**-100 or high - low > 1 << 12:
        return None
    steps = np.arange(low, high, dtype=np.float64) + 0.5
    middle = (steps * float(s)).astype(np.float32)
    near = middle.view(np.int32)[:, None] + np.arange(-_AROUND, _AROUND + 1, dtype=np.int32)
    x = near.view(np.float32)
    below = np.floor(steps)[:, None]
    with np.errstate(over="ignore", invalid="ignore"):
        quotient = np.rint(x / s)
    same = np.rint(fused(x, h, x * lower)) == quotient
    stepping = (quotient == below).any(1) & (quotient == below + 1).any(1)
    whole = ((quotient == below) | (quotient == below + 1)).all()
    return (float(h), float(lower)) if bool(same.all() and stepping.all() and whole) else None


def halves_of_reciprocal(divisor: float) -> tuple[Any, Any]:
    """Returns h and l in float32, whose sum is 1 / divisor to twice the precision."""
    h = np.float32(1.0 / divisor)
    rest = 1.0 - float(h) * divisor  # exact: both have 24 bits
    return h, np.float32(rest / divisor)


def fused(x: Any, factor: Any, added: Any) -> Any:
    """Returns x · factor + added in float32, rounded once.

    The product is exact in float64. Their sum is rounded to odd there (S. Boldo, G. Melquiond, 2008), and then to nearest.
    """
    product = x.astype(np.float64) * float(factor)
    other = added.astype(np.float64)
    total = product + other
    part = total - product
    lost = (product - (total - part)) + (other - part)
    bits = total.view(np.int64)
    even = (lost != 0) & (bits & 1 == 0)
    odd = np.where(even, np.nextafter(total, np.where(lost > 0, np.inf, -np.inf)), total)
    return odd.astype(np.float32)

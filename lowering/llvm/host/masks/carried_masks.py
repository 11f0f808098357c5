"""Masks that a loop carries from one iteration to the next.

Where registers hold no masks, LLVM packs their lanes into fewer bits for that, and unpacks them again: they are carried as
integers as wide as what was compared.
"""

from __future__ import annotations

from ...values import V, element, lanes, vector, zero
from ..evaluate import Evaluator


def carried(ev: Evaluator, mask: V) -> V:
    """Returns a mask as a loop carries it."""
    n = lanes(mask.type)
    if ev.target.has("avx512f") or n == 1:
        return mask
    return ev.f.cast("sext", mask, vector(f"i{min(64, 8 * ev.target.vector_bytes // n)}", n))


def all_hold(ev: Evaluator, flags: V) -> V:
    """Returns whether all lanes of a carried mask are set."""
    f = ev.f
    if element(flags.type) != "i1":
        flags = f.icmp("ne", flags, zero(flags.type))
    return f.intrinsic("vector.reduce.and", [flags], "i1") if lanes(flags.type) > 1 else flags

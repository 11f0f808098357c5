"""Emits the halves of 64-bit integers, and integers of two halves: complex64 numbers are held as these.

Vectors of two registers or more take every other 32 bits of two registers with one instruction, and interleave two registers
with two, where truncations, shifts and extensions of the halves are some three times as many.
"""

from __future__ import annotations

from .ir import Function
from .values import V, const, lanes, vector

LOW, HIGH, JOINED = "joinery.low_half", "joinery.high_half", "joinery.joined_halves"
"""Operations on i64, i64, and low and high halves of i32."""
_SHUFFLED = 16
"""Fewest lanes of which halves are shuffled; a register of fewer is truncated by one instruction."""


def half(f: Function, x: V, is_high: bool) -> V:
    """Emits the low or the high 32 bits of i64."""
    n = lanes(x.type)
    if n < _SHUFFLED:
        moved = f.binary("lshr", x, const(32, x.type)) if is_high else x
        return f.cast("trunc", moved, vector("i32", n))
    pairs = f.bitcast(x, vector("i32", 2 * n))
    return f.shuffle(pairs, pairs, range(int(is_high), 2 * n, 2))


def joined(f: Function, low: V, high: V) -> V:
    """Emits i64 of low and high halves."""
    n = lanes(low.type)
    wide = vector("i64", n)
    if n == 1:  # more are shuffled: of parts of registers LLVM 22 makes extensions that it has no instruction for
        moved = f.binary("shl", f.cast("zext", high, wide), const(32, wide))
        return f.binary("or", moved, f.cast("zext", low, wide))
    return f.bitcast(f.shuffle(low, high, [number + side * n for number in range(n) for side in (0, 1)]), wide)

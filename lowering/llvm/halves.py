"""Emits the halves of 64-bit integers, and integers of two halves: complex64 numbers are held as these.

Vectors of two registers or more take every other 32 bits of two registers with one instruction, and interleave two registers
with two, where truncations, shifts and extensions of the halves are some three times as many. With 32 bytes that instruction
works on both halves of the registers by themselves, and another one puts their parts in order. Where all that is computed is
halves, which are joined in the end, lanes stay in that order (`within_registers`):

    a0 a1 a2 a3, b0 b1 b2 b3  ⇒  low halves of a0 a1 b0 b1 a2 a3 b2 b3  ⇒  a0 a1 a2 a3, b0 b1 b2 b3
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

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
    return f.shuffle(pairs, pairs, [2 * number + int(is_high) for number in _order(f, n)])


def joined(f: Function, low: V, high: V) -> V:
    """Emits i64 of low and high halves."""
    n = lanes(low.type)
    wide = vector("i64", n)
    if n == 1:  # more are shuffled: of parts of registers LLVM 22 makes extensions that it has no instruction for
        moved = f.binary("shl", f.cast("zext", high, wide), const(32, wide))
        return f.binary("or", moved, f.cast("zext", low, wide))
    return f.bitcast(f.shuffle(low, high, [number + side * n for number in _order(f, n) for side in (0, 1)]), wide)


@contextmanager
def within_registers(f: Function, are_alone: bool) -> Iterator[None]:
    """Leaves lanes of halves that are emitted inside in the order in which instructions for 32 bytes bring them.

    are_alone: whether nothing else is computed with them than halves, which are joined, and what is the same in all lanes.
    """
    f.halves_in_registers = are_alone
    try:
        yield
    finally:
        f.halves_in_registers = False


def _order(f: Function, n: int) -> list[int]:
    """Returns which of the integers each lane of their halves has, and, as it is its own inverse, which lane each has."""
    if not f.halves_in_registers or n < _SHUFFLED:
        return list(range(n))
    return [start + number for start in range(0, n, 8) for number in (0, 1, 4, 5, 2, 3, 6, 7)]

"""Combines two vectors, or some, whose largest or smallest elements are wanted, and NaN where there is one.

A comparison and a choice are one instruction, which gives one operand where either is NaN. So NaN is looked for apart: by flags
that a loop carries, or, where registers hold no masks, by setting all bits of a lane that met one.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

from ...elementwise import constant, larger
from ...ir import Function
from ...values import V, bits, element, lanes, vector
from ..evaluate import Evaluator
from ..loops.loop_nests import LoopNests
from ..masks.carried_masks import all_hold
from .combine import Combine

T = TypeVar("T")

EXTREMES = {
    "arith.maximumf": float("-inf"), "arith.maxnumf": float("-inf"),
    "arith.minimumf": float("inf"), "arith.minnumf": float("inf"),
}  # fmt: skip
"""The value that an extreme starts from: no number is beyond it."""
IDEMPOTENT = frozenset(
    {*EXTREMES, "arith.maxsi", "arith.minsi", "arith.maxui", "arith.minui", "arith.andi", "arith.ori"}
)


def propagates(kind: str | None) -> bool:
    return kind in ("arith.maximumf", "arith.minimumf")


def extreme_of(nests: LoopNests, accumulators: Sequence[V], kind: str) -> list[V]:
    """Returns the extreme of all lanes, given their extreme numbers, none of them NaN, and flags.

    A flag is set in lanes that met only numbers, or only NaN (`maxnumf`).
    """
    f = nests.ev.f
    best, flags = accumulators
    while (n := lanes(best.type)) > 1:
        low, high = halves(f, best, n // 2)
        best = larger(f, low, high, EXTREMES[kind] < 0)
    only = all_hold(nests.ev, flags)
    not_a_number = constant(float("nan"), best.type)
    return [f.select(only, best, not_a_number) if propagates(kind) else f.select(only, not_a_number, best)]


def halves(f: Function, value: V, half: int) -> tuple[V, V]:
    """Returns the lower and the upper lanes of a vector of 2 · `half`."""
    if half == 1:
        return f.extract(value, 0), f.extract(value, 1)
    return f.shuffle(value, value, range(half)), f.shuffle(value, value, range(half, 2 * half))


def all_joined(nests: LoopNests, combine: Combine, rows: list[list[V]]) -> list[V]:
    """Combines some rows, as a tree."""
    f, ev = nests.ev.f, nests.ev
    if len(rows) > 1 and _sets_bits(ev, combine.kind, rows[0][0]):  # a comparison looks for NaN in two rows
        values = [row[0] for row in rows]
        flags = [_not_a_number(f, a, b) for a, b in zip(values, [*values[1:], values[-1]], strict=True)][::2]
        best = tree(values, lambda a, b: larger(f, b, a, EXTREMES[str(combine.kind)] < 0))
        return [_with_bits(f, best, tree(flags, lambda a, b: f.binary("or", a, b)))]
    return tree(rows, lambda a, b: joined(nests, combine, a, b))


def tree(items: Sequence[T], join: Callable[[T, T], T]) -> T:
    current = list(items)
    while len(current) > 1:
        pairs = [join(a, b) for a, b in zip(current[::2], current[1::2], strict=False)]
        current = pairs + current[len(pairs) * 2 :]
    return current[0]


def _sets_bits(ev: Evaluator, kind: str | None, value: V) -> bool:
    """Whether a NaN among those whose extreme is wanted sets all bits of it, so that no lanes are chosen by masks."""
    return propagates(kind) and lanes(value.type) > 1 and not ev.target.has("avx512f")


def _not_a_number(f: Function, a: V, b: V) -> V:
    """Returns lanes with all bits set where either is NaN."""
    return f.cast("sext", f.fcmp("uno", a, b), vector(f"i{bits(element(a.type))}", lanes(a.type)))


def _with_bits(f: Function, value: V, flags: V) -> V:
    return f.bitcast(f.binary("or", f.bitcast(value, flags.type), flags), value.type)


def joined(nests: LoopNests, combine: Combine, left: list[V], right: list[V]) -> list[V]:
    """Combines both by the region; the largest of zeros of both signs, which a reduction leaves open, is either."""
    if combine.kind not in EXTREMES:
        return combine.emit(nests.ev, left, right)
    f, (a,), (b,) = nests.ev.f, left, right
    if _sets_bits(nests.ev, combine.kind, a):  # what is not larger than a NaN leaves it
        return [_with_bits(f, larger(f, b, a, EXTREMES[combine.kind] < 0), _not_a_number(f, b, b))]
    kept, other = (a, a) if propagates(combine.kind) else (b, a)  # where that is NaN, the other operand
    return [f.select(f.fcmp("uno", kept, kept), other, larger(f, a, b, EXTREMES[combine.kind] < 0))]

"""Functions that are made of instructions of a processor: their lanes fill one of its registers."""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence

from .. import values
from ..values import V
from .lanes import Lanes


def by_register(lane: Lanes, bits: int, emit: Callable[..., V], *operands: V) -> V:
    """Returns `emit(lanes of one register, *operands)` for vectors of any length.

    It cuts them into registers, or repeats their lanes, so that a function has the same bits in any number of lanes, one
    included.
    """
    fn, n, full = lane.fn, lane.n, bits // lane.width
    whole = Lanes(fn, values.vector(lane.element, full), not_positive=lane.not_positive)
    if n == full:
        return emit(whole, *operands)
    if n == 1:
        return fn.extract(emit(whole, *[fn.splat(v, full) for v in operands]), 0)
    if n < full:  # the lanes again: what is rare in no lane stays rare
        y = emit(whole, *[fn.shuffle(v, v, [i % n for i in range(full)]) for v in operands])
        return fn.shuffle(y, y, range(n))
    parts = [emit(whole, *[fn.shuffle(v, v, range(i, i + full)) for v in operands]) for i in range(0, n, full)]
    while len(parts) > 1:
        length = values.lanes(parts[0].type)
        parts = [fn.shuffle(a, b, range(2 * length)) for a, b in zip(parts[::2], parts[1::2], strict=True)]
    return parts[0]


def table(lane: Lanes, numbers: Sequence[float]) -> list[V]:
    """Returns registers that hold these numbers, in their order."""
    n = lane.n
    code, integer = ("<d", "<q") if lane.width == 64 else ("<f", "<i")
    bits = [int(struct.unpack(integer, struct.pack(code, x))[0]) for x in numbers]
    return [lane.float_of(values.int_vector(bits[i : i + n], f"i{lane.width}")) for i in range(0, len(bits), n)]

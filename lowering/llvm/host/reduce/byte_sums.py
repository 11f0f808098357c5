"""Sums bytes and truth values that are widened first: `vpsadbw` adds the eight bytes of each 64-bit lane.

One by one, a vector of 32 bytes would become eight of 64-bit integers. What is counted are mostly outcomes of comparisons,
whose lanes are packed into bytes.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack

from ...values import V, const, lanes, vector, zero
from ..loops.coordinates import Bound, Coordinate, Coordinates
from ..loops.loop_nests import LoopNests
from ..loops.vector_loop import vector_loop
from ..nodes import Map, Node, Stored
from .combine import Combine

_INSTRUCTIONS = {16: "llvm.x86.sse2.psad.bw", 32: "llvm.x86.avx2.psad.bw", 64: "llvm.x86.avx512.psad.bw.512"}
"""The instruction for a register of so many bytes."""
MIN_LANES = 8
"""The fewest lanes of a register whose outcomes are packed."""
_MAX_REGISTERS = 4
"""The most registers whose lanes are packed into one of bytes."""


def bytes_of(nests: LoopNests, sources: Sequence[Node], combine: Combine) -> Node | None:
    """Returns the bytes or truth values whose sum as wider unsigned integers a reduction is; None for others."""
    if len(sources) != 1 or combine.kind != "arith.addi" or nests.ev.target.vector_bytes not in _INSTRUCTIONS:
        return None
    (source,) = sources
    if not nests.ev.target.is_x86 or not isinstance(source, Map):
        return None
    if source.op != "arith.extui" or source.elem not in ("i32", "i64"):
        return None
    narrow = source.operands[0]
    if narrow.elem not in ("i1", "i8") or nests.reused_values(sources, source.shape):
        return None
    if nests.lanes([narrow], nests.inner_dim(narrow.shape)) < MIN_LANES:
        return None  # comparisons of 64 bits: packing takes as long as adding
    return narrow if _lanes(nests, narrow) >= 16 else None


def _lanes(nests: LoopNests, narrow: Node) -> int:
    """Returns how many bytes are added at once."""
    most = _MAX_REGISTERS * nests.lanes([narrow], nests.inner_dim(narrow.shape))
    return min(nests.ev.target.vector_bytes, most, narrow.shape[-1])


def sum_bytes(
    nests: LoopNests, narrow: Node, elem: str, axis: int, bounds: Sequence[Bound], wanted: Sequence[Bound],
    memories: Sequence[Stored], kept: tuple[int, ...],
) -> list[V]:  # fmt: skip
    """Adds along the vector dimension what `bytes_of` found, as integers of type `elem`."""
    ev, f = nests.ev, nests.ev.f
    shape = narrow.shape
    nests.materialize_operands([narrow])
    n = _lanes(nests, narrow)
    nests.mark_prefetches([narrow], [])
    wide = vector("i64", n // 8)
    with ExitStack() as stack:
        coordinates = nests.outer(stack, shape, axis, [*bounds, *wanted], [narrow])

        def body(coordinate: Coordinate, mask: V | None, acc: list[V]) -> list[V]:
            here: Coordinates = tuple(coordinate if d == axis else c for d, c in enumerate(coordinates))
            value = f.splat(ev.at(narrow, here, mask), n)
            if mask is not None:
                value = f.select(mask, value, zero(value.type))
            if narrow.elem == "i1":
                value = f.select(value, const(1, vector("i8", n)), zero(vector("i8", n)))
            return [f.add(acc[0], f.target_intrinsic(_INSTRUCTIONS[n], [value, zero(value.type)], wide))]

        copies = vector_loop(ev, shape[axis], bounds, axis, n, nests.unroll([narrow], shape[axis] // n, 2), body, [zero(wide)])
        total = copies[0][0]
        for (other,) in copies[1:]:
            total = f.add(total, other)
        total = f.intrinsic("vector.reduce.add", [total], "i64") if lanes(total.type) > 1 else total
        result = [total if elem == "i64" else f.cast("trunc", total, elem)]
        for memory, value in zip(memories, result, strict=False):
            ev.write_scratch(memory, tuple(coordinates[d] for d in kept), value)
    return result

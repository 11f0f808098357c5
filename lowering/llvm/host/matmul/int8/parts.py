"""Cuts products of int8 into parts of rows and of steps of k, where rows are widened to int16 before they are multiplied.

    for each 640 steps of k or fewer ─► widen them of some rows of A ─► for each panel of B ─► widen it ─► tiles

A panel of so many steps stays in a first-level cache for all tiles of rows, and the rows stay in a second-level cache for all
panels. Sums of one part are loaded by the next one.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import NamedTuple

from ....values import V, i64, integer
from ...evaluate import Evaluator
from .quads import Quads
from .rows import QUAD, WidenedRows, whole_quads

STEPS = 640
"""The most steps of k of a panel that is widened: 20 KiB, for which a first-level cache has room beside rows of A."""
BYTES, PAD = 1 << 17, 64
"""Bytes of rows that are widened together, unless these are too few for two tiles, and between rows, so that they do not all
begin in the same sets of a cache."""


class Part(NamedTuple):
    """A part of a product of groups along k: where its rows of A begin, and how far apart or where each; B, and C.

    m: its rows. k: its steps. repetition: how many products are summed, and the bytes from one's A and B to the next one's, if
    there are several.
    """

    a: V
    row: V
    b: V
    c: V
    m: V
    k: V
    accumulate: V
    repetition: tuple[V, ...]


def scratch_bytes(panel: Quads, depth: int, repetition: tuple[V, ...]) -> int:
    """Return the bytes of scratch that a panel of a product of so many steps works in."""
    times = _times(repetition)
    return panel.scratch_bytes(_steps(panel, depth, times) or (times * whole_quads(depth) if panel.widens else depth))


def _times(repetition: tuple[V, ...]) -> int:
    return integer(repetition[0]) if repetition else 1


def _steps(panel: Quads, depth: int, times: int) -> int:
    """Return the steps of k that a part has; 0 where all of them are one part."""
    if not panel.widens or times * whole_quads(depth) <= STEPS:
        return 0
    return whole_quads(-(-depth // -(-depth // STEPS)))


def by_widened_rows(
    ev: Evaluator, panel: Quads, part: Part, sizes: tuple[int, int], distances: tuple[V, V],
    multiply: Callable[[Quads, Part], None],
) -> None:  # fmt: skip
    """Emit a product, part by part, by what emits one of widened rows with all panels.

    sizes: the most rows and the most steps of k. distances: of rows of B, if it is not stored in quads, and of rows of C.
    """
    f, (_, depth), (ldb, _) = ev.f, sizes, distances
    times = _times(part.repetition)
    steps = _steps(panel, depth, times)
    if not steps:
        _some_rows(ev, panel, part, sizes, distances, multiply)
        return
    between = i64(panel.stored) if panel.stored else ldb
    _, a_step, b_step = part.repetition or (i64(1), i64(0), i64(0))
    panel = replace(panel, repeated=False)
    with f.loop(0, times) as matrix, f.loop(0, part.k, steps) as state:
        a = f.gep(part.a, f.add(f.mul(matrix.index, a_step), state.index))
        b = f.gep(part.b, f.add(f.mul(matrix.index, b_step), f.mul(state.index, between)))
        later = f.icmp("sgt", f.binary("or", matrix.index, state.index), i64(0))
        k = f.smin(f.sub(part.k, state.index), i64(steps))
        accumulate = f.binary("or", part.accumulate, later)
        here = part._replace(a=a, b=b, k=k, accumulate=accumulate, repetition=())
        _some_rows(ev, panel, here, (sizes[0], steps), distances, multiply)


def _some_rows(
    ev: Evaluator, panel: Quads, part: Part, sizes: tuple[int, int], distances: tuple[V, V],
    multiply: Callable[[Quads, Part], None],
) -> None:  # fmt: skip
    """Emit a product of all steps of k, of as many rows at a time as a second-level cache has room for."""
    f, (rows, depth), (_, ldc) = ev.f, sizes, distances
    times, a_step, *b_step = part.repetition or (i64(1), i64(0))
    pitch = 2 * whole_quads(depth) * integer(times) + PAD
    height, tiles = panel.height, -(-rows // panel.height)
    most = height * max(min(2, tiles), min(tiles, BYTES // (pitch * height)))
    memory = ev.scratch((most * pitch,), "i8")
    widened = f.module.provide(WidenedRows(2 * panel.n, panel.gathered))
    step = f.mul(f.binary("and", f.add(part.k, i64(QUAD - 1)), i64(-QUAD)), i64(2))
    repetition = (times, step, *b_step) if part.repetition else ()
    with f.loop(0, part.m, most) as state:
        if panel.gathered:
            a, row = part.a, f.gep(part.row, state.index, "i64")
        else:
            a, row = f.gep(part.a, f.mul(state.index, part.row)), part.row
        m = f.smin(f.sub(part.m, state.index), i64(most))
        f.call(widened, "void", [a, row, m, part.k, times, a_step, memory.pointer, i64(pitch)])
        c = f.gep(part.c, f.mul(state.index, ldc), "i32")
        here = part._replace(a=memory.pointer, row=i64(pitch), c=c, m=m, repetition=repetition)
        multiply(replace(panel, gathered=False), here)
    ev.release(memory)

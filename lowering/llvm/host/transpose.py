"""Transposed tiles: loaded in squares of a vector's lanes, turned in registers, written to scratch."""

from __future__ import annotations

from collections.abc import Sequence

from ..elementwise import constant
from ..ir import V
from .coordinates import ORIGIN, Coordinate, decompose_mask, stride_of
from .evaluate import Evaluator
from .nodes import Load, Node, Stored, View
from .scalars import ZERO


def transposed_load(ev: Evaluator, node: Node) -> Load | None:
    """The load behind a 2-D block that is contiguous along dimension 0 (a transposed tile), or None; None, too, if its block
    has been kept in scratch, or if its mask is more than limits of rows and columns."""
    if isinstance(node, View) and node.dims == (1, 0) and min(node.shape) > 1:
        load = ev.source_of(node)
        if isinstance(load, Load) and load.pointers.rest is None and stride_of(load.pointers, 1) == 1:
            return None if decompose_mask(load.mask)[1] else load
    return None


def transpose(ev: Evaluator, load: Load, memory: Stored, streaming: bool, limits: Sequence[V] = ()) -> None:
    """Load `load` (rows × columns) in squares and store it transposed: memory[c, r] = load[r, c]. Rows beyond the limits
    are not wanted."""
    f = ev.f
    rows, columns = load.shape
    n = min(ev.lanes_for(load.elem), rows, columns)
    bounds, _ = decompose_mask(load.mask)
    row_limit, _ = ev.extent(rows, bounds, 0)
    if n == 1:
        with f.loop(0, rows) as r, ev.scope(), f.loop(0, columns) as c, ev.scope():
            value = ev.at(load, (Coordinate(r.index, 0, 1, 0), Coordinate(c.index, 0, 1, 0)))
            ev.write_scratch(memory, (Coordinate(c.index), Coordinate(r.index)), value)
        return
    last = ev.s.max(ev.s.sub(row_limit, ev.s.constant(1)), ZERO)
    column_limit, _ = ev.extent(columns, bounds, 1)
    covered = Load(load.shape, load.elem, load.pointers, None, load.other)
    wanted = ev.s.constant(rows)
    for limit in limits:
        wanted = ev.s.min(wanted, limit)
    with f.loop(0, wanted, n) as r, ev.scope(), f.loop(0, columns, n) as c, ev.scope():
        tile: list[V] = []
        on: V | None
        mask = None if column_limit.ref == str(columns) else ev.lane_mask(c.index, column_limit, n)
        for i in range(n):
            position = ev.s.add(r.index, ev.s.constant(i))
            if row_limit.ref != str(rows):  # rows past the end repeat the last one, then read as `other`
                inside = f.icmp("slt", position, row_limit)
                position = ev.s.min(position, last)
                rows_on = f.splat(inside, n)
                on = rows_on if mask is None else f.binary("and", rows_on, mask)
            else:
                on = mask
            value = ev._load(covered, (Coordinate(position), Coordinate(c.index, 0, n)), on)
            if streaming:  # the tile below, which is the next one along the output's rows
                below = ev.s.add(position, ev.s.constant(rows))
                here = (Coordinate(below), Coordinate(c.index, 0, n))
                f.prefetch(ev.pointer_at(load.pointers, here, 1), locality=2)
            if on is not None:
                fill = (
                    constant(0, load.elem, n)
                    if load.other is None
                    else f.splat(ev.at(load.other, (ORIGIN, ORIGIN)), n)
                )
                value = f.select(on, value, fill)
            tile.append(value)
        for i, column in enumerate(transpose_registers(ev, tile)):
            here = (Coordinate(ev.s.add(c.index, ev.s.constant(i))), Coordinate(r.index, 0, n))
            ev.write_scratch(memory, here, column)


def transpose_registers(ev: Evaluator, rows: list[V]) -> list[V]:
    """Transpose an n × n tile of registers in log2(n) stages of two-input shuffles (n a power of two)."""
    n = len(rows)
    current, distance = list(rows), n // 2
    while distance:
        low = [lane if (lane // distance) % 2 == 0 else n + lane - distance for lane in range(n)]
        high = [lane + distance if (lane // distance) % 2 == 0 else n + lane for lane in range(n)]
        following = list(current)
        for i in range(n):
            if (i // distance) % 2 == 0:
                a, b = current[i], current[i + distance]
                following[i] = ev.f.shuffle(a, b, low)
                following[i + distance] = ev.f.shuffle(a, b, high)
        current, distance = following, distance // 2
    return current

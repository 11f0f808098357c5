"""Writes what looks elements up: slices at tuples of positions, and positions in a sorted vector."""

from __future__ import annotations

import numpy as np

from .....promotion.dtype import bool_, int64, uint64
from ....dims.dim import Dim
from ....symbol import Symbol
from ..body import Body, Subgraph
from ..registry import Call, writes
from ..sizes import Sizes
from .structure import sized

_BITS = 33
"""Steps of a search: vectors have at most 2^32 elements."""


@sized("gather_nd")
def slices_in_range(body: Body, sizes: Sizes, symbol: Symbol, x: str, indices: str) -> str | None:
    """Gather at tuples that are constants inside their axes."""
    data, which = symbol.inputs
    batch = symbol.attrs["batch_dims"]
    if which.op.name not in ("constant", "weight") or which.dtype is not int64:
        return None
    found = which.attrs["value"]
    for number, extent in enumerate(data.shape[batch : batch + found.shape[-1]]):
        column = found[..., number]
        if isinstance(extent, Dim) or (column.size and not (-extent <= int(column.min()) and int(column.max()) < extent)):
            return None
    return body.op("GatherND", symbol.dtype, x, others=(indices,), batch_dims=batch) if found.shape[-1] else None


@writes("gather_nd")
def slices(body: Body, call: Call, x: str, indices: str) -> str:
    """Count negative positions from the end, and clamp all into their axes; a tuple of none takes the first of one table."""
    batch, dtype = call.attrs["batch_dims"], call.operands[1]
    nothing = body.constant(0, int64)
    depth = body.node("Shape", indices, start=-1)
    size = body.node("Slice", body.node("Shape", x), body.ints(batch), body.node("Add", depth, body.ints(batch)))
    last = body.node("Max", body.node("Sub", size, body.ints(1)), nothing)
    if dtype.kind == "uint" and dtype.bits == 64:
        found = body.cast(body.node("Min", indices, body.cast(last, int64, uint64)), uint64, int64)
    else:
        found = body.cast(indices, dtype, int64)
        found = body.node("Where", body.node("Less", found, nothing), body.node("Add", found, size), found)
        found = body.node("Min", body.node("Max", found, nothing), last)
    # a new axis of one element, and its position in every tuple: GatherND takes no tuples of none
    table = body.op("Unsqueeze", call.result, x, others=(body.ints(batch),))
    lead = body.node("Concat", body.node("Shape", found, end=-1), body.ints(1), axis=0)
    zeros = body.node("Expand", nothing, lead)
    return body.op("GatherND", call.result, table, others=(body.node("Concat", zeros, found, axis=-1),), batch_dims=batch)


@writes("searchsorted")
def search(body: Body, call: Call, within: str, values: str) -> str:
    """Find positions bit by bit, in a loop, as the expansion does; one element more gives an empty vector something to read."""
    nothing = body.constant(0, int64)
    size = body.node("Squeeze", body.node("Shape", within), body.ints(0))
    dtype = call.operands[0]
    end = body.constant(np.zeros(1, dtype.numpy), dtype)
    longer = body.op("Concat", dtype, within, end, axis=0)
    step = body.name("step")
    start = body.node("Expand", nothing, body.node("Shape", values))
    found = body.loop(
        body.constant(np.array(_BITS, np.int64), int64), _bit(body, call, longer, values, size, step), start,
        body.constant(np.array(1 << (_BITS - 1), np.int64), int64),
    )  # fmt: skip
    return found


def _bit(outer: Body, call: Call, within: str, values: str, size: str, step: str) -> Subgraph:
    """Return a loop's body that goes a step on where the element just before that comes before the value."""
    trip, go, before = [outer.name(name) for name in ("trip", "go_on", "before_in")]
    body = Body(outer=outer)
    dtype = call.operands[0]
    reached = body.node("Add", before, step)
    at = body.node("Sub", body.node("Min", reached, body.node("Add", size, body.constant(1, int64))), body.constant(1, int64))
    element = body.op("Gather", dtype, within, others=(at,), axis=0)
    is_left = call.attrs["side"] == "left"
    precedes = body.test("Less" if is_left else "LessOrEqual", dtype, element, values)
    if dtype.is_float:  # NaN comes last, and equals NaN
        beyond = body.test("IsNaN", dtype, values)
        if is_left:
            beyond = body.node("And", beyond, body.node("Not", body.test("IsNaN", dtype, element)))
        precedes = body.node("Or", precedes, beyond)
    inside = body.node("And", precedes, body.node("LessOrEqual", reached, size))
    following = body.node("Where", inside, reached, before)
    half = body.node("Div", step, body.constant(2, int64))
    again = body.node("Identity", go)
    inputs = ((trip, int64, ()), (go, bool_, ()), (before, int64, None), (step, int64, ()))
    return Subgraph("bit", body, inputs, ((again, bool_, ()), (following, int64, None), (half, int64, ())))

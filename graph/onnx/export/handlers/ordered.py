"""Writes what works along an axis in order: scatters, sorts, running products."""

from __future__ import annotations

from typing import Any

from .....promotion.dtype import bool_, int64
from ....dims.dim import Dim
from ....symbol import Symbol
from ..body import Body, OpsetNeeded
from ..registry import Call, never, writes
from ..sizes import Sizes
from .structure import checked, sized


@writes("argsort", "top_positions")
def in_order(body: Body, call: Call, x: str) -> str:
    """Take the positions of TopK; ONNX leaves open where NaN comes."""
    axis, dtype = call.attrs["axis"], call.operands[0]
    whole = call.row == "argsort"
    count = body.node("Shape", x, start=axis, end=axis + 1) if whole else body.ints(call.attrs["k"])
    x, _ = body.carried("TopK", x, dtype)
    largest = int(call.attrs["descending"] if whole else call.attrs["largest"])
    return body.several("TopK", x, count, outputs=("values", "positions"), axis=axis, largest=largest, sorted=1)[1]


@writes("cumprod")
def cumprod(body: Body, call: Call, x: str) -> str:
    if call.opset < 26:
        raise OpsetNeeded(26, "CumProd")
    axis = body.constant(call.attrs["axis"], int64)
    flags: dict[str, Any] = {"exclusive": int(call.attrs["exclusive"]), "reverse": int(call.attrs["reverse"])}
    if call.result is bool_:
        return body.cast(body.node("CumProd", body.cast(x, bool_, int64), axis, **flags), int64, bool_)
    return body.op("CumProd", call.result, x, others=(axis,), **flags)


@sized("scatter")
def scatter_in_range(body: Body, sizes: Sizes, symbol: Symbol, x: str, positions: str, updates: str) -> str | None:
    """Scatter to positions that are constants inside the axis, or that the operator itself has to refuse."""
    data, which = symbol.inputs[:2]
    extent = data.shape[symbol.attrs["axis"]]
    dtypes = tuple([operand.dtype for operand in symbol.inputs])
    call = Call("scatter", dtypes, symbol.dtype, symbol.attrs, 0)
    if which.op.name == "positions_in_range":
        return _scattered(body, call, x, checked(body, which, positions), updates)
    if which.op.name not in ("constant", "weight") or which.dtype.name not in ("int32", "int64") or isinstance(extent, Dim):
        return None
    found = which.attrs["value"]
    if found.size and not (-extent <= int(found.min()) and int(found.max()) < extent):
        return None
    return _scattered(body, call, x, positions, updates)


@writes("scatter")
def scatter(body: Body, call: Call, x: str, positions: str, updates: str) -> str:
    """Scatter into the data and one element more, which takes the updates at positions that are out of range."""
    axis, dtype = call.attrs["axis"], call.operands[1]
    nothing = body.constant(0, int64)
    size = body.node("Shape", x, start=axis, end=axis + 1)
    scalar = body.node("Squeeze", size, body.ints(0))
    if dtype.kind == "uint" and dtype.bits == 64:
        positions = body.node("Min", positions, body.constant(1 << 62, dtype))
    at = body.cast(positions, dtype, int64)
    at = body.node("Where", body.node("Less", at, nothing), body.node("Add", at, scalar), at)
    outside = body.node("Or", body.node("Less", at, nothing), body.node("GreaterOrEqual", at, scalar))
    at = body.node("Where", outside, scalar, at)
    padded, wide = body.carried("Pad", x, call.result)
    longer = body.returned("Pad", body.node("Pad", padded, body.ints(0, 1), "", body.ints(axis)), wide, call.result)
    written = _scattered(body, call, longer, at, updates)
    return body.op("Slice", call.result, written, others=(body.ints(0), size, body.ints(axis)))


def _scattered(body: Body, call: Call, x: str, positions: str, updates: str) -> str:
    reduction = call.attrs["reduction"]
    key = f"ScatterElements {reduction}"
    (x, wide), (updates, _) = body.carried(key, x, call.result), body.carried(key, updates, call.result)
    written = body.node("ScatterElements", x, positions, updates, axis=call.attrs["axis"], reduction=reduction)
    return body.returned(key, written, wide, call.result)


never("ONNX has no running extremes", "jn.max or jn.min over windows", "cummax", "cummin")
never("it is a step of sorting", "jn.argsort", "sort_keys")

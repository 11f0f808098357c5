"""Writes what works along an axis in order: scatters, sorts, running products."""

from __future__ import annotations

from .....promotion.dtype import DType, bool_, int64
from ....dims.dim import Dim
from ....symbol import Symbol
from ..body import Body, Subgraph
from ..registry import Call, never, writes
from ..sizes import Sizes
from .structure import checked, sized

_RUNNING_PRODUCTS = 26
"""The opset that has CumProd."""


@writes("argsort", "top_positions")
def in_order(body: Body, call: Call, x: str) -> str:
    """Take the positions of TopK; ONNX leaves open where NaN comes."""
    axis, dtype = call.attrs["axis"], call.operands[0]
    whole = call.row == "argsort"
    count = body.node("Shape", x, start=axis, end=axis + 1) if whole else body.ints(call.attrs["k"])
    x, _ = body.carried("TopK", x, dtype)
    largest = int(call.attrs["descending"] if whole else call.attrs["largest"])
    return body.several("TopK", x, count, outputs=("values", "positions"), axis=axis, largest=largest, sorted=1)[1]


@writes("sort")
def sort(body: Body, call: Call, x: str) -> str:
    """Take the elements of TopK; ONNX leaves open where NaN comes, and which zero is first."""
    axis, dtype = call.attrs["axis"], call.operands[0]
    count = body.node("Shape", x, start=axis, end=axis + 1)
    x, wide = body.carried("TopK", x, dtype)
    found, _ = body.several("TopK", x, count, outputs=("values", "positions"), axis=axis,
                            largest=int(call.attrs["descending"]), sorted=1)  # fmt: skip
    return body.returned("TopK", found, wide, dtype)


@writes("cumprod")
def cumprod(body: Body, call: Call, x: str) -> str:
    """Multiply along an axis: by CumProd, which opset 26 has, before that one element after the other."""
    is_exclusive, reverse, dtype = bool(call.attrs["exclusive"]), bool(call.attrs["reverse"]), call.result
    x, wide = (body.cast(x, bool_, int64), int64) if dtype is bool_ else body.carried("CumProd", x, dtype)
    if call.opset < _RUNNING_PRODUCTS:
        found = _running(body, "Mul", x, wide, 1, call.attrs["axis"], reverse, is_exclusive)
    else:
        axis = body.constant(call.attrs["axis"], int64)
        found = body.node("CumProd", x, axis, exclusive=int(is_exclusive), reverse=int(reverse))
    return body.cast(found, wide, dtype) if dtype is bool_ else body.returned("CumProd", found, wide, dtype)


@writes("cummax", "cummin")
def running_extreme(body: Body, call: Call, x: str) -> str:
    """Take the largest or smallest element so far; NaN from the first one on. Before all is the lowest or highest value."""
    dtype, is_largest = call.result, call.row == "cummax"
    x, wide = (body.cast(x, bool_, int64), int64) if dtype is bool_ else body.carried("TopK", x, dtype)
    if dtype.is_float:
        first = float("-inf" if is_largest else "inf")
    else:
        is_flipped = dtype.bits == 64 and dtype.kind != "int"  # the top bit, so that order counts
        first = int(dtype.min_value if is_largest else dtype.max_value) - (1 << 63 if is_flipped else 0)
    axis, reverse, is_exclusive = call.attrs["axis"], bool(call.attrs["reverse"]), bool(call.attrs["exclusive"])
    found = _running(body, "Max" if is_largest else "Min", x, wide, first, axis, reverse, is_exclusive)
    return body.cast(found, wide, dtype) if dtype is bool_ else body.returned("TopK", found, wide, dtype)


def _running(
    body: Body, op: str, x: str, dtype: DType, first: float, axis: int, reverse: bool, is_exclusive: bool
) -> str:
    """Combine elements along an axis, one after the other, beginning with a number that changes nothing.

    onnxruntime refuses to scan no elements, and its process ends where each of them is empty: so nothing stays what it is.
    """
    some, none = Body(outer=body), Body(outer=body)
    scanned = _scanned(some, op, x, dtype, first, axis, reverse, is_exclusive)
    nothing = none.node("Identity", x)
    is_empty = body.node("Equal", body.node("Size", x), body.constant(0, int64))
    one, other = (Subgraph(name, inner, (), ((result, dtype, None),))
                  for name, inner, result in (("nothing", none, nothing), ("elements", some, scanned)))  # fmt: skip
    return body.node("If", is_empty, then_branch=one, else_branch=other)


def _scanned(
    body: Body, op: str, x: str, dtype: DType, first: float, axis: int, reverse: bool, is_exclusive: bool
) -> str:
    """Combine elements of a tensor that has some; where the number comes first, it is scanned and the last one is cut off."""
    number, which, from_end = body.constant(first, dtype), body.ints(axis), int(reverse)
    if is_exclusive:
        x, whole = body.node("Pad", x, body.ints(from_end ^ 1, from_end), number, which), x
    blank = body.node("Shape", body.node("Gather", x, body.constant(0, int64), axis=axis))
    start = body.node("Expand", number, blank)
    step = Body(outer=body)
    before, element = body.name("so_far"), body.name("element")
    after = step.node(op, before, element)
    row = step.node("Identity", after)
    inner = [(name, dtype, None) for name in (before, element, after, row)]
    _, found = body.several(
        "Scan", start, x, outputs=("last", "running"), body=Subgraph("running", step, tuple(inner[:2]), tuple(inner[2:])),
        num_scan_inputs=1, scan_input_axes=(axis,), scan_input_directions=(from_end,), scan_output_axes=(axis,),
        scan_output_directions=(from_end,),
    )  # fmt: skip
    if not is_exclusive:
        return found
    size = body.node("Shape", whole, start=axis, end=axis + 1)
    return body.node("Slice", found, body.ints(from_end), body.node("Add", size, body.ints(from_end)), which)


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


never("it is a step of sorting", "jn.argsort", "sort_keys", "sort_block", "sort_lines", "sorted_positions", "least_positions")
never("it is a step of Fourier transforms", "jn.fft", "fft_block")

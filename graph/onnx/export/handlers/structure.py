"""Writes ops that move values; sizes that are known at a run come as values of `Sizes`."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

import numpy as np

from .....promotion.dtype import float32, int64, uint64
from .....promotion.literals import number_of
from ....constants import scalar_array
from ....dims.dim import Dim, Extent, lower_bound
from ....symbol import Symbol
from ..body import Body, Refused
from ..registry import Call, writes
from ..sizes import Sizes

SizedWriter: TypeAlias = Callable[..., "str | None"]
"""(body, sizes, symbol, *names of operands) → name of the result; None leaves the symbol to its `Writer`."""

SIZED: dict[str, SizedWriter] = {}
"""Rows whose nodes read sizes or shapes, so that they stand in the graph itself and are no functions."""
_FIRST = -(2**63)
"""A stop before the first element, whatever the size of the axis: -1 would be the last one."""


def sized(*rows: str) -> Callable[[SizedWriter], SizedWriter]:
    """Register the writer of rows whose nodes read sizes."""

    def register(writer: SizedWriter) -> SizedWriter:
        SIZED.update(dict.fromkeys(rows, writer))
        return writer

    return register


@sized("dim_value")
def dim_value(body: Body, sizes: Sizes, symbol: Symbol) -> str:
    return sizes.scalar(symbol.attrs["extent"])


@sized("reshape")
def reshape(body: Body, sizes: Sizes, symbol: Symbol, x: str) -> str:
    shape = sizes.vector(symbol.attrs["shape"])
    return body.op("Reshape", symbol.dtype, x, others=(shape,), allowzero=1)


@sized("broadcast_to")
def broadcast_to(body: Body, sizes: Sizes, symbol: Symbol, x: str) -> str:
    return body.op("Expand", symbol.dtype, x, others=(sizes.vector(symbol.attrs["shape"]),))


@sized("slice")
def slicing(body: Body, sizes: Sizes, symbol: Symbol, x: str) -> str:
    """Slice the axes that are not taken whole. With a negative step stops count from the end, past the first element."""
    starts: list[Extent] = []
    stops: list[Extent] = []
    axes: list[int] = []
    steps: list[int] = []
    attrs, shape = symbol.attrs, symbol.inputs[0].shape
    for axis, (start, stop, step) in enumerate(zip(attrs["starts"], attrs["stops"], attrs["steps"], strict=True)):
        if step == 1 and start == 0 and stop == shape[axis]:
            continue
        if step < 0 and isinstance(start, int) and start < 0:  # nothing: ONNX would count from the end
            start, stop, step = 0, 0, 1
        elif step < 0:
            stop = stop - shape[axis]
            if isinstance(start, Dim):
                below, start = lower_bound(start), start - shape[axis]
                if not isinstance(start, int) and (below is None or below < 0):
                    raise Refused(
                        f"the slice may begin before the first element of axis {axis}, which ONNX takes for the last one",
                        "joinery.flip, and a slice with a positive step",
                    )
        starts.append(start)
        stops.append(stop)
        axes.append(axis)
        steps.append(step)
    given = (sizes.vector(starts), sizes.vector(stops), body.ints(*axes), body.ints(*steps))
    return body.op("Slice", symbol.dtype, x, others=given)


@sized("mean")
def mean_over_space(body: Body, sizes: Sizes, symbol: Symbol, x: str) -> str | None:
    """Take the mean over all of space by one operator, which runtimes keep in their own order of axes: two or three of them.

    A mean over the last of three axes is as often one over features, and stays ReduceMean.
    """
    rank = len(symbol.shape)
    is_spatial = 3 < rank < 6 and symbol.attrs["keepdims"] and tuple(sorted(symbol.attrs["axes"])) == tuple(range(2, rank))
    is_known_empty = 0 in symbol.inputs[0].shape
    return body.node("GlobalAveragePool", x) if is_spatial and symbol.dtype is float32 and not is_known_empty else None


@sized("pad")
def pad(body: Body, sizes: Sizes, symbol: Symbol, x: str) -> str:
    attrs = symbol.attrs
    widths = sizes.vector((*attrs["low"], *attrs["high"]))
    x, wide = body.carried("Pad", x, symbol.dtype)
    value: tuple[str, ...] = ()
    if attrs["mode"] == "constant":
        exact = scalar_array(attrs["value"], symbol.dtype)
        value = (body.constant(exact if wide is symbol.dtype else number_of(exact.reshape(-1)[0]), wide),)
    padded = body.node("Pad", x, widths, *value, mode=attrs["mode"])
    return body.returned("Pad", padded, wide, symbol.dtype)


def checked(body: Body, which: Symbol, indices: str) -> str:
    """Return positions that operators take as they are: out of range, they are an error of the runtime."""
    return indices if which.dtype.name in ("int32", "int64") else body.cast(indices, which.dtype, int64)


@sized("positions_in_range")
def positions_in_range(body: Body, sizes: Sizes, symbol: Symbol, indices: str, size: str) -> str:
    return body.node("Identity", indices)


@sized("gather")
def gather_in_range(body: Body, sizes: Sizes, symbol: Symbol, x: str, indices: str) -> str | None:
    """Gather at positions that are constants inside the axis, or that the operator itself has to refuse."""
    data, which = symbol.inputs
    extent = data.shape[symbol.attrs["axis"]]
    if which.op.name == "positions_in_range":
        return body.op("Gather", symbol.dtype, x, others=(checked(body, which, indices),), axis=symbol.attrs["axis"])
    if which.op.name not in ("constant", "weight") or which.dtype.name not in ("int32", "int64") or isinstance(extent, Dim):
        return None
    positions = which.attrs["value"]
    if positions.size and not (-extent <= int(positions.min()) and int(positions.max()) < extent):
        return None
    return body.op("Gather", symbol.dtype, x, others=(indices,), axis=symbol.attrs["axis"])


@sized("take_along_axis")
def broadcast_along_axis(body: Body, sizes: Sizes, symbol: Symbol, x: str, indices: str) -> str | None:
    """Broadcast data and indices against each other where they differ, which GatherElements does not."""
    axis = symbol.attrs["axis"]
    data, which = symbol.inputs
    wanted = (*symbol.shape[:axis], data.shape[axis], *symbol.shape[axis + 1 :])
    if data.shape == wanted and which.shape == symbol.shape:
        if which.op.name == "positions_in_range":
            return body.op("GatherElements", symbol.dtype, x, others=(checked(body, which, indices),), axis=axis)
        return None
    if data.shape != wanted:
        x = body.op("Expand", data.dtype, x, others=(sizes.vector(wanted),))
    if which.shape != symbol.shape:
        indices = body.op("Expand", which.dtype, indices, others=(sizes.vector(symbol.shape),))
    return take_along_axis(body, Call(symbol.op.name, (data.dtype, which.dtype), symbol.dtype, symbol.attrs, 0), x, indices)


@sized("windows")
def windows(body: Body, sizes: Sizes, symbol: Symbol, x: str) -> str:
    """Gather the windows along one axis after the other, at positions (count, size), and move their elements to the end."""
    attrs, rank = symbol.attrs, len(symbol.inputs[0].shape)
    numbers = zip(attrs["axes"], attrs["counts"], attrs["sizes"], attrs["strides"], attrs["dilations"], strict=True)
    for axis, count, size, stride, dilation in sorted(numbers, reverse=True, key=lambda each: each[0]):
        inside = np.arange(size, dtype=np.int64) * dilation
        if isinstance(count, int):
            at = body.constant(np.arange(count, dtype=np.int64)[:, None] * stride + inside, int64)
        else:
            first = body.node("Range", body.constant(0, int64), sizes.scalar(count), body.constant(1, int64))
            starts = body.node("Mul", body.node("Unsqueeze", first, body.ints(1)), body.constant(stride, int64))
            at = body.node("Add", starts, body.constant(inside, int64))
        x = body.op("Gather", symbol.dtype, x, others=(at,), axis=axis)
    kept = [axis + sum(other < axis for other in attrs["axes"]) for axis in range(rank)]
    return body.op("Transpose", symbol.dtype, x, perm=(*kept, *[kept[axis] + 1 for axis in attrs["axes"]]))


def positions(body: Body, x: str, indices: str, call: Call) -> str:
    """Return indices in int64, counted from the end where they are negative, and inside the axis."""
    axis, dtype = call.attrs["axis"], call.operands[1]
    size = body.node("Shape", x, start=axis, end=axis + 1)
    nothing, last = body.constant(0, int64), body.node("Sub", size, body.ints(1))
    scalar = body.node("Squeeze", size, body.ints(0))
    last = body.node("Max", body.node("Squeeze", last, body.ints(0)), nothing)
    if dtype.kind == "uint" and dtype.bits == 64:
        return body.cast(body.node("Min", indices, body.cast(last, int64, uint64)), uint64, int64)
    found = body.cast(indices, dtype, int64)
    if dtype.kind == "int":
        found = body.node("Where", body.node("Less", found, nothing), body.node("Add", found, scalar), found)
        found = body.node("Max", found, nothing)
    return body.node("Min", found, last)


@writes("gather")
def gather(body: Body, call: Call, x: str, indices: str) -> str:
    return body.op("Gather", call.result, x, others=(positions(body, x, indices, call),), axis=call.attrs["axis"])


@writes("take_along_axis")
def take_along_axis(body: Body, call: Call, x: str, indices: str) -> str:
    return body.op("GatherElements", call.result, x, others=(positions(body, x, indices, call),), axis=call.attrs["axis"])


@writes("concat")
def concat(body: Body, call: Call, *operands: str) -> str:
    return body.op("Concat", call.result, *operands, axis=call.attrs["axis"])


@writes("permute")
def permute(body: Body, call: Call, x: str) -> str:
    return body.op("Transpose", call.result, x, perm=call.attrs["axes"])


@writes("flip")
def flip(body: Body, call: Call, x: str) -> str:
    axes = call.attrs["axes"]
    if not axes:
        return body.node("Identity", x)
    count = len(axes)
    ends = body.constant(np.full(count, _FIRST, np.int64), int64)
    given = (body.ints(*[-1] * count), ends, body.ints(*axes), body.ints(*[-1] * count))
    return body.op("Slice", call.result, x, others=given)



"""Finds convolutions whose taps are moved by data, and elements that are put back to where a pooling found them."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from .....promotion.arrays import Array
from .....promotion.dtype import float32, int64
from ....dims.dim import Extent
from ....functions.building import apply
from ....functions.spatial.deformable import convolved_at
from ....functions.spatial.geometry import Windows, kernel_span
from ....functions.spatial.pooling import spread
from ....graph import Graph
from ....symbol import Symbol
from ...handlers.normalization import per_channel
from ..equality import found_among
from .composed import Composed, plain, walked

DEFORMED = 19
"""The opset that has DeformConv."""
_MAX_STEPS = 500
_MAX_STRIDE = 64


def convolution(root: Symbol, graph: Graph) -> Composed | None:
    """Return the node of a convolution whose taps are moved, with the bias that is added to it."""
    result, bias = root, None
    if root.op.name == "add":
        result, bias = root.inputs
        if bias.op.name != "reshape" or len(bias.inputs[0].shape) != 1:
            return None
        bias = bias.inputs[0]
    if result.op.name != "reshape" or len(result.shape) != 4 or result.dtype.name not in ("float32", "float64"):
        return None
    total = result.inputs[0]
    if total.op.name != "matmul" or len(total.shape) != 4 or total.inputs[0].op.name != "reshape":
        return None
    weights, wide = total.inputs[0].inputs[0], total.inputs[1]
    spatial = (*weights.shape[2:], *result.shape[2:])
    if len(weights.shape) != 4 or not all([isinstance(size, int) and size > 0 for size in spatial]):
        return None
    found = _operands(wide, weights, result)
    if found is None:
        return None
    over, group = found.over, int(wide.shape[1])  # type: ignore[arg-type]
    leaves = [each for each in (found.x, weights, found.offset, found.mask, bias) if each is not None]

    def make(_: Graph, x: Symbol, factors: Symbol, offset: Symbol, *rest: Symbol) -> Symbol:
        mask = None if found.mask is None else rest[0]
        value = convolved_at(x, factors, offset, mask, over, group, found.groups)
        return value if bias is None else apply("add", value, per_channel(rest[-1], 4))

    if found_among(graph, make, leaves, (root,)) is None:
        return None
    given: dict[str, Any] = {
        "kernel_shape": over.kernel, "strides": over.strides, "dilations": over.dilations, "pads": (*over.low, *over.high),
        "group": group, "offset_group": found.groups,
    }  # fmt: skip
    return plain("DeformConv", (found.x, weights, found.offset, bias, found.mask), root, **given)


class _Operands(NamedTuple):
    x: Symbol
    offset: Symbol
    mask: Symbol | None
    groups: int
    over: Windows


def _operands(wide: Symbol, weights: Symbol, result: Symbol) -> _Operands | None:
    columns = wide.inputs[0] if wide.op.name == "reshape" and wide.inputs[0].op.name == "concat" else wide
    each = columns.inputs if columns.op.name == "concat" else (columns,)
    kernel = (int(weights.shape[2]), int(weights.shape[3]))  # type: ignore[arg-type]
    taps, counts = math.prod(kernel), (int(result.shape[2]), int(result.shape[3]))  # type: ignore[arg-type]
    if len(each) != taps:
        return None
    inner = list(walked(each[0], _MAX_STEPS))
    reading = next((symbol for symbol in inner if symbol.op.name == "take_along_axis"), None)
    if reading is None or not isinstance(reading.inputs[0].shape[1], int):
        return None
    x: Symbol = reading.inputs[0]
    depth = int(x.shape[1])  # type: ignore[arg-type]
    while x.op.name == "reshape" and not (len(x.shape) == 4 and x.shape[0] == result.shape[0]):
        x = x.inputs[0]
    channels = x.shape[1] if len(x.shape) == 4 else None
    if not isinstance(channels, int) or not depth or channels % depth:
        return None
    if not all([isinstance(size, int) for size in x.shape[2:]]):
        return None
    groups, length = channels // depth, math.prod(counts)
    shape = (result.shape[0] * groups, taps, 2, length)
    moves = next((symbol for symbol in inner if symbol.op.name == "reshape" and symbol.shape == shape), None)
    if moves is None:
        return None
    over = _windows(moves, each, kernel, counts, [int(size) for size in x.shape[2:]])  # type: ignore[arg-type]
    if over is None:
        return None
    whole = (result.shape[0], groups * taps, *counts)
    masks = [each.inputs[0] for each in inner if each.op.name == "reshape" and each.shape == (shape[0], taps, length)]
    mask = next((each for each in masks if each.shape == whole), None)
    return _Operands(x, moves.inputs[0], mask, groups, over)


def _windows(
    moves: Symbol, columns: Sequence[Symbol], kernel: tuple[int, int], counts: tuple[int, int], space: Sequence[int]
) -> Windows | None:
    """Return the windows whose taps the constants that are added to offsets tell."""
    chosen = [columns[number % len(columns)] for number in (0, 1, kernel[1])]
    bases = [_bases(column, moves, counts) for column in chosen]
    if any([sorted(found) != [0, 1] for found in bases]):
        return None
    low, high, strides, dilations = [], [], [], []
    for axis in (0, 1):
        first, beside = bases[0][axis], bases[1 if axis else 2][axis]
        row = first[:, 0] if axis == 0 else first[0]
        before = -int(row[0])
        dilation = int(beside[0, 0] - first[0, 0]) if kernel[axis] > 1 else 1
        if before < 0 or dilation < 1:
            return None
        (span,) = kernel_span((kernel[axis],), (dilation,))
        stride = int(row[1] - row[0]) if len(row) > 1 else max(space[axis] + before - span + 1, 1)
        if stride < 1:
            return None
        after = max((counts[axis] - 1) * stride + span - space[axis] - before, 0)
        if (space[axis] + before + after - span) // stride + 1 != counts[axis]:
            return None
        low.append(before)
        high.append(after)
        strides.append(stride)
        dilations.append(dilation)
    return Windows(kernel, tuple(strides), tuple(dilations), tuple(low), tuple(high), counts)


def _bases(column: Symbol, moves: Symbol, counts: tuple[int, int]) -> Mapping[int, Array]:
    """Return for each axis where a tap would read, were it not moved."""
    found: dict[int, Array] = {}
    for each in walked(column, _MAX_STEPS):
        if each.op.name != "add" or each.inputs[1].op.name != "constant" or each.inputs[1].shape != (1, math.prod(counts)):
            continue
        source = each.inputs[0]
        axis = None
        while source.op.name in ("reshape", "slice") and source is not moves:
            if source.op.name == "slice" and source.inputs[0] is moves:
                axis = int(source.attrs["starts"][2])  # type: ignore[arg-type]
            source = source.inputs[0]
        if source is moves and axis is not None:
            found.setdefault(axis, np.asarray(each.inputs[1].attrs["value"]).reshape(counts))
    return found


# -- elements that are put back ----------------------------------------------------------------------------------------


def unpooled(root: Symbol, graph: Graph) -> Composed | None:
    """Return the node of elements (N, C, …) at positions in all of a larger tensor, of zeros elsewhere."""
    if root.op.name != "reshape" or root.inputs[0].op.name != "scatter" or root.dtype is not float32 or len(root.shape) < 3:
        return None
    written = root.inputs[0]
    flat = [each.inputs[0] for each in written.inputs if each.op.name == "reshape" and len(each.shape) == 1]
    x = next((each for each in flat if each.dtype is float32), None)
    where = next((each for each in flat if each.dtype is int64), None)
    if x is None or where is None or x.shape != where.shape or x.shape[:2] != root.shape[:2]:
        return None
    axes = [_implied(extent, size) for extent, size in zip(x.shape[2:], root.shape[2:], strict=False)]
    if len(x.shape) != len(root.shape) or None in axes:
        return None

    def make(_: Graph, values: Symbol, positions: Symbol) -> Symbol:
        return spread(values, positions, root.shape)

    if found_among(graph, make, (x, where), (root,)) is None:
        return None
    kernel, strides = zip(*[each for each in axes if each is not None], strict=True)
    return plain("MaxUnpool", (x, where), root, kernel_shape=kernel, strides=strides)


def _implied(extent: Extent, size: Extent) -> tuple[int, int] | None:
    """Return a window and a stride of which an axis of a size follows: windows side by side, if there are such ones."""
    found = None
    for stride in range(1, _MAX_STRIDE):
        window = size - (extent - 1) * stride
        if not isinstance(window, int):
            continue
        if window < 1:
            break
        found = (window, stride)
        if window <= stride:
            break
    return found

"""Finds poolings with channels first, which the importer makes of slices, axis by axis, and which become one node again."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from .....promotion.dataclass import dataclass
from .....promotion.dtype import float32
from ....dims.dim import Extent, exact_quotient
from ....functions.spatial.geometry import Windows
from ....graph import Graph
from ....symbol import Symbol
from ...handlers.spatial.pooling import counted
from ..equality import found_among
from .padding import Line, Widths, all_stated, stated, unpadded

_MAX_POOLED = frozenset(("float32", "float64", "float16", "int8", "uint8"))
"""Dtypes for which runtimes have MaxPool."""
_DILATED = 19
"""The opset from which on AveragePool has dilations."""


@dataclass(frozen=True, slots=True, eq=False)
class Pooled:
    """A pooling: the symbol whose value it computes, its operator and image (N, C, …), and its attributes."""

    root: Symbol
    op: str
    image: Symbol
    attributes: Mapping[str, Any]


@dataclass(frozen=True, slots=True, eq=False)
class _Taken:
    """The elements of windows along one axis, combined."""

    result: Symbol
    count: Extent
    size: int
    stride: int
    dilation: int


def has_dilations(dilations: Sequence[int], opset: int) -> bool:
    """Return whether AveragePool of an opset has windows of these dilations."""
    return opset >= _DILATED or all(gap == 1 for gap in dilations)


def averaging(attributes: Mapping[str, Any], opset: int) -> dict[str, Any]:
    """Return the attributes of AveragePool that an opset knows, without dilations of 1.

    onnxruntime copies them to QLinearAveragePool, which has none, where the images are quantised.
    """
    has = opset >= _DILATED and any(gap != 1 for gap in attributes.get("dilations", ()))
    return {name: value for name, value in attributes.items() if name != "dilations" or has}


def pooled(graph: Graph, taken: Symbol, consumers: Mapping[int, list[Symbol]], opset: int) -> Pooled | None:
    """Return the pooling whose first slice is `taken`, if there is one."""
    x = taken.inputs[0]
    rank = len(x.shape) - 2
    if rank < 1 or _first_axis(taken) is None:
        return None
    for op in ("maximum", "add"):
        along: list[_Taken] = []
        value = x
        for axis in range(2, rank + 2):
            found = _along(value, axis, op, consumers)
            if found is None:
                break
            along.append(found)
            value = found.result
        if len(along) == rank and any(each.size > 1 for each in along):
            if op == "maximum":
                return _largest(x, value, along)
            return _mean(graph, x, value, along, consumers, opset)
    return None


def _first_axis(symbol: Symbol) -> int | None:
    """Return the axis of space that a slice begins at the first element of and takes every so many elements of."""
    if symbol.op.name != "slice":
        return None
    attrs, shape = symbol.attrs, symbol.inputs[0].shape
    cut = [
        axis
        for axis, (start, stop, step) in enumerate(zip(attrs["starts"], attrs["stops"], attrs["steps"], strict=True))
        if (start, stop, step) != (0, shape[axis], 1)
    ]
    (axis,) = cut if len(cut) == 1 else (-1,)
    return axis if axis >= 2 and isinstance(attrs["starts"][axis], int) and attrs["steps"][axis] > 0 else None


def _start(symbol: Symbol, axis: int) -> int:
    start = symbol.attrs["starts"][axis]
    return start if isinstance(start, int) else -1


def _along(value: Symbol, axis: int, op: str, consumers: Mapping[int, list[Symbol]]) -> _Taken | None:
    """Return what combines the elements of windows along one axis: slices whose starts are equally far apart."""
    slices = [each for each in consumers.get(value.id, ()) if _first_axis(each) == axis]
    slices.sort(key=lambda each: _start(each, axis))
    if not slices or slices[0].attrs["starts"][axis] != 0:
        return None
    stride = slices[0].attrs["steps"][axis]
    count = exact_quotient(slices[0].attrs["stops"][axis] + stride - 1, stride)  # which may be below 0, unlike a shape
    if count is None:
        return None
    gap = _start(slices[1], axis) if len(slices) > 1 else 1
    result = slices[0]
    for number, each in enumerate(slices):
        start = number * gap
        bounds = (each.attrs["starts"][axis], each.attrs["stops"][axis], each.attrs["steps"][axis])
        if bounds != (start, start + (count - 1) * stride + 1, stride):
            return None
        if number:
            after = [
                both for both in consumers.get(each.id, ()) if both.op.name == op and both.inputs[0] is result
                and both.inputs[1] is each
            ]  # fmt: skip
            if len(after) != 1:
                return None
            result = after[0]
    return _Taken(result, count, len(slices), stride, gap)


def _lines(image: Symbol, along: Sequence[_Taken], widths: Widths) -> list[Line]:
    return [
        Line(extent, each.count, (each.size - 1) * each.dilation + 1, each.stride, low, high)
        for extent, each, (low, high) in zip(image.shape[2:], along, widths, strict=True)
    ]


def _steps(along: Sequence[_Taken]) -> dict[str, Any]:
    return {
        "kernel_shape": tuple([each.size for each in along]),
        "strides": tuple([each.stride for each in along]),
        "dilations": tuple([each.dilation for each in along]),
    }


def _fits(padding: Mapping[str, Any], lines: Sequence[Line]) -> bool:
    """Return whether no padding is as wide as a window, which poolings do not allow."""
    pads = padding.get("pads", ())
    return all(width < line.span for width, line in zip(pads, [*lines, *lines], strict=False))


def _largest(x: Symbol, root: Symbol, along: Sequence[_Taken]) -> Pooled | None:
    dtype = x.dtype
    if dtype.name not in _MAX_POOLED:
        return None
    image, widths = unpadded(x, float("-inf") if dtype.is_float else int(dtype.min_value), 1)
    lines = _lines(image, along, widths)
    padding = stated(lines, may_round_up=True)
    if padding is None or not _fits(padding, lines):
        return None
    return Pooled(root, "MaxPool", image, {**_steps(along), **padding})


def _mean(
    graph: Graph, x: Symbol, root: Symbol, along: Sequence[_Taken], consumers: Mapping[int, list[Symbol]], opset: int
) -> Pooled | None:
    if not has_dilations([each.dilation for each in along], opset):
        return None
    after = consumers.get(root.id, [])
    if x.dtype is not float32 or len(after) != 1 or after[0].op.name != "div" or after[0].inputs[0] is not root:
        return None  # what a mean is divided by is a sum over windows, too
    quotient = after[0]
    image, widths = unpadded(x, 0.0, 1)
    lines = _lines(image, along, widths)
    rank, steps = len(along), _steps(along)
    counts = tuple([each.count for each in along])
    for padding in all_stated(lines, may_round_up=True):
        if not _fits(padding, lines):
            continue
        pads = padding.get("pads", (*[low for low, _ in widths], *[high for _, high in widths]))
        over = Windows(steps["kernel_shape"], steps["strides"], steps["dilations"], pads[:rank], pads[rank:], counts)
        for include in (0, 1):
            def make(scratch: Graph, given: tuple[Windows, int] = (over, include)) -> Symbol:
                return counted(scratch, image.shape[2:], *given)

            if found_among(graph, make, (), (quotient.inputs[1],)) is not None:
                given = {**steps, **padding, "count_include_pad": include}
                return Pooled(quotient, "AveragePool", image, averaging(given, opset))
    return None

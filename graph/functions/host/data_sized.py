"""Provides operations whose sizes the values decide: they run on the host, between compiled parts."""

from __future__ import annotations

import json
from typing import Any

from ....promotion.dtype import DType, int64
from ...dims.dim import Dim, dim
from ...errors import describing
from ...graph import Graph
from ...ops.attributes import Attributes
from ...ops.shape import normalize_axis
from ...protocols import TensorLike
from ...symbol import Symbol
from ..building import apply, as_symbols, symbol_of


def fresh_dim(graph: Graph, hint: str) -> Dim:
    """Return a new name for a size that is known when the graph has run as far as that."""
    name = f"{hint}_{len(graph.symbols)}"
    while name in graph.outer_dims:  # of a region: the graphs around it count their own symbols
        name += "_"
    return dim(name)


def host(op: str, *operands: Symbol, sizes: tuple[Dim, ...] = (), dtype: DType | None = None, **options: Any) -> Symbol:
    """Apply a host operation with its options."""
    attrs: Attributes = {}
    if options:
        attrs["options"] = json.dumps(options)
    if sizes:
        attrs["extents"] = sizes
    if dtype is not None:
        attrs["dtype"] = dtype
    return operands[0].graph.apply(op, operands, attrs, dtype=dtype)


def size_of(count: Symbol) -> Dim:
    """Return the size that an integer says, which is known when the graph has run as far as that; 0 for a negative one."""
    size = fresh_dim(count.graph, "size")
    host("empty_rows", count, sizes=(size,))
    return size


def nonzero(x: TensorLike) -> Symbol:
    """Return the positions of elements that are not 0, as numpy.nonzero: one column each, one row for each axis.

    How many there are is known only when the graph has run as far as that: the size has a name of its own.
    """
    symbol = symbol_of("nonzero", x)
    return host("nonzero", symbol, sizes=(fresh_dim(symbol.graph, "nonzero"),))


def compress(x: TensorLike, condition: TensorLike, axis: int | None = None) -> Symbol:
    """Return the slices along `axis` where a vector of bools is true, as numpy.compress; of all elements by default."""
    value, mask = as_symbols("compress", x, condition)
    with describing("compress", value, mask):
        position = 0 if axis is None else normalize_axis(axis, len(value.shape))
    flat = value.reshape((-1,)) if axis is None else value
    if flat.shape[position] == 0 and mask.shape == (0,):  # no position, on an axis that has none
        return flat
    return apply("gather", flat, nonzero(mask)[0], axis=position)


def unique(
    x: TensorLike,
    axis: int | None = None,
    sorted: bool = True,  # noqa: A002 - NumPy's name
) -> tuple[Symbol, Symbol, Symbol, Symbol]:
    """Return the distinct slices along `axis` (elements by default), where each is first, which one each slice is, and counts.

    They are in ascending order, or in order of appearance. NaN equals NaN. As numpy.unique with all its results.
    """
    symbol = symbol_of("unique", x)
    with describing("unique", symbol):
        position = 0 if axis is None else normalize_axis(axis, len(symbol.shape))
    flat = symbol.reshape((-1,)) if axis is None else symbol
    count = fresh_dim(symbol.graph, "unique")

    def part(name: str, dtype: DType) -> Symbol:
        return host("unique", flat, sizes=(count,), dtype=dtype, axis=position, sorted=bool(sorted), part=name)

    return part("values", flat.dtype), part("first", int64), part("inverse", int64), part("counts", int64)


def non_max_suppression(
    boxes: TensorLike,
    scores: TensorLike,
    max_output_boxes_per_class: int,
    iou_threshold: float = 0.0,
    score_threshold: float = float("-inf"),
    center_point_box: bool = False,
) -> Symbol:
    """Return (batch, class, box) for the boxes of each class that overlap no better one by more than `iou_threshold`.

    Args:
        boxes: (batches, n, 4), two corners each, or with `center_point_box` center and size.
        scores: (batches, classes, n); boxes whose score is not above `score_threshold` are left out.
    """
    corners, given = as_symbols("non_max_suppression", boxes, scores)
    return host(
        "non_max_suppression", corners, given, sizes=(fresh_dim(corners.graph, "boxes"),), limit=max_output_boxes_per_class,
        iou=float(iou_threshold), score=float(score_threshold), centered=bool(center_point_box),
    )  # fmt: skip


def image_decode(data: TensorLike, pixel_format: str = "RGB") -> Symbol:
    """Return the pixels (height, width, channels) of a picture, given the bytes of its file.

    pixel_format: "RGB", "BGR" or "Grayscale". Needs Pillow, an extra: `pip install 'joinery-graph[images]'`.
    """
    symbol = symbol_of("image_decode", data)
    sizes = tuple([fresh_dim(symbol.graph, name) for name in ("height", "width")])
    return host("image_decode", symbol, sizes=sizes, pixels=pixel_format)

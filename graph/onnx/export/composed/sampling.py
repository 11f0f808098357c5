"""Finds images that are read between their pixels: at the positions of a grid, and in bins of regions."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

import numpy as np

from .....promotion.dtype import float32, int64
from ....functions.spatial.regions import aligned
from ....functions.spatial.sampling import sampled
from ....graph import Graph
from ....symbol import Symbol
from ..equality import found_among
from .composed import Composed, walked

_MODES = {"linear": "linear", "nearest": "nearest", "cubic": "cubic"}
_OLD_MODES = {"linear": "bilinear", "nearest": "nearest", "cubic": "bicubic"}
"""Names of modes before opset 20."""
_PLAIN = ("zeros", "border", "reflection")
_MAX_DEPTH = 400
_NO_REGIONS = 22
"""The opset from which on onnxruntime (1.32) has no RoiAlign."""


def grid_sample(root: Symbol, graph: Graph, opset: int) -> Composed | None:
    """Return the node of images that are sampled at a grid."""
    if root.op.name != "reshape" or root.dtype is not float32 or len(root.shape) < 3:
        return None
    reading = _reading(root)
    if reading is None:
        return None
    x, last = _image(reading, len(root.shape))
    if x is None:
        return None
    rank = len(x.shape) - 2
    counts = root.shape[1:-1] if last else root.shape[2:]
    for grid in _grids(reading.inputs[1], rank, (x.shape[0], *counts, rank)):
        rows = [each.op.name for each in walked(root, _MAX_DEPTH)]
        reads = rows.count("take_along_axis")
        mode = "nearest" if reads == 1 else "linear" if reads == 2**rank else "cubic"
        for outside, align in itertools.product(("reflection",) if "mod" in rows else _PLAIN, (False, True)):

            def make(_: Graph, image: Symbol, points: Symbol, given: tuple[str, str, bool] = (mode, outside, align)) -> Symbol:
                return sampled(image, points, *given, last)

            if found_among(graph, make, (x, grid), (root,)) is not None:
                if rank != 2 and (opset < 20 or mode == "cubic"):  # which is for images of two axes only
                    return None
                names = _MODES if opset >= 20 else _OLD_MODES
                given = {"mode": names[mode], "padding_mode": outside, "align_corners": int(align)}
                first = (0, rank + 1, *range(1, rank + 1))
                back = (0, *range(2, rank + 2), 1)
                return Composed("GridSample", (x, grid), ((root,),), given, {0: first} if last else {}, back if last else None)
    return None


def roi_align(root: Symbol, graph: Graph, opset: int) -> Composed | None:
    """Return the node of regions of images that are reduced to bins."""
    if opset >= _NO_REGIONS:
        return None
    if root.op.name not in ("reduce_max", "mean") or root.dtype is not float32 or len(root.shape) != 4:
        return None
    apart, reading = root.inputs[0], _reading(root.inputs[0])
    if apart.op.name != "reshape" or len(apart.shape) != 6 or reading is None or reading.inputs[0].op.name != "gather":
        return None
    chosen = reading.inputs[0]
    x, last = _image(reading, 4, chosen.inputs[0])
    if x is None:
        return None
    numbers = apart.shape[1:5] if last else apart.shape[2:6]
    if not all(isinstance(number, int) for number in numbers) or numbers[1] != numbers[3]:
        return None
    height, ratio, width = (int(number) for number in numbers[:3])  # type: ignore[arg-type]
    which = chosen.inputs[1]
    for rois, scale in _regions(reading.inputs[1], which.shape[0]):
        for half in (False, True):

            def make(_: Graph, image: Symbol, *given: Symbol, half: bool = half, scale: float = scale) -> Symbol:
                corners, images = given
                return aligned(image, corners, images, (height, width), ratio, scale, half, root.op.name == "reduce_max", last)

            if found_among(graph, make, (x, rois, which), (root,)) is not None and which.dtype is int64:
                given = {
                    "mode": "max" if root.op.name == "reduce_max" else "avg", "output_height": height, "output_width": width,
                    "sampling_ratio": ratio, "spatial_scale": scale,
                    "coordinate_transformation_mode": "half_pixel" if half else "output_half_pixel",
                }  # fmt: skip
                turned, back = ({0: (0, 3, 1, 2)}, (0, 2, 3, 1)) if last else ({}, None)
                return Composed("RoiAlign", (x, rois, which), ((root,),), given, turned, back)
    return None


def _reading(root: Symbol) -> Symbol | None:
    """Return where pixels are read, if a symbol is computed from these."""
    symbol = root
    for _ in range(40):  # sums of terms, each a product of pixels and weights
        if symbol.op.name == "take_along_axis":
            return symbol
        if symbol.op.name == "where":
            symbol = symbol.inputs[2] if symbol.inputs[1].op.name in ("constant", "broadcast_to") else symbol.inputs[1]
            continue
        if symbol.op.name not in ("reshape", "add", "mul", "maximum"):
            return None
        symbol = symbol.inputs[0]
    return None


def _image(reading: Symbol, rank: int, flat: Symbol | None = None) -> tuple[Symbol | None, bool]:
    """Return the images whose axes of space are one where they are read, and whether channels are last."""
    flat = reading.inputs[0] if flat is None else flat
    last = reading.attrs["axis"] == 1
    if flat.op.name != "reshape" or len(flat.inputs[0].shape) != rank:
        return (flat, last) if len(flat.shape) == rank else (None, last)
    return flat.inputs[0], last


def _grids(positions: Symbol, rank: int, shape: tuple[object, ...]) -> Iterator[Symbol]:
    for each in walked(positions, _MAX_DEPTH):
        if each.shape == shape and each.dtype is float32 and rank == shape[-1]:
            yield each


def _regions(positions: Symbol, count: object) -> Iterator[tuple[Symbol, float]]:
    """Yield what may be the corners of regions, and what they are multiplied by."""
    scales = dict.fromkeys(
        float(each.inputs[1].attrs["value"])
        for each in walked(positions, _MAX_DEPTH)
        if each.op.name == "mul" and each.inputs[1].op.name == "constant" and not each.inputs[1].shape
        and each.dtype.name == "float64"
    )  # fmt: skip
    for each in walked(positions, _MAX_DEPTH):
        if each.shape == (count, 4) and each.dtype is float32:
            for scale in scales:
                if scale == float(np.float32(scale)):  # an attribute is a float32
                    yield each, scale

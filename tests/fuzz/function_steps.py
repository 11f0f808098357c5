"""Draws steps that move, order and look up elements, take windows of images, and run other functions of several ops."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import joinery as jn
import numpy as np


class FunctionSteps:
    """The steps of `Steps` that are functions of several ops, or whose ops work in order.

    Positions that are found among rounded values may be anything, so that most of them take values that are exact.
    """

    one: Callable[..., Any]
    integer: Callable[[int, int], int]
    several: Callable[..., list[Any]]
    flag: Callable[[], bool]
    like: Callable[..., Any]
    axis: Callable[[Any], int]
    axes: Callable[[Any], tuple[int, ...]]
    indices: Callable[..., Any]
    is_rough: Callable[[Any], bool]
    graph: Any
    values: list[Any]
    count: int

    OF_FUNCTIONS = ("ordered", "search", "scatter", "lookup", "transform", "image", "image", "network", "running")

    def exactly(self, *values: Any) -> None:
        """Refuses values that may have been rounded."""
        if any(self.is_rough(value) for value in values):
            raise jn.UserError("positions among rounded values are anything")

    def known(self, *extents: Any) -> None:
        if not all(isinstance(extent, int) for extent in extents):
            raise jn.UserError("no constant has a symbolic shape")

    def inside(self, extents: Sequence[Any], *shape: int) -> Any:
        """Returns positions, on axes of known sizes those that these have; the last axis goes through several axes."""
        self.count += 1
        limits = [extent if isinstance(extent, int) else 7 for extent in extents]
        values = np.random.default_rng(self.count).integers(-1000, 1000, shape)
        if 0 in limits:
            raise jn.UserError("no position lies on an empty axis")
        wrapped = np.where(values < 0, -(-values % np.array(limits)), values % np.array(limits))
        return self.graph.constant(wrapped.astype(self.one("int64", "int32", "int16")))

    # -- order, positions -------------------------------------------------------------------------------------------------

    def ordered(self, x: Any) -> Any:
        self.exactly(x)
        axis = self.axis(x)
        name = self.one("sort", "argsort", "top_k", "bottom_k")
        if name in ("sort", "argsort"):
            return getattr(jn, name)(x, axis, self.flag())
        return self.one(*getattr(jn, name)(x, self.one(1, 2, 3, 8, 9, 0), axis))

    def search(self, x: Any) -> Any:
        self.exactly(x)
        if self.flag():
            self.count += 1
            within = np.sort(np.random.default_rng(self.count).integers(-8, 9, self.one(0, 1, 2, 7, 64))) / 4
            return jn.searchsorted(within.astype(self.one("float32", "float16", "float64")), x, self.one("left", "right"))
        vector = jn.sort(x.reshape((math.prod(x.shape),)))
        return jn.searchsorted(vector, self.like(x, *self.one((), (3,), (2, 4))), self.one("left", "right"))

    def scatter(self, x: Any) -> Any:
        self.exactly(x)
        axis = self.axis(x)
        shape = [self.one(1, 2, 5) if a == axis else extent for a, extent in enumerate(x.shape)]
        shape = [1 if a != axis and not isinstance(extent, int) else extent for a, extent in enumerate(shape)]
        reduction = self.one("none", "add", "mul", "min", "max")
        if x.dtype.is_bool and reduction != "none":
            raise jn.UserError("no sums of bools")
        if self.flag():
            return jn.scatter(x, self.like(x, *shape), self.inside([x.shape[axis]], *shape), axis, reduction)
        depth = self.integer(1, min(2, len(x.shape)))
        self.known(*x.shape[depth:])
        lead = self.one((1,), (3,), (2, 2))
        updates = self.like(x, *lead, *x.shape[depth:])
        return jn.scatter_nd(x, updates, self.inside(x.shape[:depth], *lead, depth), reduction)

    def lookup(self, x: Any) -> Any:
        batch = self.integer(0, 1) if len(x.shape) > 1 and isinstance(x.shape[0], int) else 0
        depth = self.integer(0, min(2, len(x.shape) - batch))
        lead = (*x.shape[:batch], *self.one((), (3,), (2, 5)))
        if not batch and not lead:
            lead = (1,)
        return jn.gather_nd(x, self.indices(*lead, depth), batch)

    def running(self, x: Any) -> Any:
        if self.one(False, True):
            return getattr(jn, self.one("cummax", "cummin"))(x, self.axis(x), reverse=self.flag())
        self.exactly(x)
        limited = jn.minimum(x if x.dtype.kind == "uint" else jn.maximum(x, -1), 1)
        return jn.cumprod(limited, self.axis(x), exclusive=self.flag(), reverse=self.flag())

    # -- functions of several ops -----------------------------------------------------------------------------------------

    def transform(self, x: Any) -> Any:
        axis = self.axis(x)
        self.known(x.shape[axis])
        length = self.one(None, None, 1, 2, 3, 8, 12, 65)
        pairs = jn.rfft(x, length, axis)
        if self.flag():
            return pairs[..., self.one(0, 1)]
        return jn.irfft(pairs, None, axis) if self.flag() else jn.ifft(pairs, axis=axis)[..., 0]

    def image_of(self, x: Any) -> Any:
        """Returns a value as images (N, …, C) with one or two axes of space."""
        if len(x.shape) < 3:
            return x.reshape((1, *x.shape, 1)) if len(x.shape) == 2 or self.flag() else x.reshape((1, math.prod(x.shape), 1))
        return x if len(x.shape) == 4 else x.reshape((*x.shape[:2], math.prod(x.shape[2:-1]), x.shape[-1]))

    def image(self, x: Any) -> Any:
        image = self.image_of(x)
        rank = len(image.shape) - 2
        if rank < 1:
            raise jn.UserError("no axes of space")
        sizes, strides, dilations = (tuple(self.several(o, rank, rank)) for o in ((1, 2, 3), (1, 1, 2), (1, 1, 2)))
        padding = [(self.integer(0, 1) if size > 1 else 0,) * 2 for size in sizes]
        name = self.one(
            "conv", "conv_transpose", "max_pool", "avg_pool", "lp_pool", "indices", "unpool", "resize", "grid", "lrn"
        )
        if name in ("conv", "conv_transpose"):
            self.known(image.shape[-1])
            channels = image.shape[-1]
            groups = self.one(1, 1, channels or 1)
            filters = self.one(1, 4) * groups
            shape = (channels // groups, filters) if name == "conv" else (filters // groups, channels)
            return getattr(jn, name)(image, self.like(image, *sizes, *shape), strides, dilations, padding, groups=groups)
        if name in ("max_pool", "avg_pool", "lp_pool"):
            options = {"ceil_mode": self.flag()}
            if name == "lp_pool":
                options["p"] = self.one(1, 2, 3)
            return getattr(jn, name)(image, sizes, strides, dilations, padding, **options)
        if name == "lrn":
            return jn.lrn(image, self.one(1, 2, 5), 0.5, axis=self.one(-1, 1))
        if name == "resize":
            mode = self.one("nearest", "linear", "cubic")
            coordinates = self.one("half_pixel", "asymmetric", "align_corners", "pytorch_half_pixel")
            given = {"scale": self.one(2, 0.5, 1.5)} if self.flag() else {"size": self.one(1, 4, 7)}
            return jn.resize(image, mode=mode, coordinates=coordinates, **given)
        if name == "grid":
            self.count += 1
            points = np.random.default_rng(self.count).integers(-9, 10, (1, *((3, 4)[:rank]), rank)) / 8
            grid = jn.broadcast_to(self.graph.constant(points.astype(np.float32)), (image.shape[0], *points.shape[1:]))
            outside = self.one("zeros", "border", "reflection")
            return jn.grid_sample(image, grid, self.one("linear", "nearest", "cubic"), outside, self.flag())
        self.exactly(image)
        best, where = jn.max_pool_with_indices(image, sizes, strides, dilations, padding)
        return where if name == "indices" else jn.max_unpool(best, where, sizes, strides, output_size=image.shape[1:-1])

    def network(self, x: Any) -> Any:
        if len(x.shape) < 2 or not isinstance(x.shape[-1], int) or x.shape[-1] < 1:
            raise jn.UserError("no features")
        if not x.dtype.is_float:
            x = x.cast(self.one("float32", "float16", "float64"))
        if self.is_rough(x):
            x = jn.minimum(jn.maximum(x, -2), 2)
        width = x.shape[-1]
        name = self.one("rnn", "lstm", "gru", "loss", "rotary", "norm")
        if name == "norm":
            return jn.lp_norm(jn.abs(x) + 1, self.one(1, 2), self.axis(x))
        if name == "loss":
            self.known(*x.shape)
            targets = self.graph.constant(np.arange(math.prod(x.shape[:-1])).reshape(x.shape[:-1]) % width)
            return jn.cross_entropy(x, targets, None, self.one(None, 0), self.one("none", "sum", "mean"), -1)
        if name == "rotary":
            if width < 2:
                raise jn.UserError("no pairs")
            length = self.one(1, 3)
            count = math.prod(x.shape[:-1])
            wide = jn.broadcast_to(x.reshape((count, 1, 1, width)), (count, 2, length, width))
            tables = [self.like(x, length, self.one(1, width // 2))] * 2
            return jn.rotary_embedding(wide, *tables, None, self.flag())
        steps = x.reshape((math.prod(x.shape[:-1]), width))
        sequence = jn.stack([steps] * self.one(1, 2, 3))
        gates = {"rnn": 1, "gru": 3, "lstm": 4}[name] * 3
        w, r = self.like(x, 1, gates, width), self.like(x, 1, gates, 3)
        return self.one(*getattr(jn, name)(sequence, w, r, direction=self.one("forward", "reverse")))

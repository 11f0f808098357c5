"""Reduces regions of images whose bins take as many pixels or samples as they are large, which data decides.

Every region takes the largest number of samples of any, and those beyond its own do not count.
"""

from __future__ import annotations

from ....promotion.dataclass import dataclass
from ....promotion.dtype import float32, float64, int64
from ...construction import primitives
from ...dims.dim import Dim, Extent
from ...symbol import Symbol
from ..building import apply
from ..host.data_sized import size_of
from ..positions import counting
from .sampling import Image, clamped, image_of


@dataclass(frozen=True, slots=True, eq=False)
class Line:
    """Where the bins of regions take samples along one axis.

    Attributes:
        where: coordinates (K, bins, samples).
        counts: which of them are samples of the bin.
        number: how many each bin has, (K, 1), in float64.
    """

    where: Symbol
    counts: Symbol
    number: Symbol


def sampled_lines(rois: Symbol, size: tuple[int, int], scale: float, half_pixel: bool) -> list[Line]:
    """Return the samples of `roi_align` along both axes, as many in each bin as it is pixels large, rounded up."""
    lines = []
    for axis, bins in enumerate(size):
        start, extent = _span(rois.cast(float64), axis, scale, half_pixel)
        own = _span(rois.cast(float32), axis, scale, half_pixel)[1]  # how many there are is rounded as runtimes round it
        number = apply("maximum", apply("ceil", apply("div", own, float(bins))), 0.0).cast(float64)
        most = _largest(number)
        count = rois.shape[0]
        step = counting(rois.graph, most).cast(float64).reshape((1, 1, most))
        safe = apply("maximum", number, 1.0).reshape((count, 1, 1))
        inside = apply("div", apply("add", step, 0.5), safe)
        bin_ = counting(rois.graph, bins).cast(float64).reshape((1, bins, 1))
        steps = apply("div", apply("add", bin_, inside), float(bins))
        where = apply("add", start.reshape((count, 1, 1)), apply("mul", extent.reshape((count, 1, 1)), steps))
        counts = apply("less", step, number.reshape((count, 1, 1)))
        lines.append(Line(where, apply("broadcast_to", counts, shape=where.shape), number.reshape((count, 1))))
    return lines


def _span(rois: Symbol, axis: int, scale: float, half_pixel: bool) -> tuple[Symbol, Symbol]:
    shift = 0.5 if half_pixel else 0.0
    start, end = (apply("sub", apply("mul", rois[:, column - axis], scale), shift) for column in (1, 3))
    extent = apply("sub", end, start)
    return start, extent if half_pixel else apply("maximum", extent, 1.0)


def _largest(number: Symbol) -> Dim:
    """Return the largest of numbers, of which there may be none, as a size of 1 or more."""
    flat = number.reshape((-1,)).cast(int64)
    padded = apply("pad", flat, low=(0,), high=(1,), mode="constant", value=1)
    return size_of(apply("reduce_max", padded, axes=(0,), keepdims=False))


def grid_of_lines(lines: list[Line]) -> list[Symbol]:
    """Return the coordinates of all samples (K, L) along each axis."""
    count = lines[0].where.shape[0]
    height, width = (line.where.shape[1] * line.where.shape[2] for line in lines)
    shapes = ((count, height, 1), (count, 1, width))
    wide = [
        apply("broadcast_to", primitives.reshape(line.where, shape), shape=(count, height, width))
        for line, shape in zip(lines, shapes, strict=True)
    ]
    return [primitives.reshape(each, (count, height * width)) for each in wide]


def reduced(values: Symbol, lines: list[Line], largest: bool, channels_last: bool) -> Symbol:
    """Reduce samples (K, C, L) or (K, L, C) to one number in each bin; a bin that has no samples gives 0."""
    count = values.shape[0]
    sizes = [extent for line in lines for extent in line.where.shape[1:]]
    channels = values.shape[2] if channels_last else values.shape[1]
    shape = (count, *sizes, channels) if channels_last else (count, channels, *sizes)
    first, axes = (1, (2, 4)) if channels_last else (2, (3, 5))
    apart = primitives.reshape(values, shape)
    counts: Symbol | None = None
    for axis, line in enumerate(lines):
        wide: list[Extent] = [count, *(1,) * 5]
        wide[first + 2 * axis], wide[first + 2 * axis + 1] = line.where.shape[1:]
        here = primitives.reshape(line.counts, wide)
        counts = here if counts is None else apply("logical_and", counts, here)
    assert counts is not None
    if largest:
        best = apply("reduce_max", apply("where", counts, apart, float("-inf")), axes=axes, keepdims=False)
        return apply("where", apply("equal", best, float("-inf")), 0.0, best)
    total = apply("reduce_sum", apply("where", counts, apart, 0.0), axes=axes, keepdims=False)
    number = apply("maximum", apply("mul", lines[0].number, lines[1].number), 1.0)
    return apply("div", total, number.reshape((count, 1, 1, 1)).cast(total.dtype))


def max_pooled(x: Symbol, rois: Symbol, size: tuple[int, int], scale: float) -> Symbol:
    """Return the largest pixels (K, C, …) of bins of regions (K, 5), an image's number and whole corners, of images (N, C, …).

    As ONNX's MaxRoiPool: corners are rounded, halves away from zero, and belong to the region; bins overlap by a pixel where
    the region is no multiple of them.
    """
    count, work = rois.shape[0], rois.cast(float32)
    lines = []
    for axis, bins in enumerate(size):
        start, end = (_rounded(apply("mul", work[:, column - axis], scale)) for column in (2, 4))
        pixels = apply("maximum", apply("add", apply("sub", end, start), 1.0), 1.0)
        each = apply("div", pixels, float(bins)).reshape((count, 1))
        bin_ = counting(x.graph, bins).cast(float32).reshape((1, bins))
        begin = start.reshape((count, 1))
        low = apply("add", apply("floor", apply("mul", bin_, each)), begin)
        high = apply("add", apply("ceil", apply("mul", apply("add", bin_, 1.0), each)), begin)
        low, high = (clamped(edge, x.shape[2 + axis]) for edge in (low, high))
        most = _largest(apply("sub", high, low))
        where = apply("add", low.reshape((count, bins, 1)), counting(x.graph, most).cast(float32).reshape((1, 1, most)))
        lines.append(Line(where, apply("less", where, high.reshape((count, bins, 1))), pixels.reshape((count, 1))))
    image = image_of(x, False)
    chosen = apply("gather", image.values, rois[:, 0].cast(int64), axis=0)
    return reduced(Image(chosen, image.sizes, False).pixels(grid_of_lines(lines)), lines, True, False)


def _rounded(x: Symbol) -> Symbol:
    """Round halves away from zero."""
    whole = apply("floor", apply("add", apply("abs", x), 0.5))
    return apply("where", apply("less", x, 0.0), apply("negate", whole), whole)

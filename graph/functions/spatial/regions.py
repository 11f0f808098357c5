"""Defines `roi_align`: regions of images in a number of bins."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

import numpy as np

from ....promotion.dtype import float64
from ...construction import primitives
from ...errors import describing, mistake
from ...graph import graph_of
from ...ops.opdef import accumulator
from ...protocols import TensorLike
from ...symbol import Symbol
from ...types import shape_text
from ..building import apply
from ..reductions import max_, mean
from .region_sizes import grid_of_lines, reduced, sampled_lines
from .sampling import Image, clamped, image_of, linear_taps, number


def aligned(
    x: Symbol, rois: Symbol, batch_indices: Symbol, size: tuple[int, int], ratio: int, scale: float, half_pixel: bool,
    largest: bool, channels_last: bool,
) -> Symbol:  # fmt: skip
    """Reduce samples of regions (K, 4) of images, `ratio` along each axis of a bin, to their mean, or the largest.

    ratio: 0 for as many as the bin is pixels large, rounded up.
    """
    count = rois.shape[0]
    if ratio == 0:
        own = sampled_lines(rois, size, scale, half_pixel)
        image = image_of(x, channels_last)
        chosen = apply("gather", image.values, batch_indices, axis=0)
        samples = _bilinear(Image(chosen, image.sizes, channels_last), grid_of_lines(own), largest)
        return reduced(samples, own, largest, channels_last)
    work, shift = rois.cast(float64), 0.5 if half_pixel else 0.0
    lines: list[Symbol] = []
    for axis, bins in enumerate(size):
        start = apply("sub", apply("mul", work[:, 1 - axis], scale), shift)
        extent = apply("sub", apply("sub", apply("mul", work[:, 3 - axis], scale), shift), start)
        if not half_pixel:
            extent = apply("maximum", extent, 1.0)
        steps = (np.arange(bins)[:, None] + (np.arange(ratio) + 0.5) / ratio).reshape(1, -1) / bins
        offsets = apply("mul", primitives.reshape(extent, (count, 1)), x.graph.constant(steps, float64))
        lines.append(apply("add", primitives.reshape(start, (count, 1)), offsets))
    height, width = (bins * ratio for bins in size)
    whole = (count, height, width)
    y = apply("broadcast_to", primitives.reshape(lines[0], (count, height, 1)), shape=whole)
    z = apply("broadcast_to", primitives.reshape(lines[1], (count, 1, width)), shape=whole)
    flat = [primitives.reshape(each, (count, height * width)) for each in (y, z)]
    image = image_of(x, channels_last)
    chosen = apply("gather", image.values, batch_indices, axis=0)
    values = _bilinear(Image(chosen, image.sizes, channels_last), flat, largest)
    bins_of = (size[0], ratio, size[1], ratio)
    channels = x.shape[-1] if channels_last else x.shape[1]
    shape = (count, *bins_of, channels) if channels_last else (count, channels, *bins_of)
    axes = (2, 4) if channels_last else (3, 5)
    apart = primitives.reshape(values, shape)
    return max_(apart, axis=axes) if largest else mean(apart, axes)


def _bilinear(image: Image, where: Sequence[Symbol], largest: bool) -> Symbol:
    """Return the sum of the four weighted corners, or the largest of them; 0 further outside than one pixel."""
    taps = []
    valid: Symbol | None = None
    for size, each in zip(image.sizes, where, strict=True):
        near = apply("logical_and", apply("greater_equal", each, -1.0), apply("less_equal", each, number(each, size)))
        valid = near if valid is None else apply("logical_and", valid, near)
        taps.append(linear_taps(clamped(each, size - 1)))
    assert valid is not None
    total: Symbol | None = None
    for (first, first_weight), (second, second_weight) in itertools.product(*taps):
        weight = apply("where", valid, apply("mul", first_weight, second_weight), 0.0).cast(image.values.dtype)
        term = apply("mul", image.pixels((first, second)), image.beside(weight))
        total = term if total is None else apply("maximum" if largest else "add", total, term)
    assert total is not None
    return total


def roi_align(
    x: TensorLike, rois: TensorLike, batch_indices: TensorLike, output_size: int | Sequence[int], spatial_scale: float = 1.0,
    sampling_ratio: int = 2, mode: str = "avg", half_pixel: bool = True,
) -> Symbol:  # fmt: skip
    """Return regions of images in bins of equal size, each the mean of samples between pixels (He et al., 2017).

    As ONNX's RoiAlign and torchvision's roi_align, with channels last. x and rois join in a float dtype, the result's; 16-bit
    floats are computed in float32, positions in float64.

    Args:
        x: (N, H, W, C), with sizes that may be symbolic.
        rois: (K, 4), the corners x₁, y₁, x₂, y₂ of each region.
        batch_indices: (K,) integers: of which image each region is one.
        output_size: the number of bins along both axes, or (height, width).
        spatial_scale: what corners are multiplied by to become pixels.
        sampling_ratio: how many samples a bin has along each axis; with 0 as many as it is pixels large, rounded up, which data
            decides, so that the graph runs in stages.
        mode: "avg", or "max": the largest of the weighted pixels that the samples lie between.
        half_pixel: whether pixels have their centers at half of them (torchvision's aligned=True); otherwise regions are at
            least one pixel wide and high.

    Returns (K, height, width, C). Raises `UserError` for operands of other axes.

    Example:
        >>> images, rois = jn.TensorType(jn.float32, (1, 8, 8, 3), "x"), jn.TensorType(jn.float32, ("k", 4), "rois")
        >>> g = jn.Graph("g", [images, rois, jn.TensorType(jn.int64, ("k",), "which")])
        >>> jn.roi_align(*g.inputs, 2).shape
        (Dim('k'), 2, 2, 3)
    """
    op = "roi_align"
    graph = graph_of(op, x, rois, batch_indices)
    joined = graph.promoted(op, (x, rois), "div")
    result = joined[0].dtype
    value, corners = (primitives.cast(each, accumulator(result)) for each in joined)
    which = graph.as_symbol(batch_indices, op)
    size = (output_size,) * 2 if isinstance(output_size, int) else tuple(output_size)
    operands = (value, corners, which)
    if len(value.shape) != 4 or len(corners.shape) != 2 or corners.shape[1] != 4 or len(which.shape) != 1:
        what = f"images {shape_text(value.shape)}, regions {shape_text(corners.shape)}, indices {shape_text(which.shape)}"
        raise mistake(op, what, operands, "(N, H, W, C), (K, 4) and (K,)", "permute channels last")
    if not which.dtype.is_integer:
        raise mistake(op, f"indices of images are {which.dtype}", operands, "integers", "batch_indices.cast(int64)")
    if graph.shape_checks.decide(corners.shape[0], which.shape[0]) is False:
        raise mistake(op, f"{corners.shape[0]} regions, {which.shape[0]} indices", operands, "one for each", "slice one")
    with describing(op, *operands):
        graph.shape_checks.require_equal(corners.shape[0], which.shape[0], "the number of regions and of indices")
    whole = all(type(number) is int for number in (*size, sampling_ratio))
    if len(size) != 2 or not whole or min(size) < 1 or sampling_ratio < 0:
        what = f"output_size {output_size}, sampling_ratio {sampling_ratio}"
        raise mistake(op, what, operands, "1 or more bins along both axes, 0 or more samples", "output_size=7")
    if mode not in ("avg", "max"):
        raise mistake(op, f"mode is {mode!r:.40}", operands, "avg or max", 'mode="avg"')
    if any(extent == 0 for extent in value.shape[1:3]):
        raise mistake(op, f"images {shape_text(value.shape)}", operands, "pixels to sample", "check the image")
    found = aligned(value, corners, which, (size[0], size[1]), sampling_ratio, float(spatial_scale), bool(half_pixel),
                    mode == "max", True)  # fmt: skip
    return primitives.cast(found, result)

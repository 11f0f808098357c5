"""Handles Fourier transforms, computed in float64 so that what cancels is 0."""

from __future__ import annotations

import numpy as np

from ....promotion.dtype import float64, int64
from ...dims.dim import maximum
from ...functions.building import apply
from ...functions.joining import stack
from ...functions.positions import counting
from ...functions.signal import fourier
from ...symbol import Symbol
from ..node import Node, Result
from ..registry import handles


def transformed(node: Node, x: Symbol, axis: int, length: int, inverse: bool, onesided: bool) -> Symbol:
    """Return the transform along an axis of a tensor whose last axis holds real, or real and imaginary parts."""
    if not 0 < length <= fourier.MAX_LENGTH:
        node.unsupported(f"a Fourier transform of length {length}", f"at most {fourier.MAX_LENGTH}")
    parts = x.shape[-1]
    node.require(parts in (1, 2), f"the last axis has {parts} elements; 1 or 2 are expected")
    node.require(not onesided or inverse or parts == 1, "onesided=1 of complex numbers")
    rank = len(x.shape) - 1
    order = (*[a for a in range(rank) if a != axis], axis)
    real, imaginary = (x[..., part].permute(order).cast(float64) if part < parts else None for part in (0, 1))  # type: ignore[operator]
    assert real is not None
    if inverse and onesided:
        results = [fourier.from_half(real, imaginary, length)]
    elif onesided:
        results = list(fourier.half_of(real, length))
    else:
        results = list(fourier.transformed((real, imaginary), length, 1 if inverse else -1))
    inverse_order = tuple([order.index(a) for a in range(rank)])
    return stack([result.permute(inverse_order) for result in results], rank).cast(x.dtype)


@handles("DFT")
def dft(node: Node) -> Result:
    """Transform along an axis, which is an input since opset 20."""
    x = node[0]
    number = node.attr("axis") if node.version < 20 else node.integer(2, "the axis of DFT") if node.has(2) else -2
    axis = node.axis(number, len(x.shape))
    node.require(axis < len(x.shape) - 1, f"axis {number} holds the parts of the numbers")
    inverse, onesided = bool(node.attr("inverse")), bool(node.attr("onesided"))
    if node.has(1):
        length = node.integer(1, "the length of DFT")
    else:
        extent = x.shape[axis]
        if not isinstance(extent, int):
            raise node.size_needed((extent,), f"a transform of {extent} elements")
        length = 2 * (extent - 1) if inverse and onesided else extent
    return transformed(node, x, axis, length, inverse, onesided)


@handles("STFT")
def stft(node: Node) -> Result:
    """Transform windows of a signal."""
    x = node[0]
    if len(x.shape) == 2:  # as torch writes it
        x = x.reshape((*x.shape, 1))
    node.require(len(x.shape) == 3, f"a signal of {len(x.shape)} axes; (batch, length, 1 or 2) is expected")
    step = node.integer(1, "the frame_step of STFT")
    window = node.get(2)
    node.require(window is None or len(window.shape) == 1, "a window that is no vector")
    extent = x.shape[1]
    length = node.integer(3, "the frame_length of STFT") if node.has(3) else window.shape[0] if window is not None else extent
    fits = not isinstance(extent, int) or not isinstance(length, int) or length <= extent
    node.require(isinstance(length, int) and length > 0 and fits and step > 0, f"frames of {length} each {step} of {extent}")
    length = int(length)  # type: ignore[arg-type]
    node.require(window is None or window.shape == (length,), "a window as long as the frames")
    if isinstance(extent, int):
        count = (extent - length) // step + 1
        node.require(count * length <= 1 << 24, f"{count} frames of {length}")
        positions = node.constant(np.arange(count)[:, None] * step + np.arange(length), int64)
    else:  # of a signal that is shorter than a frame there is none
        many = maximum((extent - length) // step + 1, 0)
        starts = apply("mul", counting(node.graph, many), step).reshape((many, 1))
        positions = apply("add", starts, node.constant(np.arange(length), int64))
    frames = apply("gather", x, positions, axis=1)
    if window is not None:
        frames = apply("mul", frames, window.reshape((1, 1, length, 1)))
    return transformed(node, frames, 2, length, False, bool(node.attr("onesided")))

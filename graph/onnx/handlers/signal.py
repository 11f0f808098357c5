"""Handles Fourier transforms, computed in float64 so that what cancels is 0."""

from __future__ import annotations

from ....promotion.dtype import DType, float64
from ...functions.signal import fourier
from ...symbol import Symbol
from ..node import Node, Result
from ..registry import handles

OWN_DTYPE = "fft"
"""What a node says it was written for, if its function computes in the dtype of its operand."""


def parts_of(x: Symbol) -> tuple[Symbol, Symbol | None]:
    """Return real and imaginary parts of a last axis of one or two; real numbers as they were before they got this axis."""
    if x.shape[-1] == 1:
        is_wide = x.op.name == "reshape" and x.inputs[0].shape == x.shape[:-1]
        return (x.inputs[0] if is_wide else x.reshape(x.shape[:-1])), None
    return x[..., 0], x[..., 1]


def _check(node: Node, x: Symbol, length: int) -> None:
    node.require(x.dtype.is_float, f"a transform of {x.dtype}", "floats")
    if not 0 < length <= fourier.MAX_LENGTH:
        node.unsupported(f"a Fourier transform of length {length}", f"at most {fourier.MAX_LENGTH}")
    node.require(x.shape[-1] in (1, 2), f"the last axis has {x.shape[-1]} elements; 1 or 2 are expected")


def _work(node: Node, x: Symbol) -> DType:
    return x.dtype if node.definition.row == OWN_DTYPE else float64


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
    _check(node, x, length)
    node.require(not onesided or inverse or x.shape[-1] == 1, "onesided=1 of complex numbers")
    return fourier.along_axis(parts_of(x), axis, length, 1 if inverse else -1, onesided, _work(node, x)).cast(x.dtype)


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
    _check(node, x, length)
    if isinstance(extent, int):
        count = (extent - length) // step + 1
        node.require(count * length <= 1 << 24, f"{count} frames of {length}")
    onesided = bool(node.attr("onesided"))
    node.require(not onesided or x.shape[-1] == 1, "onesided=1 of complex numbers")
    return fourier.spectra(parts_of(x), length, step, window, onesided, _work(node, x)).cast(x.dtype)

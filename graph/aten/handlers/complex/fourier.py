"""Handles Fourier transforms over one or several axes, of sizes that are known."""

from __future__ import annotations

import math
from collections.abc import Sequence

from ....construction import primitives
from ....dims.dim import Extent
from ....functions.building import apply
from ....functions.complex.parts import Complex
from ....functions.signal.fourier import from_half, half_of, transformed
from ....symbol import Symbol
from ...node import Node
from ...registry import handles_complex

_BY_ROOT, _BY_COUNT = 1, 2
"""ATen's numbers of normalisations: by the root of the count of elements, or by it; 0 is none."""


def _last(x: Symbol, axis: int) -> Symbol:
    return primitives.permute(x, (*[a for a in range(len(x.shape)) if a != axis], axis))


def _from_last(x: Symbol, axis: int) -> Symbol:
    last = len(x.shape) - 1
    return primitives.permute(x, (*range(axis), last, *range(axis, last)))


def _along(x: Complex, axis: int, length: int, sign: int) -> Complex:
    """Transform an axis. An inverse is divided by the length."""
    real, imaginary = transformed((_last(x.real, axis), _last(x.imaginary, axis)), length, sign)
    return Complex(_from_last(real, axis), _from_last(imaginary, axis))


def _factor(normalization: int, count: int, *, divided: int = 1) -> float:
    """Return what results are multiplied by. divided: by what they have been already."""
    scale = 1 / math.sqrt(count) if normalization == _BY_ROOT else 1 / count if normalization == _BY_COUNT else 1.0
    return scale * divided


def _scaled(node: Node, x: Symbol, factor: float) -> Symbol:
    return x if factor == 1 else apply("mul", x, node.number(factor, x.dtype))


def _lengths(node: Node, shape: Sequence[Extent], axes: Sequence[int]) -> tuple[int, ...]:
    return node.static([shape[axis] for axis in axes], "the axes of a Fourier transform")


@handles_complex("_fft_c2c.default")
def complex_to_complex(node: Node, x: Complex, dim: tuple[int, ...], normalization: int, forward: bool) -> Complex:
    """Transform complex numbers, forwards or backwards."""
    axes = [node.axis(number, len(x.shape)) for number in dim]
    lengths = _lengths(node, x.shape, axes)
    for axis, length in zip(axes, lengths, strict=True):
        x = _along(x, axis, length, -1 if forward else 1)
    count = math.prod(lengths)
    factor = _factor(normalization, count, divided=1 if forward else count)
    return Complex(_scaled(node, x.real, factor), _scaled(node, x.imaginary, factor))


@handles_complex("_fft_r2c.default")
def real_to_complex(node: Node, x: Symbol, dim: tuple[int, ...], normalization: int, onesided: bool) -> Complex:
    """Transform real numbers; of the last axis given, the second half may be left out."""
    axes = [node.axis(number, len(x.shape)) for number in dim]
    lengths = _lengths(node, x.shape, axes)
    axis, length = axes[-1], lengths[-1]
    moved = _last(x, axis)
    real, imaginary = half_of(moved, length) if onesided else transformed((moved, None), length, -1)
    found = Complex(_from_last(real, axis), _from_last(imaginary, axis))
    for other, size in zip(axes[:-1], lengths[:-1], strict=True):
        found = _along(found, other, size, -1)
    factor = _factor(normalization, math.prod(lengths))
    return Complex(_scaled(node, found.real, factor), _scaled(node, found.imaginary, factor))


@handles_complex("_fft_c2r.default")
def complex_to_real(node: Node, x: Complex, dim: tuple[int, ...], normalization: int, last_dim_size: Extent) -> Symbol:
    """Transform the first half of what is the transform of real numbers back into these."""
    axes = [node.axis(number, len(x.shape)) for number in dim]
    lengths = (*_lengths(node, x.shape, axes[:-1]), *node.static((last_dim_size,), "the size of a Fourier transform"))
    for axis, length in zip(axes[:-1], lengths[:-1], strict=True):
        x = _along(x, axis, length, 1)
    axis = axes[-1]
    real = from_half(_last(x.real, axis), _last(x.imaginary, axis), lengths[-1])
    count = math.prod(lengths)
    return _scaled(node, _from_last(real, axis), _factor(normalization, count, divided=count))

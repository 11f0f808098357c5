"""Provides Fourier transforms of complex64 and complex128, or of pairs of real and imaginary parts on a last axis."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias

import numpy as np

from ....promotion.dtype import DType
from ....promotion.errors import UnsupportedError
from ...construction import primitives
from ...dims.dim import Dim, Extent, lower_bound, maximum
from ...errors import compose, describing, mistake
from ...ops.complex import fourier as rows
from ...ops.shape import normalize_axis
from ...protocols import SymbolLike, TensorLike
from ...symbol import Symbol
from ...types import shape_text
from ..building import apply, as_floats, symbol_of
from ..complex.parts import Complex, parts_of, to_pairs, whole
from ..joining import stack
from ..positions import counting
from . import transforms

Parts: TypeAlias = "tuple[Symbol, Symbol | None]"
"""Real and imaginary parts; None stands for zeros."""

MAX_LENGTH = 1 << 22
"""Longest transform: what it is multiplied by between its parts are constants of the graph."""


def fft(x: TensorLike, n: int | None = None, axis: int = -1) -> Symbol:
    """Return the discrete Fourier transform of complex numbers, as numpy.fft.fft.

    Args:
        x: complex numbers, or floats of shape (…, 2): real and imaginary parts. The result is of the same kind.
        n: how many numbers along the axis are used; they are cut, or filled up with zeros. By default as many as there are,
            which must be a known number then.
        axis: the transformed axis; of pairs among those before the last one.
    """
    return _complex("fft", x, n, axis, -1)


def ifft(x: TensorLike, n: int | None = None, axis: int = -1) -> Symbol:
    """Return the inverse of `fft`, divided by the number of elements, as numpy.fft.ifft. The arguments are those of `fft`."""
    return _complex("ifft", x, n, axis, 1)


def rfft(x: TensorLike, n: int | None = None, axis: int = -1) -> Symbol:
    """Return the first n // 2 + 1 elements of the transform of real numbers, as pairs on a new last axis; as numpy.fft.rfft.

    The others are their conjugates. x: floats of any shape; n and axis are those of `fft`.
    """
    result, (symbol,) = as_floats("rfft", x)
    number = _axis("rfft", symbol, axis, len(symbol.shape))
    length = _length("rfft", symbol, symbol.shape[number], n)
    return primitives.cast(along_axis((symbol, None), number, length, -1, True, symbol.dtype), result)


def irfft(x: TensorLike, n: int | None = None, axis: int = -1) -> Symbol:
    """Return the `n` real numbers of which x is the `rfft`, as numpy.fft.irfft.

    Args:
        x: complex numbers, or floats of shape (…, 2), of which n // 2 + 1 along the axis are used.
        n: how many numbers there are; by default 2 (m - 1), where there are m pairs.
        axis: the transformed axis; of pairs among those before the last one.
    """
    given = symbol_of("irfft", x)
    result, (symbol,) = as_floats("irfft", to_pairs(parts_of(given)) if given.dtype.is_complex else given)
    number = _pairs("irfft", symbol, axis)
    extent = symbol.shape[number]
    length = _length("irfft", symbol, 2 * (extent - 1), n)
    real, imaginary = _parts(symbol, number, length // 2 + 1)
    inverse = from_half(real, imaginary, length)
    return primitives.cast(_from_last(inverse, number), result)


def stft(
    x: TensorLike, frame_length: int, frame_step: int, window: TensorLike | None = None, onesided: bool = True
) -> Symbol:
    """Return the transforms of frames of real signals: shape (…, frames, frame_length // 2 + 1, 2).

    Args:
        x: floats of shape (…, length). Frames lie within it: there are (length - frame_length) // frame_step + 1 of them.
        frame_length: how many numbers a frame has.
        frame_step: how far apart frames begin.
        window: numbers that each frame is multiplied by, of shape (frame_length,).
        onesided: whether only the first half of each transform is returned, of which the other one is the conjugate.
    """
    op = "stft"
    result, (symbol,) = as_floats(op, x)
    for name, value in (("frame_length", frame_length), ("frame_step", frame_step)):
        if type(value) is not int or value < 1:
            raise mistake(op, f"{name} is {value!r:.60}", (symbol,), "a number of elements", f"{name}=256")
    if not symbol.shape:
        raise mistake(op, "a signal without axes", (symbol,), "shape (…, length)", "stack numbers")
    weights = None
    if window is not None:
        weights = primitives.cast(symbol.graph.as_symbol(window, op), symbol.dtype)
        if weights.shape != (frame_length,):
            problem = f"a window of shape {shape_text(weights.shape)}"
            raise mistake(op, problem, (symbol, weights), f"shape ({frame_length},)", "another window")
    length = _length(op, symbol, frame_length, None)
    found = spectra((symbol, None), length, frame_step, weights, onesided, symbol.dtype)
    return primitives.cast(found, result)


def spectra(x: Parts, length: int, step: int, window: Symbol | None, onesided: bool, work: DType) -> Symbol:
    """Return the transforms of frames of signals (…, n), computed in a dtype, as (…, frames, length, 2), or a half."""
    framed = [None if part is None else frames(part, length, step) for part in x]
    if window is not None:
        framed = [None if part is None else apply("mul", part, window) for part in framed]
    real, imaginary = (None if part is None else primitives.cast(part, work) for part in framed)
    assert real is not None
    parts = half_of(real, length) if onesided else transformed((real, imaginary), length, -1)
    return _paired(parts)


def frames(x: Symbol, length: int, step: int) -> Symbol:
    """Return the frames of a last axis, as (…, frames, length); of a signal that is shorter than a frame there are none."""
    extent = x.shape[-1]
    count: Extent = maximum((extent - length) // step + 1, 0)
    if isinstance(count, int) or (lower_bound(extent) or 0) >= length:
        if count == 0:
            return apply("broadcast_to", x.graph.scalar(0.0, x.dtype), shape=(*x.shape[:-1], 0, length))
        axis = len(x.shape) - 1
        return apply("windows", x, axes=(axis,), counts=(count,), sizes=(length,), strides=(step,), dilations=(1,))
    starts = apply("mul", counting(x.graph, count), step)
    inside = x.graph.constant(np.arange(length, dtype=np.int64))
    return apply("gather", x, apply("add", primitives.reshape(starts, (count, 1)), inside), axis=len(x.shape) - 1)


# -- operands ----------------------------------------------------------------------------------------------------------


def _complex(op: str, x: TensorLike, n: int | None, axis: int, sign: int) -> Symbol:
    given = symbol_of(op, x)
    if given.dtype.is_complex:
        parts, number = parts_of(given), _axis(op, given, axis, len(given.shape))
        length = _length(op, given, given.shape[number], n)
        found = _along_axis((parts.real, parts.imaginary), number, length, sign, False, parts.real.dtype)
        return whole(Complex(*found))
    result, (symbol,) = as_floats(op, x)
    number = _pairs(op, symbol, axis)
    length = _length(op, symbol, symbol.shape[number], n)
    pairs = along_axis((symbol[..., 0], symbol[..., 1]), number, length, sign, False, symbol.dtype)
    return primitives.cast(pairs, result)


def along_axis(x: Parts, axis: int, length: int, sign: int, onesided: bool, work: DType) -> Symbol:
    """Transform an axis, cut or filled up to a length, in a dtype, and return the parts on a new last axis.

    onesided: the first half of the transform of real numbers, or (sign 1) the real inverse of such a half.
    """
    return _paired(_along_axis(x, axis, length, sign, onesided, work))


def _paired(parts: Sequence[Symbol]) -> Symbol:
    """Return parts on a new last axis: what they were cut from, if there is such."""
    found = rows.cut_from(*parts) if len(parts) == 2 else None
    return stack(list(parts), -1) if found is None else primitives.reshape(_symbol(found), (*parts[0].shape, 2))


def _along_axis(x: Parts, axis: int, length: int, sign: int, onesided: bool, work: DType) -> list[Symbol]:
    real, imaginary = (None if part is None else primitives.cast(_last(part, axis), work) for part in x)
    assert real is not None
    if onesided and sign > 0:
        found: Sequence[Symbol] = (from_half(real, imaginary, length),)
    else:
        found = half_of(real, length) if onesided else transformed((real, imaginary), length, sign)
    return [_from_last(part, axis) for part in found]


def _pairs(op: str, x: Symbol, axis: int) -> int:
    if len(x.shape) < 2 or x.shape[-1] != 2:
        expected = "real and imaginary parts: shape (…, 2)"
        raise mistake(op, "no pairs on the last axis", (x,), expected, "joinery.stack([re, im], -1)")
    return _axis(op, x, axis, len(x.shape) - 1)


def _axis(op: str, x: Symbol, axis: int, rank: int) -> int:
    with describing(op, x):
        return normalize_axis(axis, rank)


def _length(op: str, x: Symbol, extent: Extent, n: int | None) -> int:
    length: object = extent if n is None else n
    if isinstance(length, Dim):
        raise UnsupportedError(compose(f"{op}: a transform of {length} elements", (x,), "a known number", "n=1024"))
    if type(length) is not int or length < 1:
        raise mistake(op, f"a transform of {length!r:.60} elements", (x,), "1 or more", "n=1024")
    if length > MAX_LENGTH:
        problem = f"{op}: a transform of {length} elements"
        raise UnsupportedError(compose(problem, (x,), f"at most {MAX_LENGTH}", "transform parts of it"))
    return length


def _parts(x: Symbol, axis: int, length: int) -> Parts:
    """Return real and imaginary parts with the axis at the end, cut or filled up."""
    real, imaginary = (_last(x[..., part], axis) for part in (0, 1))
    return fitted(real, length), fitted(imaginary, length)


def fitted(x: Symbol, length: int) -> Symbol:
    """Cut the last axis, or add zeros, to a length."""
    extent = x.shape[-1]
    if extent == length:
        return x
    if isinstance(extent, int) and extent > length:
        return x[..., :length]
    lead = (0,) * (len(x.shape) - 1)
    return apply("pad", x, low=(*lead, 0), high=(*lead, length - extent), mode="constant", value=0.0)


def _last(x: Symbol, axis: int) -> Symbol:
    return primitives.permute(x, (*[a for a in range(len(x.shape)) if a != axis], axis))


def _from_last(x: Symbol, axis: int) -> Symbol:
    last = len(x.shape) - 1
    return primitives.permute(x, (*range(axis), last, *range(axis, last)))


# -- transforms of the last axis ---------------------------------------------------------------------------------------


def transformed(x: Parts, length: int, sign: int) -> tuple[Symbol, Symbol]:
    """Transform the last axis, cut or filled up to a length. With the sign 1 it is the inverse, divided by the length."""
    real, imaginary = fitted(x[0], length), None if x[1] is None else fitted(x[1], length)
    lines = _lines(real), None if imaginary is None else _lines(imaginary)
    found = transforms.transformed(lines, length, sign)
    first, second = found if sign < 0 else transforms.scaled(found, 1.0 / length)
    return _like(first, real, length), _like(second, real, length)


def half_of(x: Symbol, length: int) -> tuple[Symbol, Symbol]:
    """Return the first half of the transform of real numbers on the last axis; the other one is its conjugate."""
    real, imaginary = transforms.half_of(_lines(fitted(x, length)), length)
    return _like(real, x, length // 2 + 1), _like(imaginary, x, length // 2 + 1)


def from_half(real: Symbol, imaginary: Symbol | None, length: int) -> Symbol:
    """Return the real inverse of a spectrum of which the first half is given, on the last axis; the other is its conjugate."""
    half = length // 2 + 1
    first = fitted(real, half)
    second = apply("mul", first, 0.0) if imaginary is None else fitted(imaginary, half)
    found = _symbol(transforms.from_half(_lines(first), _lines(second), length))
    return _like(apply("mul", found, 1.0 / length), real, length)


def _lines(x: Symbol) -> Symbol:
    """Return lines of a last axis: one line as a matrix with one row."""
    return x if len(x.shape) > 1 else primitives.reshape(x, (1, *x.shape))


def _like(x: SymbolLike, given: Symbol, length: int) -> Symbol:
    """Return what was computed of `_lines` with the axes that were given."""
    found = _symbol(x)
    return found if len(given.shape) > 1 else primitives.reshape(found, (length,))


def _symbol(x: SymbolLike) -> Symbol:
    assert isinstance(x, Symbol)
    return x

"""Provides Fourier transforms, of which a size of up to 64 is a product with a matrix and a larger one is cut into factors.

Complex numbers are complex64 and complex128, or pairs of real and imaginary parts on a last axis. Sines and cosines are those
of exact fractions of a turn, so that parts which cancel are 0 to the last bits.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TypeAlias

import numpy as np

from ....promotion.arrays import Array
from ....promotion.dtype import DType
from ....promotion.errors import UnsupportedError
from ...construction import primitives
from ...dims.dim import Dim, Extent, lower_bound, maximum
from ...errors import compose, describing, mistake
from ...ops.shape import normalize_axis
from ...protocols import TensorLike
from ...symbol import Symbol
from ...types import shape_text
from ..building import apply, as_floats, symbol_of
from ..complex.parts import from_pairs, parts_of, to_pairs, whole
from ..joining import stack
from ..linalg import matmul
from ..positions import counting

Parts: TypeAlias = "tuple[Symbol, Symbol | None]"
"""Real and imaginary parts; None stands for zeros."""

DIRECT = 64
"""Longest transform that is one product with a matrix, unless its length has no factor below."""
_MATRIX = 256
"""Longest transform of a length without factors up to `DIRECT` that is a product with a matrix."""
MAX_LENGTH = 1 << 22
"""Longest transform: its factors between the products are constants of the graph."""


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
    return stack(list(parts), -1)


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
        return whole(from_pairs(_complex(op, to_pairs(parts_of(given)), n, axis, sign)))
    result, (symbol,) = as_floats(op, x)
    number = _pairs(op, symbol, axis)
    length = _length(op, symbol, symbol.shape[number], n)
    found = along_axis((symbol[..., 0], symbol[..., 1]), number, length, sign, False, symbol.dtype)
    return primitives.cast(found, result)


def along_axis(x: Parts, axis: int, length: int, sign: int, onesided: bool, work: DType) -> Symbol:
    """Transform an axis, cut or filled up to a length, in a dtype, and return the parts on a new last axis.

    onesided: the first half of the transform of real numbers, or (sign 1) the real inverse of such a half.
    """
    real, imaginary = (None if part is None else primitives.cast(_last(part, axis), work) for part in x)
    assert real is not None
    if onesided and sign > 0:
        found: Sequence[Symbol] = (from_half(real, imaginary, length),)
    else:
        found = half_of(real, length) if onesided else transformed((real, imaginary), length, sign)
    return stack([_from_last(part, axis) for part in found], -1)


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
    found = _transformed(real, imaginary, length, sign)
    if sign < 0:
        return found
    return apply("mul", found[0], 1.0 / length), apply("mul", found[1], 1.0 / length)


def half_of(x: Symbol, length: int) -> tuple[Symbol, Symbol]:
    """Return the first half of the transform of real numbers on the last axis; the other one is its conjugate.

    Of many numbers, an even count of them, pairs are transformed as complex numbers: that takes half the work.
    """
    half, real = length // 2, fitted(x, length)
    if length % 2 or length <= 2 * DIRECT:
        found = transformed((real, None), length, -1)
        return found[0][..., : half + 1], found[1][..., : half + 1]
    first, second = _transformed(real[..., ::2], real[..., 1::2], half, -1)
    around = [apply("concat", part, part[..., :1], axis=len(x.shape) - 1) for part in (first, second)]
    ones, twos = _mirrored(around)
    cos, sin = _constants(real, *_waves(np.arange(half + 1), length, -1))
    turned = _turned(apply("mul", twos[1], 0.5), apply("mul", ones[1], -0.5), cos, sin)
    return apply("add", apply("mul", ones[0], 0.5), turned[0]), apply("add", apply("mul", twos[0], 0.5), turned[1])


def _mirrored(parts: Sequence[Symbol]) -> tuple[tuple[Symbol, Symbol], tuple[Symbol, Symbol]]:
    """Return, of real and of imaginary parts, those of a spectrum's sum and difference with its mirrored conjugate."""
    real, imaginary = parts
    axes = (len(real.shape) - 1,)
    other, conjugate = apply("flip", real, axes=axes), apply("flip", imaginary, axes=axes)
    sums = apply("add", real, other), apply("sub", real, other)
    return sums, (apply("sub", imaginary, conjugate), apply("add", imaginary, conjugate))


def from_half(real: Symbol, imaginary: Symbol | None, length: int) -> Symbol:
    """Return the real inverse of a spectrum of which the first half is given, on the last axis; the other is its conjugate."""
    half = length // 2 + 1
    if imaginary is not None and length % 2 == 0 and length > 2 * DIRECT:
        return _from_pairs(fitted(real, half), fitted(imaginary, half), length)
    mirrored = slice(1, (length + 1) // 2)

    def whole(part: Symbol, sign: float) -> Symbol:
        other = apply("flip", part[..., mirrored], axes=(len(part.shape) - 1,))
        return apply("concat", part, other if sign > 0 else apply("negate", other), axis=len(part.shape) - 1)

    real = whole(fitted(real, half), 1.0)
    imaginary = None if imaginary is None else whole(fitted(imaginary, half), -1.0)
    return transformed((real, imaginary), length, 1)[0]


def _from_pairs(real: Symbol, imaginary: Symbol, length: int) -> Symbol:
    """Return real numbers as pairs, of which complex numbers are made whose transform the half spectrum tells."""
    half = length // 2
    ends = np.isin(np.arange(half + 1), (0, half))  # they are real, and their other part has no say
    imaginary = apply("where", real.graph.constant(ends), 0.0, imaginary)
    ones, twos = _mirrored((real, imaginary))
    cos, sin = _constants(real, *_waves(np.arange(half + 1), length, 1))
    turned = _turned(apply("mul", ones[1], 0.5), apply("mul", twos[1], 0.5), cos, sin)
    first = apply("sub", apply("mul", ones[0], 0.5), turned[1])[..., :half]
    second = apply("add", apply("mul", twos[0], 0.5), turned[0])[..., :half]
    pairs = stack(list(transformed((first, second), half, 1)), -1)
    return primitives.reshape(pairs, (*real.shape[:-1], length))


def _transformed(real: Symbol, imaginary: Symbol | None, length: int, sign: int) -> tuple[Symbol, Symbol]:
    if length == 1:
        return real, apply("mul", real, 0.0) if imaginary is None else imaginary
    factor = _factor(length)
    if length <= DIRECT or (factor == 1 and length <= _MATRIX):
        return _by_matrix(real, imaginary, length, sign)
    return _by_factors(real, imaginary, length, factor, sign) if factor > 1 else _by_chirps(real, imaginary, length, sign)


def _factor(length: int) -> int:
    """Return the divisor up to `DIRECT` that is nearest to the square root, or 1."""
    found = [factor for factor in range(2, min(DIRECT, length - 1) + 1) if length % factor == 0]
    return min(found, key=lambda factor: (abs(math.log(factor * factor / length)), factor), default=1)


def _waves(counts: Array, length: int, sign: int) -> tuple[Array, Array]:
    """Return cosines and signed sines of 2π counts / length, exact at multiples of π / 2."""
    angles = 2 * np.pi * (counts % length) / length
    cosines, sines = np.cos(angles), sign * np.sin(angles)
    quarters = (4 * counts) % length == 0
    return np.where(quarters, np.rint(cosines), cosines), np.where(quarters, np.rint(sines), sines)


def _constants(x: Symbol, *arrays: Array) -> list[Symbol]:
    return [x.graph.constant(array.astype(x.dtype.numpy), x.dtype) for array in arrays]


def _by_matrix(real: Symbol, imaginary: Symbol | None, length: int, sign: int) -> tuple[Symbol, Symbol]:
    numbers = np.arange(length)
    cos, sin = _constants(real, *_waves(np.outer(numbers, numbers), length, sign))
    found = matmul(real, cos), matmul(real, sin)
    if imaginary is None:
        return found
    return apply("sub", found[0], matmul(imaginary, sin)), apply("add", found[1], matmul(imaginary, cos))


def _by_factors(real: Symbol, imaginary: Symbol | None, length: int, rows: int, sign: int) -> tuple[Symbol, Symbol]:
    """Transform the columns of a matrix, turn its elements, transform its rows, and read it by columns (Cooley and Tukey)."""
    columns, lead = length // rows, real.shape[:-1]
    numbers = np.arange(rows)
    cos, sin = _constants(real, *_waves(np.outer(numbers, numbers), rows, sign))
    matrix = primitives.reshape(real, (*lead, rows, columns))
    first, second = matmul(cos, matrix), matmul(sin, matrix)
    if imaginary is not None:
        other = primitives.reshape(imaginary, (*lead, rows, columns))
        first, second = apply("sub", first, matmul(sin, other)), apply("add", second, matmul(cos, other))
    turned = _turned(first, second, *_constants(real, *_waves(np.outer(numbers, np.arange(columns)), length, sign)))
    axes = (*range(len(lead)), len(lead) + 1, len(lead))
    one, two = (primitives.permute(part, axes) for part in _transformed(*turned, columns, sign))
    return primitives.reshape(one, (*lead, length)), primitives.reshape(two, (*lead, length))


def _by_chirps(real: Symbol, imaginary: Symbol | None, length: int, sign: int) -> tuple[Symbol, Symbol]:
    """Transform by a convolution, whose length is a power of two (Bluestein)."""
    size = 1 << (2 * length - 2).bit_length()
    numbers = np.arange(length)
    cosines, sines = _waves(numbers * numbers, 2 * length, sign)
    filter_ = np.zeros(size, np.complex128)
    filter_[:length] = cosines - 1j * sines
    filter_[size - length + 1 :] = filter_[1:length][::-1]
    spectrum = np.fft.fft(filter_)
    cos, sin, by, by_imaginary = _constants(real, cosines, sines, spectrum.real, spectrum.imag)
    chirped = (apply("mul", real, cos), apply("mul", real, sin)) if imaginary is None else _turned(real, imaginary, cos, sin)
    inner = transformed(chirped, size, -1)
    one, two = transformed(_turned(*inner, by, by_imaginary), size, 1)
    return _turned(one[..., :length], two[..., :length], cos, sin)


def _turned(real: Symbol, imaginary: Symbol, cos: Symbol, sin: Symbol) -> tuple[Symbol, Symbol]:
    """Return a product of complex numbers."""
    first = apply("sub", apply("mul", real, cos), apply("mul", imaginary, sin))
    return first, apply("add", apply("mul", real, sin), apply("mul", imaginary, cos))

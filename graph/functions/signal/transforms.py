"""Makes transforms of those of lines that rows of the op table have whole, and of constants."""

from __future__ import annotations

from collections.abc import Sequence
from math import isqrt

import numpy as np

from ....promotion.arrays import Array
from ....promotion.dtype import float64
from ...ops.building import apply
from ...ops.complex import fourier as rows
from ...ops.complex.fourier import Both, Parts
from ...protocols import SymbolLike
from ...symbol import Symbol
from ..complex.parts import Complex, taken_apart, whole


def half_of(x: SymbolLike, length: int) -> Both:
    """Return the first half of the transforms of real numbers on the last axis."""
    if _is_line_of_pairs(x, length):
        if x.dtype is float64:
            return _parts(apply("fft_pairs", rows.filled(x, length + 2), kind="real"))
        return rows.parts_of(apply("rfft_lines", x))
    return rows.half_of(x, length, transformed, waves)


def from_half(real: SymbolLike, imaginary: SymbolLike, length: int) -> SymbolLike:
    """Return real numbers, times their count, of whose transforms on the last axis the first half is given."""
    if _is_line_of_pairs(real, length) and real.dtype is float64:
        found = apply("fft_pairs", _pairs(real, imaginary), kind="real_inverse")
        return rows.sliced(found, 0, length)
    if _is_line_of_pairs(real, length):
        return apply("irfft_lines", _whole(real, imaginary), length=length)
    return rows.from_half(real, imaginary, length, transformed, waves)


def transformed(x: Parts, length: int, sign: int) -> Both:
    """Transform the last axis: all of a line at once, or lines of its factors, or by a convolution; a `rows.Transform`."""
    real, imaginary = x
    if imaginary is None and _is_line_of_pairs(real, length):
        one, two = rows.mirrored(*half_of(real, length), length)
        return one, two if sign < 0 else apply("negate", two)
    if imaginary is None:
        imaginary = apply("mul", real, 0.0)
    if real.dtype is float64 and rows.is_line(2 * length):
        return _parts(apply("fft_pairs", _pairs(real, imaginary), kind="inverse" if sign > 0 else "forward"))
    if real.dtype is not float64 and rows.is_line(length):
        return rows.parts_of(apply("fft_lines", _whole(real, imaginary), inverse=sign > 0))
    count = _factor(length, 1 + (real.dtype is float64))
    if count > 1:
        return _by_lines((real, imaginary), count, length // count, sign)
    return _by_chirps((real, imaginary), length, sign)


def _is_line_of_pairs(x: SymbolLike, length: int) -> bool:
    """Return whether rows transform lines of so many real numbers."""
    return length % 2 == 0 and rows.is_line(length if x.dtype is float64 else length // 2)


def _parts(pairs: SymbolLike) -> Both:
    """Return real and imaginary parts that are neighbours along the last axis."""
    count = pairs.shape[-1]
    return rows.sliced(pairs, 0, count, 2), rows.sliced(pairs, 1, count, 2)


def _pairs(real: SymbolLike, imaginary: SymbolLike) -> SymbolLike:
    """Return parts as neighbours along the last axis: what they were cut from, if there is such."""
    found = rows.cut_from(real, imaginary)
    if found is not None:
        return found
    numbers = taken_apart(real, imaginary)
    if numbers is None:
        return rows.interleaved(real, imaginary)
    return apply("complex_parts", numbers)


def scaled(x: Both, factor: float) -> Both:
    """Multiply parts by a number."""
    source = rows.cut_from(*x)
    if source is not None:
        return _parts(apply("mul", source, factor))
    return apply("mul", x[0], factor), apply("mul", x[1], factor)


def _whole(real: SymbolLike, imaginary: SymbolLike) -> SymbolLike:
    assert isinstance(real, Symbol)
    assert isinstance(imaginary, Symbol)
    return whole(Complex(real, imaginary))


def _factor(length: int, size: int) -> int:
    """Return the divisor nearest to the square root of a length of which both factors make lines for rows, or 1.

    size: of a number, in complex64.
    """
    found = [number for number in range(2, isqrt(length) + 1) if length % number == 0]
    return max([each for each in found if rows.is_line(size * each) and rows.is_line(size * (length // each))], default=1)


def _by_lines(x: Both, count: int, columns: int, sign: int) -> Both:
    """Transform the columns of a matrix, turn its elements, transform its rows, and read it by columns (Cooley and Tukey)."""
    lead = x[0].shape[:-1]
    real, imaginary = (rows.swapped(rows.reshaped(part, (*lead, count, columns))) for part in x)
    first, second = (rows.swapped(part) for part in transformed((real, imaginary), count, sign))
    turned = rows.turned(first, second, *waves(first, range(count), columns, count * columns, sign))
    one, two = (rows.reshaped(rows.swapped(part), (*lead, count * columns)) for part in transformed(turned, columns, sign))
    return one, two


def _by_chirps(x: Parts, length: int, sign: int) -> Both:
    """Transform by a convolution, whose length is a power of two (Bluestein)."""
    real, imaginary = x
    size = 1 << (2 * length - 2).bit_length()
    numbers = np.arange(length)
    cosines, sines = _points(numbers * numbers, 2 * length, sign)
    filter_ = np.zeros(size, np.complex128)
    filter_[:length] = cosines - 1j * sines
    filter_[size - length + 1 :] = filter_[1:length][::-1]
    spectrum = np.fft.fft(filter_) / size
    cos, sin, by, by_imaginary = _constants(real, cosines, sines, spectrum.real, spectrum.imag)
    chirped = (apply("mul", real, cos), apply("mul", real, sin))
    if imaginary is not None:
        chirped = rows.turned(real, imaginary, cos, sin)
    first, second = (rows.filled(part, size) for part in chirped)
    one, two = transformed(rows.turned(*transformed((first, second), size, -1), by, by_imaginary), size, 1)
    return rows.turned(rows.sliced(one, 0, length), rows.sliced(two, 0, length), cos, sin)


# -- constants ---------------------------------------------------------------------------------------------------------


def waves(x: SymbolLike, of: range, columns: int, length: int, sign: int) -> Both:
    """Return cosines and signed sines as constants; a `rows.Waves`."""
    cos, sin = _constants(x, *_points(np.outer(np.array(of), np.arange(columns)), length, sign))
    return cos, sin


def _points(counts: Array, length: int, sign: int) -> tuple[Array, Array]:
    """Return cosines and signed sines of 2π counts / length, exact at multiples of π / 2."""
    angles = 2 * np.pi * (counts % length) / length
    cosines, sines = np.cos(angles), sign * np.sin(angles)
    quarters = (4 * counts) % length == 0
    return np.where(quarters, np.rint(cosines), cosines), np.where(quarters, np.rint(sines), sines)


def _constants(x: SymbolLike, *arrays: Array) -> Sequence[SymbolLike]:
    return [x.graph.as_symbol(array.astype(x.dtype.numpy)) for array in arrays]

"""Provides what makes complex tensors of real ones, and takes them apart."""

from __future__ import annotations

from ...construction import primitives
from ...errors import mistake
from ...ops.complex.parts import WHOLE
from ...protocols import TensorLike
from ...symbol import Symbol
from ..building import apply, as_floats, symbol_of
from . import arithmetic
from .parts import parts_of, whole


def _complex_of(op: str, x: TensorLike) -> Symbol:
    symbol = symbol_of(op, x)
    if not symbol.dtype.is_complex:
        is_pair = symbol.shape[-1:] == (2,)  # as transforms return them
        fix = "of pairs, joinery.complex(x[..., 0], x[..., 1])" if is_pair else "joinery.complex(x, 0.0)"
        raise mistake(op, f"not defined for {symbol.dtype}", (symbol,), "complex64 or complex128", fix)
    return symbol


def real(x: TensorLike) -> Symbol:
    """Return the real parts of complex numbers: float32 of complex64, float64 of complex128."""
    return parts_of(_complex_of("real", x)).real


def imag(x: TensorLike) -> Symbol:
    """Return the imaginary parts of complex numbers: float32 of complex64, float64 of complex128."""
    return parts_of(_complex_of("imag", x)).imaginary


def conj(x: TensorLike) -> Symbol:
    """Return the conjugates of complex numbers, as numpy.conj."""
    return whole(arithmetic.conjugate(parts_of(_complex_of("conj", x))))


def angle(x: TensorLike) -> Symbol:
    """Return the angles of complex numbers in [-π, π], as numpy.angle; signed zeros are as in `atan2`."""
    return arithmetic.angle(parts_of(_complex_of("angle", x)))


def complex_(real: TensorLike, imag: TensorLike) -> Symbol:
    """Return complex numbers of real and imaginary parts, which broadcast: complex64 of float32, complex128 of float64.

    Raises `UserError` where the join of both dtypes is another one.
    """
    result, (one, other) = as_floats("complex", real, imag)
    if result not in WHOLE:
        raise mistake("complex", f"parts of {result}", (one, other), "float32 or float64", "cast them to float32")
    shape = apply("add", one, other).shape if one.shape != other.shape else one.shape
    return apply("complex", primitives.broadcast_to(one, shape), primitives.broadcast_to(other, shape))

"""Computes with complex numbers by their parts. Graphs and programs of PyTorch both use it."""

from __future__ import annotations

from ...symbol import Symbol
from ..building import apply
from ..elementwise import reciprocal
from ..linalg import matmul
from ..pairs import atan2, hypot
from .parts import Complex


def by_parts(row: str, x: Complex, y: Complex) -> Complex:
    """Return what an operation gives that treats both parts alike."""
    return Complex(apply(row, x.real, y.real), apply(row, x.imaginary, y.imaginary))


def scaled(x: Complex, factor: Symbol, row: str = "mul") -> Complex:
    """Return numbers times, or divided by, real ones."""
    return Complex(apply(row, x.real, factor), apply(row, x.imaginary, factor))


def product(x: Complex, y: Complex) -> Complex:
    """Return products, the real parts of which round each of theirs."""
    real = apply("sub", apply("mul", x.real, y.real), apply("mul", x.imaginary, y.imaginary))
    return Complex(real, apply("add", apply("mul", x.real, y.imaginary), apply("mul", x.imaginary, y.real)))


def conjugate(x: Complex) -> Complex:
    """Return conjugates."""
    return Complex(x.real, apply("negate", x.imaginary))


def inverse(x: Complex) -> Complex:
    """Return 1 / x, by parts that were scaled so that squares are in range."""
    size = apply("maximum", apply("abs", x.real), apply("abs", x.imaginary))
    near = scaled(x, size, "div")
    square = apply("add", apply("mul", near.real, near.real), apply("mul", near.imaginary, near.imaginary))
    return scaled(conjugate(near), apply("mul", square, size), "div")


def absolute(x: Complex) -> Symbol:
    """Return absolute values."""
    return hypot(x.real, x.imaginary)


def angle(x: Complex) -> Symbol:
    """Return angles in [-π, π]."""
    return atan2(x.imaginary, x.real)


def direction(x: Complex) -> Complex:
    """Return x / |x|, and 0 for 0."""
    size = absolute(x)
    is_zero = apply("equal", size, 0.0)
    one = size.graph.scalar(1.0, size.dtype)
    nothing = size.graph.scalar(0.0, size.dtype)
    return scaled(x, apply("where", is_zero, nothing, reciprocal(apply("where", is_zero, one, size))))


def exponential(x: Complex) -> Complex:
    """Return exponentials."""
    size = apply("exp", x.real)
    return Complex(apply("mul", size, apply("cos", x.imaginary)), apply("mul", size, apply("sin", x.imaginary)))


def logarithm(x: Complex) -> Complex:
    """Return natural logarithms."""
    return Complex(apply("log", absolute(x)), angle(x))


def equal(x: Complex, y: Complex) -> Symbol:
    """Return where both parts are equal."""
    return apply("logical_and", apply("equal", x.real, y.real), apply("equal", x.imaginary, y.imaginary))


def multiplied(x: Complex, y: Complex) -> Complex:
    """Return matrix products, by four products of real matrices."""
    real = apply("sub", matmul(x.real, y.real), matmul(x.imaginary, y.imaginary))
    return Complex(real, apply("add", matmul(x.real, y.imaginary), matmul(x.imaginary, y.real)))

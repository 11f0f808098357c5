"""Handles arithmetic of complex numbers, by their parts, and what makes them of real tensors or takes them apart."""

from __future__ import annotations

import math
from typing import TypeAlias

from .....promotion.dtype import DType
from ....construction import primitives
from ....functions import reductions
from ....functions.building import apply
from ....functions.complex import arithmetic
from ....functions.complex.parts import Complex, from_pairs, to_pairs
from ....ops.complex.parts import PARTS
from ....symbol import Symbol
from ...node import Node, Number
from ...registry import handles_complex

Value: TypeAlias = "Complex | Symbol | Number | complex"


def _part(node: Node) -> DType:
    """Return the dtype of the parts of the first result."""
    return PARTS.get(node.dtype, node.dtype)


def _complex(node: Node, x: Value, dtype: DType) -> Complex:
    """Return a value as complex numbers with parts of a dtype."""
    if isinstance(x, Complex):
        return Complex(x.real.cast(dtype), x.imaginary.cast(dtype))
    if isinstance(x, Symbol):
        real = x.cast(dtype)
        return Complex(real, node.broadcast(node.number(0.0, dtype), real.shape))
    number = complex(x)
    return Complex(node.number(number.real, dtype), node.number(number.imag, dtype))


def _real(node: Node, x: Value, dtype: DType) -> Symbol | None:
    """Return a factor without imaginary parts; None for others."""
    if isinstance(x, Complex) or (isinstance(x, complex) and x.imag):
        return None
    return x.cast(dtype) if isinstance(x, Symbol) else node.number(complex(x).real, dtype)


# -- real tensors and parts --------------------------------------------------------------------------------------------


@handles_complex("view_as_complex.default")
def view_as_complex(node: Node, x: Symbol) -> Complex:
    """Take pairs on the last axis for complex numbers."""
    return from_pairs(x)


@handles_complex("view_as_real.default", "view_as_real_copy.default")
def view_as_real(node: Node, x: Complex) -> Symbol:
    """Return pairs on a new last axis."""
    return to_pairs(x)


@handles_complex("real.default", "imag.default")
def part(node: Node, x: Complex) -> Symbol:
    """Return one of both parts."""
    return x.real if node.kind == "real" else x.imaginary


@handles_complex("complex.default")
def of_parts(node: Node, real: Symbol, imag: Symbol) -> Complex:
    """Make complex numbers of parts."""
    return Complex(node.broadcast(real), node.broadcast(imag))


@handles_complex("polar.default")
def polar(node: Node, size: Symbol, angle: Symbol) -> Complex:
    """Make complex numbers of absolute values and angles."""
    real, imaginary = (node.broadcast(apply("mul", size, apply(row, angle))) for row in ("cos", "sin"))
    return Complex(real, imaginary)


@handles_complex("_to_copy.default", "to.dtype")
def to_copy(
    node: Node, x: Complex | Symbol, dtype: DType | None = None, non_blocking: bool = False, copy: bool = False
) -> Complex | Symbol:
    """Convert to a dtype: a real one keeps the real parts."""
    if node.dtype in PARTS:
        return _complex(node, x, PARTS[node.dtype])
    assert isinstance(x, Complex)
    return x.real.cast(node.dtype)


@handles_complex("_conj.default", "_conj_physical.default", "conj_physical.default")
def conjugate(node: Node, x: Complex | complex) -> Complex:
    """Return conjugates."""
    return arithmetic.conjugate(_complex(node, x, _part(node)))


@handles_complex("full.default", "scalar_tensor.default", "zeros.default", "zeros_like.default", "ones_like.default",
                 "full_like.default", "new_zeros.default", "empty.memory_format", "empty_like.default")  # fmt: skip
def filled(node: Node, *arguments: object, dtype: DType | None = None) -> Complex | Symbol:
    """Return one number everywhere."""
    value: object = {"ones_like": 1}.get(node.kind, 0)
    if node.kind in ("full", "full_like", "scalar_tensor"):
        value = arguments[-1]
    if not isinstance(value, (int, float, complex)):
        node.unsupported(f"the value {value!r:.60}", "fill with a number")
    if node.dtype not in PARTS:
        return node.broadcast(node.number(complex(value).real, node.dtype))
    found = _complex(node, value, _part(node))
    return Complex(node.broadcast(found.real), node.broadcast(found.imaginary))


# -- arithmetic --------------------------------------------------------------------------------------------------------


@handles_complex("add.Tensor", "add.Scalar", "sub.Tensor", "sub.Scalar")
def add(node: Node, x: Value, other: Value, alpha: Number | complex = 1) -> Complex:
    """Compute x ± alpha · other."""
    dtype = _part(node)
    second = _complex(node, other, dtype)
    if alpha != 1:
        second = arithmetic.product(second, _complex(node, alpha, dtype))
    first, row = _complex(node, x, dtype), node.kind
    return arithmetic.by_parts(row, first, second)


@handles_complex("mul.Tensor", "mul.Scalar")
def mul(node: Node, x: Value, other: Value) -> Complex:
    """Multiply; real factors scale both parts."""
    dtype = _part(node)
    for one, two in ((x, other), (other, x)):
        factor = _real(node, two, dtype)
        if factor is not None and isinstance(one, Complex):
            return arithmetic.scaled(_complex(node, one, dtype), factor)
    return arithmetic.product(_complex(node, x, dtype), _complex(node, other, dtype))


@handles_complex("div.Tensor", "div.Scalar", "true_divide.Tensor")
def div(node: Node, x: Value, other: Value) -> Complex:
    """Divide."""
    dtype = _part(node)
    factor = _real(node, other, dtype)
    if factor is not None and isinstance(x, Complex):
        return arithmetic.scaled(_complex(node, x, dtype), factor, "div")
    return arithmetic.quotient(_complex(node, x, dtype), _complex(node, other, dtype))


@handles_complex("reciprocal.default")
def inverse(node: Node, x: Complex) -> Complex:
    """Compute 1 / x."""
    return arithmetic.inverse(x)


@handles_complex("abs.default")
def absolute(node: Node, x: Complex) -> Symbol:
    """Return absolute values."""
    return arithmetic.absolute(x)


@handles_complex("angle.default")
def angle(node: Node, x: Complex) -> Symbol:
    """Return the angles."""
    return arithmetic.angle(x)


@handles_complex("sgn.default")
def direction(node: Node, x: Complex) -> Complex:
    """Return x / |x|, and 0 for 0."""
    return arithmetic.direction(x)


@handles_complex("exp.default")
def exp(node: Node, x: Complex) -> Complex:
    """Compute exponentials."""
    return arithmetic.exponential(x)


@handles_complex("log.default")
def log(node: Node, x: Complex) -> Complex:
    """Compute logarithms."""
    return arithmetic.logarithm(x)


@handles_complex("pow.Tensor_Scalar")
def power(node: Node, x: Complex, exponent: Number) -> Complex:
    """Raise to a small whole power, by products."""
    node.require(isinstance(exponent, (int, float)) and exponent in range(1, 9), f"a complex power of {exponent}", "1 to 8")
    found = x
    for _ in range(int(exponent) - 1):
        found = arithmetic.product(found, x)
    return found


@handles_complex("eq.Tensor", "eq.Scalar", "ne.Tensor", "ne.Scalar")
def equality(node: Node, x: Value, other: Value) -> Symbol:
    """Compare both parts."""
    dtype = next(each.real.dtype for each in (x, other) if isinstance(each, Complex))
    one, two = _complex(node, x, dtype), _complex(node, other, dtype)
    same = arithmetic.equal(one, two)
    return same if node.kind == "eq" else apply("logical_not", same)


@handles_complex("mm.default", "bmm.default", "matmul.default", "mv.default", "dot.default")
def product(node: Node, x: Complex, y: Complex) -> Complex:
    """Multiply matrices, by four products of real ones."""
    return arithmetic.multiplied(x, y)


@handles_complex("addmm.default", "baddbmm.default")
def addmm(node: Node, start: Complex, x: Complex, y: Complex, beta: Number = 1, alpha: Number = 1) -> Complex:
    """Compute beta · start + alpha · (x @ y)."""
    found = product(node, x, y)
    dtype = found.real.dtype
    found = found if alpha == 1 else arithmetic.product(found, _complex(node, alpha, dtype))
    if beta == 0:
        return found
    first = start if beta == 1 else arithmetic.product(start, _complex(node, beta, dtype))
    return arithmetic.by_parts("add", found, first)


@handles_complex("linalg_vector_norm.default")
def norm(
    node: Node, x: Complex, ord: Number = 2, dim: tuple[int, ...] | None = None, keepdim: bool = False,  # noqa: A002
    dtype: DType | None = None,
) -> Symbol:  # fmt: skip
    """Compute norms of absolute values."""
    order = int(ord) if math.isfinite(ord) and ord == int(ord) else ord
    size = primitives.cast(arithmetic.absolute(x), node.dtype)
    return reductions.norm(size, order, node.axes(dim, len(x.shape)), keepdim)

"""Handles products of matrices, with integers and with quantised operands, and determinants."""

from __future__ import annotations

from functools import cache

from ....promotion.dtype import float32, int32
from ...functions.building import apply
from ...functions.einsum import einsum as contracted
from ...functions.linalg import matmul as product
from ...symbol import Symbol
from ..node import Node, Result
from ..registry import handles
from .quantisation import requantised

_MAX_DETERMINANT = 8


@handles("MatMul")
def matmul(node: Node) -> Result:
    """Multiply as numpy.matmul; the result has the operands' dtype."""
    return product(node[0], node[1]).cast(node.dtype(0))


@handles("Gemm")
def gemm(node: Node) -> Result:
    """Compute alpha · A B + beta · C, with A and B transposed on request."""
    a, b = node[0], node[1]
    alpha, beta = float(node.attr("alpha")), float(node.attr("beta"))
    a = a.transpose() if node.attr("transA") else a
    b = b.transpose() if node.attr("transB") else b
    node.ignore("broadcast")  # a C of fewer axes is one that broadcasts
    result = product(a, b).cast(a.dtype)
    if alpha != 1:
        result = _scaled(node, result, alpha)
    c = node.get(2)
    if c is not None:
        result = apply("add", result, _scaled(node, c, beta) if beta != 1 else c)
    return result


def _scaled(node: Node, x: Symbol, factor: float) -> Symbol:
    if not x.dtype.is_float:
        node.require(factor == int(factor), f"a factor {factor} of integers", "use floats")
        return apply("mul", x, int(factor))
    return apply("mul", x, factor)


@handles("Einsum")
def einsum(node: Node) -> Result:
    """Contract by an equation of subscripts."""
    result = contracted(node.attr("equation").replace(" ", ""), *node.all())
    return result.cast(node.dtype(0))


def integers(node: Node, x: Symbol, position: int, side: str) -> Symbol:
    """Return a quantised operand as int32 without its zero point, which is an input of the node."""
    return without_zero(x, node.get(position), side)


def without_zero(x: Symbol, zero: Symbol | None, side: str) -> Symbol:
    """Return codes as int32 without their zero point, of which a vector has one per row (side a) or column (b)."""
    wide = x.cast(int32)
    if zero is None:
        return wide
    zero = zero.cast(int32)
    if len(zero.shape) == 1 and side == "a" and zero.shape != (1,):
        zero = zero.reshape((*zero.shape, 1))
    return apply("sub", wide, zero if zero.shape != (1,) else zero.reshape(()))


@handles("MatMulInteger")
def matmul_integer(node: Node) -> Result:
    """Multiply integers of 8 bits in int32, without their zero points."""
    return multiplied_codes(node[0], node[1], node.get(2), node.get(3))


def multiplied_codes(a: Symbol, b: Symbol, a_zero: Symbol | None, b_zero: Symbol | None) -> Symbol:
    """Multiply integers of 8 bits in int32, without their zero points."""
    return product(without_zero(a, a_zero, "a"), without_zero(b, b_zero, "b")).cast(int32)


@handles("QLinearMatMul")
def qlinear_matmul(node: Node) -> Result:
    """Multiply quantised matrices and quantise the result."""
    total = multiplied_codes(node[0], node[3], node[2], node[5])
    return requantised_product(total, node[1], node[4], node[6], node[7])


def requantised_product(total: Symbol, a_scale: Symbol, b_scale: Symbol, y_scale: Symbol, y_zero: Symbol) -> Symbol:
    """Return sums of products as codes: scaled, by rows of a or columns of b, rounded, moved and clamped."""
    a_scale, b_scale = a_scale.cast(float32), b_scale.cast(float32)
    if len(a_scale.shape) == 1 and a_scale.shape != (1,):
        a_scale = a_scale.reshape((*a_scale.shape, 1))
    scale = apply("div", apply("mul", a_scale, b_scale), y_scale.cast(float32))
    return requantised(total, scale, y_zero)


@handles("Det")
def det(node: Node) -> Result:
    """Compute determinants of small matrices by expansion along the rows, each minor once."""
    x = node[0]
    shape = node.shape(0)
    node.require(len(shape) >= 2, "a vector; matrices are expected")
    size = shape[-1]
    if not isinstance(size, int) or not isinstance(shape[-2], int) or not 0 < size <= _MAX_DETERMINANT:
        node.unsupported(f"Det of {size} x {size} matrices", f"at most {_MAX_DETERMINANT} x {_MAX_DETERMINANT}")
    size = int(size)  # type: ignore[arg-type]
    node.require(shape[-2] == size, "the matrices are not square")

    @cache
    def minor(row: int, columns: tuple[int, ...]) -> Symbol:
        if len(columns) == 1:
            return x[..., row, columns[0]]
        total: Symbol | None = None
        for number, column in enumerate(columns):
            rest = tuple([other for other in columns if other != column])
            term = apply("mul", x[..., row, column], minor(row + 1, rest))
            total = term if total is None else apply("sub" if number % 2 else "add", total, term)
        assert total is not None
        return total

    return minor(0, tuple(range(size)))

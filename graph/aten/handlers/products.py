"""Handles products of matrices. Of 16-bit floats, what is added enters before the only rounding, as in ATen."""

from __future__ import annotations

from ....promotion.dtype import DType, float32
from ...construction import primitives
from ...functions import reductions
from ...functions.building import apply
from ...functions.linalg import matmul
from ...functions.networks.groups import grouped_matmul, grouped_outer
from ...symbol import Symbol
from ..node import Node, Number
from ..registry import handles


@handles("mm.default", "bmm.default", "matmul.default", "mv.default", "dot.default")
def product(node: Node, x: Symbol, y: Symbol) -> Symbol:
    """Multiply matrices."""
    return matmul(x, y).cast(node.dtype)


def _sum_dtype(dtype: DType) -> DType:
    return float32 if dtype.is_float and dtype.bits == 16 else dtype


def _added(node: Node, start: Symbol, x: Symbol, y: Symbol, beta: Number, alpha: Number) -> Symbol:
    """Return beta · start + alpha · (x @ y); with beta = 0, `start` is not read."""
    dtype = x.dtype
    wide = _sum_dtype(dtype)
    result = matmul(x.cast(wide), y.cast(wide)).cast(wide)
    if alpha != 1:
        result = apply("mul", result, node.number(alpha, wide))
    if beta != 0:
        first = start.cast(wide)
        result = apply("add", result, first if beta == 1 else apply("mul", first, node.number(beta, wide)))
    return node.broadcast(result.cast(dtype))


@handles("addmm.default", "baddbmm.default", "addmv.default")
def addmm(node: Node, start: Symbol, x: Symbol, y: Symbol, beta: Number = 1, alpha: Number = 1) -> Symbol:
    """Compute beta · start + alpha · (x @ y)."""
    return _added(node, start, x, y, beta, alpha)


@handles("addbmm.default")
def addbmm(node: Node, start: Symbol, x: Symbol, y: Symbol, beta: Number = 1, alpha: Number = 1) -> Symbol:
    """Compute beta · start + alpha · the sum of all products, as one product of longer rows."""
    batch, rows, inner = x.shape
    wide_rows = primitives.reshape(apply("permute", x, axes=(1, 0, 2)), (rows, batch * inner))
    return _added(node, start, wide_rows, primitives.reshape(y, (batch * inner, y.shape[2])), beta, alpha)


@handles("_trilinear.default")
def trilinear(
    node: Node, x: Symbol, y: Symbol, z: Symbol, expand1: tuple[int, ...], expand2: tuple[int, ...], expand3: tuple[int, ...],
    sumdim: tuple[int, ...], unroll_dim: int = 1,
) -> Symbol:  # fmt: skip
    """Multiply three tensors, with new axes of size 1 where they have none, and add along some."""
    rank = len(x.shape) + len(expand1)
    wide = []
    for each, new in ((x, expand1), (y, expand2), (z, expand3)):
        sizes = iter(each.shape)
        shape = tuple([1 if axis in new else next(sizes) for axis in range(rank)])
        wide.append(primitives.reshape(each, shape).cast(_sum_dtype(each.dtype)))
    found = reductions.sum_(apply("mul", apply("mul", wide[0], wide[2]), wide[1]), tuple(sorted(sumdim)), False)
    return found.cast(node.dtype)


@handles("linear.default")
def linear(node: Node, x: Symbol, weight: Symbol, bias: Symbol | None = None) -> Symbol:
    """Compute x @ weightᵀ + bias."""
    matrix = apply("permute", weight, axes=(1, 0)) if len(weight.shape) == 2 else weight
    return matmul(x, matrix).cast(node.dtype) if bias is None else _added(node, bias, x, matrix, 1, 1)


@handles("_grouped_mm.default")
def grouped(
    node: Node, x: Symbol, y: Symbol, offs: Symbol | None = None, bias: Symbol | None = None, out_dtype: DType | None = None
) -> Symbol:
    """Multiply groups of rows, of columns, or of what is summed over; without `offs`, matrices in pairs."""
    if bias is not None:
        node.unsupported("a bias", "add it")
    axes = len(x.shape), len(y.shape)
    if offs is None:
        found = matmul(x, y)
    elif axes == (2, 3):
        found = grouped_matmul(x, y, offs)
    elif axes == (2, 2):
        found = grouped_outer(x.transpose(), y, offs)
    elif axes == (3, 2):
        found = grouped_matmul(y.transpose(), x.transpose(1, 2), offs).transpose()
    else:
        node.unsupported(f"groups of operands with {axes[0]} and {axes[1]} axes", "2 or 3 axes, of which one has 2")
    return found.cast(node.dtype)


@handles("grouped_mm_fallback.default", namespace="transformers")
def grouped_fallback(node: Node, input: Symbol, weight: Symbol, offs: Symbol) -> Symbol:  # noqa: A002  the operator's name
    """Multiply groups of rows, in an operator of its own, which transformers has for what PyTorch does not compile."""
    return grouped_matmul(input, weight, offs).cast(node.dtype)


@handles("grouped_mm_fallback_backward.default", namespace="transformers")
def grouped_fallback_gradients(
    node: Node, input: Symbol, weight: Symbol, offs: Symbol, grad_output: Symbol  # noqa: A002  the operator's name
) -> tuple[Symbol, Symbol]:  # fmt: skip
    """Return the gradients of rows and of matrices."""
    rows = grouped_matmul(grad_output, weight.transpose(1, 2), offs)
    return rows.cast(input.dtype), grouped_outer(input, grad_output, offs).cast(weight.dtype)

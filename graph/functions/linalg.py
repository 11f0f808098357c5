"""Computes products of matrices and vectors, all by the op `matmul` with views around it."""

from __future__ import annotations

from collections.abc import Sequence

from ...promotion.literals import is_scalar
from ..checks import ShapeError
from ..construction import primitives
from ..dims.dim import product
from ..errors import describing, mistake
from ..graph import graph_of
from ..ops.shape import normalize_axes
from ..protocols import TensorLike
from ..symbol import Symbol
from .building import apply, as_symbols


def matmul(a: TensorLike, b: TensorLike, precision: str = "ieee") -> Symbol:
    """Compute the matrix product, as numpy.matmul: (…, M, K) @ (…, K, N) → (…, M, N).

    Batch axes broadcast; vectors are rows or columns. 16-bit floats are accumulated in float32 and rounded
    once; bools and 8-bit integers give int32. precision "tf32" rounds float32 operands to 10 mantissa bits
    first, "ieee" does not.
    """
    return primitives.matmul(graph_of("matmul", a, b), a, b, precision)


def dot(a: TensorLike, b: TensorLike, precision: str = "ieee") -> Symbol:
    """Compute numpy.dot: a scalar operand multiplies, other operands are contracted.

    The last axis of `a` meets the last but one (or only) axis of `b`, without batch axes: (…, K) · (…, K, N)
    → a.shape[:-1] + b.shape[:-2] + (N,).
    """
    graph = graph_of("dot", a, b)
    if is_scalar(graph.rules.weakened(a)) or is_scalar(graph.rules.weakened(b)):
        return apply("mul", a, b)
    first, second = as_symbols("dot", a, b)
    if not first.shape or not second.shape:
        return apply("mul", first, second)
    if len(second.shape) <= 2:
        return primitives.matmul(first.graph, first, second, precision, "dot")
    return tensordot(first, second, ((-1,), (-2,)), precision)


def outer(a: TensorLike, b: TensorLike) -> Symbol:
    """Compute a[:, None] * b[None, :] of the flattened operands."""
    first, second = graph_of("outer", a, b).promoted("outer", (a, b), "mul")
    column = primitives.reshape(first, (product(first.shape), 1))
    row = primitives.reshape(second, (1, product(second.shape)))
    return apply("mul", column, row)


def linear(x: TensorLike, weight: TensorLike, bias: TensorLike | None = None, precision: str = "ieee") -> Symbol:
    """Compute x @ weightᵀ + bias, with `weight` of shape (out, in) and `bias` of shape (out,) or None."""
    graph = graph_of("linear", x, weight, bias)
    matrix = graph.as_symbol(weight, "linear")
    if len(matrix.shape) != 2:
        raise mistake(
            "linear",
            f"the weight has {len(matrix.shape)} axes",
            (x, matrix),
            "a weight of shape (out, in)",
            "x @ weight",
        )
    product_ = primitives.matmul(graph, x, primitives.permute(matrix, (1, 0)), precision, "linear")
    return product_ if bias is None else apply("add", product_, bias)


def gemm(
    a: TensorLike,
    b: TensorLike,
    c: TensorLike | None = None,
    alpha: float = 1.0,
    beta: float = 1.0,
    transpose_a: bool = False,
    transpose_b: bool = False,
) -> Symbol:
    """Compute alpha · A @ B + beta · C, with A and B transposed on request (BLAS and ONNX Gemm).

    A and B have two axes each; C broadcasts and may be None.
    """
    first, second = as_symbols("gemm", a, b)
    for operand in (first, second):
        if len(operand.shape) != 2:
            raise mistake(
                "gemm", "the operands are no matrices", (first, second), "two axes each", "joinery.matmul"
            )
    left = primitives.permute(first, (1, 0)) if transpose_a else first
    right = primitives.permute(second, (1, 0)) if transpose_b else second
    result = primitives.matmul(left.graph, left, right, op="gemm")
    if alpha != 1:
        result = apply("mul", result, alpha)
    if c is None or beta == 0:
        return result
    c = result.graph.rules.weakened(c)
    if beta != 1:
        c = c * beta if is_scalar(c) else apply("mul", result.graph.as_symbol(c, "gemm"), beta)
    return apply("add", result, c)


def tensordot(a: TensorLike, b: TensorLike, axes: int | Sequence[int | Sequence[int]] = 2, precision: str = "ieee") -> Symbol:
    """Sum over pairs of axes, as numpy.tensordot: the result has the other axes of `a`, then those of `b`.

    axes: how many last axes of `a` meet the first ones of `b`, or (axes of a, axes of b).
    """
    first, second = as_symbols("tensordot", a, b)
    with describing("tensordot", first, second):
        if isinstance(axes, int):
            if not 0 <= axes <= min(len(first.shape), len(second.shape)):
                raise ShapeError(f"cannot sum over {axes} axes", "at most the rank of either operand")
            over_a = tuple(range(len(first.shape) - axes, len(first.shape)))
            over_b = tuple(range(axes))
        else:
            over_a, over_b = (
                _listed(entry, len(s.shape)) for entry, s in zip(axes, (first, second), strict=True)
            )
            if len(over_a) != len(over_b):
                raise ShapeError(
                    f"{len(over_a)} axes of operand 0 meet {len(over_b)} of operand 1", "as many of each"
                )
        for p, q in zip(over_a, over_b, strict=True):
            if first.graph.shape_checks.decide(first.shape[p], second.shape[q]) is False:
                raise ShapeError(
                    f"axis {p} of operand 0 is {first.shape[p]}, axis {q} of operand 1 is {second.shape[q]}",
                    "equal sizes",
                )
    free_a = [axis for axis in range(len(first.shape)) if axis not in over_a]
    free_b = [axis for axis in range(len(second.shape)) if axis not in over_b]
    rows, columns = [first.shape[axis] for axis in free_a], [second.shape[axis] for axis in free_b]
    left = primitives.permute(first, (*free_a, *over_a))
    right = primitives.permute(second, (*over_b, *free_b))
    left = primitives.reshape(left, (product(rows), product(first.shape[axis] for axis in over_a)))
    right = primitives.reshape(right, (product(second.shape[axis] for axis in over_b), product(columns)))
    result = primitives.matmul(first.graph, left, right, precision, "tensordot")
    return primitives.reshape(result, (*rows, *columns))


def _listed(axes: int | Sequence[int], rank: int) -> tuple[int, ...]:
    """Return axes in the order given, which pairs them; normalised and distinct."""
    entries = tuple(axes) if isinstance(axes, (tuple, list)) else (axes,)
    normalize_axes(entries, rank)
    return tuple([entry % rank for entry in entries])

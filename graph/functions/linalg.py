"""Computes products of matrices and vectors, all by the op `matmul` with views around it."""

from __future__ import annotations

import math
from collections.abc import Sequence

from ...promotion.dtype import DType
from ...promotion.literals import is_scalar
from ..checks import ShapeError
from ..construction import primitives
from ..dims.dim import exact_quotient, product
from ..errors import describing, mistake
from ..graph import graph_of
from ..ops.opdef import accumulator
from ..ops.shape import normalize_axes
from ..protocols import TensorLike
from ..symbol import Symbol
from .activations import softmax
from .building import apply, as_symbols
from .positions import counting
from .reductions import any_


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


def attention(
    query: TensorLike, key: TensorLike, value: TensorLike, mask: TensorLike | None = None, is_causal: bool = False,
    scale: float | None = None, softcap: float | None = None,
) -> Symbol:  # fmt: skip
    """Compute softmax(query @ keyᵀ · scale + mask) @ value (Vaswani et al., 2017), which is one kernel where that is faster.

    Args:
        query: (…, heads, length, size).
        key, value: (…, heads, keys, size). With fewer heads than the query, each serves as many of its heads in a row.
        mask: bools, true where a key counts, or numbers that are added to the scores; it broadcasts against them.
        is_causal: whether a query counts keys up to its own position only. Blocks of keys that no query of a block counts are
            left out on CPUs, where keys and values are finite.
        scale: by default 1 / √size, which needs a known size.
        softcap: scores are softcap · tanh(score / softcap), before the mask.

    Scores of 16-bit floats are computed in float32. A row in which a mask leaves no key is 0.
    """
    op = "attention"
    operands = graph_of(op, query, key, value).promoted(op, (query, key, value), "layer_norm")
    for operand in operands:
        if len(operand.shape) < 2:
            raise mistake(op, f"{len(operand.shape)} axes", operands, "(…, heads, length, size)", "insert axes of size 1")
    q, k, v = operands[0], *[_shared_heads(op, operands, each) for each in operands[1:]]
    size = q.shape[-1]
    if q.graph.shape_checks.decide(size, k.shape[-1]) is False:
        problem, fix = f"queries of {size} numbers and keys of {k.shape[-1]}", "key.transpose(), if keys are columns"
        raise mistake(op, problem, operands, "one size", fix)
    if scale is None and not isinstance(size, int):
        raise mistake(op, f"heads of {size} numbers and no scale", operands, "a known size, or a scale", "scale=0.125")
    factor = float(scale) if scale is not None else 1.0 / math.sqrt(max(size, 1))  # type: ignore[arg-type, type-var]
    work = accumulator(q.dtype)
    scores = apply("mul", matmul(primitives.cast(q, work), primitives.cast(k, work).transpose()), factor)
    if softcap is not None:
        if isinstance(softcap, bool) or not isinstance(softcap, (int, float)) or not softcap > 0:
            raise mistake(op, f"softcap is {softcap!r:.40}", operands, "a positive number", "softcap=30.0")
        scores = apply("mul", apply("tanh", apply("div", scores, float(softcap))), float(softcap))
    biases = []
    if is_causal:
        rows, columns = (counting(q.graph, extent) for extent in (q.shape[-2], k.shape[-2]))
        seen = apply("less_equal", columns, primitives.reshape(rows, (q.shape[-2], 1)))
        biases.append(_bias(seen, work))
    if mask is not None:
        given = q.graph.as_symbol(mask, op)
        biases.append(_bias(given, work) if given.dtype.is_bool else primitives.cast(given, work))
    for bias in biases:
        scores = apply("add", scores, bias)
    found = matmul(primitives.cast(softmax(scores, -1), v.dtype), v)
    if mask is None or not biases[-1].shape or biases[-1].shape[-1] == 0:
        return found
    return apply("where", any_(apply("not_equal", biases[-1], -math.inf), -1, keepdims=True), found, 0.0)


def _bias(seen: Symbol, dtype: DType) -> Symbol:
    """Return 0 where a key counts, and -inf elsewhere."""
    return apply("where", seen, *[seen.graph.scalar(number, dtype) for number in (0.0, -math.inf)])


def _shared_heads(op: str, operands: Sequence[Symbol], x: Symbol) -> Symbol:
    """Repeat heads of keys or values for the heads of queries that share them."""
    wanted = operands[0].shape[-3] if len(operands[0].shape) > 2 else 1
    *batch, heads, length, size = x.shape if len(x.shape) > 2 else (1, *x.shape)
    if len(x.shape) < 3 or heads in (wanted, 1) or wanted == 1:
        return x
    group = exact_quotient(wanted, heads)
    if group is None:
        raise mistake(op, f"{wanted} heads of queries, {heads} of keys", operands, "a multiple", "repeat_interleave the keys")
    apart = primitives.reshape(x, (*batch, heads, 1, length, size))
    wide = primitives.broadcast_to(apart, (*batch, heads, group, length, size))
    return primitives.reshape(wide, (*batch, wanted, length, size))

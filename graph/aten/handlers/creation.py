"""Handles what makes tensors of nothing: constants, counts, and memory without a value, which is zero here."""

from __future__ import annotations

import numpy as np

from ....promotion.dtype import DType, float32, float64, int64
from ...dims.dim import Dim, Extent
from ...functions.building import apply
from ...functions.positions import counting
from ...functions.triangles import tril, triu
from ...symbol import Symbol
from ..node import Node, Number
from ..registry import handles

_FEW = 1 << 16
"""Up to this many elements, a count is a constant."""


def filled(node: Node, value: Number | Dim) -> Symbol:
    """Return the declared result, with one number everywhere."""
    return node.broadcast(node.operand(value, node.dtype))


@handles("full.default")
def full(node: Node, size: tuple[Extent, ...], fill_value: Number | Dim, dtype: DType | None = None) -> Symbol:
    """Return a number everywhere."""
    return filled(node, fill_value)


@handles("full_like.default", "new_full.default")
def full_like(node: Node, x: Symbol, *arguments: object, dtype: DType | None = None) -> Symbol:
    """Return a number everywhere, in the shape of a tensor."""
    value = arguments[-1]
    if not isinstance(value, (int, float, Dim)):
        node.unsupported(f"the value {value!r:.60}", "fill with a number")
    return filled(node, value)


@handles("scalar_tensor.default")
def scalar_tensor(node: Node, s: Number | Dim, dtype: DType | None = None) -> Symbol:
    """Return a number as a tensor without axes."""
    return node.operand(s, node.dtype)


@handles("zeros.default", "zeros_like.default", "new_zeros.default")
def zeros(node: Node, *arguments: object, dtype: DType | None = None) -> Symbol:
    """Return zeros."""
    return filled(node, 0)


@handles("ones.default", "ones_like.default", "new_ones.default")
def ones(node: Node, *arguments: object, dtype: DType | None = None) -> Symbol:
    """Return ones."""
    return filled(node, 1)


@handles("empty.memory_format", "empty_like.default", "empty_permuted.default", "empty_strided.default", "new_empty.default",
         "new_empty_strided.default")  # fmt: skip
def empty(node: Node, *arguments: object, dtype: DType | None = None) -> Symbol:
    """Return zeros: every value is right."""
    return filled(node, 0)


@handles("arange.default")
def arange(node: Node, end: Number | Dim, dtype: DType | None = None) -> Symbol:
    """Count from 0."""
    return _counted(node, 0, 1)


@handles("arange.start", "arange.start_step")
def arange_from(
    node: Node, start: Number | Dim, end: Number | Dim, step: Number | Dim = 1, dtype: DType | None = None
) -> Symbol:
    """Count from a number in steps."""
    return _counted(node, start, step)


def _counted(node: Node, start: Number | Dim, step: Number | Dim) -> Symbol:
    """Return start + step · i, computed in float64 or int64 as in ATen."""
    (count,) = node.shape
    dtype = node.dtype
    if not dtype.is_float:
        start, step = (each if isinstance(each, Dim) else int(each) for each in (start, step))
    if isinstance(count, int) and count <= _FEW and not isinstance(start, Dim) and not isinstance(step, Dim):
        wide_numpy = np.dtype(np.float64 if dtype.is_float else np.int64)
        numbers = np.array(start, wide_numpy) + np.array(step, wide_numpy) * np.arange(count).astype(wide_numpy)
        return node.graph.constant(numbers.astype(dtype.numpy), dtype)
    wide = float64 if dtype.is_float else int64
    result = counting(node.graph, count).cast(wide)
    if step != 1:
        result = apply("mul", result, node.operand(step, wide))
    if start != 0:
        result = apply("add", result, node.operand(start, wide))
    return result.cast(dtype)


@handles("eye.default", "eye.m")
def eye(node: Node, n: Extent, m: Extent | None = None, dtype: DType | None = None) -> Symbol:
    """Return ones on the diagonal and zeros elsewhere."""
    rows, columns = node.shape
    same = apply("equal", counting(node.graph, rows).reshape((rows, 1)), counting(node.graph, columns).reshape((1, columns)))
    return same.cast(node.dtype)


@handles("tril.default")
def lower(node: Node, x: Symbol, diagonal: Extent = 0) -> Symbol:
    """Return the lower triangles of the last two axes."""
    return tril(x, diagonal)


@handles("triu.default")
def upper(node: Node, x: Symbol, diagonal: Extent = 0) -> Symbol:
    """Return the upper triangles of the last two axes."""
    return triu(x, diagonal)


@handles("tril_indices.default", "triu_indices.default")
def triangle_positions(node: Node, row: int, col: int, offset: int = 0, dtype: DType | None = None) -> Symbol:
    """Return the rows and columns of a triangle's elements."""
    found = np.tril_indices(row, offset, col) if node.kind == "tril_indices" else np.triu_indices(row, offset, col)
    return node.graph.constant(np.stack(found).astype(node.dtype.numpy), node.dtype)


@handles("linspace.default")
def linspace(node: Node, start: Number, end: Number, steps: int, dtype: DType | None = None) -> Symbol:
    """Return numbers at equal distances, counted from the nearer end, as in ATen."""
    (count,) = node.static(node.shape, "linspace")
    return spaced_constant(node, start, end, count, node.dtype)


def spaced_constant(node: Node, start: Number, end: Number, count: int, dtype: DType) -> Symbol:
    """Return numbers at equal distances as a constant."""
    wide = np.dtype(np.float32 if dtype is float32 else np.float64)
    distance = np.array(end - start, wide) / np.array(max(count - 1, 1), wide)
    position = np.arange(count)
    first = np.array(start, wide) + distance * position.astype(wide)
    last = np.array(end, wide) - distance * (count - 1 - position).astype(wide)
    numbers = np.where(position < count / 2, first, last)
    return node.graph.constant(numbers.astype(dtype.numpy), dtype)

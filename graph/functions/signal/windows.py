"""Defines window functions: cosines by which signals are faded in and out before they are transformed."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from ....promotion.arrays import Array
from ....promotion.dtype import float32, float64
from ....promotion.errors import UserError
from ...construction import primitives
from ...dims.dim import Extent, maximum
from ...graph import Graph
from ...symbol import Symbol
from ...types import DimLike, DTypeLike, as_dtype, as_extent
from ..building import apply
from ..creation import creates, owner_of
from ..positions import counting

HANN = (0.5, 0.5)
HAMMING_OF_ONNX = (25 / 46, 21 / 46)
BLACKMAN = (0.42, 0.5, 0.08)
"""Terms of a window: that of number k is multiplied by (-1)ᵏ cos(2 π k i / n)."""
_STORED = 1 << 16


def window_values(terms: Sequence[float], size: int, periodic: bool) -> Array:
    """Return a window in float64; a symmetric one of one element is 1."""
    if size == 1 and not periodic:
        return np.ones(1)
    angles = 2 * np.pi * np.arange(size, dtype=np.float64) / max(size if periodic else size - 1, 1)
    found: Array = np.zeros(size)
    for number, term in enumerate(terms):
        found = found + (-1) ** number * term * np.cos(number * angles)
    return found


def _window(op: str, graph: Graph | Symbol, terms: Sequence[float], size: DimLike, periodic: bool, dtype: DTypeLike) -> Symbol:
    owner, target = owner_of(op, graph), as_dtype(dtype, f"{op}: dtype")
    if not target.is_float or not target.has_arithmetic:
        raise UserError(f"{op}: dtype is {target}; expected a float dtype with arithmetic; fix: dtype=float32")
    extent = as_extent(size, f"{op}: size")
    if isinstance(extent, int) and extent < 0:
        raise UserError(f"{op}: size is {extent}; expected 0 or more; fix: size=0")
    if isinstance(extent, int) and extent <= _STORED:
        return primitives.cast(owner.constant(window_values(terms, extent, bool(periodic))), target)
    return primitives.cast(_counted(owner, terms, extent, bool(periodic)), target)


def _counted(graph: Graph, terms: Sequence[float], size: Extent, periodic: bool) -> Symbol:
    """Return a window whose size is known when the graph runs, in float64."""
    steps = graph.dim_value(maximum(size if periodic else size - 1, 1)).cast(float64)
    angle = apply("div", counting(graph, size).cast(float64), steps)
    found = graph.scalar(terms[0], float64)
    for number, term in enumerate(terms[1:], 1):
        cosine = apply("cos", apply("mul", angle, 2 * math.pi * number))
        found = apply("add", found, apply("mul", cosine, (-1) ** number * term))
    if periodic:
        return found
    alone = apply("equal", graph.dim_value(size), 1)
    return apply("where", alone, graph.scalar(1.0, float64), found)


@creates
def hann_window(graph: Graph | Symbol, size: DimLike, periodic: bool = True, dtype: DTypeLike = float32) -> Symbol:
    """Return 0.5 - 0.5 cos(2 π i / n) for i = 0, …, size - 1: numpy.hanning, and ONNX's and torch's hann_window.

    Args:
        graph: the graph it belongs to, or any symbol of it.
        size: how many elements; an int, name or dim.
        periodic: whether n is `size`, for transforms of signals that go on; otherwise it is size - 1, so that the window is
            symmetric: NumPy's.
        dtype: a float dtype. Windows are computed in float64 and rounded once.

    Example:
        >>> g = jn.Graph("g", [jn.TensorType(jn.float32, ("n",), "x")])
        >>> g.output(jn.hann_window(g, 5, periodic=False) * 2, g.inputs[0])
        >>> jn.evaluate(g, np.ones(1, np.float32))[0].tolist()
        [0.0, 1.0, 2.0, 1.0, 0.0]
    """
    return _window("hann_window", graph, HANN, size, periodic, dtype)


@creates
def hamming_window(
    graph: Graph | Symbol, size: DimLike, periodic: bool = True, alpha: float = 0.54, dtype: DTypeLike = float32
) -> Symbol:
    """Return alpha - (1 - alpha) cos(2 π i / n) for i = 0, …, size - 1: numpy.hamming, torch's hamming_window.

    alpha: 0.54 for NumPy and torch, 25 / 46 for ONNX's HammingWindow. The other arguments are those of `hann_window`.
    """
    if isinstance(alpha, bool) or not isinstance(alpha, (int, float)) or not math.isfinite(alpha):
        raise UserError(f"hamming_window: alpha is {alpha!r:.40}; expected a finite number; fix: alpha=0.54")
    return _window("hamming_window", graph, (alpha, 1 - alpha), size, periodic, dtype)


@creates
def blackman_window(graph: Graph | Symbol, size: DimLike, periodic: bool = True, dtype: DTypeLike = float32) -> Symbol:
    """Return 0.42 - 0.5 cos(2 π i / n) + 0.08 cos(4 π i / n) for i = 0, …, size - 1: numpy.blackman, and ONNX's and torch's.

    The arguments are those of `hann_window`.
    """
    return _window("blackman_window", graph, BLACKMAN, size, periodic, dtype)

"""Defines normalisations over the last axis."""

from __future__ import annotations

from collections.abc import Sequence

from ..errors import mistake
from ..ops.attributes import Attributes
from ..protocols import TensorLike
from ..symbol import Symbol
from .building import as_symbols


def layer_norm(x: TensorLike, scale: TensorLike | None = None, bias: TensorLike | None = None, epsilon: float = 1e-5) -> Symbol:
    """Compute (x - mean) / √(var + epsilon) · scale + bias, over the last axis (Ba et al., 2016).

    Args:
        x: (…, N).
        scale, bias: (N,), symbols or arrays, or None to leave them out.
        epsilon: a non-negative number.

    The variance takes two passes; 16-bit floats are computed in float32 and rounded once. The result dtype is
    the join of the operands, or the default float for integers.
    """
    return _normalise(
        "layer_norm", x, [scale, bias], epsilon, {"has_scale": scale is not None, "has_bias": bias is not None}
    )


def rms_norm(x: TensorLike, scale: TensorLike | None = None, epsilon: float = 1e-6) -> Symbol:
    """Compute x / √(mean(x²) + epsilon) · scale, over the last axis (Zhang and Sennrich, 2019).

    The arguments are those of `layer_norm`.
    """
    return _normalise("rms_norm", x, [scale], epsilon, {"has_scale": scale is not None})


def _normalise(op: str, x: TensorLike, vectors: Sequence[TensorLike | None], epsilon: float, present: Attributes) -> Symbol:
    operands = as_symbols(op, x, *[vector for vector in vectors if vector is not None])
    if isinstance(epsilon, bool) or not isinstance(epsilon, (int, float)) or not 0 <= epsilon < float("inf"):
        raise mistake(op, f"epsilon is {epsilon!r}", operands, "a finite number, 0 or more", "epsilon=1e-5")
    return operands[0].graph.apply(op, operands, {**present, "epsilon": float(epsilon)})

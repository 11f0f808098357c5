"""Defines normalisations over the last axis, over channels, and over groups of these."""

from __future__ import annotations

import math
from collections.abc import Sequence

from ...promotion.dtype import DType
from ..construction import primitives
from ..dims.dim import exact_quotient
from ..errors import describing, mistake
from ..graph import graph_of
from ..ops.attributes import Attributes
from ..ops.opdef import accumulator
from ..ops.shape import normalize_axis
from ..protocols import TensorLike
from ..symbol import Symbol
from .building import apply, as_floats, as_symbols
from .reductions import mean, reduce_l1, reduce_l2, var


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


def batch_norm(
    x: TensorLike, scale: TensorLike | None, bias: TensorLike | None, mean: TensorLike, var: TensorLike, epsilon: float = 1e-5,
    axis: int = 1,
) -> Symbol:  # fmt: skip
    """Compute (x - mean) / √(var + epsilon) · scale + bias, for each channel by its own statistics (Ioffe and Szegedy, 2015).

    Args:
        x: (N, C, …), or with channels elsewhere.
        scale, bias: (C,), or None to leave them out.
        mean, var: (C,): statistics that training has found, or those of this batch.
        epsilon: a non-negative number.
        axis: that of the channels.

    16-bit floats are computed in float32 and rounded once.
    """
    op = "batch_norm"
    given = [x, mean, var, *[each for each in (scale, bias) if each is not None]]
    result, value, parameters = _opened(op, given, epsilon)
    with describing(op, value):
        number = normalize_axis(axis, len(value.shape))
    centre, spread, *rest = [_per_channel(op, value, each, number) for each in parameters]
    factor = apply("rsqrt", apply("add", spread, float(epsilon)))
    factor = factor if scale is None else apply("mul", factor, rest.pop(0))
    found = apply("mul", apply("sub", value, centre), factor)
    return primitives.cast(apply("add", found, rest[0]) if rest else found, result)


def group_norm(
    x: TensorLike, num_groups: int, scale: TensorLike | None = None, bias: TensorLike | None = None, epsilon: float = 1e-5
) -> Symbol:
    """Normalise groups of channels of each example over space, then scale and shift channels (Wu and He, 2018).

    Args:
        x: (N, C, …).
        num_groups: how many groups the C channels fall into, without a rest.
        scale, bias: (C,), or None to leave them out.
        epsilon: a non-negative number.

    The variance takes two passes; 16-bit floats are computed in float32 and rounded once.
    """
    return _in_groups("group_norm", x, num_groups, scale, bias, epsilon)


def instance_norm(
    x: TensorLike, scale: TensorLike | None = None, bias: TensorLike | None = None, epsilon: float = 1e-5
) -> Symbol:
    """Normalise each channel of each example over space, then scale and shift channels (Ulyanov et al., 2016).

    The arguments are those of `group_norm`, of as many groups as channels.
    """
    return _in_groups("instance_norm", x, None, scale, bias, epsilon)


def lrn(
    x: TensorLike, size: int, alpha: float = 1e-4, beta: float = 0.75, bias: float = 1.0, axis: int = 1
) -> Symbol:
    """Compute x / (bias + alpha / size · Σ x²)ᵝ, the sum over `size` neighbouring channels (Krizhevsky et al., 2012).

    As ONNX's LRN and torch's local_response_norm. 16-bit floats are computed in float32 and rounded once; integers become the
    rule set's default float.

    Args:
        x: (N, C, …), or with channels elsewhere.
        size: how many channels, 1 or more: (size - 1) // 2 before each, and the others after it.
        alpha, beta, bias: finite numbers.
        axis: that of the channels.

    Example:
        >>> g = jn.Graph("g", [jn.TensorType(jn.float32, (1, 4, "h"), "x")])
        >>> jn.lrn(g.inputs[0], 3).shape
        (1, 4, Dim('h'))
    """
    result, (value,) = as_floats("lrn", x)
    if type(size) is not int or size < 1:
        raise mistake("lrn", f"size is {size!r:.40}", (value,), "1 or more channels", "size=5")
    for name, given in (("alpha", alpha), ("beta", beta), ("bias", bias)):
        if isinstance(given, bool) or not isinstance(given, (int, float)) or not math.isfinite(given):
            raise mistake("lrn", f"{name} is {given!r:.40}", (value,), "a finite number", f"leave out {name}=")
    with describing("lrn", value):
        channels = normalize_axis(axis, len(value.shape))
    below = (size - 1) // 2
    low, high = (
        tuple([width if a == channels else 0 for a in range(len(value.shape))]) for width in (below, size - 1 - below)
    )
    squares = apply("mul", value, value)
    squares = squares if size == 1 else apply("pad", squares, low=low, high=high, mode="constant", value=0.0)
    extents = (value.shape[channels],)
    taken = apply("windows", squares, axes=(channels,), counts=extents, sizes=(size,), strides=(1,), dilations=(1,))
    total = apply("reduce_sum", taken, axes=(len(value.shape),), keepdims=False)
    spread = apply("pow", apply("add", apply("mul", total, float(alpha) / size), float(bias)), float(beta))
    return primitives.cast(apply("div", value, spread), result)


def lp_norm(x: TensorLike, p: int = 2, axis: int = -1) -> Symbol:
    """Divide by the p-norm along an axis, as ONNX's LpNormalization and torch's normalize; nothing but zeros stays so.

    p: 1, the sum of magnitudes, or 2, the Euclidean norm. 16-bit floats are computed in float32 and rounded once; integers
    become the rule set's default float.

    Example:
        >>> g = jn.Graph("g", [jn.TensorType(jn.float32, ("n", 4), "x")])
        >>> jn.lp_norm(g.inputs[0]).shape
        (Dim('n'), 4)
    """
    result, (value,) = as_floats("lp_norm", x)
    if p not in (1, 2) or isinstance(p, bool):
        raise mistake("lp_norm", f"p is {p!r:.40}", (value,), "1 or 2", "p=2")
    norm = reduce_l2(value, axis, True) if p == 2 else reduce_l1(value, axis, True)
    quotient = apply("div", value, norm)
    return primitives.cast(apply("where", apply("equal", norm, 0.0), 0.0, quotient), result)


def _in_groups(
    op: str, x: TensorLike, groups: int | None, scale: TensorLike | None, bias: TensorLike | None, epsilon: float
) -> Symbol:
    given = [x, *[each for each in (scale, bias) if each is not None]]
    result, value, parameters = _opened(op, given, epsilon)
    if len(value.shape) < 2:
        raise mistake(op, f"{len(value.shape)} axes", (value,), "examples and channels: (N, C, …)", "insert axes of size 1")
    batch, channels, *space = value.shape
    count = channels if groups is None else groups
    each = exact_quotient(channels, count) if groups is None or (type(groups) is int and groups > 0) else None
    if each is None:
        raise mistake(op, f"{groups!r} groups of {channels} channels", (value,), "a divisor of the channels", "num_groups=1")
    apart = primitives.reshape(value, (batch, count, each, *space))
    axes = tuple(range(2, len(apart.shape)))
    spread = apply("rsqrt", apply("add", var(apart, axes, keepdims=True), float(epsilon)))
    found = primitives.reshape(apply("mul", apply("sub", apart, mean(apart, axes, True)), spread), value.shape)
    vectors = [_per_channel(op, value, parameter, 1) for parameter in parameters]
    found = found if scale is None else apply("mul", found, vectors.pop(0))
    return primitives.cast(apply("add", found, vectors[0]) if vectors else found, result)


def _opened(op: str, given: Sequence[TensorLike], epsilon: float) -> tuple[DType, Symbol, tuple[Symbol, ...]]:
    """Return the dtype of the result, the join of all operands, and these in the dtype in which they are computed with."""
    joined = graph_of(op, *given).promoted(op, given, "layer_norm")
    result = joined[0].dtype
    value, *vectors = [primitives.cast(operand, accumulator(result)) for operand in joined]
    if isinstance(epsilon, bool) or not isinstance(epsilon, (int, float)) or not 0 <= epsilon < float("inf"):
        raise mistake(op, f"epsilon is {epsilon!r}", (value,), "a finite number, 0 or more", "epsilon=1e-5")
    return result, value, tuple(vectors)


def _per_channel(op: str, x: Symbol, symbol: Symbol, axis: int) -> Symbol:
    """Return a vector over channels in a form that broadcasts against the tensor."""
    if len(symbol.shape) != 1 or x.graph.shape_checks.decide(symbol.shape[0], x.shape[axis]) is False:
        raise mistake(op, "a parameter that has not one number for each channel", (x, symbol), f"shape ({x.shape[axis]},)",
                      f"axis={axis} is that of the channels" if op == "batch_norm" else "channels are axis 1")  # fmt: skip
    with describing(op, x, symbol):
        x.graph.shape_checks.require_equal(symbol.shape[0], x.shape[axis], "the number of channels")
    return primitives.reshape(symbol, (*symbol.shape, *(1,) * (len(x.shape) - 1 - axis)))

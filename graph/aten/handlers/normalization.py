"""Handles softmax and normalisations, whole: each is a composite of joinery or one pass over its rows."""

from __future__ import annotations

from ....promotion.dtype import DType, float32
from ...dims.dim import Extent, product
from ...functions import activations, normalization, reductions
from ...functions.building import apply
from ...symbol import Symbol
from ..node import Node, Number
from ..registry import handles


def _wide(x: Symbol) -> Symbol:
    return x.cast(float32) if x.dtype.bits == 16 else x


@handles("_softmax.default", "_log_softmax.default")
def softmax_half(node: Node, x: Symbol, dim: int, half_to_float: bool = False) -> Symbol:
    """Compute softmax or its logarithm along an axis."""
    return _softmax(node, x, dim)


@handles("softmax.int", "log_softmax.int", "_safe_softmax.default", "special_softmax.int", "special_log_softmax.int")
def softmax(node: Node, x: Symbol, dim: int, dtype: DType | None = None) -> Symbol:
    """Compute softmax or its logarithm along an axis, in a given dtype."""
    return _softmax(node, x.cast(node.dtype), dim)


def _softmax(node: Node, x: Symbol, dim: int) -> Symbol:
    if not x.shape:
        return _of_one(node, x)
    axis = node.axis(dim, len(x.shape))
    function = activations.logsoftmax if "log" in node.kind else activations.softmax
    result = function(_wide(x), axis).cast(node.dtype)
    if node.kind == "_safe_softmax":  # rows of nothing but -inf are 0
        best = reductions.max_(x, axis=axis, keepdims=True)
        some = apply("greater", best, node.number(float("-inf"), x.dtype))
        result = apply("where", some, result, node.number(0.0, node.dtype))
    return result


def _of_one(node: Node, x: Symbol) -> Symbol:
    """Return the softmax of one number: 1, or NaN where it is not finite."""
    wide = x.cast(node.dtype)
    zero = apply("sub", wide, wide)
    return zero if "log" in node.kind else apply("add", zero, node.number(1.0, node.dtype))


def _flat(x: Symbol, count: int) -> tuple[Symbol, tuple[Extent, ...]]:
    """Return a tensor with its last `count` axes as one, and the axes before."""
    before = x.shape[: len(x.shape) - count]
    return (x if count == 1 else apply("reshape", x, shape=(*before, product(x.shape[len(before) :])))), before


def _vector(x: Symbol | None) -> Symbol | None:
    return x if x is None or len(x.shape) == 1 else apply("reshape", x, shape=(product(x.shape),))


def _cast(x: Symbol | None, dtype: DType) -> Symbol | None:
    return None if x is None else x.cast(dtype)


def _layer_norm(x: Symbol, count: int, weight: Symbol | None, bias: Symbol | None, eps: float) -> Symbol:
    flat, _ = _flat(x, count)
    if eps < 0:  # the roots of small variances are NaN
        wide = _wide(flat)
        offset = apply("add", reductions.var(wide, (-1,), True), wide.graph.scalar(float(eps), wide.dtype))
        plain = apply("mul", apply("sub", wide, reductions.mean(wide, (-1,), True)), apply("rsqrt", offset))
        scale, shift = (_cast(_vector(each), wide.dtype) for each in (weight, bias))
        scaled = plain if scale is None else apply("mul", plain, scale)
        return apply("reshape", (scaled if shift is None else apply("add", scaled, shift)).cast(x.dtype), shape=x.shape)
    if (weight is None or weight.dtype is x.dtype) and (bias is None or bias.dtype is x.dtype):
        result = normalization.layer_norm(flat, _vector(weight), _vector(bias), float(eps))
    else:  # parameters of another dtype: computed in float32, as in ATen
        scale, shift = (_cast(_vector(each), float32) for each in (weight, bias))
        result = normalization.layer_norm(flat.cast(float32), scale, shift, float(eps)).cast(x.dtype)
    return result if count == 1 else apply("reshape", result, shape=x.shape)


@handles("layer_norm.default")
def layer_norm(
    node: Node, x: Symbol, normalized_shape: tuple[Extent, ...], weight: Symbol | None = None, bias: Symbol | None = None,
    eps: float = 1e-05, cudnn_enable: bool = True,
) -> Symbol:  # fmt: skip
    """Normalise the last axes."""
    return _layer_norm(x, len(normalized_shape), weight, bias, eps)


@handles("native_layer_norm.default")
def native_layer_norm(
    node: Node, x: Symbol, normalized_shape: tuple[Extent, ...], weight: Symbol | None, bias: Symbol | None, eps: float
) -> tuple[Symbol, Symbol, Symbol]:
    """Normalise the last axes, and return means and inverse deviations for the backward pass."""
    count = len(normalized_shape)
    axes = tuple(range(len(x.shape) - count, len(x.shape)))
    mean, inverse = _moments(node, x, axes, eps)
    result = _layer_norm(x, count, weight, bias, eps)
    return result, mean.cast(node.result(1).dtype), inverse.cast(node.result(2).dtype)


def _moments(node: Node, x: Symbol, axes: tuple[int, ...], eps: float) -> tuple[Symbol, Symbol]:
    """Return means and inverse deviations over axes, which stay with size 1."""
    wide = _wide(x)
    variance = reductions.var(wide, axes, True)
    inverse = apply("rsqrt", apply("add", variance, node.number(float(eps), wide.dtype)))
    return reductions.mean(wide, axes, True), inverse


@handles("rms_norm.default", "_fused_rms_norm.default")
def rms_norm(
    node: Node, x: Symbol, normalized_shape: tuple[Extent, ...], weight: Symbol | None = None, eps: float | None = None
) -> Symbol | tuple[Symbol, Symbol]:
    """Divide the last axes by the root of their mean square."""
    count = len(normalized_shape)
    epsilon = float(eps) if eps is not None else _epsilon(x.dtype)
    flat, _ = _flat(x, count)
    scale = _cast(_vector(weight), x.dtype)
    result = normalization.rms_norm(flat, scale, epsilon)
    result = result if count == 1 else apply("reshape", result, shape=x.shape)
    if node.kind == "rms_norm":
        return result
    wide = _wide(x)
    axes = tuple(range(len(x.shape) - count, len(x.shape)))
    square = reductions.mean(apply("mul", wide, wide), axes, True)
    return result, apply("rsqrt", apply("add", square, node.number(epsilon, wide.dtype))).cast(node.result(1).dtype)


def _epsilon(dtype: DType) -> float:
    """Return the distance of 1 to the next number of the dtype that ATen computes in."""
    return 2.0**-52 if dtype.bits == 64 else 2.0**-23


def _per_channel(x: Symbol, rank: int) -> Symbol:
    """Return one number per channel, to broadcast against (N, C, …)."""
    return apply("reshape", x, shape=(x.shape[0], *(1,) * (rank - 2)))


@handles("native_group_norm.default")
def native_group_norm(
    node: Node, x: Symbol, weight: Symbol | None, bias: Symbol | None, N: Extent, C: Extent, HxW: Extent, group: int,
    eps: float,
) -> tuple[Symbol, Symbol, Symbol]:  # fmt: skip
    """Normalise groups of channels, and return means and inverse deviations."""
    wide = apply("reshape", _wide(x), shape=(N, group, (C // group) * HxW))
    mean, inverse = _moments(node, wide, (2,), eps)
    result = apply("reshape", apply("mul", apply("sub", wide, mean), inverse), shape=x.shape)
    result = _affine(result, weight, bias, len(x.shape)).cast(x.dtype)
    small = [apply("reshape", each, shape=(N, group)) for each in (mean, inverse)]
    return result, small[0].cast(node.result(1).dtype), small[1].cast(node.result(2).dtype)


def _affine(x: Symbol, weight: Symbol | None, bias: Symbol | None, rank: int) -> Symbol:
    """Return x · weight + bias, of one number per channel each."""
    if weight is not None:
        x = apply("mul", x, _per_channel(weight.cast(x.dtype), rank))
    return x if bias is None else apply("add", x, _per_channel(bias.cast(x.dtype), rank))


@handles("_native_batch_norm_legit_no_training.default")
def batch_norm_inference(
    node: Node, x: Symbol, weight: Symbol | None, bias: Symbol | None, running_mean: Symbol, running_var: Symbol,
    momentum: Number, eps: float,
) -> tuple[Symbol, Symbol, Symbol]:  # fmt: skip
    """Normalise channels by running statistics; the saved ones are empty."""
    wide = _wide(x)
    rank, dtype = len(x.shape), wide.dtype
    variance = apply("add", running_var.cast(dtype), node.number(eps, dtype))
    inverse = apply("div", node.number(1.0, dtype), apply("sqrt", variance))
    scale = inverse if weight is None else apply("mul", inverse, weight.cast(dtype))
    shift = apply("mul", running_mean.cast(dtype), scale)
    offset = apply("negate", shift) if bias is None else apply("sub", bias.cast(dtype), shift)
    result = apply("add", apply("mul", wide, _per_channel(scale, rank)), _per_channel(offset, rank)).cast(x.dtype)
    empty = [node.broadcast(node.number(0.0, node.result(at).dtype), node.result(at).shape) for at in (1, 2)]
    return result, empty[0], empty[1]


@handles("_native_batch_norm_legit_functional.default")
def batch_norm_training(
    node: Node, x: Symbol, weight: Symbol | None, bias: Symbol | None, running_mean: Symbol, running_var: Symbol,
    training: bool, momentum: Number, eps: float,
) -> tuple[Symbol, ...]:  # fmt: skip
    """Normalise channels by their own statistics, and return the running ones moved towards these."""
    if not training:
        found = batch_norm_inference(node, x, weight, bias, running_mean, running_var, momentum, eps)
        kept = [each.cast(node.result(at).dtype) for at, each in ((3, running_mean), (4, running_var))]
        return *found, *kept
    result, flat = _batch_norm(node, x, weight, bias, eps)
    unbiased = reductions.var(_wide(x), (0, *range(2, len(x.shape))), False, 1)
    moved = [
        _moved(node, old, new, momentum).cast(node.result(at).dtype)
        for at, old, new in ((3, running_mean, flat[0]), (4, running_var, unbiased))
    ]
    saved = [each.cast(node.result(at).dtype) for at, each in ((1, flat[0]), (2, flat[1]))]
    return (result, *saved, *moved)


@handles("_batch_norm_with_update_functional.default")
def batch_norm_with_update(
    node: Node, x: Symbol, weight: Symbol | None, bias: Symbol | None, running_mean: Symbol, running_var: Symbol,
    momentum: Number, eps: float,
) -> tuple[Symbol, ...]:  # fmt: skip
    """Normalise channels by their own statistics; the reserve, which other devices need, is empty."""
    result, flat = _batch_norm(node, x, weight, bias, eps)
    unbiased = reductions.var(_wide(x), (0, *range(2, len(x.shape))), False, 1)
    found = (*flat, node.broadcast(node.number(0, node.result(3).dtype), node.result(3).shape),
             _moved(node, running_mean, flat[0], momentum), _moved(node, running_var, unbiased, momentum))  # fmt: skip
    return (result, *[each.cast(node.result(at + 1).dtype) for at, each in enumerate(found)])


def _batch_norm(
    node: Node, x: Symbol, weight: Symbol | None, bias: Symbol | None, eps: float
) -> tuple[Symbol, list[Symbol]]:
    """Return normalised channels, and their means and inverse deviations."""
    wide = _wide(x)
    rank = len(x.shape)
    mean, inverse = _moments(node, wide, (0, *range(2, rank)), eps)
    result = _affine(apply("mul", apply("sub", wide, mean), inverse), weight, bias, rank).cast(x.dtype)
    return result, [apply("reshape", each, shape=(x.shape[1],)) for each in (mean, inverse)]


@handles("_native_batch_norm_legit.no_stats")
def batch_norm_without_statistics(
    node: Node, x: Symbol, weight: Symbol | None, bias: Symbol | None, training: bool, momentum: Number, eps: float
) -> tuple[Symbol, ...]:
    """Normalise channels by their own statistics."""
    result, flat = _batch_norm(node, x, weight, bias, eps)
    return (result, *[each.cast(node.result(at).dtype) for at, each in ((1, flat[0]), (2, flat[1]))])


def _moved(node: Node, old: Symbol, new: Symbol, momentum: Number) -> Symbol:
    """Return momentum · new + (1 - momentum) · old."""
    dtype = new.dtype
    kept = apply("mul", old.cast(dtype), node.number(1 - momentum, dtype))
    return apply("add", apply("mul", new, node.number(momentum, dtype)), kept)


# -- weights -----------------------------------------------------------------------------------------------------------


@handles("_weight_norm_interface_backward.default")
def weight_norm_backward(
    node: Node, grad_w: Symbol, saved_v: Symbol, saved_g: Symbol, saved_norms: Symbol, dim: int
) -> tuple[Symbol, Symbol]:
    """Return the gradients of direction and length of weights w = g · v / ‖v‖, whose norms are over all axes but one."""
    rank = len(saved_v.shape)
    kept = node.axis(dim, rank)
    shape = tuple([extent if axis == kept else 1 for axis, extent in enumerate(saved_v.shape)])
    wide = _wide(saved_v).dtype
    grad, v = grad_w.cast(wide), saved_v.cast(wide)
    g, norm = (apply("reshape", each.cast(wide), shape=shape) for each in (saved_g, saved_norms))
    axes = tuple([axis for axis in range(rank) if axis != kept])
    along = apply("div", apply("reduce_sum", apply("mul", grad, v), axes=axes, keepdims=True), norm)
    across = apply("sub", grad, apply("mul", v, apply("div", along, norm)))
    direction = apply("mul", apply("div", g, norm), across)
    return direction.cast(node.result(0).dtype), node.shaped(along.cast(node.result(1).dtype), node.result(1).shape)

"""Handles scaled dot-product attention, whole: products, scale, mask and softmax, which are lowered to one kernel."""

from __future__ import annotations

import math

from ....promotion.dtype import DType, bool_, float32, float64
from ...functions.activations import gelu, softmax
from ...functions.building import apply
from ...functions.linalg import matmul
from ...functions.normalization import layer_norm
from ...functions.positions import counting
from ...functions.reductions import logsumexp
from ...symbol import Symbol
from ...types import Shape
from ..node import Node
from ..registry import handles


@handles("scaled_dot_product_attention.default")
def scaled_dot_product_attention(
    node: Node, query: Symbol, key: Symbol, value: Symbol, attn_mask: Symbol | None = None, dropout_p: float = 0.0,
    is_causal: bool = False, scale: float | None = None, enable_gqa: bool = False,
) -> Symbol:  # fmt: skip
    """Attend; with `enable_gqa`, several heads of queries share one of keys and values."""
    if enable_gqa:
        key, value = (_repeated(node, each, query) for each in (key, value))
    return _attended(node, query, key, value, attn_mask, dropout_p, is_causal, scale)[0]


@handles("_scaled_dot_product_flash_attention_for_cpu.default")
def flash_attention(
    node: Node, query: Symbol, key: Symbol, value: Symbol, dropout_p: float = 0.0, is_causal: bool = False,
    attn_mask: Symbol | None = None, scale: float | None = None,
) -> tuple[Symbol, Symbol]:  # fmt: skip
    """Attend, and return the logarithms of the sums that the softmax divides by, for the backward pass."""
    key, value = (_repeated(node, each, query) for each in (key, value))
    result, scores = _attended(node, query, key, value, attn_mask, dropout_p, is_causal, scale)
    return result, logsumexp(scores, -1).cast(node.result(1).dtype)


@handles("_scaled_dot_product_flash_attention_for_cpu_backward.default")
def flash_attention_backward(
    node: Node, grad_out: Symbol, query: Symbol, key: Symbol, value: Symbol, out: Symbol, log_sums: Symbol, dropout_p: float,
    is_causal: bool, attn_mask: Symbol | None = None, scale: float | None = None,
) -> tuple[Symbol, Symbol, Symbol]:  # fmt: skip
    """Return the gradients of queries, keys and values; shares of the softmax are computed again from its sums (Dao, 2022)."""
    shapes = key.shape, value.shape
    key, value = (_repeated(node, each, query) for each in (key, value))
    scores, _ = _scores(node, query, key, attn_mask, dropout_p, is_causal, scale)
    wide = scores.dtype
    sums = log_sums.cast(wide).reshape((*log_sums.shape, 1))
    shares = apply("exp", apply("sub", scores, sums))
    if attn_mask is not None:  # a row without any key has no shares, where -inf - -inf is NaN
        closed = apply("equal", sums, node.number(-math.inf, wide))
        shares = apply("where", closed, node.number(0.0, wide), shares)
    grad, q, k, v = (each.cast(wide) for each in (grad_out, query, key, value))
    whole = apply("reduce_sum", apply("mul", grad, out.cast(wide)), axes=(len(out.shape) - 1,), keepdims=True)
    inner = apply("mul", shares, apply("sub", matmul(grad, v.transpose()), whole))
    inner = apply("mul", inner, _scale(node, query, scale, wide))
    products = matmul(inner.transpose(), q), matmul(shares.transpose(), grad)
    by_keys, by_values = (_gathered(each, shape) for each, shape in zip(products, shapes, strict=True))
    return matmul(inner, k).cast(query.dtype), by_keys.cast(key.dtype), by_values.cast(value.dtype)


def _gathered(x: Symbol, shape: Shape) -> Symbol:
    """Return the gradients of heads of keys or values: sums over the queries that share them."""
    if x.shape == shape:
        return x
    *batch, heads, length, size = shape
    apart = apply("reshape", x, shape=(*batch, heads, x.shape[-3] // heads, length, size))
    return apply("reduce_sum", apart, axes=(len(batch) + 1,), keepdims=False)


def _repeated(node: Node, x: Symbol, query: Symbol) -> Symbol:
    """Repeat heads of keys or values for the queries that share them."""
    *batch, heads, length, size = x.shape
    wanted = query.shape[-3]
    if heads == wanted:
        return x
    group = wanted // heads
    wide = apply("broadcast_to", x.reshape((*batch, heads, 1, length, size)), shape=(*batch, heads, group, length, size))
    return node.shaped(wide, (*batch, wanted, length, size))


def _scale(node: Node, query: Symbol, scale: float | Symbol | None, dtype: DType) -> Symbol:
    """Return the factor of the scores: the one given, else 1 / √size."""
    if isinstance(scale, Symbol):
        return scale.cast(dtype)
    if scale is not None:
        return node.number(float(scale), dtype)
    size = query.shape[-1]
    if isinstance(size, int):
        return node.number(1.0 / math.sqrt(size), dtype)
    root = apply("sqrt", node.graph.dim_value(size).cast(float64))
    return apply("div", node.number(1.0, float64), root).cast(dtype)


def _attended(
    node: Node, query: Symbol, key: Symbol, value: Symbol, mask: Symbol | None, dropout: float, causal: bool,
    scale: float | None,
) -> tuple[Symbol, Symbol]:  # fmt: skip
    """Return what attention gives, and its scores in float32 or float64."""
    scores, bias = _scores(node, query, key, mask, dropout, causal, scale)
    open_rows: Symbol | None = None
    # a row without any key is 0 in PyTorch, where the softmax of nothing but -inf is NaN
    if bias is not None and bias.shape and bias.shape[-1] != 0:
        best = apply("reduce_max", bias, axes=(len(bias.shape) - 1,), keepdims=True)
        open_rows = apply("greater", best, node.number(-math.inf, bias.dtype))
    result = matmul(softmax(scores, -1).cast(value.dtype), value).cast(value.dtype)
    if open_rows is not None:
        result = apply("where", open_rows, result, node.number(0.0, result.dtype))
    return result, scores


def _scores(
    node: Node, query: Symbol, key: Symbol, mask: Symbol | None, dropout: float, causal: bool, scale: float | None
) -> tuple[Symbol, Symbol | None]:
    """Return the scores in float32 or float64, and what the mask adds to them."""
    node.require(dropout == 0.0, "attention with dropout", "model.eval()")
    wide = float32 if query.dtype.bits == 16 else query.dtype
    scores = apply("mul", matmul(query.cast(wide), key.cast(wide).transpose()), _scale(node, query, scale, wide))
    if causal:
        rows, columns = (counting(node.graph, extent) for extent in (query.shape[-2], key.shape[-2]))
        seen = apply("less_equal", columns.reshape((1, key.shape[-2])), rows.reshape((query.shape[-2], 1)))
        scores = apply("add", scores, _bias(node, seen, wide))
    if mask is None:
        return scores, None
    bias = _bias(node, mask, wide) if mask.dtype is bool_ else mask.cast(wide)
    return apply("add", scores, bias), bias


def _bias(node: Node, seen: Symbol, dtype: DType) -> Symbol:
    """Return 0 where attention is allowed, and -inf elsewhere."""
    wide = node.number(0.0, dtype), node.number(-math.inf, dtype)
    return apply("where", seen, *wide)


@handles("_transformer_encoder_layer_fwd.default")
def encoder_layer(
    node: Node, src: Symbol, embed_dim: int, num_heads: int, qkv_weight: Symbol, qkv_bias: Symbol, proj_weight: Symbol,
    proj_bias: Symbol, use_gelu: bool, norm_first: bool, eps: float, norm_weight_1: Symbol, norm_bias_1: Symbol,
    norm_weight_2: Symbol, norm_bias_2: Symbol, ffn_weight_1: Symbol, ffn_bias_1: Symbol, ffn_weight_2: Symbol,
    ffn_bias_2: Symbol, mask: Symbol | None = None, mask_type: int | None = None,
) -> Symbol:  # fmt: skip
    """Run a layer of an encoder: attention and two products with an activation between them, each added to its input."""
    node.require(mask is None, "a mask of an encoder's fast layer", "torch.backends.mha.set_fastpath_enabled(False)")
    norms = (norm_weight_1, norm_bias_1), (norm_weight_2, norm_bias_2)

    def attend(x: Symbol) -> Symbol:
        *batch, length, _ = x.shape
        parts = _affine(x, qkv_weight, qkv_bias).reshape((*batch, length, 3, num_heads, embed_dim // num_heads))
        rank = len(batch)
        moved = apply("permute", parts, axes=(rank + 1, *range(rank), rank + 2, rank, rank + 3))
        q, k, v = (moved[number] for number in range(3))
        found, _ = _attended(node, q, k, v, None, 0.0, False, None)
        back = apply("permute", found, axes=(*range(rank), rank + 1, rank, rank + 2)).reshape(x.shape)
        return _affine(back, proj_weight, proj_bias)

    def feed(x: Symbol) -> Symbol:
        hidden = _affine(x, ffn_weight_1, ffn_bias_1)
        return _affine(gelu(hidden) if use_gelu else apply("relu", hidden), ffn_weight_2, ffn_bias_2)

    result = src
    for step, (weight, bias) in zip((attend, feed), norms, strict=True):
        if norm_first:
            result = apply("add", result, step(layer_norm(result, weight, bias, float(eps))))
        else:
            result = layer_norm(apply("add", result, step(result)), weight, bias, float(eps))
    return result


def _affine(x: Symbol, weight: Symbol, bias: Symbol) -> Symbol:
    return apply("add", matmul(x, apply("permute", weight, axes=(1, 0))), bias)

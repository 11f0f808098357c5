"""Handles operators of com.microsoft that optimisers put in the place of several others."""

from __future__ import annotations

from .....promotion.dtype import float32, int32, uint8
from ....functions.activations import gelu, hard_sigmoid, leaky_relu
from ....functions.building import apply
from ....functions.creation import full
from ....functions.joining import stack
from ....functions.linalg import matmul
from ....functions.normalization import layer_norm, rms_norm
from ....functions.positions import counting
from ....functions.reductions import mean, sum_
from ....symbol import Symbol
from ...node import Node, Result
from ...registry import handles
from ..spatial.convolution import conv

_DOMAIN = "com.microsoft"


@handles("Gelu", "BiasGelu", "FastGelu", domain=_DOMAIN)
def biased_gelu(node: Node) -> Result:
    """Apply gelu, after adding a bias; FastGelu approximates it by tanh."""
    x, bias = node[0], node.get(1)
    value = x if bias is None else apply("add", x, bias)
    return gelu(value, "tanh" if node.op == "FastGelu" else "none")


@handles("QuickGelu", domain=_DOMAIN)
def quick_gelu(node: Node) -> Result:
    """Compute x · sigmoid(alpha x)."""
    x = node[0]
    return apply("mul", x, apply("sigmoid", apply("mul", x, float(node.attr("alpha", 1.702)))))


@handles("FusedMatMul", domain=_DOMAIN)
def fused_matmul(node: Node) -> Result:
    """Multiply, with operands transposed on request, times a number."""
    a, b = (_matrices(node, position, name) for position, name in enumerate("AB"))
    alpha = float(node.attr("alpha", 1.0))
    result = matmul(a, b).cast(a.dtype)
    return result if alpha == 1 else apply("mul", result, alpha)


def _matrices(node: Node, position: int, name: str) -> Symbol:
    """Return an operand, whose first axis may be the one before the last, and whose last two axes may be exchanged."""
    x = node[position]
    rank = len(x.shape)
    if node.attr(f"transBatch{name}", 0):
        node.require(rank > 2, f"transBatch{name} of a tensor of {rank} axes", "3 axes or more")
        x = x.permute((*range(1, rank - 1), 0, rank - 1))
    return x.transpose() if node.attr(f"trans{name}", 0) else x


def _activated(node: Node, x: Symbol, name: str, numbers: list[float]) -> Symbol:
    """Apply the activation that an optimiser has put into another operator."""

    def number(position: int, default: float) -> float:
        return float(numbers[position]) if position < len(numbers) else default

    match name:
        case "" | "Identity":
            return x
        case "Relu" | "Tanh" | "Sigmoid":
            return apply(name.lower(), x)
        case "LeakyRelu":
            return leaky_relu(x, number(0, 0.01))
        case "Clip":
            return apply("minimum", apply("maximum", x, number(0, float("-inf"))), number(1, float("inf")))
        case "HardSigmoid":
            return hard_sigmoid(x, number(0, 0.2), number(1, 0.5))
    node.unsupported(f"the activation {name}", "run the optimiser without this fusion")
    return x


@handles("FusedConv", domain=_DOMAIN)
def fused_conv(node: Node) -> Result:
    """Convolve, add another tensor, and apply an activation."""
    result = conv(node)
    assert isinstance(result, Symbol)
    if node.has(3):
        result = apply("add", result, node[3])
    return _activated(node, result, node.attr("activation", ""), node.attr("activation_params", None) or [])


@handles("FusedGemm", domain=_DOMAIN)
def fused_gemm(node: Node) -> Result:
    """Multiply matrices, add a third, and apply an activation."""
    a = node[0].transpose() if node.attr("transA", 0) else node[0]
    b = node[1].transpose() if node.attr("transB", 0) else node[1]
    result = apply("mul", matmul(a, b).cast(a.dtype), float(node.attr("alpha", 1.0)))
    beta = float(node.attr("beta", 1.0))
    if node.has(2):
        result = apply("add", result, apply("mul", node[2], beta))
    numbers = [node.attr(f"activation_{name}", None) for name in ("alpha", "beta", "gamma")]
    given = [number for number in numbers if number is not None]
    return _activated(node, result, node.attr("activation", ""), given)


@handles("EmbedLayerNormalization", domain=_DOMAIN)
def embed_layer_normalization(node: Node) -> Result:
    """Look up words, positions and segments, normalise their sum, and count what a mask leaves of each row."""
    ids, vocabulary, table = node[0], node[2], node[3]
    node.require(len(ids.shape) == 2, f"input_ids of {len(ids.shape)} axes; (batch, length) is expected")
    batch, length = ids.shape
    positions = node[8] if node.has(8) else counting(ids.graph, length).reshape((1, length))
    total = apply("add", apply("gather", vocabulary, ids, axis=0), apply("gather", table, positions, axis=0))
    if node.has(1) and node.has(4):
        total = apply("add", total, apply("gather", node[4], node[1], axis=0))
    result = layer_norm(total, node[5], node[6], float(node.attr("epsilon", 1e-12)))
    node.ignore("mask_index_type")
    zero = apply("broadcast_to", ids.graph.scalar(0, int32), shape=(batch,))
    mask = sum_(node[7], -1).cast(int32) if node.has(7) else zero
    return result, mask, total


@handles("SkipLayerNormalization", domain=_DOMAIN)
def skip_layer_normalization(node: Node) -> Result:
    """Normalise a sum over the last axis, and return the mean, the inverse of the deviation, and the sum, too."""
    total, epsilon = _skipped(node, 4), float(node.attr("epsilon", 1e-12))
    result = layer_norm(total, node[2], node.get(3), epsilon)
    if not (node.wants(1) or node.wants(2)):
        return result, None, None, total
    value = total.cast(float32)
    centre = mean(value, -1, True)
    return result, centre, _inverse(apply("sub", value, centre), epsilon), total


@handles("SkipSimplifiedLayerNormalization", domain=_DOMAIN)
def skip_simplified_layer_normalization(node: Node) -> Result:
    """Divide a sum by the root of its mean square over the last axis, and return what it is multiplied by, and the sum, too."""
    total, epsilon = _skipped(node, 3), float(node.attr("epsilon", 1e-12))
    inverse = _inverse(total.cast(float32), epsilon) if node.wants(2) else None
    zeros = full(total.graph, (*total.shape[:-1], 1), 0.0, float32) if node.wants(1) else None  # for the mean, as onnxruntime
    return rms_norm(total, node[2], epsilon), zeros, inverse, total


def _inverse(x: Symbol, epsilon: float) -> Symbol:
    """Return the inverse of the root of the mean square of the last axis."""
    return apply("rsqrt", apply("add", mean(apply("mul", x, x), -1, True), epsilon))


def _skipped(node: Node, bias: int) -> Symbol:
    total = apply("add", node[0], node[1])
    return apply("add", total, node[bias]) if node.has(bias) else total


@handles("SimplifiedLayerNormalization")
@handles("SimplifiedLayerNormalization", domain=_DOMAIN)
def simplified_layer_normalization(node: Node) -> Result:
    """Divide by the root of the mean square over the last axis: optimisers write it in ONNX's own domain, which has none."""
    x = node[0]
    axis = node.axis(node.attr("axis", -1), len(x.shape))
    node.require(node.attr("stash_type", 1) == 1, "stash_type is not float32", "leave it out")
    if axis != len(x.shape) - 1:
        node.unsupported(f"axis {axis} of {len(x.shape)}", "normalise over the last axis")
    return rms_norm(x, node[1], float(node.attr("epsilon", 1e-5)))


@handles("MatMulNBits", domain=_DOMAIN)
def matmul_n_bits(node: Node) -> Result:
    """Multiply by weights of 2, 4 or 8 bits, in blocks along K that have a scale and a zero point each."""
    x, bits, block = node[0], node.attr("bits", 4), node.attr("block_size")
    rows, columns = node.attr("K"), node.attr("N")
    node.ignore("accuracy_level")  # how much less precise than this it may be
    fits = bits in (2, 4, 8) and block > 0 and rows > 0 and columns > 0
    node.require(fits, f"bits {bits}, block_size {block}", "2, 4 or 8 bits")
    if node.has(4):
        node.unsupported("g_idx, an order of rows", "export the weights without it")
    blocks = -(-rows // block)
    node.require(node.dtype(1) is uint8, f"weights of {node.dtype(1)}; packed uint8 are expected")
    wide = unpacked(node[1].reshape((columns, -1)), bits)[:, : blocks * block]
    codes = wide.reshape((columns, blocks, block)).cast(float32)
    zero: Symbol | float = float(1 << (bits - 1))
    if node.has(3):
        given = node[3].reshape((columns, -1))
        packed = unpacked(given, bits)[:, :blocks] if given.dtype is uint8 else given
        zero = packed.cast(float32).reshape((columns, blocks, 1))
    scales = node[2].cast(float32).reshape((columns, blocks, 1))
    weights = apply("mul", apply("sub", codes, zero), scales).reshape((columns, blocks * block))[:, :rows]
    result = matmul(x, weights.cast(x.dtype).transpose()).cast(x.dtype)
    return apply("add", result, node[5]) if node.has(5) else result


def unpacked(packed: Symbol, bits: int) -> Symbol:
    """Return the elements that bytes along the last axis hold, those of the lower bits first."""
    if bits == 8:
        return packed
    fields = [apply("shift_right", packed, shift) if shift else packed for shift in range(0, 8, bits)]
    apart = stack([apply("bitwise_and", field, (1 << bits) - 1) for field in fields], len(packed.shape))
    return apart.reshape((*packed.shape[:-1], packed.shape[-1] * (8 // bits)))

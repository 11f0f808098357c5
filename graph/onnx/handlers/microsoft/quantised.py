"""Handles operators of com.microsoft on quantised tensors: they compute on the numbers that the codes stand for."""

from __future__ import annotations

from collections.abc import Callable

from .....promotion.dtype import float32, int8, int32, uint8
from ....functions.activations import softmax
from ....functions.building import apply
from ....functions.joining import concat
from ....functions.linalg import matmul
from ....functions.networks.cells import LSTM
from ....functions.quantization.codes import dynamic_quantize, quantize
from ....functions.reductions import mean
from ....symbol import Symbol
from ...node import Node, Result
from ...registry import handles
from ..networks.recurrent import network
from ..products import integers
from ..quantisation import requantised
from .attention import attended_by_one_matrix

_DOMAIN = "com.microsoft"


def _number(node: Node, position: int) -> Symbol:
    """Return a scale or zero point that is one number."""
    x = node[position]
    return (node.agreeing(x, (1,), "a scale or zero point of one number") if x.shape else x).reshape(())


def plain(node: Node, position: int) -> Symbol:
    """Return what codes stand for; their scale and zero point come next among the inputs."""
    codes = node[position].cast(int32)
    if node.has(position + 2):
        codes = apply("sub", codes, _number(node, position + 2).cast(int32))
    return apply("mul", codes.cast(float32), _number(node, position + 1))


def quantised_as(node: Node, value: Symbol, scale: int, like: int = 0) -> Symbol:
    """Return the codes of numbers, by a scale and the zero point after it (0 of the dtype of input `like` without one)."""
    if node.has(scale + 1):
        return quantize(value, _number(node, scale), _number(node, scale + 1))
    return quantize(value, _number(node, scale), dtype=node.dtype(like))


@handles("QLinearAdd", "QLinearMul", domain=_DOMAIN)
def qlinear_pair(node: Node) -> Result:
    """Add or multiply what two quantised tensors stand for."""
    result = apply("add" if node.op == "QLinearAdd" else "mul", plain(node, 0), plain(node, 3))
    return quantised_as(node, result, 6)


@handles("QLinearSigmoid", "QLinearLeakyRelu", domain=_DOMAIN)
def qlinear_activation(node: Node) -> Result:
    """Apply an activation to what a quantised tensor stands for."""
    x = plain(node, 0)
    if node.op == "QLinearSigmoid":
        return quantised_as(node, apply("sigmoid", x), 3)
    slope = float(node.attr("alpha", 0.01))
    return quantised_as(node, apply("where", apply("less", x, 0.0), apply("mul", x, slope), x), 3)


@handles("QLinearSoftmax", domain=_DOMAIN)
def qlinear_softmax(node: Node) -> Result:
    """Compute softmax of what a quantised tensor stands for."""
    node.require(node.attr("opset", 13) >= 13, "QLinearSoftmax of an opset below 13", "opset 13")
    x = plain(node, 0)
    return quantised_as(node, softmax(x, node.axis(node.attr("axis", -1), len(x.shape))), 3)


@handles("QLinearConcat", domain=_DOMAIN)
def qlinear_concat(node: Node) -> Result:
    """Concatenate quantised tensors of different scales."""
    complete = len(node) >= 5 and (len(node) - 2) % 3 == 0
    node.require(complete, f"{len(node)} inputs; a scale, a zero point, and three for each tensor are expected")
    parts = [plain(node, position) for position in range(2, len(node), 3)]
    axis = node.axis(node.attr("axis"), len(parts[0].shape))
    return quantize(concat(parts, axis), _number(node, 0), _number(node, 1))


@handles("QLinearGlobalAveragePool", domain=_DOMAIN)
def qlinear_global_average_pool(node: Node) -> Result:
    """Average what a quantised tensor stands for over all axes but batch and channels."""
    x = plain(node, 0)
    last = bool(node.attr("channels_last", 0))
    axes = tuple(range(1, len(x.shape) - 1)) if last else tuple(range(2, len(x.shape)))
    return quantised_as(node, mean(x, axes, True), 3)


@handles("QLinearReduceMean", domain=_DOMAIN)
def qlinear_reduce_mean(node: Node) -> Result:
    """Average what a quantised tensor stands for over axes, by default over all."""
    x = plain(node, 0)
    rank = len(x.shape)
    axes = node.axes(node.attr("axes", None) or range(rank), rank)
    return quantised_as(node, mean(x, axes, bool(node.attr("keepdims", 1))), 3)


@handles("MatMulIntegerToFloat", domain=_DOMAIN)
def matmul_integer_to_float(node: Node) -> Result:
    """Multiply matrices of integers of 8 bits in int32, scale the result by row or column, and add a bias."""
    total = matmul(integers(node, node[0], 4, "a"), integers(node, node[1], 5, "b")).cast(int32)
    rows, columns = _whole(node[2]), _whole(node[3])
    if len(rows.shape) == 1:
        rows = rows.reshape((*rows.shape, 1))
    return _scaled(node, total, apply("mul", rows, columns), 6)


@handles("QAttention", domain=_DOMAIN)
def quantised_attention(node: Node) -> Result:
    """Make queries, keys and values of one input by one matrix, both of integers of 8 bits, and attend in floats."""
    total = matmul(integers(node, node[0], 6, "a"), integers(node, node[1], 7, "b")).cast(int32)
    wide = _scaled(node, total, apply("mul", _whole(node[3]), _whole(node[4])), 2)
    return attended_by_one_matrix(node, wide, mask=5, past=8, bias=None)


@handles("DynamicQuantizeMatMul", domain=_DOMAIN)
def dynamic_quantize_matmul(node: Node) -> Result:
    """Quantise the first matrix by its range, and multiply it with a quantised one."""
    codes, scale, zero = dynamic_quantize(node[0])
    left = apply("sub", codes.cast(int32), zero.cast(int32))
    total = matmul(left, integers(node, node[1], 3, "b")).cast(int32)
    return _scaled(node, total, apply("mul", scale, _whole(node[2])), 4)


def _whole(scale: Symbol) -> Symbol:
    """Return a scale without axes where it is one number."""
    return scale.reshape(()) if scale.shape == (1,) else scale


def _scaled(node: Node, total: Symbol, scale: Symbol, bias: int) -> Symbol:
    """Return floats of sums in int32, with the bias at a position among the inputs, if it is there."""
    result = apply("mul", total.cast(scale.dtype), scale)
    return apply("add", result, node[bias]) if node.has(bias) else result


@handles("QGemm", domain=_DOMAIN)
def qgemm(node: Node) -> Result:
    """Multiply quantised matrices, add a bias in int32, and quantise the result, or return it as floats."""
    a, b = node[0].cast(int32), node[3].cast(int32)
    a = a.transpose() if node.attr("transA", 0) else a
    b = b.transpose() if node.attr("transB", 0) else b
    if node.has(2):
        a = apply("sub", a, _number(node, 2).cast(int32))
    if node.has(5):  # one number, or one for each column
        b = apply("sub", b, node[5].cast(int32))
    alpha = float(node.attr("alpha", 1.0))
    total = matmul(a, b).cast(int32)
    if node.has(6):
        total = apply("add", total, node[6])
    scale = apply("mul", apply("mul", node[1], node[4]), alpha)
    scale = scale.reshape(()) if scale.shape == (1,) else scale
    if not node.has(7):
        return apply("mul", total.cast(float32), scale)
    return requantised(total, apply("div", scale, _number(node, 7)), _number(node, 8))


@handles("DynamicQuantizeLSTM", domain=_DOMAIN)
def dynamic_quantize_lstm(node: Node) -> Result:
    """Unroll long short-term memory with weights of 8 bits, whose products quantise inputs and states by their range."""
    return network(node, LSTM, _quantised_product)


def _quantised_product(node: Node, position: int, number: int) -> Callable[[Symbol], Symbol]:
    weights, after = node[position], {1: 8, 2: 10}[position]
    node.require(weights.dtype in (int8, uint8), f"weights of {weights.dtype}; int8 or uint8 are expected")
    columns = weights.shape[2]

    def one_or_each(what: int) -> Symbol:
        """Return a scale or zero point of this direction: one number, or one for each column."""
        given = node[what]
        fits = node.static_sizes(given.shape, "a scale or zero point") in (weights.shape[:1], (weights.shape[0], columns))
        node.require(fits, f"a scale or zero point of shape {given.shape}; one number for each direction or column is expected")
        return given[number]

    wide = weights[number].cast(int32)
    if node.has(after + 1):
        wide = apply("sub", wide, one_or_each(after + 1).cast(int32))
    scale = one_or_each(after)

    def product(x: Symbol) -> Symbol:
        codes, own, zero = dynamic_quantize(x)
        total = matmul(apply("sub", codes.cast(int32), zero.cast(int32)), wide).cast(int32)
        return apply("mul", total.cast(float32), apply("mul", own, scale))

    return product

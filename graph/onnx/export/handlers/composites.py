"""Writes composites: as ONNX's op where one means the same, else by their definition, in the accumulator's dtype."""

from __future__ import annotations

import math

from .....promotion.dtype import DType, float32, int64
from ....ops.opdef import accumulator
from ..body import Body
from ..registry import Call, writes
from .arithmetic import one, zero

_OPS = {"softmax": "Softmax", "logsoftmax": "LogSoftmax"}
_REDUCED = {"mean": "ReduceMean", "logsumexp": "ReduceLogSumExp"}


@writes(*_OPS)
def along_axis(body: Body, call: Call, x: str) -> str:
    return body.op(_OPS[call.row], call.result, x, axis=call.attrs["axis"])


@writes(*_REDUCED)
def reduced(body: Body, call: Call, x: str) -> str:
    axes = call.attrs["axes"]
    if not axes:
        return body.node("Identity", x)
    return body.op(_REDUCED[call.row], call.result, x, others=(body.ints(*axes),), keepdims=int(call.attrs["keepdims"]))


@writes("var")
def variance(body: Body, call: Call, x: str) -> str:
    work = accumulator(call.result)
    x = body.cast(x, call.operands[0], work)
    axes = call.attrs["axes"]
    if axes:
        which = body.ints(*axes)
        centred = body.node("Sub", x, body.node("ReduceMean", x, which, keepdims=1))
        squares = body.node("Mul", centred, centred)
        total = body.node("ReduceSum", squares, which, keepdims=int(call.attrs["keepdims"]))
        sizes = body.node("Gather", body.node("Shape", x), which)
        count = body.cast(body.node("ReduceProd", sizes, keepdims=0), int64, work)
    else:
        centred = body.node("Sub", x, x)
        total, count = body.node("Mul", centred, centred), one(body, work)
    correction = call.attrs["correction"]
    if correction:
        count = body.node("Max", body.node("Sub", count, body.constant(float(correction), work)), zero(body, work))
    return body.cast(body.node("Div", total, count), work, call.result)


@writes("gelu")
def gelu(body: Body, call: Call, x: str) -> str:
    kind = call.attrs["approximate"]
    if kind != "quick" and call.result is float32 and call.opset >= 20:
        return body.node("Gelu", x, approximate=kind)
    work = accumulator(call.result)
    x = body.cast(x, call.operands[0], work)
    if kind == "none":
        inner = body.node("Erf", body.node("Mul", x, body.constant(math.sqrt(0.5), work)))
        weight = body.node("Mul", body.constant(0.5, work), body.node("Add", one(body, work), inner))
    elif kind == "tanh":
        cube = body.node("Mul", body.node("Mul", x, x), x)
        inner = body.node("Add", x, body.node("Mul", body.constant(0.044715, work), cube))
        inner = body.node("Tanh", body.node("Mul", body.constant(math.sqrt(2 / math.pi), work), inner))
        weight = body.node("Mul", body.constant(0.5, work), body.node("Add", one(body, work), inner))
    else:
        weight = body.node("Sigmoid", body.node("Mul", body.constant(1.702, work), x))
    return body.cast(_weighted(body, x, weight, work), work, call.result)


def _weighted(body: Body, x: str, weight: str, work: DType) -> str:
    """Return x · weight, and -0 at -infinity, where the weight is 0."""
    lowest = body.node("Equal", x, body.constant(-math.inf, work))
    return body.node("Where", lowest, body.constant(-0.0, work), body.node("Mul", x, weight))


@writes("silu")
def silu(body: Body, call: Call, x: str) -> str:
    work = accumulator(call.result)
    x = body.cast(x, call.operands[0], work)
    return body.cast(_weighted(body, x, body.node("Sigmoid", x), work), work, call.result)


@writes("layer_norm")
def layer_norm(body: Body, call: Call, x: str, *vectors: str) -> str:
    work = accumulator(call.result)
    has_scale, has_bias = call.attrs["has_scale"], call.attrs["has_bias"]
    x, *rest = [body.cast(value, source, work) for value, source in zip((x, *vectors), call.operands, strict=True)]
    if work is float32:
        if not has_scale:
            rest.insert(0, body.node("Expand", one(body, work), body.node("Shape", x, start=-1)))
        result = body.node("LayerNormalization", x, *rest, axis=-1, epsilon=float(call.attrs["epsilon"]))
        return body.cast(result, work, call.result)
    which = body.ints(-1)
    centred = body.node("Sub", x, body.node("ReduceMean", x, which))
    result = _normalized(body, call, centred, centred, work)
    if has_scale:
        result = body.node("Mul", result, rest.pop(0))
    return body.node("Add", result, rest[0]) if has_bias else result


def _normalized(body: Body, call: Call, x: str, squared: str, work: DType) -> str:
    square = body.node("ReduceMean", body.node("Mul", squared, squared), body.ints(-1))
    root = body.node("Sqrt", body.node("Add", square, body.constant(float(call.attrs["epsilon"]), work)))
    return body.node("Div", x, root)


@writes("rms_norm")
def rms_norm(body: Body, call: Call, x: str, *vectors: str) -> str:
    work = accumulator(call.result)
    x, *rest = [body.cast(value, source, work) for value, source in zip((x, *vectors), call.operands, strict=True)]
    if call.opset >= 23 and work is call.result is float32 and rest:
        return body.node("RMSNormalization", x, *rest, axis=-1, epsilon=float(call.attrs["epsilon"]))
    result = _normalized(body, call, x, x, work)
    if rest:
        result = body.node("Mul", result, rest[0])
    return body.cast(result, work, call.result)

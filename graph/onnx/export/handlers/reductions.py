"""Writes reductions, running sums and products of matrices."""

from __future__ import annotations

from typing import Any

from .....promotion.dtype import DTYPES, DType, bool_, int32, int64, uint8
from ..body import Body, Refused, Subgraph
from ..registry import Call, writes

_SUMS = {"reduce_sum": "ReduceSum", "reduce_prod": "ReduceProd"}
_EXTREMES = {"reduce_max": "ReduceMax", "reduce_min": "ReduceMin"}
_POSITIONS = {"argmax": "ArgMax", "argmin": "ArgMin"}


@writes(*_SUMS)
def total(body: Body, call: Call, x: str) -> str:
    axes, keepdims = call.attrs["axes"], int(call.attrs["keepdims"])
    dtype = call.result
    if not axes:
        return body.node("Identity", x) if call.row != "reduce_sum" or not dtype.is_float else _plus_zero(body, x, dtype)
    if dtype is bool_:
        reduced = body.node(_SUMS[call.row], body.cast(x, dtype, int64), body.ints(*axes), keepdims=keepdims)
        return body.cast(reduced, int64, dtype)
    if dtype.is_integer and call.row == "reduce_prod":
        return _product(body, x, dtype, axes, keepdims)
    if dtype.bits == 64 and dtype.is_integer:
        return _wide_sum(body, x, dtype, axes, keepdims)
    return body.op(_SUMS[call.row], dtype, x, others=(body.ints(*axes),), keepdims=keepdims)


def _wide_sum(body: Body, x: str, dtype: DType, axes: tuple[int, ...], keepdims: int) -> str:
    """Add the halves of 64-bit numbers: some runtimes sum in float64, which is exact for these, and saturate."""
    x, which = body.cast(x, dtype, int64), body.ints(*axes)
    unit = body.constant(1 << 32, int64)
    low = body.node("BitwiseAnd", x, body.constant((1 << 32) - 1, int64))
    high = body.node("Div", body.node("Sub", x, low), unit)
    total_high, total_low = [body.node("ReduceSum", part, which, keepdims=keepdims) for part in (high, low)]
    return body.cast(body.node("Add", body.node("Mul", total_high, unit), total_low), int64, dtype)


def _product(body: Body, x: str, dtype: DType, axes: tuple[int, ...], keepdims: int) -> str:
    """Multiply integers one after the other, which wraps; some runtimes multiply in float64."""
    x = body.cast(x, dtype, int64)
    for axis in axes:
        count = body.node("Squeeze", body.node("Shape", x, start=axis, end=axis + 1), body.ints(0))
        blank = body.node("ReduceSum", x, body.ints(axis), keepdims=1)
        start = body.node("Add", body.node("Sub", blank, blank), body.constant(1, int64))
        trip, go, before = [body.name(name) for name in ("trip", "go_on", "product_in")]
        step = Body(outer=body)
        element = step.node("Gather", x, step.node("Unsqueeze", trip, step.ints(0)), axis=axis)
        after, again = step.node("Mul", before, element), step.node("Identity", go)
        x = body.loop(count, Subgraph("products", step, ((trip, int64, ()), (go, bool_, ()), (before, int64, None)),
                                      ((again, bool_, ()), (after, int64, None))), start)  # fmt: skip
    if not keepdims:
        x = body.node("Squeeze", x, body.ints(*axes))
    return body.cast(x, int64, dtype)


def _plus_zero(body: Body, x: str, dtype: DType) -> str:
    return body.op("Add", dtype, x, body.constant(0, dtype))


@writes(*_EXTREMES)
def extreme(body: Body, call: Call, x: str) -> str:
    """Reduce; NaN where there is one, which runtimes may drop."""
    axes, keepdims = call.attrs["axes"], int(call.attrs["keepdims"])
    dtype = call.result
    if not axes:
        return body.node("Identity", x)
    which = body.ints(*axes)
    if dtype is bool_:
        # of nothing, any is False and all is True: sums and products have these values, of numbers that are 0 or 1
        op = "ReduceSum" if call.row == "reduce_max" else "ReduceProd"
        return body.cast(body.node(op, body.cast(x, dtype, int64), which, keepdims=keepdims), int64, dtype)
    if not dtype.is_float:
        return body.op(_EXTREMES[call.row], dtype, x, others=(which,), keepdims=keepdims)
    x, wide = body.carried(_EXTREMES[call.row], x, dtype)
    plain = body.node(_EXTREMES[call.row], x, which, keepdims=keepdims)
    is_nan = body.cast(body.node("IsNaN", x), bool_, uint8)
    some = body.cast(body.node("ReduceMax", is_nan, which, keepdims=keepdims), uint8, bool_)
    value = body.node("Where", some, body.constant(float("nan"), wide), plain)
    return body.returned(_EXTREMES[call.row], value, wide, dtype)


@writes(*_POSITIONS)
def position(body: Body, call: Call, x: str) -> str:
    """Find the first extreme; the first NaN where there is one, which runtimes may pass over."""
    (axis,), keepdims = call.attrs["axes"], int(call.attrs["keepdims"])
    dtype = call.operands[0]
    op = _POSITIONS[call.row]
    if not dtype.is_float:
        return body.test(op, dtype, x, axis=axis, keepdims=keepdims)
    x, _ = body.carried(op, x, dtype)
    is_nan = body.cast(body.node("IsNaN", x), bool_, uint8)
    first = body.node("ArgMax", is_nan, axis=axis, keepdims=keepdims)
    some = body.cast(body.node("ReduceMax", is_nan, body.ints(axis), keepdims=keepdims), uint8, bool_)
    return body.node("Where", some, first, body.node(op, x, axis=axis, keepdims=keepdims))


@writes("cumsum")
def cumsum(body: Body, call: Call, x: str) -> str:
    axis = body.constant(call.attrs["axis"], int64)
    flags: dict[str, Any] = {"exclusive": int(call.attrs["exclusive"]), "reverse": int(call.attrs["reverse"])}
    if call.result is bool_:
        return body.cast(body.node("CumSum", body.cast(x, bool_, int64), axis, **flags), int64, bool_)
    return body.op("CumSum", call.result, x, others=(axis,), **flags)


@writes("matmul")
def matmul(body: Body, call: Call, x: str, y: str) -> str:
    if call.attrs["precision"] == "tf32":
        raise Refused('ONNX has no precision="tf32"', 'matmul(a, b) with precision="ieee"')
    left = call.operands[0]
    if left.name in ("int8", "uint8"):
        return body.node("MatMulInteger", x, y)
    if left is bool_:
        return body.node("MatMul", body.cast(x, bool_, int32), body.cast(y, bool_, int32))
    if left.name in ("int16", "uint16"):
        wide = DTYPES["int32"]
        return body.cast(body.node("MatMul", body.cast(x, left, wide), body.cast(y, left, wide)), wide, left)
    return body.op("MatMul", call.result, x, y)

"""Writes the conversions between numbers and codes: QuantizeLinear and DequantizeLinear, or what these are made of."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from .....promotion.dtype import DType, float32, int32
from ....ops.attributes import Attributes
from ....ops.quantization import work_dtype
from ....symbol import Symbol
from ..body import Body, OpsetNeeded
from ..registry import WRITERS, Call
from ..sizes import Sizes
from .structure import sized

_FIRST = 21
"""The opset from which on there are blocks, codes of 4 and 16 bits, and a dtype without a zero point."""
_CODES = frozenset((
    "int8", "uint8", "int16", "uint16", "int4", "uint4", "float8_e4m3fn", "float8_e5m2", "float8_e4m3fnuz", "float8_e5m2fnuz",
))  # fmt: skip
"""Codes that runtimes convert by these operators."""


@sized("quantize")
def quantize(body: Body, sizes: Sizes, symbol: Symbol, x: str, scale: str, *zero: str) -> str:
    source, factor, *_ = [operand.dtype for operand in symbol.inputs]
    attrs, target = symbol.attrs, symbol.dtype
    if source is factor is float32 and target.name in _CODES:
        is_plain = target.name in ("int8", "uint8") and bool(zero) and not attrs["block_size"]
        extra: dict[str, Any] = {} if target.is_integer else {"saturate": int(attrs["saturate"])}
        if not is_plain:
            _require_blocks(sizes)
            extra["output_dtype"] = target
        return body.node("QuantizeLinear", x, scale, *zero, **_along(symbol), **extra)
    work = work_dtype(factor)
    divisor = _spread(body, sizes, symbol, 1, _cast(body, sizes, scale, factor, work), work)
    ratio = body.op("Div", work, _cast(body, sizes, x, source, work), divisor)
    if not target.is_integer:
        if attrs["saturate"]:
            low, high = (body.constant(sign * float(target.max_value), work) for sign in (-1, 1))
            ratio = body.op("Min", work, body.op("Max", work, ratio, low), high)
        return _cast(body, sizes, ratio, work, target, attrs["saturate"])
    wide = float32 if work.bits < 32 else work
    whole = body.op("Round", wide, _cast(body, sizes, ratio, work, wide))
    if zero:
        whole = body.op("Add", wide, whole, _spread(body, sizes, symbol, 2, _cast(body, sizes, zero[0], target, wide), wide))
    low, high = (body.constant(float(bound), wide) for bound in (target.min_value, target.max_value))
    inside = body.op("Min", wide, body.op("Max", wide, whole, low), high)
    middle = int32 if target.bits < 32 else target
    return _cast(body, sizes, _cast(body, sizes, inside, wide, middle), middle, target)


@sized("dequantize")
def dequantize(body: Body, sizes: Sizes, symbol: Symbol, x: str, scale: str, *zero: str) -> str:
    source, factor, *_ = [operand.dtype for operand in symbol.inputs]
    attrs, target = symbol.attrs, symbol.dtype
    is_code = source.name in _CODES or (source is int32 and not zero)
    if is_code and factor is target is float32:
        if source.bits not in (8, 32) or attrs["block_size"]:
            _require_blocks(sizes)
        return body.node("DequantizeLinear", x, scale, *zero, **_along(symbol))
    if source.is_integer:
        x, source = _cast(body, sizes, x, source, int32), int32
        if zero:
            own = _cast(body, sizes, zero[0], symbol.inputs[2].dtype, int32)
            x = body.op("Sub", int32, x, _spread(body, sizes, symbol, 2, own, int32))
    work = work_dtype(factor)
    work = float32 if work.bits < 32 and target.bits >= 32 else work
    by = _spread(body, sizes, symbol, 1, _cast(body, sizes, scale, factor, work), work)
    return _cast(body, sizes, body.op("Mul", work, _cast(body, sizes, x, source, work), by), work, target)


def _require_blocks(sizes: Sizes) -> None:
    if sizes.opset < _FIRST:
        raise OpsetNeeded(_FIRST, "a conversion of such codes")


def _along(symbol: Symbol) -> dict[str, Any]:
    """Return the attributes that say which scale belongs to an element; none of them where there is one scale."""
    axis, block = symbol.attrs["axis"], symbol.attrs["block_size"]
    return {**({"axis": axis} if symbol.inputs[1].shape else {}), **({"block_size": block} if block else {})}


def _cast(body: Body, sizes: Sizes, x: str, source: DType, target: DType, saturate: bool = True) -> str:
    if source is target:
        return x
    attrs: Attributes = {"dtype": target, "rounding": "nearest", "saturate": saturate}
    write: Callable[..., str] = WRITERS["cast"]
    return write(body, Call("cast", (source,), target, attrs, sizes.opset), x)


def _spread(body: Body, sizes: Sizes, symbol: Symbol, which: int, parameter: str, dtype: DType) -> str:
    """Return a scale or zero point, which has been cast to a dtype, in a form that broadcasts against the tensor."""
    shape, own = symbol.inputs[0].shape, symbol.inputs[which].shape
    axis, block = symbol.attrs["axis"], symbol.attrs["block_size"]
    if not own:
        return parameter
    if not block:
        return body.op("Reshape", dtype, parameter, others=(sizes.vector((*own, *(1,) * (len(shape) - 1 - axis))),))
    apart = body.op("Unsqueeze", dtype, parameter, others=(body.ints(axis + 1),))
    wide = body.op("Expand", dtype, apart, others=(sizes.vector((*own[: axis + 1], block, *own[axis + 1 :])),))
    each = body.op("Reshape", dtype, wide, others=(sizes.vector((*own[:axis], own[axis] * block, *own[axis + 1 :])),))
    return body.op("Slice", dtype, each, others=(body.ints(0), sizes.vector((shape[axis],)), body.ints(axis)))

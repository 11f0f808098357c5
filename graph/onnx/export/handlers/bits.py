"""Writes the bits of floats: by BitCast, which opset 26 has, before that by arithmetic, which does not see those of NaN.

So floats become integers there only where what is done with them does not depend on the bits of NaN.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

import numpy as np

from .....promotion.dtype import DTYPES, DType, bool_, float64, int64
from ....symbol import Symbol
from ..body import Body, OpsetNeeded
from ..registry import Call, writes

OPSET = 26
"""The opset that has BitCast."""
_COMPUTED = ("float16", "bfloat16", "float32", "float64")
_STEP = 64
"""Powers of two are products of one of two tables, the first of which has every 64th."""


@writes("bitcast")
def bitcast(body: Body, call: Call, x: str) -> str:
    """Take bits as they are: the same ones where one of both dtypes is no float, those of arithmetic before opset 26."""
    source, target = call.operands[0], call.result
    if source.names.onnx == target.names.onnx:
        body.is_own = True
        return body.node("Identity", x)
    if not (source.is_float or target.is_float or source.is_complex or target.is_complex):
        return body.cast(x, source, target)  # the same low bits
    if call.opset < OPSET:
        if is_computed(source, target):
            return _from_bits(body, x, source, target) if target.is_float else _to_bits(body, x, source, target)
        raise OpsetNeeded(OPSET, "BitCast")
    if target is bool_:  # one bit that stands for all: of 4 bits ONNX makes no bool of 8
        bits = DTYPES[f"uint{source.bits}"]
        return body.cast(body.node("BitCast", x, to=bits), bits, bool_)
    if source is bool_:
        x = body.cast(x, bool_, DTYPES[f"uint{target.bits}"])
    return body.node("BitCast", x, to=target)


def is_computed(source: DType, target: DType) -> bool:
    """Return whether arithmetic tells the bits of a conversion between floats and integers."""
    return (source.name in _COMPUTED and target.is_integer) or (source.is_integer and target.name in _COMPUTED)


def hidden(symbol: Symbol, consumers: Mapping[int, Sequence[Symbol]], outputs: Collection[int]) -> bool:
    """Return whether nothing depends on the bits of NaN among those of floats but the sign and bits of another NaN.

    They may be compared with the highest one, joined to bits of other floats, and masked, as long as a NaN stays one or nothing
    but the sign is left; and become floats again.
    """
    dtype = symbol.inputs[0].dtype
    if not is_computed(dtype, symbol.dtype):
        return False
    top = 1 << (dtype.bits - 1)
    marks = (top - 1) ^ ((1 << (dtype.mantissa_bits - 1)) - 1)  # those that all quiet NaN have
    pending, seen = [symbol], {symbol.id}
    while pending:
        bits = pending.pop()
        if bits.id in outputs:
            return False
        for reader in consumers.get(bits.id, ()):
            row = reader.op.name
            if (row == "bitcast" and reader.dtype is dtype) or (row == "greater_equal" and _mask(reader, bits) == top):
                continue
            mask = _mask(reader, bits) if row == "bitwise_and" else None
            keeps = mask is not None and (mask == top or mask & marks == marks)
            if not (keeps or (row == "bitwise_or" and _mask(reader, bits) is None)):
                return False
            if reader.id not in seen:
                seen.add(reader.id)
                pending.append(reader)
    return True


def _mask(reader: Symbol, bits: Symbol) -> int | None:
    """Return the constant that is the other operand, as a number without a sign."""
    others, whole, flips = [each for each in reader.inputs if each is not bits], (1 << bits.dtype.bits) - 1, 0
    while others and others[0].op.name in ("broadcast_to", "reshape", "bitwise_not"):
        flips ^= whole if others[0].op.name == "bitwise_not" else 0
        others = [others[0].inputs[0]]
    if len(others) != 1 or others[0].op.name != "constant" or others[0].attrs["value"].size != 1:
        return None
    return (int(others[0].attrs["value"].item()) & whole) ^ flips


def _fields(dtype: DType) -> tuple[int, int, int]:
    """Return the bits of the mantissa, the offset of exponents, and the largest exponent, which infinity and NaN have."""
    most = (1 << dtype.exponent_bits) - 1
    return dtype.mantissa_bits, most >> 1, most


def _power(body: Body, number: str, offset: int, most: int) -> str:
    """Return 2 to the power of `number` - `offset` + 1, for numbers from 0 to `most` - 2, in float64."""
    high = body.constant(np.ldexp(1.0, np.arange(0, most - 1, _STEP) + 1 - offset), float64)
    low = body.constant(np.ldexp(1.0, np.arange(_STEP)), float64)
    step = body.constant(_STEP, int64)
    first = body.node("Div", number, step)
    second = body.node("Sub", number, body.node("Mul", first, step))
    return body.node("Mul", body.node("Gather", high, first), body.node("Gather", low, second))


def _to_bits(body: Body, x: str, source: DType, target: DType) -> str:
    """Compute the bits of floats from exponent and mantissa; of NaN the positive one that is quiet and nothing else."""
    mantissa, offset, most = _fields(source)
    zero, unit = body.constant(0.0, float64), body.constant(1 << mantissa, int64)
    value = body.cast(x, source, float64)
    below = body.node("Less", body.node("Reciprocal", value), zero)
    negative = body.node("Or", body.node("Less", value, zero), body.node("And", body.node("Equal", value, zero), below))
    size = body.node("Abs", value)
    largest = body.constant(float(source.max_value), float64)
    is_nan, is_infinite = body.node("IsNaN", value), body.node("Greater", size, largest)
    size = body.node("Where", is_nan, zero, body.node("Min", size, largest))
    least = body.node("Max", size, body.constant(2.0 ** (1 - offset), float64))
    logarithm = body.node("Mul", body.node("Log", least), body.constant(float(1 / np.log(2.0)), float64))
    exponent = body.cast(body.node("Floor", logarithm), float64, int64)
    number = body.node("Add", exponent, body.constant(offset - 1, int64))
    number = body.node("Max", body.node("Min", number, body.constant(most - 2, int64)), body.constant(0, int64))
    power = _power(body, number, offset, most)  # which the logarithm may miss by one
    one, nothing = body.constant(1, int64), body.constant(0, int64)
    above = body.node("GreaterOrEqual", least, body.node("Mul", power, body.constant(2.0, float64)))
    number = body.node("Add", number, body.node("Where", above, one, nothing))
    number = body.node("Sub", number, body.node("Where", body.node("Less", least, power), one, nothing))
    share = body.node("Div", size, _power(body, number, offset, most))
    digits = body.cast(body.node("Mul", share, body.constant(2.0**mantissa, float64)), float64, int64)
    bits = body.node("Add", body.node("Mul", number, unit), digits)
    bits = body.node("Where", is_infinite, body.constant(most << mantissa, int64), bits)
    bits = body.node("Where", is_nan, body.constant((most << mantissa) | (1 << (mantissa - 1)), int64), bits)
    sign = -(1 << 63) if source.bits == 64 else 1 << (source.bits - 1)
    bits = body.node("Add", bits, body.node("Where", negative, body.constant(sign, int64), nothing))
    return body.cast(bits, int64, target)


def _from_bits(body: Body, x: str, source: DType, target: DType) -> str:
    """Compute floats from their exponent and mantissa."""
    mantissa, offset, most = _fields(target)
    unit, nothing = body.constant(1 << mantissa, int64), body.constant(0, int64)
    bits = body.cast(body.cast(x, source, DTYPES[f"uint{source.bits}"]), DTYPES[f"uint{source.bits}"], int64)
    if source.bits == 64:
        negative = body.node("Less", bits, nothing)
        lifted = body.constant(-(1 << 63), int64)
        rest = body.node("Where", negative, body.node("Sub", bits, lifted), bits)
    else:
        top = body.constant(1 << (source.bits - 1), int64)
        negative = body.node("GreaterOrEqual", bits, top)
        rest = body.node("Where", negative, body.node("Sub", bits, top), bits)
    exponent = body.node("Div", rest, unit)
    digits = body.node("Sub", rest, body.node("Mul", exponent, unit))
    is_normal = body.node("Greater", exponent, nothing)
    whole = body.node("Add", digits, body.node("Where", is_normal, unit, nothing))
    number = body.node("Sub", body.node("Max", exponent, body.constant(1, int64)), body.constant(1, int64))
    number = body.node("Min", number, body.constant(most - 2, int64))
    share = body.node("Mul", body.cast(whole, int64, float64), body.constant(2.0**-mantissa, float64))
    value = body.node("Mul", share, _power(body, number, offset, most))
    is_special = body.node("Equal", exponent, body.constant(most, int64))
    is_infinite = body.node("Equal", digits, nothing)
    infinity, nan = body.constant(float("inf"), float64), body.constant(float("nan"), float64)
    value = body.node("Where", is_special, body.node("Where", is_infinite, infinity, nan), value)
    signs = body.node("Where", negative, body.constant(-1.0, float64), body.constant(1.0, float64))
    return body.cast(body.node("Mul", value, signs), float64, target)

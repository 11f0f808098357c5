"""Makes and reads constants of the block IR: `arith.constant` attributes, one object per type and value.

A block filled with one value is stored as that one value (xDSL prints and parses it as `dense<v>`), whatever
the block's size.
"""

from __future__ import annotations

from math import copysign, inf
from struct import pack
from typing import Any

from xdsl.dialects.builtin import (
    AnyFloat,
    BytesAttr,
    DenseIntOrFPElementsAttr,
    FloatAttr,
    IntegerAttr,
    IntegerType,
    TensorType,
)
from xdsl.ir import Attribute

from ...promotion.errors import InternalError
from . import types as t

Number = int | float | bool
ConstantAttr = IntegerAttr[IntegerType] | FloatAttr | DenseIntOrFPElementsAttr

_INTERNED: dict[object, ConstantAttr] = {}
_LIMIT = 1 << 14


def constant_attr(value: Number, elem_type: Attribute, shape: tuple[int, ...] = ()) -> ConstantAttr:
    """Returns the attribute of a scalar (shape `()`) or of a block filled with `value`.

    The value is wrapped to an integer type, rounded to a float type (overflow becomes an infinity where the
    type has one), and tested for truth for i1. Equal calls return the same object while it is cached.
    """
    bits = pack("<d", value) if isinstance(value, float) else value
    key = (elem_type, shape, bits, type(value))
    found = _INTERNED.get(key)
    if found is None:
        if len(_INTERNED) >= _LIMIT:
            _INTERNED.clear()
        found = _INTERNED[key] = _make(value, elem_type, shape)
    return found


def _make(value: Number, elem_type: Attribute, shape: tuple[int, ...]) -> ConstantAttr:
    scalar = _scalar(value, elem_type)
    # Two spellings of one value (1 and True, 1.0 and 1) must give one object too.
    key = (scalar, shape)
    found = _INTERNED.get(key)
    if found is None:
        if shape:
            raw = _packed(scalar)
            block_type = t.tensor(elem_type, shape)
            assert isinstance(block_type, TensorType)
            found = DenseIntOrFPElementsAttr(block_type, BytesAttr(raw))
        else:
            found = scalar
        _INTERNED[key] = found
    return found


def _packed(scalar: IntegerAttr[IntegerType] | FloatAttr) -> bytes:
    """Returns the bytes of one element of a block."""
    if isinstance(scalar, IntegerAttr):
        return scalar.type.pack([scalar.value.data])
    return scalar.type.pack([scalar.value.data])


def _scalar(value: Number, elem_type: Attribute) -> IntegerAttr[IntegerType] | FloatAttr:
    if isinstance(elem_type, IntegerType):
        width = elem_type.width.data
        if width == 1:
            return IntegerAttr(int(bool(value)), elem_type)
        if isinstance(value, float) and not value.is_integer():
            raise InternalError(f"constant {value} of type {elem_type}")
        wrapped = int(value) & ((1 << width) - 1)
        return IntegerAttr(wrapped - (1 << width) if wrapped >> (width - 1) else wrapped, elem_type)
    if not isinstance(elem_type, AnyFloat):
        raise InternalError(f"constant of type {elem_type}")
    return _rounded(float(value), elem_type)


def _rounded(value: float, elem_type: AnyFloat) -> FloatAttr:
    try:
        return FloatAttr(value, elem_type)
    except OverflowError:  # beyond the range of f16 or f32: rounds to an infinity, as arithmetic does
        return FloatAttr(copysign(inf, value), elem_type)


def scalar_value(attr: Attribute) -> Number:
    """Returns the Python value of a scalar constant: int (signed; 0 or 1 for i1) or float."""
    if isinstance(attr, IntegerAttr):
        value = attr.value.data
        return value & 1 if attr.type == t.I1 else value
    if isinstance(attr, FloatAttr):
        return attr.value.data
    raise InternalError(f"not a scalar constant: {attr}")


def is_splat(attr: Attribute) -> bool:
    """Returns whether the attribute of a block constant holds one value everywhere."""
    if not isinstance(attr, DenseIntOrFPElementsAttr):
        return False
    raw = attr.data.data
    size = attr.type.element_type.compile_time_size
    return bool(len(raw) >= size and raw == raw[:size] * (len(raw) // size))


def splat_value(attr: Attribute) -> Number | None:
    """Returns the value of a scalar constant, or of a block constant that holds one value everywhere; None
    for other blocks."""
    if not isinstance(attr, DenseIntOrFPElementsAttr):
        return scalar_value(attr)
    if not is_splat(attr):
        return None
    elem_type = attr.type.element_type
    value: Number = elem_type.unpack(attr.data.data[: elem_type.compile_time_size], 1)[0]
    return value & 1 if elem_type == t.I1 and isinstance(value, int) else value


def block_values(attr: DenseIntOrFPElementsAttr[Any]) -> tuple[Number, ...]:
    """Returns every element of a block constant in row-major order; a splat is written out."""
    value = splat_value(attr)
    if value is not None:
        return (value,) * t.element_count(attr.type)
    return tuple(attr.get_values())

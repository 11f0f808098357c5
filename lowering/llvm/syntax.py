"""Reads block IR: types and attributes of xDSL objects as plain Python values."""

from __future__ import annotations

from typing import Any

from xdsl.dialects.builtin import (
    ArrayAttr,
    DenseArrayBase,
    DenseIntOrFPElementsAttr,
    DictionaryAttr,
    FloatAttr,
    IntegerAttr,
    StringAttr,
    TensorType,
)
from xdsl.ir import Attribute, Operation

from ...promotion.errors import UnsupportedError
from ..tt.dialect.attributes import INPUT_PRECISIONS, PROGRAM_AXES, ROUNDING_MODES, CachePolicyAttr, enum_name

_names: dict[Any, str] = {}


def is_tensor(type_: Attribute) -> bool:
    return isinstance(type_, TensorType)


def shape_of(type_: Attribute) -> tuple[int, ...]:
    return tuple(type_.get_shape()) if isinstance(type_, TensorType) else ()


def element_name(type_: Attribute) -> str:
    """Returns the name `f32`, `i1`, `bf16`, `ptr`, … of the element of a scalar or block type."""
    if isinstance(type_, TensorType):
        type_ = type_.element_type
    found = _names.get(type_)
    if found is None:
        found = "ptr" if type_.name == "tt.ptr" else str(type_)
        _names[type_] = found
    return found


def pointee_name(type_: Any) -> str:
    """Returns the name of the pointee of a pointer or block of pointers."""
    if isinstance(type_, TensorType):
        type_ = type_.element_type
    return element_name(type_.pointee)


def attribute(op: Operation, name: str) -> Any:
    return op.properties.get(name, op.attributes.get(name))


def plain(value: Attribute) -> Any:
    """Returns an attribute as a Python value where it has one."""
    match value:
        case IntegerAttr():
            return value.value.data
        case FloatAttr():
            return value.value.data
        case StringAttr():
            return value.data
        case ArrayAttr():
            return [plain(v) for v in value]
        case DenseArrayBase():
            return list(value.get_values())
        case CachePolicyAttr():
            return value.cache_modifier.data
    return getattr(value, "data", value)


PREDICATES = ("eq", "ne", "slt", "sle", "sgt", "sge", "ult", "ule", "ugt", "uge")
FLOAT_PREDICATES = (
    "false", "oeq", "ogt", "oge", "olt", "ole", "one", "ord", "ueq", "ugt", "uge", "ult", "ule", "une", "uno", "true",
)  # fmt: skip


ENUMERATIONS = {"inputPrecision": INPUT_PRECISIONS, "rounding": ROUNDING_MODES}


def program_axis(op: Operation) -> str | None:
    """Returns the grid axis of tt.get_program_id: x, y or z."""
    return enum_name(PROGRAM_AXES, attribute(op, "axis"))


def attributes(op: Any) -> dict[str, Any]:
    """Returns all properties and attributes of an operation (or a dictionary attribute) as plain values; predicates by name."""
    if isinstance(op, DictionaryAttr):
        return {name: plain(value) for name, value in op.data.items()}
    found = {name: plain(value) for name, value in op.attributes.items()}
    found.update({name: plain(value) for name, value in op.properties.items()})
    if "predicate" in found and isinstance(found["predicate"], int):
        found["predicate"] = (PREDICATES if op.name == "arith.cmpi" else FLOAT_PREDICATES)[found["predicate"]]
    for name, cases in ENUMERATIONS.items():
        if name in op.properties:
            found[name] = enum_name(cases, op.properties[name])
    return found


def constant_value(op: Operation) -> float | int | bool:
    """Returns the value of `arith.constant`; dense constants must be splats, else UnsupportedError."""
    value = attribute(op, "value")
    if isinstance(value, DenseIntOrFPElementsAttr):
        if not value.is_splat():
            raise UnsupportedError("lowering: a dense constant that is not a splat")
        return value.get_values()[0]
    result: float | int | bool = plain(value)
    return result

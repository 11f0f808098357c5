"""Looks up what the package `onnx` says of an operator: its version, its attributes, and the function that defines it."""

from __future__ import annotations

from collections.abc import Mapping
from collections.abc import Sequence as Ordered
from functools import lru_cache
from typing import Any

from ...promotion.dataclass import dataclass
from ...promotion.errors import UnsupportedError
from .limits import OnnxLimits
from .model import Attribute, FunctionDef, NodeDef
from .reading import load_onnx, read_function
from .tensors import code_of_dtype
from .values import Growing, Maps, Optional, Sequence, Stacked, Value


@dataclass(frozen=True, slots=True, eq=False)
class Operator:
    """An operator at a version of its domain.

    Attributes:
        since: the version since which it means what it means.
        defaults: attributes that have a default.
        attributes: the names of all attributes; None where no schema is known, as of `com.microsoft`.
        schema: what `onnx` says of it.
        types: the kinds of the attributes, as numbers of `AttributeProto.AttributeType`.
    """

    since: int
    defaults: Mapping[str, Any]
    attributes: frozenset[str] | None
    min_inputs: int
    max_inputs: int
    max_outputs: int
    schema: Any
    types: Mapping[str, int]


_THE_SAME = {
    "Range": ("Range", 11), "Pad": ("Pad", 13), "Trilu": ("Trilu", 14), "GridSample": ("GridSample", 16),
    "QuantizeLinear": ("QuantizeLinear", 21), "DequantizeLinear": ("DequantizeLinear", 21),
}  # fmt: skip
"""Operators of com.microsoft that are those of ai.onnx, as of a version."""


def as_standard(domain: str, op: str, opset: int) -> tuple[str, str, int]:
    """Return an operator of com.microsoft that ai.onnx took over as that one; others as they are."""
    same = _THE_SAME.get(op) if domain == "com.microsoft" else None
    return (domain, op, opset) if same is None else ("", *same)


@lru_cache(maxsize=4096)
def operator(domain: str, op: str, opset: int) -> Operator | None:
    """Return an operator as it is in a version of its domain; None where `onnx` has none of that name."""
    onnx = load_onnx()
    newest = onnx.defs.onnx_opset_version()
    if domain == "" and opset > newest:
        raise UnsupportedError(
            f"opset {opset}: the installed onnx {onnx.__version__} knows opsets to {newest}; fix: update onnx"
        )
    try:
        schema = onnx.defs.get_schema(op, opset, domain)
    except onnx.defs.SchemaError:
        return None
    defaults = {}
    for name, attribute in schema.attributes.items():
        if attribute.default_value.type:
            defaults[name] = _decoded(onnx.helper.get_attribute_value(attribute.default_value))
    types = {name: attribute.type.value for name, attribute in schema.attributes.items()}
    counts = schema.min_input, schema.max_input, schema.max_output
    return Operator(schema.since_version, defaults, frozenset(types), *counts, schema, types)


def _decoded(value: Any) -> Any:
    if isinstance(value, bytes):
        return value.decode()
    return value if isinstance(value, (int, float)) else [_decoded(entry) for entry in value]


def definition_of(
    found: Operator,
    node: NodeDef,
    values: Ordered[Value | None],
    attributes: Mapping[str, Attribute],
    opsets: Mapping[str, int],
    file: str,
    limits: OnnxLimits,
) -> FunctionDef | None:
    """Return the function that defines an operator, None if there is none.

    It is the newest one of the model's opset or before; where all are newer, the oldest, whose body says which opset it uses.
    A definition that depends on the node is made for it, from its attributes and the types of its inputs. A domain whose
    opset the definition does not say has that of the model.
    """
    opset = opsets[node.domain]
    schema = found.schema
    onnx = load_onnx()
    if schema.has_function:
        data = schema.get_function_with_opset_version(_version(schema.function_opset_versions, opset))
    elif schema.has_context_dependent_function:
        message = onnx.NodeProto(op_type=node.op, domain=node.domain, name=node.name, input=node.inputs, output=node.outputs)
        message.attribute.extend([attribute.message for attribute in attributes.values()])
        types = [_type(onnx, value).SerializeToString() for value in values]
        version = _version(schema.context_dependent_function_opset_versions, opset)
        data = schema.get_context_dependent_function_with_opset_version(version, message.SerializeToString(), types)
    else:
        return None
    if not data:
        return None
    function = onnx.FunctionProto()
    function.ParseFromString(data)
    for name, attribute in schema.attributes.items():  # a body refers to attributes that the node leaves out, too
        if attribute.default_value.type and name in function.attribute:
            function.attribute.remove(name)
            function.attribute_proto.append(attribute.default_value)
    return read_function(function, file, limits, opsets)


def _version(versions: Ordered[int], opset: int) -> int:
    return max([version for version in versions if version <= opset], default=min(versions))


def _type(onnx: Any, value: Value | None) -> Any:
    """Return the `TypeProto` of a value, an empty one for an input that is left out."""
    message = onnx.TypeProto()
    if isinstance(value, Sequence):
        first = _type(onnx, value.items[0]) if value.items else onnx.TypeProto()
        message.sequence_type.elem_type.CopyFrom(first)
    elif isinstance(value, Optional):
        message.optional_type.elem_type.CopyFrom(_type(onnx, value.value))
    elif isinstance(value, Stacked):
        message.sequence_type.elem_type.tensor_type.elem_type = code_of_dtype(value.rows.dtype)
    elif value is not None and not isinstance(value, (Growing, Maps)):
        message.tensor_type.elem_type = code_of_dtype(value.dtype)
        message.tensor_type.shape.SetInParent()
        for extent in value.shape:
            dim = message.tensor_type.shape.dim.add()
            if isinstance(extent, int):
                dim.dim_value = extent
            else:
                dim.dim_param = str(extent)
    return message

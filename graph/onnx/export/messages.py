"""Makes protobuf messages of plain nodes and arrays."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

from ....promotion.arrays import Array
from ....promotion.dtype import DType, string
from ...dims.dim import Extent
from .body import AttributeValue, Body, Constant, OnnxNode, Subgraph

_FLOAT, _INT, _STRING, _TENSOR, _GRAPH, _FLOATS, _INTS, _STRINGS = range(1, 9)


def raw_bytes(value: Array, dtype: DType) -> bytes | memoryview:
    """Return an array as ONNX stores it: little-endian, and what takes less than a byte packed, lowest bits first.

    Where that is how it lies in memory it is not copied.
    """
    if dtype is string:  # strings are lists in the message
        return b""
    if dtype.bits < 8 and dtype.kind != "bool":
        per_byte = 8 // dtype.bits
        flat = value.reshape(-1)
        octets: Array = (flat.astype(np.int8) if dtype.is_integer else flat).view(np.uint8) & np.uint8((1 << dtype.bits) - 1)
        codes = np.concatenate([octets, np.zeros(-len(octets) % per_byte, np.uint8)]).reshape(-1, per_byte)
        shifts = np.arange(per_byte, dtype=np.uint8) * np.uint8(dtype.bits)
        return bytes(np.bitwise_or.reduce(codes << shifts, axis=1).astype(np.uint8).tobytes())
    if sys.byteorder == "big" and value.dtype.itemsize > 1:
        return np.ascontiguousarray(value).view(f"u{value.dtype.itemsize}").byteswap().tobytes()
    return np.ascontiguousarray(value).reshape(-1).view(np.uint8).data


def tensor(onnx: Any, name: str, value: Array, dtype: DType, data: bytes | memoryview | None) -> Any:
    """Return a `TensorProto`; without data it is left to the caller where that lies."""
    message = onnx.TensorProto(name=name, data_type=dtype.names.onnx, dims=value.shape)
    if dtype is string:
        message.string_data.extend([text.encode() for text in value.reshape(-1).tolist()])
    elif data is not None:
        message.raw_data = bytes(data)
    return message


def value_info(onnx: Any, name: str, dtype: DType, shape: Iterable[Extent] | None) -> Any:
    """Return the declaration of a value; sizes that are no numbers are names or expressions of names."""
    message = onnx.ValueInfoProto(name=name)
    message.type.tensor_type.elem_type = dtype.names.onnx
    if shape is not None:
        message.type.tensor_type.shape.SetInParent()
        for extent in shape:
            dim = message.type.tensor_type.shape.dim.add()
            if isinstance(extent, int):
                dim.dim_value = extent
            else:
                dim.dim_param = str(extent)
    if dtype.name in ("index", "address"):
        annotate(message, {"joinery.dtype": dtype.name})
    return message


def annotate(message: Any, metadata: Mapping[str, str]) -> None:
    """Add metadata to a message that has some."""
    for key, value in metadata.items():
        message.metadata_props.add(key=key, value=value)


def node(onnx: Any, given: OnnxNode) -> Any:
    """Return a `NodeProto`."""
    message = onnx.NodeProto(op_type=given.op, domain=given.domain, input=given.inputs, output=given.outputs)
    message.name = given.outputs[0]
    for name in sorted(given.attributes):
        _set_attribute(onnx, message.attribute.add(name=name), given.attributes[name])
    annotate(message, given.metadata)
    return message


def _set_attribute(onnx: Any, attribute: Any, value: AttributeValue) -> None:
    if isinstance(value, DType):
        attribute.type, attribute.i = _INT, value.names.onnx
    elif isinstance(value, int):
        attribute.type, attribute.i = _INT, value
    elif isinstance(value, float):
        attribute.type, attribute.f = _FLOAT, value
    elif isinstance(value, str):
        attribute.type, attribute.s = _STRING, value.encode()
    elif isinstance(value, Subgraph):
        attribute.type = _GRAPH
        attribute.g.CopyFrom(_subgraph(onnx, value))
    elif isinstance(value, Constant):
        attribute.type = _TENSOR
        attribute.t.CopyFrom(tensor(onnx, "", value.value, value.dtype, raw_bytes(value.value, value.dtype)))
    elif value and isinstance(value[0], str):
        attribute.type = _STRINGS
        attribute.strings.extend([str(text).encode() for text in value])
    elif value and isinstance(value[0], float):
        attribute.type = _FLOATS
        attribute.floats.extend(value)
    else:
        attribute.type = _INTS
        attribute.ints.extend(value)


def nodes_of(onnx: Any, body: Body) -> list[Any]:
    """Return the nodes of a function or subgraph: first those of its constants."""
    found = []
    for name, constant in body.constants.items():
        message = onnx.NodeProto(op_type="Constant", output=[name])
        attribute = message.attribute.add(name="value", type=4)
        attribute.t.CopyFrom(tensor(onnx, name, constant.value, constant.dtype, raw_bytes(constant.value, constant.dtype)))
        found.append(message)
    return [*found, *[node(onnx, each) for each in body.nodes]]


def _subgraph(onnx: Any, given: Subgraph) -> Any:
    message = onnx.GraphProto(name=given.name, node=nodes_of(onnx, given.body))
    for values, declared in ((message.input, given.inputs), (message.output, given.outputs)):
        values.extend([value_info(onnx, name, dtype, shape) for name, dtype, shape in declared])
    return message

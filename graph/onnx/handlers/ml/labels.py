"""Handles the label encoder of ai.onnx.ml: a table from keys to values."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from .....promotion.arrays import Array
from .....promotion.dtype import DType, float32, float64, int64, string
from ....functions.building import apply
from ....functions.host.strings import encode_labels
from ....symbol import Symbol
from ...node import Node, Result
from ...registry import handles
from ...values import Known

_DOMAIN = "ai.onnx.ml"
_MAX_COMPARED = 64
"""Tables of numbers up to this length are compared one by one in a kernel; longer ones are looked up on the host."""


@handles("LabelEncoder", domain=_DOMAIN, since=2)
def label_encoder(node: Node) -> Result:
    """Replace each element by the value of its key, others by a default. NaN is a key like others since opset 4."""
    keys, key_dtype = _list(node, "keys")
    values, dtype = _list(node, "values")
    node.require(len(keys) == len(values), f"{len(keys)} keys, {len(values)} values")
    if node.version < 4:
        pairs = [pair for pair in zip(keys, values, strict=True) if not (isinstance(pair[0], float) and math.isnan(pair[0]))]
        keys, values = [key for key, _ in pairs], [value for _, value in pairs]
    default = _default(node, dtype)
    x = node[0]
    node.require((x.dtype is string) == (key_dtype is string), f"keys of {key_dtype} for {x.dtype}")
    if x.dtype is string or dtype is string or len(keys) > _MAX_COMPARED:
        return encode_labels(x, keys, values, default, dtype)
    result = node.constant(default, dtype)
    for key, value in zip(keys, values, strict=True):  # of equal keys the last one counts
        found = apply("is_nan", x) if math.isnan(key) else apply("equal", x, node.constant(key, x.dtype))
        result = apply("where", found, node.constant(value, dtype), result)
    return _spread(result, x)


def _spread(result: Symbol, x: Symbol) -> Symbol:
    return result if result.shape == x.shape else apply("broadcast_to", result, shape=x.shape)


def _list(node: Node, name: str) -> tuple[list[Any], DType]:
    """Return keys or values, of whichever attribute holds them, and their dtype."""
    found: list[tuple[list[Any], DType]] = []
    for suffix, dtype in (("strings", string), ("int64s", int64), ("floats", float32)):
        given = node.attr(f"{name}_{suffix}", None)
        if given is not None:
            found.append((given, dtype))
    tensor = node.attr(f"{name}_tensor", None)
    if isinstance(tensor, Known):
        array: Array = tensor.array
        found.append((array.reshape(-1).tolist(), tensor.dtype))
    node.require(len(found) == 1, f"{len(found)} attributes with {name}; one is expected")
    return found[0]


def _default(node: Node, dtype: DType) -> Any:
    tensor = node.attr("default_tensor", None)
    string_default, number, real = (node.attr(f"default_{name}", None) for name in ("string", "int64", "float"))
    if isinstance(tensor, Known) and tensor.array.size:
        node.require(tensor.array.size == 1 and tensor.dtype is dtype, "default_tensor of another dtype than the values")
        return tensor.array.reshape(-1)[0].item() if dtype is not string else tensor.array.reshape(-1)[0]
    if dtype is string:
        return "_Unused" if string_default is None else string_default
    if dtype in (float32, float64):
        return -0.0 if real is None else float(np.float32(real))
    return -1 if number is None else number


@handles("CategoryMapper", domain=_DOMAIN)
def category_mapper(node: Node) -> Result:
    """Turn strings into numbers or numbers into strings, by one list of each."""
    names, numbers = node.attr("cats_strings"), node.attr("cats_int64s")
    node.require(len(names) == len(numbers), f"{len(names)} strings, {len(numbers)} numbers")
    if node.dtype(0) is string:
        node.ignore("default_string")
        return encode_labels(node[0], names, numbers, node.attr("default_int64"), int64)
    node.ignore("default_int64")
    return encode_labels(node[0], numbers, names, node.attr("default_string"), string)


@handles("LabelEncoder", domain=_DOMAIN)
def label_encoder_of_names(node: Node) -> Result:
    """Turn class names into their numbers, or numbers into names, as opset 1 does."""
    names: list[str] = node.attr("classes_strings")
    numbers = list(range(len(names)))
    if node.dtype(0) is string:
        node.ignore("default_string")
        return encode_labels(node[0], names, numbers, node.attr("default_int64"), int64)
    node.ignore("default_int64")
    return encode_labels(node[0], numbers, names, node.attr("default_string"), string)

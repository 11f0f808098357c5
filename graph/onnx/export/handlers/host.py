"""Writes operations of the host: those whose sizes the values decide, and those on strings."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from .....promotion.dtype import DType, bool_, float32, float64, int64, string, uint8
from ....constants import scalar_array
from ....ops.attributes import parsed_options
from ....symbol import Symbol
from ...values import objects
from ..body import ML, Body, Constant, OpsetNeeded, Refused
from ..registry import Call, never, writes
from ..sizes import Sizes
from .structure import sized

_COUNTED = frozenset(("bool", "uint8", "int32", "int64", "float32"))
"""Dtypes that onnxruntime finds the elements other than 0 of; others become bools first."""
_PARTS = ("values", "first", "inverse", "counts")


def _once(body: Body, key: tuple[str, ...], make: Callable[[], tuple[str, ...]]) -> tuple[str, ...]:
    """Return the outputs of a node that symbols of one operand and one set of options share."""
    if key not in body.shared:
        body.shared[key] = make()
    return body.shared[key]


def _require_opset(opset: int, needed: int, what: str) -> None:
    if opset < needed:
        raise OpsetNeeded(needed, what)


# -- sizes that the values decide ----------------------------------------------------------------------------------------


@sized("nonzero")
def nonzero(body: Body, sizes: Sizes, symbol: Symbol, x: str) -> str:
    (operand,) = symbol.inputs
    if not operand.shape:
        raise Refused("ONNX leaves open how many axes a scalar's positions have", "reshape it to one axis")
    if operand.dtype is string:
        _require_opset(sizes.opset, 19, "comparison of strings")
        x = body.node("Not", body.node("Equal", x, _text(body, "")))
    elif operand.dtype.name not in _COUNTED:
        x = body.cast(x, operand.dtype, bool_)
    return body.node("NonZero", x)


@sized("empty_rows")
def empty_rows(body: Body, sizes: Sizes, symbol: Symbol, x: str) -> str:
    rows = body.node("Max", body.cast(x, symbol.inputs[0].dtype, int64), body.constant(0, int64))
    shape = body.node("Concat", body.node("Unsqueeze", rows, body.ints(0)), body.ints(0), axis=0)
    return body.node("ConstantOfShape", shape, value=Constant(np.zeros(1, np.bool_), bool_))


@sized("unique")
def unique(body: Body, sizes: Sizes, symbol: Symbol, x: str) -> str:
    dtype, given = symbol.inputs[0].dtype, parsed_options(symbol.attrs["options"])

    def make() -> tuple[str, ...]:
        carried, wide = body.carried("Unique", x, dtype)
        found = body.several("Unique", carried, outputs=_PARTS, axis=given["axis"], sorted=int(given["sorted"]))
        return (body.returned("Unique", found[0], wide, dtype), *found[1:])

    key = ("unique", x, str(given["axis"]), str(given["sorted"]))
    return _once(body, key, make)[_PARTS.index(given["part"])]


@sized("non_max_suppression")
def non_max_suppression(body: Body, sizes: Sizes, symbol: Symbol, boxes: str, scores: str) -> str:
    given = parsed_options(symbol.attrs["options"])
    if not 0 <= given["iou"] <= 1:
        raise Refused(f"ONNX takes overlaps from 0 to 1, not {given['iou']}", "iou_threshold from 0 to 1")
    limits = [body.constant(np.array([given[name]], np.float32), float32) for name in ("iou", "score")]
    return body.node(
        "NonMaxSuppression", boxes, scores, body.ints(min(given["limit"], 2**63 - 1)), *limits,
        center_point_box=int(given["centered"]),
    )  # fmt: skip


@sized("image_decode")
def image_decode(body: Body, sizes: Sizes, symbol: Symbol, data: str) -> str:
    _require_opset(sizes.opset, 20, "ImageDecoder")
    return body.node("ImageDecoder", data, pixel_format=parsed_options(symbol.attrs["options"])["pixels"])


# -- strings -------------------------------------------------------------------------------------------------------------


def _text(body: Body, text: str) -> str:
    return body.constant(objects([text], ()), string)


@writes("string_concat")
def string_concat(body: Body, call: Call, x: str, y: str) -> str:
    _require_opset(call.opset, 20, "StringConcat")
    return body.node("StringConcat", x, y)


@writes("string_equal")
def string_equal(body: Body, call: Call, x: str, y: str) -> str:
    _require_opset(call.opset, 19, "comparison of strings")
    return body.node("Equal", x, y)


@sized("string_split", "string_split_count")
def string_split(body: Body, sizes: Sizes, symbol: Symbol, x: str) -> str:
    _require_opset(sizes.opset, 20, "StringSplit")
    given = parsed_options(symbol.attrs["options"])
    attributes: dict[str, Any] = {"delimiter": given["delimiter"]} if given["delimiter"] else {}
    if given["limit"] is not None:
        attributes["maxsplit"] = given["limit"]
    key = ("string_split", x, json.dumps(attributes, sort_keys=True))
    made = _once(body, key, lambda: body.several("StringSplit", x, outputs=("parts", "part_counts"), **attributes))
    return made[symbol.op.name == "string_split_count"]


@writes("regex_full_match")
def regex_full_match(body: Body, call: Call, x: str) -> str:
    _require_opset(call.opset, 20, "RegexFullMatch")
    return body.node("RegexFullMatch", x, pattern=parsed_options(call.attrs["options"])["pattern"])


@sized("string_normalize")
def string_normalize(body: Body, sizes: Sizes, symbol: Symbol, x: str) -> str:
    given = parsed_options(symbol.attrs["options"])
    kept: dict[str, Any] = {"stopwords": tuple(given["stopwords"])} if given["stopwords"] else {}
    sensitive = int(given["case_sensitive"])
    return body.node("StringNormalizer", x, case_change_action=given["case"].upper(), is_case_sensitive=sensitive, **kept)


@writes("tf_idf")
def tf_idf(body: Body, call: Call, x: str) -> str:
    given, dtype = parsed_options(call.attrs["options"]), call.operands[0]
    pool: Sequence[Sequence[Any]] = given["pool"]
    if dtype.kind == "uint" and dtype.bits == 64:
        raise Refused("ONNX's terms are int64", "cast to int64")
    if not pool or not all(pool) or not 1 <= given["shortest"] <= given["longest"]:
        raise Refused("ONNX has terms of one entry or more only, and at least one", "terms that are not empty")
    order = sorted(range(len(pool)), key=lambda number: len(pool[number]))
    entries = [entry for number in order for entry in pool[number]]
    longest = max(len(pool[order[-1]]), given["longest"])
    begins = tuple([sum([len(term) for term in pool if len(term) < length]) for length in range(1, longest + 1)])
    attributes: dict[str, Any] = {"pool_strings" if dtype is string else "pool_int64s": tuple(entries)}
    if given["weights"]:
        attributes["weights"] = tuple([float(given["weights"][number]) for number in order])
    if (dtype is not string and dtype.bits < 32) or dtype.name == "uint32":
        x = body.cast(x, dtype, int64)
    return body.node(
        "TfIdfVectorizer", x, mode=given["mode"], min_gram_length=given["shortest"], max_gram_length=given["longest"],
        max_skip_count=given["skips"], ngram_counts=begins,
        ngram_indexes=tuple([given["positions"][number] for number in order]), **attributes,
    )  # fmt: skip


@writes("encode_labels")
def encode_labels(body: Body, call: Call, x: str) -> str:
    """Look labels up by LabelEncoder, in the dtypes that it has; of equal keys only the last one is written."""
    given, source, target = parsed_options(call.attrs["options"]), call.operands[0], call.result
    if source.kind == "complex" or target.kind == "complex" or (source.bits == 64 and source.kind == "uint"):
        raise Refused(f"ONNX encodes no labels of {source} as {target}", "cast to int64, float64 or strings")
    keyed, valued = _encoder_dtype(source), _encoder_dtype(target)
    if {keyed, valued} == {float32, float64}:  # no runtime mixes them
        keyed = valued = float64
    if valued.kind == "int" and target.kind == "uint" and target.bits == 64:
        raise Refused(f"ONNX encodes no labels as {target}", "dtype=int64")
    table: dict[Any, Any] = {}
    for key, value in zip(given["keys"], given["values"], strict=True):
        exact = key if keyed is string else scalar_array(key, source).astype(keyed.numpy).reshape(-1)[0].item()
        if keyed is not string and exact != key and not math.isnan(exact):
            continue  # no element of this dtype equals it
        exact = "nan" if isinstance(exact, float) and math.isnan(exact) else exact
        table.pop(exact, None)
        table[exact] = value
    if not table:
        raise Refused("ONNX has no table without keys", "full of the default")
    keys = [math.nan if key == "nan" and keyed is not string else key for key in table]
    attributes: dict[str, Any] = {
        "keys_tensor": _table(keys, keyed, keyed),
        "values_tensor": _table(list(table.values()), target, valued),
        "default_tensor": _table([given["default"]], target, valued),
    }
    found = body.node("LabelEncoder", body.cast(x, source, keyed), domain=ML, **attributes)
    return body.cast(found, valued, target)


def _encoder_dtype(dtype: DType) -> DType:
    """Return the dtype in which LabelEncoder holds keys or values of a dtype."""
    if dtype is string or dtype is float64:
        return dtype
    return float32 if dtype.is_float else int64


def _table(entries: Sequence[Any], dtype: DType, stored: DType) -> Constant:
    if stored is string:
        return Constant(objects(entries, (len(entries),)), string)
    exact = [scalar_array(entry, dtype).astype(stored.numpy).reshape(-1)[0] for entry in entries]
    return Constant(np.array(exact, stored.numpy), stored)


@writes("parse_numbers")
def parse_numbers(body: Body, call: Call, x: str) -> str:
    return body.node("Cast", x, to=call.result)


@writes("print_numbers")
def print_numbers(body: Body, call: Call, x: str) -> str:
    """Print integers and floats; bools as 0 and 1, which ONNX would print as words."""
    dtype = call.operands[0]
    if dtype.kind == "complex":
        raise Refused("ONNX prints no complex numbers", "print both parts")
    return body.node("Cast", body.cast(x, dtype, uint8) if dtype is bool_ else x, to=string)


never("ONNX has no hash of strings", "hash them outside of the graph", "string_hash")
never("ONNX has no operator that ends a run", "keep the model in ONNX that it came from", "require")

"""Says for which dtypes an operator of ONNX is written as it is; values of others are computed in a wider carrier.

An operator is native for a dtype if its definition of opset 18 and onnxruntime's CPU kernels, from version 1.20 on, have it. So
an exported model runs where ONNX is implemented least completely, and what is computed in another dtype is visible as casts.
Elementary functions of float64 that no kernel exists for are written all the same: there is no wider carrier.
"""

from __future__ import annotations

from collections.abc import Mapping

_REAL = frozenset(("float16", "float32", "float64"))
_WIDE_REAL = frozenset(("float32", "float64"))
_SIGNED = frozenset(("int32", "int64"))
_INTEGERS = frozenset(("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64", "index", "address"))
_UINT64 = frozenset(("uint64", "index", "address"))
_COMPLEX = frozenset(("complex64", "complex128"))
_MOVED = frozenset(("bool", *_INTEGERS, *_REAL, *_COMPLEX))
_EIGHT_BITS = frozenset(("float8_e4m3fn", "float8_e5m2", "float8_e4m3fnuz", "float8_e5m2fnuz"))

NATIVE: Mapping[str, frozenset[str]] = {
    **dict.fromkeys(("Add", "Sub", "Mul", "Div", "Less", "LessOrEqual", "Greater", "GreaterOrEqual"), _SIGNED | _REAL),
    **dict.fromkeys(("Min", "Max", "MatMul"), _SIGNED | {"uint32"} | _UINT64 | _REAL),
    "Equal": _SIGNED | _REAL | {"bool"},
    "Pow": _REAL,
    "Mod": _INTEGERS | _REAL,
    **dict.fromkeys(("BitwiseAnd", "BitwiseOr", "BitwiseXor", "BitwiseNot"), _INTEGERS),
    "BitShift": _UINT64,
    "Neg": _SIGNED | {"int8"} | _REAL,
    "Abs": _INTEGERS | _REAL,
    "Sign": _INTEGERS,
    "Relu": _REAL | {"int32"},
    **dict.fromkeys(("Sqrt", "Exp", "Log", "Sin", "Cos", "Asin", "Acos", "Atan", "Tanh", "Erf", "Sigmoid"), _REAL),
    **dict.fromkeys(("Reciprocal", "Floor", "Ceil", "Round", "IsNaN"), _REAL),
    **dict.fromkeys(("Softmax", "LogSoftmax"), _WIDE_REAL),
    **dict.fromkeys(("ReduceSum", "ReduceProd"), _WIDE_REAL | {"int64"}),  # of int32 they saturate
    "CumSum": _SIGNED | _WIDE_REAL,
    **dict.fromkeys(("ReduceMean", "ReduceLogSumExp"), _WIDE_REAL),
    **dict.fromkeys(("ReduceMax", "ReduceMin", "ArgMax", "ArgMin"), _SIGNED | {"int8", "uint8"} | _WIDE_REAL),
    "Unique": _WIDE_REAL | {"int8", "int64"},
    "Where": _SIGNED | {"uint8"} | _REAL | _COMPLEX,
    **dict.fromkeys(("Reshape", "Transpose"), _MOVED | _EIGHT_BITS | {"bfloat16"}),
    **dict.fromkeys(("Slice", "Concat", "Gather", "GatherElements", "GatherND", "Unsqueeze"), _MOVED | {"bfloat16"}),
    "Expand": _MOVED,
    "Pad": _MOVED - {"int16", "uint16"},
    "TopK": _SIGNED | _WIDE_REAL,
    "CumProd": _SIGNED | _WIDE_REAL,
    "ScatterElements none": _MOVED - {"int16", "uint16"} - _COMPLEX,
    **dict.fromkeys(("ScatterElements add", "ScatterElements mul", "ScatterElements min", "ScatterElements max"),
                    _SIGNED | _WIDE_REAL),
}  # fmt: skip
"""Operator, or operator and reduction → names of the dtypes that it is written for as it is."""

ORDERED = frozenset((
    "Less", "LessOrEqual", "Greater", "GreaterOrEqual", "ReduceMax", "ReduceMin", "ArgMax", "ArgMin", "Unique", "TopK",
    "ScatterElements min", "ScatterElements max",
))  # fmt: skip
"""Operators that need the order of values kept: 64 bits without a sign are carried with the top bit flipped."""

_CARRIERS: Mapping[str, tuple[str, ...]] = {
    "bool": ("uint8", "int32", "int64"),
    **dict.fromkeys(("int2", "uint2", "int4", "uint4"), ("int8", "int32")),
    **dict.fromkeys(("int8", "int16", "uint8", "uint16"), ("int32", "int64")),
    "int32": ("int64",),
    "uint32": ("int64",),
    "int64": (),
    **dict.fromkeys(_UINT64, ("int64",)),
    **dict.fromkeys(("float16", "bfloat16", "float4_e2m1fn", "float8_e8m0fnu", *sorted(_EIGHT_BITS)), ("float32",)),
}  # fmt: skip


def carrier(op: str, dtype: str) -> str:
    """Return the name of the dtype in which an operator computes on values of a dtype: itself, or one that holds them exactly.

    Sums, differences and products of integers have the right low bits in a wider dtype.
    """
    native = NATIVE[op]
    if dtype in native:
        return dtype
    for wider in _CARRIERS.get(dtype, ()):
        if wider in native:
            return wider
    return dtype

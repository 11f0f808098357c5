"""The names of element types in other systems, against what those systems publish and what their packages say."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest
from joinery.promotion.dtype import BY_MLIR_NAME, BY_PTX_NAME, DTYPES, DType

ONNX = {  # onnx.proto, TensorProto.DataType
    1: "float32", 2: "uint8", 3: "int8", 4: "uint16", 5: "int16", 6: "int32", 7: "int64", 9: "bool", 10: "float16",
    11: "float64", 12: "uint32", 13: "uint64", 14: "complex64", 15: "complex128", 16: "bfloat16", 17: "float8_e4m3fn",
    18: "float8_e4m3fnuz", 19: "float8_e5m2", 20: "float8_e5m2fnuz", 21: "uint4", 22: "int4", 23: "float4_e2m1fn",
    24: "float8_e8m0fnu", 25: "uint2", 26: "int2",
}  # fmt: skip
DLPACK = {  # dlpack.h 1.1, DLDataTypeCode, of the types that are no family
    4: "bfloat16", 6: "bool", 7: "float8_e3m4", 8: "float8_e4m3", 9: "float8_e4m3b11fnuz", 10: "float8_e4m3fn",
    11: "float8_e4m3fnuz", 12: "float8_e5m2", 13: "float8_e5m2fnuz", 14: "float8_e8m0fnu", 15: "float6_e2m3fn",
    16: "float6_e3m2fn", 17: "float4_e2m1fn",
}  # fmt: skip
STORED_AS = {"index": "uint64", "address": "uint64", "tensor_float32": "float32"}


def own(name: str) -> bool:
    return name not in STORED_AS


def test_onnx_numbers():
    assert {dtype.names.onnx: name for name, dtype in DTYPES.items() if own(name) and dtype.names.onnx} == ONNX


def test_dlpack_codes():
    families = {"int": 0, "uint": 1, "complex": 5}
    for name, dtype in DTYPES.items():
        if dtype.kind in families:
            assert dtype.names.dlpack == families[dtype.kind]
        elif dtype.numpy in (np.float16, np.float32, np.float64):
            assert dtype.names.dlpack == 2
        else:
            assert DLPACK[dtype.names.dlpack] == name


@pytest.mark.parametrize("dtype", [dtype for dtype in DTYPES.values() if dtype.is_float], ids=str)
def test_formats_are_those_of_the_packages(dtype: DType):
    if dtype.name == "tensor_float32":
        return  # nobody's NumPy type
    info = ml_dtypes.finfo(dtype.numpy)
    assert (info.bits, info.nmant, info.minexp) == (dtype.bits, dtype.mantissa_bits, dtype.min_exponent)
    assert (float(info.max), float(info.min)) == (dtype.max_value, dtype.min_value)
    zeros = np.array([0.0, -0.0]).astype(dtype.numpy)
    if dtype.name != "float8_e8m0fnu":  # it has no zero
        assert (zeros.view(np.uint8).reshape(2, -1)[0].tolist() == zeros.view(np.uint8).reshape(2, -1)[1].tolist()) == (
            dtype.unsigned_zero
        )


def test_names_lead_back():
    for text, dtype in BY_MLIR_NAME.items():
        assert dtype.names.mlir == text
        assert own(dtype.name)
        assert dtype.kind != "uint"
    for text, dtype in BY_PTX_NAME.items():
        assert dtype.names.ptx == text
    assert {BY_PTX_NAME[text].name for text in ("u64", "f32", "tf32", "s8")} == {"uint64", "float32", "tensor_float32", "int8"}
    for name, stored in STORED_AS.items():
        assert DTYPES[name].numpy == stored

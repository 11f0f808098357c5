"""Holds the one table of element types: their formats, and their names in other systems.

Formats: IEEE 754 for float16/32/64; bfloat16 is float32 with 7 mantissa bits; tensor_float32 is float32
storage with 10 mantissa bits; the 8-bit and smaller floats follow the OCP "8-bit Floating Point" and
"Microscaling Formats" specifications and the names of `ml_dtypes`, whose NumPy types hold their values.

Names: MLIR's builtin types; PTX ISA 9.0, "Fundamental Types" and "Alternate Floating-Point Data Formats";
DLPack 1.1, `DLDataTypeCode`; ONNX 1.20, `TensorProto.DataType`; the header of safetensors files.
"""

from __future__ import annotations

from typing import Literal, NamedTuple

Kind = Literal["bool", "int", "uint", "float", "complex", "string"]


class Names(NamedTuple):
    """The names of an element type in other systems; "" or None where there is none.

    Attributes:
        numpy: the type of NumPy or of `ml_dtypes` that holds the values.
        mlir: the scalar type in the block IR, where integers are signless.
        ptx: the type in PTX instructions.
        dlpack: the type code, which names a type together with the number of bits.
        onnx: the number of the tensor data type.
        safetensors: the dtype in a file's header.
    """

    numpy: str = ""
    mlir: str = ""
    ptx: str = ""
    dlpack: int | None = None
    onnx: int | None = None
    safetensors: str = ""


class Format(NamedTuple):
    """One row of the table.

    Attributes:
        exponent_bits, mantissa_bits, max_finite: of a float or of a complex type's components; 0 for other
            kinds.
        min_exponent: the power of two of the smallest normal number.
        unsigned_zero: there is a single zero, and the bits of -0.0 mean NaN.
        storage_only: values are not computed with.
        has_arithmetic: operators compute with the type.
    """

    kind: Kind
    bits: int
    names: Names = Names()
    exponent_bits: int = 0
    mantissa_bits: int = 0
    max_finite: float = 0.0
    min_exponent: int = 0
    has_infinity: bool = False
    has_nan: bool = False
    unsigned_zero: bool = False
    storage_only: bool = False
    has_arithmetic: bool = False


def _ieee(bits: int, exponent_bits: int, mantissa_bits: int, names: Names, has_arithmetic: bool = False) -> Format:
    """Return a format with infinities and NaNs in the topmost exponent, as IEEE 754 defines them."""
    bias = 2 ** (exponent_bits - 1) - 1
    largest = float(2 - 2.0**-mantissa_bits) * 2.0**bias
    return Format(
        "float", bits, names, exponent_bits, mantissa_bits, largest, 1 - bias, True, True, has_arithmetic=has_arithmetic
    )


def _finite(bits: int, exponent_bits: int, mantissa_bits: int, largest: float, least: int, names: Names) -> Format:
    """Return a format without infinities.

    Types whose name ends in "uz" have a single zero; those below 8 bits have no NaN, and those of 6 bits are only stored.
    """
    unsigned_zero = names.numpy.endswith("uz")
    return Format(
        "float", bits, names, exponent_bits, mantissa_bits, largest, least,
        has_nan=bits == 8, unsigned_zero=unsigned_zero, storage_only=bits == 6,
    )  # fmt: skip


def _complex(bits: int, part: Format, names: Names) -> Format:
    return part._replace(kind="complex", bits=bits, names=names, storage_only=True, has_arithmetic=False)


def _integer(kind: Kind, bits: int, onnx: int | None) -> Format:
    """Return an integer format; types below 8 bits are only stored and cast, those of 1 bit only stored."""
    ptx, code, safetensors = ("s", 0, "I") if kind == "int" else ("u", 1, "U")
    names = Names(f"{kind}{bits}", f"i{bits}" if bits > 2 else "", dlpack=code, onnx=onnx)
    if bits < 8:
        return Format(kind, bits, names, storage_only=bits < 2)
    names = names._replace(ptx=f"{ptx}{bits}", safetensors=f"{safetensors}{bits}")
    return Format(kind, bits, names, has_arithmetic=True)


_F16 = _ieee(16, 5, 10, Names("float16", "f16", "f16", 2, 10, "F16"), True)
_F32 = _ieee(32, 8, 23, Names("float32", "f32", "f32", 2, 1, "F32"), True)
_F64 = _ieee(64, 11, 52, Names("float64", "f64", "f64", 2, 11, "F64"), True)

FORMATS: dict[str, Format] = {
    "bool": Format("bool", 1, Names("bool_", "i1", "pred", 6, 9, "BOOL"), has_arithmetic=True),
    "int4": _integer("int", 4, 22),
    "int8": _integer("int", 8, 3),
    "int16": _integer("int", 16, 5),
    "int32": _integer("int", 32, 6),
    "int64": _integer("int", 64, 7),
    "uint4": _integer("uint", 4, 21),
    "uint8": _integer("uint", 8, 2),
    "uint16": _integer("uint", 16, 4),
    "uint32": _integer("uint", 32, 12),
    "uint64": _integer("uint", 64, 13),
    "index": _integer("uint", 64, 13),
    "address": _integer("uint", 64, 13),
    "float16": _F16,
    "bfloat16": _ieee(16, 8, 7, Names("bfloat16", "bf16", "bf16", 4, 16, "BF16"), True),
    "float32": _F32,
    "tensor_float32": _ieee(32, 8, 10, _F32.names._replace(ptx="tf32"), True),
    "float64": _F64,
    "float8_e4m3fn": _finite(8, 4, 3, 448.0, -6, Names("float8_e4m3fn", "f8E4M3FN", "e4m3", 10, 17, "F8_E4M3")),
    "float8_e5m2": _ieee(8, 5, 2, Names("float8_e5m2", "f8E5M2", "e5m2", 12, 19, "F8_E5M2")),
    "float8_e4m3fnuz": _finite(8, 4, 3, 240.0, -7, Names("float8_e4m3fnuz", "f8E4M3FNUZ", dlpack=11, onnx=18)),
    "float8_e5m2fnuz": _finite(8, 5, 2, 57344.0, -15, Names("float8_e5m2fnuz", "f8E5M2FNUZ", dlpack=13, onnx=20)),
    "float8_e4m3b11fnuz": _finite(8, 4, 3, 30.0, -10, Names("float8_e4m3b11fnuz", "f8E4M3B11FNUZ", dlpack=9)),
    "float8_e4m3": _ieee(8, 4, 3, Names("float8_e4m3", "f8E4M3", dlpack=8)),
    "float8_e3m4": _ieee(8, 3, 4, Names("float8_e3m4", "f8E3M4", dlpack=7)),
    "float8_e8m0fnu": _finite(8, 8, 0, 2.0**127, -127, Names("float8_e8m0fnu", "f8E8M0FNU", "ue8m0", 14, 24)),
    "complex64": _complex(64, _F32, Names("complex64", dlpack=5, onnx=14)),
    "complex128": _complex(128, _F64, Names("complex128", dlpack=5, onnx=15)),
    "float4_e2m1fn": _finite(4, 2, 1, 6.0, 0, Names("float4_e2m1fn", ptx="e2m1", dlpack=17, onnx=23)),
    "float6_e2m3fn": _finite(6, 2, 3, 7.5, 0, Names("float6_e2m3fn", ptx="e2m3", dlpack=15)),
    "float6_e3m2fn": _finite(6, 3, 2, 28.0, -2, Names("float6_e3m2fn", ptx="e3m2", dlpack=16)),
    "int2": _integer("int", 2, 26),
    "uint2": _integer("uint", 2, 25),
}
"""Formats by the name of the dtype. index and address are stored as uint64, tensor_float32 as float32."""

HOST_FORMATS: dict[str, Format] = {
    "string": Format("string", 64, Names("object_", onnx=8), storage_only=True),
}
"""Formats of what only the host holds, as arrays of objects: no kernel moves it, and no rule set contains it."""

ABSTRACT_FORMATS: dict[str, Format] = {
    "weak_int": Format("int", 0, storage_only=True),
    "weak_float": Format("float", 0, storage_only=True),
    "weak_complex": Format("complex", 0, storage_only=True),
    "wide_int": Format("int", 65, storage_only=True),
    "complex32": _complex(32, _F16, Names()),
}
"""Elements of promotion orders that no tensor has as its dtype.

The weak ones stand for Python scalars and for values computed from these alone; wide_int holds int64 and
uint64; complex32 is PyTorch's result for float16 and a complex scalar.
"""

FOREIGN_NAMES = {
    "bf16": "bfloat16", "f16": "float16", "half": "float16", "fp16": "float16", "f32": "float32",
    "fp32": "float32", "float": "float32", "tf32": "tensor_float32", "tensor_float_32": "tensor_float32",
    "f64": "float64", "fp64": "float64", "double": "float64", "i1": "bool", "bool_": "bool",
    "boolean": "bool", "i8": "int8", "i16": "int16", "i32": "int32", "i64": "int64", "int": "int64",
    "long": "int64", "short": "int16", "u8": "uint8", "u16": "uint16", "u32": "uint32", "u64": "uint64",
    "byte": "uint8", "size_t": "index", "fp8": "float8_e4m3fn", "f8E4M3FN": "float8_e4m3fn",
    "f8E5M2": "float8_e5m2", "complex": "complex128",
}  # fmt: skip
"""Names in other tools → our names; used only for suggestions in error messages."""

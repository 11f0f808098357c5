"""DType: identity, fields against ml_dtypes and NumPy, names, errors."""

import copy
import pickle
import subprocess
import sys

import ml_dtypes
import numpy as np
import pytest
from joinery.promotion import DTYPES, DType, UserError
from joinery.promotion import dtype as dtypes

FLOATS = [d for d in DTYPES.values() if d.is_float and d.name != "tensor_float32"]
INTEGERS = [d for d in DTYPES.values() if d.is_integer and d.name not in ("index", "address")]


@pytest.mark.parametrize("name", DTYPES)
def test_one_object_per_name(name):
    dtype = DType(name)
    assert dtype is DTYPES[name] is DType(dtype)
    assert pickle.loads(pickle.dumps(dtype)) is dtype
    assert copy.copy(dtype) is dtype
    assert copy.deepcopy([dtype])[0] is dtype
    assert {dtype: 1}[DType(name)] == 1
    assert str(dtype) == f"{dtype}" == name
    assert eval(repr(dtype), {"DType": DType}) is dtype


def test_module_constants_are_the_interned_objects():
    for name in DTYPES:
        assert getattr(dtypes, "bool_" if name == "bool" else name) is DTYPES[name]


def test_dtypes_are_immutable_and_slotted():
    with pytest.raises(AttributeError, match="immutable"):
        dtypes.int8.bits = 16
    with pytest.raises(AttributeError, match="immutable"):
        dtypes.int8.colour = "red"
    with pytest.raises(AttributeError, match="immutable"):
        del dtypes.int8.bits
    assert dtypes.int8.bits == 8
    assert not hasattr(dtypes.int8, "__dict__")


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
def test_float_formats_against_ml_dtypes(dtype):
    info = ml_dtypes.finfo(dtype.numpy)
    assert dtype.max_value == float(info.max)
    assert dtype.min_value == float(info.min)
    assert dtype.smallest_normal == float(info.smallest_normal)
    assert dtype.smallest_subnormal == float(info.smallest_subnormal)
    assert dtype.mantissa_bits == info.nmant
    assert dtype.bits == info.bits
    assert dtype.has_infinity == bool(np.isinf(np.array(np.inf).astype(dtype.numpy)))
    assert dtype.has_nan == bool(np.isnan(np.array(np.nan).astype(dtype.numpy)))
    assert 2.0**dtype.min_exponent == dtype.smallest_normal


def test_tensor_float32_is_float32_with_ten_mantissa_bits():
    dtype = dtypes.tensor_float32
    assert (dtype.exponent_bits, dtype.mantissa_bits, dtype.itemsize) == (8, 10, 4)
    assert dtype.numpy == np.float32
    assert dtype.max_value == np.array(0x7F7FE000, np.uint32).view(np.float32)
    assert dtype.smallest_subnormal == np.array(0x00002000, np.uint32).view(np.float32)


@pytest.mark.parametrize("dtype", INTEGERS, ids=str)
def test_integer_ranges_against_ml_dtypes(dtype):
    info = ml_dtypes.iinfo(dtype.numpy)
    assert (dtype.min_value, dtype.max_value, dtype.bits) == (info.min, info.max, info.bits)
    assert dtype.contains_integer(int(info.max))
    assert not dtype.contains_integer(int(info.max) + 1)
    assert not dtype.contains_integer(int(info.min) - 1)


@pytest.mark.parametrize("name", ["index", "address"])
def test_index_and_address_are_uint64_words(name):
    dtype = DType(name)
    assert (dtype.kind, dtype.bits, dtype.numpy) == ("uint", 64, np.dtype(np.uint64))
    assert dtype is not dtypes.uint64


@pytest.mark.parametrize("dtype", DTYPES.values(), ids=str)
def test_itemsize_is_what_numpy_stores(dtype):
    assert dtype.itemsize == dtype.numpy.itemsize


def test_kinds():
    assert (dtypes.bool_.is_bool, dtypes.bool_.is_integer, dtypes.bool_.is_signed) == (True, False, False)
    assert (dtypes.uint8.is_integer, dtypes.uint8.is_signed) == (True, False)
    assert (dtypes.int8.is_integer, dtypes.int8.is_signed) == (True, True)
    assert dtypes.float8_e8m0fnu.is_signed is False
    assert dtypes.complex64.is_complex
    assert not dtypes.complex64.is_float


def test_what_has_arithmetic():
    widths = (8, 16, 32, 64)
    integers = {f"{sign}int{width}" for sign in ("", "u") for width in widths}
    floats = {"float16", "bfloat16", "float32", "tensor_float32", "float64"}
    computed = integers | floats | {"bool", "index", "address"}
    stored = {"float6_e2m3fn", "float6_e3m2fn", "complex64", "complex128"}
    eights = (name for name in DTYPES if name.startswith("float8_"))
    cast = {"int2", "uint2", "int4", "uint4", "float4_e2m1fn", *eights}
    known = computed | stored | cast
    assert known <= DTYPES.keys()
    assert {d.name for d in DTYPES.values() if d.has_arithmetic} & known == computed
    assert {d.name for d in DTYPES.values() if d.storage_only} & known == stored


@pytest.mark.parametrize("dtype", DTYPES.values(), ids=str)
def test_numpy_round_trip(dtype):
    back = DType.from_numpy(dtype.numpy)
    stored_as = {"index": "uint64", "address": "uint64", "tensor_float32": "float32"}
    assert back.name == stored_as.get(dtype.name, dtype.name)


def test_from_numpy_accepts_scalar_types_and_names():
    assert DType.from_numpy(np.float32) is dtypes.float32
    assert DType.from_numpy("int8") is dtypes.int8
    assert DType.from_numpy(ml_dtypes.bfloat16) is dtypes.bfloat16
    assert DType.from_numpy(np.intp) is dtypes.int64
    assert DType.from_numpy(bool) is dtypes.bool_


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (np.dtype(">f4"), "byte order.*newbyteorder"),
        (np.dtype(object), "no joinery dtype"),
        (np.dtype("U3"), "no joinery dtype"),
        (np.longdouble, "float64"),
        (np.dtype([("a", "i4")]), "no joinery dtype"),
        ("no such", "not a NumPy dtype"),
    ],
)
def test_from_numpy_refuses(given, message):
    with pytest.raises(UserError, match=message):
        DType.from_numpy(given)


@pytest.mark.parametrize(
    ("name", "suggestion"),
    [
        ("flaot32", "float32"),
        ("bfloat61", "bfloat16"),
        ("bf16", "bfloat16"),
        ("tf32", "tensor_float32"),
        ("half", "float16"),
        ("Float32", "float32"),
        ("i64", "int64"),
        ("size_t", "index"),
    ],
)
def test_unknown_names_suggest(name, suggestion):
    with pytest.raises(UserError, match=rf"unknown dtype '{name}'; did you mean {suggestion}"):
        DType(name)


def test_hopeless_names_list_what_is_known():
    with pytest.raises(UserError, match=r"known dtypes: bool, int4.*complex128"):
        DType("zzzzzzzzzz")
    with pytest.raises(UserError, match="from_numpy"):
        DType(np.float32)
    with pytest.raises(ValueError, match="unknown dtype"):  # UserError is a ValueError
        DType("")


def test_importing_promotion_loads_neither_numpy_nor_ml_dtypes():
    code = (
        "import sys, joinery.promotion as p; p.rules('max').join(p.DType('int8'), p.DType('bfloat16'));"
        "print([m for m in ('numpy', 'ml_dtypes', 'networkx', 'llvmlite', 'xdsl') if m in sys.modules])"
    )
    shown = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert shown.stdout.strip() == "[]"

"""Loss classes against conversions NumPy and ml_dtypes perform, value by value."""

import itertools

import numpy as np
import pytest
from joinery.promotion import DTYPES, DType, UserError, loss_class, loss_example

SMALL = [d for d in DTYPES.values() if d.bits <= 16 and d.kind != "complex" and d.name != "bool"]


@pytest.mark.parametrize(
    ("source", "target", "expected"),
    [
        ("bool", "int8", "exact"),
        ("bool", "float16", "exact"),
        ("int8", "int16", "exact"),
        ("int8", "float16", "exact"),
        ("int16", "float16", "rounding"),
        ("uint16", "float16", "overflow"),
        ("int32", "float16", "overflow"),
        ("int32", "float32", "rounding"),
        ("int32", "float64", "exact"),
        ("int64", "float64", "rounding"),
        ("uint64", "float64", "rounding"),
        ("int8", "uint8", "sign"),
        ("int8", "uint64", "sign"),
        ("uint8", "int8", "sign"),
        ("uint32", "int64", "exact"),
        ("int64", "int8", "overflow"),
        ("uint64", "index", "exact"),
        ("index", "int64", "sign"),
        ("int8", "bool", "overflow"),
        ("float32", "int32", "overflow"),
        ("float16", "int32", "rounding"),
        ("float16", "uint32", "sign"),
        ("float16", "bfloat16", "rounding"),
        ("bfloat16", "float16", "overflow"),
        ("bfloat16", "tensor_float32", "exact"),
        ("float16", "tensor_float32", "exact"),
        ("float32", "tensor_float32", "rounding"),
        ("tensor_float32", "float32", "exact"),
        ("float32", "bfloat16", "rounding"),
        ("float64", "float32", "overflow"),
        ("float32", "float8_e4m3fn", "overflow"),
        ("float8_e5m2", "float16", "exact"),
        ("float8_e4m3fn", "float16", "exact"),
        ("complex64", "complex128", "exact"),
        ("complex128", "complex64", "overflow"),
        ("float32", "complex64", "exact"),
    ],
)
def test_documented_classes(source, target, expected):
    assert loss_class(DType(source), DType(target)) == expected
    assert bool(loss_example(DType(source), DType(target))) == (expected != "exact")


def every_value(dtype):
    """All finite values of a type of at most 16 bits, as exact float64."""
    if dtype.is_integer:
        return np.arange(dtype.min_value, dtype.max_value + 1).astype(np.float64)
    width = np.uint16 if dtype.itemsize == 2 else np.uint8
    with np.errstate(all="ignore"):
        values = np.arange(2**dtype.bits, dtype=width).view(dtype.numpy).astype(np.float64)
    return values[np.isfinite(values)]


@pytest.mark.parametrize("target", SMALL, ids=str)
def test_every_value_of_every_small_type(target):
    targets = np.unique(every_value(target))
    for source in SMALL:
        values = every_value(source)
        nearest = targets[np.clip(np.searchsorted(targets, values), 0, len(targets) - 1)]
        survives = bool(np.all(nearest == values))
        loss = loss_class(source, target)
        assert (loss == "exact") == survives, (source, target)
        magnitudes = np.max(np.abs(values)) < 2 * np.max(np.abs(targets))
        if loss in ("rounding", "sign"):
            assert magnitudes, (source, target)
        if loss == "overflow":
            assert np.max(np.abs(values)) > np.max(np.abs(targets)), (source, target)
        if loss == "rounding" and np.min(values) < 0:
            assert np.min(targets) < 0, (source, target)


def test_examples_are_true():
    assert loss_example(DType("int64"), DType("float32")) == "16777217 becomes 16777216"
    assert np.float32(16777217) == 16777216
    assert loss_example(DType("int32"), DType("bfloat16")) == "257 becomes 256"
    assert loss_example(DType("uint64"), DType("float16")) == "65520 becomes inf"
    assert loss_example(DType("int8"), DType("uint16")) == "-1 becomes 65535"
    assert np.array(-1, np.int8).astype(np.uint16) == 65535
    assert loss_example(DType("uint8"), DType("int8")) == "255 becomes -1"
    assert loss_example(DType("int64"), DType("int8")) == "128 becomes -128"
    assert loss_example(DType("float32"), DType("int8")) == "128 becomes 127"
    assert loss_example(DType("float32"), DType("bfloat16")) == "1 + 2**-8 becomes 1"
    assert loss_example(DType("float16"), DType("int32")) == "1.5 becomes 1"


def test_complex_to_real_is_no_cast():
    with pytest.raises(UserError, match="real or the imaginary part"):
        loss_class(DType("complex64"), DType("float32"))


def test_every_pair_has_a_class():
    for source, target in itertools.product(DTYPES.values(), repeat=2):
        if source.is_complex and not target.is_complex:
            continue
        assert loss_class(source, target) in ("exact", "rounding", "sign", "overflow")
        loss_example(source, target)

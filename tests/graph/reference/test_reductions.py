"""Reduce, scan, contract and composite rows against exact sums, NumPy and scipy; the traps users report."""

import fractions
import itertools
import math

import ml_dtypes
import numpy as np
import pytest
import scipy.special
import scipy.stats
from joinery.graph.reference.evaluate import REFERENCE, BoundSymbol
from joinery.promotion import DType, UnsupportedError, UserError

RANDOM = np.random.default_rng(42)
BF16 = ml_dtypes.bfloat16


def run(op, *arrays, dtype=None, shape=None, **attrs):
    arrays = [np.asarray(a) for a in arrays]
    inputs = tuple(BoundSymbol("input", DType.from_numpy(a.dtype), a.shape) for a in arrays)
    result = DType(dtype) if dtype else inputs[0].dtype
    if shape is None:
        shape = arrays[0].shape
    value = REFERENCE[op](BoundSymbol(op, result, tuple(shape), inputs, attrs), *arrays)
    assert value.dtype == result.numpy
    assert value.shape == tuple(shape)
    return value


def reduce(op, a, axes=None, keepdims=False, dtype=None, **attrs):
    a = np.asarray(a)
    axes = tuple(range(a.ndim)) if axes is None else axes
    shape = [1 if axis in axes else n for axis, n in enumerate(a.shape) if keepdims or axis not in axes]
    return run(op, a, dtype=dtype, shape=shape, axes=axes, keepdims=keepdims, **attrs)


AXES = [(), (0,), (1,), (2,), (0, 1), (0, 2), (1, 2), (0, 1, 2)]


@pytest.mark.parametrize("axes", AXES)
@pytest.mark.parametrize("keepdims", [False, True])
def test_reductions_over_axes(axes, keepdims):
    a = RANDOM.integers(-9, 9, (3, 4, 5)).astype(np.int64)
    for op, numpy_name in (("sum", "sum"), ("prod", "prod"), ("max", "max"), ("min", "min")):
        expected = getattr(np, numpy_name)(a, axis=axes, keepdims=keepdims)
        np.testing.assert_array_equal(reduce(f"reduce_{op}", a, axes, keepdims), expected)
    values = a.astype(np.float32)
    np.testing.assert_allclose(
        reduce("mean", values, axes, keepdims), values.mean(axes, keepdims=keepdims), rtol=1e-6
    )
    if axes:
        expected = scipy.special.logsumexp(values.astype(np.float64), axes, keepdims=keepdims)
        np.testing.assert_allclose(reduce("logsumexp", values, axes, keepdims), expected, rtol=1e-6)
        expected = values.astype(np.float64).var(axes, ddof=1, keepdims=keepdims)
        np.testing.assert_allclose(reduce("var", values, axes, keepdims, correction=1), expected, rtol=1e-6)


def test_argmax_and_argmin():
    a = np.float32([[1, 3, 3, -1], [np.nan, 5, np.nan, -np.inf], [-0.0, 0.0, 0, 0], [-np.inf] * 4])
    assert reduce("argmax", a, (1,), dtype="int64").tolist() == [1, 0, 0, 0]
    assert reduce("argmin", a, (1,), dtype="int64").tolist() == [3, 0, 0, 0]
    late = np.array([2, 7, np.nan, 9], np.float32)
    assert reduce("argmax", late, (0,), True, dtype="int64").tolist() == [2]
    assert reduce("argmax", late.astype(BF16), (0,), dtype="int64") == 2
    assert reduce("argmin", late.astype(np.float16), (0,), dtype="int64") == 2
    assert reduce("argmax", np.array([False, True, True]), (0,), dtype="int64") == 1
    assert reduce("argmax", np.array([2**63, 2**63 + 1], np.uint64), (0,), dtype="int64") == 1
    tall = RANDOM.normal(size=(3, 4, 5)).astype(np.float32)
    for axis in range(3):
        expected = np.argmax(tall, axis)
        np.testing.assert_array_equal(reduce("argmax", tall, (axis,), dtype="int64"), expected)
        np.testing.assert_array_equal(reduce("argmin", -tall, (axis,), dtype="int64"), expected)


def test_sum_traps():
    trues = np.ones((32, 32), np.int64)  # the builder casts bool to int64 first
    assert reduce("reduce_sum", trues) == 1024
    assert reduce("reduce_sum", np.ones(5000, np.uint64)) == 5000
    assert reduce("reduce_sum", np.int8([100, 100])) == -56  # asked for in int8, it wraps
    assert reduce("mean", np.ones(65520, np.float16)) == 1
    assert reduce("reduce_sum", np.zeros((0,), np.float32)) == 0
    assert reduce("reduce_prod", np.zeros((0, 2), np.int32), (0,)).tolist() == [1, 1]
    assert reduce("reduce_sum", np.float32([1e38] * 5)) == np.inf
    assert np.isnan(reduce("reduce_sum", np.float32([np.inf, -np.inf])))
    assert reduce("reduce_sum", np.uint64([2**64 - 1, 2])) == 1
    values = RANDOM.normal(size=10_001).astype(np.float32)
    exact = sum(map(fractions.Fraction, values.tolist()))
    assert reduce("reduce_sum", values) == np.float32(float(exact))


def test_max_traps():
    nan, inf = np.nan, np.inf
    for a in ([nan, inf], [inf, nan], [-inf, nan, 1], [nan]):
        assert np.isnan(reduce("reduce_max", np.float32(a)))
        assert np.isnan(reduce("reduce_min", np.float32(a)))
    assert reduce("reduce_max", np.float32([-5, -3, -7])) == -3
    assert reduce("reduce_max", np.int8([-128])) == -128
    for order in itertools.permutations([0.0, -0.0, -0.0]):
        assert not np.signbit(reduce("reduce_max", np.float32(order)))
    for order in itertools.permutations([0.0, 0.0, -0.0]):
        assert np.signbit(reduce("reduce_min", np.float32(order)))
    assert reduce("reduce_max", np.array([1, 2.5, -1], BF16)) == 2.5
    assert reduce("reduce_max", np.array([False, True])) == np.True_
    assert reduce("reduce_min", np.array([False, True])) == np.False_
    assert reduce("reduce_max", np.uint64([2**63, 2**63 + 1])) == 2**63 + 1


def test_reductions_of_nothing():
    empty = np.zeros((0, 5), np.float32)
    for op in ("reduce_max", "reduce_min", "argmax", "argmin"):
        dtype = "int64" if op.startswith("arg") else None
        assert reduce(op, empty, (1,), dtype=dtype).shape == (0,)
        with pytest.raises(
            UserError, match=rf"{op}: axes \(0,\) of shape \(0, 5\) are empty.*{op[-3:]}; fix: concat"
        ):
            reduce(op, empty, (0,), dtype=dtype)
        assert reduce(op, np.zeros((0, 0), np.float32), (0,), dtype=dtype).shape == (0,)
    assert np.isnan(reduce("mean", empty, (0,))).all()
    assert np.isneginf(reduce("logsumexp", empty, (0,))).all()


@pytest.mark.parametrize("exclusive", [False, True])
@pytest.mark.parametrize("reverse", [False, True])
def test_cumsum(exclusive, reverse):
    a = RANDOM.integers(-100, 100, (3, 4, 5)).astype(np.int32)
    for axis in range(3):
        moved = np.moveaxis(a, axis, 0)
        expected = np.zeros_like(moved)
        for i in range(len(moved)):
            if reverse:
                expected[i] = moved[i + exclusive :].sum(0)
            else:
                expected[i] = moved[: i + 1 - exclusive].sum(0)
        result = run("cumsum", a, axis=axis, exclusive=exclusive, reverse=reverse)
        np.testing.assert_array_equal(np.moveaxis(result, axis, 0), expected)
        floats = run("cumsum", a.astype(np.float32), axis=axis, exclusive=exclusive, reverse=reverse)
        np.testing.assert_array_equal(floats, result.astype(np.float32))


def test_cumsum_corners():
    assert run("cumsum", np.int8([100, 100]), axis=0).tolist() == [100, -56]
    assert run("cumsum", np.zeros((0, 2), np.float32), axis=0, exclusive=True).shape == (0, 2)
    assert run("cumsum", np.float32([1, np.nan, 2]), axis=0, exclusive=True)[1] == 1


@pytest.mark.parametrize(
    "shapes", [((2, 3), (3, 4)), ((5, 1, 2, 3), (4, 3, 2)), ((2, 0), (0, 3)), ((0, 3), (3, 2))]
)
@pytest.mark.parametrize(
    "dtype", ["float32", "float64", "float16", "bfloat16", "int32", "int64", "uint8", "bool"]
)
def test_matmul(shapes, dtype):
    left, right = (
        RANDOM.integers(0, 2 if dtype == "bool" else 9, s).astype(DType(dtype).numpy) for s in shapes
    )
    exact = np.matmul(left.astype(np.int64), right.astype(np.int64))
    result = "int32" if dtype in ("uint8", "bool") else dtype
    actual = run("matmul", left, right, dtype=result, shape=exact.shape, precision="ieee")
    np.testing.assert_array_equal(actual.astype(np.int64), exact)


def test_matmul_accuracy_and_wrapping():
    a, b = RANDOM.normal(size=(7, 300)), RANDOM.normal(size=(300, 5))
    for dtype in ("float16", "bfloat16", "float32"):
        left, right = a.astype(DType(dtype).numpy), b.astype(DType(dtype).numpy)
        actual = run("matmul", left, right, shape=(7, 5))
        exact = left.astype(np.longdouble) @ right.astype(np.longdouble)
        np.testing.assert_array_equal(actual, exact.astype(np.float64).astype(np.float32).astype(left.dtype))
    big = np.full((1, 3), 2**30, np.int32)
    assert run("matmul", big, big.T * 1, shape=(1, 1)).item() == (3 * 2**60 + 2**31) % 2**32 - 2**31
    assert run("matmul", np.float16([[300.0]]), np.float16([[300.0]]), shape=(1, 1)).item() == math.inf
    ones = np.full((1, 4096), 127, np.int8)
    assert run("matmul", ones, ones.T.copy(), dtype="int32", shape=(1, 1)).item() == 127 * 127 * 4096


def test_matmul_precision():
    a = np.float32([[1 + 2**-12]])
    one = np.float32([[1]])
    assert run("matmul", a, one, precision="ieee", shape=(1, 1)).item() == 1 + 2**-12
    assert run("matmul", a, one, precision="tf32", shape=(1, 1)).item() == 1
    with pytest.raises(UnsupportedError, match="precision 'bf16x9'"):
        run("matmul", a, one, precision="bf16x9", shape=(1, 1))


@pytest.mark.parametrize(
    ("dtype", "tolerance"), [("float32", 1e-6), ("float64", 1e-14), ("float16", 1e-3), ("bfloat16", 8e-3)]
)
def test_softmax_family(dtype, tolerance):
    a = (RANDOM.normal(size=(3, 7, 2)) * 4).astype(DType(dtype).numpy)
    wide = a.astype(np.float64)
    for axis in range(3):
        for op, exact in (("softmax", scipy.special.softmax), ("logsoftmax", scipy.special.log_softmax)):
            actual = run(op, a, axis=axis).astype(np.float64)
            np.testing.assert_allclose(actual, exact(wide, axis), rtol=tolerance, atol=1e-7)


def test_softmax_traps():
    inf, nan = np.inf, np.nan
    big = run("softmax", np.float32([1e38, 1e38, -1e38]), axis=0)
    assert big.tolist() == [0.5, 0.5, 0]
    masked = run("softmax", np.float32([[-inf, 0, 0], [-inf, -inf, -inf], [1, nan, 2], [inf, 0, 0]]), axis=1)
    assert masked[0].tolist() == [0, 0.5, 0.5]
    assert np.isnan(masked[1]).all()
    assert np.isnan(masked[2]).all()
    assert np.isnan(masked[3, 0])
    assert run("softmax", np.zeros((2, 0), np.float32), axis=1).shape == (2, 0)
    assert run("softmax", np.zeros((0, 2), np.float32), axis=1).shape == (0, 2)
    assert run("logsoftmax", np.zeros((2, 0), np.float32), axis=1).shape == (2, 0)
    assert np.isclose(run("logsoftmax", np.float32([0, -200]), axis=0)[1], -200)
    assert reduce("logsumexp", np.float32([-inf, -inf])) == -inf
    assert reduce("logsumexp", np.float32([inf, 0])) == inf
    assert np.isnan(reduce("logsumexp", np.float32([nan, inf])))
    assert np.isclose(reduce("logsumexp", np.float32([1000, 1000])), 1000 + math.log(2))


def test_mean_and_variance_corners():
    a = np.float32([1, 2, 4])
    assert reduce("var", a, correction=0) == np.float32(np.var(a.astype(np.float64)))
    assert np.isnan(reduce("var", np.float32([3]), correction=1))
    assert reduce("var", np.float32([1, 3]), correction=5) == np.inf
    assert reduce("mean", np.float16([65504, 65504])) == 65504
    assert reduce("mean", np.float32([3e38, 3e38])) == np.inf  # as the sum; NumPy says so too


@pytest.mark.parametrize("approximate", ["none", "tanh", "quick"])
def test_gelu(approximate):
    x = np.linspace(-12, 12, 481)
    exact = {
        "none": x * scipy.stats.norm.cdf(x),
        "tanh": x * scipy.special.expit(2 * np.sqrt(2 / np.pi) * (x + 0.044715 * x**3)),
        "quick": x * scipy.special.expit(1.702 * x),
    }[approximate]
    np.testing.assert_allclose(run("gelu", x, approximate=approximate), exact, rtol=1e-12, atol=1e-30)
    single = x.astype(np.float32)
    np.testing.assert_allclose(run("gelu", single, approximate=approximate), exact, rtol=2e-5, atol=1e-30)
    with pytest.raises(UnsupportedError, match="approximate='sigmoid'"):
        run("gelu", x, approximate="sigmoid")


def test_silu():
    x = np.linspace(-30, 30, 301)
    np.testing.assert_allclose(run("silu", x), x * scipy.special.expit(x), rtol=1e-13)
    assert run("silu", np.float16([0, 1]))[1] == np.float16(1 / (1 + math.exp(-1)))


@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16", "float64"])
def test_norms(dtype):
    d = DType(dtype)
    x = (RANDOM.normal(size=(4, 16)) * 3 + 1).astype(d.numpy)
    scale, bias = RANDOM.normal(size=16).astype(d.numpy), RANDOM.normal(size=16).astype(d.numpy)
    wide, wide_scale, wide_bias = (v.astype(np.longdouble) for v in (x, scale, bias))
    centred = wide - wide.mean(-1, keepdims=True)
    normal = centred / np.sqrt((centred**2).mean(-1, keepdims=True) + 1e-5)
    unit = wide / np.sqrt((wide**2).mean(-1, keepdims=True) + 1e-5)

    def close(actual, expected):
        rtol = 1e-13 if dtype == "float64" else 0.6 * 2.0**-d.mantissa_bits
        np.testing.assert_allclose(actual.astype(float), expected.astype(float), rtol=rtol, atol=1e-6)

    close(run("layer_norm", x, epsilon=1e-5, has_scale=False, has_bias=False), normal)
    both = run("layer_norm", x, scale, bias, epsilon=1e-5, has_scale=True, has_bias=True)
    close(both, normal * wide_scale + wide_bias)
    close(run("layer_norm", x, bias, epsilon=1e-5, has_scale=False, has_bias=True), normal + wide_bias)
    close(run("rms_norm", x, epsilon=1e-5, has_scale=False), unit)
    close(run("rms_norm", x, scale, epsilon=1e-5, has_scale=True), unit * wide_scale)


def test_every_row_of_the_table_has_an_implementation():
    rows = (
        "input constant weight dim_value reduce_sum reduce_prod reduce_max reduce_min argmax argmin cumsum "
        "matmul reshape permute broadcast_to flip slice concat pad gather take_along_axis softmax logsoftmax "
        "logsumexp mean var gelu silu layer_norm rms_norm"
    )
    assert set(rows.split()) <= set(REFERENCE)

"""View, join, index and source rows against NumPy indexing and Python's own slices."""

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from joinery.graph.reference.evaluate import REFERENCE, BoundSymbol
from joinery.promotion import DType, InternalError, UserError

from ...support.tiers import examples


def run(op, *arrays, shape, dtype=None, **attrs):
    arrays = [np.asarray(a) for a in arrays]
    inputs = tuple(BoundSymbol("input", DType.from_numpy(a.dtype), a.shape) for a in arrays)
    result = DType(dtype) if dtype else inputs[0].dtype
    value = REFERENCE[op](BoundSymbol(op, result, tuple(shape), inputs, attrs), *arrays)
    assert value.shape == tuple(shape)
    assert value.dtype == result.numpy
    return value


def numbered(*shape, dtype=np.int32):
    return np.arange(np.prod(shape, dtype=int)).reshape(shape).astype(dtype)


def test_sources():
    value = numbered(2, 3)
    assert run("constant", shape=(2, 3), dtype="int32", value=value).tolist() == value.tolist()
    assert run("weight", shape=(2, 3), dtype="int32", value=value, name="w").tolist() == value.tolist()
    assert run("dim_value", shape=(), dtype="int64", extent=2**40).tolist() == 2**40
    with pytest.raises(InternalError, match="inputs"):
        REFERENCE["input"](BoundSymbol("input", DType("int8"), ()))


def test_views():
    a = numbered(2, 3, 4)
    assert run("reshape", a, shape=(4, 6)).tolist() == a.reshape(4, 6).tolist()
    assert run("permute", a, shape=(4, 2, 3), axes=(2, 0, 1))[3, 1, 2] == a[1, 2, 3]
    assert run("flip", a, shape=a.shape, axes=(0, 2))[0, 1, 0] == a[1, 1, 3]
    wide = run("broadcast_to", numbered(3, 1), shape=(5, 3, 2))
    assert wide[4, 2, 1] == 2
    assert run("broadcast_to", np.float32(2), shape=(0, 3)).size == 0
    assert run("reshape", numbered(0, 5), shape=(5, 0)).size == 0
    with pytest.raises(UserError, match=r"reshape: \(2, 3, 4\) has 24 elements, \(5, 5\) has 25; fix"):
        run("reshape", a, shape=(5, 5))


@pytest.mark.slow
@settings(max_examples=examples(300))
@given(st.data())
def test_slices_against_python(data):
    """Python normalises the slice; the row gets what the op table promises: -1 as stop means "through 0"."""
    shape = data.draw(st.lists(st.integers(0, 6), min_size=1, max_size=3))
    a = numbered(*shape)
    spans = st.one_of(st.none(), st.integers(-8, 8))
    steps = st.integers(-3, 3).filter(bool)
    slices = tuple(slice(data.draw(spans), data.draw(spans), data.draw(steps)) for _ in shape)
    starts, stops, steps = zip(*(s.indices(n) for s, n in zip(slices, shape, strict=True)), strict=True)
    expected = a[slices]
    result = run("slice", a, shape=expected.shape, starts=starts, stops=stops, steps=steps)
    np.testing.assert_array_equal(result, expected)


def test_concat():
    a, b, c = numbered(2, 1), numbered(2, 0), numbered(2, 3) + 10
    assert run("concat", a, b, c, shape=(2, 4), axis=1).tolist() == [[0, 10, 11, 12], [1, 13, 14, 15]]
    halves = np.array([1.5], ml_dtypes.bfloat16)
    assert run("concat", halves, halves, shape=(2,), axis=0).tolist() == [1.5, 1.5]


@settings(max_examples=examples(200))
@given(st.data())
def test_pad_against_numpy(data):
    shape = data.draw(st.lists(st.integers(1, 5), min_size=1, max_size=3))
    mode = data.draw(st.sampled_from(["constant", "reflect", "edge"]))
    widths = [(data.draw(st.integers(0, 9)), data.draw(st.integers(0, 9))) for _ in shape]
    a = numbered(*shape)
    expected = np.pad(a, widths, mode, **({"constant_values": -7} if mode == "constant" else {}))
    low, high = zip(*widths, strict=True)
    result = run("pad", a, shape=expected.shape, low=low, high=high, mode=mode, value=-7)
    np.testing.assert_array_equal(result, expected)


def test_pad_corners():
    empty = np.zeros((0, 2), np.float32)
    filled = run("pad", empty, shape=(3, 2), low=(1, 0), high=(2, 0), mode="constant", value=1.5)
    assert filled.tolist() == [[1.5, 1.5]] * 3
    with pytest.raises(UserError, match='axis 0 is empty, so mode "edge"'):
        run("pad", empty, shape=(1, 2), low=(1, 0), high=(0, 0), mode="edge", value=0)
    assert run("pad", empty, shape=(0, 4), low=(0, 1), high=(0, 1), mode="edge", value=0).shape == (0, 4)
    a = np.array([1, 2], ml_dtypes.float8_e4m3fn)
    padded = run("pad", a, shape=(3,), low=(1,), high=(0,), mode="constant", value=0.3)
    assert padded.astype(float).tolist() == [0.3125, 1, 2]
    negative = run("pad", np.float32([1]), shape=(2,), low=(0,), high=(1,), mode="constant", value=-0.0)
    assert np.signbit(negative[1])
    assert run("pad", np.int8([1]), shape=(1,), low=(0,), high=(0,), mode="reflect", value=0).tolist() == [1]


def position(index, extent):
    """The contract, one number at a time: negative counts from the end, then clamp."""
    return min(max(index + extent if index < 0 else index, 0), extent - 1)


@pytest.mark.parametrize("dtype", ["int8", "int32", "int64", "uint8", "uint64"])
def test_gather(dtype):
    a = numbered(4, 5)
    indices = np.array([[0, 3, 4], [100, 1, 2]], dtype)
    if dtype.startswith("int"):
        indices = np.concatenate([indices, np.array([[-1, -4, -100]], dtype)])
    if dtype == "uint64":
        indices[0, 0] = 2**64 - 1
    if dtype == "int64":
        indices[0, 0] = -(2**63)
    for axis in (0, 1):
        extent = a.shape[axis]
        shape = (*a.shape[:axis], *indices.shape, *a.shape[axis + 1 :])
        result = run("gather", a, indices, shape=shape, axis=axis)
        for where in np.ndindex(indices.shape):
            chosen = position(int(indices[where]), extent)
            actual = result[where] if axis == 0 else result[(slice(None), *where)]
            np.testing.assert_array_equal(actual, a[chosen] if axis == 0 else a[:, chosen])


def test_gather_of_a_scalar_index_and_of_nothing():
    a = numbered(4, 5)
    assert run("gather", a, np.int64(-2), shape=(4,), axis=1).tolist() == a[:, 3].tolist()
    assert run("gather", a, np.zeros((0,), np.int64), shape=(0, 5), axis=0).size == 0
    assert run("gather", numbered(0, 5), np.zeros((0,), np.int64), shape=(0, 5), axis=0).size == 0
    with pytest.raises(UserError, match="gather: axis 0 is empty"):
        run("gather", numbered(0, 5), np.int64([0]), shape=(1, 5), axis=0)


def test_take_along_axis():
    a = np.random.default_rng(0).normal(size=(3, 6)).astype(np.float32)
    order = np.argsort(a, 1)
    np.testing.assert_array_equal(run("take_along_axis", a, order, shape=(3, 6), axis=1), np.sort(a, 1))
    wild = np.array([[-1, 99, -99]] * 3)
    picked = run("take_along_axis", a, wild, shape=(3, 3), axis=1)
    np.testing.assert_array_equal(picked, a[:, [5, 5, 0]])
    tall = np.array([[0], [2], [-1], [7]])
    picked = run("take_along_axis", a[:, :1], tall, shape=(4, 1), axis=0)
    np.testing.assert_array_equal(picked, a[[0, 2, 2, 2], :1])

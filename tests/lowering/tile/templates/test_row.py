"""Reductions: whole rows, chunks, columns, several axes, argmax; dependent reductions; sizes known at
launch."""

import numpy as np
import pytest
from joinery.graph.dims.dim import dim
from joinery.lowering.tile.schedule import Schedule
from joinery.promotion.dtype import bool_, float32, float64, int32, int64
from joinery.promotion.errors import UnsupportedError

LENGTHS = [1, 3, 31, 33, 257, 1000]
SCHEDULES = {
    "default": None,
    "one chunk": Schedule(((1, 1024),)),
    "chunks": Schedule(((1, 16),)),
    "rows and chunks": Schedule(((0, 4), (1, 16))),
    "columns": Schedule(((1, 8), (0, 16))),
}


def softmax_reference(x, axis=-1):
    powers = np.exp(x - x.max(axis, keepdims=True))
    return powers / powers.sum(axis, keepdims=True)


def softmax(b, x, axis):
    powers = b.op("exp", b.op("sub", x, b.reduce("max", x, axis)))
    return b.op("div", powers, b.reduce("sum", powers, axis))


@pytest.mark.one_in(3)
@pytest.mark.parametrize("schedule", SCHEDULES.values(), ids=SCHEDULES)
@pytest.mark.parametrize("n", LENGTHS)
def test_softmax(body, rng, n, schedule):
    x = rng.standard_normal((5, n)).astype(np.float32)
    b = body(i=5, j=n)
    b.store(softmax(b, b.load(x, ["i", "j"]), "j"), ["i", "j"])
    np.testing.assert_allclose(b.run(schedule)[0], softmax_reference(x.astype(np.float64)), rtol=3e-6)


@pytest.mark.parametrize("shape", [(33, 5), (5, 33), (1, 1), (257, 31), (1000, 3), (3, 1000)])
def test_softmax_over_the_first_axis(body, rng, shape):
    x = rng.standard_normal(shape)
    b = body(i=shape[1], j=shape[0])
    b.store(softmax(b, b.load(x, ["j", "i"]), "j"), ["j", "i"])
    np.testing.assert_allclose(b.run()[0], softmax_reference(x, 0), rtol=1e-13)


@pytest.mark.one_in(6)
@pytest.mark.parametrize("kind", ["sum", "prod", "max", "min"])
@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.int32, np.int64, np.uint8, np.uint64])
@pytest.mark.parametrize("schedule", [None, Schedule(((1, 8),))])
def test_reduction_kinds(body, rng, kind, dtype, schedule):
    x = rng.integers(0 if np.dtype(dtype).kind == "u" else -3, 4, (7, 29)).astype(dtype)
    b = body(i=7, j=29)
    b.store(b.reduce(kind, b.load(x, ["i", "j"]), "j"), ["i"])
    function = {"sum": np.sum, "prod": np.prod, "max": np.max, "min": np.min}[kind]
    expected = function(x, 1, dtype=dtype) if kind in ("sum", "prod") else function(x, 1)
    np.testing.assert_array_equal(b.run(schedule)[0], expected)


@pytest.mark.parametrize(("kind", "function"), [("max", np.any), ("min", np.all)])
def test_any_and_all(body, rng, kind, function):
    x = rng.random((40, 5)) < 0.4
    b = body(i=40, j=5)
    b.store(b.reduce(kind, b.load(x, ["i", "j"]), "j"), ["i"])
    np.testing.assert_array_equal(b.run()[0], function(x, 1))


@pytest.mark.parametrize("kind", ["max", "min"])
@pytest.mark.parametrize("schedule", [None, Schedule(((1, 8),))])
def test_nan_reaches_the_extreme_and_padding_does_not(body, rng, kind, schedule):
    x = -rng.random((4, 37)) - 1 if kind == "max" else rng.random((4, 37)) + 1
    x[2, 11] = np.nan
    b = body(i=4, j=37)
    b.store(b.reduce(kind, b.load(x, ["i", "j"]), "j"), ["i"])
    np.testing.assert_array_equal(b.run(schedule)[0], getattr(np, kind)(x, 1))


@pytest.mark.one_in(3)
@pytest.mark.parametrize("kind", ["argmax", "argmin"])
@pytest.mark.parametrize("schedule", SCHEDULES.values(), ids=SCHEDULES)
@pytest.mark.parametrize("n", [1, 33, 257])
def test_first_extreme_wins(body, rng, kind, schedule, n):
    x = rng.integers(-3, 4, (6, n)).astype(np.float32)
    x[1, n // 2] = x[1, -1] = np.nan
    x[2] = -np.inf
    x[3] = np.inf
    b = body(i=6, j=n)
    b.store(b.reduce(kind, b.load(x, ["i", "j"]), "j"), ["i"])
    np.testing.assert_array_equal(b.run(schedule)[0], getattr(np, kind)(x, 1))


def test_argmax_of_unsigned_and_over_two_axes(body, rng):
    x = rng.integers(0, 256, (4, 6, 11)).astype(np.uint8)
    b = body(i=4, j=6, k=11)
    b.store(b.reduce("argmax", b.load(x, ["i", "j", "k"]), "j", "k"), ["i"])
    for schedule in (None, Schedule(((2, 4),)), Schedule(((1, 2), (2, 16)))):
        np.testing.assert_array_equal(b.run(schedule)[0], x.reshape(4, -1).argmax(1))


@pytest.mark.parametrize(
    "schedule", [None, Schedule(((1, 4), (2, 16))), Schedule(((2, 4),)), Schedule(((0, 2), (2, 8)))]
)
def test_several_reduced_axes_around_a_kept_one(body, rng, schedule):
    x = rng.standard_normal((7, 5, 13))
    b = body(n=5, a=7, c=13)
    b.store(b.reduce("sum", b.load(x, ["a", "n", "c"]), "a", "c"), ["n"])
    np.testing.assert_allclose(b.run(schedule)[0], x.sum((0, 2)), rtol=1e-12)


@pytest.mark.parametrize("shape", [(1000, 3), (33, 257), (8, 8), (9, 1030), (1, 4)])
def test_column_sums(body, rng, shape):
    x = rng.standard_normal(shape)
    b = body(i=shape[1], j=shape[0])
    b.store(b.reduce("sum", b.load(x, ["j", "i"]), "j"), ["i"])
    np.testing.assert_allclose(b.run()[0], x.sum(0), rtol=1e-11, atol=1e-12)


@pytest.mark.parametrize("n", [1, 31, 384, 1000, 20000])
def test_layer_norm_with_every_intermediate_in_registers(body, rng, n):
    x, scale, bias = rng.standard_normal((3, n)) * 5 + 2, rng.standard_normal(n), rng.standard_normal(n)
    b = body(i=3, j=n)
    value, count = b.load(x, ["i", "j"]), b.const(float(n), float64)
    centred = b.op("sub", value, b.op("div", b.reduce("sum", value, "j"), count))
    variance = b.op("div", b.reduce("sum", b.op("mul", centred, centred), "j"), count)
    normal = b.op("mul", centred, b.op("rsqrt", b.op("add", variance, b.const(1e-5, float64))))
    b.store(b.op("add", b.op("mul", normal, b.load(scale, ["j"])), b.load(bias, ["j"])), ["i", "j"])
    expected = (x - x.mean(1, keepdims=True)) / np.sqrt(x.var(1, keepdims=True) + 1e-5) * scale + bias
    np.testing.assert_allclose(b.run()[0], expected, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize(("batch", "n"), [(1, 1), (3, 1024), (2, 5000), (0, 4), (3, 0)])
def test_lengths_known_at_launch(body, rng, batch, n):
    x = rng.standard_normal((batch, n))
    shape = (dim("batch"), dim("n"))
    b = body({"batch": batch, "n": n}, i=shape[0], j=shape[1])
    value = b.load(x, ["i", "j"], shape=shape)
    total = b.reduce("sum", value, "j")
    b.store(b.op("sub", value, total), ["i", "j"])
    b.store(total, ["i"])
    rows, sums = b.run()
    np.testing.assert_allclose(sums, x.sum(1), rtol=1e-11, atol=1e-12)
    np.testing.assert_allclose(rows, x - x.sum(1, keepdims=True), rtol=1e-11, atol=1e-11)


def test_empty_axis_gives_the_neutral_element(body):
    b = body(i=3, j=0)
    b.store(b.reduce("prod", b.load(np.zeros((3, 0), np.int32), ["i", "j"]), "j"), ["i"])
    np.testing.assert_array_equal(b.run()[0], [1, 1, 1])


def test_value_that_does_not_vary_along_the_reduced_axis_counts_every_time(body):
    b = body(i=3, j=37)
    x = b.load(np.array([1, 2, 3], np.int64), ["i"])
    same = b.add("cast", int64, (0, 1), (x,), dtype=int64)
    b.store(b.reduce("sum", same, "j"), ["i"])
    np.testing.assert_array_equal(b.run()[0], [37, 74, 111])


def test_reduction_over_nothing_is_its_operand(body):
    b = body(i=5)
    x = b.load(np.arange(5.0), ["i"])
    b.store(b.reduce("max", x), ["i"])
    b.store(b.reduce("argmax", x), ["i"])
    top, where = b.run()
    np.testing.assert_array_equal(top, np.arange(5.0))
    np.testing.assert_array_equal(where, np.zeros(5))


def test_reductions_over_different_axes_need_whole_rows(body, rng):
    x = rng.standard_normal((3, 4, 5))
    b = body(i=3, j=4, k=5)
    inner = b.reduce("sum", b.load(x, ["i", "j", "k"]), "k")
    b.store(b.reduce("max", inner, "j"), ["i"])
    np.testing.assert_allclose(b.run()[0], x.sum(2).max(1), rtol=1e-13)
    with pytest.raises(UnsupportedError, match="different axes"):
        b.run(Schedule(((2, 2),)))


def test_float_and_bool_of_a_mixed_row(body, rng):
    x = rng.standard_normal((3, 50)).astype(np.float32)
    b = body(i=3, j=50)
    positive = b.op("greater", b.load(x, ["i", "j"]), b.const(0.0, float32), dtype=bool_)
    b.store(b.reduce("sum", b.op("cast", positive, dtype=int32), "j"), ["i"])
    np.testing.assert_array_equal(b.run()[0], (x > 0).sum(1))


def count_reductions(b):
    return sum(op.name == "tt.reduce" for op in b.program.func.walk())


@pytest.mark.parametrize("shape", [(5, 2), (5, 33), (3, 1000)])
def test_sums_that_do_not_wait_for_each_other_are_one_reduction(body, rng, shape):
    x = rng.standard_normal(shape).astype(np.float32)
    b = body(i=shape[0], j=shape[1])
    value = b.load(x, ["i", "j"])
    total, squares = b.reduce("sum", value, "j"), b.reduce("sum", b.op("mul", value, value), "j")
    b.store(b.op("add", total, squares), ["i"])
    wide = x.astype(np.float64)
    np.testing.assert_allclose(b.run()[0], wide.sum(1) + (wide * wide).sum(1), rtol=1e-5, atol=1e-5)
    assert count_reductions(b) == 1


def test_a_sum_that_waits_for_another_is_a_reduction_of_its_own(body, rng):
    x = rng.standard_normal((5, 33)).astype(np.float32)
    b = body(i=5, j=33)
    value = b.load(x, ["i", "j"])
    centred = b.op("sub", value, b.reduce("sum", value, "j"))
    b.store(b.reduce("sum", centred, "j"), ["i"])
    wide = x.astype(np.float64)
    np.testing.assert_allclose(b.run()[0], wide.sum(1) - 33 * wide.sum(1), rtol=1e-5, atol=1e-4)
    assert count_reductions(b) == 2


def test_sums_of_different_types_and_other_reductions_stay_apart(body, rng):
    x = rng.standard_normal((5, 33)).astype(np.float32)
    b = body(i=5, j=33)
    value = b.load(x, ["i", "j"])
    b.store(b.reduce("sum", value, "j"), ["i"])
    b.store(b.reduce("sum", b.op("cast", value, dtype=float64), "j"), ["i"])
    b.store(b.reduce("max", value, "j"), ["i"])
    results = b.run()
    assert count_reductions(b) == 3
    np.testing.assert_allclose(results[0], x.sum(1), rtol=1e-5, atol=1e-5)
    np.testing.assert_allclose(results[1], x.astype(np.float64).sum(1), rtol=1e-12)
    np.testing.assert_array_equal(results[2], x.max(1))

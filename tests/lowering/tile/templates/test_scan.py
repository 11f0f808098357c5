"""Running sums: directions, exclusive ones, chunks, both memory layouts, together with reductions."""

import numpy as np
import pytest
from joinery.graph.dims.dim import dim
from joinery.lowering.tile.schedule import Schedule
from joinery.promotion.dtype import float64
from joinery.promotion.errors import UnsupportedError


def cumsum(x, axis, exclusive, reverse):
    x = np.flip(x, axis) if reverse else x
    total = np.cumsum(x, axis, dtype=x.dtype)
    if exclusive:
        total = np.concatenate([np.zeros_like(np.take(total, [0], axis)), np.delete(total, -1, axis)], axis)
    return np.flip(total, axis) if reverse else total


@pytest.mark.one_in(6)
@pytest.mark.parametrize("n", [1, 3, 31, 33, 257])
@pytest.mark.parametrize("exclusive", [False, True])
@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize(
    "schedule", [None, Schedule(((1, 16),)), Schedule(((0, 4), (1, 8))), Schedule(((1, 512),))]
)
def test_directions(body, rng, n, exclusive, reverse, schedule):
    x = rng.integers(-100, 100, (5, n))
    b = body(i=5, j=n)
    b.store(b.scan(b.load(x, ["i", "j"]), "j", exclusive, reverse), ["i", "j"])
    np.testing.assert_array_equal(b.run(schedule)[0], cumsum(x, 1, exclusive, reverse))


@pytest.mark.parametrize("schedule", [None, Schedule(((1, 8), (0, 16)))])
@pytest.mark.parametrize("exclusive", [False, True])
def test_along_the_first_axis(body, rng, schedule, exclusive):
    x = rng.standard_normal((100, 33))
    b = body(i=33, j=100)
    b.store(b.scan(b.load(x, ["j", "i"]), "j", exclusive), ["j", "i"])
    np.testing.assert_allclose(b.run(schedule)[0], cumsum(x, 0, exclusive, False), rtol=1e-10, atol=1e-12)


def test_exclusive_sums_with_infinity_are_not_nan(body):
    x = np.array([1.0, np.inf, 2.0])
    b = body(j=3)
    b.store(b.scan(b.load(x, ["j"]), "j", exclusive=True), ["j"])
    np.testing.assert_array_equal(b.run(Schedule(((0, 2),)))[0], [0.0, 1.0, np.inf])


@pytest.mark.parametrize("n", [0, 1, 5000])
def test_length_known_at_launch_and_elementwise_around(body, rng, n):
    x = rng.standard_normal(n)
    b = body({"n": n}, j=dim("n"))
    square = b.op("mul", *[b.load(x, ["j"], shape=(dim("n"),))] * 2)
    b.store(b.op("add", b.scan(square, "j"), b.const(1.0, float64)), ["j"])
    np.testing.assert_allclose(b.run()[0], np.cumsum(x * x) + 1, rtol=1e-11)


@pytest.mark.parametrize("schedule", [None, Schedule(((1, 8),))])
def test_scan_of_a_softmax(body, rng, schedule):
    x = rng.standard_normal((3, 40))
    b = body(i=3, j=40)
    value = b.load(x, ["i", "j"])
    powers = b.op("exp", b.op("sub", value, b.reduce("max", value, "j")))
    b.store(b.scan(b.op("div", powers, b.reduce("sum", powers, "j")), "j"), ["i", "j"])
    powers = np.exp(x - x.max(1, keepdims=True))
    np.testing.assert_allclose(
        b.run(schedule)[0], np.cumsum(powers / powers.sum(1, keepdims=True), 1), rtol=1e-12
    )


def test_two_directions_do_not_fit_one_loop(body, rng):
    x = rng.standard_normal(40)
    b = body(j=40)
    value = b.load(x, ["j"])
    b.store(b.op("add", b.scan(value, "j"), b.scan(value, "j", reverse=True)), ["j"])
    np.testing.assert_allclose(b.run()[0], np.cumsum(x) + np.cumsum(x[::-1])[::-1], rtol=1e-10, atol=1e-12)
    with pytest.raises(UnsupportedError, match="directions"):
        b.run(Schedule(((0, 8),)))

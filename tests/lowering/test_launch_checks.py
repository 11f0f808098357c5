"""The bound of a launch's sizes: no size exceeds it, whatever the dims, and it does not exceed what the sizes need by far."""

from __future__ import annotations

import itertools
import random
from typing import Any

import joinery as jn
import numpy as np
import pytest
from joinery.graph.dims.dim import Dim, dim, maximum, minimum
from joinery.graph.dims.dim import evaluate_dim as at
from joinery.lowering.launch_checks import _bound

DIVISORS = (1, 2, 3, 4, 255, 2**48, -1, -3, -(2**48))
FAR = (2**63 - 1, 2**63 - 2, 2**62, 2**61, 2**55, 2**40)


def random_extent(rng: random.Random, depth: int) -> Any:
    if depth == 0:
        return rng.choice([dim("n"), dim("m"), rng.randrange(-9, 10), rng.choice(FAR[3:]), dim("n") * dim("m")])
    left, right = (random_extent(rng, depth - 1) for _ in range(2))
    match rng.randrange(6):
        case 0:
            return left + right
        case 1:
            return left - right
        case 2:
            return minimum(left, right)
        case 3:
            return maximum(left, right)
        case 4:
            return left // rng.choice(DIVISORS)
    return left % rng.choice(DIVISORS) if isinstance(left, Dim) else left


def dividends(extent: Any) -> list[Any]:
    """What is divided on the way to a size."""
    atoms = [atom for _, monomial in extent.terms for atom, _ in monomial] if isinstance(extent, Dim) else []
    return [atom.args[0] for atom in atoms if not isinstance(atom, str)]


@pytest.mark.parametrize("seed", range(8))
def test_no_size_and_no_step_towards_it_exceeds_the_bound(seed: int) -> None:
    rng = random.Random(seed)
    for _ in range(60):
        extent = random_extent(rng, rng.randrange(1, 4))
        inner: list[Any] = []
        bounds = [_bound(extent, inner), *inner]
        for n, m in itertools.product((0, 1, 2, 7, 1000), repeat=2):
            values = {"n": n, "m": m}
            assert abs(at(extent, values)) <= at(bounds[0], values), (str(extent), str(bounds[0]), n, m)


@pytest.mark.parametrize("divisor", DIVISORS)
def test_quotients_and_remainders_are_bounded_as_are_their_dividends(divisor: int) -> None:
    dividend = 3 * dim("n") * dim("m") - 700 * dim("n") + 2**48 - 1
    for extent in (dividend // divisor, dividend % divisor):
        inner: list[Any] = []
        bound = _bound(extent, inner)
        for n, m in itertools.product((0, 1, 2, 7, 299, 1000), repeat=2):
            values = {"n": n, "m": m}
            assert abs(at(extent, values)) <= at(bound, values), (str(extent), str(bound), n, m)
            for step in dividends(extent):
                assert abs(at(step, values)) <= max(at(each, values) for each in (bound, *inner))


def test_blocks_that_cover_axes_of_any_size_are_few() -> None:
    """Of an axis that one block covers, the number of blocks is bounded by the size of the axis, not by that of the block."""
    blocks = dim("n") * ((dim("m") + 255) // 256) * ((dim("k") + 2**48 - 1) // 2**48)
    assert at(_bound(blocks, []), {"n": 1000, "m": 1000, "k": 1000}) < 2**40


def test_scattering_into_three_symbolic_axes() -> None:
    g = jn.Graph("g", [jn.TensorType(jn.float32, ("n", "m", "k"), "x"), jn.TensorType(jn.int64, (2, 3, 4), "at")])
    x, at_ = g.inputs
    g.output(jn.put_along_axis(x[:, :3, :4], at_, -1.0, axis=0))
    model: Any = jn.compile(g, "cpu", cache=False)
    positions = np.arange(24).reshape(2, 3, 4) % 5
    for shape in ((5, 3, 4), (6, 8, 7), (300, 9, 260)):
        a = np.arange(np.prod(shape), dtype=np.float32).reshape(shape)
        want = a[:, :3, :4].copy()
        np.put_along_axis(want, positions, -1.0, axis=0)
        np.testing.assert_array_equal(model(a, positions), want)


@pytest.mark.one_in(2)
@pytest.mark.parametrize("end", FAR)
def test_a_slice_to_a_far_end(end: int) -> None:
    g = jn.Graph("g", [jn.TensorType(jn.float32, ("n", "m"), "x")])
    (x,) = g.inputs
    g.output(x[1:end], x[-2:end] * 2, x[:, 2:end], x[end : -end : -1], x[-end:3])
    model: Any = jn.compile(g, "cpu", cache=False)
    for shape in ((6, 4), (1, 1), (2, 9)):
        a = np.arange(shape[0] * shape[1], dtype=np.float32).reshape(shape)
        want = (a[1:end], a[-2:end] * 2, a[:, 2:end], a[end : -end : -1], a[-end:3])
        for found, evaluated, expected in zip(model(a), jn.evaluate(g, a), want, strict=True):
            np.testing.assert_array_equal(found, expected)
            np.testing.assert_array_equal(evaluated, expected)


def test_an_open_end_is_the_end() -> None:
    """So that what is sliced to the end fits what has the axis's size."""
    g = jn.Graph("g", [jn.TensorType(jn.float32, ("n",), "x")])
    (x,) = g.inputs
    assert x[0 : 2**63 - 1].shape == x.shape
    assert (x[1 : 2**62] + x[1:]).shape == x[1:].shape
    assert not g.checks


def test_sizes_that_do_not_fit_are_still_refused() -> None:
    g = jn.Graph("g", [jn.TensorType(jn.float32, ("n", "m"), "x"), jn.TensorType(jn.uint8, ("k", 0), "y")])
    x, y = g.inputs
    g.output(jn.sum(x[1 : 2**63 - 1], axis=0), jn.broadcast_to(y, (y.shape[0], 0)))
    model: Any = jn.compile(g, "cpu", cache=False)
    huge = np.empty((2**62, 0), np.uint8)
    with pytest.raises(jn.UserError, match="does not fit 64 bits for these dims"):
        model(np.zeros((3, 2), np.float32), huge)
    np.testing.assert_array_equal(model(np.ones((3, 2), np.float32), np.empty((5, 0), np.uint8))[0], [2, 2])

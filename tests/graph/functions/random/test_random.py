"""Random numbers: the generator's published answers, distributions, and the same bits on every device."""

from __future__ import annotations

import joinery as jn
import numpy as np
import pytest
from joinery.graph.functions.random.philox import philox

ANSWERS = [
    ((0, 0, 0, 0), (0, 0), (0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8)),
    ((0xFFFFFFFF,) * 4, (0xFFFFFFFF,) * 2, (0x408F276D, 0x41C83B0E, 0xA20BC7C6, 0x6D5451FD)),
    ((0x243F6A88, 0x85A308D3, 0x13198A2E, 0x03707344), (0xA4093822, 0x299F31D0),
     (0xD16CFE09, 0x94FDCCEB, 0x5001E420, 0x24126EA1)),
]  # fmt: skip
"""Counter, key and result, of the authors' Random123."""


@pytest.mark.parametrize(("counter", "key", "expected"), ANSWERS)
def test_known_answers(counter: tuple[int, ...], key: tuple[int, int], expected: tuple[int, ...]) -> None:
    g = jn.Graph("g", [jn.TensorType(jn.uint64, (), name=name) for name in "abcd"])
    g.output(*philox(g.inputs, key))  # type: ignore[arg-type]
    assert tuple(int(each) for each in jn.evaluate(g, *np.array(counter, np.uint64))) == expected


@pytest.mark.parametrize("n", [0, 1, 5, 1000])
def test_every_device_makes_the_same_bits(n: int) -> None:
    g = jn.Graph("g", [jn.TensorType(jn.float32, ("n", 3), name="x")])
    g.output(jn.random_bits(g.inputs[0], seed=2**40 + 3, stream=5))
    x = np.zeros((n, 3), np.float32)
    expected = jn.evaluate(g, x)
    assert (expected.shape, expected.dtype) == ((n, 3), np.uint32)
    np.testing.assert_array_equal(jn.compile(g, device="cpu", cache=False)(x), expected)
    if n == 5:
        np.testing.assert_array_equal(jn.compile(g, device="ptxsim", cache=False)(x), expected)
        longer = jn.evaluate(g, np.zeros((n + 4, 3), np.float32))
        np.testing.assert_array_equal(longer[:n], expected)


def test_distributions() -> None:
    g = jn.Graph("g", [jn.TensorType(jn.float32, (20000,), name="p")])
    (p,) = g.inputs
    g.output(jn.random_uniform(p, -1.0, 3.0, seed=1), jn.random_normal(p, 2.0, 0.5, seed=1), jn.bernoulli(p, seed=1),
             jn.random_normal(p, 2.0, 0.5, seed=2))  # fmt: skip
    chances = np.linspace(0, 1, 20000, dtype=np.float32)
    uniform, normal, drawn, other = jn.evaluate(g, chances)
    assert uniform.min() >= -1
    assert uniform.max() < 3
    np.testing.assert_allclose([uniform.mean(), uniform.std()], [1, 4 / np.sqrt(12)], rtol=0.03)
    np.testing.assert_allclose([normal.mean(), normal.std(), (abs(normal - 2) < 0.5).mean()], [2, 0.5, 0.6827], rtol=0.03)
    assert np.isfinite(normal).all()
    assert abs(np.corrcoef(normal, other)[0, 1]) < 0.03
    np.testing.assert_allclose(drawn.reshape(10, -1).mean(1), np.arange(10) / 10 + 0.05, atol=0.04)
    assert (drawn[0], drawn.dtype) == (False, np.bool_)


@pytest.mark.parametrize("seed", [-1, 2**64, 1.5, True])
def test_seeds_that_are_refused(seed: object) -> None:
    g = jn.Graph("g", [jn.TensorType(jn.float32, (2,), name="x")])
    with pytest.raises(jn.UserError, match=r"random_bits: seed is .*\n.*\n.*expected: an int of 64 bits"):
        jn.random_bits(g.inputs[0], seed=seed)  # type: ignore[arg-type]


def test_integers_orders_classes_and_drops() -> None:
    g = jn.Graph("g", [jn.TensorType(jn.float32, (12000,), name="x")])
    (x,) = g.inputs
    chances = np.array([0.1, 0.2, 0.7], np.float32)
    rows = jn.broadcast_to(g.constant(np.log(chances) + 5), (6000, 3))
    g.output(jn.random_integers(x, -5, 7, seed=1), jn.random_integers(x, -(2**31), 2**31, seed=2), jn.random_integers(x, 3, 4),
             jn.random_permutation(x, seed=1), jn.dropout(x, 0.25, seed=1), jn.categorical(rows, 2, seed=1))  # fmt: skip
    values = np.arange(1, 12001, dtype=np.float32)
    found = jn.compile(g, device="cpu", cache=False)(values)
    for one, other in zip(found, jn.evaluate(g, values), strict=True):
        np.testing.assert_array_equal(one, other)
    small, wide, one, order, dropped, classes = found
    assert (small.dtype, small.min(), small.max(), set(one)) == (np.int64, -5, 6, {3})
    np.testing.assert_allclose(np.bincount(small + 5) / 1000, np.ones(12), atol=0.12)
    np.testing.assert_allclose([wide.mean() / 2**31, wide.std() / 2**31], [0, 1 / np.sqrt(3)], atol=0.02)
    assert (order != values).mean() > 0.99
    np.testing.assert_array_equal(np.sort(order), values)
    kept = dropped != 0
    np.testing.assert_allclose(kept.mean(), 0.75, atol=0.02)
    np.testing.assert_allclose(dropped[kept], values[kept] / 0.75, rtol=1e-6)
    assert classes.shape == (6000, 2)
    np.testing.assert_allclose(np.bincount(classes.reshape(-1)) / 12000, chances, atol=0.02)


def test_nothing_and_everything_is_dropped() -> None:
    g = jn.Graph("g", [jn.TensorType(jn.float32, (4,), name="x")])
    g.output(jn.dropout(g.inputs[0], 0), jn.dropout(g.inputs[0], 1))
    none, every = jn.evaluate(g, np.ones(4, np.float32))
    np.testing.assert_array_equal([none, every], [np.ones(4), np.zeros(4)])

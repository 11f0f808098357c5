"""Random numbers: the generator's published answers, distributions, and the same bits on every device."""

from __future__ import annotations

import joinery as jn
import numpy as np
import pytest
from joinery.graph.functions.random.philox import philox

from ....support import philox as witness

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
    assert philox(counter, key) == expected  # type: ignore[arg-type]
    number = witness.philox(sum(word << 32 * at for at, word in enumerate(counter)), key[1] << 32 | key[0])
    assert number == sum(word << 32 * at for at, word in enumerate(expected))


@pytest.mark.one_in(4)
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


@pytest.mark.slow
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


SEED, STREAM = 2**63 + 9, 2**40 + 7


@pytest.mark.slow
@pytest.mark.parametrize("n", [0, 1, 2, 3, 4, 5, 33])
def test_numbers_are_those_of_philox(n: int) -> None:
    """The seed and the stream are ints, or scalars that a run gives."""
    g = jn.Graph("g", [jn.TensorType(jn.float32, ("n",), "x"), *[jn.TensorType(jn.uint64, (), name) for name in "ab"]])
    x, *scalars = g.inputs
    drawn: list[jn.Symbol] = []
    for seed, stream in ((SEED, STREAM), scalars, (SEED, scalars[1])):
        drawn += [jn.random_bits(x, seed, stream), jn.random_uniform(x, seed=seed, stream=stream),
                  jn.random_normal(x, seed=seed, stream=stream), jn.random_integers(x, -3, 9, seed, stream)]  # fmt: skip
    g.output(*drawn)
    words = witness.blocks(-(-n // 2), SEED, STREAM).astype(object)
    upper, lower = words[:, 0::2].reshape(-1)[:n], words[:, 1::2].reshape(-1)[:n]
    expected = [witness.bits(n, SEED, STREAM), witness.uniform(n, SEED, STREAM), witness.normal(n, SEED, STREAM),
                (((upper << 32) + lower) * 12 >> 64).astype(np.int64) - 3]  # fmt: skip
    feeds = np.zeros(n, np.float32), np.uint64(SEED), np.uint64(STREAM)
    for found in (jn.evaluate(g, *feeds), jn.compile(g, device="cpu", cache=False)(*feeds)):
        for one, other in zip(found, expected * 3, strict=True):
            np.testing.assert_allclose(one, other, 1e-5, 1e-5)


@pytest.mark.slow
@pytest.mark.parametrize("device", ["cpu", "ptxsim"])
def test_a_loop_draws_by_its_index(device: str) -> None:
    """An int draws the same in every iteration: functions keep no state. The index, or what is carried, draws new numbers."""
    g = jn.Graph("g", [jn.TensorType(jn.float32, ("t", 3), "x"), jn.TensorType(jn.int32, (), "seed")])
    x, seed = g.inputs

    def step(count: jn.Symbol, row: jn.Symbol) -> tuple[jn.Symbol, tuple[jn.Symbol, ...]]:
        return count + 1, (jn.random_uniform(row, seed=5), jn.random_uniform(row, seed=seed, stream=count))

    _, (same, other) = jn.scan(step, g.scalar(0, "int64"), x)
    outside = jn.random_uniform(x, seed=5)[0]  # a symbol of the graph around, and the index of the loop
    total = jn.fori_loop(0, 4, lambda i, s: s + jn.random_normal(outside, seed=7, stream=i), jn.zeros_like(outside))
    g.output(same, other, total)
    feeds = np.zeros((6, 3), np.float32), np.int32(9)
    for found in (jn.evaluate(g, *feeds), jn.compile(g, device=device, cache=False)(*feeds)):
        np.testing.assert_array_equal(found[0], [witness.uniform(3, 5, 0)] * 6)
        np.testing.assert_array_equal(found[1], [witness.uniform(3, 9, step) for step in range(6)])
        np.testing.assert_allclose(found[2], sum(witness.normal(3, 7, step) for step in range(4)), 1e-5, 1e-5)


def test_streams_next_to_each_other_share_nothing() -> None:
    g = jn.Graph("g", [jn.TensorType(jn.float32, (4000,), "x")])
    g.output(*[jn.random_normal(g.inputs[0], stream=number) for number in range(4)],
             *[jn.random_uniform(g.inputs[0], stream=number) for number in range(4)])  # fmt: skip
    apart = np.corrcoef(jn.evaluate(g, np.zeros(4000, np.float32)))[:4, :4] - np.eye(4)
    assert abs(apart).max() < 0.06


@pytest.mark.parametrize("function", ["random_bits", "random_uniform", "random_normal", "bernoulli", "random_permutation",
                                      "categorical", "dropout"])  # fmt: skip
def test_scalars_that_are_refused(function: str) -> None:
    types = {"x": ("float32", (2, 3)), "v": ("int64", (2,)), "f": ("float32", ())}
    g = jn.Graph("g", [jn.TensorType(*each, name) for name, each in types.items()])
    x, vector, number = g.inputs
    with pytest.raises(jn.UserError, match=rf"{function}: stream is int64 \(2,\)(.|\n)*an int, or an integer scalar"):
        getattr(jn, function)(x, stream=vector)
    with pytest.raises(jn.UserError, match=rf"{function}: seed is float32 \(\)"):
        getattr(jn, function)(x, seed=number)
    other = jn.Graph("other", [jn.TensorType(jn.int64, (), "i")])
    with pytest.raises(jn.UserError, match="graph"):
        getattr(jn, function)(x, seed=other.inputs[0])

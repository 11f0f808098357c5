"""Products of groups of rows, beside NumPy's of each group."""

from __future__ import annotations

from typing import Any

import joinery as jn
import numpy as np
import pytest
from joinery.graph.functions.networks.groups import grouped_matmul, grouped_outer

rng = np.random.default_rng(23)
SIZES = [(1, 3, 5, 1), (7, 4, 6, 3), (40, 16, 24, 4), (3, 8, 8, 64), (100, 8, 4, 64), (257, 32, 16, 5), (0, 3, 4, 2)]
"""Rows, their length, that of results, groups: fewer rows than a block, than groups, and several blocks of a group."""


def made(rows: int, k: int, n: int, groups: int, symbolic: bool = False, dtype: Any = jn.float32) -> jn.Graph:
    size = "s" if symbolic else rows
    types = [(dtype, (size, k)), (dtype, (size, n)), (dtype, (groups, k, n)), (jn.int32, (groups,))]
    g = jn.Graph("g", [jn.TensorType(*each, f"x{number}") for number, each in enumerate(types)])
    x, y, weights, ends = g.inputs
    g.output(grouped_matmul(x, weights, ends), grouped_outer(x, y, ends))
    return g


def expected(x: Any, y: Any, weights: Any, ends: Any) -> tuple[Any, Any]:
    products, outer, start = np.zeros(y.shape), np.zeros(weights.shape), 0
    for group, end in enumerate(ends):
        products[start:end] = x[start:end].astype(np.float64) @ weights[group]
        outer[group] = x[start:end].T.astype(np.float64) @ y[start:end]
        start = end
    return products, outer


def spreads(rows: int, groups: int) -> list[Any]:
    """Return how many rows groups have: spread, all in one in the middle, half of them in none, none."""
    even = rng.multinomial(rows, np.ones(groups) / groups)
    one = np.eye(groups, dtype=np.int64)[groups // 2]
    return [even, one * rows, one * (rows // 2), one * 0]


@pytest.mark.one_in(18)
@pytest.mark.parametrize("symbolic", [False, True])
@pytest.mark.parametrize("sizes", SIZES, ids=str)
def test_products_of_groups(sizes: tuple[int, int, int, int], symbolic: bool) -> None:
    rows, k, n, groups = sizes
    if symbolic and not rows:
        pytest.skip("symbolic counts of rows are 1 or more")
    g = made(*sizes, symbolic)
    model = jn.compile(g, threads=2, cache=False)
    x, y, weights = (rng.standard_normal(shape).astype(np.float32) for shape in ((rows, k), (rows, n), (groups, k, n)))
    for counts in spreads(rows, groups):
        ends = np.cumsum(counts).astype(np.int32)
        wanted = expected(x, y, weights, ends)
        for found in (model(x, y, weights, ends), jn.evaluate(g, x, y, weights, ends)):
            for result, right, inner in zip(found, wanted, (k, rows), strict=True):
                np.testing.assert_allclose(result, right, rtol=1e-5, atol=1e-6 * max(inner, 1))


def test_rows_of_other_groups_have_no_part_in_sums() -> None:
    model = jn.compile(made(10, 4, 3, 2), cache=False)
    x, y, weights = np.ones((10, 4), np.float32), np.ones((10, 3), np.float32), np.ones((2, 4, 3), np.float32)
    x[5:], y[5:] = np.inf, np.nan
    products, outer = model(x, y, weights, np.array([5, 5], np.int32))
    np.testing.assert_array_equal(products[:5], np.full((5, 3), 4))
    np.testing.assert_array_equal(products[5:], np.zeros((5, 3)))
    np.testing.assert_array_equal(outer, [np.full((4, 3), 5), np.zeros((4, 3))])


def test_sums_of_16_bit_floats_over_several_blocks_are_rounded_once() -> None:
    model = jn.compile(made(1000, 2, 2, 1, dtype=jn.bfloat16), cache=False)
    x = rng.standard_normal((1000, 2)).astype(jn.bfloat16.numpy)
    y, weights = x + x, np.ones((1, 2, 2), x.dtype)
    _, outer = model(x, y, weights, np.array([1000], np.int32))
    exact = x.astype(np.float64).T @ y.astype(np.float64)
    np.testing.assert_allclose(outer[0].astype(np.float64), exact, rtol=2.0**-8)


@pytest.mark.slow
@pytest.mark.parametrize("ends", [[5, 2, 9], [-3, 4, 4], [100, 200, 300]])
def test_ends_that_are_none_read_nothing_outside(ends: list[int]) -> None:
    model = jn.compile(made(9, 4, 3, 3), cache=False)
    x, y, weights = (rng.standard_normal(shape).astype(np.float32) for shape in ((9, 4), (9, 3), (3, 4, 3)))
    given = x, y, weights, np.array(ends, np.int32)
    assert not model.sanitize(*given).findings
    assert [each.shape for each in model(*given)] == [(9, 3), (3, 4, 3)]

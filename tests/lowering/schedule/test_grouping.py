"""Groups that are joined: masks of dependencies know them by the group that they are part of, however many there are."""

from __future__ import annotations

import joinery as jn
import numpy as np
import pytest
from joinery.lowering.graph_passes.expand import expand
from joinery.lowering.schedule.fusion.grouping import Grouping


def sums(count: int, apart: bool) -> jn.Graph:
    """Sums of functions of one tensor, added up: of those of rows alone all can be one nest, others come in between."""
    graph = jn.Graph("g", [jn.TensorType(jn.float32, (8, 32), "x")])
    (x,) = graph.inputs
    total = jn.sum(x, axis=1)
    for number in range(count):
        one = jn.sum(jn.exp(x * float(number % 7)), axis=1)
        if apart and number % 3 == 0:
            one = one + jn.sum(x * jn.sum(x * number, axis=0), axis=1)
        total = total + one
    graph.output(total)
    return graph


@pytest.mark.parametrize("apart", [False, True])
@pytest.mark.parametrize("count", [1, 5, 200])
def test_masks_know_no_group_that_is_gone(count: int, apart: bool) -> None:
    expanded = expand(sums(count, apart))
    grouping = Grouping(expanded.symbols, [output.id for output in expanded.outputs])
    grouping.run()
    living = sum(grouping.groups)
    assert len(grouping.groups) < 2 * count + 2
    assert set(grouping.before) == set(grouping.groups)
    for mask in (*grouping.before.values(), *grouping.stored.values(), *grouping.evaluators.values(), *grouping.direct):
        assert mask & ~living == 0
    for bit, mask in grouping.before.items():
        assert not grouping.reaches(mask, bit), "a group depends on itself"
        members = [symbol for symbol in expanded.symbols if grouping.group_of.get(symbol.id) is grouping.groups[bit]]
        assert all(group.bit in grouping.groups for symbol in members if (group := grouping.group_of[symbol.id]))


@pytest.mark.parametrize("apart", [False, True])
def test_values_of_joined_groups(apart: bool) -> None:
    graph = sums(60, apart)
    x = np.random.default_rng(0).standard_normal((8, 32)).astype(np.float32) / 4
    found = jn.compile(graph, device="cpu")(x)
    np.testing.assert_allclose(found, jn.evaluate(graph, x), rtol=1e-4)


@pytest.mark.parametrize("dtype", ["uint8", "float32"])
def test_rolls_of_what_rolls_are_computed_of_are_stored(dtype: str) -> None:
    x = np.random.default_rng(1).integers(0, 5, (40, 37)).astype(dtype)
    graph = jn.Graph("g", [jn.TensorType(dtype, x.shape, name="x")])
    (a,) = graph.inputs
    rows = a + jn.roll(a, 1, axis=0) + jn.roll(a, -1, axis=0)
    graph.output(rows + jn.roll(rows, 1, axis=1) + jn.roll(rows, -1, axis=1))
    model = jn.compile(graph, device="cpu", cache=False)
    down = x + np.roll(x, 1, 0) + np.roll(x, -1, 0)
    np.testing.assert_array_equal(model(x), down + np.roll(down, 1, 1) + np.roll(down, -1, 1))
    assert len(model.kernels) == 2

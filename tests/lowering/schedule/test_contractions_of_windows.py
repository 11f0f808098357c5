"""Nests of products with windows: which axes they have, and what they compute."""

from __future__ import annotations

from typing import Any

import joinery as jn
import pytest

CASES = {  # axes of space and channels, kernel, strides, dilations → contracted axes, outermost first
    "neighbours in a row are one run": ((9, 8, 16), (3, 3), (1, 1), (1, 1), (3, 48)),
    "dilated rows are not": ((9, 8, 16), (3, 3), (1, 1), (1, 2), (3, 3, 16)),
    "strides only move windows": ((9, 8, 16), (3, 2), (2, 2), (2, 1), (3, 32)),
    "windows as wide as the image": ((9, 3, 16), (2, 3), (1, 1), (1, 1), (96,)),
    "one element": ((9, 8, 16), (1, 1), (2, 2), (1, 1), (16,)),
    "one channel": ((9, 12, 1), (3, 9), (1, 1), (1, 1), (3, 9)),
}


def product(harness: Any, shape: Any, kernel: Any, strides: Any, dilations: Any) -> jn.Graph:
    depth = kernel[0] * kernel[1] * shape[-1]
    graph = harness.graph((2, *shape), (depth, 5))
    x, w = graph.inputs
    taken = jn.windows(x, kernel, (1, 2), strides, dilations)
    graph.output(taken.permute((0, 1, 2, 4, 5, 3)).reshape((*taken.shape[:3], depth)) @ w)
    return graph


@pytest.mark.parametrize("name", CASES)
def test_contracted_axes(name: str, harness: Any) -> None:
    shape, kernel, strides, dilations, depth = CASES[name]
    graph = product(harness, shape, kernel, strides, dilations)
    w = (kernel[0] * kernel[1] * shape[-1], 5)
    plan = harness.check(graph, harness.array(2, *shape), harness.array(*w, seed=1), tolerance=1e-4)
    (nest,) = plan.nests
    assert nest.template == "contract"
    contract = next(value for value in nest.body if value.op == "contract")
    assert tuple(nest.axes[axis].extent for axis in (*contract.attrs["outer"], contract.attrs["over"])) == depth
    assert not plan.temporaries


def test_padding_is_the_only_thing_stored(harness: Any) -> None:
    graph = harness.graph((2, 9, 8, 16), (144, 5))
    x, w = graph.inputs
    wide = jn.pad(jn.relu(x), ((0, 0), (1, 1), (1, 1), (0, 0)))
    taken = jn.windows(wide, (3, 3), (1, 2))
    graph.output(taken.permute((0, 1, 2, 4, 5, 3)).reshape((2, 9, 8, 144)) @ w)
    plan = harness.check(graph, harness.array(2, 9, 8, 16), harness.array(144, 5, seed=1), tolerance=1e-4)
    assert [buffer.shape for buffer in plan.temporaries] == [(2, 11, 10, 16)]


def test_short_runs_are_stored(harness: Any) -> None:
    """Five elements are neighbours, too few to step along them."""
    graph = product(harness, (9, 8, 5), (3, 3), (1, 1), (2, 2))
    plan = harness.check(graph, harness.array(2, 9, 8, 5), harness.array(45, 5, seed=1), tolerance=1e-4)
    assert [nest.template for nest in plan.nests] == ["map", "contract"]
    assert len(plan.temporaries) == 1

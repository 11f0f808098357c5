"""Concatenations of very many parts, which are read by further operations or not."""

from __future__ import annotations

from typing import Any

import joinery as jn
import numpy as np
import pytest


@pytest.mark.one_in(12)
@pytest.mark.parametrize("count", [2, 63, 64, 65, 97, 300])
@pytest.mark.parametrize("is_read", [False, True])
@pytest.mark.parametrize("part", ["inputs", "maps"])
def test_parts(count: int, is_read: bool, part: str) -> None:
    graph: Any = jn.Graph("parts", inputs=[jn.TensorType("float32", (3, 2)) for _ in range(count)])
    whole = jn.concat([x * 2.0 + 1.0 if part == "maps" else x for x in graph.inputs], 0)
    graph.output(jn.exp(whole) + 1.0 if is_read else whole)
    arrays = [np.full((3, 2), number / count, np.float32) for number in range(count)]
    found = jn.compile(graph, "cpu", threads=1)(*arrays)
    want = np.concatenate([array * 2 + 1 if part == "maps" else array for array in arrays])
    np.testing.assert_allclose(found, np.exp(want) + 1 if is_read else want, 1e-6)


@pytest.mark.slow
def test_concatenations_of_concatenations() -> None:
    graph: Any = jn.Graph("parts", inputs=[jn.TensorType("float32", (3,)) for _ in range(60)])
    whole = jn.concat([x * 2.0 for x in graph.inputs], 0)
    for _ in range(4):
        whole = jn.concat([whole, *[x + 1.0 for x in graph.inputs[1:]]], 0) * 0.5
    graph.output(whole)
    arrays = [np.full(3, number, np.float32) for number in range(60)]
    np.testing.assert_allclose(jn.compile(graph, "cpu", threads=1)(*arrays), jn.evaluate(graph, *arrays), 1e-6)

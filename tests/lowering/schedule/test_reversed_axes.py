"""Axes along which something is read backwards and stored further apart are reversed, against NumPy."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import joinery as jn
import numpy as np
import pytest
from joinery.lowering.schedule.plan import schedule

PROGRAMS: dict[str, Callable[[Any, Any], Any]] = {
    "turned by a right angle": lambda lib, x: lib.flip(x.T, 0) * 2 + 1,
    "the other way": lambda lib, x: lib.flip(x, 0).T * 2 + 1,
    "both axes": lambda lib, x: lib.flip(x.T, (0, 1)) * 2,
    "with itself": lambda lib, x: lib.flip(x.T, 0) + x.T * lib.flip(x, 1).T,
    "with positions": lambda lib, x: lib.flip(x.T, 0) * np.arange(x.shape[0], dtype=x.dtype.name),
    "a part": lambda lib, x: lib.flip(x.T[3:-2], 0)[1:] - 1,
    "every second": lambda lib, x: x.T[::-2] + 1,
    "sums of rows": lambda lib, x: lib.sum(lib.flip(x.T, 0) * 2, axis=0),
    "three axes": lambda lib, x: lib.flip(lib.moveaxis(x.reshape((x.shape[0], 4, -1)), 0, 2), (0, 1)) + 1,
}


class _Joinery:
    flip, sum = staticmethod(jn.flip), staticmethod(jn.sum)

    @staticmethod
    def moveaxis(x: Any, _: int, __: int) -> Any:
        return x.permute((1, 2, 0))



@pytest.mark.parametrize("target", [None, "x86-64-v3"])
@pytest.mark.parametrize("dtype", ["uint8", "float32", "float64"])
@pytest.mark.parametrize("shape", [(40, 60), (129, 68), (7, 300), (1, 12), (16, 8)])
@pytest.mark.parametrize("name", PROGRAMS)
def test_what_is_read_backwards(name: str, shape: tuple[int, int], dtype: str, target: str | None) -> None:
    x = (np.random.default_rng(1).standard_normal(shape) * 5).astype(dtype)
    graph = jn.Graph("g", [jn.TensorType(dtype, shape, "x")])
    graph.output(PROGRAMS[name](_Joinery, graph.inputs[0]))
    found = jn.compile(graph, device="cpu", target=target)(x)
    np.testing.assert_allclose(found, PROGRAMS[name](np, x).astype(found.dtype), rtol=1e-5, atol=1e-4)


@pytest.mark.parametrize("shape", [(40, 60), (1, 9), (0, 5), (5, 0)])
def test_sizes_may_be_known_at_the_call(shape: tuple[int, int]) -> None:
    x = np.random.default_rng(1).standard_normal(shape).astype(np.float32)
    graph = jn.Graph("g", [jn.TensorType("float32", ("m", "n"), "x")])
    graph.output(jn.flip(graph.inputs[0].T, 0) * 2 + 1)
    np.testing.assert_array_equal(jn.compile(graph, device="cpu")(x), np.flip(x.T, 0) * 2 + 1)


def test_loads_go_forwards() -> None:
    graph = jn.Graph("g", [jn.TensorType("float32", (40, 60), "x")])
    graph.output(jn.flip(graph.inputs[0].T, 0) + 1.0)
    (nest,) = schedule(graph).nests
    (load,) = nest.loads
    assert sorted(step for _, step in load.attrs["at"].terms) == [1, 60]
    assert sorted(step for _, step in nest.stores[0].at.terms) == [-40, 1]
    assert nest.stores[0].at.offset == 59 * 40


def test_a_reversed_vector_is_read_backwards() -> None:
    """There is nothing to gain from storing backwards."""
    graph = jn.Graph("g", [jn.TensorType("float32", (60,), "x")])
    graph.output(jn.flip(graph.inputs[0], 0) + 1.0)
    (nest,) = schedule(graph).nests
    assert [step for _, step in nest.stores[0].at.terms] == [1]

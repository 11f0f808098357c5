"""Graphs with axes of extent 0 and 1 anywhere: every element of every output is written, whatever else its kernel computes.

Outputs and the arena hold a pattern of bytes before each run, so what nobody writes is seen.
"""

from __future__ import annotations

import math
from typing import Any

import joinery as jn
import numpy as np
import pytest
from joinery.graph.dims.dim import evaluate_dim
from joinery.lowering.choices.options import Options
from joinery.lowering.host_stages import HostBackend
from joinery.lowering.llvm.compile import host_target
from joinery.lowering.pipeline import tile_graph
from joinery.runtime.host import memory

PATTERN = 0xA5


@pytest.fixture(autouse=True)
def poison(monkeypatch: pytest.MonkeyPatch) -> None:
    """Memory that the runtime takes for outputs and arenas is filled."""
    empty = memory.empty

    def filled(shape: tuple[int, ...], dtype: np.dtype[Any]) -> np.ndarray:
        array = empty(shape, dtype)
        array.reshape(-1).view(np.uint8).fill(PATTERN)
        return array

    monkeypatch.setattr(memory, "empty", filled)


def drawn(number: int) -> jn.Graph:
    """A random graph whose kernels want to join: rows of one length, products of what was reduced along them. All other axes
    are 0, 1 or 2 long, or in every other graph n."""
    rng = np.random.default_rng(number)
    extents: tuple[Any, ...] = (1, 2, "n") if number % 2 else (0, 1, 2)

    def one(choices: Any) -> Any:
        return choices[int(rng.integers(len(choices)))]

    def rows(x: Any) -> Any:
        """What a kernel over the rows of x computes."""
        axis = len(x.shape) - 1
        match one(("sum", "sum", "max", "softmax", "centre", "cumsum")):
            case "sum":
                return jn.sum(x, axis, keepdims=True)
            case "max":
                return jn.max(x, axis=axis, keepdims=True)
            case "softmax":
                return jn.softmax(x, axis)
            case "centre":
                return x - jn.mean(x, axis, keepdims=True)
            case _:
                return jn.cumsum(x, axis)

    def other(x: Any, y: Any) -> Any:
        axis = int(rng.integers(len(x.shape)))
        match one(("sum", "matmul", "concat", "turn", "literal")):
            case "sum":
                return jn.sum(x, axis, keepdims=bool(rng.integers(2)))
            case "matmul":
                return x @ y.transpose()
            case "concat":
                return jn.concat([x, y], axis)
            case "turn":
                return x.permute(*rng.permutation(len(x.shape)).tolist())
            case _:
                return x + 1

    shapes = [(*[one(extents) for _ in range(rank)], 3) for rank in (0, *rng.integers(3, size=2))]
    graph = jn.Graph("random", [jn.TensorType("float32", shape, f"x{i}") for i, shape in enumerate(shapes)])
    values = [rows(x) for x in graph.inputs]
    for _ in range(rng.integers(2, 8)):
        x, y = one([value for value in values[-5:] if value.shape] or values[:1]), one(values[-5:])
        try:
            values.append(one((lambda x, y: x * y, lambda x, y: x * y, lambda x, y: rows(x), other))(x, y))
        except (jn.UserError, jn.UnsupportedError):
            continue
    outputs = values if rng.integers(2) else [values[-1], one(values[:-1])]
    graph.output(*outputs, names=[f"y{i}" for i in range(len(outputs))])
    return graph


class Once:
    """A model on a GPU, which has no `bind`."""

    def __init__(self, model: jn.Model) -> None:
        self.model, self.outputs = model, model.outputs

    def __call__(self, *arrays: np.ndarray) -> Any:
        self.result = self.model(*arrays)
        return self.result

    def bind(self, *_: np.ndarray, outputs: list[np.ndarray]) -> Any:
        values = self.result if isinstance(self.result, tuple) else (self.result,)
        for target, value in zip(outputs, values, strict=True):
            target[...] = value
        return lambda: self.result


def check(agreement: Any, graph: jn.Graph, model: Any) -> None:
    for n in (0, 1, 3):
        shapes = [tuple([n if extent == jn.dim("n") else extent for extent in x.shape]) for x in graph.inputs]
        arrays = [(np.arange(math.prod(shape)) % 7 - 3.0).reshape(shape).astype(np.float32) for shape in shapes]
        try:
            agreement.evaluate(graph, *arrays)
        except jn.UserError:  # the largest element of nothing
            continue
        agreement.bounded(graph, *arrays, model=model)


@pytest.mark.one_in(4)
@pytest.mark.parametrize("part", range(4))
def test_what_a_kernel_stores_has_a_program_that_stores_it(part: int) -> None:
    backend = HostBackend(host_target())
    for number in range(part, 120, 4):
        tiled = tile_graph(drawn(number), backend, Options())
        for nest, launch in zip(tiled.plan.nests, tiled.launches, strict=True):
            for store in nest.stores:
                axes = set(nest.body[store.value].axes) | {axis for axis, _ in store.at.terms}
                for n in (0, 1, 3):
                    elements = math.prod(evaluate_dim(nest.axes[axis].extent, {"n": n}) for axis in axes)
                    assert not elements or evaluate_dim(launch.grid, {"n": n}), (number, n, nest.fused)


@pytest.mark.one_in(4)
@pytest.mark.parametrize("part", range(4))
def test_everything_is_written(agreement: Any, part: int) -> None:
    for number in range(part, 32, 4):
        graph = drawn(number)
        check(agreement, graph, agreement.compile(graph))


@pytest.mark.slow
def test_everything_is_written_on_gpus(agreement: Any) -> None:
    for number in (0, 1, 2, 18, 25):
        graph = drawn(number)
        check(agreement, graph, Once(jn.compile(graph, device="ptxsim", cache=False)))


@pytest.mark.parametrize("device", ["cpu", "ptxsim"])
@pytest.mark.parametrize("rows", [0, "n"])
def test_a_sum_beside_rows_that_are_none(device: str, rows: Any) -> None:
    """The sum could be computed with each row of the other operand; an intermediate, a part of a concatenation and what follows
    from it as well."""
    graph = jn.Graph("g", [jn.TensorType("float32", (3,), "x"), jn.TensorType("float32", (rows, 3), "y")])
    x, y = graph.inputs
    total = jn.sum(x)
    twice = total * 2 + 1
    graph.output(jn.softmax(y) * total * twice, total, jn.exp(twice), jn.concat([jn.sum(x, keepdims=True), x], 0))
    model = jn.compile(graph, device=device, cache=False)
    for n in (0,) if rows == 0 else (0, 2):
        given = np.array([1, 2, 4], np.float32), np.ones((n, 3), np.float32)
        for ours, theirs in zip(model(*given), jn.evaluate(graph, *given), strict=True):
            np.testing.assert_allclose(ours, theirs, rtol=1e-6)

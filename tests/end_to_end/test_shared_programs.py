"""Kernels that differ in offsets alone are one program, whose launches hand the offsets over; texts are printed when read."""

from __future__ import annotations

import re
from typing import Any

import joinery as jn
import numpy as np
import pytest
from joinery.lowering import pipeline


def recurrence(steps: int, width: int = 16) -> jn.Graph:
    graph = jn.Graph("recurrence", [jn.TensorType("float32", shape) for shape in ((4, steps, width), (4, width))])
    x, h = graph.inputs
    rng = np.random.default_rng(0)
    w, u = (graph.constant(rng.uniform(-0.3, 0.3, (width, width)).astype(np.float32)) for _ in range(2))
    states = []
    for step in range(steps):
        h = jn.tanh(x[:, step] @ u + h @ w)
        states.append(h)
    graph.output(jn.stack(states, 1), h)
    return graph


def columns(count: int) -> jn.Graph:
    graph = jn.Graph("columns", [jn.TensorType("float32", (50, count))])
    graph.output(*[jn.sum(graph.inputs[0][:, number]) for number in range(count)])
    return graph


def windows(count: int) -> jn.Graph:
    """Slices that overlap, run backwards, and are written side by side."""
    graph = jn.Graph("windows", [jn.TensorType("float16", (3, "n"))])
    (x,) = graph.inputs
    jn.pad(x[:, : count + 8], 1)
    parts = [jn.exp(x[:, number : number + 5]) for number in range(count)]
    turned = [jn.softmax(jn.flip(x[:, number : number + 4], 1), 0) for number in range(count)]
    graph.output(jn.concat(parts, 1), *turned)
    return graph


def arrays(graph: jn.Graph) -> list[np.ndarray]:
    rng = np.random.default_rng(1)
    shapes = [tuple([extent if isinstance(extent, int) else 40 for extent in x.shape]) for x in graph.inputs]
    return [rng.uniform(-1, 1, shape).astype(x.dtype.numpy) for x, shape in zip(graph.inputs, shapes, strict=True)]


@pytest.mark.one_in(4)
@pytest.mark.parametrize(
    ("graph", "launches", "most"),
    [(recurrence(24), 48, 8), (columns(80), 80, 5), (windows(12), 24, 8)],
    ids=["recurrence", "columns", "windows"],
)
def test_kernels_that_differ_in_offsets_share_a_program(agreement: Any, graph: jn.Graph, launches: int, most: int) -> None:
    model = agreement.compile(graph)
    assert len(model.kernels) >= launches
    assert len({kernel.name for kernel in model.kernels}) <= most
    agreement.bounded(graph, *arrays(graph), model=model)


@pytest.mark.one_in(8)
@pytest.mark.parametrize("target", ["sm_80", "sm_90a"])
@pytest.mark.parametrize("graph", [recurrence(5), columns(9), windows(3)], ids=lambda g: g.name)
def test_offsets_are_arguments_on_gpus(graph: jn.Graph, target: str) -> None:
    given = arrays(graph)
    model = jn.compile(graph, "ptxsim", target=target, cache=False)
    assert len({kernel.name for kernel in model.kernels}) < len(model.kernels)
    for ours, theirs in zip(model(*given), jn.evaluate(graph, *given), strict=True):
        np.testing.assert_allclose(ours.astype(np.float64), theirs.astype(np.float64), rtol=2e-3, atol=1e-5)


def test_a_kernel_that_is_alone_keeps_its_offset() -> None:
    graph = jn.Graph("g", [jn.TensorType("float32", (50, 8))])
    graph.output(jn.sum(graph.inputs[0][:, 3]))
    (kernel,) = jn.compile(graph, "cpu", cache=False).kernels
    assert "i64" not in kernel.ttir.split("{")[1].split("(")[1]  # no parameter but pointers
    several = jn.compile(columns(4), "cpu", cache=False).kernels
    assert ": i64" in several[1].ttir.split("\n")[1]


def test_multiples_of_offsets_stay_known() -> None:
    """Rows that start at multiples of 16 elements are loaded as wide as if the offset were written in the code."""
    graph = jn.Graph("g", [jn.TensorType("float16", (64, 64))])
    (x,) = graph.inputs
    graph.output(*[jn.sum(x[row : row + 1] * x[row + 1 : row + 2], 1) for row in (0, 7, 30)])
    for kernel in jn.compile(graph, "ptxsim", cache=False).kernels:
        assert "tt.divisibility = 16 : i32" in kernel.ttir.split("\n")[1]


def test_texts_are_printed_when_read(monkeypatch: pytest.MonkeyPatch, tmp_path: Any) -> None:
    printed: list[str] = []
    whole = pipeline.print_module

    def counted(op: Any, *options: Any, **named: Any) -> str:
        text = whole(op, *options, **named)
        printed.append(text)
        return text

    monkeypatch.setattr(pipeline, "print_module", counted)
    graph = recurrence(3)
    models = [jn.compile(graph, "cpu", cache=tmp_path) for _ in range(2)]  # the second one comes from the cache
    assert not printed
    texts = [[kernel.ttir for kernel in model.kernels] for model in models]
    assert texts[0] == texts[1]
    assert all(f"@{kernel.name}(" in kernel.ttir for kernel in models[1].kernels)
    assert len(printed) == 2 * len(set(texts[0]))
    models[1].save(tmp_path / "model.jn")
    saved = [kernel.ttir for kernel in jn.load(tmp_path / "model.jn", trusted=True).kernels]
    assert saved == [re.sub(r" loc\(.*\)", "", text) for text in texts[0]]  # a file does not say where its model was built

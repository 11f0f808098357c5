"""Running sums of long rows and sums at few positions, which are computed in parts, against NumPy."""

from __future__ import annotations

from typing import Any

import joinery as jn
import numpy as np
import pytest
from joinery.lowering.graph_passes.expand import expand
from joinery.lowering.graph_passes.whole_lines import WholeLines

LINES = WholeLines(1, True, True)


def scan(shape: tuple[Any, ...], dtype: str = "float32", axis: int = -1, **how: bool) -> jn.Graph:
    graph = jn.Graph("g", inputs=[jn.TensorType(dtype, shape, "x")])
    graph.output(jn.cumsum(graph.inputs[0], axis=axis, **how))
    return graph


def scanned(graph: jn.Graph, lines: WholeLines = LINES) -> list[tuple[Any, ...]]:
    return [symbol.shape for symbol in expand(graph, lines).symbols if symbol.op.name == "cumsum"]


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("shape", [(4096,), (99991,), (3, 4099), (3, 20000), (2, 2, 2, 16400), (1, 33 * 1024)])
@pytest.mark.parametrize("how", [{}, {"exclusive": True}, {"reverse": True}, {"exclusive": True, "reverse": True}])
@pytest.mark.one_in(24)
def test_scans_in_parts_are_those_of_numpy(dtype: str, shape: tuple[int, ...], how: dict[str, bool]) -> None:
    graph = scan(shape, dtype, **how)
    assert len(scanned(graph)) == (3 if shape[-1] in (99991, 4099) else 2)
    x = np.random.default_rng(len(shape)).standard_normal(shape).astype(dtype)
    found = [jn.compile(graph, device="cpu", threads=threads)(x) for threads in (1, 3)]
    assert np.array_equal(*found)
    wide = x.astype(np.longdouble)[..., :: -1 if "reverse" in how else 1]
    wanted = np.cumsum(wide, axis=-1) - (wide if "exclusive" in how else 0)
    bound = (shape[-1] + 2) * np.finfo(dtype).eps * np.cumsum(np.abs(wide), axis=-1)
    turned = found[0][..., :: -1 if "reverse" in how else 1]
    assert (np.abs(turned - wanted) <= bound).all()


def test_other_scans_stay_whole() -> None:
    assert scanned(scan((16384,)), WholeLines(1, False, False)) == [(16384,)]
    assert scanned(scan((16384,), "int64")) == [(16384,)]
    assert scanned(scan((4095,))) == [(4095,)]
    assert scanned(scan((16, 16384))) == [(16, 16384)]
    assert scanned(scan((16384, 2), axis=0)) == [(16384, 2)]
    assert len(scanned(scan(("n",)))) == len(scanned(scan(("n", 16384)))) == 1


def test_zeros_infinities_and_nan_are_those_of_one_chain() -> None:
    x = np.full(16387, -0.0, np.float32)
    run = jn.compile(scan(x.shape), device="cpu")
    assert np.signbit(run(x)).all()
    assert not np.signbit(jn.compile(scan(x.shape, exclusive=True), device="cpu")(x)).any()
    x[5000], x[9000], x[12000] = np.inf, 1.0, -np.inf
    found = run(x)
    assert np.signbit(found[:5000]).all()
    assert (found[5000:12000] == np.inf).all()
    assert np.isnan(found[12000:]).all()


@pytest.mark.one_in(2)
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("op", ["cummax", "cummin"])
@pytest.mark.parametrize("reverse", [False, True])
def test_extremes_so_far(op: str, dtype: str, reverse: bool) -> None:
    rng = np.random.default_rng(3)
    x = np.cumsum(rng.standard_normal((2, 20011)), axis=1).astype(dtype)
    x[0, 100], x[0, 15000], x[1, 7000] = np.inf, np.nan, -np.inf
    graph = jn.Graph("g", inputs=[jn.TensorType(dtype, x.shape, "x")])
    graph.output(getattr(jn, op)(graph.inputs[0], axis=1, reverse=reverse))
    assert [s.op.name for s in expand(graph, LINES).symbols].count(op) == 3
    turned = x[:, :: -1 if reverse else 1]
    wanted = (np.maximum if op == "cummax" else np.minimum).accumulate(turned, axis=1)[:, :: -1 if reverse else 1]
    for threads in (1, 2):
        assert np.array_equal(jn.compile(graph, device="cpu", threads=threads)(x), wanted, equal_nan=True)


def test_exclusive_extremes_begin_with_the_lowest_value() -> None:
    x = np.random.default_rng(4).standard_normal(5000).astype(np.float32)
    graph = jn.Graph("g", inputs=[jn.TensorType("float32", x.shape, "x")])
    graph.output(graph.apply("cummax", graph.inputs, {"axis": 0, "exclusive": True, "reverse": False}))
    found = jn.compile(graph, device="cpu")(x)
    assert found[0] == -np.inf
    assert np.array_equal(found[1:], np.maximum.accumulate(x)[:-1])


def counted(updates: tuple[Any, ...], elements: Any, dtype: str = "int64", reduction: str = "add") -> jn.Graph:
    graph = jn.Graph("g", inputs=[jn.TensorType("int32", updates, "at"), jn.TensorType(dtype, updates, "by"),
                                  jn.TensorType(dtype, (elements,), "to")])  # fmt: skip
    at, by, to = graph.inputs
    graph.output((jn.scatter_add if reduction == "add" else jn.scatter_max)(to, by, at, axis=0))
    return graph


def scattered(graph: jn.Graph, lines: WholeLines = LINES) -> list[tuple[Any, ...]]:
    return [symbol.shape for symbol in expand(graph, lines).symbols if symbol.op.name == "scatter"]


@pytest.mark.one_in(4)
@pytest.mark.parametrize("dtype", ["int8", "uint8", "int32", "int64", "uint64"])
@pytest.mark.parametrize(("count", "elements"), [(65536, 1), (70003, 100), (100000, 3125)])
def test_sums_at_few_positions_are_exact(dtype: str, count: int, elements: int) -> None:
    graph = counted((count,), elements, dtype)
    assert (8, elements) in scattered(graph)
    rng, kind = np.random.default_rng(count), np.iinfo(dtype)
    at = rng.integers(-elements - 2, elements + 2, count, dtype=np.int32)  # some are out of range, and dropped
    by = rng.integers(kind.min, kind.max, count, dtype=dtype, endpoint=True)
    to = rng.integers(kind.min, kind.max, elements, dtype=dtype, endpoint=True)
    inside = (at >= -elements) & (at < elements)
    wanted = to.copy()
    np.add.at(wanted, at[inside], by[inside])
    for threads in (1, 2):
        assert np.array_equal(jn.compile(graph, device="cpu", threads=threads)(at, by, to), wanted)


def test_other_scatters_stay_whole() -> None:
    assert scattered(counted((65536,), 10, "float32")) == [(10,)]
    assert scattered(counted((65536,), 10, reduction="max")) == [(10,)]
    assert scattered(counted((65535,), 10)) == [(10,)]
    assert scattered(counted((65536,), 2049)) == [(2049,)]
    assert scattered(counted((65536,), 10), WholeLines(1, False, False)) == [(10,)]
    assert len(scattered(counted(("n",), 10))) == len(scattered(counted((65536,), "n"))) == 1


@pytest.mark.parametrize("dtype", ["bool", "uint8", "int64"])
def test_histograms(dtype: str) -> None:
    x = np.random.default_rng(1).integers(0, 2 if dtype == "bool" else 200, 100001).astype(dtype)
    graph = jn.Graph("g", inputs=[jn.TensorType(dtype, x.shape, "x")])
    graph.output(jn.bincount(graph.inputs[0], length=256))
    assert np.array_equal(jn.compile(graph, device="cpu")(x), np.bincount(x, minlength=256))


def test_large_computed_operands_are_not_copied() -> None:
    """What is computed is stored, and a slice of it that is reshaped is a copy."""
    for length, parts in ((99991, 2), (1000003, 1), (2**20, 2)):
        graph = jn.Graph("g", inputs=[jn.TensorType("float32", (length,), "x")])
        graph.output(jn.cumsum(jn.exp(graph.inputs[0]), axis=0))
        assert min(len(scanned(graph)), 2) == parts
    assert len(scanned(scan((1000003,)))) == 3, "what a call brings is read in place"

"""Positions of extremes down long columns, which are found in parts, against NumPy."""

from __future__ import annotations

from typing import Any

import joinery as jn
import numpy as np
import pytest
from joinery.lowering.graph_passes.expand import expand
from joinery.lowering.graph_passes.whole_lines import WholeLines

LINES = WholeLines(1, True, True)


def positions(shape: tuple[Any, ...], axis: int, dtype: str = "float32", name: str = "argmax", **how: Any) -> jn.Graph:
    graph = jn.Graph("g", inputs=[jn.TensorType(dtype, shape, "x")])
    graph.output(getattr(jn, name)(graph.inputs[0], axis=axis, **how))
    return graph


def is_in_parts(graph: jn.Graph, lines: WholeLines = LINES) -> bool:
    return "take_along_axis" in {symbol.op.name for symbol in expand(graph, lines).symbols}


def filled(shape: tuple[int, ...], dtype: str, what: str) -> Any:
    rng = np.random.default_rng(len(what))
    x = rng.integers(0, 100, shape, np.uint8).astype(dtype)
    if what == "equal":
        x[...] = 7
    elif what == "late":
        x[shape[0] // 2 :] += 100
    elif what == "nan":
        x[rng.integers(0, shape[0], 40), rng.integers(0, shape[1], 40)] = np.nan
    elif what == "all nan":
        x[...] = np.nan
    elif what == "infinite":
        x[...] = -np.inf
    elif what == "zeros":
        x[...] = np.where(x > 50, dtype == "float32" and np.float32(-0.0), 0)
    return x


FLOATS = ["random", "equal", "late", "nan", "all nan", "infinite", "zeros"]


@pytest.mark.parametrize("what", FLOATS)
@pytest.mark.parametrize("shape", [(16384, 256), (65537, 70), (4099, 1024)])
@pytest.mark.parametrize("name", ["argmax", "argmin"])
@pytest.mark.one_in(48)
def test_positions_in_parts_are_those_of_numpy(name: str, shape: tuple[int, int], what: str) -> None:
    graph = positions(shape, 0, name=name)
    assert is_in_parts(graph)
    x = filled(shape, "float32", what)
    found = [jn.compile(graph, device="cpu", threads=threads)(x) for threads in (1, 3)]
    assert np.array_equal(*found)
    assert np.array_equal(found[0], getattr(np, name)(x, axis=0))


@pytest.mark.one_in(4)
@pytest.mark.parametrize(("dtype", "what"), [("uint8", "late"), ("int16", "random"), ("uint16", "equal"), ("int64", "late")])
def test_integers_keep_their_order(dtype: str, what: str) -> None:
    columns = 512 // np.dtype(dtype).itemsize
    x = filled((32771, columns), dtype, what)
    x[:, 3] = np.iinfo(dtype).min
    x[:, 4] = np.iinfo(dtype).max
    for name in ("argmax", "argmin"):
        graph = positions(x.shape, 0, dtype, name)
        assert is_in_parts(graph)
        assert np.array_equal(jn.compile(graph, device="cpu")(x), getattr(np, name)(x, axis=0))


def test_axes_before_and_behind_stay() -> None:
    x = filled((2 * 8192, 280), "float32", "random").reshape(2, 8192, 7, 40)
    graph = positions(x.shape, 1, keepdims=True)
    assert is_in_parts(graph)
    assert np.array_equal(jn.compile(graph, device="cpu")(x), x.argmax(1, keepdims=True))


def test_what_is_computed_is_not_stored_for_it() -> None:
    """Its rows are no whole parts, and a slice of it would be a copy."""
    graph = jn.Graph("g", inputs=[jn.TensorType("float32", (65537, 70), "x")])
    graph.output(jn.argmax(jn.exp(graph.inputs[0]), axis=0))
    assert not is_in_parts(graph)
    even = jn.Graph("g", inputs=[jn.TensorType("float32", (65536, 70), "x")])
    even.output(jn.argmax(jn.exp(even.inputs[0]), axis=0))
    assert is_in_parts(even)


@pytest.mark.parametrize(
    ("shape", "axis"),
    [((256, 16384), 1), ((16384, 255), 0), ((4095, 1024), 0), ((16384, 1025), 0), (("n", 256), 0), ((16384, "m"), 0),
     ((5, 0, 7), 0)],
)  # fmt: skip
def test_others_stay_whole(shape: tuple[Any, ...], axis: int) -> None:
    assert not is_in_parts(positions(shape, axis))


def test_targets_without_columns_have_no_parts() -> None:
    assert not is_in_parts(positions((16384, 256), 0), WholeLines(1, False, False))

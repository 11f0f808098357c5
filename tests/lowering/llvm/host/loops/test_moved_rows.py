"""Rows of a few bytes whose elements are put in another order, left out or added, against NumPy."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import joinery as jn
import numpy as np
import pytest
from joinery.interface import kernel
from joinery.lowering.llvm.compile import host_target
from joinery.lowering.llvm.host.loops import moved_rows
from joinery.lowering.target import HostTarget

from .....fuzz.fences import Fence
from .....support.x86_targets import TARGETS as KINDS

Pixels = Callable[[Any], Any]
ROWS = [1, 2, 3, 5, 6, 16, 17, 63, 255, 256, 257, 1000]
TYPES = ["uint8", "int8", "bool", "int16", "float16", "int32", "float32"]
MOVES: dict[str, tuple[Pixels, Callable[[np.ndarray], np.ndarray]]] = {
    "reversed": (lambda x: jn.flip(x, 1), lambda x: x[:, ::-1]),
    "the first two": (lambda x: x[:, :2], lambda x: x[:, :2]),
    "the last two": (lambda x: x[:, -2:], lambda x: x[:, -2:]),
    "every second": (lambda x: x[:, ::2], lambda x: x[:, ::2]),
    "rolled": (lambda x: jn.roll(x, 1, axis=1), lambda x: np.roll(x, 1, 1)),
    "the first of all": (lambda x: jn.broadcast_to(x[:, :1], x.shape), lambda x: np.broadcast_to(x[:, :1], x.shape)),
    "ends exchanged": (
        lambda x: jn.concat([x[:, -1:], x[:, 1:-1], x[:, :1]], axis=1),
        lambda x: np.concatenate([x[:, -1:], x[:, 1:-1], x[:, :1]], axis=1),
    ),
    "ones behind": (
        lambda x: jn.concat([x, jn.ones_like(x[:, :1])], axis=1),
        lambda x: np.concatenate([x, np.ones_like(x[:, :1])], axis=1),
    ),
    "zeros before": (
        lambda x: jn.concat([jn.zeros_like(x[:, :1]), x], axis=1),
        lambda x: np.concatenate([np.zeros_like(x[:, :1]), x], axis=1),
    ),
    "reversed rows of a part": (lambda x: jn.flip(x[1:], 1), lambda x: x[1:, ::-1]),
    "reversed both ways": (lambda x: jn.flip(x, (0, 1)), lambda x: x[::-1, ::-1]),
    "rows reversed": (lambda x: jn.flip(x, 0), lambda x: x[::-1]),
    "every second row": (lambda x: jn.flip(x[::2], 1), lambda x: x[::2, ::-1]),
    "pairs": (lambda x: jn.reshape(jn.flip(x, 1), (-1,)), lambda x: x[:, ::-1].reshape(-1)),
}


NEIGHBOURS = (
    "reversed", "the first two", "the last two", "rolled", "ends exchanged", "ones behind", "rows reversed",
    "reversed both ways",
)  # fmt: skip
TARGETS = [None, pytest.param("x86-64-v3", marks=pytest.mark.skipif(not host_target().has("avx2"), reason="needs AVX2"))]
"""Rows are moved so where vectors are short: this processor's own code may have no such row."""


def agrees(x: np.ndarray, ours: Pixels, theirs: Callable[[np.ndarray], np.ndarray], target: str | None) -> None:
    graph = jn.Graph("g", inputs=[jn.TensorType(x.dtype.name, x.shape, "x")])
    graph.output(ours(graph.inputs[0]))
    found = jn.compile(graph, device="cpu", threads=1, target=target)(x)
    np.testing.assert_array_equal(found, theirs(x))


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("name", MOVES)
def test_pixels_of_any_number(name: str, dtype: str, target: str | None) -> None:
    ours, theirs = MOVES[name]
    for rows, columns in zip(ROWS, (3, 4, 3, 2, 3, 4, 3, 5, 4, 3, 6, 7), strict=True):
        x = np.random.default_rng(rows).integers(0, 2 if dtype == "bool" else 120, (rows, columns)).astype(dtype)
        if rows > 1:
            agrees(x, ours, theirs, target)


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("name", ["reversed", "the first two", "ends exchanged", "ones behind"])
def test_rows_that_runs_decide(name: str, target: str | None) -> None:
    ours, theirs = MOVES[name]
    graph = jn.Graph("g", inputs=[jn.TensorType(jn.uint8, ("n", 3), "x")])
    graph.output(ours(graph.inputs[0]))
    model = jn.compile(graph, device="cpu", target=target)
    for rows in (0, *ROWS):
        x = np.random.default_rng(rows).integers(0, 255, (rows, 3), np.uint8)
        np.testing.assert_array_equal(model(x), theirs(x))


@pytest.mark.parametrize("target", TARGETS)
def test_images_and_what_lies_beside_their_pixels(target: str | None) -> None:
    """Bytes of the alpha channel and of other rows are read with those of pixels; nothing beyond the last one is written."""
    x = np.random.default_rng(0).integers(0, 255, (2, 37, 41, 4), np.uint8)
    graph = jn.Graph("g", inputs=[jn.TensorType(jn.uint8, x.shape, "x")])
    (image,) = graph.inputs
    part = jn.flip(image[:, 3:30, 5:, :3], 3)
    graph.output(part, jn.concat([jn.reshape(part, (-1,)), jn.reshape(image[:, :, :, 1:], (-1,))], axis=0))
    both = jn.compile(graph, device="cpu", threads=2, target=target)(x)
    expected = x[:, 3:30, 5:, 2::-1]
    np.testing.assert_array_equal(both[0], expected)
    np.testing.assert_array_equal(both[1], np.concatenate([expected.ravel(), x[..., 1:].ravel()]))


def test_they_are_moved_so_where_vectors_are_short(monkeypatch: pytest.MonkeyPatch) -> None:
    taken = []
    copy = moved_rows._copy
    monkeypatch.setattr(moved_rows, "_copy", lambda *given: taken.append(given[1]) or copy(*given))
    x = np.random.default_rng(0).integers(0, 255, (1000, 3), np.uint8)
    for name in ("reversed", "the first two", "rolled", "ends exchanged", "ones behind"):
        ours, theirs = MOVES[name]
        graph = jn.Graph("g", inputs=[jn.TensorType(jn.uint8, x.shape, "x")])
        graph.output(ours(graph.inputs[0]))
        before = len(taken)
        np.testing.assert_array_equal(jn.compile(graph, device="cpu", target="x86-64-v3", cache=False)(x), theirs(x))
        assert len(taken) == before + 1, name
    assert taken[0].lanes == [2, 1, 0, 5, 4, 3, 8, 7, 6, 11, 10, 9, 14, 13, 12, -1]
    assert (taken[0].together, taken[0].behind) == (5, 1)


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("at_end", [False, True])
@pytest.mark.parametrize("dtype", ["uint8", "int16", "float32", "float64"])
def test_nothing_beside_an_image_is_read_or_written(dtype: str, at_end: bool, target: str | None) -> None:
    """Before the first pixel of an image and behind its last one lie pages that no program may touch."""
    fence = Fence(at_end=at_end)
    for rows in (1, 2, 5, 6, 17, 257):
        for columns in (3, 4):
            x = fence.copy(np.random.default_rng(rows).integers(0, 100, (rows, columns)).astype(dtype), 2)
            for name in NEIGHBOURS:
                ours, theirs = MOVES[name]
                graph = jn.Graph("g", inputs=[jn.TensorType(dtype, x.shape, "x")])
                graph.output(ours(graph.inputs[0]))
                expected = theirs(x)
                found = fence.empty(expected.shape, dtype, 64)
                jn.compile(graph, device="cpu", threads=1, target=target).bind(x, outputs=[found])()
                np.testing.assert_array_equal(found, expected)
    assert not fence.damaged()


@pytest.mark.parametrize("kind", ["own", "avx2"])
@pytest.mark.parametrize("columns", [3, 4, 5, 6, 7, 8])
def test_rows_of_kernels_that_work_in_place(columns: int, kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """What a piece writes beyond its rows is what the next one reads."""
    if kind != "own":
        if not host_target().has("avx2", "fma"):
            pytest.skip("needs an x86 processor with AVX2")
        cpu, features, width = KINDS[kind]
        other = HostTarget(host_target().triple, cpu, frozenset(features), width)
        monkeypatch.setattr(kernel, "host_target", lambda: other)
    launched = jn.kernel.from_ttir(IN_PLACE.replace("COLUMNS", str(columns)), cache=False)
    given = np.arange(64 * columns, dtype=np.int8)
    expected = given.copy().reshape(64, columns)
    expected[:, 2] = 7
    launched.launch((1,), given)
    np.testing.assert_array_equal(given.reshape(64, columns), expected)


IN_PLACE = """
module {
  tt.func public @k(%x: !tt.ptr<i8>) {
    %seven = arith.constant dense<7> : tensor<64x8xi8>
    %pitch = arith.constant dense<COLUMNS> : tensor<64x1xi32>
    %width = arith.constant dense<COLUMNS> : tensor<1x8xi32>
    %two = arith.constant dense<2> : tensor<1x8xi32>
    %r = tt.make_range {end = 64 : i32, start = 0 : i32} : tensor<64xi32>
    %c = tt.make_range {end = 8 : i32, start = 0 : i32} : tensor<8xi32>
    %rows = tt.expand_dims %r {axis = 1 : i32} : tensor<64xi32> -> tensor<64x1xi32>
    %columns = tt.expand_dims %c {axis = 0 : i32} : tensor<8xi32> -> tensor<1x8xi32>
    %starts = arith.muli %rows, %pitch : tensor<64x1xi32>
    %starts_2 = tt.broadcast %starts : tensor<64x1xi32> -> tensor<64x8xi32>
    %columns_2 = tt.broadcast %columns : tensor<1x8xi32> -> tensor<64x8xi32>
    %offsets = arith.addi %starts_2, %columns_2 : tensor<64x8xi32>
    %inside = arith.cmpi slt, %columns, %width : tensor<1x8xi32>
    %mask = tt.broadcast %inside : tensor<1x8xi1> -> tensor<64x8xi1>
    %third = arith.cmpi eq, %columns, %two : tensor<1x8xi32>
    %is_third = tt.broadcast %third : tensor<1x8xi1> -> tensor<64x8xi1>
    %base = tt.splat %x : !tt.ptr<i8> -> tensor<64x8x!tt.ptr<i8>>
    %p = tt.addptr %base, %offsets : tensor<64x8x!tt.ptr<i8>>, tensor<64x8xi32>
    %v = tt.load %p, %mask : tensor<64x8x!tt.ptr<i8>>
    %y = arith.select %is_third, %seven, %v : tensor<64x8xi1>, tensor<64x8xi8>
    tt.store %p, %y, %mask : tensor<64x8x!tt.ptr<i8>>
    tt.return
  }
}
"""

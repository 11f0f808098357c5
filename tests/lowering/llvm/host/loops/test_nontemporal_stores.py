"""Launches that move more than the caches hold: whole cache lines are written past them, the ends of rows are not."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import joinery as jn
import ml_dtypes
import numpy as np
import pytest
from joinery.interface.native import facts
from joinery.lowering.choices.options import Options
from joinery.lowering.host_stages import HostBackend
from joinery.lowering.llvm.compile import host_target
from joinery.lowering.pipeline import tile_graph

from .....support.kernels.deep_blocks import Text

ROWS = 5
GUARD = 64

TEXT = """
tt.func @k(%x: !tt.ptr<TYPE>, %o: !tt.ptr<TYPE>, %n: i32, %stride: i32) {
  %row = tt.get_program_id x : i32
  %r = tt.make_range {start = 0 : i32, end = BLOCK : i32} : tensor<BLOCKxi32>
  %limit = tt.splat %n : i32 -> tensor<BLOCKxi32>
  %m = arith.cmpi slt, %r, %limit : tensor<BLOCKxi32>
  %first = arith.muli %row, %stride : i32
  %xr = tt.addptr %x, %first : !tt.ptr<TYPE>, i32
  %xs = tt.splat %xr : !tt.ptr<TYPE> -> tensor<BLOCKx!tt.ptr<TYPE>>
  %xp = tt.addptr %xs, %r : tensor<BLOCKx!tt.ptr<TYPE>>, tensor<BLOCKxi32>
  %v = tt.load %xp, %m : tensor<BLOCKx!tt.ptr<TYPE>>
  %w = ADD %v, %v : tensor<BLOCKxTYPE>
  %or = tt.addptr %o, %first : !tt.ptr<TYPE>, i32
  %os = tt.splat %or : !tt.ptr<TYPE> -> tensor<BLOCKx!tt.ptr<TYPE>>
  %op = tt.addptr %os, %r : tensor<BLOCKx!tt.ptr<TYPE>>, tensor<BLOCKxi32>
  tt.store %op, %w, %m : tensor<BLOCKx!tt.ptr<TYPE>>
  AGAIN
  tt.return
}
"""
TYPES = {"f32": np.float32, "f64": np.float64, "f16": np.float16, "bf16": ml_dtypes.bfloat16, "i8": np.int8, "i64": np.int64}


@pytest.fixture(autouse=True)
def small_caches(monkeypatch: pytest.MonkeyPatch) -> None:
    target = replace(facts.host_target(), l3_bytes=1)
    monkeypatch.setattr(facts, "host_target", lambda: target)


def at_offset(size: int, dtype: np.dtype, offset: int) -> tuple[np.ndarray, np.ndarray]:
    """An array whose address is `offset` bytes past a cache line, and the bytes around it."""
    around = np.full(size * dtype.itemsize + 2 * GUARD + 64, 0x5A, np.uint8)
    first = (-around.ctypes.data) % 64 + GUARD + offset
    return around[first : first + size * dtype.itemsize].view(dtype), around


@pytest.mark.one_in(6)
@pytest.mark.parametrize("again", ["", "tt.store %op, %w, %m : tensor<BLOCKx!tt.ptr<TYPE>>"], ids=["one pass", "two passes"])
@pytest.mark.parametrize("type_", TYPES)
def test_rows_of_any_alignment_and_length(type_: str, again: str) -> None:
    rng = np.random.default_rng(5)
    dtype = np.dtype(TYPES[type_])
    block = 8192 // dtype.itemsize  # shorter ones that lie in scratch are written to the caches
    text = TEXT.replace("AGAIN", again).replace("TYPE", type_).replace("BLOCK", str(block))
    k = jn.kernel.from_ttir(text.replace("ADD", "arith.addi" if type_[0] == "i" else "arith.addf"))
    for n in (block, 0, 1, 15, 64, 500 // dtype.itemsize, block - 3):
        for stride in (n, n + 3):
            for offset in (16, 0, 64 - dtype.itemsize, 1):
                size = max(1, ROWS * stride)
                x = rng.integers(-60, 60, size).astype(dtype)
                o, around = at_offset(size, dtype, offset)
                expected = around.copy()
                k.launch((ROWS,), x, o, n, stride)
                inside = expected[o.ctypes.data - around.ctypes.data :][: size * dtype.itemsize].view(dtype)
                for row in range(ROWS):
                    here = slice(row * stride, row * stride + n)
                    inside[here] = (x[here] + x[here]).astype(dtype)
                np.testing.assert_array_equal(around, expected, f"n {n}, stride {stride}, offset {offset}")
    assert any("!nontemporal" in lowered.llvm_ir for lowered in k._host.values())


def goes_past(shapes: list[tuple[int, ...]], dtype: str, make: Callable[..., jn.Symbol]) -> bool:
    """Whether a graph's code has stores that bypass the caches, where these hold one byte."""
    graph = jn.Graph("g", inputs=[jn.TensorType(dtype, shape, f"x{number}") for number, shape in enumerate(shapes)])
    graph.output(make(*graph.inputs))
    arrays = [np.random.default_rng(len(shape)).standard_normal(shape).astype(dtype) for shape in shapes]
    assert np.array_equal(jn.compile(graph, device="cpu")(*arrays), jn.evaluate(graph, *arrays))
    backend = HostBackend(replace(host_target(), l3_bytes=1))
    return "!nontemporal" in backend.lower(tile_graph(graph, backend, Options()), Options()).text()


@pytest.mark.parametrize(("columns", "past"), [(2, False), (7, False), (16, True), (64, True)])
def test_rows_shorter_than_a_cache_line_are_written_to_the_caches(columns: int, past: bool) -> None:
    """The rest of the line is another program's: lines that went to memory in parts took ten times as long."""
    shapes = [(columns, 6, 128), (128, 6, columns)]
    assert goes_past(shapes, "float32", lambda x, y: jn.permute(x, (2, 1, 0)) + y) == past


@pytest.mark.parametrize(("columns", "past"), [(74, False), (96, True), (1024, True)])
def test_rows_whose_ends_are_in_lines_of_the_next_one_are_written_to_the_caches(columns: int, past: bool) -> None:
    assert goes_past([(300, columns), (columns,)], "float64", lambda x, y: x * y) == past


@pytest.mark.parametrize("offset", [0, 4, 60])
@pytest.mark.parametrize("axis", range(4))
def test_deep_blocks_start_at_a_whole_vector(axis: int, offset: int) -> None:
    """What varies with digits of the position is known by vectors that start at multiples of their length only."""
    shape = (8, 8, 8, 2)
    t = Text("f32")
    v = t.load("%x", shape)
    v = t.map("arith.addf", v, t.along(t.load("%y", [shape[axis]]), shape, axis))
    v = t.map("arith.addf", v, t.partner(v, 3, "arith.maxnumf"))
    at = t.along(t.range(2), shape, 3)
    for d, step in ((0, 128), (1, 16), (2, 2)):
        part = t.map("arith.muli", t.along(t.range(8), shape, d), t.constant(str(step), shape, "i32"))
        at = t.map("arith.addi", at, part)
    places = t.places("%o", "f32", at)
    t.lines.append(f"tt.store {places}, {v} : {t.type(places)}")
    x, y = np.random.default_rng(0).standard_normal((2, 1024)).astype(np.float32)
    out, around = at_offset(1024, np.dtype(np.float32), offset)
    before = around.copy()
    jn.kernel.from_ttir(t.text()).launch(1, x, y, out, 0)
    cube = x.reshape(shape) + y[np.indices(shape)[axis]]
    assert (out.reshape(shape) == cube + cube.max(3, keepdims=True)).all()
    first = out.ctypes.data - around.ctypes.data
    assert (around[:first] == before[:first]).all()
    assert (around[first + 4096 :] == before[first + 4096 :]).all()


@pytest.mark.parametrize(("columns", "past"), [(64, True), (100, False), (500, False), (2000, True)])
def test_short_rows_of_scratch_that_start_anywhere_are_written_to_the_caches(columns: int, past: bool) -> None:
    """Vectors across two that were just stored wait for these, and those for the line before them: four times the time."""
    assert goes_past([(300, columns)], "float64", lambda x: jn.cumsum(x, axis=0)) == past

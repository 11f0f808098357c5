"""Scratch memory: nothing is written beside what a kernel asked the heap for."""

from __future__ import annotations

import ctypes
from collections.abc import Iterator
from typing import Any

import joinery as jn
import joinery.interface.native.host_program as host_program
import joinery.runtime.host.device as device
import numpy as np
import pytest

from .....support.random_kernels.checks import Checked
from .....support.random_kernels.control import program

LINE, PATTERN = 64, 0xA5
MARGIN = 4096

ROWS = 1 << 18
TEXT = f"""
tt.func public @f(%x: !tt.ptr<i8>, %q: !tt.ptr<i64>, %y: !tt.ptr<i64>) {{
  %r = tt.make_range {{start = 0 : i32, end = {ROWS} : i32}} : tensor<{ROWS}xi32>
  %xs = tt.splat %x : !tt.ptr<i8> -> tensor<{ROWS}x!tt.ptr<i8>>
  %xp = tt.addptr %xs, %r : tensor<{ROWS}x!tt.ptr<i8>>, tensor<{ROWS}xi32>
  %v = tt.load %xp : tensor<{ROWS}x!tt.ptr<i8>>
  %w = arith.extsi %v : tensor<{ROWS}xi8> to tensor<{ROWS}xi64>
  %c = arith.constant dense<3> : tensor<{ROWS}xi64>
  %k = arith.divsi %w, %c : tensor<{ROWS}xi64>
  %d = arith.muli %k, %w : tensor<{ROWS}xi64>
  %qs = tt.splat %q : !tt.ptr<i64> -> tensor<{ROWS}x!tt.ptr<i64>>
  %qp = tt.addptr %qs, %r : tensor<{ROWS}x!tt.ptr<i64>>, tensor<{ROWS}xi32>
  tt.store %qp, %d : tensor<{ROWS}x!tt.ptr<i64>>
  %ys = tt.splat %y : !tt.ptr<i64> -> tensor<{ROWS}x!tt.ptr<i64>>
  %yp = tt.addptr %ys, %r : tensor<{ROWS}x!tt.ptr<i64>>, tensor<{ROWS}xi32>
  tt.store %yp, %k : tensor<{ROWS}x!tt.ptr<i64>>
  tt.return
}}
"""


class GuardedHeap:
    """malloc and free for kernels, with a pattern around every block."""

    def __init__(self) -> None:
        self.blocks: dict[int, np.ndarray[Any, Any]] = {}
        self.given = 0
        self.is_empty = False
        self.damage: list[str] = []
        self.malloc = ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_int64)(self._malloc)
        self.free = ctypes.CFUNCTYPE(None, ctypes.c_void_p)(self._free)

    def _malloc(self, size: int) -> int | None:
        if self.is_empty:
            return None
        raw = np.full(size + 2 * MARGIN + LINE, PATTERN, np.uint8)
        address = raw.ctypes.data + MARGIN + -(raw.ctypes.data + MARGIN) % LINE
        self.blocks[address] = raw
        self.given += 1
        return address

    def _free(self, address: int | None) -> None:
        if address is None:
            return
        raw = self.blocks.pop(address)
        start = address - raw.ctypes.data
        end = start + raw.size - 2 * MARGIN - 2 * LINE  # kernels ask for a line more, to start at one
        before, behind = (int((part != PATTERN).sum()) for part in (raw[:start], raw[end:]))
        if before or behind:
            self.damage.append(f"{before} bytes before, {behind} behind")


@pytest.fixture
def heap(monkeypatch: pytest.MonkeyPatch) -> Iterator[GuardedHeap]:
    guarded, symbols = GuardedHeap(), host_program.library_symbols()
    replaced = {
        name: int(ctypes.cast(getattr(guarded, name), ctypes.c_void_p).value or 0) for name in ("malloc", "free")
    }
    for module in (host_program, device):
        monkeypatch.setattr(module, "library_symbols", lambda: {**symbols, **replaced})
    yield guarded
    assert not guarded.blocks
    assert not guarded.damage


@pytest.mark.parametrize("shift", range(8))
def test_rows_written_in_whole_lines_keep_by_products_inside(heap: GuardedHeap, shift: int) -> None:
    """Stores past the caches start at a line, wherever a row does; what is kept on the way must not follow them."""
    x = np.random.default_rng(0).integers(-128, 128, ROWS).astype(np.int8)
    large = np.empty((64 << 20) // 8, np.int64)  # more than the caches hold, so that stores go past them
    q, y = large[shift:], np.empty(ROWS, np.int64)
    jn.kernel.from_ttir(TEXT).launch(1, x, q, y)
    k = np.trunc(x / 3).astype(np.int64)
    np.testing.assert_array_equal(q[:ROWS], k * x)
    np.testing.assert_array_equal(y, k)
    assert heap.given


def test_random_programs_stay_inside(heap: GuardedHeap) -> None:
    for seed in range(6):
        Checked(program([seed, seed + 100, seed + 200], 1), seed).launched()


@pytest.mark.parametrize("is_empty", [False, True])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_rows_that_graphs_keep_stay_inside(heap: GuardedHeap, dtype: str, is_empty: bool) -> None:
    """Where there is no memory, what is kept lies on the stack."""
    graph = jn.Graph("g", inputs=[jn.TensorType(dtype, ("m", 16_001), "x")])
    parts = [jn.exp(graph.inputs[0] * (0.5 * (number + 1))) for number in range(3)]
    total = jn.sum(parts[0] + parts[1] + parts[2], axis=1, keepdims=True)
    graph.output(*[part / total for part in parts])
    model = jn.compile(graph, "cpu", threads=1, cache=False)
    heap.is_empty = is_empty
    for rows in (1, 5):
        x = np.random.default_rng(rows).standard_normal((rows, 16_001)).astype(dtype)
        wide = [np.exp(x.astype(np.float64) * 0.5 * (number + 1)) for number in range(3)]
        for one, expected in zip(model(x), wide, strict=True):
            np.testing.assert_allclose(one, expected / sum(wide).sum(1, keepdims=True), rtol=2e-5)
    assert bool(heap.given) != is_empty

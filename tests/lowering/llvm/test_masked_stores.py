"""Stores under masks for processors that take long for the instruction, AMD's before AVX-512: nothing else is written."""

from __future__ import annotations

import ctypes
from typing import Any

import numpy as np
import pytest
from joinery.lowering.llvm.ir import Function
from joinery.lowering.llvm.masks.accesses import store_lanes, store_rows
from joinery.lowering.llvm.module import Module
from joinery.lowering.llvm.values import V, i64, int_vector, vector

from ...fuzz.fences import Fence
from ...support.native_code import HASWELL, assembly, compile_and_link, host_has_avx2

AMD = frozenset({"sse2", "avx", "avx2", "fma", "sse4a"})
NUMPY = {"float": np.float32, "double": np.float64, "i32": np.int32, "i64": np.int64}
SHAPES = (("float", 8), ("float", 4), ("double", 4), ("i64", 2), ("float", 16), ("i32", 2))
needs_avx2 = pytest.mark.skipif(not host_has_avx2(), reason="needs an x86-64 CPU with AVX2")


def stored(element: str, n: int, rows: int, known: tuple[bool, ...] | None, features: frozenset[str] = AMD) -> str:
    """Returns a module whose `kernel(target, source, live)` stores rows of n elements, 2n apart, under masks.

    known: the lanes to store; if None, the first `live` ones, by `store_rows` where there are several rows.
    """
    module = Module(features=features)
    f = Function(module, "kernel", (("ptr", "target"), ("ptr", "source"), ("i64", "live")))
    target, source, live = f.params
    type_, size = vector(element, n), np.dtype(NUMPY[element]).itemsize
    first = f.icmp("sgt", f.splat(live, n), f.iota(n, "i64"))
    mask = first if known is None else int_vector([int(each) for each in known], "i1")
    pairs: list[tuple[V, V]] = []
    for row in range(rows):
        value = f.load(type_, f.gep(source, i64(row * n), element), size)
        pairs.append((value, f.gep(target, i64(2 * row * n), element)))
    if known is None and rows > 1:
        store_rows(f, pairs, live, mask)
    else:
        for value, pointer in pairs:
            store_lanes(f, value, pointer, mask, size)
    f.ret()
    module.add(f)
    return module.text()


def run(text: str, element: str, n: int, rows: int, lanes: int, live: int, at_end: bool) -> tuple[Any, Any]:
    """Returns what is in memory afterwards, and what should be; memory ends, or begins, at a page that no access may touch."""
    kernel = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int64)(
        compile_and_link(text, ["kernel"], HASWELL)["kernel"]
    )
    dtype = np.dtype(NUMPY[element])
    length = 2 * (rows - 1) * n + lanes
    fence = Fence(at_end)
    target = fence.copy(np.zeros(length, dtype), dtype.itemsize)
    source = np.arange(1, rows * n + 1).astype(dtype)
    kernel(target.ctypes.data, source.ctypes.data, live)
    assert not fence.damaged()
    return target, source.reshape(rows, n)


@pytest.mark.one_in(4)
@needs_avx2
@pytest.mark.parametrize(("element", "n"), SHAPES)
@pytest.mark.parametrize("rows", [1, 3])
def test_first_lanes(element: str, n: int, rows: int) -> None:
    text = stored(element, n, rows, None)
    for live in range(1, n + 1):
        for at_end in (False, True):
            target, source = run(text, element, n, rows, live, live, at_end)
            expected = np.zeros(2 * rows * n, target.dtype)
            for row in range(rows):
                expected[2 * row * n : 2 * row * n + live] = source[row, :live]
            np.testing.assert_array_equal(target, expected[: len(target)])


@needs_avx2
@pytest.mark.parametrize("known", [
    (True, True, True, False, False, False, False, False), (True,) * 7 + (False,), (True,) * 8, (False,) * 8,
    (False, True, True, False, False, True, False, False),
])  # fmt: skip
def test_known_lanes(known: tuple[bool, ...]) -> None:
    target, source = run(stored("float", 8, 1, known), "float", 8, 1, 8, 0, True)
    np.testing.assert_array_equal(target, np.where(known, source[0], 0))


def test_other_processors_store_by_the_instruction() -> None:
    assert "vmaskmovps" in assembly(stored("float", 8, 2, None, AMD - {"sse4a"}), HASWELL)
    assert "vmaskmovps" not in assembly(stored("float", 8, 2, None), HASWELL)
    assert "vmaskmovps" not in assembly(stored("float", 8, 1, None), HASWELL)

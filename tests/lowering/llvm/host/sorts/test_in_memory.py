"""Lines that are sorted where they lie, against NumPy: before a page that nobody may touch, and after bytes that stay."""

from __future__ import annotations

import ctypes
import functools
from typing import Any

import numpy as np
import pytest
from joinery.lowering.host_stages import compile_object
from joinery.lowering.llvm.compile import host_target
from joinery.lowering.llvm.host.sorts.in_memory import LinesInMemory
from joinery.lowering.llvm.module import module_of
from joinery.runtime.native.linking import link

from .....support.fenced_arrays import Fenced

ELEMENTS = {"i32": np.int32, "i64": np.int64}


@functools.lru_cache
def _linked(function: LinesInMemory) -> Any:
    return link([compile_object(module_of(function), host_target())], (function.name,), {})


@pytest.mark.one_in(4)
@pytest.mark.parametrize("elem", ELEMENTS)
@pytest.mark.parametrize(("width", "feature"), [(0, ""), (32, "avx2"), (64, "avx512f")])
def test_lines_are_in_order_and_nothing_else_is_touched(elem: str, width: int, feature: str) -> None:
    """width: bytes of registers in which lines are partitioned; 0: they are sorted as heaps."""
    if feature and not host_target().has(feature):
        pytest.skip(f"no {feature}")
    function, dtype = LinesInMemory(elem, width, width > 0), ELEMENTS[elem]
    run = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64)(_linked(function)[function.name])
    before = np.full(8, 77, dtype)
    rng = np.random.default_rng(0)
    limits = np.iinfo(dtype)
    for lines in (0, 1, 2, 3, 7, 8, 9, 15, 16, 17, 33):
        for count in (0, 1, 2, 3, 7, 8, 9, 15, 16, 17, 31, 32, 33, 64, 100, 128, 129, 255, 256, 257, 513, 1000):
            many = rng.integers(limits.min, limits.max, (lines, count), dtype, endpoint=True)
            few = rng.integers(-1, 2, (lines, count), dtype)
            for x in (many, few, np.full((lines, count), limits.max, dtype)):
                memory = Fenced(np.concatenate([before, x.reshape(-1)]))
                run(memory.address + before.nbytes, lines, count)
                found = np.frombuffer(ctypes.string_at(memory.address, before.nbytes + x.nbytes), dtype)
                assert np.array_equal(found[:8], before), (lines, count)
                assert np.array_equal(found[8:].reshape(lines, count), np.sort(x, 1)), (lines, count)

"""Runs block functions natively: builder → host lowering → object code → call, with guard bytes around every output."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from joinery.lowering.host_stages import compile_object
from joinery.lowering.llvm.compile import host_target
from joinery.lowering.llvm.host.kernel import lower_kernel
from joinery.lowering.llvm.module import Module
from joinery.lowering.target import HostTarget
from joinery.lowering.tt.facts import state_facts_of_graphs
from joinery.runtime.native.library import library_symbols
from joinery.runtime.native.linking import link

GUARD = 256


AVX2_FEATURES = ("avx", "avx2", "bmi", "bmi2", "f16c", "fma", "lzcnt", "popcnt", "sse4.1", "sse4.2")
AVX2 = HostTarget(host_target().triple, "haswell", frozenset(AVX2_FEATURES), 32)
"""An older x86 target: half the vector width, half the registers. Its code runs on newer machines too."""


class NativeKernel:
    def __init__(self, func: Any, target: HostTarget) -> None:
        module = Module()
        state_facts_of_graphs(func)
        lower_kernel(module, func, "kernel", target)
        self.text = module.text()
        self._code = link([compile_object(self.text, target)], ("kernel",), library_symbols())
        self._run = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64)(
            self._code["kernel"]
        )

    def __call__(self, grid: int, *arguments: np.ndarray | int) -> None:
        """Arrays are passed inside guarded copies; the guards must survive and the contents are copied back."""
        words, guarded = [], []
        for argument in arguments:
            if isinstance(argument, np.ndarray):
                raw = np.full(argument.nbytes + 2 * GUARD, 0xA5, np.uint8)
                raw[GUARD : GUARD + argument.nbytes] = np.frombuffer(argument.tobytes(), np.uint8)
                guarded.append((argument, raw))
                words.append(raw.ctypes.data + GUARD)
            else:
                words.append(argument)
        self._run((ctypes.c_int64 * len(words))(*words), 0, grid)
        for argument, raw in guarded:
            assert (raw[:GUARD] == 0xA5).all(), "bytes before an array were overwritten"
            assert (raw[GUARD + argument.nbytes :] == 0xA5).all(), "bytes after an array were overwritten"
            inside = raw[GUARD : GUARD + argument.nbytes]
            argument[...] = np.frombuffer(inside.tobytes(), argument.dtype).reshape(argument.shape)


@pytest.fixture(params=["host", "avx2"])
def native(request: pytest.FixtureRequest) -> Callable[[Any], NativeKernel]:
    if request.param == "host":
        return lambda func: NativeKernel(func, host_target())
    if not host_target().has("avx2", "fma"):
        pytest.skip("needs an x86 processor with AVX2")
    return lambda func: NativeKernel(func, AVX2)

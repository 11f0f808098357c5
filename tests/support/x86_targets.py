"""Kinds of x86 processors that code is made for in tests, in place of this machine's own."""

from __future__ import annotations

import pytest
from joinery.interface.opening import devices
from joinery.lowering.llvm.compile import host_target
from joinery.lowering.target import HostTarget

AVX2 = ("sse2", "sse3", "sse4.1", "ssse3", "avx", "avx2", "bmi", "bmi2", "f16c", "fma", "lzcnt")
TARGETS = {"avx2": ("haswell", AVX2, 32), "128 bits": ("haswell", AVX2, 16)}


def compile_for(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Makes models for a processor of `TARGETS`, or "own"; skips where this one does not run its code."""
    if name == "own":
        return
    if not host_target().has("avx2", "fma"):
        pytest.skip("needs an x86 processor with AVX2")
    cpu, features, width = TARGETS[name]
    other = HostTarget(host_target().triple, cpu, frozenset(features), width)
    monkeypatch.setattr(devices, "host_target", lambda: other)

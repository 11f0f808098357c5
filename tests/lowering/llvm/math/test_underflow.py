"""Exponentials that are too small to be floats: 0, and no underflow on the way, which takes x86 processors a hundred cycles."""

from __future__ import annotations

import ctypes
import platform

import numpy as np
import pytest
from joinery.lowering.llvm import ir
from joinery.lowering.llvm.compile import host_target
from joinery.lowering.llvm.math.library import emit_math
from joinery.promotion.arrays import Array

from ....support.native_code import HASWELL, MapKernel, compile_and_link, host_has_avx2

pytestmark = pytest.mark.skipif(platform.machine() != "x86_64" or not host_has_avx2(), reason="reads flags of x86 processors")

FLAGS = """
declare void @llvm.x86.sse.stmxcsr(ptr)
declare void @llvm.x86.sse.ldmxcsr(ptr)
define i32 @flags() {
  %at = alloca i32
  call void @llvm.x86.sse.stmxcsr(ptr %at)
  %found = load i32, ptr %at
  ret i32 %found
}
define void @clear() {
  %at = alloca i32
  store i32 8064, ptr %at
  call void @llvm.x86.sse.ldmxcsr(ptr %at)
  ret void
}
"""
UNDERFLOW = 0x10
HOST, OLDER = host_target().features, frozenset({"avx", "avx2", "fma", "sse2"})


@pytest.fixture(scope="module")
def flags() -> tuple[object, object]:
    code = compile_and_link(FLAGS, ["flags", "clear"])
    return ctypes.CFUNCTYPE(ctypes.c_int32)(code["flags"]), ctypes.CFUNCTYPE(None)(code["clear"])


def kernel(name: str, type_: str, lanes: int, features: frozenset[str], not_positive: bool = False) -> MapKernel:
    def emit(f: ir.Function, x: ir.V) -> ir.V:
        f.module.features = features
        return emit_math(f, name, x, not_positive=not_positive)

    return MapKernel(emit, [type_], type_, lanes, HASWELL if features is OLDER else None)


BELOW = np.array([-104.1, -120, -151, -200, -1e4, -1e9, -3e38, -np.inf])
BELOW_DOUBLE = np.array([-1076, -1100, -1e4, -1e9, -1e300, -np.inf])
ABOVE = np.array([0, -1, -0.5, -20, -60, -87])


@pytest.mark.parametrize("features", [HOST, OLDER], ids=["host", "avx2"])
@pytest.mark.parametrize("name", ["exp", "exp2"])
@pytest.mark.parametrize(("type_", "lanes"), [("float", 1), ("float", 8), ("float", 16), ("float", 32), ("double", 8)])
def test_no_underflow_on_the_way_to_zero(flags, name: str, type_: str, lanes: int, features: frozenset[str]) -> None:
    found, clear = flags
    below = BELOW_DOUBLE if type_ == "double" else BELOW[2:] if name == "exp2" else BELOW
    x = np.concatenate([below, ABOVE]).astype(np.float64 if type_ == "double" else np.float32)
    function = kernel(name, type_, lanes, features)
    clear()
    y = function(x)
    assert not found() & UNDERFLOW
    assert not y[: below.size].view(np.int64 if type_ == "double" else np.int32).any()
    np.testing.assert_allclose(y[below.size :], getattr(np, name)(ABOVE), rtol=3e-7)


def test_the_flag_is_seen_where_results_are_denormal(flags) -> None:
    """The witness itself: a float32 that is denormal raises underflow."""
    found, clear = flags
    clear()
    y = kernel("exp", "float", 16, HOST)(np.full(16, -90, np.float32))
    assert found() & UNDERFLOW
    assert (y > 0).all()


def bits(name: str, lanes: int, features: frozenset[str], x: Array, not_positive: bool = False) -> Array:
    return kernel(name, "float", lanes, features, not_positive)(x).view(np.uint32)


@pytest.mark.parametrize("name", ["exp", "exp2", "sigmoid"])
def test_all_lanes_have_the_same_bits(name: str) -> None:
    """By which instructions a power is scaled does not show: denormal results, and the ends, among all bit patterns."""
    every = np.arange(0, 1 << 32, 99991, dtype=np.uint64).astype(np.uint32).view(np.float32)
    ends = np.array([-104, -103.97, -103.28, -87.34, -87.33, -150, -149.5, -126, -127.5], np.float32)
    near = np.concatenate([np.nextafter(ends, np.float32(0)), ends, np.nextafter(ends, np.float32(-np.inf))])
    x = np.concatenate([every[~np.isnan(every)], near])
    expected = bits(name, 16, HOST, x)
    for lanes, features in ((1, HOST), (4, HOST), (32, HOST), (8, OLDER)):
        np.testing.assert_array_equal(bits(name, lanes, features, x), expected)


@pytest.mark.parametrize("name", ["exp", "exp2"])
def test_numbers_that_are_not_positive_have_no_limit_above(name: str) -> None:
    x = -np.abs(np.arange(0, 1 << 32, 99991, dtype=np.uint64).astype(np.uint32).view(np.float32))
    np.testing.assert_array_equal(bits(name, 16, HOST, x, True), bits(name, 16, HOST, x))
    little = np.linspace(0, 1, 99, dtype=np.float32)  # as rounding leaves it
    np.testing.assert_array_equal(bits(name, 16, HOST, little, True), bits(name, 16, HOST, little))

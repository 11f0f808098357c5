"""Callers that flush denormal numbers, or round otherwise: results are the same, and the callers' modes stay what they were."""

from __future__ import annotations

import ctypes
import itertools
import platform
import threading
from collections.abc import Callable
from typing import Any

import joinery as jn
import numpy as np
import pytest
from joinery.runtime.native.codegen import emit_object
from joinery.runtime.native.linking import link

X86 = """
declare void @llvm.x86.sse.ldmxcsr(ptr)
declare void @llvm.x86.sse.stmxcsr(ptr)
define void @set(i64 %modes) {
  %s = alloca i32
  %m = trunc i64 %modes to i32
  store i32 %m, ptr %s
  call void @llvm.x86.sse.ldmxcsr(ptr %s)
  ret void
}
define i64 @get() {
  %s = alloca i32
  call void @llvm.x86.sse.stmxcsr(ptr %s)
  %m = load i32, ptr %s
  %modes = and i32 %m, 65472
  %long = zext i32 %modes to i64
  ret i64 %long
}
"""
ARM = """
declare void @llvm.aarch64.set.fpcr(i64)
declare i64 @llvm.aarch64.get.fpcr()
define void @set(i64 %modes) {
  call void @llvm.aarch64.set.fpcr(i64 %modes)
  ret void
}
define i64 @get() {
  %modes = call i64 @llvm.aarch64.get.fpcr()
  ret i64 %modes
}
"""
# as -ffast-math libraries leave it, and rounding upwards as well
X86_MODES = {"flushes": 0x1F80 | 0x8040, "rounds_up": 0x1F80 | 0x4000, "both": 0x1F80 | 0x8040 | 0x4000}
ARM_MODES = {"flushes": 1 << 24, "rounds_up": 1 << 22, "both": (1 << 24) | (1 << 22)}
MACHINE = platform.machine().lower()
TEXT, MODES = (X86, X86_MODES) if MACHINE in ("x86_64", "amd64") else (ARM, ARM_MODES)
pytestmark = pytest.mark.skipif(MACHINE not in ("x86_64", "amd64", "aarch64", "arm64"), reason="modes of another processor")

fresh = itertools.count(5)  # of a number of threads that nobody has used yet, the pool's workers start at the first call


@pytest.fixture(scope="module")
def within() -> Callable[..., Any]:
    """`within(modes, f)`: what f() gives in a thread in these modes, which must be there still when it is done."""
    code = link([emit_object(TEXT)], ("set", "get"), {})

    def run(modes: str, function: Callable[[], Any]) -> Any:
        set_, get = ctypes.CFUNCTYPE(None, ctypes.c_int64)(code["set"]), ctypes.CFUNCTYPE(ctypes.c_int64)(code["get"])
        found: list[Any] = []

        def work() -> None:
            before = get()
            set_(MODES[modes])
            try:
                result = function()
                found.append((result, get()))
            finally:
                set_(before)

        thread = threading.Thread(target=work)
        thread.start()
        thread.join()
        result, after = found[0]
        assert after == MODES[modes]
        return result

    return run


def numbers(n: int) -> np.ndarray:
    """Denormal numbers and others, whose third is rounded."""
    bits = np.random.default_rng(0).integers(1, 1 << 23, n, np.uint32)
    return np.where(np.arange(n) % 2 == 0, bits.view(np.float32), (bits + (127 << 23)).view(np.float32))


def thirds(x: np.ndarray) -> np.ndarray:
    return x * np.float32(2) / np.float32(3) + np.float32(1e-40)


def graph() -> jn.Graph:
    g = jn.Graph("thirds", inputs=[jn.TensorType("float32", ("n",), name="x")])
    (x,) = g.inputs
    g.output(x * 2.0 / 3.0 + 1e-40)
    return g


def model(threads: int | None = None) -> jn.Model:
    return jn.compile(graph(), "cpu", cache=False, threads=threads)


KERNEL = """
tt.func public @thirds(%x: !tt.ptr<f32>, %o: !tt.ptr<f32>, %s: f32) {
  %two = arith.constant dense<2.0> : tensor<256xf32>
  %three = arith.constant dense<3.0> : tensor<256xf32>
  %id = tt.get_program_id x : i32
  %size = arith.constant 256 : i32
  %start = arith.muli %id, %size : i32
  %r = tt.make_range {start = 0 : i32, end = 256 : i32} : tensor<256xi32>
  %from = tt.splat %start : i32 -> tensor<256xi32>
  %at = arith.addi %from, %r : tensor<256xi32>
  %xb = tt.splat %x : !tt.ptr<f32> -> tensor<256x!tt.ptr<f32>>
  %ob = tt.splat %o : !tt.ptr<f32> -> tensor<256x!tt.ptr<f32>>
  %xp = tt.addptr %xb, %at : tensor<256x!tt.ptr<f32>>, tensor<256xi32>
  %op = tt.addptr %ob, %at : tensor<256x!tt.ptr<f32>>, tensor<256xi32>
  %v = tt.load %xp : tensor<256x!tt.ptr<f32>>
  %d = arith.mulf %v, %two : tensor<256xf32>
  %q = arith.divf %d, %three : tensor<256xf32>
  %small = tt.splat %s : f32 -> tensor<256xf32>
  %y = arith.addf %q, %small : tensor<256xf32>
  tt.store %op, %y : tensor<256x!tt.ptr<f32>>
  tt.return
}
"""


@pytest.mark.parametrize("modes", MODES)
@pytest.mark.parametrize("size", [5, 1 << 18])
def test_calls_of_models(within, modes: str, size: int) -> None:
    x = numbers(size)
    expected = thirds(x)
    ours = model()
    bound = ours.bind(x)
    for way in (lambda: ours(x), lambda: ours(x=x), lambda: ours(np.repeat(x, 2)[::2]), bound):
        assert np.array_equal(within(modes, way), expected)


@pytest.mark.parametrize("modes", MODES)
def test_workers_that_such_a_caller_starts(within, modes: str) -> None:
    x = numbers(1 << 18)
    ours = model(threads=next(fresh))
    assert np.array_equal(within(modes, lambda: ours(x)), thirds(x))
    for _ in range(20):
        assert np.array_equal(ours(x), thirds(x))


@pytest.mark.parametrize("modes", MODES)
@pytest.mark.parametrize("programs", [1, 64])
def test_launches_of_kernels(within, modes: str, programs: int) -> None:
    kernel = jn.kernel.from_ttir(KERNEL)
    x = numbers(256 * programs)
    out = np.zeros((4, x.size), np.float32)
    within(modes, lambda: kernel.launch(programs, x, out[0], 1e-40, threads=1))
    within(modes, lambda: kernel.launch(programs, x, out[1], 1e-40, threads=next(fresh)))
    within(modes, lambda: kernel.interpret(programs, x, out[2], 1e-40))
    out[3] = out[2]
    if programs == 1:
        within(modes, lambda: kernel.launch(1, x, out[3], 1e-40, device="ptxsim"))
    assert (out == thirds(x)).all()


def test_what_is_compiled_in_such_a_thread(within) -> None:
    """Constants are those of the graph and of the text, for all who call the code later."""
    x = numbers(100)
    g = graph()
    assert np.array_equal(within("both", lambda: jn.compile(g, "cpu", cache=False))(x), thirds(x))
    assert np.array_equal(within("both", lambda: jn.compile(g, "ptxsim", cache=False)(x)), thirds(x))
    text = KERNEL.replace("tt.splat %s : f32 -> ", "arith.constant dense<1.0e-40> : ")
    x, out = numbers(256), np.zeros(256, np.float32)
    within("both", lambda: jn.kernel.from_ttir(text)).launch(1, x, out, 0.0)
    assert np.array_equal(out, thirds(x))

"""Whole programs on simulated GPUs, the interpreter of the dialect as witness: memory afterwards, and no race on the way."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import joinery as jn
import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from joinery.lowering.llvm.nvptx.targets import gpu_target

from ....support.random_kernels.checks import Checked
from ....support.random_kernels.control import program

SEEDS = st.lists(st.integers(0, 2**30), min_size=1, max_size=8)


def simulated(checked: Checked, target: str) -> None:
    """Under the strictest checks of the simulator: bounds, undefined values, races."""
    checked._same(
        target,
        lambda *args: checked.kernel.launch(checked.program.grid, *args, device="ptxsim", target=target, sanitize=True),
    )


@pytest.mark.slow
@settings(max_examples=20, suppress_health_check=list(HealthCheck))
@given(SEEDS, st.integers(0, 2**30), st.sampled_from(["sm_80", "sm_90a"]))
def test_random_programs(seeds: list[int], memory: int, target: str) -> None:
    simulated(Checked(program(seeds), memory), target)


@pytest.mark.one_in(2)
@pytest.mark.parametrize("target", ["sm_80", "sm_90a"])
def test_arguments_of_blocks_may_take_blocks_to_compute(target: str) -> None:
    """One that goes through shared memory on its way to the argument's layout ends in another block than it began in."""
    simulated(Checked(program([1529, 8, 20659, 302]), 0), target)


@pytest.mark.slow
@settings(max_examples=300, suppress_health_check=list(HealthCheck))
@given(SEEDS, st.sampled_from([0, 0, 0, 1]), st.integers(0, 2**30), st.sampled_from(["sm_80", "sm_86", "sm_89", "sm_90a"]))
def test_many_random_programs(seeds: list[int], size: int, memory: int, target: str) -> None:
    simulated(Checked(program(seeds, size), memory), target)


def both(text: str, grid: Any, *args: Any, target: str = "sm_80") -> list[Any]:
    """The interpreter and the simulator leave the same memory; what that is."""
    kernel = jn.kernel.from_ttir(text)
    runs: list[Callable[..., object]] = [
        lambda *own: kernel.interpret(grid, *own),
        lambda *own: kernel.launch(grid, *own, device="ptxsim", target=target, sanitize=True),
    ]
    results = []
    for run in runs:
        own = [arg.copy() if isinstance(arg, np.ndarray) else arg for arg in args]
        run(*own)
        results.append(own)
    for one, two in zip(*results, strict=True):
        if isinstance(one, np.ndarray):
            np.testing.assert_array_equal(two, one)
    return results[1]


def test_a_program_that_writes_and_reads_back() -> None:
    """Other threads read what one wrote: the program waits in between. Without the barrier the simulator reports a race."""
    text = """
tt.func @f(%p: !tt.ptr<i32> {tt.divisibility = 16 : i32}) {
  %r = tt.make_range {start = 0 : i32, end = 256 : i32} : tensor<256xi32>
  %ps = tt.splat %p : !tt.ptr<i32> -> tensor<256x!tt.ptr<i32>>
  %at = tt.addptr %ps, %r : tensor<256x!tt.ptr<i32>>, tensor<256xi32>
  tt.store %at, %r : tensor<256x!tt.ptr<i32>>
  %last = arith.constant dense<255> : tensor<256xi32>
  %back = arith.subi %last, %r : tensor<256xi32>
  %from = tt.addptr %ps, %back : tensor<256x!tt.ptr<i32>>, tensor<256xi32>
  %v = tt.load %from : tensor<256x!tt.ptr<i32>>
  tt.store %at, %v : tensor<256x!tt.ptr<i32>>
  tt.return
}
"""
    (p,) = both(text, 1, np.zeros(256, np.int32))
    np.testing.assert_array_equal(p, np.arange(255, -1, -1))
    ptx = jn.kernel.from_ttir(text).ptx()
    assert ptx.count("bar.sync") == 2


def test_memory_that_nobody_else_touches_needs_no_barrier() -> None:
    text = """
tt.func @f(%p: !tt.ptr<f32> {tt.divisibility = 16 : i32}, %q: !tt.ptr<f32> {tt.divisibility = 16 : i32}) {
  %r = tt.make_range {start = 0 : i32, end = 512 : i32} : tensor<512xi32>
  %ps = tt.splat %p : !tt.ptr<f32> -> tensor<512x!tt.ptr<f32>>
  %pa = tt.addptr %ps, %r : tensor<512x!tt.ptr<f32>>, tensor<512xi32>
  %qs = tt.splat %q : !tt.ptr<f32> -> tensor<512x!tt.ptr<f32>>
  %qa = tt.addptr %qs, %r : tensor<512x!tt.ptr<f32>>, tensor<512xi32>
  %v = tt.load %pa : tensor<512x!tt.ptr<f32>>
  %w = arith.addf %v, %v : tensor<512xf32>
  tt.store %pa, %w : tensor<512x!tt.ptr<f32>>
  tt.store %qa, %w : tensor<512x!tt.ptr<f32>>
  tt.return
}
"""
    x = np.arange(512, dtype=np.float32)
    p, q = both(text, 1, x, np.zeros_like(x))
    np.testing.assert_array_equal(p, 2 * x)
    np.testing.assert_array_equal(q, 2 * x)
    ptx = jn.kernel.from_ttir(text).ptx()
    assert "bar.sync" not in ptx
    assert ptx.count("ld.global.v4") == 1
    assert ptx.count("st.global.v4") == 2


ROWS = """
tt.func @f(%x: !tt.ptr<f32> {tt.divisibility = 16 : i32}, %o: !tt.ptr<f32> {tt.divisibility = 16 : i32}, %n: i32) {
  %row = tt.get_program_id x : i32
  %r = tt.make_range {start = 0 : i32, end = BLOCK : i32} : tensor<BLOCKxi32>
  %limit = tt.splat %n : i32 -> tensor<BLOCKxi32>
  %m = arith.cmpi slt, %r, %limit : tensor<BLOCKxi32>
  %first = arith.muli %row, %n : i32
  %xr = tt.addptr %x, %first : !tt.ptr<f32>, i32
  %xs = tt.splat %xr : !tt.ptr<f32> -> tensor<BLOCKx!tt.ptr<f32>>
  %xp = tt.addptr %xs, %r : tensor<BLOCKx!tt.ptr<f32>>, tensor<BLOCKxi32>
  %lowest = arith.constant dense<0xFF800000> : tensor<BLOCKxf32>
  %v = tt.load %xp, %m, %lowest : tensor<BLOCKx!tt.ptr<f32>>
  %most = "tt.reduce"(%v) <{axis = 0 : i32}> ({
  ^bb0(%a: f32, %b: f32):
    %c = arith.maxnumf %a, %b : f32
    tt.reduce.return %c : f32
  }) : (tensor<BLOCKxf32>) -> f32
  %op = tt.addptr %o, %row : !tt.ptr<f32>, i32
  tt.store %op, %most : !tt.ptr<f32>
  tt.return
}
"""


@pytest.mark.one_in(8)
@pytest.mark.parametrize("block", [1, 2, 32, 64, 128, 512, 4096])
def test_reductions_of_every_size(block: int) -> None:
    """Blocks of fewer elements than there are threads lie in several copies, which must not count twice or be written twice."""
    rng = np.random.default_rng(block)
    for n in {1, block // 2 or 1, block - 1 or 1, block}:
        x = rng.standard_normal(3 * n).astype(np.float32)
        _, out, _ = both(ROWS.replace("BLOCK", str(block)), 3, x, np.zeros(3, np.float32), n)
        np.testing.assert_array_equal(out, x.reshape(3, n).max(axis=1))


def test_code_is_the_same_every_time() -> None:
    text = ROWS.replace("BLOCK", "1024")
    assert jn.kernel.from_ttir(text).ptx("sm_90a") == jn.kernel.from_ttir(text).ptx("sm_90a")


@pytest.mark.parametrize(
    ("name", "hint"),
    [
        ("sm_87", "; its GPUs run the code for 'sm_86'."), ("sm_103a", "; its GPUs run the code for 'sm_89'."),
        ("sm_90", "; did you mean 'sm_90a'?"), ("sm90a", "; did you mean 'sm_90a'?"),
        ("sm_75", "; its GPUs are older than all there is code for."), ("sm_999", "; did you mean 'sm_89'?"), ("H100", "."),
    ],
)  # fmt: skip
def test_what_to_take_for_other_targets(name: str, hint: str) -> None:
    with pytest.raises(jn.UserError, match=re.escape(f"no GPU target {name!r}{hint} Targets: sm_80")):
        gpu_target(name)


def test_what_is_refused() -> None:
    kernel = jn.kernel.from_ttir(ROWS.replace("BLOCK", "64"))
    with pytest.raises(jn.UserError, match=r"no GPU target 'sm_81'; its GPUs run the code for 'sm_80'\. Targets: sm_80, sm_86"):
        kernel.ptx("sm_81")
    x = np.zeros(64, np.float32)
    with pytest.raises(jn.UserError, match="takes 3 arguments, got 2"):
        kernel.launch(1, x, x, device="ptxsim")
    with pytest.raises(jn.UserError, match="byte 256 of argument 0"):  # the second row of an array of one
        kernel.launch(2, x, np.zeros(2, np.float32), 64, device="ptxsim")


def test_more_shared_memory_than_there_is() -> None:
    text = """
tt.func @f(%p: !tt.ptr<f32>, %q: !tt.ptr<f32>) {
  %r = tt.make_range {start = 0 : i32, end = 65536 : i32} : tensor<65536xi32>
  %ps = tt.splat %p : !tt.ptr<f32> -> tensor<65536x!tt.ptr<f32>>
  %pa = tt.addptr %ps, %r : tensor<65536x!tt.ptr<f32>>, tensor<65536xi32>
  %v = tt.load %pa : tensor<65536x!tt.ptr<f32>>
  %i = arith.fptosi %v : tensor<65536xf32> to tensor<65536xi32>
  %g = tt.gather %v[%i] {axis = 0 : i32} : (tensor<65536xf32>, tensor<65536xi32>) -> tensor<65536xf32>
  %qs = tt.splat %q : !tt.ptr<f32> -> tensor<65536x!tt.ptr<f32>>
  %qa = tt.addptr %qs, %r : tensor<65536x!tt.ptr<f32>>, tensor<65536xi32>
  tt.store %qa, %g : tensor<65536x!tt.ptr<f32>>
  tt.return
}
"""
    with pytest.raises(jn.UnsupportedError, match=r"@f needs 262144 bytes of shared memory, sm_80 has 166912"):
        jn.kernel.from_ttir(text).llvm_ir("sm_80")

"""What inline assembly tells the compiler, and the assembler."""

from __future__ import annotations

import functools
import re
from pathlib import Path

import joinery as jn
import numpy as np
import pytest

ROOT = Path(__file__).resolve().parents[4]
MORE = ("spin_lock_rows", "moe_align", "cross_entropy_two_pass")
TEXTS = (
    *sorted((ROOT / "benchmarks" / "kernels").glob("gpu_*.ttir")),
    *(ROOT / "tests" / "data" / "ttir_numpy" / f"{name}.ttir" for name in MORE),
)
_TOUCHES_MEMORY = re.compile(r"\b(?:ld|st|atom|red|cp|mbarrier)\.")
_ASM = re.compile(r' asm (sideeffect )?"([^"]*)", "([^"]*)"')


@functools.cache
def code(path: Path, target: str) -> tuple[str, str]:
    found = jn.kernel.from_ttir(path).gpu_code(target, multiples=True, bounded=True)
    return found.lowered.llvm_ir, found.ptx


@pytest.mark.one_in(6)
@pytest.mark.parametrize("target", ["sm_80", "sm_90a"])
@pytest.mark.parametrize("path", TEXTS, ids=lambda path: path.stem)
def test_assembly_says_that_it_touches_memory(path: Path, target: str) -> None:
    """Without a clobber it is arithmetic to the instruction selector and to what comes behind it, free to pass a store."""
    llvm, ptx = code(path, target)
    for side, text, constraints in _ASM.findall(llvm):
        if _TOUCHES_MEMORY.search(text):
            assert "~{memory}" in constraints.split(","), text
            assert side or not re.search(r"\b(?:st|red|mbarrier)\.", text), text
    assert not re.findall(r"@!?%?\w+\s+bra\.uni", ptx)  # a predicate is each thread's own


MASKED = """tt.func @f(%p: !tt.ptr<f32> {tt.divisibility = 16 : i32}, %o: !tt.ptr<f32> {tt.divisibility = 16 : i32}, %n: i32) {
  %r = tt.make_range {start = 0 : i32, end = 128 : i32} : tensor<128xi32>
  %ns = tt.splat %n : i32 -> tensor<128xi32>
  %m = arith.cmpi slt, %r, %ns : tensor<128xi32>
  %other = arith.constant dense<-1.0> : tensor<128xf32>
  %seven = arith.constant dense<7.0> : tensor<128xf32>
  %ps = tt.splat %p : !tt.ptr<f32> -> tensor<128x!tt.ptr<f32>>
  %pp = tt.addptr %ps, %r : tensor<128x!tt.ptr<f32>>, tensor<128xi32>
  %os = tt.splat %o : !tt.ptr<f32> -> tensor<128x!tt.ptr<f32>>
  %op = tt.addptr %os, %r : tensor<128x!tt.ptr<f32>>, tensor<128xi32>
  %v = tt.load %pp, %m, %other : tensor<128x!tt.ptr<f32>>
  tt.store %pp, %seven : tensor<128x!tt.ptr<f32>>
  %w = tt.load %pp, %m, %other : tensor<128x!tt.ptr<f32>>
  %zero = arith.constant 0 : i32
  %some = arith.cmpi sgt, %n, %zero : i32
  scf.if %some {
    %sum = arith.addf %v, %w : tensor<128xf32>
    tt.store %op, %sum : tensor<128x!tt.ptr<f32>>
  }
  tt.return
}"""


@pytest.mark.parametrize("warps", [1, 4])
def test_masked_loads_before_and_after_a_store_to_their_place(warps: int) -> None:
    """Used only where a branch is taken, behind the store."""
    kernel = jn.kernel.from_ttir(MASKED)
    for side, text, constraints in _ASM.findall(kernel.gpu_code("sm_80", warps).lowered.llvm_ir):
        assert "~{memory}" in constraints or not _TOUCHES_MEMORY.search(text), (side, text)
    p, o = np.arange(128, dtype=np.float32), np.zeros(128, np.float32)
    kernel.launch(1, p, o, 100, device="ptxsim", warps=warps, sanitize=True)
    np.testing.assert_array_equal(o, np.where(np.arange(128) < 100, np.arange(128) + 7, -2))

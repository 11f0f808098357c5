"""Masks of the sign, or of the lowest bit, of few lanes: LLVM 22 may not see `vpmov*2m`, which it folds into an instruction
that reads another register where the lanes lie in registers 16 to 31."""

from __future__ import annotations

import re

import llvmlite.binding as llvm
import pytest
from joinery.lowering.llvm.compile import compile_assembly
from joinery.lowering.llvm.ir import Function
from joinery.lowering.llvm.masks.signs import compared, lowest_bit
from joinery.lowering.llvm.module import Module
from joinery.lowering.llvm.values import const, i32
from joinery.lowering.target import HostTarget

AVX512 = ("avx", "avx2", "avx512bw", "avx512dq", "avx512f", "avx512vl", "bmi", "bmi2", "fma")
HIGH = re.compile(r"movmsk\w*\s+%[xy]mm(1[6-9]|2|3[01])")
SIGNS = [
    (predicate, number, left)
    for predicate, swapped, number in (("slt", "sgt", 0), ("sge", "sle", 0), ("sgt", "slt", -1), ("sle", "sge", -1))
    for predicate, left in ((predicate, False), (swapped, True))
]


def assembly(elem: str, lanes: int, test: tuple[str, int, bool] | None, inverted: bool, masked: str) -> str:
    """A store to scattered places where a bit of each lane says so; the lanes have to lie in registers above 15."""
    module = Module(features=frozenset(AVX512))
    f = Function(module, "f", [("ptr", "p"), (f"<{lanes} x ptr>", "places")])
    x = f.load(f"<{lanes} x {elem}>", f.params[0])
    f.emit(f'call void asm sideeffect "", "{",".join(f"~{{xmm{i}}}" for i in range(16))}"()')
    if test is None:
        mask = lowest_bit(f, x)
    else:
        predicate, number, left = test
        y = const(number, x.type)
        mask = compared(f, predicate, *((y, x) if left else (x, y)))
    if inverted:
        mask = f.binary("xor", mask, const(1, mask.type))
    data = const(1, f"<{lanes} x {masked}>")
    name = f"llvm.masked.scatter.v{lanes}{'f32' if masked == 'float' else masked}.v{lanes}p0"
    module.declare(name, "void", [data.type, f"<{lanes} x ptr>", "i32", mask.type])
    f.call(name, "void", [data, f.params[1], i32(1), mask])
    f.ret()
    module.add(f)
    target = HostTarget("x86_64-unknown-linux-gnu", "skylake-avx512", frozenset(AVX512), 64, 32 << 10, 1 << 20, 32 << 20)
    return compile_assembly(module.text(), target)


@pytest.fixture(autouse=True)
def x86() -> None:
    llvm.initialize_all_targets()
    llvm.initialize_all_asmprinters()
    try:
        llvm.Target.from_triple("x86_64-unknown-linux-gnu")
    except RuntimeError:
        pytest.skip("this LLVM makes no code for x86")


@pytest.mark.one_in(2)
@pytest.mark.parametrize("inverted", [False, True])
@pytest.mark.parametrize("test", [None, *SIGNS])
def test_no_mask_is_read_from_a_register_that_has_no_encoding(test: tuple[str, int, bool] | None, inverted: bool) -> None:
    for elem, counts in (("i8", (2, 4)), ("i16", (4,)), ("i32", (2, 4, 8)), ("i64", (2, 4))):
        for lanes in counts:
            text = assembly(elem, lanes, test, inverted, "i8")
            assert not HIGH.search(text), (elem, lanes, text)

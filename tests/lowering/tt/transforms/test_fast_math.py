"""Fast-math flags of the block IR: which operations get them, what is fused, and that nothing loses or invents them."""

from __future__ import annotations

import re
from pathlib import Path

import joinery as jn
import pytest
from joinery.lowering.frontends.ttir.text import parse
from joinery.lowering.tt.interpret.machine import find_function
from joinery.lowering.tt.printing import print_module
from joinery.lowering.tt.transforms.pipeline import pipeline_of

KERNELS = Path(jn.__file__).parent / "benchmarks" / "kernels"


def text(body: str, elem: str = "f32") -> str:
    """%a, %b, %c: blocks; %y is stored."""
    pointers, block = f"tensor<64x!tt.ptr<{elem}>>", f"tensor<64x{elem}>"
    loads = "\n".join(f"  %{name} = tt.load %p{name} : {pointers}" for name in "abc")
    at = "\n".join(
        f"  %s{name} = tt.splat %{name}0 : !tt.ptr<{elem}> -> {pointers}\n"
        f"  %p{name} = tt.addptr %s{name}, %r : {pointers}, tensor<64xi32>"
        for name in "abco"
    )
    arguments = ", ".join(f"%{name}0: !tt.ptr<{elem}>" for name in "abco")
    return f"""
tt.func public @f({arguments}) {{
  %r = tt.make_range {{start = 0 : i32, end = 64 : i32}} : tensor<64xi32>
{at}
{loads}
  {body.replace("BLOCK", block)}
  tt.store %po, %y : {pointers}
  tt.return
}}
"""


def after(source: str, name: str | None = None, numerics: str = "strict") -> str:
    function = find_function(parse(source, "<test>"), None)
    pipeline = pipeline_of("host", numerics)
    (pipeline if name is None else pipeline.through(name)).run(function)
    return print_module(function)


SUM = "%m = arith.mulf %a, %b : BLOCK\n  %y = arith.addf %m, %c : BLOCK"


def test_strict_text_gets_no_flag() -> None:
    body = f"{SUM.replace('%y', '%s')}\n  %e = math.exp %s : BLOCK\n  %y = arith.divf %e, %a : BLOCK"
    for each in pipeline_of("host").names:
        assert "fastmath" not in after(text(body), each)


def test_fast_puts_flags_on_arithmetic_and_functions_only() -> None:
    body = """%m = arith.mulf %a, %b : BLOCK
  %s = arith.subf %m, %a : BLOCK
  %d = arith.divf %s, %b : BLOCK
  %e = math.exp %d : BLOCK
  %n = arith.negf %e : BLOCK
  %x = arith.maximumf %n, %c : BLOCK
  %t = arith.cmpf olt, %x, %a : BLOCK
  %y = arith.select %t, %x, %a : tensor<64xi1>, BLOCK"""
    lines = after(text(body), "fast-math", "fast").splitlines()
    flagged = [re.search(r"(arith|math)\.\w+", line) for line in lines if "fastmath<arcp,contract,afn>" in line]
    assert [found[0] for found in flagged if found] == ["arith.mulf", "arith.subf", "arith.divf", "math.exp"]


def test_flags_that_are_there_stay() -> None:
    kept = after(text("%y = arith.addf %a, %b fastmath<nnan,nsz> : BLOCK"), "fast-math", "fast")
    assert "fastmath<nnan,nsz,arcp,contract,afn>" in kept


def test_what_expansions_write_has_no_flags() -> None:
    """PTX says itself what it rounds."""
    body = (
        '%y = tt.elementwise_inline_asm "{ .reg .f32 t; mul.rn.f32 t, $1, $1; add.rn.f32 $0, t, $1; }" '
        '{constraints = "=f,f", packed_element = 1 : i32, pure = true} %a : BLOCK -> BLOCK'
    )
    expanded = after(text(body), numerics="fast")
    assert "arith.mulf" in expanded
    assert "fastmath" not in expanded


@pytest.mark.parametrize("numerics", ["strict", "fast"])
@pytest.mark.parametrize("spelling", ["3.9", "seed"])
def test_flags_survive_reading_and_printing(numerics: str, spelling: str) -> None:
    body = (
        "%m = arith.mulf %a, %b fastmath<contract> : BLOCK\n  %n = arith.mulf %a, %b : BLOCK\n"
        "  %e = math.exp %m fastmath<afn> : BLOCK\n  %d = arith.divf %e, %n fastmath<arcp,contract> : BLOCK\n"
        "  %y = arith.addf %d, %m fastmath<fast> : BLOCK"
    )
    once = print_module(parse(text(body), "<test>"), spelling=spelling)
    assert print_module(parse(once, "<test>"), spelling=spelling) == once
    assert re.findall(r"fastmath<[a-z,]*>", once) == [
        "fastmath<contract>", "fastmath<afn>", "fastmath<arcp,contract>", "fastmath<fast>",
    ]  # fmt: skip
    kept = after(text(body), "licm", numerics)
    assert "math.exp" in kept
    assert ("math.exp %m fastmath<afn>" in kept) is (numerics == "strict")


def test_equal_operations_with_other_flags_stay_apart() -> None:
    body = (
        "%m = math.exp %a fastmath<afn> : BLOCK\n  %n = math.exp %a : BLOCK\n  %k = math.exp %a fastmath<afn> : BLOCK\n"
        "  %s = arith.addf %m, %n : BLOCK\n  %y = arith.addf %s, %k : BLOCK"
    )
    kept = after(text(body))
    assert len(re.findall(r"math\.exp .* fastmath<afn>", kept)) == 1
    assert len(re.findall(r"math\.exp %\w+ :", kept)) == 1


@pytest.mark.parametrize(
    ("body", "fused"),
    [
        (SUM, "math.fma %a, %b, %c"),
        ("%m = arith.mulf %a, %b : BLOCK\n  %y = arith.addf %c, %m : BLOCK", "math.fma %a, %b, %c"),
        ("%m = arith.mulf %a, %b : BLOCK\n  %y = arith.subf %m, %c : BLOCK", r"negf %c .*\n.*math.fma %a, %b, %\w+ "),
        ("%m = arith.mulf %a, %b : BLOCK\n  %y = arith.subf %c, %m : BLOCK", r"negf %a .*\n.*math.fma %\w+, %b, %c"),
    ],
)
def test_products_are_fused_with_sums(body: str, fused: str) -> None:
    kept = after(text(body), numerics="fast")
    assert re.search(fused, kept), kept
    assert not re.search(r"arith\.(mulf|addf|subf)", kept)
    assert "math.fma" not in after(text(body))


@pytest.mark.parametrize("flags", [("contract", "none"), ("none", "contract"), ("afn", "afn"), ("nnan", "reassoc")])
def test_both_have_to_say_contract(flags: tuple[str, str]) -> None:
    body = f"%m = arith.mulf %a, %b fastmath<{flags[0]}> : BLOCK\n  %y = arith.addf %m, %c fastmath<{flags[1]}> : BLOCK"
    assert "math.fma" not in after(text(body))


def test_flags_of_the_text_are_enough() -> None:
    body = "%m = arith.mulf %a, %b fastmath<contract> : BLOCK\n  %y = arith.addf %m, %c fastmath<fast> : BLOCK"
    assert "math.fma" in after(text(body))


UNFUSED = {
    "a difference of one product with itself": "%m = arith.mulf %a, %b : BLOCK\n  %y = arith.subf %m, %m : BLOCK",
    "a product that is used elsewhere": (
        "%m = arith.mulf %a, %b : BLOCK\n  %x = arith.maxnumf %m, %c : BLOCK\n  %s = arith.subf %m, %x : BLOCK\n"
        "  %y = arith.maxnumf %s, %x : BLOCK"
    ),
    "what an exponential takes": (
        "%m = arith.mulf %a, %b : BLOCK\n  %n = arith.mulf %a, %c : BLOCK\n  %s = arith.subf %m, %n : BLOCK\n"
        "  %y = math.exp %s : BLOCK"
    ),
    "what an exponential takes after scaling": (
        "%m = arith.mulf %a, %b : BLOCK\n  %s = arith.addf %m, %c : BLOCK\n  %u = arith.mulf %s, %a : BLOCK\n"
        "  %y = math.exp2 %u : BLOCK"
    ),
}


@pytest.mark.parametrize("why", sorted(UNFUSED))
def test_these_are_not_fused(why: str) -> None:
    kept = after(text(UNFUSED[why]), numerics="fast")
    assert "math.fma" not in kept
    assert not re.search(r"arith\.(addf|subf) .*contract", kept)  # so that LLVM does not either


def test_a_product_in_two_sums_disappears() -> None:
    body = (
        "%m = arith.mulf %a, %b : BLOCK\n  %s = arith.addf %m, %c : BLOCK\n  %t = arith.subf %m, %c : BLOCK\n"
        "  %y = arith.maxnumf %s, %t : BLOCK"
    )
    kept = after(text(body), numerics="fast")
    assert kept.count("math.fma") == 2
    assert "arith.mulf" not in kept


def test_sums_of_reductions_may_still_be_fused_by_the_back_end() -> None:
    body = """%m = arith.mulf %a, %b : BLOCK
  %sum = "tt.reduce"(%m) <{axis = 0 : i32}> ({
  ^bb0(%x0: f32, %x1: f32):
    %x2 = arith.addf %x0, %x1 : f32
    tt.reduce.return %x2 : f32
  }) : (BLOCK) -> f32
  %y = tt.splat %sum : f32 -> BLOCK"""
    kept = after(text(body), numerics="fast")
    assert re.search(r"arith\.addf .*contract", kept)
    k = jn.kernel.from_ttir(text(body), numerics="fast")
    assert "fma.rn.f32" in k.ptx("sm_80")
    assert re.search(r"vfn?madd", k.asm()) or "fmla" in k.asm()
    strict = jn.kernel.from_ttir(text(body))
    assert "fma.rn.f32" not in strict.ptx("sm_80")
    assert not re.search(r"\bcontract\b|\bafn\b|\barcp\b", strict.llvm_ir() + strict.llvm_ir("sm_80"))


def test_a_reduction_that_exponentiates_keeps_its_differences() -> None:
    body = """%m = arith.mulf %a, %b : BLOCK
  %t, %s = "tt.reduce"(%m, %c) <{axis = 0 : i32}> ({
  ^bb0(%x0: f32, %s0: f32, %x1: f32, %s1: f32):
    %x2 = arith.maxnumf %x0, %x1 : f32
    %d0 = arith.subf %x0, %x2 : f32
    %d1 = arith.subf %x1, %x2 : f32
    %e0 = math.exp %d0 : f32
    %e1 = math.exp %d1 : f32
    %f0 = arith.mulf %s0, %e0 : f32
    %f1 = arith.mulf %s1, %e1 : f32
    %s2 = arith.addf %f0, %f1 : f32
    tt.reduce.return %x2, %s2 : f32, f32
  }) : (BLOCK, BLOCK) -> (f32, f32)
  %y = tt.splat %s : f32 -> BLOCK"""
    kept = after(text(body), numerics="fast")
    assert not re.search(r"arith\.subf .*contract", kept)
    assert kept.count("math.fma") == 1


@pytest.mark.parametrize("elem", ["f16", "bf16"])
def test_16_bit_products_are_fused_two_at_a_time(elem: str) -> None:
    ptx = jn.kernel.from_ttir(text(SUM, elem), numerics="fast").gpu_code("sm_80", 1).ptx
    assert f"fma.rn.{elem}x2" in ptx
    assert not re.search(r"\b(mul|add)\.(rn\.)?(f32|f16)", ptx)


@pytest.mark.one_in(8)
@pytest.mark.parametrize("path", sorted(KERNELS.glob("*.ttir")), ids=lambda path: path.stem)
def test_strict_code_of_kernels_has_no_flag_and_fuses_nothing(path: Path) -> None:
    k = jn.kernel.from_ttir(path)
    for target in ("host", "sm_80"):
        code = k.llvm_ir(target)
        assert not re.search(r"\b(contract|afn|arcp|reassoc|nnan|ninf|nsz|fast)\b", code)
        assert not re.search(r"lg2\.approx|\bsqrt\.approx|div\.(full|approx)", code)
        assert ("rcp.approx" in code) == (target != "host" and "joinery.in_range" in k.ttir_after("licm"))
        flushing = code.count("call float @llvm.nvvm.ex2.approx.ftz") - code.count("fma.rn.sat.f32")  # exp, reduced, and
        assert (flushing > 0) == (target != "host" and "joinery.weight" in k.ttir_after("licm"))  # weights of a softmax
    assert k.numerics == "strict"

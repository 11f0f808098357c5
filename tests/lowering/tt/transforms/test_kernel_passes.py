"""Pipelines as kernels are asked for them: of GPUs, whatever becomes of the kernel, and those that leave something over."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import joinery as jn
import numpy as np
import pytest
from joinery.interface import gpu_code
from joinery.interface.cli.main import main
from joinery.lowering.tt.dialect.memory.descriptor_types import TensorDescType
from joinery.lowering.tt.transforms.pipeline import Pipeline, pipeline_of

CORPUS = Path(__file__).resolve().parents[3] / "data" / "ttir"
SOME = ("call_chain", "desc_copy_scale", "matmul_masked", "raw_softmax_rows", "vec_add")

# What a pipeline leaves over


@pytest.mark.parametrize("case", ["desc_host_add", "desc_copy_scale"])
def test_descriptors_that_a_gpu_lacks_are_named(case: str) -> None:
    """A pipeline may leave descriptors that no launch passes as a tensor map."""
    kernel = jn.kernel.from_ttir(CORPUS / case / "kernel.ttir")
    number = next((i for i, each in enumerate(kernel.parameters) if isinstance(each.type, TensorDescType)), None)
    left = "operation tt.make_tensor_descriptor" if number is None else f"parameter {kernel.parameters[number].name} of type"
    for target in ("sm_80", "sm_90a"):
        for passes in ("", "inline", "cse", "mark-few-pointers"):
            for make in (kernel.ptx, kernel.llvm_ir):
                with pytest.raises(jn.UnsupportedError) as error:
                    make(target, passes=passes)
                assert left in str(error.value)
                assert number is None or "fix: expand-descriptors" in str(error.value)
    if number is not None:
        kept = kernel.pipeline("sm_90a").replace("expand-descriptors{", f"expand-descriptors{{along={number} ")
        assert f"keep={number}" in kept
        assert "cp.async.bulk.tensor" in kernel.ptx("sm_90a", passes=kept)
        with pytest.raises(jn.UnsupportedError, match="sm_80 has no copies by tensor maps"):
            kernel.ptx("sm_80", passes=kept)


DESCRIBED = """
tt.func public @f(%d: !tt.tensordesc<BLOCK> ATTRIBUTES) {
  %c0 = arith.constant 0 : i32
  %x = tt.descriptor_load %d[%c0, %c0] : !tt.tensordesc<BLOCK> -> tensor<BLOCK>
  tt.descriptor_store %d[%c0, %c0], %x : !tt.tensordesc<BLOCK>, tensor<BLOCK>
  tt.return
}
"""
SOURCES = (
    "3 : i32",
    "{parameter = 0 : i32}",
    '{parameter = "a", extents = [], strides = [], pads_with_nan = "constant:1:0"}',
    '{parameter = 0 : i32, extents = ["argument:64:1", 3 : i32], strides = [], pads_with_nan = "constant:1:0"}',
    '{parameter = 0 : i32, extents = [], strides = [], pads_with_nan = "constant:one:0"}',
    '{parameter = 0 : i32, extents = [], strides = [], pads_with_nan = ""}',
)


@pytest.mark.parametrize("source", SOURCES)
def test_what_a_text_says_of_a_tensor_map_may_be_anything(source: str) -> None:
    text = DESCRIBED.replace("BLOCK", "16x16xf32").replace("ATTRIBUTES", f"{{tt.tensor_source = {source}}}")
    with pytest.raises(jn.UnsupportedError, match="is not what expand-descriptors writes"):
        jn.kernel.from_ttir(text).ptx("sm_90a", passes="inline")
    assert "ld.global" in jn.kernel.from_ttir(text).ptx("sm_90a")  # its own pipeline finds out anew


def test_a_descriptor_whose_blocks_no_map_copies() -> None:
    text = DESCRIBED.replace("BLOCK", "16x2xf16").replace("ATTRIBUTES", "")
    text = text.replace("  tt.descriptor_store %d[%c0, %c0], %x : !tt.tensordesc<16x2xf16>, tensor<16x2xf16>\n", "")
    with pytest.raises(jn.UnsupportedError, match="no tensor map copies blocks of this shape"):
        jn.kernel.from_ttir(text).ptx("sm_90a", passes="expand-descriptors{keep=0}")


# Pipelines of GPUs

ASSEMBLY = """
tt.func public @f(%o: !tt.ptr<i32>, %n: i32) {
  %v = tt.elementwise_inline_asm "foo.bar $0, $1;" {constraints = "=r,r", packed_element = 1 : i32, pure = true} %n : i32 -> i32
  tt.store %o, %v : !tt.ptr<i32>
  tt.return
}
"""


def test_a_pipeline_is_known_where_the_kernel_has_no_code(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    """And the text before the pass that refuses the kernel is to be had."""
    kernel = jn.kernel.from_ttir(ASSEMBLY)
    path = tmp_path / "kernel.ttir"
    path.write_text(ASSEMBLY)
    with pytest.raises(jn.UnsupportedError, match=r"foo\.bar"):
        kernel.ptx("sm_80")
    for target in ("host", "sm_80", "sm_90a"):
        assert Pipeline.parse(kernel.pipeline(target)).names == pipeline_of(target).names
        assert kernel.ttir_after("inline", target) == kernel.ttir_after("expand-library", target) == kernel.ttir
        with pytest.raises(jn.UnsupportedError, match=r"foo\.bar"):
            kernel.ttir_after("cse", target)
        with pytest.raises(jn.UserError, match="no pass 'nope'; the passes are inline"):
            kernel.ttir_after("nope", target)
        for option in ("--passes", "--after"):  # a mistake in what was asked, whatever the kernel is
            assert main(["compile", str(path), "--target", target, option, "nope"]) == 2
            assert "no pass 'nope'" in capsys.readouterr().err


def test_the_text_before_a_pass_that_fails_ahead_of_the_descriptors() -> None:
    """Which descriptors a launch could make is found out by the passes before."""
    text = (CORPUS / "desc_copy_scale" / "kernel.ttir").read_text()
    first = "tt.make_tensor_descriptor"
    line = next(line for line in text.splitlines() if first in line)
    assembly = ASSEMBLY.splitlines()[2].replace("%n", "%unknown0").replace("%v", "%unknown")
    kernel = jn.kernel.from_ttir(text.replace(line, f"  %unknown0 = arith.constant 1 : i32\n{assembly}\n{line}", 1))
    assert first in kernel.ttir_after("expand-library", "sm_90a")
    with pytest.raises(jn.UnsupportedError, match=r"foo\.bar"):
        kernel.pipeline("sm_90a")


@pytest.mark.slow
def test_stages_of_a_kernel_that_its_back_end_refuses(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*args: object) -> None:
        raise jn.UnsupportedError("no code")

    monkeypatch.setattr(gpu_code, "lower_to_threads", refuse)
    for case in SOME:
        kernel = jn.kernel.from_ttir(CORPUS / case / "kernel.ttir")
        for target in ("sm_80", "sm_90a"):
            stages = kernel.stages(target)
            assert (*stages,) == Pipeline.parse(kernel.pipeline(target)).names
            for name in ("inline", "expand-descriptors", "pointer-induction"):
                assert stages[name] == kernel.ttir_after(name, target)
        with pytest.raises(jn.UnsupportedError, match="no code"):
            kernel.ptx("sm_80")


DIVIDING = """
tt.func public @f(%o: !tt.ptr<i32> {tt.divisibility = 16 : i32}) {
  %r = tt.make_range {end = 128 : i32, start = 0 : i32} : tensor<128xi32>
  %c = arith.constant dense<64> : tensor<128xi32>
  %m = arith.remsi %r, %c : tensor<128xi32>
  %s = tt.splat %o : !tt.ptr<i32> -> tensor<128x!tt.ptr<i32>>
  %p = tt.addptr %s, %m : tensor<128x!tt.ptr<i32>>, tensor<128xi32>
  tt.store %p, %m : tensor<128x!tt.ptr<i32>>
  tt.return
}
"""


@pytest.mark.one_in(3)
@pytest.mark.parametrize("target", ["sm_80", "sm_90a"])
@pytest.mark.parametrize("case", [*SOME, "desc_host_add", "dividing"])
def test_the_pipeline_of_a_gpu_is_the_one_that_its_code_went_through(case: str, target: str) -> None:
    kernel = jn.kernel.from_ttir(DIVIDING if case == "dividing" else CORPUS / case / "kernel.ttir")
    pipeline = kernel.pipeline(target)
    assert pipeline == str(kernel.gpu_code(target).pipeline)
    assert kernel.ptx(target, passes=pipeline) == kernel.ptx(target)
    if case == "dividing":  # what always holds needs no launch that proves it
        assert "joinery.known_non_negative" in kernel.ttir_after("non-negative-dividends", target)


# What is asked for

CALLING = """
module {
  tt.func public @other(%o: !tt.ptr<i32>) {
    tt.return
  }
  tt.func private @twice(%x: i32) -> i32 {
    %y = tt.call @own(%x) : (i32) -> i32
    %z = arith.addi %y, %y : i32
    tt.return %z : i32
  }
  tt.func public @f(%o: !tt.ptr<i32>, %n: i32) {
    %a = tt.call @twice(%n) : (i32) -> i32
    %b = tt.call @own(%a) : (i32) -> i32
    tt.store %o, %b : !tt.ptr<i32>
    tt.return
  }
  tt.func private @own(%x: i32) -> i32 {
    tt.return %x : i32
  }
}
"""


@pytest.mark.parametrize("passes", ["", "cse", "canonicalize,cse,dce", "drop-claims"])
def test_a_function_is_printed_with_those_that_it_still_calls(passes: str) -> None:
    kernel = jn.kernel.from_ttir(CALLING, "f")
    text = kernel.ttir_through(passes)
    assert [name for name in ("f", "twice", "own", "other") if f"@{name}(%" in text and f"func public @{name}" in text] == ["f"]
    again = jn.kernel.from_ttir(text)
    assert again.ttir == text
    o, p = np.zeros(1, np.int32), np.zeros(1, np.int32)
    again.interpret(1, o, 21)
    again.launch(1, p, 21)
    assert o[0] == p[0] == 42
    inlined = kernel.ttir_through("inline")
    assert inlined.count("tt.func") == 1
    assert again.ttir_through("inline") == inlined
    assert text.count("tt.func") == 3


@pytest.mark.parametrize(
    ("ask", "expected"),
    [
        *[(lambda k, passes=passes: k.ttir_through(passes), "pipeline .*: expected a text such as 'inline,cse', got")
          for passes in (None, 3, b"cse", ["cse"])],
        *[(lambda k, target=target: k.pipeline(target), "target .*: expected 'host', or a GPU such as 'sm_80', got")
          for target in (["host"], None, 3)],
        (lambda k: k.ttir_after("cse", ["host"]), "target .*: expected 'host'"),
        (lambda k: k.ttir_after(["cse"]), r"no pass \['cse'\]"),
        (lambda k: k.stages(["host"]), "target .*: expected 'host'"),
        (lambda k: k.llvm_ir(["host"]), "target .*: expected 'host'"),
        (lambda k: k.asm(3), "target .*: expected 'host'"),
        (lambda k: k.ptx(["sm_80"]), "no GPU target"),
        (lambda k: k.gpu_code(["sm_80"]), "no GPU target"),
        (lambda k: k.ptx(passes=["cse"]), "pipeline .*: expected a text"),
        (lambda k: k.asm(passes=3), "pipeline .*: expected a text"),
    ],
)  # fmt: skip
def test_what_is_no_text(ask: Callable[[jn.kernel.Kernel], object], expected: str) -> None:
    with pytest.raises(jn.UserError, match=expected):
        ask(jn.kernel.from_ttir(CORPUS / "vec_add" / "kernel.ttir"))

"""What passes, back ends, the interpreter and the sanitizer refuse names the line of the operation, once."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import joinery as jn
import numpy as np
import pytest

Ask = Callable[[jn.kernel.Kernel], object]

KERNEL = """
module {
  tt.func public @f(%p: !tt.ptr<f32>, %n: i32) {
    %x = tt.load %p : !tt.ptr<f32> loc("m.py":6:1)
    BODY
    tt.store %p, %x : !tt.ptr<f32> loc("m.py":8:1)
    tt.return loc("m.py":9:1)
  } loc("m.py":5:1)
  OTHERS
} loc("m.py":1:0)
"""
ASSEMBLY = '"frobnicate.f32 $0, $1;" {constraints = "=f,f", packed_element = 1 : i32, pure = true} %x : f32 -> f32'
EXTERN = '{libname = "", libpath = "", pure = true, symbol = "__nv_nope"} : (f32) -> f32'
BODIES = {
    "assembly": f'%y = tt.elementwise_inline_asm {ASSEMBLY} loc("m.py":7:1)',
    "library": f'%y = tt.extern_elementwise %x {EXTERN} loc("m.py":7:1)',
}


def kernel(body: str, others: str = "", numerics: str = "strict") -> jn.kernel.Kernel:
    return jn.kernel.from_ttir(KERNEL.replace("BODY", body).replace("OTHERS", others), "f", numerics=numerics)


def arguments() -> tuple[Any, ...]:
    return np.ones(4, np.float32), 4


WAYS: dict[str, Ask] = {
    "llvm_ir": lambda k: k.llvm_ir(),
    "asm": lambda k: k.asm(),
    "llvm_ir of a GPU": lambda k: k.llvm_ir("sm_80"),
    "ptx": lambda k: k.ptx("sm_90a"),
    "ptx by passes": lambda k: k.ptx("sm_80", passes="inline,canonicalize"),
    "stages": lambda k: k.stages(),
    "ttir_through": lambda k: k.ttir_through(k.pipeline()),
    "launch": lambda k: k.launch(1, *arguments()),
    "simulated": lambda k: k.launch(1, *arguments(), device="ptxsim"),
    "sanitized launch": lambda k: k.launch(1, *arguments(), sanitize=True),
    "interpret": lambda k: k.interpret(1, *arguments()),
    "trace": lambda k: k.interpret(1, *arguments(), trace=lambda step: None),
    "sanitize": lambda k: k.sanitize(1, *arguments()),
}
NOT_EXPANDED = r"nvptx lowering: operation tt\w*\."  # where passes of the user's choice leave it
PASSES = ("llvm_ir", "ptx", "stages", "launch", "simulated")


def refused(k: jn.kernel.Kernel, ask: Ask, says: str, line: int = 7, caller: int | None = None) -> None:
    with pytest.raises((jn.UnsupportedError, jn.UserError), match=says) as caught:
        ask(k)
    assert caught.value.origin == f"m.py:{line}"
    called = "" if caller is None else f"\n  called from m.py:{caller}"
    assert str(caught.value).endswith(f"\n  at m.py:{line}{called}")
    assert str(caught.value).count("m.py") == 1 + (caller is not None)


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("body", BODIES)
def test_what_every_way_to_run_a_kernel_refuses(body: str, way: str) -> None:
    refused(kernel(BODIES[body]), WAYS[way], f"no such instruction|has no function|{NOT_EXPANDED}")


@pytest.mark.parametrize("way", WAYS)
def test_an_operation_without_a_line_has_that_of_the_one_around_it(way: str) -> None:
    inside = BODIES["library"].removesuffix(' loc("m.py":7:1)')
    body = f"""%c = arith.constant true loc("m.py":6:1)
    scf.if %c {{
      {inside}
    }} loc("m.py":7:1)"""
    refused(kernel(body), WAYS[way], "has no function")


@pytest.mark.parametrize("way", WAYS)
def test_of_a_called_function_its_own_line_counts(way: str) -> None:
    others = f"""tt.func private @g(%x: f32) -> f32 {{
    {BODIES["library"].replace(":7:", ":17:")}
    tt.return %y : f32 loc("m.py":18:1)
  }} loc("m.py":16:1)"""
    refused(kernel('%z = tt.call @g(%x) : (f32) -> f32 loc("m.py":7:1)', others), WAYS[way], "has no function", 17, 7)


@pytest.mark.parametrize("way", PASSES)
def test_calls_that_cannot_be_inlined(way: str) -> None:
    call = '%z = tt.call @g(%x) : (f32) -> f32 loc("m.py":7:1)'
    refused(kernel(call, "tt.func private @g(f32) -> f32"), WAYS[way], "has no body")
    others = """tt.func private @g(%x: f32) -> f32 {
    %z = tt.call @g(%x) : (f32) -> f32 loc("m.py":17:1)
    tt.return %z : f32 loc("m.py":18:1)
  } loc("m.py":16:1)"""
    refused(kernel(call, others), WAYS[way], "recursion", 17, 7)


@pytest.mark.parametrize("way", WAYS)
def test_tensor_maps_with_an_interleaved_layout(way: str) -> None:
    body = """%m = tt.bitcast %p : !tt.ptr<f32> -> !tt.ptr<i8> loc("m.py":6:1)
    %one = arith.constant 1 : i32 loc("m.py":6:1)
    ttng.tensormap_create %m, %p, [%one], [%one], [], [%one] {elem_type = 7 : i32, interleave_layout = 1 : i32, """
    body += "swizzle_mode = 0 : i32, fill_mode = 0 : i32} : (!tt.ptr<i8>, !tt.ptr<f32>, i32, i32, i32) -> () "
    body += 'loc("m.py":7:1)'
    refused(kernel(body), WAYS[way], f"interleaved layout|{NOT_EXPANDED}")


@pytest.mark.parametrize("way", [*PASSES, "interpret", "sanitize"])
def test_float_atomics_that_are_not_reproducible(way: str) -> None:
    body = '%c = arith.constant true loc("m.py":6:1)\n    %z = tt.atomic_rmw fadd, acq_rel, gpu, %p, %x, %c : '
    body += '(!tt.ptr<f32>, f32, i1) -> f32 loc("m.py":7:1)'
    refused(kernel(body, numerics="reproducible"), WAYS[way], "partial sums")


def test_functions_that_only_libdevice_has(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JOINERY_LIBDEVICE", "none")
    k = kernel(BODIES["library"].replace("nope", "j0f") + '\n    tt.store %p, %y : !tt.ptr<f32> loc("m.py":8:1)')
    refused(k, lambda k: k.ptx("sm_80"), "libdevice's")


def test_a_pass_that_looks_at_the_whole_function_names_the_functions_line() -> None:
    refused(kernel(""), lambda k: k.ttir_through("assume-divisibility{parameters=99 divisors=16}"), "option parameters=99", 5)


RUNS = ("interpret", "trace")


@pytest.mark.parametrize("way", RUNS)
def test_accesses_of_interpreted_kernels(way: str) -> None:
    body = """%far = tt.addptr %p, %n : !tt.ptr<f32>, i32 loc("m.py":6:1)
    %y = tt.load %far : !tt.ptr<f32> loc("m.py":7:1)"""
    refused(kernel(body), WAYS[way], r"@f, program \(0, 0, 0\): element 4 of array 'p' is read")


@pytest.mark.parametrize("way", RUNS)
def test_loops_of_interpreted_kernels(way: str) -> None:
    body = """%zero = arith.constant 0 : i32 loc("m.py":6:1)
    scf.for %i = %zero to %n step %zero : i32 {
    } loc("m.py":7:1)"""
    refused(kernel(body), WAYS[way], "steps are positive")
    (found,) = kernel(body).sanitize(1, *arguments()).findings
    assert (found.kind, found.line, found.message) == ("error", "m.py:7:1", "scf.for with step 0; steps are positive")


@pytest.mark.parametrize("located", [True, False])
@pytest.mark.parametrize("way", ["interpret", "trace", "launch", "simulated"])
def test_an_assertion_names_its_line_itself(way: str, located: bool) -> None:
    where = ' loc("m.py":7:1)' if located else ""
    k = kernel(f'%c = arith.constant false loc("m.py":6:1)\n    tt.assert %c, "no" : i1{where}')
    with pytest.raises(jn.KernelAssertionError) as caught:
        WAYS[way](k)
    at = " at m.py:7" if located else ""
    assert str(caught.value) == f"the kernel's assertion{at} fails in program (0, 0, 0): no"
    assert (caught.value.origin, caught.value.line) == (("m.py:7", 7) if located else (None, None))

"""Library functions in code for GPUs: linked from libdevice where there is one, else joinery's own."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import joinery as jn
import llvmlite.binding as llvm
import numpy as np
import pytest
from joinery.interface import device_library
from joinery.lowering.libdevice.reference import evaluate
from joinery.lowering.libdevice.signatures import SIGNATURES
from joinery.lowering.llvm import compile_ptx
from joinery.promotion.errors import UnsupportedError
from joinery.runtime.storage.cache import CompileCache
from joinery.runtime.toolchain import libdevice
from joinery.runtime.toolchain.libdevice import VARIABLE, find_libdevice

from ....support.kernels.blocks import DTYPES, kernel, simulate

FILE = find_libdevice()
NEEDS_FILE = pytest.mark.skipif(FILE is None, reason="no libdevice.10.bc on this machine, or JOINERY_LIBDEVICE=none")
LANES = 256


def calling(symbol: str, lanes: int = LANES, libname: str = "", libpath: str = "", pure: bool = True) -> Any:
    """One function on a block; on scalars for no lanes."""
    signature = SIGNATURES[symbol]
    shape = (lanes,) if lanes else ()
    prefix = f"tensor<{lanes}x" if lanes else ""
    end = ">" if lanes else ""
    names = ", ".join(f"%x{i}" for i in range(len(signature.arguments)))
    types = ", ".join(f"{prefix}{elem}{end}" for elem in signature.arguments)
    attributes = f'libname = "{libname}", libpath = "{libpath}", pure = {str(pure).lower()}, symbol = "{symbol}"'
    body = f"%y0 = tt.extern_elementwise {names} {{{attributes}}} : ({types}) -> {prefix}{signature.result}{end}"
    return kernel([(shape, elem) for elem in signature.arguments], [(shape, signature.result)], body)


def operands(symbol: str, count: int = LANES) -> list[np.ndarray]:
    rng = np.random.default_rng(4)
    found = []
    for elem in SIGNATURES[symbol].arguments:
        values = rng.uniform(0.1, 20, count) if elem[0] == "f" else rng.integers(-(1 << 14), 1 << 14, count)
        found.append(values.astype(DTYPES[elem]))
    return found


def results(k: Any, symbol: str, columns: list[np.ndarray]) -> np.ndarray:
    out = np.zeros(columns[0].shape, DTYPES[SIGNATURES[symbol].result])
    return np.asarray(simulate(k, *columns, out)[-1])


def own(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(VARIABLE, "none")


def device_functions(ptx: str) -> list[str]:
    return re.findall(r"^\.func .*\) (\w+)\($", ptx, re.MULTILINE)


# -- with and without


@NEEDS_FILE
def test_the_same_text_every_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """From memory, from the cache, and taken out anew."""
    texts = {calling("__nv_sinf").ptx("sm_90a") for _ in range(2)}
    body = calling("__nv_sinf").ttir
    for _ in range(2):
        device_library._opened.cache_clear()
        texts.add(jn.kernel.from_ttir(body, cache=tmp_path / "cache").ptx("sm_90a"))
        device_library._opened.cache_clear()
        texts.add(jn.kernel.from_ttir(body, cache=False).ptx("sm_90a"))
    assert len(texts) == 1
    assert len(list((tmp_path / "cache").glob("*.entry"))) == 1


@NEEDS_FILE
def test_a_kept_function_is_not_taken_out_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = CompileCache(tmp_path / "cache")
    body = calling("__nv_erff").ttir
    first = jn.kernel.from_ttir(body, cache=store).ptx()
    device_library._opened.cache_clear()
    monkeypatch.setattr(llvm, "parse_bitcode", lambda data: pytest.fail("the library is read"))
    assert jn.kernel.from_ttir(body, cache=store).ptx() == first


@NEEDS_FILE
def test_the_library_is_part_of_what_code_depends_on(monkeypatch: pytest.MonkeyPatch) -> None:
    k = calling("__nv_expf")
    linked = k.ptx()
    assert "call float @__nv_expf(" in k.llvm_ir("sm_80")
    own(monkeypatch)
    assert k.ptx() != linked
    assert "__nv_expf" not in k.llvm_ir("sm_80")
    assert FILE is not None
    monkeypatch.setenv(VARIABLE, str(FILE.path))
    assert k.ptx() == linked
    assert ".extern" not in linked


def test_own_functions_where_there_is_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(VARIABLE, raising=False)
    k = calling("__nv_expf")
    monkeypatch.setattr(libdevice, "_search", lambda *places: None)
    absent = k.ptx()
    own(monkeypatch)
    assert calling("__nv_expf").ptx() == absent
    columns = operands("__nv_expf")
    np.testing.assert_allclose(results(k, "__nv_expf", columns), np.exp(columns[0].astype(np.float64)), rtol=3e-7)


@pytest.mark.parametrize("symbol", ["__nv_sinf", "__nv_brevll", "__nv_half2float", "__nv_dadd_ru", "__nv_float2int_rd"])
def test_own_functions_on_a_gpu(symbol: str, monkeypatch: pytest.MonkeyPatch) -> None:
    own(monkeypatch)
    columns = operands(symbol)
    found = results(calling(symbol), symbol, columns)
    np.testing.assert_array_max_ulp(found, evaluate(SIGNATURES[symbol], columns), 2)


@pytest.mark.parametrize("symbol", ["__nv_lgammaf", "__nv_jn"])
def test_what_only_libdevice_has_is_refused_without(symbol: str, monkeypatch: pytest.MonkeyPatch) -> None:
    own(monkeypatch)
    k = calling(symbol)
    name = SIGNATURES[symbol].function
    with pytest.raises(UnsupportedError, match=rf"@\w+: {name} .*libdevice's, and none was found; fix: install .*{VARIABLE}"):
        k.ptx()
    columns = operands(symbol)
    out = np.zeros(LANES, DTYPES[SIGNATURES[symbol].result])
    k.launch((1,), *columns, out)
    np.testing.assert_allclose(out, evaluate(SIGNATURES[symbol], columns), rtol=1e-6)


@NEEDS_FILE
def test_other_libraries_are_not_libdevice(monkeypatch: pytest.MonkeyPatch) -> None:
    """Their functions are joinery's own, as on the host; those that only libdevice has come from there all the same."""
    linked = calling("__nv_sinf").ptx()
    assert calling("__nv_sinf", libname="libdevice", libpath="/opt/x/libdevice.10.bc").ptx() == linked
    assert calling("__nv_sinf", pure=False).ptx() == linked
    others = {calling("__nv_sinf", libname="mine").ptx(), calling("__nv_sinf", libpath="C:\\\\mine.bc").ptx()}
    columns = operands("__nv_lgammaf")
    found = results(calling("__nv_lgammaf", libname="mine"), "__nv_lgammaf", columns)
    np.testing.assert_array_max_ulp(found, evaluate(SIGNATURES["__nv_lgammaf"], columns), 1)
    own(monkeypatch)
    assert others == {calling("__nv_sinf").ptx()}


def test_the_host_does_not_ask_for_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(VARIABLE, "/no/such/file")
    k = calling("__nv_expf")
    out = np.zeros(LANES, np.float32)
    k.launch((1,), np.zeros(LANES, np.float32), out)
    assert (out == 1).all()
    with pytest.raises(jn.UserError, match="is no file"):
        k.ptx()
    kernel([((8,), "f32")], [((8,), "f32")], "%y0 = math.exp %x0 : tensor<8xf32>").ptx()


# -- how it is linked


@pytest.mark.one_in(8)
@NEEDS_FILE
@pytest.mark.parametrize("symbol", ["__nv_lgammaf", "__nv_tgamma", "__nv_brev", "__nv_clzll", "__nv_half2float", "__nv_powi"])
def test_scalars(symbol: str) -> None:
    columns = [column[:1].copy() for column in operands(symbol)]
    if symbol == "__nv_powi":
        columns[1][:] = 5
    found = results(calling(symbol, 0), symbol, columns)
    np.testing.assert_allclose(found, evaluate(SIGNATURES[symbol], columns), rtol=1e-6)


@NEEDS_FILE
def test_square_roots_and_denormals_are_exact() -> None:
    assert "sqrt.rn.f32" in calling("__nv_sqrtf").ptx()
    x = np.array([2.0**-149, -(2.0**-130), 2.0**-126] * 128, np.float32)[:LANES]
    for symbol in ("__nv_fmul_rn", "__nv_fadd_rz", "__nv_fmaxf", "__nv_fdiv_rn"):
        columns = [x, np.where(np.arange(LANES) % 2, 0.75, 2.0**-149).astype(np.float32)]
        found = results(calling(symbol), symbol, columns)
        assert found.tobytes() == evaluate(SIGNATURES[symbol], columns).tobytes(), symbol
        assert ".ftz" not in calling(symbol).ptx()


SEVERAL = ("__nv_sin", "__nv_cos", "__nv_tan", "__nv_sinf", "__nv_lgamma")


def several(lanes: int) -> Any:
    """Five functions, of which three need the same help for huge arguments."""
    lines = []
    for i, symbol in enumerate(SEVERAL):
        elem = SIGNATURES[symbol].result
        attributes = f'libname = "", libpath = "", pure = true, symbol = "{symbol}"'
        block = f"tensor<{lanes}x{elem}>"
        lines.append(f"%y{i} = tt.extern_elementwise %x{int(elem == 'f32')} {{{attributes}}} : ({block}) -> {block}")
    shape = (lanes,)
    return kernel([(shape, "f64"), (shape, "f32")], [(shape, SIGNATURES[s].result) for s in SEVERAL], "\n    ".join(lines))


@pytest.mark.one_in(2)
@NEEDS_FILE
@pytest.mark.parametrize("lanes", [128, 4096])
def test_several_functions(lanes: int) -> None:
    """Long ones that are called often stay functions; what they share is there once."""
    k = several(lanes)
    ptx = k.ptx()
    assert several(lanes).ptx() == ptx
    functions = device_functions(ptx)
    assert len([name for name in functions if "slowpath" in name]) == 1
    assert len(re.findall("^[.]global .*i2opi_d", ptx, re.MULTILINE)) == 1
    assert ("__nv_lgamma" in functions) == (lanes == 4096)
    x = np.concatenate([np.linspace(-30, 30, lanes - 4), [1e6, 1e22, np.inf, np.nan]])
    outputs = [np.zeros(lanes, DTYPES[SIGNATURES[symbol].result]) for symbol in SEVERAL]
    results = simulate(k, x, x.astype(np.float32), *outputs)[2:]
    for symbol, found in zip(SEVERAL, results, strict=True):
        column = x.astype(found.dtype)
        expected = evaluate(SIGNATURES[symbol], [column])
        np.testing.assert_allclose(found, expected, rtol=1e-6 if symbol == "__nv_sinf" else 1e-12, atol=1e-12)


@NEEDS_FILE
def test_short_functions_are_inlined() -> None:
    assert "call" not in calling("__nv_expf").ptx()
    assert device_functions(calling("__nv_expf", 8192).ptx()) == []


@NEEDS_FILE
def test_calls_and_copies_compute_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    """`call` of a function with a body, in threads that take different ways."""
    columns = [np.concatenate([np.linspace(-40, 40, LANES - 2), [1e30, -1e12]]).astype(np.float32)]
    inlined = results(calling("__nv_sinf"), "__nv_sinf", columns)
    monkeypatch.setattr(compile_ptx, "MAX_INLINED", 0)
    k = calling("__nv_sinf")
    assert device_functions(k.ptx()) == ["__nv_sinf"]
    assert results(k, "__nv_sinf", columns).tobytes() == inlined.tobytes()


@NEEDS_FILE
def test_equal_calls_are_made_once_and_unused_ones_not() -> None:
    call = '{libname = "", libpath = "", pure = true, symbol = "__nv_tgamma"} : (tensor<128xf64>) -> tensor<128xf64>'
    body = f"""%a = tt.extern_elementwise %x0 {call}
    %b = tt.extern_elementwise %x0 {call}
    %c = tt.extern_elementwise %b {call}
    %y0 = arith.addf %a, %b : tensor<128xf64>"""
    k = kernel([((128,), "f64")], [((128,), "f64")], body)
    assert k.llvm_ir("sm_80").count("call double @__nv_tgamma") == 1


@NEEDS_FILE
def test_in_a_reduction() -> None:
    """Scalars of a region that threads run on their own."""
    call = '{libname = "", libpath = "", pure = true, symbol = "__nv_hypotf"} : (f32, f32) -> f32'
    body = f"""%y0 = "tt.reduce"(%x0) <{{axis = 0 : i32}}> ({{
    ^bb0(%a: f32, %b: f32):
      %h = tt.extern_elementwise %a, %b {call}
      tt.reduce.return %h : f32
    }}) : (tensor<256xf32>) -> f32"""
    x = np.random.default_rng(0).normal(0, 2, 256).astype(np.float32)
    k = kernel([((256,), "f32")], [((), "f32")], body)
    out = simulate(k, x, np.zeros(1, np.float32))[1]
    assert out[0] == pytest.approx(float(np.sqrt((x.astype(np.float64) ** 2).sum())), rel=1e-6)


@pytest.mark.slow
@NEEDS_FILE
def test_orders_without_bound_do_not_hang() -> None:
    x = np.full(LANES, 2.0)
    for order in (1 << 30, -(1 << 31), (1 << 16) + 1):
        found = results(calling("__nv_jn"), "__nv_jn", [np.full(LANES, order, np.int32), x])
        assert np.isnan(found).all()


@NEEDS_FILE
def test_fast_numerics_leave_library_functions_alone() -> None:
    text = calling("__nv_expf").ttir
    assert jn.kernel.from_ttir(text, numerics="fast").ptx() == jn.kernel.from_ttir(text).ptx()


# -- other libraries


def library(text: str, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = folder / "library.bc"
    file.write_bytes(llvm.parse_assembly(text).as_bitcode())
    monkeypatch.setenv(VARIABLE, str(file))


def test_what_a_library_lacks_is_our_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """expf is the library's, sinf is missing, cosf has other types, tanf is only declared."""
    text = """
    define float @__nv_expf(float %x) {
      %y = fadd float %x, 1.0
      ret float %y
    }
    define double @__nv_cosf(double %x) { ret double %x }
    declare float @__nv_tanf(float)
    define float @use(float %x) {
      %y = call float @__nv_tanf(float %x)
      ret float %y
    }"""
    library(text, tmp_path, monkeypatch)
    (x,) = operands("__nv_expf")
    assert (results(calling("__nv_expf"), "__nv_expf", [x]) == x + 1).all()
    for name in ("sin", "cos", "tan"):
        found = results(calling(f"__nv_{name}f"), f"__nv_{name}f", [x])
        np.testing.assert_array_max_ulp(found, getattr(np, name)(x.astype(np.float64)).astype(np.float32), 2)
    with pytest.raises(UnsupportedError, match=r"lgamma .*library.bc lacks it"):
        calling("__nv_lgamma").ptx()


def asking(question: str) -> str:
    return f"""
    @.str = private constant [{len(question) + 1} x i8] c"{question}\\00"
    declare i32 @__nvvm_reflect(ptr)
    define i32 @__nv_brev(i32 %x) {{
      %a = call i32 @__nvvm_reflect(ptr @.str)
      ret i32 %a
    }}"""


@pytest.mark.parametrize(
    ("question", "target", "answer"),
    [
        ("__CUDA_ARCH", "sm_80", 800), ("__CUDA_ARCH", "sm_90a", 900), ("__CUDA_ARCH", "sm_120a", 1200),
        ("__CUDA_FTZ", "sm_80", 0), ("__CUDA_PREC_SQRT", "sm_80", 1), ("__CUDA_PREC_DIV", "sm_80", 1),
    ],
)  # fmt: skip
def test_questions_are_answered(
    question: str, target: str, answer: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    library(asking(question), tmp_path, monkeypatch)
    out = np.zeros(LANES, np.int32)
    calling("__nv_brev").launch((1,), np.zeros(LANES, np.int32), out, device="ptxsim", target=target)
    assert (out == answer).all()


@pytest.mark.parametrize(
    ("text", "what"),
    [
        (asking("__CUDA_COLOUR"), "asks for __CUDA_COLOUR, which is not known"),
        (
            "@s = external constant i8\ndeclare i32 @__nvvm_reflect(ptr)\ndefine i32 @__nv_brev(i32 %x) {\n"
            "  %p = getelementptr i8, ptr @s, i32 %x\n %y = call i32 @__nvvm_reflect(ptr %p)\n ret i32 %y }",
            "calls __nvvm_reflect in a way that is not known",
        ),
        ("declare i32 @puts(i32)\ndefine i32 @__nv_brev(i32 %x) {\n %y = call i32 @puts(i32 %x)\n ret i32 %y }", "puts"),
        (
            "declare i32 @llvm.nvvm.no.such(i32)\ndefine i32 @__nv_brev(i32 %x) {\n %y = call i32 @llvm.nvvm.no.such(i32 %x)\n "
            "ret i32 %y }",
            "no.such",
        ),
    ],
)  # fmt: skip
def test_functions_that_cannot_be_used(text: str, what: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    library(text, tmp_path, monkeypatch)
    with pytest.raises(jn.UserError, match=rf"library.bc is no libdevice that can be used: __nv_brev: .*{what}.*fix: "):
        calling("__nv_brev").ptx()


@pytest.mark.parametrize("how", ["empty", "cut short", "random", "random after the first word", "text", "IR text"])
def test_files_that_are_no_library(how: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = llvm.parse_assembly("define float @__nv_expf(float %x) { ret float %x }").as_bitcode()
    noise = np.random.default_rng(0).bytes(5000)
    content = {
        "empty": b"", "cut short": whole[: len(whole) // 2], "random": noise, "random after the first word": whole[:4] + noise,
        "text": b"not bitcode\n" * 20, "IR text": b"define void @f() { ret void }",
    }[how]  # fmt: skip
    file = tmp_path / "bad.bc"
    file.write_bytes(content)
    monkeypatch.setenv(VARIABLE, str(file))
    k = calling("__nv_expf")
    with pytest.raises(jn.UserError, match=rf"bad.bc is no libdevice that can be used: .*fix: another one \({VARIABLE}=PATH\)"):
        k.ptx()
    file.write_bytes(whole)  # a file that changes is read again
    assert "call float @__nv_expf" in k.llvm_ir("sm_80")


@NEEDS_FILE
def test_a_real_one_cut_anywhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert FILE is not None
    whole = FILE.path.read_bytes()
    file = tmp_path / "bad.bc"
    monkeypatch.setenv(VARIABLE, str(file))
    k = calling("__nv_expf")
    for size in (3, 4, 20, 1000, len(whole) // 3, len(whole) - 100, len(whole) - 4, len(whole) - 1):
        file.write_bytes(whole[:size])
        with pytest.raises(jn.UserError, match="is no libdevice that can be used"):
            k.ptx()

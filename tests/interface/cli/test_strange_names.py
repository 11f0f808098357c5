"""Names, lines and messages in files of strangers reach messages, reports and terminals as text, whatever they hold.

Every door is tried with the same name, which begins lines and drives terminals: nothing that is shown may have a line that
it begins, or a character that is not printed.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from pathlib import Path

import joinery as jn
import numpy as np
import onnx
import pytest
from joinery.interface.cli.main import main
from joinery.interface.kernel import from_triton_c, from_ttir

from ...support.onnx_models import model, node

NAME = "A\nFORGED\r\x1b[2J\x85\u2028FORGED\u202e"
MLIR = r"A\0AFORGED\0D\1B[2J\C2\85\E2\80\A8FORGED\E2\80\AE"
C = "A\\nFORGED\r\x1b[2J\x85\u2028FORGED\u202e"


def is_clean(text: str) -> bool:
    lines = text.split("\n")
    assert "FORGED" in text  # the name was there
    return not any(line.lstrip().startswith("FORGED") for line in lines) and all(map(str.isprintable, lines))


def ttir(body: str) -> str:
    function = f"tt.func public @k(%x: !tt.ptr<f32>) {{\n{body}\n tt.return loc(#loc)\n }}"
    return f'module {{\n {function}\n}}\n#loc = loc("{MLIR}":3:4)\n'


FALSE = "%c = arith.constant false\n"
FAR = "%c = arith.constant 3000 : i32\n %p = tt.addptr %x, %c : !tt.ptr<f32>, i32 loc(#loc)\n"
STORE = '%f = arith.constant 1.0 : f32\n tt.store %x, %f {zz = "' + MLIR + '"} : !tt.ptr<f32>'
UNREADABLE = {
    "operation": ttir(f'%z = "tt.{MLIR}"() : () -> i32'),
    "property": ttir(f'%z = "tt.get_program_id"() <{{axis = 0 : i32, "{MLIR}" = 1 : i32}}> : () -> i32'),
    "function": f'module {{\n tt.func public @"{MLIR}"() {{\n tt.return\n }}\n}}\n',
    "callee": ttir(f'tt.call @"{MLIR}"() : () -> ()'),
    "line": ttir(f"%z = ) {NAME.replace(chr(10), '')}"),
    "assembly": ttir(
        f'%c = arith.constant 1 : i32\n %v = tt.elementwise_inline_asm "mov.u32 $0, $1;" {{constraints = "=r,r{MLIR}", '
        "packed_element = 1 : i32, pure = true} %c : i32 -> i32"
    ),
}
RUN: dict[str, str] = {
    "assert": ttir(f'{FALSE} tt.assert %c, "{MLIR}" : i1 loc(#loc)'),
    "foreign": ttir(
        f'%c = arith.constant 1.0 : f32\n %v = tt.extern_elementwise %c {{libname = "", libpath = "", pure = true, '
        f'symbol = "{MLIR}"}} : (f32) -> f32 loc(#loc)\n tt.store %x, %v : !tt.ptr<f32>'
    ),
    "outside": ttir(f'{FAR} %v = tt.load %p {{zz = "{MLIR}"}} : !tt.ptr<f32> loc(#loc)\n tt.store %x, %v : !tt.ptr<f32>'),
    "print": ttir(f'%c = arith.constant 3 : i32\n tt.print "{MLIR}" {{hex = false, isSigned = array<i32: 1>}} : %c : i32'),
}  # fmt: skip
WAYS: dict[str, Callable[[jn.Kernel, np.ndarray], object]] = {
    "launch": lambda kernel, x: kernel.launch((1,), x, check_bounds=True),
    "interpret": lambda kernel, x: kernel.interpret((1,), x),
    "sanitize": lambda kernel, x: kernel.sanitize((1,), x),
    "simulate": lambda kernel, x: kernel.launch((1,), x, device="ptxsim"),
}


@pytest.mark.parametrize("case", UNREADABLE)
def test_texts_that_are_refused(case: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(jn.UserError) as caught:
        from_ttir(UNREADABLE[case])
    assert is_clean(str(caught.value))
    (tmp_path / "k.ttir").write_text(UNREADABLE[case], newline="")
    assert main(["compile", str(tmp_path / "k.ttir")]) == 2
    assert is_clean(capsys.readouterr().err)


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("case", RUN)
def test_kernels_that_say_something(case: str, way: str, capsys: pytest.CaptureFixture[str]) -> None:
    shown = ""
    try:
        shown = str(WAYS[way](from_ttir(RUN[case]), np.zeros(16, np.float32)))
    except jn.JoineryError as error:
        shown = str(error)
    assert is_clean(shown + capsys.readouterr().out.rstrip("\n"))


@pytest.mark.parametrize("options", [["--format", "text"], ["--format", "json"], ["--format", "html"]])
def test_proofs(options: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("z3")
    (tmp_path / "k.ttir").write_text(RUN["outside"])
    assert main(["prove", str(tmp_path / "k.ttir"), "--extent", "x: 16", "--grid", "1", *options]) == 3
    assert is_clean(capsys.readouterr().out)


def test_sanitized_runs_of_the_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "k.ttir").write_text(RUN["outside"])
    assert main(["run", str(tmp_path / "k.ttir"), "--grid", "1", "zeros:float32:16", "--sanitize"]) == 2
    assert is_clean(capsys.readouterr().err)


TRITON_C = {
    "file": f'#line 7 "{C}"\n__global__ void k(float *x) {{\n  x = y;\n}}\n',
    "assertion": f'__global__ void k(float *x) {{\n  static_assert(1 == 2, "{C}");\n  *x = 1;\n}}\n',
    "directive": f"#error {C}\n__global__ void k(float *x) {{\n  *x = 1;\n}}\n",
    "include": f'#include "{C}"\n__global__ void k(float *x) {{\n  *x = 1;\n}}\n',
    "character": f"__global__ void k(float *x) {{\n  *x = {C.removeprefix('A')};\n}}\n",
    "line": f'__global__ void k(float *x) {{\n  *x = "{C}" + y;\n}}\n',
}


@pytest.mark.parametrize("case", TRITON_C)
def test_texts_in_triton_c(case: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(jn.UserError) as caught:
        from_triton_c(TRITON_C[case])
    assert is_clean(str(caught.value))
    assert all(is_clean(each.text) for each in caught.value.diagnostics if "FORGED" in each.text)
    (tmp_path / "k.tc").write_text(TRITON_C[case], newline="")
    assert main(["compile", str(tmp_path / "k.tc")]) == 2
    assert is_clean(capsys.readouterr().err)


def test_a_caret_points_to_its_column_behind_what_was_replaced() -> None:
    with pytest.raises(jn.UserError) as caught:
        from_triton_c("__global__ void k(float *x) {\n  /*\x1b\r\t*/ *x = y;\n}\n")
    _, excerpt, caret = str(caught.value).split("\n")[:3]
    assert excerpt[caret.index("^")] == "y"
    assert "\N{REPLACEMENT CHARACTER}" in excerpt


def test_warnings_in_triton_c() -> None:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        from_triton_c(f'#line 7 "{C}"\n#warning {C}\n__global__ void k(float *x) {{\n  *x = 1;\n}}\n')
    assert caught
    assert all(is_clean(str(each.message)) for each in caught)


def renamed(what: str) -> onnx.ModelProto:
    made = model([node("Relu", "x", "h"), node("Neg", "h")], {"x": (np.float32, ["n", 3])})
    inner = made.graph.node[1]
    if what == "operator":
        inner.op_type = NAME
    elif what == "domain":
        inner.domain = NAME
        made.opset_import.append(onnx.helper.make_opsetid(NAME, 1))
    elif what == "node":
        inner.name, inner.input[0] = NAME, "missing"
    elif what == "tensor":
        inner.input[0] = NAME
    elif what == "attribute":
        inner.attribute.append(onnx.helper.make_attribute(NAME, 1))
    elif what == "function":
        again = onnx.helper.make_function(NAME, NAME, ["a"], ["b"], [node("Neg", "a", "b")], [onnx.helper.make_opsetid("", 23)])
        made.functions.extend([again, again])
    return made


@pytest.mark.parametrize("what", ["operator", "domain", "node", "tensor", "attribute", "function"])
def test_models_in_onnx_that_are_refused(what: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(jn.JoineryError) as caught:
        jn.from_onnx(renamed(what))
    assert is_clean(str(caught.value))
    onnx.save(renamed(what), tmp_path / "m.onnx")
    main(["inspect", str(tmp_path / "m.onnx")])
    main(["export", str(tmp_path / "m.onnx"), "--output", str(tmp_path / "m.jn")])
    found = capsys.readouterr()
    assert is_clean(found.out.rstrip("\n") + found.err)


def test_models_in_onnx_that_are_listed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    made = model([node("Relu", "x")], {"x": (np.float32, [3])})
    made.graph.name = made.graph.input[0].name = made.graph.node[0].input[0] = NAME
    path = tmp_path / f"{NAME}.onnx"
    onnx.save(made, path)
    assert main(["inspect", str(path)]) == 0
    assert is_clean(capsys.readouterr().out)
    main(["run", str(path), "--input", "y=none.npy"])
    assert is_clean(capsys.readouterr().err)

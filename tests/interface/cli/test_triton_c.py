"""`joinery compile` and `joinery run` on texts in Triton-C."""

from __future__ import annotations

import io
import json
from pathlib import Path

import joinery as jn
import numpy as np
import pytest
from joinery.__main__ import main

Capture = pytest.CaptureFixture[str]
SCALE = """#include "half.h"
__global__ void scale(float *x, float by, int n __multipleof(4)) {
  int i[BS] = get_program_id(0) * BS + 0 ... BS;
  *?(i < n)(x + i) = HALF(*?(i < n)(x + i)) * by;
}
__global__ void other(float *x) { *x = 1; }
"""


@pytest.fixture(autouse=True)
def files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "k.tc").write_text(SCALE)
    (tmp_path / "half.h").write_text("#define HALF(v) ((v) * 0.5f)\n")
    (tmp_path / "bad.c").write_text("#define M(v) v @ 3\n__global__ void f(int *x) {\n  *x = M(2);\n  y = 3;\n}\n")
    (tmp_path / "warn.tc").write_text("__global__ void f(int *x) {\n  int a;\n  *x = a;\n}\n")
    return tmp_path


def run(capsys: Capture, *argv: object) -> tuple[int, str, str]:
    capsys.readouterr()
    try:
        status = main([str(argument) for argument in argv])
    except SystemExit as leaving:
        status = leaving.code if isinstance(leaving.code, int) else -1
    captured = capsys.readouterr()
    assert "Traceback" not in captured.err
    return status, captured.out, captured.err


ASK = ("compile", "k.tc", "--include", "half.h", "--define", "BS=16", "--name", "scale")


@pytest.mark.parametrize("emit", ["ttir", "llvm", "asm"])
def test_compile_shows_what_the_library_shows(capsys: Capture, files: Path, emit: str) -> None:
    kernel = jn.kernel.from_triton_c(files / "k.tc", {"BS": 16}, "scale", include=["half.h"])
    shown = {"ttir": kernel.ttir, "llvm": kernel.llvm_ir(), "asm": kernel.asm()}[emit]
    assert run(capsys, *ASK, "--emit", emit) == (0, shown, "")
    assert ".visible .entry scale" in run(capsys, *ASK, "--emit", "ptx")[1]


def test_compile_shows_tokens_and_trees(capsys: Capture) -> None:
    tokens = run(capsys, *ASK, "--emit", "tokens")[1].split("\n")
    assert "half.h:1:22: punctuator * from HALF at k.tc:4:22" in tokens
    assert "<define BS>:1:4: number 16 from BS at k.tc:3:9" in tokens
    tree = run(capsys, *ASK, "--emit", "ast")[1]
    assert "    statements: Declaration int @k.tc:3:3\n      declarators: Declarator i @k.tc:3:7\n" in tree
    assert "          right: Binary ... @k.tc:3:42\n            left: Literal 0 @k.tc:3:40\n" in tree
    assert "attributes: Attribute __multipleof @k.tc:2:49 name=multipleof" in tree
    typed = run(capsys, *ASK, "--emit", "typed")[1]
    assert "      mask: Compare: bool[16] @k.tc:4:8 operator=<\n" in typed
    assert "        right: Broadcast: int[16] n @k.tc:4:10\n" in typed
    assert "Function @k.tc:2:17 name=scale parameters=(x: float*, by: float, n: int)" in typed


def test_errors_are_shown_with_their_lines(capsys: Capture) -> None:
    assert run(capsys, "compile", "bad.c") == (
        2, "",
        "bad.c:3:8: error: int @ int: both are blocks of two axes, or of three with a batch axis that is the last\n"
        "    *x = M(2);\n         ^\nbad.c:1:16: from macro M\n  #define M(v) v @ 3\n                 ^\n"
        "bad.c:4:3: error: y is not declared\n    y = 3;\n    ^\n",
    )  # fmt: skip


def test_errors_are_shown_as_json(capsys: Capture, files: Path) -> None:
    status, out, err = run(capsys, "compile", "bad.c", "--format", "json")
    assert (status, err) == (2, "")
    assert json.loads(out) == [
        {"file": "bad.c", "line": 3, "column": 8, "endLine": 3, "endColumn": 9, "severity": "error", "fix": "",
         "message": "int @ int: both are blocks of two axes, or of three with a batch axis that is the last",
         "macros": [{"file": "bad.c", "line": 1, "column": 16, "endLine": 1, "endColumn": 17, "note": "from macro M"}]},
        {"file": "bad.c", "line": 4, "column": 3, "endLine": 4, "endColumn": 4, "severity": "error", "fix": "",
         "message": "y is not declared", "macros": []},
    ]  # fmt: skip
    status, out, err = run(capsys, "compile", "warn.tc", "--format", "json", "--output", "out.json")
    assert (status, out, err) == (0, "", "")
    (warning,) = json.loads((files / "out.json").read_text())
    assert (warning["severity"], warning["line"], warning["column"]) == ("warning", 2, 7)


def test_warnings_go_to_standard_error(capsys: Capture) -> None:
    status, out, err = run(capsys, "compile", "warn.tc", "--emit", "ttir")
    assert status == 0
    assert out.startswith("module {")
    assert err.startswith("warn.tc:2:7: warning: a may be read before something is assigned to it")


def test_run(capsys: Capture, files: Path) -> None:
    np.save(files / "x.npy", np.arange(40, dtype=np.float32))
    options = ("--name", "scale", "--define", "BS=16", "--include", "half.h", "--grid", "3")
    for how in ((), ("--interpret",), ("--sanitize",), ("--device", "ptxsim", "--target", "sm_80")):
        status, _, err = run(capsys, "run", "k.tc", *options, *how, "--output", "x=y.npy", "x.npy", "3", "40")
        assert (status, err) == (0, "")
        np.testing.assert_array_equal(np.load(files / "y.npy"), np.arange(40, dtype=np.float32) * 1.5)
    status, _, err = run(capsys, "run", "k.tc", *options, "x.npy", "3", "39")
    assert status == 2
    assert "__multipleof(4) is promised, and the argument is 39" in " ".join(err.split())


def test_run_with_members_and_tables(capsys: Capture, files: Path) -> None:
    declared = "struct p { int at; float by; };\n__constant__ float t[2] = {3, 4};\n"
    (files / "s.tc").write_text(f"{declared}__global__ void f(float *y, struct p q) {{ *(y + q.at) = t[1] * q.by; }}\n")
    status, out, err = run(capsys, "run", "s.tc", "--grid", "1", "zeros:float32:3", "2", "0.5")
    assert (status, err) == (0, "")
    assert "[0. 0. 2.]" in out
    status, _, err = run(capsys, "run", "s.tc", "--grid", "1", "zeros:float32:3", "2")
    assert status == 2
    assert "@f: 2 arguments do not supply its parameters (float* y, struct p q)" in " ".join(err.split())


def test_run_keeps_the_fastest_value_of_a_list(capsys: Capture, files: Path) -> None:
    (files / "l.tc").write_text("__global__ void f(T *y, T *p) { int i[N] = 0 ... N; *y = (p == 0) + i[RED]; }\n")
    ask = ("run", "l.tc", "--grid", "1", "--define", "RED=[+]", "--define", "T=int")
    status, _, err = run(capsys, *ask, "--define", "N=[4, 5, 8]", "zeros:int32:1", "none")
    assert status == 2  # [+] is a list of tokens, and no list of values
    assert "RED" in err or "[" in err
    (files / "l.tc").write_text("__global__ void f(T *y, T *p) { int i[N] = 0 ... N; *y = (p == 0) + (i * 0)RED; }\n")
    status, out, err = run(capsys, *ask, "--define", "N=[4, 5, 8]", "zeros:int32:1", "none")
    assert (status, out) == (0, "y: int32[1]\n[1]\n")
    dropped, _, fastest = err.partition("fastest: ")
    assert fastest in ("RED=[+], T=int, N=4\n", "RED=[+], T=int, N=8\n")
    assert dropped.startswith("dropped: N=5\nl.tc:1:39: error: the extent 5 of a block is no power of two (N = 5); fix: 8, and")
    status, _, err = run(capsys, "compile", "l.tc", "--define", "N=[4,8]", "--define", "RED=[+]", "--define", "T=int")
    assert status == 2
    assert "--define N=[4, 8]: one kernel is shown, and this is a list" in " ".join(err.split())


def test_texts_come_from_standard_input(capsys: Capture, monkeypatch: pytest.MonkeyPatch) -> None:
    def given(text: bytes) -> None:
        monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(text)))

    given(b"__global__ void f(int *y) { *y = N; }")
    assert run(capsys, "run", "-", "--grid", "1", "--define", "N=7", "zeros:int32:1") == (0, "y: int32[1]\n[7]\n", "")
    given(b"__global__ void f(int *y) { *y = 1; }")
    assert "tt.store" in run(capsys, "compile", "-", "--emit", "ttir")[1]
    given(b"__global__ void f(float) { }")
    status, out, err = run(capsys, "compile", "-", "--format", "json")
    assert (status, err) == (2, "")
    assert json.loads(out)[0]["message"].startswith("parameter 1 of function f has no name")
    given(b"\xff")
    assert "standard input is no UTF-8 text" in run(capsys, "compile", "-")[2]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("compile", "k.ttir", "--emit", "ast"), "--emit ast is for texts in Triton-C; k.ttir is none"),
        (("compile", "k.ttir", "--format", "json"), "--format json is for texts in Triton-C"),
        (("compile", "k.ttir", "--define", "A"), "--define is for texts in Triton-C (.tc, .c); k.ttir is none"),
        (("compile", "k.tc", "--define", "A=1", "--define", "A=2"), "--define A is given twice"),
        (("compile", "none.tc"), "none.tc cannot be read"), (("compile", "k.tc", "--include", "x.h"), "x.h cannot be read"),
        (("compile", "k.x"), "a file that ends in .ttir or .mlir or .tc or .c"),
    ],
)  # fmt: skip
def test_mistakes(capsys: Capture, files: Path, arguments: tuple[str, ...], message: str) -> None:
    (files / "k.ttir").write_text("module {}\n")
    status, _, err = run(capsys, *arguments)
    assert status == 2
    assert message in " ".join(err.split())


def test_accesses_are_checked_unless_that_is_switched_off(capsys: Capture, files: Path) -> None:
    (files / "n.tc").write_text("__global__ void f(int *y, int *p, int at) { *(p + at + A - A) = 7; }\n")
    for define in ("A=1", "A=[1,2]"):
        ask = ("run", "n.tc", "--define", define, "--grid", "1", "zeros:int32:1")
        status, _, err = run(capsys, *ask, "none", "0")
        assert status == 2
        assert "address 0x0 is written; 'p' is a null pointer" in " ".join(err.split())
        status, _, err = run(capsys, *ask, "zeros:int32:4", "4")
        assert status == 2
        assert "element 4 of array 'p' is written" in " ".join(err.split())
        status, out, _ = run(capsys, *ask, "zeros:int32:4", "3", "--no-check-bounds")
        assert (status, out) == (0, "p: int32[4]\n[0 0 0 7]\n")
    options = ("--no-check-bounds", "--device", "ptxsim")
    status, _, err = run(capsys, *ask[:2], "--define", "A=1", *ask[4:], "zeros:int32:4", "3", *options)
    assert status == 2
    assert "--no-check-bounds is for the CPU" in err


def test_fixes_name_options_of_the_command_line(capsys: Capture, files: Path) -> None:
    included = '#ifdef I\n#include "x.h"\n#endif\n'
    text = "void f(float *y) { float a[4] = TM; a = a * 0.5; *y = a[+]; }\nvoid g(int *y) { }\n"
    (files / "f.tc").write_text(included + text)
    assert "fix: missing define? --define TM=…\n" in run(capsys, "compile", "f.tc", "--name", "f")[2]
    assert "fix: --name f\n" in run(capsys, "compile", "f.tc", "--define", "TM=1")[2]
    assert "fix: --include x.h; files" in run(capsys, "compile", "f.tc", "--define", "I", "--name", "g")[2]
    _, _, err = run(capsys, "compile", "f.tc", "--name", "f", "--define", "TM=1")
    assert "fix: 0.5f, or --single-precision-constants\n" in err
    found = json.loads(run(capsys, "compile", "f.tc", "--name", "f", "--format", "json")[1])
    assert [each["fix"] for each in found if "TM" in each["message"]] == ["missing define? --define TM=…"]
    _, _, err = run(capsys, "run", "f.tc", "--define", "A=[1,2]", "--name", "f", "--grid", "1")
    assert "fix: missing define? --define TM=…" in " ".join(err.split())


def test_a_text_that_is_not_there_is_told_as_json(capsys: Capture) -> None:
    status, out, err = run(capsys, "compile", "none.tc", "--format", "json")
    assert (status, err) == (2, "")
    assert json.loads(out) == [
        {"file": "none.tc", "line": 1, "column": 1, "endLine": 1, "endColumn": 1, "severity": "error", "fix": "", "macros": [],
         "message": "none.tc cannot be read: No such file or directory"},
    ]  # fmt: skip

"""`joinery compile` and `joinery run` on block kernels: what they print and write, and how they answer mistakes."""

from __future__ import annotations

from pathlib import Path

import joinery as jn
import ml_dtypes
import numpy as np
import pytest
from joinery.__main__ import main
from joinery.lowering.numerics import NUMERICS

Capture = pytest.CaptureFixture[str]

SCALE = """
module {
  tt.func public @scale(%x: !tt.ptr<f32>, %o: !tt.ptr<f32>, %n: i32, %by: f32) {
    %c16 = arith.constant 16 : i32
    %one = arith.constant 1 : i32
    %pid = tt.get_program_id x : i32
    %start = arith.muli %pid, %c16 : i32
    %same = arith.muli %start, %one : i32
    %range = tt.make_range {end = 16 : i32, start = 0 : i32} : tensor<16xi32>
    %first = tt.splat %same : i32 -> tensor<16xi32>
    %at = arith.addi %first, %range : tensor<16xi32>
    %limit = tt.splat %n : i32 -> tensor<16xi32>
    %mask = arith.cmpi slt, %at, %limit : tensor<16xi32>
    %px = tt.splat %x : !tt.ptr<f32> -> tensor<16x!tt.ptr<f32>>
    %ax = tt.addptr %px, %at : tensor<16x!tt.ptr<f32>>, tensor<16xi32>
    %a = tt.load %ax, %mask : tensor<16x!tt.ptr<f32>>
    %factor = tt.splat %by : f32 -> tensor<16xf32>
    %b = arith.mulf %a, %factor : tensor<16xf32>
    %po = tt.splat %o : !tt.ptr<f32> -> tensor<16x!tt.ptr<f32>>
    %ao = tt.addptr %po, %at : tensor<16x!tt.ptr<f32>>, tensor<16xi32>
    tt.store %ao, %b, %mask : tensor<16x!tt.ptr<f32>>
    tt.return
  }
  tt.func public @other(%x: !tt.ptr<i32>) {
    %p = tt.get_program_id y : i32
    %a = tt.addptr %x, %p : !tt.ptr<i32>, i32
    tt.store %a, %p : !tt.ptr<i32>
    tt.return
  }
}
"""


@pytest.fixture(autouse=True)
def files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "k.ttir").write_text(SCALE)
    np.save(tmp_path / "x.npy", np.arange(40, dtype=np.float32))
    np.save(tmp_path / "o.npy", np.zeros(40, np.float32))
    return tmp_path


def run(capsys: Capture, *argv: object) -> tuple[int, str, str]:
    """Exit status, stdout and stderr (its lines joined) of one command in this process."""
    capsys.readouterr()
    try:
        status = main([str(argument) for argument in argv])
    except SystemExit as leaving:
        status = leaving.code if isinstance(leaving.code, int) else -1
    captured = capsys.readouterr()
    assert "Traceback" not in captured.err
    return status, captured.out, " ".join(captured.err.split())


# compile


def test_compile_shows_what_the_library_shows(capsys: Capture, files: Path) -> None:
    kernel = jn.kernel.from_ttir(files / "k.ttir", "scale")
    ask = ("compile", "k.ttir", "--name", "scale")
    assert run(capsys, *ask, "--emit", "ttir") == (0, kernel.ttir, "")
    assert run(capsys, *ask, "--emit", "ttir", "--after", "canonicalize") == (
        0,
        kernel.ttir_after("canonicalize"),
        "",
    )
    status, text, _ = run(capsys, *ask, "--emit", "llvm", "--target", "host")
    assert (status, text.strip()) == (0, kernel.llvm_ir("host").strip())
    status, text, _ = run(capsys, *ask)
    assert (status, text.strip()) == (0, kernel.asm("host").strip())
    assert "%same" in kernel.ttir
    assert "%same" not in kernel.ttir_after("canonicalize")
    for target in ("sm_80", "sm_90a"):
        assert run(capsys, *ask, "--emit", "ptx", "--target", target) == (0, kernel.ptx(target), "")
    assert run(capsys, *ask, "--emit", "ptx") == (0, kernel.ptx("sm_80"), "")
    assert run(capsys, *ask, "--emit", "llvm", "--output", "k.ll") == (0, "", "")
    assert (files / "k.ll").read_text() == kernel.llvm_ir("host")


@pytest.mark.parametrize("passes", [(), ("--passes", "inline,canonicalize,cse,expand-control")])
def test_compile_puts_lines_into_the_code(passes: tuple[str, ...], capsys: Capture, files: Path) -> None:
    (files / "l.ttir").write_text(
        """
module {
  tt.func public @f(%o: !tt.ptr<i32>, %n: i32) {
    %x = arith.muli %n, %n : i32 loc("a.py":7:2)
    tt.store %o, %x : !tt.ptr<i32> loc("a.py":8:2)
    tt.return loc("a.py":9:2)
  } loc("a.py":6:0)
}
"""
    )
    signs = {"asm": "a.py", "llvm": "!DILocation(line: 8, column: 2", "ptx": "8 2"}
    for form, sign in signs.items():
        ask = ("compile", "l.ttir", "--emit", form, *passes)
        status, text, _ = run(capsys, *ask, "--debug")
        assert (status, sign in text, ".loc" in text) == (0, True, form != "llvm")
        status, text, _ = run(capsys, *ask)
        assert (status, "a.py" in text) == (0, False)


@pytest.mark.parametrize(
    ("argv", "status", "expected"),
    [
        (("compile", "k.ttir"), 2, "the module has no single public function; its functions: scale, other"),
        (("compile", "k.ttir", "--name", "f"), 2, "the module has no function 'f'"),
        (("compile", "missing.ttir"), 2, "from_ttir: missing.ttir cannot be read: No such file"),
        (("compile", "model.joinery"), 2, "model.joinery: expected the text of a kernel, a file that ends in .ttir or .mlir"),
        (("compile", "k.ttir", "--name", "scale", "--emit", "cubin"), 2, "invalid choice: 'cubin'"),
        (("compile", "k.ttir", "--name", "scale", "--emit", "ptx", "--target", "sm_1"), 2, "no GPU target 'sm_1'"),
        (("compile", "k.ttir", "--name", "scale", "--target", "sm_90a"), 2, "fix: --emit ptx --target sm_90a"),
        (("compile", "k.ttir", "--name", "scale", "--target", "foo"), 2, "--target: no GPU target 'foo'. Targets: sm_80"),
        (("compile", "k.ttir", "--emit", "ptx", "--target", "host"), 2, "PTX is code for GPUs, and not for the host; fix: -"),
        (("run", "k.ttir", "--device", "cpux"), 2, "argument --device: expected auto, cpu, cuda, cuda:1 and so on, or ptxsim"),
        (("run", "k.ttir", "--device", "cuda:"), 2, "argument --device: expected auto"),
        (
            ("compile", "k.ttir", "--name", "scale", "--emit", "asm", "--after", "cse"),
            2,
            "--after goes with --emit ttir, not with --emit asm",
        ),
        (
            ("compile", "k.ttir", "--name", "scale", "--emit", "ttir", "--after", "x"),
            2, "no pass 'x'; the passes are inline, drop-claims, expand-control",
        ),
        (("compile", "k.ttir", "--name", "scale", "--output", "no/k.s"), 2, "no/k.s cannot be written: No such file"),
        (("compile", "k.ttir", "more"), 2, "unrecognized arguments: more"),
        (("compile", "bad.ttir"), 2, "bad.ttir:2:"),
    ],
)  # fmt: skip
def test_mistakes_in_compile(
    capsys: Capture, files: Path, argv: tuple[str, ...], status: int, expected: str
) -> None:
    (files / "bad.ttir").write_text("module {\n  tt.func public @f(%x: wrong) {\n  }\n}\n")
    found, out, err = run(capsys, *argv)
    assert (found, out) == (status, "")
    assert expected in err


# run

BASE = ("run", "k.ttir", "--name", "scale", "--grid", "3", "x.npy")


ON_GPU = ("--device", "ptxsim", "--target", "sm_90a")


@pytest.mark.parametrize("command", ["compile", "run"])
def test_the_help_explains_each_choice_of_numerics(capsys: Capture, command: str) -> None:
    with pytest.raises(SystemExit):
        main([command, "--help"])
    text = " ".join(capsys.readouterr().out.split())
    _, _, after = text.rpartition(f"--numerics {{{','.join(NUMERICS)}}}")
    explained, _, _ = after.partition("(default: strict)")
    assert all(each in explained for each in NUMERICS)


@pytest.mark.parametrize(
    "how", [(), ("--interpret",), ("--sanitize",), ("--threads", "1"), ON_GPU, (*ON_GPU, "--sanitize")]
)
def test_run_writes_outputs(capsys: Capture, files: Path, how: tuple[str, ...]) -> None:
    status, out, err = run(capsys, *BASE, "zeros:float32:40", 40, "2.5", "--output", "o=y.npy", *how)
    assert (status, err) == (0, "")
    assert out.splitlines()[-1] == "o: float32[40] -> y.npy"
    np.testing.assert_array_equal(np.load(files / "y.npy"), np.arange(40, dtype=np.float32) * 2.5)
    assert not list(files.glob("*.part"))
    if how == ("--sanitize",):
        assert out.startswith(
            "sanitizer: 0 findings\nnote: only the mask keeps the access inside the array: %x + 4 * 40"
        )


def test_arguments_may_stand_around_the_options(capsys: Capture) -> None:
    status, out, _ = run(
        capsys, "run", "k.ttir", "x.npy", "ones:float32:8x5", "--name", "scale", "--grid", "3,1", "40", "-1"
    )
    assert status == 0
    assert out.splitlines()[0] == "o: float32[8, 5]"  # what changed is printed
    assert "-39." in out
    assert "x:" not in out


def test_in_place(capsys: Capture, files: Path) -> None:
    status, out, _ = run(capsys, *BASE, "o.npy", 40, 3, "--in-place")
    assert (status, out) == (0, "o: float32[40] -> o.npy\n")
    np.testing.assert_array_equal(np.load(files / "o.npy"), np.arange(40, dtype=np.float32) * 3)
    assert np.load(files / "x.npy")[1] == 1


def test_the_sanitizer_reports_and_fails(capsys: Capture, files: Path) -> None:
    status, out, err = run(capsys, *BASE, "zeros:float32:33", 40, 1, "--sanitize", "--output", "o=y.npy")
    assert (status, out) == (2, "o: float32[33] -> y.npy\n")
    assert err.startswith(
        "sanitizer: 1 finding out-of-bounds: writes outside the array: %o + 4 * 33 (array of 33 elements)"
    )
    assert "program (2, 0, 0), lane [1]: tt.store %ao, %b, %mask" in err
    assert np.load(files / "y.npy").tolist() == list(range(33))


def test_what_ptx_breaks_is_reported(capsys: Capture) -> None:
    status, out, err = run(capsys, *BASE, "zeros:float32:33", 40, 1, *ON_GPU)
    assert (status, out) == (2, "")
    assert "bounds" in err
    assert "is byte 132 of argument 1 (o) with 132 bytes, 4 bytes beyond its end" in err
    status, _, err = run(capsys, *BASE, "zeros:float32:40", 40, 1, "--interpret", *ON_GPU)
    assert status == 2
    assert "--interpret takes neither --device nor --target" in err


def test_a_grid_of_three_axes_and_another_function(capsys: Capture) -> None:
    status, out, _ = run(capsys, "run", "k.ttir", "--name", "other", "--grid", "1,3,1", "zeros:int32:4")
    assert (status, out) == (0, "x: int32[4]\n[0 1 2 0]\n")


def test_arrays_of_small_floats_keep_their_bits(capsys: Capture, files: Path) -> None:
    text = SCALE[: SCALE.index("  tt.func public @other")].replace("f32", "bf16") + "}\n"
    (files / "b.mlir").write_text(text)
    values = np.arange(16).astype(ml_dtypes.bfloat16)
    np.save(files / "b.npy", values)  # numpy stores the dtype as raw bytes
    argv = ("run", "b.mlir", "--grid", 1, "b.npy", "zeros:bfloat16:16", 16, 2, "--output", "o=y.npy")
    assert run(capsys, *argv)[0] == 0
    assert np.load(files / "y.npy").view(ml_dtypes.bfloat16).tolist() == (values * 2).tolist()
    assert run(capsys, "run", "b.mlir", "--grid", 1, "arange:bfloat16:16", "zeros:bfloat16:16", 16, 2)[0] == 0


@pytest.mark.parametrize(
    ("argv", "status", "expected"),
    [
        (
            ("run", "k.ttir", "--name", "scale", "1", "2", "3", "4"),
            2,
            "say how many programs to run with --grid",
        ),
        (
            (*BASE[:5], "a,b", "1", "2", "3", "4"),
            2,
            "--grid 'a,b': expected one to three numbers of programs",
        ),
        ((*BASE[:5], "1,2,3,4", "x.npy", "o.npy", "3", "4"), 2, "expected one to three numbers of programs"),
        (BASE, 2, "@scale takes 4 arguments (x: !tt.ptr<f32>, o: !tt.ptr<f32>, n: i32, by: f32), got 1"),
        (
            (*BASE, "o.npy", "x", "1"),
            2,
            "argument 'x': expected a number, a .npy file, none, or zeros/ones/arange:DTYPE:SHAPE",
        ),
        ((*BASE, "zeros:float32", "1", "1"), 2, "expected zeros:DTYPE:SHAPE, as in zeros:float32:64x32"),
        ((*BASE, "zeros:float23:4", "1", "1"), 2, "float23"),
        ((*BASE, "zeros:float32:99999999999", "1", "1"), 2, "an array has at most"),
        ((*BASE, "zeros:float32:-4", "1", "1"), 2, "no negative extent"),
        ((*BASE, "zeros:int8:4", "1", "1"), 2, "expected elements of 4; convert it"),
        ((*BASE, "o.npy", "o.npy", "1"), 2, "expected a number, got ndarray"),
        ((*BASE, "none.npy", "1", "1"), 2, "none.npy cannot be read: No such file"),
        ((*BASE, "pickled.npy", "1", "1"), 2, "pickled.npy is not an .npy file of numbers"),
        (
            (*BASE, "o.npy", "1", "1", "--output", "q=y.npy"),
            2,
            "@scale has no array parameter 'q'; arrays: x, o",
        ),
        ((*BASE, "o.npy", "1", "1", "--output", "n=y.npy"), 2, "no array parameter 'n'"),
        (
            (*BASE, "o.npy", "1", "1", "--output", "o=a.npy", "--output", "o=b.npy"),
            2,
            "an output is given twice",
        ),
        ((*BASE, "o.npy", "1", "1", "--output", "o=no/y.npy"), 2, "no/y.npy cannot be written"),
        ((*BASE, "o.npy", "1", "1", "--sanitize", "--interpret"), 2, "not allowed with argument"),
        ((*BASE, "o.npy", "1", "1", "--input", "x=x.npy"), 2, "--input and --trusted are for saved models"),
        ((*BASE, "o.npy", "1", "1", "--fast"), 2, "unrecognized arguments: --fast"),
        (
            ("run", "m.joinery", "--grid", "3"),
            2,
            "--grid is for kernels (.ttir, .mlir, .tc, .c); m.joinery is read as a saved model",
        ),
        (("run", "m.joinery", "x.npy"), 2, "ARGUMENT is for kernels"),
        (
            (
                *BASE[:2],
                "--name",
                "scale",
                "--interpret",
                "--grid",
                "3",
                "x.npy",
                "zeros:float32:33",
                "40",
                "1",
            ),
            2,
            "element 33 of array 'o'",
        ),
    ],
)
def test_mistakes_in_run(
    capsys: Capture, files: Path, argv: tuple[str, ...], status: int, expected: str
) -> None:
    np.save(files / "pickled.npy", np.array([object()], object), allow_pickle=True)
    found, _, err = run(capsys, *argv)
    assert found == status
    assert expected in err

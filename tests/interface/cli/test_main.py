"""The `joinery` command (promotion: `test_promotion.py`): what it prints, where it writes, and how it answers mistakes."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import joinery as jn
import ml_dtypes
import numpy as np
import pytest
from joinery.__main__ import main
from joinery.runtime.storage import artifact_file

Capture = pytest.CaptureFixture[str]


def run(capsys: Capture, *argv: object) -> tuple[int, str, str]:
    """Exit status, stdout and stderr of one command in this process."""
    capsys.readouterr()
    try:
        status = main([str(argument) for argument in argv])
    except SystemExit as leaving:
        status = leaving.code if isinstance(leaving.code, int) else -1
    captured = capsys.readouterr()
    return status, captured.out, captured.err


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """difference = x @ w - y, total = its sum as bfloat16."""
    g = jn.Graph(
        "demo", [jn.TensorType(jn.float32, ("n", 3), name="x"), jn.TensorType(jn.float32, ("n", 2), name="y")]
    )
    x, y = g.inputs
    difference = x @ g.weight("w", np.arange(6, dtype=np.float32).reshape(3, 2)) - y
    g.output(difference, jn.sum(difference).cast(jn.bfloat16), names=["difference", "total"])
    path = tmp_path_factory.mktemp("cli") / "demo.joinery"
    jn.compile(g, cache=False).save(path)
    return path


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A cache of its own for every test."""
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    return tmp_path / "home"


# --- mistakes


@pytest.mark.parametrize(
    ("argv", "expected"),
    [
        (
            ("promot", "int8", "int8"),
            ["invalid choice: 'promot' (choose from", "promote", "table", "diff", "rules", "inspect", "run", "doctor"],
        ),
        ((), ["the following arguments are required: COMMAND"]),
        (("run", "m.joinery", "--input", "x"), ["argument --input: expected NAME=FILE, got 'x'"]),
        (("run", "m.joinery", "--input", "=x.npy"), ["expected NAME=FILE, got '=x.npy'"]),
        (
            ("inspect", "missing.joinery"),
            ["joinery inspect: artifact missing.joinery cannot be opened: No such file"],
        ),
        (
            ("run", "missing.joinery"),
            ["joinery run: artifact missing.joinery cannot be opened: No such file"],
        ),
    ],
)
def test_mistakes_exit_with_2_and_the_valid_names(
    capsys: Capture, argv: tuple[str, ...], expected: list[str]
) -> None:
    status, out, err = run(capsys, *argv)
    assert (status, out) == (2, "")
    for text in expected:
        assert text in " ".join(err.split())
    assert max(map(len, err.splitlines())) <= 80
    assert "Traceback" not in err


# --- inspect


def test_inspect(capsys: Capture, model: Path) -> None:
    status, out, err = run(capsys, "inspect", model)
    assert (status, err) == (0, "")
    lines = out.splitlines()
    assert lines[0].startswith("model 'demo', ")
    inputs, outputs = lines.index("inputs"), lines.index("outputs")
    assert lines[inputs + 1 : inputs + 3] == ["  x: float32[n, 3]", "  y: float32[n, 2]"]
    assert lines[outputs + 1 : outputs + 3] == ["  difference: float32[n, 2]", "  total: bfloat16[]"]
    assert "weights and constants (1, 24 bytes)" in lines
    assert any(line.startswith("  w: float32[3, 2], stored ") for line in lines)
    kernels = jn.load(model, trusted=True, cache=False).kernels
    for number, kernel in enumerate(kernels, 1):
        at = lines.index(f"  {number}  {kernel.name}")
        text = " ".join(" ".join(lines[at : at + 8]).split())
        assert f"{kernel.template}; grid {kernel.grid}; tiles " in text
        assert (
            f"reads {kernel.bytes_read} bytes, writes {kernel.bytes_written} bytes, {kernel.flops} flops"
            in text
        )
        assert f"fuses {', '.join(kernel.fused)}" in text
    assert max(map(len, lines)) <= 80


def test_inspect_tells_nothing_of_checks_and_weights_that_are_not_there(capsys: Capture, tmp_path: Path) -> None:
    graph = jn.Graph("plain", [jn.TensorType(jn.float32, (3,), name="x")])
    graph.output(graph.inputs[0] + graph.inputs[0])
    jn.compile(graph, device="cpu", cache=False).save(tmp_path / "plain.joinery")
    lines = run(capsys, "inspect", tmp_path / "plain.joinery")[1].splitlines()
    assert {"dims none", "checks (what a call says that fails one) none", "weights and constants none"} <= set(lines)


def test_inspect_links_and_compiles_nothing(model: Path) -> None:
    code = f"""
import sys
from joinery.__main__ import main
from joinery.runtime.host import device as host
host.HostDevice.link = lambda *_: sys.exit("linked")
status = main(["inspect", {str(model)!r}])
print(sorted({{"xdsl", "joinery.lowering.pipeline", "joinery.graph.graph"}} & set(sys.modules)), status)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.stdout.splitlines()[-1] == "[] 0", done.stderr


def test_a_file_without_compiled_code(capsys: Capture, model: Path, tmp_path: Path) -> None:
    opened = artifact_file.load(model)
    artifact_file.save(tmp_path / "bare.joinery", "bare", opened.graph_text, [], [])
    status, _, err = run(capsys, "inspect", tmp_path / "bare.joinery")
    assert status == 0, err


def test_inspect_names_damage(capsys: Capture, model: Path, tmp_path: Path) -> None:
    damaged = tmp_path / "damaged.joinery"
    damaged.write_bytes(model.read_bytes()[:-1])
    status, out, err = run(capsys, "inspect", damaged)
    assert (status, out) == (2, "")
    assert "it is truncated" in " ".join(err.split())


# --- run


@pytest.fixture
def arrays(tmp_path: Path) -> dict[str, Any]:
    x, y = np.arange(12, dtype=np.float32).reshape(4, 3), np.ones((4, 2), np.float32)
    np.save(tmp_path / "x.npy", x)
    np.save(tmp_path / "y.npy", y)
    np.save(tmp_path / "double.npy", y.astype(np.float64))
    expected = x @ np.arange(6, dtype=np.float32).reshape(3, 2) - y
    return {
        "x": tmp_path / "x.npy",
        "y": tmp_path / "y.npy",
        "double": tmp_path / "double.npy",
        "expected": expected,
    }


@pytest.mark.parametrize("trusted", [True, False])
def test_run_writes_outputs(
    capsys: Capture, model: Path, arrays: dict[str, Any], tmp_path: Path, trusted: bool
) -> None:
    results = {name: tmp_path / f"{name}.result" for name in ("difference", "total")}
    argv = ["run", model, f"--input=y={arrays['y']}", "--input", f"x={arrays['x']}", *["--trusted"] * trusted]
    for name, path in results.items():
        argv += ["--output", f"{name}={path}"]
    status, out, err = run(capsys, *argv)
    assert (status, err) == (0, "")
    assert out.splitlines() == [
        f"difference: float32[4, 2] -> {results['difference']}",
        f"total: bfloat16[] -> {results['total']}",
    ]
    np.testing.assert_array_equal(np.load(results["difference"]), arrays["expected"], strict=True)
    assert np.load(results["total"]).view(ml_dtypes.bfloat16) == arrays["expected"].sum().astype(
        ml_dtypes.bfloat16
    )


def test_run_prints_outputs(capsys: Capture, model: Path, arrays: dict[str, Any]) -> None:
    status, out, _ = run(
        capsys, "run", model, "--trusted", f"--input=x={arrays['x']}", f"--input=y={arrays['y']}"
    )
    assert status == 0
    assert out.startswith(
        "difference: float32[4, 2]\n" + np.array2string(arrays["expected"]) + "\ntotal: bfloat16[]\n"
    )


def test_run_on_a_simulated_gpu(capsys: Capture, model: Path, arrays: dict[str, Any], tmp_path: Path) -> None:
    inputs = [f"--input=x={arrays['x']}", f"--input=y={arrays['y']}"]
    to = tmp_path / "difference.npy"
    argv = ["run", model, *inputs, "--device", "ptxsim", "--target", "sm_89", "--output", f"difference={to}"]
    status, _, err = run(capsys, *argv)
    assert (status, err) == (0, "")
    np.testing.assert_array_equal(np.load(to), arrays["expected"], strict=True)
    status, _, err = run(capsys, "run", model, *inputs, "--device", "cpu", "--target", "sm_89")
    assert status == 2
    assert "target 'sm_89' is for GPUs" in err


def test_run_reads_ml_dtypes(capsys: Capture, tmp_path: Path) -> None:
    g = jn.Graph("half", [jn.TensorType(jn.bfloat16, (3,), name="x")])
    g.output(g.inputs[0] * 2, name="y")
    jn.compile(g, cache=False).save(tmp_path / "half.joinery")
    np.save(tmp_path / "x.npy", np.array([1, 2, 3], ml_dtypes.bfloat16))
    argv = ["run", tmp_path / "half.joinery", "--trusted", f"--input=x={tmp_path / 'x.npy'}"]
    assert run(capsys, *argv) == (0, "y: bfloat16[3]\n[2 4 6]\n", "")


@pytest.mark.parametrize(
    ("extra", "message"),
    [
        (["--input=z={x}"], "model 'demo' has no input 'z'; inputs: x, y"),
        (["--input=x={x}"], "model 'demo': missing input 'y'; expects x: float32[n, 3], y: float32[n, 2]"),
        (
            ["--input=x={x}", "--input=y={y}", "--output=totl={x}"],
            "has no output 'totl'; outputs: difference, total",
        ),
        (["--input=x={x}", "--input=x={x}"], "an input is given twice"),
        (
            ["--input=x={x}", "--input=y={double}"],
            "input 'y' expects float32, got float64 with shape (4, 2); fix:",
        ),
        (
            ["--input=x={x}", "--input=y={x}"],
            "input 'y' expects shape (n, 2), got (4, 3): axis 1 is 3, not 2",
        ),
        (["--input=x={x}", "--input=y=/missing.npy"], "/missing.npy cannot be read: No such file"),
        (["--input=x={x}", "--input=y={model}"], "is not an .npy file of numbers"),
        (
            ["--input=x={x}", "--input=y={y}", "--output=total=/missing/t.npy"],
            "/missing/t.npy cannot be written: No such",
        ),
        (["--threads=0"], "threads must be an int from 1 to 1024, not 0"),
    ],
)
def test_run_explains_mistakes(
    capsys: Capture, model: Path, arrays: dict[str, Any], extra: list[str], message: str
) -> None:
    filled = [text.format(model=model, **arrays) for text in extra]
    status, out, err = run(capsys, "run", model, "--trusted", *filled)
    assert (status, out) == (2, "")
    assert message in " ".join(err.split())


def test_arrays_with_pickled_objects_are_refused(capsys: Capture, model: Path, tmp_path: Path) -> None:
    np.save(tmp_path / "objects.npy", np.array([print], dtype=object), allow_pickle=True)
    status, _, err = run(capsys, "run", model, "--trusted", f"--input=x={tmp_path / 'objects.npy'}")
    assert status == 2
    assert "is not an .npy file of numbers" in " ".join(err.split())


# --- doctor, help, the process


def test_doctor(capsys: Capture, home: Path) -> None:
    status, out, err = run(capsys, "doctor")
    assert (status, err) == (0, "")
    lines = [line.strip() for line in out.splitlines()]
    assert f"joinery {jn.__version__}" in lines
    assert f"numpy {np.__version__}" in lines
    assert str(home / ".cache" / "joinery") in lines
    assert any(line.startswith("0 entries, 0 bytes of 1.0 GiB") for line in lines)
    assert any(line.endswith(f" of {os.cpu_count()} CPUs") for line in lines)
    assert lines[-1].endswith("it computes the right numbers")


def test_doctor_tells_what_is_wrong_with_the_cache(capsys: Capture, home: Path) -> None:
    home.mkdir()
    (home / ".cache").write_text("not a directory")
    status, out, _ = run(capsys, "doctor")
    assert status == 0
    assert "cannot be used" in " ".join(out.split())


@pytest.mark.parametrize("command", [(), ("promote",), ("table",), ("diff",), ("rules",), ("inspect",), ("run",), ("doctor",)])
def test_help_fits_80_columns(
    capsys: Capture, command: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "200")
    status, out, err = run(capsys, *command, "--help")
    assert (status, err) == (0, "")
    assert out.startswith("usage: joinery")
    assert max(map(len, out.splitlines())) <= 80


def test_the_command_as_a_process() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "joinery", "--version"], capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stdout) == (0, f"joinery {jn.__version__}\n")
    code = "import sys; from joinery.__main__ import main; main(['promote', 'int8', 'int16']); print('numpy' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.stdout.splitlines()[0] == "int8 ∨ int16 = int16   (rule set max)"
    assert done.stdout.splitlines()[-1] == "False", "a promotion query loads no NumPy"


def test_a_reader_that_leaves_early_is_no_error() -> None:
    command = f"{sys.executable} -m joinery table | head -c 20"
    done = subprocess.run(["sh", "-c", command], capture_output=True, text=True, check=False)
    assert done.stdout == "| max | bool | int8 "
    assert done.stderr == ""

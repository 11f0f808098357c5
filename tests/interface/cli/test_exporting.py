"""`joinery export`, `joinery compare`, and what `joinery run` and `inspect` show of models beside their outputs."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import joinery as jn
import numpy as np
import pytest
from joinery.interface.cli.main import main
from joinery.runtime.storage import artifact_file

from ...support.onnx_models import model, node

F = np.float32
X = np.arange(6, dtype=F).reshape(2, 3)
Capture = pytest.CaptureFixture[str]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    first = [node("Mul", "x w", "scaled", name="scale"), node("Exp", "scaled", "raised", name="raise")]
    nodes = [*first, node("Neg", "raised", "y")]
    for name, weight in (("a", 0.5), ("b", 0.75)):
        made = model(nodes, {"x": (F, ["n", 3])}, constants={"w": np.array([1.0, 1.0, weight], F)})
        (tmp_path / f"{name}.onnx").write_bytes(made.SerializeToString())
    late = model([node("Reshape", "x s")], {"x": (F, ["n", 3]), "s": (np.int64, [2])})
    (tmp_path / "late.onnx").write_bytes(late.SerializeToString())
    np.save(tmp_path / "x.npy", X)
    np.save(tmp_path / "s.npy", np.array([3, -1]))
    return tmp_path


def run(capsys: Capture, *argv: object) -> tuple[int, str, str]:
    status = main([str(part) for part in argv])
    out, err = capsys.readouterr()
    return status, out, " ".join(err.split())


def test_export_compiles_for_targets(capsys: Capture, folder: Path) -> None:
    path = folder / "a.joinery"
    status, out, _ = run(capsys, "export", folder / "a.onnx", "-o", path, "--target", "cpu", "--target", "sm_80")
    assert status == 0
    assert "nvptx, sm_80" in out
    assert len(artifact_file.load(path).manifest.targets) == 2
    np.testing.assert_allclose(jn.load(path, device="cpu")(X), -np.exp(X * np.array([1, 1, 0.5], F)), rtol=1e-6)
    again = folder / "again.joinery"
    assert run(capsys, "export", path, "-o", again, "--numerics", "fast")[0] == 0
    opened = artifact_file.load(again)
    assert (len(opened.manifest.targets), opened.manifest.metadata["numerics"]) == (1, "fast")
    assert "kernels" in run(capsys, "inspect", path, "--target", "sm_80")[1]
    assert "holds no code for sm_90" in run(capsys, "inspect", path, "--target", "sm_90")[2]


def test_export_fixes_values_and_sizes(capsys: Capture, folder: Path) -> None:
    path, late = folder / "late.joinery", folder / "late.onnx"
    status, _, err = run(capsys, "export", late, "-o", path)
    assert status == 1
    assert "constants={'s': array}" in err
    assert run(capsys, "export", late, "-o", path, "--constant", f"s={folder / 's.npy'}", "--size", "n=2")[0] == 0
    assert jn.load(path, device="cpu").inputs[0].shape == (2, 3)


def test_compare_takes_values_and_sizes_from_the_inputs(capsys: Capture, folder: Path) -> None:
    given = ("--input", f"x={folder / 'x.npy'}")
    status, out, err = run(capsys, "compare", folder / "late.onnx", *given, "--input", f"s={folder / 's.npy'}")
    assert (status, err) == (0, "")
    assert "agree: 1 outputs" in out
    assert "--constant s=FILE" in run(capsys, "compare", folder / "late.onnx", *given)[2]
    nodes = [node("Shape", "x", "n", start=0, end=1), node("Cast", "n", "f", to=1), node("Sqrt", "f", "r"),
             node("Cast", "r", "k", to=7), node("ConstantOfShape", "k", "zero"), node("ReduceSum", "x", "s", keepdims=0),
             node("Add", "zero s")]  # fmt: skip
    (folder / "root.onnx").write_bytes(model(nodes, {"x": (F, ["n", 3])}).SerializeToString())
    assert run(capsys, "compare", folder / "root.onnx", *given)[0] == 0
    path = folder / "root.joinery"
    assert "--size n=NUMBER" in run(capsys, "export", folder / "root.onnx", "-o", path)[2]
    assert run(capsys, "export", folder / "root.onnx", "-o", path, "--size", "n=2")[0] == 0


def test_run_writes_a_folder_and_shows_times(capsys: Capture, folder: Path) -> None:
    out_folder = folder / "out"
    status, out, _ = run(
        capsys, "run", folder / "a.onnx", "--input", f"x={folder / 'x.npy'}", "--output", out_folder, "--repeat", 3,
        "--profile", "--device", "cpu",
    )  # fmt: skip
    assert status == 0
    np.testing.assert_allclose(np.load(out_folder / "y.npy"), -np.exp(X * np.array([1, 1, 0.5], F)), rtol=1e-6)
    assert "2 calls after the first: median " in out
    assert "opening and compiling: " in out
    (head, names, _, row) = out.partition("kernels, per call\n")[2].split("\n")[:4]
    assert head.startswith("  graph: ")
    assert head.endswith(" outside kernels")
    assert names.split() == ["#", "time", "share", "bytes", "GB/s", "flops", "GFLOP/s", "kernel", "computes"]
    number, _, _, share, moved, *_ = row.split()
    assert (number, share, moved) == ("1", "100.0%", "60")
    assert "(a.onnx:0 in Mul 'scale', a.onnx:1 in Exp 'raise' and 1 more)" in row


def test_run_shows_times_as_json(capsys: Capture, folder: Path) -> None:
    given = ("--input", f"x={folder / 'x.npy'}", "--device", "cpu")
    out = run(capsys, "run", folder / "a.onnx", *given, "--profile", "--format", "json", "--output", f"y={folder / 'y.npy'}")[1]
    found = json.loads(out)
    assert (found["model"], found["calls"], next(iter(found["seconds_before"]))) == ("graph", 10, "opening and compiling")
    (kernel,) = found["kernels"]
    assert (kernel["bytes"], kernel["share"], kernel["lines"][0]) == (60, 1.0, "a.onnx:0 in Mul 'scale'")
    assert 0 < kernel["fastest"] <= kernel["seconds"] < found["seconds"]
    assert (folder / "y.npy").exists()
    given = (*given[:2], "--device", "ptxsim")
    status, out, _ = run(capsys, "run", folder / "a.onnx", *given, "--profile")
    assert status == 0
    assert "reads 36 bytes, writes 24 bytes" in out


def test_inspect_shows_a_model_in_onnx_and_files_without_code(capsys: Capture, folder: Path) -> None:
    out = run(capsys, "inspect", folder / "a.onnx")[1]
    for text in ("model 'graph', ", "  ai.onnx 23", "  x: float32[n, 3]", "  1, 12 bytes", "      1 Exp"):
        assert text in out
    graph = jn.Graph("words", [jn.TensorType("string", ("n",), "text")])
    graph.output(jn.string_concat(graph.inputs[0], "!"))
    jn.save(graph, folder / "words.joinery")
    out = run(capsys, "inspect", folder / "words.joinery")[1]
    assert "\ninputs\n  text: string[n]\noutputs\n" in out
    assert "string_concat" in out.partition("on the host")[2]


def test_models_that_agree(capsys: Capture, folder: Path) -> None:
    given = ("--input", f"x={folder / 'x.npy'}")
    status, out, _ = run(capsys, "compare", folder / "a.onnx", *given)
    assert (status, out.split()[-3:]) == (0, ["agree:", "1", "outputs"])
    run(capsys, "export", folder / "a.onnx", "-o", folder / "a.joinery")
    assert run(capsys, "compare", folder / "a.onnx", folder / "a.joinery", *given)[0] == 0


def test_the_first_operation_that_differs_is_named(capsys: Capture, folder: Path) -> None:
    status, out, _ = run(capsys, "compare", folder / "a.onnx", folder / "b.onnx", "--input", f"x={folder / 'x.npy'}")
    assert status == 2
    lines = out.splitlines()
    assert lines[0].startswith("output y: 2 of 6 elements, by at most ")
    assert lines[1] == "first difference, of 1 compared:"
    assert lines[2].endswith("mul, float32 (n, 3), from a.onnx:0 in Mul 'scale'")
    assert lines[3].endswith("mul, float32 (n, 3), from b.onnx:0 in Mul 'scale'")
    assert lines[4] == "  2 of 6 elements, by at most 1.25; first at [0, 2]: 1.0 and 1.5"


def renamed(folder: Path, name: str, outputs: str, *nodes: Any) -> Path:
    """A model in a file that computes exp(x) under one name or several, or what the nodes compute."""
    made = model(list(nodes) or [node("Exp", "x", outputs)], {"x": (F, ["n", 3])}, outputs)
    (folder / name).write_bytes(made.SerializeToString())
    return folder / name


def test_outputs_of_other_names_are_compared_by_position(capsys: Capture, folder: Path) -> None:
    given = ("--input", f"x={folder / 'x.npy'}")
    logits, output = renamed(folder, "one.onnx", "logits"), renamed(folder, "two.onnx", "output0")
    status, out, _ = run(capsys, "compare", logits, output, *given)
    assert status == 0
    assert "output logits of A is compared with output0 of B by its position" in " ".join(out.split())
    assert "agree: 1 outputs" in out
    other = renamed(folder, "three.onnx", "output0", node("Sinh", "x", "output0"))
    status, out, _ = run(capsys, "compare", logits, other, *given)
    assert status == 2
    assert "output logits: 6 of 6 elements" in out


def test_outputs_of_equal_names_are_compared_by_them_first(capsys: Capture, folder: Path) -> None:
    given = ("--input", f"x={folder / 'x.npy'}")
    both = [node("Exp", "x", "p"), node("Neg", "x", "q")]
    one = renamed(folder, "one.onnx", "p q", *both)
    two = renamed(folder, "two.onnx", "r p", node("Exp", "x", "p"), node("Neg", "x", "r"))
    status, out, _ = run(capsys, "compare", one, two, *given)
    assert (status, "agree: 2 outputs" in out) == (0, True)
    assert "output q of A is compared with r of B by its position" in " ".join(out.split())
    three = renamed(folder, "three.onnx", "p")
    status, out, _ = run(capsys, "compare", one, three, *given)
    assert (status, "agree: 1 outputs" in out) == (0, True)
    assert "no such outputs: q of A" in " ".join(out.split())
    four = renamed(folder, "four.onnx", "z")
    told = run(capsys, "compare", one, four, *given)
    assert told[0] == 2
    assert "no output of the same name, and 2 and 1 outputs; fix: names such as z" in " ".join(told[2].split())


def test_a_device_that_differs_is_found(capsys: Capture, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from joinery.graph.reference.registry import REFERENCE

    monkeypatch.setitem(REFERENCE, "exp", lambda symbol, x: np.exp(x) * np.where(x > 3, F(1.5), F(1)))
    status, out, _ = run(capsys, "compare", folder / "a.onnx", "--input", f"x={folder / 'x.npy'}")
    assert status == 2
    assert "first difference, of 2 compared:\n  A: " in out
    assert "exp, float32 (n, 3), from a.onnx:1 in Exp 'raise'" in out


@pytest.mark.parametrize(
    ("argv", "status", "message"),
    [
        (("export", "a.onnx", "-o", "a.joinery", "--target", "sm_7"), 2, "sm_7"),
        (("export", "x.joinery", "-o", "y.joinery", "--size", "n=2"), 2, "--constant and --size are for models in ONNX"),
        (("compare", "a.onnx", "--input", "z=x.npy"), 2, "has no input 'z'; inputs: x"),
        (("compare", "a.onnx"), 2, "takes 1 input (x: float32[n, 3]), got 0"),
        (("compare", "a.onnx", "late.onnx", "--constant", "s=s.npy"), 2, "constants has ['s']"),
        (("run", "a.onnx", "--input", "x=x.npy", "--repeat", "0"), 2, "--repeat 0; fix: 1 or more"),
        (("run", "a.onnx", "--input", "x=x.npy", "--output", "x.npy"), 2, "x.npy is no folder for outputs"),
        (("run", "a.onnx", "--input", "x=x.npy", "--format", "json"), 2, "--format json is for --profile; fix: add it"),
        (("run", "a.onnx", "--input", "x=x.npy", "--profile", "--format", "json", "--device", "ptxsim"), 1,
         "the launches of a GPU are not timed; fix: --device cpu"),
        (("run", "k.ttir", "--profile"), 2, "are for models; fix: leave them out"),
    ],
)
def test_mistakes(
    capsys: Capture, folder: Path, monkeypatch: pytest.MonkeyPatch, argv: tuple[str, ...], status: int, message: str
) -> None:
    monkeypatch.chdir(folder)
    found, _, err = run(capsys, *argv)
    assert found == status
    assert message in err

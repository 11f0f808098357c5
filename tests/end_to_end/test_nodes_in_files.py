"""Files of models say which nodes of ONNX their operations come from, and nothing of programs and directories."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import joinery as jn
import numpy as np
import pytest
from joinery.graph.text.printing import stored_text
from joinery.interface.cli.main import main

from ..support.onnx_models import body, model, node
from ..support.saved_models import FOLDER, INPUTS

F = np.float32
X = np.ones(9, F)


def from_file(folder: Path) -> Any:
    """A graph of a model in a file of a folder, whose nodes have names."""
    made = model([node("Sin", "x", "a", name="wave"), node("CumSum", "a axis", "y", name="/layers.0/sum")],
                 {"x": (F, ["n"])}, constants={"axis": np.int64(0)})  # fmt: skip
    folder.mkdir(parents=True)
    (folder / "tide.onnx").write_bytes(made.SerializeToString())
    return jn.from_onnx(folder / "tide.onnx")


def lines(run: Any, *arrays: Any) -> list[str]:
    return [line for kernel in run.profile(*arrays, repeat=1).kernels for line in kernel.lines]


@pytest.mark.parametrize("trusted", [True, False])
def test_a_profile_of_a_file_names_the_nodes(tmp_path: Path, trusted: bool) -> None:
    graph = from_file(tmp_path / "secret" / "place")
    saved = jn.compile(graph, device="cpu", cache=False)
    saved.save(tmp_path / "tide.joinery")
    again = jn.load(tmp_path / "tide.joinery", device="cpu", trusted=trusted, cache=False)
    assert lines(again, X) == lines(saved, X)
    assert any("tide.onnx:0 in Sin 'wave'" in line for line in lines(again, X))
    again.save(tmp_path / "again.joinery")
    assert (tmp_path / "again.joinery").read_bytes() == (tmp_path / "tide.joinery").read_bytes()


def test_directories_are_not_in_the_file(tmp_path: Path) -> None:
    files = []
    for place in ("secret", "other"):
        path = tmp_path / f"{place}.joinery"
        jn.save(from_file(tmp_path / place), path, targets=("cpu", "sm_80"), cache=False)
        files.append(path.read_bytes())
    assert files[0] == files[1]
    assert b"secret" not in files[0]
    assert str(tmp_path).encode() not in files[0]


def test_nodes_inside_of_loops_and_of_the_host(tmp_path: Path) -> None:
    step = body([node("Sin", "v", "w", name="inner")], {"i": (np.int64, []), "c": (np.bool_, []), "v": (F, ["n"])}, "c w")
    made = model([node("Loop", "count _ x", "a", body=step, name="outer"), node("NonZero", "a", "y", name="/last")],
                 {"x": (F, ["n"]), "count": (np.int64, [])})  # fmt: skip
    g = jn.from_onnx(made)
    path = tmp_path / "g.joinery"
    jn.compile(g, device="cpu", cache=False).save(path)
    text, _ = stored_text(g)
    assert text.encode() in path.read_bytes()
    assert re.search(r"= sin\(%\d+\) .* at \"graph\" 0 \"Loop 'outer' > Sin 'inner'\"", text)
    assert re.search(r"= nonzero\(.* at \"graph\" 1 \"NonZero '/last'\"", text)
    again = jn.load(path, device="cpu", budget=jn.Budget(open_loops=True))
    np.testing.assert_array_equal(again(X, np.int64(2)), np.nonzero(np.sin(np.sin(X))))


def test_lines_of_programs_are_not_in_a_file(tmp_path: Path) -> None:
    g = jn.Graph("g", [jn.TensorType(jn.float32, ("n",), "x")])
    g.output(jn.exp(g.inputs[0]))
    assert stored_text(g)[0] == jn.to_text(g)[0]
    jn.save(g, tmp_path / "g.joinery", cache=False)
    again = jn.load(tmp_path / "g.joinery", device="cpu", cache=False)
    assert lines(again, X) == []
    assert "unknown" not in str(again.profile(X, repeat=1))


def test_a_file_that_is_exported_again_keeps_its_nodes(tmp_path: Path) -> None:
    first, second = tmp_path / "first.joinery", tmp_path / "second.joinery"
    jn.save(from_file(tmp_path / "place"), first, cache=False)
    assert main(["export", str(first), "-o", str(second), "--target", "cpu"]) == 0
    found = lines(jn.load(second, device="cpu", cache=False), X)
    assert found == lines(jn.load(first, device="cpu", cache=False), X)
    assert "tide.onnx:0 in Sin 'wave'" in found


def test_older_files_have_no_lines() -> None:
    old = jn.load(FOLDER / "v1_network.joinery", device="cpu", cache=False)
    assert lines(old, *INPUTS["network"]) == []

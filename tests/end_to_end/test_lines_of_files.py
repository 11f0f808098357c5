"""Files of models say which nodes and lines their operations come from, by names of files without directories."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import joinery as jn
import numpy as np
import pytest
from joinery.graph.text.printing import stored_text

from ..support.onnx_models import model, node
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


def test_lines_of_programs_regions_and_operations_of_the_host(tmp_path: Path) -> None:
    g = jn.Graph("g", [jn.TensorType(jn.float32, ("n",), "x")])
    (x,) = g.inputs
    looped = jn.fori_loop(0, 3, lambda i, y: jn.sin(y), x)
    g.output(jn.nonzero(looped))
    path = tmp_path / "g.joinery"
    jn.compile(g, device="cpu", cache=False).save(path)
    text, _ = stored_text(g)
    assert text.encode() in path.read_bytes()
    assert re.search(r'= sin\(%1\).* at "test_lines_of_files.py" \d+ "<lambda>"', text)
    assert re.search(r'= nonzero\(.* at "test_lines_of_files.py" \d+ "test_lines', text)
    assert "/" not in "".join(re.findall(r' at "([^"]*)"', text))
    np.testing.assert_array_equal(jn.load(path, device="cpu")(X), np.nonzero(np.sin(np.sin(np.sin(X)))))


def test_what_has_no_location_has_none_in_a_file() -> None:
    g = jn.Graph("g", [jn.TensorType(jn.float32, ("n",), "x")])
    g.output(jn.exp(g.inputs[0]))
    plain = jn.from_text(*jn.to_text(g))
    assert stored_text(plain)[0] == jn.to_text(g)[0]
    assert " at " in stored_text(g)[0]
    assert jn.to_text(jn.from_text(*stored_text(g)))[0] == jn.to_text(g)[0]


def test_older_files_have_no_lines() -> None:
    old = jn.load(FOLDER / "v1_network.joinery", device="cpu", cache=False)
    assert lines(old, *INPUTS["network"]) == []

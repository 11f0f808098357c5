"""Models from strangers that ask for memory: strings that double, files that never end. Nothing is read or made before it is
counted."""

from __future__ import annotations

import os
import resource
import sys
from pathlib import Path
from typing import Any

import joinery as jn
import numpy as np
import pytest

from ...support.onnx_models import evaluated, model, node

TEXTS = np.array(["abcdefgh"], object)


def doubled(times: int, texts: Any = TEXTS, given: bool = False) -> Any:
    """Strings that are joined with themselves, again and again."""
    nodes = [node("StringConcat", f"t{step} t{step}", f"t{step + 1}") for step in range(times)]
    inputs, constants = ({"t0": (object, ["n"])}, {}) if given else ({}, {"t0": texts})
    return model(nodes, inputs, f"t{times}", constants=constants, opset=21)


def grown() -> int:
    """How far this process has grown at most, in MiB."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss >> (20 if sys.platform == "darwin" else 10)


def test_strings_that_double_are_not_folded_beyond_the_budget() -> None:
    before = grown()
    folded = jn.from_onnx(doubled(10))
    assert [symbol.op.name for symbol in folded.symbols] == ["text_constant"]
    assert jn.evaluate(folded).tolist() == ["abcdefgh" * 1024]
    graph = jn.from_onnx(doubled(45), limits=jn.OnnxLimits(folded_bytes=1 << 16))
    assert [symbol.op.name for symbol in graph.symbols].count("string_concat") > 20
    assert max(len(symbol.attrs.get("options", "")) for symbol in graph.symbols) < 1 << 18
    assert grown() - before < 100


def test_all_folded_strings_have_a_budget_together() -> None:
    limits = jn.OnnxLimits(all_folded_bytes=1000)
    assert "string_concat" in [symbol.op.name for symbol in jn.from_onnx(doubled(10), limits=limits).symbols]


@pytest.mark.slow
def test_strings_that_double_at_a_run_are_refused() -> None:
    graph = jn.from_onnx(doubled(4, given=True))
    assert jn.evaluate(graph, TEXTS).tolist() == ["abcdefgh" * 16]
    before = grown()
    with pytest.raises(jn.UserError, match=r"string_concat: its strings would take \d+ bytes.*fix:"):
        jn.evaluate(graph, np.array(["x" * (1 << 27)], object))
    assert grown() - before < 1500


def test_one_string_many_times() -> None:
    nodes = [node("Expand", "a shape", "b"), node("StringConcat", "b b")]
    constants = {"a": np.array(["x" * 5000], object), "shape": np.array([1 << 20])}
    with pytest.raises(jn.UserError, match=r"StringConcat[\s\S]*its strings would take \d+ bytes"):
        jn.from_onnx(model(nodes, {}, constants=constants, opset=21))


def test_parts_of_strings_are_not_folded_beyond_the_budget() -> None:
    texts = np.array([" ".join("ab") * 200, *["c"] * 300], object)
    made = model([node("StringSplit", "t", "y n")], {}, "y n", constants={"t": texts}, opset=21)
    limits = jn.OnnxLimits(folded_bytes=1 << 16)
    graph = jn.from_onnx(made, limits=limits)
    assert "string_split" in [symbol.op.name for symbol in graph.symbols]
    for one, other in zip(jn.evaluate(graph), jn.evaluate(jn.from_onnx(made)), strict=True):
        np.testing.assert_array_equal(one, other)


def test_small_strings_are_folded() -> None:
    texts = np.array([["a b", "c"], ["", "d e f"]], object)
    (found,) = evaluated(model([node("StringConcat", "t t")], {}, constants={"t": texts}, opset=21))
    assert found.tolist() == (texts + texts).tolist()
    with pytest.raises(jn.JoineryError, match="StringConcat") as caught:
        jn.from_onnx(model([node("StringConcat", "t u")], {}, constants={"t": texts, "u": texts[:, [0, 0, 0]]}, opset=21))
    assert not isinstance(caught.value, jn.InternalError)


def test_pipes_and_devices_are_no_models(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    for path in (tmp_path / "pipe", Path("/dev/zero")):
        with pytest.raises(jn.UserError, match=r"from_onnx: .*is no regular file; fix:"):
            jn.from_onnx(path)
        with pytest.raises(jn.UserError, match=r"artifact .* is no regular file; fix:"):
            jn.load(path)


def test_the_size_of_a_file_is_looked_at_before_it_is_read(tmp_path: Path) -> None:
    path = tmp_path / "large.onnx"
    with path.open("wb") as stream:
        stream.truncate(1 << 40)  # a file of holes
    before = grown()
    with pytest.raises(jn.UserError, match=r"large\.onnx: more than \d+ bytes; fix: limits=OnnxLimits\(file_bytes"):
        jn.from_onnx(path)
    assert grown() - before < 50

"""What the exporter guesses and does not find is no error: the graph is written as what it is made of."""

from __future__ import annotations

from typing import Any

import joinery as jn
import numpy as np
import pytest
from joinery.graph.onnx.export import equality
from joinery.graph.onnx.export.composed import binding
from joinery.promotion.errors import UnsupportedError, UserError

from .....fuzz import graphs
from .....fuzz.choices import Choices
from .....support.onnx_export.agreement import by_onnxruntime, exported, outputs
from .....support.onnx_export.forms import forms
from .....support.onnx_export.structure import structure
from .....support.tiers import both_tiers, share

HALVES: dict[str, tuple[tuple[Any, ...], tuple[Any, ...]]] = {
    "tables of heads": ((1, 2, 4, 8), (2, 4, 4)), "any batch": (("n", 2, "t", 8), (2, "t", 4)),
    "one pair": ((1, 2, 4, 2), (2, 1, 1)),
    "tables of columns": ((1, 2, 4, 8), (4, 1)), "whole tables": ((2, 2, 4, 8), (2, 2, 4, 4)), "vectors": ((2, 2, 4, 8), (4,)),
}  # fmt: skip


@pytest.mark.one_in(4)
@pytest.mark.parametrize("opset", [21, 23, 28])
@pytest.mark.parametrize("case", HALVES)
@pytest.mark.parametrize("turns", [False, True])
def test_halves_that_are_scaled_are_no_rotation(case: str, opset: int, turns: bool) -> None:
    pytest.importorskip("onnxruntime")
    shape, table = HALVES[case]
    half = shape[3] // 2
    types = [jn.TensorType("float32", each, name) for name, each in (("x", shape), ("a", table), ("b", table))]
    graph = jn.Graph("g", types)
    x, a, b = graph.inputs
    left, right = x[..., :half], x[..., half:]
    graph.output(jn.concat([left * a - right * b if turns else left * a, right * b], 3))
    sizes, rng = {"n": 3, "t": 5}, np.random.default_rng(0)
    arrays = [rng.normal(size=[sizes.get(d, d) for d in each]).astype(np.float32) for each in (shape, table, table)]
    made = exported(graph, opset=opset)
    np.testing.assert_allclose(by_onnxruntime(made, graph, arrays)[0], outputs(graph, arrays)[0], rtol=1e-5, atol=1e-5)
    assert structure(jn.from_onnx(made)) == structure(graph)
    assert "RotaryEmbedding" not in [node.op_type for node in made.graph.node]


@both_tiers
def test_random_graphs_have_a_model_in_every_opset(in_full: bool) -> None:
    count = 0
    for number in range(400 if in_full else 20):
        choices = Choices(f"guesses {number}")
        graph = graphs.drawn(choices, choices.flag(), 60, steps=choices.one(4, 9, 18)).graph
        told = ""
        try:
            exported(graph, opset=(23, 25, 28)[number % 3])
        except jn.UnsupportedError as error:
            told = str(error)
        assert not told or told.startswith("to_onnx: "), (number, told)
        count += not told
    assert count > (200 if in_full else 8)


@pytest.mark.parametrize("error", equality.UNFIT)
def test_a_function_that_refuses_its_operands_has_built_nothing(error: type[Exception]) -> None:
    def refuse(*_: Any) -> Any:
        raise error("x")

    graph = jn.Graph("g", [jn.TensorType("float32", (3,), "x")])
    y = jn.exp(graph.inputs[0])
    graph.output(y)
    assert equality.found_among(graph, refuse, (graph.inputs[0],), (y,)) is None
    assert equality.found_of_several(graph, refuse, (graph.inputs[0],), ((y,), ())) == [[], []]
    form = binding.form_of(graph, refuse, [(y.dtype, y.shape)], 0)
    assert form is None
    assert binding.bound(graph, form, y) is None


@both_tiers
@pytest.mark.parametrize("error", [UserError, UnsupportedError])
def test_every_form_has_a_model_where_all_guesses_fail(
    error: type[Exception], in_full: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As if no function took the operands that were guessed."""

    def refuse(*_: Any) -> Any:
        raise error("no")

    found = equality.found_of_several
    monkeypatch.setattr(equality, "found_of_several", lambda graph, make, leaves, some: found(graph, refuse, leaves, some))
    for form in share(list(forms()), 5, 37, in_full):
        told = ""
        try:
            exported(form.graph("n"), opset=23)
        except jn.UnsupportedError as refused:
            told = str(refused)
        assert not told or told.startswith("to_onnx: "), (form.name, told)

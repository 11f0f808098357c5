"""Programs that PyTorch traced give what PyTorch computed: on the evaluator and compiled, without PyTorch."""

from __future__ import annotations

import joinery as jn
import ml_dtypes
import numpy as np
import pytest
from joinery.graph.aten.importing import import_program

from ...support.aten_programs import DATA, Recorded, read

NAMES = sorted(path.stem for path in DATA.glob("*.json"))


def bound(dtype: np.dtype) -> float:
    """The error of sums of a few dozen products of numbers around 1, each rounded: 64 units in the last place of 1."""
    return 64 * float(ml_dtypes.finfo(dtype).eps) if jn.DType.from_numpy(dtype).is_float else 0.0


def assert_same(got: tuple[np.ndarray, ...], wanted: list[np.ndarray]) -> None:
    assert len(got) == len(wanted)
    for mine, theirs in zip(got, wanted, strict=True):
        assert mine.dtype == theirs.dtype
        assert mine.shape == theirs.shape
        error = bound(theirs.dtype)
        np.testing.assert_allclose(mine.astype(np.float64), theirs.astype(np.float64), rtol=error, atol=error)


@pytest.fixture(scope="module", params=NAMES)
def recorded(request: pytest.FixtureRequest) -> Recorded:
    return read(DATA / f"{request.param}.json")


def test_all_kinds_are_recorded() -> None:
    assert NAMES == ["attention", "image", "positions", "promotions"]


def test_the_evaluator_agrees_with_torch(recorded: Recorded) -> None:
    graph = import_program(recorded.program)
    for inputs, wanted in recorded.runs:
        got = jn.evaluate(graph, *inputs)
        assert_same(got if isinstance(got, tuple) else (got,), wanted)


@pytest.mark.one_in(4)
def test_compiled_code_agrees_with_torch(recorded: Recorded) -> None:
    model = jn.compile(import_program(recorded.program), "cpu")
    for inputs, wanted in recorded.runs:
        got = model(*inputs)
        assert_same(got if isinstance(got, tuple) else (got,), wanted)


def test_a_graph_travels_as_text(recorded: Recorded) -> None:
    graph = import_program(recorded.program)
    text, weights = jn.to_text(graph)
    again = jn.from_text(text, weights)
    assert again.canonical_key() == graph.canonical_key()
    assert [check[:2] for check in again.checks] == [check[:2] for check in graph.checks]


def test_the_ledger_has_the_casts_that_torch_makes_of_operands() -> None:
    graph = import_program(read(DATA / "promotions.json").program)
    found = [(entry.op, entry.source.name, entry.target.name) for entry in graph.casts()]
    assert found == [
        ("aten.add.Tensor", "int64", "bfloat16"),  # bfloat16 with axes, and integers
        ("aten.mul.Tensor", "int64", "float32"),  # the tensor without axes is of a higher kind
        ("aten.mul.Tensor", "int64", "float32"),  # so is the number
        ("aten.div.Tensor", "int64", "float32"),
    ]


def test_casts_that_the_model_asks_for_are_not_in_the_ledger() -> None:
    graph = import_program(read(DATA / "attention.json").program)
    assert graph.casts() == ()
    assert any(symbol.op.name == "cast" and symbol.dtype is jn.bool for symbol in graph.symbols)


def test_attention_and_normalisations_stay_whole() -> None:
    rows = {symbol.op.name for symbol in import_program(read(DATA / "attention.json").program).symbols}
    assert {"layer_norm", "softmax", "gelu"} <= rows


def test_symbols_name_the_lines_of_the_model() -> None:
    graph = import_program(read(DATA / "attention.json").program)
    (norm,) = [symbol for symbol in graph.symbols if symbol.op.name == "layer_norm"]
    assert (norm.location.file, norm.location.function) == ("record.py", "forward")


def test_sizes_outside_of_their_range_are_refused() -> None:
    recorded = read(DATA / "image.json")
    graph = import_program(recorded.program)
    with pytest.raises(jn.UserError, match="the size x_0 must be at least 2"):
        jn.evaluate(graph, np.zeros((1, 2, 9, 8), np.float32))

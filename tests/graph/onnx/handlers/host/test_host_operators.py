"""Operators on strings and of sizes from data, in models: against ONNX's reference evaluator, and compiled in parts."""

from __future__ import annotations

from typing import Any

import joinery as jn
import numpy as np
import pytest

from .....support.onnx_models import TensorProto, agrees, helper, model, node

F, INT = np.float32, np.int64
RNG = np.random.default_rng(5)
INPUTS = {"x": (F, ("n", 4))}


def texts(*entries: str) -> Any:
    return np.array(entries, dtype=object)


def of_strings(nodes: list[Any], names: tuple[str, ...] = ("x",), outputs: str = "y", **options: Any) -> Any:
    made = model(nodes, {name: (F, ("n",)) for name in names}, outputs, **options)
    for each in made.graph.input:
        each.type.tensor_type.elem_type = TensorProto.STRING
    return made


def compiled(made: Any, *arrays: Any) -> list[Any]:
    found = jn.compile(jn.from_onnx(made), device="cpu", cache=False)(*arrays)
    return list(found) if isinstance(found, tuple) else [found]


def test_positions_of_what_is_not_zero_select_rows() -> None:
    made = model(
        [node("ReduceMax", "x axes", "m", keepdims=0), node("Greater", "m zero", "c"), node("NonZero", "c", "p"),
         node("Squeeze", "p zero_axis", "i"), node("Gather", "x i", "r", axis=0), node("Shape", "r", "y"),
         node("Relu", "r", "z")],
        INPUTS, "y z", constants={"axes": np.array([1]), "zero": F(0), "zero_axis": np.array([0])},
    )  # fmt: skip
    x = RNG.random((9, 4)).astype(F)
    x[[2, 5]] = -1
    agrees(made, x)
    assert compiled(made, x)[0].tolist() == [7, 4]


@pytest.mark.parametrize("axis", [None, 0, 1, -1])
def test_compress_by_a_condition_that_is_data(axis: int | None) -> None:
    options = {} if axis is None else {"axis": axis}
    made = model([node("Compress", "x c", **options)], {"x": (F, (3, 4)), "c": (np.bool_, ("k",))})
    x = RNG.standard_normal((3, 4)).astype(F)
    agrees(made, x, np.array([True, False, True]))
    with pytest.raises(jn.UserError, match=r"13"):
        jn.evaluate(jn.from_onnx(made), x, np.ones(13, np.bool_))


def test_a_detector_keeps_its_best_boxes() -> None:
    constants = {"limit": np.array([4]), "iou": np.array([0.4], F), "score": np.array([0.3], F), "two": np.array([2]),
                 "shape": np.array([-1])}  # fmt: skip
    made = model(
        [node("Sigmoid", "s", "p"), node("NonMaxSuppression", "b p limit iou score", "found"),
         node("Gather", "found two", "column", axis=1), node("Reshape", "column shape", "i"),
         node("Gather", "b i", "y", axis=1)],
        {"b": (F, (1, "n", 4)), "s": (F, (1, "classes", "n"))}, "y found", constants=constants,
    )  # fmt: skip
    boxes, scores = RNG.random((1, 30, 4), F), RNG.standard_normal((1, 3, 30)).astype(F)
    expected = jn.evaluate(jn.from_onnx(made), boxes, scores)
    found = compiled(made, boxes, scores)
    assert len(found[1]) > 3
    for one, other in zip(expected, found, strict=True):
        np.testing.assert_array_equal(one, other)


def test_unique_with_all_outputs() -> None:
    made = model([node("Unique", "x", "y i j k", axis=0, sorted=0)], {"x": (INT, ("n", 2))}, "y i j k")
    agrees(made, RNG.integers(0, 2, (8, 2)))


def test_strings_as_inputs_constants_and_outputs() -> None:
    made = of_strings([node("StringConcat", "x suffix", "y"), node("Equal", "y want", "z")], outputs="y z")
    for name, entries in (("suffix", [b"!"]), ("want", ["ü!".encode()])):
        made.graph.initializer.append(helper.make_tensor(name, TensorProto.STRING, [1], entries))
    found, same = compiled(made, texts("a", "ü"))
    assert (found.tolist(), same.tolist()) == (["a!", "ü!"], [False, True])


def test_strings_go_through_shapes_and_sequences() -> None:
    made = of_strings([node("StringSplit", "x", "parts count"), node("Gather", "parts zero", "first", axis=1),
                       node("Identity", "first", "y"), node("ReduceSum", "count", "z", keepdims=0)], outputs="y z",
                      constants={"zero": np.array(0)})  # fmt: skip
    first, total = compiled(made, texts("a b", "c"))
    assert (first.tolist(), total) == (["a", "c"], 3)


def test_strings_and_numbers_are_cast() -> None:
    made = of_strings([node("Cast", "x", "f", to=TensorProto.FLOAT), node("Mul", "f f", "g"),
                       node("Cast", "g", "y", to=TensorProto.STRING)])  # fmt: skip
    assert compiled(made, texts("1.5", "-2", "NaN"))[0].tolist() == ["2.25", "4.0", "nan"]


def test_constant_strings_are_folded() -> None:
    made = of_strings([node("StringNormalizer", "c", "d", case_change_action="UPPER", stopwords=["b"]),
                       node("StringConcat", "x d", "y")])  # fmt: skip
    made.graph.initializer.append(helper.make_tensor("c", TensorProto.STRING, [2], [b"a", b"b"]))
    graph = jn.from_onnx(made)
    assert "string_normalize" not in str(graph)
    assert jn.evaluate(graph, texts("x")).tolist() == ["xA"]


@pytest.mark.parametrize(
    "change",
    [
        {"mode": "COUNT"}, {"ngram_indexes": [0, 1]}, {"ngram_counts": [0, 9]}, {"pool_strings": ["a"]},
        {"min_gram_length": -1}, {"ngram_indexes": [0, 1, 1 << 40]},
    ],
)  # fmt: skip
def test_vectorizers_that_do_not_fit(change: dict[str, Any]) -> None:
    options: dict[str, Any] = {"mode": "TF", "min_gram_length": 1, "max_gram_length": 2, "max_skip_count": 0,
                               "ngram_counts": [0, 1], "ngram_indexes": [0, 1], "pool_int64s": [1, 2, 3]}  # fmt: skip
    made = model([node("TfIdfVectorizer", "x", **options)], {"x": (INT, ("n",))})
    assert jn.evaluate(jn.from_onnx(made), np.array([1, 2, 3])).tolist() == [1, 1]
    made = model([node("TfIdfVectorizer", "x", **{**options, "ngram_indexes": [0, 0], **change})], {"x": (INT, ("n",))})
    if change == {"ngram_indexes": [0, 1]}:
        jn.from_onnx(made)
        return
    with pytest.raises(jn.UserError):
        jn.from_onnx(made)


@pytest.mark.parametrize(("longest", "skips"), [(2**31 - 1, 0), (2, 2**63 - 1), (2**40, 2**40), (3, 4), (1, 9)])
def test_lengths_and_skips_beyond_the_row_take_no_time(longest: int, skips: int) -> None:
    terms = [(1,), (2,), (1, 2), (2, 1), (1, 2, 1)]
    options: dict[str, Any] = {"mode": "TF", "min_gram_length": 1, "max_gram_length": longest, "max_skip_count": skips,
                               "ngram_counts": [0, 2, 6], "ngram_indexes": [0, 1, 2, 3, 4],
                               "pool_int64s": [entry for term in terms for entry in term]}  # fmt: skip
    graph = jn.from_onnx(model([node("TfIdfVectorizer", "x", **options)], {"x": (INT, ("r", "n"))}))
    for x in ([[1, 2, 1, 1, 2, 2, 1]], [[2], [1]], [[1, 1, 2, 2], [2, 1, 2, 1]]):
        want = [[float(sum(tuple(row[at : at + (len(term) - 1) * step + 1 : step]) == term
                           for step in range(1, min(skips, len(row)) + 2 if len(term) > 1 else 2)
                           for at in range(len(row) - (len(term) - 1) * step)) if len(term) <= longest else 0.0)
                 for term in terms] for row in x]  # fmt: skip
        assert jn.evaluate(graph, np.array(x)).tolist() == want
    text, arrays = jn.to_text(graph)
    small = jn.from_text(text, arrays, jn.Budget(work=200))
    assert jn.evaluate(small, np.array([[1, 2]])).shape == (1, 5)
    if min(longest, skips) > 1:
        with pytest.raises(jn.UserError, match="more operations than the budget"):
            jn.evaluate(small, np.ones((4, 16), INT))

"""What mutated models have found: each is refused with a fix, or runs."""

from __future__ import annotations

from typing import Any

import joinery as jn
import numpy as np
import pytest

from ...support.onnx_models import body, evaluated, model, node

F, INT = np.float32, np.int64
LONG = "w" * 5000
ROWS = (F, ["n", 3])


def labels() -> Any:
    encode = node("LabelEncoder", "x", domain="ai.onnx.ml", keys_strings=["a"], values_int64s=[1])
    return model([encode], {"x": (np.str_, [5])}, domains={"ai.onnx.ml": 1 << 40})


def looped(inputs: dict[str, Any], outputs: str, states: str = "x") -> Any:
    inner = body([node("Identity", name, f"{name}_out") for name in inputs], inputs, outputs)
    return model([node("Loop", f"trips _ {states}", "y", body=inner)], {"x": ROWS, "trips": (INT, [])})


def without_terms() -> Any:
    made = node("TfIdfVectorizer", "x", mode="TF", min_gram_length=1, max_gram_length=1, max_skip_count=0, ngram_counts=[0],
                ngram_indexes=[0], pool_int64s=[4])  # fmt: skip
    next(each for each in made.attribute if each.name == "ngram_counts").ints.clear()
    return made


TAKEN = {"i": (INT, []), "c": (np.bool_, []), "s": ROWS}
REFUSED: dict[str, Any] = {
    "a version beyond 32 bits": labels(),
    "sizes joined with a matrix": model(
        [node("Shape", "x", "s"), node("Concat", "s m", "t", axis=0), node("Reshape", "x t")], {"x": ROWS},
        constants={"m": [[3]]},
    ),
    "sizes joined with a float": model(
        [node("Shape", "x", "s"), node("Concat", "s m", "t", axis=0), node("Reshape", "x t")], {"x": (F, ["n", 3])},
        constants={"m": np.zeros(1, F)},
    ),
    "a shape of 70 axes": model([node("Expand", "x t")], {"x": ROWS}, constants={"t": np.ones(70, INT)}),
    "a vectorizer without terms": model([without_terms()], {"x": (INT, [2])}),
    "a name of a size that is longer than a message": model(
        [node("DeformConv", "x w o")], {"x": (F, [1, 1, LONG, 3]), "w": (F, [1, 1, 2, 2]), "o": (F, [1, 8, 4, 4])}
    ),
    "a grid without axes": model([node("GridSample", "x g")], {"x": (F, [1, 1, 3, 2]), "g": (F, [])}),
    "a range to no number": model(
        [node("Shape", "x", "s"), node("Squeeze", "s", "n"), node("Range", "n e one")], {"x": (F, ["n"])},
        constants={"e": np.zeros(0, INT), "one": np.array(1)},
    ),
    "a range to two numbers of the data": model(
        [node("ReduceSum", "x axis", "e", keepdims=0), node("Range", "zero e one")], {"x": (INT, [2000, 2])},
        constants={"axis": [0], "zero": np.array(0), "one": np.array(1)},
    ),
    "a sum of one size": model([node("Shape", "x", "s"), node("Add", "s _", "t"), node("Expand", "x t")], {"x": ROWS}),
    "a loop whose body returns nothing": looped(TAKEN, ""),
    "a loop whose body takes less": looped({"i": (INT, []), "c": (np.bool_, [])}, "c_out i_out"),
    "a loop of no trip count": model(
        [node("Loop", "trips _ x", "y", body=body([node("Identity", "c", "d"), node("Neg", "s", "t")], TAKEN, "d t"))],
        {"x": ROWS}, constants={"trips": np.zeros(0, INT)},
    ),
    "a scan with more axes than inputs": model(
        [node("Scan", "x x", "_ y", num_scan_inputs=1, scan_input_axes=[0, 0],
              body=body([node("Add", "s e", "t"), node("Neg", "e", "r")], {"s": ROWS, "e": (F, [3])}, "t r"))],
        {"x": ROWS},
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", REFUSED)
def test_a_refusal_has_a_fix(name: str) -> None:
    with pytest.raises((jn.UserError, jn.UnsupportedError)) as caught:
        jn.from_onnx(REFUSED[name])
    assert len(str(caught.value)) < 5000
    assert "fix:" in str(caught.value) or "expected:" in str(caught.value)


@pytest.mark.parametrize("attribute", ["strides", "dilations"])
def test_the_stride_of_a_single_window_may_be_any_number(attribute: str) -> None:
    kernel = [1, 1] if attribute == "dilations" else [3, 4]
    made = model([node("Conv", "x w", **{attribute: [1 << 40, 1 << 62]})], {"x": (F, [1, 2, 3, 4])},
                 constants={"w": np.ones((1, 2, *kernel), F)})  # fmt: skip
    x = np.arange(24, dtype=F).reshape(1, 2, 3, 4)
    want = x.sum(1, keepdims=True) if attribute == "dilations" else x.sum().reshape(1, 1, 1, 1)
    np.testing.assert_array_equal(evaluated(made, x)[0], want)
    np.testing.assert_array_equal(jn.compile_onnx(made, device="cpu", threads=1)(x), want)


def test_rows_without_words_have_no_terms() -> None:
    count = node("TfIdfVectorizer", "x", mode="TF", min_gram_length=1, max_gram_length=1, max_skip_count=0,
                 ngram_counts=[0], ngram_indexes=[0, 1], pool_int64s=[4, 5])  # fmt: skip
    (found,) = evaluated(model([count], {"x": (INT, [2, 0])}), np.zeros((2, 0), INT))
    np.testing.assert_array_equal(found, np.zeros((2, 2), F))

"""Operations of the host in ONNX: what the values decide the sizes of, and strings; in onnxruntime, and read back."""

from __future__ import annotations

import importlib.util
import math
import re
from collections.abc import Callable
from typing import Any

import joinery as jn
import numpy as np
import pytest
from joinery.graph.onnx.export.table import SIZED, WRITERS
from joinery.graph.ops.host import ROWS

from ....support.onnx_export.agreement import by_onnxruntime, exported, outputs
from ....support.onnx_export.structure import structure

has_onnxruntime = pytest.mark.skipif(importlib.util.find_spec("onnxruntime") is None, reason="onnxruntime is not installed")

NUMBERS = np.array([[3, 0, 2, 3], [0, 0, 1, 2], [3, 0, 2, 3]])
WORDS = np.array(["one two", "", "Two  three four", "a-b", "12"], dtype=object)
TERMS: list[list[Any]] = [["b", "c"], ["a"], ["a", "b"], ["c"]]
BOXES = np.random.default_rng(1).random((2, 9, 4)).astype(np.float32)
SCORES = np.random.default_rng(2).random((2, 3, 9)).astype(np.float32)


def graph_of(build: Callable[..., Any], *inputs: tuple[Any, Any]) -> Any:
    """Return a graph of inputs (dtype, array), whose first axis has a name, and what `build` makes of them."""
    types = [
        jn.TensorType(dtype, (f"n{len(array)}", *array.shape[1:]), f"x{at}")
        for at, (dtype, array) in enumerate(inputs)
    ]
    graph = jn.Graph("case", types, policy="strict")
    made = build(*graph.inputs)
    made = made if isinstance(made, tuple) else (made,)
    graph.output(*made, names=[f"out{at}" for at in range(len(made))])
    return graph


def numbers(dtype: Any) -> tuple[Any, Any]:
    return dtype, NUMBERS.astype(dtype.numpy)


def encoded(dtype: Any, values: Any, result: Any, default: Any) -> Callable[[Any], Any]:
    keys = ["one two", "a-b", "a-b"] if dtype is None else [3, 2, 7]
    return lambda x: jn.encode_labels(x, keys, values, default, result)


TEXT = ("string", WORDS)
CASES: dict[str, tuple[Callable[..., Any], tuple[tuple[Any, Any], ...]]] = {
    **{f"nonzero {dtype}": (jn.nonzero, (numbers(dtype),))
       for dtype in (jn.bool, jn.int8, jn.uint64, jn.float16, jn.float32, jn.float64)},
    "nonzero string": (jn.nonzero, (TEXT,)),
    **{f"unique {dtype}": (lambda x: jn.unique(x), (numbers(dtype),))
       for dtype in (jn.int8, jn.int32, jn.uint16, jn.float16, jn.float32, jn.float64)},
    "unique uint64": (lambda x: jn.unique(x), ((jn.uint64, np.array([1, 1 << 63, 5, 1 << 63, 1], np.uint64)),)),
    "unique rows": (lambda x: jn.unique(x, axis=0), (numbers(jn.float32),)),
    "unique in order": (lambda x: jn.unique(x, sorted=False), (numbers(jn.int64),)),
    "unique string": (lambda x: jn.unique(x), (("string", np.array(["b", "a", "b"], dtype=object)),)),
    "counts alone": (lambda x: jn.unique(x)[3], (numbers(jn.int64),)),
    "suppression": (lambda b, s: jn.non_max_suppression(b, s, 3, 0.25, 0.5), ((jn.float32, BOXES), (jn.float32, SCORES))),
    "suppression of centers": (lambda b, s: jn.non_max_suppression(b, s, 2, 0.0, center_point_box=True),
                               ((jn.float32, BOXES), (jn.float32, SCORES))),
    "concat": (lambda x: jn.string_concat(x, "!"), (TEXT,)),
    "equal": (lambda x: jn.string_equal(x, "a-b"), (TEXT,)),
    "split": (lambda x: jn.string_split(x), (TEXT,)),
    "split once": (lambda x: jn.string_split(x, "-", 1), (TEXT,)),
    "split count": (lambda x: jn.string_split_count(x, "o"), (TEXT,)),
    "match": (lambda x: jn.regex_full_match(x, r"[a-z -]*\d*"), (TEXT,)),
    "normalize": (lambda x: jn.string_normalize(x, "lower", True, ["a-b", ""]), (TEXT,)),
    "terms": (lambda x: jn.tf_idf(x, TERMS, (1, 2), 1, "TFIDF", [3, 0, 1, 2], [0.5, 2, 1, 4]),
              (("string", np.array(["a", "b", "a", "c", "b", "c"], dtype=object)),)),
    "terms of numbers": (lambda x: jn.tf_idf(x, [[3], [2, 3], [0, 2]], (1, 2)), (numbers(jn.int32),)),
    "labels to numbers": (encoded(None, [1, 2, 3], jn.int64, -1), (TEXT,)),
    "labels to float16": (encoded(None, [0.1, 2, 3], jn.float16, -1.5), (TEXT,)),
    "numbers to labels": (encoded(jn.int32, ["a", "b", "c"], "string", "?"), (numbers(jn.int32),)),
    "numbers to numbers": (encoded(jn.float32, [1.5, 2, 3], jn.float64, 0.1), (numbers(jn.float32),)),
    "parse": (lambda x: jn.parse_numbers(x, "int32"), (("string", np.array(["12", "-7"], dtype=object)),)),
    "print": (lambda x: jn.print_numbers(x), (numbers(jn.int64),)),
    "print bool": (lambda x: jn.print_numbers(x), (numbers(jn.bool),)),
    "moved": (lambda x: (jn.gather(x, jn.nonzero(jn.string_equal(x, "a-b"))[0]), jn.concat([x, x], 0), jn.flip(x),
                         x.reshape((1, -1))), (TEXT,)),
    "compress": (lambda x: jn.compress(x, x[:, 0] > 1, axis=0), (numbers(jn.float32),)),
    "size of what is found": (lambda x: jn.sum(x) / x.graph.dim_value(jn.nonzero(x).shape[1]).cast(jn.float32),
                              (numbers(jn.float32),)),
}  # fmt: skip
CARRIED = ("int8", "uint64", "float16", "float64", "int32", "uint16")
READ_OTHERWISE = {
    "nonzero string": "the comparison with the empty string is a node",
    "size of what is found": "a size as a float is a ratio",
    "terms": "terms come in the order of their lengths",
    **{f"{row} {dtype}": "the casts to and from what carries the dtype are nodes"
       for row in ("nonzero", "unique") for dtype in CARRIED},
}  # fmt: skip
"""Cases whose graphs are read back with another structure, and why."""


def named_alike(texts: tuple[str, ...]) -> tuple[str, ...]:
    """Drop the names of sizes, which are new at each import."""
    return tuple([re.sub(r"\b(nonzero|unique|boxes|parts|words|size)_\d+", r"\1", text) for text in texts])


@pytest.mark.parametrize("name", sorted(CASES))
def test_graphs_with_host_operations_are_read_back_as_they_were(name: str) -> None:
    build, inputs = CASES[name]
    graph = graph_of(build, *inputs)
    arrays = [array for _, array in inputs]
    again = jn.from_onnx(exported(graph))
    for got, want in zip(outputs(again, arrays), outputs(graph, arrays), strict=True):
        assert (got.dtype, got.shape, got.tolist()) == (want.dtype, want.shape, want.tolist())
    if name not in READ_OTHERWISE:
        assert named_alike(structure(again)) == named_alike(structure(graph))


@has_onnxruntime
@pytest.mark.parametrize("name", sorted(CASES))
def test_onnxruntime_computes_the_same(name: str) -> None:
    build, inputs = CASES[name]
    graph = graph_of(build, *inputs)
    arrays = [array for _, array in inputs]
    if "split" in name:  # it takes an empty string for no part, others for one
        arrays = [array[array != ""] for array in arrays]
    try:
        found = by_onnxruntime(jn.to_onnx(graph), graph, arrays)
    except Exception as error:  # the locale that it lowers letters by is not on every machine
        if name == "normalize" and "locale" in str(error):
            pytest.skip("no locale")
        raise
    for got, want in zip(found, outputs(graph, arrays), strict=True):
        assert (np.shape(got), np.asarray(got).tolist()) == (want.shape, want.tolist())
        assert np.asarray(got).dtype == want.dtype


def test_every_row_of_the_host_is_written_and_tried() -> None:
    rows = {row.name for row in ROWS if "internal" not in row.traits}  # the others stand behind loops, which are not written
    assert rows <= {*WRITERS, *SIZED}
    tried = {symbol.op.name for build, inputs in CASES.values() for symbol in graph_of(build, *inputs).symbols}
    assert rows - tried == {"image_decode"}


def test_a_picture_is_decoded_by_one_node() -> None:
    graph = jn.Graph("g", [jn.TensorType(jn.uint8, ("n",), "file")])
    graph.output(jn.image_decode(graph.inputs[0], "BGR"), name="pixels")
    model = exported(graph)
    assert [node.op_type for node in model.graph.node] == ["ImageDecoder"]
    assert named_alike(structure(jn.from_onnx(model)))[1].startswith("image_decode[0]")
    with pytest.raises(jn.UnsupportedError, match=r"ImageDecoder is in opset 20 and later, not in 18(.|\n)*fix: opset=20"):
        jn.to_onnx(graph, opset=18)


def test_equal_calls_share_a_node_with_several_outputs() -> None:
    graph = graph_of(lambda x: (*jn.unique(x), *jn.string_split(jn.print_numbers(x), "0")), numbers(jn.float32))
    ops = [node.op_type for node in jn.to_onnx(graph).graph.node]
    assert ops.count("Unique") == ops.count("StringSplit") == 1


@pytest.mark.one_in(2)
@has_onnxruntime
@pytest.mark.parametrize("sizes", [(5,), (3, 7)])
def test_random_bits_are_the_same_everywhere(sizes: tuple[int, ...]) -> None:
    shape = ("n", *sizes[1:])
    graph = jn.Graph("g", [jn.TensorType(jn.float32, shape, "x")])
    (x,) = graph.inputs
    graph.output(jn.random_bits(x, 1 << 40, (1 << 63) + 5), jn.random_uniform(x, seed=3), jn.bernoulli(x * 0 + 0.5, 9))
    array = np.zeros(sizes, np.float32)
    found = by_onnxruntime(exported(graph), graph, [array])
    for got, want in zip(found, outputs(graph, [array]), strict=True):
        np.testing.assert_array_equal(got, want)


def _scalar(x: Any) -> Any:
    return jn.nonzero(x.reshape((-1,))[0].reshape(()))


@pytest.mark.parametrize(
    ("build", "inputs", "reason"),
    [
        (_scalar, (numbers(jn.float32),), "leaves open how many axes a scalar's positions have"),
        (lambda b, s: jn.non_max_suppression(b, s, 1, 1.5), ((jn.float32, BOXES), (jn.float32, SCORES)), "from 0 to 1, not 1"),
        (lambda x: jn.tf_idf(x, [], (1, 1)), (TEXT,), "terms of one entry or more"),
        (lambda x: jn.tf_idf(x, [[1]], (1, 1)), (numbers(jn.uint64),), "terms are int64"),
        (lambda x: jn.encode_labels(x, [1], [1], 0, jn.uint64), (numbers(jn.int32),), "no labels as uint64"),
        (lambda x: jn.encode_labels(x, [0.1], [1], 0, jn.int64), (numbers(jn.float16),), "no table without keys"),
        (lambda x: jn.print_numbers(x), ((jn.complex64, NUMBERS.astype(np.complex64)),), "prints no complex"),
    ],
)  # fmt: skip
def test_what_onnx_has_no_form_of_is_refused(build: Any, inputs: Any, reason: str) -> None:
    with pytest.raises(jn.UnsupportedError, match=rf"at test_host_ops\.py:\d+ .*{reason}(.|\n)*fix: "):
        jn.to_onnx(graph_of(build, *inputs))


def test_nan_is_a_key() -> None:
    table = lambda x: jn.encode_labels(x, [math.nan, 1.0], [5, 6], 7, jn.int64)  # noqa: E731
    array = np.array([[1.0, np.nan, 2.0]], np.float32)
    graph = graph_of(table, (jn.float32, array))
    assert outputs(jn.from_onnx(exported(graph)), [array])[0].tolist() == [[6, 5, 7]]

"""States of loops that grow, sequences that loops make, and sizes that data decides, against onnxruntime."""

from __future__ import annotations

from typing import Any

import joinery as jn
import numpy as np
import pytest
from joinery.graph.ops.control import has_control

onnx = pytest.importorskip("onnx")
from onnx import parser  # noqa: E402

onnxruntime = pytest.importorskip("onnxruntime")

TRUE = "yes = Constant <value = bool {1}> ()\n"
AXIS = "front = Constant <value = int64[1] {0}> ()\n"
TRIPS = "trips = Constant <value = int64 {%d}> ()\n"
LIMIT = "limit = Constant <value = float {40}> ()\n"
ENDS = "total = ReduceSum <keepdims = 0> (next)\n again = Less (total, limit)"


def model(text: str) -> Any:
    return parser.parse_model('<ir_version: 8, opset_import: ["" : 18]>\n' + text)


def doubling(start: str, trips: int, kind: str, grow: str, ends: str = ENDS) -> Any:
    """A model that doubles x until its sum is 40, and lets a state of a type grow."""
    return model(
        f"g (float[n] x) => ({kind} y) {{ {TRUE} {AXIS} {LIMIT} {TRIPS % trips} {start}\n"
        "last, y = Loop (trips, yes, x, before) <"
        f"body = b (int64 i, bool going, float[n] a, {kind} old) => (bool again, float[n] next, {kind} grown) {{"
        f"next = Add (a, a)\n {grow}\n {ends} }}> }}"
    )


def agree(made: Any, *feeds: Any, control: bool = True) -> Any:
    """The graph has loops, and the compiled model returns what onnxruntime does."""
    graph = jn.from_onnx(made)
    assert has_control(graph) == control
    compiled = jn.compile_onnx(made, device="cpu", threads=1)
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    session = onnxruntime.InferenceSession(made.SerializeToString(), options)
    for feed in feeds:
        expected, found = session.run(None, {"x": feed}), compiled.run({"x": feed})
        for (name, value), wanted in zip(found.items(), expected, strict=True):
            assert isinstance(value, list) == isinstance(wanted, list), name
            pairs = zip(value, wanted, strict=True) if isinstance(value, list) else [(value, wanted)]
            for one, other in pairs:
                assert (one.dtype, one.shape) == (other.dtype, other.shape)
                np.testing.assert_allclose(one, other, rtol=1e-6)
    return compiled


FEEDS = [np.array(values, np.float32) for values in ([3, 1], [0.5], [100, 1, 1])]
ROWS = "row = Unsqueeze (next, front)\n grown = Concat <axis = 0> (old, row)"
INSERTED = "grown = SequenceInsert (old, next)"
MATRIX = "before = Unsqueeze (x, front)"


@pytest.mark.parametrize("trips", [9, 400])
def test_a_state_that_is_appended_to_until_data_ends_the_loop(trips: int) -> None:
    agree(doubling(MATRIX, trips, "float[k, n]", ROWS), *FEEDS)


def test_a_state_that_is_appended_to_along_its_last_axis_by_several_pieces() -> None:
    more = "row = Unsqueeze (next, front)\n grown = Concat <axis = -1> (old, row, row)"
    agree(doubling(MATRIX, 400, "float[m, k]", more), *FEEDS)


def test_a_long_loop_whose_state_grows_is_a_loop_and_not_unrolled() -> None:
    agree(doubling(MATRIX, 90, "float[k, n]", ROWS, "again = Identity (going)"), FEEDS[0])


def test_a_sequence_that_data_ends_is_a_list() -> None:
    found = agree(doubling("before = SequenceEmpty <dtype = 1> ()", 9, "seq(float[n])", INSERTED), *FEEDS)
    assert [spec.dtype for spec in found.outputs] == ["seq(float32)"]
    assert jn.from_onnx(doubling("before = SequenceConstruct (x)", 9, "seq(float[n])", INSERTED))
    agree(doubling("before = SequenceConstruct (x)", 9, "seq(float[n])", INSERTED), *FEEDS)


def test_elements_that_a_condition_appends() -> None:
    grow = """half = Constant <value = float {9}> ()
      sum = ReduceSum <keepdims = 0> (next)
      large = Less (half, sum)
      grown = If (large) <
        then_branch = t () => (seq(float[n]) more) { more = SequenceInsert (old, next) },
        else_branch = e () => (seq(float[n]) same) { same = Identity (old) }>"""
    agree(doubling("before = SequenceEmpty <dtype = 1> ()", 300, "seq(float[n])", grow), *FEEDS[:2])


def test_what_is_asked_of_a_sequence_that_data_ends() -> None:
    text = doubling("before = SequenceEmpty <dtype = 1> ()", 9, "seq(float[n])", INSERTED)
    nodes = model(
        "g (seq(float[n]) y) => (int64 count, float[n] first, float[k, n] all, float[l] flat) {"
        "zero = Constant <value = int64 {0}> () count = SequenceLength (y) first = SequenceAt (y, zero)"
        "all = ConcatFromSequence <axis = 0, new_axis = 1> (y) flat = ConcatFromSequence <axis = 0> (y) }"
    )
    text.graph.node.extend(nodes.graph.node)
    del text.graph.output[:]
    text.graph.output.extend(nodes.graph.output)
    agree(text, *FEEDS)


def test_a_growing_state_that_the_body_reads() -> None:
    grow = """height = ReduceMax <keepdims = 0> (old)
      row = Unsqueeze (next, front)
      taller = Add (row, height)
      grown = Concat <axis = 0> (old, taller)"""
    made = doubling(MATRIX, 900, "float[k, n]", grow)
    agree(made, *FEEDS, control=False)
    fixed = doubling(MATRIX, 3, "float[k, n]", grow, "again = Identity (going)")
    agree(fixed, FEEDS[0], control=False)


def test_an_empty_sequence_that_the_body_reads_is_refused_where_data_ends_the_loop() -> None:
    grow = """count = SequenceLength (old) wide = Cast <to = 1> (count)
      taller = Add (next, wide) grown = SequenceInsert (old, taller)"""
    made = doubling("before = SequenceEmpty <dtype = 1> ()", 900, "seq(float[n])", grow)
    pattern = r"Loop(.|\n)*reads 'old', which grows.*fix: carry a tensor of the largest"
    with pytest.raises(jn.UnsupportedError, match=pattern) as found:
        jn.from_onnx(made)
    assert any("a sequence without elements" in note for note in found.value.__notes__)


def test_sizes_that_data_decides() -> None:
    made = model(
        """g (float[n] x) => (int64[k] counted, float[k2] filled, float[k3, n] wide) {
        step = Constant <value = int64 {2}> ()
        zero = Constant <value = int64 {0}> ()
        largest = ReduceMax <keepdims = 0> (x)
        count = Cast <to = 7> (largest)
        counted = Range (zero, count, step)
        front = Constant <value = int64[1] {0}> ()
        one = Unsqueeze (count, front)
        filled = ConstantOfShape (one)
        width = Shape (x)
        shape = Concat <axis = 0> (one, width)
        wide = Expand (x, shape)
        }"""
    )
    feeds = [np.array(values, np.float32) for values in ([3.5, 5.5], [0, 0.5], range(5))]
    agree(made, *feeds, control=False)


def test_sequences_that_are_outputs_are_lists() -> None:
    made = model("g (float[n] x) => (seq(float[n]) y, float[n] z) { z = Neg (x)\n y = SequenceConstruct (x, z) }")
    compiled = agree(made, *FEEDS, control=False)
    both, z = compiled(FEEDS[0])
    np.testing.assert_array_equal(both[1], z)
    assert compiled.model.outputs[0].name == "y.0"


@pytest.mark.parametrize("op", ["ReduceMax", "ReduceMin"])
def test_extremes_of_what_data_leaves_of_nothing_are_the_ends_of_the_range(op: str) -> None:
    made = model(
        f"""g (float[n] x) => (float y, float[1] z) {{
        positive = Relu (x)
        found = NonZero (positive)
        front = Constant <value = int64[1] {{0}}> ()
        apart = Squeeze (found, front)
        left = Gather <axis = 0> (x, apart)
        y = {op} <keepdims = 0> (left)
        z = {op} <keepdims = 1> (left) }}"""
    )
    compiled = jn.compile_onnx(made, device="cpu", threads=1)
    take = np.max if op == "ReduceMax" else np.min
    some, none = np.array([1, -1, 3], np.float32), np.array([-1, -2], np.float32)
    assert [float(value.reshape(())) for value in compiled(some)] == [take([1, 3])] * 2
    assert [float(value.reshape(())) for value in compiled(none)] == [-np.inf if op == "ReduceMax" else np.inf] * 2

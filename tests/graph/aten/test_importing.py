"""What cannot be imported is refused with its call, operands and line; what can be is checked against what PyTorch states."""

from __future__ import annotations

from typing import Any

import joinery as jn
import numpy as np
import pytest
from joinery.graph.aten import importing
from joinery.graph.aten.program import Call, Program, Ref, Source
from joinery.graph.location import Location
from joinery.graph.types import TensorType

LINE = Location("model.py", 12, "forward")


def program(*calls: Call, inputs: dict[str, TensorType], output: str | None = None, ranges: Any = None) -> Program:
    sources = tuple(Source(name, kind) for name, kind in inputs.items())
    return Program("tiny", sources, calls, (("output", Ref(output or calls[-1].name)),), ranges or {})


def call(op: str, *arguments: Any, result: TensorType | None, name: str = "node", **options: Any) -> Call:
    return Call(name, op, arguments, options, (result,) if result is not None else (), LINE)


FLOATS = TensorType("float32", (3, 4))


def test_an_unknown_operator_names_its_call_operands_and_line() -> None:
    made = program(call("aten.fft_fft.default", Ref("x"), 2, result=FLOATS), inputs={"x": FLOATS})
    with pytest.raises(jn.UnsupportedError) as raised:
        importing.import_program(made)
    message = str(raised.value)
    assert "tiny: node 'node' (aten.fft_fft.default), from model.py:12 in forward: operator aten.fft_fft.default" in message
    assert "operand 0: x float32 (3, 4)" in message
    assert "argument 1: 2" in message
    assert "fix:" in message


def test_an_argument_that_a_handler_does_not_know_is_our_fault_and_not_ignored() -> None:
    made = program(call("aten.relu.default", Ref("x"), result=FLOATS, sparse=True), inputs={"x": FLOATS})
    with pytest.raises(jn.InternalError, match="unexpected keyword argument 'sparse'"):
        importing.import_program(made)


@pytest.mark.parametrize(("stated", "text"), [
    (TensorType("float64", (3, 4)), "result 0 is float32 \\(3, 4\\); PyTorch has float64"),
    (TensorType("float32", (12,)), "PyTorch has float32 \\(12,\\)"),
])  # fmt: skip
def test_a_result_that_is_not_what_torch_states_is_our_fault(stated: TensorType, text: str) -> None:
    made = program(call("aten.relu.default", Ref("x"), result=stated), inputs={"x": FLOATS})
    with pytest.raises(jn.InternalError, match=text):
        importing.import_program(made)


def test_a_size_that_differs_is_refused() -> None:
    made = program(call("aten.relu.default", Ref("x"), result=TensorType("float32", (3, 5))), inputs={"x": FLOATS})
    with pytest.raises(jn.UserError, match="axis 1 must have the size 5, not 4"):
        importing.import_program(made)


def test_a_symbolic_size_that_torch_takes_for_another_is_checked_at_launch() -> None:
    made = program(
        call("aten.relu.default", Ref("x"), result=TensorType("float32", ("m",))),
        inputs={"x": TensorType("float32", ("n",)), "y": TensorType("float32", ("m",))},
    )
    graph = importing.import_program(made)
    both = np.ones(3, np.float32)
    assert jn.evaluate(graph, both, both).shape == (3,)
    with pytest.raises(jn.UserError, match="n must equal m"):
        jn.evaluate(graph, both, np.ones(4, np.float32))


def test_ranges_of_sizes_are_checked_by_runs_and_survive_compilation() -> None:
    inputs = {"x": TensorType("float32", ("n",))}
    made = program(call("aten.relu.default", Ref("x"), result=inputs["x"]), inputs=inputs, ranges={"n": (2, 5)})
    graph = importing.import_program(made)
    model = jn.compile(graph, "cpu")
    for run in (lambda x: jn.evaluate(graph, x), model):
        assert run(np.ones(5, np.float32)).shape == (5,)
        with pytest.raises(jn.UserError, match="the size n must be at least 2"):
            run(np.ones(1, np.float32))
        with pytest.raises(jn.UserError, match="the size n must be at most 5"):
            run(np.ones(6, np.float32))


def test_refusals_are_found_in_one_pass_and_what_follows_them_is_tried() -> None:
    made = program(
        call("aten.fft_fft.default", Ref("x"), result=FLOATS, name="a"),
        call("aten.relu.default", Ref("a"), result=FLOATS, name="b"),
        call("aten.quantize.default", Ref("b"), result=FLOATS, name="c"),
        inputs={"x": FLOATS},
    )
    assert [refusal.call.name for refusal in importing.refusals(made)] == ["a", "c"]


def test_statements_about_tensors_are_checked_while_importing() -> None:
    good = call("aten._assert_tensor_metadata.default", Ref("x"), None, None, jn.float32, result=None, name="stated")
    relu = call("aten.relu.default", Ref("x"), result=FLOATS)
    assert importing.import_program(program(good, relu, inputs={"x": FLOATS})).finished
    bad = call("aten._assert_tensor_metadata.default", Ref("x"), None, None, jn.float64, result=None, name="stated")
    with pytest.raises(jn.UserError, match="the model states float64 of a tensor of float32"):
        importing.import_program(program(bad, relu, inputs={"x": FLOATS}))


def test_weights_share_memory_with_the_arrays_they_are_made_of() -> None:
    array = np.arange(12, dtype=np.float32).reshape(3, 4)
    sources = (Source("x", FLOATS), Source("w", FLOATS, array))
    calls = (call("aten.add.Tensor", Ref("x"), Ref("w"), result=FLOATS),)
    graph = importing.import_program(Program("tiny", sources, calls, (("output", Ref("node")),), {}))
    assert np.shares_memory(graph.weights["w"].attrs["value"], array)


def test_outputs_may_be_sizes() -> None:
    inputs = {"x": TensorType("float32", ("n",))}
    made = Program("tiny", (Source("x", inputs["x"]),), (), (("size", jn.dim("n") * 2),), {})
    assert int(jn.evaluate(importing.import_program(made), np.zeros(4, np.float32))) == 8


def test_a_program_without_outputs_is_refused() -> None:
    with pytest.raises(jn.UserError, match="no output is a tensor"):
        importing.import_program(Program("tiny", (Source("x", FLOATS),), (), (), {}))


M, N = jn.dim("m"), jn.dim("n")
OPEN = 2**63 - 1


@pytest.mark.parametrize(("op", "arguments", "length", "wanted"), [
    ("slice.Tensor", (1, -M, OPEN), M, lambda x, m: x[:, -m:]),
    ("slice.Tensor", (1, -M, -1), M - 1, lambda x, m: x[:, -m:-1]),
    ("slice.Tensor", (1, -M, OPEN, 2), (M + 1) // 2, lambda x, m: x[:, -m::2]),
    ("slice.Tensor", (1, N - M, OPEN), M, lambda x, m: x[:, x.shape[1] - m :]),
    ("slice.Tensor", (1, M - N, OPEN), N - M, lambda x, m: x[:, m - x.shape[1] :]),
    ("select.int", (1, -M), None, lambda x, m: x[:, -m]),
    ("slice_scatter.default", (1, -M, OPEN), N, lambda x, m: np.concatenate([x[:, :-m], np.zeros((3, m), x.dtype)], 1)),
])  # fmt: skip
def test_slices_from_symbolic_positions_count_from_the_end(op: str, arguments: Any, length: Any, wanted: Any) -> None:
    inputs = {"x": TensorType("float32", (3, N)), "y": TensorType("float32", (3, M))}
    result = TensorType("float32", (3,) if length is None else (3, length))
    operands = (Ref("x"), Ref("y")) if op.startswith("slice_scatter") else (Ref("x"),)
    graph = importing.import_program(program(call(f"aten.{op}", *operands, *arguments, result=result), inputs=inputs))
    for n, m in ((7, 3), (5, 4), (8, 5)):
        x = np.arange(3 * n, dtype=np.float32).reshape(3, n)
        np.testing.assert_array_equal(jn.evaluate(graph, x, np.zeros((3, m), np.float32)), wanted(x, m))


def test_as_many_of_the_largest_as_a_size_says() -> None:
    inputs = {"x": TensorType("float32", (3, N)), "y": TensorType("float32", (3, M))}
    results = (TensorType("float32", (3, M)), TensorType("int64", (3, M)))
    made = Call("node", "aten.topk.default", (Ref("x"), M), {}, results, LINE)
    sources = tuple(Source(name, kind) for name, kind in inputs.items())
    graph = importing.import_program(Program("tiny", sources, (made,), (("at", Ref("node", 1)),), {}))
    x = np.random.default_rng(0).standard_normal((3, 9)).astype(np.float32)
    for m in (2, 9):
        got = jn.evaluate(graph, x, np.zeros((3, m), np.float32))
        np.testing.assert_array_equal(got, np.argsort(-x, 1, kind="stable")[:, :m])

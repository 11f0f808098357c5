"""Programs that higher-order operators run become branches and loops, and recurrent networks loops, without PyTorch."""

from __future__ import annotations

from typing import Any

import joinery as jn
import numpy as np
import pytest
from joinery.graph.aten.importing import import_program
from joinery.graph.aten.program import Call, Condition, Program, Ref, Source
from joinery.graph.types import TensorType

from ...support.aten_calls import several

ROW, NUMBER = TensorType("float32", (3,)), TensorType("float32", ())
RANDOM = np.random.default_rng(13)


def call(op: str, *arguments: Any, result: TensorType, name: str = "node") -> Call:
    return Call(name, f"aten.{op}", arguments, {}, (result,))


def body(
    calls: list[Call], inputs: dict[str, TensorType], *outputs: str, weights: dict[str, np.ndarray] | None = None
) -> Program:
    sources = [Source(name, kind) for name, kind in inputs.items()]
    sources += [Source(name, TensorType("float32", array.shape), array) for name, array in (weights or {}).items()]
    return Program("body", tuple(sources), tuple(calls), tuple((f"value{n}", Ref(name)) for n, name in enumerate(outputs)), {})


def program(op: str, *arguments: Any, inputs: dict[str, TensorType], results: tuple[TensorType, ...]) -> Any:
    made = Call("node", f"higher_order.{op}.default", arguments, {}, results)
    outputs = tuple((f"output{n}", Ref("node", n)) for n in range(len(results)))
    sources = tuple(Source(name, kind) for name, kind in inputs.items())
    return import_program(Program("one", sources, (made,), outputs, {}))


DOUBLED = body([call("mul.Tensor", Ref("a"), Ref("w"), result=ROW)], {"a": ROW}, "node",
               weights={"w": np.array([2, 3, 4], np.float32)})  # fmt: skip
NEGATED = body([call("neg.default", Ref("a"), result=ROW)], {"a": ROW}, "node")


@pytest.mark.parametrize("flag", [jn.bool, jn.float32])
def test_a_branch_runs_one_program(flag: Any) -> None:
    graph = program("cond", Ref("flag"), DOUBLED, NEGATED, (Ref("x"),),
                    inputs={"flag": TensorType(flag, (1,)), "x": ROW}, results=(ROW,))  # fmt: skip
    x = RANDOM.standard_normal(3).astype(np.float32)
    for run in (lambda *given: jn.evaluate(graph, *given), jn.compile(graph, "cpu")):
        np.testing.assert_array_equal(run(np.ones(1, flag.numpy), x), x * np.array([2, 3, 4], np.float32))
        np.testing.assert_array_equal(run(np.zeros(1, flag.numpy), x), -x)
    assert sum(symbol.op.name == "branch" for symbol in graph.symbols) == 1


def test_a_condition_on_sizes_is_decided_by_each_run() -> None:
    vector = TensorType("float32", ("n",))
    one, other = (body([call("add.Tensor", Ref("a"), number, result=vector)], {"a": vector}, "node") for number in (1, -1))
    small = Condition("and", (Condition("less", (jn.dim("n"), 4)), Condition("not", (Condition("equal", (jn.dim("n"), 2)),))))
    graph = program("cond", small, one, other, (Ref("x"), jn.dim("n")), inputs={"x": vector}, results=(vector,))
    model = jn.compile(graph, "cpu")
    for size, wanted in ((3, 1), (2, -1), (4, -1)):
        assert model(np.zeros(size, np.float32)).tolist() == [wanted] * size


def test_a_condition_that_is_known_leaves_no_branch() -> None:
    graph = program("cond", True, DOUBLED, NEGATED, (Ref("x"),), inputs={"x": ROW}, results=(ROW,))
    assert all(symbol.op.name != "branch" for symbol in graph.symbols)


def test_a_loop_repeats_while_its_condition_holds() -> None:
    proceeds = body([call("lt.Scalar", Ref("a"), 100.0, result=TensorType("bool", ()))], {"a": NUMBER, "b": NUMBER}, "node")
    step = body([call("mul.Tensor", Ref("a"), Ref("b"), result=NUMBER)], {"a": NUMBER, "b": NUMBER}, "node")
    graph = program("while_loop", proceeds, step, (Ref("x"),), (Ref("y"),), inputs={"x": NUMBER, "y": NUMBER},
                    results=(NUMBER,))  # fmt: skip
    for run in (lambda *given: jn.evaluate(graph, *given), jn.compile(graph, "cpu")):
        assert float(run(np.float32(1), np.float32(3))) == 243
        assert float(run(np.float32(200), np.float32(3))) == 200


def test_numbers_that_a_loop_carries_are_refused() -> None:
    with pytest.raises(jn.UnsupportedError, match="a number that a loop carries"):
        program("while_loop", DOUBLED, NEGATED, (Ref("x"), jn.dim("n")), (), inputs={"x": TensorType("float32", ("n",))},
                results=(ROW,))  # fmt: skip


def test_a_scan_carries_a_state_and_stacks_results() -> None:
    inputs = {"h": ROW, "x": ROW, "more": ROW}
    step = body([call("add.Tensor", Ref("h"), Ref("x"), result=ROW, name="next"),
                 call("mul.Tensor", Ref("next"), Ref("more"), result=ROW, name="y")], inputs, "next", "y")  # fmt: skip
    rows = TensorType("float32", (5, 3))
    graph = program("scan", step, (Ref("h"),), (Ref("xs"),), (Ref("more"),), inputs={"h": ROW, "xs": rows, "more": ROW},
                    results=(ROW, rows))  # fmt: skip
    h, xs, more = (RANDOM.standard_normal(shape).astype(np.float32) for shape in ((3,), (5, 3), (3,)))
    sums = h + np.cumsum(xs, 0)
    last, found = jn.compile(graph, "cpu")(h, xs, more)
    np.testing.assert_allclose(last, sums[-1], rtol=1e-5)
    np.testing.assert_allclose(found, sums * more, rtol=1e-5)


def test_a_map_runs_a_program_for_each_slice() -> None:
    rows = TensorType("float32", (5, 3))
    graph = program("map_impl", DOUBLED, (Ref("xs"),), (), inputs={"xs": rows}, results=(rows,))
    xs = RANDOM.standard_normal((5, 3)).astype(np.float32)
    np.testing.assert_array_equal(jn.compile(graph, "cpu")(xs), xs * np.array([2, 3, 4], np.float32))


def test_a_fault_inside_a_program_names_its_call() -> None:
    bad = body([call("fft_fft.default", Ref("a"), result=ROW, name="spectrum")], {"a": ROW}, "spectrum")
    with pytest.raises(jn.UnsupportedError, match=r"body: node 'spectrum' \(aten.fft_fft.default\)"):
        program("cond", Ref("flag"), bad, NEGATED, (Ref("x"),), inputs={"flag": TensorType("bool", ()), "x": ROW},
                results=(ROW,))  # fmt: skip


# -- recurrent networks ------------------------------------------------------------------------------------------------


def sigmoid(x: np.ndarray) -> np.ndarray:
    return 1 / (1 + np.exp(-x))


def gru(x: np.ndarray, h: np.ndarray, w: np.ndarray, u: np.ndarray, b: np.ndarray, c: np.ndarray) -> list[np.ndarray]:
    found = []
    for step in x:
        (r, z, n), (own_r, own_z, own_n) = np.split(step @ w.T + b, 3, -1), np.split(h @ u.T + c, 3, -1)
        update = sigmoid(z + own_z)
        h = (1 - update) * np.tanh(n + sigmoid(r + own_r) * own_n) + update * h
        found.append(h)
    return found


def test_gru_of_two_directions() -> None:
    x, h = RANDOM.standard_normal((4, 2, 3)), RANDOM.standard_normal((2, 2, 5))
    params = [RANDOM.standard_normal(shape) * 0.5 for _ in range(2) for shape in ((15, 3), (15, 5), (15,), (15,))]
    there, back = gru(x, h[0], *params[:4]), gru(x[::-1], h[1], *params[4:])
    wanted = np.concatenate([np.stack(there), np.stack(back[::-1])], -1).transpose(1, 0, 2)
    got = several("gru.input", x.transpose(1, 0, 2), h, tuple(params), True, 1, 0.0, False, True, True,
                  results=[wanted, h])  # fmt: skip
    np.testing.assert_allclose(got[0], wanted)
    np.testing.assert_allclose(got[1], np.stack([there[-1], back[-1]]))


def test_lstm_of_two_layers_without_biases() -> None:
    x = RANDOM.standard_normal((4, 2, 3))
    params = [RANDOM.standard_normal(shape) * 0.5 for shape in ((20, 3), (20, 5), (20, 5), (20, 5))]
    h, c = np.zeros((2, 2, 5)), np.zeros((2, 2, 5))
    values, finals = x, []
    for layer in range(2):
        state, cell, rows = h[layer], c[layer], []
        for step in values:
            i, f, g, o = np.split(step @ params[2 * layer].T + state @ params[2 * layer + 1].T, 4, -1)
            cell = sigmoid(f) * cell + sigmoid(i) * np.tanh(g)
            state = sigmoid(o) * np.tanh(cell)
            rows.append(state)
        values = np.stack(rows)
        finals.append((state, cell))
    got = several("lstm.input", x, (h, c), tuple(params), False, 2, 0.0, False, False, False, results=[values, h, c])
    np.testing.assert_allclose(got[0], values)
    np.testing.assert_allclose(got[1], np.stack([state for state, _ in finals]))
    np.testing.assert_allclose(got[2], np.stack([cell for _, cell in finals]))


def test_dropout_between_layers_is_refused() -> None:
    x, h = np.zeros((4, 2, 3)), np.zeros((2, 2, 5))
    params = tuple(np.zeros(shape) for shape in ((5, 3), (5, 5), (5, 5), (5, 5)))
    with pytest.raises(jn.UnsupportedError, match="dropout between the layers"):
        several("rnn_tanh.input", x, h, params, False, 2, 0.5, True, False, False, results=[np.zeros((4, 2, 5)), h])

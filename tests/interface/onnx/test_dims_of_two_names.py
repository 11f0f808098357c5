"""Sizes with other names, or with none, that are one size at a run: the launch checks that they agree, as onnxruntime does."""

from __future__ import annotations

import importlib.util
from typing import Any

import joinery as jn
import numpy as np
import pytest

from ...support.onnx_texts import by_onnxruntime, model, serves
from ...support.tiers import pairs

pytestmark = pytest.mark.skipif(importlib.util.find_spec("onnxruntime") is None, reason="onnxruntime is not installed")
RNG = np.random.default_rng(44)
GATES = {"RNN": 1, "GRU": 3, "LSTM": 4}
SIZE, FEATURES = 4, 3


def floats(*shape: int) -> Any:
    return RNG.normal(size=shape).astype(np.float32)


def network(op: str, sizes: str, layout: int, direction: str, **given: Any) -> Any:
    """A network all of whose tensors have sizes of their own: `?` or names."""
    count = 2 if direction == "bidirectional" else 1

    def declared(name: str, *known: Any) -> str:
        shown = [each if each is not None else "?" if sizes == "none" else f"{name}{axis}" for axis, each in enumerate(known)]
        return f"[{', '.join(map(str, shown))}] {name}"

    state = [None, count, SIZE] if layout else [count, None, SIZE]
    arguments = [f"float{declared('x', None, None, FEATURES)}", f"int32{declared('n', None)}", f"float{declared('h', *state)}"]
    inputs = "x, w, r, b, n, h"
    if op == "LSTM":
        arguments.append(f"float{declared('c', *state)}")
        inputs += ", c"
    weights = {"w": floats(count, GATES[op] * SIZE, FEATURES), "r": floats(count, GATES[op] * SIZE, SIZE),
               "b": floats(count, 2 * GATES[op] * SIZE)}  # fmt: skip
    outputs = "y, last" + (", cell" if op == "LSTM" else "")
    results = ", ".join(f"float {name}" for name in outputs.split(", "))
    body = f'{outputs} = {op}<hidden_size={SIZE}, direction="{direction}", layout={layout}>({inputs})'
    return model(f"({', '.join(arguments)}) => ({results})", body, **weights, **given)


def feeds(op: str, direction: str, steps: int, batch: int, layout: int) -> dict[str, Any]:
    count = 2 if direction == "bidirectional" else 1
    lengths = np.array([steps, 2, 1][:batch], np.int32)
    found = {"x": floats(steps, batch, FEATURES), "n": lengths, "h": floats(count, batch, SIZE)}
    if op == "LSTM":
        found["c"] = floats(count, batch, SIZE)
    return {name: array.swapaxes(0, 1) if layout and array.ndim == 3 else array for name, array in found.items()}


@pytest.mark.one_in(10)
@pytest.mark.parametrize(
    ("op", "sizes", "direction"), pairs(list(GATES), ["none", "names"], ["forward", "reverse", "bidirectional"])
)
def test_states_and_lengths_of_a_network(op: str, sizes: str, direction: str) -> None:
    made = network(op, sizes, 0, direction)
    served = serves(made, *[feeds(op, direction, steps, batch, 0) for steps, batch in ((6, 3), (2, 2), (5, 1))], tolerance=1e-4)
    assert type(served).__name__ != "SpecialisedModel"  # one graph for all of them


@pytest.mark.one_in(4)
@pytest.mark.parametrize("op", GATES)
def test_networks_with_the_batch_first(op: str) -> None:
    """onnxruntime has no layout=1: the witness is the same network with steps first."""
    weights = network(op, "none", 0, "forward")
    made = network(op, "none", 1, "forward")
    del made.graph.initializer[:]
    made.graph.initializer.extend(weights.graph.initializer)
    given = feeds(op, "forward", 6, 3, 1)
    first = {name: array.swapaxes(0, 1) if array.ndim == 3 else array for name, array in given.items()}
    compiled: Any = jn.compile_onnx(made, device="cpu", cache=False)
    y, *last = by_onnxruntime(weights, first)
    wanted = [y.transpose(2, 0, 1, 3), *[each.swapaxes(0, 1) for each in last]]
    for found, want in zip(compiled.run(given).values(), wanted, strict=True):
        np.testing.assert_allclose(found, want, 1e-4, 1e-5)


@pytest.mark.one_in(4)
@pytest.mark.parametrize("name", ["h", "n", "c"])
def test_states_of_another_batch_are_refused(name: str) -> None:
    compiled: Any = jn.compile_onnx(network("LSTM", "none", 0, "forward"), device="cpu", cache=False)
    for wrong in (1, 2):  # one row is not spread over the batch
        given = feeds("LSTM", "forward", 6, 3, 0)
        given[name] = given[name][:, :wrong] if name != "n" else given[name][:wrong]
        with pytest.raises(jn.UserError, match=f"{name}_|must equal"):
            compiled.run(given)


def test_states_of_a_fixed_other_batch_are_refused() -> None:
    made = model(
        "(float[t, 3, 3] x, float[1, 1, 4] h) => (float y)", "y = RNN<hidden_size=4>(x, w, r, , , h)", w=floats(1, 4, 3),
        r=floats(1, 4, 4),
    )  # fmt: skip
    with pytest.raises(jn.UserError, match=r"initial_h has shape \(1, 1, 4\); \(1, 3, 4\) is expected"):
        jn.from_onnx(made)


@pytest.mark.one_in(4)
@pytest.mark.parametrize("op", GATES)
def test_weights_of_undeclared_sizes(op: str) -> None:
    peepholes = op == "LSTM"
    signature = "(float[t, n, i] x, float[a, b, c] w, float[d, e, f] r, float[g, h] b0"
    signature += ", float[j, k] p" if peepholes else ""
    inputs = "x, w, r, b0, , , , p" if peepholes else "x, w, r, b0"
    body = f"y = {op}<hidden_size=4>({inputs})"
    made = model(f"{signature}) => (float y)", body)
    wide = GATES[op] * 4
    given = {"x": floats(6, 2, 3), "w": floats(1, wide, 3), "r": floats(1, wide, 4), "b0": floats(1, 2 * wide)}
    serves(made, {**given, **({"p": floats(1, 12)} if peepholes else {})}, tolerance=1e-4)
    without = model(f"{signature}) => (float y)", body.replace("<hidden_size=4>", ""))
    compiled: Any = jn.compile_onnx(without, device="cpu", cache=False)
    arguments = {**given, **({"p": np.zeros((1, 12), np.float32)} if peepholes else {})}
    (want,) = by_onnxruntime(made, arguments)
    np.testing.assert_allclose(compiled.run(arguments)["y"], want, 1e-4, 1e-4)


SCANNED = """total, y = Scan<num_scan_inputs=2, {attributes} body = b(float[2] s, float[2] p, float[2] q) =>
    (float[2] t, float[2] o) {{
    m = Mul(p, q)  t = Add(s, m)  o = Identity(t)
}}>(start, x, z)"""


@pytest.mark.one_in(3)
@pytest.mark.parametrize("attributes", ["", "scan_input_axes=[0, 1],", "scan_input_directions=[1, 0],"])
@pytest.mark.parametrize("sizes", [("a", "b"), ("?", "?"), ("5", "b"), ("a", "300")])
def test_scans_over_sequences_of_two_names(sizes: tuple[str, str], attributes: str) -> None:
    second = [sizes[1], "2"] if "axes" not in attributes else ["2", sizes[1]]
    signature = f"(float[2] start, float[{sizes[0]}, 2] x, float[{', '.join(second)}] z) => (float[2] total, float y)"
    made = model(signature, SCANNED.format(attributes=attributes))
    lengths = [int(size) for size in sizes if size.isdigit()] or [1, 5, 300]
    turned = "axes" in attributes
    runs = [{"start": floats(2), "x": floats(n, 2), "z": floats(2, n) if turned else floats(n, 2)} for n in lengths]
    served = serves(made, *runs, tolerance=1e-3)
    wrong = {**runs[0], "x": floats(lengths[0] + 1, 2)}
    with pytest.raises(jn.UserError, match=r"must equal|expects shape"):
        served.run(wrong)


def test_scans_over_sequences_of_two_lengths_are_refused() -> None:
    made = model("(float[2] start, float[5, 2] x, float[4, 2] z) => (float[2] total, float y)", SCANNED.format(attributes=""))
    with pytest.raises(jn.UserError, match="the scanned axes have sizes 5, 4; equal ones are expected"):
        jn.from_onnx(made)


LOOPED = """go = Constant<value = bool {1}>()  y = Loop(trips, go, x)<body = b(int64 i, bool more, float[n] a) =>
    (bool on, float[n] a2) { half = Constant<value_float=0.5>()  a1 = Mul(a, half)  a2 = Add(a1, w)  on = Identity(more) }>"""


@pytest.mark.one_in(4)
@pytest.mark.parametrize("trips", [3, 4000, None])
def test_captures_of_another_name_in_loops(trips: int | None) -> None:
    argument, given = (", int64 trips", {}) if trips is None else ("", {"trips": np.array(trips)})
    made = model(f"(float[n] x, float[m] w{argument}) => (float[n] y)", LOOPED, **given)
    counts = [{}] if trips is not None else [{"trips": np.array(count)} for count in (0, 1, 4000)]
    runs = [{"x": floats(n), "w": floats(n), **count} for n in (1, 3, 7) for count in counts]
    served = serves(made, *runs)
    serves(made, {"x": floats(5), "w": floats(1), **counts[-1]})  # one element, which is broadcast
    with pytest.raises(jn.UserError, match="must equal"):
        served.run({"x": floats(5), "w": floats(4), **counts[-1]})


def test_a_state_that_grows_beside_a_capture_of_another_name() -> None:
    """What is read grows, so that the host drives the loop: its sizes are checked in each iteration."""
    body = """go = Constant<value = bool {1}>()  y = Loop(trips, go, x)<body = b(int64 i, bool more, float[n] a) =>
        (bool on, float[p] c) {
        d = Add(a, w)  one = Constant<value_ints=[1]>()  last = Constant<value_ints=[-1]>()
        e = Slice(d, last, ends)  c = Concat<axis=0>(a, e)  on = Identity(more)
    }>"""
    made = model("(float[n] x, float[m] w, int64 trips) => (float y)", body, ends=np.array([1 << 40]))
    compiled: Any = jn.compile_onnx(made, device="cpu", cache=False)
    for trips in (0, 1):
        given = {"x": floats(3), "w": floats(3), "trips": np.array(trips)}
        (want,) = by_onnxruntime(made, given)
        np.testing.assert_allclose(compiled.run(given)["y"], want, 1e-5)
    with pytest.raises(jn.JoineryError):  # beside (4,) there is (3,), which onnxruntime refuses as well
        compiled.run({"x": floats(3), "w": floats(3), "trips": np.array(2)})


def test_branches_of_a_loop_with_captures_of_another_name() -> None:
    body = """go = Constant<value = bool {1}>()  y = Loop(trips, go, x)<body = b(int64 i, bool more, float[n] a) =>
        (bool on, float[n] a2) {
        two = Constant<value = int64 {2}>()  r = Mod(i, two)  odd = Cast<to=9>(r)
        a2 = If(odd)<then_branch = p() => (float[n] u) { b1 = Add(a, w) b2 = Sin(b1) b3 = Cos(b2) b4 = Add(b3, w) b5 = Neg(b4)
            u = Abs(b5) }, else_branch = q() => (float[n] u) { c1 = Mul(a, w) c2 = Sin(c1) c3 = Cos(c2) u = Sub(c3, w) }>
        on = Identity(more)
    }>"""
    made = model("(float[n] x, float[m] w, int64 trips) => (float[n] y)", body)
    serves(made, *[{"x": floats(n), "w": floats(n), "trips": np.array(trips)} for n, trips in ((3, 5), (1, 2), (6, 400))])

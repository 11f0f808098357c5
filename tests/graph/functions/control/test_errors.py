"""What loops and branches refuse, and how they say it; what they promise of casts, captures and texts."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import joinery as jn
import numpy as np
import pytest
from joinery.graph.region import Region

F32, I64 = jn.float32, jn.int64


def graph() -> tuple[jn.Graph, Any, Any]:
    g = jn.Graph("g", [jn.TensorType(F32, ("n", 3), "x"), jn.TensorType(I64, (), "k")])
    return (g, *g.inputs)


CASES: dict[str, tuple[Callable[[Any, Any], Any], str]] = {
    "dtype": (lambda x, k: jn.fori_loop(0, 3, lambda i, s: (s[0].cast("float64"), s[1]), (x, k)),
              r"fori_loop: state\[0\] is float64, and float32 before the iteration[^$]*from test_errors.py[^$]*"
              r"fix: cast what the body returns, \.cast\(float32\)"),
    "shape": (lambda x, k: jn.while_loop(lambda s: jn.any(s["h"] > 0), lambda s: {"h": s["h"][:, 1:]}, {"h": x}),
              r"while_loop: state\['h'\] has shape \(n, 2\), and \(n, 3\) before"),
    "structure": (lambda x, k: jn.scan(lambda c, r: ((c, c), None), x[0], x),
                  r"scan: f returns state\[0\], state\[1\], and takes state; fix: return the same structure"),
    "pair": (lambda x, k: jn.scan(lambda c, r: c, x[0], x), "scan: f returns Symbol; fix: return the next state and a result"),
    "condition": (lambda x, k: jn.while_loop(lambda v: v > 0.0, lambda v: v, x),
                  r"the condition is bool \(n, 3\)[^$]*joinery.any"),
    "condition dtype": (lambda x, k: jn.while_loop(lambda v: v, lambda v: v, k), r"the condition is int64 \(\)[^$]*value != 0"),
    "lengths": (lambda x, k: jn.scan(lambda c, r: (c, None), k, (x, x.T)), r"xs\[1\] has 3 slices, the scan has n iterations"),
    "no length": (lambda x, k: jn.scan(lambda c, r: (c, None), k), "neither xs nor a length; fix: length="),
    "no axis": (lambda x, k: jn.scan(lambda c, r: (c, None), x, k), "xs has no axis"),
    "bound": (lambda x, k: jn.fori_loop(0, k.cast("int32"), lambda i, v: v, x), r"upper is int32 \(\)[^$]*upper.cast\(int64\)"),
    "bound float": (lambda x, k: jn.fori_loop(0.5, k, lambda i, v: v, x), "lower is 0.5; fix: an int"),
    "no function": (lambda x, k: jn.while_loop(x, lambda v: v, x), "cond_fun is a Symbol; fix: pass a function"),
    "no symbol": (lambda x, k: jn.fori_loop(0, 3, lambda i, v: v, 1.0), "no operand is a Symbol"),
    "pred": (lambda x, k: jn.cond(x > 0.0, lambda: x, lambda: x), r"pred is bool \(n, 3\)[^$]*joinery.where"),
    "branch dtypes": (lambda x, k: jn.cond(k > 0, lambda: x, lambda: x.cast("float64")),
                      "result is float32 from true_fun and float64 from false_fun"),
    "branch shapes": (lambda x, k: jn.cond(k > 0, lambda: x, lambda: x[:, :1]), r"shape \(n, 3\) from true_fun and \(n, 1\)"),
    "branch structure": (lambda x, k: jn.cond(k > 0, lambda: (x, k), lambda: x),
                         "true_fun returns result.0., result.1., false_fun"),
    "host": (lambda x, k: jn.fori_loop(0, 3, lambda i, v: v + jn.size(jn.nonzero(v)), k),
             "nonzero runs on the host, which is not supported inside"),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_mistakes_name_the_value_and_the_fix(name: str) -> None:
    g, x, k = graph()
    before = len(g.symbols)
    build, message = CASES[name]
    with pytest.raises((jn.UserError, jn.UnsupportedError), match=message):
        g.output(build(x, k))
    if name != "host":
        assert len(g.symbols) >= before
        assert g.open is None
        g.output(jn.fori_loop(0, 2, lambda i, v: v + 1.0, x))  # the graph goes on as if nothing had happened
        assert jn.evaluate(g, np.zeros((1, 3), np.float32), 0).tolist() == [[2, 2, 2]]


def test_an_exception_of_a_body_leaves_no_trace() -> None:
    g, x, _ = graph()
    before = jn.to_text(g)[0]

    def body(i: Any, v: Any) -> Any:
        jn.exp(x)
        raise KeyError("mine")

    with pytest.raises(KeyError, match="mine"):
        jn.fori_loop(0, 3, body, x)
    assert jn.to_text(g)[0] == before
    assert g.open is None


def test_a_symbol_of_a_finished_body_is_refused_outside() -> None:
    _, x, _ = graph()
    kept: list[Any] = []
    jn.fori_loop(0, 3, lambda i, v: kept.append(v) or v, x)
    with pytest.raises(jn.UserError, match=r"finished|belongs to graph"):
        x + kept[0]


def test_no_cast_is_invented_and_those_of_bodies_are_listed() -> None:
    g, x, k = graph()
    out = jn.fori_loop(0, 3, lambda i, v: v * 2 + 1, x)
    assert g.casts() == ()
    jn.fori_loop(0, 3, lambda i, v: (v + k).cast("float32"), out)
    (entry,) = g.casts()
    assert (entry.source, entry.op) == (I64, "add")
    strict = jn.Graph("strict", [jn.TensorType(F32, (3,), "x"), jn.TensorType(I64, (), "k")], policy="strict")
    a, b = strict.inputs
    with pytest.raises(jn.UserError, match="strict"):
        jn.fori_loop(0, 3, lambda i, v: (v + b).cast("float32"), a)


def test_captures_are_operands_whatever_comes_first() -> None:
    g, x, _ = graph()
    w = g.weight("w", np.ones((3, 3), np.float32))
    out = jn.fori_loop(0, 2, lambda i, v: w + (jn.concat([x, v @ w, x @ w])[:1] @ w) - v[:1], w)
    (loop,) = [symbol for symbol in g.symbols if symbol.op.name == "loop"]
    (body,) = loop.attrs["regions"]
    assert isinstance(body, Region)
    assert set(loop.inputs[1:]) == set(body.captured)
    assert {symbol.id for symbol in body.captured} >= {x.id, w.id}
    g.output(out)
    assert jn.evaluate(g, np.ones((2, 3), np.float32), 0).shape == (3, 3)


def test_a_region_keeps_no_check_that_it_does_not_need() -> None:
    g, x, _ = graph()
    x[0] + x[1]  # which needs two rows, and nobody reads it
    other = g.input(F32, ("m", 3), "other")
    same = jn.rebind(other, ("n", 3))
    g.output(jn.fori_loop(0, 2, lambda i, v: v + same, x))
    assert len(g.checks) == 1
    for rows in (0, 3):
        given = np.ones((rows, 3), np.float32)
        assert jn.compile(g, "cpu")(given, np.int64(0), given).tolist() == (given * 3).tolist()
    with pytest.raises(jn.UserError, match="m"):
        jn.evaluate(g, np.ones((2, 3), np.float32), 0, np.ones((3, 3), np.float32))
    assert jn.to_text(jn.from_text(*jn.to_text(g)))[0] == jn.to_text(g)[0]


def test_what_a_body_states_is_a_check_of_the_launch() -> None:
    g = jn.Graph("g", [jn.TensorType(F32, ("n",), "x"), jn.TensorType(F32, ("m",), "y")])
    x, y = g.inputs
    g.output(jn.fori_loop(0, 2, lambda i, v: v + jn.rebind(y, ("n",)), x))
    again = jn.from_text(*jn.to_text(g))
    assert jn.to_text(again)[0] == jn.to_text(g)[0]
    for each in (g, again):
        model = jn.compile(each, "cpu")
        assert model(np.ones(2, np.float32), np.ones(2, np.float32)).tolist() == [3, 3]
        with pytest.raises(jn.UserError, match="n"):
            model(np.ones(2, np.float32), np.ones(3, np.float32))


def test_what_if_builds_bodies_again() -> None:
    g = jn.Graph("g", [jn.TensorType("int32", (3,), "i"), jn.TensorType("float16", (3,), "x")])
    i, x = g.inputs
    g.output(jn.fori_loop(0, 3, lambda _, v: v + x.cast("float32"), x.cast("float32")))
    found = jn.what_if(g, "numpy")
    assert any("finished" in refusal.message for refusal in found.refusals)  # `x.cast(…)` in a body belongs to the old graph
    g = jn.Graph("g", [jn.TensorType("int32", (3,), "i"), jn.TensorType("float16", (3,), "x")])
    i, x = g.inputs
    g.output(jn.scan(lambda c, r: (c, r + c), x[0], i)[1])
    found = jn.what_if(g, "numpy")
    assert not found.refusals
    assert [str(change.after) for change in found.changes] == ["float64"]


BODY = """graph "g" semantics "max" policy "lattice"
  %0 = input {index = 0, name = "x"} : float32 [3]
  region "body"
    %0 = input {index = 0, name = "index"} : int64 []
    %1 = input {index = 1, name = "state"} : float32 [3]
    %2 = negate(%1) : float32 [3]
    output %2 "value0"
  end
  %1 = loop(%0) {captured = (0), carried = 1, length = 3, limited = false, reverse = false, sequences = 0} : int64 []
  %2 = region_result(%1) {dtype = float32, index = 0, shape = (3)} : float32 [3]
  output %2 "out"
"""


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("carried = 1", "carried = 0", "1 operands, of which 0 are carried"),
        ("carried = 1", "carried = 2", "1 operands, of which 2 are carried"),
        ("captured = (0)", "captured = (1)", "1 operands"),
        ("captured = (0)", "captured = (-1)", "counts of captures"),
        ("captured = (0)", "captured = ()", "1 regions, 0 counts"),
        ("length = 3", "length = -2", "the loop runs -2 times"),
        ("length = 3", "length = <m>", "dim m appears in the shape of no input"),
        ("limited = false", "limited = true", "1 operands"),
        ("index = 0, shape", "index = 1, shape", "value 1 of loop, which returns 1"),
        ("index = 0, shape = (3)} : float32 [3]", "index = 0, shape = (4)} : float32 [4]", "the region returns float32"),
        ("%2 = region_result(%1)", "%2 = region_result(%0)", "value 0 of input, which returns 0"),
        ("    %2 = negate(%1) : float32 [3]", "    %2 = constant {value = hex\"000000000000000000000000\"} : float32 [3]",
         "only single numbers are not captured"),
        ("    output %2 \"value0\"\n", "", "the region has no output"),
        (BODY[BODY.index("  end") :], "", "a region has no end"),
        ("  region \"body\"", "  end\n  region \"body\"", "there is no region to end"),
        ("%2 = negate(%1) : float32 [3]", "%2 = bitcast(%1) {dtype = int32} : int32 [3]",
         "what the body returns: value 0 is int32"),
        ("state\"} : float32 [3]", "state\"} : float32 [4]", "inputs of the body|its shape"),
        ("  %1 = loop", "  %1 = abs(%0) : float32 [3]\n  %2 = loop", "abs has no regions"),
    ],
)  # fmt: skip
def test_texts_that_contradict_themselves_are_refused(old: str, new: str, message: str) -> None:
    assert jn.evaluate(jn.from_text(BODY), np.ones(3, np.float32)).tolist() == [-1, -1, -1]
    assert old in BODY
    with pytest.raises((jn.UserError, jn.UnsupportedError), match=message):
        jn.from_text(BODY.replace(old, new))


def test_regions_are_not_nested_without_end() -> None:
    with pytest.raises(jn.UserError, match="nested deeper than 8"):
        jn.from_text(BODY.replace('  region "body"\n', '  region "body"\n' * 100))


def test_the_canonical_key_sees_into_regions() -> None:
    def key(factor: float, name: str) -> str:
        g = jn.Graph(name, [jn.TensorType(F32, ("n",), name)])
        g.output(jn.fori_loop(0, 3, lambda i, v: v * factor, g.inputs[0]))
        return g.canonical_key()

    assert key(2.0, "a") == key(2.0, "b")
    assert key(2.0, "a") != key(3.0, "a")

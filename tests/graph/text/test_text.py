"""The text form round-trips, is deterministic, and refuses what is malformed."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import joinery as jn
import ml_dtypes
import numpy as np
import pytest
from joinery.graph.text.parsing import from_text
from joinery.graph.text.printing import to_text

Make = Callable[..., Any]


def rich_graph() -> Any:
    """A graph with every kind of attribute, dims, checks, casts and constants."""
    graph = jn.Graph(
        'a "quoted" name', policy="lattice",
        inputs=[jn.TensorType(jn.float32, ("batch", "seq", 8), name="x # not a comment"),
                jn.TensorType(jn.int64, ("2*batch + 1",)),
                jn.TensorType(jn.bfloat16, (3,)), jn.TensorType("float8_e4m3fn", (2,))],
    )  # fmt: skip
    x, ids, half, tiny = graph.inputs
    batch, seq, _ = x.shape
    y = jn.layer_norm(x, graph.weight("scale", np.linspace(0, 1, 8).astype(np.float32)), epsilon=1e-12)
    y = jn.softmax(y @ np.ones((8, 40), np.float32), axis=1) * np.float32(np.nan) + -0.0
    z = jn.pad(y[1:, ::-2, 3:7], [(0, 0), (1, 0), (0, seq)], value=-np.inf)
    w = jn.gather(graph.weight("table", np.zeros((100, 2), np.int16)), ids[:batch]) + half[:2]
    v = jn.cast(tiny, jn.float16, rounding="toward_zero", saturate=False)
    r = jn.rebind(x, (None, "batch", None), message='must be "square"')
    s = jn.var(r, axis=(0, 2), keepdims=True, correction=0.5)
    t = jn.where(s > 0, jn.argmax(r, axis=2)[0, 0], jn.cumsum(r, 1, exclusive=True)[0, 0, 0]) / batch
    graph.output(z, w, v, t, jn.reshape(y, (-1, 20)), names=["z", "w", "v", "ü", "r"])
    return graph


@pytest.mark.parametrize("locations", [False, True])
def test_round_trip(locations: bool) -> None:
    graph = rich_graph()
    text, arrays = to_text(graph, locations)
    again = from_text(text, arrays)
    assert to_text(again, locations)[0] == text
    assert again.canonical_key() == graph.canonical_key()
    assert [s.shape for s in again.symbols] == [s.shape for s in graph.symbols]
    assert [s.dtype for s in again.symbols] == [s.dtype for s in graph.symbols]
    assert again.checks == graph.checks
    assert again.output_names == graph.output_names
    assert [(e.op, e.source, e.target, e.bytes) for e in again.casts()] == [
        (e.op, e.source, e.target, e.bytes) for e in graph.casts()
    ]
    if locations:
        assert [s.location for s in again.symbols] == [s.location for s in graph.symbols]


def test_a_graph_read_back_computes_the_same() -> None:
    graph = rich_graph()
    again = from_text(*to_text(graph))
    rng = np.random.default_rng(6)
    arrays = (
        rng.normal(size=(5, 5, 8)).astype(np.float32), np.arange(11), np.ones(3, ml_dtypes.bfloat16),
        np.ones(2, ml_dtypes.float8_e4m3fn),
    )  # fmt: skip
    for first, second in zip(jn.evaluate(graph, *arrays), jn.evaluate(again, *arrays), strict=True):
        assert first.tobytes() == second.tobytes()


def test_text_is_deterministic_and_large_arrays_stay_aside() -> None:
    (text, arrays), (other, _) = to_text(rich_graph()), to_text(rich_graph())
    assert text == other
    assert {array.shape for array in arrays.values()} == {(100, 2), (8, 40)}
    assert 'sha256"' in text


def test_the_form_is_readable(make: Make) -> None:
    graph = make(("float32", ("batch", 2), "x"))
    (x,) = graph.inputs
    graph.output(jn.sum(x[1:] * np.array(2, np.int8), axis=0), name="y")
    assert to_text(graph)[0] == (
        'graph "test" semantics "max" policy "lattice"\n'
        '  %0 = input {index = 0, name = "x"} : float32 [batch, 2]\n'
        "  %1 = slice(%0) {starts = (1, 0), steps = (1, 1), stops = (<max(batch, 1)>, 2)} : float32 [max(batch - 1, 0), 2]\n"
        '  %2 = constant {value = hex"02"} : int8 []  # 2\n'
        '  %3 = cast(%2) {dtype = float32, rounding = "nearest", saturate = true} : float32 [] implicit "mul"\n'
        "  %4 = mul(%1, %3) : float32 [max(batch - 1, 0), 2]\n"
        "  %5 = reduce_sum(%4) {axes = (0), keepdims = false} : float32 [2]\n"
        '  output %5 "y"\n'
    )
    assert str(graph) == to_text(graph)[0]


def test_nan_payloads_and_special_floats_survive() -> None:
    graph = jn.Graph("g", inputs=[jn.TensorType(jn.float64, (2,))])
    odd = np.uint64(0x7FF800000000BEEF).view(np.float64)
    graph.output(
        graph.inputs[0] + odd,
        jn.pad(graph.inputs[0], 1, value=float("nan")),
        jn.pad(graph.inputs[0], 1, value=-1e300),
    )
    again = from_text(*to_text(graph))
    assert again.symbols[1].attrs["value"].tobytes() == odd.tobytes()
    assert np.isnan(again.symbols[3].attrs["value"])
    assert again.symbols[4].attrs["value"] == -1e300


HEADER = 'graph "g" semantics "max" policy "lattice"\n'
INPUT = '  %0 = input {index = 0, name = "x"} : float32 [batch, 2]\n'


@pytest.mark.parametrize(
    ("body", "problem"),
    [
        ("", "it is empty"),
        ("hello", "line 1: expected 'graph'"),
        (HEADER.replace("max", "maxx"), "unknown rule set"),
        (HEADER + INPUT.replace("%0", "%1"), "line 2: expected %0, found %1"),
        (HEADER + INPUT.replace("float32", "float33"), "unknown dtype 'float33'"),
        (HEADER + INPUT.replace("2]", "-2]"), "-2 is negative"),
        (HEADER + INPUT.replace("2]", "2"), "expected ']'"),
        (HEADER + INPUT.replace("index = 0", "index = 1"), "input 0 is %0"),
        (HEADER + INPUT.replace("index = 0, ", ""), "input has the attributes index, name"),
        (HEADER + INPUT.replace("index = 0", "index = 0, index = 0"), "given twice"),
        (HEADER + INPUT + "  %1 = exq(%0) : float32 [batch, 2]", "unknown op 'exq'; did you mean exp"),
        (HEADER + INPUT + "  %1 = exp(%1) : float32 [batch, 2]", "%1 is not defined before this line"),
        (HEADER + INPUT + "  %1 = exp(%0) : float64 [batch, 2]", "its dtype is float64, the op gives float32"),
        (HEADER + INPUT + "  %1 = exp(%0) : float32 [batch, 3]", r"its shape is \(batch, 3\), the op gives \(batch, 2\)"),
        (HEADER + INPUT + "  %1 = exp(%0, %0) : float32 [batch, 2]", "2 operands, the op has 1"),
        (HEADER + INPUT + "  %1 = exp(%0) : float32 [batch, 2] extra", "unexpected 'extra'"),
        (HEADER + INPUT + "  %1 = permute(%0) {axes = (0, 0)} : float32 [batch, 2]", "no permutation"),
        (HEADER + INPUT + '  %1 = permute(%0) {axes = "ab"} : float32 [batch, 2]', "axes must be a tuple of ints, not 'ab'"),
        (HEADER + INPUT + '  %1 = reshape(%0) {shape = (<seq>, 2)} : float32 [seq, 2]\n  output %1 "y"',
         "the dim seq appears in the shape of no input"),
        (HEADER + INPUT + '  %1 = exp(%0) : float32 [batch, 2] implicit "add"', "exp cannot be an implicit cast"),
        (HEADER + '  %0 = constant {value = hex"00"} : float32 []', "takes 4 bytes"),
        (HEADER + '  %0 = constant {value = hex"zzzzzzzz"} : float32 []', "malformed bytes"),
        (HEADER + '  %0 = constant {value = sha256"abc"} : float32 [100]', "is not among those given"),
        (HEADER + "  %0 = dim_value {extent = <batch>} : int64 []\n  output %0 \"y\"",
         "the dim batch appears in the shape of no input"),
        (HEADER + INPUT + '  check [batch] "m"', "expected 2 extents, found 1"),
        (HEADER + INPUT + '  check [batch, batch + 1] "m"', "never equals"),
        (HEADER + INPUT + '  output %3 "y"', "%3 is not defined"),
        (HEADER + INPUT + "  %1 = exp(%0) {a = ((((((((((1))))))))))} : float32 []", "nested deeper"),
        (HEADER + INPUT + "  %1 = exp(%0) {a = eval} : float32 []", "unknown value 'eval'"),
        (HEADER + INPUT + "  %1 = exp(%0) ; drop", "unexpected ';"),
    ],
)  # fmt: skip
def test_malformed_text_is_refused_with_the_line(body: str, problem: str) -> None:
    with pytest.raises(jn.UserError, match=f"^graph text(.|\n)*({problem})"):
        from_text(body)


def test_arrays_are_checked_against_digest_and_type() -> None:
    graph = jn.Graph("g")
    graph.output(graph.constant(np.arange(100.0)))
    text, arrays = to_text(graph)
    ((digest, array),) = arrays.items()
    with pytest.raises(jn.UserError, match="does not have that digest"):
        from_text(text, {digest: array + 1})
    with pytest.raises(jn.UserError, match="the line says float64 \\(50,\\)"):
        from_text(text.replace("[100]", "[50]"), arrays)
    with pytest.raises(jn.UserError, match="the array is float64"):
        from_text(text.replace("float64", "int32"), arrays)


def test_constants_of_equal_bytes_keep_their_types() -> None:
    graph = jn.Graph("g")
    arrays = [np.zeros((2, 60), np.float32), np.zeros((60, 2), np.float32), np.zeros(120, np.int32)]
    graph.output(*[graph.constant(array) for array in arrays])
    again = from_text(*to_text(graph))
    assert [(str(symbol.dtype), symbol.shape) for symbol in again.outputs] == [
        ("float32", (2, 60)), ("float32", (60, 2)), ("int32", (120,)),
    ]  # fmt: skip


def strided(graph: Any, x: Any, levels: int) -> Any:
    """What segmentation models with open images do: strided windows, then scores of all pixels with those of a coarser one."""
    found = []
    for _ in range(levels):
        x = jn.pad(x, [(0, 0), (1, 1), (1, 1), (0, 0)])[:, ::2, ::2]
        found.append(x)
    coarse = jn.reshape(x, (x.shape[0], x.shape[1] * x.shape[2], -1))
    return [jn.reshape(y, (y.shape[0], y.shape[1] * y.shape[2], -1)) @ coarse.transpose(1, 2) for y in found]


def test_graphs_with_open_images_are_read_back_and_bounded() -> None:
    graph = jn.Graph("pyramid", [jn.TensorType(jn.float32, ("b", "h", "w", 2), "x")])
    graph.output(*strided(graph, jn.pad(graph.inputs[0], [(0, 0), (0, graph.inputs[0].shape[1] // 3), (0, 1), (0, 0)]), 5))
    text, arrays = to_text(graph)
    again = from_text(text, arrays)
    assert to_text(again)[0] == text
    assert max(len(str(check.lhs)) for check in again.limits) > 2048
    x = np.random.default_rng(0).normal(size=(2, 19, 33, 2)).astype(np.float32)
    for one, other in zip(jn.evaluate(graph, x), jn.evaluate(again, x), strict=True):
        np.testing.assert_array_equal(one, other)
    small = from_text(text, arrays, jn.Budget(work=1000))
    with pytest.raises(jn.UserError, match="more operations than the budget"):
        jn.evaluate(small, x)
    with pytest.raises(jn.UserError, match="more operations than the budget"):
        jn.compile(small, device="cpu")(x)


def test_sizes_that_no_text_holds_are_refused_when_a_graph_is_built() -> None:
    deep: Any = jn.dim("n")
    for _ in range(40):
        deep = (deep + jn.dim("m")) // 2
    wide: Any = 1
    for name in map(jn.dim, "nmkl"):
        wide = wide * (name // 2 + name // 3 + name // 5 + name % 7 + name % 11)
    for size, problem in ((deep, "in each other, more than 64"), (jn.dim("n") * 10**45, "more than 40 digits"),
                          (wide, "more than 10000")):  # fmt: skip
        graph = jn.Graph("g", [jn.TensorType(jn.float32, ("n", "m", "k", "l"), "x"), jn.TensorType(jn.float32, (1,), "y")])
        with pytest.raises(jn.UserError, match=rf"(?s)^broadcast_to: .*{problem}.*from test_text.*fix: give parts"):
            graph.output(jn.broadcast_to(graph.inputs[1], (size,)))


def test_text_that_is_too_long_is_refused() -> None:
    with pytest.raises(jn.UserError, match="expected text, not int"):
        from_text(3)  # type: ignore[arg-type]

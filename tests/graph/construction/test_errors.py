"""Every mistake a builder can make: the message names the op, the operands with their line, what was expected, and one fix.

Each fix that can be tried is tried.
"""

from __future__ import annotations

import inspect
import json
import os
import re
from collections.abc import Callable
from typing import Any

import joinery as jn
import numpy as np
import pytest

X = ("float32", ("batch", 784), "x")


def graph() -> Any:
    types: list[tuple[Any, ...]] = [
        X, ("float32", (4, 3), "a"), ("float32", (5, 3), "b"), ("int32", (3,), "i"), ("bool", (4, 3), "mask"),
        ("float16", (4, 3), "h"),
        ("float8_e4m3fn", (4, 3), "tiny"), ("complex64", (4, 3), "c"), ("uint8", (4, 3), "u"), ("float32", (), "s"),
        ("float32", (0, 3), "empty"), ("float32", ("seq", 784), "y"), ("float32", (4,), "v"), ("float6_e2m3fn", (4,), "packed"),
    ]  # fmt: skip
    return jn.Graph("model", inputs=[jn.TensorType(*entry) for entry in types])


class Inputs:
    def __init__(self) -> None:
        self.g = graph()
        for symbol in self.g.inputs:
            setattr(self, symbol.name, symbol)

    def __getattr__(self, name: str) -> Any:
        raise AttributeError(name)


CASES: list[tuple[str, Callable[[Any], Any], tuple[str, ...]]] = [
    # what the message must say, piece by piece
    ("broadcast", lambda n: n.a + n.b, ("add: shapes (4, 3) and (5, 3) do not broadcast: axis -2 is 4 and 5",
        "operand 0: input 'a', float32 (4, 3), from test_errors.py:", "operand 1: input 'b', float32 (5, 3)",
        "expected: equal sizes, or 1, on every axis counted from the right", "fix: ")),
    ("broadcast fix: new axis", lambda n: n.a + n.v,
        ("axis -1 is 3 and 4", "fix: give operand 1 a new last axis: operand[..., None]")),
    ("broadcast fix: transpose", lambda n: n.a + n.a.T, ("swap the last two axes of operand",)),
    ("broadcast in where", lambda n: jn.where(n.mask, n.b, 0), ("where: shapes", "operand 2: ")),
    ("names", lambda n: n.x + n.y,
        ("the dims batch and seq have different names", "joinery.rebind(x, shape) with seq in place of batch")),
    ("matmul sizes", lambda n: n.a @ n.b,
        ("matmul: the contracted sizes differ: axis -1 of operand 0 is 3, axis -2 of operand 1 is 5",
        "expected: (…, M, K) @ (…, K, N)", "fix: transpose operand 1: a @ joinery.transpose(b, -1, -2)")),
    ("matmul fix: left", lambda n: n.a @ n.v[:, None], ("fix: transpose operand 0",)),
    ("matmul fix: swap", lambda n: n.a @ jn.zeros(n.g, (5, 4)), ("fix: swap the operands: b @ a",)),
    ("matmul of a scalar", lambda n: n.a @ n.s, ("matmul: a scalar cannot be contracted", "use * to scale")),
    ("matmul precision", lambda n: jn.matmul(n.a, n.a.T, "fast"), ("unknown precision 'fast'", '"ieee" or "tf32"')),
    ("matmul tf32 of halves", lambda n: jn.matmul(n.h, n.h.T, "tf32"), ('precision="tf32" of float16 operands',)),
    ("no join", lambda n: n.a + n.tiny, ("add(float32, float8_e4m3fn): no join for float32 and float8_e4m3fn in rule set max",
        "operand 1: input 'tiny', float8_e4m3fn (4, 3)", "fix: cast explicitly, e.g. .cast(float32)")),
    ("literal too large", lambda n: n.u + 300, ("add: literal 300 does not fit uint8, whose range is [0, 255]",
        "fix: cast the tensor operand with .cast(", "operand 1: literal 300")),
    ("literal negative", lambda n: n.u * -1, ("literal -1 does not fit uint8",)),
    ("literal overflow", lambda n: jn.maximum(n.h, 1e30), ("maximum: literal 1e+30 does not fit float16",)),
    ("complex literal", lambda n: n.a + 1j, ("literal 1j: complex scalars take part in no arithmetic",)),
    ("axis", lambda n: jn.softmax(n.a, axis=2),
        ("softmax: axis 2 is out of range", "expected: -2 to 1 for 2 axes", "fix: use -1")),
    ("axis negative", lambda n: jn.sum(n.a, axis=-3), ("sum: axis -3 is out of range", "fix: use 0 for the first axis")),
    ("axis of a scalar", lambda n: jn.sum(n.s, axis=0),
        ("sum: axis 0 of a scalar, which has no axes", "fix: leave the axis out")),
    ("axis twice", lambda n: jn.mean(n.a, axis=(0, -2)), ("mean: axis (0, -2) names an axis twice",)),
    ("axis of wrong type", lambda n: jn.max(n.a, axis=1.0), ("max: axis must be an int, not 1.0",)),
    ("empty maximum", lambda n: jn.max(n.empty, axis=0), ("max: axis 0 is empty", "expected: at least one element")),
    ("empty argmax", lambda n: jn.argmin(n.empty), ("argmin: axis 0 is empty",)),
    ("max with a number", lambda n: jn.max(n.a, 1),
        ("max: the second argument 1 is no tensor", "max(x, axis=1) to reduce", "maximum(x, 1)")),
    ("max with both", lambda n: jn.min(n.a, n.a, axis=0), ("min: two tensors and axis= or keepdims=",)),
    ("sub of bools", lambda n: n.mask - n.mask,
        ("sub: not defined for bool", "expected: signed integers and unsigned integers and floats",
        "fix: use joinery.logical_xor")),
    ("logic of numbers", lambda n: jn.logical_and(n.a, n.mask), ("operand 0 must be bool", "not_equal(x, 0)")),
    ("bits of floats", lambda n: n.a & 1, ("operand 0 must be bool or integer, not float32", ".bitcast")),
    ("condition", lambda n: jn.where(n.a, 1.0, 0.0), ("where(float32, 1.0, 0.0): the condition must be bool",)),
    ("only stored", lambda n: jn.exp(n.packed),
        ("exp: float6_e2m3fn can be stored, viewed and bit-cast, but not computed with",)),
    ("compute fp8", lambda n: n.tiny * n.tiny, ("mul: float8_e4m3fn can be stored, viewed and bit-cast, but not computed with",
        "fix: compute in float16: operand.cast(float16)")),
    ("compute packed", lambda n: n.packed + n.packed, ("float6_e2m3fn", "bitcast it and compute on the bits")),
    ("cast packed", lambda n: n.packed.cast(jn.float32), ("cast: values of float6_e2m3fn can be stored, viewed and bit-cast",)),
    ("cast complex", lambda n: n.c.cast(jn.float32), ("loses the imaginary parts", "fix: joinery.real")),
    ("cast to nothing", lambda n: n.a.cast("float33"), ("unknown dtype 'float33'; did you mean",)),
    ("cast None", lambda n: n.a.cast(None), ("cast: dtype is missing",)),
    ("cast rounding", lambda n: jn.cast(n.a, jn.float16, rounding="up"), ("cast: unknown rounding 'up'", "toward_zero")),
    ("cast saturate", lambda n: jn.cast(n.a, jn.float16, saturate=1), ("cast: saturate is 1", "True or False")),
    ("bitcast width", lambda n: n.a.bitcast(jn.int16),
        ("bitcast: float32 has 32 bits, int16 has 16", "fix: bitcast to uint32 first")),
    ("reshape", lambda n: jn.reshape(n.a, (5, 2)), ("reshape: (4, 3) has 12 elements, (5, 2) has 10", "fix: write -1")),
    ("reshape by division", lambda n: jn.reshape(n.a, (5, -1)), ("reshape: (4, 3) has 12 elements, which 5 does not divide",)),
    ("reshape twice unknown", lambda n: jn.reshape(n.a, (-1, -1)), ("reshape: -1 appears 2 times",)),
    ("reshape of empty", lambda n: jn.reshape(n.empty, (0, -1)), ("-1 cannot be computed beside a size of 0",)),
    ("reshape negative", lambda n: jn.reshape(n.a, (-2, 6)), ("reshape: size 0: -2 is negative",)),
    ("permute", lambda n: jn.permute(n.a, (0, 0)),
        ("permute: axes (0, 0) are no permutation of the 2 axes of (4, 3)", "each of 0 to 1 once")),
    ("permute text", lambda n: jn.permute(n.a, "ab"), ("permute: axes 'ab'", "a tuple of 2 ints")),
    ("broadcast_to", lambda n: jn.broadcast_to(n.a, (4, 4)),
        ("broadcast_to: (4, 3) cannot be broadcast to (4, 4): axis -1 is 3, not 4",)),
    ("broadcast_to rank", lambda n: jn.broadcast_to(n.a, (3,)), ("which has fewer axes",)),
    ("squeeze", lambda n: jn.squeeze(n.a, 1), ("squeeze: axis 1 has size 3", "expected: axes of size 1")),
    ("flatten", lambda n: jn.flatten(n.a, 1, 0), ("flatten: start_axis 1 comes after end_axis 0",)),
    ("rebind rank", lambda n: jn.rebind(n.a, (4,)), ("rebind: 1 sizes for 2 axes of (4, 3)", "None keeps a size")),
    ("rebind never", lambda n: jn.rebind(n.a, (4, 4)), ("rebind: rebind axis 1: 3 must equal 4: 3 never equals 4",)),
    ("index", lambda n: n.a[4], ("index: index 4 is out of range on axis 0 of size 4", "expected: -4 to 3")),
    ("index of empty", lambda n: n.empty[0], ("no index: the axis is empty",)),
    ("too many indices", lambda n: n.a[0, 0, 0], ("index: 3 indices for 2 axes of (4, 3)", "fix: drop an index")),
    ("two ellipses", lambda n: n.a[..., ...], ("an index can have one Ellipsis only",)),
    ("float index", lambda n: n.a[1.5], ("axis 0: 1.5 (float) is no index",)),
    ("mask index", lambda n: n.a[n.mask], ("select with joinery.where(mask, x, other)",)),
    ("bool index", lambda n: n.a[True], ("(bool) is no index", "joinery.where")),
    ("array out of range", lambda n: n.a[:, np.array([0, 3])], ("index 3 is out of range on axis 1 of size 3", "-3 to 2")),
    ("array of floats", lambda n: n.a[np.array([0.5])], ("axis 0: positions of float64", "astype")),
    ("list of floats", lambda n: n.a[[0, 1.5]], ("[0, 1.5] (list) is no list of ints",)),
    ("ragged list", lambda n: n.a[[[0], [1, 2]]], ("(list) is no list of ints",)),
    ("list of symbols", lambda n: n.a[[n.a[0, 0]]], ("(list) is no list of ints", "joinery.stack")),
    ("floats as positions", lambda n: n.a[n.v], ("is no position", "cast to int64")),
    ("short mask", lambda n: n.a[np.array([True, False])], ("a mask of shape (2,) for axes of (4,)", "joinery.where")),
    ("arrays that do not broadcast", lambda n: n.a[np.arange(3), np.arange(2)], ("shapes (3,) and (2,) do not broadcast",)),
    ("too many arrays", lambda n: n.a[[0], [0], [0]], ("3 indices for 2 axes of (4, 3)",)),
    ("step 0", lambda n: n.a[::0], ("index: slice step 0 on axis 0", "a non-zero int")),
    ("bool array without axes", lambda n: n.a[np.array(True)], ("is no index", "joinery.where")),
    ("float array without axes", lambda n: n.a[np.array(1.5)], ("is no index", "cast positions to int64")),
    ("text index", lambda n: n.a["x"], ("(str) is no index",)),
    ("concat sizes", lambda n: jn.concat([n.a, n.b], 1), ("concat: axis 0 is 4 in operand 0 and 5 in operand 1",
        "equal sizes on every axis but axis 1")),
    ("concat ranks", lambda n: jn.concat([n.a, n.v]), ("concat: operand 1 has 1 axes, operand 0 has 2", "operand[None]")),
    ("concat scalars", lambda n: n.g.apply("concat", [n.s, n.s], {"axis": 0}),
        ("scalars cannot be concatenated", "joinery.stack")),
    ("concat of nothing", lambda n: jn.concat([]), ("concat: expected a non-empty list of tensors",)),
    ("stack ranks", lambda n: jn.stack([n.a, n.v]), ("stack: operand 1 has 1 axes, operand 0 has 2",)),
    ("split sum", lambda n: jn.split(n.a, [1, 2]), ("split: the sizes sum to 3, axis 0 has 4",)),
    ("split count", lambda n: jn.split(n.b, 2),
        ("split: axis 0 of size 5 does not split into 2 equal pieces", "joinery.chunk")),
    ("split zero", lambda n: jn.split(n.b, 0), ("cannot split into 0 pieces",)),
    ("chunk zero", lambda n: jn.chunk(n.b, 0), ("chunk: cannot cut into 0 pieces",)),
    ("pad widths", lambda n: jn.pad(n.a, [(1, 1)]),
        ("pad: widths [(1, 1)] do not fit 2 axes", "one (before, after) pair per axis")),
    ("pad negative", lambda n: jn.pad(n.a, [(-1, 0), (0, 0)]),
        ("pad: the pad width -1 on axis 0 is negative", "fix: slice instead")),
    ("pad reflect", lambda n: jn.pad(n.a, [(0, 0), (3, 0)], "reflect"),
        ("pad: cannot reflect 3 elements of axis 1, which has 3",)),
    ("pad mode", lambda n: jn.pad(n.a, 1, "warp"),
        ("pad: unknown mode 'warp'", '"constant", "edge", "reflect", "wrap", "symmetric"')),
    ("pad wrap negative", lambda n: jn.pad(n.a, [(0, 0), (0, -2)], "wrap"),
        ("pad: the pad width -2 on axis 1 is negative", "fix: slice instead")),
    ("pad wrap of empty", lambda n: jn.pad(n.empty, 1, "wrap"), ("pad: axis 0 is empty, mode 'wrap' has nothing to repeat",)),
    ("pad value", lambda n: jn.pad(n.u, 1, value=-1), ("pad: literal -1 does not fit uint8",)),
    ("pad array value", lambda n: jn.pad(n.u, 1, value=np.ones(1)), ("pad: the value must be a number",)),
    ("pad edge of empty", lambda n: jn.pad(n.empty, 1, "edge"), ("pad: axis 0 is empty, mode 'edge' has nothing to repeat",)),
    ("gather floats", lambda n: jn.gather(n.a, n.v), ("gather: the indices must be integers, not float32", ".cast(int64)")),
    ("gather mask", lambda n: jn.gather(n.a, n.mask), ("not bool", "where(mask, x, y)")),
    ("gather empty", lambda n: jn.gather(n.empty, n.i), ("gather: axis 0 is empty, no index points into it",)),
    ("gather scalar", lambda n: jn.gather(n.s, n.i), ("gather: axis 0 of a scalar",)),
    ("take_along_axis", lambda n: jn.take_along_axis(n.a, n.i),
        ("take_along_axis: the operand has 2 axes, the indices have 1", "joinery.gather")),
    ("layer_norm scale", lambda n: jn.layer_norm(n.a, n.v), ("layer_norm: operand 1 has shape (4,)", "expected: (3,)")),
    ("layer_norm scalar", lambda n: jn.layer_norm(n.s), ("layer_norm: a scalar has no axis",)),
    ("epsilon", lambda n: jn.rms_norm(n.a, epsilon=-1), ("rms_norm: epsilon is -1", "a finite number, 0 or more")),
    ("gelu", lambda n: jn.gelu(n.a, "fast"), ("gelu: unknown approximation 'fast'", '"none", "tanh" or "quick"')),
    ("var", lambda n: jn.var(n.a, correction="1"), ("var: correction is '1'",)),
    ("mean dtype", lambda n: jn.mean(n.a, dtype=jn.int32), ("mean: dtype=int32 cannot hold a mean",)),
    ("stdev", lambda n: jn.stdev(n.a, correction="1"), ("stdev: correction is '1'",)),
    ("stdev dtype", lambda n: jn.stdev(n.a, dtype=jn.int32), ("stdev: dtype=int32 cannot hold a mean", "a float dtype")),
    ("norm", lambda n: jn.norm(n.a, ord="fro"), ("norm: ord is 'fro'",)),
    ("clip", lambda n: jn.clip(n.a), ("clip: both bounds are None",)),
    ("bit_shift", lambda n: jn.bit_shift(n.u, 1, "up"), ("bit_shift: unknown direction 'up'",)),
    ("linear", lambda n: jn.linear(n.a, n.v), ("linear: the weight has 1 axes", "(out, in)")),
    ("gemm", lambda n: jn.gemm(n.a, n.v), ("gemm: the operands are no matrices",)),
    ("tensordot", lambda n: jn.tensordot(n.a, n.b, 1), ("tensordot: axis 1 of operand 0 is 3, axis 0 of operand 1 is 5",)),
    ("tensordot count", lambda n: jn.tensordot(n.a, n.b, 3), ("tensordot: cannot sum over 3 axes",)),
    ("tensordot pairs", lambda n: jn.tensordot(n.a, n.b, ((0, 1), (0,))), ("2 axes of operand 0 meet 1 of operand 1",)),
    ("list operand", lambda n: jn.add(n.a, [1, 2, 3]), ("add: a list has no dtype", "numpy.array(value, dtype=…)")),
    ("text operand", lambda n: n.a * "2", ("mul: expected a Symbol, a NumPy array or a Python scalar, not str '2'",)),
    ("object array", lambda n: n.a + np.array([None, 1, 2]), ("add: arrays of object hold no numbers",)),
    ("text array", lambda n: n.a + np.array(["x"]), ("has no joinery dtype",)),
    ("masked array", lambda n: n.a + np.ma.ones(3), ("a masked array would lose its mask",)),
    ("no symbol", lambda n: jn.add(np.ones(3), 1),
        ("add: no operand is a Symbol, so there is no graph", "graph.constant(array)")),
    ("no graph", lambda n: jn.zeros((2, 3), 0), ("zeros: the first argument must be a graph, or a symbol of it",)),
    ("other graph", lambda n: n.a + graph().inputs[1], (
        "add: the operand belongs to graph 'model'", "the op to another one of this name", "expected: operands of one graph")),
    ("truth", lambda n: bool(n.a > 0), ("the truth value of a Symbol is not known", "joinery.where(condition, x, y)")),
    ("if equal", lambda n: 1 if n.a == n.a else 2, ("compare symbols with `is`",)),
    ("iteration", lambda n: list(n.a), ("the sequence of elements", "joinery.split")),
    ("membership", lambda n: 1 in n.a, ("membership", "joinery.any")),
    ("length", lambda n: len(n.x), ("the length of a Symbol", "x.shape[0], which is a Dim")),
    ("float", lambda n: float(n.s), ("the number of a Symbol",)),
    ("array", lambda n: np.asarray(n.a), ("the array of a Symbol", "joinery functions")),
    ("scalar of list", lambda n: n.g.scalar([1]), ("scalar: expected a number, not list [1]",)),
    ("scalar too large", lambda n: n.g.scalar(300, jn.int8), ("scalar: literal 300 does not fit int8",)),
    ("constant list", lambda n: n.g.constant([1, 2]), ("constant: a list has no dtype",)),
    ("weight name", lambda n: n.g.weight("", np.ones(1)), ("weight: the name must be non-empty text",)),
    ("two inputs", lambda n: n.g.input(jn.float32, (2,), "a"), ("Graph 'model': two inputs are called 'a'",)),
    ("no output", lambda n: n.g.output(), ("Graph 'model': output() without a symbol",)),
    ("output names", lambda n: n.g.output(n.a, n.b, names=("y",)), ("output: 1 names for 2 outputs",)),
    ("output names twice", lambda n: n.g.output(n.a, n.b, names=("y", "y")), ("the names y, y are not distinct",)),
    ("output name empty", lambda n: n.g.output(n.a, names=[""]), ("output: '' is no name",)),
    ("output name and names", lambda n: n.g.output(n.a, name="y", names=["y"]), ("both name= and names= are given",)),
    ("unfinished key", lambda n: n.g.canonical_key(), ("Graph 'model' has no outputs yet",)),
    ("unknown op", lambda n: n.g.apply("sofmax", (n.a,), {"axis": 0}), ("unknown op 'sofmax'; did you mean softmax",)),
    ("operand count", lambda n: n.g.apply("add", (n.a,)), ("add: 1 operands, expected 2",)),
    ("symbol by hand", lambda n: jn.Symbol(), ("Symbols are made by graphs",)),
    ("graph name", lambda n: jn.Graph(""), ("Graph: the name must be non-empty text",)),
    ("type name", lambda n: jn.TensorType(jn.float32, (2,), name=""), ("TensorType: the name must be non-empty text",)),
    ("type dtype", lambda n: jn.TensorType("float", (2,)), ("unknown dtype 'float'; did you mean float32",)),
    ("type size", lambda n: jn.TensorType(jn.float32, (2, -1)), ("TensorType: shape[1]: -1 is negative",)),
    ("type size text", lambda n: jn.TensorType(jn.float32, ("2*",)), ("dim expression '2*': it ends early",)),
    ("type size float", lambda n: jn.TensorType(jn.float32, (2.5,)), ("TensorType: shape[0]: 2.5 is not a size",)),
    ("type size bool", lambda n: jn.TensorType(jn.float32, (True,)), ("True is not a size",)),
    ("type size huge", lambda n: jn.TensorType(jn.float32, (2**63,)), ("does not fit 64 bits",)),
    ("type size never", lambda n: jn.TensorType(jn.float32, ("-batch - 1",)), ("is always negative",)),
    ("type shape", lambda n: jn.TensorType(jn.float32, None), ("TensorType: shape: None is not a shape",)),
    ("type rank", lambda n: jn.TensorType(jn.float32, (1,) * 65), ("65 axes; at most 64",)),
    ("shift of bools", lambda n: n.mask << n.mask, ("shift_left: not defined for bool", "cast to int8 first")),
]  # fmt: skip


@pytest.mark.parametrize(("name", "build", "pieces"), CASES, ids=[case[0] for case in CASES])
def test_the_message_says_what_where_and_how_to_fix(name: str, build: Any, pieces: tuple[str, ...]) -> None:
    inputs = Inputs()
    before = len(inputs.g.checks)
    with pytest.raises((jn.UserError, jn.UnsupportedError)) as caught:
        build(inputs)
    message = str(caught.value)
    for piece in pieces:
        assert piece in message, message
    assert "InternalError" not in message
    assert "Traceback" not in message
    assert len(inputs.g.checks) == before, "a refused op left a runtime check behind"


HELP = re.compile(r"expected|fix:|did you mean|at most|; ")


@pytest.mark.parametrize(("name", "build", "pieces"), CASES, ids=[case[0] for case in CASES])
def test_every_message_says_what_was_expected_or_how_to_fix_it(name: str, build: Any, pieces: tuple[str, ...]) -> None:
    with pytest.raises((jn.UserError, jn.UnsupportedError)) as caught:
        build(Inputs())
    assert HELP.search(str(caught.value)), str(caught.value)


def test_operands_show_the_line_that_made_them() -> None:
    inputs = Inputs()
    frame = inspect.currentframe()
    assert frame is not None
    line = frame.f_lineno + 1
    hidden = jn.exp(inputs.a)
    with pytest.raises(jn.UserError) as caught:
        hidden + inputs.b
    where = f"{os.path.basename(__file__)}:{line} in test_operands_show_the_line_that_made_them"
    assert f"operand 0: %{hidden.id} exp, float32 (4, 3), from {where}" in str(caught.value)


def test_suggested_fixes_work() -> None:
    n = Inputs()
    assert (n.a + n.v[..., None]).shape == (4, 3)
    assert (n.a + jn.transpose(n.a.T, -1, -2)).shape == (4, 3)
    assert (n.a @ jn.transpose(n.b, -1, -2)).shape == (4, 5)
    assert (n.a + n.tiny.cast(jn.float32)).dtype is jn.float32
    assert (n.u.cast(jn.int16) + 300).dtype is jn.int16
    assert (jn.rebind(n.x, (n.y.shape[0], None)) + n.y).shape == n.y.shape
    assert jn.not_equal(n.a, 0).dtype.name == "bool"
    assert (n.tiny.cast(jn.float16) * n.tiny.cast(jn.float16)).dtype is jn.float16


def test_unknown_public_names_suggest_the_nearest() -> None:
    with pytest.raises(AttributeError, match="did you mean softmax"):
        jn.sofmax  # noqa: B018


def fresh(name: str = "g") -> jn.Graph:
    return jn.Graph(name, [jn.TensorType("float32", (3,), "a")])


@pytest.mark.parametrize("value", [None, "text", b"bytes", {}, object()])
def test_what_is_no_operand_is_refused_with_advice_that_helps(value: Any) -> None:
    x = fresh().inputs[0]
    for call in (
        lambda: x + value, lambda: value + x, lambda: x @ value, lambda: x < value, lambda: x**value, lambda: value // x,
        lambda: jn.maximum(x, value), lambda: jn.where(x > 0, x, value),
    ):  # fmt: skip
        with pytest.raises(jn.UserError, match="fix: pass a tensor of the graph, an array or a number"):
            call()
    assert (x == None) is False  # noqa: E711  what identity says of other objects


def test_inputs_by_name() -> None:
    graph = jn.Graph("g", [jn.TensorType("float32", (), "a"), jn.TensorType("float32", (), "b")])
    graph.output(graph.inputs[0] - graph.inputs[1])
    for run in (jn.evaluate(graph, b=1.0, a=5.0), jn.evaluate(graph, 5.0, b=1.0), jn.evaluate(graph, 5.0, 1.0)):
        assert run == 4
    for arrays, named, message in (
        ((), {"x0": 1.0}, "no input 'x0'; its inputs are a, b"), ((1.0,), {"a": 2.0}, "'a' is given by position and by name"),
        ((1.0,), {"c": 2.0}, "no input 'c'"), ((), {"a": 2.0}, "is given no b"),
    ):  # fmt: skip
        with pytest.raises(jn.UserError, match=message):
            jn.evaluate(graph, *arrays, **named)


def test_graphs_of_one_name_are_told_apart() -> None:
    first, second = fresh(), fresh()
    for call in (lambda: first.inputs[0] + second.inputs[0], lambda: jn.concat([first.inputs[0], second.inputs[0]])):
        with pytest.raises(jn.UserError, match="another one of this name") as caught:
            call()
        assert f"{id(first):#x}" in str(caught.value)
        assert f"{id(second):#x}" in str(caught.value)
        assert str(caught.value).count("test_errors.py") >= 3
    with pytest.raises(jn.UserError, match="belongs to graph 'h', the op to graph 'g'"):
        first.inputs[0] + fresh("h").inputs[0]


@pytest.mark.parametrize("name", ["a\nb", "a\x07", "\u2028", "tab\t"])
def test_names_can_be_printed(name: str) -> None:
    graph = fresh()
    calls = [
        lambda: jn.Graph(name, []), lambda: jn.TensorType("float32", (), name),
        lambda: graph.output(graph.inputs[0], names=[name]), lambda: graph.weight(name, np.zeros(3, np.float32)),
    ]  # fmt: skip
    for call in calls:
        with pytest.raises(jn.UserError, match="characters that cannot be printed"):
            call()
    graph.output(graph.inputs[0] + 1)
    text, arrays = jn.to_text(graph)
    for known in ('"a"', '"g"', '"output0"'):
        assert known in text
        with pytest.raises(jn.UserError, match="characters that cannot be printed"):
            jn.from_text(text.replace(known, json.dumps(name), 1), arrays)


def test_a_dtype_without_zero_says_so() -> None:
    x = jn.Graph("g", [jn.TensorType("float8_e8m0fnu", (3, 3), "x")]).inputs[0]
    for call in (lambda: jn.pad(x, ((1, 1), (0, 0))), lambda: jn.tril(x), lambda: jn.triu(x)):
        with pytest.raises(jn.UserError, match=r"it has no zero; fix: another value .*\.cast\(float32\)"):
            call()
    assert jn.pad(x, ((1, 1), (0, 0)), value=1.0).shape == (5, 3)
    assert jn.tril(x.cast("float32")).shape == (3, 3)


@pytest.mark.parametrize("dtype", ["f4", "f8", "i2", "u4", "i8", "f2"])
def test_constants_of_swapped_bytes_are_their_numbers(dtype: str) -> None:
    values = np.array([1, 2, 300])
    graph = jn.Graph("g", [jn.TensorType(np.dtype(dtype).name, (3,), "a")])
    for order in "<>":
        graph.constant(values.astype(order + dtype))
    swapped = values.astype(">" + dtype)
    graph.output(graph.inputs[0] + swapped, graph.weight("w", swapped) * 1)
    native = values.astype(dtype)
    for ours in (jn.evaluate(graph, native), jn.evaluate(graph, swapped), jn.compile(graph, cache=False)(native)):
        np.testing.assert_array_equal(ours[0], native + native)
        np.testing.assert_array_equal(ours[1], native)


def test_what_is_no_graph_and_no_dtype_is_named() -> None:
    graph = jn.Graph("g", [jn.TensorType("float32", (4,), name="graph"), jn.TensorType("float32", (4,), name="arrays")])
    x, y = graph.inputs
    graph.output(x + y)
    model = jn.compile(graph, "cpu", cache=False)
    for call, message in (
        (lambda: x.cast(y), "cast: dtype is the symbol .*use cast_like"),
        (lambda: x.cast(5.5), "cast: dtype is 5.5; expected a dtype"),
        (lambda: jn.sum(x, axis=np.array([0])), "sum: axis must be an int"),
        (lambda: jn.flip(x, axis=np.array([0])), "flip: axis must be an int"),
        (lambda: jn.evaluate(model, np.ones(4)), "evaluate: expected a Graph, got Model; fix: pass the graph it was made from"),
        (lambda: jn.what_if(model), "what_if: expected a Graph, got Model"),
        (lambda: jn.to_text(x), "to_text: expected a Graph, got Symbol"),
    ):
        with pytest.raises(jn.UserError, match=message):
            call()
    ones = np.ones(4, np.float32)
    np.testing.assert_array_equal(jn.evaluate(graph, graph=ones, arrays=ones), ones + ones)

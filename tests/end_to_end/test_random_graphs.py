"""Random typed graphs from the op table: compiled code must agree with the reference evaluator on all of them.

Values that only exact operations touch must agree bit for bit; for the others `error_bounds` knows how far rounding may carry.
"""

from __future__ import annotations

import math
from typing import Any

import joinery as jn
import numpy as np
import pytest
from hypothesis import HealthCheck, given, seed, settings
from hypothesis import strategies as st
from joinery.graph.dims import evaluate_dim
from joinery.graph.ops import OPS

MAX_ELEMENTS = 6000
EXTENTS = (0, 1, 1, 2, 3, 4, 5, 8, 17, 33, 65)
SYMBOLIC = (1, 1, 2, 3, 8, "n", "k", "m")
DIMS = (0, 1, 2, 3, 4, 7, 16, 33, 70)
FLOATS = ("float32", "float32", "float32", "float16", "bfloat16", "float64", "tensor_float32")
INTEGERS = ("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64", "index")
DTYPES = (*FLOATS, *INTEGERS, "bool")
UNARY = tuple(
    row.name
    for row in OPS.values()
    if row.kind == "map" and row.arity == 1 and not row.attrs and not row.traits & {"internal"}
)
BINARY = tuple(
    row.name
    for row in OPS.values()
    if row.kind == "map" and row.arity == 2 and not row.attrs and not row.traits & {"internal"}
)


class Source:
    """Decisions, drawn by hypothesis."""

    def __init__(self, draw: Any) -> None:
        self.draw = draw

    def one(self, *choices: Any) -> Any:
        return self.draw(st.sampled_from(choices))

    def integer(self, low: int, high: int) -> int:
        return self.draw(st.integers(low, high))

    def several(self, choices: Any, low: int, high: int, distinct: bool = False) -> list[Any]:
        return self.draw(st.lists(st.sampled_from(choices), min_size=low, max_size=high, unique=distinct))

    def order(self, count: int) -> list[int]:
        return self.draw(st.permutations(range(count)))


class Builder:
    """Draws one op at a time. `values` are the symbols made so far."""

    def __init__(self, source: Any, symbolic: bool) -> None:
        self.one, self.integer, self.several, self.order = (
            source.one,
            source.integer,
            source.several,
            source.order,
        )
        self.extents = SYMBOLIC if symbolic else EXTENTS
        self.dims = {name: self.one(*DIMS) for name in ("n", "k", "m")}
        types = []
        for position in range(self.integer(1, 3)):
            shape = types[0].shape if types and self.flag() else self.shape()
            types.append(jn.TensorType(jn.DType(self.one(*DTYPES)), shape, name=f"x{position}"))
        self.graph = jn.Graph("random", inputs=types)
        self.values = list(self.graph.inputs)
        self.count = 0

    def flag(self) -> bool:
        return self.one(False, True)

    def shape(self) -> tuple[Any, ...]:
        shape: list[Any] = []
        for extent in self.several(self.extents, 0, 4):
            if math.prod(self.dims.get(e, e) for e in (*shape, extent)) <= MAX_ELEMENTS:
                shape.append(extent)
        return tuple(shape)

    def extent(self, entry: Any) -> int:
        return evaluate_dim(entry, self.dims)

    def size(self, value: Any) -> int:
        return math.prod(self.extent(entry) for entry in value.shape)

    def pick(self, condition: Any = lambda value: True) -> Any:
        found = [value for value in self.values if condition(value)][-8:]
        if not found:
            raise jn.UserError("no value fits")
        return self.one(*found)

    def axis(self, x: Any) -> int:
        return self.integer(0, len(x.shape) - 1)

    def axes(self, x: Any) -> tuple[int, ...]:
        return tuple(sorted(self.several(range(len(x.shape)), 1, 3, distinct=True)))

    def like(self, x: Any, *shape: Any) -> Any:
        """A constant of x's dtype."""
        self.count += 1
        values = np.random.default_rng(self.count).integers(-4, 5, shape)
        return self.graph.constant(grid(values, x.dtype), x.dtype)

    # -- steps ----------------------------------------------------------------------------------------------------------

    def step(self) -> None:
        x = self.pick()
        names = ["unary", "binary", "binary", "select", "cast", "literal", "expand"]
        if x.shape:
            names += [
                "reduce",
                "reduce",
                "normalize",
                "permute",
                "reshape",
                "reshape",
                "slice",
                "concat",
                "pad",
                "flip",
            ]
            names += ["gather", "along", "scan", "stack"]
        if len(x.shape) >= 2:
            names += ["matmul", "matmul", "attention", "row"]
        try:
            result = getattr(self, self.one(*names))(x)
        except (jn.UserError, jn.UnsupportedError):  # this op is not for these dtypes or shapes
            return
        if self.size(result) <= 4 * MAX_ELEMENTS:
            self.values.append(result)

    def unary(self, x: Any) -> Any:
        return self.graph.apply(self.one(*UNARY), (x,), {})

    def binary(self, x: Any) -> Any:
        y = self.pick()
        operands = (x, y) if self.flag() else (y, x)
        return self.graph.apply(self.one(*BINARY), operands, {})

    def literal(self, x: Any) -> Any:
        value: Any = self.one(0, 1, 2, 3, -1, 0.5, -0.25, True)
        operands = (x, value) if self.flag() else (value, x)
        return self.graph.apply(self.one(*BINARY), operands, {})

    def select(self, x: Any) -> Any:
        condition = self.graph.apply(self.one("less", "equal", "greater_equal"), (self.pick(), 1), {})
        return jn.where(condition, x, self.one(self.pick(), 0, 1))

    def cast(self, x: Any) -> Any:
        if self.integer(0, 9) == 0:
            same = [n for n in DTYPES if jn.DType(n).itemsize == x.dtype.itemsize and jn.DType(n).is_integer]
            return x.bitcast(self.one(*same)) if x.dtype.is_integer else x.cast("int64")
        return x.cast(self.one(*DTYPES), rounding=self.one("nearest", "nearest", "toward_zero"))

    def expand(self, x: Any) -> Any:
        inserted = x.reshape(*[e for entry in x.shape for e in ((entry, 1) if self.flag() else (entry,))])
        target = [
            self.one(2, 3, 1) if type(entry) is int and entry == 1 else entry for entry in inserted.shape
        ]
        return inserted.broadcast_to((*([self.one(1, 2)] if self.flag() else []), *target))

    def reduce(self, x: Any) -> Any:
        name = self.one(
            "sum",
            "sum",
            "max",
            "min",
            "prod",
            "mean",
            "var",
            "any",
            "all",
            "argmax",
            "argmin",
            "logsumexp",
            "count_nonzero",
        )
        keep = self.flag()
        if name in ("argmax", "argmin"):
            return getattr(jn, name)(x, axis=self.one(None, self.axis(x)), keepdims=keep)
        if name == "var":
            return jn.var(x, self.axes(x), keep, correction=self.one(0, 0, 1))
        return getattr(jn, name)(x, axis=self.one(None, self.axes(x)), keepdims=keep)

    def normalize(self, x: Any) -> Any:
        name = self.one("softmax", "logsoftmax", "gelu", "silu", "centre")
        if name == "centre":
            return x - jn.mean(x, self.axes(x), keepdims=True)
        if name == "gelu":
            return jn.gelu(x, self.one("none", "tanh", "quick"))
        return jn.silu(x) if name == "silu" else getattr(jn, name)(x, self.axis(x))

    def row(self, x: Any) -> Any:
        width = x.shape[-1]
        factors = (
            [self.like(x, width) for _ in range(2)] if isinstance(width, int) and x.dtype.is_float else []
        )
        if self.flag():
            return jn.layer_norm(x, *factors[: self.one(0, 1, 2)])
        return jn.rms_norm(x, *factors[: self.one(0, 1)])

    def permute(self, x: Any) -> Any:
        return x.permute(*self.order(len(x.shape)))

    def reshape(self, x: Any) -> Any:
        shape = list(x.shape)
        axis = self.axis(x)
        choice = self.one("merge", "merge", "split", "flat", "unit", "drop")
        if choice == "merge" and axis + 1 < len(shape):
            shape[axis : axis + 2] = [shape[axis] * shape[axis + 1]]
        elif choice == "split" and type(shape[axis]) is int and shape[axis] > 3:
            factor = next((f for f in (3, 2, 5, 11, 13) if shape[axis] % f == 0), 1)
            parts = [factor, shape[axis] // factor]
            shape[axis : axis + 1] = parts if self.flag() else parts[::-1]
        elif choice == "flat":
            shape = [math.prod(shape)]
        elif choice == "drop":
            shape = [entry for entry in shape if not (type(entry) is int and entry == 1)]
        else:
            shape.insert(axis, 1)
        return x.reshape(*shape)

    def slice(self, x: Any) -> Any:
        ends = (None, *range(-6, 7))
        steps = (1, 1, 2, -1, -2, 3)
        index = [
            slice(self.one(*ends), self.one(*ends), self.one(*steps)) if self.flag() else slice(None)
            for _ in x.shape
        ]
        if self.integer(0, 4) == 0:
            index[self.axis(x)] = self.one(0, -1)
        return x[tuple(index)]

    def concat(self, x: Any) -> Any:
        parts = [
            x,
            *[self.pick(lambda value: len(value.shape) == len(x.shape)) for _ in range(self.integer(1, 2))],
        ]
        return jn.concat(parts if self.flag() else parts[::-1], self.axis(x))

    def stack(self, x: Any) -> Any:
        y = self.pick(lambda value: value.shape == x.shape)
        return jn.stack([x, y], self.integer(0, len(x.shape)))

    def pad(self, x: Any) -> Any:
        low, high = (tuple(self.several((0, 0, 1, 2, 5), len(x.shape), len(x.shape))) for _ in range(2))
        attrs = {
            "low": low,
            "high": high,
            "mode": self.one("constant", "edge", "reflect"),
            "value": self.one(0, 1),
        }
        return self.graph.apply("pad", (x,), attrs)

    def flip(self, x: Any) -> Any:
        return jn.flip(x, self.axes(x))

    def indices(self, *shape: int) -> Any:
        self.count += 1
        values = np.random.default_rng(self.count).integers(-7, 8, shape)
        dtype = self.one("int64", "int32", "int8", "uint8")
        return self.graph.constant(values.astype(dtype))

    def gather(self, x: Any) -> Any:
        integers = [value for value in self.values if value.dtype.is_integer and len(value.shape) <= 2]
        fresh = self.indices(*self.one((), (3,), (2, 4), (17,)))
        return jn.gather(x, self.one(fresh, fresh, *integers[-2:]), self.axis(x))

    def along(self, x: Any) -> Any:
        axis = self.axis(x)
        if self.flag():
            return jn.take_along_axis(
                x, jn.argmax(self.pick(lambda v: len(v.shape) == len(x.shape)), axis, keepdims=True), axis
            )
        shape = [1] * len(x.shape)
        shape[axis] = 3
        return jn.take_along_axis(x, self.indices(*shape), axis)

    def scan(self, x: Any) -> Any:
        return jn.cumsum(x, self.axis(x), exclusive=self.flag(), reverse=self.flag())

    def matmul(self, x: Any) -> Any:
        others = [v for v in self.values if len(v.shape) >= 1 and v.dtype.is_float == x.dtype.is_float]
        fits = [v for v in others if (v.shape[-2] if len(v.shape) > 1 else v.shape[0]) == x.shape[-1]]
        choices = [x.transpose(), *fits[-4:]]
        if isinstance(x.shape[-1], int):
            choices.append(self.like(x, x.shape[-1], self.one(1, 3, 17, 64)))
            choices.append(self.like(x, x.shape[-1]))
        precision = "tf32" if x.dtype.name == "float32" and self.integer(0, 7) == 0 else "ieee"
        return jn.matmul(x, self.one(*choices), precision=precision)

    def attention(self, x: Any) -> Any:
        scores = (x @ x.transpose()) * 0.125
        if self.flag():
            scores = scores + self.pick(lambda v: v.dtype.is_float)
        return jn.softmax(scores, -1) @ x


def grid(values: np.ndarray, dtype: jn.DType) -> np.ndarray:
    """Small integers as values of a dtype; floats become multiples of 1/4."""
    if dtype.is_bool:
        return values % 2 == 1
    if dtype.is_float:
        return (values / 4).astype(dtype.numpy)
    return (values if dtype.kind == "int" else np.abs(values)).astype(dtype.numpy)


def input_array(builder: Builder, symbol: Any, number: int) -> np.ndarray:
    rng = np.random.default_rng([number, builder.integer(0, 9)])
    shape = [builder.extent(entry) for entry in symbol.shape]
    values = grid(rng.integers(-8, 9, shape), symbol.dtype)
    if symbol.dtype.is_integer and builder.integer(0, 3) == 0:
        low, high = int(symbol.dtype.min_value), int(symbol.dtype.max_value)
        values = np.where(
            rng.random(shape) < 0.3, rng.choice(np.array([low, high], symbol.dtype.numpy), shape), values
        )
    if symbol.dtype.is_float and builder.integer(0, 5) == 0:
        special = np.array([np.nan, np.inf, -np.inf, -0.0, 2.0**-20]).astype(symbol.dtype.numpy)
        values = np.where(rng.random(shape) < 0.1, rng.choice(special, shape), values)
    return values


def drawn(source: Any, symbolic: bool) -> tuple[jn.Graph, list[np.ndarray]]:
    builder = Builder(source, symbolic)
    for _ in range(source.integer(1, 18)):
        builder.step()
    others = source.several(builder.values, 0, 3)
    builder.graph.output(builder.values[-1], *others, names=[f"y{i}" for i in range(len(others) + 1)])
    return builder.graph, [input_array(builder, symbol, i) for i, symbol in enumerate(builder.graph.inputs)]


def check(agreement: Any, graph: jn.Graph, arrays: list[np.ndarray]) -> None:
    model = agreement.compile(graph)
    try:
        agreement.evaluate(graph, *arrays)
    except jn.UserError:  # sizes that break a check of the graph break it on both sides
        with pytest.raises(jn.UserError):
            model(*arrays)
        return
    agreement.bounded(graph, *arrays, model=model)


SETTINGS: dict[str, Any] = {
    "deadline": None,
    "suppress_health_check": list(HealthCheck),
    "derandomize": True,
    "database": None,
}


@settings(max_examples=100, **SETTINGS)
@given(data=st.data())
def test_static_shapes(agreement: Any, data: Any) -> None:
    check(agreement, *drawn(Source(data.draw), symbolic=False))


@settings(max_examples=100, **SETTINGS)
@given(data=st.data())
def test_symbolic_shapes(agreement: Any, data: Any) -> None:
    check(agreement, *drawn(Source(data.draw), symbolic=True))


# -- what random graphs and the tests of single ops found, reduced by hand -------------------------------------------------


def made(*types: tuple[str, tuple[Any, ...]]) -> jn.Graph:
    return jn.Graph("found", [jn.TensorType(dtype, shape, f"x{i}") for i, (dtype, shape) in enumerate(types)])


def confirm(agreement: Any, graph: jn.Graph, sizes: dict[str, int] | None = None, seed: int = 0) -> None:
    arrays = []
    for number, symbol in enumerate(graph.inputs):
        shape = tuple([evaluate_dim(entry, sizes or {}) for entry in symbol.shape])
        arrays.append(grid(np.random.default_rng([seed, number]).integers(-8, 9, shape), symbol.dtype))
    check(agreement, graph, arrays)


def test_lanes_beyond_a_masked_column_stay_neutral(agreement: Any) -> None:
    """Reducing two axes that are not neighbours: the lanes outside must be neutral for the second one as well."""
    for dtype in ("int64", "float32", "uint8"):
        for axes in ((0, 2), (0, 3), (1, 3)):
            graph = made((dtype, (2, 3, 4, 5)))
            (x,) = graph.inputs
            graph.output(jn.prod(x + 1, axes), jn.min(x + 20 if x.dtype.kind == "uint" else jn.abs(x) + 1, axis=axes))
            confirm(agreement, graph)


def test_values_needed_again_are_kept_by_reductions_without_a_neutral_element(agreement: Any) -> None:
    graph = made(("uint16", (1,)), ("float32", (3,)))
    x, y = graph.inputs
    taken = jn.take_along_axis(jn.flip(jn.concat([x, x], 0)), np.array([0, 0, 4], np.int8), 0)
    scaled = jn.exp(jn.tanh(y) + 1)
    graph.output(jn.argmax(taken, 0, keepdims=True), taken, jn.argmin(scaled, 0), scaled)
    confirm(agreement, graph)


def test_an_empty_reshape_reads_nothing(agreement: Any) -> None:
    graph = made(("float32", (0, 5, 8, 1)), ("float32", (0, 5, 8, 1)))
    x, y = graph.inputs
    total = jn.logsumexp(x, keepdims=True)
    scaled = jn.rms_norm((y <= x).cast("float32")) * total
    pieces = jn.concat([jn.flip(y <= x, 0).reshape(0, 1, 5, 8, 1), scaled.reshape(0, 1, 5, 8, 1)], 1)
    graph.output(jn.rms_norm(pieces.reshape(0, 2, 5, 8, 1, 1)))
    confirm(agreement, graph)


@pytest.mark.parametrize("size", [0, 1, 5000])
def test_stores_along_some_of_the_reduced_axes(agreement: Any, size: int) -> None:
    """The other reduced axis may be empty, which must not keep the store from happening."""
    graph = made(("index", (2, "m")), ("bool", ()))
    x, flag = graph.inputs
    twice = jn.concat([x.reshape(2, 1, x.shape[1]), x.reshape(2, 1, x.shape[1])], 1)
    both = flag.broadcast_to((2,))
    graph.output(jn.where(both.cast("int64") < 1, jn.sum(twice.cast("uint64")), jn.min(both).cast("uint64")))
    confirm(agreement, graph, {"m": size})


@pytest.mark.parametrize("rows", [1, 5, 64, 130])
def test_products_with_one_column(agreement: Any, rows: int) -> None:
    """No whole vectors may be written, and infinities in one row must not reach the next."""
    for depth in (1, 7, 600, "k"):
        graph = made(("float32", (rows, depth)), ("float32", (depth, 1)))
        x, y = graph.inputs
        graph.output(x @ y, y.T @ x.T)
        confirm(agreement, graph, {"k": 1030})
        a = np.ones((rows, 600 if depth == "k" else depth), np.float32)
        a[0, -1] = np.inf
        check(agreement, graph, [a, np.ones((a.shape[1], 1), np.float32)])
    graph = made(("int8", (rows, 5)), ("int8", (5, 0)), ("int8", (5, 1)))
    x, none, one = graph.inputs
    graph.output(none.T @ x.T, x @ none, x @ one)
    confirm(agreement, graph)


def test_constants_of_bools_in_panels(agreement: Any) -> None:
    graph = made(("bool", (9, 7)))
    (x,) = graph.inputs
    w = np.random.default_rng(0).integers(0, 2, (7, 64)).astype(bool)
    graph.output(x @ graph.constant(w), jn.matmul(x.cast("float32"), graph.constant(w)))
    confirm(agreement, graph)


@pytest.mark.parametrize("dtype", ["float64", "int64", "uint8"])
def test_reductions_one_lane_wide(agreement: Any, dtype: str) -> None:
    graph = made((dtype, ("n", 1)), (dtype, (1, "m")), (dtype, ("n", "m", 3)))
    x, y, z = graph.inputs
    nothing = z[:, :, 3:]
    of_nothing = jn.prod(nothing), jn.sum(nothing, (0, 2))
    graph.output(jn.sum(x * 2, 1), jn.sum(y, 0), jn.sum(jn.sum(x, 1, keepdims=True) * 3), *of_nothing)
    for n, m in ((0, 3), (1, 1), (9, 70), (2, 0)):
        confirm(agreement, graph, {"n": n, "m": m})


def test_bits_of_scalars_and_powers_by_one_exponent(agreement: Any) -> None:
    graph = made(("int16", ()), ("float32", (5,)))
    x, y = graph.inputs
    graph.output(x.bitcast("uint16"), x.bitcast("float16").bitcast("int16"), y**0.5, y**2, y**-1.0)
    check(agreement, graph, [np.int16(-2).reshape(()), np.float32([-np.inf, -0.0, 0.0, np.inf, 4])])


def test_checks_that_contradict_each_other_are_refused() -> None:
    graph = made(("float32", ("n",)), ("float32", (2,)))
    x, y = graph.inputs
    jn.pad(x, 5, mode="reflect")
    with pytest.raises(jn.UserError, match="contradicts a check made before: pad: axis 0 must have more than 5"):
        x + y
    jn.pad(x[:1], 1)
    graph.output(x + 1)


@pytest.mark.slow
@pytest.mark.parametrize("number", range(8))
def test_many(agreement: Any, number: int) -> None:
    @seed(number)
    @settings(max_examples=500, **{**SETTINGS, "derandomize": False})
    @given(data=st.data())
    def run(data: Any) -> None:
        check(agreement, *drawn(Source(data.draw), symbolic=bool(number % 2)))

    run()

"""Random graphs, scheduled and run nest by nest, against the reference evaluator. No schedule may change a value."""

import math

import numpy as np
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from joinery.graph.dims.dim import Dim, evaluate_dim
from joinery.graph.graph import Graph
from joinery.graph.types import TensorType

from ...support.tiers import examples

MAX_ELEMENTS = 3000
STATIC = (1, 2, 3, 4, 6)
SYMBOLIC = (1, 2, 4, Dim("n"), Dim("k"))


def fits(a, b):
    """Whether two shapes broadcast without a runtime check."""
    pairs = zip(reversed(a), reversed(b), strict=False)
    return all(p == q or (type(p) is int and p == 1) or (type(q) is int and q == 1) for p, q in pairs)


class Builder:
    """Draws one op at a time; `values` are the float symbols made so far."""

    def __init__(self, draw, extents):
        self.draw = draw
        self.dims = {"n": draw(st.sampled_from((1, 2, 3))), "k": draw(st.sampled_from((2, 4)))}
        shapes = [tuple(draw(st.lists(st.sampled_from(extents), max_size=4)))]
        for _ in range(draw(st.integers(0, 2))):
            fresh = tuple(draw(st.lists(st.sampled_from(extents), max_size=4)))
            shapes.append(draw(st.sampled_from((shapes[0], shapes[0], fresh))))
        self.graph = Graph(
            "random", [TensorType("float32", shape, f"x{i}") for i, shape in enumerate(shapes)]
        )
        self.values = list(self.graph.inputs)

    def op(self, name, *operands, **attrs):
        return self.graph.apply(name, operands, attrs)

    def pick(self, condition=lambda value: True):
        return self.draw(st.sampled_from([value for value in self.values if condition(value)][-8:]))

    def size(self, value):
        return math.prod(evaluate_dim(extent, self.dims) for extent in value.shape)

    def axis(self, value):
        return self.draw(st.integers(0, len(value.shape) - 1))

    def step(self):
        x = self.pick()
        if self.size(x) > MAX_ELEMENTS:
            return
        names = ["unary", "binary", "select"]
        if x.shape:
            names += [
                "reduce",
                "reduce",
                "normalize",
                "permute",
                "reshape",
                "reshape",
                "concat",
                "pad",
                "flip",
                "index",
                "scan",
            ]
            if all(type(extent) is int for extent in x.shape):
                names.append("slice")
        if len(x.shape) >= 2:
            names += ["matmul", "matmul", "attention"]
        result = getattr(self, self.draw(st.sampled_from(names)))(x)
        if self.size(result) <= 20 * MAX_ELEMENTS:
            self.values.append(result)

    def unary(self, x):
        name = self.draw(st.sampled_from(["tanh", "sin", "relu", "floor", "gelu", "broadcast"]))
        if name == "broadcast":
            return self.op("broadcast_to", x, shape=(2, *x.shape))
        return self.op(name, x, **({"approximate": "tanh"} if name == "gelu" else {}))

    def binary(self, x):
        y = self.pick(lambda value: fits(value.shape, x.shape))
        result = self.op(self.draw(st.sampled_from(["add", "sub", "mul", "maximum"])), x, y)
        return self.op("tanh", result)

    def select(self, x):
        y = self.pick(lambda value: fits(value.shape, x.shape))
        return self.op("where", self.op("less", x, 0.25), y.cast("float16").cast("float32"), x)

    def reduce(self, x):
        axes = tuple(sorted(self.draw(st.sets(st.integers(0, len(x.shape) - 1), min_size=1, max_size=2))))
        name = self.draw(st.sampled_from(["reduce_sum", "reduce_max", "reduce_min"]))
        result = self.op(name, x, axes=axes, keepdims=self.draw(st.booleans()))
        return self.op("tanh", result) if name == "reduce_sum" else result

    def normalize(self, x):
        name = self.draw(st.sampled_from(["softmax", "centre", "logsumexp"]))
        if name == "softmax":
            return self.op("softmax", x, axis=self.axis(x))
        axes = (self.axis(x),)
        if name == "logsumexp":
            return self.op("logsumexp", x, axes=axes, keepdims=True)
        return x - self.op("mean", x, axes=axes, keepdims=True)

    def permute(self, x):
        return x.permute(*self.draw(st.permutations(range(len(x.shape)))))

    def reshape(self, x):
        shape = list(x.shape)
        axis = self.axis(x)
        choice = self.draw(st.sampled_from(("merge", "split", "flat", "unit")))
        if choice == "merge" and axis + 1 < len(shape):
            shape[axis : axis + 2] = [shape[axis] * shape[axis + 1]]
        elif choice == "split" and type(shape[axis]) is int and shape[axis] % 2 == 0:
            halves = [2, shape[axis] // 2]
            shape[axis : axis + 1] = halves if self.draw(st.booleans()) else halves[::-1]
        elif choice == "flat":
            shape = [math.prod(shape)] if all(type(extent) is int for extent in shape) else [1, *shape]
        else:
            shape.insert(axis, 1)
        return x.reshape(tuple(shape))

    def slice(self, x):
        starts, stops, steps = [], [], []
        for extent in x.shape:
            step = self.draw(st.sampled_from((1, 1, 2, -1))) if extent > 1 else 1
            first = self.draw(st.integers(0, extent - 1)) if extent > 1 else 0
            starts.append(first)
            stops.append(
                self.draw(st.integers(first + 1, extent))
                if step > 0
                else self.draw(st.integers(-1, first - 1))
                if first
                else -1
            )
            steps.append(step)
        return self.op("slice", x, starts=tuple(starts), stops=tuple(stops), steps=tuple(steps))

    def concat(self, x):
        axis = self.axis(x)

        def matches(value):
            return len(value.shape) == len(x.shape) and all(
                p == q for d, (p, q) in enumerate(zip(value.shape, x.shape, strict=True)) if d != axis
            )

        parts = [x, *[self.pick(matches) for _ in range(self.draw(st.integers(1, 2)))]]
        return self.op("concat", *parts, axis=axis)

    def pad(self, x):
        widths = st.lists(st.sampled_from((0, 0, 1, 2)), min_size=len(x.shape), max_size=len(x.shape))
        modes = ["constant", "edge"] + ["reflect"] * all(
            type(extent) is int and extent > 2 for extent in x.shape
        )
        mode = self.draw(st.sampled_from(modes))
        return self.op(
            "pad", x, low=tuple(self.draw(widths)), high=tuple(self.draw(widths)), mode=mode, value=1.5
        )

    def flip(self, x):
        return self.op("flip", x, axes=(self.axis(x),))

    def index(self, x):
        axis = self.axis(x)
        if self.draw(st.booleans()):
            table = np.array(self.draw(st.lists(st.integers(-5, 6), min_size=1, max_size=4)))
            return self.op("gather", x, self.graph.constant(table), axis=axis)
        positions = self.op("argmax", x, axes=(axis,), keepdims=True)
        return self.op("take_along_axis", self.op("tanh", x), positions, axis=axis)

    def scan(self, x):
        attrs = {"exclusive": self.draw(st.booleans()), "reverse": self.draw(st.booleans())}
        return self.op("tanh", self.op("cumsum", x, axis=self.axis(x), **attrs))

    def matmul(self, x):
        y = x.permute(*range(len(x.shape) - 2), len(x.shape) - 1, len(x.shape) - 2)
        others = [
            value for value in self.values
            if len(value.shape) >= 2 and value.shape[-2] == x.shape[-1] and fits(value.shape[:-2], x.shape[:-2])
        ]  # fmt: skip
        other = self.draw(st.sampled_from([y, *others[-4:]]))
        return self.op("tanh", (x @ other) * 0.2)

    def attention(self, x):
        rank = len(x.shape)
        scores = (x @ x.permute(*range(rank - 2), rank - 1, rank - 2)) * 0.3
        return self.op("softmax", scores, axis=rank - 1) @ x


def built(draw, extents):
    builder = Builder(draw, extents)
    for _ in range(draw(st.integers(2, 16))):
        builder.step()
    last = builder.values[-1]
    others = draw(st.lists(st.sampled_from(builder.values), max_size=2))
    builder.graph.output(last, *others, names=[f"y{i}" for i in range(len(others) + 1)])
    random = np.random.default_rng(0)
    arrays = [
        random.uniform(-2, 2, [evaluate_dim(extent, builder.dims) for extent in x.shape]).astype(np.float32)
        for x in builder.graph.inputs
    ]
    return builder.graph, arrays


def agrees(harness, graph, arrays):
    plan = harness.check(graph, *arrays, tolerance=2e-4)
    loaded = {
        (load.attrs["buffer"].kind, load.attrs["buffer"].index) for nest in plan.nests for load in nest.loads
    }
    for buffer in (*plan.temporaries, *plan.constants):
        assert (buffer.kind, buffer.index) in loaded


SETTINGS = {"suppress_health_check": list(HealthCheck)}


@settings(max_examples=examples(300), **SETTINGS)
@given(data=st.data())
def test_random_graphs_of_static_shape(harness, data):
    agrees(harness, *built(data.draw, STATIC))


@settings(max_examples=examples(200), **SETTINGS)
@given(data=st.data())
def test_random_graphs_of_symbolic_shape(harness, data):
    agrees(harness, *built(data.draw, SYMBOLIC))

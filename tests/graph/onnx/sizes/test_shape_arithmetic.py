"""Shapes stay expressions of dims: one graph for all sizes, compared with ONNX's reference evaluator at several."""

from __future__ import annotations

from typing import Any

import joinery as jn
import numpy as np
import pytest

from ....support.onnx_models import agrees, body, evaluated, model, node

F, INT = np.float32, np.int64
RNG = np.random.default_rng(0)


def constant(**arrays: Any) -> dict[str, Any]:
    return {name: np.array(value, INT) for name, value in arrays.items()}


SHAPES = {
    "reshape by sizes": (
        [node("Shape", "x", "s"), node("Gather", "s zero", "b"), node("Unsqueeze", "b axis", "b1"),
         node("Concat", "b1 rest", "t", axis=0), node("Reshape", "x t")],
        constant(zero=0, axis=[0], rest=[-1]),
    ),
    "heads": (
        [node("Shape", "x", "b", start=0, end=1), node("Shape", "x", "n", start=1, end=2), node("Concat", "b n h", "t", axis=0),
         node("Reshape", "x t", "r"), node("Transpose", "r", "y", perm=[0, 2, 1, 3])],
        constant(h=[2, 2]),
    ),
    "expand where -1": (
        [node("Shape", "x", "s"), node("Equal", "s minus", "e"), node("Where", "e one s", "t"), node("Expand", "c t")],
        constant(minus=[-1, -1, -1], one=[1, 1, 1], c=[[[1]]]),
    ),
    "range": (
        [node("Shape", "x", "s"), node("Gather", "s one", "n"), node("Range", "zero n one")],
        constant(one=1, zero=0),
    ),
    "slice to size": (
        [node("Shape", "x", "n", start=1, end=2), node("Div", "n two", "h"), node("Slice", "x zero h one")],
        constant(two=[2], zero=[0], one=[1]),
    ),
    "slice backwards": ([node("Slice", "x a b c d")], constant(a=[-1], b=[-(2**62)], c=[1], d=[-2])),
    "slice beyond": ([node("Slice", "x a b c")], constant(a=[1], b=[2**62], c=[1])),
    "slice from the end": ([node("Slice", "x a b c")], constant(a=[-2], b=[-1], c=[1])),
    "scaled through floats": (
        [node("Shape", "x", "n", start=1, end=2), node("Cast", "n", "f", to=1), node("Constant", "", "h", value_float=0.5),
         node("Mul", "f h", "g"), node("Floor", "g", "k"), node("Cast", "k", "m", to=7), node("ConstantOfShape", "m")],
        {},
    ),
    "sizes as numbers": (
        [node("Shape", "x", "s"), node("ReduceProd", "s", "p", keepdims=0), node("Cast", "p", "f", to=1), node("Mul", "x f")],
        {},
    ),
    "tile": ([node("Shape", "x", "s"), node("Tile", "x s")], {}),
    "pad": (
        [node("Shape", "x", "n", start=1, end=2), node("Concat", "z n z z z z", "p", axis=0), node("Pad", "x p")],
        constant(z=[0]),
    ),
    "split": ([node("Split", "x", "y z", axis=1, num_outputs=2)], {}),
    "size": ([node("Size", "x", "n"), node("Cast", "n", "f", to=1), node("Add", "x f")], {}),
    "trilu": ([node("Trilu", "x k", upper=0)], constant(k=1)),
    "mean over sizes": ([node("GlobalAveragePool", "x")], {}),
    "softmax before 13": ([node("Softmax", "x", axis=-1)], {}),
    "layer norm": (
        [node("Shape", "x", "n", start=2), node("ConstantOfShape", "n", "w"), node("LayerNormalization", "x w", axis=-1)], {},
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", SHAPES)
def test_one_graph_serves_all_sizes(name: str) -> None:
    nodes, constants = SHAPES[name]
    made = model(nodes, {"x": (F, ["batch", "seq", 4])}, constants=constants, opset=20)
    for batch, sequence in ((2, 4), (1, 6), (3, 8)):
        agrees(made, RNG.standard_normal((batch, sequence, 4), F))


CONVOLUTIONS = {
    "conv": node("Conv", "x w", kernel_shape=[3, 3], pads=[1, 1, 1, 1], strides=[2, 1]),
    "conv same": node("Conv", "x w", auto_pad="SAME_UPPER", strides=[2, 2]),
    "conv groups": node("Conv", "x g", group=2, dilations=[2, 1]),
    "depthwise": node("Conv", "x d", group=4, pads=[1, 0, 0, 1]),
    "conv transpose": node("ConvTranspose", "x v", strides=[2, 2], pads=[1, 0, 0, 1]),
    "max pool": node("MaxPool", "x", kernel_shape=[3, 2], strides=[2, 2], ceil_mode=1),
    "average pool": node("AveragePool", "x", kernel_shape=[3, 3], strides=[2, 3], pads=[1, 1, 1, 1], count_include_pad=1),
    "average pool ceil": node("AveragePool", "x", kernel_shape=[3, 3], strides=[2, 2], pads=[1, 1, 0, 0], ceil_mode=1),
}


@pytest.mark.parametrize("name", CONVOLUTIONS)
def test_windows_over_sizes_known_at_launch(name: str) -> None:
    """A graph of symbolic sizes computes what one of fixed sizes does, which the conformance suite covers."""
    weights = {"w": (5, 4, 3, 3), "g": (6, 2, 3, 3), "d": (4, 1, 2, 2), "v": (4, 3, 3, 3)}
    constants = {key: RNG.standard_normal(shape, F) for key, shape in weights.items()}
    graph = jn.from_onnx(model([CONVOLUTIONS[name]], {"x": (F, ["n", 4, "h", "w_"])}, constants=constants))
    for height, width in ((7, 8), (9, 6), (8, 11)):
        x = RNG.standard_normal((2, 4, height, width), F)
        fixed = model([CONVOLUTIONS[name]], {"x": (F, x.shape)}, constants=constants)
        np.testing.assert_array_equal(jn.evaluate(graph, x), evaluated(fixed, x)[0])


def test_attention_has_symbolic_batch_sequence_and_cache() -> None:
    shapes = {"q": ["b", 2, "s", 4], "k": ["b", 2, "t", 4], "v": ["b", 2, "t", 4], "m": ["s", "t"]}
    made = model([node("Attention", "q k v m")], {name: (F, shape) for name, shape in shapes.items()}, opset=23)
    for batch, sequence, cache in ((1, 1, 7), (2, 3, 3)):
        sizes = {"b": batch, "s": sequence, "t": cache}
        agrees(made, *[RNG.standard_normal([sizes.get(n, n) for n in shape]).astype(F) for shape in shapes.values()])


def test_what_is_not_known_now_becomes_a_value_of_the_run() -> None:
    """Whether two sizes are equal is data; it selects, but cannot be a shape."""
    nodes = [node("Shape", "x", "a", start=0, end=1), node("Shape", "x", "b", start=1, end=2), node("Equal", "a b", "e"),
             node("Where", "e x z")]  # fmt: skip
    made = model(nodes, {"x": (F, ["p", "q"])}, constants={"z": np.zeros((1, 1), F)})
    for shape in ((2, 2), (2, 3)):
        agrees(made, RNG.standard_normal(shape, F))


def test_a_size_that_never_equals_a_number_is_known() -> None:
    nodes = [node("Shape", "x", "n"), node("Add", "n one", "m"), node("Equal", "m zero", "e"), node("Cast", "e", "c", to=6),
             node("Expand", "c three")]  # fmt: skip
    graph = jn.from_onnx(model(nodes, {"x": (F, ["p"])}, constants=constant(one=[1], zero=[0], three=[3])))
    assert graph.outputs[0].op.name == "constant"


def test_a_quotient_whose_divisor_may_be_zero_is_read_back() -> None:
    """An export guards divisions by sizes: no elements are divided into 0 parts."""
    nodes = [node("Shape", "x", "n"), node("Shape", "z", "m"), node("Mul", "n m", "p"), node("Div", "p m", "q"),
             node("Concat", "m minus", "s", axis=0), node("Reshape", "x s", "r"), node("Shape", "r", "t", start=1),
             node("ConstantOfShape", "t")]  # fmt: skip
    graph = jn.from_onnx(model(nodes, {"x": (F, ["n"]), "z": (F, ["m"])}, constants=constant(minus=[-1])))
    again = jn.from_onnx(jn.to_onnx(graph))
    assert again.outputs[0].shape == graph.outputs[0].shape
    assert "//" in str(graph.outputs[0].shape[0])
    x, z = np.zeros(6, F), np.zeros(2, F)
    assert jn.evaluate(again, x, z).shape == (3,)


@pytest.mark.parametrize("size", [0, 1, 3])
def test_whether_a_size_is_zero(size: int) -> None:
    for nodes in (
        [node("Cast", "e", "c", to=7), node("Add", "c one", "k"), node("ConstantOfShape", "k")],
        [node("Where", "e one n", "k"), node("ConstantOfShape", "k")],
        [node("Where", "e x y0")],
        [node("Not", "e", "f"), node("Cast", "f", "c", to=1), node("Add", "c x")],
        [node("Concat", "e e", "f", axis=0), node("Cast", "f", "c", to=7), node("ReduceSum", "c", "k", keepdims=0),
         node("Cast", "k", "d", to=1), node("Add", "d x")],
    ):  # fmt: skip
        named = [*nodes[:-1], node(nodes[-1].op_type, " ".join(nodes[-1].input), "y")]
        made = model([node("Shape", "x", "n"), node("Equal", "n zero", "e"), *named], {"x": (F, ["n"])},
                     constants={**constant(zero=[0], one=[1]), "y0": np.zeros(1, F)})  # fmt: skip
        agrees(made, np.ones(size, F))


def test_a_branch_that_depends_on_whether_a_size_is_zero_names_it() -> None:
    then, otherwise = body([node("Unsqueeze", "x zero", "u")], {}, "u"), body([node("Identity", "x", "v")], {}, "v")
    nodes = [node("Shape", "x", "n"), node("Equal", "n zero", "e"), node("If", "e", then_branch=then, else_branch=otherwise)]
    made = model(nodes, {"x": (F, ["n"])}, constants=constant(zero=[0]))
    with pytest.raises(jn.UnsupportedError, match=r"the type of what an If returns depends on sizes, .*sizes={'n': number}"):
        jn.from_onnx(made)
    assert jn.evaluate(jn.from_onnx(made, sizes={"n": 2}), np.ones(2, F)).shape == (2,)


@pytest.mark.parametrize("last", [-1, 6])
def test_a_size_of_windows_computed_anew_is_the_operand_s(last: int) -> None:
    """As exporters write it, (n - 3) / 2 + 1, which is rounded towards zero; then sizes divide exactly."""
    nodes = [node("Conv", "x w", "c", strides=[2]), node("Shape", "x", "n", start=2), node("Shape", "x", "b", end=1),
             node("Sub", "n three", "a"), node("Div", "a two", "h"), node("Add", "h one", "k"),
             node("Concat", "b k last", "s", axis=0), node("Transpose", "c", "t", perm=[0, 2, 1]),
             node("Reshape", "t s")]  # fmt: skip
    constants = {**constant(one=[1], two=[2], three=[3], last=[last]), "w": RNG.standard_normal((6, 4, 3), F)}
    made = model(nodes, {"x": (F, ["b", 4, "n"])}, constants=constants)
    graph = jn.from_onnx(made)
    assert "max" not in str(graph.outputs[0].shape)
    assert graph.outputs[0].shape[2] == 6
    for size in (3, 4, 9):
        agrees(made, RNG.standard_normal((2, 4, size), F), rtol=1e-4, atol=1e-5)


def test_a_split_by_another_size_is_none_of_the_operand_s() -> None:
    nodes = [node("Shape", "x", "n"), node("Div", "n two", "k"), node("Concat", "k minus", "s", axis=0), node("Reshape", "x s")]
    made = model(nodes, {"x": (F, ["n"])}, constants=constant(two=[2], minus=[-1]))
    for size in (2, 6, 8):
        agrees(made, np.arange(size, dtype=F))


@pytest.mark.parametrize("scatter", [
    node("ScatterElements", "s at one", "t"), node("ScatterElements", "s last one", "t", axis=-1),
    node("ScatterND", "s pair one", "t"),
])  # fmt: skip
def test_sizes_that_are_replaced(scatter: Any) -> None:
    """As torch.index_copy and index_fill are exported: positions are expanded to the shape of the tensor, but for one axis."""
    nodes = [node("Shape", "x", "s"), scatter, node("Expand", "p t", "q"), node("ScatterElements", "x q u", axis=2)]
    made = model(nodes, {"x": (F, ["b", 4, "n"]), "p": (INT, [1, 1, 1]), "u": (F, ["b", 4, 1])},
                 constants=constant(at=[2], last=[-1], pair=[[2]], one=[1]))  # fmt: skip
    for batch, size in ((1, 5), (3, 2)):
        x, u = RNG.standard_normal((batch, 4, size)).astype(F), np.ones((batch, 4, 1), F)
        agrees(made, x, np.array([[[1]]]), u)
    assert [str(size) for size in jn.from_onnx(made).outputs[0].shape] == ["b", "4", "n"]


def test_steps_of_ranges_that_are_sizes() -> None:
    """As PyTorch's EmbeddingBag of a matrix of positions is exported."""
    nodes = [node("Shape", "x", "b", start=0, end=1), node("Shape", "x", "k", start=1), node("Squeeze", "b", "b0"),
             node("Squeeze", "k", "k0"), node("Mul", "b0 k0", "n"), node("Range", "zero n k0", "r"), node("Sub", "n b0", "m"),
             node("Range", "b0 m k0", "o"), node("Concat", "r o", axis=0)]  # fmt: skip
    made = model(nodes, {"x": (F, ["b", "k"])}, constants=constant(zero=0))
    for shape in ((3, 4), (1, 7), (5, 2), (0, 3), (6, 1)):
        agrees(made, np.zeros(shape, F))
    assert str(jn.from_onnx(made).symbols[-1].inputs[0].shape[0]) == "b"
    with pytest.raises(jn.UserError, match="the step k of Range is 1 or more"):
        jn.evaluate(jn.from_onnx(made), np.zeros((2, 0), F))


def test_slices_at_remainders_of_sizes_are_read_back() -> None:
    """A roll, also of nothing, is slices at the remainder of the shift; an export guards the division by 0."""
    graph = jn.Graph("roll", [jn.TensorType(F, ("b", "n"), "x")])
    (x,) = graph.inputs
    parts = []
    for shift in (2, 5):
        at = jn.Dim.parse(f"{shift} % n")
        parts.append(jn.concat([x[:, at:], x[:, :at]], 1))
    graph.output(*parts)
    again = jn.from_onnx(jn.to_onnx(graph))
    assert [symbol.shape for symbol in again.symbols] == [symbol.shape for symbol in graph.symbols]
    for size in (1, 2, 3, 7, 12):
        x = RNG.standard_normal((2, size)).astype(F)
        for one, other, shift in zip(jn.evaluate(again, x), jn.evaluate(graph, x), (2, 5), strict=True):
            np.testing.assert_array_equal(one, np.roll(x, -shift, 1))
            np.testing.assert_array_equal(other, one)

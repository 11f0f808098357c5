"""What is a few operations in a graph and one in ONNX: products, norms, limits, pieces, triangles, blocks."""

from __future__ import annotations

import itertools
from typing import Any

import joinery as jn
import numpy as np
import pytest

from ....support.onnx_export.single import agrees, built, floats, imported

pytest.importorskip("onnxruntime")

RNG = np.random.default_rng(12)


# -- products ----------------------------------------------------------------------------------------------------------


@pytest.mark.one_in(2)
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_products_with_summands(dtype: str) -> None:
    summands = [None, (5,), (1, 5), (3, 5), (3, 1), ()]
    for first, second, summand, scaled in itertools.product((0, 1), (0, 1), summands, (False, True)):
        if scaled and summand is None:
            continue
        a, b = floats(*((4, 3) if first else (3, 4)), dtype=dtype), floats(*((5, 4) if second else (4, 5)), dtype=dtype)
        inputs = [a, b, *([floats(*summand, dtype=dtype).reshape(summand)] if summand is not None else [])]
        options = {"transA": first, "transB": second, **({"alpha": 0.5, "beta": 2.0} if scaled else {})}
        found = agrees(*imported("Gemm", inputs, (1, 2), {}, **options), 1e-5)
        assert found == (["Gemm"] if first or second or summand is not None else ["MatMul"])


def test_products_of_the_graph() -> None:
    weights, bias = floats(4, 5), floats(5)
    x = ("float32", ("n", 4))
    assert agrees(built(lambda x: jn.relu(x @ weights + bias), x), [floats(3, 4)]) == ["Gemm", "Relu"]
    assert agrees(built(lambda x: bias + x @ weights, x), [floats(3, 4)]) == ["MatMul", "Add"]
    turned = built(lambda x, y: x @ y.transpose(), ("float32", ("n", "k")), ("float32", ("m", "k")))
    assert agrees(turned, [floats(2, 3), floats(4, 3)]) == ["Gemm"]
    grows = built(lambda x, y, z: x @ y + z, ("float32", (1, "k")), ("float32", ("k", "m")), ("float32", ("n", "m")))
    assert agrees(grows, [floats(1, 3), floats(3, 4), floats(2, 4)]) == ["MatMul", "Add"]
    assert agrees(built(lambda x: x @ weights + bias, ("float32", ("n", "m", 4))), [floats(2, 3, 4)]) == ["MatMul", "Add"]

    def shared(x: Any, y: Any) -> Any:
        turned = y.transpose()
        return x @ turned, turned * 2

    assert "Gemm" not in agrees(built(shared, ("float32", ("n", 4)), ("float32", (5, 4))), [floats(3, 4), floats(5, 4)])

    def twice(x: Any) -> Any:
        y = x @ weights
        return y + bias, y * 2

    assert "Gemm" not in agrees(built(twice, x), [floats(3, 4)])


# -- numbers -----------------------------------------------------------------------------------------------------------

SPECIAL = np.array([np.nan, np.inf, -np.inf, 0, -0.0, 1e-20, 30, -30, 88.9, 100, 1, -1, 0.5, 1e30, -1e30, 1.00001], np.float32)


@pytest.mark.parametrize("name", ["tan", "sinh", "cosh", "asinh", "acosh", "atanh"])
def test_functions_of_angles(name: str) -> None:
    x = np.concatenate([floats(60) * 2, floats(30) * np.float32(0.4), SPECIAL])
    assert agrees(built(getattr(jn, name), ("float32", ("n",))), [x], 3e-6) == [name.capitalize()]
    assert name.capitalize() not in agrees(built(getattr(jn, name), ("float64", ("n",))), [floats(20, dtype="float64")])


@pytest.mark.parametrize("dtype", ["float32", "float64", "int8", "uint8", "int32", "uint32", "int64", "uint64", "float16"])
def test_limits(dtype: str) -> None:
    x = SPECIAL.astype(dtype) if dtype in ("float32", "float64") else np.array([0, 1, 5, 100, 127]).astype(dtype)
    found = agrees(*imported("Clip", [x, np.array(2, dtype), np.array(6, dtype)], (1, 2), {0: ["n"]}))
    assert (found == ["Clip"]) == (dtype != "float16")
    if dtype != "float16":
        assert agrees(built(lambda x: jn.clip(x, 2, 6), (dtype, ("n",))), [x]) == ["Clip"]
        assert agrees(*imported("Clip", [x, np.array(6, dtype), np.array(2, dtype)], (1, 2))) == ["Clip"]


def test_limits_that_may_be_no_numbers_stay_apart() -> None:
    low, high = np.array(np.nan, np.float32), np.array(2, np.float32)
    assert agrees(*imported("Clip", [SPECIAL, low, high], (1, 2))) == ["Max", "Min"]  # onnxruntime loses that NaN
    assert agrees(*imported("Clip", [SPECIAL, np.array(1, np.float32), high])) == ["Max", "Min"]

    def read(x: Any) -> Any:
        y = jn.maximum(x, 0.0)
        return jn.minimum(y, 6.0), y

    assert agrees(built(read, ("float32", ("n",))), [SPECIAL]) == ["Max", "Min"]


# -- norms -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("rank", [3, 4, 5])
def test_channels_that_are_normalised(rank: int) -> None:
    shape = (2, 4, 3, 5, 2)[:rank]
    for named in (["n", 4, "h", "w", "d"][:rank], list(shape)):
        inputs = [floats(*shape), floats(4), floats(4)]
        graph, arrays = imported("InstanceNormalization", inputs, (1, 2), {0: named}, epsilon=1e-3)
        assert agrees(graph, arrays, 1e-4) == ["InstanceNormalization"]
        graph, arrays = imported("GroupNormalization", inputs, (1, 2), {0: named}, num_groups=2)
        assert agrees(graph, arrays, 1e-4) == ["GroupNormalization"]
        assert "GroupNormalization" not in agrees(graph, arrays, 1e-4, opset=20)  # where groups are scaled
    old, arrays = imported("GroupNormalization", [floats(*shape), floats(2), floats(2)], (1, 2), opset=18, num_groups=2)
    assert "GroupNormalization" not in agrees(old, arrays, 1e-4)


def test_channels_without_space_or_scale_stay_apart() -> None:
    one = np.ones(4, np.float32)
    assert "Add" in agrees(built(lambda x: jn.instance_norm(x, one, one), ("float32", ("n", 4))), [floats(2, 4)], 1e-4)
    assert "Mul" in agrees(built(lambda x: jn.group_norm(x, 2), ("float32", ("n", 4, "h"))), [floats(2, 4, 3)], 1e-4)


@pytest.mark.parametrize("axis", [0, 1, 2, -1])
def test_last_axes_that_are_normalised(axis: int) -> None:
    shape = (2, 3, 4)
    for biased in (False, True):
        inputs = [floats(*shape), floats(*shape[axis:]), *([floats(*shape[axis:])] if biased else [])]
        named = {0: ["n", 3, 4] if axis else list(shape)}
        assert agrees(*imported("LayerNormalization", inputs, (1, 2), named, axis=axis), 1e-4) == ["LayerNormalization"]
    graph, arrays = imported("RMSNormalization", inputs[:2], (1,), named, opset=23, axis=axis)
    assert agrees(graph, arrays, 1e-4, opset=23) == ["RMSNormalization"]


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_norms_of_axes(dtype: str) -> None:
    x = floats(3, 4, 5, dtype=dtype)
    x[1] = 0
    for op, axes, keeps in itertools.product(("L1", "L2", "SumSquare", "LogSum"), ((1,), (0, 2), (0, 1, 2)), (0, 1)):
        given = abs(x) if op == "LogSum" else x
        graph, arrays = imported(f"Reduce{op}", [given, np.array(axes)], (1,), {0: ["n", 4, "m"]}, keepdims=keeps)
        assert agrees(graph, arrays) == [f"Reduce{op}"]
    for p, axis in itertools.product((1, 2), (0, 1, -1)):
        assert agrees(*imported("LpNormalization", [x], (), {0: ["n", 4, "m"]}, p=p, axis=axis)) == ["LpNormalization"]


def test_squares_that_something_else_reads_stay_apart() -> None:
    def shared(x: Any) -> Any:
        squares = x * x
        return jn.sum(squares, 0), squares

    assert agrees(built(shared, ("float32", ("n", 4))), [floats(3, 4)]) == ["Mul", "ReduceSum"]
    small = built(lambda x: jn.sum_square(x, 0), ("int32", ("n", 4)))
    assert "ReduceSumSquare" not in agrees(small, [RNG.integers(-9, 9, (3, 4)).astype(np.int32)])


def test_means_over_features_are_no_poolings() -> None:
    assert agrees(built(lambda x: jn.mean(x, -1, True), ("float32", ("n", "l", 4))), [floats(2, 3, 4)]) == ["ReduceMean"]


# -- elements that move ------------------------------------------------------------------------------------------------

MOVED = ["float32", "float64", "float16", "int32", "int64", "uint8", "bool"]


@pytest.mark.parametrize("dtype", MOVED)
def test_pieces_and_repetitions(dtype: str) -> None:
    x = (floats(2, 6, 4) * 9).astype(dtype)
    sizes = np.array([2, 1, 3])
    assert agrees(*imported("Split", [x, sizes], (1,), {0: ["n", 6, "m"]}, 3, axis=1)) == ["Split"]
    assert agrees(*imported("Tile", [x, sizes], (1,), {0: ["n", 6, "m"]})) == ["Tile"] or dtype == "bool"


def test_slices_of_the_graph_are_pieces_if_they_lie_side_by_side() -> None:
    x = ("float32", ("n", 5))
    assert agrees(built(lambda x: (x[:, :2] * 2, x[:, 2:]), x), [floats(3, 5)]) == ["Split", "Mul"]
    assert "Split" in agrees(built(lambda x: jn.split(x, 2, 0), ("float32", ("2*n", 5))), [floats(4, 5)])
    apart: list[Any] = [
        lambda x: (x[:, :2], x[:, 3:]), lambda x: (x[:, :3], x[:, 2:]), lambda x: (x[:, :2], x[:, 2:], x[:, 2:]),
        lambda x: (x[:, :2:2], x[:, 2:]),
    ]  # fmt: skip
    for function in apart:  # a gap, an overlap, one of them twice, and a step
        assert "Split" not in agrees(built(function, x), [floats(3, 5)])


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_blocks_of_channels_and_of_space(dtype: str) -> None:
    for mode in ("DCR", "CRD"):
        x = floats(2, 8, 3, 2, dtype=dtype)
        graph, arrays = imported("DepthToSpace", [x], (), {0: ["n", 8, "h", "w"]}, blocksize=2, mode=mode)
        assert agrees(graph, arrays) == ["DepthToSpace"]
    graph, arrays = imported("SpaceToDepth", [floats(2, 3, 4, 6, dtype=dtype)], (), {0: ["n", 3, 4, 6]}, blocksize=2)
    assert agrees(graph, arrays) == ["SpaceToDepth"]


@pytest.mark.one_in(2)
@pytest.mark.parametrize("dtype", ["float32", "float64", "int64"])
def test_triangles(dtype: str) -> None:
    for k, upper, named in itertools.product((0, 1, -2, 9, -9), (0, 1), (["n", "m"], [4, 5])):
        graph, arrays = imported("Trilu", [(floats(4, 5) * 9).astype(dtype), np.array(k)], (1,), {0: named}, upper=upper)
        assert agrees(graph, arrays) == ["Trilu"]


def test_constants_alone_stay_what_they_are() -> None:
    graph = built(lambda x: x + jn.tril(x.graph.constant(np.ones((3, 3), np.float32))), ("float32", (3, 3)))
    assert agrees(graph, [floats(3, 3)]) == ["Trilu", "Add"]

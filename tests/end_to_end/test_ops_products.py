"""Matrix products, einsum and attention, compiled and compared with the reference evaluator within sound error bounds."""

from __future__ import annotations

from typing import Any

import joinery as jn
import numpy as np
import pytest

from ..support.tiers import both_tiers, each, share

INTEGERS = ("bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64", "index")
FLOATS = ("float16", "bfloat16", "float32", "tensor_float32", "float64")
ALL = (*INTEGERS, *FLOATS)
SHAPES = [
    ((1, 1), (1, 1)), ((3, 5), (5, 7)), ((0, 5), (5, 7)), ((3, 0), (0, 7)), ((3, 5), (5, 0)), ((5,), (5,)), ((3, 5), (5,)),
    ((5,), (5, 7)), ((1, 65), (65, 1)), ((33, 64), (64, 33)), ((65, 63), (63, 65)), ((17, 1000), (1000, 1)),
    ((1, 1000), (1000, 17)),
    ((64, 513), (513, 64)), ((2, 3, 5), (2, 5, 4)), ((1, 3, 5), (4, 5, 2)), ((2, 3, 5), (5, 4)), ((3, 5), (2, 5, 4)),
    ((2, 1, 3, 5), (1, 4, 5, 6)), ((0, 3, 5), (0, 5, 4)), ((2, 33, 65), (65, 31)), ((5, 1), (1, 5)), ((257, 3), (3, 257)),
    ((1, 1025), (1025, 1)), ((5,), (2, 5, 3)), ((2, 3, 5), (5,)),
]  # fmt: skip


def product_graph(dtype: str, left: tuple[int, ...], right: tuple[int, ...], symbolic: bool) -> jn.Graph:
    shapes = [tuple([f"d{e}" if symbolic and e != 1 else e for e in shape]) for shape in (left, right)]
    graph = jn.Graph("product", [jn.TensorType(dtype, shape, name) for shape, name in zip(shapes, "xy", strict=True)])
    x, y = graph.inputs
    outputs = {"x @ y": x @ y}
    if len(left) == len(right) == 2:
        outputs["transposed"] = y.T @ x.T
    if x.dtype.is_float:
        outputs["with work before and after"] = jn.relu((x * 2) @ y + 1)
    if dtype == "float32":
        outputs["tf32"] = jn.matmul(x, y, precision="tf32")
    graph.output(*outputs.values(), names=list(outputs))
    return graph


@pytest.mark.one_in(18)
@pytest.mark.parametrize(("dtype", "symbolic"), each(ALL, [False, True]))
@both_tiers
def test_products(agreement: Any, dtype: str, symbolic: bool, in_full: bool) -> None:
    kind = jn.DType(dtype)
    some = SHAPES if dtype in ("float32", "int8") or not in_full else SHAPES[int(symbolic) :: 3]
    for left, right in share(some, 2 * ALL.index(dtype) + symbolic, 14, in_full):
        graph = product_graph(dtype, left, right, symbolic)
        model = agreement.compile(graph)
        a, b = agreement.random(kind, left, 1, tame=kind.is_float), agreement.random(kind, right, 2, tame=kind.is_float)
        agreement.bounded(graph, a, b, model=model)
        if kind.is_float and a.size > 3 and b.size > 3:
            a.reshape(-1)[1], b.reshape(-1)[0], b.reshape(-1)[-1] = np.nan, np.inf, -np.inf
            agreement.bounded(graph, a, b, model=model)


@pytest.mark.slow
@pytest.mark.parametrize("dtype", ["float32", "float16", "int8", "bool", "int64", "float64"])
def test_constant_operands(agreement: Any, dtype: str) -> None:
    """Weights that are stored in panels, of every width around a panel's; shared by two products."""
    kind = jn.DType(dtype)
    for width in (1, 5, 63, 64, 65, 130):
        graph = jn.Graph("weights", [jn.TensorType(dtype, ("n", 40), "x")])
        (x,) = graph.inputs
        w = graph.weight("w", agreement.random(kind, (40, width), 3, tame=kind.is_float), dtype)
        y = x @ w
        graph.output(y, jn.maximum(x, x) @ w, w)
        agreement.bounded(graph, agreement.random(kind, (37, 40), 4, tame=kind.is_float))


@pytest.mark.one_in(16)
@pytest.mark.parametrize("rows", [1, 2, 5, 6, 7, 8, 9, 63, 64, 65, 200])
def test_rows_and_columns_around_register_tiles(agreement: Any, rows: int) -> None:
    graph = jn.Graph("tiles", [jn.TensorType("float32", (rows, 19), "x")] + [
        jn.TensorType("float32", (19, width), f"w{width}") for width in (1, 15, 16, 17, 31, 33, 64, 80)
    ])  # fmt: skip
    x, *weights = graph.inputs
    graph.output(*[x @ w for w in weights])
    agreement.bounded(graph, *[agreement.random(jn.float32, tuple(s.shape), i, tame=True) for i, s in enumerate(graph.inputs)])


LARGE = [(300, 700, 130), (64, 2049, 64), (1, 3000, 257), (257, 5000, 1), (130, 1, 1030)]


@pytest.mark.one_in(6)
@pytest.mark.parametrize("shape", LARGE)
@both_tiers
def test_large_products_on_threads(agreement: Any, shape: tuple[int, int, int], in_full: bool) -> None:
    m, k, n = shape
    for dtype in share(("float32", "int8", "bfloat16"), LARGE.index(shape), 3, in_full):
        graph = product_graph(dtype, (m, k), (k, n), symbolic=False)
        kind = jn.DType(dtype)
        a, b = agreement.random(kind, (m, k), 1, tame=kind.is_float), agreement.random(kind, (k, n), 2, tame=kind.is_float)
        agreement.bounded(graph, a, b, model=agreement.compile(graph, threads=2))


@pytest.mark.slow
def test_small_integers_are_multiplied_without_rounding(agreement: Any) -> None:
    """Sums that float32 holds exactly have one right answer, whatever the order of additions."""
    rng = np.random.default_rng(0)
    a, b = rng.integers(-9, 10, (70, 150)), rng.integers(-9, 10, (150, 90))
    for dtype in ("float32", "float64", "tensor_float32", "bfloat16", "int16"):
        graph = jn.Graph("exact", [jn.TensorType(dtype, a.shape, "a"), jn.TensorType(dtype, b.shape, "b")])
        x, y = graph.inputs
        graph.output(x @ y)
        kind = jn.DType(dtype)
        result = agreement.run(agreement.compile(graph), a.astype(kind.numpy), b.astype(kind.numpy))[0]
        right = agreement.rounded((a @ b).astype(np.float64), kind) if kind.is_float else (a @ b).astype(kind.numpy)
        agreement.same(result, right)


def test_many_batches(agreement: Any) -> None:
    """More batches than a hardware grid has along y or z."""
    graph = jn.Graph("batches", [jn.TensorType("float32", (66000, 2, 3), "x"), jn.TensorType("float32", (66000, 3, 2), "y")])
    x, y = graph.inputs
    graph.output(x @ y)
    agreement.bounded(graph, *[agreement.random(jn.float32, tuple(s.shape), i, tame=True) for i, s in enumerate(graph.inputs)])


EINSUMS = [
    ("ij,jk->ik", (5, 7), (7, 9)), ("ij,kj->ik", (33, 20), (10, 20)), ("ji,jk->ki", (6, 5), (6, 4)), ("i,j->ij", (5,), (33,)),
    ("i,i->", (65,), (65,)), ("ij,ij->i", (33, 9), (33, 9)), ("ij,ij->", (4, 5), (4, 5)), ("ij,j->i", (33, 17), (17,)),
    ("bij,bjk->bik", (2, 3, 4), (2, 4, 5)), ("bhqd,bhkd->bhqk", (2, 3, 5, 8), (2, 3, 7, 8)), ("ab,cd->acbd", (2, 3), (4, 5)),
    ("bqhd,bkhd->bhqk", (2, 5, 3, 8), (2, 7, 3, 8)), ("...ij,...jk->...ik", (2, 3, 4), (4, 5)), ("ij,jk", (3, 4), (4, 5)),
    ("abc,cd->abd", (2, 3, 4), (4, 65)),
]  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("dtype", ["float32", "int32", "float16"])
def test_einsum(agreement: Any, dtype: str) -> None:
    kind = jn.DType(dtype)
    for pattern, left, right in EINSUMS:
        graph = jn.Graph("einsum", [jn.TensorType(dtype, left, "x"), jn.TensorType(dtype, right, "y")])
        x, y = graph.inputs
        graph.output(jn.einsum(pattern, x, y))
        a, b = agreement.random(kind, left, 1, tame=True), agreement.random(kind, right, 2, tame=True)
        agreement.bounded(graph, a, b)
        if dtype == "int32":
            np.testing.assert_array_equal(agreement.run(agreement.compile(graph), a, b)[0], np.einsum(pattern, a, b))
    for pattern, shape in (("ii->i", (7, 7)), ("ij->ji", (5, 9)), ("ij->", (33, 9)), ("ijk->k", (3, 4, 65)), ("ii->", (9, 9))):
        graph = jn.Graph("einsum", [jn.TensorType(dtype, shape, "x")])
        graph.output(jn.einsum(pattern, graph.inputs[0]))
        agreement.bounded(graph, agreement.random(kind, shape, 1, tame=True))


@pytest.mark.one_in(12)
@pytest.mark.parametrize("masked", [False, True])
@pytest.mark.parametrize("symbolic", [False, True])
@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
@both_tiers
def test_attention(agreement: Any, dtype: str, symbolic: bool, masked: bool, in_full: bool) -> None:
    sizes = ((1, 1, 1, 1, 1), (2, 3, 17, 17, 8), (1, 2, 65, 130, 32), (2, 1, 5, 300, 64), (1, 1, 3, 0, 4))
    for batch, heads, seq, keys, width in share(sizes, (dtype == "float32") + symbolic + masked, 2, in_full):
        if masked and keys == 0:
            continue
        names: Any = ("b", 3 if heads == 3 else heads, "s", "t") if symbolic else (batch, heads, seq, keys)
        b, h, s, t = names
        types = [jn.TensorType(dtype, (b, h, rows, width), name) for rows, name in ((s, "q"), (t, "k"), (t, "v"))]
        graph = jn.Graph("attention", [*types, jn.TensorType("bool", (b, 1, 1, t), "mask")])
        q, k, v, mask = graph.inputs
        scores = (q @ k.transpose()) * width**-0.5
        if masked:
            scores = jn.where(mask, scores, -1e9)
        graph.output(jn.softmax(scores, -1) @ v)
        shapes = [(batch, heads, seq, width), (batch, heads, keys, width), (batch, heads, keys, width)]
        arrays = [agreement.random(jn.DType(dtype), shape, i, tame=True) for i, shape in enumerate(shapes)]
        agreement.bounded(graph, *arrays, np.random.default_rng(0).integers(0, 2, (batch, 1, 1, keys)).astype(bool))

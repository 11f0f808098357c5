"""Whole graphs on simulated GPUs: the PTX of every kernel, interpreted, against the reference evaluator."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import joinery as jn
import numpy as np
import pytest
from hypothesis import HealthCheck, given, seed, settings
from hypothesis import strategies as st
from joinery.graph.ops.table import OPS

from ..support.tiers import both_tiers, each, examples, share
from . import test_random_graphs as random_graphs

Array = np.ndarray[Any, Any]


DTYPES = ("bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64", "index", "float16", "bfloat16",
          "float32", "tensor_float32", "float64")  # fmt: skip


def on_gpu(graph: jn.Graph, target: str = "sm_80") -> jn.Model:
    return jn.compile(graph, device="ptxsim", target=target, cache=False)


def graph_of(*types: tuple[str, tuple[Any, ...]]) -> jn.Graph:
    return jn.Graph("g", [jn.TensorType(dtype, shape, f"x{i}") for i, (dtype, shape) in enumerate(types)])


def rows_of(arity: int) -> list[str]:
    """Elementwise ops without attributes, as the op table lists them."""
    return [
        row.name
        for row in OPS.values()
        if row.kind == "map" and row.arity == arity and not row.attrs and not row.traits & {"internal"}
    ]


def applied(operands: tuple[jn.Symbol, ...]) -> list[jn.Symbol]:
    """Every elementwise op that takes these operands."""
    found = []
    for name in rows_of(len(operands)):
        try:
            found.append(getattr(jn, name)(*operands))
        except (jn.UserError, jn.UnsupportedError):
            continue
    return found


@pytest.mark.one_in(16)
@pytest.mark.parametrize("dtype", DTYPES)
@both_tiers
def test_elementwise_ops_on_values_that_hurt(agreement: Any, dtype: str, in_full: bool) -> None:
    kind = jn.DType(dtype)
    special = agreement.special(kind)
    x, y = (part.ravel()[:1100] for part in np.meshgrid(special, special))
    graph = graph_of((dtype, (x.size,)), (dtype, (x.size,)))
    results = applied(graph.inputs) + applied(graph.inputs[:1])
    assert len(results) >= 12
    graph.output(*share(results, DTYPES.index(dtype), 3, in_full))
    agreement.bounded(graph, x, y, model=once(on_gpu(graph)))


def once(model: jn.Model) -> Any:
    """A model that a comparison runs once and not again through `bind`, since runs are slow."""

    class Once:
        outputs = model.outputs

        def __call__(self, *arrays: Array) -> Any:
            self.result = model(*arrays)
            return self.result

        def bind(self, *inputs: Array, outputs: list[Array]) -> Callable[[], Any]:
            values = self.result if isinstance(self.result, tuple) else (self.result,)
            for to, value in zip(outputs, values, strict=True):
                to[...] = value
            return lambda: None

    return Once()


@pytest.mark.one_in(8)
@pytest.mark.parametrize("source", ["bool", "int8", "uint64", "float16", "bfloat16", "float32", "float64"])
def test_casts(agreement: Any, source: str) -> None:
    kind = jn.DType(source)
    values = np.concatenate([agreement.special(kind), agreement.random(kind, 200)])
    graph = graph_of((source, (values.size,)))
    graph.output(*[graph.inputs[0].cast(to) for to in (*DTYPES, "float8_e4m3fn", "float8_e5m2")])
    agreement.bounded(graph, values, model=once(on_gpu(graph)))


@pytest.mark.one_in(8)
@pytest.mark.parametrize(
    ("shape", "axis"), [((37,), 0), ((5, 1000), 1), ((3, 5000), 1), ((300, 40), 0), ((7, 9, 11), (0, 2)), ((0, 3), 0)]
)
def test_reductions(agreement: Any, shape: tuple[int, ...], axis: Any) -> None:
    for dtype in ("float32", "int8", "float16"):
        graph = graph_of((dtype, shape))
        (x,) = graph.inputs
        results = [jn.sum(x, axis), jn.mean(x, axis)]
        if 0 not in shape:
            results += [jn.max(x, axis=axis), jn.min(x, axis=axis)]
            results += [jn.argmax(x, axis)] if isinstance(axis, int) else []
        graph.output(*results)
        values = agreement.random(jn.DType(dtype), shape, tame=True)
        agreement.bounded(graph, values, model=once(on_gpu(graph)))


@pytest.mark.slow
def test_rows_longer_than_a_block_and_of_unknown_length(agreement: Any) -> None:
    graph = graph_of(("float32", ("rows", "columns")), ("float32", (2, 20000)))
    x, long = graph.inputs
    graph.output(jn.softmax(x, -1), jn.layer_norm(x), jn.sum(x, 0), jn.cumsum(x, 1), jn.softmax(long, -1))
    model = once(on_gpu(graph))
    for shape in ((3, 2500), (1, 1), (5, 0), (0, 7)):
        values = agreement.random(jn.float32, shape, tame=True)
        agreement.bounded(graph, values, agreement.random(jn.float32, (2, 20000), tame=True), model=model)


@pytest.mark.one_in(8)
@pytest.mark.parametrize(
    ("dtype", "target"),
    each(["float16", "bfloat16", "float32", "float64", "int8", "tensor_float32", "int64"], ["sm_80", "sm_90a"]),
)
def test_products(agreement: Any, dtype: str, target: str) -> None:
    graph = graph_of((dtype, ("m", 70)), (dtype, (70, 33)), (dtype, (2, 3, 5)), (dtype, (2, 5, 9)))
    a, b, c, d = graph.inputs
    graph.output(a @ b, jn.relu(c @ d) if dtype != "int64" else c @ d, b.T @ a.T)
    model = once(on_gpu(graph, target))
    for rows in (65, 0):
        shapes = ((rows, 70), (70, 33), (2, 3, 5), (2, 5, 9))
        arrays = [agreement.random(jn.DType(dtype), shape, n, tame=True) for n, shape in enumerate(shapes)]
        agreement.bounded(graph, *arrays, model=model)


@pytest.mark.one_in(4)
@pytest.mark.parametrize("target", ["sm_90a", "sm_120a"])
@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_operands_that_fit_are_copied_by_tma(agreement: Any, dtype: str, target: str) -> None:
    """Tails in every direction, transposed operands, batches, an epilogue; stores too."""
    graph = graph_of((dtype, ("m", 136)), (dtype, (136, 72)), (dtype, (104, 136)), (dtype, (2, 65, 64)), (dtype, (2, 64, 72)))
    a, b, c, d, e = graph.inputs
    graph.output(jn.relu(a @ b), a @ c.T, d @ e)
    model = on_gpu(graph, target)
    assert [len(kernel.code.tensor_maps) for kernel in model.kernels] == [3, 3, 3]
    for kernel in model.kernels:
        assert re.search(r"cp\.async\.bulk\.tensor\.[23]d\.shared", kernel.ptx)
        assert re.search(r"cp\.async\.bulk\.tensor\.[23]d\.global\.shared", kernel.ptx)
        assert ("wgmma.mma_async" in kernel.ptx) == (target == "sm_90a")
    for m in (1, 70):
        shapes = ((m, 136), (136, 72), (104, 136), (2, 65, 64), (2, 64, 72))
        arrays = [agreement.random(jn.DType(dtype), shape, n, tame=True) for n, shape in enumerate(shapes)]
        agreement.bounded(graph, *arrays, model=once(model))


@pytest.mark.one_in(2)
@pytest.mark.parametrize(
    ("first", "second"),
    [((40, 70), (70, 64)), ((40, "k"), ("k", 64)), ((64, 64), (64, 70)), ((40, 64), (64, 4))],
    ids=["odd rows of the first", "sizes that may be anything", "odd rows of the second", "short rows"],
)
def test_operands_that_do_not_fit_are_read_through_pointers(agreement: Any, first: Any, second: Any) -> None:
    graph = graph_of(("float16", first), ("float16", second))
    a, b = graph.inputs
    graph.output(a @ b)
    model = on_gpu(graph, "sm_90a")
    assert all(len(kernel.code.tensor_maps) < 3 for kernel in model.kernels)
    for k in (1, 72) if "k" in first else (0,):
        arrays = [
            agreement.random(jn.float16, tuple(k if extent == "k" else extent for extent in shape), n, tame=True)
            for n, shape in enumerate((first, second))
        ]
        agreement.bounded(graph, *arrays, model=once(model))


def test_a_product_over_nothing_through_tensor_maps(agreement: Any) -> None:
    """Its tensors are empty, which no map can be."""
    graph = graph_of(("float16", (64, "8*k")), ("float16", ("8*k", 64)))
    a, b = graph.inputs
    graph.output(a @ b)
    model = on_gpu(graph, "sm_90a")
    assert len(model.kernels[0].code.tensor_maps) == 3
    for k in (0, 8, 136):
        arrays = [agreement.random(jn.float16, shape, n, tame=True) for n, shape in enumerate(((64, k), (k, 64)))]
        agreement.bounded(graph, *arrays, model=once(model))


@pytest.mark.one_in(4)
@pytest.mark.parametrize("target", ["sm_80", "sm_90a"])
@pytest.mark.parametrize("dtype", ["float32", "float16"])
def test_attention_is_one_kernel(agreement: Any, dtype: str, target: str) -> None:
    graph = graph_of(*[(dtype, (2, "n", 32))] * 3, ("bool", (2, 1, "n")))
    q, k, v, keep = graph.inputs
    scores = jn.where(keep, (q @ k.transpose(1, 2)) * 0.2, -1e4)
    graph.output(jn.softmax(scores, -1) @ v)
    model = on_gpu(graph, target)
    assert [kernel.template for kernel in model.kernels] == ["attention"]
    assert len(model.kernels[0].code.tensor_maps) == (4 if dtype == "float16" and target == "sm_90a" else 0)
    for n in (1, 70):
        arrays = [agreement.random(jn.DType(dtype), (2, n, 32), i, tame=True) for i in range(3)]
        arrays.append(np.arange(n)[None, None] < np.array([n, max(1, n - 5)])[:, None, None])
        agreement.bounded(graph, *arrays, model=once(model))


@pytest.mark.slow
def test_attention_of_two_warpgroups(agreement: Any) -> None:
    """128 rows, where every multiprocessor has a block of as many; keys in blocks of 64, the last one in part."""
    graph = graph_of(("bfloat16", (132, 100, 32)), *[("bfloat16", (132, 72, 32))] * 2)
    q, k, v = graph.inputs
    graph.output(jn.softmax((q @ k.transpose(1, 2)).cast(jn.float32) * 0.7, -1).cast(jn.bfloat16) @ v)
    model = on_gpu(graph, "sm_90a")
    (kernel,) = model.kernels
    assert kernel.code.threads == 9 * 32
    assert kernel.ptx.count("wgmma.mma_async") == 2 + 4
    arrays = [agreement.random(jn.bfloat16, each.shape, i, tame=True) for i, each in enumerate(graph.inputs)]
    agreement.bounded(graph, *arrays, model=once(model))


def test_views_gathers_and_joins(agreement: Any) -> None:
    graph = graph_of(("float32", (33, 40)), ("int32", (17,)))
    x, index = graph.inputs
    graph.output(
        x.T + 1, x[::-1, 3::2], jn.concat([x, x * 2], 1), jn.gather(x, index, 0), jn.pad(x, 3), x.reshape(40, 33) @ x
    )
    values = agreement.random(jn.float32, (33, 40), tame=True)
    agreement.bounded(graph, values, np.arange(17, dtype=np.int32) * 2 - 17, model=once(on_gpu(graph)))


def encoder_layer(width: int, heads: int, rng: np.random.Generator) -> jn.Graph:
    """A transformer layer with random weights over (batch, seq, width)."""
    graph = jn.Graph("layer", [jn.TensorType("float32", ("batch", "seq", width), "x")])
    (x,) = graph.inputs
    count = 0

    def dense(value: jn.Symbol, columns: int) -> jn.Symbol:
        nonlocal count
        count += 1
        w = (rng.standard_normal((int(value.shape[-1]), columns)) / width**0.5).astype(np.float32)
        bias = rng.standard_normal(columns).astype(np.float32)
        return value @ graph.weight(f"w{count}", w) + graph.weight(f"b{count}", bias)

    def split(value: jn.Symbol) -> jn.Symbol:
        batch, seq = value.shape[:2]
        return value.reshape(batch, seq, heads, width // heads).transpose(1, 2)

    q, k, v = (split(dense(x, width)) for _ in range(3))
    scores = q @ k.transpose(2, 3) * (1 / (width // heads) ** 0.5)
    mixed = (jn.softmax(scores, -1) @ v).transpose(1, 2).reshape(*x.shape)
    x = jn.layer_norm(x + dense(mixed, width))
    graph.output(jn.layer_norm(x + dense(jn.gelu(dense(x, 2 * width)), width)))
    return graph


@pytest.mark.slow
@pytest.mark.parametrize("target", [pytest.param("sm_80", marks=pytest.mark.slow), "sm_90a"])
def test_a_transformer_layer(target: str) -> None:
    graph = encoder_layer(64, 2, np.random.default_rng(0))
    model = on_gpu(graph, target)
    for shape in ((1, 5, 64), (2, 3, 64)):
        x = np.random.default_rng(1).standard_normal(shape).astype(np.float32)
        np.testing.assert_allclose(model(x), jn.evaluate(graph, x), rtol=1e-5, atol=1e-5)


@pytest.mark.slow
@pytest.mark.parametrize("symbolic", [False, True])
def test_random_graphs(agreement: Any, symbolic: bool) -> None:
    @settings(max_examples=examples(8), **random_graphs.SETTINGS)
    @given(data=st.data())
    def run(data: Any) -> None:
        check(agreement, *random_graphs.drawn(random_graphs.Source(data.draw), symbolic=symbolic))

    run()


def check(agreement: Any, graph: jn.Graph, arrays: list[Array]) -> None:
    try:
        agreement.evaluate(graph, *arrays)
    except jn.UserError:
        return
    agreement.bounded(graph, *arrays, model=once(on_gpu(graph)))


@pytest.mark.slow
@pytest.mark.parametrize("number", range(4))
def test_many_random_graphs(agreement: Any, number: int) -> None:
    @seed(number)
    @settings(
        max_examples=150, suppress_health_check=list(HealthCheck), derandomize=False, database=None
    )
    @given(data=st.data())
    def run(data: Any) -> None:
        check(agreement, *random_graphs.drawn(random_graphs.Source(data.draw), symbolic=bool(number % 2)))

    run()


@pytest.mark.parametrize("device", ["cpu", "ptxsim"])
def test_shapes_as_values(device: str) -> None:
    graph = jn.Graph("g", [jn.TensorType("float32", ("n", 3, "m"), "x")])
    (x,) = graph.inputs
    graph.output(jn.shape_to_tensor(x), jn.size(x), jn.concat([jn.shape_to_tensor(x), jn.shape_to_tensor(x[0])], 0) * 2)
    model = jn.compile(graph, device=device, target=None if device == "cpu" else "sm_80", cache=False)
    for n, m in ((5, 2), (1, 7), (4, 0)):
        shape, size, twice = model(np.ones((n, 3, m), np.float32))
        np.testing.assert_array_equal(shape, [n, 3, m])
        assert int(size) == 3 * n * m
        np.testing.assert_array_equal(twice, [2 * n, 6, 2 * m, 6, 2 * m])


@pytest.mark.parametrize("rows", [16, 9, 1])
def test_products_of_one_warp_on_hopper(agreement: Any, rows: int) -> None:
    """Tiles of 16 by 16, whose blocks another warp copies."""
    graph = graph_of(("float16", (rows, 200)), ("float16", (200, 8)))
    graph.output(graph.inputs[0] @ graph.inputs[1])
    rng = np.random.default_rng(rows)
    arrays = [rng.standard_normal(shape).astype(np.float16) for shape in ((rows, 200), (200, 8))]
    agreement.bounded(graph, *arrays, model=on_gpu(graph, "sm_90a"))

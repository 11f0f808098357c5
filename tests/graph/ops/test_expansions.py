"""Expansions of composites mean the same as the composite, in primitive ops only, in every dtype and with symbolic sizes."""

from __future__ import annotations

from typing import Any

import joinery as jn
import ml_dtypes
import numpy as np
import pytest
from joinery.graph.ops.building import apply
from joinery.graph.ops.complex import parts as complex_parts
from joinery.graph.ops.table import OPS

COMPOSITES: dict[str, Any] = {
    "sort": lambda x: jn.sort(x, 0),
    "sort descending": lambda x: jn.sort(x, descending=True),
    "argsort": lambda x: jn.argsort(x, 0),
    "argsort descending": lambda x: jn.argsort(x, descending=True),
    "top_positions": lambda x: jn.top_k(x, 3)[1],
    "top_positions sorted": lambda x: jn.bottom_k(x, 1, axis=0)[1],
    "sorted_positions": lambda x: apply("sorted_positions", x.cast(jn.int32), axis=1),
    "least_positions": lambda x: apply("least_positions", x.cast(jn.int32), axis=1, k=3),
    "least_positions wide": lambda x: apply("least_positions", x.cast(jn.int64), axis=1, k=4),
    "softmax": lambda x: jn.softmax(x, 0),
    "logsoftmax": lambda x: jn.logsoftmax(x, -1),
    "logsumexp": lambda x: jn.logsumexp(x, 1),
    "logsumexp keepdims": lambda x: jn.logsumexp(x, None, keepdims=True),
    "mean": lambda x: jn.mean(x, 0),
    "mean of all": lambda x: jn.mean(x),
    "var": lambda x: jn.var(x, -1, correction=1),
    "var float": lambda x: jn.var(x, 0, correction=0.5, keepdims=True),
    "gelu none": jn.gelu,
    "gelu tanh": lambda x: jn.gelu(x, "tanh"),
    "gelu quick": lambda x: jn.gelu(x, "quick"),
    "silu": jn.silu,
    "layer_norm": lambda x: jn.layer_norm(x, np.linspace(0, 1, 6).astype(np.float16), np.ones(6, np.float16)),
    "layer_norm bare": jn.layer_norm,
    "layer_norm bias": lambda x: jn.layer_norm(x, bias=np.linspace(0, 1, 6).astype(np.float16)),
    "gather_nd": lambda x: jn.gather_nd(x, np.array([[1, 2], [-1, -3], [4, 0]])),
    "gather_nd batches": lambda x: jn.gather_nd(x, x.cast(jn.int64)[..., None], batch_dims=1),
    "searchsorted": lambda x: jn.searchsorted(jn.sort(x[0]), x),
    "searchsorted right": lambda x: jn.searchsorted(jn.sort(x[:, 0]), x, "right"),
    "quantize": lambda x: jn.quantize(x, 0.25, 3, jn.int8),
    "quantize axis": lambda x: jn.quantize(x, jn.abs(x[0]) + 0.25, dtype=jn.uint8),
    "quantize floats": lambda x: jn.quantize(x, 0.25, dtype=jn.float8_e4m3fn),
    "dequantize": lambda x: jn.dequantize(x.cast(jn.int8), 0.25, 3, x.dtype),
    "dequantize blocks": lambda x: jn.dequantize(x.cast(jn.int8), x[:, :1], block_size=6),
    "rms_norm": lambda x: jn.rms_norm(x, np.linspace(0, 1, 6).astype(np.float16)),
    "fft_lines": lambda x: jn.abs(apply("fft_lines", jn.complex(jn.cos(x).cast("float32"), x.cast("float32")), inverse=False)),
    "fft_lines inverse": lambda x: jn.abs(apply("fft_lines", jn.complex(*[x.cast(jn.float32)] * 2), inverse=True)),
    "rfft_lines": lambda x: jn.imag(apply("rfft_lines", x.cast(jn.float32))),
    **{
        f"fft_pairs {kind}": lambda x, kind=kind: apply("fft_pairs", x.cast(jn.float64), kind=kind)[..., :4]
        for kind in ("forward", "inverse", "real", "real_inverse")
    },
    "irfft_lines": lambda x: apply("irfft_lines", jn.complex(*[x.cast(jn.float32)] * 2), length=10),
}
DTYPES = {"float16": 2e-3, "bfloat16": 1e-2, "float32": 3e-6, "float64": 1e-12}


def expanded(graph: Any) -> Any:
    """The graph with every composite replaced by its expansion, as the lowering does it, until there is none."""
    result = jn.Graph(graph.name, semantics=graph.rules)
    for check in graph.checks:
        result.shape_checks.add(*check)
    new: dict[int, Any] = {}
    for symbol in graph.symbols:
        operands = [new[operand.id] for operand in symbol.inputs]
        if symbol.op.expand is None:
            new[symbol.id] = result.adopt(symbol, operands)
            continue
        with result.located(symbol.location):
            new[symbol.id] = symbol.op.expand(symbol, *operands)
        assert new[symbol.id].dtype is symbol.dtype
        assert new[symbol.id].shape == symbol.shape
        assert new[symbol.id].location == symbol.location
    result.output(*[new[symbol.id] for symbol in graph.outputs])
    return result if all(symbol.op.expand is None for symbol in result.symbols) else expanded(result)


COMPLEX = complex_parts.ROWS  # tests/graph/functions/test_complex.py


def test_every_composite_is_covered() -> None:
    assert {name.split()[0] for name in COMPOSITES} == {
        row.name for row in OPS.values() if row.kind == "composite" and row not in COMPLEX
    }


@pytest.mark.one_in(18)
@pytest.mark.parametrize("shape", [(5, 6), ("n", 6), ("n", "m")])
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", COMPOSITES)
def test_an_expansion_means_the_composite(name: str, dtype: str, shape: tuple[Any, ...]) -> None:
    if "fft" in name:  # of a known number
        shape = (shape[0], 6)
    graph = jn.Graph("g", inputs=[jn.TensorType(dtype, shape)])
    graph.output(COMPOSITES[name](graph.inputs[0]))
    flat = expanded(graph)
    assert all(symbol.op.kind != "composite" for symbol in flat.symbols)
    x = np.random.default_rng(5).normal(size=(5, 6)).astype(jn.DType(dtype).numpy)
    result, expected = (np.asarray(jn.evaluate(g, x)) for g in (flat, graph))
    assert result.dtype == expected.dtype
    tolerance = max(DTYPES[dtype], DTYPES.get(result.dtype.name, 0.0))
    np.testing.assert_allclose(
        result.astype(np.float64), expected.astype(np.float64), rtol=tolerance, atol=tolerance
    )


def test_sixteen_bits_are_computed_in_float32_and_rounded_once() -> None:
    for dtype in ("float16", "bfloat16", "tensor_float32"):
        graph = jn.Graph("g", inputs=[jn.TensorType(dtype, (4, 8))])
        graph.output(jn.softmax(graph.inputs[0]), jn.layer_norm(graph.inputs[0]))
        flat = expanded(graph)
        arithmetic = [s for s in flat.symbols if s.op.kind in ("map", "reduce") and s.op.name != "cast"]
        assert {symbol.dtype.name for symbol in arithmetic} == {"float32"}
        assert [s.dtype.name for s in flat.symbols if s.op.name == "cast"] == [
            "float32",
            dtype,
            "float32",
            dtype,
        ]


def test_extreme_values() -> None:
    graph = jn.Graph("g", inputs=[jn.TensorType(jn.float32, ("n", 3))])
    (x,) = graph.inputs
    graph.output(jn.softmax(x), jn.logsumexp(x, 1), jn.logsoftmax(x))
    inf = np.inf
    values = np.array(
        [[1000, 1000, 0], [-inf, -inf, -inf], [inf, 0, 0], [-inf, 0, 0], [np.nan, 0, 0]], np.float32
    )
    softmax, lse, logs = jn.evaluate(expanded(graph), values)
    np.testing.assert_array_equal(softmax[[0, 3]], np.array([[0.5, 0.5, 0], [0, 0.5, 0.5]], np.float32))
    np.testing.assert_allclose(lse[:4], np.array([1000 + np.log(2), -inf, inf, np.log(2)], np.float32))
    assert np.isnan(lse[4])
    assert logs[3, 0] == -inf
    assert np.isnan(softmax[1]).all()


def test_means_of_many_sixteen_bit_ones_do_not_overflow() -> None:
    graph = jn.Graph("g", inputs=[jn.TensorType(jn.float16, ("n",))])
    graph.output(jn.mean(graph.inputs[0]), jn.var(graph.inputs[0]))
    mean, var = jn.evaluate(expanded(graph), np.ones(65520, np.float16))
    assert (mean, var) == (1, 0)


def test_variance_takes_two_passes() -> None:
    """The one-pass formula E[x²] - E[x]² loses everything here."""
    graph = jn.Graph("g", inputs=[jn.TensorType(jn.float32, (4,))])
    graph.output(jn.var(graph.inputs[0]))
    x = np.array([10000.0, 10001.0, 10002.0, 10003.0], np.float32)
    assert jn.evaluate(expanded(graph), x) == 1.25


def test_expansions_are_small() -> None:
    limits = {"softmax": 5, "layer_norm": 15, "gelu": 8, "silu": 2, "mean": 3}
    for name, limit in limits.items():
        graph = jn.Graph("g", inputs=[jn.TensorType(jn.float32, (4, 8))])
        arguments = (np.ones(8, np.float32), np.ones(8, np.float32)) if name == "layer_norm" else ()
        graph.output(getattr(jn, name)(graph.inputs[0], *arguments))
        assert len(expanded(graph).symbols) - len(graph.inputs) - len(arguments) <= limit, name


def test_bfloat16_arrays_are_ml_dtypes() -> None:
    graph = jn.Graph("g", inputs=[jn.TensorType(jn.bfloat16, (3,))])
    graph.output(jn.gelu(graph.inputs[0]))
    assert jn.evaluate(graph, np.ones(3, ml_dtypes.bfloat16)).dtype == ml_dtypes.bfloat16

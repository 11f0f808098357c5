"""Reductions, running sums and composites, compiled and compared with the reference evaluator within sound error bounds."""

from __future__ import annotations

import itertools
from typing import Any

import joinery as jn
import numpy as np
import pytest
from joinery.graph.ops.table import OPS

from ..support.tiers import both_tiers, each, share

INTEGERS = ("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64", "index")
FLOATS = ("float16", "bfloat16", "float32", "tensor_float32", "float64")
ALL = ("bool", *INTEGERS, *FLOATS)
SCANNED = ("float32", "int32", "uint8", "float16", "float64", "tensor_float32", "int64", "bool")
SHAPES = [(0,), (1,), (33,), (65,), (1025,), (1, 5), (5, 1), (3, 31), (33, 64), (65, 33), (2, 3, 5), (3, 1, 7), (4, 0, 2),
          (2, 17, 33), (2, 3, 4, 5)]  # fmt: skip
ROWS = ("reduce_sum", "reduce_prod", "reduce_max", "reduce_min", "argmax", "argmin")


def inputs(shape: tuple[int, ...], *dtypes: str, symbolic: bool) -> jn.Graph:
    """A graph whose inputs all have the shape, with a name per distinct extent when `symbolic`."""
    extents = tuple([f"d{extent}" if symbolic and extent != 1 else extent for extent in shape])
    return jn.Graph("test", [jn.TensorType(name, extents, f"x{i}") for i, name in enumerate(dtypes)])


def axes_of(shape: tuple[int, ...]) -> list[tuple[int, ...]]:
    ranks = range(1, len(shape) + 1)
    return [axes for rank in ranks for axes in itertools.combinations(range(len(shape)), rank)]


def reductions(graph: jn.Graph, shape: tuple[int, ...]) -> dict[str, jn.Symbol]:
    """Every reduction over every set of axes. Floats through the public functions, which sum 16-bit ones in float32; others
    through the rows themselves, which wrap in the operand's dtype."""
    (x,) = graph.inputs
    outputs = {}
    for axes, keepdims in itertools.product(axes_of(shape), (False, True)):
        empty = any(shape[axis] == 0 for axis in axes)
        for row in ROWS:
            name = f"{row} over {axes}, keepdims={keepdims}"
            if (row.startswith("arg") and len(axes) > 1) or (
                empty and row not in ("reduce_sum", "reduce_prod")
            ):
                continue
            if row.startswith("arg"):
                outputs[name] = getattr(jn, row)(x, axes[0], keepdims)
            elif x.dtype.is_float:
                outputs[name] = getattr(jn, row[7:])(x, axis=axes, keepdims=keepdims)
            else:
                outputs[name] = graph.apply(row, (x,), {"axes": axes, "keepdims": keepdims})
    return outputs


def values_for(agreement: Any, dtype: str, shape: tuple[int, ...], special: bool) -> np.ndarray:
    kind = jn.DType(dtype)
    values: np.ndarray = agreement.random(kind, shape, tame=kind.is_float)
    if special and kind.is_float and values.size > 8:
        flat = values.reshape(-1)
        flat[[1, 6]], flat[3], flat[-1] = np.nan, np.inf, -np.inf
    return values


@pytest.mark.one_in(24)
@pytest.mark.parametrize(("dtype", "symbolic"), each(ALL, [False, True]))
@both_tiers
def test_reductions(agreement: Any, dtype: str, symbolic: bool, in_full: bool) -> None:
    cases = SHAPES if dtype in ("float32", "int8", "int64", "bool") or not in_full else SHAPES[2::3]
    for shape in share(cases, 2 * ALL.index(dtype) + symbolic, 8, in_full):
        graph = inputs(shape, dtype, symbolic=symbolic)
        outputs = reductions(graph, shape)
        graph.output(*outputs.values(), names=list(outputs))
        model = agreement.compile(graph)
        for special in (False, True) if jn.DType(dtype).is_float else (False,):
            agreement.bounded(graph, values_for(agreement, dtype, shape, special), model=model)


@pytest.mark.one_in(16)
@pytest.mark.parametrize("dtype", [*INTEGERS, "bool"])
def test_sums_of_narrow_integers_are_wide(agreement: Any, dtype: str) -> None:
    graph = inputs((7, 1000), dtype, symbolic=False)
    (x,) = graph.inputs
    graph.output(
        jn.sum(x, 1),
        jn.prod(x, 1),
        jn.cumsum(x, 1),
        jn.mean(x, 1),
        jn.count_nonzero(x, 0),
        jn.any(x, 1),
        jn.all(x, 0),
    )
    kind = jn.DType(dtype)
    values = np.full((7, 1000), kind.max_value).astype(kind.numpy)
    agreement.bounded(graph, values)
    agreement.bounded(graph, agreement.random(kind, (7, 1000)))
    total = agreement.compile(graph)(values)[0]
    assert (
        int(total[0]) == 1000 * int(kind.max_value) % 2**64 - (2**64 if kind.name == "int64" else 0) * 0
        or kind.bits == 64
    )


@pytest.mark.one_in(18)
@pytest.mark.parametrize("symbolic", [False, True])
@pytest.mark.parametrize("dtype", SCANNED)
@both_tiers
def test_running_sums(agreement: Any, dtype: str, symbolic: bool, in_full: bool) -> None:
    shapes = [(1,), (33,), (1025,), (2500,), (5, 1), (33, 64), (65, 33), (2, 17, 33), (0, 3), (3, 0)]
    for shape in share(shapes, 2 * SCANNED.index(dtype) + symbolic, 5, in_full):
        graph = inputs(shape, dtype, symbolic=symbolic)
        outputs = {}
        for axis, exclusive, reverse in itertools.product(range(len(shape)), (False, True), (False, True)):
            name = f"axis {axis}, exclusive={exclusive}, reverse={reverse}"
            outputs[name] = jn.cumsum(graph.inputs[0], axis, exclusive, reverse)
        graph.output(*outputs.values(), names=list(outputs))
        agreement.bounded(graph, values_for(agreement, dtype, shape, special=True))


LONG = [(20000,), (3, 17000), (17000, 3), (70000,), (2, 5, 9000), (40, 2049), (1, 65537)]


@pytest.mark.one_in(8)
@pytest.mark.parametrize("shape", LONG)
@both_tiers
def test_long_reductions(agreement: Any, shape: tuple[int, ...], in_full: bool) -> None:
    """Rows that do not fit a block, and reductions that are cut in two stages."""
    for dtype in share(("float32", "int64", "float16", "uint8"), LONG.index(shape), 2, in_full):
        graph = inputs(shape, dtype, symbolic=False)
        (x,) = graph.inputs
        last = len(shape) - 1
        outputs = [
            jn.sum(x),
            jn.max(x),
            jn.min(x, axis=last),
            jn.argmax(x),
            jn.argmin(x, 0),
            jn.sum(x, 0),
            jn.mean(x, last),
        ]
        graph.output(*outputs, names=[f"y{i}" for i in range(len(outputs))])
        values = values_for(agreement, dtype, shape, special=False)
        agreement.bounded(graph, values)
        agreement.bounded(graph, values, model=agreement.compile(graph, threads=2))


@pytest.mark.slow
@both_tiers
def test_padding_never_wins(agreement: Any, in_full: bool) -> None:
    """Blocks are padded to powers of two; what fills them must not reach a result."""
    values = (("float32", -3.0), ("int8", -3), ("float16", -2.0), ("int64", -(2**40)))
    shapes = ((33,), (5, 33), (33, 5), (3, 5, 7))
    for (dtype, value), shape, symbolic in share(list(itertools.product(values, shapes, (False, True))), 1, 3, in_full):
        graph = inputs(shape, dtype, symbolic=symbolic)
        (x,) = graph.inputs
        middle = len(shape) // 2
        outputs = [
            jn.max(x),
            jn.max(x, axis=0),
            jn.max(x, axis=middle),
            jn.min(-x),
            jn.prod(x * 0 + 1),
            jn.argmax(x, 0),
        ]
        outputs += [
            jn.max(x, axis=(0, len(shape) - 1)) if len(shape) > 2 else jn.max(x),
            jn.all(x < 0),
            jn.any(x > 0),
        ]
        graph.output(*outputs, names=[f"y{i}" for i in range(len(outputs))])
        results = agreement.run(
            agreement.compile(graph), np.full(shape, value, jn.DType(dtype).numpy)
        )
        expected = [value, value, value, -value, 1, 0, value, True, False]
        for result, number in zip(results, expected, strict=True):
            np.testing.assert_array_equal(result, np.full(result.shape, number).astype(result.dtype))


def test_ties_and_nans_of_positions(agreement: Any) -> None:
    for shape in ((70,), (3, 70), (70, 3), (5000,)):
        for symbolic in (False, True):
            graph = inputs(shape, "float32", symbolic=symbolic)
            (x,) = graph.inputs
            axes = range(len(shape))
            outputs = [f(x, axis) for axis in axes for f in (jn.argmax, jn.argmin)]
            graph.output(*outputs, names=[f"y{i}" for i in range(len(outputs))])
            model = agreement.compile(graph)
            rng = np.random.default_rng(0)
            for values in (
                np.ones(shape),
                np.zeros(shape),
                rng.integers(0, 2, shape),
                rng.choice([-np.inf, np.nan, np.inf], shape),
            ):
                agreement.agrees(graph, values.astype(np.float32), model=model)
            zeros = np.where(rng.integers(0, 2, shape) == 1, -0.0, 0.0).astype(np.float32)
            agreement.agrees(graph, zeros, model=model)


def test_reductions_of_scalars(agreement: Any) -> None:
    graph = jn.Graph("scalars", [jn.TensorType("float32", (), "x"), jn.TensorType("int8", (), "y")])
    x, y = graph.inputs
    outputs = [
        jn.sum(x),
        jn.prod(y),
        jn.max(x),
        jn.mean(y),
        jn.var(x),
        jn.logsumexp(x),
        jn.any(y),
        jn.sum(y),
        jn.argmax(x),
    ]
    graph.output(*outputs, names=[f"y{i}" for i in range(len(outputs))])
    agreement.bounded(graph, np.float32(1.5).reshape(()), np.int8(-7).reshape(()))


# -- composites -----------------------------------------------------------------------------------------------------------


def composites(graph: jn.Graph, shape: tuple[int, ...]) -> dict[str, jn.Symbol]:
    x, scale, bias = graph.inputs
    outputs = {}
    for axis in range(len(shape)):
        outputs[f"softmax {axis}"] = jn.softmax(x, axis)
        outputs[f"logsoftmax {axis}"] = jn.logsoftmax(x, axis)
        for keepdims in (False, True):
            outputs[f"logsumexp {axis} {keepdims}"] = jn.logsumexp(x, axis, keepdims)
            outputs[f"mean {axis} {keepdims}"] = jn.mean(x, axis, keepdims)
            outputs[f"var {axis} {keepdims}"] = jn.var(x, axis, keepdims, correction=int(keepdims))
    outputs["mean of all"], outputs["logsumexp of all"] = jn.mean(x), jn.logsumexp(x)
    for approximate in ("none", "tanh", "quick"):
        outputs[f"gelu {approximate}"] = jn.gelu(x, approximate)
    outputs |= {"silu": jn.silu(x), "layer_norm": jn.layer_norm(x), "scaled": jn.layer_norm(x, scale)}
    outputs |= {
        "shifted": jn.layer_norm(x, scale, bias),
        "rms_norm": jn.rms_norm(x),
        "scaled rms_norm": jn.rms_norm(x, scale),
    }
    return outputs


def composite_graph(shape: tuple[int, ...], dtype: str, symbolic: bool) -> jn.Graph:
    extents = tuple([f"d{extent}" if symbolic and extent != 1 else extent for extent in shape])
    row = extents[-1:]
    types = [
        jn.TensorType(dtype, entry, name) for entry, name in ((extents, "x"), (row, "scale"), (row, "bias"))
    ]
    graph = jn.Graph("composites", types)
    outputs = composites(graph, shape)
    graph.output(*outputs.values(), names=list(outputs))
    return graph


def test_every_composite_is_here() -> None:
    """Orders are in `test_ordered.py`, searches in `test_searching.py`, codes in `test_codes.py`, and
    complex numbers in `tests/graph/functions/test_complex.py`."""
    elsewhere = {"sort", "searchsorted", "gather_nd", "quantize", "dequantize", "complex", "real", "imag"}
    elsewhere |= {"fft_lines", "rfft_lines", "irfft_lines", "fft_pairs", "complex_parts"}  # tests/graph/functions/signal
    used = {symbol.op.name for symbol in composite_graph((2, 3), "float32", False).symbols}
    assert {row.name for row in OPS.values() if row.kind == "composite" and row.promote.name != "POSITION"} - elsewhere <= used


@pytest.mark.slow
@pytest.mark.parametrize(("dtype", "symbolic"), each(FLOATS, [False, True]))
@both_tiers
def test_composites(agreement: Any, dtype: str, symbolic: bool, in_full: bool) -> None:
    shapes = [(1,), (33,), (1025,), (3, 5), (33, 64), (65, 33), (2, 17, 33), (5, 1), (3, 0), (0, 3)]
    kind = jn.DType(dtype)
    if in_full and dtype != "float32":
        shapes = shapes[1::2]
    for shape in share(shapes, 2 * FLOATS.index(dtype) + symbolic, 5, in_full):
        graph = composite_graph(shape, dtype, symbolic)
        model = agreement.compile(graph)
        scale, bias = (agreement.random(kind, shape[-1:], seed, tame=True) for seed in (5, 6))
        tame = agreement.random(kind, shape, tame=True)
        for values in (
            tame,
            agreement.rounded(tame.astype(np.float64) * 20, kind),
            values_for(agreement, dtype, shape, True),
        ):
            agreement.bounded(graph, values, scale, bias, model=model)


@pytest.mark.one_in(2)
@pytest.mark.parametrize("dtype", ["int8", "int64", "bool", "uint16"])
def test_composites_of_integers(agreement: Any, dtype: str) -> None:
    graph = inputs((5, 33), dtype, symbolic=False)
    (x,) = graph.inputs
    outputs = [jn.mean(x, 0), jn.var(x, 1), jn.softmax(x, 1), jn.logsumexp(x), jn.gelu(x), jn.layer_norm(x)]
    graph.output(*outputs, names=[f"y{i}" for i in range(len(outputs))])
    agreement.bounded(graph, agreement.random(jn.DType(dtype), (5, 33), tame=True))


def test_softmax_of_infinities(agreement: Any) -> None:
    """A row of -inf only is NaN, a row with +inf is NaN, -inf among numbers is 0; logsumexp of -inf only is -inf."""
    values = np.array(
        [[-np.inf] * 3, [np.inf, 0, 0], [-np.inf, 0, 0], [np.nan, 1, 2], [1e38, -1e38, 1e38]], np.float32
    )
    for symbolic in (False, True):
        graph = inputs((5, 3), "float32", symbolic=symbolic)
        (x,) = graph.inputs
        graph.output(
            jn.softmax(x, 1),
            jn.logsumexp(x, 1),
            jn.logsoftmax(x, 1),
            names=["softmax", "logsumexp", "logsoftmax"],
        )
        agreement.bounded(graph, values)
        probabilities, total, _ = agreement.run(agreement.compile(graph), values)
        nan = np.nan
        np.testing.assert_array_equal(
            probabilities,
            np.array([[nan] * 3, [nan] * 3, [0, 0.5, 0.5], [nan] * 3, [0.5, 0, 0.5]], np.float32),
        )
        np.testing.assert_allclose(total, [-np.inf, np.inf, np.log(2), nan, 1e38], rtol=1e-6)


@pytest.mark.one_in(4)
@pytest.mark.parametrize("shape", [(3, 20000), (2, 2049), (5, 4096)])
def test_composites_of_long_rows(agreement: Any, shape: tuple[int, ...]) -> None:
    for dtype, symbolic in (("float32", False), ("float32", True), ("bfloat16", False)):
        graph = inputs(shape, dtype, symbolic=symbolic)
        (x,) = graph.inputs
        outputs = [
            jn.softmax(x, 1),
            jn.logsumexp(x, 1),
            jn.layer_norm(x),
            jn.rms_norm(x),
            jn.var(x, 1),
            jn.logsoftmax(x, 1),
        ]
        graph.output(*outputs, names=[f"y{i}" for i in range(len(outputs))])
        agreement.bounded(graph, agreement.random(jn.DType(dtype), shape, tame=True))

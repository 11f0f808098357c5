"""Poolings, concatenations and moves between codes and codes select among codes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import joinery as jn
import numpy as np
import pytest
from joinery.lowering.graph_passes.selected_codes import with_selected_codes

F = np.float32


def _graph(build: Callable[..., Any], dtype: str, scale: float, zero: int, *, y_scale: float | None = None,
           y_zero: int | None = None, shape: tuple[Any, ...] = ("n", 9, 10, 17)) -> Any:  # fmt: skip
    numpy = np.dtype(dtype).type
    graph = jn.Graph("g", [jn.TensorType(dtype, shape, "x"), jn.TensorType(dtype, shape, "y")])
    made = build(*[jn.dequantize(each, F(scale), numpy(zero)) for each in graph.inputs])
    y_scale, y_zero = scale if y_scale is None else y_scale, zero if y_zero is None else y_zero
    graph.output(jn.quantize(made, F(y_scale), numpy(y_zero), dtype=dtype))
    return graph


def _max_pool(x: Any, _: Any) -> Any:
    padded = jn.pad(x, ((0, 0), (1, 1), (1, 1), (0, 0)), value=-np.inf)
    rows = jn.maximum(jn.maximum(padded[:, 0:9:2], padded[:, 1:10:2]), padded[:, 2:11:2])
    return jn.maximum(jn.maximum(rows[:, :, 0:10:2], rows[:, :, 1:11:2]), rows[:, :, 2:12:2])


SELECTIONS = {
    "max pool": _max_pool,
    "smaller": jn.minimum,
    "of both": lambda x, y: jn.minimum(jn.maximum(x, jn.pad(y[:, 1:], ((0, 0), (0, 1), (0, 0), (0, 0)), value=-1.7)), x),
    "concat": lambda x, y: jn.concat([x, y], axis=3),
    "moved": lambda x, _: jn.permute(x, (0, 3, 1, 2))[:, ::-1, 1:, ::2],
    "reduced": lambda x, y: jn.max(jn.concat([x, y], axis=2), axis=(1, 2)),
    "padded with infinity": lambda x, y: jn.minimum(jn.pad(x, ((0, 0), (1, 0), (0, 0), (0, 0)), value=np.inf)[:, :9], y),
}


def _arrays(dtype: str, batch: int) -> list[Any]:
    rng, limits = np.random.default_rng(batch), np.iinfo(dtype)
    return [rng.integers(limits.min, limits.max + 1, (batch, 9, 10, 17)).astype(dtype) for _ in range(2)]


@pytest.mark.slow
@pytest.mark.parametrize("numerics", ["strict", "reproducible"])
@pytest.mark.parametrize("dtype", ["int8", "uint8"])
@pytest.mark.parametrize("name", SELECTIONS)
def test_they_are_those_of_the_numbers(name: str, dtype: str, numerics: str) -> None:
    limits = np.iinfo(dtype)
    for scale, zero in [(0.037, limits.min), (0.25, limits.max), (3.1e-7, limits.min + 100)]:
        graph = _graph(SELECTIONS[name], dtype, scale, zero)
        names = {symbol.op.name for symbol in with_selected_codes(graph).symbols}
        assert not names & {"quantize", "dequantize"}
        for batch in (0, 1, 3):
            arrays = _arrays(dtype, batch)
            found = jn.compile(graph, "cpu", cache=False, numerics=numerics)(*arrays)
            np.testing.assert_array_equal(found, jn.evaluate(graph, *arrays))


KEPT = {
    "another scale": _graph(jn.maximum, "int8", 0.1, 3, y_scale=0.2),
    "another zero point": _graph(jn.maximum, "int8", 0.1, 3, y_zero=4),
    "a negative scale": _graph(jn.maximum, "int8", -0.1, 3),
    "numbers that are infinite": _graph(jn.maximum, "int8", 3e38, 3),
    "numbers that are computed": _graph(lambda x, y: jn.maximum(x, y + y), "int8", 0.1, 3),
    "padding with NaN": _graph(lambda x, y: jn.pad(x, ((0, 0), (1, 0), (0, 0), (0, 0)), value=np.nan), "int8", 0.1, 3),
}


@pytest.mark.parametrize("name", KEPT)
def test_others_are_kept(name: str) -> None:
    assert with_selected_codes(KEPT[name]) is KEPT[name]


def test_numbers_that_are_read_elsewhere_stay() -> None:
    graph = jn.Graph("g", [jn.TensorType("uint8", (4, 40), "x")])
    value = jn.dequantize(graph.inputs[0], F(0.1), np.uint8(9))
    larger = jn.maximum(value[:2], value[2:])
    graph.output(jn.quantize(larger, F(0.1), np.uint8(9), dtype="uint8"), larger * 2.0)
    x = np.random.default_rng(1).integers(0, 256, (4, 40)).astype(np.uint8)
    for one, other in zip(jn.compile(graph, "cpu", cache=False)(x), jn.evaluate(graph, x), strict=True):
        np.testing.assert_array_equal(one, other)


def test_two_codings_of_one_tensor() -> None:
    """Codes of one tensor read in two codings, each between its own codes."""
    graph = jn.Graph("g", [jn.TensorType("uint8", (4, 40), "x")])
    made = []
    for scale, zero in ((0.1, 9), (0.3, 200)):
        value = jn.pad(jn.dequantize(graph.inputs[0], F(scale), np.uint8(zero)), ((0, 0), (1, 1)), value=0.5)
        made.append(jn.quantize(jn.maximum(value[:2], value[2:]), F(scale), np.uint8(zero), dtype="uint8"))
    graph.output(*made)
    assert not {symbol.op.name for symbol in with_selected_codes(graph).symbols} & {"quantize", "dequantize"}
    x = np.random.default_rng(1).integers(0, 256, (4, 40)).astype(np.uint8)
    for one, other in zip(jn.compile(graph, "cpu", cache=False)(x), jn.evaluate(graph, x), strict=True):
        np.testing.assert_array_equal(one, other)


@pytest.mark.parametrize(("scale_dtype", "scale"), [("bfloat16", 0.1), ("float16", 60000.0), ("float32", 0.1)])
def test_scales_of_other_dtypes_divide_as_they_do(scale_dtype: str, scale: float) -> None:
    """A code that is made by dividing in 16 bits may be another than the one it came from."""
    graph = jn.Graph("g", [jn.TensorType(jn.int8, (256, 2), "q")])
    s, z = graph.constant(np.asarray(scale, getattr(jn, scale_dtype).numpy)), graph.constant(np.int8(-3))
    number = jn.max(jn.dequantize(graph.inputs[0], s, z, dtype="float32"), axis=1)
    graph.output(jn.quantize(number, s, z, dtype="int8"))
    codes = np.stack([np.arange(-128, 128), np.full(256, -128)], 1).astype(np.int8)
    dtype = np.dtype(s.attrs["value"].dtype)
    exact = (np.arange(-128, 128) + 3).astype(np.float32) * s.attrs["value"].astype(np.float32)
    with np.errstate(over="ignore"):
        quotient = (exact.astype(dtype) / s.attrs["value"]).astype(np.float32)
    expected = np.clip(np.rint(quotient) - 3, -128, 127).astype(np.int8)
    np.testing.assert_array_equal(jn.compile(graph, "cpu", cache=False)(codes), expected)
    found = {symbol.op.name for symbol in with_selected_codes(graph).symbols}
    assert ("quantize" in found) == (scale_dtype != "float32")

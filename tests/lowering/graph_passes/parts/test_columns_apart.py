"""Rows of a few elements that are computed of their own sums and extremes: by columns, in one kernel, against NumPy."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import joinery as jn
import numpy as np
import pytest
from joinery.lowering.graph_passes.expand import expand
from joinery.lowering.graph_passes.parts.columns_apart import MAX_COLUMNS, with_columns_apart

TARGETS = [None, "x86-64-v3"]
ROWS = 4500


def softmax(lib: Any, x: Any) -> Any:
    powers = lib.exp(x - lib.max(x, axis=-1, keepdims=True))
    return powers / lib.sum(powers, axis=-1, keepdims=True)


def normalized(lib: Any, x: Any) -> Any:
    centred = x - lib.mean(x, axis=-1, keepdims=True)
    return centred / lib.sqrt(lib.mean(centred * centred, axis=-1, keepdims=True) + 0.1)


PROGRAMS: dict[str, Callable[[Any, Any], Any]] = {
    "softmax": softmax,
    "normalized": normalized,
    "unit length": lambda lib, x: x / lib.sqrt(lib.sum(x * x, axis=-1, keepdims=True) + 1e-3),
    "range": lambda lib, x: lib.exp(x - lib.min(x, axis=-1, keepdims=True)) * lib.max(x, axis=-1, keepdims=True),
    "product": lambda lib, x: lib.tanh(x * lib.prod(x, axis=-1, keepdims=True)),
    "weights of columns": lambda lib, x: softmax(lib, x * np.arange(1, x.shape[-1] + 1, dtype=np.float32)) + x[:1],
    "two steps": lambda lib, x: softmax(lib, normalized(lib, x)),
}


def compiled(make: Callable[[Any], Any], shape: Any, dtype: str = "float32", **options: Any) -> Any:
    graph = jn.Graph("g", [jn.TensorType(dtype, shape, "x")])
    found = make(graph.inputs[0])
    graph.output(*(found if isinstance(found, tuple) else (found,)))
    return jn.compile(graph, device="cpu", **options)


def is_apart(make: Callable[[Any], Any], shape: Any, dtype: str = "float32", short_rows: bool = True) -> bool:
    graph = jn.Graph("g", [jn.TensorType(dtype, shape, "x")])
    found = make(graph.inputs[0])
    graph.output(*(found if isinstance(found, tuple) else (found,)))
    expanded = expand(graph)
    return with_columns_apart(expanded, short_rows) is not expanded


def values(shape: tuple[int, ...], dtype: str = "float32") -> np.ndarray:
    return (np.random.default_rng(sum(shape)).standard_normal(shape) * 2).astype(dtype)


@pytest.mark.one_in(2)
@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("name", PROGRAMS)
def test_programs(name: str, dtype: str, target: str | None) -> None:
    for columns in (2, 3, 5, 8, MAX_COLUMNS, MAX_COLUMNS + 1):
        x = values((ROWS, columns), dtype)
        found = compiled(lambda x: PROGRAMS[name](jn, x), x.shape, dtype, target=target)(x)
        expected = PROGRAMS[name](np, x.astype(np.float64))
        tolerance = 2e-5 if dtype == "float32" else 1e-12
        np.testing.assert_allclose(found, expected, rtol=tolerance, atol=tolerance, err_msg=str(columns))


@pytest.mark.parametrize("target", TARGETS)
def test_one_kernel_computes_everything_once(target: str | None) -> None:
    model = compiled(lambda x: jn.softmax(x, axis=-1), (ROWS, 3), target=target)
    (kernel,) = model.kernels
    assert kernel.fused.count("exp_shifted") == 3
    assert "concat" in kernel.fused


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("shape", [(ROWS, 3), (5, 900, 4), (2, 3, 700, 5), ("n", 3), ("n", 40, 6), (4, "n", 7)])
def test_shapes(shape: tuple[Any, ...], target: str | None) -> None:
    model = compiled(lambda x: (jn.softmax(x, axis=-1), jn.sum(normalized(jn, x), axis=0)), shape, target=target)
    for size in (0, 1, 17, ROWS) if "n" in shape else (1,):
        x = values(tuple(size if extent == "n" else extent for extent in shape))
        weights, total = model(x)
        wide = x.astype(np.float64)
        np.testing.assert_allclose(weights, softmax(np, wide), rtol=2e-5, atol=1e-6)
        np.testing.assert_allclose(total, normalized(np, wide).sum(0), rtol=1e-4, atol=1e-3)


@pytest.mark.parametrize("target", TARGETS)
def test_special_values(target: str | None) -> None:
    """NaN and infinities stay in their rows; the sum of zeros that are negative is 0, as in rows that are reduced whole."""
    x = values((ROWS, 3))
    x[7, 1], x[8, 0], x[9], x[10] = np.nan, np.inf, -np.inf, -0.0
    with np.errstate(all="ignore"):
        expected = softmax(np, x.astype(np.float64))
    found = compiled(lambda x: jn.softmax(x, axis=-1), x.shape, target=target)(x)
    np.testing.assert_allclose(found, expected, rtol=2e-5, atol=1e-7)
    signs = compiled(lambda x: jn.copysign(x, jn.sum(x, axis=-1, keepdims=True)), x.shape, target=target)(x)
    assert not np.signbit(signs[10]).any()


@pytest.mark.parametrize("target", TARGETS)
def test_other_readers(target: str | None) -> None:
    """Of operands, of reductions, and of what is computed, in the order and layout that each asks for."""

    def make(x: Any) -> tuple[Any, ...]:
        squares = x * x
        length = jn.sqrt(jn.sum(squares, axis=1, keepdims=True))
        unit = x / (length + 1.0)
        return squares, length, unit, unit.T, jn.sum(unit, axis=0), unit[:, 1], jn.argmax(unit, axis=1), unit @ unit.T[:, :8]

    x = values((ROWS, 4))
    squares, length, unit, turned, total, second, place, product = compiled(make, x.shape, target=target)(x)
    wide = x.astype(np.float64)
    expected = wide / (np.sqrt((wide * wide).sum(1, keepdims=True)) + 1.0)
    np.testing.assert_array_equal(squares, x * x)
    np.testing.assert_allclose(length[:, 0], np.linalg.norm(wide, axis=1), rtol=1e-6)
    for found, right in ((unit, expected), (turned, expected.T), (second, expected[:, 1])):
        np.testing.assert_allclose(found, right, rtol=1e-5)
    np.testing.assert_allclose(total, expected.sum(0), rtol=1e-4)
    np.testing.assert_array_equal(place, expected.argmax(1))
    np.testing.assert_allclose(product, expected @ expected.T[:, :8], rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("target", TARGETS)
def test_softmax_of_a_product(target: str | None) -> None:
    x, weights = values((ROWS, 20)), values((20, 5))
    found = compiled(lambda x: jn.softmax(x @ weights + weights[0], axis=-1), x.shape, target=target)(x)
    expected = softmax(np, x.astype(np.float64) @ weights + weights[0])
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-5)


def test_what_is_computed_by_columns() -> None:
    def weights(x: Any) -> Any:
        return jn.softmax(x, axis=-1)

    for shape in [(ROWS, 3), ("n", MAX_COLUMNS), (ROWS, 8), (3, "n", 5)]:
        assert is_apart(weights, shape), shape
    for shape in [(ROWS, MAX_COLUMNS + 1), (ROWS, 1), (ROWS, "n"), (10, 3), (ROWS, 8, 3), ("n", 8, 3)]:
        assert not is_apart(weights, shape), shape  # few rows, or few side by side
    assert not is_apart(weights, (ROWS, 8), short_rows=False)  # a register of AVX2
    assert not is_apart(weights, (ROWS, 3), "float16")
    assert not is_apart(lambda x: jn.sum(x, axis=-1), (ROWS, 3))  # no rows are computed of it
    assert not is_apart(lambda x: x - jn.max(x, axis=-1, keepdims=True), (ROWS, 5))  # too little work
    assert not is_apart(lambda x: weights(x) @ x.T, (ROWS, 3))  # products have blocks of their own
    assert is_apart(lambda x: weights(x @ x.T[:, :3] + x[0, :3]), (ROWS, 3))
    assert not is_apart(lambda x: jn.softmax(x, axis=0), (3, ROWS))


def test_reproducible_numerics_keep_rows() -> None:
    model = compiled(lambda x: jn.softmax(x, axis=-1), (ROWS, 3), numerics="reproducible")
    assert all("concat" not in kernel.fused for kernel in model.kernels)


def test_long_chains_are_left() -> None:
    def make(x: Any) -> Any:
        for _ in range(60):
            x = jn.softmax(x * 1.5, axis=-1)
        return x

    assert not is_apart(make, (ROWS, 3))

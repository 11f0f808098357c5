"""Lines whose length is known at launch only, against NumPy: sorts of all dtypes, along each axis, short and long."""

from __future__ import annotations

import threading
from typing import Any

import joinery as jn
import numpy as np
import pytest

from ..support.tiers import each

DTYPES = ("bool", "uint8", "int16", "int32", "uint32", "int64", "uint64", "float16", "float32", "float64")
SHAPES = (
    (0, 3), (3, 0), (1, 1), (5, 1), (17, 2), (33, 3), (16, 8), (40, 9), (3, 31), (19, 32), (21, 33), (18, 255), (18, 256),
    (18, 257), (7, 1000), (3, 4097), (1, 100_003),
)  # fmt: skip


def _elements(dtype: str, shape: tuple[int, ...], rng: np.random.Generator) -> np.ndarray[Any, Any]:
    """Returns elements with ties; floats with NaN, infinities and zeros of both signs."""
    if dtype == "bool":
        return rng.integers(0, 2, shape).astype(bool)
    if not dtype.startswith("float"):
        limits = np.iinfo(dtype)
        wide = rng.integers(limits.min, limits.max, shape, dtype, endpoint=True)
        return np.where(rng.random(shape) < 0.5, wide, rng.integers(0, 9, shape).astype(dtype))
    x = (rng.standard_normal(shape) * 30).astype(dtype)
    special = rng.choice(np.array([0.0, -0.0, np.nan, np.inf, -np.inf, 1.5], dtype), shape)
    return np.where(rng.random(shape) < 0.4, special, x)


def _orders(x: np.ndarray[Any, Any], axis: int) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
    """Returns stable positions, ascending and descending."""
    mirrored = np.argsort(np.flip(x, axis), axis, kind="stable")
    return np.argsort(x, axis, kind="stable"), x.shape[axis] - 1 - np.flip(mirrored, axis)


def _same_bits(found: np.ndarray[Any, Any], expected: np.ndarray[Any, Any]) -> bool:
    """Whether all bits are equal; any NaN is as good as another."""
    if expected.dtype.kind != "f":
        return np.array_equal(found, expected)
    whole, is_nan = f"u{expected.itemsize}", np.isnan(expected)
    others = np.array_equal(found.view(whole)[~is_nan], expected.view(whole)[~is_nan])
    return found.dtype == expected.dtype and np.array_equal(np.isnan(found), is_nan) and others


def _sorts(dtype: str, axis: int) -> jn.Model:
    graph = jn.Graph("g", inputs=[jn.TensorType(dtype, ("m", "n"), name="x")])
    (x,) = graph.inputs
    graph.output(jn.sort(x, axis=axis), jn.sort(x, axis=axis, descending=True), jn.argsort(x, axis=axis))
    return jn.compile(graph, device="cpu", threads=2)


@pytest.mark.parametrize(("dtype", "axis"), each(DTYPES, (1, 0), times=1))
def test_sorts_of_all_lengths(dtype: str, axis: int) -> None:
    model, rng = _sorts(dtype, axis), np.random.default_rng(len(dtype))
    for m, n in SHAPES:
        x = _elements(dtype, (m, n) if axis else (n, m), rng)
        up, down = _orders(x, axis)
        ascending, descending, positions = model(x)
        assert _same_bits(ascending, np.take_along_axis(x, up, axis)), (m, n)
        assert _same_bits(descending, np.take_along_axis(x, down, axis)), (m, n)
        assert np.array_equal(positions, up), (m, n)


def test_zeros_of_more_elements_than_keys_have_room_for_keep_their_order() -> None:
    """Keys of float32 hold positions below 2^22 - 1; longer lines are sorted as float64."""
    graph = jn.Graph("g", inputs=[jn.TensorType("float32", ("n",), name="x")])
    (x,) = graph.inputs
    graph.output(jn.sort(x, axis=0), jn.sort(x, axis=0, descending=True))
    model, rng = jn.compile(graph, device="cpu", threads=1), np.random.default_rng(0)
    for size in ((1 << 22) - 1, 1 << 22):
        values = np.where(rng.random(size) < 0.5, np.float32(0), np.float32(-0.0))
        values[:2] = 1, -1
        ascending, descending = model(values)
        zeros = values[2:]
        assert np.array_equal(np.signbit(ascending), np.signbit(np.concatenate([[-1], zeros, [1]]))), size
        assert np.array_equal(np.signbit(descending), np.signbit(np.concatenate([[1], zeros, [-1]]))), size


def test_lines_of_a_known_length_that_no_block_has() -> None:
    size = (1 << 20) + 5
    graph = jn.Graph("g", inputs=[jn.TensorType("int16", (size,), name="x")])
    (x,) = graph.inputs
    graph.output(jn.sort(x, axis=0))
    values = np.random.default_rng(1).integers(-999, 999, size).astype(np.int16)
    assert np.array_equal(jn.compile(graph, device="cpu")(values), np.sort(values))


@pytest.mark.parametrize("k", [1, 5, 20])
def test_the_first_of_lines(k: int) -> None:
    graph = jn.Graph("g", inputs=[jn.TensorType("float32", ("m", "n"), name="x")])
    (x,) = graph.inputs
    graph.output(*jn.top_k(x, k), *jn.bottom_k(x, k))
    model, rng = jn.compile(graph, device="cpu", threads=1), np.random.default_rng(k)
    for n in (k, k + 1, 300, 5000):
        x_ = rng.integers(-40, 40, (3, n)).astype(np.float32)
        up, down = _orders(x_, 1)
        most, most_at, least, least_at = model(x_)
        for found, at, order in ((most, most_at, down), (least, least_at, up)):
            assert np.array_equal(at, order[:, :k]), n
            assert np.array_equal(found, np.take_along_axis(x_, order[:, :k], 1)), n
    with pytest.raises(jn.UserError):
        model(np.zeros((3, k - 1), np.float32))


def test_sorts_in_a_thread_with_a_small_stack() -> None:
    model, failures = _sorts("float64", 1), []
    x = np.random.default_rng(2).standard_normal((40, 200))
    model(x)

    def run() -> None:
        for shape in ((40, 200), (2, 4000), (8000, 1), (1, 8000)):
            found = model(x.reshape(shape))[0]
            failures.extend([] if np.array_equal(found, np.sort(x.reshape(shape), 1)) else [shape])

    before = threading.stack_size(64 << 10)
    try:
        thread = threading.Thread(target=run)
        thread.start()
        thread.join()
    finally:
        threading.stack_size(before)
    assert not failures


def test_sanitized_runs_see_every_element() -> None:
    model = _sorts("int32", 1)
    x = np.random.default_rng(3).integers(-9, 9, (19, 7)).astype(np.int32)
    report = model.sanitize(x)
    assert not report.findings
    assert np.array_equal(report.outputs[0], np.sort(x, 1))
    assert np.array_equal(report.outputs[2], np.argsort(x, 1, kind="stable"))

"""Sizes that are known at launch only, against NumPy: sorts, searches, rolls, and what goes along columns, short and long."""

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


@pytest.mark.one_in(12)
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


@pytest.mark.slow
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


@pytest.mark.one_in(3)
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


TEXT = """
tt.func public @f(%x: !tt.ptr<i32>, %n: i64) {
  tt.sort_lines %x, %n, %n : !tt.ptr<i32>, i64, i64
  tt.return
}
"""


@pytest.mark.slow
def test_what_sorts_memory_is_proven_to_stay_in_its_lines() -> None:
    """Of each program a matrix of its own, and nothing beyond."""
    pytest.importorskip("z3")
    kernel = jn.kernel.from_ttir("""
tt.func public @f(%x: !tt.ptr<i32>, %n: i64, %m: i64) {
  %p = tt.get_program_id x : i32
  %q = arith.extsi %p : i32 to i64
  %l = arith.muli %n, %m : i64
  %o = arith.muli %q, %l : i64
  %a = tt.addptr %x, %o : !tt.ptr<i32>, i64
  tt.sort_lines %a, %m, %n : !tt.ptr<i32>, i64, i64
  tt.return
}""")
    sizes = ["n >= 1", "m >= 1", "g >= 1"]
    assert kernel.prove(sizes, {"x": "g * n * m"}, "g").ok
    assert kernel.prove(sizes, {"x": "g * n * m - 1"}, "g", "bounds").verdict("bounds") == "unknown"
    assert kernel.prove(sizes, {"x": "n * m"}, "g", "races").verdict("races") == "unknown"


def test_kernels_of_texts_sort_no_memory() -> None:
    """Nothing compares what it reads and writes with the memory behind the pointer."""
    kernel = jn.kernel.from_ttir(TEXT)
    with pytest.raises(jn.UnsupportedError, match=r"tt\.sort_lines of i32 outside of the programs of a graph"):
        kernel.launch(1, np.zeros(4, np.int32), 2)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("dtype", "side", "shape"), [("float32", "left", ("m", 2)), ("int64", "right", ("m",)), ("float32", "right", ())]
)
def test_searches_in_vectors_of_all_lengths(dtype: str, side: str, shape: tuple[str | int, ...]) -> None:
    """As often as the size has bits: sizes on both sides of where another search begins, and none at all."""
    graph = jn.Graph("g", inputs=[jn.TensorType(dtype, ("n",), name="x"), jn.TensorType(dtype, shape, name="y")])
    within, values = graph.inputs
    graph.output(jn.searchsorted(within, values, side=side))
    model, rng = jn.compile(graph, device="cpu", threads=1), np.random.default_rng(0)
    for size in (0, 1, 2, 3, 1000, 4095, 4096, 4097, (1 << 20) - 1, 1 << 20):
        x = np.sort(rng.integers(-size, size + 1, size).astype(dtype))
        y = rng.integers(-size - 2, size + 2, [50 if extent == "m" else extent for extent in shape]).astype(dtype)
        if dtype == "float32":
            x[size - size // 8 :] = np.nan
            if y.ndim:
                y[:3] = [[np.nan, np.inf], [-np.inf, 0.0], [-0.0, np.nan]]
        assert np.array_equal(model(x, y), np.searchsorted(x, y, side=side)), size


@pytest.mark.one_in(3)
@pytest.mark.parametrize("axis", [0, 1, None])
def test_rolls_by_any_shift(axis: int | None) -> None:
    """By places, by parts of the size, and beyond it, in both directions; empty arrays too."""
    shifts: dict[str, Any] = {str(shift): shift for shift in (0, 1, -3, 100, -(1 << 20), (1 << 20) + 1, 1 << 40)}
    graph = jn.Graph("g", inputs=[jn.TensorType("int16", ("m", "n"), name="x")])
    (x,) = graph.inputs
    m, n = x.shape
    sizes = {"half": lambda n: n // 2, "back": lambda n: 0 - n // 2, "whole": lambda n: n, "twice": lambda n: 2 * n}
    extent = m * n if axis is None else x.shape[axis]
    graph.output(*[jn.roll(x, s, axis) for s in shifts.values()], *[jn.roll(x, size(extent), axis) for size in sizes.values()])
    assert all(output.shape == (m, n) for output in graph.outputs)
    model = jn.compile(graph, device="cpu", threads=1)
    for shape in ((0, 3), (3, 0), (1, 1), (2, 5), (33, 31), (4, 100)):
        values = np.arange(np.prod(shape), dtype=np.int16).reshape(shape)
        count = values.size if axis is None else shape[axis]
        given = [*shifts.values(), *[size(count) for size in sizes.values()]]
        for shift, found in zip(given, model(values), strict=True):
            assert np.array_equal(found, np.roll(values, shift, axis)), (shape, shift)


@pytest.mark.one_in(4)
@pytest.mark.parametrize("dtype", ["float32", "float64", "int32", "float16"])
def test_columns_side_by_side(dtype: str) -> None:
    """Chunks of rows hand on what the columns have so far, of which there are fewer than a block has."""
    graph = jn.Graph("g", inputs=[jn.TensorType(dtype, ("m", "n"), name="x")])
    (x,) = graph.inputs
    graph.output(
        jn.cumsum(x, 0), jn.cumsum(x, 0, exclusive=True, reverse=True), jn.cummax(x, 0), jn.argmax(x, 0), jn.argmin(x, 0),
        jn.exp(jn.cumsum(x * 0, 0)),
    )  # fmt: skip
    model, rng = jn.compile(graph, device="cpu", threads=1), np.random.default_rng(4)
    for shape in ((1, 1), (31, 13), (32, 16), (33, 17), (100, 3), (257, 64), (70, 511), (65, 512), (64, 513), (40, 1030)):
        x_ = rng.integers(-5, 6, shape).astype(dtype)  # sums are exact
        sums, back, most, largest, smallest, ones = model(x_)
        assert np.array_equal(sums, np.cumsum(x_, 0, dtype)), shape
        total = np.cumsum(x_[::-1], 0, dtype)[::-1]
        assert np.array_equal(back, total - x_), shape
        assert np.array_equal(most, np.maximum.accumulate(x_, 0)), shape
        assert np.array_equal(largest, np.argmax(x_, 0)), shape
        assert np.array_equal(smallest, np.argmin(x_, 0)), shape
        assert np.array_equal(ones, np.ones(shape)), shape


@pytest.mark.one_in(4)
@pytest.mark.parametrize("axis", [0, 62, 63])
def test_sorts_of_the_most_axes(axis: int) -> None:
    """Lines are chosen along one more axis, for which there is no room beside 64."""
    shape: list[Any] = [1] * 64
    shape[axis] = jn.dim("n")
    graph = jn.Graph("sorted", inputs=[jn.TensorType("float32", tuple(shape), name="x")])
    (x,) = graph.inputs
    graph.output(jn.sort(x, axis=axis))
    values = np.random.default_rng(0).standard_normal([50 if at == axis else 1 for at in range(64)]).astype(np.float32)
    assert np.array_equal(jn.compile(graph, device="cpu")(values), np.sort(values.reshape(-1)).reshape(values.shape))

"""Scans along rows against NumPy, bit by bit: they go on in many rows at once, each in the order of its elements."""

from __future__ import annotations

from typing import Any

import joinery as jn
import numpy as np
import pytest

from ..support.x86_targets import TARGETS, compile_for

SLOW = pytest.mark.slow
UFUNCS = {"cumsum": np.add, "cumprod": np.multiply, "cummax": np.maximum, "cummin": np.minimum}
LENGTHS = (1, 2, 3, 7, 8, 9, 15, 16, 17, 100)
DTYPES = ("float32", "int64", *[pytest.param(dtype, marks=SLOW) for dtype in ("float64", "int32", "float16", "uint8")])


@pytest.fixture(params=["own", *TARGETS])
def target(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    compile_for(request.param, monkeypatch)


def numbers(dtype: str, shape: tuple[int, ...]) -> Any:
    """Numbers, of floats some that hurt."""
    rng, kind = np.random.default_rng(len(shape)), np.dtype(dtype)
    if kind.kind in "iu":
        return rng.integers(0, 9, shape).astype(kind)
    x = rng.standard_normal(shape).astype(kind)
    flat = x.reshape(-1)
    flat[1::41], flat[7::53], flat[20::67], flat[::11] = np.inf, -np.inf, np.nan, -0.0
    return x


def scanned(op: str, x: Any, reverse: bool, dtype: Any) -> Any:
    with np.errstate(all="ignore"):
        turned = x[..., ::-1] if reverse else x
        found = UFUNCS[op].accumulate(turned, axis=-1, dtype=dtype)
    return found[..., ::-1] if reverse else found


def same(found: Any, wanted: Any, message: object = "") -> None:
    assert (found.dtype, found.shape) == (wanted.dtype, wanted.shape)
    np.testing.assert_array_equal(found, wanted, err_msg=str(message))
    if found.dtype.kind == "f":
        numbers = ~np.isnan(wanted)
        np.testing.assert_array_equal(np.signbit(found[numbers]), np.signbit(wanted[numbers]), err_msg=str(message))


def agrees(found: Any, op: str, x: Any, reverse: bool) -> None:
    if found.dtype != np.float16:
        same(found, scanned(op, x, reverse, found.dtype), x.shape)
        return
    with np.errstate(all="ignore"):  # rounded once, not at every step
        wanted = scanned(op, x.astype(np.float32), reverse, np.float32).astype(np.float16)
    np.testing.assert_allclose(found, wanted, rtol=2e-2, atol=1e-2, err_msg=str(x.shape))


def compiled(op: str, dtype: str, shape: tuple[Any, ...], reverse: bool = False) -> Any:
    graph = jn.Graph("g", [jn.TensorType(dtype, shape, "x")])
    graph.output(getattr(jn, op)(graph.inputs[0], -1, reverse=reverse))
    return jn.compile(graph, device="cpu", cache=False, threads=2)


@pytest.mark.one_in(12)
@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("op", ["cumsum", "cumprod"])
@pytest.mark.parametrize("dtype", DTYPES)
def test_sizes_known_at_launch(target: None, dtype: str, op: str, reverse: bool) -> None:
    model = compiled(op, dtype, ("rows", "n"), reverse)
    for rows in (0, 1, 7, 8, 15, 16, 17, 40):
        for length in (0, *LENGTHS, 2047, 2049):
            x = numbers(dtype, (rows, length))
            agrees(model(x), op, x, reverse)


@pytest.mark.one_in(8)
@pytest.mark.parametrize("dtype", DTYPES)
def test_rows_known_at_launch(target: None, dtype: str) -> None:
    for length in LENGTHS[1:]:
        model = compiled("cumsum", dtype, ("rows", length))
        for rows in (0, 1, 15, 16, 17, 33):
            x = numbers(dtype, (rows, length))
            agrees(model(x), "cumsum", x, False)


@pytest.mark.one_in(4)
@pytest.mark.parametrize("op", UFUNCS)
def test_every_kind(op: str) -> None:
    for shape in ((3, 5, 7), (40, 64), (2, 17, 100), (16, 1000), (5, 20000)):
        for reverse in (False, True):
            x = numbers("float32", shape)
            found, wanted = compiled(op, "float32", shape, reverse)(x), scanned(op, x, reverse, np.float32)
            if op in ("cumsum", "cumprod"):
                same(found, wanted, shape)
            else:  # of zeros of both signs either is the largest
                np.testing.assert_array_equal(found, wanted, err_msg=str(shape))


def test_what_is_computed_before_and_after() -> None:
    """Operands that are computed or lie elsewhere, and results that others read than a store."""
    graph = jn.Graph("g", [jn.TensorType(jn.float32, ("rows", 40), "x"), jn.TensorType(jn.float32, (40, "rows"), "y")])
    x, y = graph.inputs
    sums = jn.cumsum(jn.abs(x) * 2 + 1, -1)
    graph.output(
        sums, sums * 2, jn.sum(sums, -1), jn.cumsum(jn.permute(y, [1, 0]), -1), jn.cumsum(x[:, 3:20:2], -1),
        jn.cumsum(x[:, ::-1], -1), jn.cumsum(jn.cumsum(x, -1), -1), jn.cumsum(x, -1, exclusive=True), x - jn.cummax(x, -1),
    )  # fmt: skip
    model = jn.compile(graph, device="cpu", cache=False)
    rng = np.random.default_rng(3)
    for rows in (1, 15, 16, 50):
        a, b = rng.integers(-3, 4, (rows, 40)).astype(np.float32), rng.integers(-3, 4, (40, rows)).astype(np.float32)
        first = np.cumsum(np.abs(a) * 2 + 1, -1)
        wanted = (
            first, first * 2, first.sum(-1), np.cumsum(b.T, -1), np.cumsum(a[:, 3:20:2], -1), np.cumsum(a[:, ::-1], -1),
            np.cumsum(np.cumsum(a, -1), -1), np.cumsum(a, -1) - a, a - np.maximum.accumulate(a, -1),
        )  # fmt: skip
        for one, other in zip(model(a, b), wanted, strict=True):
            np.testing.assert_array_equal(one, other)


def test_results_past_the_caches() -> None:
    """Rows of whole cache lines, and of others, of more than the caches hold."""
    for shape in ((4100, 1024), (4001, 1030)):
        x = np.ones(shape, np.float64)
        x[:, 0] = np.arange(shape[0])
        found = compiled("cumsum", "float64", shape)(x)
        np.testing.assert_array_equal(found, np.arange(shape[1]) + x[:, :1])

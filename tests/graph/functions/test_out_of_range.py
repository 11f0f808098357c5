"""Positions that are data and out of range: what each mode makes of them. NumPy and JAX's rules witness."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import joinery as jn
import numpy as np
import pytest

F32 = jn.float32
rng = np.random.default_rng(4)
X = rng.standard_normal((3, 4)).astype(np.float32)
SLOW = [pytest.param(name, marks=pytest.mark.slow) for name in ("uint8", "int32", "int64")]
INDICES = ["int8", "uint64", *SLOW]


def graph(*types: tuple[Any, tuple[Any, ...]]) -> jn.Graph:
    return jn.Graph("g", [jn.TensorType(dtype, shape, f"x{number}") for number, (dtype, shape) in enumerate(types)])


def runs(g: jn.Graph) -> list[Callable[..., Any]]:
    return [lambda *given: jn.evaluate(g, *given), jn.compile(g, "cpu")]


@pytest.mark.one_in(2)
@pytest.mark.parametrize("dtype", INDICES)
@pytest.mark.parametrize("axis", [0, 1])
def test_reads(dtype: str, axis: int) -> None:
    kind = jn.DType(dtype)
    g = graph((F32, ("n", "m")), (kind, ("k",)))
    x, indices = g.inputs
    g.output(jn.gather(x, indices, axis, mode="clip"), jn.gather(x, indices, axis, mode="error"))
    h = graph((F32, ("n", "m")), (kind, ("n", "m")))
    h.output(jn.take_along_axis(*h.inputs, axis, mode="error"))
    extent = X.shape[axis]
    good = np.array([0, extent - 1, *([-1, -extent] if kind.is_signed else [])], kind.numpy)
    for run in runs(g):
        np.testing.assert_array_equal(run(X, good)[1], np.take(X, good.astype(np.int64), axis))
        for bad in (extent, 100, *([-extent - 1] if kind.is_signed else [])):
            text = rf"gather: position {bad}, element \[1\].*axis {axis}, whose size is {extent}: -{extent} to {extent - 1}"
            with pytest.raises(jn.UserError, match=rf"{text}.*1 of 2 .*(.|\n)*test_out_of_range"):
                run(X, np.array([0, bad], kind.numpy))
    where = (np.arange(12) % extent).reshape(3, 4).astype(kind.numpy)
    for run in runs(h):
        np.testing.assert_array_equal(run(X, where), np.take_along_axis(X, where.astype(np.int64), axis))
        wrong = where.copy()
        wrong[2, 1] = extent
        with pytest.raises(jn.UserError, match=rf"take_along_axis: position {extent}, element \[2, 1\] of the indices"):
            run(X, wrong)


def scattered(x: Any, updates: Any, positions: Any, mode: str) -> Any:
    """Rows of updates written at positions along axis 0, one after the other."""
    found = x.copy()
    for (i, j), position in np.ndenumerate(positions):
        at = int(position) + len(x) if position < 0 else int(position)
        if mode == "clip":
            at = min(max(at, 0), len(x) - 1)
        if 0 <= at < len(x):
            found[at, j] += updates[i, j]
    return found


@pytest.mark.one_in(4)
@pytest.mark.parametrize("mode", ["drop", "clip", "error"])
@pytest.mark.parametrize("dtype", ["int8", pytest.param("int64", marks=pytest.mark.slow), "uint64"])
def test_writes(mode: str, dtype: str) -> None:
    kind = jn.DType(dtype)
    g = graph((F32, ("n", 4)), (F32, ("k", 4)), (kind, ("k", 4)))
    x, updates, indices = g.inputs
    g.output(
        jn.scatter_add(x, updates, indices, 0, mode=mode), jn.put_along_axis(x, indices, updates, 0, mode=mode),
        jn.scatter_nd_add(x, updates[:, 0], indices[:, :2], mode=mode),
    )  # fmt: skip
    good = np.array([[0, 1, 2, 0], [1, 1, 1, 2]], kind.numpy)
    bad = np.array([[0, 9, 2, 0], [3, 1, 127, 2]], kind.numpy)
    if kind.is_signed:
        bad[1, 3], good[1, 3] = -100, -3
    values = rng.standard_normal((2, 4)).astype(np.float32)
    for run in runs(g):
        np.testing.assert_allclose(run(X, values, good)[0], scattered(X, values, good, mode), rtol=1e-5)
        if mode == "error":
            with pytest.raises(jn.UserError, match=r"(scatter|put_along_axis|scatter_nd): position \d+.*axis [01], whose size"):
                run(X, values, bad)
        else:
            np.testing.assert_allclose(run(X, values, bad)[0], scattered(X, values, bad, mode), rtol=1e-5)


def test_an_axis_without_elements() -> None:
    g = graph((F32, ("n", 2)), (F32, ("k", 2)), (jn.int64, ("k", 2)))
    g.output(jn.scatter(*g.inputs, 0, mode="clip"))
    h = graph((F32, ("n", 2)), (F32, ("k", 2)), (jn.int64, ("k", 2)))
    h.output(jn.scatter(*h.inputs, 0, mode="error"))
    nothing, two = np.zeros((0, 2), np.float32), np.ones((2, 2), np.float32)
    for run in runs(g):
        assert run(nothing, two, np.zeros((2, 2), np.int64)).shape == (0, 2)
    for run in runs(h):
        assert run(nothing, nothing, np.zeros((0, 2), np.int64)).shape == (0, 2)
        with pytest.raises(jn.UserError, match="axis 0, whose size is 0"):
            run(nothing, two, np.zeros((2, 2), np.int64))


def test_what_is_refused_at_once() -> None:
    g = graph((F32, (3,)), (jn.int64, (2,)))
    x, indices = g.inputs
    with pytest.raises(jn.UserError, match=r"gather: mode 'drop'(.|\n)*'clip', 'error'"):
        jn.gather(x, indices, mode="drop")
    with pytest.raises(jn.UserError, match=r"scatter: mode 'wrap'(.|\n)*'drop', 'clip', 'error'"):
        jn.scatter(x, x[:2], indices, mode="wrap")
    with pytest.raises(jn.UnsupportedError, match=r"gather: mode='error' in a loop or branch.*fix: mode='clip'"):
        jn.fori_loop(0, 2, lambda i, v: jn.gather(v, jn.stack([i, i, i]), mode="error"), x)
    g.output(jn.gather(x, indices, mode="error"))
    with pytest.raises(jn.UnsupportedError, match="positions_in_range"):
        jn.compile(g, "ptxsim")
    again = jn.from_text(*jn.to_text(g))
    with pytest.raises(jn.UserError, match="position 5"):
        jn.evaluate(again, np.zeros(3, np.float32), np.array([0, 5]))

"""Running results of associative functions: what a plain loop in NumPy gives, on every device, for every size."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import joinery as jn
import numpy as np
import pytest

RNG = np.random.default_rng(2)


def recurrence(left: Any, right: Any) -> Any:
    """Combine (a, b) of x → a x + b."""
    return left[0] * right[0], left[1] * right[0] + right[1]


def in_order(fn: Callable[[Any, Any], Any], arrays: Any, reverse: bool, axis: int) -> Any:
    """The results from left to right, of slices that keep the axis."""
    count = arrays[0].shape[axis]
    rows = [
        tuple([np.take(x, [i], axis) for x in arrays])
        for i in (range(count)[::-1] if reverse else range(count))
    ]
    found = rows[:1]
    for row in rows[1:]:
        made = fn(found[-1], row) if len(row) > 1 else (fn(found[-1][0], row[0]),)
        found.append(made)
    found = found[::-1] if reverse else found
    return [np.concatenate([row[n] for row in found], axis) if found else x for n, x in enumerate(arrays)]


def check(
    fn: Any, arrays: Any, reverse: bool = False, axis: int = 0, names: bool = False, devices: Any = ("cpu",)
) -> None:
    types = [
        jn.TensorType(
            jn.DType.from_numpy(x.dtype),
            [f"n{n}" if names and a == axis % x.ndim else n for a, n in enumerate(x.shape)],
        )
        for x in arrays
    ]
    graph = jn.Graph("g", types)
    elems = tuple(graph.inputs) if len(arrays) > 1 else graph.inputs[0]
    made = jn.associative_scan(fn, elems, reverse=reverse, axis=axis)
    graph.output(*(made if isinstance(made, tuple) else (made,)))
    want = in_order(fn, arrays, reverse, axis)
    for run in (
        lambda *a: jn.evaluate(graph, *a),
        *[jn.compile(graph, device=each, cache=False) for each in devices],
    ):
        got = run(*arrays)
        for one, other in zip(got if isinstance(got, tuple) else (got,), want, strict=True):
            assert one.dtype == other.dtype
            np.testing.assert_allclose(one, other, rtol=1e-5 if other.dtype == np.float32 else 1e-12, atol=1e-300)


@pytest.mark.one_in(4)
@pytest.mark.parametrize("size", [0, 1, 5, *[pytest.param(n, marks=pytest.mark.slow) for n in (2, 3, 4, 13, 64, 65)]])
def test_two_arrays_along_an_axis(size: int) -> None:
    a, b = (RNG.random((2, size, 3)) + 0.25 for _ in range(2))
    check(
        recurrence,
        (a, b),
        reverse=size % 2 == 1,
        axis=1,
        devices=("cpu", "ptxsim") if size in (5, 13) else ("cpu",),
    )
    check(recurrence, (a, b), reverse=size % 2 == 0, axis=-2, names=True)


@pytest.mark.slow
@pytest.mark.parametrize("size", [6, 7, 11, 97, 128, 1000, 3906, 31250])
def test_longer_ones(size: int) -> None:
    """3906 and 31250 have odd halves on the way."""
    a, b = (RNG.random(size) + 0.25 for _ in range(2))
    for reverse in (False, True):
        check(recurrence, (a, b), reverse=reverse, devices=("cpu", "ptxsim") if size < 99 else ("cpu",))


@pytest.mark.parametrize("dtype", ["bool", "int8", *[pytest.param(n, marks=pytest.mark.slow) for n in ("uint64", "float32")]])
def test_dtypes(dtype: str) -> None:
    x = RNG.integers(0, 2 if dtype == "bool" else 100, 11).astype(dtype)
    fn: Any = (lambda a, b: a ^ b) if dtype == "bool" else lambda a, b: a * b
    for names in (False, True):
        check(fn, (x,), names=names)
    noisy = np.array([1, np.nan, 3, -np.inf, 0, np.inf], np.float32)
    graph = jn.Graph("g", [jn.TensorType(jn.float32, (6,))])
    graph.output(jn.associative_scan(jn.maximum, graph.inputs[0], reverse=True))
    want = np.maximum.accumulate(noisy[::-1])[::-1]
    np.testing.assert_array_equal(jn.compile(graph, device="cpu", cache=False)(noisy), want)


@pytest.mark.slow
def test_products_of_matrices_which_do_not_commute() -> None:
    x = RNG.integers(-2, 3, (9, 2, 2)).astype(np.float64)
    for reverse in (False, True):
        check(lambda a, b: a @ b, (x,), reverse=reverse)
        check(lambda a, b: a @ b, (x,), reverse=reverse, names=True)


def test_structures_and_symbols_of_the_graph_around() -> None:
    graph = jn.Graph("g", [jn.TensorType(jn.int64, (5,), "x"), jn.TensorType(jn.int64, (), "modulus")])
    x, modulus = graph.inputs
    made = jn.associative_scan(lambda a, b: {"sum": (a["sum"] + b["sum"]) % modulus, "count": a["count"] + b["count"]},
                               {"sum": x, "count": jn.ones_like(x)})  # fmt: skip
    assert sorted(made) == ["count", "sum"]
    graph.output(made["sum"], made["count"])
    values = np.array([5, 6, 7, 8, 9])
    sums, counts = jn.compile(graph, device="cpu", cache=False)(values, np.int64(7))
    np.testing.assert_array_equal(sums, np.cumsum(values) % 7)
    np.testing.assert_array_equal(counts, np.arange(1, 6))


REFUSED: dict[str, tuple[Callable[[Any, Any], Any], str]] = {
    "no function": (lambda x, y: jn.associative_scan(x, y), "fn is a Symbol"),
    "axis": (lambda x, y: jn.associative_scan(jn.add, x, axis=2), "axis 2 is out of range"),
    "sizes": (
        lambda x, y: jn.associative_scan(recurrence, (x, y)),
        r"elems\[1\] has 5 elements, the first tensor 4",
    ),
    "structure": (lambda x, y: jn.associative_scan(lambda a, b: (a, b), x), "fix: return the same structure"),
    "dtype": (
        lambda x, y: jn.associative_scan(lambda a, b: (a + b).cast("float64"), x),
        "fn returns float64",
    ),
    "shape": (lambda x, y: jn.associative_scan(lambda a, b: jn.sum(a + b), x), r"fn returns float32 \(\)"),
    "nothing": (lambda x, y: jn.associative_scan(jn.add, ()), "associative_scan"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_is_refused_names_a_fix(name: str) -> None:
    build, told = REFUSED[name]
    graph = jn.Graph("g", [jn.TensorType(jn.float32, (4, 3), "x"), jn.TensorType(jn.float32, (5, 3), "y")])
    with pytest.raises(jn.UserError, match=told):
        build(*graph.inputs)

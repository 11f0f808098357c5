"""Searches, counts, histograms and slices at tuples of positions against NumPy, on every device."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import joinery as jn
import numpy as np
import pytest

DEVICES = ("cpu", "ptxsim")
SLOW = pytest.mark.slow
SIZES = (0, 1, 2, 3, 7, 64, 65, 1025)
DTYPES = (
    "bool",
    "int8",
    "uint8",
    "int32",
    "uint32",
    "int64",
    "uint64",
    "float16",
    "bfloat16",
    "float32",
    "float64",
)


def agree(
    build: Callable[..., Any],
    want: Callable[..., Any],
    *arrays: Any,
    names: bool,
    devices: Any = DEVICES,
    rtol: float = 0,
) -> None:
    """Compare a graph with NumPy; equal sizes have one name where there are names."""
    types = [
        jn.TensorType(
            jn.DType.from_numpy(x.dtype), [f"n{size}" for size in x.shape] if names else x.shape, f"x{number}"
        )
        for number, x in enumerate(arrays)
    ]
    graph = jn.Graph("g", types)
    made = build(*graph.inputs)
    graph.output(*(made if isinstance(made, tuple) else (made,)))
    expected = want(*arrays)
    for run in (
        lambda *given: jn.evaluate(graph, *given),
        *[jn.compile(graph, device=each, cache=False) for each in devices],
    ):
        found = run(*arrays)
        for one, other in zip(
            *[each if isinstance(each, tuple) else (each,) for each in (found, expected)], strict=True
        ):
            np.testing.assert_allclose(
                one.astype(np.float64), np.asarray(other, np.float64), rtol=rtol, atol=rtol
            )


def hard(dtype: str, size: int, seed: int = 0) -> Any:
    """Few different values, the ends of the range and, of floats, NaN, infinities and zeros of both signs."""
    rng, kind = np.random.default_rng(seed), jn.DType(dtype)
    few = rng.integers(0, 2 if kind.is_bool else 9, size)
    if kind.is_bool:
        return few.astype(np.bool_)
    if kind.is_integer:
        ends = np.where(
            rng.random(size) < 0.5, kind.numpy.type(kind.min_value), kind.numpy.type(kind.max_value)
        )
        return np.where(rng.random(size) < 0.3, ends, few.astype(kind.numpy))
    return np.where(
        rng.random(size) < 0.4, rng.choice([np.nan, np.inf, -np.inf, -0.0], size), few - 4
    ).astype(kind.numpy)


def plain(x: Any) -> Any:
    return x.astype(np.float32) if x.dtype.name == "bfloat16" else x


def search(dtype: str, size: int, names: bool, devices: Any) -> None:
    within = hard(dtype, size)[np.argsort(plain(hard(dtype, size)), kind="stable")]
    agree(lambda a, v: (jn.searchsorted(a, v), jn.searchsorted(a, v, "right")),
          lambda a, v: (np.searchsorted(plain(a), plain(v)), np.searchsorted(plain(a), plain(v), "right")),
          within, hard(dtype, 33, 1), names=names, devices=devices)  # fmt: skip


@pytest.mark.parametrize("dtype", ["float16", pytest.param("float32", marks=SLOW)])
def test_searchsorted_is_that_of_numpy(dtype: str) -> None:
    search(dtype, 5, False, DEVICES if dtype != "float32" else ())
    if dtype == "float32":
        search(dtype, 65, True, ("cpu",))


@pytest.mark.slow
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("size", SIZES)
def test_searchsorted_of_every_size(dtype: str, size: int) -> None:
    for names in (False, True):
        search(dtype, size, names, DEVICES)


@SLOW
def test_searchsorted_with_a_sorter_and_values_of_other_dtypes() -> None:
    a = np.array([5, -2, 9, 0, 5], np.int32)
    agree(lambda a, v: jn.searchsorted(a, v, sorter=jn.argsort(a)), lambda a, v: np.searchsorted(a, v, sorter=np.argsort(a)),
          a, np.array([[4, 5], [6, -9]], np.int64), names=False)  # fmt: skip
    agree(
        lambda a: jn.searchsorted(jn.sort(a), 5, "right"),
        lambda a: np.searchsorted(np.sort(a), 5, "right"),
        a,
        names=True,
    )


@pytest.mark.one_in(2)
@pytest.mark.parametrize("size", [0, 13, pytest.param(1, marks=SLOW), pytest.param(1025, marks=SLOW)])
def test_bincount_is_that_of_numpy(size: int) -> None:
    rng = np.random.default_rng(size)
    x, weights = rng.integers(0, 19, size), rng.integers(-9, 9, size).astype(np.float32)
    devices = DEVICES if size == 13 else ("cpu",)
    agree(
        lambda x: jn.bincount(x, length=24),
        lambda x: np.bincount(x, minlength=24),
        x,
        names=size != 1,
        devices=devices,
    )
    agree(
        lambda x, w: jn.bincount(x, w, length=24),
        lambda x, w: np.bincount(x, w, 24),
        x,
        weights,
        names=size == 1,
        devices=devices,
    )
    agree(
        lambda x: jn.bincount(x, minlength=5),
        lambda x: np.bincount(x, minlength=5),
        x,
        names=size != 13,
        devices=("cpu",),
    )
    agree(lambda x: jn.bincount(x.cast(jn.uint64)), np.bincount, x, names=size == 13, devices=("cpu",))


def test_elements_that_bincount_has_no_place_for_count_nowhere() -> None:
    x = np.array([-1, 0, 7, 2, -(2**63), 2**63 - 1])
    agree(lambda x: jn.bincount(x, length=3), lambda x: np.array([1, 0, 1]), x, names=False)
    agree(lambda x: jn.bincount(x.bitcast(jn.uint64), length=3), lambda x: np.array([1, 0, 1]), x, names=True)
    graph = jn.Graph("g", [jn.TensorType(jn.int32, (5,), "x"), jn.TensorType(jn.int8, (5,), "w")])
    assert jn.bincount(*graph.inputs, length="k").shape[0] == jn.dim("k")
    assert jn.bincount(*graph.inputs, length=4).dtype is jn.int64


@pytest.mark.parametrize(
    ("dtype", "least", "size"), [("uint8", 256, 256), ("uint8", 300, 300), ("int8", 128, 128), ("bool", 2, 2)]
)
def test_bincount_of_a_short_dtype_has_a_known_size(dtype: str, least: int, size: int) -> None:
    graph = jn.Graph("g", [jn.TensorType(dtype, ("n",), "x")])
    graph.output(jn.bincount(graph.inputs[0], minlength=least))
    assert graph.outputs[0].shape == (size,)
    x = np.random.default_rng(0).integers(0, 2 if dtype == "bool" else 100, 1000).astype(dtype)
    np.testing.assert_array_equal(jn.compile(graph, "cpu", cache=False)(x), np.bincount(x, minlength=least))


@pytest.mark.one_in(8)
@pytest.mark.parametrize("dtype", ["uint8", "int8", "uint16", "int32", "int64", "uint64"])
@pytest.mark.parametrize("extent", [0, 1, 500, "n"])
def test_bincount_finds_the_largest_number(dtype: str, extent: int | str) -> None:
    x = np.random.default_rng(1).integers(0, 77, 500 if extent == "n" else extent).astype(dtype)
    graph = jn.Graph("g", [jn.TensorType(dtype, (extent,), "x")])
    graph.output(jn.bincount(graph.inputs[0], minlength=7))
    np.testing.assert_array_equal(jn.compile(graph, "cpu", cache=False)(x), np.bincount(x.astype(np.int64), minlength=7))


@pytest.mark.parametrize("extent", [3, "n"])
def test_bincount_of_negative_numbers_alone_is_empty(extent: int | str) -> None:
    graph = jn.Graph("g", [jn.TensorType("int16", (extent,), "x")])
    graph.output(jn.bincount(graph.inputs[0]))
    model = jn.compile(graph, "cpu", cache=False)
    assert model(np.array([-5, -7, -1], np.int16)).shape == (0,)
    np.testing.assert_array_equal(model(np.array([-5, 2, -1], np.int16)), [0, 0, 1])


SOME = ["int32", *[pytest.param(n, marks=SLOW) for n in ("float32", "float64", "float16", "bool", "uint8")]]


@pytest.mark.parametrize("dtype", SOME)
def test_histograms_are_those_of_numpy(dtype: str) -> None:
    rng = np.random.default_rng(3)
    for size in (1, 100):
        x = (rng.normal(size=size) * 40).astype(np.float32 if dtype != "uint8" else np.uint8).astype(dtype)
        for bins in (1, 10):

            def want(x: Any, bins: int = bins) -> Any:
                wide = (
                    x.astype(np.float32)
                    if dtype == "float16"
                    else x.astype(np.float64)
                    if dtype == "bool"
                    else x
                )
                return np.histogram(wide, bins)

            agree(lambda x, bins=bins: jn.histogram(x, bins), want, x, names=size == 1, rtol=1e-6,
                  devices=DEVICES if dtype == "float32" else ("cpu",))  # fmt: skip


@SLOW
def test_histograms_with_edges_ranges_weights_and_densities() -> None:
    rng = np.random.default_rng(4)
    x, weights = rng.normal(size=(5, 13)), rng.integers(0, 9, (5, 13))
    edges = np.array([-1.0, -0.5, -0.5, 0.25, 2.0])
    agree(lambda x: jn.histogram(x, edges), lambda x: np.histogram(x, edges), x, names=True)
    agree(
        lambda x: jn.histogram(x, 7, (-1, 1)),
        lambda x: np.histogram(x, 7, (-1, 1)),
        x,
        names=False,
        devices=("cpu",),
        rtol=1e-12,
    )
    agree(lambda x, w: jn.histogram(x, 7, weights=w), lambda x, w: np.histogram(x, 7, weights=w), x, weights, names=False,
          devices=("cpu",), rtol=1e-12)  # fmt: skip
    agree(lambda x: jn.histogram(x, 6, density=True), lambda x: np.histogram(x, 6, density=True), x, names=True, rtol=1e-12,
          devices=("cpu",))  # fmt: skip
    agree(
        lambda x: jn.histogram(x, 3),
        lambda x: (np.zeros(3), np.linspace(0, 1, 4)),
        x[:0],
        names=True,
        devices=("cpu",),
        rtol=1e-12,
    )
    on_edges = np.array([0.0, 0.1, 0.2, 0.3, 0.7, 1.0, 1.0, np.nan, -3.0])
    agree(
        lambda x: jn.histogram(x, 10, (0, 1)),
        lambda x: np.histogram(x[:7], 10, (0, 1)),
        on_edges,
        names=False,
        rtol=1e-12,
    )


@SLOW
def test_linspace_is_that_of_numpy() -> None:
    x = np.array([2.5, -7.0], np.float32)
    for size in (0, 1, 50):
        for endpoint in (True, False):
            agree(lambda x, size=size, e=endpoint: jn.linspace(x, x[0], x[1], size, e),
                  lambda x, size=size, e=endpoint: np.linspace(x[0], x[1], size, e),
                  x, names=False, rtol=1e-6, devices=("cpu",))  # fmt: skip
    agree(
        lambda x: jn.linspace(x, 0, 1, x.shape[0], dtype=jn.float64),
        lambda x: np.linspace(0, 1, 2),
        x,
        names=True,
        rtol=1e-15,
    )
    agree(
        lambda x: jn.linspace(x, -2.5, 9, 7, dtype=jn.int32),
        lambda x: np.linspace(-2.5, 9, 7, dtype=np.int32),
        x,
        names=True,
    )


@pytest.mark.parametrize("which", ["int8", pytest.param("int64", marks=SLOW), pytest.param("uint64", marks=SLOW)])
def test_gather_nd_takes_slices(which: str) -> None:
    rng = np.random.default_rng(6)
    x = rng.normal(size=(3, 5, 7)).astype(np.float32)
    for depth in (0, 1, 2, 3):
        at = np.stack([rng.integers(0 if which == "uint64" else -size, size, (4, 2)) for size in x.shape[:depth]] or
                      [np.zeros((4, 2))], -1)[..., :depth].astype(which)  # fmt: skip
        columns = tuple(np.moveaxis(at.astype(int), -1, 0))
        want = x[columns] if depth else np.broadcast_to(x, (4, 2, *x.shape))
        devices = DEVICES if depth == 2 else ("cpu",)
        agree(jn.gather_nd, lambda x, at, want=want: want, x, at, names=False, devices=devices)


@SLOW
def test_gather_nd_of_batches_and_positions_out_of_range() -> None:
    rng = np.random.default_rng(7)
    x, at = rng.integers(0, 99, (3, 2, 5, 7)), rng.integers(-9, 9, (3, 2, 4, 1))

    def want(x: Any, at: Any) -> Any:
        inside = np.clip(np.where(at < 0, at + 5, at), 0, 4)[..., 0]
        return np.array([[x[b, c][inside[b, c]] for c in range(2)] for b in range(3)])

    graph = jn.Graph(
        "g",
        [jn.TensorType(jn.int64, ("b", "c", "k", 7), "x"), jn.TensorType(jn.int64, ("b", "c", "m", 1), "at")],
    )
    graph.output(jn.gather_nd(*graph.inputs, batch_dims=2))
    for device in DEVICES:
        np.testing.assert_array_equal(jn.compile(graph, device=device, cache=False)(x, at), want(x, at))
    np.testing.assert_array_equal(jn.evaluate(graph, x, at), want(x, at))
    with pytest.raises(jn.UserError, match="empty"):
        jn.evaluate(graph, x[:, :, :0], at)


def test_scatter_nd_is_the_reverse_of_gather_nd() -> None:
    x = np.arange(35).reshape(5, 7)
    at = np.array([[0, 6], [4, 0], [-1, -1]])
    agree(
        lambda x, at: jn.gather_nd(jn.scatter_nd(x, np.array([-1, -2, -3]), at), at),
        lambda x, at: [-1, -2, -3],
        x,
        at,
        names=False,
    )


REFUSED: dict[str, tuple[Callable[[Any, Any], Any], str]] = {
    "side": (lambda x, n: jn.searchsorted(x[0], x, "middle"), "side is 'middle'"),
    "matrix": (lambda x, n: jn.searchsorted(x, x), "what is searched has 2 axes"),
    "sorter": (lambda x, n: jn.searchsorted(x[0], x, sorter=x), "the sorter is no vector of integers"),
    "counted floats": (lambda x, n: jn.bincount(x[0]), "bincount: float32 with 1 axes"),
    "weights": (lambda x, n: jn.bincount(n, x), "weights of another shape"),
    "bins": (lambda x, n: jn.histogram(x, 0), "histogram: 0 intervals"),
    "range": (lambda x, n: jn.histogram(x, 3, (1, 0)), r"range \(1, 0\)"),
    "edges": (lambda x, n: jn.histogram(x, x), "edges with 2 axes"),
    "edges and range": (lambda x, n: jn.histogram(x, x[0], (0, 1)), "a range beside edges"),
    "depth": (
        lambda x, n: jn.gather_nd(x, n),
        "tuples of 5 positions after 0 batch axes, the operand has 2 axes",
    ),
    "batch": (lambda x, n: jn.gather_nd(x, n, 1), "batch_dims 1, the indices have 1 axes"),
    "floats as positions": (lambda x, n: jn.gather_nd(x, x), "the indices must be integers"),
    "number": (lambda x, n: jn.linspace(x, 0, 1, -1), "-1 is negative"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_is_refused_names_a_fix(name: str) -> None:
    build, told = REFUSED[name]
    graph = jn.Graph("g", [jn.TensorType(jn.float32, (3, 5), "x"), jn.TensorType(jn.int32, (5,), "n")])
    with pytest.raises(jn.UserError, match=told) as caught:
        build(*graph.inputs)
    assert "fix" in str(caught.value) or "expected" in str(caught.value)

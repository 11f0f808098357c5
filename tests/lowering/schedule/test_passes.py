"""Kernels that would pass several times over what they reduce: how they are cut, and that results are NumPy's."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import joinery as jn
import numpy as np
import pytest

Make = Callable[..., Any]


def slow(x: Any) -> Any:
    """Ten times the work of a load."""
    return jn.tanh(x) if isinstance(x, jn.Symbol) else np.tanh(x)


def centred(axes: Any, function: Make = slow) -> tuple[Make, Make]:
    return (
        lambda x: (lambda y: y - jn.mean(y, axis=axes, keepdims=True))(function(x)),
        lambda x: (lambda y: y - y.mean(axis=axes, keepdims=True))(function(x)),
    )


def standardised(x: Any) -> Any:
    lib: Any = jn if isinstance(x, jn.Symbol) else np
    y = slow(x)
    d = y - lib.mean(y, axis=0)
    return d / lib.sqrt(lib.mean(d * d, axis=0) + 1e-3)


def narrow(x: Any) -> Any:
    lib: Any = jn if isinstance(x, jn.Symbol) else np
    return (x - lib.mean(x, axis=0)) / (jn.stdev(x, 0) if lib is jn else np.std(x, 0))


CASES: dict[str, tuple[tuple[int, ...], tuple[Make, Make], list[str]]] = {
    "down columns": ((300, 130), centred(0), ["row", "map"]),
    "down two axes": ((20, 30, 70), centred((0, 1)), ["row", "map"]),
    "down the middle": ((5, 200, 70), centred(1), ["row", "map"]),
    "three passes": ((200, 130), (standardised, standardised), ["row", "row"]),
    "little work": ((200, 130), centred(0, lambda x: x + 1), ["row"]),
    "whole rows": ((130, 300), centred(1), ["row"]),
    "few rows": ((12, 3000), centred(0), ["row"]),
    "narrow columns": ((6000, 50), centred(0, lambda x: x + 1), ["row", "map"]),
    "narrow columns, three passes": ((7001, 40), (narrow, narrow), ["row", "row", "map"]),
    "few narrow columns": ((500, 50), centred(0, lambda x: x + 1), ["row"]),
    "channels": ((16, 8, 100), centred((0, 2)), ["row"]),
    "channels of many images": ((60, 20, 1000), centred((0, 2), lambda x: x + 1), ["row", "map"]),
}


def run(make: Make, *arrays: np.ndarray, shapes: list[Any] | None = None, **options: Any) -> tuple[jn.Model, Any]:
    kinds = shapes or [array.shape for array in arrays]
    types = [jn.TensorType(array.dtype.name, kind, f"x{i}") for i, (array, kind) in enumerate(zip(arrays, kinds, strict=True))]
    graph = jn.Graph("g", inputs=types)
    found = make(*graph.inputs)
    graph.output(*(found if isinstance(found, tuple) else (found,)))
    model = jn.compile(graph, device="cpu", **options)
    return model, model(*arrays)


def drawn(shape: tuple[int, ...]) -> np.ndarray:
    return np.random.default_rng(7).standard_normal(shape, dtype=np.float32)


@pytest.mark.parametrize("name", CASES)
def test_kernels_and_values(name: str) -> None:
    shape, (ours, theirs), templates = CASES[name]
    x = drawn(shape)
    model, found = run(ours, x)
    np.testing.assert_allclose(found, theirs(x.astype(np.float64)), rtol=1e-4, atol=1e-4)
    assert [kernel.template for kernel in model.kernels] == templates


def test_depthwise_convolutions_are_stored_before_they_are_reduced() -> None:
    x, w = drawn((2, 20, 20, 24)), drawn((3, 3, 1, 24))
    for axes in ((1, 2), 1, 3):
        model, found = run(lambda x, w, axes=axes: jn.mean(jn.relu(jn.conv2d(x, w, padding=1, groups=24)), axis=axes), x, w)
        padded = np.pad(x, ((0, 0), (1, 1), (1, 1), (0, 0)))
        taps = [padded[:, i : i + 20, j : j + 20] * w[i, j, 0] for i in range(3) for j in range(3)]
        np.testing.assert_allclose(found, np.maximum(sum(taps), 0).mean(axis=axes), rtol=1e-4, atol=1e-5)
        assert [kernel.template for kernel in model.kernels] == ["map", "row"]


def test_filters_with_numbers_are_reduced_as_they_are_computed() -> None:
    x = drawn((30, 200))

    def smoothed(x: Any) -> Any:
        return sum(x[:, i : 180 + i] * (i + 1.0) for i in range(16))

    model, found = run(lambda x: jn.sum(smoothed(x), axis=1), x)
    np.testing.assert_allclose(found, smoothed(x.astype(np.float64)).sum(1), rtol=1e-3, atol=1e-2)
    assert len(model.kernels) == 1


def test_sizes_that_runs_decide() -> None:
    ours, theirs = centred(0)
    graph = jn.Graph("g", inputs=[jn.TensorType(jn.float32, ("m", "n"), "x")])
    graph.output(ours(graph.inputs[0]))
    model = jn.compile(graph, device="cpu")
    for shape in ((1, 1), (1, 300), (300, 1), (33, 17), (1000, 65), (5, 0)):
        x = drawn(shape)
        np.testing.assert_allclose(model(x), theirs(x), rtol=1e-4, atol=1e-5, err_msg=str(shape))
    assert model(drawn((0, 4))).shape == (0, 4)


@pytest.mark.parametrize("count", [2, 8, 20])
def test_chains_of_passes_take_a_kernel_each(count: int) -> None:
    """Not one that computes all of those before it in each of its passes."""
    x = drawn((100, 40))

    def chain(x: Any) -> Any:
        lib: Any = jn if isinstance(x, jn.Symbol) else np
        for _ in range(count):
            y = lib.tanh(lib.exp(lib.minimum(x, 1)))
            x = y - lib.mean(y, axis=0)
        return x

    model, found = run(chain, x)
    np.testing.assert_allclose(found, chain(x.astype(np.float64)), rtol=1e-3, atol=1e-4)
    assert len(model.kernels) == count + 1


def test_values_that_are_results_too() -> None:
    """One pass stores them and what they are reduced to; the next kernel reads them."""
    x = drawn((300, 130))
    x[5, 7], x[6, 8] = np.nan, np.inf
    model, (value, mean, rest) = run(lambda x: (lambda y, m: (y, m, y - m))(slow(x), jn.mean(slow(x), axis=0)), x)
    expected = np.tanh(x)
    np.testing.assert_allclose(value, expected, rtol=1e-6)
    np.testing.assert_allclose(mean, expected.mean(0), rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(rest, expected - expected.mean(0), rtol=1e-4, atol=1e-5)
    assert [kernel.template for kernel in model.kernels] == ["row", "map"]


def test_values_and_sums_of_many_images_have_kernels_of_their_own() -> None:
    x = drawn((60, 20, 1000))
    model, (value, total) = run(lambda x: (x * 3, jn.sum(x * 3, axis=(0, 2))), x)
    np.testing.assert_array_equal(value, x * 3)
    np.testing.assert_allclose(total, (x.astype(np.float64) * 3).sum((0, 2)), rtol=1e-4)
    assert sorted(kernel.template for kernel in model.kernels) == ["map", "row"]


@pytest.mark.parametrize("length", [2049, 20_000, 70_000])
def test_long_rows_that_are_stored_as_they_are_reduced(length: int) -> None:
    """In chunks: the first of them stores values, and the reductions of others need all."""
    x = drawn((3, length))
    _, (value, total, most) = run(lambda x: (x * 2, jn.sum(x * 2, axis=1), jn.max(x * 2, axis=1)), x, shapes=[(3, "n")])
    np.testing.assert_array_equal(value, x * 2)
    np.testing.assert_allclose(total, (x.astype(np.float64) * 2).sum(1), rtol=1e-4, atol=1e-2)
    np.testing.assert_array_equal(most, (x * 2).max(1))


def test_concatenations_of_values_that_are_reduced() -> None:
    x, z = drawn((200, 90)), drawn((40, 90))
    _, (joined, total) = run(lambda x, z: (lambda y: (jn.concat([y, z], axis=0), jn.sum(y, axis=0)))(slow(x)), x, z)
    np.testing.assert_allclose(joined, np.concatenate([np.tanh(x), z]), rtol=1e-6)
    np.testing.assert_allclose(total, np.tanh(x).sum(0), rtol=1e-4, atol=1e-4)


def test_on_the_simulated_gpu() -> None:
    x = drawn((40, 70))
    for ours, theirs in (centred(0), (standardised, standardised)):
        graph = jn.Graph("g", inputs=[jn.TensorType(jn.float32, x.shape, "x")])
        graph.output(ours(graph.inputs[0]))
        np.testing.assert_allclose(jn.compile(graph, device="ptxsim")(x), theirs(x), rtol=1e-3, atol=1e-4)


class TestPermutedOperands:
    """A product reads a permuted operand from where its elements are computed."""

    def test_appended_keys(self) -> None:
        k, new, q = drawn((12, 512, 64)), drawn((12, 1, 64)), drawn((12, 1, 64))
        model, found = run(lambda k, new, q: q @ jn.permute(jn.concat([k, new], axis=1), (0, 2, 1)), k, new, q)
        np.testing.assert_allclose(found, q @ np.concatenate([k, new], 1).transpose(0, 2, 1), rtol=1e-4, atol=1e-4)
        assert [kernel.template for kernel in model.kernels] == ["map", "map", "contract"]

    @pytest.mark.parametrize("target", [None, "x86-64-v3"])
    def test_computed_matrices(self, target: str | None) -> None:
        x, y, b = drawn((70, 130)), drawn((130, 50)), drawn((3, 70, 130))
        for make in (
            lambda lib, x, y, b: lib.tanh(y).T @ lib.tanh(x).T,
            lambda lib, x, y, b: (lib.tanh(x) + 1).T @ lib.exp(x),
            lambda lib, x, y, b: lib.tanh(b) @ moved(lib, lib.tanh(b), (0, 2, 1)),
            lambda lib, x, y, b: moved(lib, lib.tanh(b), (0, 2, 1)) @ x,
            lambda lib, x, y, b: lib.reshape(moved(lib, lib.tanh(b), (1, 0, 2)), (210, 130)) @ y,
            lambda lib, x, y, b: lib.tanh(x).T[10:40] @ lib.tanh(x),
        ):
            expected = make(np, *[each.astype(np.float64) for each in (x, y, b)])
            _, found = run(lambda *given, make=make: make(jn, *given), x, y, b, target=target)
            np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-4)


def moved(lib: Any, x: Any, axes: tuple[int, ...]) -> Any:
    return jn.permute(x, axes) if lib is jn else np.transpose(x, axes)

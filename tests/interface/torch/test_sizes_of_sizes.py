"""Sizes that are rounded fractions of others, and floats that sizes decide, are those of PyTorch, in both doors."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable
from typing import Any

import joinery as jn
import joinery.torch
import pytest

torch = pytest.importorskip("torch")
from torch.nn import functional as f  # noqa: E402

SHAPES = ((4, 8), (4, 9), (5, 7), (3, 16), (2, 5))


@pytest.fixture(autouse=True)
def _fresh() -> None:
    torch._dynamo.reset()
    torch.manual_seed(0)
    joinery.torch.report(clear=True)


EXACT: dict[str, Callable[[Any], Any]] = {
    "ceil": lambda x: x[:, : math.ceil(x.shape[1] / 2)] * 2,
    "int_of_a_third": lambda x: x[:, : int(x.shape[1] / 3)] * 2,
    "floor": lambda x: x[:, : math.floor(x.shape[1] * 0.5)] * 2,
    "power": lambda x: x * x.shape[1] ** 0.5,
    "one_and_a_half": lambda x: f.interpolate(x[:, None], scale_factor=1.5, mode="linear"),
    "half": lambda x: f.interpolate(x[:, None], scale_factor=0.5, mode="nearest"),
    "adaptive_mean": lambda x: f.adaptive_avg_pool2d(x[None, None], (3, 2)),
    "adaptive_maximum": lambda x: f.adaptive_max_pool2d(x[None, None], (3, 2), return_indices=True)[1],
    "median": lambda x: torch.where(x > 0.5, x, math.nan).nanmedian(1)[0],
    "diagonal": lambda x: torch.diagonal(x, -1),
}
OPAQUE: dict[str, Callable[[Any], Any]] = {
    "ceil_of_07": lambda x: (x[:, : math.ceil(x.shape[1] * 0.7)] ** 2).cumsum(1),
    "int_of_07": lambda x: x[:, : int(x.shape[1] * 0.7)] * 2,
    "rounded": lambda x: x[:, : round(x.shape[1] * 0.5)] * 2,
    "root": lambda x: x[:, : int(math.sqrt(x.shape[1]))] * 2,
    "interpolated": lambda x: f.interpolate(x[None, None].exp(), scale_factor=(1.7, 0.6), mode="bilinear"),
}


@pytest.mark.parametrize("name", [*EXACT, *OPAQUE])
def test_compiled_with_dynamic_sizes(name: str) -> None:
    function = {**EXACT, **OPAQUE}[name]
    compiled = torch.compile(function, backend="joinery", dynamic=True)
    for shape in SHAPES:
        x = torch.rand(shape) + 0.1
        mine, theirs = compiled(x), function(x)
        assert mine.stride() == theirs.stride()
        torch.testing.assert_close(mine, theirs, equal_nan=True)
    assert joinery.torch.report().share == 1
    assert not [graph.failure for graph in joinery.torch.report() if graph.failure]


@pytest.mark.parametrize("name", EXACT)
def test_exported_with_dynamic_sizes(name: str) -> None:
    class Model(torch.nn.Module):
        def forward(self, x: Any) -> Any:
            return EXACT[name](x)

    sizes = {0: torch.export.Dim.AUTO, 1: torch.export.Dim.AUTO}
    exported = torch.export.export(Model(), (torch.rand(4, 8),), dynamic_shapes=(sizes,))
    compiled, ran = jn.compile(jn.from_exported(exported), "cpu"), 0
    for shape in SHAPES:
        x = torch.rand(shape) + 0.1
        try:
            theirs = exported.module()(x)
        except AssertionError:  # a guard of the export
            continue
        ran += 1
        torch.testing.assert_close(torch.from_numpy(compiled(x.numpy())), theirs, equal_nan=True)
    assert ran > 1


@pytest.mark.parametrize("name", ["int_of_07", "interpolated", "power"])
def test_gradients_with_dynamic_sizes(name: str) -> None:
    function = {**EXACT, **OPAQUE}[name]
    compiled = torch.compile(function, backend="joinery", dynamic=True)
    for shape in SHAPES:
        x = torch.rand(shape) + 0.1
        mine, theirs = x.clone().requires_grad_(), x.clone().requires_grad_()
        compiled(mine).square().sum().backward()
        function(theirs).square().sum().backward()
        torch.testing.assert_close(mine.grad, theirs.grad)
    assert joinery.torch.report().share == 1


def test_a_size_that_has_no_form_is_refused_in_an_export() -> None:
    class Model(torch.nn.Module):
        def forward(self, x: Any) -> Any:
            return x[:, : math.ceil(x.shape[1] * 0.7)] * 2

    exported = torch.export.export(Model(), (torch.rand(4, 9),), dynamic_shapes=({1: torch.export.Dim.DYNAMIC},))
    with pytest.raises(joinery.UnsupportedError, match=r"Float in the size 0\.7"):
        jn.from_exported(exported)


def test_a_float_that_both_pytorch_and_parts_need() -> None:
    def function(x: Any) -> Any:
        return torch.special.bessel_j0(x) * (x.shape[1] / 2) + x * (x.shape[1] / 2)

    compiled = torch.compile(function, backend="joinery", dynamic=True)
    for shape in SHAPES:
        x = torch.rand(shape)
        torch.testing.assert_close(compiled(x), function(x))
    assert {name for graph in joinery.torch.report() for name in graph.eager} == {"aten.special_bessel_j0.default"}


def test_sizes_and_floats_that_a_graph_returns() -> None:
    def function(x: Any) -> Any:
        return x * (x.shape[0] / 3), x.shape[1] / 2, int(x.shape[1] * 0.7)

    compiled = torch.compile(function, backend="joinery", dynamic=True)
    for shape in SHAPES:
        x = torch.rand(shape)
        assert compiled(x)[1:] == function(x)[1:]
        torch.testing.assert_close(compiled(x)[0], function(x)[0])


@pytest.mark.parametrize("axis", [0, -3, 1, 2])
def test_scattering_into_an_axis_of_three_symbolic_ones(axis: int) -> None:
    def function(x: Any) -> Any:
        return torch.scatter(x, axis, torch.arange(60).reshape(3, 4, 5) % 3, -1) + 1

    fast = torch.compile(function, backend="joinery", dynamic=True)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for shape in ((5, 8, 7), (3, 4, 5), (30, 40, 50)):
            x = torch.randn(shape)
            torch.testing.assert_close(fast(x), function(x))

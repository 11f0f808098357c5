"""Models with complex numbers: rotations of positions, spectra, gradients, and what PyTorch keeps of them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import joinery as jn
import joinery.torch
import numpy as np
import pytest

torch = pytest.importorskip("torch")

SLOW = pytest.mark.slow


def compiled(function: Callable[..., Any], *inputs: Any) -> tuple[list[Any], Any]:
    torch._dynamo.reset()
    joinery.torch.report(clear=True)
    found = torch.compile(function, backend="joinery", fullgraph=True)(*inputs)
    return list(found) if isinstance(found, tuple) else [found], joinery.torch.report()


def assert_same(function: Callable[..., Any], *inputs: Any) -> None:
    """Assert that a function runs whole, and has eager PyTorch's values, dtypes and strides."""
    wanted = function(*[each.clone() for each in inputs])
    found, report = compiled(function, *inputs)
    for mine, theirs in zip(found, wanted if isinstance(wanted, tuple) else (wanted,), strict=True):
        torch.testing.assert_close(mine, theirs)
        assert mine.stride() == theirs.stride()
    assert report.share == 1


def rotated(x: Any, turns: Any) -> Any:
    pairs = torch.view_as_complex(x.float().reshape(*x.shape[:-1], -1, 2))
    return torch.view_as_real(pairs * turns).flatten(2).type_as(x)


TURNS = torch.polar(torch.ones(5, 4), torch.linspace(0, 3, 20).reshape(5, 4))


def test_rotations_by_complex_factors_run_whole() -> None:
    torch.manual_seed(0)
    assert_same(rotated, torch.randn(2, 5, 8).bfloat16(), TURNS)


@pytest.mark.parametrize("function", [
    lambda x: torch.fft.irfft(torch.fft.rfft(x, norm="ortho") * 2, n=10, norm="ortho"),
    pytest.param(lambda x: torch.fft.fft2(x).T, marks=SLOW),
    pytest.param(lambda x: torch.fft.hfft(torch.fft.ihfft(x)), marks=SLOW),
    pytest.param(lambda x: torch.stft(x, 8, 4, window=torch.hann_window(8), return_complex=True).abs(), marks=SLOW),
])  # fmt: skip
def test_spectra_run_whole(function: Callable[..., Any]) -> None:
    torch.manual_seed(0)
    assert_same(function, torch.randn(3, 10))


PARTS = [0.0, -0.0, 1.0, -2.5, float("inf"), -float("inf"), float("nan"), 3e38, 1e-30, 7e20]


def special(x: Any, y: Any) -> tuple[Any, ...]:
    return x / y, torch.reciprocal(x), torch.exp(y), torch.log(x)


def test_infinities_zeros_and_what_is_out_of_range() -> None:
    """Eager PyTorch's numbers, and its NaN. Errors are those of the absolute value: a part may cancel."""
    parts = torch.tensor(PARTS)
    each = torch.complex(*[part.reshape(-1) for part in torch.meshgrid(parts, parts, indexing="ij")])
    x, y = (part.reshape(-1) for part in torch.meshgrid(each, each, indexing="ij"))
    found, report = compiled(special, x, y)
    assert report.share == 1
    for mine, theirs in zip(found, special(x, y), strict=True):
        mine, theirs = torch.view_as_real(mine).double(), torch.view_as_real(theirs).double()
        size = theirs.norm(dim=-1, keepdim=True)
        size = torch.where(torch.isfinite(size) & (size > 0), size, 1.0)
        torch.testing.assert_close(mine / size, theirs / size, rtol=0, atol=1e-5, equal_nan=True)


def test_complex_tensors_enter_and_leave_with_their_strides() -> None:
    torch.manual_seed(0)
    z = torch.randn(4, 6, dtype=torch.complex64)
    assert_same(lambda z: (z.t() * 2, z[1:], (z.conj() * z / (z + 1j)).real), z)
    found, _ = compiled(lambda z: z * 2, z[:, ::2].conj())
    torch.testing.assert_close(found[0], z[:, ::2].conj() * 2)


def test_a_complex_tensor_is_written_in_place() -> None:
    torch.manual_seed(0)
    z = torch.randn(4, dtype=torch.complex64)
    wanted = z * 2 + 1
    joined, _ = compiled(lambda z: z.mul_(2).add_(1).abs(), z)
    torch.testing.assert_close(z, wanted)
    torch.testing.assert_close(joined[0], wanted.abs())


@SLOW
def test_gradients_flow_through_spectra() -> None:
    torch.manual_seed(0)
    x = torch.randn(3, 10, requires_grad=True)
    weight = torch.randn(3, 6, dtype=torch.complex64, requires_grad=True)

    def loss(x: Any, weight: Any) -> Any:
        return torch.fft.irfft(torch.fft.rfft(x) * weight, n=10).pow(2).sum()

    wanted = torch.autograd.grad(loss(x, weight), (x, weight))
    found, report = compiled(loss, x, weight)
    for mine, theirs in zip(torch.autograd.grad(found[0], (x, weight)), wanted, strict=True):
        torch.testing.assert_close(mine, theirs)
    assert report.share == 1


def test_what_pytorch_computes_keeps_the_complex_numbers_beside_it() -> None:
    torch.manual_seed(0)
    matrix = torch.randn(3, 3)
    found, report = compiled(lambda x: torch.linalg.eigvals(x @ x.T).abs().sort()[0] + 1, matrix)
    torch.testing.assert_close(found[0], torch.linalg.eigvals(matrix @ matrix.T).abs().sort()[0] + 1)
    (graph,) = report
    assert {entry.name for entry in graph.eager.values()} == {"aten.linalg_eig.default"}
    assert 0 < graph.compiled < graph.nodes


BETWEEN: dict[str, Callable[[Any], Any]] = {
    "one": lambda x: (x * x).sin().exp().abs(), "several": lambda x: ((y := x * x).sin() * 2j, y.exp(), y.t()),
    "views": lambda x: (x * 2).t().tan().t().exp(), "of an input": lambda x: (x.tan() * 2, x * 3),
    "across": lambda x: (x * 2 + 1) * torch.special.bessel_j0((x * 2).abs()) * x,
    "across twice": lambda x: ((y := x * 2) + torch.special.i0(y.real)) * torch.special.i0((y * torch.special.i0(y.imag)).real),
}  # fmt: skip


@pytest.mark.parametrize("dynamic", [None, True])
@pytest.mark.parametrize("has_gradient", [False, True])
@pytest.mark.parametrize("name", BETWEEN)
def test_parts_around_what_pytorch_computes_exchange_pairs(name: str, has_gradient: bool, dynamic: Any) -> None:
    def run(function: Callable[[Any], Any]) -> tuple[tuple[Any, ...], Any]:
        torch.manual_seed(0)
        x = (torch.randn(5, 4, dtype=torch.complex64) / 2).t().requires_grad_(has_gradient)
        found = function(x)
        found = found if isinstance(found, tuple) else (found,)
        return found, torch.autograd.grad(sum(each.abs().sum() for each in found), x) if has_gradient else None

    torch._dynamo.reset()
    joinery.torch.report(clear=True)
    function = BETWEEN[name]
    found, wanted = (run(each) for each in (torch.compile(function, backend="joinery", dynamic=dynamic), function))
    torch.testing.assert_close(found, wanted, rtol=1e-4, atol=1e-4)
    assert [each.stride() for each in found[0]] == [each.stride() for each in wanted[0]]
    known = ("sin", "cos", "tan", "bessel_j0", "bessel_j1", "i0", "i1")
    left = {name.split(".")[1].removeprefix("special_") for graph in joinery.torch.report() for name in graph.eager}
    assert left <= set(known)


def test_exported_models_have_pairs_for_complex_inputs_and_outputs() -> None:
    class Model(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.register_buffer("turns", TURNS)

        def forward(self, x: Any, z: Any) -> Any:
            return rotated(x, self.turns), torch.fft.rfft(x) * z

    x, z = torch.randn(2, 5, 8), torch.randn(5, dtype=torch.complex64)
    graph = jn.from_exported(torch.export.export(Model(), (x, z)))
    turned, spectrum = jn.evaluate(graph, x.numpy(), torch.view_as_real(z).numpy())
    wanted = Model()(x, z)
    np.testing.assert_allclose(turned, wanted[0].numpy(), rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(spectrum, torch.view_as_real(wanted[1]).numpy(), rtol=1e-5, atol=1e-5)


REAL = torch.arange(1.0, 5.0).reshape(2, 2)
MIXED: dict[str, Callable[[Any, Any], Any]] = {
    "copy": lambda z, r: z.clone().copy_(r), "row": lambda z, r: torch.select_scatter(z, r[0].to(z.dtype), 0, 1),
    "item": lambda z, r: torch.slice_scatter(z, r[:1], 0, 0, 1),
    "pad": lambda z, r: torch.nn.functional.pad(z, [1, 1], value=1.5),
    "choice": lambda z, r: torch.where(r > 2, z, r.double()), "number": lambda z, r: torch.where(r > 2, 2.0, z),
    "side by side": lambda z, r: torch.cat([z, r.double()]), "stack": lambda z, r: torch.stack([r, z]),
    "sum": lambda z, r: torch.sum(r, 0, dtype=torch.complex64), "mean": lambda z, r: torch.mean(r, 0, dtype=torch.complex64),
    "running sum": lambda z, r: torch.cumsum(r, 0, dtype=torch.complex64), "integers": lambda z, r: z.clone().copy_(r.long()),
}  # fmt: skip


@pytest.mark.parametrize("name", MIXED)
def test_real_numbers_among_complex_ones_have_no_imaginary_part(name: str) -> None:
    class Model(torch.nn.Module):
        def forward(self, z: Any, r: Any) -> Any:
            return MIXED[name](z, r)

    z = torch.complex(REAL - 3, REAL + 7)
    assert_same(MIXED[name], z, REAL)
    graph = jn.from_exported(torch.export.export(Model(), (z, REAL)))
    found = jn.evaluate(graph, torch.view_as_real(z).numpy(), REAL.numpy())
    np.testing.assert_allclose(found, torch.view_as_real(MIXED[name](z, REAL)).numpy())


@pytest.mark.parametrize("dtype", [torch.float32, torch.int8])
def test_real_numbers_are_written_into_a_complex_input(dtype: Any) -> None:
    def write(a: Any, b: Any) -> None:
        a.copy_(b)
        b.zero_()

    a, b = torch.complex(REAL, REAL), REAL.to(dtype, copy=True)
    compiled(write, a, b)
    torch.testing.assert_close(a, REAL.to(torch.complex64))
    assert not b.any()

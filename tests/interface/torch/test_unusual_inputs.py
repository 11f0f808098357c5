"""Inputs of every kind that PyTorch has give what eager PyTorch gives: compiled, or left to PyTorch, which is said once."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import joinery.torch
import pytest

torch = pytest.importorskip("torch")


@pytest.fixture(autouse=True)
def _fresh() -> None:
    torch._dynamo.reset()
    torch.manual_seed(0)
    joinery.torch.report(clear=True)


def compiled(function: Callable[..., Any], **options: Any) -> Callable[..., Any]:
    return torch.compile(function, backend="joinery", **options)  # type: ignore[no-any-return]


def share() -> float:
    return float(joinery.torch.report().share)


def test_tensors_of_another_device_are_left_to_pytorch_and_it_is_said_once() -> None:
    fast = compiled(lambda x: (x * 2 + 1).relu())
    x = torch.empty(3, 4, device="meta")
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        found = [fast(x) for _ in range(3)]
    assert {(each.device.type, each.shape) for each in found} == {("meta", (3, 4))}
    told = [str(each.message) for each in caught if str(each.message).startswith("joinery:")]
    assert len(told) == 1
    assert "is left to PyTorch" in told[0]
    assert "device meta" in told[0]


def test_tensors_with_gaps_and_in_other_orders_run_compiled() -> None:
    x = torch.randn(6, 8)
    fast = compiled(lambda a, b, c: (a + b.t().sum(), c * 2))
    given = (x[:, ::2], x[1:4].t(), x.t())
    for mine, theirs in zip(fast(*given), (given[0] + given[1].t().sum(), given[2] * 2), strict=True):
        torch.testing.assert_close(mine, theirs)
        assert mine.stride() == theirs.stride()
    assert share() == 1


def test_tensors_whose_elements_overlap() -> None:
    x = torch.randn(10)
    windows = x.as_strided((4, 3), (2, 1))
    torch.testing.assert_close(compiled(lambda w: w.exp().sum(1))(windows), windows.exp().sum(1))
    one = torch.randn(1, 3).expand(4, 3)
    torch.testing.assert_close(compiled(lambda w: w * 2)(one), one * 2)


def test_inputs_that_share_memory_and_are_written() -> None:
    def function(whole: Any, part: Any) -> Any:
        part.mul_(3)
        return whole + 1

    first = torch.arange(6.0)
    wanted_whole = first.clone()
    wanted = function(wanted_whole, wanted_whole[2:4])
    torch.testing.assert_close(compiled(function)(first, first[2:4]), wanted)
    torch.testing.assert_close(first, wanted_whole)


def test_inputs_that_need_gradients_and_are_no_leaves() -> None:
    leaf = torch.randn(4, requires_grad=True)
    fast = compiled(lambda x: (x.sin() * x).sum())
    (wanted,) = torch.autograd.grad(((leaf * 2).sin() * (leaf * 2)).sum(), leaf)
    (found,) = torch.autograd.grad(fast(leaf * 2), leaf)
    torch.testing.assert_close(found, wanted)
    with torch.no_grad():
        assert not fast(leaf).requires_grad


def test_sparse_tensors_are_left_to_pytorch() -> None:
    sparse = torch.eye(4).to_sparse()
    dense = torch.randn(4, 3)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = compiled(lambda s, d: torch.sparse.mm(s, d) + 1)(sparse, dense)
    torch.testing.assert_close(found, dense + 1)


@pytest.mark.filterwarnings("ignore")
def test_quantised_tensors_are_left_to_pytorch() -> None:
    x = torch.randn(4, 3)
    quantised = torch.quantize_per_tensor(x, 0.1, 0, torch.qint8)
    found = compiled(lambda q: q.dequantize() * 2)(quantised)
    torch.testing.assert_close(found, quantised.dequantize() * 2)


@pytest.mark.skipif(not hasattr(torch.Tensor, "refine_names"), reason="this version of PyTorch has no names of axes")
def test_tensors_whose_axes_have_names() -> None:
    plain = torch.randn(2, 3)
    named = plain.refine_names("rows", "columns")
    torch.testing.assert_close(compiled(lambda x: x.rename(None) * 2)(named), plain * 2)


class Logged(torch.Tensor):
    """A subclass that does what tensors do."""


def test_subclasses_stay_subclasses() -> None:
    x = torch.randn(3).as_subclass(Logged)
    found = compiled(lambda x: x.sin() + 1)(x)
    torch.testing.assert_close(found.as_subclass(torch.Tensor), x.as_subclass(torch.Tensor).sin() + 1)
    assert type(found) is type(x.sin() + 1)


@pytest.mark.parametrize("shape", [(0,), (0, 4), (3, 0)])
def test_tensors_without_elements(shape: tuple[int, ...]) -> None:
    def function(x: Any) -> Any:
        return x * 2, x.sum(0), x.flatten(), torch.cat([x, x])

    x = torch.empty(shape)
    for mine, theirs in zip(compiled(function)(x), function(x), strict=True):
        torch.testing.assert_close(mine, theirs)
    assert share() == 1


def test_an_unknown_operator_is_left_to_pytorch_and_reported_with_a_reason() -> None:
    fast = compiled(lambda x: torch.special.bessel_j0(x * 2) + 1)
    x = torch.rand(5)
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # one operator is no reason for a warning
        torch.testing.assert_close(fast(x), torch.special.bessel_j0(x * 2) + 1)
    (graph,) = joinery.torch.report()
    (entry,) = graph.eager.values()
    assert (entry.name, entry.nodes, entry.calls) == ("aten.special_bessel_j0.default", 1, 1)
    assert "not supported" in entry.reason
    assert graph.compiled == graph.nodes - 1


def test_writes_in_place_on_views() -> None:
    def function(x: Any) -> Any:
        base = x.clone()
        base[1:, ::2] += 1
        base.t()[0].mul_(2)
        base.view(-1)[3] = 7.0
        return base, base.diagonal()

    x = torch.randn(4, 4)
    for mine, theirs in zip(compiled(function)(x), function(x), strict=True):
        torch.testing.assert_close(mine, theirs)
    assert share() == 1


def test_a_part_that_fails_to_compile_is_run_by_pytorch_and_that_is_said_once(monkeypatch: pytest.MonkeyPatch) -> None:
    from joinery.interface.torch import backend

    def refuses(*arguments: Any, **options: Any) -> Any:
        raise joinery.UnsupportedError("compile: no code for this; fix: none")

    monkeypatch.setattr(backend, "compile_model", refuses)
    fast, x = compiled(lambda x: x.sin() * 2), torch.randn(3)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        for _ in range(3):
            torch.testing.assert_close(fast(x), x.sin() * 2)
    told = [str(each.message) for each in caught if str(each.message).startswith("joinery:")]
    assert told == ["joinery: a part of graph 0 is left to PyTorch: compile: no code for this; fix: none"]
    assert share() == 0


@pytest.mark.parametrize("name", ["adaptive 3", "adaptive 4", "area", "divisor", "plain"])
def test_infinities_stay_in_their_windows(name: str) -> None:
    functional = torch.nn.functional
    pool = {
        "adaptive 3": lambda x: functional.adaptive_avg_pool2d(x, 3),
        "adaptive 4": lambda x: functional.adaptive_avg_pool2d(x, 4),
        "area": lambda x: functional.interpolate(x, size=(4, 4), mode="area"), "plain": lambda x: functional.avg_pool2d(x, 2),
        "divisor": lambda x: functional.avg_pool2d(x, 2, divisor_override=3),
    }[name]  # fmt: skip
    x = torch.zeros(1, 1, 8, 8)
    x[0, 0, 0, 0], x[0, 0, 7, 7] = float("inf"), float("nan")
    compiled = torch.compile(pool, backend="joinery")
    torch.testing.assert_close(compiled(x), pool(x), equal_nan=True)
    gradients = []
    for run in (compiled, pool):
        given = torch.zeros(1, 1, 8, 8, requires_grad=True)
        result = run(given)
        direction = torch.ones_like(result)
        direction[0, 0, 0, 0] = float("inf")
        gradients += torch.autograd.grad(result, given, direction)
    torch.testing.assert_close(*gradients)


def test_numbers_beside_16_bit_floats_are_rounded_once() -> None:
    x = torch.randn(1000).bfloat16()
    for function in (lambda x: torch.add(x, 0.3, alpha=0.7), lambda x: torch.sub(x, torch.tensor(0.3), alpha=0.7)):
        exact = function(x.double()).bfloat16()
        assert torch.equal(torch.compile(function, backend="joinery")(x), exact)

"""What joinery fails at runs in PyTorch, as a part or as a whole graph, and is told of: no fault of ours reaches the user."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from typing import Any

import joinery as jn
import joinery.torch
import pytest
from joinery.promotion.errors import UserError

torch = pytest.importorskip("torch")
decompositions = pytest.importorskip("joinery.interface.torch.decompositions")
parts = pytest.importorskip("joinery.interface.torch.parts")
F = torch.nn.functional

PROBLEMS = [ValueError("today not"), UserError("a size does not fit; fix: another"), KeyError("trunc")]
DYNAMIC = pytest.mark.parametrize("dynamic", [None, True], ids=["static", "dynamic"])


@pytest.fixture(autouse=True)
def _fresh() -> Iterator[None]:
    torch._dynamo.reset()
    torch.manual_seed(0)
    joinery.torch.report(clear=True)
    with torch._dynamo.config.patch(capture_dynamic_output_shape_ops=True):
        yield


def told(run: Callable[[], Any]) -> tuple[Any, list[str]]:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        found = run()
    return found, [text for each in caught if (text := str(each.message)).startswith("joinery:")]


def listed(results: Any) -> tuple[Any, ...]:
    return results if isinstance(results, tuple) else (results,)


KERNEL = torch.randn(4, 3, 3, 3)
PROGRAMS: dict[str, tuple[Callable[[Any], Any], Any]] = {
    "one part": (lambda x: x.relu() + 1, torch.randn(3, 4)),
    "sizes": (lambda x: (torch.special.i0(x * 2).t() * x.shape[1], x[: int(x.shape[0] * 0.7)] + 1), torch.randn(5, 6)),
    "sizes of sizes": (lambda x: F.interpolate(F.conv2d(x, KERNEL), scale_factor=2, mode="bicubic"), torch.randn(1, 3, 7, 7)),
    "complex": (lambda x: torch.linalg.inv(x * 2) @ x[: x.shape[0] // 2 * 2] * 2j, torch.randn(4, 4)),
    "sizes of data": (lambda x: x[x > 0] * 2, torch.randn(6)),
    "random": (lambda x: (F.dropout(x * 2, 0.5) + 1) * (torch.rand_like(x) + 2), torch.randn(5, 6)),
}  # fmt: skip


@pytest.mark.filterwarnings("ignore:joinery:UserWarning")  # of the backward pass
@DYNAMIC
@pytest.mark.parametrize("has_gradient", [False, True], ids=["inference", "training"])
@pytest.mark.parametrize("name", PROGRAMS)
def test_a_part_whose_run_fails_runs_in_pytorch(
    name: str, has_gradient: bool, dynamic: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    def caller(self: Any, given: Any) -> Callable[..., Any]:
        def fail(*arguments: Any) -> Any:
            raise PROBLEMS[0]

        return fail

    monkeypatch.setattr(parts.CompiledPart, "caller", caller)
    function, x = PROGRAMS[name]
    mine, theirs = (x.clone().requires_grad_(has_gradient) for _ in range(2))
    fast = torch.compile(function, backend="joinery", dynamic=dynamic)
    told(lambda: fast(mine))
    torch.manual_seed(1)
    found, texts = told(lambda: listed(fast(mine)))
    assert not texts
    torch.manual_seed(1)
    wanted = listed(function(theirs))
    for one, two in zip(found, wanted, strict=True):
        torch.testing.assert_close(one, two)
        assert one.stride() == two.stride()
    if has_gradient:
        loss = [sum(each.abs().sum() for each in results) for results in (found, wanted)]
        pairs = zip(loss, (mine, theirs), strict=True)
        torch.testing.assert_close(*[torch.autograd.grad(total, each)[0] for total, each in pairs])
    assert "a compiled part, again: 0 nodes, " in str(joinery.torch.report())


def test_runs_that_fail_are_told_of_once(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*arguments: Any) -> Any:
        raise PROBLEMS[1]

    monkeypatch.setattr(parts.CompiledPart, "caller", lambda self, given: fail)
    fast = torch.compile(lambda x: x + 1, backend="joinery")
    _, texts = told(lambda: [fast(torch.ones(3)) for _ in range(3)])
    assert texts == ["joinery: a part of graph 0 is run by PyTorch: a size does not fit; fix: another"]
    assert "a compiled part, again: 0 nodes, 3 calls" in str(joinery.torch.report())


@DYNAMIC
@pytest.mark.parametrize("problem", PROBLEMS, ids=lambda problem: type(problem).__name__)
@pytest.mark.parametrize("name", ["compile_model", "Partitioner"])
def test_what_fails_while_it_is_compiled_runs_in_pytorch(
    name: str, problem: Exception, dynamic: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*arguments: Any, **options: Any) -> Any:
        raise problem

    def function(x: Any, state: Any) -> Any:
        y = F.dropout(x * x.shape[0], 0.5) + x[: x.shape[0] // 2 * 2] * state
        return y, state.mul_(0.5)

    monkeypatch.setattr(f"joinery.interface.torch.backend.{name}", fail)
    x, mine, theirs = torch.randn(4, 3), torch.ones(3), torch.ones(3)
    torch.manual_seed(1)
    found, texts = told(lambda: torch.compile(function, backend="joinery", dynamic=dynamic)(x, mine))
    torch.manual_seed(1)
    for one, two in zip((*found, mine), (*function(x, theirs), theirs), strict=True):
        torch.testing.assert_close(one, two)
    assert len(texts) >= 1
    assert all("is left to PyTorch" in text for text in texts)
    assert joinery.torch.report()[0].compiled == 0


@DYNAMIC
def test_checkpoints_with_random_numbers(dynamic: Any) -> None:
    layer = torch.nn.Sequential(torch.nn.Linear(8, 8), torch.nn.Dropout(0.5), torch.nn.Tanh())

    def loss(x: Any) -> Any:
        return torch.utils.checkpoint.checkpoint(layer, x * 2, use_reentrant=False).sum()

    def trained(function: Callable[[Any], Any]) -> tuple[Any, ...]:
        torch.manual_seed(3)
        total = function(x)
        return total, *torch.autograd.grad(total, (x, *layer.parameters()))

    x = torch.randn(4, 8, requires_grad=True)
    (found, texts), wanted = told(lambda: trained(torch.compile(loss, backend="joinery", dynamic=dynamic))), trained(loss)
    torch.testing.assert_close(found, wanted)
    assert not texts
    left = {entry for graph in joinery.torch.report() for entry in graph.eager}
    assert left == {"run_and_save_rng_state", "run_with_rng_state"}


def test_sizes_of_sizes_that_pytorch_makes_come_before_what_needs_them() -> None:
    def function(x: Any) -> Any:
        y = F.conv2d(x, KERNEL)
        up = F.interpolate(y, scale_factor=2, mode="bicubic")
        return up, F.adaptive_max_pool2d(y, 2), F.dropout(F.interpolate(y.relu(), scale_factor=2, mode="bicubic"), 0.5)

    fast = torch.compile(function, backend="joinery", dynamic=True)
    for size in (9, 11, 12):
        x = torch.randn(2, 3, size, size)
        torch.manual_seed(size)
        found, texts = told(lambda x=x: fast(x))
        torch.manual_seed(size)
        torch.testing.assert_close(found, function(x))
        assert not texts


@pytest.mark.parametrize("value", [2, 0.5, 1.5, -1.9])
def test_products_of_integers_with_a_float(value: float) -> None:
    class Model(torch.nn.Module):
        def forward(self, x: Any) -> Any:
            return torch.addcmul(x, x, x + 1, value=value)

    x = torch.arange(1, 5)
    found, texts = told(lambda: torch.compile(Model(), backend="joinery")(x))
    torch.testing.assert_close(found, Model()(x))
    assert not texts
    assert joinery.torch.report().share == 1
    assert jn.evaluate(jn.from_exported(torch.export.export(Model(), (x,))), x.numpy()).tolist() == Model()(x).tolist()


def test_a_decomposition_that_raises_leaves_the_operator_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*arguments: Any, **options: Any) -> Any:
        raise ValueError("not with these")

    table = decompositions._core_decompositions()
    monkeypatch.setattr(decompositions, "_core_decompositions", lambda: {**table, torch.ops.aten.logit.default: fail})
    x = torch.rand(5)
    torch.testing.assert_close(torch.compile(lambda x: x.logit() * 2, backend="joinery")(x), x.logit() * 2)

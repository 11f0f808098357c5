"""Branches, loops and sizes that data decides run in joinery through both doors, with what they capture."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import joinery as jn
import numpy as np
import pytest

torch = pytest.importorskip("torch")

import joinery.torch  # noqa: E402
from torch import nn  # noqa: E402
from torch._higher_order_ops.map import map as mapped  # noqa: E402
from torch._higher_order_ops.scan import scan  # noqa: E402
from torch._higher_order_ops.while_loop import while_loop  # noqa: E402
from torch.utils import _pytree  # noqa: E402


@pytest.fixture(autouse=True)
def fresh() -> Iterator[None]:
    torch._dynamo.reset()
    torch.manual_seed(0)
    joinery.torch.report(clear=True)
    with torch.no_grad():
        yield


class Branch(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(4, 4)

    def forward(self, x: Any) -> Any:
        return torch.cond(x.sum() > 0, lambda x: self.layer(x).sin(), lambda x: torch.softmax(x, -1), (x,)) + 1


class ByLength(nn.Module):
    def forward(self, x: Any) -> Any:
        return torch.cond(x.shape[0] > 4, lambda x: x + 1, lambda x: x - 1, (x,))


class Loop(nn.Module):
    def forward(self, x: Any) -> Any:
        def step(number: Any, x: Any) -> Any:
            return number + 1, x * 2 + number.float()

        return while_loop(lambda number, x: number < 5, step, (torch.zeros((), dtype=torch.int64), x))


class Scan(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.randn(4, 4))

    def forward(self, x: Any) -> Any:
        def step(state: Any, row: Any) -> Any:
            after = torch.tanh(state @ self.weight + row)
            return after, after * 2

        return scan(step, torch.zeros(4), x)


class Map(nn.Module):
    def forward(self, x: Any) -> Any:
        return mapped(lambda row, scale: (row * scale).cumsum(0), x, x.mean(0))


class Selected(nn.Module):
    def forward(self, x: Any) -> Any:
        return x[x > 0] * 2, torch.nonzero(x > 1), torch.unique(x.round()), x.masked_select(x < 0).sum()


MODULES: dict[str, tuple[nn.Module, Any]] = {
    "branch": (Branch(), None), "by length": (ByLength(), ({0: torch.export.Dim.DYNAMIC},)), "loop": (Loop(), None),
    "scan": (Scan(), None), "map": (Map(), None), "selected": (Selected(), None),
}  # fmt: skip


QUICK = ("by length", "loop", "selected")
NAMES = [name if name in QUICK else pytest.param(name, marks=pytest.mark.slow) for name in MODULES]


@pytest.mark.parametrize("name", NAMES)
def test_both_doors_give_what_torch_gives(name: str) -> None:
    module, dynamic = MODULES[name]
    x = torch.randn(3, 4)
    runs = [x, -x, *([torch.randn(7, 4)] if dynamic else [])]
    model = jn.compile(jn.from_exported(torch.export.export(module, (x,), dynamic_shapes=dynamic)), "cpu")
    with torch._dynamo.config.patch(capture_dynamic_output_shape_ops=True):
        run = torch.compile(module, backend="joinery", fullgraph=True, dynamic=True if dynamic else None)
        for given in runs:
            wanted = _pytree.tree_leaves(module(given))
            torch.testing.assert_close(_pytree.tree_leaves(run(given)), wanted)
            found = model(given.numpy())
            for mine, theirs in zip(found if isinstance(found, tuple) else (found,), wanted, strict=True):
                np.testing.assert_allclose(mine, theirs.numpy(), rtol=1e-5, atol=1e-6)
    assert joinery.torch.report().share == 1
    assert [graph.failure for graph in joinery.torch.report() if graph.failure] == []


@pytest.mark.slow
def test_gradients_run_through_branches() -> None:
    module, x = Branch(), torch.randn(3, 4)

    def gradient(run: Any, given: Any) -> Any:
        value = given.clone().requires_grad_()
        with torch.enable_grad():
            run(value).square().sum().backward()
        return value.grad

    run = torch.compile(module, backend="joinery", fullgraph=True)
    for given in (x.abs(), -x.abs()):
        torch.testing.assert_close(gradient(run, given), gradient(module, given))
    assert [graph.failure for graph in joinery.torch.report() if graph.failure] == []


def test_a_size_that_data_decides_crosses_what_torch_runs() -> None:
    def function(x: Any) -> Any:
        return torch.special.bessel_j0(x[x > 0]) + 1

    with torch._dynamo.config.patch(capture_dynamic_output_shape_ops=True):
        run = torch.compile(function, backend="joinery", fullgraph=True)
        for x in (torch.randn(20), torch.randn(20), -torch.ones(20)):
            torch.testing.assert_close(run(x), function(x))
    (graph,) = joinery.torch.report()
    assert list(graph.eager) == ["aten.special_bessel_j0.default"]


def test_a_number_that_may_be_negative_is_no_size_of_an_export() -> None:
    class Net(nn.Module):
        def forward(self, x: Any) -> Any:
            return x + x.sum().item() * 2

    exported = torch.export.export(Net(), (torch.tensor([1, 2]),))
    with pytest.raises(jn.UnsupportedError, match="the size u0 is decided by data"):
        jn.from_exported(exported)


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["LSTM", "GRU", "RNN"])
def test_recurrent_networks_are_loops(kind: str) -> None:
    module = getattr(nn, kind)(5, 6, num_layers=2, bidirectional=True, batch_first=True).eval()
    x = torch.randn(3, 7, 5)
    graph = jn.from_exported(torch.export.export(module, (x,)))
    assert sum(symbol.op.name == "loop" for symbol in graph.symbols) == 4
    for mine, theirs in zip(jn.compile(graph, "cpu")(x.numpy()), _pytree.tree_leaves(module(x)), strict=True):
        np.testing.assert_allclose(mine, theirs.numpy(), rtol=1e-5, atol=1e-6)

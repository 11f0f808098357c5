"""Sizes and numbers that data decides, compiled and exported, and ranges of sizes."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import joinery as jn
import joinery.torch
import numpy as np
import pytest

torch = pytest.importorskip("torch")

from torch.export import Dim  # noqa: E402


@pytest.fixture(autouse=True)
def _captured() -> Iterator[None]:
    torch._dynamo.reset()
    with torch._dynamo.config.patch(capture_scalar_outputs=True, capture_dynamic_output_shape_ops=True):
        yield


class First(torch.nn.Module):
    def forward(self, x: Any, counts: Any) -> Any:
        count = counts.sum().item()
        torch._check(count >= 0)
        torch._check(count <= x.shape[0])
        return (x[:count] * 2).sum(0) + x.exp(), torch.ones(count + 1).cumsum(0)


class Scaled(torch.nn.Module):
    def forward(self, x: Any) -> Any:
        return x.sin() * x.max().item() + 1


class Counted(torch.nn.Module):
    def forward(self, x: Any, n: Any) -> Any:
        return torch.bincount(n, minlength=3), torch.unique_consecutive(n), torch.repeat_interleave(x, n, dim=0) * 2


class Runs(torch.nn.Module):
    def forward(self, n: Any) -> Any:
        return torch.unique_consecutive(n, return_inverse=True, return_counts=True)


X = torch.arange(15.0).reshape(5, 3) / 7


def ints(*numbers: int) -> Any:
    return torch.tensor(numbers)


CASES: list[tuple[torch.nn.Module, list[tuple[Any, ...]]]] = [
    (First(), [(X, ints(1, 1)), (X, ints(3, 1)), (X, ints(0, 0))]),
    (Scaled(), [(X,), (-X,)]),
    (Counted(), [(X, ints(1, 1, 0, 4, 0)), (X, ints(0, 0, 0, 0, 0))]),
    (Runs(), [(ints(2, 2, 5, 5, 5, 2),), (ints(1, 1, 1, 1, 1, 1),)]),
]


def assert_all_same(found: Any, wanted: Any) -> None:
    pairs = zip(found, wanted, strict=True) if isinstance(wanted, tuple) else ((found, wanted),)
    for mine, theirs in pairs:
        torch.testing.assert_close(torch.as_tensor(mine), theirs)


@pytest.mark.parametrize(("module", "inputs"), CASES, ids=lambda case: type(case).__name__)
def test_exported_models_have_sizes_and_numbers_from_data(module: Any, inputs: list[tuple[Any, ...]]) -> None:
    model = jn.compile(jn.from_exported(torch.export.export(module, inputs[0])), "cpu", cache=False)
    for given in inputs:
        assert_all_same(model(*[each.numpy() for each in given]), module(*given))


@pytest.mark.slow
@pytest.mark.parametrize(("module", "inputs"), CASES, ids=lambda case: type(case).__name__)
def test_compiled_models_have_sizes_and_numbers_from_data(module: Any, inputs: list[tuple[Any, ...]]) -> None:
    fast = torch.compile(module, backend="joinery", fullgraph=True)
    joinery.torch.report(clear=True)
    for given in inputs:
        assert_all_same(fast(*given), module(*given))
    left = {entry.name for graph in joinery.torch.report() for entry in graph.eager.values()}
    assert left <= {"aten._local_scalar_dense.default"}


def test_a_number_that_is_a_size_is_read_by_pytorch_and_the_rest_compiled() -> None:
    def function(count: Any) -> Any:
        size = count.item()
        torch._check(size >= 0)
        return torch.arange(size, dtype=torch.float32) * 2

    joinery.torch.report(clear=True)
    fast = torch.compile(function, backend="joinery", fullgraph=True)
    for number in (4, 9):
        assert_all_same(fast(torch.tensor(number)), function(torch.tensor(number)))
    (graph, *_) = joinery.torch.report()
    assert {entry.name: entry.reason for entry in graph.eager.values()} == {
        "aten._local_scalar_dense.default": "it decides a size"
    }
    assert graph.compiled == graph.nodes - 1


def test_a_number_that_may_be_negative_is_no_size() -> None:
    fast = torch.compile(lambda n, x: x + n.item(), backend="joinery", fullgraph=True)
    assert_all_same(fast(torch.tensor(-3), X), X - 3)

    class Sized(torch.nn.Module):
        def forward(self, x: Any, n: Any) -> Any:
            return x + n.item() * 2

    with pytest.raises(jn.UnsupportedError, match="the size u0 is decided by data"):
        jn.from_exported(torch.export.export(Sized(), (X, torch.tensor(-3))))


def test_packed_sequences_break_the_graph_and_are_right() -> None:
    torch.manual_seed(0)
    layer = torch.nn.GRU(3, 4, batch_first=True)
    x, lengths = torch.randn(2, 5, 3), torch.tensor([5, 2])

    def function(x: Any, lengths: Any) -> Any:
        packed = torch.nn.utils.rnn.pack_padded_sequence(x * 2, lengths, batch_first=True)
        return torch.nn.utils.rnn.pad_packed_sequence(layer(packed)[0], batch_first=True)[0] + 1

    with torch.no_grad():
        assert_all_same(torch.compile(function, backend="joinery")(x, lengths), function(x, lengths))


# -- ranges and relations of sizes -------------------------------------------------------------------------------------


def exported(function: Callable[..., Any], *inputs: Any, sizes: Any) -> jn.Model:
    class Module(torch.nn.Module):
        def forward(self, *given: Any) -> Any:
            return function(*given)

    program = torch.export.export(Module(), inputs, dynamic_shapes=(sizes,))
    return jn.compile(jn.from_exported(program), "cpu", cache=False)


def test_sizes_that_are_divisible() -> None:
    model = exported(lambda x: x.reshape(-1, 4).sum(1), torch.ones(8), sizes=({0: 4 * Dim("quarters", min=1, max=10)},))
    for size in (8, 12, 40):
        np.testing.assert_array_equal(model(np.ones(size, np.float32)), np.full(size // 4, 4.0))
    for size in (4, 6, 44):  # PyTorch refuses 4 as well
        with pytest.raises(jn.UserError, match=r"the size|4\*"):
            model(np.ones(size, np.float32))


def test_sizes_that_depend_on_each_other() -> None:
    size = Dim("n", min=2, max=20)
    model = exported(lambda x, y: x[1:] + y, torch.ones(5), torch.ones(4), sizes=({0: size}, {0: size - 1}))
    np.testing.assert_array_equal(model(np.ones(9, np.float32), np.ones(8, np.float32)), np.full(8, 2.0))
    with pytest.raises(jn.UserError):
        model(np.ones(9, np.float32), np.ones(7, np.float32))


def test_sizes_of_zero_and_one_are_in_their_range_or_refused() -> None:
    def function(x: Any) -> Any:
        return x.sum(0), torch.cat([x, x[:1]]), x.softmax(0)

    model = exported(function, torch.ones(5, 2), sizes=({0: Dim("rows", min=1)},))
    one = np.arange(2, dtype=np.float32).reshape(1, 2)
    assert_all_same(model(one), function(torch.from_numpy(one)))
    with pytest.raises(jn.UserError, match="must be at least"):
        model(np.ones((0, 2), np.float32))


@pytest.mark.parametrize("sizes", [(5, 1, 0, 6)])
def test_compiled_graphs_serve_sizes_of_zero_and_one(sizes: tuple[int, ...]) -> None:
    fast = torch.compile(lambda x: (x.sum(0), x.t() * 2, x.relu()), backend="joinery", dynamic=True)
    for size in sizes:
        x = torch.randn(size, 3)
        assert_all_same(fast(x), (x.sum(0), x.t() * 2, x.relu()))


@pytest.mark.parametrize("dim", [None, 0])
def test_parts_of_unique_whose_sizes_another_part_decides(dim: int | None) -> None:
    class Model(torch.nn.Module):
        def forward(self, x: Any) -> Any:
            return torch.unique(x, return_inverse=True, return_counts=True, dim=dim)

    x = torch.tensor([3, 1, 2, 3, 1])
    graph = jn.from_exported(torch.export.export(Model(), (x,)))
    for found in (jn.evaluate(graph, x.numpy()), jn.compile(graph)(x.numpy())):
        for one, two in zip(found, Model()(x), strict=True):
            np.testing.assert_array_equal(one, two.numpy())


# -- assertions about numbers that data decides ------------------------------------------------------------------------


class Sized(torch.nn.Module):
    def forward(self, x: Any) -> Any:
        count = x.sum().item()
        torch._check(count >= 0)
        torch._check(count < 50)
        return torch.zeros(count, 2) + 1


class Quotient(torch.nn.Module):
    def forward(self, x: Any) -> Any:
        count = x.sum().item()
        torch._check(count != 3)
        torch._check(count > -5, lambda: "more than -5")
        return torch.ones(2) / count


@pytest.mark.parametrize(("module", "good", "bad"), [
    (Sized(), [[3, 4], [0, 0], [40, 9]], [[40, 20], [-4, 2]]), (Quotient(), [[3, 4], [-4, 2]], [[1, 2], [-4, -4]]),
])  # fmt: skip
def test_runs_check_what_the_model_asserts_of_numbers(module: Any, good: list[Any], bad: list[Any], tmp_path: Any) -> None:
    model = jn.compile(jn.from_exported(torch.export.export(module, (torch.tensor([1, 3]),))), "cpu")
    model.save(tmp_path / "m.joinery")
    for run in (model, jn.load(tmp_path / "m.joinery")):
        for values in good:
            wanted = module(torch.tensor(values)).numpy()
            np.testing.assert_allclose(run(np.array(values)), wanted, rtol=1e-6)
        for values in bad:
            with pytest.raises(jn.UserError, match="assertion"):
                run(np.array(values))

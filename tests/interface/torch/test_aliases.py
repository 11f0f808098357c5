"""Graphs write to inputs after all reads, and results share memory and have strides as in eager PyTorch."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import joinery.torch
import pytest

torch = pytest.importorskip("torch")
backend = pytest.importorskip("joinery.interface.torch.backend")
FakeTensorProp = pytest.importorskip("torch.fx.passes.fake_tensor_prop").FakeTensorProp

COMPLEX = torch.complex64
BOTH = pytest.mark.parametrize("dtype", [torch.float32, COMPLEX], ids=["real", "complex"])
SIZES = pytest.mark.parametrize("dynamic", [None, True], ids=["static", "dynamic"])


def listed(results: Any) -> list[Any]:
    return [] if results is None else list(results) if isinstance(results, (tuple, list)) else [results]


def address(tensor: Any) -> int:
    return int(tensor.untyped_storage().data_ptr())


def assert_same(function: Callable[..., Any], make: Callable[[], tuple[Any, ...]], **options: Any) -> None:
    """Assert that results, what is written, strides, and what shares memory with what are those of eager PyTorch."""
    torch._dynamo.reset()
    theirs, mine = make(), make()
    torch.manual_seed(0)
    wanted = listed(function(*theirs))
    torch.manual_seed(0)
    found = listed(torch.compile(function, backend="joinery", **options)(*mine))
    assert len(found) == len(wanted)
    for one, two in zip((*found, *mine), (*wanted, *theirs), strict=True):
        torch.testing.assert_close(one, two)
        assert (one.stride(), one.storage_offset()) == (two.stride(), two.storage_offset())
        assert one.is_conj() == two.is_conj()
    for one, two in zip(found, wanted, strict=True):
        shared = [address(one) == address(each) for each in (*mine, *found)]
        assert shared == [address(two) == address(each) for each in (*theirs, *wanted)]


# -- writes ------------------------------------------------------------------------------------------------------------


def square(start: float, dtype: Any) -> Any:
    return (torch.arange(4.0).reshape(2, 2) + start).to(dtype)


def average(state: Any, x: Any) -> Any:
    y = torch.nn.functional.dropout(x, 0.5, training=True) * state
    return y, state.mul_(0.9)


def reset(state: Any, x: Any) -> Any:
    y = torch.special.bessel_j0(x) * state
    return state.zero_(), y


def cached(cache: Any, x: Any) -> Any:
    y = torch.linalg.inv(x + 9 * torch.eye(2)) @ cache
    return cache.add_(1), y, cache


@SIZES
@pytest.mark.parametrize("function", [average, reset, cached])
def test_returned_inputs_are_written_after_operators_of_pytorch_have_let_others_read_them(function: Any, dynamic: Any) -> None:
    with torch.no_grad():
        assert_same(function, lambda: (square(1, torch.float32), square(5, torch.float32)), dynamic=dynamic)


def test_buffers_that_are_written_and_returned() -> None:
    class Model(torch.nn.Module):  # type: ignore[misc, name-defined]
        def __init__(self) -> None:
            super().__init__()
            self.register_buffer("last", torch.ones(4))

        def forward(self, x: Any) -> Any:
            y = torch.nn.functional.dropout(x, 0.5) + self.last
            return y, self.last.copy_(x[0])

    def run(is_compiled: bool) -> tuple[Any, ...]:
        model = Model().train()
        torch.manual_seed(0)
        torch._dynamo.reset()
        with torch.no_grad():
            fast = torch.compile(model, backend="joinery") if is_compiled else model
            results = fast(torch.arange(8.0).reshape(2, 4))
        assert results[1] is model.last
        return (*results, model.last)

    for one, two in zip(run(True), run(False), strict=True):
        assert torch.equal(one, two)


def test_the_result_of_a_write_costs_no_step_of_pytorch() -> None:
    joinery.torch.report(clear=True)
    assert_same(lambda x: x.add_(1), lambda: (square(0, torch.float32),))
    assert joinery.torch.report().share == 1


def taken_before(b: Any, a: Any) -> Any:
    turned = b.t()
    a.copy_(turned)
    b.add_(1)


def taken_after(b: Any, a: Any) -> Any:
    turned = b.t()
    b.add_(1)
    a.copy_(turned)
    return a, b, turned


def exchanged(a: Any, b: Any) -> Any:
    t = a.clone()
    a.copy_(b.t())
    b.copy_(t.t())
    return b.mul_(2), a.mul_(3)


def exchanged_rows(a: Any, b: Any) -> Any:
    t = a.t().clone()
    a.copy_(b.t())
    b.copy_(t)
    return b[0], a


def turned(a: Any, b: Any) -> Any:
    a.copy_(a.t().clone())
    return a


@BOTH
@SIZES
@pytest.mark.parametrize("function", [taken_before, taken_after, exchanged, exchanged_rows, turned])
def test_inputs_that_are_written_from_each_other(function: Any, dtype: Any, dynamic: Any) -> None:
    assert_same(function, lambda: (square(0, dtype), square(9, dtype)), dynamic=dynamic)


def test_a_value_that_is_a_view_of_what_is_written_first_is_read_before() -> None:
    graph = torch.fx.Graph()
    a, b = graph.placeholder("a"), graph.placeholder("b")
    aten = torch.ops.aten
    double = graph.call_function(aten.mul.Tensor, (a, 2))
    turned = graph.call_function(aten.t.default, (a,))
    first = graph.call_function(aten.copy_.default, (a, double))
    second = graph.call_function(aten.copy_.default, (b, turned))
    after = graph.call_function(aten.add.Tensor, (first, 1))
    graph.output((second, after))
    module = torch.fx.GraphModule(torch.nn.Module(), graph)
    given = [square(0, torch.float32), square(9, torch.float32)]
    with torch._subclasses.FakeTensorMode() as mode:
        FakeTensorProp(module, mode).propagate(*given)
    results = backend._compiled("inference", backend.Options(), module, given)([*given])
    start = square(0, torch.float32)
    for found, wanted in zip((*results, *given), (start.t(), start * 2 + 1, start * 2, start.t()), strict=True):
        torch.testing.assert_close(found, wanted)
    assert results[0] is given[1]


# -- complex numbers ---------------------------------------------------------------------------------------------------


def numbers(*shape: int) -> Any:
    return torch.complex(torch.arange(float(torch.Size(shape).numel())), torch.ones(())).reshape(shape)


VIEWS: dict[str, Callable[..., Any]] = {
    "chunk": lambda x: x.chunk(2, 1)[-1], "split": lambda x: x.split(2, 1)[1], "rows": lambda x: x.unbind(0)[1],
    "slice": lambda x: x[1:], "diagonal": lambda x: x.diagonal(1), "chunk of t": lambda x: x.t().chunk(2, 0)[1],
    "both": lambda x: x.chunk(2, 1), "conjugate": lambda x: x.conj()[1:], "pairs": lambda x: torch.view_as_real(x)[1:],
    "real": lambda x: x.real, "imaginary": lambda x: x[1:].imag, "and a use": lambda x: (x[1:], x[1:] * 2j),
    "of a use": lambda x: (y := x * 2j, y[0], y.real), "beside it": lambda x: (x[:, ::2], (x + 1).t(), x.abs()),
}  # fmt: skip


@SIZES
@pytest.mark.parametrize("mode", ["plain", "gradient", "inference"])
@pytest.mark.parametrize("name", VIEWS)
def test_views_of_complex_tensors(name: str, mode: str, dynamic: Any) -> None:
    def make() -> tuple[Any]:
        return (torch.cat([numbers(2, 4), numbers(2, 4) + 100])[2:].requires_grad_(mode == "gradient"),)

    with torch.inference_mode(mode == "inference"):
        assert_same(VIEWS[name], make, dynamic=dynamic)


@pytest.mark.parametrize("function", [
    lambda x: x * 2j, lambda x: x.exp(), lambda x: x - x, lambda x: x.tan(), lambda x: (x * 2).transpose(0, 2),
    lambda x: (y := x * 2, y[0]), lambda x: (y := x.tan(), y[0], y * 2), lambda x: (y := x.tan() * 2, y.real),
])  # fmt: skip
@pytest.mark.parametrize("has_gradient", [False, True])
def test_complex_results_have_the_strides_of_eager(function: Callable[..., Any], has_gradient: bool) -> None:
    def make() -> tuple[Any]:
        return (numbers(2, 3, 4).permute(2, 0, 1).requires_grad_(has_gradient),)

    assert_same(function, make)


# -- views of inputs that are written to -------------------------------------------------------------------------------


def _cache(x: Any) -> Any:
    x[:, 1:3] = x[:, :2] + 1
    return x[:, :3]


def _halves(x: Any) -> Any:
    x[:, x.shape[1] // 2 :].zero_()
    return x[:, x.shape[1] // 2 :]


def _doubled(x: Any) -> Any:
    x.mul_(2)
    return x, x[1:], x.t()


def _copied(x: Any) -> Any:
    y = x * 2
    x.copy_(y)
    return y[1:], x[1:], y


def _twice(x: Any) -> Any:
    x.copy_(x.exp())
    y = x[1:]
    y.add_(1)
    return y, x[0]


@pytest.mark.parametrize("dynamic", [False, True])
@pytest.mark.parametrize("function", [_cache, _halves, _doubled, _copied, _twice])
def test_views_of_written_inputs_share_their_memory(function: Any, dynamic: bool) -> None:
    """Of an input that begins somewhere in its storage, as a layer of a cache does."""
    seen = []
    for run in (function, torch.compile(function, backend="joinery", dynamic=dynamic)):
        storage = torch.arange(64.0).view(4, 4, 4) / 10
        found = run(storage[1])
        results = found if isinstance(found, tuple) else (found,)
        values = [each.clone() for each in results]
        laid = [(each.storage_offset(), each.stride()) for each in results]
        storage.add_(100)
        follow = [not torch.equal(*pair) for pair in zip(values, results, strict=True)]
        results[0].add_(1000)
        seen.append((values, laid, follow, int((storage > 900).sum())))
    (values, *rest), (own, *own_rest) = seen
    torch.testing.assert_close(own, values, rtol=1e-6, atol=1e-6)
    assert own_rest == rest


VIEWS_BY_STRIDES = {
    "of an input": lambda x: x.as_strided((3,), (2,)) * 1,
    "of an input, with an offset": lambda x: x.as_strided((3,), (2,), 3) * 1,
    "of a view": lambda x: x[1:].t().as_strided((3,), (2,)) * 1,
    "of a result": lambda x: (x + 1).t().as_strided((3,), (2,), 4) * 1,
    "of a view of a result": lambda x: (x + 1)[1:].as_strided((2, 2), (2, 1)) * 1,
}


@pytest.mark.parametrize("dynamic", [False, True])
@pytest.mark.parametrize("case", VIEWS_BY_STRIDES)
def test_views_by_strides_begin_where_their_base_does(case: str, dynamic: bool) -> None:
    function, memory = VIEWS_BY_STRIDES[case], torch.arange(60.0)
    compiled = torch.compile(function, backend="joinery", dynamic=dynamic)
    for offset in (0, 5, 20):
        whole = memory[offset : offset + 36].view(6, 6)
        for x in (whole, whole[:3, :3]):
            assert torch.equal(compiled(x), function(x))


@pytest.mark.parametrize("dynamic", [False, True])
def test_complex_results_and_views_of_them_with_gradients(dynamic: bool) -> None:
    def function(x: Any) -> Any:
        value = torch.complex(x, x * 2)
        return value, value.flatten()

    x = torch.randn(4, 3, requires_grad=True)
    found, wanted = torch.compile(function, backend="joinery", dynamic=dynamic)(x), function(x)
    torch.testing.assert_close(found, wanted)
    assert found[0].data_ptr() == found[1].data_ptr()
    gradients = [torch.autograd.grad(each[1].abs().sum(), x)[0] for each in (found, wanted)]
    torch.testing.assert_close(*gradients)

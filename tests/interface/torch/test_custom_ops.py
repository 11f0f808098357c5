"""Operators made of block kernels: in eager mode, compiled, exported, with gradients; and kernels of Triton in models."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import joinery as jn
import pytest

torch = pytest.importorskip("torch")

import joinery.torch  # noqa: E402

AXPBY = """
__global__ void axpby(TYPE *z, TYPE *x, TYPE *y, float a, float b, int n) {
  int i[64] = get_program_id(0) * 64 + 0 ... 64;
  bool in[64] = i < n;
  *?(in)(z + i) = a * *?(in)(x + i) + b * *?(in)(y + i);
}
"""


def blocks(x: Any) -> int:
    return int(-(-x.numel() // 64))


@pytest.fixture(autouse=True)
def fresh() -> None:
    """Every test starts without compiled frames and without reports."""
    torch._dynamo.reset()
    torch.manual_seed(0)
    joinery.torch.report(clear=True)


@pytest.fixture(scope="module")
def axpby() -> Any:
    kernel = jn.kernel.from_triton_c(AXPBY, {"TYPE": jn.float32})

    @joinery.torch.custom_op(kernel, "joinery_tests::axpby")
    def axpby(launch: Any, x: torch.Tensor, y: torch.Tensor, a: float, b: float) -> torch.Tensor:
        out = torch.empty_like(x)
        launch(-(-x.numel() // 64), out, x, y, a, b, x.numel())
        return out

    def backward(context: Any, gradient: Any) -> Any:
        zeros = torch.zeros_like(gradient)
        return axpby(gradient, zeros, context.a, 0.0), axpby(gradient, zeros, context.b, 0.0), None, None

    def keep(ctx: Any, inputs: Any, output: Any) -> None:
        ctx.a, ctx.b = inputs[2:]

    axpby.register_autograd(backward, setup_context=keep)
    return axpby


@pytest.fixture(scope="module")
def accumulate() -> Any:
    kernel = jn.kernel.from_triton_c(AXPBY, {"TYPE": jn.bfloat16})

    @joinery.torch.custom_op(kernel, "joinery_tests::accumulate", mutates_args=("total",), threads=1)
    def accumulate(launch: Any, total: torch.Tensor, x: torch.Tensor) -> None:
        launch(-(-x.numel() // 64), total, total, x, 1.0, 1.0, x.numel())

    return accumulate


def test_it_runs_in_eager_mode(axpby: Any) -> None:
    x, y = torch.randn(5, 30), torch.randn(5, 30)
    torch.testing.assert_close(axpby(x, y, 2.0, -0.5), 2 * x - 0.5 * y)
    torch.library.opcheck(axpby, (x, y, 2.0, -0.5))


@pytest.mark.parametrize("dynamic", [False, True])
def test_it_is_one_node_of_a_compiled_graph_and_reported(axpby: Any, dynamic: bool) -> None:
    def function(x: Any, y: Any) -> Any:
        return torch.relu(axpby(x.sin(), y * 2, 3.0, 1.0)) + 1

    run = torch.compile(function, backend="joinery", fullgraph=True, dynamic=dynamic)
    for rows in (4, 7) if dynamic else (4,):
        x, y = torch.randn(rows, 20), torch.randn(rows, 20)
        torch.testing.assert_close(run(x, y), torch.relu(3 * x.sin() + y * 2) + 1)
    (graph,) = joinery.torch.report()
    assert graph.compiled == graph.nodes == 5
    assert graph.eager == {}
    (entry,) = graph.kernels.values()
    assert (entry.name, entry.nodes, entry.calls) == ("joinery_tests.axpby.default", 1, 2 if dynamic else 1)
    assert "block kernel" in str(joinery.torch.report())


def test_it_has_the_gradient_that_was_registered(axpby: Any) -> None:
    def function(x: Any, y: Any) -> Any:
        return (axpby(x * x, y, 3.0, -2.0) * y).sum()

    found = []
    for run in (function, torch.compile(function, backend="joinery", fullgraph=True)):
        x, y = torch.arange(1.0, 9.0, requires_grad=True), torch.linspace(-1, 1, 8, requires_grad=True)
        run(x, y).backward()
        torch.testing.assert_close(x.grad, 6 * x * y)
        torch.testing.assert_close(y.grad, 3 * x * x - 4 * y)
        found.append(x.grad)
    assert torch.equal(*found)
    assert {graph.kind: sum(entry.nodes for entry in graph.kernels.values()) for graph in joinery.torch.report()} == {
        "forward": 1, "backward": 2,
    }  # fmt: skip


def test_it_writes_to_its_arguments_in_place(accumulate: Any) -> None:
    def function(total: Any, x: Any) -> Any:
        accumulate(total, x * 2)
        return total + 1

    for run in (function, torch.compile(function, backend="joinery", fullgraph=True)):
        total, x = torch.ones(70).bfloat16(), torch.arange(70).bfloat16()
        address = total.data_ptr()
        got = run(total, x)
        assert total.data_ptr() == address
        assert torch.equal(total, (1 + 2 * x.float()).bfloat16())
        assert torch.equal(got, total + 1)


def test_it_stays_one_node_of_an_exported_program(axpby: Any) -> None:
    class Model(torch.nn.Module):
        def forward(self, x: Any, y: Any) -> Any:
            return axpby(x, y, 2.0, 1.0) * 2

    x, y = torch.randn(6), torch.randn(6)
    exported = torch.export.export(Model(), (x, y))
    assert "joinery_tests.axpby" in str(exported.graph)
    torch.testing.assert_close(exported.module()(x, y), (2 * x + y) * 2)
    with pytest.raises(jn.UnsupportedError, match=r"joinery_tests\.axpby"):
        jn.from_exported(exported)


@pytest.mark.parametrize("given", [lambda: torch.randn(8, 6).t(), lambda: torch.randn(6, 16)[:, ::2],
                                   lambda: torch._neg_view(torch.randn(6, 8))])  # fmt: skip
def test_other_strides_are_refused(axpby: Any, given: Any) -> None:
    with pytest.raises(jn.UserError, match="kernels take contiguous ones; fix"):
        axpby(given(), torch.randn(6, 8).t().contiguous().t(), 1.0, 1.0)


def test_what_makes_no_operator_is_refused(axpby: Any) -> None:
    kernel = jn.kernel.from_triton_c(AXPBY, {"TYPE": jn.float32})
    with pytest.raises(jn.UserError, match="expected a kernel, got str"):
        joinery.torch.custom_op("axpby", "mine::f")
    with pytest.raises(jn.UserError, match="name is 'f'"):
        joinery.torch.custom_op(kernel, "f")
    with pytest.raises(jn.UserError, match="no parameter for launches"):
        joinery.torch.custom_op(kernel, "joinery_tests::none")(lambda: None)
    with pytest.raises(ValueError, match="x"):
        joinery.torch.custom_op(kernel, "joinery_tests::bare")(lambda launch, x: x)


# -- kernels of Triton -------------------------------------------------------------------------------------------------


@pytest.fixture
def scaled(monkeypatch: pytest.MonkeyPatch, tmp_path: Any) -> Iterator[Any]:
    """A kernel of Triton, for whose launches joinery is the driver."""
    triton = pytest.importorskip("triton")
    import joinery.triton

    from ...support import torch_triton_kernels

    monkeypatch.setenv("TRITON_CACHE_DIR", str(tmp_path))
    joinery.triton.enable()
    yield torch_triton_kernels.scaled_add
    joinery.triton.disable()
    assert triton is not None


def test_kernels_of_triton_run_inside_compiled_graphs(scaled: Any) -> None:
    def function(x: Any, y: Any) -> Any:
        out = torch.zeros_like(x)
        scaled[(2,)](x.sin(), y, out, x.numel(), 2.5, BLOCK=64)
        return torch.relu(out) * 2

    x, y = torch.randn(100), torch.randn(100)
    with torch.no_grad():
        got = torch.compile(function, backend="joinery", fullgraph=True)(x, y)
    torch.testing.assert_close(got, torch.relu(2.5 * x.sin() + y) * 2)
    (graph,) = joinery.torch.report()
    assert graph.compiled == graph.nodes
    (entry,) = graph.kernels.values()
    assert (entry.name, entry.calls) == ("triton.scaled_add", 1)


def test_kernels_of_triton_write_to_inputs_and_get_grids_of_functions(scaled: Any) -> None:
    def function(x: Any, y: Any) -> Any:
        before = y * 1
        scaled[lambda meta: (-(-x.numel() // meta["BLOCK"]),)](x, y, y, x.numel(), 3.0, BLOCK=32)
        return y + before

    run = torch.compile(function, backend="joinery", fullgraph=True, dynamic=True)
    for size in (70, 40):
        x, y = torch.randn(size), torch.randn(size)
        wanted = 3 * x + y
        before, address = y.clone(), y.data_ptr()
        with torch.no_grad():
            got = run(x, y)
        torch.testing.assert_close(y, wanted)
        torch.testing.assert_close(got, wanted + before)
        assert y.data_ptr() == address
    assert len(joinery.torch.report()) == 1


def test_a_tensor_that_is_needed_after_a_launch_keeps_its_elements(scaled: Any) -> None:
    def function(x: Any) -> Any:
        kept = x + 1
        written = kept.clone()
        scaled[(1,)](x, x, written, x.numel(), 1.0, BLOCK=64)
        twice = written.clone()
        scaled[(1,)](written, x, twice, x.numel(), 1.0, BLOCK=64)
        return kept, written, twice

    x = torch.randn(40)
    with torch.no_grad():
        kept, written, twice = torch.compile(function, backend="joinery", fullgraph=True)(x)
    torch.testing.assert_close(kept, x + 1)
    torch.testing.assert_close(written, 2 * x)
    torch.testing.assert_close(twice, 3 * x)

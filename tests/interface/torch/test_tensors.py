"""Tensors and arrays share memory both ways; random operators and sizes that data decides are PyTorch's, and never silent."""

from __future__ import annotations

from typing import Any

import joinery as jn
import numpy as np
import pytest

torch = pytest.importorskip("torch")

import joinery.torch  # noqa: E402
from torch import nn  # noqa: E402


@pytest.fixture(autouse=True)
def fresh() -> None:
    """Every test starts without compiled frames and without reports."""
    torch._dynamo.reset()
    torch.manual_seed(0)
    joinery.torch.report(clear=True)


def double(dtype: Any, shape: tuple[Any, ...] = ("n", 4)) -> Any:
    graph = jn.Graph("double", inputs=[jn.TensorType(dtype, shape, name="x")])
    graph.output(graph.inputs[0] + graph.inputs[0])
    return jn.compile(graph, "cpu")


# -- memory ------------------------------------------------------------------------------------------------------------

DTYPES = ["float32", "float64", "float16", "bfloat16", "int8", "uint8", "int16", "int32", "int64"]


@pytest.mark.parametrize("name", DTYPES)
def test_models_take_tensors_and_their_results_become_tensors(name: str) -> None:
    x = torch.arange(12).reshape(3, 4).to(getattr(torch, name))
    for given in (x, x.t().contiguous().t(), x[:, ::1]):
        got = joinery.torch.to_tensor(double(getattr(jn, name))(given))
        assert got.dtype is x.dtype
        assert torch.equal(got, x + x)


@pytest.mark.parametrize("name", [*DTYPES, "bool"])
def test_tensors_and_arrays_share_memory(name: str) -> None:
    x = torch.zeros(2, 3, dtype=getattr(torch, name))
    array = joinery.torch.to_array(x.t())
    assert array.dtype == getattr(jn, name).numpy
    assert array.shape == (3, 2)
    back = joinery.torch.to_tensor(array)
    back[2, 1] = 1
    assert float(x[1, 2]) == float(array[2, 1]) == 1


NO_ARRAYS: dict[str, Any] = {
    "layout sparse_coo": lambda: torch.eye(3).to_sparse(), "layout sparse_csr": lambda: torch.eye(3).to_sparse_csr(),
    "device meta": lambda: torch.empty(3, device="meta"),
    "nested": lambda: torch.nested.nested_tensor([torch.ones(2), torch.ones(3)]), "got list": lambda: [1],
}  # fmt: skip


@pytest.mark.filterwarnings("ignore::UserWarning")  # of PyTorch: some layouts are in beta
@pytest.mark.parametrize("problem", NO_ARRAYS)
def test_what_has_no_array_is_a_mistake_of_the_user(problem: str) -> None:
    with pytest.raises(jn.UserError, match=rf"to_array: .*{problem}.*; fix: "):
        joinery.torch.to_array(NO_ARRAYS[problem]())


@pytest.mark.parametrize("dtype", [np.float32, jn.bfloat16.numpy])
def test_tensors_of_read_only_arrays_do_not_write_to_them(dtype: Any) -> None:
    array = np.arange(3).astype(dtype)
    array.flags.writeable = False
    tensor = joinery.torch.to_tensor(array)
    tensor.add_(1)
    assert tensor.tolist() == [1, 2, 3]
    assert array.astype(np.float32).tolist() == [0, 1, 2]


@pytest.mark.parametrize("array", [np.arange(3)[::-1], np.arange(3).astype(">i4"), [1]])
def test_arrays_that_no_tensor_has_the_memory_of(array: Any) -> None:
    with pytest.raises(jn.UserError, match=r"to_tensor: .*; fix: "):
        joinery.torch.to_tensor(array)


def test_results_go_to_pytorch_by_dlpack() -> None:
    result = double(jn.float32)(torch.ones(2, 4))
    tensor = torch.utils.dlpack.from_dlpack(result)
    result[1, 1] = 5
    assert float(tensor[1, 1]) == 5


def test_capsules_with_strides_are_read_as_they_say() -> None:
    x = torch.randn(5, 12).bfloat16()
    model = double(jn.bfloat16, ("n", "m"))
    for given in (x[1:, ::3], x.t(), x[:0], x[:, :0], x[:1].expand(3, 12)):
        got = joinery.torch.to_tensor(np.ascontiguousarray(model(given)))
        assert torch.equal(got, given + given)


def test_tensors_that_cannot_be_exported_say_so() -> None:
    model = double(jn.float32)
    with pytest.raises(jn.UserError, match=r"input .x.: its Tensor cannot be exported .*; fix: a dense copy"):
        model(torch.ones(2, 4, requires_grad=True))
    with pytest.raises(jn.UserError, match="expects float32, got float64"):
        model(torch.ones(2, 4).double())
    with pytest.raises(jn.UserError, match="expects an array"):
        model(torch.ones(2, 4, device="meta"))


# -- random numbers ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("function", [
    lambda x: nn.functional.dropout(x.sin(), 0.4, True) * 2,
    lambda x: torch.rand(3, 4) + torch.randn(3, 4) + x.sum(),
    lambda x: torch.multinomial(x.sigmoid(), 2),
    lambda x: x[torch.randperm(6)] * 2,
], ids=["dropout", "rand", "multinomial", "randperm"])  # fmt: skip
def test_random_operators_draw_what_eager_draws_and_are_reported(function: Any) -> None:
    x = torch.randn(6, 5)
    torch.manual_seed(7)
    wanted, after = function(x), torch.rand(3)
    torch.manual_seed(7)
    got = torch.compile(function, backend="joinery", fullgraph=True)(x)
    torch.testing.assert_close(got, wanted)
    assert torch.equal(torch.rand(3), after)  # the generator is where eager leaves it
    (graph,) = joinery.torch.report()
    assert graph.compiled > 0
    assert graph.eager
    assert all("operator" in entry.reason and "is not supported" in entry.reason for entry in graph.eager.values())


def test_dropout_has_one_mask_forward_and_backward() -> None:
    module = nn.Sequential(nn.Linear(8, 64), nn.Dropout(0.5), nn.ReLU())

    def gradients(run: Any) -> list[Any]:
        torch.manual_seed(5)
        module.zero_grad()
        run(torch.linspace(-1, 1, 32).view(4, 8)).square().sum().backward()
        return [parameter.grad.clone() for parameter in module.parameters()]

    for mine, theirs in zip(gradients(torch.compile(module, backend="joinery")), gradients(module), strict=True):
        torch.testing.assert_close(mine, theirs)
    assert {graph.kind for graph in joinery.torch.report()} == {"forward", "backward"}


def test_dropout_of_an_exported_model_is_refused_by_name() -> None:
    exported = torch.export.export(nn.Dropout(0.5).train(), (torch.ones(3, 4),))
    with pytest.raises(jn.UnsupportedError, match="dropout"):
        jn.from_exported(exported)
    evaluated = torch.export.export(nn.Dropout(0.5).eval(), (torch.ones(3, 4),))
    assert (jn.compile(jn.from_exported(evaluated), "cpu")(np.ones((3, 4), np.float32)) == 1).all()


# -- sizes that data decides -------------------------------------------------------------------------------------------

BY_DATA = {
    "positions": lambda x: ((x > 0).nonzero().float() * 2 + 1).sum(0),
    "a mask": lambda x: (x.relu()[x > 0] * 2).exp(),
    "a number": lambda x: x * x.sum().item() + 1,
    "a number as a size": lambda x: torch.zeros(int(x.abs().max().item()) + 3) + x.sum(),
    "repeated rows": lambda x: torch.repeat_interleave(x, torch.tensor([1, 0, 2, 3, 0, 1]), 0) + 1,
}


@pytest.mark.parametrize("name", BY_DATA)
@pytest.mark.parametrize("captured", [False, True])
@pytest.mark.filterwarnings("ignore")
def test_sizes_that_data_decides_break_the_graph_or_are_left_to_pytorch(name: str, captured: bool) -> None:
    function = BY_DATA[name]
    settings = {"capture_dynamic_output_shape_ops": captured, "capture_scalar_outputs": captured}
    with torch._dynamo.config.patch(settings), torch.no_grad():
        run = torch.compile(function, backend="joinery", fullgraph=captured)
        for x in (torch.linspace(-2, 3, 30).view(6, 5), torch.ones(6, 5), -torch.ones(6, 5)):
            torch.testing.assert_close(run(x), function(x))
    if captured:
        (graph,) = joinery.torch.report()
        assert bool(graph.eager) == (name == "a number as a size")  # the others have a form
        assert all(entry.reason for entry in graph.eager.values())


def test_a_model_whose_sizes_data_decides_leaves_pytorch() -> None:
    class Model(nn.Module):
        def forward(self, x: Any) -> Any:
            return x[x > 0] * 2

    compiled = jn.compile(jn.from_exported(torch.export.export(Model(), (torch.randn(4),))), "cpu")
    for values in ([1.0, -2.0, 3.0, 0.5], [-1.0, -2.0, -3.0, 0.0]):
        x = torch.tensor(values)
        np.testing.assert_array_equal(compiled(x.numpy()), Model()(x).numpy())

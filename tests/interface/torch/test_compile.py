"""`torch.compile(model, backend="joinery")` gives what eager PyTorch gives: values, strides, aliases, effects, gradients."""

from __future__ import annotations

import subprocess
import sys
import warnings
from collections.abc import Iterator
from typing import Any

import pytest

torch = pytest.importorskip("torch")

import joinery as jn  # noqa: E402
import joinery.torch  # noqa: E402
from torch import nn  # noqa: E402
from torch.utils import _pytree  # noqa: E402

from ...support.torch_models import BOUND, MODELS, made  # noqa: E402


@pytest.fixture(autouse=True)
def fresh() -> Iterator[None]:
    """Every test starts without compiled frames and without reports."""
    torch._dynamo.reset()
    torch.manual_seed(0)
    joinery.torch.report(clear=True)
    with torch.no_grad():
        yield


def compiled(function: Any, **settings: Any) -> Any:
    return torch.compile(function, backend="joinery", fullgraph=True, **settings)


def leaves(result: Any) -> list[Any]:
    return [leaf for leaf in _pytree.tree_leaves(result) if isinstance(leaf, torch.Tensor)]


def assert_same(got: Any, wanted: Any, bound: float = BOUND) -> None:
    mine, theirs = leaves(got), leaves(wanted)
    assert len(mine) == len(theirs)
    for one, other in zip(mine, theirs, strict=True):
        assert one.stride() == other.stride()
        torch.testing.assert_close(one, other, rtol=bound, atol=bound, equal_nan=True)


def only() -> Any:
    (graph,) = joinery.torch.report()
    return graph


# -- sizes -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("function", [
    lambda x, y: x[:, -y.shape[0] :] * 2,
    lambda x, y: x[:, -y.shape[0] : -1] * x[:, -y.shape[0]].unsqueeze(1),
    lambda x, y: x.topk(y.shape[0], 1),
], ids=["open", "closed", "topk"])  # fmt: skip
def test_positions_that_sizes_give_count_from_the_end(function: Any) -> None:
    run = compiled(function, dynamic=True)
    for n, m in ((9, 4), (8, 8), (6, 2)):
        x, y = torch.randn(3, n), torch.randn(m)
        assert_same(run(x, y), function(x, y))
    assert joinery.torch.report().share == 1


# -- models ------------------------------------------------------------------------------------------------------------

SLOW = ("bert", "llama", "t5", "gpt2")
NAMES = [pytest.param(name, marks=pytest.mark.slow) if name in SLOW else name for name in sorted(MODELS) if name != "lstm"]


@pytest.mark.parametrize("name", NAMES)
def test_models_run_whole_and_agree(name: str) -> None:
    if name in (*SLOW, "vit"):
        pytest.importorskip("transformers")
    module, inputs = made(name)
    assert_same(compiled(module)(*inputs), module(*inputs))
    graph = only()
    assert graph.compiled == graph.nodes > 0
    assert graph.eager == {}
    assert (graph.kind, graph.segments, graph.copied) == ("inference", 1, 0)
    assert joinery.torch.report().share == 1


def test_the_entry_point_is_found_without_importing_joinery() -> None:
    code = (
        "import torch, sys\nassert 'joinery' not in sys.modules\n"
        "f = torch.compile(lambda x: x + 1, backend='joinery')\nassert f(torch.ones(2)).tolist() == [2, 2]\n"
        "import joinery.torch\nprint(len(joinery.torch.report()), 'joinery.interface.kernel' in sys.modules)"
    )
    result = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    assert result.stdout == "1 False\n"  # what launches kernels of users is not needed for models


# -- weights and state -------------------------------------------------------------------------------------------------


def test_parameters_whose_values_change_are_never_stale() -> None:
    module = nn.Linear(3, 2).eval()
    run, x = compiled(module), torch.randn(4, 3)
    assert_same(run(x), module(x))
    module.weight.mul_(2)
    assert_same(run(x), module(x))
    module.weight.data.add_(1)  # does not count as a version of the parameter
    assert_same(run(x), module(x))
    module.bias.data = torch.randn(2)
    assert_same(run(x), module(x))
    module.weight.detach().numpy()[0, 0] = 9
    assert_same(run(x), module(x))


def test_buffers_are_written_in_place() -> None:
    class Cache(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.register_buffer("kept", torch.zeros(4, 3))

        def forward(self, x: Any, at: int) -> Any:
            self.kept[at] = x
            return self.kept.sum(0)

    first, second = Cache(), Cache()
    run, address = compiled(second), second.kept.data_ptr()
    for at in range(3):
        x = torch.randn(3)
        assert_same(run(x, at), first(x, at))
        assert_same(second.kept, first.kept)
    assert second.kept.data_ptr() == address


def test_inputs_are_written_in_place_after_all_reads() -> None:
    def step(x: Any, y: Any) -> Any:
        before = x * 2
        x.copy_(y.t())
        y.add_(1)
        return before, x + y

    mine, theirs = [torch.randn(3, 3) for _ in range(2)], []
    theirs = [each.clone() for each in mine]
    assert_same(compiled(step)(*mine), step(*theirs))
    assert_same(mine, theirs)


def test_two_inputs_over_one_storage_are_seen() -> None:
    def step(x: Any, y: Any) -> Any:
        x.add_(1)
        return y * 2

    base, other = torch.arange(6.0), torch.arange(6.0)
    assert_same(torch.compile(step, backend="joinery")(base[:4], base[2:]), step(other[:4], other[2:]))
    assert_same(base, other)


# -- strides and aliases -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("function", [
    lambda x: (x + 1).t() * 2,
    lambda x: ((x + 1).t() * 2).t(),
    lambda x: torch.relu(x).expand(2, 3, 4),
    lambda x: x[0],
    lambda x: x[:, 1:3],
    lambda x: x.t().contiguous() + 1,
    lambda x: torch.empty_like(x.t()).fill_(3),
    lambda x: x.unsqueeze(0).transpose(0, 2).relu(),
    lambda x: (x * 2).split(2, 1),
], ids=list("abcdefghi"))  # fmt: skip
@pytest.mark.parametrize("make", [lambda: torch.randn(3, 4), lambda: torch.randn(4, 3).t(), lambda: torch.randn(3, 8)[:, ::2]],
                         ids=["contiguous", "transposed", "strided"])  # fmt: skip
def test_results_have_the_strides_of_eager(function: Any, make: Any) -> None:
    x = make()
    assert_same(compiled(function)(x), function(x))


def test_a_stride_that_the_user_relies_on() -> None:
    def function(x: Any) -> Any:
        y = (x + 1).t() * 2
        torch._dynamo.graph_break()
        return y.t().view(-1)

    x = torch.randn(3, 4)
    assert_same(torch.compile(function, backend="joinery")(x), function(x))


def test_images_with_channels_last() -> None:
    module = nn.Sequential(nn.Conv2d(3, 4, 3), nn.ReLU()).eval()
    x = torch.randn(2, 3, 6, 6).to(memory_format=torch.channels_last)
    assert_same(compiled(module)(x), module(x), 1e-5)


def test_results_share_memory_where_the_model_says_so() -> None:
    def function(x: Any) -> Any:
        y = x + 1
        return y, y.t(), y[0], x[1:], x

    x = torch.randn(3, 4)
    y, turned, row, rest, same = compiled(function)(x)
    y[0, 1] = 7
    assert float(turned[1, 0]) == float(row[1]) == 7
    assert same is x
    assert rest.data_ptr() == x[1:].data_ptr()


def test_transposed_inputs_and_those_with_gaps_are_not_copied() -> None:
    run = compiled(lambda x: x + 1)
    for x in (torch.randn(4, 3).t(), torch.randn(3, 8)[:, ::2], torch.randn(3, 9)[:, 1:5]):
        assert_same(run(x), x + 1)
    assert sum(graph.copied for graph in joinery.torch.report()) == 0


# -- sizes -------------------------------------------------------------------------------------------------------------


def test_dynamic_sizes_need_no_further_compilation() -> None:
    module = nn.Sequential(nn.Linear(4, 8), nn.GELU(), nn.LayerNorm(8)).eval()
    run = compiled(module, dynamic=True)
    for size in (5, 6, 9, 2, 17):
        x = torch.randn(size, 4)
        assert_same(run(x), module(x))
    assert len(joinery.torch.report()) == 1


@pytest.mark.parametrize("size", [0, 1])
def test_sizes_0_and_1_are_compiled_for_themselves(size: int) -> None:
    function = lambda x: x.relu() * x.shape[0] + x.sum(0)  # noqa: E731
    run = compiled(function, dynamic=True)
    for each in (5, size, 7):
        x = torch.randn(each, 3)
        assert_same(run(x), function(x))


def test_sizes_may_be_operands_and_results() -> None:
    def function(x: Any, n: int) -> Any:
        return x * x.shape[0] / n, x.shape[0] * 2, x.new_zeros(x.shape[0] + n), torch.arange(n)

    run = compiled(function, dynamic=True)
    for size, n in ((5, 3), (6, 4)):
        x = torch.randn(size, 2)
        mine, theirs = run(x, n), function(x, n)
        assert_same(mine, theirs)
        assert mine[1] == theirs[1]


# -- what PyTorch runs -------------------------------------------------------------------------------------------------


def test_operators_without_a_form_run_in_pytorch_and_are_reported() -> None:
    def function(x: Any) -> Any:
        y = torch.fft.fft(x.relu()).real * 2
        return torch.special.bessel_j0(y) + x, y.view(-1)

    x = torch.randn(3, 4)
    run = compiled(function)
    assert_same(run(x), function(x), 1e-5)
    run(x)
    graph = only()
    assert 0 < graph.compiled < graph.nodes
    assert graph.segments >= 2
    (entry,) = [entry for name, entry in graph.eager.items() if "bessel_j0" in name]
    assert (entry.nodes, entry.calls) == (1, 2)
    assert entry.seconds > 0
    assert "not supported" in entry.reason
    assert entry.name in str(joinery.torch.report())


@pytest.mark.parametrize("operand", [
    lambda x: x.relu()[1:], lambda x: x.relu().t(), lambda x: x.relu(), lambda x: x.t() + 1,
    lambda x: (x.t() + 1)[1:], lambda x: (x + 1).split(1)[2], lambda x: (x + 1)[:, ::2].expand(2, 3, 2),
])  # fmt: skip
def test_views_by_strides_count_from_the_beginning_of_the_storage(operand: Any) -> None:
    function = lambda x: operand(x).as_strided((2, 3), (2, 1), 1) * 2  # noqa: E731
    x = torch.randn(3, 4)
    assert_same(compiled(function)(x), function(x))
    assert joinery.torch.report().share == 1


def test_views_by_strides_of_the_storage_of_an_input_are_left_to_pytorch() -> None:
    """Where an input begins in its storage is known to each call alone."""
    function = lambda x: x[1:].as_strided((2, 3), (2, 1), 1) * 2  # noqa: E731
    run = compiled(function)
    for x in (torch.randn(3, 4), torch.randn(20)[5:17].view(3, 4)):
        assert_same(run(x), function(x))
    assert joinery.torch.report().share == 0.5


@pytest.mark.parametrize("repeated", [
    lambda x: x.relu().sum(0).expand(3, 4),
    lambda x: x.relu()[:, :1].expand(3, 4),
    lambda x: x.relu().unfold(1, 2, 1),
    lambda x: x.relu().t(),
], ids=["rows", "columns", "windows", "transposed"])  # fmt: skip
def test_operators_of_pytorch_get_the_strides_that_the_graph_states(repeated: Any) -> None:
    def function(x: Any) -> Any:
        return torch.special.bessel_j0(repeated(x)) * 2

    x = torch.randn(3, 4)
    torch.testing.assert_close(compiled(function)(x), function(x))
    (entry,) = only().eager.values()
    assert entry.calls == 1


def test_random_numbers_are_those_of_eager() -> None:
    def function(x: Any) -> Any:
        noise = torch.rand_like(x)
        y = (x * noise).relu()
        return y + torch.randn_like(y) * nn.functional.dropout(y, 0.3, True)

    x = torch.randn(4, 5)
    torch.manual_seed(3)
    wanted = function(x)
    torch.manual_seed(3)
    got = compiled(function)(x)
    if not torch.equal(got, wanted):  # PyTorch may take dropout apart, which draws other numbers than eager does
        torch._dynamo.reset()
        torch.manual_seed(3)
        wanted = torch.compile(function, backend="aot_eager")(x)
    assert_same(got, wanted)


def test_assertions_of_the_model_are_kept() -> None:
    def function(x: Any) -> Any:
        torch._assert_async((x > 0).all(), "a number is negative")
        return x + 1

    run = compiled(function)
    assert_same(run(torch.ones(3)), torch.full((3,), 2.0))
    with pytest.raises(RuntimeError, match="a number is negative"):
        run(-torch.ones(3))


def test_constants_of_the_model_are_part_of_the_graph() -> None:
    def function(x: Any) -> Any:
        return x * torch.tensor([1.0, 2.0, 3.0]) + torch.tensor(0.5)

    x = torch.randn(2, 3)
    assert_same(compiled(function)(x), function(x))


def test_a_graph_that_returns_none_and_numbers() -> None:
    def function(x: Any) -> Any:
        return None, 3, x + 1, "text"

    assert compiled(function)(torch.ones(2))[:2] == (None, 3)


@pytest.mark.parametrize("dtype", ["bfloat16", "float16", "int64", "bool", "uint8"])
def test_dtypes_pass_without_copies(dtype: str) -> None:
    kind = getattr(torch, dtype)
    x = (torch.randn(5, 6) > 0).to(kind) if dtype == "bool" else (torch.randn(5, 6) * 9).abs().to(kind)
    function = lambda x: (x.t(), torch.where(x == x[0], x, x.flip(0)))  # noqa: E731
    assert_same(compiled(function)(x), function(x))


def test_autocast_of_a_linear_layer() -> None:
    module = nn.Linear(16, 16)

    def function(x: Any) -> Any:
        with torch.autocast("cpu", torch.bfloat16):
            return module(x)

    x = torch.randn(3, 16)
    assert_same(compiled(function)(x), function(x), 2.0**-8)


def test_tensors_of_other_layouts_are_left_to_pytorch() -> None:
    sparse = torch.eye(3).to_sparse()
    function = lambda a, x: torch.sparse.mm(a, x) + 1  # noqa: E731
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        got = torch.compile(function, backend="joinery")(sparse, torch.ones(3, 2))
    assert_same(got, torch.full((3, 2), 2.0))


# -- options -----------------------------------------------------------------------------------------------------------


def test_options_reach_the_compiler() -> None:
    x = torch.randn(64, 64)
    run = compiled(lambda x: (x @ x).softmax(-1), options={"numerics": "reproducible", "threads": 1})
    assert_same(run(x), (x @ x).softmax(-1), 1e-5)


@pytest.mark.parametrize(("settings", "text"), [
    ({"options": {"numeric": "fast"}}, "options \\['numeric'\\]"),
    ({"options": {"numerics": "sloppy"}}, "numerics"),
])  # fmt: skip
def test_unknown_options_are_refused(settings: dict[str, Any], text: str) -> None:
    with pytest.raises(Exception, match=text):
        compiled(lambda x: x + 1, **settings)(torch.ones(2))


# -- training ----------------------------------------------------------------------------------------------------------


def gradients(module: nn.Module, run: Any, inputs: tuple[Any, ...]) -> list[Any]:
    module.zero_grad()
    with torch.enable_grad():
        sum((leaf * torch.linspace(0.5, 1.5, leaf.numel()).view(leaf.shape)).sum() for leaf in leaves(run(*inputs))
            if leaf.is_floating_point()).backward()  # fmt: skip
    return [each.grad for each in module.parameters() if each.grad is not None]


@pytest.mark.parametrize("name", ["mlp", "cnn", pytest.param("bert", marks=pytest.mark.slow),
                                  pytest.param("llama", marks=pytest.mark.slow)])  # fmt: skip
def test_gradients_agree(name: str) -> None:
    if name in SLOW:
        pytest.importorskip("transformers")
    module, inputs = made(name)
    wanted = gradients(module, module, inputs)
    got = gradients(module, compiled(module), inputs)
    assert len(got) == len(wanted)
    for mine, theirs in zip(got, wanted, strict=True):
        error = 10 * BOUND * max(1.0, float(theirs.abs().max()))
        torch.testing.assert_close(mine, theirs, rtol=0, atol=error)
    assert {graph.kind for graph in joinery.torch.report()} == {"forward", "backward"}


def test_an_optimiser_trains_as_in_eager() -> None:
    def trained(compiling: bool) -> list[float]:
        torch.manual_seed(1)
        module = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 1))
        run = compiled(module) if compiling else module
        optimiser = torch.optim.SGD(module.parameters(), lr=0.1)
        x = torch.randn(16, 4)
        losses = []
        for _ in range(4):
            with torch.enable_grad():
                loss = (run(x) - x.sum(1, keepdim=True)).square().mean()
                optimiser.zero_grad()
                loss.backward()
            optimiser.step()
            losses.append(float(loss))
        return losses

    assert trained(True) == pytest.approx(trained(False), rel=1e-5)
    assert jn is joinery


# -- failures ----------------------------------------------------------------------------------------------------------


def test_a_part_that_cannot_be_compiled_runs_in_pytorch_and_is_told_of(monkeypatch: pytest.MonkeyPatch) -> None:
    def failing(*arguments: Any, **options: Any) -> Any:
        raise jn.UnsupportedError("no code for this today; fix: another day")

    monkeypatch.setattr("joinery.interface.torch.backend.compile_model", failing)

    def function(x: Any) -> Any:
        low, high = nn.functional.layer_norm(x, (4,)).max(1)
        return low + 1, high, x.view(-1)

    x = torch.randn(3, 4)
    with pytest.warns(UserWarning, match="a part of graph 0 is left to PyTorch: no code for this today"):
        got = compiled(function)(x)
    assert_same(got, function(x))
    graph = only()
    assert (graph.compiled, graph.segments) == (0, 0)
    assert {entry.reason for entry in graph.eager.values()} == {"no code for this today; fix: another day"}


def test_models_on_other_devices_are_left_to_pytorch() -> None:
    with pytest.warns(UserWarning, match="on device meta"):
        got = torch.compile(lambda x: x + 1, backend="joinery")(torch.ones(2, device="meta"))
    assert got.device.type == "meta"
    assert "on device meta" in only().failure
    assert joinery.torch.report().share == 0


def test_a_view_may_be_an_operand_of_pytorch_and_a_result() -> None:
    def function(x: Any) -> Any:
        y = x.relu()
        turned = y.t()
        low = torch.special.i0(turned)
        high = torch.special.i0(low + 1) * 2
        return turned, low.sum(0), high, torch.special.i0(high).t()

    x = torch.randn(3, 4)
    assert_same(compiled(function)(x), function(x), 1e-5)

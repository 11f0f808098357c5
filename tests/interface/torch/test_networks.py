"""Networks of many kinds run in joinery as the record of models says: compiled, trained by one step, and exported.

So do what they are made of and trained by: attention, convolutions of any size, steps of optimisers.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import joinery as jn
import joinery.torch
import numpy as np
import pytest

torch = pytest.importorskip("torch")

from ...conformance.torch_models import report  # noqa: E402
from ...conformance.torch_models.cases import outcome  # noqa: E402
from ...support.torch_networks import NETWORKS  # noqa: E402


def assert_as_recorded(name: str, mode: str) -> None:
    assert report.changes(report.kept(), {(name, mode): outcome(name, mode)}) == [], "make torch-models"


@pytest.mark.parametrize(("name", "mode"), [("gcn", "inference"), ("dlrm", "inference"), ("mixture_of_experts", "export")])
def test_some_networks_are_as_recorded(name: str, mode: str) -> None:
    assert_as_recorded(name, mode)


@pytest.mark.slow
@pytest.mark.parametrize("mode", report.MODES)
@pytest.mark.parametrize("name", NETWORKS)
def test_networks_are_as_recorded(name: str, mode: str) -> None:
    assert_as_recorded(name, mode)


# -- operators of networks that compiled graphs left to PyTorch ---------------------------------------------------------

F = torch.nn.functional


def assert_whole(function: Callable[..., Any], *inputs: Any, rtol: float | None = None, **options: Any) -> None:
    """Assert that a function runs whole and has eager PyTorch's values and gradients."""
    torch._dynamo.reset()
    joinery.torch.report(clear=True)
    fast = torch.compile(function, backend="joinery", **options)
    leaves = [each for each in inputs if each.requires_grad]
    found, wanted = fast(*inputs), function(*inputs)
    torch.testing.assert_close(found, wanted, rtol=rtol, atol=rtol)
    if leaves:
        tangent = torch.randn_like(wanted)
        grads = [torch.autograd.grad(result, leaves, tangent) for result in (found, wanted)]
        torch.testing.assert_close(*grads, rtol=1e-4, atol=1e-4)
    assert joinery.torch.report().share == 1


@pytest.mark.parametrize("dtype", [torch.int64, torch.int32, torch.uint8, torch.int8])
def test_shifts(dtype: Any) -> None:
    x = torch.tensor([0, 1, 5, 100, -3 if dtype.is_signed else 200]).to(dtype)
    by = torch.tensor([1, 0, 3, 2, 1]).to(dtype)
    assert_whole(lambda x, by: (x << 1, x >> 1, x << by, x >> by, 1 << by, torch.bitwise_left_shift(3, by)), x, by)


def test_shifts_of_exported_models() -> None:
    class Model(torch.nn.Module):
        def forward(self, x: Any) -> Any:
            return (x << 1) + (x >> 2)

    x = torch.arange(-4, 9)
    graph = jn.from_exported(torch.export.export(Model(), (x,)))
    np.testing.assert_array_equal(jn.evaluate(graph, x.numpy()), Model()(x).numpy())


@pytest.mark.parametrize("dynamic", [None, True])
@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("heads", [4, 2, 1])
def test_attention_whose_heads_are_shared_or_of_any_size(heads: int, causal: bool, dynamic: Any) -> None:
    torch.manual_seed(0)
    q, k, v = (torch.randn(2, count, 5, 8, requires_grad=True) for count in (4, heads, heads))

    def attend(q: Any, k: Any, v: Any) -> Any:
        return F.scaled_dot_product_attention(q, k, v, is_causal=causal, enable_gqa=heads != 4)

    assert_whole(attend, q, k, v, dynamic=dynamic)
    mask = torch.rand(5, 5) > 0.3
    assert_whole(lambda q, k, v: F.scaled_dot_product_attention(q, k, v, attn_mask=mask, enable_gqa=heads != 4), q, k, v)


OPTIMISERS = ["SGD", "Adam", "AdamW", "RMSprop", "Adagrad", "NAdam", "Adadelta", "Adamax"]


@pytest.mark.parametrize("foreach", [True, False])
@pytest.mark.parametrize("name", [*OPTIMISERS[:2], *[pytest.param(each, marks=pytest.mark.slow) for each in OPTIMISERS[2:]]])
def test_steps_of_optimisers_run_whole(name: str, foreach: bool) -> None:
    def trained(is_compiled: bool) -> list[Any]:
        torch.manual_seed(0)
        torch._dynamo.reset()
        layer = torch.nn.Linear(4, 3)
        optimiser = getattr(torch.optim, name)(layer.parameters(), foreach=foreach, lr=0.1)
        step = torch.compile(optimiser.step, backend="joinery") if is_compiled else optimiser.step
        for _ in range(3):
            optimiser.zero_grad()
            layer(torch.randn(2, 4)).square().sum().backward()
            step()
        return list(layer.parameters())

    joinery.torch.report(clear=True)
    torch.testing.assert_close(trained(True), trained(False))
    assert joinery.torch.report().share == 1


def test_operators_on_lists_are_those_on_their_tensors() -> None:
    def function(*given: Any) -> Any:
        x, y = list(given[:2]), list(given[2:])
        each = torch._foreach_add(x, y, alpha=2), torch._foreach_mul(x, [2.0, 3.0]), torch._foreach_addcmul(x, y, y, value=0.5)
        more = torch._foreach_addcdiv(x, y, y, [0.5, 2.0]), torch._foreach_pow(2.0, x), torch._foreach_norm(x, 1)
        rest = torch._foreach_maximum(x, 0.5), torch._foreach_minimum(x, y), torch._foreach_lerp(x, y, 0.3)
        return [one for found in (*each, *more, *rest) for one in found]

    torch.manual_seed(0)
    assert_whole(function, *(torch.randn(size) for size in (3, 4, 3, 4)))


SIZES = [(2, 4, 9, 9), (3, 4, 8, 10), (2, 4, 7, 12)]
CONVOLUTIONS: list[dict[str, Any]] = [
    {}, {"stride": 2, "padding": 1}, {"stride": 3, "padding": 2, "dilation": 2}, {"groups": 2, "padding": 1}, {"groups": 4},
]  # fmt: skip


def assert_trains_at_all_sizes(function: Callable[..., Any], parameters: list[Any]) -> None:
    torch._dynamo.reset()
    joinery.torch.report(clear=True)
    fast = torch.compile(function, backend="joinery", dynamic=True)
    for shape in SIZES:
        x = torch.randn(shape, requires_grad=True)
        found, wanted = fast(x), function(x)
        torch.testing.assert_close(found, wanted, rtol=1e-4, atol=1e-4)
        tangent = torch.randn_like(wanted)
        grads = [torch.autograd.grad(result, (x, *parameters), tangent) for result in (found, wanted)]
        torch.testing.assert_close(*grads, rtol=1e-4, atol=1e-4)
    assert joinery.torch.report().share == 1


@pytest.mark.parametrize("is_transposed", [False, True])
@pytest.mark.parametrize("options", CONVOLUTIONS, ids=str)
def test_gradients_of_convolutions_of_any_size(options: dict[str, Any], is_transposed: bool) -> None:
    torch.manual_seed(0)
    layer = (torch.nn.ConvTranspose2d if is_transposed else torch.nn.Conv2d)(4, 8, 3, **options)
    assert_trains_at_all_sizes(layer, list(layer.parameters()))


@pytest.mark.parametrize("options", [
    {}, {"stride": 1, "padding": 1}, {"padding": 1, "count_include_pad": False}, {"ceil_mode": True},
], ids=str)  # fmt: skip
def test_gradients_of_average_pooling_of_any_size(options: dict[str, Any]) -> None:
    torch.manual_seed(0)
    assert_trains_at_all_sizes(lambda x: F.avg_pool2d(x, 3, **options), [])


# -- products of groups ------------------------------------------------------------------------------------------------


def _of(*shape: int) -> Any:
    return torch.randn(shape).to(torch.bfloat16)


GROUPED = {
    "rows": lambda: (_of(16, 32), _of(3, 32, 8), (5, 5, 16)),
    "rows, the last ones in no group": lambda: (_of(64, 32), _of(2, 32, 8), (40, 60)),
    "rows, matrices transposed": lambda: (_of(16, 32), _of(3, 8, 32).transpose(1, 2), (0, 9, 16)),
    "columns": lambda: (_of(3, 16, 32), _of(32, 24), (8, 16, 24)),
    "what is summed over": lambda: (_of(16, 32), _of(32, 24), (8, 8, 32)),
    "pairs": lambda: (_of(3, 16, 32), _of(3, 32, 24), None),
}


@pytest.mark.parametrize("case", GROUPED)
def test_products_of_groups(case: str) -> None:
    torch.manual_seed(0)
    *matrices, ends = GROUPED[case]()
    offs = None if ends is None else torch.tensor(ends, dtype=torch.int32)
    joinery.torch.report(clear=True)
    given = [[each.clone().requires_grad_() for each in matrices] for _ in range(2)]
    run = torch.compile(lambda x, y: torch._grouped_mm(x, y, offs=offs), backend="joinery", fullgraph=True)
    found, wanted = run(*given[0]), torch._grouped_mm(*given[1], offs=offs)
    assert found.stride() == wanted.stride()
    rows = slice(None) if case != "rows, the last ones in no group" else slice(ends[-1])  # eager writes nothing behind them
    torch.testing.assert_close(found[rows], wanted[rows], rtol=2**-8, atol=0.05)
    direction = torch.zeros_like(wanted)
    direction[rows] = torch.randn_like(wanted[rows])
    for mine, theirs, tensor in zip(*(torch.autograd.grad(r, g, direction) for r, g in ((found, given[0]), (wanted, given[1]))),
                                    matrices, strict=True):  # fmt: skip
        kept = rows if tensor.shape[0] == wanted.shape[0] else slice(None)
        torch.testing.assert_close(mine[kept], theirs[kept], rtol=2**-8, atol=0.05)
    assert joinery.torch.report().share == 1


def test_the_operator_of_transformers_for_products_of_groups() -> None:
    pytest.importorskip("transformers.integrations.moe")
    product = torch.ops.transformers.grouped_mm_fallback
    x, matrices = torch.randn(70, 12), torch.randn(4, 12, 6)
    ends = torch.tensor([3, 3, 50, 70], dtype=torch.int32)
    joinery.torch.report(clear=True)
    given = [[each.clone().requires_grad_() for each in (x, matrices)] for _ in range(2)]
    found = torch.compile(lambda x, y: product(x, y, ends), backend="joinery", fullgraph=True)(*given[0])
    wanted = product(*given[1], ends)
    torch.testing.assert_close(found, wanted, rtol=1e-5, atol=1e-5)
    direction = torch.randn_like(wanted)
    for mine, theirs in zip(torch.autograd.grad(found, given[0], direction), torch.autograd.grad(wanted, given[1], direction),
                            strict=True):  # fmt: skip
        torch.testing.assert_close(mine, theirs, rtol=1e-5, atol=1e-4)
    assert joinery.torch.report().share == 1

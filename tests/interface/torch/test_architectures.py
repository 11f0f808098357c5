"""Architectures of transformers run whole in joinery: compiled for inference, exported, and trained by one step."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")

import joinery as jn  # noqa: E402
import joinery.torch  # noqa: E402
from torch.utils import _pytree  # noqa: E402

from ...support.torch_architectures import ARCHITECTURES, architecture  # noqa: E402
from ...support.torch_models import BOUND  # noqa: E402

pytestmark = pytest.mark.slow

NOT_WHOLE = {"mixtral": {"_assert_async", "histc", "grouped_mm_fallback"}}
"""Architectures of which PyTorch runs some operators of inference, and which, by the version of transformers."""
NOT_WHOLE_IN_TRAINING = {"_assert_async", "histc", "grouped_mm_fallback", "grouped_mm_fallback_backward"}
"""Operators that PyTorch may run in training."""
NARROW = {name for name, entry in ARCHITECTURES.items() if entry.settings.get("dtype") == "bfloat16"}
"""Architectures in bfloat16, which are compared elsewhere (tests/conformance/torch_models)."""
WIDE = [name for name in ARCHITECTURES if name not in NARROW]


def tensors(result: Any) -> list[Any]:
    return [leaf for leaf in _pytree.tree_leaves(result) if isinstance(leaf, torch.Tensor)]


def assert_close(mine: Any, theirs: Any) -> None:
    """Agree up to the error of these sizes, relative to the largest element."""
    scale = max(1.0, float(theirs.abs().max())) if theirs.numel() else 1.0
    torch.testing.assert_close(mine, theirs, rtol=0, atol=BOUND * scale)


def left(reports: Any) -> set[str]:
    assert [graph.failure for graph in reports if graph.failure] == []
    return {name.split(".")[1] for graph in reports for name in graph.eager}


@pytest.mark.parametrize("name", WIDE)
def test_inference(name: str) -> None:
    module, inputs = architecture(name)
    torch._dynamo.reset()
    joinery.torch.report(clear=True)
    with torch.no_grad():
        wanted, got = tensors(module(*inputs)), tensors(torch.compile(module, backend="joinery")(*inputs))
    assert len(got) == len(wanted)
    for mine, theirs in zip(got, wanted, strict=True):
        assert mine.stride() == theirs.stride()
        assert_close(mine, theirs)
    assert left(joinery.torch.report()) <= NOT_WHOLE.get(name, set())


@pytest.mark.parametrize("name", [name for name in WIDE if name not in NOT_WHOLE])
def test_export(name: str) -> None:
    module, inputs = architecture(name)
    with torch.no_grad():
        wanted, exported = tensors(module(*inputs)), torch.export.export(module, inputs)
    got = jn.compile(jn.from_exported(exported), "cpu")(*[each.numpy() for each in inputs])
    for mine, theirs in zip(got if isinstance(got, tuple) else (got,), wanted, strict=True):
        assert_close(torch.from_numpy(np.asarray(mine)), theirs)


@pytest.mark.parametrize("name", WIDE)
def test_a_step_of_training(name: str) -> None:
    module, inputs = architecture(name)

    def gradients(run: Any) -> dict[str, Any]:
        module.zero_grad()
        sum(each.float().square().mean() for each in tensors(run(*inputs)) if each.is_floating_point()).backward()
        return {key: each.grad.clone() for key, each in module.named_parameters() if each.grad is not None}

    torch._dynamo.reset()
    joinery.torch.report(clear=True)
    wanted, got = gradients(module), gradients(torch.compile(module, backend="joinery"))
    assert got.keys() == wanted.keys()
    for key, theirs in wanted.items():
        assert_close(got[key], theirs)
    assert left(joinery.torch.report()) <= NOT_WHOLE_IN_TRAINING
    assert joinery.torch.report().share > 0.95

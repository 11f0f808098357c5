"""Compiles, exports and trains small models of many architectures, and compares with eager PyTorch."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import joinery as jn
import joinery.torch
import numpy as np
import torch
from joinery.interface.torch.tensors import to_array, to_tensor
from torch.utils import _pytree

from ...support import torch_further_networks as _further_networks  # noqa: F401 - it registers more
from ...support import torch_later_networks as _later_networks  # noqa: F401 - as well
from ...support.torch_architectures import ARCHITECTURES, made_architecture
from ...support.torch_further_architectures import FURTHER_ARCHITECTURES
from ...support.torch_later_architectures import LATER_ARCHITECTURES
from ...support.torch_models import BOUND, MODELS, made
from ...support.torch_networks import NETWORKS, made_network

BOUND_BF16 = 2.0**-8 * 30
"""The error of models in bfloat16, relative to the largest result: one rounding in each of 30 layers."""
GRADIENTS = 8
"""The errors of gradients, in bounds of results: they run through the layers twice, and through sums over all rows."""
WITHOUT_TRAINING = frozenset({"decoder_with_cache"})
"""Models that are for inference alone."""
EXPLICIT = frozenset({"decoder_with_cache"})
"""Models that write to buffers."""
RECURRENT = frozenset({"lstm_tagger", "gru_tagger"})
"""Models that Dynamo makes graphs of only where it is told so, and those for training only without oneDNN's layers."""
_ARCHITECTURES = {**ARCHITECTURES, **LATER_ARCHITECTURES, **FURTHER_ARCHITECTURES}
MODES = ("inference", "training", "export")


@dataclass(frozen=True)
class Outcome:
    """What became of a model in one mode.

    Attributes:
        nodes, compiled: operators of its graphs, and those of them in kernels of joinery.
        graphs: how many graphs Dynamo made, forwards and backwards; 1 for an export.
        left: what PyTorch runs.
        problem: why there is no result, or how it differs from PyTorch's; "" where it is the same.
    """

    nodes: int = 0
    compiled: int = 0
    graphs: int = 0
    left: tuple[str, ...] = ()
    problem: str = ""


def names() -> list[str]:
    """Return the names of all models."""
    hidden = {"lstm"}  # a shorter lstm_tagger
    return sorted(({*MODELS} - hidden) | {*_ARCHITECTURES} | {*NETWORKS})


def model(name: str) -> tuple[Any, tuple[Any, ...]]:
    """Return a model and its inputs, the same in every run."""
    if name in NETWORKS:
        return made_network(name)
    return made(name) if name in MODELS else made_architecture(_ARCHITECTURES[name])


def outcome(name: str, mode: str) -> Outcome:
    """Return what becomes of a model in one mode."""
    module, inputs = model(name)
    torch._dynamo.reset()
    torch.manual_seed(0)
    run: Callable[..., Outcome] = {"inference": _inference, "training": _training, "export": _export}[mode]
    if mode == "training" and name in WITHOUT_TRAINING:
        return Outcome(problem="for inference alone")
    recurrent = name in RECURRENT
    onednn = not (recurrent and mode == "training")
    with (
        warnings.catch_warnings(), torch._dynamo.config.patch(allow_rnn=recurrent), torch.backends.mkldnn.flags(enabled=onednn)
    ):
        warnings.simplefilter("ignore")
        try:
            return run(name, module, inputs)
        except Exception as error:  # whatever it is, there is no result
            return Outcome(problem=f"{type(error).__name__}: {error}".partition("\n")[0])


def _tensors(result: Any) -> list[Any]:
    return [leaf for leaf in _pytree.tree_leaves(result) if isinstance(leaf, torch.Tensor)]


def _difference(got: list[Any], wanted: list[Any], factor: float = 1) -> str:
    """Return how results differ from those of PyTorch; "" where they do not."""
    if len(got) != len(wanted):
        return f"{len(got)} results, PyTorch has {len(wanted)}"
    for number, (mine, theirs) in enumerate(zip(got, wanted, strict=True)):
        if mine.dtype != theirs.dtype or mine.shape != theirs.shape:
            return f"result {number} is {mine.dtype} {tuple(mine.shape)}, PyTorch's {theirs.dtype} {tuple(theirs.shape)}"
        scale = max(1.0, float(theirs.abs().max())) if theirs.numel() else 1.0
        bound = factor * scale * (BOUND_BF16 if theirs.dtype is torch.bfloat16 else BOUND)
        error = float((mine.double() - theirs.double()).abs().nan_to_num(0).max()) if theirs.numel() else 0.0
        if error > bound or not torch.equal(mine.isnan(), theirs.isnan()):
            return f"result {number} is off by {error:.3g}, the bound is {bound:.3g}"
    return ""


def _reported(problem: str) -> Outcome:
    """Return what the report says of the graphs since it was cleared."""
    graphs = joinery.torch.report()
    left = sorted({name for graph in graphs for name in graph.eager})
    failures = [graph.failure for graph in graphs if graph.failure]
    if failures and not problem:
        problem = f"left to PyTorch: {failures[0]}"
    nodes, compiled = (sum(getattr(graph, key) for graph in graphs) for key in ("nodes", "compiled"))
    return Outcome(nodes, compiled, len(graphs), tuple(left), problem)


def _inference(name: str, module: Any, inputs: tuple[Any, ...]) -> Outcome:
    joinery.torch.report(clear=True)
    with torch.no_grad():
        before = {key: value.clone() for key, value in module.named_buffers()}
        wanted = [value.clone() for value in _tensors(module(*inputs))]
        written = {key: value.clone() for key, value in module.named_buffers()}
        for key, value in module.named_buffers():
            value.copy_(before[key])
        got = _tensors(torch.compile(module, backend="joinery")(*inputs))
        buffers = _difference([value for _, value in module.named_buffers()], list(written.values()))
    return _reported(_difference(got, wanted) or (buffers and f"of the buffers, {buffers}"))


def _training(name: str, module: Any, inputs: tuple[Any, ...]) -> Outcome:
    joinery.torch.report(clear=True)

    def gradients(run: Any) -> dict[str, Any]:
        module.zero_grad()
        sum(each.float().square().mean() for each in _tensors(run(*inputs)) if each.is_floating_point()).backward()
        return {key: each.grad.clone() for key, each in module.named_parameters() if each.grad is not None}

    wanted, got = gradients(module), gradients(torch.compile(module, backend="joinery"))
    if got.keys() != wanted.keys():
        return _reported("other parameters have gradients")
    return _reported(_difference([got[key] for key in wanted], list(wanted.values()), GRADIENTS))


def _export(name: str, module: Any, inputs: tuple[Any, ...]) -> Outcome:
    with torch.no_grad():
        state = {key: value.clone() for key, value in module.named_buffers()}
        exported = torch.export.export(module, inputs)
        wanted = [value.clone() for value in _tensors(module(*inputs))]
        explicit = name in EXPLICIT
        graph = jn.from_exported(exported, state="explicit" if explicit else "refuse")
        arrays = [to_array(each) for each in inputs]
        if explicit:
            arrays += [to_array(state[symbol.name]) for symbol in graph.inputs[len(inputs) :] if symbol.name is not None]
        results = jn.compile(graph, "cpu")(*arrays)
    several = results if isinstance(results, tuple) else (results,)
    got = [_tensor(each, symbol.dtype) for each, symbol in zip(several, graph.outputs, strict=True)][: len(wanted)]
    nodes = sum(node.op == "call_function" for node in exported.graph.nodes)
    return Outcome(nodes, nodes, 1, (), _difference(got, wanted))


def _tensor(array: Any, dtype: Any) -> Any:
    return to_tensor(np.array(array), dtype)

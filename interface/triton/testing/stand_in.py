"""A GPU's surface of torch on a machine without one: what suites for a GPU ask for before they launch anything.

Functions of `torch.cuda` answer as for one GPU (`surface`). Tensors on "cuda:0" lie in the CPU's memory: of a device of torch's
own where torch can be told of it (`guard`, `operators`), else by a mode that has one device (`one_device`).
"""

from __future__ import annotations

import os
from typing import Any

from .. import memory
from . import compiled, guard, one_device, operators
from .generators import Drawing, generator_class, shared_generator
from .graphs import cuda_graphs
from .memory import types, writes
from .memory.counts import Counts
from .memory.exchange import Exchange
from .storages import follow_pinned, let_storages_change
from .surface import VERSION, marks, memory_functions, replace_accelerator, replacements, runtime


def install() -> None:
    """Make torch have a GPU from now on, in this process.

    `torch.compile` returns functions as they are, unless `TORCHDYNAMO_DISABLE=0` is set: see `compiled`.
    """
    import torch

    if getattr(torch.cuda, "joinery_stands_in", False):
        return
    torch.cuda.joinery_stands_in = True
    exchange = _exchange(torch)
    is_device = exchange is not None and guard.register(torch)
    torch.Generator = generator_class(torch, is_device)
    generator = torch.Generator("cuda") if is_device else shared_generator(torch)
    counts = Counts()
    torch.cuda.default_generators = (generator,)
    for name, value in replacements(torch, generator, is_device).items():
        setattr(torch.cuda, name, value)
    for name, value in memory_functions(counts).items():
        setattr(torch.cuda, name, value)
        setattr(torch.cuda.memory, name, value)
    replace_accelerator(torch, counts)
    torch.cuda.nvtx._nvtx = marks()
    torch.cuda._cudart = runtime(counts)
    torch.backends.cudnn.is_acceptable = lambda tensor: False  # torch's warns that it has no cuDNN
    _initialize(torch)
    torch.version.cuda = torch.version.cuda or VERSION
    if is_device and exchange is not None:
        installed = operators.install(torch, counts.note, exchange, Drawing(generator))
        writes.on_cuda[:] = [installed.run]
        follow_pinned(torch)
        let_storages_change(torch, installed.resize_storage)
        types.install(torch)
        cuda_graphs.install(torch, generator)
        memory.use_cuda()
        compiled.lead(torch)
    else:
        os.environ.setdefault("TORCHDYNAMO_DISABLE", "1")
        one_device.install(torch)


def _initialize(torch: Any) -> None:
    """Let torch know that CUDA is initialized, and do what was put off until then: seeds that were set before.

    What else waits looks at the versions of GPUs.
    """
    for call, _ in [each for each in torch.cuda._lazy_seed_tracker.get_calls() if each]:
        call()
    torch.cuda._queued_calls.clear()
    torch.cuda._initialized = True


def _exchange(torch: Any) -> Exchange | None:
    """What lets storages exchange their memory, where storages of this torch can."""
    try:
        return Exchange(torch)
    except LookupError:
        return None

"""Provides the peers of benchmarks/gpu.py: torch (cuBLAS, cuDNN, its own kernels) and Triton, where they are
installed and find a GPU."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

import numpy as np
from gpu_timing import LEFT_OUT, Contender, Effort, WrongResult, fastest

Check = Callable[[Any], None]


@cache
def torch_or_why() -> Any:
    """Returns the module, or a text that says why there is none."""
    try:
        import torch
    except ImportError as error:
        return str(error)
    if not torch.cuda.is_available():
        return f"torch {torch.__version__} sees no CUDA device"
    return torch


def has_torch() -> bool:
    return not isinstance(torch_or_why(), str)


@cache
def triton_or_why() -> Any:
    """Returns the module with the kernels, or a text that says why there is none."""
    if not has_torch():
        return f"Triton works on torch's tensors: {torch_or_why()}"
    try:
        import gpu_triton
    except ImportError as error:
        return str(error)
    return gpu_triton


def tensor(array: Any) -> Any:
    """Copies a NumPy array to a tensor on the device."""
    torch = torch_or_why()
    if array.dtype.name == "bfloat16":
        return torch.from_numpy(array.view(np.int16)).cuda().view(torch.bfloat16)
    return torch.from_numpy(array).cuda()


def tensors(arrays: Sequence[Any], sets: int) -> list[list[Any]]:
    """Copies the arrays to tensors on the device, `sets` times."""
    first = [tensor(array) for array in arrays]
    return [first, *([each.clone() for each in first] for _ in range(sets - 1))]


def array(tensor: Any) -> Any:
    """Copies a tensor to a NumPy array of float32."""
    return tensor.float().cpu().numpy()


def time_by_events(call: Callable[[], object], repeats: int) -> list[float]:
    """Measures calls as `CudaDevice.time` does, on torch's current stream."""
    torch = torch_or_why()
    events = [[torch.cuda.Event(enable_timing=True) for _ in range(2)] for _ in range(repeats)]
    for first, second in events:
        first.record()
        call()
        second.record()
    torch.cuda.synchronize()
    return [first.elapsed_time(second) for first, second in events]


def torch_contender(name: str, call: Callable[[int], Any]) -> Contender:
    """Makes a contender; `call(set)` returns the result's tensor."""
    kept: dict[int, Any] = {}

    def run(number: int) -> None:
        kept[number] = call(number)

    return Contender(name, run, time_by_events, lambda: array(kept[0]))


def attempted(
    contenders: Sequence[Contender],
    check: Check,
    effort: Effort,
    notes: dict[str, str],
    errors: tuple[type[Exception], ...] = (RuntimeError, WrongResult),
) -> list[Contender]:
    """Returns the contenders that run and compute the right result; the notes say why the others do not."""
    found = []
    for contender in contenders:
        if contender.name in effort.without:
            notes[contender.name] = LEFT_OUT
            continue
        effort.trying(contender.name)
        try:
            contender.run(0)
            check(contender.result())
            found.append(contender)
        except errors as error:
            notes[contender.name] = (str(error).splitlines() or [type(error).__name__])[0][:200]
    return found


def triton_contender(
    name: str, candidates: dict[str, Callable[[int], Any]], sets: int, check: Check, effort: Effort, notes: dict[str, str]
) -> list[Contender]:
    """Returns the fastest of a kernel's configurations; none if no configuration works."""
    made = [torch_contender(f"{name} {label}", call) for label, call in candidates.items()]
    # Triton's errors have no common base: too much shared memory, assembler, driver
    working = attempted(made, check, effort, notes, (Exception,))
    if not working:
        return []
    best = fastest(working, sets, effort)
    notes[name] = f"configuration {best.name.removeprefix(name).strip()}, the fastest of {len(working)}"
    return [Contender(name, best.run, best.time, best.result)]

"""Finds what a model runs on: a device, the target of its code, and the arrays as its code reads them."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np

from ...lowering.artifact import ConstantSpec
from ...lowering.llvm.compile import host_target
from ...lowering.llvm.cpu_levels import LEVELS, fits, level_target, runs_level
from ...lowering.llvm.nvptx.targets import GpuTarget, gpu_target
from ...lowering.target import HostTarget
from ...promotion.arrays import Array
from ...promotion.errors import UserError
from ...runtime.cuda.current import why_unavailable
from ...runtime.device import Device
from ...runtime.host.device import HostDevice
from ...runtime.host.memory import aligned_copy, is_aligned
from ...runtime.storage.cache import CompileCache
from ...runtime.storage.weight_packing import pack

DEVICES = ("auto", "cpu", "cuda", "cuda:1", "ptxsim")
_GPU = re.compile(r"cuda:[0-9]+")
SIMULATED_TARGET = "sm_80"
Target = HostTarget | GpuTarget


def resolve(device: str, target: str | None, what: str) -> tuple[str, Target]:
    """Return the device, and the target that code is generated for."""
    if device == "auto":
        device = "cpu" if why_unavailable() is not None else "cuda"
    if isinstance(device, str) and device.partition(":")[0] == "cuda":
        from ...runtime.cuda.device import cuda_device

        gpu = cuda_device(device)
        found = gpu_target(gpu.target if target is None else target)
        return device, replace(found, processors=gpu.processors)
    if device == "ptxsim":
        return device, gpu_target(SIMULATED_TARGET if target is None else target)
    if device != "cpu":
        raise _unknown(device, what)
    if target is None:
        return device, host_target()
    if target.startswith("sm_"):
        raise UserError(f"{what}: target {target!r} is for GPUs; fix: device='ptxsim', or no target")
    level = level_target(target, what)
    if not runs_level(level, host_target()):
        here = host_target().cpu
        raise UserError(f"{what}: this CPU, {here}, does not run code for {target}; fix: no target, or a lower level")
    return device, level


def named_target(name: str, what: str) -> Target:
    """Return the target of a name: "cpu" for this machine's CPU, a level of x86-64, or a GPU's."""
    if name == "cpu":
        return host_target()
    return gpu_target(name) if name.startswith("sm") else level_target(name, what)


def named_targets(names: Sequence[str]) -> list[Target]:
    """Return the targets of a file, in the order in which their code stands in it."""
    is_list = isinstance(names, Sequence) and not isinstance(names, str) and all(isinstance(name, str) for name in names)
    if not is_list or not names or len(set(names)) != len(names):
        raise UserError(f"save: targets {names!r}; fix: different ones in a tuple, such as ('cpu', 'sm_80')")
    resolved = [named_target(name, "save") for name in names]
    # The first code that fits is taken: that of one CPU before that of levels, higher levels before lower ones.
    resolved.sort(key=lambda each: (each.cpu in LEVELS, -each.vector_bytes) if isinstance(each, HostTarget) else (True, 0))
    return resolved


def require_device(device: object, what: str) -> None:
    """Raise `UserError` for what names no device anywhere; whether this machine has it is not asked."""
    if not isinstance(device, str) or (device not in DEVICES and _GPU.fullmatch(device) is None):
        raise _unknown(device, what)


def _unknown(device: object, what: str) -> UserError:
    return UserError(f"{what}: unknown device {device!r:.80}; expected one of {', '.join(DEVICES)}; fix: use device='cpu'")


def device_of(device: str, target: Target, store: CompileCache | None) -> Device:
    if isinstance(target, HostTarget):
        return HostDevice(store)
    from ...runtime.model.gpu_model import (
        GpuBackend,  # GPUs and the simulator load only when they are asked for
    )

    if device == "ptxsim":
        from ...runtime.ptxsim.device import SimulatedGpu

        return GpuBackend(SimulatedGpu(target.name), store)
    from ...runtime.cuda.arrays import CudaArrays
    from ...runtime.cuda.device import cuda_device

    gpu = cuda_device(device)
    return GpuBackend(gpu, store, CudaArrays(gpu))


def same_code(target: Target) -> Callable[[str], bool]:
    """Return what tells whether code for a target's key runs here: GPUs of one kind differ in their multiprocessors, by which
    blocks are chosen but which no code depends on, and CPUs run the code of levels that they have."""
    if isinstance(target, HostTarget):
        return lambda key: key == target.key or (target.cpu not in LEVELS and fits(key, target))
    return lambda key: key.rpartition("|")[0] == target.key.rpartition("|")[0]


def stored(spec: ConstantSpec, array: Array) -> Array:
    """Return a constant as the kernels read it: in its layout, contiguous, on a 64-byte boundary."""
    stored = np.ascontiguousarray(pack(array, spec.layout))
    return stored if is_aligned(stored) else aligned_copy(stored)

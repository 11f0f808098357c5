"""Runs on this machine's CUDA device what tests ask of simulated GPUs, where the device runs code for their target.

`JOINERY_TESTS_GPU=cuda` switches it on (`make test-gpu`). Kernels are compiled for the device's own target, graphs for the
target that the test names. What is sanitized stays simulated, and so is code for newer or other GPUs. Tests of the
simulator's own messages and checks fail then, as they should: a device does not notice.
"""

from __future__ import annotations

import os
from typing import Any

import pytest
from joinery.interface import compiling
from joinery.interface.kernel import Kernel
from joinery.runtime.cuda.arrays import CudaArrays
from joinery.runtime.cuda.device import CudaDevice, cuda_device
from joinery.runtime.model.gpu_model import GpuBackend

VARIABLE = "JOINERY_TESTS_GPU"
LOST = 70  # the exit status of a process that has lost its device


class Standing:
    """A CUDA device that stands for a simulated one: it says that it is of another target."""

    def __init__(self, device: CudaDevice, target: str) -> None:
        self._device, self.target, self.name = device, target, "ptxsim"

    def __getattr__(self, name: str) -> Any:
        return getattr(self._device, name)


def runs(device: CudaDevice, target: str) -> bool:
    """Whether the device runs code for a target: its own, and those without the "a" of lower capabilities."""
    return target == device.target or (target[3:].isdigit() and int(target[3:]) <= device.capability)


def install() -> None:
    """Replaces the simulator in `joinery.compile`, `joinery.load` and `Kernel.launch`."""
    simulated_device, simulated_launch = compiling._device, Kernel._launch

    def device_for(device: str, target: Any, store: Any) -> Any:
        if device == "ptxsim" and runs(gpu := cuda_device(), target.name):
            return GpuBackend(Standing(gpu, target.name), store, CudaArrays(gpu))  # type: ignore[arg-type]
        return simulated_device(device, target, store)

    def launch(
        kernel: Kernel, extents: Any, args: Any, device: str, target: str | None, sanitize: bool, threads: int | None,
        warps: int, check_bounds: bool,
    ) -> None:  # fmt: skip
        if device == "ptxsim" and not sanitize and runs(gpu := cuda_device(), target or "sm_80"):
            kernel._launch_on_cuda(gpu, extents, args, None, False, warps)
        else:
            simulated_launch(kernel, extents, args, device, target, sanitize, threads, warps, check_bounds)

    compiling._device, Kernel._launch = device_for, launch  # type: ignore[method-assign]


class LostDevices:
    """Ends a process whose device was lost by a test, so that the tests after it get another process."""

    @pytest.hookimpl(trylast=True)
    def pytest_runtest_logfinish(self) -> None:
        try:
            cuda_device().check_alive()
        except Exception:
            os._exit(LOST)

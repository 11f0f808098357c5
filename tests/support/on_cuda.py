"""Runs on this machine's CUDA device what tests ask of simulated GPUs, where the device runs code for their target.

`JOINERY_TESTS_GPU=cuda` switches it on (`make test-gpu`). Kernels are compiled for the device's own target, graphs for the
target that the test names. What is sanitized stays simulated, and so is code for newer or other GPUs. Tests of what only the
simulator does (`OF_THE_SIMULATOR`) are left out: a device does not notice a wrong address, and prints to the process's own
output.
"""

from __future__ import annotations

import os
from typing import Any

import pytest
from joinery.interface.kernel import Kernel
from joinery.interface.opening import devices
from joinery.runtime.cuda.arrays import CudaArrays
from joinery.runtime.cuda.device import CudaDevice, cuda_device
from joinery.runtime.model.gpu_model import GpuBackend

VARIABLE = "JOINERY_TESTS_GPU"
OF_THE_SIMULATOR = (
    "interface/triton/", "test_simulated_errors.py", "test_null_pointers.py", "test_addresses_as_numbers.py",
    "test_gpu_model.py", "test_launch.py::test_how_many_warps", "test_tensor_maps.py::test_what_lies_on_a_device",
    "test_what_ptx_breaks", "test_lowering_is_deterministic", "test_what_is_compiled_in_such_a_thread",
    "test_questions_are_answered", "test_random_programs.py::test_what_is_refused", "test_an_assertion_names_its_line",
    "test_names.py", "test_debug_lines.py", "host/test_bounds.py", "test_the_position_of_a_program",
    "test_clocks_go_on_between_reads", "test_halves_of_clocks", "test_an_element_acts_once",
    "test_the_worst_operands_have_the_recorded_errors",
)  # fmt: skip
"""Parts of the names of tests that say what only the simulator notices, prints or numbers."""
ON_CUDA = os.environ.get(VARIABLE) == "cuda"
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
    simulated_device, simulated_launch = devices.device_of, Kernel._launch

    def device_for(device: str, target: Any, store: Any) -> Any:
        if device == "ptxsim" and runs(gpu := cuda_device(), target.name):
            return GpuBackend(Standing(gpu, target.name), store, CudaArrays(gpu))  # type: ignore[arg-type]
        return simulated_device(device, target, store)

    def launch(
        kernel: Kernel, extents: Any, args: Any, device: str, target: str | None, sanitize: bool, threads: int | None,
        warps: int, check_bounds: bool,
    ) -> None:  # fmt: skip
        if device == "ptxsim" and not sanitize and runs(gpu := cuda_device(), target or "sm_80"):
            kernel.on_cuda.launch(gpu, extents, args, warps=warps)
        else:
            simulated_launch(kernel, extents, args, device, target, sanitize, threads, warps, check_bounds)

    devices.device_of, Kernel._launch = device_for, launch  # type: ignore[method-assign]


class OnCuda:
    """Leaves tests of the simulator out, and ends a process whose device was lost: the tests after it get another process."""

    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        items[:] = [item for item in items if not any(part in item.nodeid for part in OF_THE_SIMULATOR)]

    @pytest.hookimpl(trylast=True)
    def pytest_runtest_logfinish(self) -> None:
        try:
            cuda_device().check_alive()
        except Exception:
            os._exit(LOST)

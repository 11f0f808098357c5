"""Implements the simulator as a GPU: memory persists between launches, and every access of kernels is checked."""

from __future__ import annotations

import bisect
import heapq
import sys
from collections.abc import Callable, Sequence
from dataclasses import field

import numpy as np

from ...lowering.artifact import KernelCode
from ...lowering.artifact import TensorMap as Facts
from ...promotion.arrays import Array
from ...promotion.dataclass import dataclass
from ...promotion.errors import DeviceMemoryError, InternalError
from ..gpu import ALIGNMENT, GpuMemory, LoadedKernel, argument_bytes
from .async_copies.tensor_maps import TensorMap
from .core.arguments import Arena, initialise_variables, reserve_variables
from .launch import Kernel, Module
from .memory.spaces import (
    GAP,
    MAX_ALLOCATIONS,
    Allocation,
    GlobalMemory,
    ParameterMemory,
    address_at,
    aligned_bytes,
)

CAPACITY = 16 << 30
"""The size of the simulated memory in bytes; host memory is used only for what is allocated."""
_FIRST = 1 << 20
UNDEFINED = 0x5A
"""The byte that new memory is filled with."""


class SimulatedMemory:
    """An allocation of a simulated GPU."""

    def __init__(self, device: SimulatedGpu, allocation: Allocation) -> None:
        self._device = device
        self._allocation: Allocation | None = allocation
        self.nbytes = allocation.size
        self.address = allocation.address if allocation.size else 0

    def free(self) -> None:
        if self._allocation is not None:
            self._device.give_back(self._allocation)
            self._allocation = None

    __del__ = free

    def range(self, offset: int, nbytes: int) -> slice:
        """Returns the slice of bytes in the device's memory. Raises `InternalError` for bytes out of bounds,
        and after `free`."""
        if self._allocation is None:
            raise InternalError("ptxsim: memory is used after it was freed")
        if not 0 <= offset <= offset + nbytes <= self.nbytes:
            raise InternalError(f"ptxsim: {nbytes} bytes at {offset} of an allocation of {self.nbytes}")
        start = self._allocation.start + offset
        return slice(start, start + nbytes)


@dataclass(frozen=True, slots=True)
class SimulatedKernel:
    """A loaded kernel, with the addresses of its module's variables."""

    device: SimulatedGpu = field(repr=False, compare=False)
    code: KernelCode
    kernel: Kernel
    variables: dict[str, int]


class _Recording:
    def __init__(self, replay: Callable[[], None]) -> None:
        self._replay: Callable[[], None] | None = replay

    def replay(self) -> None:
        if self._replay is None:
            raise InternalError("ptxsim: a recording is replayed after it was freed")
        self._replay()

    def free(self) -> None:
        self._replay = None


class SimulatedGpu:
    """A GPU that interprets PTX; implements `runtime.gpu.GpuDevice`.

    Args:
        target: the GPU that it simulates, such as "sm_90a".
        level: 1 checks bounds and rules; 2 also undefined values and bytes in flight; 3 also races.
    """

    name = "ptxsim"

    def __init__(self, target: str, level: int = 1) -> None:
        self.target = target
        self._level = level
        self._octets: Array = aligned_bytes(_FIRST)
        self._allocations: list[Allocation] = []  # in the order of their bytes
        self._numbers: list[int] = []  # a heap of those that were given back
        self._modules: dict[KernelCode, SimulatedKernel] = {}
        self._recorded: list[tuple[LoadedKernel, tuple[int, int, int], tuple[int, ...]]] | None = None

    # -- memory

    def allocate(self, nbytes: int) -> SimulatedMemory:
        return SimulatedMemory(self, self._reserve(f"allocation of {nbytes} bytes", nbytes, ALIGNMENT, True))

    def _reserve(self, name: str, size: int, align: int, writable: bool) -> Allocation:
        """Allocates the first gap that is large enough. Raises `DeviceMemoryError` if there is none."""
        align = max(align, ALIGNMENT)
        start = ALIGNMENT
        taken = max(size, 1)  # also memory of no bytes has a place of its own
        for allocation in self._allocations:
            if start + taken <= allocation.start:
                break
            start = -(-(allocation.start + max(allocation.size, 1)) // align) * align
        end = start + taken
        if end > CAPACITY:
            used = sum(each.size for each in self._allocations)
            raise DeviceMemoryError(f"ptxsim: {size} bytes do not fit: {used} of {CAPACITY} are in use")
        if end > self._octets.size:
            grown = aligned_bytes(-(-max(end, 2 * self._octets.size) // 128) * 128)
            grown[: self._octets.size] = self._octets
            self._octets = grown
        self._octets[start : start + size] = UNDEFINED
        number = heapq.heappop(self._numbers) if self._numbers else len(self._allocations)
        if number == MAX_ALLOCATIONS:
            raise DeviceMemoryError(f"ptxsim: more than {MAX_ALLOCATIONS} allocations at once")
        made = Allocation(name, start, size, writable, address_at(number, start))
        bisect.insort(self._allocations, made, key=lambda each: each.start)
        return made

    def give_back(self, allocation: Allocation) -> None:
        self._allocations.remove(allocation)
        heapq.heappush(self._numbers, (allocation.address - address_at(0, allocation.start)) // GAP)

    def upload(self, memory: GpuMemory, offset: int, array: Array) -> None:
        assert isinstance(memory, SimulatedMemory)
        self._octets[memory.range(offset, array.nbytes)] = array.reshape(-1).view(np.uint8)

    def download(self, memory: GpuMemory, offset: int, array: Array) -> None:
        assert isinstance(memory, SimulatedMemory)
        array.reshape(-1).view(np.uint8)[...] = self._octets[memory.range(offset, array.nbytes)]

    def read(self, address: int, array: Array) -> None:
        array.reshape(-1).view(np.uint8)[...] = self._octets[self._bytes_at(address, array.nbytes)]

    def write(self, address: int, array: Array) -> None:
        self._octets[self._bytes_at(address, array.nbytes)] = array.reshape(-1).view(np.uint8)

    def _bytes_at(self, address: int, nbytes: int) -> slice:
        """Returns the slice of bytes at an address in the device's memory. Raises `InternalError` for bytes out of bounds."""
        found = self._memory().at(address)
        if found is None or address + nbytes > found.address + found.size:
            raise InternalError(f"ptxsim: {nbytes} bytes at address {address:#x} are in no allocation")
        start = found.start + (address - found.address)
        return slice(start, start + nbytes)

    # -- kernels

    def preload(self, codes: Sequence[KernelCode]) -> Sequence[LoadedKernel]:
        """Implements `GpuDevice.preload`; one text is read after the other."""
        return ()

    def load(self, code: KernelCode) -> SimulatedKernel:
        found = self._modules.get(code)
        if found is None:
            module = Module(code.ptx)
            kernel = module.kernel(code.name)

            def reserve(name: str, size: int, align: int, writable: bool) -> int:
                return self._reserve(name, size, align, writable).address

            variables = reserve_variables(kernel.function, module.ptx, reserve)
            initialise_variables(Arena(self._memory(), variables, ParameterMemory(0), {}, []), module.ptx)
            found = self._modules[code] = SimulatedKernel(self, code, kernel, variables)
        return found

    def _memory(self) -> GlobalMemory:
        return GlobalMemory(self._octets.size, self._allocations, self._octets)

    def launch(self, loaded: LoadedKernel, grid: tuple[int, int, int], arguments: Sequence[int]) -> None:
        assert isinstance(loaded, SimulatedKernel)
        if 0 in grid:
            return
        if self._recorded is not None:
            self._recorded.append((loaded, grid, tuple(arguments)))
            return
        code = loaded.code
        data = [argument_bytes(type_, argument) for type_, argument in zip(code.parameters, arguments, strict=True)]
        result = loaded.kernel.launch_in(
            self._memory(), loaded.variables, grid, data, code.shared_bytes, self._level
        )
        sys.stdout.write(result.printed)

    def tensor_map(
        self, facts: Facts, address: int, extents: Sequence[int], strides: Sequence[int], pads_with_nan: bool = False
    ) -> int:
        """Implements `GpuDevice.tensor_map`, in the simulator's own format."""
        made = TensorMap.of(facts, np.empty(0, np.uint8), extents, strides, pads_with_nan)
        return int.from_bytes(made.encode_map(address), "little")

    def synchronize(self) -> None:
        """Does nothing: launches are done when they return."""

    def capture(self, record: Callable[[], object]) -> _Recording:
        if self._recorded is not None:
            raise InternalError("ptxsim: a recording inside a recording")
        launches = self._recorded = []
        try:
            record()
        finally:
            self._recorded = None

        def replay() -> None:
            for loaded, grid, arguments in launches:
                self.launch(loaded, grid, arguments)

        return _Recording(replay)

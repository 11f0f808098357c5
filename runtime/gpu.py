"""Defines what the rest of the runtime requires of a GPU: memory, kernels, launches, recordings. CUDA devices
and the simulator implement it.

Operations of a device are carried out in the order of the calls, as on one stream. Addresses are plain integers, so kernels
can be given parts of an allocation, and one allocation can serve many arrays.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

import numpy as np
from numpy.typing import ArrayLike

from ..lowering.artifact import KernelCode, TensorMap
from ..promotion.arrays import Array, DeviceArray, NumpyDType
from ..promotion.errors import InternalError, UserError

ALIGNMENT = 256
"""The alignment of allocations in bytes: every address is a multiple of it."""

MAX_GRID = ((1 << 31) - 1, (1 << 16) - 1, (1 << 16) - 1)
"""The most blocks of a grid along x, y and z that a GPU takes; a device may know other limits of its own.

Source: NVIDIA, "CUDA C++ Programming Guide", "Compute capabilities".
"""

PARAMETER_BYTES = {"i1": 1, "i8": 1, "i16": 2, "half": 2, "bfloat": 2, "i32": 4, "float": 4, "i64": 8, "double": 8, "ptr": 128}
"""Bytes of a kernel's parameter, by its type in `KernelCode.parameters`; a `"ptr"` is a tensor map."""


class GpuMemory(Protocol):
    """An allocation. Its bytes are undefined until they are written."""

    @property
    def address(self) -> int:
        """The first byte's address, a multiple of `ALIGNMENT`; 0 if there are no bytes."""
        ...

    @property
    def nbytes(self) -> int: ...

    def free(self) -> None:
        """Frees the memory once the operations that were queued before are done. A second call does nothing."""
        ...


class LoadedKernel(Protocol):
    """A kernel that the device can launch. It stays loaded for as long as the object lives."""

    @property
    def code(self) -> KernelCode: ...

    @property
    def device(self) -> object:
        """The device on which the kernel was loaded."""


class Recording(Protocol):
    """A recorded sequence of launches, as in a CUDA graph. The memory that they use must outlive it."""

    def replay(self) -> None:
        """Queues all of the launches again, with the arguments that they had."""
        ...

    def free(self) -> None:
        """Frees the recording. A second call does nothing."""
        ...


class GpuDevice(Protocol):
    """One GPU, with an order of operations of its own. Memory and kernels of one device do not work on another."""

    @property
    def name(self) -> str:
        """The name of the device: `"cuda"`, `"cuda:1"` or `"ptxsim"`."""
        ...

    @property
    def target(self) -> str:
        """The GPU that code must be compiled for, such as `"sm_90a"`."""
        ...

    def allocate(self, nbytes: int) -> GpuMemory:
        """Allocates memory. Raises `DeviceMemoryError` if there is too little; the device remains usable."""
        ...

    def upload(self, memory: GpuMemory, offset: int, array: Array) -> None:
        """Copies a C-contiguous array into the memory, `offset` bytes from its start. The array may change as
        soon as this returns."""
        ...

    def download(self, memory: GpuMemory, offset: int, array: Array) -> None:
        """Fills a C-contiguous, writeable array from the memory, `offset` bytes from its start; returns when
        it is filled."""
        ...

    def read(self, address: int, array: Array) -> None:
        """Fills a small, C-contiguous, writeable array from an address on the device; returns when it is filled."""
        ...

    def write(self, address: int, array: Array) -> None:
        """Copies a small, C-contiguous array to an address on the device. The array may change as soon as this returns."""
        ...

    def load(self, code: KernelCode) -> LoadedKernel:
        """Makes a kernel callable; the same code is loaded only once. Raises `UserError` for code that cannot
        run here."""
        ...

    def preload(self, codes: Sequence[KernelCode]) -> Sequence[LoadedKernel]:
        """Loads what can be loaded of several kernels, at the same time where the device can, for `load` to find.

        The kernels are there for as long as the caller has what is returned. `load` raises the errors of the others.
        """
        ...

    def launch(self, loaded: LoadedKernel, grid: tuple[int, int, int], arguments: Sequence[int]) -> None:
        """Starts a kernel; may return before it is done.

        arguments: one integer per parameter: an address, or the bits of a number (`to_bits`) or of a tensor map, as a signed
        or unsigned integer.
        An empty grid does nothing. Raises `UserError` for grids beyond the limits of the device.
        """
        ...

    def tensor_map(
        self, facts: TensorMap, address: int, extents: Sequence[int], strides: Sequence[int], pads_with_nan: bool = False
    ) -> int:
        """Encodes a tensor map: returns the integer that `launch` takes for it.

        facts: element type, box and swizzle.
        address, extents, strides: the tensor, outermost axis first, with strides in elements.
        pads_with_nan: whether elements out of bounds read as NaN instead of 0.

        Raises `UserError` for tensors that no map can describe.
        """
        ...

    def synchronize(self) -> None:
        """Waits until all operations are done. Raises the errors of kernels, after which this process can no
        longer use the device."""
        ...

    def capture(self, record: Callable[[], object]) -> Recording:
        """Calls `record` and records the launches that it makes instead of carrying them out.

        Only `launch` may be used inside: memory must be allocated and kernels loaded before.
        """
        ...


class DeviceArrays(Protocol):
    """Recognises and allocates arrays that live in the memory of a device."""

    def array_of(self, value: object) -> DeviceArray | None:
        """Returns the array that a value is, or shares memory with; None if it is not an array on any device.

        Raises `UserError` for arrays on other devices.
        """
        ...

    def new_array(self, shape: tuple[int, ...], dtype: NumpyDType) -> DeviceArray:
        """Allocates an array whose contents are undefined."""
        ...

    def is_writeable(self, array: DeviceArray) -> bool: ...

    def copy(self, target: int, source: int, nbytes: int) -> None:
        """Copies bytes from one address of the device to another."""
        ...

    def wait_for_foreign(self, arrays: Sequence[DeviceArray]) -> None:
        """Waits where other libraries own some of the arrays, since their streams have an order of their own."""
        ...


def check_grid(
    name: str, grid: tuple[int, int, int], device: str, limits: Sequence[int] = MAX_GRID, instead: str = ""
) -> None:
    """Raises `UserError` for a grid that is empty or beyond the limits of a device. instead: another way out, appended."""
    for axis, extent, most in zip("xyz", grid, limits, strict=True):
        if not 0 < extent <= most:
            raise UserError(
                f"@{name} on grid {grid}: {extent} programs along {axis}; {device} takes {most} at most; fix: put the "
                f"large extent on x, or launch in parts{instead}"
            )


def to_bits(value: ArrayLike) -> int:
    """Returns the bits of a NumPy number as an unsigned integer: what `GpuDevice.launch` takes for a parameter of that type."""
    return int.from_bytes(np.asarray(value).tobytes(), "little")


def argument_bytes(type_: str, value: int) -> bytes:
    """Encodes a value as the little-endian bytes of a parameter of this LLVM type. Raises `InternalError` if
    it does not fit."""
    size = PARAMETER_BYTES.get(type_)
    if size is None:
        raise InternalError(f"a kernel's parameter of type {type_} has no known size")
    bits = 8 * size
    if not -(1 << (bits - 1)) <= value < 1 << bits:
        raise InternalError(f"value {value} for a parameter of type {type_}")
    return (value & ((1 << bits) - 1)).to_bytes(size, "little")

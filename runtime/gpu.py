"""What a GPU is to the rest of the runtime: memory, kernels, launches, recordings. CUDA devices and the simulator are such.

Everything a device is asked for happens in the order of the calls, as on one stream. Addresses are plain integers, so kernels
can be given parts of an allocation, and one allocation can serve many arrays.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

import numpy as np
from numpy.typing import ArrayLike

from ..lowering.artifact import KernelCode, TensorMap
from ..promotion.arrays import Array, DeviceArray, NumpyDType
from ..promotion.errors import InternalError

ALIGNMENT = 256
"""Addresses of allocations are multiples of it."""

WORD_BYTES = {"i1": 1, "i8": 1, "i16": 2, "half": 2, "bfloat": 2, "i32": 4, "float": 4, "i64": 8, "double": 8, "ptr": 128}
"""Bytes of a parameter of a kernel, by its type in `KernelCode.parameters`; a `"ptr"` is a tensor map."""


class GpuMemory(Protocol):
    """An allocation. Its bytes are undefined until they are written."""

    @property
    def address(self) -> int:
        """A multiple of `ALIGNMENT`; 0 if there are no bytes."""
        ...

    @property
    def nbytes(self) -> int: ...

    def free(self) -> None:
        """Gives the memory back once what was asked of the device before is done. The second time does nothing."""
        ...


class LoadedKernel(Protocol):
    """A kernel that the device can launch. It stays loaded while the object lives."""

    @property
    def code(self) -> KernelCode: ...

    @property
    def device(self) -> object:
        """The device that it was loaded on."""


class Recording(Protocol):
    """Launches that were recorded; the memory they use must outlive it."""

    def replay(self) -> None:
        """Asks the device for all of them again, with the words they had."""
        ...

    def free(self) -> None:
        """Forgets them. The second time does nothing."""
        ...


class GpuDevice(Protocol):
    """One GPU, with an order of its own. Memory and kernels of one device do not work on another."""

    @property
    def name(self) -> str:
        """`"cuda"`, `"cuda:1"`, `"ptxsim"`."""
        ...

    @property
    def target(self) -> str:
        """The GPU that code is made for: `"sm_90a"`."""
        ...

    def allocate(self, nbytes: int) -> GpuMemory:
        """Raises `DeviceMemoryError` if there is too little memory; the device works on."""
        ...

    def upload(self, memory: GpuMemory, offset: int, array: Array) -> None:
        """Copies a C-contiguous array to `offset` bytes behind the start. The array may change as soon as this returns."""
        ...

    def download(self, memory: GpuMemory, offset: int, array: Array) -> None:
        """Fills a C-contiguous, writeable array from `offset` bytes behind the start; returns when it is filled."""
        ...

    def load(self, code: KernelCode) -> LoadedKernel:
        """Makes a kernel callable; the same code is loaded once. Raises `UserError` for code that cannot run here."""
        ...

    def launch(self, loaded: LoadedKernel, grid: tuple[int, int, int], words: Sequence[int]) -> None:
        """Starts a kernel, and may return before it is done.

        words: one per parameter: an address, or the bits of a number (`to_bits`) or a tensor map, as signed or unsigned
        integer.
        An empty grid does nothing. Raises `UserError` for grids beyond the limits of the device.
        """
        ...

    def tensor_map(
        self, facts: TensorMap, address: int, extents: Sequence[int], strides: Sequence[int], pads_with_nan: bool = False
    ) -> int:
        """The word of a launch for a parameter that is a tensor map: of the tensor at an address, outermost axis first, with
        strides in elements. Raises `UserError` for tensors that no map describes."""
        ...

    def synchronize(self) -> None:
        """Waits until everything is done. Raises what kernels did wrong: then the device is lost to this process."""
        ...

    def capture(self, record: Callable[[], object]) -> Recording:
        """Calls `record` and keeps the launches it makes instead of carrying them out.

        Inside, only `launch` may be used: memory and kernels have to be there before.
        """
        ...


class DeviceArrays(Protocol):
    """How a device takes and gives arrays that live in its memory."""

    def array_of(self, value: object) -> DeviceArray | None:
        """The array that a value is, or shares memory with; None if it is no array on any device.

        Raises `UserError` for arrays on other devices.
        """
        ...

    def new_array(self, shape: tuple[int, ...], dtype: NumpyDType) -> DeviceArray:
        """Undefined contents."""
        ...

    def is_writeable(self, array: DeviceArray) -> bool: ...

    def copy(self, target: int, source: int, nbytes: int) -> None:
        """Copies from address to address."""
        ...

    def settle(self, arrays: Sequence[DeviceArray]) -> None:
        """Waits where other libraries own some of the arrays: they have an order of their own."""
        ...


def to_bits(value: ArrayLike) -> int:
    """Returns the bits of a NumPy number as an unsigned integer: what `GpuDevice.launch` takes for a parameter of that type."""
    return int.from_bytes(np.asarray(value).tobytes(), "little")


def argument_bytes(type_: str, value: int) -> bytes:
    """Encodes a value as little-endian bytes of a parameter of this LLVM type. Raises `InternalError` if it does not fit."""
    size = WORD_BYTES.get(type_)
    if size is None:
        raise InternalError(f"a kernel's parameter of type {type_} has no known size")
    bits = 8 * size
    if not -(1 << (bits - 1)) <= value < 1 << bits:
        raise InternalError(f"value {value} for a parameter of type {type_}")
    return (value & ((1 << bits) - 1)).to_bytes(size, "little")

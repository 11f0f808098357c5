"""Defines what the rest of the runtime requires of a device. Devices are small: they make code callable and
own memory."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol, runtime_checkable

from ..lowering.artifact import CompiledGraph
from ..promotion.arrays import Array, DeviceArray, NumpyDType
from .gpu import DeviceArrays

Result = Any
"""The result of a run: an array, or a tuple of arrays where the graph has several outputs. The arrays are the
host's or, where inputs are on the device, the device's. Only the caller knows which; a union would have to be
narrowed at every call."""


class LinkedModel(Protocol):
    """A compiled graph whose code is in memory. Arrays of 64-bit words are passed by address, as in the host ABI."""

    @property
    def prepare_address(self) -> int | None:
        """Address of `jn_prepare`; None where the model is not native code."""
        ...

    @property
    def run_address(self) -> int | None:
        """Address of `jn_run`; None where the model is not native code."""
        ...

    @property
    def profile_address(self) -> int | None:
        """Address of the variable `jn_profile`; None where launches are not timed."""
        ...

    @property
    def is_interruptible(self) -> bool:
        """Whether it has loops: native code of it may release the GIL and end early with an exception. Whoever calls it calls
        `jn_retake` afterwards, and looks for an exception."""
        ...

    @property
    def on_device(self) -> GpuLinkedModel | None:
        """The same model for arrays in the device's own memory; None where it takes arrays of the host only."""
        ...

    def prepare(self, dims: int, sizes: int) -> int:
        """Calls `jn_prepare(dims, sizes)`; returns -1, or the index of the check that failed."""
        ...

    def run(self, pool: int, buffers: int, dims: int) -> None:
        """Calls `jn_run(pool, buffers, dims)` without holding the GIL; returns when the outputs are
        written. Raises what a signal's handler raises while a loop runs."""
        ...


class GpuLinkedModel(LinkedModel, Protocol):
    """A compiled graph on a device that has arrays of its own."""

    @property
    def arrays(self) -> DeviceArrays:
        """Recognises and allocates the device's arrays."""
        ...

    def run_on_device(
        self, inputs: Sequence[Array | DeviceArray], constants: Sequence[int], outputs: Sequence[DeviceArray], dims: int
    ) -> None:
        """Does what `run` does, for arrays of the host and of the device; may return before the outputs are written.

        constants: the addresses of the constants on the host.
        """
        ...

    def record_on_device(
        self, inputs: Sequence[DeviceArray], constants: Sequence[int], outputs: Sequence[DeviceArray], dims: int
    ) -> BoundLaunches:
        """Prepares launches that run on exactly these arrays, whose addresses must be multiples of 64."""
        ...


class BoundLaunches(Protocol):
    """Prepared launches on fixed arrays of a device."""

    def replay(self) -> None:
        """Queues all of the launches; may return before they are done."""
        ...


@runtime_checkable
class Device(Protocol):
    """A device on which compiled graphs run."""

    @property
    def name(self) -> str:
        """The name of the device: `"cpu"`, `"cuda"` or `"ptxsim"`."""
        ...

    def link(self, compiled: CompiledGraph) -> LinkedModel:
        """Makes the object code callable. Raises `InternalError` when the code needs symbols that the device
        does not offer."""
        ...

    def empty(self, shape: tuple[int, ...], dtype: NumpyDType) -> Array:
        """Returns an uninitialised host array that generated code may write: C-contiguous, on a 64-byte boundary."""
        ...

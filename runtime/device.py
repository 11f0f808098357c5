"""What a device is to the rest of the runtime. Devices are small: they make code callable and own memory."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol, runtime_checkable

from ..lowering.artifact import CompiledGraph
from ..promotion.arrays import Array, DeviceArray, NumpyDType
from .gpu import DeviceArrays

Result = Any
"""What a run gives: an array, or a tuple of them where the graph has several outputs; of the host or, as the inputs are, of the
device. Which of these only the caller knows, who would have to narrow a union at every call."""


class LinkedModel(Protocol):
    """A compiled graph whose code is in memory. Arrays of words are passed by address, as in the host ABI."""

    @property
    def prepare_address(self) -> int | None:
        """Address of `jn_prepare`; None where it is no native code."""
        ...

    @property
    def run_address(self) -> int | None:
        """Address of `jn_run`; None where it is no native code."""
        ...

    @property
    def on_device(self) -> GpuLinkedModel | None:
        """The same model for arrays in the device's own memory; None where all arrays are the host's."""
        ...

    def prepare(self, dims: int, sizes: int) -> int:
        """Calls `jn_prepare(dims, sizes)`: -1, or the index of the check that failed."""
        ...

    def run(self, pool: int, buffers: int, dims: int) -> None:
        """Calls `jn_run(pool, buffers, dims)` without holding the GIL; returns when the outputs are
        written."""
        ...


class GpuLinkedModel(LinkedModel, Protocol):
    """A compiled graph on a device that has arrays of its own."""

    @property
    def arrays(self) -> DeviceArrays:
        """How these arrays are taken and made."""
        ...

    def run_on_device(
        self, inputs: Sequence[Array | DeviceArray], constants: Sequence[int], outputs: Sequence[DeviceArray], dims: int
    ) -> None:
        """Does what `run` does on arrays of the host and of the device; may return before the outputs are written.

        constants: their addresses on the host.
        """
        ...

    def record_on_device(
        self, inputs: Sequence[DeviceArray], constants: Sequence[int], outputs: Sequence[DeviceArray], dims: int
    ) -> BoundLaunches:
        """Prepares runs over these very arrays, whose addresses are multiples of 64."""
        ...


class BoundLaunches(Protocol):
    """Prepared launches over arrays on a device."""

    def replay(self) -> None:
        """Asks for all of them; may return before they are done."""
        ...


@runtime_checkable
class Device(Protocol):
    """A place where compiled graphs run."""

    @property
    def name(self) -> str:
        """`"cpu"`, `"cuda"`, `"ptxsim"`."""
        ...

    def link(self, compiled: CompiledGraph) -> LinkedModel:
        """Makes the object code callable. Raises `InternalError` when it needs symbols the device does not
        offer."""
        ...

    def empty(self, shape: tuple[int, ...], dtype: NumpyDType) -> Array:
        """An uninitialised array that generated code may write: C-contiguous, on a 64-byte boundary."""
        ...

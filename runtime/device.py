"""What a device is to the rest of the runtime. Devices are small: they make code callable and own memory."""

from __future__ import annotations

from typing import Any, Protocol, runtime_checkable

import numpy as np

from ..lowering.artifact import CompiledGraph


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

    def prepare(self, dims: int, sizes: int) -> int:
        """Calls `jn_prepare(dims, sizes)`: -1, or the index of the check that failed."""
        ...

    def run(self, pool: int, buffers: int, dims: int) -> None:
        """Calls `jn_run(pool, buffers, dims)` without holding the GIL; returns when the outputs are
        written."""
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

    def empty(self, shape: tuple[int, ...], dtype: np.dtype[Any]) -> np.ndarray[Any, Any]:
        """An uninitialised array that generated code may write: C-contiguous, on a 64-byte boundary."""
        ...

"""Defines the array types that all layers share; shapes and dtypes are known only at run time."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any, Protocol

import numpy as np

from .dataclass import dataclass

Array = np.ndarray[Any, np.dtype[Any]]
NumpyDType = np.dtype[Any]


class DeviceArray(Protocol):
    """A row-major array in the memory of a GPU, such as joinery's `Buffer`.

    Its elements are not read here.
    """

    @property
    def address(self) -> int: ...

    @property
    def device(self) -> str: ...

    @property
    def shape(self) -> tuple[int, ...]: ...

    @property
    def dtype(self) -> NumpyDType: ...

    @property
    def size(self) -> int: ...

    @property
    def itemsize(self) -> int: ...

    @property
    def nbytes(self) -> int: ...


@dataclass(frozen=True, slots=True, eq=False)
class PointerArgument:
    """A pointer into memory that reaches to both sides of it.

    memory: bytes (uint8, one axis) that the pointer may be used to reach. offset: of the pointer from their start, in bytes.
    elsewhere: finds the memory that an address lies in which a program reads or computes; None for an address in none.
    """

    memory: Array
    offset: int
    elsewhere: Callable[[int], Array | None] | None = None

    @property
    def behind(self) -> Array:
        """The bytes from the pointer on."""
        return self.memory[self.offset :]


def is_masked(value: object) -> bool:
    """Return whether a value is a masked array.

    NumPy loads `numpy.ma` on first use, and before that there are none.
    """
    masked = getattr(sys.modules.get("numpy.ma"), "MaskedArray", None)
    return masked is not None and isinstance(value, masked)


__all__ = ["Array", "DeviceArray", "NumpyDType", "PointerArgument", "is_masked"]

"""Types of arrays that all layers share: of any shape and element type, which only their values tell."""

from __future__ import annotations

import sys
from typing import Any, Protocol

import numpy as np

Array = np.ndarray[Any, np.dtype[Any]]
NumpyDType = np.dtype[Any]


class DeviceArray(Protocol):
    """A row-major array in the memory of a GPU: its elements are not read here. joinery's `Buffer` is one."""

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


def is_masked(value: object) -> bool:
    """Whether it is a masked array. NumPy loads `numpy.ma` on first use, and without it there are none."""
    masked = getattr(sys.modules.get("numpy.ma"), "MaskedArray", None)
    return masked is not None and isinstance(value, masked)


__all__ = ["Array", "DeviceArray", "NumpyDType", "is_masked"]

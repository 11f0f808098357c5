"""Defines the array types that all layers share; shapes and dtypes are known only at run time."""

from __future__ import annotations

import sys
from typing import Any, Protocol

import numpy as np

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


def is_masked(value: object) -> bool:
    """Return whether a value is a masked array.

    NumPy loads `numpy.ma` on first use, and before that there are none.
    """
    masked = getattr(sys.modules.get("numpy.ma"), "MaskedArray", None)
    return masked is not None and isinstance(value, masked)


__all__ = ["Array", "DeviceArray", "NumpyDType", "is_masked"]

"""A case of a kernel in Triton-C, and what cases are made of."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

F16, F32, F64, I8, I32, I64 = np.float16, np.float32, np.float64, np.int8, np.int32, np.int64
TYPES = (("float", F32), ("half", F16))
Generator = np.random.Generator
Make = Callable[[Generator], tuple[list[Any], dict[int, Any]]]
"""Arguments of a launch, and by position what the arrays among them hold afterwards. NaN: anything may stand there."""


@dataclass(frozen=True)
class Kernel:
    """A kernel of a text, its macros, grid and meaning.

    Attributes:
        name: the function; "" for the only one.
        tolerance: relative and absolute; 0 for equality.
        is_checked: whether all accesses are within the arrays, so that the sanitizer has nothing to say.
    """

    file: str
    name: str
    defines: dict[str, object]
    grid: tuple[int, ...]
    make: Make
    tolerance: float
    is_checked: bool


KERNELS: dict[str, Kernel] = {}


def kernel(
    name: str, file: str, grid: tuple[int, ...], tolerance: float = 0.0, function: str = "", is_checked: bool = True,
    **defines: object,
) -> Callable[[Make], Make]:  # fmt: skip
    """Add a case to `KERNELS`."""

    def add(make: Make) -> Make:
        assert name not in KERNELS
        KERNELS[name] = Kernel(file, function, defines, grid, make, tolerance, is_checked)
        return make

    return add


def normal(rng: Generator, *shape: int, dtype: Any = F32) -> np.ndarray:
    return rng.standard_normal(shape).astype(dtype)


def wide(*arrays: np.ndarray) -> list[np.ndarray]:
    return [each.astype(F64) for each in arrays]


def inside(array: np.ndarray, shape: tuple[int, ...], filling: float) -> np.ndarray:
    """Return a larger array that begins with this one in each axis: callers allocate more than kernels are told."""
    found = np.full(shape, filling, array.dtype)
    found[tuple(map(slice, array.shape))] = array
    return found

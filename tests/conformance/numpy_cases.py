"""Cases of `test_numpy_formulas`: what registers them, and numbers to run them with."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np

CASES: dict[str, tuple[Any, float, Callable[[np.random.Generator], tuple[list[Any], list[Any]]]]] = {}
F32, F64, I32 = np.float32, np.float64, np.int32
BF16, F8 = ml_dtypes.bfloat16, ml_dtypes.float8_e4m3fn


def case(grid: Any, tolerance: float = 0) -> Any:
    """Registers a function rng -> arguments, and for each what it must hold afterwards (None: what it held before)."""

    def register(function: Any) -> Any:
        CASES[function.__name__] = grid, tolerance, function
        return function

    return register


def normal(rng: np.random.Generator, *shape: int) -> Any:
    return rng.normal(0, 1, shape).astype(F32)


def small(rng: np.random.Generator, *shape: int) -> Any:
    return rng.integers(-3, 4, shape).astype(F32)


def zeros(*shape: int, dtype: Any = F32) -> Any:
    return np.zeros(shape, dtype)

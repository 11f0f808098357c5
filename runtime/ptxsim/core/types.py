"""Maps the types of PTX to NumPy: every register is an array of raw bits over the lanes of a block."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from ....lowering.ptx.instructions import WIDTHS
from ....promotion.arrays import Array, NumpyDType

Source = Array
"""A source of an instruction: a view of a register, one value per lane, or a NumPy scalar or array of no
dimensions (literals, special registers). Scalars have the operators and methods of arrays, and are typed as
arrays."""
Mask = NDArray[np.bool_] | None
"""Which lanes execute; None: all of them."""
Step = Callable[[Mask], None]
"""Executes one instruction for the lanes of a mask that has at least one."""

UNSIGNED: dict[int, NumpyDType] = {1: np.dtype(np.bool_), **{8 * n: np.dtype(f"u{n}") for n in (1, 2, 4, 8)}}
"""Width in bits → the dtype that stores a register of that width."""

_NUMBERS: dict[str, NumpyDType] = {
    "f16": np.dtype(np.float16),
    "f32": np.dtype(np.float32),
    "f64": np.dtype(np.float64),
}


def number_type(type_: str) -> NumpyDType:
    """Returns the dtype of a PTX type: integers with their sign, f16, f32 and f64 as floats, other types as bits."""
    if type_ in _NUMBERS:
        return _NUMBERS[type_]
    width = WIDTHS[type_]
    if type_[0] == "s" and not type_.endswith("x2"):
        return np.dtype(f"i{width // 8}")
    return UNSIGNED[width]

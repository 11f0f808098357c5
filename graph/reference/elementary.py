"""Lists NumPy's elementary functions of float64 arrays by name, which results are measured against.

Names are those of the operations of MLIR's `math` dialect. The evaluator of graphs, the interpreter of block
kernels and the reference of libdevice round what these functions return.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from ...promotion.arrays import Array


def _erf(x: Array) -> Array:
    return np.asarray(np.frompyfunc(math.erf, 1, 1)(x), np.float64)


FUNCTIONS: dict[str, Callable[..., Array]] = {
    "exp": np.exp,
    "exp2": np.exp2,
    "expm1": np.expm1,
    "log": np.log,
    "log2": np.log2,
    "log10": np.log10,
    "log1p": np.log1p,
    "rsqrt": lambda x: 1.0 / np.sqrt(x),
    "cbrt": np.cbrt,
    "sin": np.sin,
    "cos": np.cos,
    "tan": np.tan,
    "asin": np.arcsin,
    "acos": np.arccos,
    "atan": np.arctan,
    "atan2": np.arctan2,
    "sinh": np.sinh,
    "cosh": np.cosh,
    "tanh": np.tanh,
    "asinh": np.arcsinh,
    "acosh": np.arccosh,
    "atanh": np.arctanh,
    "erf": _erf,
    "powf": np.float_power,  # np.power takes square roots where all exponents are 0.5
}

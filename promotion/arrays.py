"""Types of NumPy arrays and dtypes that all layers share: of any shape and element type, which only their values tell."""

from __future__ import annotations

from typing import Any

import numpy as np

Array = np.ndarray[Any, np.dtype[Any]]
NumpyDType = np.dtype[Any]

__all__ = ["Array", "NumpyDType"]

"""Gives NumPy's, PyTorch's and JAX's functions joinery's names, so that one program is written for all four.

A program takes the module joinery or one of these classes' objects as its first argument. Axes are given by name (`axis=`).
Permuted and reversed arrays of NumPy and PyTorch are copies, as a user holds them in the end; what is copied in JAX is XLA's
choice.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any

import numpy as np

SAME = (
    "exp", "log", "sqrt", "abs", "sin", "cos", "tanh", "floor", "round", "where", "clip",
    "sum", "mean", "any", "argmax", "cumsum", "concat", "stack", "reshape",
)  # fmt: skip
"""Functions that have joinery's names and arguments in all libraries."""
SAME_IN_NUMPY = ("max", "min", "maximum", "minimum", "roll", "sort", "transpose")


class Numpy:
    """NumPy's functions."""

    def __init__(self, module: Any) -> None:
        self.module = module
        for name in (*SAME, *SAME_IN_NUMPY):
            setattr(self, name, getattr(module, name))

    def cast(self, x: Any, dtype: str) -> Any:
        return x.astype(dtype)

    def permute(self, x: Any, axes: Sequence[int]) -> Any:
        return np.ascontiguousarray(x.transpose(axes))

    def flip(self, x: Any, axis: int) -> Any:
        return np.ascontiguousarray(np.flip(x, axis))

    def unsqueeze(self, x: Any, axis: int) -> Any:
        return self.module.expand_dims(x, axis)

    def gather(self, x: Any, indices: Any) -> Any:
        return x[indices]


class Jax(Numpy):
    """The functions of jax.numpy."""

    def permute(self, x: Any, axes: Sequence[int]) -> Any:
        return x.transpose(axes)

    def flip(self, x: Any, axis: int) -> Any:
        return self.module.flip(x, axis)


class Torch:
    """PyTorch's functions, most of which take NumPy's names of arguments, too."""

    def __init__(self, module: Any) -> None:
        self.module = module
        for name in (*SAME, "unsqueeze"):
            setattr(self, name, getattr(module, name))
        self.max, self.min = module.amax, module.amin

    def maximum(self, x: Any, y: Any) -> Any:
        return self.module.maximum(x, y) if isinstance(y, self.module.Tensor) else x.clamp(min=y)

    def minimum(self, x: Any, y: Any) -> Any:
        return self.module.minimum(x, y) if isinstance(y, self.module.Tensor) else x.clamp(max=y)

    def cast(self, x: Any, dtype: str) -> Any:
        return x.to(getattr(self.module, dtype))

    def permute(self, x: Any, axes: Sequence[int]) -> Any:
        return x.permute(axes).contiguous()

    def transpose(self, x: Any) -> Any:
        return x.T

    def flip(self, x: Any, axis: int) -> Any:
        return x.flip(axis)

    def roll(self, x: Any, shift: int, axis: int) -> Any:
        return x.roll(shift, axis)

    def sort(self, x: Any, axis: int) -> Any:
        return x.sort(axis)[0]

    def gather(self, x: Any, indices: Any) -> Any:
        """Take rows by `index_select` where positions have one axis: it is faster than `x[indices]`."""
        return self.module.index_select(x, 0, indices) if indices.ndim == 1 else x[indices]


NUMPY = Numpy(np)


@functools.cache
def torch_library(module: Any) -> Torch:
    """Return PyTorch's functions under joinery's names."""
    return Torch(module)


@functools.cache
def jax_library(module: Any) -> Jax:
    """Return JAX's functions under joinery's names; `module` is jax itself."""
    return Jax(module.numpy)

"""Computes points of the unit circle, and keeps them as constants of a module."""

from __future__ import annotations

import numpy as np

from .....promotion.arrays import Array
from ...module import Module
from ...values import Global


def waves(counts: Array, length: int) -> tuple[Array, Array]:
    """Returns cos and sin of 2π counts / length, from angles of up to an eighth of a turn, so that no digit is lost."""
    eighths, rest = np.divmod(8 * (counts % length), length)
    odd = eighths % 2 == 1
    angles = np.pi / 4 * np.where(odd, length - rest, rest) / length
    near, far = np.cos(angles), np.sin(angles)
    swapped = (eighths + 1) // 2 % 2 == 1
    cos, sin = np.where(swapped, far, near), np.where(swapped, near, far)
    left, below = (eighths >= 2) & (eighths < 6), eighths >= 4
    return np.where(left, 0.0 - cos, cos), np.where(below, 0.0 - sin, sin)


def wave(count: int, length: int) -> tuple[float, float]:
    """Returns cos and sin of 2π count / length."""
    cos, sin = waves(np.array(count, np.int64), length)
    return float(cos), float(sin)


def table(module: Module, name: str, values: Array) -> Global:
    """Returns the address of an array that a module holds under a name."""
    if name not in module.globals:
        data = values.tobytes()
        text = "".join([f"\\{byte:02X}" for byte in data])
        module.globals[name] = f'@{name} = internal unnamed_addr constant [{len(data)} x i8] c"{text}", align 64'
    return Global(name)


def rounded(values: Array, elem: str) -> Array:
    """Returns an array in the dtype of an LLVM element."""
    return values.astype(np.float32 if elem == "float" else np.float64)

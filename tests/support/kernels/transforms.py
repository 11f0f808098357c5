"""Kernels of one `tt.fft`, and what NumPy makes of their blocks."""

from __future__ import annotations

from math import prod
from typing import Any

import joinery as jn
import numpy as np

KINDS = ("forward", "inverse", "real", "real_inverse")


def kernel(shape: tuple[int, ...], axis: int, kind: str, length: int, elem: str = "i64") -> str:
    n, block = prod(shape), f"tensor<{'x'.join(map(str, shape))}x{elem}>"
    flat = f"tensor<{n}x"
    return f"""
tt.func public @f(%x: !tt.ptr<{elem}>, %y: !tt.ptr<{elem}>) {{
  %r = tt.make_range {{end = {n} : i32, start = 0 : i32}} : {flat}i32>
  %xs = tt.splat %x : !tt.ptr<{elem}> -> {flat}!tt.ptr<{elem}>>
  %px = tt.addptr %xs, %r : {flat}!tt.ptr<{elem}>>, {flat}i32>
  %v = tt.load %px : {flat}!tt.ptr<{elem}>>
  %b = tt.reshape %v : {flat}{elem}> -> {block}
  %s = tt.fft %b {{axis = {axis} : i32, kind = "{kind}", length = {length} : i32}} : {block}
  %z = tt.reshape %s : {block} -> {flat}{elem}>
  %ys = tt.splat %y : !tt.ptr<{elem}> -> {flat}!tt.ptr<{elem}>>
  %py = tt.addptr %ys, %r : {flat}!tt.ptr<{elem}>>, {flat}i32>
  tt.store %py, %z : {flat}!tt.ptr<{elem}>>
  tt.return
}}
"""


def transformed(x: Any, kind: str, length: int) -> Any:
    """Transforms the numbers of a last axis in float64."""
    wide = x.astype(np.complex128)
    if kind == "real":
        return np.fft.rfft(np.ascontiguousarray(wide[..., :length]).view(np.float64))
    if kind == "real_inverse":
        real = 2 * length * np.fft.irfft(wide[..., : length + 1], 2 * length)
        return np.ascontiguousarray(real).view(np.complex128)
    return np.fft.fft(wide[..., :length]) if kind == "forward" else length * np.fft.ifft(wide[..., :length])


def check(shape: tuple[int, ...], axis: int, kind: str, length: int, *devices: str, is_wide: bool = False) -> None:
    """Runs a kernel in the interpreter and on devices, and compares what is defined of its results with NumPy's.

    shape: of numbers. is_wide: whether they are pairs of float64 along the axis, and not complex64.
    """
    rng = np.random.default_rng(length)
    dtype = np.dtype(np.complex128 if is_wide else np.complex64)
    x = (rng.normal(size=shape) + 1j * rng.normal(size=shape)).astype(dtype)
    lines = np.ascontiguousarray(np.moveaxis(x, axis, -1))
    want = transformed(lines, kind, length)
    parts = np.moveaxis(lines.view(np.float64), -1, axis) if is_wide else x.view(np.int64)
    made = jn.kernel.from_ttir(kernel(parts.shape, axis, kind, length, "f64" if is_wide else "i64"))
    runs = [made.interpret, *[lambda *given, device=device: made.launch(*given, device=device) for device in devices]]
    for run in runs:
        found = np.zeros(parts.shape, parts.dtype)
        run(1, np.ascontiguousarray(parts).reshape(-1), found.reshape(-1))
        numbers = np.ascontiguousarray(np.moveaxis(found, axis, -1)).view(dtype)
        error = np.abs(numbers[..., : want.shape[-1]] - want).max()
        assert error <= (6e-16 if is_wide else 1.6e-7) * (3 + np.log2(length)) * np.sqrt(length), run

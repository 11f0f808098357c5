"""Kernels of one `tt.fft`, and what NumPy makes of their blocks."""

from __future__ import annotations

from math import prod
from typing import Any

import joinery as jn
import numpy as np

KINDS = ("forward", "inverse", "real", "real_inverse")


def kernel(shape: tuple[int, ...], axis: int, kind: str, length: int) -> str:
    n, block = prod(shape), f"tensor<{'x'.join(map(str, shape))}xi64>"
    flat = f"tensor<{n}x"
    return f"""
tt.func public @f(%x: !tt.ptr<i64>, %y: !tt.ptr<i64>) {{
  %r = tt.make_range {{end = {n} : i32, start = 0 : i32}} : {flat}i32>
  %xs = tt.splat %x : !tt.ptr<i64> -> {flat}!tt.ptr<i64>>
  %px = tt.addptr %xs, %r : {flat}!tt.ptr<i64>>, {flat}i32>
  %v = tt.load %px : {flat}!tt.ptr<i64>>
  %b = tt.reshape %v : {flat}i64> -> {block}
  %s = tt.fft %b {{axis = {axis} : i32, kind = "{kind}", length = {length} : i32}} : {block}
  %z = tt.reshape %s : {block} -> {flat}i64>
  %ys = tt.splat %y : !tt.ptr<i64> -> {flat}!tt.ptr<i64>>
  %py = tt.addptr %ys, %r : {flat}!tt.ptr<i64>>, {flat}i32>
  tt.store %py, %z : {flat}!tt.ptr<i64>>
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


def check(shape: tuple[int, ...], axis: int, kind: str, length: int, *devices: str) -> None:
    """Runs a kernel in the interpreter and on devices, and compares what is defined of its results with NumPy's."""
    rng = np.random.default_rng(length)
    x = (rng.normal(size=shape) + 1j * rng.normal(size=shape)).astype(np.complex64)
    want = transformed(np.moveaxis(x, axis, -1), kind, length)
    made = jn.kernel.from_ttir(kernel(shape, axis, kind, length))
    bits = x.reshape(-1).view(np.int64)
    runs = [made.interpret, *[lambda *given, device=device: made.launch(*given, device=device) for device in devices]]
    for run in runs:
        found = np.zeros_like(bits)
        run(1, bits, found)
        lines = np.moveaxis(found.view(np.complex64).reshape(shape), axis, -1)
        error = np.abs(lines[..., : want.shape[-1]] - want).max()
        assert error <= 1.6e-7 * (3 + np.log2(length)) * np.sqrt(length), run

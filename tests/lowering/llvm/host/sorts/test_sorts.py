"""`tt.sort` on the host and in the interpreter, against NumPy: lines beside each other and one by one, masked, all widths."""

from __future__ import annotations

from math import prod
from typing import Any

import numpy as np
import pytest

from .....support.tiers import each

SHAPES = (
    (1,), (2,), (8,), (16,), (128,), (1024,), (4096,), (1, 512), (2, 8), (2, 512), (4, 64), (8, 512), (16, 64), (32, 4),
    (64, 16), (64, 2), (512, 1), (32, 256), (2, 16, 8), (4, 8, 32), (2, 4, 64), (1024, 32),
)  # fmt: skip
"""Shorter and longer than a square of rows and a piece of them, with fewer and more lines than a register has lanes."""


def kernel(elem: str, shape: tuple[int, ...], axis: int, length: int) -> str:
    """Sorts a block along an axis, of which elements from `length` on are the largest number instead of what is loaded."""
    n, block = prod(shape), f"tensor<{'x'.join(map(str, shape))}x"
    flat, most = f"tensor<{n}x", (1 << int(elem[1:]) - 1) - 1
    row = f"tensor<{shape[axis]}xi32>"
    lines = [
        f"%along = tt.make_range {{end = {shape[axis]} : i32, start = 0 : i32}} : {row}",
        f"%n = arith.constant dense<{length}> : {row}", f"%m0 = arith.cmpi slt, %along, %n : {row}",
    ]  # fmt: skip
    mask, here = "%m0", [shape[axis]]
    for position in range(len(shape)):
        if position != axis:
            before = list(here)
            here.insert(position, 1)
            types = [f"tensor<{'x'.join(map(str, each))}xi1>" for each in (before, here)]
            lines.append(f"%m{position + 1} = tt.expand_dims {mask} {{axis = {position} : i32}} : {types[0]} -> {types[1]}")
            mask = f"%m{position + 1}"
    narrow = f"tensor<{'x'.join(map(str, here))}xi1>"
    lines.append(f"%mask = tt.broadcast {mask} : {narrow} -> {block}i1>" if tuple(here) != shape else "")
    whole = "%mask" if tuple(here) != shape else mask
    return f"""
tt.func public @f(%x: !tt.ptr<{elem}>, %y: !tt.ptr<{elem}>) {{
  %r = tt.make_range {{end = {n} : i32, start = 0 : i32}} : {flat}i32>
  %xs = tt.splat %x : !tt.ptr<{elem}> -> {flat}!tt.ptr<{elem}>>
  %px = tt.addptr %xs, %r : {flat}!tt.ptr<{elem}>>, {flat}i32>
  %v = tt.load %px : {flat}!tt.ptr<{elem}>>
  %b = tt.reshape %v : {flat}{elem}> -> {block}{elem}>
  {chr(10).join(lines)}
  %most = arith.constant dense<{most}> : {block}{elem}>
  %k = arith.select {whole}, %b, %most : {block}i1>, {block}{elem}>
  %s = tt.sort %k {{axis = {axis} : i32}} : {block}{elem}>
  %z = tt.reshape %s : {block}{elem}> -> {flat}{elem}>
  %ys = tt.splat %y : !tt.ptr<{elem}> -> {flat}!tt.ptr<{elem}>>
  %py = tt.addptr %ys, %r : {flat}!tt.ptr<{elem}>>, {flat}i32>
  tt.store %py, %z : {flat}!tt.ptr<{elem}>>
  tt.return
}}
"""


@pytest.mark.one_in(24)
@pytest.mark.parametrize(("elem", "shape"), each(("i32", "i64", "i16", "i8"), SHAPES, times=1))
def test_a_block_is_sorted_along_every_axis(agree: Any, elem: str, shape: tuple[int, ...]) -> None:
    dtype = np.dtype(f"i{int(elem[1:]) // 8}")
    most, rng = np.iinfo(dtype).max, np.random.default_rng(prod(shape))
    for axis in range(len(shape)):
        for length in {shape[axis], (shape[axis] + 1) // 2, shape[axis] * 3 // 4}:
            x = rng.integers(-50, 50, prod(shape)).astype(dtype)
            x[::5] = rng.choice([most, -most - 1, 0], x[::5].shape)
            _, found = agree(kernel(elem, shape, axis, length), 1, x, np.zeros_like(x))
            want = np.moveaxis(x.reshape(shape), axis, 0).copy()
            want[length:] = most
            assert np.array_equal(found.reshape(shape), np.moveaxis(np.sort(want, 0), 0, axis)), (axis, length)

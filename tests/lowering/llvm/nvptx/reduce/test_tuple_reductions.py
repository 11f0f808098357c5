"""Reductions of several operands whose region is one operation, and keeps one side of the others as it is."""

from __future__ import annotations

import itertools
from typing import Any

import joinery as jn
import numpy as np
import pytest

NUMPY: dict[str, Any] = {"i32": np.int32, "i64": np.int64, "f32": np.float32}


def text(operation: str, elem: str, kept: str, shape: tuple[int, int], axis: int) -> str:
    count, out = shape[0] * shape[1], shape[1 - axis]
    block = f"{shape[0]}x{shape[1]}"

    def pointers(name: str, pointer: str, elem: str, places: str, size: int) -> str:
        return f"""
  %{name}s = tt.splat {pointer} : !tt.ptr<{elem}> -> tensor<{size}x!tt.ptr<{elem}>>
  %{name} = tt.addptr %{name}s, {places} : tensor<{size}x!tt.ptr<{elem}>>, tensor<{size}xi32>"""

    return f"""tt.func @k(%p: !tt.ptr<{elem}>, %q: !tt.ptr<f32>, %a: !tt.ptr<{elem}>, %b: !tt.ptr<f32>) {{
  %r = tt.make_range {{start = 0 : i32, end = {count} : i32}} : tensor<{count}xi32>
  %s = tt.make_range {{start = 0 : i32, end = {out} : i32}} : tensor<{out}xi32>{pointers("pp", "%p", elem, "%r", count)}
  %x = tt.load %pp : tensor<{count}x!tt.ptr<{elem}>>{pointers("qp", "%q", "f32", "%r", count)}
  %y = tt.load %qp : tensor<{count}x!tt.ptr<f32>>
  %u = tt.reshape %x : tensor<{count}x{elem}> -> tensor<{block}x{elem}>
  %v = tt.reshape %y : tensor<{count}xf32> -> tensor<{block}xf32>
  %z:2 = "tt.reduce"(%u, %v) <{{axis = {axis} : i32}}> ({{
   ^bb0(%x0: {elem}, %x1: f32, %y0: {elem}, %y1: f32):
     %z0 = {operation} %x0, %y0 : {elem}
     tt.reduce.return %z0, {kept} : {elem}, f32
  }}) : (tensor<{block}x{elem}>, tensor<{block}xf32>) -> (tensor<{out}x{elem}>, tensor<{out}xf32>)
{pointers("ap", "%a", elem, "%s", out)}
  tt.store %ap, %z#0 : tensor<{out}x!tt.ptr<{elem}>>{pointers("bp", "%b", "f32", "%s", out)}
  tt.store %bp, %z#1 : tensor<{out}x!tt.ptr<f32>>
  tt.return
}}"""


@pytest.mark.one_in(8)
@pytest.mark.parametrize("numerics", ["strict", "reproducible"])
@pytest.mark.parametrize(
    ("operation", "elem"), [("arith.addi", "i32"), ("arith.maxsi", "i64"), ("arith.maxnumf", "f32"), ("arith.addf", "f32")]
)
def test_what_is_kept_beside_an_operation(operation: str, elem: str, numerics: str) -> None:
    for kept, (shape, axis) in itertools.product(("%x1", "%y1"), (((8, 64), 1), ((32, 8), 0))):
        k = jn.kernel.from_ttir(text(operation, elem, kept, shape, axis), numerics=numerics, cache=False)
        count, out = shape[0] * shape[1], shape[1 - axis]
        x = np.random.default_rng(count).integers(-5, 5, count).astype(NUMPY[elem])
        y = np.arange(count, dtype=np.float32)
        places = np.arange(count, dtype=np.float32).reshape(shape)
        wanted = np.take(places, 0 if kept == "%x1" else -1, axis)
        for options in ({}, {"device": "ptxsim", "target": "sm_80", "warps": 1}, {"device": "ptxsim", "target": "sm_90a"}):
            first, second = np.zeros(out, NUMPY[elem]), np.zeros(out, np.float32)
            k.launch(1, x, y, first, second, **options)
            np.testing.assert_array_equal(second, wanted, f"{options}, {kept}, {shape}")
            reduced = x.reshape(shape).max(axis) if "max" in operation else x.reshape(shape).sum(axis)
            np.testing.assert_array_equal(first, reduced)

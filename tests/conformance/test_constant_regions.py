"""Regions of reductions and scans that return a constant or a scalar of the program, against NumPy."""

from __future__ import annotations

import functools
from typing import Any

import joinery as jn
import numpy as np
import pytest

from ..support.tiers import each

N = 32
DEVICES = ["interpret", "host", "sanitize", "reproducible", "sm_80"]
REGIONS = {
    "a constant": "%r = arith.constant 3 : i32",
    "a parameter": "",
    "what the program computed": "",
    "what the region computes of both": "%r = arith.addi %s, %t : i32",
    "the left one": "",
    "the right one": "",
}
RETURNED = {
    "a constant": "%r", "a parameter": "%s", "what the program computed": "%t", "what the region computes of both": "%r",
    "the left one": "%a", "the right one": "%b",
}  # fmt: skip


@functools.cache
def kernel(op: str, rows: int, axis: int, region: str, numerics: str, reverse: bool = False) -> jn.kernel.Kernel:
    """Reads (rows, N / rows) numbers, combines them along an axis, and stores the results one after the other."""
    columns = N // rows
    shape, kept = f"{rows}x{columns}", (rows, columns)[1 - axis]
    if op == "scan":
        result, stored, back = shape, N, f"%y = tt.reshape %v : tensor<{shape}xi32> -> tensor<{N}xi32>"
    else:
        result, stored, back = f"{kept}", kept, f"%y = tt.reshape %v : tensor<{kept}xi32> -> tensor<{kept}xi32>"
    more = f", reverse = {str(reverse).lower()}" if op == "scan" else ""
    text = f"""module {{ tt.func public @f(%x: !tt.ptr<i32>, %o: !tt.ptr<i32>, %s: i32) {{
  %t = arith.muli %s, %s : i32
  %i = tt.make_range {{start = 0 : i32, end = {N} : i32}} : tensor<{N}xi32>
  %px = tt.splat %x : !tt.ptr<i32> -> tensor<{N}x!tt.ptr<i32>>
  %ax = tt.addptr %px, %i : tensor<{N}x!tt.ptr<i32>>, tensor<{N}xi32>
  %l = tt.load %ax : tensor<{N}x!tt.ptr<i32>>
  %w = tt.reshape %l : tensor<{N}xi32> -> tensor<{shape}xi32>
  %v = "tt.{op}"(%w) <{{axis = {axis} : i32{more}}}> ({{ ^bb0(%a: i32, %b: i32):
    {REGIONS[region]}
    tt.{op}.return {RETURNED[region]} : i32 }}) : (tensor<{shape}xi32>) -> tensor<{result}xi32>
  {back}
  %j = tt.make_range {{start = 0 : i32, end = {stored} : i32}} : tensor<{stored}xi32>
  %po = tt.splat %o : !tt.ptr<i32> -> tensor<{stored}x!tt.ptr<i32>>
  %ao = tt.addptr %po, %j : tensor<{stored}x!tt.ptr<i32>>, tensor<{stored}xi32>
  tt.store %ao, %y : tensor<{stored}x!tt.ptr<i32>>
  tt.return }} }}"""
    return jn.kernel.from_ttir(text, numerics=numerics)


def combined(region: str, x: Any, y: Any, s: int) -> Any:
    t = s * s
    both = {"a constant": 3, "a parameter": s, "what the program computed": t, "what the region computes of both": s + t}
    return x if region == "the left one" else y if region == "the right one" else np.full_like(x, both[region])


def expected(op: str, x: Any, axis: int, region: str, s: int, reverse: bool = False) -> Any:
    parts = list(np.moveaxis(x, axis, 0))
    if reverse:
        parts.reverse()
    found = [parts[0]]
    for part in parts[1:]:
        found.append(combined(region, found[-1], part, s))
    if op == "reduce":
        return found[-1].ravel()
    if reverse:
        found.reverse()
    return np.moveaxis(np.stack(found), 0, axis).ravel()


def check(op: str, rows: int, axis: int, region: str, device: str, reverse: bool = False) -> None:
    made = kernel(op, rows, axis, region, "reproducible" if device == "reproducible" else "strict", reverse)
    x, o = np.arange(10, 10 + N, dtype=np.int32), np.zeros(N, np.int32)
    options: dict[str, Any] = {"device": "ptxsim", "target": device, "sanitize": True} if device.startswith("sm_") else {}
    if device == "interpret":
        made.interpret(1, x, o, 7)
    else:
        made.launch(1, x, o, 7, **(options | ({"sanitize": True} if device == "sanitize" else {})))
    wanted = expected(op, x.reshape(rows, -1), axis, region, 7, reverse)
    np.testing.assert_array_equal(o[: len(wanted)], wanted)
    assert not o[len(wanted) :].any()


@pytest.mark.parametrize(("region", "device", "form"), each(list(REGIONS), DEVICES, [(1, 1), (4, 0), (4, 1), (32, 1), (16, 0)]))
def test_reductions(region: str, device: str, form: tuple[int, int]) -> None:
    check("reduce", *form, region, device)


@pytest.mark.parametrize(
    ("region", "device", "form"), each(list(REGIONS), DEVICES, [(1, 1, False), (4, 0, True), (4, 1, False), (1, 1, True)])
)
def test_scans(region: str, device: str, form: tuple[int, int, bool]) -> None:
    rows, axis, reverse = form
    check("scan", rows, axis, region, device, reverse)


TUPLE = """module {{ tt.func public @f(%o: !tt.ptr<{type}>, %s: {type}) {{
  %i = tt.make_range {{start = 0 : i32, end = 64 : i32}} : tensor<64xi32>
  %w = tt.splat %s : {type} -> tensor<64x{type}>
  %v:2 = "tt.reduce"(%w, %i) <{{axis = 0 : i32}}> ({{ ^bb0(%a: {type}, %b: i32, %c: {type}, %d: i32):
    %k = arith.constant {value}
    %n = arith.addi %b, %d : i32
    tt.reduce.return %k, %n : {type}, i32 }}) : (tensor<64x{type}>, tensor<64xi32>) -> ({type}, i32)
  %p = tt.addptr %o, %v#1 : !tt.ptr<{type}>, i32
  tt.store %p, %v#0 : !tt.ptr<{type}>
  tt.return }} }}"""


@pytest.mark.parametrize(
    ("type_", "value", "dtype"),
    [("f32", 2.5, np.float32), ("f16", 2.5, np.float16), ("i1", True, np.bool_), ("i64", -2, np.int64)],
)
@pytest.mark.parametrize("device", ["interpret", "host", "sm_80"])
def test_one_of_several_results(type_: str, value: Any, dtype: Any, device: str) -> None:
    made = jn.kernel.from_ttir(TUPLE.format(type=type_, value="true" if type_ == "i1" else f"{value} : {type_}"))
    o = np.zeros(2048, dtype)
    if device == "interpret":
        made.interpret(1, o, dtype(1))
    else:
        made.launch(1, o, dtype(1), **({"device": "ptxsim"} if device == "sm_80" else {}))
    assert o[sum(range(64))] == value
    assert np.count_nonzero(o) == 1

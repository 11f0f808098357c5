"""tt.fft and undefined lanes: those that a line reads make it undefined, others do nothing, and there are no results beyond."""

from __future__ import annotations

from math import prod
from typing import Any

import joinery as jn
import numpy as np
import pytest

CASES = (
    ((8,), 0, "forward", 5, "i64"), ((8,), 0, "real", 7, "i64"), ((2, 8), 1, "real_inverse", 6, "i64"),
    ((8, 2), 0, "inverse", 8, "i64"), ((2, 8, 2), 1, "real", 4, "i64"), ((2, 16), 1, "real", 5, "f64"),
    ((16, 2), 0, "real_inverse", 5, "f64"),
)  # fmt: skip
"""(shape, axis, kind, length, elements): with as many results as elements of a line, fewer and more."""
_LOADED, _TRANSFORMED, _STORED = "k.py:1:1", "k.py:2:1", "k.py:3:1"


def kernel(shape: tuple[int, ...], axis: int, kind: str, length: int, elem: str) -> jn.kernel.Kernel:
    """Loads the elements before %n, the others are undefined, and stores what is transformed from %k to before %m."""
    count, block = prod(shape), f"tensor<{'x'.join(map(str, shape))}x{elem}>"
    flat = f"tensor<{count}x"
    return jn.kernel.from_ttir(f"""
tt.func public @f(%x: !tt.ptr<{elem}>, %y: !tt.ptr<{elem}>, %n: i32, %k: i32, %m: i32) {{
  %r = tt.make_range {{end = {count} : i32, start = 0 : i32}} : {flat}i32>
  %ns = tt.splat %n : i32 -> {flat}i32>
  %ks = tt.splat %k : i32 -> {flat}i32>
  %ms = tt.splat %m : i32 -> {flat}i32>
  %known = arith.cmpi slt, %r, %ns : {flat}i32>
  %from = arith.cmpi sge, %r, %ks : {flat}i32>
  %before = arith.cmpi slt, %r, %ms : {flat}i32>
  %written = arith.andi %from, %before : {flat}i1>
  %xs = tt.splat %x : !tt.ptr<{elem}> -> {flat}!tt.ptr<{elem}>>
  %px = tt.addptr %xs, %r : {flat}!tt.ptr<{elem}>>, {flat}i32>
  %v = tt.load %px, %known : {flat}!tt.ptr<{elem}>> loc("k.py":1:1)
  %b = tt.reshape %v : {flat}{elem}> -> {block}
  %s = tt.fft %b {{axis = {axis} : i32, kind = "{kind}", length = {length} : i32}} : {block} loc("k.py":2:1)
  %z = tt.reshape %s : {block} -> {flat}{elem}>
  %ys = tt.splat %y : !tt.ptr<{elem}> -> {flat}!tt.ptr<{elem}>>
  %py = tt.addptr %ys, %r : {flat}!tt.ptr<{elem}>>, {flat}i32>
  tt.store %py, %z, %written : {flat}!tt.ptr<{elem}>> loc("k.py":3:1)
  tt.return
}}
""")


@pytest.mark.one_in(6)
@pytest.mark.parametrize("case", CASES, ids=str)
def test_undefined_lanes_of_transforms(case: tuple[tuple[int, ...], int, str, int, str]) -> None:
    shape, axis, kind, length, elem = case
    size = 2 if elem == "f64" else 1  # elements of a number
    read, written = size * (length + (kind == "real_inverse")), size * (length + (kind == "real"))
    made, count = kernel(*case), prod(shape)
    lanes = np.arange(count).reshape(shape)
    position = np.indices(shape)[axis]
    behind = written * prod(shape[axis + 1 :])  # the first result that a line has not
    clean = 0
    for n, first, end in [
        (count, 0, behind), (count, behind - 1, behind), (count, behind, behind + 1), (count, 0, count),
        (count, count - 1, count), (count - 1, 0, count), (count - 1, 0, 1), (count // 2, 0, 1),
        (1, 2, 3), (0, 0, 1), (0, 3, 3),
    ]:  # fmt: skip
        is_read = (lanes >= n) & (position < read)
        spoilt = np.broadcast_to(is_read.any(axis, keepdims=True), shape)
        stored = (lanes >= first) & (lanes < end)
        has_result = position < written
        expected = {_LOADED: (spoilt & stored & has_result).sum(), _TRANSFORMED: (stored & ~has_result).sum()}

        def arguments(n: int = n, first: int = first, end: int = end) -> list[Any]:
            return [*np.zeros((2, count), np.float64 if size == 2 else np.int64), n, first, end]

        found = made.sanitize(1, *arguments()).findings
        assert {(each.kind, each.line) for each in found} <= {("uninitialised", _STORED)}
        assert {each.origin: each.count for each in found} == {line: number for line, number in expected.items() if number}
        is_clean = made._first_look(1, arguments(), {}, False).is_clean  # natively, where a line may not be undefined at all
        assert is_clean == (not found and not is_read.any())
        clean += is_clean
    assert clean

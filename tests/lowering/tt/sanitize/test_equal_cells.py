"""Lanes of one store that write different values to one cell are found, whichever operation stores them."""

from __future__ import annotations

from typing import Any

import joinery as jn
import numpy as np
import pytest

HEAD = """
  %zero = arith.constant 0 : i32
  %four = arith.constant 4 : i32
  %sixteen = arith.constant 16 : i32
  %rows = arith.constant 4 : i64
  %columns = arith.constant 16 : i64
  %one = arith.constant 1 : i64
  %r = tt.make_range {start = 0 : i32, end = 64 : i32} : tensor<64xi32>
  %px = tt.splat %x : !tt.ptr<f32> -> tensor<64x!tt.ptr<f32>>
  %ax = tt.addptr %px, %r : tensor<64x!tt.ptr<f32>>, tensor<64xi32>
  %flat = tt.load %ax : tensor<64x!tt.ptr<f32>>
  %v = tt.reshape %flat : tensor<64xf32> -> tensor<4x16xf32>"""
POINTER = """
  %step = arith.trunci %s : i64 to i32
  %c = arith.constant dense<16> : tensor<64xi32>
  %row = arith.divsi %r, %c : tensor<64xi32>
  %column = arith.remsi %r, %c : tensor<64xi32>
  %steps = tt.splat %step : i32 -> tensor<64xi32>
  %start = arith.muli %row, %steps : tensor<64xi32>
  %at = arith.addi %start, %column : tensor<64xi32>
  %po = tt.splat %o : !tt.ptr<f32> -> tensor<64x!tt.ptr<f32>>
  %ao = tt.addptr %po, %at : tensor<64x!tt.ptr<f32>>, tensor<64xi32>
  tt.store %ao, %flat : tensor<64x!tt.ptr<f32>>"""
DESCRIPTOR = """
  %d = tt.make_tensor_descriptor %o, [%four, %sixteen], [%s, %one] : <f32>, <4x16xf32>
  tt.descriptor_store %d[%zero, %zero], %v : !tt.tensordesc<4x16xf32>, tensor<4x16xf32>"""
BLOCK = """
  %p = tt.make_tensor_ptr %o, [%rows, %columns], [%s, %one], [%zero, %zero] {order = array<i32: 1, 0>} : <tensor<4x16xf32>>
  tt.store %p, %v {boundaryCheck = array<i32: 0, 1>} : !tt.ptr<tensor<4x16xf32>>"""
STORES = {"a pointer": POINTER, "a descriptor": DESCRIPTOR, "a block pointer": BLOCK}


def kernel(store: str) -> jn.kernel.Kernel:
    signature = "%x: !tt.ptr<f32>, %o: !tt.ptr<f32>, %s: i64"
    return jn.kernel.from_ttir(f"module {{ tt.func public @f({signature}) {{{HEAD}{STORES[store]}\n  tt.return }} }}")


def kinds(found: Any) -> list[str]:
    return [each.kind for each in found.findings]


@pytest.mark.one_in(2)
@pytest.mark.parametrize("store", STORES)
def test_rows_that_lie_in_one_another(store: str) -> None:
    made, x = kernel(store), np.arange(64, dtype=np.float32)
    for stride, found, count in ((16, [], 0), (0, ["lane-race"], 48), (8, ["lane-race"], 24)):
        report = made.sanitize(1, x, np.zeros(64, np.float32), stride)
        assert kinds(report) == found, str(report)
        assert sum(each.count for each in report.findings) == count
        assert kinds(made.sanitize(1, x, np.zeros(64, np.float32), stride, notes=False)) == found
    same = made.sanitize(1, np.ones(64, np.float32), np.zeros(64, np.float32), 0)
    assert kinds(same) == [], "one value, whichever stays"


def test_the_descriptor_of_a_caller() -> None:
    text = f"module {{ tt.func public @f(%x: !tt.ptr<f32>, %d: !tt.tensordesc<4x16xf32>) {{{HEAD}"
    text += "\n  tt.descriptor_store %d[%zero, %zero], %v : !tt.tensordesc<4x16xf32>, tensor<4x16xf32>\n  tt.return } }"
    made, x, o = jn.kernel.from_ttir(text), np.arange(64, dtype=np.float32), np.zeros(64, np.float32)
    assert kinds(made.sanitize(1, x, jn.TensorDescriptor(o, [4, 16], [16, 1]))) == []
    for strides in ([0, 1], [1, 0], [0, 0]):
        for notes in (True, False):
            assert kinds(made.sanitize(1, x, jn.TensorDescriptor(o, [4, 16], strides), notes=notes)) == ["lane-race"]

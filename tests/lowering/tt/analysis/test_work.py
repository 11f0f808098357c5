"""The operations of a program, by which launches tell whether their end is near."""

from __future__ import annotations

import joinery as jn
import numpy as np
import pytest
from joinery.interface import interrupts
from joinery.interface.native import host_program
from joinery.lowering.tt.analysis.work import element_operations

TEXT = """
module {{ tt.func public @f(%x: !tt.ptr<f32>, %n: i32) {{
  %r = tt.make_range {{end = 64 : i32, start = 0 : i32}} : tensor<64xi32>
  %b = tt.splat %x : !tt.ptr<f32> -> tensor<64x!tt.ptr<f32>>
  %p = tt.addptr %b, %r : tensor<64x!tt.ptr<f32>>, tensor<64xi32>
  %v = tt.load %p : tensor<64x!tt.ptr<f32>>
  %zero = arith.constant 0 : i32
  %one = arith.constant 1 : i32
  {line}
  tt.store %p, %v : tensor<64x!tt.ptr<f32>>
  tt.return
}} }}
"""
PLAIN = "%w = arith.addf %v, %v : tensor<64xf32>"
UNBOUNDED = {
    "loop": "scf.for %i = %zero to %n step %one : i32 { tt.store %p, %v : tensor<64x!tt.ptr<f32>> }",
    "wait": """scf.while : () -> () {
      %seen = tt.load %x {isVolatile = true} : !tt.ptr<f32>
      %f = arith.fptosi %seen : f32 to i32
      %go = arith.cmpi ne, %f, %zero : i32
      scf.condition(%go)
    } do { scf.yield }""",
    "print": 'tt.print "v" {hex = false, isSigned = array<i32: 0>} : %v : tensor<64xf32>',
}


def work(text: str) -> int | None:
    return element_operations(jn.kernel.from_ttir(text)._prepared())


def test_elements_are_counted() -> None:
    few = work(TEXT.format(line=""))
    assert few is not None
    assert 4 * 64 <= few <= 6 * 64


def test_products_count_each_step() -> None:
    tile = "arith.constant dense<1.0> : tensor<32x32xf32>"
    line = f"%t = {tile}\n  %d = tt.dot %t, %t, %t : tensor<32x32xf32> * tensor<32x32xf32> -> tensor<32x32xf32>"
    store = """%s = "tt.reduce"(%d) <{axis = 0 : i32}> ({
    ^bb0(%a: f32, %c: f32):
      %m = arith.addf %a, %c : f32
      tt.reduce.return %m : f32
    }) : (tensor<32x32xf32>) -> tensor<32xf32>
  %o = tt.splat %x : !tt.ptr<f32> -> tensor<32x!tt.ptr<f32>>
  tt.store %o, %s : tensor<32x!tt.ptr<f32>>"""
    found = work(TEXT.format(line=f"{line}\n  {store}"))
    assert found is not None
    assert 32**3 <= found < 2 * 32**3


@pytest.mark.parametrize("name", UNBOUNDED)
def test_nothing_is_known_of_loops_waits_and_prints(name: str) -> None:
    assert work(TEXT.format(line=UNBOUNDED[name])) is None


def test_only_launches_that_may_take_long_are_watched(monkeypatch: pytest.MonkeyPatch) -> None:
    watched: list[str] = []
    for module in (host_program, interrupts):
        monkeypatch.setattr(module, "watcher_for_launches", lambda: watched.append("asked"))
    brief = jn.kernel.from_ttir(TEXT.format(line=""))
    brief.launch((4,), np.ones(64, np.float32), 3)
    assert not watched
    jn.kernel.from_ttir(TEXT.format(line=UNBOUNDED["loop"])).launch((4,), np.ones(64, np.float32), 3)
    assert len(watched) == 1
    monkeypatch.setattr(host_program, "BRIEF", 1000)
    many = jn.kernel.from_ttir(TEXT.format(line=PLAIN))
    many.launch((1,), np.ones(64, np.float32), 3)
    assert len(watched) == 1
    many.launch((1000,), np.ones(64, np.float32), 3, threads=1)
    assert len(watched) == 2

"""Blocks that TMA copies to global memory while the program goes on: who waits, where, and for what."""

from __future__ import annotations

import re
from typing import Any

import joinery as jn
import numpy as np
import pytest
from joinery.interface.gpu_code import simulated_map
from joinery.runtime.ptxsim import Module, PtxCheckError

from .....support.kernels.descriptors import some

BLOCK = "tensor<64x32xf32>"
DESC = f"!tt.tensordesc<{BLOCK}>"
LOAD = f"tt.descriptor_load %a[%at, %zero] : {DESC} -> {BLOCK}"


def text_of(body: str) -> str:
    """A kernel that reads blocks of a and stores blocks of b, below each other."""
    return f"""
tt.func public @f(%a: {DESC}, %b: {DESC}, %p: !tt.ptr<f32>, %n: i32) {{
  %zero = arith.constant 0 : i32
  %one = arith.constant 1 : i32
  %at = arith.constant 64 : i32
  %x = {LOAD}
{body}
  tt.return
}}"""


def store(value: str, row: str = "%zero") -> str:
    return f"tt.descriptor_store %b[{row}, %zero], %{value} : {DESC}, {BLOCK}"


TWICE = f"""
  {store("x")}
  %y = arith.addf %x, %x : {BLOCK}
  {store("y", "%at")}"""
SAME_PLACE = TWICE.replace("[%at,", "[%zero,")
LOOP = f"""
  %last = scf.for %i = %zero to %n step %one iter_args(%v = %x) -> ({BLOCK}) : i32 {{
    %row = arith.muli %i, %at : i32
    {store("v", "%row")}
    %y = arith.addf %v, %x : {BLOCK}
    scf.yield %y : {BLOCK}
  }}"""
CHOICE = f"""
  %odd = arith.cmpi eq, %n, %one : i32
  scf.if %odd {{
    {store("x")}
    %t = tt.trans %x {{order = array<i32: 1, 0>}} : {BLOCK} -> tensor<32x64xf32>
    %s = "tt.reduce"(%t) ({{
    ^bb0(%l: f32, %r: f32):
      %m = arith.maxnumf %l, %r : f32
      tt.reduce.return %m : f32
    }}) {{axis = 1 : i32}} : (tensor<32x64xf32>) -> tensor<32xf32>
    %range = tt.make_range {{start = 0 : i32, end = 32 : i32}} : tensor<32xi32>
    %all = tt.splat %p : !tt.ptr<f32> -> tensor<32x!tt.ptr<f32>>
    %where = tt.addptr %all, %range : tensor<32x!tt.ptr<f32>>, tensor<32xi32>
    tt.store %where, %s : tensor<32x!tt.ptr<f32>>
  }} else {{
    {store("x", "%at")}
  }}
  %y = arith.addf %x, %x : {BLOCK}
  {store("y")}"""
READ_AFTER = f"""
  {store("x")}
  %y = tt.descriptor_load %a[%zero, %zero] : {DESC} -> {BLOCK}
  {store("y", "%at")}"""
GRAPH = f"""
  %odd = arith.cmpi eq, %n, %one : i32
  cf.cond_br %odd, ^early, ^late
^early:
  {store("x")}
  tt.return
^late:
  {store("x", "%at")}
  %y = arith.addf %x, %x : {BLOCK}
  {store("y")}"""
BODIES = {
    "twice": TWICE, "same place": SAME_PLACE, "loop": LOOP, "choice": CHOICE, "read after": READ_AFTER, "graph": GRAPH,
    "loop, then again": f"{LOOP}\n  {store('last')}", "again, then loop": f"{store('x', '%at')}\n{LOOP}",
}  # fmt: skip


def run(text: str, n: int, ptx: str = "", delivery: str = "late") -> Any:
    """b, and what the simulator found; checked against the interpreter unless other PTX is given."""
    kernel = jn.kernel.from_ttir(text)
    code = kernel.gpu_code("sm_90a", 4, tensor_maps=True)
    a, arrays = some(160, 32), []
    for _ in range(2):
        arrays.append((np.zeros((256, 32), np.float32), np.zeros(32, np.float32)))
    (b, p), (expected, expected_p) = arrays
    values: list[Any] = []
    for each in (a, b):
        values += [each, *each.shape, *np.array(each.strides) // 4, 0]
    values += [p, n]
    values += [simulated_map(facts, values) for facts in code.kernel.tensor_maps]
    assert code.kernel.tensor_maps
    launch = Module(ptx or code.ptx).kernel().launch
    result = launch((1,), None, values, shared=code.lowered.shared_bytes, level=3, delivery=delivery)
    if not ptx:
        kernel.interpret((1,), jn.TensorDescriptor(a), jn.TensorDescriptor(expected), expected_p, n)
        np.testing.assert_array_equal(b, expected)
        np.testing.assert_array_equal(p, expected_p)
    return result


@pytest.mark.one_in(40)
@pytest.mark.parametrize("n", [0, 1, 3])
@pytest.mark.parametrize("name", BODIES)
@pytest.mark.parametrize("delivery", ["late", "early"])
def test_every_way_through_waits(name: str, n: int, delivery: str) -> None:
    result = run(text_of(BODIES[name]), n, delivery=delivery)
    assert not [each for each in result.findings if each.kind == "in flight"]


def waits(ptx: str) -> list[str]:
    return re.findall(r"cp\.async\.bulk\.wait_group(?:\.read)?", ptx)


def test_the_end_waits_for_reads_only() -> None:
    """What has been read gets there without the block."""
    ptx = jn.kernel.from_ttir(text_of(store("x"))).gpu_code("sm_90a", 4, tensor_maps=True).ptx
    assert waits(ptx) == ["cp.async.bulk.wait_group.read"]


def test_one_wait_per_turn_of_a_loop_and_none_where_nothing_is_stored() -> None:
    ptx = jn.kernel.from_ttir(text_of(LOOP)).gpu_code("sm_90a", 4, tensor_maps=True).ptx
    assert sorted(waits(ptx)) == ["cp.async.bulk.wait_group", "cp.async.bulk.wait_group.read"]
    loop = ptx[ptx.index("cp.async.bulk.wait_group") :]
    assert loop.index("bar.sync") < loop.index("cp.async.bulk.tensor")  # the last turn's copy, before this turn's block


@pytest.mark.one_in(3)
@pytest.mark.parametrize("name", ["twice", "same place", "loop", "choice", "loop, then again", "again, then loop"])
def test_without_waits_the_simulator_objects(name: str) -> None:
    """Planted bug: nobody waits before the memory is written again."""
    text = text_of(BODIES[name])
    ptx = jn.kernel.from_ttir(text).gpu_code("sm_90a", 4, tensor_maps=True).ptx
    hasty, count = re.subn(r"cp\.async\.bulk\.wait_group\s+0;", "", ptx)
    assert count
    with pytest.raises(PtxCheckError):
        run(text, 1 if name == "choice" else 3, hasty)


def test_without_a_wait_at_the_end_the_simulator_objects() -> None:
    text = text_of(store("x"))
    ptx = jn.kernel.from_ttir(text).gpu_code("sm_90a", 4, tensor_maps=True).ptx
    hasty, count = re.subn(r"cp\.async\.bulk\.wait_group\.read\s+0;", "", ptx)
    assert count == 1
    with pytest.raises(PtxCheckError, match="never waited for"):
        run(text, 1, hasty)

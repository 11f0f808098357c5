"""Which pointers are moved by distances between addresses: through arithmetic, loops and calls, and not through memory."""

from __future__ import annotations

import joinery as jn
import pytest
from joinery.lowering.tt.analysis.distances import distance_moves

BODIES = {
    "arithmetic": ("%d = arith.muli %n, %k : i64", True),
    "an index": ("%d = arith.addi %k, %k : i64", False),
    "a choice": ("%d = arith.select %c, %n, %k : i64", True),
    "a condition": ("%c2 = arith.cmpi sgt, %n, %k : i64\n%d = arith.select %c2, %k, %k : i64", True),
    "a branch": ("%d = scf.if %c -> (i64) { scf.yield %k : i64 } else { scf.yield %n : i64 }", True),
    "a loop": (
        "%d = scf.for %i = %k to %k step %k iter_args(%x = %n) -> (i64) : i64 { scf.yield %x : i64 }", True
    ),
    "a loop beside": (
        "%d, %e = scf.for %i = %k to %k step %k iter_args(%x = %k, %y = %n) -> (i64, i64) : i64 {\n"
        "scf.yield %x, %y : i64, i64 }", False
    ),
    "a bound": (
        "%d = scf.for %i = %k to %n step %k iter_args(%x = %k) -> (i64) : i64 { scf.yield %i : i64 }", True
    ),
    "while": (
        "%d = scf.while (%x = %n) : (i64) -> i64 { scf.condition(%c) %x : i64 } do {\n^bb0(%y: i64):\nscf.yield %y : i64 }",
        True,
    ),
    "a call": ("%d = tt.call @same(%n) : (i64) -> i64", True),
    "a call beside": ("%d = tt.call @same(%k) : (i64) -> i64", False),
    "memory": ("tt.store %p, %n : !tt.ptr<i64>\n%d = tt.load %p : !tt.ptr<i64>", False),
}  # fmt: skip


@pytest.mark.parametrize("name", BODIES)
def test_what_moves_a_pointer(name: str) -> None:
    body, moves = BODIES[name]
    text = f"""module {{
      tt.func private @same(%x: i64) -> i64 {{ tt.return %x : i64 }}
      tt.func public @f(%p: !tt.ptr<i64>, %k: i64, %c: i1) {{
        %n = tt.ptr_to_int %p : !tt.ptr<i64> -> i64
        {body}
        %q = tt.addptr %p, %d : !tt.ptr<i64>, i64
        %v = tt.load %q : !tt.ptr<i64>
        tt.store %p, %v : !tt.ptr<i64>
        tt.return
      }}
    }}"""
    module = jn.kernel.from_ttir(text, "f")._module
    assert len(distance_moves(module)) == moves

"""Faults that readers of the prover found it to overlook: steps below 1, lanes of atomics, unsigned numbers, gathers."""

from __future__ import annotations

from .faulty import LANES, NUMBERS, Faulty, zeros

_X = "%x: !tt.ptr<i32>"
_T = "tensor<4xi32>"
_P = "tensor<4x!tt.ptr<i32>>"


def _loop(low: str, end: str, step: str) -> str:
    return f"""{NUMBERS}
  scf.for %i = {low} to {end} step {step} : i32 {{
    %at = tt.addptr %x, %i : !tt.ptr<i32>, i32
    tt.store %at, %i : !tt.ptr<i32>
  }}"""


HOSTILE: dict[str, Faulty] = {
    "a step that may be 0": Faulty(f"{_X}, %n: i32, %s: i32", _loop("%c0", "%n", "%s"), {"x": 0}, 1, "bounds",
        None, ("s <= 0",)),
    "a step that is negative": Faulty(f"{_X}, %n: i32", f"""
  %s = arith.constant -1 : i32{_loop('%c0', '%n', '%s')}""", {"x": 1}, 1, "bounds"),
    "a step that may be anything": Faulty(f"{_X}, %n: i32, %s: i32", _loop("%c0", "%n", "%s"), {"x": "n"}, 1, "bounds",
        None, ("n >= 0",)),
    "a store behind a loop whose step is 0": Faulty(f"{_X}, %n: i32, %s: i32", f"""{NUMBERS}
  %r = scf.for %i = %c0 to %c4 step %s iter_args(%c = %c0) -> (i32) : i32 {{
    %d = arith.addi %c, %c1 : i32
    scf.yield %d : i32
  }}
  %m = arith.cmpi slt, %s, %c1 : i32
  %at = tt.addptr %x, %r : !tt.ptr<i32>, i32
  tt.store %at, %c1, %m : !tt.ptr<i32>""", {"x": 0}, 1, "bounds"),
    "lanes of an atomic that overlap in part": Faulty("%x: !tt.ptr<i8>", f"""{LANES}
  %v = arith.constant dense<1> : {_T}
  %y = arith.constant dense<true> : tensor<4xi1>
  %xs = tt.splat %x : !tt.ptr<i8> -> tensor<4x!tt.ptr<i8>>
  %a = tt.addptr %xs, %l : tensor<4x!tt.ptr<i8>>, {_T}
  %w = tt.bitcast %a : tensor<4x!tt.ptr<i8>> -> {_P}
  %r = tt.atomic_rmw add, acq_rel, gpu, %w, %v, %y : ({_P}, {_T}, tensor<4xi1>) -> {_T}""", {"x": 7}, 1, "races",
        (1, [zeros(7, "i1")], "misaligned")),
    "a misaligned access": Faulty("%x: !tt.ptr<i8>, %n: i32", f"""{NUMBERS}
  %a = tt.addptr %x, %c1 : !tt.ptr<i8>, i32
  %w = tt.bitcast %a : !tt.ptr<i8> -> !tt.ptr<i32>
  tt.store %w, %n : !tt.ptr<i32>""", {"x": 8}, 1, "bounds", (1, [zeros(8, "i1"), 1], "misaligned")),
    "an access that is aligned if its array is": Faulty("%x: !tt.ptr<i8>, %n: i32", """
  %w = tt.bitcast %x : !tt.ptr<i8> -> !tt.ptr<i32>
  tt.store %w, %n : !tt.ptr<i32>""", {"x": 8}, 1, "bounds", None),
    "an unsigned sum that wraps": Faulty(f"{_X}, %n: i32, %m: i32", f"""{NUMBERS}
  %a = arith.addi %n, %m : i32
  %o = arith.remui %a, %c7 : i32
  %at = tt.addptr %x, %o : !tt.ptr<i32>, i32
  tt.store %at, %n : !tt.ptr<i32>""", {"x": 7}, 1, "overflow", None, ("n == 0 - 1", "m == 1")),
    "a signed sum of an unsigned quotient": Faulty(f"{_X}, %n: i32, %m: i32", f"""{NUMBERS}
  %a = arith.divui %n, %c1 : i32
  %b = arith.addi %a, %m : i32
  %is = arith.cmpi sgt, %b, %c0 : i32
  tt.store %x, %n, %is : !tt.ptr<i32>""", {"x": 1}, 1, "overflow", None, ("n == 0 - 2", "m == 0 - 2**31")),
    "an unsigned product that wraps": Faulty("%x: !tt.ptr<i8>, %n: i8", """
  %c = arith.constant 16 : i8
  %e = arith.divui %n, %c : i8
  %a = arith.muli %n, %e : i8
  %o = arith.extui %a : i8 to i32
  %at = tt.addptr %x, %o : !tt.ptr<i8>, i32
  tt.store %at, %n : !tt.ptr<i8>""", {"x": 256}, 1, "overflow", None, ("n == 0 - 16",)),
    "an index of a gather outside its block": Faulty(f"{_X}, %n: i32", f"""{LANES}
  %ns = tt.splat %n : i32 -> {_T}
  %g = tt.gather %l[%ns] {{axis = 0 : i32}} : ({_T}, {_T}) -> {_T}
  %xs = tt.splat %x : !tt.ptr<i32> -> {_P}
  %at = tt.addptr %xs, %l : {_P}, {_T}
  tt.store %at, %g : {_P}""", {"x": 4}, 1, "bounds", (1, [zeros(4), 7], "out-of-bounds")),
    "an index of a gather that wraps": Faulty("%x: !tt.ptr<i32>, %n: i8", f"""{LANES}
  %b = arith.constant dense<100> : tensor<4xi8>
  %ns = tt.splat %n : i8 -> tensor<4xi8>
  %i = arith.addi %b, %ns : tensor<4xi8>
  %g = tt.gather %l[%i] {{axis = 0 : i32}} : ({_T}, tensor<4xi8>) -> {_T}
  %xs = tt.splat %x : !tt.ptr<i32> -> {_P}
  %at = tt.addptr %xs, %l : {_P}, {_T}
  tt.store %at, %g : {_P}""", {"x": 4}, 1, "bounds", (1, [zeros(4), 100], "out-of-bounds"), ("n >= 28",)),
    "lanes that a reshape may reorder": Faulty(_X, f"""{LANES}
  %r = tt.reshape %l allow_reorder : {_T} -> tensor<2x2xi32>
  %o = tt.reshape %r : tensor<2x2xi32> -> {_T}
  %c = arith.constant dense<2> : {_T}
  %m = arith.cmpi slt, %l, %c : {_T}
  %xs = tt.splat %x : !tt.ptr<i32> -> {_P}
  %at = tt.addptr %xs, %o : {_P}, {_T}
  tt.store %at, %l, %m : {_P}""", {"x": 2}, 1, "bounds"),
    "lanes that a concatenation may reorder": Faulty(_X, f"""{LANES}
  %s = tt.make_range {{end = 2 : i32, start = 0 : i32}} : tensor<2xi32>
  %o = tt.cat %s, %s : tensor<2xi32> -> {_T}
  %c = arith.constant dense<1> : {_T}
  %m = arith.cmpi slt, %l, %c : {_T}
  %xs = tt.splat %x : !tt.ptr<i32> -> {_P}
  %at = tt.addptr %xs, %o : {_P}, {_T}
  tt.store %at, %l, %m : {_P}""", {"x": 1}, 1, "bounds"),
    "numbers of loops that go different ways": Faulty(f"{_X}, %n: i32, %m: i32", f"""{NUMBERS}
  %is = arith.cmpi sgt, %n, %m : i32
  cf.cond_br %is, ^a(%n : i32), ^a(%m : i32)
^a(%v: i32):
  cf.cond_br %is, ^b(%m : i32), ^b(%n : i32)
^b(%w: i32):
  %same = arith.cmpi eq, %v, %w : i32
  scf.if %same {{
  }} else {{
    tt.store %x, %n : !tt.ptr<i32>
  }}""", {"x": 0}, 1, "bounds", (1, [zeros(0), 1, 2], "out-of-bounds")),
    "an argument of a block in a circle, in two iterations": Faulty(f"{_X}, %n: i32", f"""{NUMBERS}
  cf.br ^head(%c0, %c7 : i32, i32)
^head(%i: i32, %before: i32):
  %new = arith.cmpi ne, %i, %before : i32
  %at = tt.addptr %x, %i : !tt.ptr<i32>, i32
  scf.if %new {{
    tt.store %at, %i : !tt.ptr<i32>
  }}
  %j = arith.addi %i, %c1 : i32
  %go = arith.cmpi slt, %j, %c8 : i32
  cf.cond_br %go, ^head(%j, %i : i32, i32), ^end
^end:""", {"x": 7}, 1, "bounds", (1, [zeros(7), 1], "out-of-bounds")),
    "an inner loop in a circle of blocks": Faulty(f"{_X}, %n: i32", f"""{NUMBERS}
  cf.br ^head(%c0 : i32)
^head(%i: i32):
  %r = scf.for %j = %c0 to %i step %c1 iter_args(%c = %i) -> (i32) : i32 {{
    %d = arith.addi %c, %c1 : i32
    scf.yield %d : i32
  }}
  %at = tt.addptr %x, %r : !tt.ptr<i32>, i32
  tt.store %at, %i : !tt.ptr<i32>
  %k = arith.addi %i, %c1 : i32
  %go = arith.cmpi slt, %k, %c4 : i32
  cf.cond_br %go, ^head(%k : i32), ^end
^end:""", {"x": 6}, 1, "bounds", (1, [zeros(6), 1], "out-of-bounds")),
    "a circle of blocks inside of a loop": Faulty(f"{_X}, %n: i32", f"""{NUMBERS}
  %q = scf.for %t = %c0 to %c2 step %c1 iter_args(%o = %c0) -> (i32) : i32 {{
    %p = scf.execute_region -> i32 {{
      cf.br ^head(%o : i32)
    ^head(%i: i32):
      %j = arith.addi %i, %c1 : i32
      %go = arith.cmpi slt, %j, %c7 : i32
      cf.cond_br %go, ^head(%j : i32), ^end
    ^end:
      scf.yield %j : i32
    }}
    scf.yield %p : i32
  }}
  %at = tt.addptr %x, %q : !tt.ptr<i32>, i32
  tt.store %at, %n : !tt.ptr<i32>""", {"x": 8}, 1, "bounds", (1, [zeros(8), 1], "out-of-bounds")),
}  # fmt: skip
"""Like `faulty.FAULTY`. Where no launch is given the sanitizer follows one order, or refuses what a device runs."""

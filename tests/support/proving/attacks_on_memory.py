"""Attacks by widths, axes, ranges of contents and last iterations, each with a launch that breaks what would be said."""

from __future__ import annotations

import numpy as np

from .attacking import ATTACKS, attack, programs_meet, store
from .faulty import NUMBERS, Faulty, zeros

_PROGRAM = "  %p = tt.get_program_id x : i32\n"


def _bytes(name: str, body: str, extent: int, programs: int) -> None:
    """Adds a kernel whose programs touch the bytes of an array of i8 that is aligned to 16 bytes."""
    ATTACKS[name] = Faulty(
        "%x: !tt.ptr<i8> {tt.divisibility = 16 : i32}", f"{NUMBERS}\n{_PROGRAM}{body}", {"x": extent}, programs, "races",
        (programs, [zeros(extent, "i1")], "race"),
    )  # fmt: skip


_bytes("bytes beside a word", """  %e = arith.constant 1 : i8
  %k = arith.addi %p, %c3 : i32
  %a = tt.addptr %x, %k : !tt.ptr<i8>, i32
  tt.store %a, %e : !tt.ptr<i8>
  %w = tt.bitcast %x : !tt.ptr<i8> -> !tt.ptr<i32>
  %v = tt.load %w : !tt.ptr<i32>""", 16, 2)
_bytes("words beside long words", """  %w = tt.bitcast %x : !tt.ptr<i8> -> !tt.ptr<i32>
  %at = tt.addptr %w, %p : !tt.ptr<i32>, i32
  tt.store %at, %p : !tt.ptr<i32>
  %l = tt.bitcast %x : !tt.ptr<i8> -> !tt.ptr<i64>
  %v = tt.load %l : !tt.ptr<i64>""", 16, 2)
_bytes("atomics of words beside atomics of long words", """  %w = tt.bitcast %x : !tt.ptr<i8> -> !tt.ptr<i32>
  %l = tt.bitcast %x : !tt.ptr<i8> -> !tt.ptr<i64>
  %one = arith.constant 1 : i64
  %at = tt.addptr %w, %c1 : !tt.ptr<i32>, i32
  %is = arith.cmpi eq, %p, %c0 : i32
  %no = arith.xori %is, %yes : i1
  %r = tt.atomic_rmw add, acq_rel, gpu, %at, %c1, %is : (!tt.ptr<i32>, i32, i1) -> i32
  %s = tt.atomic_rmw add, acq_rel, gpu, %l, %one, %no : (!tt.ptr<i64>, i64, i1) -> i64""", 16, 2)
_name = "atomics of words beside atomics of long words"
ATTACKS[_name] = ATTACKS[_name]._replace(launch=None)  # the sanitizer takes atomics of all widths for ordered
programs_meet("equal values of two programs", "  %i = arith.muli %p, %c0 : i32", 2)
programs_meet("a stride that is not the grid", """  %w = scf.for %t = %c0 to %c2 step %c1 iter_args(%i0 = %p) -> (i32) : i32 {
    %at0 = tt.addptr %x, %i0 : !tt.ptr<i32>, i32
    tt.store %at0, %p : !tt.ptr<i32>
    %i1 = arith.addi %i0, %c4 : i32
    scf.yield %i1 : i32
  }
  %i = arith.addi %p, %c40 : i32""", 5)  # fmt: skip
attack("an axis that nobody reads", _PROGRAM + store("%p", "", "%p"), 4096, 0, 0, 4096, (), "races", ("grid_x", "grid_y"), 1)
ATTACKS["an axis that nobody reads"] = ATTACKS["an axis that nobody reads"]._replace(launch=((2, 2), [zeros(4096), 0, 0], "race"))  # noqa: E501
attack("what the condition of a loop stores in the end", f"""  %w = scf.while (%i = %c0) : (i32) -> (i32) {{{store("%i")}
    %g = arith.cmpi slt, %i, %n : i32
    scf.condition(%g) %i : i32
  }} do {{
  ^bb0(%j: i32):
    %j1 = arith.addi %j, %c1 : i32
    scf.yield %j1 : i32
  }}""", "n", 2, 0, 2, ("n >= 1",))  # fmt: skip
attack("a counter of eight bits read as unsigned", f"""  %a = arith.constant -2 : i8
  %b = arith.constant 3 : i8
  %s = arith.constant 1 : i8
  scf.for %i = %a to %b step %s : i8 {{
    %k = arith.extui %i : i8 to i32{store("%k")}
  }}""", 8, 0)  # fmt: skip
attack("a product that is widened too late", f"""  %i = arith.muli %n, %m : i32
  %w = arith.extsi %i : i32 to i64
  %k = arith.constant 100 : i64
  %q = arith.cmpi slt, %w, %k : i64{store("%w", "%q", "%c1", "i64")}""", 100, 65535, 65535, assume=("n >= 0", "m >= 0"))
attack("a bound of a loop that the loop before counts", f"""  %r = scf.for %i = %c0 to %n step %c2 iter_args(%a = %c0) -> (i32) : i32 {{
    %d = arith.addi %a, %c2 : i32
    scf.yield %d : i32
  }}
  scf.for %j = %c0 to %r step %c1 : i32 {{{store("%j")}
  }}""", "n", 3, 0, 3, ("n >= 0",))  # fmt: skip  # noqa: E501
attack("a loop inside of a loop with a condition", f"""  %w:2 = scf.while (%i = %c0, %t = %c0) : (i32, i32) -> (i32, i32) {{
    %g = arith.cmpi slt, %t, %n : i32
    scf.condition(%g) %i, %t : i32, i32
  }} do {{
  ^bb0(%j: i32, %u: i32):
    %r = scf.for %k = %c0 to %c2 step %c1 iter_args(%a = %j) -> (i32) : i32 {{{store("%a")}
      %b = arith.addi %a, %c1 : i32
      scf.yield %b : i32
    }}
    %u1 = arith.addi %u, %c1 : i32
    scf.yield %r, %u1 : i32, i32
  }}""", "n + 1", 3, 0, 4, ("n >= 1",))  # fmt: skip
attack("a region whose blocks pass different values", f"""  %r = scf.execute_region -> i32 {{
    %q = arith.cmpi slt, %n, %c4 : i32
    cf.cond_br %q, ^a(%n : i32), ^b
  ^b:
    cf.br ^a(%c40 : i32)
  ^a(%v: i32):
    scf.yield %v : i32
  }}{store("%r")}""", 8, 5, assume=("n >= 0",))  # fmt: skip
attack("a loop of branches that turns its step around", f"""  %r = scf.for %i = %c0 to %n step %c1 iter_args(%a = %c0) -> (i32) : i32 {{
    %q = arith.cmpi slt, %i, %m : i32
    %d = scf.if %q -> (i32) {{
      scf.yield %c1 : i32
    }} else {{
      scf.yield %c2 : i32
    }}{store("%a")}
    %b = arith.addi %a, %d : i32
    scf.yield %b : i32
  }}""", "n", 5, 1, 5, ("n >= 1", "m >= 0"))  # fmt: skip  # noqa: E501
attack("a division of a program's number that starts below 0", f"""{_PROGRAM}  %k = arith.subi %p, %c4 : i32
  %d = arith.divsi %k, %c4 : i32
  %i = arith.addi %d, %c1 : i32{store("%i", "", "%p")}""", 4096, 0, 0, 4096, (), "races", "grid_x", 3)
attack("a shift by a negative number", f"  %i = arith.shrsi %n, %m : i32{store('%i')}", 8, -1, -1, assume=("m < 0",))
for _name, _kind, _extent in (("as they are", "extui", 128), ("with their sign", "extsi", 200)):
    ATTACKS[f"unsigned contents that are extended {_name}"] = Faulty("%x: !tt.ptr<i32>, %y: !tt.ptr<i8>", f"""{NUMBERS}
  %v = tt.load %y : !tt.ptr<i8>
  %i = arith.{_kind} %v : i8 to i32{store("%i")}""", {"x": _extent, "y": 1}, 1, "bounds",
        (1, [zeros(_extent), np.full(1, 199, "u1")], "out-of-bounds"), ("0 <= y[:] < 200",))  # fmt: skip
ATTACKS["contents of what was read outside"] = Faulty("%x: !tt.ptr<i32>, %y: !tt.ptr<i32>, %n: i32", f"""{NUMBERS}
  %b = tt.addptr %y, %n : !tt.ptr<i32>, i32
  %v = tt.load %b : !tt.ptr<i32>{store("%v")}""", {"x": 8, "y": 4}, 1, "bounds",
    (1, [zeros(8), zeros(4), 9], "out-of-bounds"), ("0 <= y[:] < 8",))  # fmt: skip
ATTACKS["the least element of two masked loads"] = Faulty("%x: !tt.ptr<i32>, %y: !tt.ptr<i32>, %n: i32", f"""{NUMBERS}
  %q = arith.cmpi sgt, %n, %c0 : i32
  %no = arith.xori %q, %yes : i1
  %v = tt.load %y, %q, %c7 : !tt.ptr<i32>
  %w = tt.load %y, %no, %c8 : !tt.ptr<i32>
  %i = arith.maxsi %v, %w : i32{store("%i")}""", {"x": 8, "y": 1}, 1, "bounds",
    (1, [zeros(8), zeros(1), 1], "out-of-bounds"), ("0 <= y[:] < 8",))  # fmt: skip

_SUMMED = """
  %far = arith.constant 4611686018427387904 : i64
  %i = scf.for %t = %c0 to %n step %c2 iter_args(%a = %z) -> (i64) : i32 {
    %b = arith.addi %a, %far : i64
    scf.yield %b : i64
  }"""
"""A number that is free, but for sizes with which the counter does not wrap. Then it is a sum that wraps every fourth time."""
_INSIDE = """
  %some = arith.cmpi sge, %n, %c1 : i32
  %low = arith.cmpi sge, %i, %z : i64
  %high = arith.cmpi slt, %i, %m : i64
  %both = arith.andi %low, %high : i1
  %q = arith.andi %both, %some : i1"""
ATTACKS["programs meet by a sum that wraps and is known under a condition"] = Faulty(
    "%x: !tt.ptr<i32>, %n: i32, %m: i64", f"{NUMBERS}\n{_PROGRAM}{_SUMMED}{_INSIDE}{store('%i', '%q', '%p', 'i64')}",
    {"x": "m"}, "grid_x", "races", (3, [zeros(4), 8, 4], "race"),
)  # fmt: skip
ATTACKS["programs meet by a sum that wraps and is known where another access is inside"] = Faulty(
    "%x: !tt.ptr<i32>, %n: i32, %m: i64", f"""{NUMBERS}
{_PROGRAM}{_SUMMED}{_INSIDE}
  %first = arith.cmpi eq, %p, %c0 : i32
  %own = arith.andi %q, %first : i1{store('%i', '%own', '%p', 'i64')}
  %zero = scf.for %t = %c0 to %n step %c2 iter_args(%a = %z) -> (i64) : i32 {{
    %b = arith.addi %a, %z : i64
    scf.yield %b : i64
  }}
  %r = tt.addptr %x, %zero : !tt.ptr<i32>, i64
  %v = tt.load %r : !tt.ptr<i32>""", {"x": "m"}, "grid_x", "races", (3, [zeros(4), 8, 4], "race"), ("m >= 1",),
)  # fmt: skip
ATTACKS["lanes meet by elements that are known where their index is one"] = Faulty(
    "%x: !tt.ptr<i32>, %n: i32, %m: i64", f"""{NUMBERS}
  %c24 = arith.constant 24 : i32
  %many = arith.constant 16777216 : i32
  %far = arith.constant dense<4611686018427387904> : tensor<4xi64>
  %l = tt.make_range {{end = 4 : i32, start = 0 : i32}} : tensor<4xi32>
  %w = arith.extsi %l : tensor<4xi32> to tensor<4xi64>
  %d = arith.muli %w, %far : tensor<4xi64>
  %e = arith.addi %d, %d : tensor<4xi64>
  %all = arith.addi %e, %e : tensor<4xi64>
  %k = arith.shrsi %n, %c24 : i32
  %ks = tt.splat %k : i32 -> tensor<4xi32>
  %g = tt.gather %all[%ks] {{axis = 0 : i32}} : (tensor<4xi64>, tensor<4xi32>) -> tensor<4xi64>
  %zs = tt.splat %z : i64 -> tensor<4xi64>
  %ms = tt.splat %m : i64 -> tensor<4xi64>
  %some = arith.cmpi sge, %n, %many : i32
  %somes = tt.splat %some : i1 -> tensor<4xi1>
  %low = arith.cmpi sge, %g, %zs : tensor<4xi64>
  %high = arith.cmpi slt, %g, %ms : tensor<4xi64>
  %both = arith.andi %low, %high : tensor<4xi1>
  %q = arith.andi %both, %somes : tensor<4xi1>
  %xs = tt.splat %x : !tt.ptr<i32> -> tensor<4x!tt.ptr<i32>>
  %at = tt.addptr %xs, %g : tensor<4x!tt.ptr<i32>>, tensor<4xi64>
  tt.store %at, %l, %q : tensor<4x!tt.ptr<i32>>""", {"x": "m"}, 1, "races",
    (1, [zeros(4), 1 << 24, 4], "lane-race"), ("n >= 0",),
)  # fmt: skip

__all__ = ["ATTACKS"]

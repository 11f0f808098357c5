"""Attacks by loops, branches, calls, programs, atomics and descriptors, each with a launch that breaks what would be said."""

from __future__ import annotations

from typing import Any

import numpy as np

from .attacking import (
    ATTACKS,
    LEAST,
    MOST,
    PARAMETERS,
    attack,
    programs_meet,
    store,
)
from .faulty import NUMBERS, Faulty, zeros

# Loops
_FOR = "  %r:2 = scf.for %i = %c0 to %n step %c1 iter_args(%a = {a}, %b = {b}) -> (i32, i32) : i32 {{{body}\n    scf.yield {y} : i32, i32\n  }}"  # noqa: E501


def _loop(
    name: str,
    a: str,
    b: str,
    body: str,
    y: str,
    extent: Any,
    n: int,
    size: int,
    after: str = "",
    assume: tuple[str, ...] = (),
) -> None:
    attack(name, _FOR.format(a=a, b=b, body=body, y=y) + after, extent, n, 0, size, assume)


_loop("carried values that are exchanged", "%c0", "%c40", store("%a"), "%b, %a", 8, 2, 8)
_loop("a carried value that doubles", "%c1", "%c0", store("%a") + "\n  %d = arith.addi %a, %a : i32", "%d, %b", "n + 1", 4, 5, "",  # noqa: E501
      ("n >= 1",))  # fmt: skip
_loop("the counter of the iteration before", "%c40", "%c0", store("%a"), "%i, %b", "n", 2, 2, "", ("n >= 0",))
_loop("the counter of two iterations before", "%c0", "%c40", store("%b"), "%i, %a", 8, 1, 8, "", ("n <= 8",))
_loop(
    "the result of a loop",
    "%c0",
    "%c0",
    "\n  %d = arith.addi %a, %c1 : i32",
    "%d, %b",
    "n",
    2,
    2,
    store("%r#0"),
    ("n >= 1",),
)
_loop("the result of a loop without iterations", "%c0", "%c0", "\n  %d = arith.addi %a, %c1 : i32", "%d, %b", 1, -3, 1,
      "\n  %e = arith.subi %r#0, %n : i32" + store("%e"))  # fmt: skip
_loop(
    "a carried sum of counters",
    "%c0",
    "%c0",
    store("%a") + "\n  %d = arith.addi %a, %i : i32",
    "%d, %b",
    "n + 1",
    5,
    6,
    "",
    ("n >= 0",),
)
_loop("a carried value that one iteration resets", "%c0", "%c0", "\n  %q = arith.cmpi eq, %i, %c3 : i32\n  %e = arith.addi %a, %c1 : i32\n"  # noqa: E501
      "  %d = arith.select %q, %c40, %e : i32" + store("%a"), "%d, %b", "n", 6, 6, "", ("n >= 0",))  # fmt: skip
attack(
    "a pointer that two loops carry",
    """  %r = scf.for %i = %c0 to %n step %c1 iter_args(%p = %x) -> (!tt.ptr<i32>) : i32 {
    %q = scf.for %j = %c0 to %m step %c1 iter_args(%s = %p) -> (!tt.ptr<i32>) : i32 {
      tt.store %s, %j : !tt.ptr<i32>
      %t = tt.addptr %s, %c1 : !tt.ptr<i32>, i32
      scf.yield %t : !tt.ptr<i32>
    }
    scf.yield %q : !tt.ptr<i32>
  }""",
    "n + m",
    3,
    3,
    6,
    ("n >= 0", "m >= 0"),
)
attack(
    "a pointer that a loop leaves behind its array",
    """  %r = scf.for %i = %c0 to %n step %c1 iter_args(%p = %x) -> (!tt.ptr<i32>) : i32 {
    %t = tt.addptr %p, %c1 : !tt.ptr<i32>, i32
    scf.yield %t : !tt.ptr<i32>
  }
  tt.store %r, %n : !tt.ptr<i32>""",
    "n",
    2,
    0,
    2,
    ("n >= 1",),
)
attack(
    "a reversed loop by one too many",
    f"""  scf.for %i = %c0 to %n step %c1 : i32 {{
    %k = arith.subi %n, %i : i32{store("%k")}
  }}""",
    "n",
    3,
    0,
    3,
    ("n >= 0",),
)
attack(
    "a counter of wide steps",
    f"""  scf.for %i = %c0 to %n step %c4 : i32 {{
    %k = arith.addi %i, %c3 : i32{store("%k")}
  }}""",
    "n",
    5,
    0,
    5,
    ("n >= 0",),
)
_WHILE = """  %w:2 = scf.while (%i = {i}, %t = %c0) : (i32, i32) -> (i32, i32) {{
    %g = arith.cmpi slt, %t, %c40 : i32
    %h = arith.cmpi ne, %i, %m : i32
    %go = arith.andi %g, %h : i1
    scf.condition(%go) {passed} : i32, i32
  }} do {{
  ^bb0(%j: i32, %u: i32):{body}
    %j1 = arith.addi %j, {step} : i32
    %u1 = arith.addi %u, %c1 : i32
    scf.yield %j1, %u1 : i32, i32
  }}"""
attack(
    "a loop that steps over its end",
    _WHILE.format(i="%c0", passed="%i, %t", body=store("%j"), step="%c2"),
    "m",
    0,
    3,
    3,
    ("m >= 1",),
)
attack("a loop whose condition exchanges its values", _WHILE.format(i="%c8", passed="%t, %i", body=store("%u"), step="%c1"), 8, 0, 20, 8,  # noqa: E501
         ("m >= 1",))  # fmt: skip
attack(
    "the value that ends a loop",
    _WHILE.format(i="%c0", passed="%i, %t", body="", step="%c1") + store("%w#0"),
    "m",
    0,
    3,
    3,
    ("m >= 1",),
)
ATTACKS["a loop that data ends"] = Faulty(
    "%x: !tt.ptr<i32>, %y: !tt.ptr<i32>",
    f"""{NUMBERS}
  %w = scf.while (%i = %c0) : (i32) -> (i32) {{
    %v = tt.load %y : !tt.ptr<i32>
    %g = arith.cmpi slt, %i, %v : i32
    scf.condition(%g) %i : i32
  }} do {{
  ^bb0(%j: i32):{store("%j")}
    %j1 = arith.addi %j, %c1 : i32
    scf.yield %j1 : i32
  }}""",
    {"x": 8, "y": 1},
    1,
    "bounds",
    (1, [zeros(8), np.full(1, 9, "i4")], "out-of-bounds"),
)

# Blocks of operations
attack(
    "a circle of blocks that ends behind the array",
    f"""  cf.br ^head(%c0 : i32)
^head(%i: i32):
  %j = arith.addi %i, %c1 : i32
  %go = arith.cmpi slt, %j, %n : i32
  cf.cond_br %go, ^head(%j : i32), ^end
^end:{store("%j")}""",
    "n",
    3,
    0,
    3,
    ("n >= 1",),
)
attack(
    "a branch that exchanges its values",
    f"""  %q = arith.cmpi slt, %n, %c8 : i32
  cf.cond_br %q, ^a(%n, %c40 : i32, i32), ^a(%c0, %n : i32, i32)
^a(%u: i32, %v: i32):{store("%v")}""",
    8,
    0,
    0,
    8,
    ("n >= 0",),
)
attack(
    "a branch that is never taken by exact numbers",
    f"""  %s = arith.addi %n, %c1 : i32
  %q = arith.cmpi sgt, %s, %c7 : i32
  cf.cond_br %q, ^a(%c0 : i32), ^a(%n : i32)
^a(%u: i32):
  %k = arith.cmpi sge, %u, %c1 : i32{store("%u", "%k")}""",
    8,
    MOST,
)
attack(
    "a switch",
    f"""  cf.switch %n : i32, [
    default: ^a(%n : i32),
    1: ^a(%c0 : i32),
    2: ^a(%c1 : i32)
  ]
^a(%u: i32):{store("%u")}""",
    8,
    9,
    assume=("1 <= n",),
)
attack(
    "what follows a return in one branch",
    f"""  %q = arith.cmpi sgt, %n, %m : i32
  cf.cond_br %q, ^out, ^go
^out:
  tt.return
^go:{store("%n")}""",
    8,
    9,
    10,
    assume=("n >= 0", "m <= 10"),
)
_HELPER = """  %c = arith.constant 0 : i32
  %q = arith.cmpi slt, %a, %c : i32
  %d = arith.subi %c, %a : i32
  %r = arith.select %q, %d, %a : i32
  tt.return %r : i32"""


class Called(Faulty):
    """A kernel that calls a function."""

    __slots__ = ()

    @property
    def text(self) -> str:
        return f"module {{\ntt.func private @abs(%a: i32) -> i32 {{\n{_HELPER}\n}}\n{super().text}}}\n"


ATTACKS["a function that returns a negative absolute value"] = Called(
    PARAMETERS,
    f"""{NUMBERS}
  %i = tt.call @abs(%n) : (i32) -> i32
  %q = arith.cmpi slt, %i, %c8 : i32{store("%i", "%q")}""",
    {"x": 8},
    1,
    "bounds",
    (1, [zeros(8), LEAST, 0], "out-of-bounds"),
)
ATTACKS["two calls of one function"] = Called(
    PARAMETERS,
    f"""{NUMBERS}
  %i = tt.call @abs(%n) : (i32) -> i32
  %j = tt.call @abs(%m) : (i32) -> i32
  %d = arith.subi %i, %j : i32{store("%d")}""",
    {"x": 1},
    1,
    "bounds",
    (1, [zeros(1), 3, 2], "out-of-bounds"),
    ("0 <= n <= 9", "0 <= m <= 9"),
)

# Programs
programs_meet("half of a program's number", "  %i = arith.divsi %p, %c2 : i32", 2)
programs_meet("a square around 1", "  %d = arith.subi %p, %c1 : i32\n  %i = arith.muli %d, %d : i32", 3)
programs_meet(
    "a program's number without its low bit",
    "  %k = arith.constant -2 : i32\n  %i = arith.andi %p, %k : i32",
    2,
)
programs_meet(
    "eight bits of a program's number",
    "  %b = arith.trunci %p : i32 to i8\n  %i = arith.extui %b : i8 to i32",
    257,
    "overflow",
)
programs_meet("a product of eight bits", "  %b = arith.trunci %p : i32 to i8\n  %k = arith.constant 64 : i8\n  %d = arith.muli %b, %k : i8\n"  # noqa: E501
          "  %i = arith.extui %d : i8 to i32", 5, "overflow")  # fmt: skip
programs_meet("the smaller of two numbers", "  %i = arith.minsi %p, %c3 : i32", 5)
programs_meet("programs by a remainder that is not the grid", "  %i = arith.remsi %p, %c7 : i32", 8)
programs_meet(
    "programs in two orders",
    "  %g = tt.get_num_programs x : i32\n  %r = arith.subi %g, %p : i32\n  %i = arith.minsi %p, %r : i32",
    4,
)
attack("the number of programs", "  %p = tt.get_program_id x : i32\n  %g = tt.get_num_programs x : i32\n"
         f"  %i = arith.subi %g, %p : i32{store('%i')}", "grid_x", 0, 0, 2, (), "bounds", "grid_x", 2)  # fmt: skip
attack("an address that wraps in 64 bits", "  %p = tt.get_program_id x : i32\n  %e = arith.extsi %p : i32 to i64\n"
         f"  %k = arith.constant 4611686018427387904 : i64\n  %i = arith.muli %e, %k : i64{store('%i', '', '%p', 'i64')}", 1, 0, 0, 1, (),  # noqa: E501
         "races", 2, 2, "overflow")  # fmt: skip
attack(
    "an element and the next one",
    f"""  %p = tt.get_program_id x : i32
  %k = arith.addi %p, %c1 : i32
  %b = tt.addptr %x, %k : !tt.ptr<i32>, i32
  %v = tt.load %b : !tt.ptr<i32>{store("%p", "", "%v")}""",
    "grid_x + 1",
    0,
    0,
    5,
    (),
    "races",
    "grid_x",
    4,
)
_ATOMIC = "  %r = tt.atomic_rmw add, {order}, gpu, %x, %c1, %yes : (!tt.ptr<i32>, i32, i1) -> i32"
attack(
    "an atomic beside a plain load",
    _ATOMIC.format(order="relaxed") + "\n  %v = tt.load %x : !tt.ptr<i32>",
    1,
    0,
    0,
    1,
    (),
    "races",
    "grid_x",
    3,
)
attack(
    "an atomic beside a plain store",
    _ATOMIC.format(order="relaxed") + store("%c0"),
    1,
    0,
    0,
    1,
    (),
    "races",
    "grid_x",
    3,
)
attack(
    "a ticket of a counter that nobody reset",
    _ATOMIC.format(order="acq_rel") + store("%r"),
    "grid_x + 1",
    0,
    0,
    1,
    (),
    "bounds",
    "grid_x",
    1,
)
ATTACKS["a ticket of a counter that nobody reset"] = ATTACKS[
    "a ticket of a counter that nobody reset"
]._replace(launch=(1, [np.full(2, 100, "i4"), 0, 0], "out-of-bounds"))
attack(
    "a described tensor that is too long",
    """  %s = arith.constant 1 : i64
  %d = tt.make_tensor_descriptor %x, [%m], [%s] : <i32>, <tensor<4xi32>>
  %v = tt.descriptor_load %d[%c0] : !tt.tensordesc<tensor<4xi32>> -> tensor<4xi32>""",
    "n",
    2,
    3,
    2,
    ("n >= 0", "m >= 0", "m <= n + 1"),
)
attack(
    "tiles of a described tensor that overlap",
    """  %p = tt.get_program_id x : i32
  %o = arith.muli %p, %c2 : i32
  %s = arith.constant 1 : i64
  %l = tt.make_range {end = 4 : i32, start = 0 : i32} : tensor<4xi32>
  %d = tt.make_tensor_descriptor %x, [%n], [%s] : <i32>, <tensor<4xi32>>
  tt.descriptor_store %d[%o], %l : !tt.tensordesc<tensor<4xi32>>, tensor<4xi32>""",
    "n",
    8,
    0,
    8,
    ("n >= 0",),
    "races",
    "cdiv(n, 2)",
    4,
)
attack(
    "a described tensor with a stride of 0",
    """  %p = tt.get_program_id x : i32
  %o = arith.muli %p, %c4 : i32
  %s = arith.constant 0 : i64
  %one = arith.constant 1 : i64
  %l = arith.constant dense<1> : tensor<1x4xi32>
  %d = tt.make_tensor_descriptor %x, [%n, %c4], [%s, %one] : <i32>, <tensor<1x4xi32>>
  tt.descriptor_store %d[%p, %c0], %l : !tt.tensordesc<tensor<1x4xi32>>, tensor<1x4xi32>""",
    "4 * n",
    3,
    0,
    12,
    ("n >= 1",),
    "races",
    "n",
    3,
)
attack(
    "an index of two axes that meet",
    f"""  %p = tt.get_program_id x : i32
  %q = tt.get_program_id y : i32
  %d = arith.muli %p, %c2 : i32
  %i = arith.addi %d, %q : i32{store("%i", "", "%p")}""",
    4096,
    0,
    0,
    4096,
    (),
    "races",
    ("grid_x", "grid_y"),
    1,
)
ATTACKS["an index of two axes that meet"] = ATTACKS["an index of two axes that meet"]._replace(
    launch=((2, 3), [zeros(4096), 0, 0], "race")
)  # type: ignore[arg-type]
for _name, _text, _kind in (
    ("believed", "  llvm.intr.assume %q : i1", "out-of-bounds"), ("asserted", '  tt.assert %q, "small" : i1', "error"),
):  # fmt: skip
    attack(
        f"a condition that is {_name}",
        f"  %q = arith.cmpi slt, %n, %c8 : i32\n{_text}{store('%n')}",
        8,
        9,
        assume=("n >= 0",),
        kind=_kind,
    )


def counter(name: str, condition: str, step: str, n: int, m: int, assume: tuple[str, ...] = ()) -> None:
    """Adds a loop with a condition whose counter %p wraps below 0, where it writes to an array without elements."""
    body = f"""
  %r:2 = scf.while (%p = %n, %q = %c0) : (i32, i32) -> (i32, i32) {{
{condition}
    %few = arith.cmpi slt, %q, %c4 : i32
    %d = arith.andi %c, %few : i1
    scf.condition(%d) %p, %q : i32, i32
  }} do {{
  ^bb0(%p: i32, %q: i32):
    %below = arith.cmpi slt, %p, %c0 : i32
    %at = tt.addptr %x, %c0 : !tt.ptr<i32>, i32
    tt.store %at, %p, %below : !tt.ptr<i32>
    %q1 = arith.addi %q, %c1 : i32
    %next = arith.addi %p, {step} : i32
    scf.yield %next, %q1 : i32, i32
  }}"""
    attack(f"a counter that wraps: {name}", body, 0, n, m, assume=("n >= 0", *assume))


counter("its end is another number", "    %c = arith.cmpi ne, %p, %m : i32", "%half", 0, -(2**30))
counter("its end is too near the largest", "    %c = arith.cmpi slt, %p, %m : i32", "%c3", 2**31 - 3, 2**31 - 1)
counter("another one is bounded", "    %c = arith.cmpi slt, %q, %c3 : i32", "%half", 0, 0)
counter(
    "the bounded number wraps before it is compared",
    "    %a = arith.addi %p, %c8 : i32\n    %c = arith.cmpi slt, %a, %c40 : i32", "%c8", 2**31 - 4, 0,
)  # fmt: skip
counter(
    "it is bounded or another one is",
    "    %a = arith.cmpi slt, %p, %c40 : i32\n    %b = arith.cmpi slt, %q, %c7 : i32\n    %c = arith.ori %a, %b : i1",
    "%half", 0, 0,
)  # fmt: skip
counter(
    "its bound is unsigned", "    %c = arith.cmpi ult, %p, %m : i32", "%half", 0, -(2**30), ("m <= 0 - 2**30",)
)  # fmt: skip
counter("a step as large as its bound", "    %c = arith.cmpi slt, %p, %m : i32", "%m", 2**30, 2**30 + 1)

__all__ = ["ATTACKS"]

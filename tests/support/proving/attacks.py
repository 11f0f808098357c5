"""Kernels that try to make the prover wrong, each with a launch that breaks what it would say."""

from __future__ import annotations

from typing import Any

import numpy as np

from .faulty import LANES, NUMBERS, Faulty, zeros

_T = "tensor<4xi32>"
_P = "tensor<4x!tt.ptr<i32>>"
_MIN, _BIG = -(2**31), 2**31 - 1
_XNM = "%x: !tt.ptr<i32>, %n: i32, %m: i32"
ATTACKS: dict[str, Faulty] = {}


def _at(index: str, mask: str = "", value: str = "%c1", kind: str = "i32") -> str:
    """Stores at an index of %x."""
    more = f", {mask}" if mask else ""
    return f"\n  %at = tt.addptr %x, {index} : !tt.ptr<i32>, {kind}\n  tt.store %at, {value}{more} : !tt.ptr<i32>"


def _lanes_at(index: str, mask: str = "", value: str = "%l") -> str:
    """Stores at a block of indices of %x."""
    more = f", {mask}" if mask else ""
    return (f"\n  %xs = tt.splat %x : !tt.ptr<i32> -> {_P}\n  %at = tt.addptr %xs, {index} : {_P}, {_T}"
            f"\n  tt.store %at, {value}{more} : {_P}")  # fmt: skip


def _numbers(
    name: str, body: str, extent: Any, n: int, m: int = 0, size: int | None = None, assume: tuple[str, ...] = (),
    prop: str = "bounds", grid: Any = 1, programs: int = 1, kind: str | None = None, parameters: str = _XNM,
) -> None:  # fmt: skip
    """Adds a kernel with two numbers. extent: of %x; size: of the array in the launch, if extent is no number."""
    size = extent if size is None else size
    found = kind or {"bounds": "out-of-bounds", "races": "race"}[prop]
    launch = (programs, [zeros(size), n, m], found)
    ATTACKS[name] = Faulty(parameters, NUMBERS + "\n" + body, {"x": extent}, grid, prop, launch, assume)


def _never(name: str, body: str, n: int, m: int = 0, assume: tuple[str, ...] = (), parameters: str = _XNM) -> None:
    """Adds a kernel whose %q seems never to hold; nothing is in the array that is then written."""
    _numbers(name, body + _at("%c0", "%q"), 0, n, m, assume=assume, parameters=parameters)


def _programs(name: str, body: str, programs: int, kind: str = "race") -> None:
    """Adds a kernel in which two programs write to the element %i."""
    text = "  %p = tt.get_program_id x : i32\n" + body + _at("%i", "", "%p")
    _numbers(name, text, 4096, 0, 0, 4096, (), "races", "grid_x", programs, kind)


# Numbers that wrap
_numbers("a product that wraps below a mask", f"  %i = arith.muli %n, %m : i32\n  %q = arith.cmpi slt, %i, %c8 : i32{_at('%i', '%q')}",
         8, 65535, 65535, assume=("n >= 0", "m >= 0"))  # fmt: skip
_never("a product of two that are not 0", "  %i = arith.muli %n, %m : i32\n  %q = arith.cmpi eq, %i, %c0 : i32", 65536, 65536,
       ("n >= 1", "m >= 1"))  # fmt: skip
_never("a square below 0", "  %i = arith.muli %n, %n : i32\n  %q = arith.cmpi slt, %i, %c0 : i32", 46341)
_never("a successor that is not larger", "  %i = arith.addi %n, %c1 : i32\n  %q = arith.cmpi sle, %i, %n : i32", _BIG)
_never("a successor that claims not to wrap",
       "  %i = arith.addi %n, %c1 overflow<nsw> : i32\n  %q = arith.cmpi sle, %i, %n : i32", _BIG)
_never("a shift that loses bits", "  %i = arith.shli %n, %c4 : i32\n  %q = arith.cmpi eq, %i, %c0 : i32", 2**28, 0, ("n >= 1",))
_never("a shift by as many bits as there are", "  %i = arith.shli %c1, %m : i32\n  %q = arith.cmpi eq, %i, %c0 : i32", 0, 33)
_never("an absolute value below 0", "  %i = math.absi %n : i32\n  %q = arith.cmpi slt, %i, %c0 : i32", _MIN)
_never("a quotient of two negative numbers below 0",
       "  %i = arith.divsi %n, %m : i32\n  %q = arith.cmpi slt, %i, %c0 : i32", _MIN, -1, ("n < 0", "m < 0"))
_never("a high half that is not 0",
       "  %lo, %hi = arith.mulsi_extended %n, %m : i32\n  %q = arith.cmpi ne, %hi, %c0 : i32", 2**20, 2**20, ("n >= 0", "m >= 0"))
_never("a carry", "  %lo, %q = arith.addui_extended %n, %m : i32, i1", -1, 1)
_never("a negation that stays negative", "  %i = arith.subi %c0, %n : i32\n  %q = arith.cmpi slt, %i, %c0 : i32", _MIN, 0, ("n < 0",))
_never("a difference whose sign is wrong",
       "  %i = arith.subi %n, %m : i32\n  %q = arith.cmpi slt, %i, %c0 : i32", _BIG, -1, ("n >= m",))
_numbers("a sum of eight bits", "  %b = arith.trunci %n : i32 to i8\n  %k = arith.constant 100 : i8\n  %s = arith.addi %b, %k : i8\n"
         f"  %i = arith.extsi %s : i8 to i32{_at('%i')}", 201, 100, assume=("0 <= n <= 100",))  # fmt: skip
_numbers("a product of eight bits read as unsigned", "  %b = arith.trunci %n : i32 to i8\n  %s = arith.muli %b, %b : i8\n"
         f"  %i = arith.extui %s : i8 to i32{_at('%i')}", 226, 253, assume=("0 <= n <= 255",), kind="overflow")  # fmt: skip
_numbers("a number cut to eight bits", "  %b = arith.trunci %n : i32 to i8\n"
         f"  %i = arith.extui %b : i8 to i32{_at('%i')}", 128, -1, assume=("0 - 1 <= n < 128",))  # fmt: skip
_numbers("a number cut and extended by its sign", "  %b = arith.trunci %n : i32 to i8\n"
         f"  %i = arith.extsi %b : i8 to i32{_at('%i')}", 256, 200, assume=("0 <= n < 256",))  # fmt: skip
_never("products of 64 bits", "  %i = arith.muli %n, %m : i64\n  %q = arith.cmpi eq, %i, %z : i64", 2**32, 2**32,
       ("n >= 1", "m >= 1"), "%x: !tt.ptr<i32>, %n: i64, %m: i64")  # fmt: skip
_never("a hash", "  %k = arith.constant 40503 : i32\n  %i = arith.muli %n, %k : i32\n  %r = arith.shrui %i, %c8 : i32\n"
       "  %a = arith.cmpi sgt, %r, %big : i32\n  %w = arith.cmpi slt, %i, %c0 : i32\n  %q = arith.ori %a, %w : i1", 60000, 0, ("n >= 0",))  # fmt: skip

# Numbers read as unsigned
_numbers("an unsigned comparison with a negative number",
         f"  %a = arith.cmpi ult, %c40, %n : i32\n  %b = arith.cmpi slt, %n, %c8 : i32\n  %q = arith.andi %a, %b : i1{_at('%c40', '%q')}", 8, -1)
_numbers("a logical shift of a negative number", f"  %k = arith.constant 28 : i32\n  %i = arith.shrui %n, %k : i32{_at('%i')}", 8, -1)
_numbers("an unsigned maximum", f"  %i = arith.maxui %n, %c7 : i32{_at('%i')}", 4096, -1, assume=("n <= 100",))
_numbers("an unsigned remainder by a negative number", f"  %i = arith.remui %n, %m : i32{_at('%i')}", 8, 100, -1,
         assume=("n >= 0", "m <= 8", "m != 0"))  # fmt: skip
_numbers("an unsigned quotient", f"  %i = arith.divui %n, %c2 : i32{_at('%i')}", 8, -1, assume=("n < 16",))

# Quotients and remainders
_numbers("a remainder of a negative number", f"  %i = arith.remsi %n, %c4 : i32{_at('%i')}", 4, -1)
_numbers("a remainder by 0", f"  %i = arith.remsi %n, %m : i32{_at('%i')}", 8, 100, 0, assume=("n >= 0", "0 <= m <= 8"))
_numbers("a quotient by 0", f"  %d = arith.divsi %n, %m : i32\n  %q = arith.cmpi eq, %d, %c0 : i32{_at('%n', '%q')}", 8, 100, 0,
         assume=("n >= 0", "0 <= m <= 8"))  # fmt: skip
_numbers("a quotient rounded down", f"  %i = arith.floordivsi %n, %c4 : i32{_at('%i')}", 8, -1, assume=("0 - 3 <= n < 32",))
_numbers("a quotient rounded up", f"  %i = arith.ceildivsi %n, %c4 : i32{_at('%i')}", 8, 29, assume=("0 <= n <= 32",), size=8)
ATTACKS["a quotient rounded up"] = ATTACKS["a quotient rounded up"]._replace(launch=(1, [zeros(8), 32, 0], "out-of-bounds"))
_numbers("a shift of a negative number to the right", f"  %i = arith.shrsi %n, %c1 : i32{_at('%i')}", 8, -1, assume=("0 - 1 <= n < 16",))

# Conditions
_numbers("true extended by its sign", f"  %a = arith.cmpi sgt, %n, %c0 : i32\n  %i = arith.extsi %a : i1 to i32{_at('%i')}", 2, 1)
_numbers("true extended", f"  %a = arith.cmpi sgt, %n, %c0 : i32\n  %i = arith.extui %a : i1 to i32{_at('%i')}", 1, 1)
_never("the low bit of 2", "  %a = arith.trunci %n : i32 to i1\n  %q = arith.xori %a, %yes : i1", 2, 0, ("1 <= n <= 2",))
_never("a sum of conditions", "  %a = arith.cmpi sgt, %n, %c0 : i32\n  %b = arith.cmpi sge, %n, %c0 : i32\n"
       "  %s = arith.addi %a, %b : i1\n  %t = arith.xori %s, %yes : i1\n  %q = arith.andi %t, %a : i1", 1)  # fmt: skip
_never("a signed comparison of conditions",
       "  %a = arith.cmpi sgt, %n, %c0 : i32\n  %f = arith.constant false\n  %q = arith.cmpi slt, %a, %f : i1", 1)
_never("an unsigned comparison of conditions",
       "  %a = arith.cmpi sgt, %n, %c0 : i32\n  %f = arith.constant false\n  %q = arith.cmpi ugt, %a, %f : i1", 1)
_numbers("a chain of choices", "  %a = arith.cmpi sgt, %n, %c7 : i32\n  %i0 = arith.select %a, %c7, %n : i32\n"
         f"  %b = arith.cmpi slt, %i0, %c0 : i32\n  %i = arith.select %b, %i0, %i0 : i32{_at('%i')}", 8, -1)  # fmt: skip
_numbers("a choice by a product that wraps", "  %s = arith.muli %n, %n : i32\n  %a = arith.cmpi slt, %s, %c0 : i32\n"
         f"  %i = arith.select %a, %c40, %c0 : i32{_at('%i')}", 8, 46341)  # fmt: skip

# Loads
ATTACKS["a mask that is loaded"] = Faulty("%x: !tt.ptr<i32>, %y: !tt.ptr<i32>", f"""{NUMBERS}
  %v = tt.load %y : !tt.ptr<i32>
  %q = arith.cmpi sgt, %v, %c0 : i32{_at('%c40', '%q')}""", {"x": 8, "y": 1}, 1, "bounds",
    (1, [zeros(8), np.ones(1, "i4")], "out-of-bounds"))  # fmt: skip
ATTACKS["an index that is loaded and cut above"] = Faulty("%x: !tt.ptr<i32>, %y: !tt.ptr<i32>", f"""{NUMBERS}
  %v = tt.load %y : !tt.ptr<i32>
  %i = arith.minsi %v, %c7 : i32{_at('%i')}""", {"x": 8, "y": 1}, 1, "bounds", (1, [zeros(8), -np.ones(1, "i4")], "out-of-bounds"))
ATTACKS["what stands for a masked lane"] = Faulty("%x: !tt.ptr<i32>, %y: !tt.ptr<i32>, %n: i32", f"""{NUMBERS}
  %q = arith.cmpi sgt, %n, %c0 : i32
  %i = tt.load %y, %q, %c40 : !tt.ptr<i32>{_at('%i')}""", {"x": 8, "y": 1}, 1, "bounds",
    (1, [zeros(8), zeros(1), 0], "out-of-bounds"), ("0 <= y[:] < 8",))  # fmt: skip
ATTACKS["an element that is written between two loads"] = Faulty("%x: !tt.ptr<i32>, %y: !tt.ptr<i32>", f"""{NUMBERS}
  %v = tt.load %y : !tt.ptr<i32>
  tt.store %y, %c40 : !tt.ptr<i32>
  %w = tt.load %y : !tt.ptr<i32>
  %i = arith.subi %w, %v : i32{_at('%i')}""", {"x": 1, "y": 1}, 1, "bounds", (1, [zeros(1), zeros(1)], "out-of-bounds"))
ATTACKS["the sum of two elements in their range"] = Faulty("%x: !tt.ptr<i32>, %y: !tt.ptr<i32>", f"""{NUMBERS}
  %v = tt.load %y : !tt.ptr<i32>
  %y1 = tt.addptr %y, %c1 : !tt.ptr<i32>, i32
  %w = tt.load %y1 : !tt.ptr<i32>
  %i = arith.addi %w, %v : i32{_at('%i')}""", {"x": 8, "y": 2}, 1, "bounds",
    (1, [zeros(8), np.full(2, 7, "i4")], "out-of-bounds"), ("0 <= y[:] < 8",))  # fmt: skip

# Blocks: reductions, scans, orders
_BLOCK = LANES + "\n"
_numbers("a reduction as an index", f"""{_BLOCK}  %i = "tt.reduce"(%l) <{{axis = 0 : i32}}> ({{
  ^bb0(%a: i32, %b: i32):
    %s = arith.addi %a, %b : i32
    tt.reduce.return %s : i32
  }}) : ({_T}) -> i32{_at('%i')}""", 6, 0)
_numbers("a scan as an index", f"""{_BLOCK}  %i = "tt.scan"(%l) <{{axis = 0 : i32, reverse = false}}> ({{
  ^bb0(%a: i32, %b: i32):
    %s = arith.addi %a, %b : i32
    tt.scan.return %s : i32
  }}) : ({_T}) -> {_T}{_lanes_at('%i')}""", 6, 0)
_numbers("a histogram as an index",
         f"{_BLOCK}  %k = arith.constant dense<0> : {_T}\n  %i = tt.histogram %k : {_T} -> {_T}{_lanes_at('%i')}", 4, 0)
_numbers("a gather that turns lanes around", f"""{_BLOCK}  %k = arith.constant dense<3> : {_T}
  %r = arith.subi %k, %l : {_T}
  %g = tt.gather %l[%r] {{axis = 0 : i32}} : ({_T}, {_T}) -> {_T}
  %i = arith.addi %g, %l : {_T}{_lanes_at('%i')}""", 4, 0, prop="races", kind="lane-race")
_numbers("a table of constants", f"{_BLOCK}  %i = arith.constant dense<[0, 9, 2, 3]> : {_T}{_lanes_at('%i')}", 9, 0)
_numbers("a table with equal constants", f"{_BLOCK}  %i = arith.constant dense<[0, 2, 2, 3]> : {_T}{_lanes_at('%i')}", 9, 0,
         prop="races", kind="lane-race")  # fmt: skip
_HALF = "  %h = tt.make_range {end = 2 : i32, start = 0 : i32} : tensor<2xi32>\n"
_numbers("the order of a join", f"""{_BLOCK}{_HALF}  %ten = arith.constant dense<10> : tensor<2xi32>
  %b = arith.addi %h, %ten : tensor<2xi32>
  %j = tt.join %h, %b : tensor<2xi32> -> tensor<2x2xi32>
  %r = tt.reshape %j : tensor<2x2xi32> -> {_T}
  %two = arith.constant dense<2> : {_T}
  %q = arith.cmpi slt, %l, %two : {_T}{_lanes_at('%r', '%q')}""", 2, 0)
_numbers("the order of a split", f"""{_BLOCK}{_HALF}  %w = tt.reshape %l : {_T} -> tensor<2x2xi32>
  %a, %b = tt.split %w : tensor<2x2xi32> -> tensor<2xi32>
  %xs = tt.splat %x : !tt.ptr<i32> -> tensor<2x!tt.ptr<i32>>
  %at = tt.addptr %xs, %a : tensor<2x!tt.ptr<i32>>, tensor<2xi32>
  tt.store %at, %h : tensor<2x!tt.ptr<i32>>""", 2, 0)
_numbers("a mask that is not transposed", f"""{_BLOCK}  %w = tt.reshape %l : {_T} -> tensor<2x2xi32>
  %v = tt.trans %w {{order = array<i32: 1, 0>}} : tensor<2x2xi32> -> tensor<2x2xi32>
  %i = tt.reshape %v : tensor<2x2xi32> -> {_T}
  %two = arith.constant dense<2> : {_T}
  %q = arith.cmpi slt, %l, %two : {_T}{_lanes_at('%i', '%q')}""", 2, 0)
_numbers("a row broadcast along the wrong axis", f"""{_BLOCK}{_HALF}  %e = tt.expand_dims %h {{axis = 1 : i32}} : tensor<2xi32> -> tensor<2x1xi32>
  %b = tt.broadcast %e : tensor<2x1xi32> -> tensor<2x2xi32>
  %i = tt.reshape %b : tensor<2x2xi32> -> {_T}{_lanes_at('%i')}""", 2, 0, prop="races", kind="lane-race")
_numbers("lanes of one parity", f"{_BLOCK}  %one = arith.constant dense<1> : {_T}\n  %i = arith.andi %l, %one : {_T}{_lanes_at('%i')}", 2, 0,
         prop="races", kind="lane-race")  # fmt: skip
_numbers("a float as an index", f"  %f = arith.sitofp %n : i32 to f32\n  %i = arith.fptosi %f : f32 to i32{_at('%i')}",
         "n", 2**24 + 1, size=0, assume=("n >= 1",))  # fmt: skip

# Loops
_FOR = "  %r:2 = scf.for %i = %c0 to %n step %c1 iter_args(%a = {a}, %b = {b}) -> (i32, i32) : i32 {{{body}\n    scf.yield {y} : i32, i32\n  }}"


def _loop(name: str, a: str, b: str, body: str, y: str, extent: Any, n: int, size: int, after: str = "", assume: tuple[str, ...] = ()) -> None:
    _numbers(name, _FOR.format(a=a, b=b, body=body, y=y) + after, extent, n, 0, size, assume)


_loop("carried values that are exchanged", "%c0", "%c40", _at("%a"), "%b, %a", 8, 2, 8)
_loop("a carried value that doubles", "%c1", "%c0", _at("%a") + "\n  %d = arith.addi %a, %a : i32", "%d, %b", "n + 1", 4, 5, "",
      ("n >= 1",))  # fmt: skip
_loop("the counter of the iteration before", "%c40", "%c0", _at("%a"), "%i, %b", "n", 2, 2, "", ("n >= 0",))
_loop("the counter of two iterations before", "%c0", "%c40", _at("%b"), "%i, %a", 8, 1, 8, "", ("n <= 8",))
_loop("the result of a loop", "%c0", "%c0", "\n  %d = arith.addi %a, %c1 : i32", "%d, %b", "n", 2, 2, _at("%r#0"), ("n >= 1",))
_loop("the result of a loop without iterations", "%c0", "%c0", "\n  %d = arith.addi %a, %c1 : i32", "%d, %b", 1, -3, 1,
      "\n  %e = arith.subi %r#0, %n : i32" + _at("%e"))  # fmt: skip
_loop("a carried sum of counters", "%c0", "%c0", _at("%a") + "\n  %d = arith.addi %a, %i : i32", "%d, %b", "n + 1", 5, 6, "", ("n >= 0",))
_loop("a carried value that one iteration resets", "%c0", "%c0", "\n  %q = arith.cmpi eq, %i, %c3 : i32\n  %e = arith.addi %a, %c1 : i32\n"
      "  %d = arith.select %q, %c40, %e : i32" + _at("%a"), "%d, %b", "n", 6, 6, "", ("n >= 0",))  # fmt: skip
_numbers("a pointer that two loops carry", """  %r = scf.for %i = %c0 to %n step %c1 iter_args(%p = %x) -> (!tt.ptr<i32>) : i32 {
    %q = scf.for %j = %c0 to %m step %c1 iter_args(%s = %p) -> (!tt.ptr<i32>) : i32 {
      tt.store %s, %j : !tt.ptr<i32>
      %t = tt.addptr %s, %c1 : !tt.ptr<i32>, i32
      scf.yield %t : !tt.ptr<i32>
    }
    scf.yield %q : !tt.ptr<i32>
  }""", "n + m", 3, 3, 6, ("n >= 0", "m >= 0"))
_numbers("a pointer that a loop leaves behind its array", """  %r = scf.for %i = %c0 to %n step %c1 iter_args(%p = %x) -> (!tt.ptr<i32>) : i32 {
    %t = tt.addptr %p, %c1 : !tt.ptr<i32>, i32
    scf.yield %t : !tt.ptr<i32>
  }
  tt.store %r, %n : !tt.ptr<i32>""", "n", 2, 0, 2, ("n >= 1",))
_numbers("a reversed loop by one too many", f"""  scf.for %i = %c0 to %n step %c1 : i32 {{
    %k = arith.subi %n, %i : i32{_at('%k')}
  }}""", "n", 3, 0, 3, ("n >= 0",))
_numbers("a counter of wide steps", f"""  scf.for %i = %c0 to %n step %c4 : i32 {{
    %k = arith.addi %i, %c3 : i32{_at('%k')}
  }}""", "n", 5, 0, 5, ("n >= 0",))
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
_numbers("a loop that steps over its end", _WHILE.format(i="%c0", passed="%i, %t", body=_at("%j"), step="%c2"), "m", 0, 3, 3, ("m >= 1",))
_numbers("a loop whose condition exchanges its values", _WHILE.format(i="%c8", passed="%t, %i", body=_at("%u"), step="%c1"), 8, 0, 20, 8,
         ("m >= 1",))  # fmt: skip
_numbers("the value that ends a loop", _WHILE.format(i="%c0", passed="%i, %t", body="", step="%c1") + _at("%w#0"), "m", 0, 3, 3, ("m >= 1",))
ATTACKS["a loop that data ends"] = Faulty("%x: !tt.ptr<i32>, %y: !tt.ptr<i32>", f"""{NUMBERS}
  %w = scf.while (%i = %c0) : (i32) -> (i32) {{
    %v = tt.load %y : !tt.ptr<i32>
    %g = arith.cmpi slt, %i, %v : i32
    scf.condition(%g) %i : i32
  }} do {{
  ^bb0(%j: i32):{_at('%j')}
    %j1 = arith.addi %j, %c1 : i32
    scf.yield %j1 : i32
  }}""", {"x": 8, "y": 1}, 1, "bounds", (1, [zeros(8), np.full(1, 9, "i4")], "out-of-bounds"))

# Blocks of operations
_numbers("a circle of blocks that ends behind the array", f"""  cf.br ^head(%c0 : i32)
^head(%i: i32):
  %j = arith.addi %i, %c1 : i32
  %go = arith.cmpi slt, %j, %n : i32
  cf.cond_br %go, ^head(%j : i32), ^end
^end:{_at('%j')}""", "n", 3, 0, 3, ("n >= 1",))
_numbers("a branch that exchanges its values", f"""  %q = arith.cmpi slt, %n, %c8 : i32
  cf.cond_br %q, ^a(%n, %c40 : i32, i32), ^a(%c0, %n : i32, i32)
^a(%u: i32, %v: i32):{_at('%v')}""", 8, 0, 0, 8, ("n >= 0",))
_numbers("a branch that is never taken by exact numbers", f"""  %s = arith.addi %n, %c1 : i32
  %q = arith.cmpi sgt, %s, %c7 : i32
  cf.cond_br %q, ^a(%c0 : i32), ^a(%n : i32)
^a(%u: i32):
  %k = arith.cmpi sge, %u, %c1 : i32{_at('%u', '%k')}""", 8, _BIG)
_numbers("a switch", f"""  cf.switch %n : i32, [
    default: ^a(%n : i32),
    1: ^a(%c0 : i32),
    2: ^a(%c1 : i32)
  ]
^a(%u: i32):{_at('%u')}""", 8, 9, assume=("1 <= n",))
_numbers("what follows a return in one branch", f"""  %q = arith.cmpi sgt, %n, %m : i32
  cf.cond_br %q, ^out, ^go
^out:
  tt.return
^go:{_at('%n')}""", 8, 9, 10, assume=("n >= 0", "m <= 10"))
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


ATTACKS["a function that returns a negative absolute value"] = Called(_XNM, f"""{NUMBERS}
  %i = tt.call @abs(%n) : (i32) -> i32
  %q = arith.cmpi slt, %i, %c8 : i32{_at('%i', '%q')}""", {"x": 8}, 1, "bounds", (1, [zeros(8), _MIN, 0], "out-of-bounds"))
ATTACKS["two calls of one function"] = Called(_XNM, f"""{NUMBERS}
  %i = tt.call @abs(%n) : (i32) -> i32
  %j = tt.call @abs(%m) : (i32) -> i32
  %d = arith.subi %i, %j : i32{_at('%d')}""", {"x": 1}, 1, "bounds", (1, [zeros(1), 3, 2], "out-of-bounds"), ("0 <= n <= 9", "0 <= m <= 9"))

# Programs
_programs("half of a program's number", "  %i = arith.divsi %p, %c2 : i32", 2)
_programs("a square around 1", "  %d = arith.subi %p, %c1 : i32\n  %i = arith.muli %d, %d : i32", 3)
_programs("a program's number without its low bit", "  %k = arith.constant -2 : i32\n  %i = arith.andi %p, %k : i32", 2)
_programs("eight bits of a program's number", "  %b = arith.trunci %p : i32 to i8\n  %i = arith.extui %b : i8 to i32", 257, "overflow")
_programs("a product of eight bits", "  %b = arith.trunci %p : i32 to i8\n  %k = arith.constant 64 : i8\n  %d = arith.muli %b, %k : i8\n"
          "  %i = arith.extui %d : i8 to i32", 5, "overflow")  # fmt: skip
_programs("the smaller of two numbers", "  %i = arith.minsi %p, %c3 : i32", 5)
_programs("programs by a remainder that is not the grid", "  %i = arith.remsi %p, %c7 : i32", 8)
_programs("programs in two orders", "  %g = tt.get_num_programs x : i32\n  %r = arith.subi %g, %p : i32\n  %i = arith.minsi %p, %r : i32", 4)
_numbers("the number of programs", "  %p = tt.get_program_id x : i32\n  %g = tt.get_num_programs x : i32\n"
         f"  %i = arith.subi %g, %p : i32{_at('%i')}", "grid_x", 0, 0, 2, (), "bounds", "grid_x", 2)  # fmt: skip
_numbers("an address that wraps in 64 bits", "  %p = tt.get_program_id x : i32\n  %e = arith.extsi %p : i32 to i64\n"
         f"  %k = arith.constant 4611686018427387904 : i64\n  %i = arith.muli %e, %k : i64{_at('%i', '', '%p', 'i64')}", 1, 0, 0, 1, (),
         "races", 2, 2, "overflow")  # fmt: skip
_numbers("an element and the next one", f"""  %p = tt.get_program_id x : i32
  %k = arith.addi %p, %c1 : i32
  %b = tt.addptr %x, %k : !tt.ptr<i32>, i32
  %v = tt.load %b : !tt.ptr<i32>{_at('%p', '', '%v')}""", "grid_x + 1", 0, 0, 5, (), "races", "grid_x", 4)
_ATOMIC = "  %r = tt.atomic_rmw add, {order}, gpu, %x, %c1, %yes : (!tt.ptr<i32>, i32, i1) -> i32"
_numbers("an atomic beside a plain load", _ATOMIC.format(order="relaxed") + "\n  %v = tt.load %x : !tt.ptr<i32>", 1, 0, 0, 1, (), "races", "grid_x", 3)
_numbers("an atomic beside a plain store", _ATOMIC.format(order="relaxed") + _at("%c0"), 1, 0, 0, 1, (), "races", "grid_x", 3)
_numbers("a ticket of a counter that nobody reset", _ATOMIC.format(order="acq_rel") + _at("%r"), "grid_x + 1", 0, 0, 1, (), "bounds", "grid_x", 1)
ATTACKS["a ticket of a counter that nobody reset"] = ATTACKS["a ticket of a counter that nobody reset"]._replace(
    launch=(1, [np.full(2, 100, "i4"), 0, 0], "out-of-bounds"))
_numbers("a described tensor that is too long", """  %s = arith.constant 1 : i64
  %d = tt.make_tensor_descriptor %x, [%m], [%s] : <i32>, <tensor<4xi32>>
  %v = tt.descriptor_load %d[%c0] : !tt.tensordesc<tensor<4xi32>> -> tensor<4xi32>""", "n", 2, 3, 2, ("n >= 0", "m >= 0", "m <= n + 1"))
_numbers("tiles of a described tensor that overlap", """  %p = tt.get_program_id x : i32
  %o = arith.muli %p, %c2 : i32
  %s = arith.constant 1 : i64
  %l = tt.make_range {end = 4 : i32, start = 0 : i32} : tensor<4xi32>
  %d = tt.make_tensor_descriptor %x, [%n], [%s] : <i32>, <tensor<4xi32>>
  tt.descriptor_store %d[%o], %l : !tt.tensordesc<tensor<4xi32>>, tensor<4xi32>""", "n", 8, 0, 8, ("n >= 0",), "races", "cdiv(n, 2)", 4)
_numbers("a described tensor with a stride of 0", """  %p = tt.get_program_id x : i32
  %o = arith.muli %p, %c4 : i32
  %s = arith.constant 0 : i64
  %one = arith.constant 1 : i64
  %l = arith.constant dense<1> : tensor<1x4xi32>
  %d = tt.make_tensor_descriptor %x, [%n, %c4], [%s, %one] : <i32>, <tensor<1x4xi32>>
  tt.descriptor_store %d[%p, %c0], %l : !tt.tensordesc<tensor<1x4xi32>>, tensor<1x4xi32>""", "4 * n", 3, 0, 12, ("n >= 1",), "races", "n", 3)
_numbers("an index of two axes that meet", f"""  %p = tt.get_program_id x : i32
  %q = tt.get_program_id y : i32
  %d = arith.muli %p, %c2 : i32
  %i = arith.addi %d, %q : i32{_at('%i', '', '%p')}""", 4096, 0, 0, 4096, (), "races", ("grid_x", "grid_y"), 1)
ATTACKS["an index of two axes that meet"] = ATTACKS["an index of two axes that meet"]._replace(
    launch=((2, 3), [zeros(4096), 0, 0], "race"))  # type: ignore[arg-type]
for _name, _text, _kind in (
    ("believed", "  llvm.intr.assume %q : i1", "out-of-bounds"), ("asserted", '  tt.assert %q, "small" : i1', "error"),
):  # fmt: skip
    _numbers(
        f"a condition that is {_name}", f"  %q = arith.cmpi slt, %n, %c8 : i32\n{_text}{_at('%n')}", 8, 9, assume=("n >= 0",), kind=_kind
    )

"""Attacks by numbers that wrap, by conditions, loads and blocks, each with a launch that breaks what would be said."""

from __future__ import annotations

import numpy as np

from .attacking import (
    ATTACKS,
    BLOCK,
    LEAST,
    MOST,
    attack,
    never,
    store,
    store_lanes,
)
from .faulty import LANES, NUMBERS, Faulty, zeros

# Numbers that wrap
attack("a product that wraps below a mask", f"  %i = arith.muli %n, %m : i32\n  %q = arith.cmpi slt, %i, %c8 : i32{store('%i', '%q')}",  # noqa: E501
         8, 65535, 65535, assume=("n >= 0", "m >= 0"))  # fmt: skip
never("a product of two that are not 0", "  %i = arith.muli %n, %m : i32\n  %q = arith.cmpi eq, %i, %c0 : i32", 65536, 65536,
       ("n >= 1", "m >= 1"))  # fmt: skip
never("a square below 0", "  %i = arith.muli %n, %n : i32\n  %q = arith.cmpi slt, %i, %c0 : i32", 46341)
never(
    "a successor that is not larger",
    "  %i = arith.addi %n, %c1 : i32\n  %q = arith.cmpi sle, %i, %n : i32",
    MOST,
)
never(
    "a successor that claims not to wrap",
    "  %i = arith.addi %n, %c1 overflow<nsw> : i32\n  %q = arith.cmpi sle, %i, %n : i32",
    MOST,
)
never(
    "a shift that loses bits",
    "  %i = arith.shli %n, %c4 : i32\n  %q = arith.cmpi eq, %i, %c0 : i32",
    2**28,
    0,
    ("n >= 1",),
)
never(
    "a shift by as many bits as there are",
    "  %i = arith.shli %c1, %m : i32\n  %q = arith.cmpi eq, %i, %c0 : i32",
    0,
    33,
)
never("an absolute value below 0", "  %i = math.absi %n : i32\n  %q = arith.cmpi slt, %i, %c0 : i32", LEAST)
never(
    "a quotient of two negative numbers below 0",
    "  %i = arith.divsi %n, %m : i32\n  %q = arith.cmpi slt, %i, %c0 : i32",
    LEAST,
    -1,
    ("n < 0", "m < 0"),
)
never(
    "a high half that is not 0",
    "  %lo, %hi = arith.mulsi_extended %n, %m : i32\n  %q = arith.cmpi ne, %hi, %c0 : i32",
    2**20,
    2**20,
    ("n >= 0", "m >= 0"),
)
never("a carry", "  %lo, %q = arith.addui_extended %n, %m : i32, i1", -1, 1)
never(
    "a negation that stays negative",
    "  %i = arith.subi %c0, %n : i32\n  %q = arith.cmpi slt, %i, %c0 : i32",
    LEAST,
    0,
    ("n < 0",),
)
never(
    "a difference whose sign is wrong",
    "  %i = arith.subi %n, %m : i32\n  %q = arith.cmpi slt, %i, %c0 : i32",
    MOST,
    -1,
    ("n >= m",),
)
attack("a sum of eight bits", "  %b = arith.trunci %n : i32 to i8\n  %k = arith.constant 100 : i8\n  %s = arith.addi %b, %k : i8\n"  # noqa: E501
         f"  %i = arith.extsi %s : i8 to i32{store('%i')}", 201, 100, assume=("0 <= n <= 100",))  # fmt: skip
attack("a product of eight bits read as unsigned", "  %b = arith.trunci %n : i32 to i8\n  %s = arith.muli %b, %b : i8\n"
         f"  %i = arith.extui %s : i8 to i32{store('%i')}", 226, 253, assume=("0 <= n <= 255",), kind="overflow")  # fmt: skip
attack("a number cut to eight bits", "  %b = arith.trunci %n : i32 to i8\n"
         f"  %i = arith.extui %b : i8 to i32{store('%i')}", 128, -1, assume=("0 - 1 <= n < 128",))  # fmt: skip
attack("a number cut and extended by its sign", "  %b = arith.trunci %n : i32 to i8\n"
         f"  %i = arith.extsi %b : i8 to i32{store('%i')}", 256, 200, assume=("0 <= n < 256",))  # fmt: skip
never("products of 64 bits", "  %i = arith.muli %n, %m : i64\n  %q = arith.cmpi eq, %i, %z : i64", 2**32, 2**32,
       ("n >= 1", "m >= 1"), "%x: !tt.ptr<i32>, %n: i64, %m: i64")  # fmt: skip
never("a hash", "  %k = arith.constant 40503 : i32\n  %i = arith.muli %n, %k : i32\n  %r = arith.shrui %i, %c8 : i32\n"
       "  %a = arith.cmpi sgt, %r, %big : i32\n  %w = arith.cmpi slt, %i, %c0 : i32\n  %q = arith.ori %a, %w : i1", 60000, 0, ("n >= 0",))  # fmt: skip  # noqa: E501

# Numbers read as unsigned
attack(
    "an unsigned comparison with a negative number",
    f"  %a = arith.cmpi ult, %c40, %n : i32\n  %b = arith.cmpi slt, %n, %c8 : i32\n  %q = arith.andi %a, %b : i1{store('%c40', '%q')}",  # noqa: E501
    8,
    -1,
)
attack(
    "a logical shift of a negative number",
    f"  %k = arith.constant 28 : i32\n  %i = arith.shrui %n, %k : i32{store('%i')}",
    8,
    -1,
)
attack(
    "an unsigned maximum", f"  %i = arith.maxui %n, %c7 : i32{store('%i')}", 4096, -1, assume=("n <= 100",)
)
attack("an unsigned remainder by a negative number", f"  %i = arith.remui %n, %m : i32{store('%i')}", 8, 100, -1,
         assume=("n >= 0", "m <= 8", "m != 0"))  # fmt: skip
attack("an unsigned quotient", f"  %i = arith.divui %n, %c2 : i32{store('%i')}", 8, -1, assume=("n < 16",))

# Quotients and remainders
attack("a remainder of a negative number", f"  %i = arith.remsi %n, %c4 : i32{store('%i')}", 4, -1)
attack(
    "a remainder by 0",
    f"  %i = arith.remsi %n, %m : i32{store('%i')}",
    8,
    100,
    0,
    assume=("n >= 0", "0 <= m <= 8"),
)
attack("a quotient by 0", f"  %d = arith.divsi %n, %m : i32\n  %q = arith.cmpi eq, %d, %c0 : i32{store('%n', '%q')}", 8, 100, 0,
         assume=("n >= 0", "0 <= m <= 8"))  # fmt: skip
attack(
    "a quotient rounded down",
    f"  %i = arith.floordivsi %n, %c4 : i32{store('%i')}",
    8,
    -1,
    assume=("0 - 3 <= n < 32",),
)
attack(
    "a quotient rounded up",
    f"  %i = arith.ceildivsi %n, %c4 : i32{store('%i')}",
    8,
    29,
    assume=("0 <= n <= 32",),
    size=8,
)
ATTACKS["a quotient rounded up"] = ATTACKS["a quotient rounded up"]._replace(
    launch=(1, [zeros(8), 32, 0], "out-of-bounds")
)
attack(
    "a shift of a negative number to the right",
    f"  %i = arith.shrsi %n, %c1 : i32{store('%i')}",
    8,
    -1,
    assume=("0 - 1 <= n < 16",),
)

# Conditions
attack(
    "true extended by its sign",
    f"  %a = arith.cmpi sgt, %n, %c0 : i32\n  %i = arith.extsi %a : i1 to i32{store('%i')}",
    2,
    1,
)
attack(
    "true extended",
    f"  %a = arith.cmpi sgt, %n, %c0 : i32\n  %i = arith.extui %a : i1 to i32{store('%i')}",
    1,
    1,
)
never(
    "the low bit of 2",
    "  %a = arith.trunci %n : i32 to i1\n  %q = arith.xori %a, %yes : i1",
    2,
    0,
    ("1 <= n <= 2",),
)
never("a sum of conditions", "  %a = arith.cmpi sgt, %n, %c0 : i32\n  %b = arith.cmpi sge, %n, %c0 : i32\n"
       "  %s = arith.addi %a, %b : i1\n  %t = arith.xori %s, %yes : i1\n  %q = arith.andi %t, %a : i1", 1)  # fmt: skip
never(
    "a signed comparison of conditions",
    "  %a = arith.cmpi sgt, %n, %c0 : i32\n  %f = arith.constant false\n  %q = arith.cmpi slt, %a, %f : i1",
    1,
)
never(
    "an unsigned comparison of conditions",
    "  %a = arith.cmpi sgt, %n, %c0 : i32\n  %f = arith.constant false\n  %q = arith.cmpi ugt, %a, %f : i1",
    1,
)
attack("a chain of choices", "  %a = arith.cmpi sgt, %n, %c7 : i32\n  %i0 = arith.select %a, %c7, %n : i32\n"
         f"  %b = arith.cmpi slt, %i0, %c0 : i32\n  %i = arith.select %b, %i0, %i0 : i32{store('%i')}", 8, -1)  # fmt: skip
attack("a choice by a product that wraps", "  %s = arith.muli %n, %n : i32\n  %a = arith.cmpi slt, %s, %c0 : i32\n"
         f"  %i = arith.select %a, %c40, %c0 : i32{store('%i')}", 8, 46341)  # fmt: skip

# Loads
ATTACKS["a mask that is loaded"] = Faulty("%x: !tt.ptr<i32>, %y: !tt.ptr<i32>", f"""{NUMBERS}
  %v = tt.load %y : !tt.ptr<i32>
  %q = arith.cmpi sgt, %v, %c0 : i32{store('%c40', '%q')}""", {"x": 8, "y": 1}, 1, "bounds",
    (1, [zeros(8), np.ones(1, "i4")], "out-of-bounds"))  # fmt: skip
ATTACKS["an index that is loaded and cut above"] = Faulty(
    "%x: !tt.ptr<i32>, %y: !tt.ptr<i32>",
    f"""{NUMBERS}
  %v = tt.load %y : !tt.ptr<i32>
  %i = arith.minsi %v, %c7 : i32{store("%i")}""",
    {"x": 8, "y": 1},
    1,
    "bounds",
    (1, [zeros(8), -np.ones(1, "i4")], "out-of-bounds"),
)
ATTACKS["what stands for a masked lane"] = Faulty("%x: !tt.ptr<i32>, %y: !tt.ptr<i32>, %n: i32", f"""{NUMBERS}
  %q = arith.cmpi sgt, %n, %c0 : i32
  %i = tt.load %y, %q, %c40 : !tt.ptr<i32>{store('%i')}""", {"x": 8, "y": 1}, 1, "bounds",
    (1, [zeros(8), zeros(1), 0], "out-of-bounds"), ("0 <= y[:] < 8",))  # fmt: skip
ATTACKS["an element that is written between two loads"] = Faulty(
    "%x: !tt.ptr<i32>, %y: !tt.ptr<i32>",
    f"""{NUMBERS}
  %v = tt.load %y : !tt.ptr<i32>
  tt.store %y, %c40 : !tt.ptr<i32>
  %w = tt.load %y : !tt.ptr<i32>
  %i = arith.subi %w, %v : i32{store("%i")}""",
    {"x": 1, "y": 1},
    1,
    "bounds",
    (1, [zeros(1), zeros(1)], "out-of-bounds"),
)
ATTACKS["the sum of two elements in their range"] = Faulty("%x: !tt.ptr<i32>, %y: !tt.ptr<i32>", f"""{NUMBERS}
  %v = tt.load %y : !tt.ptr<i32>
  %y1 = tt.addptr %y, %c1 : !tt.ptr<i32>, i32
  %w = tt.load %y1 : !tt.ptr<i32>
  %i = arith.addi %w, %v : i32{store('%i')}""", {"x": 8, "y": 2}, 1, "bounds",
    (1, [zeros(8), np.full(2, 7, "i4")], "out-of-bounds"), ("0 <= y[:] < 8",))  # fmt: skip

# Blocks: reductions, scans, orders
_BLOCK = LANES + "\n"
attack(
    "a reduction as an index",
    f"""{_BLOCK}  %i = "tt.reduce"(%l) <{{axis = 0 : i32}}> ({{
  ^bb0(%a: i32, %b: i32):
    %s = arith.addi %a, %b : i32
    tt.reduce.return %s : i32
  }}) : ({BLOCK}) -> i32{store("%i")}""",
    6,
    0,
)
attack(
    "a scan as an index",
    f"""{_BLOCK}  %i = "tt.scan"(%l) <{{axis = 0 : i32, reverse = false}}> ({{
  ^bb0(%a: i32, %b: i32):
    %s = arith.addi %a, %b : i32
    tt.scan.return %s : i32
  }}) : ({BLOCK}) -> {BLOCK}{store_lanes("%i")}""",
    6,
    0,
)
attack(
    "a histogram as an index",
    f"{_BLOCK}  %k = arith.constant dense<0> : {BLOCK}\n  %i = tt.histogram %k : {BLOCK} -> {BLOCK}{store_lanes('%i')}",
    4,
    0,
)
attack(
    "a gather that turns lanes around",
    f"""{_BLOCK}  %k = arith.constant dense<3> : {BLOCK}
  %r = arith.subi %k, %l : {BLOCK}
  %g = tt.gather %l[%r] {{axis = 0 : i32}} : ({BLOCK}, {BLOCK}) -> {BLOCK}
  %i = arith.addi %g, %l : {BLOCK}{store_lanes("%i")}""",
    4,
    0,
    prop="races",
    kind="lane-race",
)
attack(
    "a table of constants",
    f"{_BLOCK}  %i = arith.constant dense<[0, 9, 2, 3]> : {BLOCK}{store_lanes('%i')}",
    9,
    0,
)
attack("a table with equal constants", f"{_BLOCK}  %i = arith.constant dense<[0, 2, 2, 3]> : {BLOCK}{store_lanes('%i')}", 9, 0,
         prop="races", kind="lane-race")  # fmt: skip
_HALF = "  %h = tt.make_range {end = 2 : i32, start = 0 : i32} : tensor<2xi32>\n"
attack(
    "the order of a join",
    f"""{_BLOCK}{_HALF}  %ten = arith.constant dense<10> : tensor<2xi32>
  %b = arith.addi %h, %ten : tensor<2xi32>
  %j = tt.join %h, %b : tensor<2xi32> -> tensor<2x2xi32>
  %r = tt.reshape %j : tensor<2x2xi32> -> {BLOCK}
  %two = arith.constant dense<2> : {BLOCK}
  %q = arith.cmpi slt, %l, %two : {BLOCK}{store_lanes("%r", "%q")}""",
    2,
    0,
)
attack(
    "the order of a split",
    f"""{_BLOCK}{_HALF}  %w = tt.reshape %l : {BLOCK} -> tensor<2x2xi32>
  %a, %b = tt.split %w : tensor<2x2xi32> -> tensor<2xi32>
  %xs = tt.splat %x : !tt.ptr<i32> -> tensor<2x!tt.ptr<i32>>
  %at = tt.addptr %xs, %a : tensor<2x!tt.ptr<i32>>, tensor<2xi32>
  tt.store %at, %h : tensor<2x!tt.ptr<i32>>""",
    2,
    0,
)
attack(
    "a mask that is not transposed",
    f"""{_BLOCK}  %w = tt.reshape %l : {BLOCK} -> tensor<2x2xi32>
  %v = tt.trans %w {{order = array<i32: 1, 0>}} : tensor<2x2xi32> -> tensor<2x2xi32>
  %i = tt.reshape %v : tensor<2x2xi32> -> {BLOCK}
  %two = arith.constant dense<2> : {BLOCK}
  %q = arith.cmpi slt, %l, %two : {BLOCK}{store_lanes("%i", "%q")}""",
    2,
    0,
)
attack(
    "a row broadcast along the wrong axis",
    f"""{_BLOCK}{_HALF}  %e = tt.expand_dims %h {{axis = 1 : i32}} : tensor<2xi32> -> tensor<2x1xi32>
  %b = tt.broadcast %e : tensor<2x1xi32> -> tensor<2x2xi32>
  %i = tt.reshape %b : tensor<2x2xi32> -> {BLOCK}{store_lanes("%i")}""",
    2,
    0,
    prop="races",
    kind="lane-race",
)
attack("lanes of one parity", f"{_BLOCK}  %one = arith.constant dense<1> : {BLOCK}\n  %i = arith.andi %l, %one : {BLOCK}{store_lanes('%i')}", 2, 0,  # noqa: E501
         prop="races", kind="lane-race")  # fmt: skip
attack("a float as an index", f"  %f = arith.sitofp %n : i32 to f32\n  %i = arith.fptosi %f : f32 to i32{store('%i')}",
         "n", 2**24 + 1, size=0, assume=("n >= 1",))  # fmt: skip

__all__ = ["ATTACKS"]

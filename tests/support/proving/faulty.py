"""Kernels of which a property looks true at first sight, each with a launch that breaks it."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np


class Faulty(NamedTuple):
    """A kernel and its specification, what must not be proven, and a launch: its grid, its arguments, and what is found."""

    parameters: str
    body: str
    extents: dict[str, Any]
    grid: Any
    prop: str
    launch: tuple[int, list[Any], str] | None = None
    assume: tuple[str, ...] = ()

    @property
    def text(self) -> str:
        """The kernel."""
        return f"tt.func public @k({self.parameters}) {{\n{self.body}\n  tt.return\n}}\n"


_X = "%x: !tt.ptr<i32>"
NUMBERS = "\n".join([f"  %c{n} = arith.constant {n} : i32" for n in (0, 1, 2, 3, 4, 7, 8, 40)]) + """
  %big = arith.constant 2147483647 : i32
  %half = arith.constant 1073741824 : i32
  %z = arith.constant 0 : i64
  %yes = arith.constant true"""
_LOST = """
    %is = arith.cmpi eq, %i, %c1 : i32
    %y = arith.select %is, %big, %c0 : i32
    %y1 = arith.addi %y, %c1 : i32
    %a = arith.extsi %y1 : i32 to i64
    %b = arith.extsi %y : i32 to i64
    %d = arith.subi %a, %b : i64"""
"""Adds 1, but for the second iteration, in which a sum wraps."""
LANES = "\n  %l = tt.make_range {end = 4 : i32, start = 0 : i32} : tensor<4xi32>"


def zeros(count: int, dtype: str = "i4") -> Any:
    return np.zeros(count, dtype)


FAULTY: dict[str, Faulty] = {
    "wrap of an earlier iteration under a later mask": Faulty(_X, f"""{NUMBERS}
  %r = scf.for %i = %c0 to %c4 step %c1 iter_args(%c = %z) -> (i64) : i32 {{{_LOST}
    %late = arith.cmpi sge, %i, %c2 : i32
    %at = tt.addptr %x, %c : !tt.ptr<i32>, i64
    tt.store %at, %i, %late : !tt.ptr<i32>
    %n = arith.addi %c, %d : i64
    scf.yield %n : i64
  }}""", {"x": 4}, 1, "bounds", (1, [zeros(4)], "out-of-bounds")),
    "wrap of an earlier iteration, of an inner loop": Faulty(_X, f"""{NUMBERS}
  %r = scf.for %i = %c0 to %c4 step %c1 iter_args(%c = %z) -> (i64) : i32 {{
    %late = arith.cmpi sge, %i, %c2 : i32
    %at = tt.addptr %x, %c : !tt.ptr<i32>, i64
    tt.store %at, %i, %late : !tt.ptr<i32>
    %q = scf.for %j = %c0 to %c1 step %c1 iter_args(%e = %c) -> (i64) : i32 {{{_LOST}
      %f = arith.addi %e, %d : i64
      scf.yield %f : i64
    }}
    scf.yield %q : i64
  }}""", {"x": 4}, 1, "bounds", (1, [zeros(4)], "out-of-bounds")),
    "wrap in the iterations before a result": Faulty(_X, f"""{NUMBERS}
  %r = scf.for %i = %c0 to %c4 step %c1 iter_args(%c = %z) -> (i64) : i32 {{{_LOST}
    %n = arith.addi %c, %d : i64
    scf.yield %n : i64
  }}
  %at = tt.addptr %x, %r : !tt.ptr<i32>, i64
  tt.store %at, %c1 : !tt.ptr<i32>""", {"x": 5}, 1, "bounds", (1, [zeros(5)], "out-of-bounds")),
    "condition of a while loop that wraps": Faulty(_X, f"""{NUMBERS}
  %r:2 = scf.while (%i = %c0, %j = %c0) : (i32, i32) -> (i32, i32) {{
    %at = tt.addptr %x, %j : !tt.ptr<i32>, i32
    tt.store %at, %j : !tt.ptr<i32>
    %go0 = arith.cmpi slt, %i, %big : i32
    %go1 = arith.cmpi slt, %j, %c40 : i32
    %go = arith.andi %go0, %go1 : i1
    scf.condition(%go) %i, %j : i32, i32
  }} do {{
  ^bb0(%i: i32, %j: i32):
    %ni = arith.addi %i, %half : i32
    %nj = arith.addi %j, %c1 : i32
    scf.yield %ni, %nj : i32, i32
  }}""", {"x": 4}, 1, "bounds", (1, [zeros(4)], "out-of-bounds")),
    "equal terms of lanes that wrap": Faulty("%x: !tt.ptr<i64>, %n: i32", f"""{LANES}
  %ns = tt.splat %n : i32 -> tensor<4xi32>
  %s = arith.addi %ns, %l : tensor<4xi32>
  %a = arith.extsi %s : tensor<4xi32> to tensor<4xi64>
  %b = arith.extsi %l : tensor<4xi32> to tensor<4xi64>
  %v = arith.subi %a, %b : tensor<4xi64>
  %xs = tt.splat %x : !tt.ptr<i64> -> tensor<4x!tt.ptr<i64>>
  tt.store %xs, %v : tensor<4x!tt.ptr<i64>>""", {"x": 1}, 1, "races", (1, [zeros(1, "i8"), 2**31 - 2], "lane-race")),
    "lanes that overlap in part": Faulty("%x: !tt.ptr<i8>", f"""{LANES}
  %v = arith.constant dense<16909060> : tensor<4xi32>
  %xs = tt.splat %x : !tt.ptr<i8> -> tensor<4x!tt.ptr<i8>>
  %a = tt.addptr %xs, %l : tensor<4x!tt.ptr<i8>>, tensor<4xi32>
  %w = tt.bitcast %a : tensor<4x!tt.ptr<i8>> -> tensor<4x!tt.ptr<i32>>
  tt.store %w, %v : tensor<4x!tt.ptr<i32>>""", {"x": 7}, 1, "races", (1, [zeros(7, "i1")], "misaligned")),
    "contents of another width": Faulty("%idx: !tt.ptr<i32>, %x: !tt.ptr<i32>, %n: i32", """
  %w = tt.bitcast %idx : !tt.ptr<i32> -> !tt.ptr<i64>
  %i = tt.load %w : !tt.ptr<i64>
  %at = tt.addptr %x, %i : !tt.ptr<i32>, i64
  tt.store %at, %n : !tt.ptr<i32>""", {"x": "n", "idx": 2}, 1, "bounds",
        (1, [np.ones(2, "i4"), zeros(5), 5], "out-of-bounds"), ("0 <= idx[:] < n",)),
    "contents between elements": Faulty("%idx: !tt.ptr<i32>, %x: !tt.ptr<i32>, %n: i32", f"""{NUMBERS}
  %b = tt.bitcast %idx : !tt.ptr<i32> -> !tt.ptr<i16>
  %b1 = tt.addptr %b, %c1 : !tt.ptr<i16>, i32
  %w = tt.bitcast %b1 : !tt.ptr<i16> -> !tt.ptr<i32>
  %i = tt.load %w : !tt.ptr<i32>
  %at = tt.addptr %x, %i : !tt.ptr<i32>, i32
  tt.store %at, %n : !tt.ptr<i32>""", {"x": "n", "idx": 2}, 1, "bounds", (1, [np.ones(2, "i4"), zeros(9), 9], "misaligned"),
        ("0 <= idx[:] < n",)),
    "contents that no number of fewer bits has": Faulty("%idx: !tt.ptr<i32>, %x: !tt.ptr<i32>, %n: i32", """
  %w = tt.bitcast %idx : !tt.ptr<i32> -> !tt.ptr<i8>
  %i = tt.load %w : !tt.ptr<i8>
  %at = tt.addptr %x, %i : !tt.ptr<i32>, i8
  tt.store %at, %n : !tt.ptr<i32>""", {"x": 1, "idx": 1}, 1, "bounds",
        (1, [np.full(1, 299, "i4"), zeros(1), 5], "out-of-bounds"), ("200 <= idx[:] < 300",)),
    "unsigned contents": Faulty("%idx: !tt.ptr<i8>, %x: !tt.ptr<i32>, %n: i32", """
  %b = tt.load %idx : !tt.ptr<i8>
  %i = arith.extui %b : i8 to i32
  %at = tt.addptr %x, %i : !tt.ptr<i32>, i32
  tt.store %at, %n : !tt.ptr<i32>""", {"x": 128, "idx": 1}, 1, "bounds",
        (1, [np.full(1, 199, "u1"), zeros(128), 5], "out-of-bounds"), ("0 <= idx[:] < 200",)),
    "atomics of one thread block": Faulty(_X, f"""{NUMBERS}
  %r = tt.atomic_rmw add, acq_rel, cta, %x, %c1, %yes : (!tt.ptr<i32>, i32, i1) -> i32""", {"x": 1}, 4, "races",
        (4, [zeros(1)], "race")),
    "atomics of two sizes": Faulty(_X, f"""{NUMBERS}
  %one = arith.constant 1 : i64
  %p = tt.get_program_id x : i32
  %is = arith.cmpi eq, %p, %c0 : i32
  %y = tt.bitcast %x : !tt.ptr<i32> -> !tt.ptr<i64>
  scf.if %is {{
    %r = tt.atomic_rmw add, acq_rel, gpu, %x, %c1, %yes : (!tt.ptr<i32>, i32, i1) -> i32
  }} else {{
    %s = tt.atomic_rmw add, acq_rel, gpu, %y, %one, %yes : (!tt.ptr<i64>, i64, i1) -> i64
  }}""", {"x": 2}, 2, "races"),
    "races behind the extent": Faulty(f"{_X}, %n: i32", """
  %p = tt.get_program_id x : i32
  %at = tt.addptr %x, %n : !tt.ptr<i32>, i32
  tt.store %at, %p : !tt.ptr<i32>""", {"x": "n"}, 4, "races", (4, [zeros(6), 5], "race")),
    "a store that may reach another array": Faulty(f"{_X}, %y: !tt.ptr<i32>, %n: i32", """
  %p = tt.get_program_id x : i32
  %at = tt.addptr %x, %n : !tt.ptr<i32>, i32
  %to = tt.addptr %at, %p : !tt.ptr<i32>, i32
  tt.store %to, %p : !tt.ptr<i32>
  %v = tt.load %y : !tt.ptr<i32>""", {"x": "n", "y": 1}, 4, "races"),
    "overflow of what is carried freely": Faulty(f"{_X}, %n: i32", f"""{NUMBERS}
  %r = scf.for %i = %c0 to %c40 step %c1 iter_args(%c = %n) -> (i32) : i32 {{
    %m = arith.muli %c, %c3 : i32
    scf.yield %m : i32
  }}
  %o = arith.andi %r, %c7 : i32
  %at = tt.addptr %x, %o : !tt.ptr<i32>, i32
  tt.store %at, %n : !tt.ptr<i32>""", {"x": 8}, 1, "overflow"),
    "overflow in a reduction": Faulty(f"{_X}, %n: i32", f"""{NUMBERS}
  %ns = tt.splat %n : i32 -> tensor<4xi32>
  %r = "tt.reduce"(%ns) <{{axis = 0 : i32}}> ({{
  ^bb0(%a: i32, %b: i32):
    %s = arith.addi %a, %b : i32
    tt.reduce.return %s : i32
  }}) : (tensor<4xi32>) -> i32
  %o = arith.andi %r, %c7 : i32
  %at = tt.addptr %x, %o : !tt.ptr<i32>, i32
  tt.store %at, %n : !tt.ptr<i32>""", {"x": 8}, 1, "overflow"),
    "overflow between blocks in a circle": Faulty(f"{_X}, %n: i32", f"""{NUMBERS}
  cf.br ^head(%c0, %c0 : i32, i32)
^head(%i: i32, %t: i32):
  %go = arith.cmpi slt, %t, %c8 : i32
  cf.cond_br %go, ^body, ^end
^body:
  %o = arith.andi %i, %c7 : i32
  %at = tt.addptr %x, %o : !tt.ptr<i32>, i32
  tt.store %at, %i : !tt.ptr<i32>
  %j = arith.addi %i, %half : i32
  %u = arith.addi %t, %c1 : i32
  cf.br ^head(%j, %u : i32, i32)
^end:""", {"x": 8}, 1, "overflow"),
    "overflow of the least number's absolute value": Faulty(f"{_X}, %n: i32", f"""{NUMBERS}
  %a = math.absi %n : i32
  %o = arith.andi %a, %c7 : i32
  %at = tt.addptr %x, %o : !tt.ptr<i32>, i32
  tt.store %at, %n : !tt.ptr<i32>""", {"x": 8}, 1, "overflow"),
    "overflow of the least number's quotient": Faulty(f"{_X}, %n: i32, %m: i32", f"""{NUMBERS}
  %a = arith.divsi %n, %m : i32
  %o = arith.andi %a, %c7 : i32
  %at = tt.addptr %x, %o : !tt.ptr<i32>, i32
  tt.store %at, %n : !tt.ptr<i32>""", {"x": 8}, 1, "overflow"),
    "overflow in lanes that are masked": Faulty(f"{_X}, %n: i32", f"""{NUMBERS}
  %keep = arith.cmpi eq, %n, %c0 : i32
  %a = arith.addi %n, %big : i32
  %o = arith.andi %a, %c7 : i32
  %at = tt.addptr %x, %o : !tt.ptr<i32>, i32
  tt.store %at, %n, %keep : !tt.ptr<i32>""", {"x": 8}, 1, "overflow", None, ("n >= 0",)),
    "parameters called as those of a descriptor": Faulty(
        "%a: !tt.ptr<i32>, %a.shape.0: i64, %a.stride.0: i64, %a.padding: i1", f"""{NUMBERS}
  %one = arith.constant 1 : i64
  %s = arith.subi %a.shape.0, %one : i64
  %o = arith.muli %s, %a.stride.0 : i64
  %m = arith.cmpi sgt, %a.shape.0, %z : i64
  %at = tt.addptr %a, %o : !tt.ptr<i32>, i64
  tt.store %at, %c1, %m : !tt.ptr<i32>""", {}, 1, "bounds", (1, [zeros(2), 9, 1, True], "out-of-bounds")),
    "assembly that may do anything": Faulty(f"{_X}, %n: i32", """
  %i = tt.ptr_to_int %x : !tt.ptr<i32> -> i64
  %r = tt.elementwise_inline_asm "st.global.b32 [$1], 1; mov.b32 $0, 0;" {constraints = "=r,l", packed_element = 1 : i32, pure = false} %i : i64 -> i32""",  # noqa: E501
        {"x": 0}, 4, "bounds"),
    "a choice between arrays by a sum that wraps": Faulty(f"{_X}, %y: !tt.ptr<i32>, %n: i32", f"""{NUMBERS}
  %m = arith.addi %n, %c1 : i32
  %is = arith.cmpi sgt, %m, %n : i32
  %at = arith.select %is, %x, %y : !tt.ptr<i32>
  tt.store %at, %n : !tt.ptr<i32>""", {"x": 1, "y": 0}, 1, "bounds",
        (1, [zeros(1), zeros(0), 2**31 - 1], "out-of-bounds")),
}  # fmt: skip

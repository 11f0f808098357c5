"""Small kernels, each with one thing that is made of a block with undefined lanes, and what is right of its store."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import NamedTuple

import joinery as jn
import numpy as np

_I, _B, _P = "tensor<8xi32>", "tensor<8xi1>", "tensor<8x!tt.ptr<i32>>"
_SUM = "^bb0(%e: i32, %f: i32):\n %s = arith.addi %e, %f : i32\n tt.reduce.return %s : i32\n}})"
_SCAN = _SUM.replace("reduce", "scan")


class UndefinedCase(NamedTuple):
    """body: makes %r of %u, which lanes from n on leave undefined, and %v, which is defined. mask: of the store of %r.

    right: what is to be found, "proven" or not, in which case launches find what is wrong; "open" where the rules see less.
    """

    body: str
    mask: str
    right: str


def _scalar(condition: str = "%some") -> str:
    return f"%c = tt.load %x, {condition} : !tt.ptr<i32>\n"


def _summed(kind: str, block: str, to: str, axis: int = 0, name: str = "%sum") -> str:
    more, end = (", reverse = false", _SCAN) if kind == "scan" else ("", _SUM)
    return f'{name} = "tt.{kind}"({block}) <{{axis = {axis} : i32{more}}}> ({{\n{end.replace("}}", "}")} : ({to}) -> '


def _wide(source: str, axis: int, name: str) -> str:
    shape = "8x1" if axis else "1x8"
    return (
        f"{name}e = tt.expand_dims {source} {{axis = {axis} : i32}} : {_I} -> tensor<{shape}xi32>\n"
        f"{name} = tt.broadcast {name}e : tensor<{shape}xi32> -> tensor<8x8xi32>\n"
    )


def _dot(left: str, its: int, right: str, other: int) -> str:
    """The first row of a product of blocks whose rows, or columns, are all the same."""
    return (
        f"{_wide(left, its, '%p')}{_wide(right, other, '%q')}"
        "%pf = arith.sitofp %p : tensor<8x8xi32> to tensor<8x8xf32>\n"
        "%qf = arith.sitofp %q : tensor<8x8xi32> to tensor<8x8xf32>\n"
        "%zf = arith.constant dense<0.0> : tensor<8x8xf32>\n"
        "%d = tt.dot %pf, %qf, %zf : tensor<8x8xf32> * tensor<8x8xf32> -> tensor<8x8xf32>\n"
        "%di = arith.fptosi %d : tensor<8x8xf32> to tensor<8x8xi32>\n"
        "%k = tt.reshape %di : tensor<8x8xi32> -> tensor<64xi32>\n"
        f"%ku = tt.gather %k[%lanes] {{axis = 0 : i32}} : (tensor<64xi32>, {_I}) -> {_I}\n"
        f"%r = arith.addi %ku, %zeros : {_I}"
    )


def _loop(carried: str, body: str, start: str = "%zeros", end: str = "%m") -> str:
    return (
        f"%r = scf.for %i = %none to {end} step %one iter_args({carried} = {start}) -> ({_I}) : i32 {{\n{body} : {_I}\n}}"
    )


_SAME = f"%r = arith.addi %u, %v : {_I}"
_WAIT = f"""%w:2 = scf.while (%i = %none, %g = START) : (i32, {_I}) -> (i32, {_I}) {{
  %more = arith.cmpi slt, %i, %two : i32
  scf.condition(%more) %i, PASSED : i32, {_I}
}} do {{
^bb0(%j: i32, %h: {_I}):
  %up = arith.addi %j, %one : i32
  scf.yield %up, NEXT : i32, {_I}
}}
%r = arith.addi %w#1, %zeros : {_I}"""


def _wait(start: str, passed: str, following: str) -> str:
    return _WAIT.replace("START", start).replace("PASSED", passed).replace("NEXT", following)


_MERGED = f"""cf.cond_br COND, ^one, ^two
^one:
  cf.br ^join(ONE : {_I})
^two:
  cf.br ^join(TWO : {_I})
^join(%j: {_I}):
  %r = arith.addi %j, %zeros : {_I}"""


def _merged(condition: str, one: str, two: str) -> str:
    return _MERGED.replace("COND", condition).replace("ONE", one).replace("TWO", two)


_IF = f"%r = scf.if COND -> ({_I}) {{\n scf.yield ONE : {_I}\n}} else {{\n scf.yield TWO : {_I}\n}}"
_BIT = _scalar() + "%bit = arith.cmpi slt, %c, %one : i32\n"
_OVER = f"%r = tt.splat %c : i32 -> {_I}"

CASES: dict[str, UndefinedCase] = {
    "stored by the same mask": UndefinedCase(_SAME, "%a", "proven"),
    "stored by a stronger mask": UndefinedCase(f"{_SAME}\n%ab = arith.andi %a, %b : {_B}", "%ab", "proven"),
    "stored by a weaker mask": UndefinedCase(f"{_SAME}\n%ab = arith.ori %a, %b : {_B}", "%ab", "wrong"),
    "stored by another mask": UndefinedCase(_SAME, "%b", "wrong"),
    "stored without a mask": UndefinedCase(_SAME, "", "wrong"),
    "stored where it is undefined": UndefinedCase(f"{_SAME}\n%no = arith.xori %a, %yes : {_B}", "%no", "wrong"),
    "loaded by a mask with another value": UndefinedCase(f"%r = tt.load %at, %a, %v : {_P}", "", "proven"),
    "with another value that is undefined": UndefinedCase(f"%r = tt.load %at, %b, %u : {_P}", "", "wrong"),
    "the same by its mask": UndefinedCase(f"%r = tt.load %at, %b, %u : {_P}\n%ab = arith.ori %a, %b : {_B}", "%ab", "proven"),
    "chosen by the mask": UndefinedCase(f"%r = arith.select %a, %u, %zeros : {_B}, {_I}", "", "proven"),
    "chosen by another mask": UndefinedCase(f"%r = arith.select %b, %u, %zeros : {_B}, {_I}", "", "wrong"),
    "chosen the wrong way": UndefinedCase(f"%r = arith.select %a, %zeros, %u : {_B}, {_I}", "", "wrong"),
    "chosen by what is undefined": UndefinedCase(
        f"%k = arith.cmpi slt, %u, %zeros : {_I}\n%r = arith.select %k, %v, %zeros : {_B}, {_I}", "%b", "wrong"
    ),
    "and with zero": UndefinedCase(f"%r = arith.andi %u, %zeros : {_I}", "", "proven"),
    "times a factor that is zero there": UndefinedCase(
        f"%k = arith.select %a, %v, %zeros : {_B}, {_I}\n%r = arith.muli %u, %k : {_I}", "", "proven"
    ),
    "or with ones": UndefinedCase(f"%k = arith.constant dense<-1> : {_I}\n%r = arith.ori %k, %u : {_I}", "", "proven"),
    "plus zero": UndefinedCase(f"%r = arith.addi %u, %zeros : {_I}", "%b", "wrong"),
    "and with an undefined zero": UndefinedCase(f"%k = arith.subi %u, %u : {_I}\n%r = arith.andi %u, %k : {_I}", "", "wrong"),
    "two undefined zeros": UndefinedCase(f"%k = arith.subi %u, %u : {_I}\n%r = arith.andi %k, %k : {_I}", "", "wrong"),
    "or of a mask": UndefinedCase(
        f"%k = arith.cmpi slt, %u, %v : {_I}\n%l = arith.andi %k, %a : {_B}\n%r = arith.extui %l : {_B} to {_I}", "", "proven"
    ),
    "a mask that is undefined": UndefinedCase(
        f"%k = arith.cmpi slt, %u, %v : {_I}\n%r = arith.addi %v, %zeros : {_I}", "%k", "wrong"
    ),
    "a mask that is decided": UndefinedCase(
        f"%k = arith.cmpi slt, %u, %v : {_I}\n%l = arith.andi %k, %a : {_B}\n%r = arith.addi %v, %zeros : {_I}", "%l", "proven"
    ),
    "summed": UndefinedCase(f"{_summed('reduce', '%u', _I)}i32\n%r = tt.splat %sum : i32 -> {_I}", "%a", "wrong"),
    "summed by its mask": UndefinedCase(
        f"%k = arith.select %a, %u, %zeros : {_B}, {_I}\n{_summed('reduce', '%k', _I)}i32\n%r = tt.splat %sum : i32 -> {_I}",
        "", "proven",
    ),
    "summed with what is captured": UndefinedCase(
        _scalar() + _summed("reduce", "%v", _I).replace("%s : i32", "%s2 : i32").replace(
            "%s = arith.addi %e, %f : i32", "%s = arith.addi %e, %f : i32\n%s2 = arith.addi %s, %c : i32"
        ) + f"i32\n%r = tt.splat %sum : i32 -> {_I}", "", "wrong",
    ),
    "scanned": UndefinedCase(f"{_summed('scan', '%u', _I)}{_I}\n%r = arith.addi %sum, %zeros : {_I}", "%a", "open"),
    "scanned, the other half": UndefinedCase(
        f"%k = arith.select %a, %zeros, %u : {_B}, {_I}\n{_summed('scan', '%k', _I)}{_I}\n%r = arith.addi %sum, %zeros : {_I}",
        "%b", "wrong",
    ),
    "rows, summed along lanes": UndefinedCase(
        f"{_wide('%u', 0, '%p')}{_summed('reduce', '%p', 'tensor<8x8xi32>', 1)}{_I}\n%r = arith.addi %sum, %zeros : {_I}", "%a",
        "wrong",
    ),
    "columns, summed along rows": UndefinedCase(
        f"{_wide('%u', 0, '%p')}{_summed('reduce', '%p', 'tensor<8x8xi32>', 0)}{_I}\n%r = arith.addi %sum, %zeros : {_I}", "%a",
        "proven",
    ),
    "turned": UndefinedCase(
        f"%k = arith.constant dense<7> : {_I}\n%l = arith.xori %lanes, %k : {_I}\n"
        f"%r = tt.gather %u[%l] {{axis = 0 : i32}} : ({_I}, {_I}) -> {_I}", "%a", "wrong",
    ),
    "turned twice": UndefinedCase(
        f"%k = arith.constant dense<1> : {_I}\n%l = arith.xori %lanes, %k : {_I}\n"
        f"%t = tt.gather %u[%l] {{axis = 0 : i32}} : ({_I}, {_I}) -> {_I}\n"
        f"%r = tt.gather %t[%l] {{axis = 0 : i32}} : ({_I}, {_I}) -> {_I}", "%a", "proven",
    ),
    "places that are undefined": UndefinedCase(
        f"%k = arith.constant dense<7> : {_I}\n%l = arith.andi %u, %k : {_I}\n"
        f"%r = tt.gather %v[%l] {{axis = 0 : i32}} : ({_I}, {_I}) -> {_I}", "%b", "wrong",
    ),
    "joined and split, its half": UndefinedCase(
        f"%j = tt.join %v, %u : {_I} -> tensor<8x2xi32>\n%k, %r = tt.split %j : tensor<8x2xi32> -> {_I}", "%b", "wrong"
    ),
    "joined and split, the other half": UndefinedCase(
        f"%j = tt.join %v, %u : {_I} -> tensor<8x2xi32>\n%r, %k = tt.split %j : tensor<8x2xi32> -> {_I}", "", "proven"
    ),
    "mixed": UndefinedCase(
        f"%k = tt.cat %v, %u : {_I} -> tensor<16xi32>\n%j = tt.reshape %k : tensor<16xi32> -> tensor<8x2xi32>\n"
        f"%r, %l = tt.split %j : tensor<8x2xi32> -> {_I}", "%a", "open",
    ),
    "moved": UndefinedCase(
        f"%k = tt.reshape %u : {_I} -> tensor<2x4xi32>\n"
        "%l = tt.trans %k {order = array<i32: 1, 0>} : tensor<2x4xi32> -> tensor<4x2xi32>\n"
        f"%r = tt.reshape %l : tensor<4x2xi32> -> {_I}", "%a", "wrong",
    ),
    "counted": UndefinedCase(f"%r = tt.histogram %u : {_I} -> {_I}", "%a", "wrong"),
    "product, its row": UndefinedCase(_dot("%u", 1, "%v", 0), "%a", "proven"),
    "product, its column": UndefinedCase(_dot("%v", 1, "%u", 0), "%a", "proven"),
    "product, another column": UndefinedCase(_dot("%v", 1, "%u", 0), "%b", "wrong"),
    "product, along its rows": UndefinedCase(_dot("%u", 0, "%v", 0), "%a", "wrong"),
    "product, along its columns": UndefinedCase(_dot("%v", 0, "%u", 1), "%a", "wrong"),
    "carried and added to": UndefinedCase(_loop("%k", f"%l = arith.addi %k, %v : {_I}\nscf.yield %l"), "", "proven"),
    "added to what is carried": UndefinedCase(_loop("%k", f"%l = arith.addi %k, %u : {_I}\nscf.yield %l"), "%b", "wrong"),
    "added by its mask": UndefinedCase(_loop("%k", f"%l = arith.addi %k, %u : {_I}\nscf.yield %l"), "%a", "proven"),
    "begun with": UndefinedCase(_loop("%k", f"%l = arith.addi %k, %v : {_I}\nscf.yield %l", "%u"), "%a", "proven"),
    "begun with, by another mask": UndefinedCase(
        _loop("%k", f"%l = arith.addi %k, %v : {_I}\nscf.yield %l", "%u"), "%b", "wrong"
    ),
    "begun with, and turned": UndefinedCase(
        f"%x7 = arith.constant dense<7> : {_I}\n%x1 = arith.xori %lanes, %x7 : {_I}\n"
        + _loop("%k", f"%l = tt.gather %k[%x1] {{axis = 0 : i32}} : ({_I}, {_I}) -> {_I}\nscf.yield %l", "%u"), "%a", "wrong",
    ),
    "loaded by a mask of the iteration": UndefinedCase(
        _loop("%k", f"%is = tt.splat %i : i32 -> {_I}\n%mi = arith.cmpi sle, %lanes, %is : {_I}\n"
        f"%q = tt.load %at, %mi : {_P}\n%l = arith.addi %k, %q : {_I}\nscf.yield %l"), "%b", "wrong",
    ),
    "loaded by a mask of the iteration, and chosen": UndefinedCase(
        _loop("%k", f"%is = tt.splat %i : i32 -> {_I}\n%mi = arith.cmpi sle, %lanes, %is : {_I}\n"
        f"%q = tt.load %at, %mi : {_P}\n%l = arith.select %mi, %q, %k : {_B}, {_I}\nscf.yield %l"), "", "proven",
    ),
    "exchanged in a loop": UndefinedCase(
        f"%r:2 = scf.for %i = %none to %m step %one iter_args(%k = %zeros, %l = %u) -> ({_I}, {_I}) : i32 {{\n"
        f"scf.yield %l, %k : {_I}, {_I}\n}}".replace("%r:2", "%w:2") + f"\n%r = arith.addi %w#0, %zeros : {_I}", "%b", "wrong",
    ),
    "exchanged in a loop, by its mask": UndefinedCase(
        f"%w:2 = scf.for %i = %none to %m step %one iter_args(%k = %zeros, %l = %u) -> ({_I}, {_I}) : i32 {{\n"
        f"scf.yield %l, %k : {_I}, {_I}\n}}\n%r = arith.addi %w#0, %zeros : {_I}", "%a", "open",
    ),
    "a loop inside a loop": UndefinedCase(
        _loop("%k", f"%in = scf.for %j = %none to %two step %one iter_args(%g = %k) -> ({_I}) : i32 {{\n"
        f"%h = arith.addi %g, %u : {_I}\nscf.yield %h : {_I}\n}}\nscf.yield %in"), "%a", "proven",
    ),
    "a loop inside a loop, by another mask": UndefinedCase(
        _loop("%k", f"%in = scf.for %j = %none to %two step %one iter_args(%g = %k) -> ({_I}) : i32 {{\n"
        f"%h = arith.addi %g, %u : {_I}\nscf.yield %h : {_I}\n}}\nscf.yield %in"), "%b", "wrong",
    ),
    "a loop with a condition": UndefinedCase(_wait("%zeros", "%g", "%v"), "", "proven"),
    "a loop with a condition, passed on": UndefinedCase(_wait("%zeros", "%u", "%v"), "%b", "wrong"),
    "a loop with a condition, begun": UndefinedCase(_wait("%u", "%g", "%h"), "%a", "proven"),
    "a loop with a condition, carried": UndefinedCase(_wait("%zeros", "%g", "%u"), "%b", "wrong"),
    "as often as nobody knows": UndefinedCase(
        _scalar() + f"%e = arith.andi %c, %one : i32\n{_loop('%k', 'scf.yield %v', '%zeros', '%e')}", "", "wrong"
    ),
    "one of two ways": UndefinedCase(_IF.replace("COND", "%some").replace("ONE", "%u").replace("TWO", "%v"), "%b", "wrong"),
    "the other way": UndefinedCase(_IF.replace("COND", "%some").replace("ONE", "%v").replace("TWO", "%u"), "%b", "proven"),
    "one of two ways, by its mask": UndefinedCase(
        _IF.replace("COND", "%some").replace("ONE", "%v").replace("TWO", "%u"), "%a", "proven"
    ),
    "a way that nobody knows": UndefinedCase(
        _BIT + _IF.replace("COND", "%bit").replace("ONE", "%v").replace("TWO", "%zeros"), "", "wrong"
    ),
    "merged, and right": UndefinedCase(_merged("%some", "%v", "%u"), "%b", "proven"),
    "merged, the other one": UndefinedCase(_merged("%some", "%u", "%v"), "%b", "wrong"),
    "merged, by its mask": UndefinedCase(_merged("%some", "%v", "%u"), "%a", "proven"),
    "merged, where nobody knows": UndefinedCase(_BIT + _merged("%bit", "%v", "%zeros"), "", "wrong"),
    "poison": UndefinedCase(f"%r = ub.poison : {_I}", "%b", "wrong"),
    "poison that is not chosen": UndefinedCase(
        f"%k = ub.poison : {_I}\n%r = arith.select %yes, %v, %k : {_B}, {_I}", "", "proven"
    ),
    "merged with poison": UndefinedCase(f"%k = ub.poison : {_I}\n" + _merged("%some", "%k", "%v"), "%b", "wrong"),
    "an atomic by its mask": UndefinedCase(
        f"%r = tt.atomic_rmw add, relaxed, gpu, %at, %v, %a : ({_P}, {_I}, {_B}) -> {_I}", "%a", "proven"
    ),
    "an atomic by another mask": UndefinedCase(
        f"%r = tt.atomic_rmw add, relaxed, gpu, %at, %v, %a : ({_P}, {_I}, {_B}) -> {_I}", "%b", "wrong"
    ),
    "a scalar": UndefinedCase(_scalar() + _OVER, "%b", "wrong"),
    "a scalar where it is defined": UndefinedCase(
        _scalar() + f"%ss = tt.splat %some : i1 -> {_B}\n{_OVER}", "%ss", "proven"
    ),
    "a distance that is undefined": UndefinedCase(
        f"%k = arith.andi %u, %seven : {_I}\n%to = tt.addptr %xs, %k : {_P}, {_I}\n%r = tt.load %to, %b, %zeros : {_P}", "",
        "wrong",
    ),
    "a distance that is defined there": UndefinedCase(
        f"%k = arith.andi %u, %seven : {_I}\n%to = tt.addptr %xs, %k : {_P}, {_I}\n%r = tt.load %to, %a, %zeros : {_P}", "",
        "proven",
    ),
    "an operand of an atomic": UndefinedCase(
        f"%q = tt.atomic_rmw add, relaxed, gpu, %at, %u, %b : ({_P}, {_I}, {_B}) -> {_I}\n%r = arith.addi %v, %zeros : {_I}",
        "", "wrong",
    ),
    "a branch that changes nothing": UndefinedCase(
        _BIT + f"scf.if %bit {{\n%q = arith.addi %c, %one : i32\n}}\n%r = arith.addi %v, %zeros : {_I}", "", "wrong"
    ),
    "a loop that changes nothing": UndefinedCase(
        _scalar() + f"%e = arith.andi %c, %one : i32\nscf.for %i = %none to %e step %one : i32 {{\n"
        f"%q = arith.addi %i, %one : i32\n}}\n%r = arith.addi %v, %zeros : {_I}", "", "wrong",
    ),
    "what is stored and loaded again": UndefinedCase(
        f"tt.store %at, %u : {_P}\n%r = tt.load %at : {_P}", "", "wrong"
    ),
}  # fmt: skip


def text_of(case: UndefinedCase) -> str:
    """The text of a case; the line of its last store is the last but two."""
    mask = case.mask and f", {case.mask}"
    return f"""tt.func public @k(%x: !tt.ptr<i32>, %y: !tt.ptr<i32>, %o: !tt.ptr<i32>, %n: i32, %m: i32) {{
%none = arith.constant 0 : i32
%one = arith.constant 1 : i32
%two = arith.constant 2 : i32
%zeros = arith.constant dense<0> : {_I}
%seven = arith.constant dense<7> : {_I}
%yes = arith.constant dense<true> : {_B}
%lanes = tt.make_range {{end = 8 : i32, start = 0 : i32}} : {_I}
%ns = tt.splat %n : i32 -> {_I}
%ms = tt.splat %m : i32 -> {_I}
%a = arith.cmpi slt, %lanes, %ns : {_I}
%b = arith.cmpi slt, %lanes, %ms : {_I}
%some = arith.cmpi slt, %n, %m : i32
%xs = tt.splat %x : !tt.ptr<i32> -> {_P}
%at = tt.addptr %xs, %lanes : {_P}, {_I}
%u = tt.load %at, %a : {_P}
%v = tt.load %at : {_P}
{case.body}
%os = tt.splat %o : !tt.ptr<i32> -> {_P}
%to9 = tt.addptr %os, %lanes : {_P}, {_I}
tt.store %to9, %r{mask} : {_P}
tt.return
}}
"""


def findings_of(kernel: jn.kernel.Kernel) -> Iterator[str]:
    """Yields the lines of what is found undefined in launches with all sizes that make a difference."""
    for n, m in itertools.product((-1, 0, 1, 3, 8, 9), (0, 1, 5, 8)):
        arrays = [np.arange(8, dtype=np.int32) % 5 for _ in "xyo"]
        yield from (each.line for each in kernel.sanitize(1, *arrays, n, m).findings if each.kind == "uninitialised")


__all__ = ["CASES", "UndefinedCase", "findings_of", "text_of"]

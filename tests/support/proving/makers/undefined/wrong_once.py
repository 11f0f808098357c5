"""Kernels of which earlier rules proved that they store what is defined, though launches find that it is not."""

from __future__ import annotations

from ..undefined_cases import UndefinedCase, text_of

_I, _B, _P = "tensor<8xi32>", "tensor<8xi1>", "tensor<8x!tt.ptr<i32>>"
_TO = f"%os1 = tt.splat %o : !tt.ptr<i32> -> {_P}\n%to = tt.addptr %os1, %lanes : {_P}, {_I}\n"
_DEFINED = f"\n%r = arith.addi %v, %zeros : {_I}"
_BIT = f"%k = arith.cmpi slt, %u, %zeros : {_I}\n"
_NUMBER = "%c = tt.load %x, %some : !tt.ptr<i32>\n"
_CASE = f"{_NUMBER}%case = arith.index_cast %c : i32 to index\n"


def _of_bits(made: str) -> str:
    return f"{_BIT}{made}\n%r = arith.extui %p : {_B} to {_I}"


CARRIED = {
    "a start that was shown by what is assumed no more": f"""{_TO}%turn = arith.xori %lanes, %seven : {_I}
%w = scf.for %i = %none to %m step %one iter_args(%kept = %zeros) -> ({_I}) : i32 {{
  %first = arith.addi %kept, %u : {_I}
  %in:2 = scf.for %j = %none to %two step %one iter_args(%g = %zeros, %h = %first) -> ({_I}, {_I}) : i32 {{
    tt.store %to, %h, %a : {_P}
    %turned = tt.gather %h[%turn] {{axis = 0 : i32}} : ({_I}, {_I}) -> {_I}
    %sum = arith.addi %h, %turned : {_I}
    scf.yield %sum, %h : {_I}, {_I}
  }}
  scf.yield %in#0 : {_I}
}}{_DEFINED}""",
    "a loop's result that was shown while more was assumed": f"""{_TO}
%w:2 = scf.for %i = %none to %m step %one iter_args(%g = %u, %h = %zeros) -> ({_I}, {_I}) : i32 {{
  tt.store %to, %g, %a : {_P}
  %in = scf.for %j = %none to %two step %one iter_args(%k = %h) -> ({_I}) : i32 {{
    tt.store %to, %k, %a : {_P}
    %sum = arith.addi %k, %u : {_I}
    scf.yield %sum : {_I}
  }}
  tt.store %to, %h : {_P}
  scf.yield %g, %in : {_I}, {_I}
}}{_DEFINED}""",
}
"""Loops inside loops, which a proof has open at once."""

EXPANDED = {
    "a power of 0": f"%r = math.ipowi %u, %zeros : {_I}",
    "a power of false": _of_bits(f"%no = arith.constant dense<false> : {_B}\n%p = math.ipowi %k, %no : {_B}"),
    "a power of 0 in a condition": f"""{_NUMBER}%p = math.ipowi %c, %none : i32
%more = arith.cmpi slt, %p, %two : i32
scf.if %more {{
}}{_DEFINED}""",
    "the high half of a product of bits": _of_bits(f"%low, %p = arith.mului_extended %k, %yes : {_B}"),
    "the high half of a signed product of bits": _of_bits(f"%low, %p = arith.mulsi_extended %k, %yes : {_B}"),
    "a switch without cases": f"{_CASE}scf.index_switch %case\ndefault {{\n  scf.yield\n}}{_DEFINED}",
    "a switch without cases that has results": f"""{_CASE}%r = scf.index_switch %case -> {_I}
default {{
  scf.yield %v : {_I}
}}""",
    "a branch without cases": f"{_NUMBER}cf.switch %c : i32, [\n  default: ^next\n]\n^next:{_DEFINED}",
}
"""What operations ask for, or are made of, that what they are expanded to does not."""

_KERNEL = "tt.func public @k(%n: i32, %m: i32) {{\n{}\n  tt.return\n}}\n"
WITHOUT_ACCESSES = {
    "asserted": _KERNEL.format('  %c = ub.poison : i1\n  tt.assert %c, "holds" : i1'),
    "asserted of control": _KERNEL.format('  %c = ub.poison : i1\n  cf.assert %c, "holds"'),
    "assumed": _KERNEL.format("  %c = ub.poison : i1\n  llvm.intr.assume %c : i1"),
    "decided": _KERNEL.format("  %c = ub.poison : i1\n  scf.if %c {\n  }"),
    "counted": _KERNEL.format("  %c = ub.poison : i32\n  scf.for %i = %n to %c step %m : i32 {\n  }"),
    "switched": _KERNEL.format(
        "  %c = ub.poison : i32\n  %i = arith.index_cast %c : i32 to index\n"
        "  scf.index_switch %i\n  default {\n    scf.yield\n  }"
    ),
}
"""Functions that touch no memory, and of which something is undefined that decides or is asserted."""


def text_of_wrong(body: str) -> str:
    """The text of a kernel of `CARRIED` or `EXPANDED`."""
    return text_of(UndefinedCase(body, "", "wrong"))


__all__ = ["CARRIED", "EXPANDED", "WITHOUT_ACCESSES", "text_of_wrong"]

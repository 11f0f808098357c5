"""Sums of products of four codes with the four bytes of an int32, lane by lane: `vpdpbusd` on bytes that are put side by side.

    a₀ a₁ a₂ … ─┐                    a₀ b₀ c₀ d₀  a₁ b₁ c₁ d₁  …      one instruction picks bytes of two registers
    b₀ b₁ b₂ … ─┤ 64 bytes a half ──►  ×  ×  ×  ×   ×  ×  ×  ×
    c₀ c₁ c₂ … ─┤                    w₀ w₁ w₂ w₃  w₀ w₁ w₂ w₃  …      the constants, as they lie in memory
    d₀ d₁ d₂ … ─┘                      + sums so far

AVX2 has no instruction for bytes: two codes side by side are widened to int16, and `vpmaddwd` multiplies and adds pairs, with
the first and third byte of a factor, and the others.

Written out, a product is three instructions for each vector of int32: convert, multiply, add. Sums wrap in int32 either way.
The form of `lowering/tile/elements/arithmetic.py`, `sum_of_four`, is what is found here.
"""

from __future__ import annotations

from collections.abc import Sequence

from ....target import HostTarget
from ...elementwise import emit_map
from ...ir import Function
from ...values import V, const, integer, lanes, vector, zero
from ..nodes import Map, Node, Splat
from ..scalars import is_constant
from .lookups import LOOK_UP, looked_up

FOUR = "joinery.sum_of_four"
"""Operands: up to four blocks of codes, i8; the factors; the sum so far, which may be missing. flipped: codes are signed, and
128 is added to each. pairs: codes are multiplied two at a time, as int16."""
_FLIP = -128
_LANES = 8
"""Lanes of int32 in a register of AVX2."""


def sum_of_four(op: str, operands: Sequence[Node], target: HostTarget) -> Map | None:
    """Returns the sum of two blocks of i32 as a sum of products of four codes; None where it is none.

    It begins with two products, and goes on with further ones, or what it is added to.
    """
    if op != "arith.addi" or not target.sums_fours:
        return None
    one, other = operands
    if isinstance(other, Map) and other.op == FOUR and other.attrs["sums"] == 0:
        return Map(other.shape, "i32", FOUR, (*other.operands, one), {**other.attrs, "sums": 1})
    last = _product(other)
    if last is None:
        return None
    codes, factors, number, flipped = last
    if isinstance(one, Map) and one.op == FOUR and one.attrs["sums"] == 0:
        *before, known = one.operands
        if known is factors and len(before) == number and one.attrs["flipped"] == flipped:
            return Map(one.shape, "i32", FOUR, (*before, codes, factors), one.attrs)
    first = _product(one)
    if first is None or first[1] is not factors or (first[2], number) != (0, 1) or first[3] != flipped:
        return None
    facts = {"sums": 0, "flipped": flipped, "pairs": not target.interleaves_bytes}
    return Map(other.shape, "i32", FOUR, (first[0], codes, factors), facts)


def _product(node: Node) -> tuple[Node, Node, int, bool] | None:
    """Returns the codes and the factors of a product with the n-th byte of these, n, and whether codes are flipped."""
    if not isinstance(node, Map) or node.op != "arith.muli" or node.elem != "i32":
        return None
    wide, byte = node.operands
    if not isinstance(wide, Map) or wide.op != "arith.extui" or wide.operands[0].elem != "i8":
        return None
    high = _by_constant(byte, "arith.shrsi")
    if high is None or high[1] != 24:
        return None
    low = _by_constant(high[0], "arith.shli")
    factors, number = (high[0], 3) if low is None else (low[0], 3 - low[1] // 8)
    if low is not None and low[1] not in (8, 16, 24):
        return None
    codes = wide.operands[0]
    signed = _by_constant(codes, "arith.xori")
    return (codes, factors, number, False) if signed is None or signed[1] != _FLIP else (signed[0], factors, number, True)


def _by_constant(node: Node, op: str) -> tuple[Node, int] | None:
    if not isinstance(node, Map) or node.op != op or not isinstance(node.operands[1], Splat):
        return None
    value = node.operands[1].value
    return (node.operands[0], integer(value)) if is_constant(value) else None


def emitted(f: Function, node: Map, operands: Sequence[V]) -> V:
    """Emits a block operation on registers, which may be one of those that only hosts have."""
    if node.op == LOOK_UP:
        return looked_up(f, node, operands[0])
    if node.op != FOUR:
        return emit_map(f, node.op, node.elem, operands, [operand.elem for operand in node.operands], node.attrs)
    n = max(lanes(operand.type) for operand in operands)
    registers, sums, flipped = [f.splat(operand, n) for operand in operands], node.attrs["sums"], node.attrs["flipped"]
    *codes, factors = registers[: len(registers) - sums]
    total = registers[-1] if sums else zero(factors.type)
    if node.attrs["pairs"] and n % _LANES == 0:
        return _in_pairs(f, codes, factors, total, flipped)
    if node.attrs["pairs"] or n % 16:
        return _one_by_one(f, codes, factors, total, flipped)
    return _in_fours(f, codes, factors, total, flipped)


def _in_fours(f: Function, codes: Sequence[V], factors: V, total: V, flipped: bool) -> V:
    """Emits the sum of vectors of a multiple of 16 lanes, four bytes at a time."""
    n, count = lanes(factors.type), len(codes)
    pairs = []
    for first in range(0, count, 2):
        both = codes[first : first + 2]
        upper = range(n, 2 * n) if len(both) == 2 else [-1] * n
        pairs.append(f.shuffle(both[0], both[-1], [*range(n), *upper]))
    if flipped:
        pairs = [f.binary("xor", each, const(_FLIP, each.type)) for each in pairs]
    found = []
    for first in range(0, n, 16):
        picks = [min(code, count - 1) * n + first + lane for lane in range(16) for code in range(4)]  # factors beyond are 0
        quads = f.shuffle(pairs[0], pairs[-1], picks)
        part = range(first, first + 16)
        one, by = (each if n == 16 else f.shuffle(each, each, part) for each in (total, factors))
        found.append(_multiplied(f, one, quads, by))
    return f.concatenated(found)


def _multiplied(f: Function, total: V, quads: V, factors: V) -> V:
    """Returns sums plus products of unsigned bytes with signed ones, four in each lane."""
    bytes_type = vector("i8", 64)
    return f.target_intrinsic("llvm.x86.avx512.vpdpbusd.512", [total, quads, f.bitcast(factors, bytes_type)], total.type)


def _in_pairs(f: Function, codes: Sequence[V], factors: V, total: V, flipped: bool) -> V:
    """Emits the sum of vectors of a multiple of 8 lanes, two bytes at a time."""
    n = lanes(factors.type)
    shorts, eight = f.bitcast(factors, vector("i16", 2 * n)), const(8, vector("i16", 2 * n))
    halves = f.binary("ashr", f.binary("shl", shorts, eight), eight), f.binary("ashr", shorts, eight)
    if flipped:
        codes = [f.binary("xor", each, const(_FLIP, each.type)) for each in codes]
    order = [lane + n * half for lane in range(n) for half in (0, 1)]
    for number, by in enumerate(halves):
        if number + 2 < len(codes):
            pairs = f.cast("zext", f.shuffle(codes[number], codes[number + 2], order), vector("i16", 2 * n))
        else:
            pairs = f.bitcast(f.cast("zext", codes[number], factors.type), vector("i16", 2 * n))
        found = []
        for at in range(0, 2 * n, 2 * _LANES):
            part = range(at, at + 2 * _LANES)
            one, other = (each if n == _LANES else f.shuffle(each, each, part) for each in (pairs, by))
            found.append(f.target_intrinsic("llvm.x86.avx2.pmadd.wd", [one, other], vector("i32", _LANES)))
        total = f.add(total, f.concatenated(found))
    return total


def _one_by_one(f: Function, codes: Sequence[V], factors: V, total: V, flipped: bool) -> V:
    for number, code in enumerate(codes):
        unsigned = f.binary("xor", code, const(_FLIP, code.type)) if flipped else code
        high = f.binary("shl", factors, const(24 - 8 * number, factors.type))
        product = f.binary("mul", f.cast("zext", unsigned, factors.type), f.binary("ashr", high, const(24, factors.type)))
        total = f.add(total, product)
    return total

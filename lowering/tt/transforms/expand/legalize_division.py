"""Legalizes integer divisions and shifts, which then never trap.

LLVM's divisions trap (or worse) on a divisor of zero and on the lowest number by -1, its shifts give anything from the width
on. The block IR defines all of them: x / 0 is 0 and x mod 0 is x, the lowest number by -1 wraps, shifts past the width shift
everything out. `legalize_division` writes that definition out with selects, unless the divisor or amount is a harmless
constant, so that no back end has to know it. Rounding divisions are written out as well.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from xdsl.ir import Attribute, Operation, OpResult, SSAValue

from ... import types as t
from ...dialect.functions import FuncOp
from ..folding import constant_of
from ..function_pass import FunctionPass
from ..rewriting import Rewriter


class _Writer(Rewriter):
    """Writes operations of the anchor's type."""

    __slots__ = ("type",)

    def __init__(self, anchor: Operation) -> None:
        super().__init__(anchor)
        self.type: Attribute = anchor.results[0].type

    def constant(self, value: int) -> SSAValue:
        return self.const(value, t.elem(self.type), t.shape_of(self.type))


def legalize_division(func: Operation) -> None:
    """Rewrites every integer division and shift of a function that could trap or be undefined, in place."""
    for op in list(func.walk()):
        rule = _RULES.get(op.name)
        if rule is None:
            continue
        writer = _Writer(op)
        result = rule(writer, op)
        if result is not None:
            if isinstance(result, OpResult) and result not in op.operands:  # what the text says of the result
                result.op.attributes.update({name: said for name, said in op.attributes.items() if name.startswith("tt.")})
            writer.replace([result])


def _quotient(w: _Writer, x: SSAValue, y: SSAValue, name: str) -> SSAValue:
    """Emits x / y, truncated toward zero."""
    signed = name.endswith("si")
    if _is_harmless(y, signed):
        return w.binary(name, x, y)
    zero, one = w.constant(0), w.constant(1)
    unsafe = by_zero = w.cmpi("eq", y, zero)
    by_minus_one = None
    if signed:
        by_minus_one = w.cmpi("eq", y, w.constant(-1))
        unsafe = w.binary("arith.ori", by_zero, by_minus_one)
    quotient = w.binary(name, x, w.select(unsafe, one, y))
    if by_minus_one is not None:
        quotient = w.select(by_minus_one, w.binary("arith.subi", zero, x), quotient)
    return w.select(by_zero, zero, quotient)


def _divide(w: _Writer, op: Operation) -> SSAValue | None:
    x, y = op.operands
    if t.bit_width(x.type) == 1:
        return w.binary("arith.andi", x, y)
    if _is_harmless(y, op.name.endswith("si")):
        return None
    return _quotient(w, x, y, op.name)


def _known(value: SSAValue) -> int | None:
    """Returns the number that a scalar or every element of a block is known to be, or None."""
    while isinstance(value, OpResult) and value.op.name in ("tt.splat", "tt.broadcast", "tt.expand_dims"):
        value = value.op.operands[0]
    return constant_of(value)


def _is_harmless(divisor: SSAValue, signed: bool) -> bool:
    known = _known(divisor)
    return known is not None and known != 0 and not (signed and known == -1)


def _remainder(w: _Writer, op: Operation) -> SSAValue | None:
    """Emits x - (x / y) · y, which is x where y is 0."""
    x, y = op.operands
    if t.bit_width(x.type) == 1:
        return w.binary("arith.andi", x, w.binary("arith.xori", y, w.constant(1)))
    if _is_harmless(y, op.name == "arith.remsi"):
        return None
    zero, one = w.constant(0), w.constant(1)
    by_zero = w.cmpi("eq", y, zero)
    unsafe = by_zero
    if op.name == "arith.remsi":
        unsafe = w.binary("arith.ori", by_zero, w.cmpi("eq", y, w.constant(-1)))
    return w.select(by_zero, x, w.binary(op.name, x, w.select(unsafe, one, y)))


def _round_quotient(w: _Writer, op: Operation) -> SSAValue:
    """Emits ceildivsi, ceildivui or floordivsi: one step from the truncated quotient where that is not
    exact."""
    x, y = op.operands
    if t.bit_width(x.type) == 1:
        return w.binary("arith.andi", x, y)
    quotient = _quotient(w, x, y, "arith.divui" if op.name == "arith.ceildivui" else "arith.divsi")
    inexact = w.cmpi("ne", w.binary("arith.muli", quotient, y), x)
    zero, one = w.constant(0), w.constant(1)
    moves = w.binary("arith.andi", inexact, w.cmpi("ne", y, zero))
    if op.name == "arith.ceildivui":
        return w.binary("arith.addi", quotient, w.select(moves, one, zero))
    signs = w.binary("arith.xori", x, y)
    up = op.name == "arith.ceildivsi"
    moves = w.binary("arith.andi", moves, w.cmpi("sge" if up else "slt", signs, zero))
    return w.binary("arith.addi" if up else "arith.subi", quotient, w.select(moves, one, zero))


def _shift(w: _Writer, op: Operation) -> SSAValue | None:
    x, amount = op.operands
    width = t.bit_width(x.type)
    if width == 1:
        return x if op.name == "arith.shrsi" else w.binary("arith.andi", x, w.binary("arith.xori", amount, w.constant(1)))
    known = _known(amount)
    if known is not None:
        if 0 <= known < width:
            return None
        return w.binary(op.name, x, w.constant(width - 1)) if op.name == "arith.shrsi" else w.constant(0)
    last = w.constant(width - 1)
    outside = w.cmpi("ugt", amount, last)
    shifted = w.binary(op.name, x, w.select(outside, last, amount))
    return shifted if op.name == "arith.shrsi" else w.select(outside, w.constant(0), shifted)


_RULES: dict[str, Callable[[_Writer, Operation], SSAValue | None]] = {
    **dict.fromkeys(("arith.divsi", "arith.divui"), _divide),
    **dict.fromkeys(("arith.remsi", "arith.remui"), _remainder),
    **dict.fromkeys(("arith.ceildivsi", "arith.ceildivui", "arith.floordivsi"), _round_quotient),
    **dict.fromkeys(("arith.shli", "arith.shrsi", "arith.shrui"), _shift),
}


@dataclass(frozen=True)
class LegalizeDivision(FunctionPass):
    """Guards integer divisions and shifts that could trap."""

    name = "legalize-division"

    def run(self, function: FuncOp) -> None:
        legalize_division(function)

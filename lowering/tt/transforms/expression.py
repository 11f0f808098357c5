"""Writes formulas over values of the block IR: Python's operators append operations through a `BlockBuilder`.

    x = Expr(b, operand)
    y = where(x < 0.0, -x, x) * 0.5

Arithmetic takes its kind from the element type; integers are signless, so division, order and widening are methods that say
how they read the bits. Comparisons of floats are ordered (false on NaN), `ne` is not. Numbers become constants of the type of
the other side.
"""

from __future__ import annotations

from typing import TypeAlias

from xdsl.ir import Attribute, SSAValue

from ....promotion.errors import InternalError
from .. import types as t
from ..builder.block_builder import BlockBuilder

Operand: TypeAlias = "Expr | int | float"
"""The other operand beside an `Expr`: another one, or a number."""

_FLOATS = {16: t.F16, 32: t.F32, 64: t.F64}
_INTEGERS = {1: t.I1, 8: t.I8, 16: t.I16, 32: t.I32, 64: t.I64}


class Expr:
    """A value and the builder that computes with it."""

    __slots__ = ("b", "v")

    def __init__(self, b: BlockBuilder, v: SSAValue) -> None:
        self.b = b
        self.v = v

    # -- types

    @property
    def type(self) -> Attribute:
        return self.v.type

    @property
    def width(self) -> int:
        return t.bit_width(self.v.type)

    @property
    def is_float(self) -> bool:
        return t.is_float(self.v.type)

    def like(self, value: float | int | bool) -> Expr:
        """Emits a constant of this value's type."""
        return Expr(self.b, self.b.const(value, t.elem(self.v.type), t.shape_of(self.v.type)))

    def _other(self, other: Operand) -> SSAValue:
        return other.v if isinstance(other, Expr) else self.like(other).v

    def _binary(self, floats: str, integers: str, other: Operand, swapped: bool = False) -> Expr:
        name = floats if self.is_float else integers
        left, right = (self._other(other), self.v) if swapped else (self.v, self._other(other))
        return Expr(self.b, self.b.binary(name, left, right))

    def named(self, name: str, *others: Operand) -> Expr:
        """Emits an operation by name: `x.named("math.exp")`, `a.named("arith.maxsi", b)`."""
        if not others:
            return Expr(self.b, self.b.unary(name, self.v))
        values = [self._other(other) for other in others]
        if len(values) == 1:
            return Expr(self.b, self.b.binary(name, self.v, values[0]))
        return Expr(self.b, self.b.ternary(name, self.v, values[0], values[1]))

    # -- arithmetic

    def __add__(self, other: Operand) -> Expr:
        return self._binary("arith.addf", "arith.addi", other)

    def __radd__(self, other: Operand) -> Expr:
        return self._binary("arith.addf", "arith.addi", other, True)

    def __sub__(self, other: Operand) -> Expr:
        return self._binary("arith.subf", "arith.subi", other)

    def __rsub__(self, other: Operand) -> Expr:
        return self._binary("arith.subf", "arith.subi", other, True)

    def __mul__(self, other: Operand) -> Expr:
        return self._binary("arith.mulf", "arith.muli", other)

    def __rmul__(self, other: Operand) -> Expr:
        return self._binary("arith.mulf", "arith.muli", other, True)

    def __truediv__(self, other: Operand) -> Expr:
        return self._binary("arith.divf", "", other)

    def __rtruediv__(self, other: Operand) -> Expr:
        return self._binary("arith.divf", "", other, True)

    def __neg__(self) -> Expr:
        return self.named("arith.negf") if self.is_float else 0 - self

    def __abs__(self) -> Expr:
        return self.named("math.absf" if self.is_float else "math.absi")

    def fma(self, factor: Operand, addend: Operand) -> Expr:
        return self.named("math.fma", factor, addend)

    # -- bits

    def __and__(self, other: Operand) -> Expr:
        return self._binary("", "arith.andi", other)

    def __or__(self, other: Operand) -> Expr:
        return self._binary("", "arith.ori", other)

    def __xor__(self, other: Operand) -> Expr:
        return self._binary("", "arith.xori", other)

    def __invert__(self) -> Expr:
        return self ^ (True if self.width == 1 else -1)

    def shl(self, amount: Operand) -> Expr:
        """Shifts left by an amount that must be below the width."""
        return self._binary("", "arith.shli", amount)

    def lshr(self, amount: Operand) -> Expr:
        return self._binary("", "arith.shrui", amount)

    def ashr(self, amount: Operand) -> Expr:
        return self._binary("", "arith.shrsi", amount)

    def bits(self) -> Expr:
        """Returns a float's bits as an integer."""
        return self.reinterpret(_INTEGERS[self.width]) if self.is_float else self

    def as_float(self) -> Expr:
        """Returns the float (f16, f32, f64) that has these bits."""
        return self.reinterpret(_FLOATS[self.width])

    def reinterpret(self, type_: Attribute) -> Expr:
        return Expr(self.b, self.b.cast("arith.bitcast", self.v, type_))

    # -- comparisons

    def _compare(self, floats: str, integers: str, other: Operand) -> Expr:
        right = self._other(other)
        if self.is_float:
            return Expr(self.b, self.b.cmpf(floats, self.v, right))
        return Expr(self.b, self.b.cmpi(integers, self.v, right))

    def __lt__(self, other: Operand) -> Expr:
        return self._compare("olt", "slt", other)

    def __le__(self, other: Operand) -> Expr:
        return self._compare("ole", "sle", other)

    def __gt__(self, other: Operand) -> Expr:
        return self._compare("ogt", "sgt", other)

    def __ge__(self, other: Operand) -> Expr:
        return self._compare("oge", "sge", other)

    def eq(self, other: Operand) -> Expr:
        return self._compare("oeq", "eq", other)

    def ne(self, other: Operand) -> Expr:
        return self._compare("une", "ne", other)

    def test(self, predicate: str, other: Operand) -> Expr:
        """Compares by any predicate of arith.cmpi or arith.cmpf."""
        return self._compare(predicate, predicate, other)

    def is_nan(self) -> Expr:
        return self.test("uno", self)

    def is_negative(self) -> Expr:
        """Returns the sign bit of an integer or float."""
        return self.bits() < 0

    # -- conversions

    def cast(self, name: str, type_: Attribute) -> Expr:
        return Expr(self.b, self.b.cast(name, self.v, type_))

    def to_float(self, type_: Attribute) -> Expr:
        """Converts to another float type, rounding to nearest even."""
        if t.bit_width(type_) > self.width:
            return self.cast("arith.extf", type_)
        if t.bit_width(type_) == self.width and t.elem(self.type) != type_:
            return self.to_float(t.F32).to_float(type_)
        return self.cast("arith.truncf", type_)

    def resized(self, type_: Attribute, signed: bool) -> Expr:
        """Converts to another integer type: extends or truncates."""
        if t.bit_width(type_) > self.width:
            return self.cast("arith.extsi" if signed else "arith.extui", type_)
        return self.cast("arith.trunci", type_)


def where(condition: Expr, yes: Operand, no: Operand) -> Expr:
    """Chooses elementwise; one of the two must be an `Expr`."""
    if isinstance(yes, Expr):
        chosen, other = yes, no if isinstance(no, Expr) else yes.like(no)
    elif isinstance(no, Expr):
        chosen, other = no.like(yes), no
    else:
        raise InternalError(f"a choice of two numbers, {yes} and {no}, has no type")
    return Expr(condition.b, condition.b.select(condition.v, chosen.v, other.v))


def copysign(size: Expr, sign: Expr) -> Expr:
    return size.named("math.copysign", sign)


def extreme(a: Expr, b: Expr, larger: bool) -> Expr:
    """Computes max (min) of floats: a number beats NaN, +0 is above -0."""
    x, y = a.bits(), b.bits()
    zeros = ((x & y) if larger else (x | y)).reinterpret(t.elem(a.type))
    picked = where((a > b) if larger else (a < b), a, b)
    picked = where(a.eq(b), zeros, picked)
    picked = where(b.is_nan(), a, picked)
    return where(a.is_nan(), b, picked)


def shift(x: Expr, amount: Expr, kind: str) -> Expr:
    """Shifts (`shl`, `lshr` or `ashr`) by any unsigned amount of the same type: from the width on, the result
    is 0, or the sign for `ashr`."""
    width = x.width
    over = amount.test("uge", width)
    if kind == "ashr":
        return x.ashr(where(over, width - 1, amount))
    legal = where(over, 0, amount)
    return where(over, 0, x.shl(legal) if kind == "shl" else x.lshr(legal))


def reverse_bits(x: Expr) -> Expr:
    """Reverses the order of the bits of an i32 or i64."""
    step = 1
    while step < x.width:
        pattern = sum(((1 << step) - 1) << place for place in range(0, x.width, 2 * step))
        x = x.lshr(step) & pattern | (x & pattern).shl(step)
        step *= 2
    return x


def high_product(a: Expr, b: Expr, signed: bool) -> Expr:
    """Computes the upper half of the product."""
    high = a.named("tt.mulhiui", b)
    if not signed:
        return high
    zero = a.like(0)
    return high - where(a < 0, b, zero) - where(b < 0, a, zero)


def divide(a: Expr, b: Expr, signed: bool, remainder: bool) -> Expr:
    """Divides with truncation, and never traps. By zero: quotient -1, remainder `a`; by -1 the quotient
    wraps."""
    name = "arith.divsi" if signed else "arith.divui"
    by_zero = b.eq(0)
    unsafe = by_zero | b.eq(-1) if signed else by_zero
    safe = where(unsafe, 1, b)
    quotient = Expr(a.b, a.b.binary(name, a.v, safe.v))
    if remainder:
        left = a - quotient * safe
        return where(by_zero, a, where(unsafe, 0, left)) if signed else where(by_zero, a, left)
    if signed:
        quotient = where(b.eq(-1), 0 - a, quotient)
    return where(by_zero, -1, quotient)


def to_integer(x: Expr, type_: Attribute, signed: bool, nan: int) -> Expr:
    """Converts a float that is integral to an integer, saturating; NaN gives `nan`."""
    found = x.cast("arith.fptosi" if signed else "arith.fptoui", type_)
    return where(x.is_nan(), nan, found) if nan else found


def saturated(x: Expr) -> Expr:
    """Clamps to [0, 1]; NaN becomes +0, and so does -0."""
    return where(x > 0.0, where(x < 1.0, x, 1.0), 0.0)

"""Emits scalar index arithmetic: constants fold, equal expressions are emitted once, and known divisors are tracked.

Code generation runs no LLVM passes, so the arithmetic that surrounds every block (row pointers, bounds, tile counts) is
kept small here. Value numbering is scoped like dominance: what is computed inside a loop is forgotten after it.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TypeGuard

from ..ir import Function
from ..values import ConstantInt, V, const, i64, integer, is_integer

ZERO = i64(0)


def is_constant(v: V) -> TypeGuard[ConstantInt]:
    """Whether the value is a scalar integer constant."""
    return isinstance(v, ConstantInt)


def wrapped(value: int, type_: str) -> int:
    """Returns the value as a signed integer of the type's width."""
    half = 1 << (int(type_[1:]) - 1)
    return (value + half) % (2 * half) - half


class Scalars:
    """i64 arithmetic on a function under construction."""

    def __init__(self, function: Function) -> None:
        self.f = function
        self._scopes: list[dict[tuple[str, ...], V]] = [{}]
        self._multiple: dict[str, int] = {}
        self._steps: dict[str, int] = {}
        self._sums: dict[str, tuple[V, int]] = {}  # of values that are another one plus a constant
        self._remainders: dict[str, tuple[frozenset[int], int]] = {}  # those of a value, and by what it is divided
        self.narrow: set[str] = set()  # i64 values that fit i32

    @contextmanager
    def scope(self) -> Iterator[None]:
        self._scopes.append({})
        try:
            yield
        finally:
            self._scopes.pop()

    def known(self, key: tuple[str, ...]) -> V | None:
        for table in reversed(self._scopes):
            if key in table:
                return table[key]
        return None

    def remember(self, key: tuple[str, ...], value: V) -> V:
        self._scopes[-1][key] = value
        return value

    def multiple(self, v: V) -> int:
        """Returns a number that divides the value (1 when nothing is known; 0 for the constant 0)."""
        return abs(v.number) if is_constant(v) else self._multiple.get(v.operand(), 1)

    def assume_multiple(self, v: V, n: int) -> None:
        self._multiple[v.operand()] = n

    def step(self, v: V) -> int | None:
        """Returns by how much a value is more in the next program, if that is always the same and known."""
        return 0 if is_constant(v) else self._steps.get(v.operand())

    def assume_step(self, v: V, step: int) -> None:
        self._steps[v.operand()] = step

    def follow_multiple(self, op: str, result: V, operands: Sequence[V]) -> None:
        """Keeps powers of two that divide the operands of an i32 operation: they divide its result, though it may wrap."""
        if len(operands) != 2 or is_constant(result) or result.type != "i32" or operands[0].type != "i32":
            return
        left, right = (m & -m if (m := self.multiple(v)) else 1 << 31 for v in operands)
        known = {"arith.muli": left * right, "arith.addi": min(left, right), "arith.subi": min(left, right)}.get(op, 1)
        if known > 1:
            self._multiple[result.operand()] = min(known, 1 << 31)

    def constant(self, value: int) -> V:
        return i64((value + (1 << 63)) % (1 << 64) - (1 << 63))

    def address(self, pointer: V) -> V:
        """Returns a scalar pointer as i64."""
        key = ("ptrtoint", pointer.operand())
        found = self.known(key)
        return found or self.remember(key, self.f.op(f"ptrtoint ptr {pointer.operand()} to i64", "i64"))

    def pointer(self, address: V) -> V:
        """Returns an element of a block of pointers, an i64, as a scalar pointer."""
        return address if address.type == "ptr" else self.f.op(f"inttoptr i64 {address.operand()} to ptr", "ptr")

    def _binary(self, opcode: str, a: V, b: V, multiple: int) -> V:
        key = (opcode, a.operand(), b.operand())
        found = self.known(key)
        if found is None:
            found = self.f.binary(opcode, a, b)
            if multiple > 1:
                self._multiple[found.operand()] = multiple
            self.remember(key, found)
        return found

    def parts(self, v: V) -> tuple[V, int]:
        """Returns the value as another one, which is no such sum, plus a constant."""
        return (ZERO, v.number) if is_constant(v) else self._sums.get(v.operand(), (v, 0))

    def add(self, a: V, b: V) -> V:
        """Returns the sum. Constants stay outermost: addresses that are a constant apart share all other arithmetic."""
        (one, more), (other, further) = self.parts(a), self.parts(b)
        number = self.constant(more + further)
        if is_constant(a) or is_constant(b):
            total = one if is_constant(b) else other
        elif more or further:
            total = self.add(one, other)
        else:
            if a.operand() > b.operand():
                a, b = b, a
            total = self._binary("add", a, b, math.gcd(self.multiple(a), self.multiple(b)))
            return self._stepping(total, self.step(a), self.step(b))
        if is_constant(total):
            return self.constant(total.number + integer(number))
        if is_integer(number, 0):
            return total
        result = self._binary("add", total, number, 1)
        known = math.gcd(self.multiple(a), self.multiple(b)), math.gcd(self.multiple(total), integer(number))
        self._multiple[result.operand()] = math.lcm(self.multiple(result), *known)
        self._sums[result.operand()] = total, integer(number)
        return self._stepping(result, self.step(total), 0)

    def _stepping(self, total: V, one: int | None, two: int | None) -> V:
        if one is not None and two is not None:
            self.assume_step(total, one + two)
        return total

    def sub(self, a: V, b: V) -> V:
        if is_constant(b):
            return self.add(a, self.constant(-b.number))
        if a == b:
            return ZERO
        result = self._binary("sub", a, b, math.gcd(self.multiple(a), self.multiple(b)))
        if is_constant(a) and (divisor := self.multiple(b) & -self.multiple(b)) > 1:
            self._remainders[result.operand()] = frozenset({a.number % divisor}), divisor
        return result

    def mul(self, a: V, b: V) -> V:
        if is_constant(a):
            a, b = b, a
        if is_constant(b):
            if is_constant(a):
                return self.constant(a.number * b.number)
            if is_integer(b, 0):
                return ZERO
            if is_integer(b, 1):
                return a
            base, more = self.parts(a)
            if more:
                return self.add(self.mul(base, b), self.constant(more * b.number))
        elif a.operand() > b.operand():
            a, b = b, a
        product = self._binary("mul", a, b, self.multiple(a) * self.multiple(b))
        return self._stepping(product, self._times(a, b), 0)

    def _times(self, a: V, b: V) -> int | None:
        """Returns the step of a value times a constant."""
        step = self.step(a)
        return step * b.number if step is not None and is_constant(b) else None

    def _choose(self, name: str, a: V, b: V) -> V:
        if is_constant(a) and is_constant(b):
            return self.constant((min if name == "smin" else max)(a.number, b.number))
        if a == b:
            return a
        key = (name, *sorted((a.operand(), b.operand())))
        found = self.known(key)
        if found is None:
            found = self.remember(key, self.f.intrinsic(name, [a, b]))
            self._follow_remainders(found, a, b)
        return found

    def _follow_remainders(self, chosen: V, a: V, b: V) -> None:
        """Keeps the remainders of two values for a third one, which is either of them."""
        divisors = [d for v in (a, b) if (d := self._remainders.get(v.operand(), (None, 0))[1])]
        found = [self.remainders(v, min(divisors)) for v in (a, b)] if divisors else [None]
        known = [each for each in found if each is not None]
        if len(known) == 2:
            self._remainders[chosen.operand()] = known[0] | known[1], min(divisors)

    def remainders(self, v: V, n: int) -> frozenset[int] | None:
        """Returns what a value modulo a power of two may be; None where that is not known to be a few numbers."""
        if is_constant(v):
            return frozenset({v.number % n})
        known, divisor = self._remainders.get(v.operand(), (frozenset[int](), 1))
        if divisor % n == 0:
            return frozenset([each % n for each in known])
        return frozenset({0}) if self.multiple(v) % n == 0 else None

    def min(self, a: V, b: V) -> V:
        return self._choose("smin", a, b)

    def max(self, a: V, b: V) -> V:
        return self._choose("smax", a, b)

    def floor_div(self, a: V, n: int) -> V:
        """Returns a / n for a ≥ 0 and a constant n > 0."""
        if n == 1:
            return a
        if is_constant(a):
            return self.constant(a.number // n)
        if n & (n - 1) == 0:
            return self._binary("lshr", a, self.constant(n.bit_length() - 1), max(1, self.multiple(a) // n))
        return self._binary("udiv", a, self.constant(n), 1)

    def floor_div_signed(self, a: V, b: V) -> V:
        """Returns ⌊a / b⌋ for any a and b ≥ 0; 0 when b is 0 (the numeric contract of dims)."""
        if isinstance(b, ConstantInt) and b.number > 0:
            if is_constant(a):
                return self.constant(a.number // b.number)
            if is_integer(b, 1):
                return a
        key = ("floordiv", a.operand(), b.operand())
        found = self.known(key)
        if found is None:
            none = self.f.icmp("eq", b, ZERO)
            safe = self.f.select(none, i64(1), b)
            quotient = self.f.binary("sdiv", a, safe)
            below = self.f.cast("sext", self.f.icmp("slt", self.f.binary("srem", a, safe), ZERO), "i64")
            found = self.f.select(none, ZERO, self.f.binary("add", quotient, below))
            self.remember(key, found)
        return found

    def round_down(self, a: V, n: int) -> V:
        """Returns the largest multiple of the power of two n that is ≤ a, for a ≥ 0."""
        if n == 1:
            return a
        if is_constant(a):
            return self.constant(a.number // n * n)
        return self._binary("and", a, self.constant(-n), n)

    def ceil_div(self, a: V, n: int) -> V:
        return self.floor_div(self.add(a, self.constant(n - 1)), n)

    def to_i64(self, a: V, signed: bool = True) -> V:
        if a.type == "i64":
            return a
        if is_constant(a):
            return i64(a.number)
        key = ("sext" if signed else "zext", a.operand())
        found = self.known(key)
        if found is None:
            found = self.remember(key, self.f.cast(key[0], a, "i64"))
            self._multiple[found.operand()] = self.multiple(a)
            if signed and a.type in ("i8", "i16", "i32"):
                self.narrow.add(found.operand())
        return found

    def truncated(self, value: V, type_: str) -> V:
        """Returns the low bits of an i64, as many as the type has."""
        if value.type == type_:
            return value
        if is_constant(value):
            return const(wrapped(value.number, type_), type_)
        return self.f.cast("trunc", value, type_)

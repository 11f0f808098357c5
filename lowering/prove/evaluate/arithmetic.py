"""Has the rules of integer operations: from terms of the operands to a term of the result.

A rule has one meaning, in every run: what it returns is congruent to the result. `signed` and `_unsigned` give the number that
an operand is, wrapped; the value of an `Integer` itself counts modulo 2 ** width only. Sums, products, shifts to the left and
masks of low bits keep that, and look at no number.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Protocol

from xdsl.ir import Operation

from ...tt import types as t
from ..terms.atoms import Terms
from ..terms.formulas import Formula, at_least, at_most, both, either, equal, less, negated
from ..terms.polynomials import ZERO, Polynomial, TooLarge, constant
from .values import Condition, Integer, Value, integer

_MAX_RUNS = 4


class Observer(Protocol):
    """What rules ask of the evaluator."""

    terms: Terms

    def signed(self, value: Integer) -> Polynomial: ...


Rule = Callable[[Observer, Operation, Integer, Integer], Value | None]
"""(evaluator, operation, operands) → the result; None if nothing is known of it."""


def _signed(ev: Observer, value: Integer) -> Polynomial:
    return ev.signed(value)


def _unsigned(ev: Observer, value: Integer) -> Polynomial:
    return ev.terms.unsigned(ev.signed(value), value.width)


def _ring(combine: Callable[[Polynomial, Polynomial], Polynomial]) -> Rule:
    def rule(ev: Observer, op: Operation, x: Integer, y: Integer) -> Value:
        return integer(combine(x.value, y.value), x.width)

    return rule


def _signed_division(part: int) -> Rule:
    def rule(ev: Observer, op: Operation, x: Integer, y: Integer) -> Value:
        return integer(ev.terms.truncated_parts(ev.signed(x), ev.signed(y))[part], x.width)

    return rule


def _unsigned_division(part: int) -> Rule:
    def rule(ev: Observer, op: Operation, x: Integer, y: Integer) -> Value:
        divisor = y.value.number
        if divisor is not None and divisor > 0 and divisor & (divisor - 1) == 0 and part == 1:
            return integer(_low_bits(ev.terms, x.value, divisor.bit_length() - 1), x.width)
        return integer(ev.terms.truncated_parts(_unsigned(ev, x), _unsigned(ev, y))[part], x.width)

    return rule


def _floor_division(ev: Observer, op: Operation, x: Integer, y: Integer) -> Value | None:
    number = ev.signed(y).number
    if number is None or number < 1:
        return None
    return integer(ev.terms.floor_parts(ev.signed(x), constant(number))[0], x.width)


def _ceiling_division(ev: Observer, op: Operation, x: Integer, y: Integer) -> Value | None:
    number = ev.signed(y).number
    if number is None or number < 1:
        return None
    return integer(ev.terms.floor_parts(ev.signed(x) + (number - 1), constant(number))[0], x.width)


def _extreme(is_signed: bool, is_least: bool) -> Rule:
    def rule(ev: Observer, op: Operation, x: Integer, y: Integer) -> Value:
        view = _signed if is_signed else _unsigned
        return integer((ev.terms.smaller if is_least else ev.terms.larger)(view(ev, x), view(ev, y)), x.width)

    return rule


def _low_bits(terms: Terms, value: Polynomial, bits: int) -> Polynomial:
    """Returns the number that the low bits are; `value` counts modulo any higher power of two."""
    return terms.floor_parts(value, constant(1 << bits))[1]


def _masked(terms: Terms, value: Polynomial, mask: int, width: int) -> Polynomial | None:
    """Returns value & mask, modulo 2 ** width: for each run of ones in the mask, the bits below its end less those below its
    beginning."""
    mask &= (1 << width) - 1
    runs = []
    start = None
    for bit in range(width + 1):
        is_set = bit < width and mask >> bit & 1
        if is_set and start is None:
            start = bit
        if not is_set and start is not None:
            runs.append((start, bit))
            start = None
    if len(runs) > _MAX_RUNS:
        return None
    found = ZERO
    for first, end in runs:
        below = value if end == width else _low_bits(terms, value, end)
        found = found + below - (_low_bits(terms, value, first) if first else ZERO)
    return found


def _multiple_of(value: Polynomial) -> int:
    """Returns the largest known power of two that divides a number; 2 ** 64 for 0."""
    found = 1 << 64
    for _, factor in value:
        found = min(found, factor & -factor)
    return found


def _bits(kind: str) -> Rule:
    def rule(ev: Observer, op: Operation, x: Integer, y: Integer) -> Value | None:
        for one, two in ((x, y), (y, x)):
            mask = two.value.number
            if mask is not None:
                kept = _masked(ev.terms, one.value, mask, x.width)
                if kept is None:
                    return None
                if kind == "and":
                    return integer(kept, x.width)
                return integer(one.value + mask - kept * (1 if kind == "or" else 2), x.width)
        for one, two in ((x, y), (y, x)):
            if ev.terms.fits(one.value, 0, _multiple_of(two.value) - 1):  # no bit is set in both
                return integer(ZERO if kind == "and" else one.value + two.value, x.width)
        return _bounded_bits(ev, op, x, y, kind)

    return rule


def _bounded_bits(ev: Observer, op: Operation, x: Integer, y: Integer, kind: str) -> Value | None:
    """Returns an unknown number of which only bounds are known, for operands whose ranges are not negative.

    The bits that any number has in common with one that is not negative are a number from 0 to that.
    """
    one, two = ev.terms.range(x.value), ev.terms.range(y.value)
    half = 1 << (x.width - 1)
    if kind == "and":
        for number, other in ((x, y), (y, x)):
            if ev.terms.fits(number.value, 0, half - 1) and not ev.terms.fits(other.value, 0, half - 1):
                return integer(_common_bits(ev.terms, number.value, other.value), x.width)
    if one[0] is None or two[0] is None or one[0] < 0 or two[0] < 0:
        return None
    if one[1] is None or two[1] is None or one[1] >= half or two[1] >= half:
        return None
    high = min(one[1], two[1]) if kind == "and" else (1 << max(one[1], two[1]).bit_length()) - 1
    left, right = sorted((x.value, y.value), key=lambda each: each.terms)
    made = ev.terms.atom(
        (kind, left, right), f"({ev.terms.text(left)} {kind} {ev.terms.text(right)})", 0, high,
        ev.terms.depends(left, right),
        lambda made: (at_most(made, left), at_most(made, right)) if kind == "and" else
        (at_least(made, left), at_least(made, right)) if kind == "or" else (),
    )  # fmt: skip
    return integer(made, x.width)


def _common_bits(terms: Terms, number: Polynomial, other: Polynomial) -> Polynomial:
    """Returns the bits that a number of which bounds are known, and are not negative, has in common with any other one."""
    return terms.atom(
        ("common bits", number, other), f"({terms.text(number)} and {terms.text(other)})", 0, terms.range(number)[1],
        terms.depends(number, other), lambda made: (at_most(made, number),),
    )  # fmt: skip


def _left_shift(ev: Observer, op: Operation, x: Integer, y: Integer) -> Value | None:
    amount = y.value.number
    if amount is not None:
        factor = 1 << amount if 0 <= amount < x.width else 0
        return _ring(lambda a, b: a * factor)(ev, op, x, y)
    if not ev.terms.fits(y.value, 0, x.width - 1):
        return None
    power = ev.terms.power_of_two(y.value)
    return _ring(lambda a, b: a * power)(ev, op, x, y)


def _right_shift(is_signed: bool) -> Rule:
    def rule(ev: Observer, op: Operation, x: Integer, y: Integer) -> Value | None:
        amount = y.value.number
        if amount is None and not ev.terms.fits(y.value, 0, x.width - 1):
            return None
        if amount is not None and not 0 <= amount < x.width:
            if not is_signed:
                return integer(ZERO, x.width)
            amount = x.width - 1
        divisor = constant(1 << amount) if amount is not None else ev.terms.power_of_two(y.value)
        number = ev.signed(x) if is_signed else _unsigned(ev, x)
        return integer(ev.terms.floor_parts(number, divisor)[0], x.width)

    return rule


RULES: Mapping[str, Rule] = {
    "arith.addi": _ring(lambda x, y: x + y), "arith.subi": _ring(lambda x, y: x - y), "arith.muli": _ring(lambda x, y: x * y),
    "arith.divsi": _signed_division(0), "arith.remsi": _signed_division(1), "arith.divui": _unsigned_division(0),
    "arith.remui": _unsigned_division(1), "arith.floordivsi": _floor_division, "arith.ceildivsi": _ceiling_division,
    "arith.minsi": _extreme(True, True), "arith.maxsi": _extreme(True, False), "arith.minui": _extreme(False, True),
    "arith.maxui": _extreme(False, False), "arith.andi": _bits("and"), "arith.ori": _bits("or"), "arith.xori": _bits("xor"),
    "arith.shli": _left_shift, "arith.shrsi": _right_shift(True), "arith.shrui": _right_shift(False),
}  # fmt: skip
"""Operations with two integer operands and a result, all of one width above 1."""

_RELATIONS: Mapping[str, Callable[[Polynomial, Polynomial], Formula]] = {
    "eq": equal, "ne": lambda x, y: negated(equal(x, y)), "lt": less, "le": at_most, "gt": lambda x, y: less(y, x),
    "ge": at_least,
}  # fmt: skip


def comparison(ev: Observer, predicate: str, x: Integer, y: Integer) -> Value:
    """Returns the condition that a comparison of two integers is."""
    view = _unsigned if predicate.startswith("u") else _signed
    relation = _RELATIONS[predicate if predicate in ("eq", "ne") else predicate[1:]]
    return Condition(relation(view(ev, x), view(ev, y)))


def _exclusive(one: Formula, two: Formula) -> Formula:
    return either(both(one, negated(two)), both(negated(one), two))


BOOLEANS: Mapping[str, Callable[[Formula, Formula], Formula]] = {
    "arith.andi": both, "arith.ori": either, "arith.xori": _exclusive, "arith.addi": _exclusive, "arith.subi": _exclusive,
    "arith.muli": both, "arith.minui": both, "arith.maxui": either, "arith.maxsi": both, "arith.minsi": either,
}  # fmt: skip
"""Operations on two i1; read as signed, true is -1."""

_BOOLEAN_RELATIONS: Mapping[str, Callable[[Formula, Formula], Formula]] = {
    "eq": lambda x, y: negated(_exclusive(x, y)), "ne": _exclusive,
    "ult": lambda x, y: both(negated(x), y), "ugt": lambda x, y: both(x, negated(y)),
    "ule": lambda x, y: either(negated(x), y), "uge": lambda x, y: either(x, negated(y)),
    "sgt": lambda x, y: both(negated(x), y), "slt": lambda x, y: both(x, negated(y)),
    "sge": lambda x, y: either(negated(x), y), "sle": lambda x, y: either(x, negated(y)),
}  # fmt: skip


def boolean_comparison(predicate: str, x: Condition, y: Condition) -> Value:
    """Returns the condition that a comparison of two i1 is."""
    return Condition(_BOOLEAN_RELATIONS[predicate](x.formula, y.formula))


def absolute(ev: Observer, x: Integer) -> Value:
    """Returns the absolute value; that of the lowest number is itself, as joinery wraps it."""
    number = ev.signed(x)
    return integer(ev.terms.chosen(at_least(number, 0), number, -number), x.width)


def extended(ev: Observer, op: Operation, x: Integer | Condition, is_signed: bool) -> Value:
    """Returns an integer in more bits."""
    width = t.bit_width(op.results[0].type)
    if isinstance(x, Condition):
        return integer(ev.terms.chosen(x.formula, constant(-1 if is_signed else 1), ZERO), width)
    return integer(ev.signed(x) if is_signed else _unsigned(ev, x), width)


def truncated(ev: Observer, op: Operation, x: Integer) -> Value:
    """Returns the low bits, of which an i1 is the last one."""
    width = t.bit_width(op.results[0].type)
    if width == 1:
        return Condition(equal(_low_bits(ev.terms, x.value, 1), 1))
    return integer(x.value, width)


__all__ = [
    "BOOLEANS", "RULES", "Observer", "Rule", "TooLarge", "absolute", "boolean_comparison", "comparison", "extended",
    "truncated",
]  # fmt: skip

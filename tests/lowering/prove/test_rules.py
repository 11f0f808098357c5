"""Each rule of integers on all numbers of 8 bits: facts and ranges hold, and terms are what NumPy computes."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import joinery as jn
import numpy as np
import pytest

pytest.importorskip("z3")

from joinery.lowering.prove.evaluate import arithmetic
from joinery.lowering.prove.evaluate.values import Condition, Integer
from joinery.lowering.prove.terms.atoms import Terms
from joinery.lowering.prove.terms.formulas import (
    AtMost,
    Both,
    Either,
    Equal,
    Flag,
    Formula,
    Not,
    Truth,
    equal,
)
from joinery.lowering.prove.terms.polynomials import Polynomial, TooLarge, constant

from ...support.tiers import both_tiers

Numbers = Any
X, Y = (np.repeat(np.arange(-128, 128), 256), np.tile(np.arange(-128, 128), 256))
RANGES = [(-128, 127), (0, 127), (0, 7), (1, 5), (-128, -1), (-3, 2), (-200, 400)]
"""Of free numbers. Those of the last one count modulo 256, as sums that have wrapped do."""


class Watcher:
    """Looks at numbers that may wrap."""

    def __init__(self, terms: Terms) -> None:
        self.terms = terms

    def signed(self, value: Integer) -> Polynomial:
        return self.terms.wrapped(value.value, value.width)


class Meaning:
    """What atoms and flags stand for, from their definitions, for vectors of numbers of the free ones."""

    def __init__(self, terms: Terms, free: dict[int, Numbers]) -> None:
        self.terms = terms
        self.keys = {number: key for key, number in terms._numbers.items()}
        self.flags = {number: key for key, number in terms._flags.items()}
        self.known: dict[int, Numbers] = dict(free)

    def polynomial(self, polynomial: Polynomial) -> Numbers:
        found = np.int64(0)
        for monomial, factor in polynomial:
            product = np.int64(1)
            for atom in monomial:
                product = product * self.atom(atom)
            found = found + product * factor
        return found

    def atom(self, number: int) -> Numbers:
        if number not in self.known:
            self.known[number] = self._defined(self.keys[number])
        return self.known[number]

    def _defined(self, key: Any) -> Numbers:
        match key:
            case ("quotient", value, divisor):
                return self.polynomial(value) // self.polynomial(divisor)
            case ("rest", value, divisor):
                return self.polynomial(value) % self.polynomial(divisor)
            case ("truncated quotient", value, divisor, _):
                return _quotient(self.polynomial(value), self.polynomial(divisor))
            case ("truncated rest", value, divisor, _):
                x, d = self.polynomial(value), self.polynomial(divisor)
                return x - d * _quotient(x, d)
            case ("chosen", condition, yes, no):
                return np.where(self.holds(condition), self.polynomial(yes), self.polynomial(no))
            case ("smaller", left, right):
                return np.minimum(self.polynomial(left), self.polynomial(right))
            case ("larger", left, right):
                return np.maximum(self.polynomial(left), self.polynomial(right))
            case ("power", exponent):
                return np.int64(1) << np.int64(1) * self.polynomial(exponent)
            case ("wrapped", value, width):
                return _wrapped(self.polynomial(value), width)
            case ("wraps", value, width):
                x = self.polynomial(value)
                return (x - _wrapped(x, width)) >> width
            case ("and" | "common bits", left, right):
                return self.polynomial(left) & self.polynomial(right)
            case ("or", left, right):
                return self.polynomial(left) | self.polynomial(right)
            case ("xor", left, right):
                return self.polynomial(left) ^ self.polynomial(right)
        raise AssertionError(f"no meaning of {key}")

    def holds(self, formula: Formula) -> Numbers:
        match formula:
            case Truth(value):
                return np.bool_(value)
            case AtMost(polynomial):
                return self.polynomial(polynomial) <= 0
            case Equal(polynomial):
                return self.polynomial(polynomial) == 0
            case Both(parts):
                return np.logical_and.reduce(np.broadcast_arrays(*[self.holds(part) for part in parts]))
            case Either(parts):
                return np.logical_or.reduce(np.broadcast_arrays(*[self.holds(part) for part in parts]))
            case Not(part):
                return ~self.holds(part)
            case Flag(number):
                kind, inner = self.flags[number]
                assert kind == "named"
                return self.holds(inner)

    def check(self) -> None:
        """Asserts ranges and facts of every atom that there is."""
        for number in range(len(self.terms.atoms)):
            own, value = self.terms.atoms[number], self.atom(number)
            assert own.low is None or np.all(value >= own.low), own
            assert own.high is None or np.all(value <= own.high), own
            for fact in own.facts:
                assert np.all(self.holds(fact)), (own.name, fact)


def _quotient(x: Numbers, d: Numbers) -> Numbers:
    safe = np.where(d == 0, 1, d)
    found = np.abs(x) // np.abs(safe) * np.sign(x) * np.sign(safe)
    return np.where(d == 0, 0, found)


def _wrapped(x: Numbers, width: int) -> Numbers:
    return ((x + (1 << (width - 1))) & ((1 << width) - 1)) - (1 << (width - 1))


def _at(free: dict[int, Numbers]) -> Numbers:
    """Where two numbers are in what was computed of all."""
    return (_wrapped(free[-1], 8) + 128) * 256 + _wrapped(free[-2], 8) + 128


def _u(x: Numbers) -> Numbers:
    return x & 255


def _shifted(x: Numbers, y: Numbers, by: Callable[[Numbers, Numbers], Numbers], beyond: Numbers) -> Numbers:
    return np.where((y >= 0) & (y < 8), by(x, np.clip(y, 0, 7)), beyond)


NUMPY: dict[str, Callable[[Numbers, Numbers], Numbers]] = {
    "arith.addi": np.add, "arith.subi": np.subtract, "arith.muli": np.multiply,
    "arith.divsi": _quotient, "arith.remsi": lambda x, y: x - y * _quotient(x, y),
    "arith.divui": lambda x, y: _quotient(_u(x), _u(y)), "arith.remui": lambda x, y: _u(x) - _u(y) * _quotient(_u(x), _u(y)),
    "arith.minsi": np.minimum, "arith.maxsi": np.maximum, "arith.minui": lambda x, y: np.minimum(_u(x), _u(y)),
    "arith.maxui": lambda x, y: np.maximum(_u(x), _u(y)), "arith.andi": np.bitwise_and, "arith.ori": np.bitwise_or,
    "arith.xori": np.bitwise_xor, "arith.shli": lambda x, y: _shifted(x, y, np.left_shift, 0 * x),
    "arith.shrsi": lambda x, y: _shifted(x, y, np.right_shift, x >> 7),
    "arith.shrui": lambda x, y: _shifted(_u(x), y, np.right_shift, 0 * x),
}  # fmt: skip
PREDICATES: dict[str, Callable[[Numbers, Numbers], Numbers]] = {
    "eq": np.equal, "ne": np.not_equal, "slt": np.less, "sle": np.less_equal, "sgt": np.greater, "sge": np.greater_equal,
    "ult": lambda x, y: _u(x) < _u(y), "ule": lambda x, y: _u(x) <= _u(y), "ugt": lambda x, y: _u(x) > _u(y),
    "uge": lambda x, y: _u(x) >= _u(y),
}  # fmt: skip


def interpreted(body: str, x: Numbers, y: Numbers, result: str = "i8") -> Numbers:
    """What the interpreter computes of an operation on blocks %a and %b."""
    size, block = 1 << 16, f"tensor<{1 << 16}xi8>"
    load = "\n".join([
        f"  %{name}s = tt.splat %{name}p : !tt.ptr<i8> -> tensor<{size}x!tt.ptr<i8>>\n"
        f"  %{name}q = tt.addptr %{name}s, %l : tensor<{size}x!tt.ptr<i8>>, tensor<{size}xi32>\n"
        f"  %{name} = tt.load %{name}q : tensor<{size}x!tt.ptr<i8>>" for name in "ab"
    ])  # fmt: skip
    kind = f"tensor<{size}x!tt.ptr<{result}>>"
    text = f"""tt.func public @k(%ap: !tt.ptr<i8>, %bp: !tt.ptr<i8>, %o: !tt.ptr<{result}>) {{
  %l = tt.make_range {{end = {size} : i32, start = 0 : i32}} : tensor<{size}xi32>
{load}
  {body.format(block=block, mask=f"tensor<{size}xi1>", wide=f"tensor<{size}xi16>")}
  %os = tt.splat %o : !tt.ptr<{result}> -> {kind}
  %oq = tt.addptr %os, %l : {kind}, tensor<{size}xi32>
  tt.store %oq, %r : {kind}
  tt.return
}}"""
    out = np.zeros(size, {"i8": np.int8, "i16": np.int16}[result])
    jn.kernel.from_ttir(text).interpret((1,), np.resize(x, size).astype(np.int8), np.resize(y, size).astype(np.int8), out)
    return out.astype(np.int64)


def operation(name: str, width: int = 8) -> Any:
    """An operation of which rules ask no more than what it is and how many bits its result has."""
    kernel = jn.kernel.from_ttir(f"tt.func public @k(%a: i8, %b: i{width}) {{\n  %r = arith.addi %b, %b : i{width}\n  tt.return\n}}")  # noqa: E501
    return next(op for op in kernel._function.walk() if op.results)


def operands(terms: Terms, x: int | tuple[int, int], y: int | tuple[int, int]) -> tuple[Integer, Integer, dict[int, Numbers]]:
    """Two numbers, each constant or any of a range, and the numbers that the free ones have."""
    made, free, vectors = [], {}, []
    for each in (x, y):
        vectors.append(np.array([each]) if isinstance(each, int) else np.arange(each[0], each[1] + 1))
    grid = [each.reshape(-1) for each in np.meshgrid(*vectors, indexing="ij")]
    for at, each in enumerate((x, y)):
        if isinstance(each, int):
            made.append(Integer(constant(each), 8))
            continue
        value = terms.atom(("number", at), "xy"[at], *each)
        free[next(iter(value.atoms))] = grid[at]
        made.append(Integer(value, 8))
    free[-1], free[-2] = grid
    return made[0], made[1], free


CASES: list[tuple[Any, Any]] = [*itertools.product(RANGES, RANGES)]
CONSTANTS = [*[((-200, 400), each) for each in range(-128, 128, 3)], *[((-128, 127), each) for each in range(-128, 128)], *[((0, 100), each) for each in range(-128, 128, 5)],  # noqa: E501
             *[(each, (-128, 127)) for each in range(-128, 128)], *[(each, (0, 6)) for each in range(-128, 128, 3)]]  # fmt: skip  # noqa: E501


@pytest.mark.one_in(19)
@both_tiers
@pytest.mark.parametrize("name", arithmetic.RULES)
def test_rules_of_two_integers(name: str, in_full: bool) -> None:
    expected = interpreted(f"%r = {name} %a, %b : {{block}}", X, Y)
    if name in NUMPY:
        assert np.array_equal(_wrapped(NUMPY[name](X, Y), 8), expected)
    op, count = operation(name), 0
    for x, y in [*CASES, *(CONSTANTS if in_full else CONSTANTS[::9])]:
        terms = Terms()
        one, two, free = operands(terms, x, y)
        try:
            found = arithmetic.RULES[name](Watcher(terms), op, one, two)
        except TooLarge:
            continue
        if found is None:
            continue
        assert isinstance(found, Integer)
        count += 1
        right = expected[_at(free)]
        meaning = Meaning(terms, free)
        assert np.all(_wrapped(meaning.polynomial(found.value), 8) == right), (x, y)
        meaning.check()
    assert count > 10


@pytest.mark.one_in(10)
@pytest.mark.parametrize("name", PREDICATES)
def test_rules_of_comparisons(name: str) -> None:
    body = f"%c = arith.cmpi {name}, %a, %b : {{block}}\n  %r = arith.extui %c : {{mask}} to {{block}}"
    expected = interpreted(body, X, Y)
    assert np.array_equal(PREDICATES[name](X, Y), expected != 0)
    for x, y in [*CASES, *CONSTANTS[::3]]:
        terms = Terms()
        one, two, free = operands(terms, x, y)
        found = arithmetic.comparison(Watcher(terms), name, one, two)
        assert isinstance(found, Condition)
        meaning = Meaning(terms, free)
        right = expected[_at(free)] != 0
        assert np.all(np.broadcast_to(meaning.holds(found.formula), right.shape) == right), (x, y)
        meaning.check()


@pytest.mark.parametrize("is_signed", [True, False])
@pytest.mark.parametrize("own", RANGES)
def test_rules_of_extensions(own: tuple[int, int], is_signed: bool) -> None:
    kind = "extsi" if is_signed else "extui"
    expected = interpreted(f"%r = arith.{kind} %a : {{block}} to {{wide}}", X, Y, "i16")
    terms = Terms()
    one, _, free = operands(terms, own, 0)
    found = arithmetic.extended(Watcher(terms), operation(kind, 16), one, is_signed)
    assert isinstance(found, Integer)
    assert found.width == 16
    meaning = Meaning(terms, free)
    assert np.array_equal(_wrapped(meaning.polynomial(found.value), 16), expected[_at(free) // 256 * 256])
    meaning.check()


@pytest.mark.parametrize("own", RANGES)
def test_rules_of_absolute_values_and_low_bits(own: tuple[int, int]) -> None:
    expected = interpreted("%r = math.absi %a : {block}", X, Y)
    terms = Terms()
    one, _, free = operands(terms, own, 0)
    found = arithmetic.absolute(Watcher(terms), one)
    assert isinstance(found, Integer)
    meaning = Meaning(terms, free)
    assert np.array_equal(_wrapped(meaning.polynomial(found.value), 8), expected[_at(free) // 256 * 256])
    low = arithmetic.truncated(Watcher(terms), operation("trunci", 1), one)
    assert isinstance(low, Condition)
    meaning = Meaning(terms, free)
    assert np.array_equal(meaning.holds(low.formula), free[-1] & 1 == 1)
    meaning.check()


def test_rules_of_booleans() -> None:
    true = np.array([-1, -1, 0, 0], np.int64)
    other = np.array([-1, 0, -1, 0], np.int64)
    terms = Terms()
    p, q = terms.atom("p", "p", -1, 0), terms.atom("q", "q", -1, 0)
    free = {next(iter(p.atoms)): true, next(iter(q.atoms)): other}
    x, y = Condition(equal(p, -1)), Condition(equal(q, -1))
    meaning = Meaning(terms, free)
    exact = {
        "arith.andi": true & other, "arith.ori": true | other, "arith.xori": true ^ other, "arith.addi": (true + other) & 1,
        "arith.subi": (true - other) & 1, "arith.muli": true * other, "arith.minui": np.minimum(true & 1, other & 1),
        "arith.maxui": np.maximum(true & 1, other & 1), "arith.maxsi": np.maximum(true, other), "arith.minsi": np.minimum(true, other),  # noqa: E501
    }  # fmt: skip
    for name, combine in arithmetic.BOOLEANS.items():
        assert np.array_equal(meaning.holds(combine(x.formula, y.formula)), exact[name] != 0), name
    for name, compare in PREDICATES.items():
        found = arithmetic.boolean_comparison(name, x, y)
        assert isinstance(found, Condition)
        right = compare(true & 1, other & 1) if name.startswith("u") else compare(true, other)
        assert np.array_equal(meaning.holds(found.formula), right), name

"""Reads the expressions of specifications: sizes such as `cdiv(n, 32) * M`, and assumptions such as `0 <= idx[:] < n`.

They name parameters of the function and new symbols. Nothing is evaluated by Python; `//` and `%` round down, as Python's do.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Iterator, Mapping
from typing import NoReturn, TypeAlias

from ....promotion.dataclass import dataclass
from ....promotion.errors import UserError

MAX_TEXT = 2000
MAX_DEPTH = 50
MAX_OPERATIONS = 200
_MAX_FACTORS = 8
MAX_POWER = 128


@dataclass(frozen=True, slots=True)
class Number:
    value: int


@dataclass(frozen=True, slots=True)
class Name:
    name: str


@dataclass(frozen=True, slots=True)
class Elements:
    """All elements of an array: `idx[:]`."""

    name: str


@dataclass(frozen=True, slots=True)
class Call:
    """An operation (`+ - * // %`, `cdiv`, `min`, `max`) and its two operands."""

    operation: str
    left: Expression
    right: Expression


Expression: TypeAlias = Number | Name | Elements | Call


@dataclass(frozen=True, slots=True)
class Comparison:
    """`left relation right`; relation is one of `< <= > >= == !=`."""

    relation: str
    left: Expression
    right: Expression


@dataclass(frozen=True, slots=True)
class Joined:
    """Assumptions joined by "and" or "or"."""

    by: str
    parts: tuple[Assumption, ...]


@dataclass(frozen=True, slots=True)
class Ordered:
    """How the elements of an array are to each other.

    Attributes:
        how: "sorted", none is less than one before it, or "distinct", no two are equal.
    """

    how: str
    elements: Elements


@dataclass(frozen=True, slots=True)
class Points:
    """Each element of an array is the address of one of `size` bytes, where `lens[:]` is the element at the same place."""

    elements: Elements
    size: Expression


@dataclass(frozen=True, slots=True)
class AtLaunch:
    """Each element of an array is `size` when the launch begins, whatever is written later: `at_launch(counter[:]) == 0`."""

    elements: Elements
    size: Expression


@dataclass(frozen=True, slots=True)
class Declared:
    """A name is a new number, of which nothing is said: `number(rows)`."""

    name: str


Assumption: TypeAlias = Comparison | Joined | Ordered | Points | AtLaunch | Declared

RELATIONS = ("<=", ">=", "==", "!=", "<", ">")
_TOKEN = re.compile(r"\s*(?:(?P<number>[0-9]+)|(?P<name>[A-Za-z_][\w.]*)|(?P<sign>\[:\]|\*\*|//|<=|>=|==|!=|[-+*%<>(),]))")
_DIVISIONS = ("//", "%", "cdiv")
_FUNCTIONS = ("cdiv", "min", "max")
_ORDERS = ("sorted", "distinct")
_POINTS = "points"
_AT_LAUNCH = "at_launch"
_NUMBER = "number"


class _Reader:
    def __init__(self, text: str, what: str) -> None:
        if not isinstance(text, str):
            raise UserError(f"prove: {what} {text!r}: expected a text, got {type(text).__name__}")
        if len(text) > MAX_TEXT:
            raise UserError(f"prove: {what}: {len(text)} characters; expressions have at most {MAX_TEXT}")
        self.text = text
        self.what = what
        self.tokens = list(self._split())
        self.at = 0
        self.depth = 0
        self.powers = 0
        self.operations = 0

    def _split(self) -> Iterator[str]:
        at, end = 0, len(self.text.rstrip())
        while at < end:
            found = _TOKEN.match(self.text, at)
            if found is None:
                self.fail(f"{self.text[at:].lstrip()[:1]!r} is no part of an expression")
            yield found.group().strip()
            at = found.end()

    def fail(self, why: str) -> NoReturn:
        hint = "expected sizes such as cdiv(n, 32) * M, compared by < <= > >= == != in assumptions"
        raise UserError(f"prove: {self.what} {self.text!r}: {why}; {hint}")

    def peek(self) -> str:
        return self.tokens[self.at] if self.at < len(self.tokens) else ""

    def take(self, *wanted: str) -> str:
        token = self.peek()
        if token and token in wanted:
            self.at += 1
            return token
        return ""

    def expect(self, token: str) -> None:
        if not self.take(token):
            self.fail(f"expected {token!r} before {self.peek() or 'the end'!r}")

    def finish(self) -> None:
        if self.peek():
            more = "" if self.what != "assumption" else "; assumptions are joined by 'and', or each has a text of its own"
            self.fail(f"{self.peek()!r} is left over{more}")

    def size(self) -> Expression:
        self.depth += 1
        if self.depth > MAX_DEPTH:
            self.fail(f"more than {MAX_DEPTH} nested parentheses")
        found = self._product()
        while sign := self.take("+", "-"):
            self._count()
            found = Call(sign, found, self._product())
        self.depth -= 1
        return found

    def _product(self) -> Expression:
        found = self._signed()
        while sign := self.take("*", "//", "%"):
            self._count()
            found = Call(sign, found, self._signed())
        return found

    def _count(self) -> None:
        self.operations += 1
        if self.operations > MAX_OPERATIONS:
            self.fail(f"more than {MAX_OPERATIONS} operations")

    def _signed(self) -> Expression:
        negative = False
        while self.take("-"):
            negative = not negative
        before = self.powers
        base = self._atom()
        if self.take("**"):
            power = self._atom()
            if not isinstance(power, Number) or power.value > (MAX_POWER if isinstance(base, Number) else _MAX_FACTORS):
                own = f"a size and an exponent up to {_MAX_FACTORS}"
                self.fail(f"powers have two numbers, as 2**31, and exponents up to {MAX_POWER}, or {own}")
            if isinstance(base, Number):
                base = Number(base.value**power.value)
            else:
                if self.powers > before:
                    self.fail("a power of a power is no part of it")
                self.powers += 1
                factors = [base] * power.value
                base = functools.reduce(lambda x, y: Call("*", x, y), factors) if factors else Number(1)
        return Call("-", Number(0), base) if negative else base

    def _atom(self) -> Expression:
        token = self.peek()
        if not token:
            self.fail("it ends too soon")
        self.at += 1
        if token.isdigit():
            if len(token) > 40:
                self.fail("the number is too long")
            return Number(int(token))
        if token == "(":
            found = self.size()
            self.expect(")")
            return found
        if not re.match(r"[A-Za-z_]", token):
            self.fail(f"expected a number, a name or a parenthesis, not {token!r}")
        if token in _FUNCTIONS and self.take("("):
            left = self.size()
            self.expect(",")
            right = self.size()
            self.expect(")")
            return Call(token, left, right)
        return Elements(token) if self.take("[:]") else Name(token)

    def assumption(self) -> Assumption:
        parts = [self._conjunction()]
        while self.take("or"):
            parts.append(self._conjunction())
        return parts[0] if len(parts) == 1 else Joined("or", tuple(parts))

    def _conjunction(self) -> Assumption:
        parts = [self._chain()]
        while self.take("and"):
            parts.append(self._chain())
        return parts[0] if len(parts) == 1 else Joined("and", tuple(parts))

    def _chain(self) -> Assumption:
        if self.tokens[self.at + 1 : self.at + 2] == ["("]:
            if self.take(_AT_LAUNCH):
                return self._at_launch()
            if self.peek() in (*_ORDERS, _POINTS):
                return self._said_of_elements()
            if self.take(_NUMBER):
                declared = self._atom()
                if not isinstance(declared, Name):
                    self.fail("number(...) declares a new name, as in number(rows)")
                return Declared(declared.name)
        left = self.size()
        found: list[Assumption] = []
        while relation := self.take(*RELATIONS):
            right = self.size()
            found.append(Comparison(relation, left, right))
            left = right
        if not found:
            self.fail("it compares nothing")
        return found[0] if len(found) == 1 else Joined("and", tuple(found))

    def _at_launch(self) -> AtLaunch:
        elements = self._atom()  # with its parentheses
        if not isinstance(elements, Elements) or not self.take("=="):
            self.fail("at_launch(...) says what all elements of an array are at first, as in at_launch(counter[:]) == 0")
        size = self.size()
        if any(True for _ in arrays_in(size)):
            self.fail("at_launch(...) is equal to a size, as in at_launch(counter[:]) == 0")
        return AtLaunch(elements, size)

    def _said_of_elements(self) -> Ordered | Points:
        what = self.take(*_ORDERS, _POINTS)
        self.expect("(")
        elements = self._atom()
        if not isinstance(elements, Elements):
            self.fail(f"{what}(...) is said of the elements of an array, as in {what}(idx[:]{', 64' * (what == _POINTS)})")
        if what != _POINTS:
            self.expect(")")
            return Ordered(what, elements)
        self.expect(",")
        size = self.size()
        self.expect(")")
        return Points(elements, size)


def parse_size(text: str, what: str) -> Expression:
    """Parses a size. what: names it in messages. Raises `UserError` for anything else."""
    reader = _Reader(text, what)
    found = reader.size()
    reader.finish()
    if list(arrays_in(found)):
        reader.fail("elements of arrays are for assumptions")
    return found


def parse_assumption(text: str) -> Assumption:
    """Parses comparisons joined by `and` and `or`. Raises `UserError` for anything else."""
    reader = _Reader(text, "assumption")
    found = reader.assumption()
    reader.finish()
    return found


def names_in(expression: Expression | Assumption) -> Iterator[str]:
    """Yields the names of numbers in an expression."""
    return (each.name for each in _parts(expression) if isinstance(each, Name))


def arrays_in(expression: Expression | Assumption) -> Iterator[str]:
    """Yields the names of arrays of whose elements an expression speaks."""
    return (each.name for each in _parts(expression) if isinstance(each, Elements))


def doubtful_divisor(expression: Expression) -> str | None:
    """Returns an array by whose elements an expression divides though they may be 0 or less; None if there is none."""
    for each in _parts(expression):
        if isinstance(each, Call) and each.operation in _DIVISIONS:
            divisor = each.right
            is_positive = isinstance(divisor, Call) and divisor.operation == "max" and any(
                isinstance(part, Number) and part.value >= 1 for part in (divisor.left, divisor.right)
            )  # fmt: skip
            for name in () if is_positive else arrays_in(divisor):
                return name
    return None


def has_division(expression: Expression | Assumption) -> bool:
    """Returns whether there is a quotient or remainder in an expression."""
    return any(isinstance(each, Call) and each.operation in _DIVISIONS for each in _parts(expression))


def is_always_a_number(expression: Expression) -> bool:
    """Returns whether an expression is made of numbers and names, and divides by numbers above 0 alone."""
    return not any(
        isinstance(each, Elements)
        or (isinstance(each, Call) and each.operation in _DIVISIONS and not _is_positive_number(each.right))
        for each in _parts(expression)
    )


def _is_positive_number(expression: Expression) -> bool:
    return isinstance(expression, Number) and expression.value > 0


def _parts(expression: Expression | Assumption) -> Iterator[Expression | Assumption]:
    """Yields an expression and all that it is made of, from left to right."""
    yield expression
    match expression:
        case Call(_, left, right) | Comparison(_, left, right):
            yield from _parts(left)
            yield from _parts(right)
        case Joined(_, parts):
            for part in parts:
                yield from _parts(part)
        case Declared(name):
            yield Name(name)
        case Ordered(_, elements):
            yield elements
        case Points(elements, size) | AtLaunch(elements, size):
            yield elements
            yield from _parts(size)


def evaluate(expression: Expression, values: Mapping[str, int]) -> int:
    """Returns the number that a size is for these values of names. Raises `ZeroDivisionError` as Python does."""
    match expression:
        case Number(value):
            return value
        case Name(name):
            return values[name]
        case Call(operation, left, right):
            x, y = evaluate(left, values), evaluate(right, values)
            match operation:
                case "+":
                    return x + y
                case "-":
                    return x - y
                case "*":
                    return x * y
                case "//":
                    return x // y
                case "%":
                    return x % y
                case "cdiv":
                    return -(-x // y)
                case "min":
                    return min(x, y)
                case _:
                    return max(x, y)
    raise UserError(f"prove: the elements of {expression.name} have no single value")


def holds(assumption: Assumption, values: Mapping[str, int]) -> bool:
    """Returns whether an assumption holds for these values of names; one about elements of arrays counts as true."""
    match assumption:
        case Joined(by, parts):
            return (all if by == "and" else any)(holds(part, values) for part in parts)
        case Ordered() | Points() | AtLaunch() | Declared():
            return True
        case Comparison(relation, left, right):
            if any(True for _ in arrays_in(assumption)):
                return True
            x, y = evaluate(left, values), evaluate(right, values)
            return {"<": x < y, "<=": x <= y, ">": x > y, ">=": x >= y, "==": x == y, "!=": x != y}[relation]


__all__ = [
    "Assumption", "AtLaunch", "Call", "Comparison", "Declared", "Elements", "Expression", "Joined", "Name", "Number",
    "Ordered", "Points", "arrays_in", "doubtful_divisor", "evaluate", "has_division", "holds", "is_always_a_number", "names_in",
    "parse_assumption", "parse_size",
]  # fmt: skip

"""Parses the text of dim expressions, with budgets on length, depth and numbers for untrusted files."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from typing import Generic, NamedTuple, NoReturn, Protocol, Self, TypeVar

from ...promotion.errors import UserError

_TOKEN = re.compile(r"\s*(?:\d+|[A-Za-z_][A-Za-z0-9_.]*|//|\*\*|[-+*%(),])")
MAX_TEXT = 10_000
MAX_DEPTH = 64
_MAX_POWER = 64
MAX_DIGITS = 40
_MAX_BITS = 256
RESERVED = ("min", "max", "floordiv", "mod")
"""Names that no dim may have."""


class Arithmetic(Protocol):
    """A value in expressions that Python's operators combine with integers."""

    def __neg__(self) -> Self: ...
    def __mul__(self, other: Self | int, /) -> Self | int: ...
    def __rmul__(self, other: int, /) -> Self | int: ...
    def __floordiv__(self, other: Self | int, /) -> Self | int: ...
    def __rfloordiv__(self, other: int, /) -> Self | int: ...
    def __mod__(self, other: Self | int, /) -> Self | int: ...
    def __rmod__(self, other: int, /) -> Self | int: ...
    def __pow__(self, exponent: int, /) -> Self | int: ...


T = TypeVar("T", bound=Arithmetic)


class Makes(NamedTuple, Generic[T]):
    """The functions that make the values of an expression; Python's operators do the rest."""

    name: Callable[[str], T]
    total: Callable[[Iterable[T | int]], T | int]
    maximum: Callable[..., T | int]
    minimum: Callable[..., T | int]


def parse_expression(text: str, makes: Makes[T], longest: int = MAX_TEXT) -> T | int:
    """Parse an expression of names, integers, `+ - * // % **`, parentheses, `min(…)` and `max(…)`.

    Raises `UserError` for anything else, and for more than `longest` characters.
    """
    return _Parser(text, makes, longest).run()


class _Parser(Generic[T]):
    """A recursive-descent parser: sum > term > unary > primary."""

    def __init__(self, text: str, makes: Makes[T], longest: int) -> None:
        self.makes = makes
        if not isinstance(text, str) or len(text) > longest:
            raise UserError(f"a dim expression is text of at most {longest} characters, not {text!r:.60}")
        self.text = text
        self.tokens: list[str] = []
        self.position = 0
        at = 0
        end = len(text.rstrip())
        while at < end:
            match = _TOKEN.match(text, at)
            if match is None:
                self.fail(f"unexpected {text[at:].strip()[:1]!r}")
            self.tokens.append(match.group().strip())
            at = match.end()

    def fail(self, problem: str) -> NoReturn:
        raise UserError(
            f"dim expression {self.text!r}: {problem}; expected names, integers, + - * // % **, parentheses, min(), max()"
        )

    def run(self) -> T | int:
        value = self.sum(0)
        if self.position < len(self.tokens):
            self.fail(f"unexpected {self.tokens[self.position]!r}")
        return value

    def accept(self, *choices: str) -> str | None:
        if self.position < len(self.tokens) and self.tokens[self.position] in choices:
            self.position += 1
            return self.tokens[self.position - 1]
        return None

    def sum(self, depth: int) -> T | int:
        if depth > MAX_DEPTH:
            self.fail(f"nested deeper than {MAX_DEPTH}")
        terms = [self.term(depth)]
        while sign := self.accept("+", "-"):
            operand = self.term(depth)
            terms.append(operand if sign == "+" else -operand)
        return self.makes.total(terms) if len(terms) > 1 else terms[0]

    def term(self, depth: int) -> T | int:
        value = self.unary(depth)
        while sign := self.accept("*", "//", "%"):
            operand = self.unary(depth)
            if sign == "*":
                value = value * operand
            elif isinstance(operand, int) and operand == 0:
                self.fail("division by zero")
            else:
                value = value // operand if sign == "//" else value % operand
        return value

    def unary(self, depth: int) -> T | int:
        negative = False
        while self.accept("-"):
            negative = not negative
        value = self.primary(depth)
        if self.accept("**"):
            exponent = self.primary(depth)
            if not isinstance(exponent, int) or not 0 <= exponent <= _MAX_POWER:
                self.fail(f"expected an exponent from 0 to {_MAX_POWER}, not {exponent}")
            if isinstance(value, int) and value.bit_length() * exponent > _MAX_BITS:
                self.fail(f"a power of more than {_MAX_BITS} bits")
            value = value**exponent
        return -value if negative else value

    def primary(self, depth: int) -> T | int:
        if self.accept("("):
            value = self.sum(depth + 1)
            self.close()
            return value
        if self.position == len(self.tokens):
            self.fail("it ends early")
        token = self.tokens[self.position]
        self.position += 1
        if token.isdigit():
            if len(token) > MAX_DIGITS:
                self.fail(f"an integer of more than {MAX_DIGITS} digits")
            return int(token)
        if token in ("min", "max"):
            if not self.accept("("):
                self.fail(f"expected ( after {token}")
            values = [self.sum(depth + 1)]
            while self.accept(","):
                values.append(self.sum(depth + 1))
            self.close()
            return self.makes.maximum(*values) if token == "max" else self.makes.minimum(*values)
        if not (token[0].isalpha() or token[0] == "_") or token in RESERVED:
            self.fail(f"unexpected {token!r}")
        return self.makes.name(token)

    def close(self) -> None:
        if not self.accept(")"):
            self.fail("expected )")

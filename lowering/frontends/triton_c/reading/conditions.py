"""Evaluates the integer conditions of `#if`, in 64 bits as C does."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

from .source import CHARACTER, NAME, NUMBER, Token

_MAX_NESTED = 60
_INTEGER = re.compile(r"(0[xX][0-9a-fA-F]+|[0-9]+)([uU]?[lL]{0,2}|[lL]{1,2}[uU])")
_LEVELS = (
    ("||",), ("&&",), ("|",), ("^",), ("&",), ("==", "!="), ("<", ">", "<=", ">="), ("<<", ">>"), ("+", "-"), ("*", "/", "%"),
)  # fmt: skip
_LEVEL = {operator: level for level, operators in enumerate(_LEVELS) for operator in operators}
_ESCAPES = {"n": 10, "t": 9, "r": 13, "0": 0, "a": 7, "b": 8, "f": 12, "v": 11, "\\": 92, "'": 39, '"': 34, "?": 63}


class ConditionError(Exception):
    """A condition cannot be evaluated.

    Attributes:
        token: where it is wrong; None for its end.
    """

    def __init__(self, message: str, token: Token | None) -> None:
        super().__init__(message)
        self.token = token


def evaluate(tokens: Sequence[Token]) -> int:
    """Return the value of a condition whose macros are expanded; names that are left are 0. Raises `ConditionError`."""
    reader = _Reader(tokens)
    value = reader.conditional(0, True)
    if reader.at < len(tokens):
        raise ConditionError(f"{tokens[reader.at].text} behind the condition", tokens[reader.at])
    return value


def integer_literal(text: str) -> tuple[int, str] | None:
    """Return value and suffix (lower case) of a decimal, octal or hexadecimal integer; None for anything else."""
    match = _INTEGER.fullmatch(text)
    if match is None:
        return None
    digits, suffix = match.groups()
    if digits[0] == "0" and digits[1:].isdigit():
        if set(digits) & {"8", "9"}:
            return None
        return int(digits, 8), suffix.lower()
    return int(digits, 0), suffix.lower()


def character_value(text: str) -> int | None:
    """Return the value of a character constant, quotes included; None for one that is not a single character."""
    inner = text[1:-1]
    if inner.startswith("\\"):
        code = inner[1:]
        if code[:1] == "x":
            return int(code[1:], 16) & 255 if re.fullmatch(r"x[0-9a-fA-F]{1,2}", code) else None
        if re.fullmatch(r"[0-7]{1,3}", code):
            return int(code, 8) & 255
        return _ESCAPES.get(code)
    return ord(inner) if len(inner) == 1 and ord(inner) < 128 else None


class _Reader:
    """Reads one condition from the left. `is_live`: whether its value counts, so that a division by 0 is an error."""

    def __init__(self, tokens: Sequence[Token]) -> None:
        self.tokens = tokens
        self.at = 0
        self.depth = 0

    def text(self) -> str:
        return self.tokens[self.at].text if self.at < len(self.tokens) else ""

    def fail(self, message: str) -> ConditionError:
        return ConditionError(message, self.tokens[self.at] if self.at < len(self.tokens) else None)

    def conditional(self, level: int, is_live: bool) -> int:
        self.depth += 1
        if self.depth > _MAX_NESTED:
            raise self.fail("the condition is nested too deeply")
        value = self.binary(level, is_live)
        if level == 0 and self.text() == "?":
            self.at += 1
            first = self.conditional(0, is_live and value != 0)
            self.expect(":")
            second = self.conditional(0, is_live and value == 0)
            value = first if value else second
        self.depth -= 1
        return value

    def expect(self, text: str) -> None:
        if self.text() != text:
            raise self.fail(f"expected {text}")
        self.at += 1

    def binary(self, level: int, is_live: bool) -> int:
        value = self.unary(is_live)
        while (found := _LEVEL.get(self.text(), -1)) >= level:
            operator = self.tokens[self.at]
            self.at += 1
            needed = is_live and not (operator.text == "||" and value) and not (operator.text == "&&" and not value)
            self.depth += 1
            right = self.binary(found + 1, needed)
            self.depth -= 1
            if operator.text in ("/", "%") and right == 0:
                if needed:
                    raise ConditionError("a division by zero", operator)
                right = 1
            value = _wrapped(_OPERATIONS[operator.text](value, right))
        return value

    def unary(self, is_live: bool) -> int:
        signs = []
        while self.text() in ("-", "+", "!", "~"):
            signs.append(self.text())
            self.at += 1
        value = self.primary(is_live)
        for sign in reversed(signs):
            value = {"-": -value, "+": value, "!": int(not value), "~": ~value}[sign]
        return _wrapped(value)

    def primary(self, is_live: bool) -> int:
        if self.at >= len(self.tokens):
            raise self.fail("the condition is not complete")
        token = self.tokens[self.at]
        if token.text == "(":
            self.at += 1
            value = self.conditional(0, is_live)
            self.expect(")")
            return value
        self.at += 1
        if token.kind is NAME:
            return int(token.text == "true")
        if token.kind is NUMBER:
            found = integer_literal(token.text)
            if found is None:
                raise ConditionError(f"{token.text} is no integer", token)
            return _wrapped(found[0])
        if token.kind is CHARACTER:
            value_ = character_value(token.text)
            if value_ is not None:
                return value_
        raise ConditionError(f"{token.text} in a condition", token)


def _wrapped(value: int) -> int:
    return ((value + (1 << 63)) & ((1 << 64) - 1)) - (1 << 63)


def quotient(a: int, b: int) -> int:
    """Divide as C does, towards zero."""
    found = abs(a) // abs(b)
    return found if (a < 0) == (b < 0) else -found


_OPERATIONS: dict[str, Callable[[int, int], int]] = {
    "||": lambda a, b: int(bool(a or b)), "&&": lambda a, b: int(bool(a and b)), "|": lambda a, b: a | b,
    "^": lambda a, b: a ^ b, "&": lambda a, b: a & b, "==": lambda a, b: int(a == b), "!=": lambda a, b: int(a != b),
    "<": lambda a, b: int(a < b), ">": lambda a, b: int(a > b), "<=": lambda a, b: int(a <= b), ">=": lambda a, b: int(a >= b),
    "<<": lambda a, b: a << (b & 63), ">>": lambda a, b: a >> (b & 63), "+": lambda a, b: a + b, "-": lambda a, b: a - b,
    "*": lambda a, b: a * b, "/": quotient, "%": lambda a, b: a - b * quotient(a, b),
}  # fmt: skip


__all__ = ["ConditionError", "character_value", "evaluate", "integer_literal", "quotient"]

"""Evaluates the integer conditions of `#if`, in 64 bits as C does: signed, or unsigned where an operand is."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

from .....promotion.dataclass import dataclass
from .source import CHARACTER, NAME, NUMBER, Token

_MAX_NESTED = 60
_INTEGER = re.compile(r"(0[xX][0-9a-fA-F]+|[0-9]+)([uU]?[lL]{0,2}|[lL]{1,2}[uU])")
_LEVELS = (
    ("||",), ("&&",), ("|",), ("^",), ("&",), ("==", "!="), ("<", ">", "<=", ">="), ("<<", ">>"), ("+", "-"), ("*", "/", "%"),
)  # fmt: skip
_LEVEL = {operator: level for level, operators in enumerate(_LEVELS) for operator in operators}
_ALL, _LARGEST = (1 << 64) - 1, (1 << 63) - 1
_TRUTHS = frozenset(["||", "&&", "==", "!=", "<", ">", "<=", ">="])
"""Operators whose results are 0 or 1, and signed."""
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
    return value.number


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
    """Return the value of a character constant, quotes included; None for one that is not a single character.

    Characters have a sign: that of '\\377' is -1.
    """
    inner = text[1:-1]
    if inner.startswith("\\"):
        code = inner[1:]
        if code[:1] == "x":
            return _signed(int(code[1:], 16)) if re.fullmatch(r"x[0-9a-fA-F]{1,2}", code) else None
        if re.fullmatch(r"[0-7]{1,3}", code):
            return _signed(int(code, 8))
        return _ESCAPES.get(code)
    return ord(inner) if len(inner) == 1 and ord(inner) < 128 else None


def _signed(code: int) -> int:
    """Return the number that the lowest 8 bits are as a char."""
    return ((code & 255) ^ 128) - 128


@dataclass(frozen=True, slots=True)
class _Value:
    """An integer of 64 bits: intmax_t or uintmax_t."""

    number: int
    is_unsigned: bool = False

    @classmethod
    def of(cls, number: int, is_unsigned: bool) -> _Value:
        """Return any integer as 64 bits hold it."""
        number &= _ALL
        return cls(number if is_unsigned or number <= _LARGEST else number - _ALL - 1, is_unsigned)

    def __bool__(self) -> bool:
        return self.number != 0


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

    def conditional(self, level: int, is_live: bool) -> _Value:
        self.depth += 1
        if self.depth > _MAX_NESTED:
            raise self.fail("the condition is nested too deeply")
        value = self.binary(level, is_live)
        if level == 0 and self.text() == "?":
            self.at += 1
            first = self.conditional(0, is_live and bool(value))
            self.expect(":")
            second = self.conditional(0, is_live and not value)
            chosen = first if value else second
            value = _Value.of(chosen.number, first.is_unsigned or second.is_unsigned)
        self.depth -= 1
        return value

    def expect(self, text: str) -> None:
        if self.text() != text:
            raise self.fail(f"expected {text}")
        self.at += 1

    def binary(self, level: int, is_live: bool) -> _Value:
        value = self.unary(is_live)
        while (found := _LEVEL.get(self.text(), -1)) >= level:
            operator = self.tokens[self.at]
            self.at += 1
            needed = is_live and not (operator.text == "||" and value) and not (operator.text == "&&" and not value)
            self.depth += 1
            right = self.binary(found + 1, needed)
            self.depth -= 1
            if operator.text in ("/", "%") and not right:
                if needed:
                    raise ConditionError("a division by zero", operator)
                right = _Value(1)
            value = _operated(operator.text, value, right)
        return value

    def unary(self, is_live: bool) -> _Value:
        signs = []
        while self.text() in ("-", "+", "!", "~"):
            signs.append(self.text())
            self.at += 1
        value = self.primary(is_live)
        for sign in reversed(signs):
            if sign == "!":
                value = _Value(int(not value))
            else:
                number = {"-": -value.number, "+": value.number, "~": ~value.number}[sign]
                value = _Value.of(number, value.is_unsigned)
        return value

    def primary(self, is_live: bool) -> _Value:
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
            return _Value(int(token.text == "true"))
        if token.kind is NUMBER:
            found = integer_literal(token.text)
            if found is None:
                raise ConditionError(f"{token.text} is no integer", token)
            number, suffix = found
            if number > _ALL:
                raise ConditionError(f"{token.text} does not fit into 64 bits", token)
            return _Value(number, "u" in suffix or number > _LARGEST)
        if token.kind is CHARACTER:
            code = character_value(token.text)
            if code is not None:
                return _Value(code)
        raise ConditionError(f"{token.text} in a condition", token)


def _operated(operator: str, left: _Value, right: _Value) -> _Value:
    """Return the result of a binary operator: of the left operand's type for shifts, unsigned if any operand is for others."""
    is_unsigned = left.is_unsigned
    if operator not in ("<<", ">>", "&&", "||"):
        is_unsigned = is_unsigned or right.is_unsigned
        left, right = _Value.of(left.number, is_unsigned), _Value.of(right.number, is_unsigned)
    return _Value.of(_OPERATIONS[operator](left.number, right.number), is_unsigned and operator not in _TRUTHS)


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

"""Parses PTX statements: tokens to syntax tree, registers resolved per scope.

The input is a list of statements as a function body or an inline assembly text holds it. Texts are untrusted: their length,
statements and nesting are limited, and nothing here recurses deeper than `MAX_DEPTH`.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping
from typing import NoReturn

from ...promotion.errors import UserError
from .lexer import Token, tokens_of
from .syntax import (
    Address,
    Body,
    Directive,
    Float,
    Group,
    Instruction,
    Integer,
    Label,
    Name,
    Operand,
    Pair,
    Register,
    Scope,
    Sink,
    Special,
    Statement,
    Vector,
)

MAX_DEPTH = 32
"""The deepest nesting of scopes, and of vectors in operands."""

MAX_STATEMENTS = 20_000
MAX_OPERANDS = 512
REGISTER_TYPES = frozenset(
    "pred b8 b16 b32 b64 b128 u8 u16 u32 u64 s8 s16 s32 s64 f16 f16x2 f32 f64".split()  # noqa: SIM905
)


def parse_body(text: str, outer: Mapping[str, str] | None = None) -> Body:
    """Parses statements.

    Args:
        text: PTX statements.
        outer: registers declared outside: spelling -> type. They keep their spelling.

    Raises `UserError` naming the line for text that is no PTX.
    """
    return StatementParser(tokens_of(text), outer or {}).body()


class RegisterNames:
    """The registers that one scope declares: single ones, and families `%r<N>`."""

    def __init__(self, mark: str) -> None:
        self.mark = mark
        self.single: dict[str, str] = {}
        self.families: dict[str, tuple[int, str]] = {}

    def find(self, name: str) -> str | None:
        """Returns the type of a register of this scope, or None."""
        if name in self.single:
            return self.single[name]
        digits = len(name) - len(name.rstrip("0123456789"))
        for cut in range(1, min(digits, 9) + 1):
            family = self.families.get(name[:-cut])
            number = name[-cut:]
            if family is not None and (cut == 1 or number[0] != "0") and int(number) < family[0]:
                return family[1]
        return None


class StatementParser:
    """Reads statements from tokens; `module_parser` reads whole modules with it."""

    max_statements = MAX_STATEMENTS

    def __init__(self, tokens: list[Token], outer: Mapping[str, str]) -> None:
        self.tokens = tokens
        self.at = 0
        self.count = 0
        top = RegisterNames("")
        top.single.update(outer)
        self.scopes = [top]
        self.scope_count = 0
        self.registers: dict[str, str] = dict(outer)

    # -- tokens

    @property
    def token(self) -> Token:
        return self.tokens[self.at]

    def take(self) -> Token:
        token = self.token
        if token.kind != "end":
            self.at += 1
        return token

    def optional(self, mark: str) -> bool:
        if self.token.kind == "mark" and self.token.text == mark:
            self.at += 1
            return True
        return False

    def expect(self, mark: str, where: str) -> None:
        if not self.optional(mark):
            self.fail(f"expected {mark!r} {where}, found {self.token.text or 'the end'!r}")

    def fail(self, problem: str) -> NoReturn:
        raise UserError(f"PTX line {self.token.line}: {problem}")

    def counted(self) -> None:
        self.count += 1
        if self.count > self.max_statements:
            self.fail(f"more than {self.max_statements} statements")

    # -- statements

    def body(self) -> Body:
        """Reads all statements up to the end. Scopes are kept on a list, not on Python's stack."""
        open_scopes: list[list[Statement]] = [[]]
        while self.token.kind != "end":
            if self.optional("{"):
                self.counted()
                if len(open_scopes) > MAX_DEPTH:
                    self.fail(f"scopes are nested deeper than {MAX_DEPTH}")
                open_scopes.append([])
                self.scope_count += 1
                self.scopes.append(RegisterNames(f"#{self.scope_count}"))
            elif self.optional("}"):
                if len(open_scopes) == 1:
                    self.fail("'}' without '{'")
                inner = open_scopes.pop()
                self.scopes.pop()
                open_scopes[-1].append(Scope(tuple(inner)))
            elif not self.optional(";"):
                self.counted()
                statement = self.statement()
                if statement is not None:
                    open_scopes[-1].append(statement)
        if len(open_scopes) > 1:
            self.fail("'{' without '}'")
        return Body(tuple(open_scopes[0]), self.registers)

    def statement(self) -> Statement | None:
        token = self.token
        if token.kind == "dotted":
            return self.directive()
        following = self.tokens[min(self.at + 1, len(self.tokens) - 1)]
        if token.kind == "name" and following.text == ":":
            self.at += 2
            return Label(token.text, token.line)
        guard = self.guard() if self.optional("@") else None
        return self.instruction(guard)

    def guard(self) -> Register:
        negated = self.optional("!")
        token = self.take()
        found = self.resolve(token.text) if token.kind == "name" else None
        if not isinstance(found, Register) or self.registers[found.name] != "pred":
            self.at -= 1
            self.fail(f"a guard must be a declared predicate, found {token.text!r}")
        return Register(found.name, negated)

    def instruction(self, guard: Register | None) -> Instruction:
        token = self.take()
        if token.kind != "name":
            self.at -= token.kind != "end"
            self.fail(f"expected an instruction, found {token.text or 'the end'!r}")
        modifiers: list[str] = []
        end = token.end
        while self.token.kind == "dotted" and self.token.start == end:
            end = self.token.end
            modifiers.append(self.take().text[1:])
        operands: list[Operand] = []
        if not self.optional(";"):
            operands.append(self.operand(0))
            while self.optional(","):
                operands.append(self.operand(0))
                if len(operands) > MAX_OPERANDS:
                    self.fail(f"more than {MAX_OPERANDS} operands")
            self.expect(";", f"at the end of {'.'.join([token.text, *modifiers])}")
        return Instruction(token.text, tuple(modifiers), tuple(operands), guard, token.line)

    def directive(self) -> Directive | None:
        token = self.take()
        if token.text == ".reg":
            self.declaration()
            return None
        if token.text == ".loc":
            while self.token.kind in ("integer", "mark") and self.token.text not in "{};@":
                self.take()
            return None
        names = [token.text]
        while not self.optional(";"):
            if self.token.kind == "end" or self.token.text in ("{", "}"):
                self.fail(f"the directive {token.text} does not end with ';'")
            names.append(self.take().text)
        return None if token.text == ".pragma" else Directive(tuple(names), token.line)

    def declaration(self) -> None:
        token = self.take()
        type_ = token.text[1:]
        if token.kind != "dotted" or type_ not in REGISTER_TYPES:
            self.at -= 1
            self.fail(f"{token.text!r} is no register type: {', '.join(sorted(REGISTER_TYPES))}")
        scope = self.scopes[-1]
        while True:
            self.counted()
            name = self.take()
            if name.kind != "name":
                self.at -= name.kind != "end"
                self.fail(f"expected a register name, found {name.text or 'the end'!r}")
            family = self.optional("<")  # a and a<2> are different names
            if name.text in (scope.families if family else scope.single) or name.text == "_":
                self.fail(f"register {name.text} is declared twice")
            if family:
                number = self.take()
                if number.kind != "integer" or not number.text.isdigit() or len(number.text) > 9:
                    self.fail(f"{name.text}<{number.text}>: expected how many registers")
                self.expect(">", f"after {name.text}<{number.text}")
                scope.families[name.text] = (int(number.text), type_)
            else:
                scope.single[name.text] = type_
            if not self.optional(","):
                break
        self.expect(";", "at the end of .reg")

    # -- operands

    def resolve(self, name: str) -> Operand:
        for scope in reversed(self.scopes):
            type_ = scope.find(name)
            if type_ is not None:
                unique = name + scope.mark
                self.registers[unique] = type_
                return Register(unique)
        return Name(name)

    def operand(self, depth: int) -> Operand:
        first = self.atom(depth)
        if self.optional("|"):
            return Pair(first, self.atom(depth))
        return first

    def elements(self, depth: int, closing: str) -> tuple[Operand, ...]:
        if depth > MAX_DEPTH:
            self.fail(f"operands are nested deeper than {MAX_DEPTH}")
        found: list[Operand] = []
        if self.optional(closing):
            return ()
        while True:
            found.append(self.operand(depth + 1))
            if len(found) > MAX_OPERANDS:
                self.fail(f"more than {MAX_OPERANDS} elements")
            if not self.optional(","):
                break
        self.expect(closing, "after the elements")
        return tuple(found)

    def atom(self, depth: int) -> Operand:
        token = self.take()
        match token.kind, token.text:
            case "name", "_":
                return Sink()
            case "name", text:
                following = self.token
                if text.startswith("%") and following.kind == "dotted" and following.start == token.end:
                    self.take()
                    return Special(text + following.text)
                found = self.resolve(text)
                return Special(text) if text.startswith("%") and isinstance(found, Name) else found
            case "mark", "!":
                inner = self.atom(depth) if self.token.kind == "name" else None
                if not isinstance(inner, Register):
                    self.fail("'!' stands before a predicate register")
                return Register(inner.name, True)
            case "mark", "{":
                return Vector(self.elements(depth, "}"))
            case "mark", "(":
                return Group(self.elements(depth, ")"))
            case "mark", "[":
                return self.address(depth)
            case "mark", ("-" | "+") as sign:
                if self.token.kind not in ("integer", "decimal", "bits"):
                    self.fail(f"{sign!r} stands before a number")
                value = self.number(self.take())
                return value if sign == "+" else _negated(value)
            case ("integer" | "decimal" | "bits"), _:
                return self.number(token)
        self.at -= token.kind != "end"
        self.fail(f"expected an operand, found {token.text or 'the end'!r}")

    def number(self, token: Token) -> Integer | Float:
        text = token.text
        if token.kind == "bits":
            return Float(int(text[2:], 16), 32 if text[1] in "fF" else 64)
        if token.kind == "decimal":
            return Float(struct.unpack("<Q", struct.pack("<d", float(text)))[0], 64)
        text = text.rstrip("U")
        if len(text) > 70:
            self.fail("an integer literal is too long")
        if text[:2] in ("0x", "0X", "0b", "0B"):
            return Integer(int(text, 0))
        octal = len(text) > 1 and text[0] == "0"
        if octal and not set(text) <= set("01234567"):
            self.fail(f"{text} is no octal number")
        return Integer(int(text, 8 if octal else 10))

    def address(self, depth: int) -> Address:
        if depth > MAX_DEPTH:
            self.fail(f"operands are nested deeper than {MAX_DEPTH}")
        base = self.atom(depth + 1)
        offset = 0
        while self.token.text in ("+", "-") and self.token.kind == "mark":
            sign = -1 if self.take().text == "-" else 1
            if self.optional("-"):
                sign = -sign
            token = self.take()
            value = self.number(token) if token.kind == "integer" else None
            if not isinstance(value, Integer):
                self.fail("expected an offset in an address")
            offset += sign * value.value
        parts: list[Operand] = []
        while self.optional(","):
            parts.append(self.operand(depth + 1))
        self.expect("]", "at the end of an address")
        return Address(base, offset, tuple(parts))


def _negated(value: Integer | Float) -> Integer | Float:
    return Integer(-value.value) if isinstance(value, Integer) else Float(value.bits ^ (1 << (value.width - 1)), value.width)

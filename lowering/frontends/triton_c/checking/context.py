"""Holds what the checker knows while it goes through a text: scopes, functions, what evaluations do with variables."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from .....promotion.errors import close_names
from ..reading.diagnostics import Diagnostics
from ..reading.source import Token
from ..syntax import tree
from ..types import (
    MAX_ELEMENTS,
    MAX_POINTERS,
    MAX_RANK,
    SCALARS,
    VOID,
    Element,
    Pointer,
    Scalar,
    Type,
    pointer_to,
    type_of,
)
from . import typed
from .conversions import Conversions

Entry = typed.Symbol | typed.Constant | Type
"""What a name stands for: a variable, a constant of an enum, a typedef's type."""


class Context(Conversions, ABC):
    """The state of the checker, and what names and types mean in it.

    Attributes:
        scopes: from the outermost on, name → what it stands for; None for a variable whose declaration has an error.
        single: whether floating constants without a suffix are float, not double.
        work: expressions that are checked in the function at hand, with those of the functions that it calls.
        arms: how many arms of conditionals with blocks of conditions the checker is in.
    """

    def __init__(self, diagnostics: Diagnostics, single: bool) -> None:
        super().__init__(diagnostics)
        self.scopes: list[dict[str, Entry | None]] = [{}]
        self.single = single
        self.arms = 0
        self._events: list[tuple[typed.Symbol, str]] = []
        self._uncertain = 0
        self._temporaries = 0
        self.work = 0

    @abstractmethod
    def check(self, expression: tree.Expression) -> typed.Expression:
        """Return the typed tree of an expression. Raises `CheckAbort` behind an error."""

    @property
    @abstractmethod
    def known_functions(self) -> Mapping[str, object]:
        """Names that can be called."""

    # Variables

    def read(self, symbol: typed.Symbol, token: Token) -> typed.Expression:
        self._events.append((symbol, "read"))
        return typed.Variable(symbol.type, token, symbol)

    def written(self, symbol: typed.Symbol) -> None:
        self._events.append((symbol, "may write" if self._uncertain else "write"))

    def temporary(self, value: typed.Expression, parts: list[typed.Expression]) -> typed.Expression:
        """Keep a value in a variable of its own, so that it is evaluated once, and return its use."""
        self._temporaries += 1
        symbol = typed.Symbol(f"temporary {self._temporaries}", value.type, value.token)
        parts.append(typed.Assign(value.type, value.token, symbol, value))
        self._events.append((symbol, "write"))
        return self.read(symbol, value.token)

    @contextmanager
    def uncertain(self, is_block: bool = False) -> Iterator[set[typed.Symbol]]:
        """Check what may not be evaluated; gives the variables that it assigns. is_block: lanes are masked instead."""
        begin = len(self._events)
        writes: set[typed.Symbol] = set()
        self._uncertain += 1
        self.arms += is_block
        try:
            yield writes
        finally:
            self._uncertain -= 1
            self.arms -= is_block
        writes.update(symbol for symbol, what in self._events[begin:] if what != "read")

    def take_events(self) -> typed.Events:
        """Return what happened to variables since the last call."""
        found = tuple(self._events)
        self._events.clear()
        return found

    def look_up(self, token: Token) -> Entry | None:
        """Return what a name stands for; an error if nothing."""
        name = token.text
        for scope in reversed(self.scopes):
            if name in scope:
                return scope[name]
        known = {each for scope in self.scopes for each in scope} | set(self.known_functions)
        close = close_names(name, known)
        fix = f"did you mean {' or '.join(close)}?" if close else ""
        if name.isupper() and not close:
            fix = f"missing define? defines={{{name!r}: …}}"
        self.fail(token, f"{name} is not declared", fix)

    def declare(self, token: Token, entry: Entry | None) -> None:
        """Give a name of the current scope its meaning."""
        if self.scopes[-1].get(token.text) is not None:
            self.diagnostics.error(token, f"{token.text} is declared twice in this scope", "another name, or an assignment")
        self.scopes[-1][token.text] = entry

    @contextmanager
    def scope(self) -> Iterator[None]:
        self.scopes.append({})
        try:
            yield
        finally:
            self.scopes.pop()

    # Constants and types

    def constant(self, expression: tree.Expression, what: str) -> int:
        """Return the value of a constant integer expression. Raises `CheckAbort` for other expressions."""
        found = self.check(expression)
        if isinstance(found, typed.Constant) and isinstance(found.value, int):
            return found.value
        fix = "numbers, macros of numbers, sizeof, constants of an enum"
        self.fail(first_token(expression), f"{what} is no constant integer", fix)

    def resolve(self, name: tree.TypeName, is_value: bool = True) -> Type:
        """Return the type that a name of a type means. is_value: void is an error."""
        element: Element
        shape: tuple[int, ...] = ()
        scalar = SCALARS.get(name.base)
        if scalar is not None:
            element = scalar
        else:
            found = self.look_up(name.token)
            if not isinstance(found, Type):
                self.fail(name.token, f"{name.base} is no type")
            element, shape = found.element, found.shape
        if shape and (len(name.constant) > 1 or name.shape):
            self.fail(name.token, f"{name.base} is a block: there are no pointers to blocks, and no blocks of blocks")
        for is_constant in name.constant[:-1]:
            element = pointer_to(element, is_constant)
        depth, pointee = 0, element
        while isinstance(pointee, Pointer):
            depth, pointee = depth + 1, pointee.pointee
        if depth > MAX_POINTERS:
            self.fail(name.token, f"{depth} pointers to one another; at most {MAX_POINTERS} are possible")
        if name.shape is not None:
            shape = self.shape(name.shape)
        if is_value and element == VOID:
            self.fail(name.token, "void is no type of values", "void* for an address")
        return type_of(element, shape)

    def shape(self, extents: tuple[tree.Expression, ...]) -> tuple[int, ...]:
        """Return the shape of a block, whose extents are powers of two."""
        if len(extents) > MAX_RANK:
            self.fail(first_token(extents[0]), f"a block with {len(extents)} axes; at most {MAX_RANK} are possible")
        found = tuple(self.constant(each, "the extent of a block") for each in extents)
        count = 1
        for extent, expression in zip(found, extents, strict=True):
            count *= max(extent, 1)
            if extent < 1 or extent & (extent - 1):
                message = f"the extent {extent} of a block is no power of two{macro_values(expression)}"
                fix = f"{1 << max(extent - 1, 0).bit_length()}, and a mask" if extent > 0 else "1, 2, 4, 8, …"
                self.fail(first_token(expression), message, fix)
        if count > MAX_ELEMENTS:
            values = "".join(macro_values(each) for each in extents)
            self.fail(first_token(extents[0]), f"a block of {count} elements{values}; at most {MAX_ELEMENTS} are possible")
        return found

    def pointee(self, value: typed.Expression, token: Token) -> Scalar | Pointer:
        """Return what a value points to. Anything but a pointer to values is an error."""
        element = value.type.element
        if not isinstance(element, Pointer):
            self.fail(token, f"a value of type {value.type} is dereferenced, which is no pointer")
        if element.pointee == VOID:
            self.fail(token, "void* is dereferenced", "a cast, as in (float*)p")
        return element.pointee


def first_token(expression: tree.Expression) -> Token:
    """Return the token at which an expression begins."""
    while isinstance(expression, tree.Binary):
        expression = expression.left
    return expression.token


def macro_values(expression: tree.Expression) -> str:
    """Return the macros that an expression is made of with their values, as in ` (TM = 48)`; "" if there are none."""
    values: dict[str, str] = {}
    waiting = [expression]
    while waiting:
        each = waiting.pop()
        uses = each.token.uses
        if uses and isinstance(each, tree.Literal):
            values.setdefault(uses[-1].text, each.token.text)
        for part in (getattr(each, name, None) for name in ("left", "right", "operand", "condition", "first", "second")):
            if isinstance(part, tree.Expression):
                waiting.append(part)
    return f" ({', '.join(f'{name} = {value}' for name, value in sorted(values.items()))})" if values else ""


__all__ = ["Context", "Entry", "first_token", "macro_values"]

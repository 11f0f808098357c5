"""Holds what the checker knows while it goes through a text: scopes, functions, what evaluations do with variables."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager

from .....promotion.dataclass import dataclass
from .....promotion.errors import close_names
from ..reading.conditions import ConditionError, evaluate
from ..reading.diagnostics import Diagnostics
from ..reading.source import NAME, MacroUse, Token
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
    Struct,
    Type,
    leaves_of,
    pointer_to,
    type_of,
)
from . import typed
from .conversions import CheckAbort, Conversions

OLD_FUNCTIONS = {
    "get_global_range": "get_program_id(axis) * T + 0 ... T", "get_range_id": "get_program_id(axis)",
    "__sum": "v[+], or v[:, +] of an axis",
}  # fmt: skip
"""Functions of the dialect of early 2019, and what is said now."""
MAX_WORK = 1 << 17
"""Expressions of a kernel with those of all calls, which are inlined: functions that call one another twice double them."""
_MAX_VALUES = 8
"""Macros whose values a message has."""
_MAX_USES = 64
"""Uses of macros that are looked at for them."""
_MAX_VALUE = 256
"""Tokens and uses of macros that a value consists of."""


@dataclass(frozen=True, slots=True)
class Announced:
    """What `struct name;` stands for until it is defined, and a typedef of it.

    Attributes:
        type: what the typedef means; None for the struct itself.
        scopes: how many scopes there are where it is declared, in which its definition is looked for.
    """

    type: tree.TypeName | None = None
    scopes: int = 0


class Tentative:
    """What a constant outside of functions is, which is declared, until its definition gives it a value.

    Attributes:
        node: the first of its declarations.
        type, shape: what they all say, of a table the type of an element; shape: None for what is no table.
    """

    __slots__ = ("node", "shape", "type")

    def __init__(self, node: tree.Declarator, type_: Type, shape: tuple[int, ...] | None) -> None:
        self.node = node
        self.type = type_
        self.shape = shape


Entry = typed.Symbol | typed.Aggregate | typed.Table | typed.Constant | typed.Record | Type | Announced | Tentative
"""What a name stands for: a variable, constant memory, a constant of an enum, the type of a typedef or of `struct name`."""


class Context(Conversions, ABC):
    """The state of the checker, and what names and types mean in it.

    Attributes:
        scopes: from the outermost on, name → what it stands for; None for a variable whose declaration has an error.
        single: whether floating constants without a suffix are float, not double.
        work: expressions that are checked in the function at hand, with those of the functions that it calls.
        arms: how many arms of conditionals with blocks of conditions the checker is in.
        tables: the constant memory that the function at hand reads, in order.
    """

    def __init__(self, diagnostics: Diagnostics, single: bool, tokens: Sequence[Token]) -> None:
        super().__init__(diagnostics)
        self._tokens = tokens
        self.scopes: list[dict[str, Entry | None]] = [{}]
        self.single = single
        self.arms = 0
        self.tables: dict[typed.Table, None] = {}
        self._events: list[tuple[typed.Symbol, str]] = []
        self._uncertain = 0
        self._temporaries = 0
        self._expanded: dict[MacroUse | None, list[tuple[int, Token | MacroUse]]] | None = None
        self._undeclared: set[str] = set()
        self.work = 0

    def spend(self, token: Token, count: int) -> None:
        """Count expressions that are made for one of the text: a struct is one for each number that it consists of."""
        self.work += count
        if self.work > MAX_WORK:
            message = f"the function has more than {MAX_WORK} expressions, with what it calls and the members of structs"
            self.diagnostics.fatal(token, message, "fewer calls of functions that call others, or smaller structs")

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
        symbol = self.temporary_symbol(value.type, value.token)
        parts.append(typed.Assign(value.type, value.token, symbol, value))
        return self.read(symbol, value.token)

    def temporary_symbol(self, type_: Type, token: Token) -> typed.Symbol:
        """Return a variable that nothing else assigns to than what is evaluated next."""
        self._temporaries += 1
        symbol = typed.Symbol(f"temporary {self._temporaries}", type_, token)
        self._events.append((symbol, "write"))
        return symbol

    def is_read(self, symbol: typed.Symbol) -> bool:
        """Return whether what is evaluated at present reads a variable."""
        return (symbol, "read") in self._events

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
                found = scope[name]
                if isinstance(found, Tentative):
                    self.fail(token, f"{name} has no value yet", "its definition before this use")
                return found
        if name in self.known_functions:
            self.fail(token, f"{name} is not declared as a variable, and is a function", f"{name}(…)")
        if name in OLD_FUNCTIONS:
            self.fail(token, f"{name} is of the dialect of early 2019, another language", OLD_FUNCTIONS[name])
        declared = [(each, entry) for scope in self.scopes for each, entry in scope.items() if " " not in each]
        known = {each for each, entry in declared if entry is not None or each not in self._undeclared}
        known |= set(self.known_functions)
        close = close_names(name, known)
        fix = f"did you mean {' or '.join(close)}?" if close else ""
        if name.isupper() and not close:
            fix = f"missing define? defines={{{name!r}: …}}"
        self._undeclared.add(name)
        self.scopes[min(1, len(self.scopes) - 1)].setdefault(name, None)  # other uses in the function say no more
        self.fail(token, f"{name} is not declared", fix)

    def declare(self, token: Token, entry: Entry | None, name: str = "") -> None:
        """Give a name of the current scope its meaning. `name`: where it is not the token alone, as in `struct point`."""
        name = name or token.text
        if not isinstance(self.scopes[-1].get(name), Announced | None):
            self.diagnostics.error(token, f"{name} is declared twice in this scope", "another name, or an assignment")
        self.scopes[-1][name] = entry

    @contextmanager
    def scope(self) -> Iterator[None]:
        self.scopes.append({})
        try:
            yield
        finally:
            self.scopes.pop()

    @contextmanager
    def reported(self) -> Iterator[list[bool]]:
        """Go on behind an error; gives a list that is not empty then."""
        failed: list[bool] = []
        try:
            yield failed
        except CheckAbort:
            self.take_events()
            failed.append(True)

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
        if isinstance(name.definition, tree.Enumeration):
            self.define_once(name.definition)
        if scalar is not None:
            element = scalar
        elif name.definition is not None or " " in name.base:
            element = self._structure(name)
        else:
            found = self._completed(self.look_up(name.token))
            if not isinstance(found, Type):
                self.fail(name.token, f"{name.base} is no type")
            element, shape = found.element, found.shape
        if shape and (len(name.constant) > 1 or name.shape):
            self.fail(name.token, f"{name.base} is a block: there are no pointers to blocks, and no blocks of blocks")
        if isinstance(element, Struct):
            if len(name.constant) > 1:
                fix = "a variable or parameter of the type itself, or one pointer for each member"
                self.fail(name.token, f"a pointer to {element}, which has no place in memory", fix)
            if name.shape and any(leaf.shape for _, leaf in leaves_of(type_of(element))):
                self.fail(name.token, f"a block of {element}, which has blocks for members", "blocks in the struct alone")
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

    def _completed(self, entry: Entry | None) -> Entry:
        """Return the type that a typedef of `struct name` means, which is defined behind it; other entries as they are."""
        if entry is None:
            self.abort()
        if not isinstance(entry, Announced) or entry.type is None:
            return entry
        inner, self.scopes = self.scopes, self.scopes[: entry.scopes]
        try:
            return self.resolve(entry.type)
        finally:
            self.scopes = inner

    def is_announced(self, name: tree.TypeName) -> bool:
        """Return whether a type is a struct that may be defined later."""
        if " " not in name.base or name.definition is not None:
            return False
        found = next((scope[name.base] for scope in reversed(self.scopes) if name.base in scope), Announced())
        return isinstance(found, Announced)

    @abstractmethod
    def define_once(self, node: tree.Structure | tree.Enumeration) -> Struct | None:
        """Take in a definition that several variables share; return the type that it gives, None for an enum."""

    def _structure(self, name: tree.TypeName) -> Struct:
        """Return what `struct name` stands for."""
        if isinstance(name.definition, tree.Structure):
            defined = self.define_once(name.definition)
            if defined is None:
                self.abort()
            return defined
        for scope in reversed(self.scopes):
            found = scope.get(name.base)
            if isinstance(found, Type) and isinstance(found.element, Struct):
                return found.element
            if isinstance(found, Announced):
                self.fail(name.token, f"{name.base} is declared, and not defined", f"{name.base} {{ … }}; before it")
            if name.base in scope:
                self.abort()
        known = [each for scope in self.scopes for each in scope if " " in each]
        close = close_names(name.base, known)
        fix = f"did you mean {' or '.join(close)}?" if close else f"{name.base} {{ … }}; before it"
        self.fail(name.token, f"{name.base} is not defined", fix)

    def shape(self, extents: tuple[tree.Expression, ...]) -> tuple[int, ...]:
        """Return the shape of a block, whose extents are powers of two."""
        if len(extents) > MAX_RANK:
            self.fail(first_token(extents[0]), f"a block with {len(extents)} axes; at most {MAX_RANK} are possible")
        found = tuple(self.constant(each, "the extent of a block") for each in extents)
        count = 1
        for extent, expression in zip(found, extents, strict=True):
            count *= max(extent, 1)
            if extent < 1 or extent & (extent - 1):
                message = f"the extent {extent} of a block is no power of two{self.macro_values(expression)}"
                fix = f"{1 << max(extent - 1, 0).bit_length()}, and a mask" if extent > 0 else "1, 2, 4, 8, …"
                self.fail(first_token(expression), message, fix)
        if count > MAX_ELEMENTS:
            values = self.macro_values(*extents)
            self.fail(first_token(extents[0]), f"a block of {count} elements{values}; at most {MAX_ELEMENTS} are possible")
        return found

    def macro_values(self, *expressions: tree.Expression) -> str:
        """Return the macros that stand for integers in expressions, as in ` (TM = 48)`; "" if there are none."""
        uses: dict[MacroUse, None] = {}
        waiting: list[tree.Expression] = list(expressions)
        while waiting:
            each = waiting.pop()
            use = each.token.macro
            while use is not None and use not in uses and len(uses) < _MAX_USES:
                uses[use] = None
                use = use.token.macro
            parts = (getattr(each, name, None) for name in ("left", "right", "operand", "condition", "first", "second"))
            waiting += [part for part in parts if isinstance(part, tree.Expression)]
        values = {use.token.text: self._value_of(use) for use in uses if not use.has_arguments}
        known = sorted((name, value) for name, value in values.items() if value is not None)[:_MAX_VALUES]
        return f" ({', '.join(f'{name} = {value}' for name, value in known)})" if known else ""

    def _value_of(self, use: MacroUse) -> int | None:
        """Return the value of what a use of a macro became; None if it is no integer by itself."""
        tokens = self._tokens_of(use)
        if tokens is None or any(each.kind is NAME for each in tokens):
            return None
        try:
            return evaluate(tokens)
        except ConditionError:
            return None

    def _tokens_of(self, use: MacroUse) -> list[Token] | None:
        """Return what a use of a macro became; None if that is longer than any value."""
        if self._expanded is None:
            self._expanded = _by_use(self._tokens)
        found: list[tuple[int, Token]] = []
        waiting, steps = [use], 0
        while waiting:
            for at, each in self._expanded.get(waiting.pop(), ()):
                steps += 1
                if steps > _MAX_VALUE:
                    return None
                if isinstance(each, MacroUse):
                    waiting.append(each)
                else:
                    found.append((at, each))
        return [token for _, token in sorted(found, key=lambda each: each[0])]

    def pointee(self, value: typed.Expression, token: Token) -> Scalar | Pointer:
        """Return what a value points to. Anything but a pointer to values is an error."""
        element = value.type.element
        if not isinstance(element, Pointer):
            self.fail(token, f"a value of type {value.type} is dereferenced, which is no pointer")
        if element.pointee == VOID:
            self.fail(token, "void* is dereferenced", "a cast, as in (float*)p")
        return element.pointee


def _by_use(tokens: Sequence[Token]) -> dict[MacroUse | None, list[tuple[int, Token | MacroUse]]]:
    """Return what each use of a macro became directly: tokens with their positions, and uses of other macros."""
    found: dict[MacroUse | None, list[tuple[int, Token | MacroUse]]] = {}
    known: set[MacroUse] = set()
    for at, token in enumerate(tokens):
        each: Token | MacroUse = token
        use = token.macro
        while use is not None:
            found.setdefault(use, []).append((at, each))
            if use in known:
                break
            known.add(use)
            each, use = use, use.token.macro
    return found


def first_token(expression: tree.Expression) -> Token:
    """Return the token at which an expression begins."""
    while isinstance(expression, tree.Binary):
        expression = expression.left
    return expression.token


__all__ = ["Announced", "Context", "Entry", "Tentative", "first_token"]

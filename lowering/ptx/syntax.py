"""The syntax tree of PTX statements. Names are resolved: registers carry a name that is unique in the text."""

from __future__ import annotations

from ...promotion.dataclass import dataclass


@dataclass(frozen=True, slots=True)
class Register:
    """A declared register. `negated`: `!p`, legal for predicates."""

    name: str
    negated: bool = False


@dataclass(frozen=True, slots=True)
class Special:
    """A special register such as `%tid.x`."""

    name: str


@dataclass(frozen=True, slots=True)
class Name:
    """A name that is no register: a label, function, variable or parameter."""

    text: str


@dataclass(frozen=True, slots=True)
class Integer:
    """An integer literal of any sign."""

    value: int


@dataclass(frozen=True, slots=True)
class Float:
    """A float literal: its bits, `width` of them: 32 (`0f…`) or 64 (`0d…`, decimal)."""

    bits: int
    width: int


@dataclass(frozen=True, slots=True)
class Sink:
    """`_`: a destination whose value is discarded."""


@dataclass(frozen=True, slots=True)
class Vector:
    """`{a, b}`: registers that make one operand."""

    elements: tuple[Operand, ...]


@dataclass(frozen=True, slots=True)
class Pair:
    """`a|b`: two destinations."""

    first: Operand
    second: Operand


@dataclass(frozen=True, slots=True)
class Address:
    """`[base + offset]`, with coordinates or further parts after commas."""

    base: Operand
    offset: int
    parts: tuple[Operand, ...]


@dataclass(frozen=True, slots=True)
class Group:
    """`(a, b)`: the arguments or results of a call."""

    elements: tuple[Operand, ...]


Operand = Register | Special | Name | Integer | Float | Sink | Vector | Pair | Address | Group


@dataclass(frozen=True, slots=True)
class Instruction:
    """`@guard opcode.modifiers operands;` on a line (1 is the first) of the text."""

    opcode: str
    modifiers: tuple[str, ...]
    operands: tuple[Operand, ...]
    guard: Register | None
    line: int

    @property
    def spelling(self) -> str:
        return ".".join([self.opcode, *self.modifiers])


@dataclass(frozen=True, slots=True)
class Label:
    name: str
    line: int


@dataclass(frozen=True, slots=True)
class Directive:
    """Any directive other than `.reg`, `.loc` and `.pragma`, as its list of words."""

    names: tuple[str, ...]
    line: int


@dataclass(frozen=True, slots=True)
class Scope:
    """`{ … }`: statements with a scope of their own."""

    statements: tuple[Statement, ...]


Statement = Instruction | Label | Directive | Scope


@dataclass(frozen=True, slots=True)
class Body:
    """Statements, and the type (`b32`, `pred`, …) of every register that they name."""

    statements: tuple[Statement, ...]
    registers: dict[str, str]

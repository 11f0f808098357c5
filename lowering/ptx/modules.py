"""The contents of a PTX module: variables, and functions as flat lists of instructions with every name resolved."""

from __future__ import annotations

from dataclasses import field

from ...promotion.dataclass import dataclass
from .syntax import Instruction

SIZES: dict[str, int] = {
    "b8": 1, "u8": 1, "s8": 1, "b16": 2, "u16": 2, "s16": 2, "f16": 2, "bf16": 2, "b32": 4, "u32": 4, "s32": 4, "f32": 4,
    "b64": 8, "u64": 8, "s64": 8, "f64": 8, "f16x2": 4, "bf16x2": 4, "b128": 16,
}  # fmt: skip
"""The bytes of the types that variables and parameters have."""


@dataclass(frozen=True, slots=True)
class SymbolValue:
    """The address of a variable or function as an initial value, plus an offset in bytes."""

    name: str
    offset: int


@dataclass(frozen=True, slots=True)
class Variable:
    """A variable of a state space: `global`, `const`, `shared` or `local`.

    Attributes:
        size: bytes; None for an array without extent (`.extern .shared .b8 s[]`).
        values: initial elements of `type` as bits or addresses; fewer than the extent leave zeros.
    """

    name: str
    space: str
    type: str
    align: int
    size: int | None
    values: tuple[int | SymbolValue, ...]
    line: int


@dataclass(frozen=True, slots=True)
class Parameter:
    """A parameter or result. `pointer`: declared with `.ptr`."""

    name: str
    type: str
    size: int
    align: int
    pointer: bool = False


@dataclass(frozen=True, slots=True)
class Prototype:
    """The signature of an indirect call."""

    results: tuple[Parameter, ...]
    parameters: tuple[Parameter, ...]


@dataclass(slots=True)
class Function:
    """An entry or a device function.

    Attributes:
        code: the instructions, in order; None for a declaration.
        locations: for each instruction (file, line) of the source when the text has `.loc`, else None.
        labels: name → index into `code`; names are unique in the function.
        areas: the `.param` areas declared in the body.
        tables: branch tables, name → labels.
        registers: name → type of every register that occurs.
        pragmas: index into `code` → the pragmas before that instruction.
        bounds: `reqntid`, `maxntid`, `reqnctapercluster`, … as written, each with its numbers.
    """

    name: str
    entry: bool
    results: tuple[Parameter, ...]
    parameters: tuple[Parameter, ...]
    line: int
    code: list[Instruction] | None = None
    locations: list[tuple[str, int] | None] = field(default_factory=list)
    labels: dict[str, int] = field(default_factory=dict)
    areas: dict[str, Parameter] = field(default_factory=dict)
    tables: dict[str, tuple[str, ...]] = field(default_factory=dict)
    prototypes: dict[str, Prototype] = field(default_factory=dict)
    variables: dict[str, Variable] = field(default_factory=dict)
    registers: dict[str, str] = field(default_factory=dict)
    pragmas: dict[int, tuple[str, ...]] = field(default_factory=dict)
    bounds: dict[str, tuple[int, ...]] = field(default_factory=dict)


@dataclass(slots=True)
class PtxModule:
    """A module. `target` holds the words after `.target`, the architecture first."""

    version: tuple[int, int]
    target: tuple[str, ...]
    variables: dict[str, Variable]
    functions: dict[str, Function]

    @property
    def entries(self) -> list[Function]:
        return [
            function for function in self.functions.values() if function.entry and function.code is not None
        ]

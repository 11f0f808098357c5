"""Defines the types of Triton-C. Signedness lives here alone: integers of the block IR have none."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from math import prod

from xdsl.ir import Attribute

from ....promotion.dataclass import dataclass
from ...tt import types as t

MAX_ELEMENTS = t.MAX_BLOCK_ELEMENTS
MAX_RANK = 32
"""Axes of a block. Shapes are written in texts of the block IR, and copied for every new axis."""
MAX_POINTERS = 16
"""Pointers to pointers to pointers …"""


@dataclass(frozen=True, slots=True, eq=False)
class Scalar:
    """An arithmetic type, void, or a struct: one object for each.

    Attributes:
        kind: "bool", "int", "float", "void", or "struct" for those with members, which are `Struct`.
        rank: of two operands, the one of lower rank is converted to the type of the other.
    """

    name: str
    kind: str
    bits: int
    rank: int
    is_signed: bool
    mlir: Attribute

    def __str__(self) -> str:
        return self.name

    @property
    def is_integer(self) -> bool:
        """Whether it counts: bool included."""
        return self.kind in ("int", "bool")

    @property
    def is_float(self) -> bool:
        return self.kind == "float"


@dataclass(frozen=True, slots=True, eq=False)
class Struct(Scalar):
    """A struct or union, made by `struct_of`. There is none in memory or in the block IR.

    Attributes:
        members: names with their types. Structs and unions without a name, whose members are as those around them, have
            names that begin with a space.
        is_union: its members are other views of the bits of the first.
    """

    members: tuple[tuple[str, Type], ...]
    is_union: bool

    @property
    def names(self) -> list[str]:
        """The names of members, with those of members without a name."""
        found: list[str] = []
        for name, type_ in self.members:
            found += type_.element.names if name.startswith(" ") and isinstance(type_.element, Struct) else [name]
        return found


@dataclass(frozen=True, slots=True, eq=False)
class Pointer:
    """The address of an element, made by `pointer_to`; is_constant: nothing may be stored through it."""

    pointee: Scalar | Pointer
    is_constant: bool = False

    def __str__(self) -> str:
        return f"{'const ' if self.is_constant else ''}{self.pointee}*"

    @property
    def mlir(self) -> Attribute:
        return t.ptr(memory_type(self.pointee))


Element = Scalar | Pointer


@dataclass(frozen=True, slots=True, eq=False)
class Type:
    """The type of a value, made by `type_of`: an element, and the shape of a block, () for scalars."""

    element: Element
    shape: tuple[int, ...] = ()

    def __str__(self) -> str:
        return f"{self.element}{list(self.shape)}" if self.shape else str(self.element)

    @property
    def mlir(self) -> Attribute:
        return t.tensor(self.element.mlir, self.shape)

    @property
    def is_pointer(self) -> bool:
        return isinstance(self.element, Pointer)


def _scalar(name: str, kind: str, bits: int, rank: int, mlir: Attribute, is_signed: bool = True) -> Scalar:
    return Scalar(name, kind, bits, rank, is_signed, mlir)


@cache
def struct_of(name: str, members: tuple[tuple[str, Type], ...], is_union: bool) -> Struct:
    """Return the one object for a type with members. `name`: as messages have it, such as "struct point"."""
    return Struct(name, "struct", 8, -1, False, t.I8, members, is_union)


VOID = _scalar("void", "void", 8, -1, t.I8)
BOOL = _scalar("bool", "bool", 1, 0, t.I1, False)
CHAR = _scalar("char", "int", 8, 1, t.I8)
SHORT = _scalar("short", "int", 16, 2, t.I16)
INT = _scalar("int", "int", 32, 3, t.I32)
LONG = _scalar("long", "int", 64, 4, t.I64)
UNSIGNED = _scalar("unsigned int", "int", 32, 3, t.I32, False)
UNSIGNED_LONG = _scalar("unsigned long", "int", 64, 4, t.I64, False)
HALF = _scalar("half", "float", 16, 6, t.F16)
BFLOAT16 = _scalar("bfloat16", "float", 16, 6, t.BF16)
FLOAT = _scalar("float", "float", 32, 7, t.F32)
DOUBLE = _scalar("double", "float", 64, 8, t.F64)
SCALARS = {
    "void": VOID, "bool": BOOL, "int8": CHAR, "int16": SHORT, "int32": INT, "int64": LONG,
    "uint8": _scalar("unsigned char", "int", 8, 1, t.I8, False),
    "uint16": _scalar("unsigned short", "int", 16, 2, t.I16, False),
    "uint32": UNSIGNED, "uint64": UNSIGNED_LONG, "half": HALF, "bfloat16": BFLOAT16, "float": FLOAT, "double": DOUBLE,
}  # fmt: skip
"""The arithmetic types by the names that the parser gives them."""


@cache
def type_of(element: Element, shape: tuple[int, ...] = ()) -> Type:
    """Return the one object for a type."""
    return Type(element, shape)


@cache
def pointer_to(pointee: Scalar | Pointer, is_constant: bool = False) -> Pointer:
    """Return the one object for the type of a pointer."""
    return Pointer(pointee, is_constant)


def memory_type(element: Element) -> Attribute:
    """Return what a pointer to an element points to: bool is a byte in memory, and so is void."""
    return t.I8 if isinstance(element, Scalar) and element.bits < 8 else element.mlir


def size_of(type_: Type) -> int:
    """Return the bytes of a value in memory, where C would lay it out."""
    element = type_.element
    if isinstance(element, Struct):
        at = 0
        for _, member in element.members:
            size, alignment = size_of(member), _alignment(member)
            at = max(at, size) if element.is_union else -(-at // alignment) * alignment + size
        alignment = _alignment(type_of(element))
        count = -(-at // alignment) * alignment
    else:
        count = 8 if isinstance(element, Pointer) else max(8, element.bits) // 8
    return count * prod(type_.shape)


def _alignment(type_: Type) -> int:
    if isinstance(type_.element, Struct):
        return max(_alignment(member) for _, member in type_.element.members)
    return size_of(type_of(type_.element))


def leaves_of(type_: Type, name: str = "") -> tuple[tuple[str, Type], ...]:
    """Return the numbers and pointers that a value consists of, each behind its path, such as `name.first.x`.

    There is one of a union, of its first member's type, and none of void. Members of a block of structs are blocks.
    """
    element = type_.element
    if not isinstance(element, Struct):
        return () if element is VOID else ((name, type_),)
    found: list[tuple[str, Type]] = []
    for member, own in element.members[:1] if element.is_union else element.members:
        path = name if element.is_union or member.startswith(" ") else f"{name}.{member}"
        found += leaves_of(type_of(own.element, type_.shape or own.shape), path)
    return tuple(found)


def promoted(element: Scalar) -> Scalar:
    """Return the type after the integer promotion: bool and integers of 8 and 16 bits become int."""
    return INT if element.is_integer and element.rank < INT.rank else element


def common(a: Scalar, b: Scalar) -> Scalar:
    """Return the type that the usual arithmetic conversions give to two operands."""
    a, b = promoted(a), promoted(b)
    if a.rank != b.rank:
        return a if a.rank > b.rank else b
    if a.is_float:
        return a if a == b else FLOAT  # half with bfloat16
    return b if a.is_signed else a


def joined_shape(a: Sequence[int], b: Sequence[int]) -> tuple[int, ...] | None:
    """Return the shape that two operands have after broadcasting; None if there is none."""
    if a == b or not b:
        return tuple(a)
    if not a:
        return tuple(b)
    rank = max(len(a), len(b))
    left, right = (1,) * (rank - len(a)) + tuple(a), (1,) * (rank - len(b)) + tuple(b)
    if any(x != y and 1 not in (x, y) for x, y in zip(left, right, strict=True)):
        return None
    return tuple(max(x, y) for x, y in zip(left, right, strict=True))


def wrapped(value: int, scalar: Scalar) -> int:
    """Return an integer as the type holds it."""
    if scalar.kind == "bool":
        return int(value != 0)
    value &= (1 << scalar.bits) - 1
    return value - (1 << scalar.bits) if scalar.is_signed and value >> (scalar.bits - 1) else value


__all__ = [
    "BFLOAT16", "BOOL", "CHAR", "DOUBLE", "FLOAT", "HALF", "INT", "LONG", "MAX_ELEMENTS", "MAX_POINTERS", "MAX_RANK",
    "SCALARS", "UNSIGNED", "UNSIGNED_LONG", "VOID", "Element", "Pointer", "Scalar", "Struct", "Type", "common", "joined_shape",
    "leaves_of", "memory_type", "pointer_to", "promoted", "size_of", "struct_of", "type_of", "wrapped",
]  # fmt: skip

"""Values of LLVM IR: what an instruction takes as an operand, with its type; constants carry their numbers.

A value is examined by its class and its number, never by its text: `isinstance(v, ConstantInt)`, `is_integer(v, 0)`.
`operand()` returns the text; a value that is printed only if it is used (`Deferred`, `Carried`) counts that call as the use.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Callable, Sequence

from ...promotion.errors import InternalError

# -- types ------------------------------------------------------------------------


def lanes(type_: str) -> int:
    """Returns the number of lanes of a vector type; 1 for a scalar."""
    return int(type_[1 : type_.index(" ")]) if type_[0] == "<" else 1


def element(type_: str) -> str:
    """Returns the element type: `float` for `<16 x float>` and for `float`."""
    return type_[type_.index("x") + 2 : -1] if type_[0] == "<" else type_


def vector(element_: str, n: int) -> str:
    """Returns the type of n lanes; the element's own for one."""
    return element_ if n == 1 else f"<{n} x {element_}>"


def with_element(type_: str, element_: str) -> str:
    """Returns the type with the same number of lanes and another element."""
    return vector(element_, lanes(type_))


BITS = {"half": 16, "bfloat": 16, "float": 32, "double": 64, "ptr": 64}


def bits(element_: str) -> int:
    """Returns the number of bits of an element type."""
    return BITS[element_] if element_ in BITS else int(element_[1:])


def is_float(type_: str) -> bool:
    """Whether a type, or the element of a vector type, is a floating-point type."""
    return element(type_) in ("half", "bfloat", "float", "double")


# -- values -----------------------------------------------------------------------


class V:
    """A value that an instruction, a parameter or a global has defined: its name (`%t3`, `@table`) and its LLVM type.

    The type is text such as `i64`, `<16 x float>`, `ptr`. Equal names of one type are equal values.
    """

    __slots__ = ("_operand", "type")

    def __init__(self, operand: str, type_: str) -> None:
        self._operand = operand
        self.type = type_

    def operand(self) -> str:
        """Returns the text by which an instruction refers to the value."""
        return self._operand

    def printed(self) -> V:
        """Returns the value itself; for a deferred one, what its instructions have defined."""
        return self

    def __eq__(self, other: object) -> bool:
        return isinstance(other, V) and self._operand == other._operand and self.type == other.type

    def __hash__(self) -> int:
        return hash((self._operand, self.type))

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.type} {self._operand or '?'})"


class Global(V):
    """The address of a global variable, a constant of the linker."""

    __slots__ = ()

    def __init__(self, name: str, type_: str = "ptr") -> None:
        super().__init__(f"@{name}", type_)


class Constant(V):
    """A constant: a number, or a text such as `poison` and `null`."""

    __slots__ = ()


class ConstantInt(Constant):
    """A scalar integer; an i1 is 0 or 1."""

    __slots__ = ("number",)

    def __init__(self, number: int, type_: str) -> None:
        super().__init__(str(number) if type_ != "i1" else "true" if number else "false", type_)
        self.number = number


class ConstantFloat(Constant):
    """A scalar float; `number` is rounded to the type."""

    __slots__ = ("number",)

    def __init__(self, number: float, type_: str) -> None:
        text, self.number = _rounded(number, type_)
        super().__init__(text, type_)


class ConstantSplat(Constant):
    """A vector whose lanes are all one constant."""

    __slots__ = ("lane",)

    def __init__(self, lane: Constant, n: int) -> None:
        super().__init__(f"splat ({lane.type} {lane.operand()})", vector(lane.type, n))
        self.lane = lane


class ConstantZeros(ConstantSplat):
    """A vector of zeros, as `zeroinitializer`."""

    __slots__ = ()

    def __init__(self, type_: str) -> None:
        super().__init__(_scalar(0, element(type_)), lanes(type_))
        self._operand = "zeroinitializer"


class ConstantLanes(Constant):
    """A vector of integers, one per lane."""

    __slots__ = ("numbers",)

    def __init__(self, numbers: Sequence[int], element_: str) -> None:
        body = ", ".join(f"{element_} {number}" for number in numbers)
        super().__init__(f"<{body}>", vector(element_, len(numbers)))
        self.numbers = tuple(numbers)


class _Itself(V):
    """A value that is equal only to itself: it has no text yet, or asking for the text would use it."""

    __slots__ = ()

    def __eq__(self, other: object) -> bool:
        return self is other

    def __hash__(self) -> int:
        return id(self)


class Deferred(_Itself):
    """A value whose instructions are printed, where it was made, when it is first used.

    origin: what it was computed from, for instructions that can take that instead.
    depth: the length of the chain of deferred values, each an operand of the next, that ends with it.
    """

    __slots__ = ("_print", "_value", "depth", "origin")

    def __init__(self, type_: str, print_: Callable[[], V], origin: object, depth: int) -> None:
        super().__init__("", type_)
        self._print, self.origin, self.depth = print_, origin, depth
        self._value: V | None = None

    @property
    def is_printed(self) -> bool:
        return self._value is not None

    def printed(self) -> V:
        if self._value is None:
            self._value = self._print()
        return self._value

    def operand(self) -> str:
        return self.printed().operand()


class Carried(_Itself):
    """A value that a loop carries: its phi is printed only if it is used."""

    __slots__ = ("is_used",)

    def __init__(self, name: str, type_: str) -> None:
        super().__init__(name, type_)
        self.is_used = False

    @property
    def name(self) -> str:
        """The name of the value; reading it does not use the value."""
        return self._operand

    def operand(self) -> str:
        self.is_used = True
        return self._operand


# -- constants --------------------------------------------------------------------


def _rounded(value: float, element_: str) -> tuple[str, float]:
    """Returns an exact float literal of the element type, and the number that it stands for."""
    if element_ == "double":
        return f"0x{struct.unpack('<Q', struct.pack('<d', value))[0]:016X}", value
    if element_ == "float":
        try:
            value = struct.unpack("<f", struct.pack("<f", value))[0]
        except OverflowError:
            value = float("inf") if value > 0 else float("-inf")
        return f"0x{struct.unpack('<Q', struct.pack('<d', value))[0]:016X}", value
    if element_ == "half":
        try:
            half = struct.pack("<e", value)
        except OverflowError:
            return ("0xH7C00", float("inf")) if value > 0 else ("0xHFC00", float("-inf"))
        return f"0xH{struct.unpack('<H', half)[0]:04X}", struct.unpack("<e", half)[0]
    if value != value:
        return "0xR7FC0", value
    try:
        word = struct.unpack("<I", struct.pack("<f", value))[0]
    except OverflowError:
        return ("0xR7F80", float("inf")) if value > 0 else ("0xRFF80", float("-inf"))
    nearest = struct.unpack("<f", struct.pack("<I", word))[0]
    if nearest != value:  # rounded to odd, so that the second rounding sees on which side of its ties the value lies
        word = (word - (abs(nearest) > abs(value))) | 1
    high = (word + 0x7FFF + ((word >> 16) & 1)) >> 16
    return f"0xR{high:04X}", struct.unpack("<f", struct.pack("<I", high << 16))[0]


def i32(number: int) -> V:
    return const(number, "i32")


def i64(number: int) -> V:
    return const(number, "i64")


def const(value: float, type_: str) -> V:
    """Returns a constant of any arithmetic type; a vector has it in every lane. Integers wrap around, floats are rounded."""
    if type_[0] == "<":
        return ConstantSplat(_scalar(value, element(type_)), lanes(type_))
    return _scalar(value, type_)


def _scalar(value: float, type_: str) -> ConstantInt | ConstantFloat:
    if type_ == "i1":
        return TRUE if value else FALSE
    if is_float(type_):
        return ConstantFloat(float(value), type_)
    width = int(type_[1:])
    number = int(value) & ((1 << width) - 1)
    return ConstantInt(number - (1 << width) if number >> (width - 1) else number, type_)


def zero(type_: str) -> V:
    """Returns the zero of any type: a vector of zeros, the null pointer, 0."""
    return ConstantZeros(type_) if type_[0] == "<" else NULL if type_ == "ptr" else const(0, type_)


def poison(type_: str) -> V:
    """Returns LLVM's poison, for a value that is never read."""
    return Constant("poison", type_)


def undef(type_: str) -> V:
    """Returns LLVM's undef, for a value that no result depends on."""
    return Constant("undef", type_)


def int_vector(values: Sequence[int], element_: str) -> V:
    """Returns a vector with these integers as its lanes."""
    return ConstantLanes(values, element_)


TRUE, FALSE = ConstantInt(1, "i1"), ConstantInt(0, "i1")
NULL: V = Constant("null", "ptr")


def is_constant(v: V) -> bool:
    """Whether the value is a constant; a deferred one is printed to find out."""
    return isinstance(v.printed(), Constant)


def is_integer(v: V, number: int) -> bool:
    """Whether the value is a scalar integer constant with this number."""
    v = v.printed()
    return isinstance(v, ConstantInt) and v.number == number


def is_zero(v: V) -> bool:
    """Whether the value is the constant zero of its type, in every lane; for floats the positive one."""
    number = number_of(v)
    return number == 0 and math.copysign(1.0, number) > 0


def same(a: V, b: V) -> bool:
    """Whether two values are known to be equal; deferred ones are printed to find out."""
    return a.printed() == b.printed()


def integer(v: V) -> int:
    """Returns the number of a scalar integer constant; InternalError for any other value."""
    v = v.printed()
    if not isinstance(v, ConstantInt):
        raise InternalError(f"LLVM values: an integer constant was expected, not {v!r}")
    return v.number


def number_of(v: V) -> float | None:
    """Returns the number that a constant is, or that all of its lanes are; None for other values."""
    v = v.printed()
    if isinstance(v, ConstantSplat):
        v = v.lane
    return v.number if isinstance(v, ConstantInt | ConstantFloat) else None

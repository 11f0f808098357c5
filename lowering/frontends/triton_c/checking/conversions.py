"""Converts values to the types that an operation needs, and folds what is constant."""

from __future__ import annotations

import math
from fractions import Fraction
from math import prod
from typing import NoReturn

import ml_dtypes
import numpy as np

from ..reading.conditions import quotient
from ..reading.diagnostics import Diagnostics
from ..reading.source import NUMBER, Token
from ..types import (
    BFLOAT16,
    BOOL,
    DOUBLE,
    FLOAT,
    HALF,
    MAX_ELEMENTS,
    MAX_RANK,
    Element,
    Pointer,
    Scalar,
    Type,
    common,
    joined_shape,
    type_of,
    wrapped,
)
from . import typed

_EXACT_IN_DOUBLE = 1 << 53
_ROUNDED = {HALF: np.float16, BFLOAT16: ml_dtypes.bfloat16, FLOAT: np.float32, DOUBLE: np.float64}


class CheckAbort(Exception):
    """Raised behind an error, where nothing more can be said of the statement at hand."""


class Conversions:
    """Makes typed nodes; the part of the checker that knows of types alone."""

    def __init__(self, diagnostics: Diagnostics) -> None:
        self.diagnostics = diagnostics

    def fail(self, token: Token, message: str, fix: str = "") -> NoReturn:
        """Add an error, and leave the statement."""
        self.diagnostics.error(token, message, fix)
        raise CheckAbort

    def abort(self) -> NoReturn:
        """Leave the statement behind an error that is reported already."""
        raise CheckAbort

    # Shapes

    def broadcast(self, value: typed.Expression, shape: tuple[int, ...]) -> typed.Expression:
        """Return a value in a shape that its own is known to stretch to."""
        if value.type.shape == shape:
            return value
        return typed.Broadcast(type_of(value.type.element, shape), value.token, value)

    def joined(self, token: Token, *values: typed.Expression) -> tuple[typed.Expression, ...]:
        """Return values in the shape that they broadcast to together."""
        first = values[0].type.shape
        for value in values:
            if value.type.shape != first:
                break
        else:
            return values
        shape: tuple[int, ...] = ()
        for value in values:
            together = joined_shape(shape, value.type.shape)
            if together is None:
                self._fail_shapes(token, shape, value.type.shape)
            shape = together
        self.check_shape(token, shape, *(value.type.shape for value in values))
        return tuple(self.broadcast(value, shape) for value in values)

    def check_shape(self, token: Token, shape: tuple[int, ...], *operands: tuple[int, ...]) -> tuple[int, ...]:
        """Return the shape of a result. One that is larger than blocks can be is an error; operands: what led to it."""
        if prod(shape) > MAX_ELEMENTS or len(shape) > MAX_RANK:
            shown = " and ".join(str(list(each)) for each in dict.fromkeys(operands) if each)
            what = f"{prod(shape)} elements" if prod(shape) > MAX_ELEMENTS else f"{len(shape)} axes"
            most = MAX_ELEMENTS if prod(shape) > MAX_ELEMENTS else MAX_RANK
            message = f"{shown} give a block of shape {list(shape)} with {what}; at most {most} are possible"
            self.fail(token, message, "smaller blocks, and a loop over them")
        return shape

    def _fail_shapes(self, token: Token, a: tuple[int, ...], b: tuple[int, ...]) -> NoReturn:
        rank = max(len(a), len(b))
        left, right = (1,) * (rank - len(a)) + a, (1,) * (rank - len(b)) + b
        bad = next(axis for axis in range(rank) if left[axis] != right[axis] and 1 not in (left[axis], right[axis]))
        message = f"shapes {list(a)} and {list(b)} do not broadcast: axis {bad} is {left[bad]} and {right[bad]}"
        short, long = (a, b) if len(a) < len(b) else (b, a)
        fix = ""
        if len(short) < len(long) and joined_shape(long, (*short, 1)) is not None:
            entries = ", ".join([":"] * len(short) + ["newaxis"])
            fix = f"did you mean v[{entries}] of the one of shape {list(short)}?"
        elif len(a) == len(b) == 1:
            fix = "did you mean v[:, newaxis] of one of them?"
        self.fail(token, message, fix)

    def to_shape(self, token: Token, value: typed.Expression, shape: tuple[int, ...], what: str) -> typed.Expression:
        """Return a value in the shape of a target, which it may stretch to, and never shrink."""
        own = value.type.shape
        if own == shape:
            return value
        if not shape and all(extent == 1 for extent in own):
            return typed.ToScalar(type_of(value.type.element), value.token, value)
        if joined_shape(own, shape) == shape:
            return self.broadcast(value, shape)
        message = f"{what} has shape {list(shape) or 'of a scalar'}, and the value has shape {list(own)}"
        if not shape:
            message = f"{what} is a scalar, and the value has shape {list(own)}"
        fix = "a reduction, as in v[+] or v[:, max]" if _is_reducible(own, shape) else ""
        if isinstance(value.type.element, Pointer):
            fix = f"a block of pointers, {value.type.element} p{list(own)}"
        if len(own) == len(shape) == 1 < shape[0] < own[0]:
            fix = f"a reduction, as in v[+], or some of the elements, as in v[0 ... {shape[0]}]"
        elif len(own) == len(shape) > 1 and joined_shape((*own[1:], own[0]), shape) == shape:
            fix = "^ before the value, which transposes it"
        if len(own) < len(shape) and joined_shape((*own, 1), shape) == shape:
            fix = f"did you mean v[{', '.join([':'] * len(own) + ['newaxis'])}]?"
        self.fail(token, message, fix)

    # Elements

    def convert(self, value: typed.Expression, element: Element, token: Token | None = None) -> typed.Expression:
        """Return a value in another element type, as an assignment converts it."""
        own = value.type.element
        if own is element or own == element:
            return value
        token = token or value.token
        type_ = type_of(element, value.type.shape)
        if isinstance(own, Scalar) and isinstance(element, Scalar):
            if "void" in (own.kind, element.kind):
                self.fail(token, f"a value of type {value.type} where {element} is expected")
            if "struct" in (own.kind, element.kind):
                fix = "a member, v.name" if own.kind == "struct" else f"({element}){{…}}"
                self.fail(token, f"a value of type {value.type} where {element} is expected", fix)
            folded = _folded(value, element)
            return folded if folded is not None else typed.Convert(type_, value.token, value)
        if isinstance(own, Pointer) and element == BOOL:
            return typed.Convert(type_, value.token, value)
        if isinstance(element, Pointer) and is_null(value):
            return typed.Convert(type_, value.token, value)
        if isinstance(own, Pointer) and isinstance(element, Pointer) and own.pointee == element.pointee:
            if own.is_constant and not element.is_constant:
                self.fail(token, f"{value.type} is converted to {element}, which could be stored through", f"(({element})…)")
            return typed.Convert(type_, value.token, value)
        is_number = isinstance(own, Scalar) and own.is_float and isinstance(element, Pointer)
        fix = "0, the null pointer" if is_number else f"a cast, ({type_})…"
        self.fail(token, f"a value of type {value.type} where {element} is expected", fix)

    def truth(self, value: typed.Expression) -> typed.Expression:
        """Return whether a value is not 0."""
        return self.convert(value, BOOL)

    def arithmetic(self, token: Token, value: typed.Expression) -> Scalar:
        """Return the element type of an operand of arithmetic. Pointers, structs and void are errors."""
        element = value.type.element
        if not isinstance(element, Scalar) or element.kind in ("void", "struct"):
            self.fail(token, f"{token.text} of a value of type {value.type}, expected a number")
        return element

    def usual(
        self, token: Token, a: typed.Expression, b: typed.Expression
    ) -> tuple[typed.Expression, typed.Expression, Scalar]:
        """Return two operands after the usual arithmetic conversions, and their element type; shapes are left alone."""
        element = common(self.arithmetic(token, a), self.arithmetic(token, b))
        if element == DOUBLE:
            for literal, other in ((a, b), (b, a)):
                if _is_double(literal) and other.type.shape and other.type.element != DOUBLE:
                    self.diagnostics.warning(
                        literal.token, f"the constant is a double, so that {token.text} computes {other.type} in double",
                        f"{literal.token.text if literal.token.kind is NUMBER else '…'}f, or single_precision_constants=True",
                    )  # fmt: skip
        return self.convert(a, element), self.convert(b, element), element

    def assigned(self, token: Token, value: typed.Expression, type_: Type, what: str) -> typed.Expression:
        """Return a value converted and broadcast as an assignment does to its target."""
        return self.to_shape(token, self.convert(value, type_.element, token), type_.shape, what)


def is_null(value: typed.Expression) -> bool:
    """Return whether a value is a null pointer constant: an integer constant that is 0."""
    return isinstance(value, typed.Constant) and isinstance(value.value, int) and value.value == 0


def _is_double(value: typed.Expression) -> bool:
    """Return whether a value is a floating constant of double, which nobody asked to be one."""
    return isinstance(value, typed.Constant) and isinstance(value.value, float) and value.type.element == DOUBLE


def _is_reducible(own: tuple[int, ...], shape: tuple[int, ...]) -> bool:
    """Return whether a block stretches to a shape of fewer axes, or to one element, after reductions of its other axes."""
    if all(extent == 1 for extent in shape):
        return True
    kept = iter(own)  # the axes that are left stay in their order
    return len(own) > len(shape) and all(any(axis in (1, extent) for axis in kept) for extent in shape)


def _folded(value: typed.Expression, element: Scalar) -> typed.Constant | None:
    """Return a constant in another type; None for what is not constant, or left to the device."""
    if not isinstance(value, typed.Constant):
        return None
    number = value.value
    type_ = type_of(element)
    if element.kind == "bool":
        return typed.Constant(type_, value.token, int(number != 0))
    if element.is_float:
        if isinstance(number, int) and abs(number) > _EXACT_IN_DOUBLE:
            return None
        return typed.Constant(type_, value.token, rounded(number, element))
    if isinstance(number, float):
        if not math.isfinite(number) or wrapped(int(number), element) != int(number):
            return None
        return typed.Constant(type_, value.token, int(number))
    return typed.Constant(type_, value.token, wrapped(number, element))


def rounded(number: float | Fraction, element: Scalar) -> float:
    """Round a number to a float type, once."""
    with np.errstate(over="ignore"):
        if isinstance(number, Fraction):
            number = float(number) if element == DOUBLE else _to_odd(number)
        if element == BFLOAT16:
            number = _single_to_odd(number)
        return float(_ROUNDED[element](number))


def _to_odd(number: Fraction) -> float:
    """Return a double that rounds to every narrower type as the number does.

    Where it is not exact it is the one of its two neighbours whose last bit is set, which lies between two numbers of a
    narrower type, or beside the middle of two, where the number does.
    """
    found = float(number)
    exact = Fraction(found)
    if exact == number:
        return found
    other = math.nextafter(found, math.inf if exact < number else -math.inf)
    return found if np.float64(found).view(np.uint64) & np.uint64(1) else other


def _single_to_odd(number: float) -> float:
    """Return a float that rounds to every narrower type as a double does."""
    found = np.float32(number)
    if not math.isfinite(number) or float(found) == number:
        return number
    if abs(float(found)) > abs(number):
        found = np.nextafter(found, np.float32(0))
    return float((found.view(np.uint32) | np.uint32(1)).view(np.float32))


def folded_binary(operator: str, a: typed.Expression, b: typed.Expression, token: Token) -> typed.Constant | None:
    """Return the value of integer arithmetic of two constants of one type; None if there is none."""
    if not (isinstance(a, typed.Constant) and isinstance(b, typed.Constant)):
        return None
    element, x, y = a.type.element, a.value, b.value
    if not (isinstance(element, Scalar) and isinstance(x, int) and isinstance(y, int)):
        return None
    if operator in ("/", "%") and y == 0:
        return None
    if operator in ("<<", ">>") and not 0 <= y < element.bits:
        return None
    found = {
        "+": lambda: x + y, "-": lambda: x - y, "*": lambda: x * y, "/": lambda: quotient(x, y),
        "%": lambda: x - y * quotient(x, y), "<<": lambda: x << y, ">>": lambda: x >> y, "&": lambda: x & y,
        "|": lambda: x | y, "^": lambda: x ^ y, "min": lambda: min(x, y), "max": lambda: max(x, y),
    }[operator]()  # fmt: skip
    return typed.Constant(a.type, token, wrapped(found, element))


COMPARISONS = {
    "<": lambda x, y: x < y, ">": lambda x, y: x > y, "<=": lambda x, y: x <= y, ">=": lambda x, y: x >= y,
    "==": lambda x, y: x == y, "!=": lambda x, y: x != y,
}  # fmt: skip


__all__ = ["COMPARISONS", "CheckAbort", "Conversions", "folded_binary", "is_null", "rounded"]

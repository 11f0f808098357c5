"""Defines the rules that the verifiers of the block dialects share.

A verifier says what is wrong in terms of the operands: `tt.load: mask is tensor<8xi32>, expected
tensor<8xi1>`. All functions raise xDSL's `VerifyException`; `verify.verify` turns it into joinery's own errors.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NoReturn

from xdsl.dialects.builtin import NoneAttr, TensorType
from xdsl.ir import Attribute, Operation, SSAValue
from xdsl.traits import IsolatedFromAbove, OpTrait
from xdsl.utils.exceptions import VerifyException

from . import types as t

_NO_ENCODING = NoneAttr()


def fail(op: Operation, message: str) -> NoReturn:
    """Raise the verification error of `op`."""
    raise VerifyException(f"{op.name}: {message}")


def expect_type(op: Operation, what: str, found: Attribute, expected: Attribute, why: str = "") -> None:
    """Check that `what` has exactly this type."""
    if found is not expected and found != expected:
        fail(op, f"{what} is {found}, expected {expected}{f' ({why})' if why else ''}")


def expect_types(op: Operation, what: str, found: Sequence[Attribute], expected: Sequence[Attribute]) -> None:
    """Check that the lists of types agree in length and in every place; `what` is the plural name of the
    things."""
    if len(found) != len(expected):
        fail(op, f"{len(found)} {what}, expected {len(expected)}")
    for index, (one, other) in enumerate(zip(found, expected, strict=True)):
        expect_type(op, f"number {index} of the {what}", one, other)


def expect_shape(op: Operation, what: str, found: Attribute, expected: Sequence[int], why: str = "") -> None:
    """Check that `what` has this shape (`()` for a scalar), whatever its element type."""
    if t.shape_of(found) != tuple(expected):
        note = f" ({why})" if why else ""
        fail(
            op, f"{what} is {found} of shape {list(t.shape_of(found))}, expected shape {list(expected)}{note}"
        )


def expect_same_elem(op: Operation, what: str, found: Attribute, expected: Attribute) -> None:
    """Check that both types have the same element type."""
    if t.elem(found) != t.elem(expected):
        fail(op, f"{what} has element type {t.elem(found)}, expected {t.elem(expected)}")


def expect_block(op: Operation, what: str, value: SSAValue) -> tuple[int, ...]:
    """Check that the value is a block, and return its shape."""
    if not isinstance(value.type, TensorType):
        fail(op, f"{what} is {value.type}, expected a block (a tensor)")
    return t.shape_of(value.type)


def expect_scalar(op: Operation, what: str, value: SSAValue) -> None:
    """Check that the value is not a block."""
    if isinstance(value.type, TensorType):
        fail(op, f"{what} is {value.type}, expected a scalar")


_KINDS = {"float": t.is_float, "integer": t.is_integer, "pointer": t.is_pointer}


def expect_kind(op: Operation, what: str, type_: Attribute, *kinds: str) -> None:
    """Check that the element type is of one of the kinds, which are "float", "integer" and "pointer"."""
    if not any(_KINDS[kind](type_) for kind in kinds):
        fail(op, f"{what} is {type_}, expected {' or '.join(kinds)} elements")


def expect_axis(op: Operation, axis: int, rank: int) -> None:
    """Check that 0 <= axis < rank."""
    if not 0 <= axis < rank:
        fail(op, f"axis {axis} is outside 0 … {rank - 1}")


def expect_legal_block(op: Operation, what: str, type_: TensorType[Attribute]) -> None:
    """Check that a block has a rank of at least 1, no layout, extents that are powers of two, and at most
    MAX_BLOCK_ELEMENTS elements."""
    shape = t.shape_of(type_)
    count = t.element_count(type_)
    if not shape:
        fail(op, f"{what} is {type_}; a block has at least one axis, a single value is a scalar")
    if type_.encoding != _NO_ENCODING:
        fail(op, f"{what} is {type_}; block types carry no layout")
    if any(extent < 1 or extent & (extent - 1) for extent in shape):
        fail(op, f"{what} is {type_}, expected every extent to be a power of two")
    if count > t.MAX_BLOCK_ELEMENTS:
        fail(op, f"{what} is {type_} with {count} elements, expected at most {t.MAX_BLOCK_ELEMENTS}")


@dataclass(frozen=True)
class IsolatedByOrder(IsolatedFromAbove):
    """Nothing inside uses a value from outside. `first_problem` sees it when it checks the order of definitions and uses, so
    that the operation's own verifier need not go through all of it."""

    def verify(self, op: Operation) -> None:
        pass


@dataclass(frozen=True)
class BlockSizes(OpTrait):
    """Checks that every operand and result that is a block has a legal number of elements, as the dialect's
    TensorSizeTrait does."""

    def verify(self, op: Operation) -> None:
        for values, what in ((op.operands, "operand"), (op.results, "result")):
            for index, value in enumerate(values):
                type_ = value.type
                if isinstance(type_, TensorType):
                    expect_legal_block(op, f"{what} {index}", type_)

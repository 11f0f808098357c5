"""Defines the atomic operations: reads and writes that no access of another program interrupts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import ClassVar, Self

from xdsl.dialects.builtin import FunctionType, IntegerAttr
from xdsl.ir import Attribute, Operation, SSAValue
from xdsl.irdl import (
    IRDLOperation,
    irdl_op_definition,
    operand_def,
    opt_operand_def,
    prop_def,
    result_def,
    traits_def,
)
from xdsl.parser import Parser, UnresolvedOperand
from xdsl.printer import Printer
from xdsl.traits import MemoryReadEffect, MemoryWriteEffect

from ... import types as t
from ...checks import BlockSizes, expect_kind, expect_type, fail
from ..attributes import enum_attr, enum_name, parse_case

RMW_OPERATIONS = {
    "and": 1, "or": 2, "xor": 3, "add": 4, "fadd": 5, "max": 6, "min": 7, "umax": 8, "umin": 9, "exch": 10,
}  # fmt: skip
HOST_RMW_OPERATIONS = {**RMW_OPERATIONS, "inc": 11, "dec": 12, "fmax": 13, "fmin": 14}
"""The operations of `tt.atomic_rmw`, and those that only `tt.descriptor_reduce` has, which
`expand_descriptors` makes and which are never read or printed."""
MEMORY_ORDERS = {"relaxed": 1, "acquire": 2, "release": 3, "acq_rel": 4}
MEMORY_SCOPES = {"gpu": 1, "cta": 2, "sys": 3}

_Keywords = tuple[tuple[str, Mapping[str, int]], ...]


class _AtomicOp(IRDLOperation):
    """The assembly format that atomic operations share: keywords, operands, and a function type."""

    KEYWORDS: ClassVar[_Keywords] = ()

    @classmethod
    def _parse_keywords(cls, parser: Parser) -> tuple[dict[str, Attribute], list[UnresolvedOperand]]:
        properties: dict[str, Attribute] = {}
        for name, cases in cls.KEYWORDS:
            properties[name] = enum_attr(cases[parse_case(parser, name, tuple(cases))])
            parser.parse_punctuation(",")
        operands = [parser.parse_unresolved_operand()]
        while parser.parse_optional_punctuation(",") is not None:
            operands.append(parser.parse_unresolved_operand())
        return properties, operands

    @classmethod
    def parse(cls, parser: Parser) -> Self:
        properties, operands = cls._parse_keywords(parser)
        attributes = parser.parse_optional_attr_dict()
        parser.parse_punctuation(":")
        start = parser.pos
        type_ = parser.parse_type()
        if not isinstance(type_, FunctionType) or len(type_.inputs.data) != len(operands) or len(type_.outputs.data) != 1:
            parser.raise_error("expected the types of the operands, and one result", start, parser.pos)
        values = [parser.resolve_operand(o, each) for o, each in zip(operands, type_.inputs.data, strict=True)]
        return cls.create(
            operands=values, result_types=type_.outputs.data, properties=properties, attributes=attributes
        )

    def print(self, printer: Printer) -> None:
        keywords = [str(enum_name(cases, self.properties[name])) for name, cases in self.KEYWORDS]
        printer.print_string(f" {', '.join(keywords)}, ")
        self._print_operands(printer)
        if self.attributes:
            printer.print_string(" ")
            printer.print_attr_dict(self.attributes)
        printer.print_string(" : ")
        self._print_types(printer)

    def _print_operands(self, printer: Printer) -> None:
        printer.print_list(self.operands, printer.print_ssa_value)

    def _print_types(self, printer: Printer) -> None:
        printer.print_attribute(FunctionType.from_lists(list(self.operand_types), list(self.result_types)))

    def _verify_keywords(self) -> Attribute:
        for name, cases in self.KEYWORDS:
            if enum_name(cases, self.properties[name]) is None:
                fail(self, f"unknown {name}; known: {', '.join(cases)}")
        expect_kind(self, "ptr", self.operands[0].type, "pointer")
        return t.value_type(self.operands[0].type)


@irdl_op_definition
class AtomicRMWOp(_AtomicOp):
    """Replaces what the pointer points to by its combination with a value; the result is what was there before. Lanes whose
    mask is false touch no memory, and their results are undefined."""

    name = "tt.atomic_rmw"
    KEYWORDS: ClassVar[_Keywords] = (("atomic_rmw_op", RMW_OPERATIONS), ("sem", MEMORY_ORDERS), ("scope", MEMORY_SCOPES))

    ptr = operand_def()
    val = operand_def()
    mask = opt_operand_def()
    result = result_def()
    atomic_rmw_op = prop_def(IntegerAttr)
    sem = prop_def(IntegerAttr)
    scope = prop_def(IntegerAttr)

    traits = traits_def(MemoryReadEffect(), MemoryWriteEffect(), BlockSizes())

    def verify_(self) -> None:
        value_type = self._verify_keywords()
        expect_type(self, "val", self.val.type, value_type, "what ptr points to")
        expect_type(self, "result", self.result.type, value_type, "what ptr points to")
        _expect_mask(self, self.mask, value_type)
        kind = enum_name(RMW_OPERATIONS, self.atomic_rmw_op)
        if t.is_float(value_type) != (kind == "fadd") and kind != "exch":
            fail(self, f"{kind} of {value_type}; floats are added by fadd and exchanged, integers everything but fadd")


@irdl_op_definition
class AtomicCASOp(_AtomicOp):
    """Writes `val` where `cmp` is what the pointer points to; the result is what was there before."""

    name = "tt.atomic_cas"
    KEYWORDS: ClassVar[_Keywords] = (("sem", MEMORY_ORDERS), ("scope", MEMORY_SCOPES))

    ptr = operand_def()
    cmp = operand_def()
    val = operand_def()
    result = result_def()
    sem = prop_def(IntegerAttr)
    scope = prop_def(IntegerAttr)

    traits = traits_def(MemoryReadEffect(), MemoryWriteEffect(), BlockSizes())

    def verify_(self) -> None:
        value_type = self._verify_keywords()
        for name, type_ in (("cmp", self.cmp.type), ("val", self.val.type), ("result", self.result.type)):
            expect_type(self, name, type_, value_type, "what ptr points to")


@irdl_op_definition
class AtomicLoadOp(_AtomicOp):
    """Reads with an order: relaxed or acquire. Lanes whose mask is false touch no memory, and their results
    are undefined."""

    name = "tt.atomic_load"
    KEYWORDS: ClassVar[_Keywords] = (("sem", MEMORY_ORDERS), ("scope", MEMORY_SCOPES))

    ptr = operand_def()
    mask = opt_operand_def()
    result = result_def()
    sem = prop_def(IntegerAttr)
    scope = prop_def(IntegerAttr)

    traits = traits_def(MemoryReadEffect(), MemoryWriteEffect(), BlockSizes())

    def verify_(self) -> None:
        value_type = self._verify_keywords()
        _expect_order(self, "relaxed", "acquire")
        expect_type(self, "result", self.result.type, value_type, "what ptr points to")
        _expect_mask(self, self.mask, value_type)


@irdl_op_definition
class AtomicStoreOp(_AtomicOp):
    """Writes with an order: relaxed or release. Lanes whose mask is false touch no memory."""

    name = "tt.atomic_store"
    KEYWORDS: ClassVar[_Keywords] = (("sem", MEMORY_ORDERS), ("scope", MEMORY_SCOPES))

    ptr = operand_def()
    val = operand_def()
    mask = opt_operand_def()
    sem = prop_def(IntegerAttr)
    scope = prop_def(IntegerAttr)

    traits = traits_def(MemoryReadEffect(), MemoryWriteEffect(), BlockSizes())

    def verify_(self) -> None:
        value_type = self._verify_keywords()
        _expect_order(self, "relaxed", "release")
        expect_type(self, "val", self.val.type, value_type, "what ptr points to")
        _expect_mask(self, self.mask, value_type)

    @classmethod
    def parse(cls, parser: Parser) -> AtomicStoreOp:
        properties, operands = cls._parse_keywords(parser)
        attributes = parser.parse_optional_attr_dict()
        parser.parse_punctuation(":")
        pointer_type = parser.parse_type()
        value_type = t.value_type(pointer_type) if t.is_pointer(pointer_type) else pointer_type
        types = (pointer_type, value_type, t.mask_type(value_type))
        if not 2 <= len(operands) <= 3:
            parser.raise_error("expected a pointer, a value, and a mask at most")
        values = [parser.resolve_operand(o, each) for o, each in zip(operands, types, strict=False)]
        return cls.create(operands=values, properties=properties, attributes=attributes)

    def _print_types(self, printer: Printer) -> None:
        printer.print_attribute(self.ptr.type)


def _expect_mask(op: Operation, mask: SSAValue | None, value_type: Attribute) -> None:
    if mask is not None:
        expect_type(op, "mask", mask.type, t.mask_type(value_type), "i1 of the pointer's shape")


def _expect_order(op: Operation, *allowed: str) -> None:
    order = enum_name(MEMORY_ORDERS, op.properties["sem"])
    if order not in allowed:
        fail(op, f"order {order}; expected {' or '.join(allowed)}")


@irdl_op_definition
class AtomicPollOp(_AtomicOp):
    """Reads repeatedly until every lane holds the expected value, or `timeout` nanoseconds have passed.

    The result says which lanes held it at the last read. Without a timeout the wait may last forever.
    """

    name = "tt.atomic_poll"
    KEYWORDS: ClassVar[_Keywords] = (("sem", MEMORY_ORDERS), ("scope", MEMORY_SCOPES))
    WIDTHS: ClassVar[tuple[int, ...]] = (16, 32, 64)

    ptr = operand_def()
    expected = operand_def()
    timeout = opt_operand_def()
    result = result_def()
    sem = prop_def(IntegerAttr)
    scope = prop_def(IntegerAttr)

    traits = traits_def(MemoryReadEffect(), MemoryWriteEffect(), BlockSizes())

    def verify_(self) -> None:
        value_type = self._verify_keywords()
        _expect_order(self, "relaxed", "acquire")
        expect_type(self, "expected", self.expected.type, value_type, "what ptr points to")
        if not t.is_integer(value_type) or t.bit_width(value_type) not in self.WIDTHS:
            fail(self, f"expected is {value_type}; polls read integers of 16, 32 or 64 bits")
        expect_type(self, "result", self.result.type, t.mask_type(value_type), "i1 of the pointer's shape")
        if self.timeout is not None:
            expect_type(self, "timeout", self.timeout.type, t.I64, "nanoseconds")

    @classmethod
    def parse(cls, parser: Parser) -> AtomicPollOp:
        properties, operands = cls._parse_keywords(parser)
        if len(operands) != 2:
            parser.raise_error("expected a pointer and a value")
        timeout = parser.parse_unresolved_operand() if parser.parse_optional_keyword("timeout") else None
        attributes = parser.parse_optional_attr_dict()
        parser.parse_punctuation(":")
        types = [parser.parse_type()]
        parser.parse_punctuation(",")
        types.append(parser.parse_type())
        parser.parse_punctuation("->")
        result = parser.parse_type()
        values = [parser.resolve_operand(o, each) for o, each in zip(operands, types, strict=True)]
        if timeout is not None:
            values.append(parser.resolve_operand(timeout, t.I64))
        return cls.create(operands=values, result_types=[result], properties=properties, attributes=attributes)

    def _print_operands(self, printer: Printer) -> None:
        printer.print_list((self.ptr, self.expected), printer.print_ssa_value)
        if self.timeout is not None:
            printer.print_string(" timeout ")
            printer.print_ssa_value(self.timeout)

    def _print_types(self, printer: Printer) -> None:
        printer.print_list((self.ptr.type, self.expected.type), printer.print_attribute)
        printer.print_string(" -> ")
        printer.print_attribute(self.result.type)


OPERATIONS: Sequence[type[Operation]] = (AtomicRMWOp, AtomicCASOp, AtomicLoadOp, AtomicStoreOp, AtomicPollOp)

"""Defines the operations on tensor descriptors, which access a tensor in memory in blocks at any offsets.
Elements outside the tensor read as padding and are not written.

The names are those of Triton 3.9. Older texts call the accesses `tt.experimental_descriptor_…`; see
`dialect_versions.py`. Limits of the hardware (strides of 16 bytes, a last stride of 1, at least 8 gathered
rows of 32 bytes) are no rules of the dialect.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from xdsl.dialects.builtin import FunctionType, IntegerAttr
from xdsl.ir import Attribute, Operation, SSAValue
from xdsl.irdl import (
    IRDLOperation,
    SameVariadicOperandSize,
    irdl_op_definition,
    operand_def,
    opt_prop_def,
    prop_def,
    result_def,
    traits_def,
    var_operand_def,
)
from xdsl.parser import Parser, UnresolvedOperand
from xdsl.printer import Printer
from xdsl.traits import MemoryReadEffect, MemoryWriteEffect, Pure

from ... import types as t
from ...checks import BlockSizes, expect_block, expect_type, expect_types, fail
from ..attributes import PADDING_OPTIONS, CachePolicyAttr, enum_attr, enum_name, parse_case
from .descriptor_types import TensorDescType, parse_short, print_short
from .pointers import print_hints, read_hints, verify_cache_policy, verify_padding

REDUCE_KINDS = {"add": 1, "min": 2, "max": 3, "inc": 4, "dec": 5, "and": 6, "or": 7, "xor": 8}
_ON_INTEGERS = ("inc", "dec", "and", "or", "xor")
ZERO_PADDING = enum_attr(PADDING_OPTIONS["zero"])


def parse_list(parser: Parser) -> list[UnresolvedOperand]:
    """Parses `[%a, %b, …]`."""
    return parser.parse_comma_separated_list(Parser.Delimiter.SQUARE, parser.parse_unresolved_operand)


def print_lists(printer: Printer, *lists: Sequence[SSAValue]) -> None:
    """Prints `, [%a, %b], [%c]`."""
    for values in lists:
        printer.print_string(", ")
        with printer.in_square_brackets():
            printer.print_list(values, printer.print_ssa_value)


def resolve(parser: Parser, operands: Sequence[UnresolvedOperand], type_: Attribute) -> list[SSAValue]:
    return [parser.resolve_operand(operand, type_) for operand in operands]


def expect_descriptor(op: Operation, what: str, type_: Attribute) -> TensorDescType:
    if not isinstance(type_, TensorDescType):
        fail(op, f"{what} is {type_}, expected a tensor descriptor (`!tt.tensordesc<…>`)")
    return type_


@irdl_op_definition
class MakeTensorDescriptorOp(IRDLOperation):
    """Describes the tensor at `base` by its extents and its strides in elements."""

    name = "tt.make_tensor_descriptor"

    base = operand_def()
    shape = var_operand_def()
    strides = var_operand_def()
    result = result_def()
    padding = opt_prop_def(IntegerAttr)

    irdl_options = (SameVariadicOperandSize(),)
    traits = traits_def(Pure(), BlockSizes())

    @property
    def pads_with_nan(self) -> bool:
        return enum_name(PADDING_OPTIONS, self.padding) == "nan"

    def verify_(self) -> None:
        described = expect_descriptor(self, "result", self.result.type)
        rank = len(described.shape)
        expect_types(self, "extents", [value.type for value in self.shape], [t.I32] * rank)
        expect_types(self, "strides", [value.type for value in self.strides], [t.I64] * rank)
        if not t.is_pointer(self.base.type) or t.is_tensor(self.base.type):
            fail(self, f"base is {self.base.type}, expected a pointer")
        expect_type(self, "what base points to", t.value_type(self.base.type), described.elem, "the descriptor's elements")
        if self.padding is not None:
            verify_padding(self, self.padding, described.elem)

    @classmethod
    def parse(cls, parser: Parser) -> MakeTensorDescriptorOp:
        base = parser.parse_unresolved_operand()
        parser.parse_punctuation(",")
        shape = parse_list(parser)
        parser.parse_punctuation(",")
        strides = parse_list(parser)
        start = parser.pos
        properties, attributes = read_hints(cls, parser)
        if len(shape) != len(strides):
            parser.raise_error(f"{len(shape)} extents and {len(strides)} strides", start, parser.pos)
        parser.parse_punctuation(":")
        pointer = parse_short(parser, t.PointerType)
        parser.parse_punctuation(",")
        result = parse_short(parser, TensorDescType)
        operands = [
            parser.resolve_operand(base, pointer),
            *resolve(parser, shape, t.I32),
            *resolve(parser, strides, t.I64),
        ]
        return cls.create(operands=operands, result_types=[result], properties=properties, attributes=attributes)

    def print(self, printer: Printer) -> None:
        printer.print_string(" ")
        printer.print_ssa_value(self.base)
        print_lists(printer, self.shape, self.strides)
        print_hints(printer, self, {"padding": ZERO_PADDING})
        printer.print_string(" : ")
        print_short(printer, self.base.type)
        printer.print_string(", ")
        print_short(printer, self.result.type)


def _verify_access(op: Operation, desc: SSAValue, indices: Sequence[SSAValue], value: Attribute, what: str) -> TensorDescType:
    """Checks that the value has the type of a block, of which leading axes of extent 1 may be missing, and
    returns the type of the descriptor."""
    described = expect_descriptor(op, "desc", desc.type)
    expect_types(op, "indices", [index.type for index in indices], [t.I32] * len(described.shape))
    shape = t.shape_of(value)
    missing = len(described.shape) - len(shape)
    fits = shape == described.shape[max(missing, 0) :] and all(extent == 1 for extent in described.shape[: max(missing, 0)])
    if not t.is_tensor(value) or not fits or t.elem(value) != described.elem:
        fail(op, f"{what} is {value}, expected {described.block}, where only leading axes of extent 1 may be left out")
    return described


def _parse_coordinates(parser: Parser) -> list[UnresolvedOperand]:
    """Parses `%desc[%i, %j]`."""
    return [parser.parse_unresolved_operand(), *parse_list(parser)]


def _print_coordinates(printer: Printer, desc: SSAValue, indices: Sequence[SSAValue]) -> None:
    printer.print_ssa_value(desc)
    with printer.in_square_brackets():
        printer.print_list(indices, printer.print_ssa_value)


@irdl_op_definition
class DescriptorLoadOp(IRDLOperation):
    """Reads the block that starts at the indices."""

    name = "tt.descriptor_load"

    desc = operand_def()
    indices = var_operand_def()
    result = result_def()
    cachePolicy = opt_prop_def(CachePolicyAttr)

    traits = traits_def(MemoryReadEffect(), BlockSizes())

    def verify_(self) -> None:
        _verify_access(self, self.desc, self.indices, self.result.type, "result")
        verify_cache_policy(self)

    @classmethod
    def parse(cls, parser: Parser) -> DescriptorLoadOp:
        desc, *indices = _parse_coordinates(parser)
        properties, attributes = read_hints(cls, parser)
        parser.parse_punctuation(":")
        type_ = parser.parse_type()
        parser.parse_punctuation("->")
        operands = [parser.resolve_operand(desc, type_), *resolve(parser, indices, t.I32)]
        return cls.create(
            operands=operands, result_types=[parser.parse_type()], properties=properties, attributes=attributes
        )

    def print(self, printer: Printer) -> None:
        printer.print_string(" ")
        _print_coordinates(printer, self.desc, self.indices)
        print_hints(printer, self, {})
        printer.print_string(" : ")
        printer.print_attribute(self.desc.type)
        printer.print_string(" -> ")
        printer.print_attribute(self.result.type)


class _DescriptorWriteOp(IRDLOperation):
    """An operation with a descriptor, indices and a block to write. The operands have Triton's order: desc,
    src, indices."""

    desc = operand_def()
    src = operand_def()
    indices = var_operand_def()

    traits = traits_def(MemoryReadEffect(), MemoryWriteEffect(), BlockSizes())

    def verify_(self) -> None:
        self._verify_kind(_verify_access(self, self.desc, self.indices, self.src.type, "src"))

    def _verify_kind(self, described: TensorDescType) -> None:
        """Checks that the operation is defined for the elements."""

    @classmethod
    def _parse_operands(cls, parser: Parser) -> tuple[list[SSAValue], dict[str, Attribute], dict[str, Attribute]]:
        desc, *indices = _parse_coordinates(parser)
        parser.parse_punctuation(",")
        source = parser.parse_unresolved_operand()
        properties, attributes = read_hints(cls, parser)
        parser.parse_punctuation(":")
        type_ = parser.parse_type()
        parser.parse_punctuation(",")
        values = [parser.resolve_operand(desc, type_), parser.resolve_operand(source, parser.parse_type())]
        return [*values, *resolve(parser, indices, t.I32)], properties, attributes

    def _print_operands(self, printer: Printer) -> None:
        _print_coordinates(printer, self.desc, self.indices)
        printer.print_string(", ")
        printer.print_ssa_value(self.src)
        print_hints(printer, self, {"kind": None})
        printer.print_string(" : ")
        printer.print_list((self.desc.type, self.src.type), printer.print_attribute)


@irdl_op_definition
class DescriptorStoreOp(_DescriptorWriteOp):
    """Writes the block that starts at the indices."""

    name = "tt.descriptor_store"

    @classmethod
    def parse(cls, parser: Parser) -> DescriptorStoreOp:
        operands, properties, attributes = cls._parse_operands(parser)
        return cls.create(operands=operands, properties=properties, attributes=attributes)

    def print(self, printer: Printer) -> None:
        printer.print_string(" ")
        self._print_operands(printer)


@irdl_op_definition
class DescriptorReduceOp(_DescriptorWriteOp):
    """Combines a block atomically, element by element, into the one that starts at the indices.

    `inc` and `dec` count modulo, without sign: `old >= src ? 0 : old + 1` and `old == 0 || old > src ? src : old - 1`.
    """

    name = "tt.descriptor_reduce"

    kind = prop_def(IntegerAttr)

    def _verify_kind(self, described: TensorDescType) -> None:
        kind = enum_name(REDUCE_KINDS, self.kind)
        if kind is None:
            fail(self, f"unknown kind {self.kind}; known: {', '.join(REDUCE_KINDS)}")
        if kind in _ON_INTEGERS and not t.is_integer(described.elem):
            fail(self, f"{kind} of {described.elem}, expected integers")

    @classmethod
    def parse(cls, parser: Parser) -> DescriptorReduceOp:
        kind = parse_case(parser, "kind", tuple(REDUCE_KINDS))
        parser.parse_punctuation(",")
        operands, properties, attributes = cls._parse_operands(parser)
        properties["kind"] = enum_attr(REDUCE_KINDS[kind])
        return cls.create(operands=operands, properties=properties, attributes=attributes)

    def print(self, printer: Printer) -> None:
        printer.print_string(f" {enum_name(REDUCE_KINDS, self.kind)}, ")
        self._print_operands(printer)


class _RowsOp(IRDLOperation):
    """An access to rows of a matrix by their numbers. The first operands are desc, row numbers and first
    column."""

    ROWS: ClassVar[str]

    def _verify_rows(self, rows: Attribute) -> None:
        desc, offsets, column = self.operands[:3]
        described = expect_descriptor(self, "desc", desc.type)
        if len(described.shape) != 2 or described.shape[0] != 1:
            fail(self, f"desc is {described}, expected a matrix in blocks of one row (1xM)")
        numbers = expect_block(self, "x_offsets", offsets)
        if len(numbers) != 1 or t.elem(offsets.type) != t.I32:
            fail(self, f"x_offsets is {offsets.type}, expected i32 row numbers on one axis")
        expect_type(self, "y_offset", column.type, t.I32)
        expected = t.tensor(described.elem, (numbers[0], described.shape[1]))
        expect_type(self, self.ROWS, rows, expected, "a row of the block for every row number")

    @staticmethod
    def _parse_coordinates(parser: Parser) -> list[UnresolvedOperand]:
        operands = _parse_coordinates(parser)
        if len(operands) != 3:
            parser.raise_error(f"{len(operands) - 1} indices, expected row numbers and a column")
        return operands


@irdl_op_definition
class DescriptorGatherOp(_RowsOp):
    """Reads rows by their numbers, from one column on."""

    name = "tt.descriptor_gather"
    ROWS: ClassVar[str] = "result"

    desc = operand_def()
    x_offsets = operand_def()
    y_offset = operand_def()
    result = result_def()

    traits = traits_def(MemoryReadEffect(), BlockSizes())

    def verify_(self) -> None:
        self._verify_rows(self.result.type)

    @classmethod
    def parse(cls, parser: Parser) -> DescriptorGatherOp:
        operands = cls._parse_coordinates(parser)
        properties, attributes = read_hints(cls, parser)
        parser.parse_punctuation(":")
        start = parser.pos
        type_ = parser.parse_type()
        if not isinstance(type_, FunctionType) or len(type_.inputs.data) != 3 or len(type_.outputs.data) != 1:
            parser.raise_error("expected the types of the three operands, and one result", start, parser.pos)
        values = [parser.resolve_operand(o, each) for o, each in zip(operands, type_.inputs.data, strict=True)]
        return cls.create(operands=values, result_types=type_.outputs.data, properties=properties, attributes=attributes)

    def print(self, printer: Printer) -> None:
        printer.print_string(" ")
        _print_coordinates(printer, self.desc, (self.x_offsets, self.y_offset))
        print_hints(printer, self, {})
        printer.print_string(" : ")
        printer.print_attribute(FunctionType.from_lists(list(self.operand_types), list(self.result_types)))


@irdl_op_definition
class DescriptorScatterOp(_RowsOp):
    """Writes rows by their numbers, from one column on. Of rows with the same number, any may be written
    last."""

    name = "tt.descriptor_scatter"
    ROWS: ClassVar[str] = "src"

    desc = operand_def()
    x_offsets = operand_def()
    y_offset = operand_def()
    src = operand_def()

    traits = traits_def(MemoryReadEffect(), MemoryWriteEffect(), BlockSizes())

    def verify_(self) -> None:
        self._verify_rows(self.src.type)

    @classmethod
    def parse(cls, parser: Parser) -> DescriptorScatterOp:
        operands = cls._parse_coordinates(parser)
        parser.parse_punctuation(",")
        operands.append(parser.parse_unresolved_operand())
        properties, attributes = read_hints(cls, parser)
        parser.parse_punctuation(":")
        types = [parser.parse_type()]
        for _ in range(3):
            parser.parse_punctuation(",")
            types.append(parser.parse_type())
        values = [parser.resolve_operand(o, each) for o, each in zip(operands, types, strict=True)]
        return cls.create(operands=values, properties=properties, attributes=attributes)

    def print(self, printer: Printer) -> None:
        printer.print_string(" ")
        _print_coordinates(printer, self.desc, (self.x_offsets, self.y_offset))
        printer.print_string(", ")
        printer.print_ssa_value(self.src)
        print_hints(printer, self, {})
        printer.print_string(" : ")
        printer.print_list(self.operand_types, printer.print_attribute)


OPERATIONS: Sequence[type[Operation]] = (
    MakeTensorDescriptorOp,
    DescriptorLoadOp,
    DescriptorStoreOp,
    DescriptorReduceOp,
    DescriptorGatherOp,
    DescriptorScatterOp,
)

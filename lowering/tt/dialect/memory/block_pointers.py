"""Defines the operations on block pointers, which texts up to Triton 3.3 have: `!tt.ptr<tensor<16x16xf32>>`
points to a block of a tensor and is moved by offsets. `tt.load` and `tt.store` go through them too
(`pointers.py`)."""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.dialects.builtin import DenseArrayBase, i32
from xdsl.ir import Attribute, Operation
from xdsl.irdl import (
    IRDLOperation,
    SameVariadicOperandSize,
    irdl_op_definition,
    operand_def,
    prop_def,
    result_def,
    traits_def,
    var_operand_def,
)
from xdsl.parser import Parser
from xdsl.printer import Printer
from xdsl.traits import Pure

from ... import types as t
from ...checks import BlockSizes, expect_legal_block, expect_type, expect_types, fail
from .descriptor_types import parse_short, print_short
from .descriptors import parse_list, print_lists, resolve
from .pointers import print_hints, read_hints


def _block(op: Operation, what: str, type_: Attribute) -> Attribute:
    if not t.is_block_pointer(type_):
        fail(op, f"{what} is {type_}, expected a pointer to a block (`!tt.ptr<tensor<…>>`)")
    block = t.value_type(type_)
    expect_legal_block(op, f"the block behind {what}", block)  # type: ignore[arg-type]
    return block


@irdl_op_definition
class MakeTensorPtrOp(IRDLOperation):
    """Points to the block at `offsets` of the tensor at `base` with these extents and strides (in elements).

    `order`, from the axis that changes fastest in memory to the slowest, is a hint.
    """

    name = "tt.make_tensor_ptr"

    base = operand_def()
    shape = var_operand_def()
    strides = var_operand_def()
    offsets = var_operand_def()
    result = result_def()
    order = prop_def(DenseArrayBase)

    irdl_options = (SameVariadicOperandSize(),)
    traits = traits_def(Pure(), BlockSizes())

    def verify_(self) -> None:
        block = _block(self, "result", self.result.type)
        rank = len(t.shape_of(block))
        expect_types(self, "extents", [value.type for value in self.shape], [t.I64] * rank)
        expect_types(self, "strides", [value.type for value in self.strides], [t.I64] * rank)
        expect_types(self, "offsets", [value.type for value in self.offsets], [t.I32] * rank)
        assert isinstance(self.result.type, t.PointerType)
        space = self.result.type.address_space.data
        expect_type(self, "base", self.base.type, t.ptr(t.elem(block), space), "a pointer to the elements of the block")
        order = list(self.order.get_values())
        if self.order.elt_type != i32 or sorted(order) != list(range(rank)):
            fail(self, f"order is {order}, expected each of the axes 0 … {rank - 1} once")

    @classmethod
    def parse(cls, parser: Parser) -> MakeTensorPtrOp:
        base = parser.parse_unresolved_operand()
        lists = []
        for _ in range(3):
            parser.parse_punctuation(",")
            lists.append(parse_list(parser))
        start = parser.pos
        properties, attributes = read_hints(cls, parser)
        if len({len(each) for each in lists}) != 1:
            counts = ", ".join(str(len(each)) for each in lists)
            parser.raise_error(f"{counts} extents, strides and offsets; expected as many of each", start, parser.pos)
        parser.parse_punctuation(":")
        type_ = parse_short(parser, t.PointerType)
        pointer = type_
        if isinstance(type_, t.PointerType) and t.is_block_pointer(type_):
            pointer = t.ptr(t.elem(t.value_type(type_)), type_.address_space.data)
        operands = [parser.resolve_operand(base, pointer)]
        for each, elem in zip(lists, (t.I64, t.I64, t.I32), strict=True):
            operands += resolve(parser, each, elem)
        return cls.create(operands=operands, result_types=[type_], properties=properties, attributes=attributes)

    def print(self, printer: Printer) -> None:
        printer.print_string(" ")
        printer.print_ssa_value(self.base)
        print_lists(printer, self.shape, self.strides, self.offsets)
        print_hints(printer, self, {})
        printer.print_string(" : ")
        print_short(printer, self.result.type)


@irdl_op_definition
class AdvanceOp(IRDLOperation):
    """The block pointer moved by offsets, in elements along every axis."""

    name = "tt.advance"

    ptr = operand_def()
    offsets = var_operand_def()
    result = result_def()

    traits = traits_def(Pure(), BlockSizes())

    def verify_(self) -> None:
        block = _block(self, "ptr", self.ptr.type)
        expect_types(self, "offsets", [value.type for value in self.offsets], [t.I32] * len(t.shape_of(block)))
        expect_type(self, "result", self.result.type, self.ptr.type, "the type of ptr")

    @classmethod
    def parse(cls, parser: Parser) -> AdvanceOp:
        pointer = parser.parse_unresolved_operand()
        parser.parse_punctuation(",")
        offsets = parse_list(parser)
        properties, attributes = read_hints(cls, parser)
        parser.parse_punctuation(":")
        type_ = parse_short(parser, t.PointerType)
        operands = [parser.resolve_operand(pointer, type_), *resolve(parser, offsets, t.I32)]
        return cls.create(operands=operands, result_types=[type_], properties=properties, attributes=attributes)

    def print(self, printer: Printer) -> None:
        printer.print_string(" ")
        printer.print_ssa_value(self.ptr)
        print_lists(printer, self.offsets)
        print_hints(printer, self, {})
        printer.print_string(" : ")
        print_short(printer, self.result.type)


OPERATIONS: Sequence[type[Operation]] = (MakeTensorPtrOp, AdvanceOp)

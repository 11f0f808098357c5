"""Defines the operations on tensor maps, descriptors that are stored in memory as 128 bytes.

Triton 3.3 calls the operations `tt.experimental_tensormap_create`, `tt.experimental_tensormap_fenceproxy_acquire` and
`tt.reinterpret_tensor_descriptor`; later versions have them in the dialect `ttng`.
"""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.dialects.builtin import DenseArrayBase, FunctionType, IntegerAttr, i32
from xdsl.ir import Attribute, Operation
from xdsl.irdl import (
    AttrSizedOperandSegments,
    IRDLOperation,
    irdl_op_definition,
    operand_def,
    prop_def,
    result_def,
    traits_def,
    var_operand_def,
)
from xdsl.parser import Parser
from xdsl.printer import Printer
from xdsl.traits import MemoryReadEffect, MemoryWriteEffect

from ... import types as t
from ...checks import BlockSizes, expect_types, fail
from ..attributes import property_number
from .descriptors import expect_descriptor, parse_list, print_lists
from .pointers import SEGMENTS, print_hints, read_hints

_LIMITS = {"elem_type": 15, "interleave_layout": 2, "swizzle_mode": 3, "fill_mode": 1}


def _expect_map(op: Operation, what: str, type_: Attribute) -> None:
    if not t.is_pointer(type_) or t.is_tensor(type_):
        fail(op, f"{what} is {type_}, expected a pointer")


@irdl_op_definition
class TensormapCreateOp(IRDLOperation):
    """Writes the tensor map of the tensor at `global_address` to `desc_ptr`.

    Boxes and extents go from the innermost axis outwards; strides, in bytes, leave the innermost axis out.
    """

    name = "ttng.tensormap_create"

    desc_ptr = operand_def()
    global_address = operand_def()
    box_dim = var_operand_def()
    global_dim = var_operand_def()
    global_stride = var_operand_def()
    element_stride = var_operand_def()
    elem_type = prop_def(IntegerAttr)
    interleave_layout = prop_def(IntegerAttr)
    swizzle_mode = prop_def(IntegerAttr)
    fill_mode = prop_def(IntegerAttr)

    irdl_options = (AttrSizedOperandSegments(as_property=True),)
    traits = traits_def(MemoryReadEffect(), MemoryWriteEffect(), BlockSizes())

    def verify_(self) -> None:
        _expect_map(self, "desc_ptr", self.desc_ptr.type)
        _expect_map(self, "global_address", self.global_address.type)
        rank = len(self.box_dim)
        if not 1 <= rank <= 5:
            fail(self, f"box_dim has {rank} axes, expected 1 to 5")
        for name, values, elem, count in (
            ("values of box_dim", self.box_dim, t.I32, rank),
            ("values of global_dim", self.global_dim, t.I32, rank),
            ("values of global_stride", self.global_stride, t.I64, rank - 1),
            ("values of element_stride", self.element_stride, t.I32, rank),
        ):
            expect_types(self, name, [value.type for value in values], [elem] * count)
        for name, limit in _LIMITS.items():
            if not 0 <= property_number(self, name) <= limit:
                fail(self, f"{name} is {property_number(self, name)}, expected 0 … {limit}")

    @classmethod
    def parse(cls, parser: Parser) -> TensormapCreateOp:
        operands = [parser.parse_unresolved_operand()]
        parser.parse_punctuation(",")
        operands.append(parser.parse_unresolved_operand())
        sizes = [1, 1]
        for _ in range(4):
            parser.parse_punctuation(",")
            found = parse_list(parser)
            operands += found
            sizes.append(len(found))
        properties, attributes = read_hints(cls, parser)
        parser.parse_punctuation(":")
        start = parser.pos
        type_ = parser.parse_type()
        if not isinstance(type_, FunctionType) or len(type_.inputs.data) != len(operands) or type_.outputs.data:
            parser.raise_error("expected the types of the operands, and no result", start, parser.pos)
        missing = [name for name in _LIMITS if name not in properties]
        if missing:
            parser.raise_error(f"{', '.join(missing)} is missing", start, parser.pos)
        values = [parser.resolve_operand(o, each) for o, each in zip(operands, type_.inputs.data, strict=True)]
        properties[SEGMENTS] = DenseArrayBase.from_list(i32, sizes)
        return cls.create(operands=values, properties=properties, attributes=attributes)

    def print(self, printer: Printer) -> None:
        printer.print_string(" ")
        printer.print_list((self.desc_ptr, self.global_address), printer.print_ssa_value)
        print_lists(printer, self.box_dim, self.global_dim, self.global_stride, self.element_stride)
        print_hints(printer, self, {SEGMENTS: None})
        printer.print_string(" : ")
        printer.print_attribute(FunctionType.from_lists(list(self.operand_types), []))


@irdl_op_definition
class TensormapFenceproxyAcquireOp(IRDLOperation):
    """Makes a tensor map that was written visible to its readers."""

    name = "ttng.tensormap_fenceproxy_acquire"

    desc_ptr = operand_def()

    assembly_format = "$desc_ptr attr-dict `:` type($desc_ptr)"
    traits = traits_def(MemoryReadEffect(), MemoryWriteEffect(), BlockSizes())

    def verify_(self) -> None:
        _expect_map(self, "desc_ptr", self.desc_ptr.type)


@irdl_op_definition
class ReinterpretTensorDescriptorOp(IRDLOperation):
    """The descriptor that the tensor map in memory stands for."""

    name = "ttng.reinterpret_tensor_descriptor"

    raw_desc = operand_def()
    result = result_def()

    assembly_format = "$raw_desc attr-dict `:` type($raw_desc) `to` type($result)"
    traits = traits_def(MemoryReadEffect(), BlockSizes())

    def verify_(self) -> None:
        _expect_map(self, "raw_desc", self.raw_desc.type)
        expect_descriptor(self, "result", self.result.type)


OPERATIONS: Sequence[type[Operation]] = (
    TensormapCreateOp,
    TensormapFenceproxyAcquireOp,
    ReinterpretTensorDescriptorOp,
)

"""Defines the type of tensor descriptors, and the parts of which descriptors and block pointers consist."""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.dialects.builtin import IntegerType, NoneAttr, Signedness, TensorType
from xdsl.ir import Attribute, ParametrizedAttribute, TypeAttribute
from xdsl.irdl import irdl_attr_definition
from xdsl.parser import AttrParser
from xdsl.printer import Printer
from xdsl.utils.exceptions import VerifyException

from ... import types as t
from ..attributes import is_older


@irdl_attr_definition
class TensorDescType(ParametrizedAttribute, TypeAttribute):
    """`!tt.tensordesc<16x32xf32>`: describes a tensor in memory that is accessed in blocks of 16 x 32.

    Integer elements may say how reductions compare them (`8x32xsi32`, `8x32xui32`); the blocks themselves are signless.
    Older texts write `!tt.tensordesc<tensor<16x32xf32>>`.
    """

    name = "tt.tensordesc"

    block_type: TensorType[Attribute]

    @classmethod
    def parse_parameters(cls, parser: AttrParser) -> Sequence[Attribute]:
        with parser.in_angle_brackets():
            start = parser.pos
            if parser.parse_optional_characters("tensor") is not None:
                with parser.in_angle_brackets():
                    shape, elem = parser.parse_ranked_shape()
            else:
                shape, elem = parser.parse_ranked_shape()
            count = 1
            for extent in shape:
                count *= max(extent, 1)
            if count > t.MAX_BLOCK_ELEMENTS:
                parser.raise_error(f"a block of {count} elements; the limit is {t.MAX_BLOCK_ELEMENTS}", start)
        return (TensorType(elem, shape),)

    def print_parameters(self, printer: Printer) -> None:
        with printer.in_angle_brackets():
            if is_older(printer):
                printer.print_attribute(self.block_type)
                return
            for extent in self.block_type.get_shape():
                printer.print_string(f"{extent}x")
            printer.print_attribute(self.block_type.element_type)

    def verify(self) -> None:
        shape, elem = self.block_type.get_shape(), self.block_type.element_type
        if not shape or any(extent < 1 or extent & (extent - 1) for extent in shape):
            raise VerifyException(f"{self}: expected a block of at least one axis with extents that are powers of two")
        if self.block_type.encoding != NoneAttr():
            raise VerifyException(f"{self}: descriptors of block programs carry no layout")
        if not t.is_float(elem) and not t.is_integer(elem):
            raise VerifyException(f"{self}: expected float or integer elements")

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of a block."""
        return tuple(self.block_type.get_shape())

    @property
    def elem(self) -> Attribute:
        """The element type as blocks have it: signless."""
        elem = self.block_type.element_type
        return t.scalar_type(f"i{elem.width.data}") if isinstance(elem, IntegerType) else elem

    @property
    def block(self) -> Attribute:
        """The type of the blocks that a load reads."""
        return t.tensor(self.elem, self.shape)

    @property
    def is_unsigned(self) -> bool:
        """Whether minimum and maximum compare as unsigned; signless integers compare as signed."""
        elem = self.block_type.element_type
        return isinstance(elem, IntegerType) and elem.signedness.data == Signedness.UNSIGNED


def is_composite(type_: Attribute) -> bool:
    """Returns whether a value of this type consists of several scalars: a descriptor or a block pointer."""
    return isinstance(type_, TensorDescType) or t.is_block_pointer(type_)


def block_of(type_: Attribute) -> tuple[tuple[int, ...], Attribute]:
    """Returns the shape and the (signless) element type of the blocks behind a descriptor or a block
    pointer."""
    if isinstance(type_, TensorDescType):
        return type_.shape, type_.elem
    block = t.value_type(type_)
    return t.shape_of(block), t.elem(block)


def part_types(type_: Attribute) -> list[Attribute]:
    """Returns the types of the parts of a descriptor or block pointer. Host code gets the parameters in this
    order."""
    shape, elem = block_of(type_)
    rank = len(shape)
    space = type_.address_space.data if isinstance(type_, t.PointerType) else t.GLOBAL_ADDRESS_SPACE
    sizes: list[Attribute] = [t.ptr(elem, space), *[t.I64] * (2 * rank)]
    return [*sizes, t.I1] if isinstance(type_, TensorDescType) else [*sizes, *[t.I64] * rank]


def parse_short(parser: AttrParser, kind: type[ParametrizedAttribute]) -> Attribute:
    """Parses a type that the text may write without its name: `<f32>` for `!tt.ptr<f32>`."""
    found: Attribute = parser.parse_optional_type() or kind.new(kind.parse_parameters(parser))
    if isinstance(found, t.PointerType):
        return t.ptr(found.pointee, found.address_space.data)
    return found


def print_short(printer: Printer, type_: Attribute) -> None:
    """Prints the parameters of a pointer or descriptor type without its name; other types in full."""
    if isinstance(type_, t.PointerType | TensorDescType):
        type_.print_parameters(printer)
    else:
        printer.print_attribute(type_)

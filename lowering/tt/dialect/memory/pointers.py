"""Defines tt.addptr, tt.load, tt.store and the casts between pointers and integers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from xdsl.dialects.builtin import BoolAttr, DenseArrayBase, IntegerAttr, i32
from xdsl.ir import Attribute, Operation, SSAValue
from xdsl.irdl import (
    AttrSizedOperandSegments,
    IRDLOperation,
    irdl_op_definition,
    operand_def,
    opt_operand_def,
    opt_prop_def,
    prop_def,
    result_def,
    traits_def,
)
from xdsl.parser import Parser
from xdsl.printer import Printer
from xdsl.traits import MemoryReadEffect, MemoryWriteEffect, Pure

from ... import types as t
from ...checks import BlockSizes, expect_kind, expect_shape, expect_type, fail
from ..attributes import (
    CACHE_MODIFIERS,
    EVICTION_POLICIES,
    PADDING_OPTIONS,
    CachePolicyAttr,
    cache_policy,
    enum_name,
    is_older,
    parse_case,
)
from ..constraints import SAME, written

NOT_VOLATILE = BoolAttr.from_bool(False)
SEGMENTS = "operandSegmentSizes"
LOAD_SEGMENTS: tuple[Attribute, ...] = tuple(
    DenseArrayBase.from_list(i32, [1, mask, other]) for mask, other in ((0, 0), (1, 0), (1, 1))
)
"""The segment sizes of a load, by its number of operands less one: of the pointer, the mask and `other`."""


@irdl_op_definition
class AddPtrOp(IRDLOperation):
    """Moves pointers by offsets counted in elements."""

    name = "tt.addptr"

    ptr = operand_def(SAME)
    offset = operand_def()
    result = result_def(written())

    assembly_format = "$ptr `,` $offset attr-dict `:` type($result) `,` type($offset)"
    traits = traits_def(Pure(), BlockSizes())

    def verify_(self) -> None:
        expect_kind(self, "ptr", self.ptr.type, "pointer")
        expect_kind(self, "offset", self.offset.type, "integer")
        expect_shape(self, "offset", self.offset.type, t.shape_of(self.ptr.type), "the shape of ptr")
        expect_type(self, "result", self.result.type, self.ptr.type, "the type of ptr")


def _pointee_block(op: Operation, pointer: SSAValue) -> Attribute:
    """Returns what `pointer` points to, as the type that a load gives, and checks that it is a pointer or a
    block of pointers."""
    if not t.is_block_pointer(pointer.type):
        expect_kind(op, "ptr", pointer.type, "pointer")
    return t.value_type(pointer.type)


def _read_type(pointer_type: Attribute) -> Attribute:
    """Returns `value_type` while a text is read; a type that is no pointer is returned for the verifier to
    refuse."""
    known = t.is_pointer(pointer_type) or t.is_block_pointer(pointer_type)
    return t.value_type(pointer_type) if known else pointer_type


def read_hints(
    op_class: type[IRDLOperation], parser: Parser
) -> tuple[dict[str, Attribute], dict[str, Attribute]]:
    """Parses the tail of a load or store: `cacheModifier = … evictionPolicy = …` of older texts, then a
    dictionary.

    Returns (properties, discardable attributes).
    """
    start = parser.pos
    older: dict[str, str] = {}
    cases = {"cacheModifier": CACHE_MODIFIERS, "evictionPolicy": EVICTION_POLICIES}
    while (word := next((key for key in cases if parser.parse_optional_keyword(key)), None)) is not None:
        parser.parse_punctuation("=")
        older[word] = parse_case(parser, word, cases[word])
    names = op_class.get_irdl_definition().properties
    properties: dict[str, Attribute] = {}
    attributes: dict[str, Attribute] = {}
    for key, value in parser.parse_optional_attr_dict().items():
        (properties if key in names else attributes)[key] = value
    if older:
        if "cachePolicy" in properties:
            parser.raise_error("cachePolicy stands beside cacheModifier or evictionPolicy", start, parser.pos)
        modifier, eviction = older.get("cacheModifier", "none"), older.get("evictionPolicy", "evict_normal")
        properties["cachePolicy"] = cache_policy(modifier, eviction)
    return properties, attributes


def print_hints(printer: Printer, op: IRDLOperation, omit: Mapping[str, Attribute | None]) -> None:
    """Prints the dictionary of properties and attributes, without those in `omit` (None: whatever the value).
    The older spelling has the cache policy in front of it."""
    shown = {
        key: value
        for key, value in (*op.properties.items(), *op.attributes.items())
        if key not in omit or omit[key] not in (None, value)
    }
    if is_older(printer) and isinstance(policy := shown.pop("cachePolicy", None), CachePolicyAttr):
        if (modifier := policy.cache_modifier.data) != "none":
            printer.print_string(f" cacheModifier = {modifier}")
        if (eviction := policy.eviction_policy.data) != "evict_normal":
            printer.print_string(f" evictionPolicy = {eviction}")
    if shown:
        printer.print_string(" ")
        printer.print_attr_dict(dict(sorted(shown.items())))


def _print_tail(printer: Printer, op: IRDLOperation, omit: Mapping[str, Attribute | None]) -> None:
    """Prints the hints, then the pointer type."""
    print_hints(printer, op, omit)
    printer.print_string(" : ")
    printer.print_attribute(op.operands[0].type)


def _verify_memory_operands(op: Operation, mask: SSAValue | None) -> Attribute:
    loaded = _pointee_block(op, op.operands[0])
    verify_boundaries(op)
    if mask is not None:
        expect_type(op, "mask", mask.type, t.mask_type(loaded), "i1 of the pointer's shape")
    verify_cache_policy(op)
    return loaded


def verify_boundaries(op: Operation) -> None:
    """Checks that only accesses through block pointers have `boundaryCheck` and `padding`, which fit the
    block."""
    checked, padding = op.properties.get("boundaryCheck"), op.properties.get("padding")
    if isinstance(checked, DenseArrayBase) and checked.elt_type != i32:
        fail(op, f"boundaryCheck is an array of {checked.elt_type}, expected i32")
    axes = checked.get_values() if isinstance(checked, DenseArrayBase) else ()
    pointer = op.operands[0].type
    if not t.is_block_pointer(pointer):
        if axes or padding is not None:
            fail(op, f"boundaryCheck and padding need a pointer to a block (`!tt.ptr<tensor<…>>`), ptr is {pointer}")
        return
    loaded = t.value_type(pointer)
    rank = len(t.shape_of(loaded))
    if len(op.operands) > (2 if op.name == "tt.store" else 1):
        fail(op, f"mask and other do not go with a pointer to a block ({pointer}); fix: boundaryCheck and padding")
    if any(not 0 <= axis < rank for axis in axes) or len(set(axes)) != len(axes):
        fail(op, f"boundaryCheck is {list(axes)}, expected different axes from 0 … {rank - 1}")
    if padding is not None:
        verify_padding(op, padding, loaded)


def verify_padding(op: Operation, padding: Attribute, block: Attribute) -> None:
    """Checks that padding is zero or NaN, and NaN only for floats."""
    kind = enum_name(PADDING_OPTIONS, padding)
    if kind is None:
        fail(op, f"unknown padding {padding}; known: 1 (zero), 2 (nan)")
    if kind == "nan" and not t.is_float(block):
        fail(op, f"padding with NaN of {block}; integers are padded with zeros")


def verify_cache_policy(op: Operation) -> None:
    policy = op.properties.get("cachePolicy")
    if isinstance(policy, CachePolicyAttr) and (
        policy.cache_modifier.data not in CACHE_MODIFIERS
        or policy.eviction_policy.data not in EVICTION_POLICIES
    ):
        fail(op, f"unknown cache policy {policy}")


@irdl_op_definition
class LoadOp(IRDLOperation):
    """Reads through pointers. Lanes whose mask is false touch no memory and read `other` (undefined without
    it).

    `boundaryCheck` and `padding` belong to block pointers of older texts.
    """

    name = "tt.load"

    ptr = operand_def()
    mask = opt_operand_def()
    other = opt_operand_def()
    result = result_def()
    cachePolicy = opt_prop_def(CachePolicyAttr)
    isVolatile = prop_def(BoolAttr, default_value=NOT_VOLATILE)
    boundaryCheck = opt_prop_def(DenseArrayBase)
    padding = opt_prop_def(IntegerAttr)

    irdl_options = (AttrSizedOperandSegments(as_property=True),)
    traits = traits_def(MemoryReadEffect(), BlockSizes())

    def verify_(self) -> None:
        loaded = _verify_memory_operands(self, self.mask)
        if self.other is not None:
            if self.mask is None:
                fail(self, "other needs a mask: without one every lane is read")
            expect_type(self, "other", self.other.type, loaded, "what ptr points to")
        expect_type(self, "result", self.result.type, loaded, "what ptr points to")

    @classmethod
    def parse(cls, parser: Parser) -> LoadOp:
        operands = [parser.parse_unresolved_operand()]
        while len(operands) < 3 and parser.parse_optional_punctuation(",") is not None:
            operands.append(parser.parse_unresolved_operand())
        properties, attributes = read_hints(cls, parser)
        parser.parse_punctuation(":")
        pointer_type = parser.parse_type()
        loaded = _read_type(pointer_type)
        types = (pointer_type, t.mask_type(loaded), loaded)
        values = [
            parser.resolve_operand(operand, type_) for operand, type_ in zip(operands, types, strict=False)
        ]
        properties[SEGMENTS] = LOAD_SEGMENTS[len(values) - 1]
        properties.setdefault("isVolatile", NOT_VOLATILE)
        return cls.create(
            operands=values, result_types=[loaded], properties=properties, attributes=attributes
        )

    def print(self, printer: Printer) -> None:
        printer.print_string(" ")
        printer.print_list(self.operands, printer.print_ssa_value)
        _print_tail(printer, self, {SEGMENTS: None, "isVolatile": NOT_VOLATILE})


@irdl_op_definition
class StoreOp(IRDLOperation):
    """Writes through pointers. Lanes whose mask is false touch no memory."""

    name = "tt.store"

    ptr = operand_def()
    value = operand_def()
    mask = opt_operand_def()
    cachePolicy = opt_prop_def(CachePolicyAttr)
    boundaryCheck = opt_prop_def(DenseArrayBase)

    traits = traits_def(MemoryWriteEffect(), BlockSizes())

    def verify_(self) -> None:
        expected = _verify_memory_operands(self, self.mask)
        expect_type(self, "value", self.value.type, expected, "what ptr points to")

    @classmethod
    def parse(cls, parser: Parser) -> StoreOp:
        operands = [parser.parse_unresolved_operand()]
        parser.parse_punctuation(",")
        operands.append(parser.parse_unresolved_operand())
        if parser.parse_optional_punctuation(",") is not None:
            operands.append(parser.parse_unresolved_operand())
        properties, attributes = read_hints(cls, parser)
        parser.parse_punctuation(":")
        pointer_type = parser.parse_type()
        stored = _read_type(pointer_type)
        types = (pointer_type, stored, t.mask_type(stored))
        values = [
            parser.resolve_operand(operand, type_) for operand, type_ in zip(operands, types, strict=False)
        ]
        return cls.create(operands=values, properties=properties, attributes=attributes)

    def print(self, printer: Printer) -> None:
        printer.print_string(" ")
        printer.print_list(self.operands, printer.print_ssa_value)
        _print_tail(printer, self, {})


class _CastOp(IRDLOperation):
    """One operand, one result of the same shape, both types written."""

    src = operand_def()
    result = result_def()

    assembly_format = "$src attr-dict `:` type($src) `->` type($result)"
    traits = traits_def(Pure(), BlockSizes())

    def verify_(self) -> None:
        expect_shape(self, "result", self.result.type, t.shape_of(self.src.type), "the shape of src")
        self.verify_elements()

    def verify_elements(self) -> None:
        """Checks the element types."""


def _expect_address(op: Operation, what: str, value: SSAValue) -> None:
    if t.elem(value.type) != t.I64:
        fail(op, f"{what} is {value.type}, expected i64 elements")


@irdl_op_definition
class IntToPtrOp(_CastOp):
    """Converts a 64-bit address to a pointer."""

    name = "tt.int_to_ptr"

    def verify_elements(self) -> None:
        _expect_address(self, "src", self.src)
        expect_kind(self, "result", self.result.type, "pointer")


@irdl_op_definition
class PtrToIntOp(_CastOp):
    """Converts a pointer to its 64-bit address."""

    name = "tt.ptr_to_int"

    def verify_elements(self) -> None:
        expect_kind(self, "src", self.src.type, "pointer")
        _expect_address(self, "result", self.result)


@irdl_op_definition
class BitcastOp(_CastOp):
    """Reinterprets bits as another type of the same width; pointers can become only pointers."""

    name = "tt.bitcast"

    def verify_elements(self) -> None:
        if t.is_pointer(self.src.type) != t.is_pointer(self.result.type):
            fail(
                self,
                f"src is {self.src.type} and result {self.result.type}; a pointer casts to pointers only",
            )
        old, new = t.bit_width(self.src.type), t.bit_width(self.result.type)
        if old != new:
            fail(self, f"src has elements of {old} bits and result of {new}")


OPERATIONS: Sequence[type[Operation]] = (AddPtrOp, LoadOp, StoreOp, IntToPtrOp, PtrToIntOp, BitcastOp)

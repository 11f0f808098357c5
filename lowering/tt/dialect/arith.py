"""Defines for scalars and blocks those operations of `arith` that xDSL defines for scalars only, under the
same names.

`ARITH` is the whole dialect: xDSL's operations with these in place of its own. Code tells operations apart by
`op.name`, never by xDSL's classes of the replaced operations.
"""

from __future__ import annotations

from typing import ClassVar

from xdsl.dialects import arith
from xdsl.dialects.builtin import IntegerAttr, IntegerType, i64
from xdsl.ir import Attribute, Dialect, Operation
from xdsl.irdl import (
    IRDLOperation,
    irdl_op_definition,
    operand_def,
    opt_prop_def,
    prop_def,
    result_def,
    traits_def,
)
from xdsl.irdl.declarative_assembly_format import (
    AttributeVariable,
    CustomDirective,
    ParsingState,
    PrintingState,
    irdl_custom_directive,
)
from xdsl.parser import Parser
from xdsl.printer import Printer
from xdsl.traits import Pure

from .. import types as t
from ..checks import BlockSizes, expect_kind, expect_shape, expect_type, fail
from .attributes import parse_case
from .constraints import MASK, SAME, written

INTEGER_PREDICATES = tuple(arith.CMPI_COMPARISON_OPERATIONS)
FLOAT_PREDICATES = tuple(arith.CMPF_COMPARISON_OPERATIONS)
_PREDICATES: dict[int, IntegerAttr[IntegerType]] = {n: IntegerAttr(n, i64) for n in range(len(FLOAT_PREDICATES))}


def predicate_attr(number: int) -> IntegerAttr[IntegerType]:
    """Returns the i64 attribute that stores a predicate: its index in INTEGER_PREDICATES or
    FLOAT_PREDICATES."""
    return _PREDICATES[number]


class _Predicate(CustomDirective):
    attribute: AttributeVariable

    NAMES: ClassVar[tuple[str, ...]]

    def parse(self, parser: Parser, state: ParsingState) -> None:
        name = parse_case(parser, "comparison", self.NAMES)
        self.attribute.set(state, predicate_attr(self.NAMES.index(name)))

    def print(self, printer: Printer, state: PrintingState, op: IRDLOperation) -> None:
        state.print_whitespace(printer)
        attr = self.attribute.get(op)
        assert isinstance(attr, IntegerAttr)
        printer.print_string(self.NAMES[attr.value.data])


@irdl_custom_directive
class IntegerPredicate(_Predicate):
    """The predicate of an integer comparison: `slt` and so on."""

    attribute: AttributeVariable
    NAMES = INTEGER_PREDICATES


@irdl_custom_directive
class FloatPredicate(_Predicate):
    """The predicate of a float comparison: `olt` and so on."""

    attribute: AttributeVariable
    NAMES = FLOAT_PREDICATES


class _CompareOp(IRDLOperation):
    """Compares two values of one type; the result is i1 of their shape."""

    lhs = operand_def(written())
    rhs = operand_def(SAME)
    result = result_def(MASK)
    predicate = prop_def(IntegerAttr)

    traits = traits_def(Pure(), BlockSizes())

    NAMES: ClassVar[tuple[str, ...]]
    KIND: ClassVar[str]

    def verify_(self) -> None:
        expect_kind(self, "lhs", self.lhs.type, self.KIND)
        expect_type(self, "rhs", self.rhs.type, self.lhs.type, "the type of lhs")
        expect_type(self, "result", self.result.type, t.mask_type(self.lhs.type), "i1 of the operands' shape")
        if not 0 <= self.predicate.value.data < len(self.NAMES):
            fail(self, f"unknown predicate {self.predicate.value.data}")


@irdl_op_definition
class CmpiOp(_CompareOp):
    """Integer comparison; the predicate says whether signed."""

    name = "arith.cmpi"

    custom_directives = (IntegerPredicate,)
    assembly_format = "custom<IntegerPredicate>($predicate) `,` $lhs `,` $rhs attr-dict `:` type($lhs)"

    NAMES: ClassVar[tuple[str, ...]] = INTEGER_PREDICATES
    KIND: ClassVar[str] = "integer"


@irdl_op_definition
class CmpfOp(_CompareOp):
    """Float comparison; ordered predicates are false and unordered ones true when an operand is NaN."""

    name = "arith.cmpf"

    fastmath = prop_def(arith.FastMathFlagsAttr, default_value=arith.FastMathFlagsAttr("none"))

    custom_directives = (FloatPredicate,)
    assembly_format = (
        "custom<FloatPredicate>($predicate) `,` $lhs `,` $rhs (`fastmath` `` $fastmath^)? attr-dict "
        "`:` type($lhs)"
    )

    NAMES: ClassVar[tuple[str, ...]] = FLOAT_PREDICATES
    KIND: ClassVar[str] = "float"


@irdl_op_definition
class RemFOp(IRDLOperation):
    """The remainder of the truncating division, with the sign of `lhs` (C's fmod); xDSL lacks it."""

    name = "arith.remf"

    lhs = operand_def(SAME)
    rhs = operand_def(SAME)
    result = result_def(written())
    fastmath = prop_def(arith.FastMathFlagsAttr, default_value=arith.FastMathFlagsAttr("none"))

    assembly_format = "$lhs `,` $rhs (`fastmath` `` $fastmath^)? attr-dict `:` type($result)"
    traits = traits_def(Pure(), BlockSizes())

    def verify_(self) -> None:
        expect_kind(self, "lhs", self.lhs.type, "float")
        expect_type(self, "rhs", self.rhs.type, self.lhs.type, "the type of lhs")
        expect_type(self, "result", self.result.type, self.lhs.type, "the type of lhs")


@irdl_op_definition
class SelectOp(IRDLOperation):
    """Elementwise choice. The condition is i1 of the values' shape, or one scalar i1 for all."""

    name = "arith.select"

    cond = operand_def()
    lhs = operand_def()
    rhs = operand_def()
    result = result_def()

    traits = traits_def(Pure(), BlockSizes())

    def verify_(self) -> None:
        if self.cond.type != t.I1:
            expect_type(
                self, "condition", self.cond.type, t.mask_type(self.lhs.type), "i1 or i1 of the values' shape"
            )
        expect_type(self, "rhs", self.rhs.type, self.lhs.type, "the type of lhs")
        expect_type(self, "result", self.result.type, self.lhs.type, "the type of lhs")

    @classmethod
    def parse(cls, parser: Parser) -> SelectOp:
        operands = [parser.parse_unresolved_operand()]
        for _ in range(2):
            parser.parse_punctuation(",")
            operands.append(parser.parse_unresolved_operand())
        attributes = parser.parse_optional_attr_dict()
        parser.parse_punctuation(":")
        condition: Attribute = t.I1
        type_ = parser.parse_type()
        if parser.parse_optional_punctuation(",") is not None:
            condition, type_ = type_, parser.parse_type()
        values = [
            parser.resolve_operand(operand, operand_type)
            for operand, operand_type in zip(operands, (condition, type_, type_), strict=True)
        ]
        return cls.create(operands=values, result_types=[type_], attributes=attributes)

    def print(self, printer: Printer) -> None:
        printer.print_string(" ")
        printer.print_list(self.operands, printer.print_ssa_value)
        if self.attributes:
            printer.print_string(" ")
            printer.print_attr_dict(self.attributes)
        printer.print_string(" : ")
        if self.cond.type != t.I1:
            printer.print_attribute(self.cond.type)
            printer.print_string(", ")
        printer.print_attribute(self.result.type)


class _CastOp(IRDLOperation):
    """One operand, one result of the same shape; the element kinds and the change of width are fixed per
    operation."""

    input = operand_def()
    result = result_def()

    assembly_format = "$input attr-dict `:` type($input) `to` type($result)"
    traits = traits_def(Pure(), BlockSizes())

    FROM: ClassVar[str] = "integer"
    TO: ClassVar[str] = "integer"
    GROWS: ClassVar[bool | None] = None

    def verify_(self) -> None:
        old, new = self.input.type, self.result.type
        expect_kind(self, "input", old, self.FROM)
        expect_kind(self, "result", new, self.TO)
        expect_shape(self, "result", new, t.shape_of(old), "the shape of input")
        if self.GROWS is not None and (t.bit_width(new) > t.bit_width(old)) is not self.GROWS:
            fail(
                self,
                f"{t.elem(old)} to {t.elem(new)}, expected a {'wider' if self.GROWS else 'narrower'} result",
            )
        if t.bit_width(new) == t.bit_width(old) and self.GROWS is not None:
            fail(self, f"{t.elem(old)} to {t.elem(new)} does not change the width")


@irdl_op_definition
class ExtSIOp(_CastOp):
    """Sign extension; i1 true becomes -1."""

    name = "arith.extsi"
    GROWS: ClassVar[bool | None] = True


@irdl_op_definition
class ExtUIOp(_CastOp):
    """Zero extension; i1 true becomes 1."""

    name = "arith.extui"
    GROWS: ClassVar[bool | None] = True


@irdl_op_definition
class TruncIOp(_CastOp):
    """Keeps the low bits."""

    name = "arith.trunci"

    overflow_flags = opt_prop_def(arith.IntegerOverflowAttr, prop_name="overflowFlags")
    assembly_format = "$input (`overflow` `` $overflowFlags^)? attr-dict `:` type($input) `to` type($result)"
    GROWS: ClassVar[bool | None] = False


@irdl_op_definition
class SIToFPOp(_CastOp):
    """Signed integer to float, rounded to nearest even."""

    name = "arith.sitofp"
    TO: ClassVar[str] = "float"


@irdl_op_definition
class UIToFPOp(_CastOp):
    """Unsigned integer to float, rounded to nearest even."""

    name = "arith.uitofp"
    TO: ClassVar[str] = "float"


@irdl_op_definition
class FPToSIOp(_CastOp):
    """Float to signed integer, toward zero. On joinery's back ends it saturates and NaN becomes 0."""

    name = "arith.fptosi"
    FROM: ClassVar[str] = "float"


@irdl_op_definition
class FPToUIOp(_CastOp):
    """Float to unsigned integer, toward zero. On joinery's back ends it saturates and NaN becomes 0."""

    name = "arith.fptoui"
    FROM: ClassVar[str] = "float"


REPLACEMENTS: tuple[type[Operation], ...] = (
    CmpiOp,
    CmpfOp,
    RemFOp,
    SelectOp,
    ExtSIOp,
    ExtUIOp,
    TruncIOp,
    SIToFPOp,
    UIToFPOp,
    FPToSIOp,
    FPToUIOp,
)
_REPLACED = {operation.name for operation in REPLACEMENTS}

ARITH = Dialect(
    "arith",
    [*(operation for operation in arith.Arith.operations if operation.name not in _REPLACED), *REPLACEMENTS],
    list(arith.Arith.attributes),
)

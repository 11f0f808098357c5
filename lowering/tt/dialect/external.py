"""Defines the tt operations whose meaning is defined outside the dialect: library functions and inline
assembly."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import PurePosixPath

from xdsl.dialects.builtin import BoolAttr, BytesAttr, IntegerAttr, StringAttr, i32
from xdsl.ir import Attribute, Operation
from xdsl.irdl import (
    AnyAttr,
    IRDLOperation,
    ParsePropInAttrDict,
    irdl_op_definition,
    prop_def,
    result_def,
    traits_def,
    var_operand_def,
    var_result_def,
)
from xdsl.traits import Pure

from ....promotion.errors import UserError
from ...libdevice.signatures import SIGNATURES
from ...ptx.effects import READABLE
from ...ptx.syntax import Instruction, Register, Special
from .. import types as t
from ..checks import BlockSizes, expect_kind, expect_shape, fail
from ..transforms.inline_asm_text import AsmProgram, read_asm

MAX_PACKED = 32
"""Largest packed_element: elements of one bit in a 32-bit register."""


def text_of(attr: Attribute) -> str:
    """Returns the characters of a string attribute; bytes that are not UTF-8 become U+FFFD."""
    data = attr.data if isinstance(attr, StringAttr | BytesAttr) else str(attr)
    return data.decode("utf-8", "replace") if isinstance(data, bytes) else str(data)


@irdl_op_definition
class ExternElementwiseOp(IRDLOperation):
    """One function of a device library, element by element: `symbol` names it.

    The functions of libdevice (`__nv_…`) are known: `lowering.libdevice.signatures`. None of them has effects, whatever `pure`
    says. Others are read and printed only.
    """

    name = "tt.extern_elementwise"

    srcs = var_operand_def()
    result = result_def()
    libname = prop_def(StringAttr)
    libpath = prop_def(StringAttr)
    pure = prop_def(BoolAttr)
    symbol = prop_def(StringAttr)

    irdl_options = (ParsePropInAttrDict(),)
    assembly_format = "$srcs attr-dict `:` functional-type($srcs, $result)"
    traits = traits_def(Pure(), BlockSizes())

    @property
    def names_libdevice(self) -> bool:
        """Whether library and path say libdevice, or nothing. Only the file name of the path matters, since
        the path is that of another machine."""
        file = PurePosixPath(self.libpath.data.replace("\\", "/")).name
        return self.libname.data in ("", "libdevice") and (not file or file.startswith("libdevice"))

    def verify_(self) -> None:
        shape = t.shape_of(self.result.type)
        expect_kind(self, "result", self.result.type, "float", "integer", "pointer")
        for index, operand in enumerate(self.srcs):
            expect_kind(self, f"operand {index}", operand.type, "float", "integer", "pointer")
            expect_shape(self, f"operand {index}", operand.type, shape, "the shape of the result")
        symbol = self.symbol.data
        known = SIGNATURES.get(symbol)
        if known is None:
            return
        found = [str(t.elem(operand.type)) for operand in self.srcs]
        if found != list(known.arguments):
            fail(self, f"{symbol} takes ({', '.join(known.arguments)}), got ({', '.join(found)})")
        if str(t.elem(self.result.type)) != known.result:
            fail(self, f"{symbol} gives {known.result}, but the result is {self.result.type}")


@irdl_op_definition
class ElementwiseInlineAsmOp(IRDLOperation):
    """Inline PTX, run for `packed_element` elements at a time.

    Elements narrower than 32 bits lie packed in 32-bit registers, the first one in the lowest bits: for every operand
    `ceil(packed_element / (32 / width))` registers, or `packed_element` of them from 32 bits on. Groups are made of elements
    that follow one another in row-major order.
    """

    name = "tt.elementwise_inline_asm"

    args = var_operand_def()
    result = var_result_def()
    asm_string = prop_def(AnyAttr())
    constraints = prop_def(StringAttr)
    packed_element = prop_def(IntegerAttr)
    pure = prop_def(BoolAttr)

    irdl_options = (ParsePropInAttrDict(),)
    assembly_format = "$asm_string attr-dict ($args^ `:` type($args))? `->` type($result)"
    traits = traits_def(BlockSizes())

    def verify_(self) -> None:
        if not self.results:
            fail(self, "has no result")
        shape = t.shape_of(self.results[0].type)
        for what, values in (("operand", self.args), ("result", self.results)):
            for index, value in enumerate(values):
                expect_kind(self, f"{what} {index}", value.type, "float", "integer", "pointer")
                expect_shape(self, f"{what} {index}", value.type, shape, "the shape of result 0")
        if not isinstance(self.asm_string, StringAttr | BytesAttr):
            fail(self, f"asm_string is {self.asm_string}, expected a string")
        packed = self.packed_element.value.data
        if not 1 <= packed <= MAX_PACKED or packed & (packed - 1):
            fail(self, f"packed_element is {packed}, expected a power of two from 1 to {MAX_PACKED}")
        try:
            program_of(self)
        except UserError as error:
            fail(self, str(error))


def register_read(op: Operation) -> str | None:
    """Returns the special register that an operation reads and does nothing else; None for any other assembly.

    Back ends lower such operations; what else assembly does is written as other operations before.
    """
    if op.name != ElementwiseInlineAsmOp.name or op.operands or len(op.results) != 1 or t.shape_of(op.results[0].type):
        return None
    assert isinstance(op, ElementwiseInlineAsmOp)
    statements = program_of(op).statements
    match statements:
        case (Instruction("mov", (type_,), (Register("%$0"), Special(name)), None),):
            return name if READABLE.get(name) == type_ and t.bit_width(op.results[0].type) == int(type_[1:]) else None
    return None


def read_register(name: str) -> tuple[dict[str, Attribute], Attribute]:
    """Returns the properties and the result type of the operation that reads a special register."""
    type_ = READABLE[name]
    properties: dict[str, Attribute] = {
        "asm_string": StringAttr(f"mov.{type_} $0, {name};"),
        "constraints": StringAttr("=l" if type_ == "u64" else "=r"),
        "packed_element": IntegerAttr(1, i32),
        "pure": BoolAttr.from_bool(False),
    }
    return properties, t.I64 if type_ == "u64" else t.I32


def program_of(op: ElementwiseInlineAsmOp) -> AsmProgram:
    """Returns the parsed assembly of an operation, with its operands bound to registers. Raises
    `UserError`."""
    return read_asm(
        text_of(op.asm_string),
        op.constraints.data,
        tuple(t.bit_width(value.type) for value in op.results),
        tuple(t.bit_width(value.type) for value in op.args),
        op.packed_element.value.data,
    )


OPERATIONS: Sequence[type[Operation]] = (ExternElementwiseOp, ElementwiseInlineAsmOp)

"""Defines tt.dot_scaled, the matrix product of microscaled blocks.

Source: OCP Microscaling Formats (MX) specification 1.0.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from xdsl.dialects.builtin import BoolAttr, DenseArrayBase, IntegerAttr, i32
from xdsl.ir import Attribute, Operation, SSAValue
from xdsl.irdl import (
    AttrSizedOperandSegments,
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
from xdsl.traits import Pure

from ....promotion.dtype import BY_PTX_NAME, DType
from .. import types as t
from ..checks import BlockSizes, expect_block, expect_shape, expect_type, fail
from .attributes import case_name, enum_attr, enum_name, parse_case
from .memory.pointers import SEGMENTS

SCALED_ELEMENTS = {"e4m3": 0, "e5m2": 1, "e2m3": 2, "e3m2": 3, "e2m1": 4, "bf16": 5, "fp16": 6}
STORED_AS = {
    "e4m3": ("f8E4M3FN", "i8"),
    "e5m2": ("f8E5M2", "i8"),
    "e2m3": ("i8",),  # one per byte, in its low six bits
    "e3m2": ("i8",),
    "e2m1": ("i8",),  # two per byte, the first in the low four bits
    "bf16": ("bf16",),
    "fp16": ("f16",),
}
"""Element types that an operand of each kind may have; i8 holds the bits."""
SCALE_TYPES = ("i8", "f8E4M3FN")
"""i8 holds the exponent e of 2**(e - 127), 255 for NaN (e8m0); an e4m3 scale is its value."""


def element_dtype(kind: str) -> DType:
    """Returns the dtype of elements of a kind, a key of SCALED_ELEMENTS."""
    return BY_PTX_NAME["f16" if kind == "fp16" else kind]


GROUP_SIZES = (16, 32)
"""Elements along K that share a scale."""

TRUE, FALSE = BoolAttr.from_bool(True), BoolAttr.from_bool(False)


class ScaledOperand(NamedTuple):
    """One operand of the product with its scale."""

    value: SSAValue
    scale: SSAValue | None
    kind: str
    """A key of SCALED_ELEMENTS."""
    packed_axis: int | None
    """The axis along which bytes hold two elements; None where elements have a byte or more of their own."""
    shape: tuple[int, ...]
    """Shape in elements: (…, M, K) or (…, K, N)."""
    group: int
    """Elements per scale; 0 without a scale."""


@irdl_op_definition
class DotScaledOp(IRDLOperation):
    """d = (a · 2^a_scale) · (b · 2^b_scale) + c, with one scale for 32 (or 16) elements along K.

    a is (M, K), b (K, N), a_scale (M, K/32), b_scale (N, K/32), c and d (M, N); all may have one batch axis more. e2m1 operands
    hold two elements per byte along K, or along M (N) when `lhs_k_pack` (`rhs_k_pack`) is false. Scaled elements are float32:
    exact unless they leave its range. `fastMath` allows NaN scales to be taken for numbers; joinery never does.
    """

    name = "tt.dot_scaled"

    a = operand_def()
    b = operand_def()
    c = operand_def()
    a_scale = opt_operand_def()
    b_scale = opt_operand_def()
    d = result_def()
    a_elem_type = prop_def(IntegerAttr)
    b_elem_type = prop_def(IntegerAttr)
    fastMath = prop_def(BoolAttr, default_value=FALSE)
    lhs_k_pack = prop_def(BoolAttr, default_value=TRUE)
    rhs_k_pack = prop_def(BoolAttr, default_value=TRUE)

    irdl_options = (AttrSizedOperandSegments(as_property=True),)
    traits = traits_def(Pure(), BlockSizes())

    def side(self, name: str) -> ScaledOperand:
        """Returns operand "a" or "b" of a verified operation with its scale, kind and shape."""
        left = name == "a"
        value, scale = (self.a, self.a_scale) if left else (self.b, self.b_scale)
        kind = case_name(SCALED_ELEMENTS, self.a_elem_type if left else self.b_elem_type)
        shape = list(t.shape_of(value.type))
        k_axis = len(shape) - (1 if left else 2)
        packed_axis = None
        if kind == "e2m1":
            k_packed = (self.lhs_k_pack if left else self.rhs_k_pack).value.data
            packed_axis = k_axis if k_packed else 2 * len(shape) - 3 - k_axis
            shape[packed_axis] *= 2
        group = 0 if scale is None else shape[k_axis] // t.shape_of(scale.type)[-1]
        return ScaledOperand(value, scale, kind, packed_axis, tuple(shape), group)

    def verify_(self) -> None:
        rank = len(expect_block(self, "a", self.a))
        if rank not in (2, 3):
            fail(self, f"a is {self.a.type}, expected rank 2, or 3 for a batch")
        for name, value in (("b", self.b), ("c", self.c), ("a_scale", self.a_scale), ("b_scale", self.b_scale)):
            if value is not None and len(expect_block(self, name, value)) != rank:
                fail(self, f"a has rank {rank} and {name} is {value.type}")
        self._verify_elements("a", self.a, self.a_elem_type)
        self._verify_elements("b", self.b, self.b_elem_type)
        a, b = self._verified_side("a"), self._verified_side("b")
        if a.shape[-1] != b.shape[-2]:
            fail(self, f"a has {a.shape[-1]} {a.kind} elements along K and b {b.shape[-2]} {b.kind} elements")
        if a.shape[:-2] != b.shape[:-2]:
            fail(self, f"a has batch extent {a.shape[0]} and b {b.shape[0]}")
        if a.group and b.group and a.group != b.group:
            fail(self, f"a has one scale for {a.group} elements and b one for {b.group}")
        expect_shape(self, "c", self.c.type, (*a.shape[:-1], b.shape[-1]), "rows of a, columns of b")
        if t.elem(self.c.type) not in (t.F16, t.BF16, t.F32, t.F64):
            fail(self, f"c is {self.c.type}, expected elements f16, bf16, f32 or f64")
        expect_type(self, "result", self.d.type, self.c.type, "the type of c")

    def _verify_elements(self, name: str, value: SSAValue, kind_attr: IntegerAttr) -> None:
        kind = enum_name(SCALED_ELEMENTS, kind_attr)
        if kind is None:
            fail(self, f"unknown element kind {kind_attr.value.data} of {name}; known: {', '.join(SCALED_ELEMENTS)}")
        if str(t.elem(value.type)) not in STORED_AS[kind]:
            fail(self, f"{name} is {value.type}, expected elements {' or '.join(STORED_AS[kind])} for {kind}")

    def _verified_side(self, name: str) -> ScaledOperand:
        value = self.a_scale if name == "a" else self.b_scale
        if value is not None and str(t.elem(value.type)) not in SCALE_TYPES:
            fail(self, f"{name}_scale is {value.type}, expected elements {' or '.join(SCALE_TYPES)}")
        side = self.side(name)
        if value is None:
            return side
        shape = t.shape_of(value.type)
        rows, k = (side.shape[-2], side.shape[-1]) if name == "a" else (side.shape[-1], side.shape[-2])
        if side.group not in GROUP_SIZES or side.group * shape[-1] != k:
            fail(self, f"{name}_scale is {value.type} for {k} elements along K; expected K/32 or K/16 columns")
        lines = "rows of a" if name == "a" else "columns of b"
        expect_shape(self, f"{name}_scale", value.type, (*side.shape[:-2], rows, shape[-1]), f"{lines}, groups along K")
        return side

    @classmethod
    def parse(cls, parser: Parser) -> DotScaledOp:
        def side() -> tuple[UnresolvedOperand, UnresolvedOperand | None]:
            value = parser.parse_unresolved_operand()
            scale = parser.parse_unresolved_operand() if parser.parse_optional_keyword("scale") else None
            parser.parse_punctuation(",")
            return value, scale

        def kind(keyword: str) -> Attribute:
            parser.parse_keyword(keyword)
            parser.parse_punctuation("=")
            return enum_attr(SCALED_ELEMENTS[parse_case(parser, "element kind", tuple(SCALED_ELEMENTS))])

        def types(scale: UnresolvedOperand | None) -> tuple[Attribute, Attribute | None]:
            value_type = parser.parse_type()
            if scale is None:
                return value_type, None
            parser.parse_punctuation(",")
            return value_type, parser.parse_type()

        (a, a_scale), (b, b_scale) = side(), side()
        c = parser.parse_unresolved_operand()
        properties: dict[str, Attribute] = {"a_elem_type": kind("lhs"), "b_elem_type": kind("rhs")}
        properties |= {"fastMath": FALSE, "lhs_k_pack": TRUE, "rhs_k_pack": TRUE}
        attributes: dict[str, Attribute] = {}
        for key, attr in parser.parse_optional_attr_dict().items():
            (properties if key in properties else attributes)[key] = attr
        parser.parse_punctuation(":")
        a_types = types(a_scale)
        parser.parse_punctuation("*")
        b_types = types(b_scale)
        parser.parse_punctuation("->")
        result = parser.parse_type()
        operands = [(a, a_types[0]), (b, b_types[0]), (c, result), (a_scale, a_types[1]), (b_scale, b_types[1])]
        values = [parser.resolve_operand(o, type_) for o, type_ in operands if o is not None and type_ is not None]
        segments = [1, 1, 1, int(a_scale is not None), int(b_scale is not None)]
        properties[SEGMENTS] = DenseArrayBase.from_list(i32, segments)
        return cls.create(operands=values, result_types=[result], properties=properties, attributes=attributes)

    def print(self, printer: Printer) -> None:
        sides = ((self.a, self.a_scale), (self.b, self.b_scale))
        for value, scale in sides:
            printer.print_string(" ")
            printer.print_ssa_value(value)
            if scale is not None:
                printer.print_string(" scale ")
                printer.print_ssa_value(scale)
            printer.print_string(",")
        printer.print_string(" ")
        printer.print_ssa_value(self.c)
        kinds = [enum_name(SCALED_ELEMENTS, kind) for kind in (self.a_elem_type, self.b_elem_type)]
        printer.print_string(f" lhs = {kinds[0]} rhs = {kinds[1]} ")
        shown: dict[str, Attribute] = {"fastMath": self.fastMath}
        shown |= {name: FALSE for name in ("lhs_k_pack", "rhs_k_pack") if self.properties[name] == FALSE}
        printer.print_attr_dict(dict(sorted({**shown, **self.attributes}.items())))
        printer.print_string(" : ")
        for index, (value, scale) in enumerate(sides):
            printer.print_string(" * " if index else "")
            printer.print_attribute(value.type)
            if scale is not None:
                printer.print_string(", ")
                printer.print_attribute(scale.type)
        printer.print_string(" -> ")
        printer.print_attribute(self.d.type)


OPERATIONS: Sequence[type[Operation]] = (DotScaledOp,)

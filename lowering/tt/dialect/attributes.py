"""Defines the attributes of the tt dialect: its enumerations, the cache policy, and the assembly-format
directives that print them.

MLIR stores the dialect's enumerations as i32 integers, and so does joinery, which keeps the generic form of
every operation readable by other tools. The custom form writes the case as a keyword (`x`, `rtne`, …).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import ClassVar

from xdsl.dialects.builtin import IntegerAttr, StringAttr, i32
from xdsl.ir import Attribute, Operation, ParametrizedAttribute
from xdsl.irdl import irdl_attr_definition
from xdsl.irdl.declarative_assembly_format import (
    AttributeVariable,
    CustomDirective,
    ParsingState,
    PrintingState,
    irdl_custom_directive,
)
from xdsl.irdl.operations import IRDLOperation
from xdsl.parser import AttrParser, Parser
from xdsl.printer import Printer

from ....promotion.errors import InternalError

PROGRAM_AXES = {"x": 0, "y": 1, "z": 2}
INPUT_PRECISIONS = {"tf32": 0, "tf32x3": 1, "ieee": 2, "bf16x3": 3, "bf16x6": 4}
NAN_PROPAGATION = {"none": 0, "all": 0xFFFF}
ROUNDING_MODES = {"rtz": 0, "rtne": 1}
PADDING_OPTIONS = {"zero": 1, "nan": 2}
CACHE_MODIFIERS = ("none", "ca", "cg", "wb", "cs", "wt", "cv")
EVICTION_POLICIES = ("evict_normal", "evict_first", "evict_last")

_ENUM_ATTRS: dict[int, IntegerAttr] = {}


def enum_attr(value: int) -> IntegerAttr:
    """Returns the i32 integer attribute of an enumeration case (interned)."""
    found = _ENUM_ATTRS.get(value)
    if found is None:
        found = _ENUM_ATTRS[value] = IntegerAttr(value, i32)
    return found


def enum_name(cases: Mapping[str, int], attr: Attribute | None) -> str | None:
    """Returns the keyword of an enumeration attribute; None when it is no case of the enumeration."""
    if isinstance(attr, IntegerAttr):
        for name, value in cases.items():
            if value == attr.value.data:
                return name
    return None


def case_name(cases: Mapping[str, int], attr: Attribute | None) -> str:
    """Returns the keyword of an enumeration attribute of a verified operation."""
    found = enum_name(cases, attr)
    if found is None:
        raise InternalError(f"{attr} is none of {', '.join(cases)}")
    return found


def is_older(printer: Printer) -> bool:
    """Returns whether the printer writes the spelling of Triton 3.3 (`spelling="seed"` of
    `printing.print_module`)."""
    return getattr(printer, "spelling", None) == "seed"


def print_location(printer: Printer, location: Attribute) -> None:
    """Prints the location of a parameter after its attributes, if the printer prints locations
    (`printing.print_module`)."""
    own = getattr(printer, "print_location", None)
    if own is not None:
        own(location)


def property_number(op: Operation, name: str) -> int:
    """Returns the value of an integer, boolean or enumeration property."""
    attr = op.properties[name]
    assert isinstance(attr, IntegerAttr)
    return int(attr.value.data)


@irdl_attr_definition
class CachePolicyAttr(ParametrizedAttribute):
    """`#tt.cache_policy<cache_modifier = cs, eviction_policy = evict_first>`: hints of a load or a store."""

    name = "tt.cache_policy"

    cache_modifier: StringAttr
    eviction_policy: StringAttr

    @classmethod
    def parse_parameters(cls, parser: AttrParser) -> Sequence[Attribute]:
        with parser.in_angle_brackets():
            parser.parse_keyword("cache_modifier")
            parser.parse_punctuation("=")
            modifier = parse_case(parser, "cache modifier", CACHE_MODIFIERS)
            parser.parse_punctuation(",")
            parser.parse_keyword("eviction_policy")
            parser.parse_punctuation("=")
            policy = parse_case(parser, "eviction policy", EVICTION_POLICIES)
        return (StringAttr(modifier), StringAttr(policy))

    def print_parameters(self, printer: Printer) -> None:
        printer.print_string(
            f"<cache_modifier = {self.cache_modifier.data}, eviction_policy = {self.eviction_policy.data}>"
        )


_CACHE_POLICIES: dict[tuple[str, str], CachePolicyAttr] = {}


def cache_policy(modifier: str = "none", eviction: str = "evict_normal") -> CachePolicyAttr:
    """Returns the (interned) cache policy; `modifier` is one of CACHE_MODIFIERS, `eviction` one of
    EVICTION_POLICIES."""
    found = _CACHE_POLICIES.get((modifier, eviction))
    if found is None:
        found = CachePolicyAttr(StringAttr(modifier), StringAttr(eviction))
        _CACHE_POLICIES[modifier, eviction] = found
    return found


def parse_case(parser: AttrParser, what: str, cases: Sequence[str]) -> str:
    """Parses one keyword out of `cases`, or raises a parse error that lists them."""
    start = parser.pos
    word = parser.parse_optional_identifier()
    if word is None or word not in cases:
        parser.raise_error(f"expected a {what}: {', '.join(cases)}", start, parser.pos)
    return word


class _Keyword(CustomDirective):
    """Writes an enumeration case as a bare keyword."""

    attribute: AttributeVariable

    CASES: ClassVar[Mapping[str, int]]
    WHAT: ClassVar[str]

    def parse(self, parser: Parser, state: ParsingState) -> None:
        word = parse_case(parser, self.WHAT, tuple(self.CASES))
        self.attribute.set(state, enum_attr(self.CASES[word]))

    def print(self, printer: Printer, state: PrintingState, op: IRDLOperation) -> None:
        state.print_whitespace(printer)
        printer.print_string(enum_name(self.CASES, self.attribute.get(op)) or "")


class _OptionalKeyword(_Keyword):
    """Writes `, label = keyword`, and nothing at all for the default (None: the attribute is absent by
    default)."""

    LABEL: ClassVar[str]
    DEFAULT: ClassVar[str | None] = None

    def parse(self, parser: Parser, state: ParsingState) -> None:
        if parser.parse_optional_punctuation(",") is not None:
            parser.parse_keyword(self.LABEL)
            parser.parse_punctuation("=")
            super().parse(parser, state)
        elif self.DEFAULT is not None:
            self.attribute.set(state, enum_attr(self.CASES[self.DEFAULT]))

    def print(self, printer: Printer, state: PrintingState, op: IRDLOperation) -> None:
        attr = self.attribute.get(op)
        name = enum_name(self.CASES, attr)
        if attr is None or name == self.DEFAULT:
            return
        printer.print_string(f", {self.LABEL} = {name}")
        state.should_emit_space = True
        state.last_was_punctuation = False


# `irdl_custom_directive` reads the parameters off the class itself, hence the repeated field.


@irdl_custom_directive
class ProgramAxis(_Keyword):
    """`x`, `y` or `z`."""

    attribute: AttributeVariable
    CASES = PROGRAM_AXES
    WHAT = "program axis"


@irdl_custom_directive
class NanPropagation(_Keyword):
    """`none` or `all`."""

    attribute: AttributeVariable
    CASES = NAN_PROPAGATION
    WHAT = "NaN propagation"


@irdl_custom_directive
class InputPrecision(_OptionalKeyword):
    """`, inputPrecision = tf32`; nothing for ieee."""

    attribute: AttributeVariable
    CASES = INPUT_PRECISIONS
    WHAT = "input precision"
    LABEL = "inputPrecision"
    DEFAULT = "ieee"


@irdl_custom_directive
class Rounding(_OptionalKeyword):
    """`, rounding = rtne`; nothing when absent."""

    attribute: AttributeVariable
    CASES = ROUNDING_MODES
    WHAT = "rounding mode"
    LABEL = "rounding"

"""xDSL's parser with what real texts of the tt dialect need and xDSL 0.74 lacks.

Every override of xDSL's private methods stands here, each with a test, so that an upgrade of xDSL fails
loudly:

* `dense<0xFF800000>` on float types is a bit pattern (xDSL reads an integer value);
* `#loc5` may be used before its definition, as Triton prints it: locations are resolved when first used;
* `scf.while : () -> ()` without operands;
* types are remembered by their text, and splat constants read directly (half of xDSL's time goes there).

Texts are untrusted: their length and the number of elements of every block type are limited before anything
is allocated.
"""

from __future__ import annotations

import re
from typing import Any, NoReturn

from xdsl.dialects import scf
from xdsl.dialects.builtin import (
    AnyFloat,
    DenseIntOrFPElementsAttr,
    FileLineColLoc,
    IntAttr,
    IntegerType,
    LocationAttr,
    ModuleOp,
    NameLoc,
    NoneAttr,
    StringAttr,
    TensorType,
    UnknownLoc,
)
from xdsl.ir import Attribute, Operation, TypeAttribute
from xdsl.parser import Parser
from xdsl.utils.exceptions import ParseError, VerifyException
from xdsl.utils.mlir_lexer import MLIRTokenKind

from ...promotion.errors import UserError
from . import types as t
from .constants import constant_attr
from .dialect import context
from .spelling import NEWER

MAX_TEXT = 1 << 25
"""Longest text that is read, in characters."""

_ALIAS = re.compile(r"^#(loc\d*)[ \t]*=[ \t]*loc\((.*)\)[ \t]*$", re.MULTILINE)
_TYPE = re.compile(
    r"(?:tensor|!tt\.ptr|!tt\.tensordesc)<(?:[^<>]|<(?:[^<>]|<[^<>]*>)*>)*>|(?:i\d+|f16|f32|f64|bf16|f8E\w+)\b(?![<.])"
)
_SPLAT = re.compile(r"<(-?[0-9][0-9a-fA-FxX.eE+-]*|true|false)>\s*:\s*")
_FILE_POSITION = re.compile(r'"([^"\\]*)":(\d+):(\d+)')
_TYPES: dict[str, TypeAttribute] = {}
_TYPES_LIMIT = 1 << 12
_UNPRINTABLE_NAME = re.compile(r"_*(?:_\d+)?")


def read_module(text: str, source: str = "<text>") -> ModuleOp:
    """Parse a module (or bare functions). The result is not verified.

    Raises:
        UserError: the text is no block IR; the message shows the place.
    """
    if len(text) > MAX_TEXT:
        raise UserError(f"{source}: the text has {len(text)} characters, the limit is {MAX_TEXT}")
    try:
        module = BlockParser(text, source).parse_module()
    except (ParseError, VerifyException, ValueError, KeyError, AssertionError) as error:
        # xDSL reports some malformed texts by other exceptions than its own ParseError.
        raise UserError(
            f"{source}: cannot read the block IR: {str(error).strip() or type(error).__name__}"
        ) from error
    except RecursionError:
        raise UserError(
            f"{source}: cannot read the block IR: regions or types are nested too deeply"
        ) from None
    for op in module.walk():
        for value in (
            *op.results,
            *(argument for region in op.regions for block in region.blocks for argument in block.args),
        ):
            # `%_` and `%_0` leave a hint that xDSL can neither print nor erase.
            if value.name_hint is not None and _UNPRINTABLE_NAME.fullmatch(value.name_hint):
                value.name_hint = None
    return module


class BlockParser(Parser):
    """Reads the block IR. See the module's description for what differs from xDSL's parser."""

    def __init__(self, text: str, source: str = "<text>") -> None:
        self._alias_texts: dict[str, str] = {}
        self._locations: dict[str, LocationAttr | None] = {}

        def take(match: re.Match[str]) -> str:
            self._alias_texts[match[1]] = match[2]
            return ""

        super().__init__(context(), _ALIAS.sub(take, text), source)

    # Locations

    def _parse_location(self) -> LocationAttr:
        if self._current_token.kind == MLIRTokenKind.HASH_IDENT:
            name = self._current_token.text[1:]
            if name in self._alias_texts:
                self._consume_token()
                return self._location(name)
        return super()._parse_location()

    def _location(self, name: str) -> LocationAttr:
        found = self._locations.get(name)
        if found is None:
            if name in self._locations:
                self.raise_error(f"location #{name} is defined by itself")
            self._locations[name] = None
            found = self._locations[name] = self._read_location(self._alias_texts[name])
        return found

    def _read_location(self, text: str) -> LocationAttr:
        position = _FILE_POSITION.fullmatch(text)
        if position is not None:
            return FileLineColLoc(
                StringAttr(position[1]), IntAttr(int(position[2])), IntAttr(int(position[3]))
            )
        if text == "unknown":
            return UnknownLoc()
        named = re.fullmatch(r'"([^"\\]*)"(?:\(#(loc\d*)\))?', text)
        if named is not None and (named[2] is None or named[2] in self._alias_texts):
            return NameLoc(StringAttr(named[1]), NoneAttr() if named[2] is None else self._location(named[2]))
        inner = BlockParser(text)
        inner._alias_texts, inner._locations = self._alias_texts, self._locations
        return inner._parse_location()

    # Types and constants

    def parse_optional_type(self) -> TypeAttribute | None:
        start = self._current_token.span.start
        match = _TYPE.match(self.lexer.input.content, start)
        if match is None:
            return super().parse_optional_type()
        found = _TYPES.get(match[0])
        if found is not None:
            self._resume_from(match.end())
            return found
        parsed = super().parse_optional_type()
        if parsed is None:
            return None
        known = self._known_type(parsed, start)
        if self._current_token.span.start >= match.end():  # the text of the type is exactly the match
            if len(_TYPES) >= _TYPES_LIMIT:
                _TYPES.clear()
            _TYPES[match[0]] = known
        return known

    def _known_type(self, type_: TypeAttribute, start: int) -> TypeAttribute:
        """The interned object of an equal type, after its size has been checked."""
        known: Attribute = type_
        if isinstance(type_, TensorType):
            if t.element_count(type_) > t.MAX_BLOCK_ELEMENTS:
                self.raise_error(
                    f"a block of {t.element_count(type_)} elements; the limit is {t.MAX_BLOCK_ELEMENTS}",
                    start,
                )
            if type_.encoding == NoneAttr() and t.shape_of(type_):
                known = t.tensor(type_.element_type, t.shape_of(type_))
        elif isinstance(type_, t.PointerType):
            known = t.ptr(type_.pointee, type_.address_space.data)
        assert isinstance(known, TypeAttribute)
        return known

    def parse_type(self) -> TypeAttribute:
        found = self.parse_optional_type()
        return found if found is not None else super().parse_type()

    def _parse_builtin_dense_attr(self) -> DenseIntOrFPElementsAttr[Any]:
        start = self._current_token.span.start
        match = _SPLAT.match(self.lexer.input.content, start)
        if match is None:
            return super()._parse_builtin_dense_attr()
        self._resume_from(match.end())
        type_ = self.parse_type()
        shape = t.shape_of(type_)
        if not isinstance(type_, TensorType) or not shape:
            self._resume_from(start)
            return super()._parse_builtin_dense_attr()
        attr = constant_attr(
            self._splat_value(match[1], type_.element_type, start), type_.element_type, shape
        )
        assert isinstance(attr, DenseIntOrFPElementsAttr)
        return attr

    def _splat_value(self, text: str, elem_type: Attribute, start: int) -> int | float:
        hexadecimal = text[:2].lower() == "0x"
        if isinstance(elem_type, AnyFloat):
            if not hexadecimal:
                return (
                    float(text)
                    if text not in ("true", "false")
                    else self._bad_constant(text, elem_type, start)
                )
            bits = int(text, 16)
            if bits >> (8 * elem_type.compile_time_size):
                self._bad_constant(text, elem_type, start)
            raw = bits.to_bytes(elem_type.compile_time_size, "little")
            return float(elem_type.unpack(raw, 1)[0])
        if not isinstance(elem_type, IntegerType):
            self._bad_constant(text, elem_type, start)
        if text in ("true", "false"):
            return int(text == "true")
        try:
            value = int(text, 16) if hexadecimal else int(text)
        except ValueError:
            self._bad_constant(text, elem_type, start)
        width = elem_type.width.data
        if not -(1 << (width - 1)) <= value < 1 << width:
            self._bad_constant(text, elem_type, start)
        return value

    def _bad_constant(self, text: str, elem_type: Attribute, start: int) -> NoReturn:
        self.raise_error(f"{text} is no value of type {elem_type}", start)

    def _parse_tensor_literal_element(self) -> Parser._TensorLiteralElement:
        hexadecimal = self._current_token.text[:2].lower() == "0x"
        element = super()._parse_tensor_literal_element()
        if hexadecimal:
            return _BitPattern(element.is_negative, element.value, element.span)
        return element

    # Operations

    def _get_op_by_name(self, name: str) -> type[Operation]:
        if name == "scf.while" and self._current_token.text == ":":
            return _BareWhile
        return super()._get_op_by_name(NEWER.get(name, name))


class _BitPattern(Parser._TensorLiteralElement):
    """A hexadecimal element of `dense<[…]>`: the bits of a float, the value of an integer."""

    def to_type(self, parser: Any, type: Any) -> Any:  # noqa: A002 - xDSL's name
        if isinstance(type, AnyFloat) and isinstance(self.value, int):
            size = type.compile_time_size
            if self.value >> (8 * size):
                parser.raise_error(f"{self.value:#x} is no value of type {type}", at_position=self.span)
            return type.unpack(self.value.to_bytes(size, "little"), 1)[0]
        return super().to_type(parser, type)


class _BareWhile(Operation):
    """Reads `scf.while : () -> (T, …) { … } do { … }`; makes an ordinary `scf.while`."""

    name = "scf.while"

    @classmethod
    def parse(cls, parser: Parser) -> Operation:  # type: ignore[override]
        parser.parse_punctuation(":")
        function_type = parser.parse_function_type()
        before = parser.parse_region()
        parser.parse_keyword("do")
        after = parser.parse_region()
        attributes = parser.parse_optional_attr_dict_with_keyword()
        return scf.WhileOp.create(
            result_types=list(function_type.outputs.data),
            attributes=dict(attributes.data) if attributes is not None else {},
            regions=[before, after],
        )

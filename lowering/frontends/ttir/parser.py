"""Extends xDSL's parser by what real texts of the tt dialect need and xDSL 0.74 lacks.

Every override of xDSL's private methods is in this module, each with a test, so that an upgrade of xDSL fails
loudly:

* `dense<0xFF800000>` on float types is a bit pattern (xDSL reads an integer value);
* `#loc5` may be used before its definition, as Triton prints it: `locations.Locations`;
* `scf.while : () -> ()` without operands;
* types are cached by their text, and splat constants read directly (half of xDSL's time goes there);
* texts are untrusted: sizes and nesting are bounded (`limits`), and every failure is a `UserError` with line
  and column.

`line_reader.read_lines` reads ordinary texts much faster; this parser defines what its result must be.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from math import prod
from typing import Any, NoReturn

from xdsl.dialects import scf
from xdsl.dialects.builtin import (
    AnyFloat,
    DenseIntOrFPElementsAttr,
    IntegerType,
    LocationAttr,
    ModuleOp,
    NoneAttr,
    TensorType,
)
from xdsl.ir import Attribute, AttributeInvT, Block, Operation, Region, SSAValue, TypeAttribute
from xdsl.parser import AttrParser, Parser, UnresolvedOperand
from xdsl.utils.exceptions import ParseError
from xdsl.utils.lexer import Input
from xdsl.utils.mlir_lexer import MLIRTokenKind

from ....promotion.errors import UserError
from ...tt import types as t
from ...tt.constants import constant_attr
from ...tt.dialect.context import context
from ...tt.dialect_versions import NEW_NAMES
from ...tt.limits import (
    MAX_ALIAS_SIZE,
    MAX_BLOCKS,
    MAX_CONSTANT_BYTES,
    MAX_DEPTH,
    MAX_INTEGER_WIDTH,
    MAX_LOCATION_SIZE,
    MAX_NESTED_REGIONS,
    MAX_TEXT,
)
from .lexing import BlockLexer, place
from .locations import Located, Locations

_TYPE = re.compile(
    r"(?:tensor|!tt\.ptr|!tt\.tensordesc)<(?:[^<>]|<(?:[^<>]|<[^<>]*>)*>)*>|(?:i[0-9]+|f16|f32|f64|bf16|f8E\w+)\b(?![<.])"
)
_BLOCK = re.compile(r"tensor<([1-9][0-9]{0,9}(?:x[1-9][0-9]{0,9}){0,7})x(!tt\.ptr<\w+>|[a-zA-Z]\w*)>", re.ASCII)
_SPLAT = re.compile(r"<(-?[0-9][0-9a-fA-FxX.eE+-]*|true|false)>\s*:\s*")
_TYPES: dict[str, TypeAttribute] = {}
_TYPES_LIMIT = 1 << 12
_TYPE_LENGTH = 160
_INTEGER_TYPE = re.compile(r"[su]?i([0-9]+)")
_UNPRINTABLE_NAME = re.compile(r"_*(?:_[0-9]+)?")


def read_module(text: str, source: str = "<text>") -> ModuleOp:
    """Parse a module (or bare functions). The result is not verified.

    Raises:
        UserError: the text is too long or no block IR; the message shows the position.
    """
    if len(text) > MAX_TEXT:
        raise UserError(f"{source}: the text has {len(text)} characters, the limit is {MAX_TEXT}")
    return read_strictly(text, source)[0]


def read_strictly(text: str, source: str = "<text>") -> tuple[ModuleOp, BlockParser]:
    """Parse like `read_module` but without the limit on the length, and return also the parser, which knows
    the positions of operations."""
    parser: BlockParser | None = None
    try:
        parser = BlockParser(text, source)
        module = parser.parse_module()
    except RecursionError:
        raise UserError(f"{source}: cannot read the block IR: it is nested too deeply") from None
    except Exception as error:  # xDSL reports malformed texts by many exceptions besides its own ParseError
        raise UserError(f"{source}: cannot read the block IR: {_explain(error, parser, text, source)}") from error
    for op in module.walk():
        for result in op.results:
            drop_unprintable_name(result)
        for region in op.regions:
            for block in region.blocks:
                drop_unprintable_name(block)
                for argument in block.args:
                    drop_unprintable_name(argument)
    return module, parser


def plain_block(text: str) -> TypeAttribute | None:
    """Return the type of a block such as `tensor<4x8xi32>` without parsing, if its element type is cached;
    else None."""
    match = _BLOCK.fullmatch(text)
    element = None if match is None else _TYPES.get(match[2])
    if match is None or element is None:
        return None
    shape = tuple(map(int, match[1].split("x")))
    if prod(shape) > t.MAX_BLOCK_ELEMENTS:
        return None
    found = t.tensor(element, shape)
    assert isinstance(found, TypeAttribute)
    if len(_TYPES) >= _TYPES_LIMIT:
        _TYPES.clear()
    _TYPES[text] = found
    return found


def drop_unprintable_name(value: SSAValue | Block) -> None:
    """Drop a name hint such as that of `%_` and `%_0`, which xDSL can neither print nor erase."""
    name = value.name_hint
    if name is not None and name[:1] in ("", "_") and _UNPRINTABLE_NAME.fullmatch(name):
        value.name_hint = None


def _explain(error: Exception, parser: BlockParser | None, text: str, source: str) -> str:
    """Return what went wrong and where: line, column, an excerpt of the line."""
    message = error.msg if isinstance(error, ParseError) else str(error).strip() or type(error).__name__
    start = error.span.start if isinstance(error, ParseError) else parser.pos if parser is not None else 0
    if parser is not None and message.startswith("values used but not defined") and parser.forward_ssa_references:
        start = parser.first_uses[next(iter(parser.forward_ssa_references))]
    return place(text, start, source, message)


class _Values(dict[str, tuple[SSAValue, ...]]):
    """The visible values. Names are never redefined, so an earlier state is a prefix of the dictionary:
    `copy`, which xDSL calls for every region and which would make reading quadratic, returns only the
    length."""

    def copy(self) -> int:  # type: ignore[override]
        return len(self)


class BlockParser(Parser):
    """Reads the block IR. See the module's description for what differs from xDSL's parser.

    Attributes:
        constant_bytes: size of all block constants so far.
        first_uses: name → position of the first use before a definition.
        starts: position of every operation in the text.
    """

    def __init__(self, text: str, source: str = "<text>", locations: Locations | None = None) -> None:
        self.constant_bytes = 0
        self.first_uses: dict[str, int] = {}
        self.starts: dict[Operation, int] = {}
        self._values = _Values()
        self._regions = 0
        self._depth = self._deepest = self._parts = self._expanded = 0
        self._aliases: dict[str, tuple[int, int]] = {}
        if locations is None:
            locations = Locations(text, self._read_location)
            text = locations.rest
        self._locations = locations
        super().__init__(context(), "", source)
        self._parser_state.lexer = BlockLexer(Input(text, source))
        self._resume_from(0)

    # Limits

    def _enter(self, depth: int = 1, parts: int = 1) -> None:
        """Count a nested construct of `depth` levels and `parts` parts, and raise an error if it is nested
        too deeply."""
        self._parts += parts
        self._deepest = max(self._deepest, self._depth + depth)
        if self._depth + depth > MAX_DEPTH:
            self.raise_error(f"types, attributes or locations are nested too deeply: more than {MAX_DEPTH} levels")

    @property
    def ssa_values(self) -> dict[str, tuple[SSAValue, ...]]:
        return self._values

    @ssa_values.setter
    def ssa_values(self, values: int | dict[str, tuple[SSAValue, ...]]) -> None:
        if isinstance(values, int):  # the end of a region
            while len(self._values) > values:
                self._values.popitem()

    def parse_optional_region(self, arguments: Iterable[Parser.Argument] | None = None) -> Region | None:
        if self._regions >= MAX_NESTED_REGIONS:
            self.raise_error(f"regions are nested too deeply: more than {MAX_NESTED_REGIONS} levels")
        self._regions += 1
        region = super().parse_optional_region(arguments)
        self._regions -= 1
        return region

    def _parse_block(self) -> Block:
        if len(self.blocks) > MAX_BLOCKS:
            self.raise_error(f"a region of more than {MAX_BLOCKS} blocks")
        return super()._parse_block()

    def resolve_operand(self, operand: UnresolvedOperand, type: AttributeInvT) -> SSAValue[AttributeInvT]:  # noqa: A002 - xDSL's name
        if operand.operand_name not in self._values:
            self.first_uses.setdefault(operand.operand_name, operand.span.start)
        return super().resolve_operand(operand, type)

    def _parse_alias_def(self) -> None:
        name, start = self._current_token.text, self.pos
        before, self._deepest = (self._parts, self._deepest), 0
        super()._parse_alias_def()  # type: ignore[no-untyped-call]
        self._aliases[name] = (self._parts - before[0], self._deepest)
        self._deepest = before[1]
        if not self._aliases[name][0]:
            self.raise_error("an alias stands for nothing", start)

    def _parse_extended_type_or_attribute(self, attr_or_dialect_name: str, is_type: bool) -> Any:
        found = self._aliases.get(("!" if is_type else "#") + attr_or_dialect_name)
        if found is not None and self._current_token.text != "<":
            self._enter(found[1], found[0])
            self._expanded += found[0]
            if self._expanded > MAX_ALIAS_SIZE:
                self.raise_error(f"aliases stand for more than {MAX_ALIAS_SIZE} attributes and types")
        return super()._parse_extended_type_or_attribute(attr_or_dialect_name, is_type)  # type: ignore[call-overload]

    def _parse_file_metadata_dictionary(self) -> None:
        self.raise_error("the block IR has no resources")

    def _parse_builtin_dense_resource_attr(self) -> NoReturn:
        self.raise_error("the block IR has no resources")

    def parse_affine_map(self) -> NoReturn:
        self.raise_error("the block IR has no affine maps")

    def parse_affine_set(self) -> NoReturn:
        self.raise_error("the block IR has no affine sets")

    # Locations

    def _parse_location(self) -> LocationAttr:
        self._enter()
        if self._current_token.kind == MLIRTokenKind.HASH_IDENT:
            name = self._current_token.text[1:]
            if name in self._locations:
                found = self._locations.find(name)
                self._enter(found.depth, found.size)
                self._consume_token()
                return found.location
        self._depth += 1
        location = super()._parse_location()
        self._depth -= 1
        return location

    def parse_optional_location(self) -> LocationAttr | None:
        start, before = self.pos, self._parts
        location = super().parse_optional_location()
        if self._parts - before > MAX_LOCATION_SIZE:
            self.raise_error(f"a location of more than {MAX_LOCATION_SIZE} parts", start)
        return location

    def _read_location(self, text: str, start: int, end: int) -> Located:
        inner = BlockParser(text, self.lexer.input.name, self._locations)
        inner._resume_from(start)
        location = inner._parse_location()
        if inner.pos != end:
            inner.raise_error("expected the end of the location")
        return Located(location, inner._parts, inner._deepest)

    # Types and constants

    def parse_optional_type(self) -> TypeAttribute | None:
        start = self._current_token.span.start
        match = _TYPE.match(self.lexer.input.content, start)
        if match is None:
            return self._nested_type()
        found = _TYPES.get(match[0]) or plain_block(match[0])
        if found is not None:
            self._resume_from(match.end())
            return found
        parsed = self._nested_type()
        if parsed is None:
            return None
        known = self._known_type(parsed, start)
        # Remembered only if the text of the type is exactly the match.
        if self._current_token.span.start >= match.end() and len(match[0]) <= _TYPE_LENGTH:
            if len(_TYPES) >= _TYPES_LIMIT:
                _TYPES.clear()
            _TYPES[match[0]] = known
        return known

    def _nested_type(self) -> TypeAttribute | None:
        self._enter()
        self._depth += 1
        found = super().parse_optional_type()
        self._depth -= 1
        return found

    def parse_optional_attribute(self) -> Attribute | None:
        self._enter()
        self._depth += 1
        found = super().parse_optional_attribute()
        self._depth -= 1
        return found

    def _parse_optional_integer_or_float_type(self) -> TypeAttribute | None:
        match = _INTEGER_TYPE.fullmatch(self._current_token.text)
        if match is not None and (len(match[1]) > 8 or not 1 <= int(match[1]) <= MAX_INTEGER_WIDTH):
            self.raise_error(f"an integer type has 1 to {MAX_INTEGER_WIDTH} bits")
        if self._current_token.text in ("f80", "f128", "tf32"):  # xDSL cannot store their values
            self.raise_error(f"the block IR has no type {self._current_token.text}")
        return super()._parse_optional_integer_or_float_type()

    def _known_type(self, type_: TypeAttribute, start: int) -> TypeAttribute:
        """Return the interned object of an equal type, after its size has been checked."""
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

    def _parse_builtin_dense_attr(self) -> DenseIntOrFPElementsAttr:
        start = self._current_token.span.start
        match = _SPLAT.match(self.lexer.input.content, start)
        if match is None:
            return self._charged(super()._parse_builtin_dense_attr(), start)
        self._resume_from(match.end())
        type_ = self.parse_type()
        shape = t.shape_of(type_)
        if not isinstance(type_, TensorType) or not shape:
            self._resume_from(start)
            return self._charged(super()._parse_builtin_dense_attr(), start)
        attr = constant_attr(
            self._splat_value(match[1], type_.element_type, start), type_.element_type, shape
        )
        assert isinstance(attr, DenseIntOrFPElementsAttr)
        return self._charged(attr, start)

    def _charged(self, attr: DenseIntOrFPElementsAttr, start: int) -> DenseIntOrFPElementsAttr:
        self.constant_bytes += len(attr.data.data)
        if self.constant_bytes > MAX_CONSTANT_BYTES:
            self.raise_error(f"block constants of more than {MAX_CONSTANT_BYTES} bytes", start)
        return attr

    def _parse_dense_literal_type(self) -> Any:
        start = self.pos
        type_ = super()._parse_dense_literal_type()
        if not isinstance(type_, TensorType):
            self.raise_error(f"a constant of type {type_}, expected a block (a tensor)", start)
        return type_

    def _parse_tensor_literal(self) -> Any:
        self._enter()
        self._depth += 1
        found = super()._parse_tensor_literal()
        self._depth -= 1
        return found

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

    def parse_operation(self) -> Operation:
        start = self.pos
        op = super().parse_operation()
        self.starts[op] = start
        return op

    def _get_op_by_name(self, name: str) -> type[Operation]:
        if name == "scf.while" and self._current_token.text == ":":
            return _BareWhile
        return super()._get_op_by_name(NEW_NAMES.get(name, name))


class _BitPattern(Parser._TensorLiteralElement):
    """A hexadecimal element of `dense<[…]>`: the bits of a float, the value of an integer."""

    def to_type(self, parser: AttrParser, type: Any) -> Any:  # noqa: A002 - xDSL's name
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

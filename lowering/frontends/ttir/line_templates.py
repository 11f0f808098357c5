"""Learns from the strict parser what lines of text mean.

A template is the text of an operation without the names of its values: `arith.addi \\0, \\0 : i32`. The first
time a template occurs, the strict parser reads it, with new names in the holes; the result is kept, and every
further line of the same template only makes the same operation with other operands. So nothing has to be
written for a new operation, and the line reader cannot read an operation differently from the strict parser.

An operation may end in optional parts, so what is learned depends on what follows the operation: see
`ENDINGS`.

Kernels that differ only in block sizes and numbers should not need templates of their own. So a template is
learned with marks in place of the shapes of its blocks (`tensor<7919xi32>`) and of its integers
(`7907 : i32`), one mark for each; the shapes and numbers later replace the marks in the operation. This relies on
one property of the operations' parsers: they depend on shapes and numbers only by whether these are equal. If a
mark turns up in anything but the shape of a type or of a splat constant, or an integer attribute, the
template is learned without marks.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from math import prod

from xdsl.dialects.builtin import (
    DenseIntOrFPElementsAttr,
    IntegerAttr,
    NameLoc,
    NoneAttr,
    StringAttr,
    TensorType,
)
from xdsl.ir import Attribute, Block, Region, SSAValue
from xdsl.utils.lexer import Span
from xdsl.utils.mlir_lexer import MLIRTokenKind

from ...tt import types as t
from .line_families import Families
from .line_syntax import HOLE, FallBackToParser
from .parser import BlockParser
from .template import Template

_LOCATION = NameLoc(StringAttr("line"), NoneAttr())
ENDINGS = {"loc": 'loc("line")', "%": "%n", "a": "n.n", '"': '"n"', "^": "^n", "}": "}", "": ""}
"""What may follow an operation: a location, or the first character of the next line (a: any letter)."""

_LIMIT = 1 << 12
_LENGTH = 1 << 10
_BYTES = 1 << 25
_SHAPE = re.compile(
    r"(?<=\btensor<)[1-9][0-9]{0,6}(?:x[1-9][0-9]{0,6})*(?=x[a-z!])|(?<= )(?:0|[1-9][0-9]{0,8})(?= : i(?:32|64)\b)"
)
"""A shape, or an integer that fits its type."""
_MARKS = (7919, 7907, 7901, 7883, 7879, 7877, 7873, 7867)
_MARK = re.compile("|".join(str(mark) for mark in _MARKS))
_NO_ENCODING = NoneAttr()


class Templates:
    """All templates met so far, up to a limit."""

    def __init__(self) -> None:
        self._known: dict[str, dict[str, Template]] = {ending: {} for ending in ENDINGS}
        self._shapeless: dict[str, dict[str, Template | None]] = {ending: {} for ending in ENDINGS}
        self._families = Families()
        self._bytes = 0

    def known(self, ending: str) -> dict[str, Template]:
        """Return the templates that were learned with this ending, by their text."""
        return self._known[ending]

    def learn(self, template: str, ending: str) -> Template:
        """Read a template by the strict parser. Raises `FallBackToParser` unless it is certainly one whole
        operation."""
        try:
            found = self._families.find(template, ending)
            if found is None:
                found = self._with_shapes(template, ending) or _read(template, ending)
                self._families.remember(template, ending, found)
        except FallBackToParser:
            raise
        except Exception as error:  # the strict parser meets the text again, and reports it
            raise FallBackToParser from error
        if len(template) <= _LENGTH:
            self._bytes += found.constant_bytes
            if len(self._known[ending]) >= _LIMIT or self._bytes > _BYTES:
                self._known = {each: {} for each in ENDINGS}
                self._shapeless = {each: {} for each in ENDINGS}
                self._families = Families()
                self._bytes = found.constant_bytes
            self._known[ending][template] = found
        return found

    def _with_shapes(self, template: str, ending: str) -> Template | None:
        """Return the template made from one that differs only in shapes and numbers; None if there can be
        none."""
        shapes: dict[str, int] = {}
        marked = _SHAPE.sub(lambda match: str(_MARKS[shapes.setdefault(match[0], len(shapes)) % len(_MARKS)]), template)
        if not 1 <= len(shapes) <= len(_MARKS) or len(template) > _LENGTH or _MARK.search(template):
            return None
        if template.startswith("tt.func "):  # occurs only once, and its numbers are nested in other attributes
            return None
        known = self._shapeless[ending]
        if marked not in known:
            if len(known) >= _LIMIT:
                known.clear()
            try:
                found: Template | None = _read(marked, ending)
            except Exception:  # the operation restricts the shape
                found = None
            known[marked] = found if found is not None and _is_general(found) else None
        general = known[marked]
        if general is None:
            return None
        put = {mark: tuple(map(int, text.split("x"))) for mark, text in zip(_MARKS, shapes, strict=False)}
        return _specialized(general, put)


TEMPLATES = Templates()


class _Learner(BlockParser):
    """A parser that records where regions begin, and which names it defines."""

    def __init__(self, text: str) -> None:
        self.region_starts: list[int] = []
        self.regions: list[Region] = []
        self.defined: dict[SSAValue, str] = {}
        super().__init__(text)

    def parse_optional_region(self, arguments: object = None) -> Region | None:
        start = self.pos
        region = super().parse_optional_region(arguments)  # type: ignore[arg-type]
        if region is not None:
            self.region_starts.append(start)
            self.regions.append(region)
        return region

    def _register_ssa_definition(self, name: str, values: Sequence[SSAValue], span: Span) -> None:
        super()._register_ssa_definition(name, values, span)
        if len(values) != 1:
            raise FallBackToParser
        self.defined[values[0]] = name


def _read(template: str, ending: str) -> Template:
    """Read a template by the strict parser. Its lines that end in an opening brace open regions, which are
    empty."""
    pieces = template.split(HOLE)
    text = "".join(f"{piece}%{place}" for place, piece in enumerate(pieces[:-1])) + pieces[-1]
    # A location stands on the operation's own line: a comment before it would hide it.
    parser = _Learner(f"{text}{' ' if ending == 'loc' else chr(10)}{ENDINGS[ending]}")
    op = parser.parse_operation()
    if ending == "loc":
        if op.location != _LOCATION or parser._current_token.kind != MLIRTokenKind.EOF:
            raise FallBackToParser
    elif parser.pos != len(text) + 1:
        raise FallBackToParser
    if parser.region_starts != _line_ends(text) or not _begins_with(op.regions, parser.regions):
        raise FallBackToParser

    places: dict[SSAValue, int] = {value: int(name) for value, name in parser.defined.items()}
    for name, values in parser.forward_ssa_references.items():
        if set(values) != {0}:
            raise FallBackToParser
        places[values[0]] = int(name)
    arguments = tuple(_arguments(region, places) for region in op.regions)
    used = {places[operand] for operand in op.operands}
    used.update(place for given in arguments for place, _ in given or ())
    if len(used) != len(pieces) - 1:
        raise FallBackToParser
    names: dict[Block, str] = {block: name for name, (block, _) in parser.blocks.items()}
    return Template(
        type(op),
        tuple(places[operand] for operand in op.operands),
        tuple(operand.type for operand in op.operands),
        tuple(op.result_types),
        dict(op.properties),
        dict(op.attributes),
        tuple(names[block] for block in op.successors),
        arguments,
        parser.constant_bytes,
    )


def _begins_with(regions: Sequence[Region], read: Sequence[Region]) -> bool:
    """Return whether the operation has the regions that were read, in this order, and beyond them only empty
    ones."""
    return len(read) <= len(regions) and all(
        region is read[index] if index < len(read) else not region.blocks for index, region in enumerate(regions)
    )


def _line_ends(text: str) -> list[int]:
    """Return the positions of the opening braces at the ends of lines."""
    ends = []
    position = 0
    for line in text.split("\n"):
        position += len(line) + 1
        if line.endswith("{"):
            ends.append(position - 2)
    return ends


def _arguments(region: Region, places: Mapping[SSAValue, int]) -> tuple[tuple[int, Attribute], ...] | None:
    """Return the arguments (place, type) that an operation gives to the only, empty block of a region; None
    without one."""
    blocks = list(region.blocks)
    if not blocks:
        return None
    if len(blocks) > 1:
        raise FallBackToParser
    return tuple((places[argument], argument.type) for argument in blocks[0].args)


def _is_general(template: Template) -> bool:
    """Return whether marks stand only where `_specialized` replaces them."""
    types = [*template.operand_types, *template.result_types]
    types += [type_ for given in template.arguments for _, type_ in given or ()]
    attributes = [*template.properties.values(), *template.attributes.values()]
    return all(map(_type_is_general, types)) and all(map(_attribute_is_general, attributes))


def _type_is_general(type_: Attribute) -> bool:
    if isinstance(type_, TensorType):
        shape = t.shape_of(type_)
        marked = len(shape) == 1 and shape[0] in _MARKS and type_.encoding == _NO_ENCODING
        return (marked or not set(shape) & set(_MARKS)) and _type_is_general(type_.element_type)
    return type_ in _SCALARS or not _MARK.search(str(type_))


def _attribute_is_general(attribute: Attribute) -> bool:
    if isinstance(attribute, IntegerAttr) and attribute.type in _SCALARS:
        return True
    if isinstance(attribute, DenseIntOrFPElementsAttr):
        # A splat is stored as its one value, whatever the shape.
        one = len(attribute.data.data) == attribute.type.element_type.compile_time_size
        return one and isinstance(attribute.type, TensorType) and _type_is_general(attribute.type)
    return not _MARK.search(str(attribute))


_SCALARS = frozenset((t.I1, t.I8, t.I16, t.I32, t.I64, t.F16, t.BF16, t.F32, t.F64))


def _specialized(template: Template, shapes: Mapping[int, tuple[int, ...]]) -> Template:
    """Return the template with shapes in place of the marks."""

    def put(type_: Attribute) -> Attribute:
        shape = t.shape_of(type_)
        if len(shape) != 1 or shape[0] not in shapes:
            return type_
        wanted = shapes[shape[0]]
        if prod(wanted) > t.MAX_BLOCK_ELEMENTS:
            raise FallBackToParser
        return t.tensor(t.elem(type_), wanted)

    def put_constant(attribute: Attribute) -> Attribute:
        if isinstance(attribute, IntegerAttr):
            number = shapes.get(attribute.value.data)
            return attribute if number is None else IntegerAttr(number[0], attribute.type)
        if not isinstance(attribute, DenseIntOrFPElementsAttr):
            return attribute
        type_ = put(attribute.type)
        assert isinstance(type_, TensorType)
        return DenseIntOrFPElementsAttr(type_, attribute.data)

    properties = {name: put_constant(value) for name, value in template.properties.items()}
    attributes = {name: put_constant(value) for name, value in template.attributes.items()}
    return replace(
        template,
        operand_types=tuple(put(type_) for type_ in template.operand_types),
        result_types=tuple(put(type_) for type_ in template.result_types),
        properties=properties,
        attributes=attributes,
        arguments=tuple(
            None if given is None else tuple((place, put(type_)) for place, type_ in given) for given in template.arguments
        ),
    )

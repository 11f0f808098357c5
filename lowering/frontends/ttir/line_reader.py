"""Reads fast the block IR as it is usually printed: one operation per line, regions opened at the ends of
lines.

The reader reads only what it understands completely and gives up on everything else, errors included: the
strict parser then reads the text again. It knows no operations: `line_templates` learns from the strict
parser what their lines mean. It handles scopes, regions, blocks, names and locations, which work the same for
all operations.
"""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.dialects.builtin import LocationAttr, ModuleOp
from xdsl.ir import Attribute, Block, Operation, Region, SSAValue

from ...tt.limits import (
    MAX_BLOCKS,
    MAX_CONSTANT_BYTES,
    MAX_DEPTH,
    MAX_LOCATION_SIZE,
    MAX_NESTED_REGIONS,
    MAX_TEXT,
)
from .line_forms import BEHIND, FORMS, Form
from .line_syntax import (
    HOLE,
    LABEL,
    NAME,
    PIECE,
    RESULTS,
    FallBackToParser,
    argument_type,
    give_hint,
    split_commas,
    split_names,
)
from .line_templates import TEMPLATES
from .locations import Located, Locations
from .parser import BlockParser, drop_unprintable_name
from .template import Template

_LETTERS = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ_")
_ENDS = frozenset(("%", '"', "^", "}", ""))
_FUNCTION = "tt.func "
_MAX_LEARNED = 1 << 10  # learning costs more than reading strictly


def read_lines(text: str, origins: dict[Operation, Template] | None = None) -> ModuleOp | None:
    """Read a module that equals what the strict parser makes of the text; return None for texts that only the
    strict parser can judge. origins: receives the template of each operation."""
    if len(text) > MAX_TEXT or HOLE in text:
        return None
    try:
        return _LineReader(text, {} if origins is None else origins).module()
    except (FallBackToParser, KeyError):
        return None


class _Frame:
    """An operation whose regions are being read.

    Attributes:
        results: the text before ` = `.
        template, names: what has been read of the operation: its text without names of values, and these names.
        form, whole: a custom form, and the template that was learned when it opened; None and "" for the generic form.
        regions: the finished regions and the one being read.
        blocks, defined: the blocks of this region by name, and the names of those that were defined, not only branched to.
        block: the block that operations are added to; None before the first.
        visible: how many names were visible before this region.
        given: the arguments that the operation gives to the block of its first region.
    """

    __slots__ = (
        "block", "blocks", "defined", "form", "given", "names", "regions", "results", "template", "visible", "whole",
    )  # fmt: skip

    def __init__(self, results: str, template: str, names: list[str], form: Form | None) -> None:
        self.results, self.template, self.names, self.form = results, template, names, form
        self.whole = ""
        self.regions: list[Region] = []
        self.blocks: dict[str, Block] = {}
        self.defined: set[str] = set()
        self.block: Block | None = None
        self.visible = 0
        self.given: tuple[tuple[int, Attribute], ...] | None = None


class _LineReader:
    def __init__(self, text: str, origins: dict[Operation, Template]) -> None:
        self._origins = origins
        self._locations = Locations(text, self._read_location)
        self._values: dict[str, SSAValue] = {}
        self._frames: list[_Frame] = []
        self._top: list[Operation] = []
        self._constant_bytes = self._learned = 0
        lines = [line.strip(" \t\r") for line in self._locations.rest.split("\n")]
        self._lines = [line for line in lines if line and not line.startswith("//")]

    def module(self) -> ModuleOp:
        lines, known = self._lines, TEMPLATES.known("loc")
        last = len(lines) - 1
        for index, line in enumerate(lines):
            first = line[0]
            location: LocationAttr | None = None
            ending = "loc"
            body = line
            if line[-1] == ")" and (at := line.rfind(" loc(")) >= 0:
                location = self._location(line[at + 5 : -1])
                body = line[:at]
            elif line[-1] != "{" and first != "^":
                ending = lines[index + 1][0] if index < last else ""
                if ending in _LETTERS:
                    ending = "a"
                elif ending not in _ENDS:
                    raise FallBackToParser
            if first == "^":
                self._label(line)
            elif first == "}":
                self._close(body, location, ending)
            elif body[-1] == "{":
                if location is not None:
                    raise FallBackToParser
                self._open(body)
            else:
                results = ""
                if first == "%":
                    results, _, body = body.partition(" = ")
                names, template = split_names(body)
                found = (known if ending == "loc" else TEMPLATES.known(ending)).get(template)
                if found is None:
                    found = self._learn(template, ending)
                regions = [Region() for given in found.arguments if given is None]
                if len(regions) != len(found.arguments):
                    raise FallBackToParser
                self._add(self._make(found, names, location, regions), results)
        if self._frames or not self._top:
            raise FallBackToParser
        first_op = self._top[0]
        return first_op if isinstance(first_op, ModuleOp) and len(self._top) == 1 else ModuleOp(self._top)

    # Operations

    def _learn(self, template: str, ending: str) -> Template:
        self._learned += 1
        if self._learned > _MAX_LEARNED:
            raise FallBackToParser
        return TEMPLATES.learn(template, ending)

    def _make(
        self, found: Template, names: list[str], location: LocationAttr | None, regions: Sequence[Region]
    ) -> Operation:
        values = self._values
        operands = [values[names[place]] for place in found.operands]
        for operand, type_ in zip(operands, found.operand_types, strict=True):
            if operand.type is not type_ and operand.type != type_:
                raise FallBackToParser
        if found.constant_bytes:
            self._constant_bytes += found.constant_bytes
            if self._constant_bytes > MAX_CONSTANT_BYTES:
                raise FallBackToParser
        op = found.op_class.create(
            operands=operands,
            result_types=found.result_types,
            properties=found.properties,
            attributes=found.attributes,
            location=location,
            successors=[self._block(name) for name in found.successors] if found.successors else (),
            regions=regions,
        )
        self._origins[op] = found
        return op

    def _add(self, op: Operation, results: str) -> None:
        """Append an operation to the current block, and name its results."""
        if results:
            if len(op.results) == 1 and NAME.fullmatch(results):
                self._define(results, op.results[0])
            else:
                self._define_many(results, op)
        if not self._frames:
            self._top.append(op)
            return
        frame = self._frames[-1]
        if frame.block is None:
            frame.block = self._begin_block(frame, Block())
        frame.block.add_op(op)

    def _define(self, name: str, value: SSAValue) -> None:
        if name in self._values:
            raise FallBackToParser
        self._values[name] = value
        give_hint(name, value)

    def _define_many(self, text: str, op: Operation) -> None:
        taken = at = 0
        while at < len(text):
            match = RESULTS.match(text, at)
            if match is None:
                raise FallBackToParser
            name, _, count = match[1].partition(":")
            values = op.results[taken : taken + int(count or 1)]
            if name in self._values or len(values) != int(count or 1):
                raise FallBackToParser
            self._define(name, values[0])
            for index, value in enumerate(values):
                self._values[f"{name}#{index}"] = value
                give_hint(name, value)
            taken += len(values)
            at = match.end()
        if taken != len(op.results):
            raise FallBackToParser

    # Regions

    def _open(self, line: str) -> None:
        """Read the first line of an operation with regions."""
        results = ""
        if line[0] == "%":
            results, _, line = line.partition(" = ")
        locations: list[LocationAttr | None] = []
        if line.startswith(_FUNCTION):
            line, locations = self._take_parameter_locations(line)
        names, template = split_names(line)
        if line.endswith("({"):
            self._frames.append(frame := _Frame(results, template, names, None))
            self._begin_region(frame, None)
            return
        form = FORMS[line.partition(" ")[0]]
        whole = f"{template}\n{form.rest}"
        found = TEMPLATES.known("loc").get(whole) or self._learn(whole, "loc")
        self._frames.append(frame := _Frame(results, template, names, form))
        frame.whole = whole
        self._begin_region(frame, found.arguments[0] if form.gives_block else None, locations)

    def _begin_region(
        self,
        frame: _Frame,
        arguments: tuple[tuple[int, Attribute], ...] | None,
        locations: Sequence[LocationAttr | None] = (),
    ) -> None:
        if len(self._frames) > MAX_NESTED_REGIONS - 2:
            raise FallBackToParser
        frame.regions.append(Region())
        frame.blocks, frame.defined, frame.block = {}, set(), None
        frame.visible = len(self._values)
        if len(frame.regions) == 1:
            frame.given = arguments
        if arguments is not None:
            block = frame.block = self._begin_block(frame, Block(arg_types=[type_ for _, type_ in arguments]))
            for (place, _), argument in zip(arguments, block.args, strict=True):
                if "#" in frame.names[place]:
                    raise FallBackToParser
                self._define(frame.names[place], argument)
            for argument, location in zip(block.args, locations, strict=False):
                if location is not None:
                    argument.location = location

    def _begin_block(self, frame: _Frame, block: Block) -> Block:
        frame.regions[-1].add_block(block)
        return block

    def _end_region(self, frame: _Frame) -> None:
        if len(frame.defined) != len(frame.blocks) or len(frame.blocks) >= MAX_BLOCKS:
            raise FallBackToParser
        values = self._values
        while len(values) > frame.visible:
            values.popitem()

    def _close(self, line: str, location: LocationAttr | None, ending: str) -> None:
        """Read a line that ends a region, and begins the next one or ends the operation."""
        if not self._frames:
            raise FallBackToParser
        frame = self._frames[-1]
        self._end_region(frame)
        names, template = split_names(line)
        frame.template += f"\n{template}"
        frame.names += names
        if line[-1] == "{":
            self._begin_region(frame, None)
            return
        self._frames.pop()
        if frame.template == frame.whole and (not ending or ending in BEHIND):
            ending = "loc"  # as it was read when it opened
        found = TEMPLATES.known(ending).get(frame.template) or self._learn(frame.template, ending)
        # The whole operation gives its regions the blocks that its first line promised.
        given = (frame.given, *[None] * (len(found.arguments) - 1))
        if found.arguments != given and (frame.form is None or frame.form.gives_block):
            raise FallBackToParser
        written = len(frame.regions)
        frame.regions += [Region() for _ in range(len(found.arguments) - len(frame.regions))]
        op = self._make(found, frame.names, location, frame.regions)
        if frame.form is not None and frame.form.finish is not None:
            try:
                frame.form.finish(op, written)
            except Exception as error:  # the strict parser meets it again, and reports it
                raise FallBackToParser from error
        self._add(op, frame.results)

    # Blocks

    def _block(self, name: str) -> Block:
        """Return the block of a name, which may be defined later."""
        if not self._frames:
            raise FallBackToParser
        blocks = self._frames[-1].blocks
        found = blocks.get(name)
        if found is None:
            found = blocks[name] = Block()
            if not Block.is_default_block_name(name):
                if not Block.is_valid_name(name):
                    raise FallBackToParser
                found.name_hint = name
                drop_unprintable_name(found)
        return found

    def _label(self, line: str) -> None:
        match = LABEL.fullmatch(line)
        if match is None or not self._frames:
            raise FallBackToParser
        frame, name = self._frames[-1], match[1]
        # The block that an operation gives to its region has no label.
        hides = frame.block is not None and frame.block.is_empty and not frame.defined
        if hides or name in frame.defined or "//" in (match[2] or ""):
            raise FallBackToParser
        block = self._block(name)
        frame.defined.add(name)
        for piece in split_commas(match[2]) if match[2] is not None else ():
            value, separator, rest = piece.partition(": ")
            if not separator or not NAME.fullmatch(value):
                raise FallBackToParser
            rest, location = self._take_location(rest)
            self._define(value, block.insert_arg(argument_type(rest), len(block.args), location))
        frame.block = self._begin_block(frame, block)

    # Locations

    def _location(self, text: str) -> LocationAttr:
        try:
            found = self._locations.parse(text)
        except Exception as error:  # the strict parser meets it again, and reports it
            raise FallBackToParser from error
        if found.size > MAX_LOCATION_SIZE // 2 or found.depth > MAX_DEPTH // 2:
            raise FallBackToParser
        return found.location

    def _read_location(self, text: str, start: int, end: int) -> Located:
        if "//" in text[start:end]:  # a comment would hide the end
            raise FallBackToParser
        return BlockParser("", locations=self._locations)._read_location(text, start, end)

    def _take_location(self, text: str) -> tuple[str, LocationAttr | None]:
        """Split `T loc(…)` into T and the location."""
        at = text.find(" loc(")
        if at < 0:
            return text, None
        if text[-1] != ")":
            raise FallBackToParser
        return text[:at], self._location(text[at + 5 : -1])

    def _take_parameter_locations(self, line: str) -> tuple[str, list[LocationAttr | None]]:
        """Take the locations of a function's parameters out of its first line, which is a template without
        them."""
        start = end = depth = 0
        for match in PIECE.finditer(line):
            if match[0] in ("(", ")"):
                depth += 1 if match[0] == "(" else -1
                start = start or match.end()
                if depth == 0:
                    end = match.start()
                    break
        if not start or depth:
            raise FallBackToParser
        taken = [self._take_location(piece) for piece in split_commas(line[start:end])]
        return line[:start] + ", ".join(piece for piece, _ in taken) + line[end:], [each for _, each in taken]

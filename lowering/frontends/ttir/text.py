"""Text of the block IR: reading, printing, and the canonical form that identifies a program.

`parse(print_module(m))` prints as `print_module(m)` again, and Triton's own parser reads what is printed
here.
"""

from __future__ import annotations

import io
import math
import re
from collections.abc import Mapping

from xdsl.dialects.builtin import AnyFloat, ModuleOp
from xdsl.ir import Attribute, Block, Operation, Region, SSAValue
from xdsl.printer import Printer

from ....promotion.errors import UserError
from ...collection import no_collection
from ...tt.dialect.attributes import is_older
from ...tt.dialect.functions import FuncOp
from ...tt.verify import first_problem
from .lexing import line_and_column
from .line_reader import read_lines
from .line_templates import Template
from .parser import read_module, read_strictly
from .spelling import OLDER, SPELLINGS

_DECIMAL = re.compile(r"-?\d+\.\d*(?:e[+-]?\d+)?")


@no_collection()
def parse(text: str, source: str = "<text>") -> ModuleOp:
    """Read a module and verify it. `source` names the text in messages.

    Raises:
        UserError: the text cannot be read, or an operation is wrong; the message shows the operation.
    """
    made: dict[Operation, Template] = {}
    module = read_lines(text, made) or read_module(text, source)
    if first_problem(module, made) is None:
        return module
    return _read_and_checked_strictly(text, source)


def _read_and_checked_strictly(text: str, source: str) -> ModuleOp:
    """The module as the strict parser reads it, which knows the lines of operations, for a problem with one."""
    module, parser = read_strictly(text, source)
    problem = first_problem(module)
    if problem is None:
        return module
    message, op = problem
    found: Operation | None = op
    while found is not None and found not in parser.starts:  # terminators that are not written
        found = found.parent_op()
    raise UserError(message if found is None else f"{message}\n  at: {source}:{line_and_column(text, parser.starts[found])}")


class BlockPrinter(Printer):
    """Prints floats so that they read back to the same bits: MLIR's float literals need a decimal point. `spelling`: see
    `print_module`."""

    spelling = "3.9"

    def print_op(self, op: Operation) -> None:
        older = OLDER.get(op.name) if is_older(self) else None
        if older is None:
            super().print_op(op)
            return
        self._print_results(op)
        self.print_string(older)
        op.print(self)
        if self.print_debuginfo:
            self.print_string(" ")
            self.print_attribute(op.location)

    def print_float(self, value: float, type: AnyFloat) -> None:  # noqa: A002 - xDSL's name
        if math.isfinite(value):
            short = f"{value:.6e}"
            for text in (short, repr(value)):
                if _DECIMAL.fullmatch(text) and type.unpack(type.pack([float(text)]), 1)[0] == value:
                    self.print_string(text)
                    return
        self.print_string(f"0x{type.pack([value])[::-1].hex().upper()}")


def print_module(op: Operation, locations: bool = False, spelling: str = "3.9") -> str:
    """The text of a module; a function is printed as the only one of a module.

    `spelling`: "3.9", or "seed" for what Triton 3.3 reads: `tt.experimental_descriptor_load`, cache hints before the
    dictionary, and so on. Raises `UserError` for other spellings.
    """
    if spelling not in SPELLINGS:
        raise UserError(f"spelling {spelling!r}; expected {' or '.join(map(repr, SPELLINGS))}")
    if isinstance(op, FuncOp):
        op = ModuleOp([op.clone()])
    stream = io.StringIO()
    printer = BlockPrinter(stream, print_debuginfo=locations)
    printer.spelling = spelling
    printer.print_op(op)
    return stream.getvalue().removeprefix("builtin.") + "\n"  # `module {`, as MLIR prints it


def canonical_text(func: Operation) -> str:
    """A text that is equal for functions that differ in names only: of values, of the function, and in
    locations.

    It is meant for hashing: values are numbered in order of definition, properties and attributes sorted,
    everything else spelled out.
    """
    return _Canonical().function(func)


_ATTR_TEXTS: dict[int, tuple[Attribute, str]] = {}
_ATTR_LIMIT = 1 << 14


def _attr_text(attr: Attribute) -> str:
    found = _ATTR_TEXTS.get(id(attr))
    if found is None:
        if len(_ATTR_TEXTS) >= _ATTR_LIMIT:
            _ATTR_TEXTS.clear()
        stream = io.StringIO()
        BlockPrinter(stream).print_attribute(attr)
        found = _ATTR_TEXTS[id(attr)] = (attr, stream.getvalue())
    return found[1]


class _Canonical:
    """Writes one function with its values and blocks numbered."""

    def __init__(self) -> None:
        self._numbers: dict[SSAValue, str] = {}
        self._blocks: dict[Block, int] = {}
        self._lines: list[str] = []

    def function(self, func: Operation) -> str:
        skip = ("sym_name", "sym_visibility")
        self._lines.append(f"func{_dictionary(func.properties, skip)}{_dictionary(func.attributes)}")
        for region in func.regions:
            self._region(region)
        return "\n".join(self._lines)

    def _number(self, value: SSAValue) -> str:
        found = self._numbers.get(value)
        if found is None:
            found = self._numbers[value] = f"%{len(self._numbers)}"
        return found

    def _region(self, region: Region) -> None:
        lines, number = self._lines, self._number
        for block in region.blocks:
            self._blocks[block] = len(self._blocks)
        lines.append("{")
        for block in region.blocks:
            arguments = ", ".join(f"{number(value)}: {_attr_text(value.type)}" for value in block.args)
            lines.append(f"^{self._blocks[block]}({arguments})")
            for op in block.ops:
                self._operation(op)
        lines.append("}")

    def _operation(self, op: Operation) -> None:
        number = self._number
        operands = ",".join([number(value) for value in op.operands])
        parts = [op.name, "(", operands, ")"]
        if op.properties:
            parts.append(_dictionary(op.properties))
        if op.attributes:
            parts.append(_dictionary(op.attributes))
        if op.successors:
            parts.append(str([self._blocks[block] for block in op.successors]))
        for result in op.results:
            parts.append(f" {number(result)}:{_attr_text(result.type)}")
        self._lines.append("".join(parts))
        for region in op.regions:
            self._region(region)


def _dictionary(attrs: Mapping[str, Attribute], skip: tuple[str, ...] = ()) -> str:
    shown = [f"{key}={_attr_text(value)}" for key, value in sorted(attrs.items()) if key not in skip]
    return "{" + ",".join(shown) + "}"

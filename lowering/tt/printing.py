"""Prints the block IR. `parse(print_module(m))` prints as `print_module(m)` again, and Triton's own parser reads what is
printed here."""

from __future__ import annotations

import io
import math
import re
from collections.abc import Mapping
from types import MappingProxyType

from xdsl.dialects.builtin import UNKNOWN_LOC, AnyFloat, ModuleOp
from xdsl.ir import Attribute, BlockArgument, Operation
from xdsl.printer import Printer

from ...promotion.errors import UserError
from .dialect.attributes import is_older
from .dialect.functions import FuncOp, called_functions
from .dialect_versions import DIALECT_VERSIONS, OLD_NAMES

_DECIMAL = re.compile(r"-?\d+\.\d*(?:e[+-]?\d+)?")


class BlockPrinter(Printer):
    """Prints floats so that they read back to the same bits: MLIR's float literals need a decimal point.

    Attributes:
        spelling, files: see `print_module`.
        locations: whether locations are printed. Unknown ones never are.
    """

    spelling = "3.9"
    locations = False
    files: Mapping[str, str] = MappingProxyType({})

    def print_op(self, op: Operation) -> None:
        older = OLD_NAMES.get(op.name) if is_older(self) else None
        if older is None:
            super().print_op(op)
        else:
            self._print_results(op)
            self.print_string(older)
            op.print(self)
        self.print_location(op.location)

    def print_block_argument(self, arg: BlockArgument, print_type: bool = True) -> None:
        super().print_block_argument(arg, print_type)
        if print_type:
            self.print_location(arg.location)

    def print_location(self, location: Attribute) -> None:
        if self.locations and location != UNKNOWN_LOC:
            self.print_string(" ")
            self.print_attribute(location)

    def print_string_literal(self, string: str) -> None:
        super().print_string_literal(self.files.get(string, string) if self.printing_location else string)

    def print_float(self, value: float, type: AnyFloat) -> None:  # noqa: A002 - xDSL's name
        if math.isfinite(value):
            short = f"{value:.6e}"
            for text in (short, repr(value)):
                if _DECIMAL.fullmatch(text) and type.unpack(type.pack([float(text)]), 1)[0] == value:
                    self.print_string(text)
                    return
        self.print_string(f"0x{type.pack([value])[::-1].hex().upper()}")


def print_module(
    op: Operation, locations: bool = False, spelling: str = "3.9", files: Mapping[str, str] = MappingProxyType({})
) -> str:
    """Returns the text of a module; a function is printed with those that it calls, in a module of their own.

    `locations`: with the lines that operations come from, `loc("model.py":12:0)`; `files`: names to print in
    place of file names. `spelling`: "3.9", or "seed" for what Triton 3.3 reads:
    `tt.experimental_descriptor_load`, cache hints before the dictionary, and so on. Raises `UserError` for
    other spellings.
    """
    if spelling not in DIALECT_VERSIONS:
        raise UserError(f"spelling {spelling!r}; expected {' or '.join(map(repr, DIALECT_VERSIONS))}")
    if isinstance(op, FuncOp):
        op = ModuleOp([op.clone(), *[each.clone() for each in called_functions(op)]])
    stream = io.StringIO()
    printer = BlockPrinter(stream)
    printer.spelling, printer.locations, printer.files = spelling, locations, files
    printer.print_op(op)
    return stream.getvalue().removeprefix("builtin.") + "\n"  # `module {`, as MLIR prints it

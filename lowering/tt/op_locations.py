"""Locates operations: finds the source line, and the operation's text as `Kernel.ttir` prints it."""

from __future__ import annotations

import io

from xdsl.dialects.builtin import ArrayAttr, CallSiteLoc, FileLineColLoc, FusedLoc, NameLoc
from xdsl.ir import Attribute, Operation

from ...promotion.errors import printable
from .printing import BlockPrinter

_MAX_TEXT = 200
_MAX_DEPTH = 16


def source_line(location: Attribute) -> str | None:
    """Returns `file:line:column` of a location, followed by its call site; None for a location without a
    source line."""
    return _line(location, 0, {})


def _line(location: Attribute, depth: int, known: dict[int, str | None]) -> str | None:
    """Returns the line of a location. `known`: lines by the `id` of locations, which share parts, so that
    each is visited once."""
    if depth > _MAX_DEPTH:
        return None
    if id(location) not in known:
        known[id(location)] = None
        known[id(location)] = _line_of(location, depth + 1, known)
    return known[id(location)]


def _line_of(location: Attribute, depth: int, known: dict[int, str | None]) -> str | None:
    match location:
        case FileLineColLoc():
            return f"{printable(location.filename.data)}:{location.line.data}:{location.column.data}"
        case NameLoc():
            return _line(location.location, depth, known)
        case CallSiteLoc():
            callee, caller = _line(location.callee, depth, known), _line(location.caller, depth, known)
            text = f"{callee} called at {caller}" if callee and caller else callee or caller
            return text if text is None or len(text) <= _MAX_TEXT else f"{text[:_MAX_TEXT]} …"
        case FusedLoc() if isinstance(location.locations, ArrayAttr):
            found = (_line(each, depth, known) for each in location.locations)
            return next((line for line in found if line is not None), None)
    return None


class _Numbering(BlockPrinter):
    """A printer that records the offset in the text at which every operation begins."""

    def __init__(self, stream: io.StringIO) -> None:
        super().__init__(stream)
        self.text = stream
        self.starts: dict[Operation, int] = {}

    def print_op(self, op: Operation) -> None:
        self.starts[op] = self.text.tell()
        super().print_op(op)


class OpLocations:
    """Lines and texts of the operations of one module, which is printed on first use."""

    def __init__(self, root: Operation) -> None:
        self._root = root
        self._lines: dict[Operation, tuple[int, str]] | None = None
        self._whole: dict[Operation, Operation] = {}

    def stands_for(self, part: Operation, whole: Operation) -> None:
        """Gives an operation that is not in the text the line and the text of one that is, of which it does a part."""
        self._whole[part] = whole

    def _line(self, op: Operation) -> tuple[int, str]:
        op = self._whole.get(op, op)
        if self._lines is None:
            stream = io.StringIO()
            printer = _Numbering(stream)
            printer.print_op(self._root)
            text = stream.getvalue()
            self._lines = {}
            line = at = 0
            for each, start in printer.starts.items():  # in the order of the text
                line += text.count("\n", at, start)
                at = start
                end = text.find("\n", start)
                self._lines[each] = (line + 1, printable(text[start : end if end >= 0 else len(text)].strip()))
        return self._lines.get(op, (0, op.name))

    def text(self, op: Operation) -> str:
        """Returns the first line of the operation's text, cut to 200 characters."""
        text = self._line(op)[1]
        return text if len(text) <= _MAX_TEXT else f"{text[:_MAX_TEXT]} …"

    def line(self, op: Operation) -> str:
        """Returns the source line, or the line of `Kernel.ttir` if the text names no source."""
        return source_line(op.location) or f"ttir:{self._line(op)[0]}"


__all__ = ["OpLocations", "source_line"]

"""Finds where in the user's program something was made."""

from __future__ import annotations

import os
import sys
from typing import NamedTuple

_PACKAGE = __name__.partition(".")[0]
_PREFIX = _PACKAGE + "."


class Location(NamedTuple):
    """A line of the user's program."""

    file: str
    line: int
    function: str

    def __str__(self) -> str:
        return f"{file_name(self.file)}:{self.line} in {self.function}"


class NodeLocation(Location):
    """A node of a model in a file, or what the text of a graph says. Saved models keep it, and no lines of programs."""

    __slots__ = ()


def file_name(path: str) -> str:
    """Return a path without its directories."""
    return os.path.basename(path)


UNKNOWN = Location("<unknown>", 0, "<unknown>")


def user_location() -> Location:
    """Return the line of the innermost frame outside joinery.

    Frames are told apart by the names of their modules: the repository root is the package, so a path says
    nothing.
    """
    frame = sys._getframe(1)
    while frame is not None:
        name = frame.f_globals.get("__name__", "")
        if not (name.startswith(_PREFIX) or name == _PACKAGE):
            code = frame.f_code
            return Location(code.co_filename, frame.f_lineno, code.co_name)
        if frame.f_back is None:
            break
        frame = frame.f_back
    return UNKNOWN

"""Resolves location aliases: `#loc3 = loc("f.py":4:2)`, which Triton prints before and after the module, in
any order.

They are removed from a text before it is parsed, and resolved when they are first used.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import NamedTuple

from xdsl.dialects.builtin import (
    CallSiteLoc,
    FileLineColLoc,
    IntAttr,
    LocationAttr,
    NameLoc,
    NoneAttr,
    StringAttr,
    UnknownLoc,
)

from ...tt.limits import MAX_DEPTH

_ALIAS = re.compile(r"^#(loc\d*)[ \t]*=[ \t]*loc\((.*)\)[ \t]*$", re.MULTILINE | re.ASCII)
_USE = re.compile(r"#(loc[0-9]*)")
_POSITION = re.compile(r'"([^"\\\n\v\f]*)":([0-9]{1,9}):([0-9]{1,9})')
_NAMED = re.compile(r'"([^"\\\n\v\f]*)"(?:\(#(loc[0-9]*)\))?')
_CALL = re.compile(r"callsite\(#(loc[0-9]*) at #(loc[0-9]*)\)")
_UNKNOWN = UnknownLoc()
_NONE = NoneAttr()


class Located(NamedTuple):
    """A location with the number of its parts and the depth of their nesting, aliases expanded."""

    location: LocationAttr
    size: int
    depth: int


class Locations:
    """The location aliases of one text.

    Args:
        text: the whole text.
        read: reads the location that fills `text[start:end]` by the strict parser: `read(text, start, end)`.

    Attributes:
        rest: the text with spaces in place of the aliases' definitions, so that positions stay the same.
    """

    def __init__(self, text: str, read: Callable[[str, int, int], Located]) -> None:
        self._text = text
        self._read = read
        self._spans: dict[str, tuple[int, int]] = {}
        self._found: dict[str, Located] = {}
        self._texts: dict[str, Located] = {}
        self._open: set[str] = set()
        if "#loc" not in text:
            self.rest = text
            return

        def take(match: re.Match[str]) -> str:
            self._spans[match[1]] = match.span(2)
            return " " * len(match[0])

        self.rest = _ALIAS.sub(take, text)

    def __contains__(self, name: str) -> bool:
        return name in self._spans

    def find(self, name: str) -> Located:
        """Returns the location that an alias stands for. Raises `ValueError` if it is recursive or nested too
        deeply, and whatever `read` raises if it is malformed."""
        found = self._found.get(name)
        if found is None:
            if name in self._open:
                raise ValueError(f"location #{name} is defined by itself")
            if len(self._open) >= MAX_DEPTH:
                raise ValueError(f"locations are nested too deeply: more than {MAX_DEPTH} levels")
            self._open.add(name)
            start, end = self._spans[name]
            found = self._simple(self._text[start:end]) or self._read(self._text, start, end)
            self._open.remove(name)
            self._found[name] = found
        return found

    def parse(self, text: str) -> Located:
        """Returns the location written in the parentheses of `loc(…)`."""
        found = self._texts.get(text)
        if found is None:
            found = self._texts[text] = self._simple(text) or self._read(text, 0, len(text))
        return found

    def _simple(self, text: str) -> Located | None:
        """Parses the usual forms of locations; returns None for others."""
        known = self._spans
        if (match := _USE.fullmatch(text)) is not None and match[1] in known:
            return self.find(match[1])
        if (match := _POSITION.fullmatch(text)) is not None:
            position = FileLineColLoc(StringAttr(match[1]), IntAttr(int(match[2])), IntAttr(int(match[3])))
            return Located(position, 1, 1)
        if text == "unknown":
            return Located(_UNKNOWN, 1, 1)
        if (match := _NAMED.fullmatch(text)) is not None:
            if match[2] is None:
                return Located(NameLoc(StringAttr(match[1]), _NONE), 1, 1)
            if match[2] in known:
                child = self.find(match[2])
                return Located(NameLoc(StringAttr(match[1]), child.location), child.size + 1, child.depth + 1)
        if (match := _CALL.fullmatch(text)) is not None and match[1] in known and match[2] in known:
            callee, caller = self.find(match[1]), self.find(match[2])
            location = CallSiteLoc(callee.location, caller.location)
            return Located(location, callee.size + caller.size + 1, max(callee.depth, caller.depth) + 1)
        return None

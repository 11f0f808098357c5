"""Splits PTX text into tokens."""

from __future__ import annotations

import re
from typing import NamedTuple

from ...promotion.errors import UserError

MAX_TEXT = 1 << 20
"""The most characters of PTX that are read."""

_TOKEN = re.compile(
    r"""((?:\s+|//[^\n]*|/\*.*?\*/)*)
      (?:(?P<bits>0[fF][0-9a-fA-F]{8}(?!\w)|0[dD][0-9a-fA-F]{16}(?!\w))
      |(?P<decimal>\d+\.\d*(?:[eE][+-]?\d+)?(?![\w])|\d+[eE][+-]?\d+(?!\w))
      |(?P<integer>0[xX][0-9a-fA-F]+U?(?!\w)|0[bB][01]+U?(?!\w)|\d+U?(?!\w))
      |(?P<dotted>\.[A-Za-z0-9_]+(?:::[A-Za-z0-9_]+)*)
      |(?P<name>[A-Za-z_$%][\w$]*)
      |(?P<string>"[^"\n]*")
      |(?P<mark>[{}()\[\]<>;:,@!|+=-])
      |(?P<end>\Z))""",
    re.VERBOSE | re.DOTALL,
)

_BLANK = re.compile(r"(?:\s+|//[^\n]*|/\*.*?\*/)*", re.DOTALL)


class Token(NamedTuple):
    kind: str
    text: str
    line: int
    start: int
    end: int


def tokens_of(text: str, limit: int = MAX_TEXT) -> list[Token]:
    """Returns the tokens of a text, without comments, and one of kind "end". Raises `UserError` naming the line."""
    if len(text) > limit:
        raise UserError(f"PTX: {len(text)} characters; at most {limit} are read")
    found: list[Token] = []
    position, line = 0, 1
    match_at = _TOKEN.match
    while True:
        match = match_at(text, position)
        if match is None:
            rest = _BLANK.match(text, position)
            position = rest.end() if rest is not None else position
            line = text.count("\n", 0, position) + 1
            shown = text[position : position + 12].split("\n")[0]
            problem = "a comment that does not end" if shown.startswith("/*") else f"no token starts with {shown!r}"
            raise UserError(f"PTX line {line}: {problem}")
        kind = str(match.lastgroup)
        start, end = match.span(kind)
        if start != position:
            line += text.count("\n", position, start)
        found.append(Token(kind, match[kind], line, start, end))
        if kind == "end":
            return found
        position = end

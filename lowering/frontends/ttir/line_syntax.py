"""Splits lines into their parts: names, lists, and the types of block arguments."""

from __future__ import annotations

import re

from xdsl.ir import Attribute, SSAValue

from .parser import BlockParser, drop_unprintable_name, plain_block

HOLE = "\0"
"""Stands for the name of a value in a template."""

_ID = r"(?:[0-9]+|[a-zA-Z$._-][a-zA-Z0-9$._-]*)"
VALUE = re.compile(rf"(%{_ID}(?:#[0-9]+)?)")
# An unterminated string extends to the end of the line.
VALUE_OR_STRING = re.compile(rf'"(?:[^"\\]|\\.)*+(?:"|\Z)|(%{_ID}(?:#[0-9]+)?)')
NAME = re.compile(rf"%{_ID}")
RESULTS = re.compile(rf"(%{_ID}(?::[1-9][0-9]{{0,3}})?)(?:, (?=%)|\Z)")
LABEL = re.compile(rf"\^({_ID})(?:\((.*)\))?:(?:[ \t]*//.*)?", re.ASCII)
PIECE = re.compile(r'"(?:[^"\\]|\\.)*+(?:"|\Z)|->|[<({\[]|[>)}\]]|,')


class FallBackToParser(Exception):
    """Raised by the fast line reader for a text that it does not recognize; the strict parser reads it instead."""


_ATTRIBUTES: dict[str, Attribute] = {}


def argument_type(text: str) -> Attribute:
    """Returns the type of a block argument. Raises `FallBackToParser` if the text is not exactly one type."""
    found = _ATTRIBUTES.get(text)
    if found is None:
        found = plain_block(text) or _parsed(text)
        if len(_ATTRIBUTES) >= 1 << 10:
            _ATTRIBUTES.clear()
        if len(text) < 200:
            _ATTRIBUTES[text] = found
    return found


def _parsed(text: str) -> Attribute:
    try:
        parser = BlockParser(text)
        found = parser.parse_attribute()
        if parser.pos != len(text) or "//" in text:
            raise FallBackToParser
    except FallBackToParser:
        raise
    except Exception as error:  # the strict parser meets it again, and reports it
        raise FallBackToParser from error
    return found


def give_hint(name: str, value: SSAValue) -> None:
    if name[1] not in "0123456789":
        value.name_hint = name[1:]
        if name[1] == "_":
            drop_unprintable_name(value)


def split_names(text: str) -> tuple[list[str], str]:
    """Returns the names of values in the text, and the text with `HOLE` in place of each."""
    if '"' not in text:
        parts = VALUE.split(text)
        return parts[1::2], HOLE.join(parts[::2])
    names: list[str] = []

    def take(match: re.Match[str]) -> str:
        if match[1] is None:
            return match[0]
        names.append(match[1])
        return HOLE

    return names, VALUE_OR_STRING.sub(take, text)


def split_commas(text: str) -> list[str]:
    """Splits the text at commas outside brackets."""
    parts: list[str] = []
    depth = start = 0
    for match in PIECE.finditer(text):
        piece = match[0]
        if piece in ("<", "(", "{", "["):
            depth += 1
        elif piece in (">", ")", "}", "]"):
            depth -= 1
        elif piece == "," and depth == 0:
            parts.append(text[start : match.start()])
            start = match.end()
    if not parts and not text.strip():
        return []
    return [part.strip(" ") for part in (*parts, text[start:])]

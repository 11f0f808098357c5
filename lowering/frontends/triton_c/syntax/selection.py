"""Leaves out the functions that a kernel does not reach, by their brackets alone, before anything in them is looked at.

What they need may be missing then: types, extents, attributes, statements that macros stand for.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise

from ..reading.source import NAME, STRING, Token
from . import tree
from .declarators import is_attribute
from .token_stream import KEYWORDS

_CLOSING = {")": "(", "]": "[", "}": "{"}


class _External:
    """What stands outside of functions, from one semicolon or body to the next.

    Attributes:
        begin, end: its tokens.
        names: those of its tokens that may be the name of a function: they stand before parentheses.
        is_function, is_prototype: whether it is one, and nothing else.
    """

    __slots__ = ("begin", "end", "is_function", "is_prototype", "names")

    def __init__(self, begin: int) -> None:
        self.begin = self.end = begin
        self.names: list[int] = []
        self.is_function = self.is_prototype = False


def selected(tokens: Sequence[Token], kernel: str) -> tuple[Sequence[Token], list[tree.Skipped]]:
    """Return the tokens without functions that a kernel does not reach, and what stands for these.

    If brackets do not close one another, all tokens are returned: what is wrong with them is for the parser to tell.
    """
    externals = list(_externals(tokens))
    if not externals:
        return tokens, []
    reached = _reached(tokens, externals, kernel)
    found: list[Token] = []
    skipped: list[tree.Skipped] = []
    for each in externals:
        if each in reached:
            found += tokens[each.begin : each.end]
        else:
            skipped.append(_skipped(tokens, each))
    return [*found, tokens[-1]], skipped


def _externals(tokens: Sequence[Token]) -> Iterator[_External]:
    """Give what stands outside of functions; nothing if brackets do not close one another."""
    found: list[_External] = []
    opened: list[str] = []
    current = _External(0)
    has_values = has_members = is_body = False
    last = len(tokens) - 1
    for at in range(last):
        text = tokens[at].text if tokens[at].kind is not STRING else ""
        is_end = False
        if text in ("(", "[", "{"):
            if not opened and text == "(" and at > current.begin and _may_be_function(tokens[at - 1]):
                current.names.append(at - 1)
            if not opened and text == "{":
                before = {each.text for each in tokens[max(current.begin, at - 2) : at]}
                is_members = bool(before & {"struct", "union", "enum"})
                has_members = has_members or is_members
                is_body = bool(current.names) and not has_values and not is_members
            opened.append(text)
        elif text in _CLOSING:
            if not opened or opened.pop() != _CLOSING[text]:
                return
            is_end = current.is_function = not opened and text == "}" and is_body
        elif not opened and text in ("=", ",", "typedef"):
            has_values = True
        elif not opened and text == ";":
            is_end = True
            current.is_prototype = bool(current.names) and not has_values
        if is_end:
            current.end = at + 1
            current.is_function = current.is_function and not has_members
            current.is_prototype = current.is_prototype and not has_members
            found.append(current)
            current = _External(at + 1)
            has_values = has_members = is_body = False
    if opened:
        return
    current.end = last
    yield from [*found, current]


def _may_be_function(token: Token) -> bool:
    return token.kind is NAME and token.text not in KEYWORDS and not is_attribute(token.text)


def _reached(tokens: Sequence[Token], externals: Iterable[_External], kernel: str) -> set[_External]:
    """Return what a kernel reaches, and everything that is no function."""
    named: dict[str, list[_External]] = {}
    reached: set[_External] = set()
    for each in externals:
        if not (each.is_function or each.is_prototype):
            reached.add(each)
        for at in each.names:
            named.setdefault(tokens[at].text, []).append(each)
    reached.update(named.get(kernel, ()))
    waiting = list(reached)
    while waiting:
        each = waiting.pop()
        for name in {token.text for token in tokens[each.begin : each.end] if token.kind is NAME} & named.keys():
            new = [other for other in named[name] if other not in reached]
            reached.update(new)
            waiting += new
    return reached


def _skipped(tokens: Sequence[Token], external: _External) -> tree.Skipped:
    """Return what stands for a function or a prototype."""
    at = external.names[0]
    own = tokens[external.begin : external.end]
    called = {name.text for name, behind in pairwise(own) if name.kind is NAME and behind.text == "("}
    header = tokens[external.begin : at]
    is_global = any(is_attribute(each.text, "global") for each in header) or any(
        first.text == "(" and is_attribute(f"__{name.text}", "global") for first, name in pairwise(own)
    )
    is_device = any(each.text == "__device__" for each in header)
    is_void = at > external.begin and tokens[at - 1].text == "void"
    names = frozenset(tokens[each].text for each in external.names)
    return tree.Skipped(tokens[at], external.is_prototype, is_global, is_device, is_void, frozenset(called) - names)


__all__ = ["selected"]

"""Shows the stages of a text: its tokens, its syntax tree, its typed tree."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from .checking import typed
from .reading.source import Token
from .syntax import tree
from .text import Reading
from .types import Type

STAGES = ("tokens", "ast", "typed")
_INDENT = "  "
_MAX_INDENT = 60
"""Levels up to which lines are indented: those of a sum of many terms would be as long as the sum."""
_SHOWN = (tree.Node, typed.Expression, typed.Statement, typed.Function, typed.Section, typed.Promise)
_NAMED = (str, int, float, bool, typed.Symbol, typed.Aggregate, typed.Table)


def print_stage(reading: Reading, stage: str) -> str:
    """Return a stage of a text, one line for each token or node. `stage`: one of `STAGES`."""
    if stage == "tokens":
        lines: Iterable[str] = map(_token_line, reading.tokens)
    elif stage == "ast":
        lines = _lines(reading.syntax)
    else:
        lines = _lines(reading.typed.functions)
    return "".join(f"{line}\n" for line in lines)


def _position(token: Token) -> str:
    file, line, column = token.position
    return f"{file}:{line}:{column}"


def _token_line(token: Token) -> str:
    uses = "".join(f" from {use.text} at {_position(use)}" for use in token.uses)
    return f"{_position(token)}: {token.kind} {token.text}{uses}"


def _lines(items: Iterable[object]) -> Iterator[str]:
    """Show nodes and what they are made of, each part behind the name of its field, without recursion: sums may be long."""
    waiting = [(item, 0, "") for item in items][::-1]
    while waiting:
        node, depth, label = waiting.pop()
        if isinstance(node, tuple) and (not node or not all(isinstance(each, str | int | bool) for each in node)):
            waiting += [(each, depth, label) for each in reversed(node)]
            continue
        indent = _INDENT * depth if depth <= _MAX_INDENT else f"{_INDENT * _MAX_INDENT}({depth} deep) "
        before = f"{indent}{label}"
        if not isinstance(node, _SHOWN):
            yield f"{before}{_value(node)}"
            continue
        parts = [(name, getattr(node, name)) for name in _fields(node)]
        plain = [(name, value) for name, value in parts if _is_plain(value)]
        token = getattr(node, "token", None)
        head = [type(node).__name__]
        if isinstance(node, typed.Expression):
            head.append(f": {node.type}")
        if token is not None:
            shown = f" {token.text}" if isinstance(node, tree.Node) or not plain else ""
            head.append(f"{shown} @{_position((token.uses or [token])[0])}")
        head += [f" {name}={_value(value)}" for name, value in plain if not _is_empty(value)]
        yield before + "".join(head)
        waiting += [(value, depth + 1, f"{name}: ") for name, value in reversed(parts) if not _is_plain(value)]


def _fields(node: object) -> list[str]:
    slots = [slot for kind in reversed(type(node).__mro__) for slot in getattr(kind, "__slots__", ())]
    hidden = ("token", "events", "type") if isinstance(node, typed.Expression | typed.Statement) else ("token", "declared")
    return [slot for slot in slots if slot not in hidden]


def _is_plain(value: object) -> bool:
    """Return whether a value is shown in the line of its node."""
    if isinstance(value, tuple | frozenset):
        return all(isinstance(each, _NAMED) for each in value)
    return value is None or isinstance(value, str | int | float | bool | typed.Symbol | typed.Aggregate | Type)


def _is_empty(value: object) -> bool:
    return value is None or value is False or value == () or value == frozenset() or value == ""


def _value(value: object) -> str:
    if isinstance(value, tuple | frozenset):
        return f"({', '.join(sorted(map(_value, value)) if isinstance(value, frozenset) else map(_value, value))})"
    if isinstance(value, typed.Symbol | typed.Aggregate):
        return f"{value.name}: {value.type}"
    if isinstance(value, typed.Table):
        return f"{value.name}{list(value.shape)}"
    return value.text if isinstance(value, Token) else str(value)


__all__ = ["STAGES", "print_stage"]

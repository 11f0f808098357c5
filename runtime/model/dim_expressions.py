"""Sizes written as text: the dim expressions in specs and kernel reports ("batch", "2*seq + 1", "min(a, b) //
4").

The runtime sees sizes only as text, and artifacts may come from strangers: the text is parsed by the small
grammar below, never evaluated as Python.

    sum     = product (("+" | "-") product)*
    product = unary (("*" | "//" | "%") unary)*
    unary   = "-" unary | power
    power   = atom (("**" | "^") integer)?
    atom    = integer | name | function "(" sum ("," sum)* ")" | "(" sum ")"
    function = "min" | "max" | "floordiv" | "ceildiv" | "mod"

Division follows the numeric contract: `//` and `%` floor, `p // 0` is 0 and `p % 0` is p.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Mapping
from dataclasses import dataclass

from ...promotion.errors import UserError

_MAX_TEXT = 10_000
_MAX_DEPTH = 100
_MAX_POWER = 64
_TOKEN = re.compile(r"\s*(?:(?P<int>\d+)|(?P<name>[^\W\d][\w.]*)|(?P<op>\*\*|//|[-+*%^(),]))")
_FUNCTIONS = ("min", "max", "floordiv", "ceildiv", "mod")

Node = int | str | tuple[str, tuple["Node", ...]]


@dataclass(frozen=True, slots=True)
class Size:
    """A parsed size. `names` are the symbolic dims it mentions, sorted."""

    text: str
    node: Node
    names: tuple[str, ...]

    def evaluate(self, dims: Mapping[str, int]) -> int:
        """The value under these dims. Raises `UserError` for a dim without a value."""
        return _evaluate(self.node, dims, self.text)

    def solve(self, value: int, dims: Mapping[str, int]) -> tuple[str, int] | None:
        """`(name, extent)` such that the expression equals `value`, when one dim is unknown and appears
        linearly."""
        unknown = [name for name in self.names if name not in dims]
        if len(unknown) != 1:
            return None
        at = [self.evaluate({**dims, unknown[0]: point}) for point in (0, 1)]
        slope = at[1] - at[0]
        if slope == 0 or (value - at[0]) % slope:
            return None
        extent = (value - at[0]) // slope
        if extent < 0 or self.evaluate({**dims, unknown[0]: extent}) != value:
            return None
        return unknown[0], extent


def _evaluate(node: Node, dims: Mapping[str, int], text: str) -> int:
    if isinstance(node, int):
        return node
    if isinstance(node, str):
        if node not in dims:
            raise UserError(
                f"size {text!r}: dim {node!r} has no value; known dims: {', '.join(dims) or 'none'}"
            )
        return dims[node]
    operator, operands = node
    values = [_evaluate(operand, dims, text) for operand in operands]
    match operator:
        case "+":
            return values[0] + values[1]
        case "-":
            return values[0] - values[1]
        case "*":
            return values[0] * values[1]
        case "**":
            return int(values[0] ** values[1])
        case "min":
            return min(values)
        case "max":
            return max(values)
        case "//" | "ceildiv" if values[1] == 0:
            return 0
        case "//":
            return values[0] // values[1]
        case "ceildiv":
            return -(-values[0] // values[1])
        case _:
            return values[0] % values[1] if values[1] else values[0]


class _Parser:
    def __init__(self, text: str) -> None:
        self.text = text
        self.tokens: list[tuple[str, str]] = []
        self.at = 0
        position = 0
        stripped = text.rstrip()
        while position < len(stripped):
            match = _TOKEN.match(stripped, position)
            if match is None:
                raise self.error(f"unexpected {stripped[position]!r} at column {position + 1}")
            kind = match.lastgroup or ""
            self.tokens.append((kind, match.group(kind)))
            position = match.end()

    def error(self, what: str) -> UserError:
        return UserError(
            f"{self.text[:200]!r} is not a size: {what}; expected integers, dim names, + - * // % min max "
            "and ( )"
        )

    def peek(self) -> str:
        return self.tokens[self.at][1] if self.at < len(self.tokens) else ""

    def accept(self, *operators: str) -> str:
        if self.at < len(self.tokens) and self.tokens[self.at][0] == "op" and self.peek() in operators:
            self.at += 1
            return self.tokens[self.at - 1][1]
        return ""

    def expect(self, operator: str) -> None:
        if not self.accept(operator):
            raise self.error(f"expected {operator!r} before {self.peek() or 'the end'!r}")

    def sum(self, depth: int) -> Node:
        if depth > _MAX_DEPTH:
            raise self.error(f"nested deeper than {_MAX_DEPTH}")
        left = self.product(depth)
        while operator := self.accept("+", "-"):
            left = (operator, (left, self.product(depth)))
        return left

    def product(self, depth: int) -> Node:
        left = self.unary(depth)
        while operator := self.accept("*", "//", "%"):
            left = (operator, (left, self.unary(depth)))
        return left

    def unary(self, depth: int) -> Node:
        if depth > _MAX_DEPTH:
            raise self.error(f"nested deeper than {_MAX_DEPTH}")
        if self.accept("-"):
            return ("-", (0, self.unary(depth + 1)))
        return self.power(depth)

    def power(self, depth: int) -> Node:
        base = self.atom(depth)
        if self.accept("**", "^"):
            exponent = self.atom(depth)
            if not isinstance(exponent, int) or exponent > _MAX_POWER:
                raise self.error(f"exponents are integers from 0 to {_MAX_POWER}")
            return ("**", (base, exponent))
        return base

    def atom(self, depth: int) -> Node:
        if self.accept("("):
            inner = self.sum(depth + 1)
            self.expect(")")
            return inner
        if self.at >= len(self.tokens):
            raise self.error("it ends too early")
        kind, token = self.tokens[self.at]
        if kind == "op":
            raise self.error(f"unexpected {token!r}")
        self.at += 1
        if kind == "int":
            return int(token)
        return self.call(token, depth) if self.accept("(") else token

    def call(self, function: str, depth: int) -> Node:
        if function not in _FUNCTIONS:
            raise self.error(f"no function {function!r}")
        operands = [self.sum(depth + 1)]
        while self.accept(","):
            operands.append(self.sum(depth + 1))
        self.expect(")")
        if function not in ("min", "max") and len(operands) != 2:
            raise self.error(f"{function} takes two operands")
        return ({"floordiv": "//", "mod": "%"}.get(function, function), tuple(operands))


def _names(node: Node, found: set[str]) -> set[str]:
    if isinstance(node, str):
        found.add(node)
    elif isinstance(node, tuple):
        for operand in node[1]:
            _names(operand, found)
    return found


@functools.lru_cache(maxsize=4096)
def parse_size(text: str) -> Size:
    """Parses a size. Raises `UserError` naming the place for text outside the grammar."""
    if len(text) > _MAX_TEXT:
        raise UserError(f"a size of {len(text)} characters; at most {_MAX_TEXT} are read")
    parser = _Parser(text)
    # chains of + and * make deep trees too; the depth budget counts operators as well
    if sum(kind == "op" for kind, _ in parser.tokens) > 4 * _MAX_DEPTH:
        raise parser.error(f"more than {4 * _MAX_DEPTH} operators")
    node = parser.sum(0)
    if parser.at < len(parser.tokens):
        raise parser.error(f"unexpected {parser.peek()!r}")
    return Size(text, node, tuple(sorted(_names(node, set()))))

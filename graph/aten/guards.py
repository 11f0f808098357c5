"""Reads the conditions on sizes that an exported program was traced under, as checks of each run.

`torch.export` writes them as Python: `(L['x'].size()[0] % 2) == 0`. They are parsed, never evaluated as code.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Mapping, Sequence

from ...promotion.errors import UserError
from ..checks import Check
from ..dims.dim import Dim, Extent, lower_bound, maximum, minimum

MAX_TEXT = 10_000
"""Characters of a condition, beyond which nobody reads it."""
MAX_FACTOR = 1 << 10
"""Greatest factor of a size, and denominator of one, that are read."""
_ARITHMETIC: Mapping[type[ast.operator], Callable[[Extent, Extent], Extent]] = {
    ast.Add: lambda a, b: a + b, ast.Sub: lambda a, b: a - b, ast.Mult: lambda a, b: a * b,
}  # fmt: skip
_FUNCTIONS: Mapping[str, Callable[[Extent, Extent], Extent]] = {
    "max": maximum, "min": minimum, "Max": maximum, "Min": minimum,
}  # fmt: skip


class _UnreadError(Exception):
    """A condition has a form that is unknown here."""


def checks_of(conditions: Sequence[str], sizes: Mapping[str, Extent]) -> tuple[list[Check], list[str]]:
    """Return the checks of conditions, and the conditions that have no form here.

    Args:
        conditions: comparisons of sizes.
        sizes: what parts of them stand for, by their texts as `ast.unparse` writes them, such as "L['x'].size()[0]".

    Raises `UserError` for a condition that no sizes fulfil.
    """
    checks, unread = [], []
    for condition in conditions:
        try:
            pairs = _equal_pairs(condition, sizes)
        except (_UnreadError, UserError, SyntaxError, ValueError, RecursionError, MemoryError, OverflowError):
            unread.append(condition)
            continue
        checks += [found for pair in pairs if (found := _check(*pair, condition)) is not None]
    return checks, unread


def _equal_pairs(text: str, sizes: Mapping[str, Extent]) -> list[tuple[Extent, Extent]]:
    """Return pairs of sizes that are equal where a condition holds."""
    if len(text) > MAX_TEXT:
        raise _UnreadError
    tree = ast.parse(text, mode="eval").body
    every = tree.values if isinstance(tree, ast.BoolOp) and isinstance(tree.op, ast.And) else [tree]
    return [_sides(each, sizes) for each in every]


def _sides(tree: ast.expr, sizes: Mapping[str, Extent]) -> tuple[Extent, Extent]:
    if not isinstance(tree, ast.Compare) or len(tree.ops) != 1:
        raise _UnreadError
    left, right = _extent(tree.left, sizes), _extent(tree.comparators[0], sizes)
    more: Extent
    match tree.ops[0]:
        case ast.Eq():
            return left, right
        case ast.NotEq():
            more = (left - right) * (left - right) - 1
        case ast.GtE():
            more = left - right
        case ast.Gt():
            more = left - right - 1
        case ast.LtE():
            more = right - left
        case ast.Lt():
            more = right - left - 1
        case _:
            raise _UnreadError
    return minimum(more, 0), 0


def _check(left: Extent, right: Extent, text: str) -> Check | None:
    """Return a check; None for what always holds."""
    if not isinstance(left, Dim) and not isinstance(right, Dim):
        if left != right:
            raise UserError(f"from_exported: the program states {text:.200}, which never holds; fix: export the model again")
        return None
    return None if left == right else Check(left, right, f"the model was exported for sizes with {text}")


def _extent(node: ast.expr, sizes: Mapping[str, Extent]) -> Extent:
    match node:
        case ast.Constant(value=int() as value) if not isinstance(value, bool):
            return value
        case ast.UnaryOp(op=ast.USub(), operand=operand):
            return -1 * _extent(operand, sizes)
        case ast.BinOp(left=left, op=operator, right=right):
            one, two = _extent(left, sizes), _extent(right, sizes)
            if type(operator) in _ARITHMETIC:
                return _ARITHMETIC[type(operator)](one, two)
            if isinstance(operator, ast.FloorDiv | ast.Mod) and two != 0:
                return one // two if isinstance(operator, ast.FloorDiv) else one % two
            if isinstance(operator, ast.Pow) and not isinstance(two, Dim) and 0 < two <= 4:
                result = one
                for _ in range(two - 1):
                    result = result * one
                return result
        case ast.Call(func=ast.Name(id=name), args=[one_node, two_node], keywords=[]) if name in _FUNCTIONS:
            return _FUNCTIONS[name](_extent(one_node, sizes), _extent(two_node, sizes))
        case ast.Call(func=ast.Attribute(value=ast.Name(id="math"), attr=attr), args=[argument], keywords=[]):
            return _rounded(attr, argument, sizes)
    known = sizes.get(ast.unparse(node))
    if known is None:
        raise _UnreadError
    return known


def _rounded(name: str, node: ast.expr, sizes: Mapping[str, Extent]) -> Extent:
    """Return `math.trunc(0.5*torch.sym_float(size))`, and so on: of sizes times a fraction of 2, or divided by a number."""
    match node:
        case ast.BinOp(left=size, op=ast.Div(), right=ast.Constant(value=int() as divisor)) if 0 < divisor <= MAX_FACTOR:
            return _quotient(name, _extent(size, sizes), divisor)
        case ast.BinOp(
            left=ast.Constant(value=float() as factor), op=ast.Mult(),
            right=ast.Call(func=ast.Attribute(value=ast.Name(id="torch"), attr="sym_float"), args=[size], keywords=[]),
        ) if 0 < factor < MAX_FACTOR:  # fmt: skip
            numerator, denominator = factor.as_integer_ratio()
            if denominator <= MAX_FACTOR:  # products of sizes and such factors are exact in float64
                return _quotient(name, _extent(size, sizes) * numerator, denominator)
    raise _UnreadError


def _quotient(rounding: str, dividend: Extent, divisor: int) -> Extent:
    if rounding == "ceil":
        return -1 * ((-1 * dividend) // divisor)
    least = lower_bound(dividend)
    if rounding == "floor" or (rounding == "trunc" and least is not None and least >= 0):
        return dividend // divisor
    raise _UnreadError

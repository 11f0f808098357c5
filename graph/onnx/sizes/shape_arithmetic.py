"""Computes with sizes while importing, so that what a model does with `Shape` stays an expression of dims.

A rule takes the inputs as arrays of objects, ints and dims, and returns such an array, or None where the result is not known
now for all sizes; then sizes become symbols, and the operator is one of the graph.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction
from typing import TypeAlias

import numpy as np

from ....promotion.arrays import Array
from ....promotion.dtype import DType, bool_
from ...dims.dim import (
    Atom,
    Dim,
    Extent,
    at_most,
    ceil_div,
    dims_equal,
    lower_bound,
    maximum,
    minimum,
    product,
)
from ..node import Node
from ..tensors import dtype_of_code
from ..values import IsZero, Known, Ratio, Sizes, Tabulated, Value, from_items, objects
from .scaled import size_of, tabulated

_Rule: TypeAlias = Callable[[Node, list[Array]], Array | None]
_MAX_ITEMS = 1024
_MAX_DIVISOR = 1 << 20


def on_sizes(node: Node) -> Value | None:
    """Return the output of a node if it is sizes, or computed from sizes, and known now; else None."""
    rule = _RULES.get(node.op)
    if rule is None or len(node) < _OPERANDS.get(node.op, 1):
        return None
    values = [node.value(position) if node.has(position) else None for position in range(len(node))]
    if not any(isinstance(value, Sizes) for value in values):
        return None
    arrays: list[Array] = []
    for value in values:
        items = _items(value)
        if items is None:
            return None
        arrays.append(items)
    result = rule(node, arrays)
    if result is None or node.unread():
        return None
    return _typed(node, result, values)


def _items(value: Value | None) -> Array | None:
    if isinstance(value, Sizes):
        return value.items
    if not isinstance(value, Known) or value.array.size > _MAX_ITEMS:
        return None
    if value.dtype.is_float:
        numbers = [float(number) for number in value.array.reshape(-1).tolist()]
        if not all(map(math.isfinite, numbers)):
            return None
        return objects([_ratio(Fraction(number)) for number in numbers], value.array.shape)
    if value.dtype.is_complex:
        return None
    return objects(
        [int(number) if not value.dtype.is_bool else bool(number) for number in value.array.reshape(-1).tolist()],
        value.array.shape,
    )


def _ratio(number: Fraction) -> Ratio:
    return Ratio(number.numerator, number.denominator)


def _typed(node: Node, items: Array, values: list[Value | None]) -> Value | None:
    if items.size and all(isinstance(item, bool) for item in items.reshape(-1).tolist()):
        return Known(np.array(items.tolist(), np.bool_).reshape(items.shape))
    if any(isinstance(item, IsZero) for item in items.reshape(-1).tolist()):
        return Sizes(items, bool_)
    dtype = dtype_of_code(node.attr("to"), "Cast") if node.op == "Cast" else _dtype(values)
    if dtype.is_integer and any(isinstance(item, (Ratio, Tabulated)) for item in items.reshape(-1).tolist()):
        return None  # operands of several dtypes, of which the operator itself says what is wrong
    return from_items(items, dtype)


def _dtype(values: list[Value | None]) -> DType:
    """Return the dtype of the operands, which agree, those of conditions and positions apart."""
    found = [value.dtype for value in values if isinstance(value, Sizes) and not value.dtype.is_bool]
    return found[0] if found else next(value.dtype for value in values[1:] if isinstance(value, Known))


def _each(function: Callable[..., object]) -> _Rule:
    """Return the rule of an elementwise operator; the function returns None for what is not known now."""

    def rule(node: Node, arrays: list[Array]) -> Array | None:
        try:
            shaped = np.broadcast_arrays(*arrays)
        except ValueError:  # the operator itself says so, with its operands
            return None
        rows = zip(*[array.reshape(-1).tolist() for array in shaped], strict=True)
        results = [function(*row) for row in rows]
        return None if any(result is None for result in results) else objects(results, shaped[0].shape)

    return rule


def _plain(*items: object) -> bool:
    return all(isinstance(item, (int, Dim)) and not isinstance(item, bool) for item in items)


def _add(x: Extent, y: Extent) -> object:
    return x + y if _plain(x, y) else None


def _sub(x: Extent, y: Extent) -> object:
    return x - y if _plain(x, y) else None


def _mul(x: object, y: object) -> object:
    if _plain(x, y):
        return x * y  # type: ignore[operator]
    if not (isinstance(x, Ratio) and isinstance(y, Ratio)):
        return None
    divisor = x.divisor * y.divisor
    both = isinstance(x.dividend, Dim) and isinstance(y.dividend, Dim)
    return None if both or divisor > _MAX_DIVISOR else Ratio(x.dividend * y.dividend, divisor)


def _div(x: object, y: object) -> object:
    if _plain(x, y):
        return _truncated(x, y)  # type: ignore[arg-type]
    if isinstance(x, Ratio) and isinstance(y, Ratio) and isinstance(y.dividend, int) and y.dividend > 0:
        return _mul(x, Ratio(y.divisor, y.dividend))
    return None


def _truncated(x: Extent, y: Extent) -> Extent | None:
    """Return a quotient of integers rounded towards 0, as ONNX divides them; None for divisors that may be 0."""
    if isinstance(y, int) and y < 0:
        quotient = _truncated(x, -y)
        return None if quotient is None else -quotient
    least, divisor = lower_bound(x), lower_bound(y)
    if divisor is None or divisor < 0 or y == 0:
        return None
    if least is not None and least >= 0:
        return x // y
    if not isinstance(y, int):
        return None
    negative: Extent = 0 if least is not None and least > -y else maximum(-x, 0) // y
    return maximum(x, 0) // y - negative


def _mod(node: Node, arrays: list[Array]) -> Array | None:
    truncates = bool(node.attr("fmod", 0))
    return _each(lambda x, y: _remainder(x, y, truncates))(node, arrays)


def _remainder(x: Extent, y: Extent, truncates: bool) -> object:
    """Return a remainder: with the divisor's sign, or of a quotient that is rounded towards 0."""
    least = lower_bound(y) if _plain(x, y) else None
    if least is None or least < 0 or (isinstance(y, int) and y == 0) or (truncates and not isinstance(y, int)):
        return None
    quotient = _truncated(x, y) if truncates else None
    return x % y if quotient is None else x - quotient * y


def _equal(x: Extent, y: Extent) -> object:
    if not _plain(x, y):
        return None
    decided = dims_equal(x, y)
    if decided is None and isinstance(x, Dim) and y == 0 and lower_bound(x) == 0:
        return IsZero(x)
    return decided


def _less(x: Extent, y: Extent) -> object:
    if not _plain(x, y):
        return None
    return True if at_most(x + 1, y) else False if at_most(y, x) else None


def _rounded(divide: Callable[[Extent, Extent], Extent]) -> Callable[[object], object]:
    return lambda x: Ratio(divide(x.dividend, x.divisor), 1) if isinstance(x, Ratio) else None


def _unknown(*items: object) -> object:
    return None


def _in_floats(exact: Callable[..., object], op: str) -> _Rule:
    """Return the rule of an elementwise operator that is computed in floats, as they round, where it is not exact."""

    def rule(node: Node, arrays: list[Array]) -> Array | None:
        dtype = next(node.dtype(position) for position in range(len(node)) if node.has(position))

        def computed(*items: object) -> object:
            found = exact(*items)
            return tabulated(op, dtype, *items) if found is None and dtype.is_float else found

        return _each(computed)(node, arrays)

    return rule


def _cast(node: Node, arrays: list[Array]) -> Array | None:
    target = dtype_of_code(node.attr("to"), "Cast")
    node.ignore("saturate", "round_mode")  # of floats of 8 bits
    if target is bool_ or not (target.is_integer or target.name in ("float32", "float64")):
        return None

    def converted(item: object) -> object:
        if isinstance(item, IsZero):
            return 1 - minimum(item.size, 1) if target.is_integer else None
        if isinstance(item, Tabulated):
            return tabulated("cast", target, item) if target.is_float else size_of(node.graph, item)
        if target.is_float:
            return item if isinstance(item, Ratio) else Ratio(item, 1) if _plain(item) else None  # type: ignore[arg-type]
        return _truncated(item.dividend, item.divisor) if isinstance(item, Ratio) else item

    return _each(converted)(node, arrays)


def _gather(node: Node, arrays: list[Array]) -> Array | None:
    items, positions = arrays
    axis = node.axis(node.attr("axis"), items.ndim)
    flat = positions.reshape(-1).tolist()
    extent = items.shape[axis]
    if not all(type(position) is int for position in flat):
        return None
    node.require(all(-extent <= position < extent for position in flat), f"a position is outside the axis of size {extent}")
    taken = np.take(items, np.array(flat, np.int64), axis=axis)
    return taken.reshape((*items.shape[:axis], *positions.shape, *items.shape[axis + 1 :]))


def _slice(node: Node, arrays: list[Array]) -> Array | None:
    numbers: list[list[int]] = []
    if len(arrays) == 1:
        numbers = [node.attr("starts"), node.attr("ends"), node.attr("axes", [0]), [1]]
    else:
        for array in arrays[1:]:
            if not all(type(item) is int for item in array.reshape(-1).tolist()):
                return None
            numbers.append(array.reshape(-1).tolist())
        numbers += [[0], [1]][len(numbers) - 2 :]
    if arrays[0].ndim != 1 or any(len(part) != 1 for part in numbers) or numbers[3][0] == 0:
        return None
    starts, stops, axes, steps = (part[0] for part in numbers)
    return (
        arrays[0][slice(starts, None if steps < 0 and stops < -len(arrays[0]) else stops, steps)] if axes in (0, -1) else None
    )


def _concat(node: Node, arrays: list[Array]) -> Array | None:
    if any(array.ndim != arrays[0].ndim for array in arrays):
        return None  # the operator itself says so
    return np.concatenate(arrays, axis=node.axis(node.attr("axis"), arrays[0].ndim))


def _scatter_elements(node: Node, arrays: list[Array]) -> Array | None:
    """Replace elements of a vector of sizes, as index_copy and index_fill of PyTorch's exporter do."""
    items, positions, updates = arrays
    axis = node.attr("axis", 0)
    if items.ndim != 1 or positions.shape != updates.shape or positions.ndim != 1 or axis not in (0, -1):
        return None
    return _replaced(node, items, positions, updates)


def _scatter_nd(node: Node, arrays: list[Array]) -> Array | None:
    items, positions, updates = arrays
    if items.ndim != 1 or positions.shape != (*updates.shape, 1) or updates.ndim != 1:
        return None
    return _replaced(node, items, positions.reshape(-1), updates)


def _replaced(node: Node, items: Array, positions: Array, updates: Array) -> Array | None:
    flat = positions.tolist()
    if node.attr("reduction", "none") != "none" or not all(type(position) is int for position in flat):
        return None
    if not all(-items.size <= position < items.size for position in flat):
        return None  # the operator itself says so
    found = items.copy()
    for position, update in zip(flat, updates.tolist(), strict=True):
        found[position] = update
    return found


def _squeeze(node: Node, arrays: list[Array]) -> Array | None:
    return arrays[0].reshape(()) if _axes(node, arrays) is not None and arrays[0].size == 1 else None


def _axes(node: Node, arrays: list[Array]) -> list[int] | None:
    if len(arrays) > 1:
        flat = arrays[1].reshape(-1).tolist()
        return flat if all(type(axis) is int for axis in flat) else None
    return list(node.attr("axes", [0]))


def _unsqueeze(node: Node, arrays: list[Array]) -> Array | None:
    axes = _axes(node, arrays)
    return arrays[0].reshape((1,)) if axes in ([0], [-1]) and not arrays[0].ndim else None


def _reshape(node: Node, arrays: list[Array]) -> Array | None:
    node.ignore("allowzero")  # sizes are of rank 1 at most, and none is a copy
    shape = arrays[1].reshape(-1).tolist() if len(arrays) > 1 else list(node.attr("shape"))
    if shape in ([-1], [arrays[0].size]):
        return arrays[0].reshape(-1)
    return arrays[0].reshape(()) if shape == [] and arrays[0].size == 1 else None


def _reduce_prod(node: Node, arrays: list[Array]) -> Array | None:
    keepdims = node.attr("keepdims")
    axes = _axes(node, arrays) if len(arrays) > 1 or node.attr("axes", None) is not None else [0]
    node.ignore("noop_with_empty_axes", "axes")
    if arrays[0].ndim != 1 or axes not in ([0], [-1]) or not _plain(*arrays[0].tolist()):
        return None
    return objects([product(arrays[0].tolist())], (1,) if keepdims else ())


def _where(node: Node, arrays: list[Array]) -> Array | None:
    return _each(_chosen)(node, arrays)


def _chosen(condition: object, x: object, y: object) -> object:
    """Return what a condition chooses; of a size that may be 0, a divisor that is then 1, a quotient that is then 0, or a
    remainder that is then the dividend."""
    if isinstance(condition, bool):
        return x if condition else y
    if not isinstance(condition, IsZero) or not _plain(x, y):
        return None
    size = condition.size
    if x == 1 and y == size:
        return maximum(size, 1)
    guarded = y.terms if isinstance(y, Dim) else ()
    if len(guarded) == 1:
        coefficient, monomial = guarded[0]
        if coefficient == 1 and len(monomial) == 1 and isinstance(monomial[0][0], Atom) and monomial[0][1] == 1:
            atom = monomial[0][0]
            if atom.args[1] == maximum(size, 1) and atom.kind == "floordiv" and x == 0:
                return atom.args[0] // size
            if atom.args[1] == maximum(size, 1) and atom.kind == "mod" and x == atom.args[0]:
                return atom.args[0] % size
    return None


def _same(node: Node, arrays: list[Array]) -> Array | None:
    return arrays[0]


_RULES: dict[str, _Rule] = {
    "Add": _in_floats(_add, "add"), "Sub": _in_floats(_sub, "sub"), "Mul": _in_floats(_mul, "mul"),
    "Div": _in_floats(_div, "div"), "Mod": _mod, "Sqrt": _in_floats(_unknown, "sqrt"),
    "Min": _each(lambda *items: minimum(*items) if _plain(*items) else None),
    "Max": _each(lambda *items: maximum(*items) if _plain(*items) else None),
    "Equal": _each(_equal), "Less": _each(_less), "Greater": _each(lambda x, y: _less(y, x)),
    "LessOrEqual": _each(lambda x, y: _not(_less(y, x))), "GreaterOrEqual": _each(lambda x, y: _not(_less(x, y))),
    "Not": _each(lambda x: _not(x)), "Neg": _each(lambda x: -x if _plain(x) else None),
    "Floor": _in_floats(_rounded(lambda x, y: x // y), "floor"), "Ceil": _in_floats(_rounded(ceil_div), "ceil"),
    "Round": _in_floats(_unknown, "round"),
    "Cast": _cast, "Gather": _gather, "Slice": _slice, "Concat": _concat, "Squeeze": _squeeze, "Unsqueeze": _unsqueeze,
    "Reshape": _reshape, "ReduceProd": _reduce_prod, "Where": _where, "Identity": _same,
    "Scatter": _scatter_elements, "ScatterElements": _scatter_elements, "ScatterND": _scatter_nd,
}  # fmt: skip

_OPERANDS = {"Where": 3, "Scatter": 3, "ScatterElements": 3, "ScatterND": 3, **dict.fromkeys((
    "Add", "Sub", "Mul", "Div", "Mod", "Equal", "Less", "Greater", "LessOrEqual", "GreaterOrEqual", "Gather",
), 2)}  # fmt: skip
"""How many inputs the rules of operators read; the operator itself says which one is missing."""


def _not(truth: object) -> object:
    return not truth if isinstance(truth, bool) else None

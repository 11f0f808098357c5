"""Computes intervals of elementwise operations."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import joinery as jn
import numpy as np

from .nodes import Array, Node, ends, hull, is_nan, narrow_through_float32, reference, spans

FAST_ULPS = {
    "exp": 67.0,
    "log": 5.0,
    "log2": 4.0,
    "div": 3.0,
    "sqrt": 2.0,
    "rsqrt": 3.0,
    "tanh": 6.0,
    "sigmoid": 75.0,
}
"""The errors that numerics="fast" allows, in ulp of float32 (docs/design/011-numerics.md)."""

FAST_ABSOLUTE = {"log": 2.0**-22, "log2": 2.0**-22, "erf": 5e-7}


def mapped(node: Node, exact: bool) -> None:
    name, inputs = node.op.name, node.inputs
    free: Any = False
    for operand in inputs:
        free = free | operand.free
    if node.dtype.is_float and (node.op.ulp > 0.5 or (node.fast and name in ("div", "sqrt", "erf"))):
        elementary(node, free)
        return
    if exact:
        if node.fast and name == "mul" and node.dtype.is_float:
            fused_product(node)
        return
    special = SPECIAL.get(name)
    if special is not None:
        special(node, free)
        return
    if not node.dtype.is_float and not node.dtype.is_bool and name in ("add", "sub", "mul", "negate"):
        wide = [operand.size for operand in inputs]
        largest = wide[0] * wide[1] if name == "mul" else sum(wide)
        free = free | ~(largest < min(2.0**53, float(node.dtype.max_value)))
    if name == "mul":
        for a, b in (inputs, inputs[::-1]):
            free = free | (spans(a) & ~np.isfinite(b.size))
    if name == "div":
        free = free | spans(inputs[1])
    low, high, mixed = hull([reference(node, operands) for operands in ends(node)])
    node.put(low, high, free | mixed)
    if node.fast and name == "mul" and node.dtype.is_float:
        fused_product(node)


def fused_product(node: Node) -> None:
    """Widens a product's interval: a sum may use it before it is rounded, or before it overflows."""
    step = node.spacing(node.size) if node.dtype.bits >= 32 else 2.0**-node.dtype.mantissa_bits * node.size
    low, high = (end.astype(np.float64) for end in (node.low, node.high))
    finite = np.isfinite(node.inputs[0].size) & np.isfinite(node.inputs[1].size)
    overflow = finite & ~(np.isfinite(low) & np.isfinite(high))
    step = np.where(np.isfinite(step), step + node.dtype.smallest_subnormal, 0.0)
    node.put(node.narrowed(low - step), node.narrowed(high + step), node.free | overflow)


def elementary(node: Node, free: Array) -> None:
    """Encloses functions that are not rounded correctly: computed in float64 at the ends, and widened by
    their error."""
    name, inputs = node.op.name, node.inputs
    doubles = [tuple([end.astype(np.float64) for end in operands]) for operands in ends(node)]
    results = [reference(node, operands, jn.float64) for operands in doubles]
    if name in ("sin", "cos"):
        reach = np.where(inputs[0].exact, 0.0, inputs[0].error)
        middle = reference(node, [inputs[0].wide], jn.float64)
        results = [np.clip(middle - reach, -1.0, 1.0), np.clip(middle + reach, -1.0, 1.0)]
    elif name == "pow":
        free = free | (~(inputs[0].exact & inputs[1].exact) & ~(inputs[0].low > 0))
    elif name == "div":
        free = free | spans(inputs[1])
    low, high, mixed = hull(results)
    ulps = node.op.ulp if node.op.ulp > 0.5 else 0.0
    if node.fast and node.dtype.name != "float64":
        ulps = max(ulps, FAST_ULPS.get(name, 0.0))
    widths = [
        ulps * node.spacing(end) + (FAST_ABSOLUTE.get(name, 0.0) if node.fast else 0.0) for end in (low, high)
    ]
    if node.dtype.name == "float64":  # the reference results are rounded themselves
        widths = [width + node.spacing(end) for width, end in zip(widths, (low, high), strict=True)]
    settled = [np.isinf(end) | ((end == 0) & ~mixed) for end in (low, high)]
    if name == "pow":  # only infinite results must be exact
        settled[0] = settled[1] = np.isinf(low) & np.isinf(high)
    if node.dtype.name != "float64":
        settled = [at & (low == high) for at in settled]
    below = np.where(settled[0], low, low - widths[0])
    above = np.where(settled[1], high, high + widths[1])
    if node.fast and node.dtype.name != "float64":  # denormal results may be flushed to 0
        tiny = 2.0**-126
        below, above = (
            np.where((below > 0) & (below < tiny), 0.0, below),
            np.where((above < 0) & (above > -tiny), 0.0, above),
        )
    node.put(narrow_through_float32(node, below), narrow_through_float32(node, above), free | mixed)


def compared(node: Node, free: Array) -> None:
    """Compares intervals."""
    a, b = node.inputs
    name = node.op.name
    either = free | is_nan(a.low) | is_nan(b.low)
    sure = {
        "less": (a.high < b.low, a.low < b.high), "less_equal": (a.high <= b.low, a.low <= b.high),
        "greater": (a.low > b.high, a.high > b.low), "greater_equal": (a.low >= b.high, a.high >= b.low),
    }.get(name)  # fmt: skip
    if sure is None:
        apart = (a.high < b.low) | (a.low > b.high)
        same = a.exact & b.exact & (a.low == b.low)
        sure = (same, ~apart) if name == "equal" else (apart, ~same)
    nan = is_nan(a.low) | is_nan(b.low)
    always, possible = sure
    always, possible = np.where(nan, node.value, always), np.where(nan, node.value, possible)
    node.put(np.where(either & ~nan, False, always), np.where(either & ~nan, True, possible), free)


def chosen(node: Node, free: Array) -> None:
    condition, a, b = node.inputs
    sure, value = condition.exact, condition.value
    parts = [(part.low, part.high, part.free) for part in (a, b)]
    low, high, mixed = hull([np.broadcast_to(part[0], node.value.shape) for part in parts])
    _, high, more = hull([np.broadcast_to(part[1], node.value.shape) for part in parts])
    low = np.where(sure, np.where(value, a.low, b.low), low)
    high = np.where(sure, np.where(value, a.high, b.high), high)
    node.put(low, high, np.where(sure, np.where(value, a.free, b.free), a.free | b.free | mixed | more))


def absolute(node: Node, free: Array) -> None:
    low, high, mixed = hull([reference(node, operands) for operands in ends(node)])
    node.put(np.where(spans(node.inputs[0]), low.dtype.type(0), low), high, free | mixed)


def nan_or_not(node: Node, free: Array) -> None:
    node.put(node.value & ~free, node.value | free, False)


def cast(node: Node, free: Array) -> None:
    (x,) = node.inputs
    if node.dtype.is_bool:
        inside = free | spans(x)
        node.put(node.value & ~inside, node.value | inside, False)
        return
    if node.dtype.is_integer and x.dtype.is_integer:
        limits = float(node.dtype.min_value), float(node.dtype.max_value)
        fits = (x.low.astype(np.float64) >= limits[0]) & (x.high.astype(np.float64) <= limits[1])
        free = free | (~x.exact & ~fits)
    low, high, mixed = hull([reference(node, operands) for operands in ends(node)])
    node.put(low, high, free | mixed)


def anything(node: Node, free: Array) -> None:
    """Leaves the result open where an operand is not exact; for bools all ends are tried."""
    if all(operand.dtype.is_bool for operand in node.inputs):
        low, high, _ = hull([reference(node, operands) for operands in ends(node)])
        node.put(low, high, free)
        return
    for operand in node.inputs:
        free = free | ~operand.exact
    node.put(node.value, node.value, free)


def same_bits(node: Node, free: Array) -> None:
    """Bitcasts intervals: numbers of one sign have their bits in the same order, or in the reverse."""
    (x,) = node.inputs
    low, high, mixed = hull([reference(node, operands) for operands in ends(node)])
    one_sign = x.exact | (x.low > 0) | (x.high < 0)
    node.put(low, high, free | mixed | ~one_sign)


def bitwise(node: Node, free: Array) -> None:
    """Uses the ends of an interval, with a constant that keeps either all bits in which the ends differ, or
    none of them."""
    x, y = node.inputs if node.inputs[1].all_exact else node.inputs[::-1]
    if node.dtype.is_bool or not y.all_exact:
        anything(node, free)
        return
    word = np.dtype(f"u{node.value.dtype.itemsize}")
    varied = np.ascontiguousarray(x.low).view(word) ^ np.ascontiguousarray(x.high).view(word)
    varied = varied.reshape(x.value.shape)
    for shift in (1, 2, 4, 8, 16, 32)[: word.itemsize.bit_length() + 2]:
        varied = varied | (varied >> word.type(shift))
    constant = np.ascontiguousarray(y.value).view(word).reshape(y.value.shape)
    kept = (constant & varied) == (varied if node.op.name == "bitwise_and" else 0)
    if node.op.name != "bitwise_xor":
        kept = kept | ((constant & varied) == (0 if node.op.name == "bitwise_and" else varied))
    low, high, _ = hull([reference(node, operands) for operands in ends(node)])
    node.put(low, high, free | (~x.exact & (~kept | ((x.low < 0) != (x.high < 0)))))


def remainder(node: Node, free: Array) -> None:
    """Bounds x - floor(x / y) * y by the divisor; exact operands give the exact value."""
    x, y = node.inputs
    if not node.dtype.is_float:
        anything(node, free)
        return
    limit = np.maximum(np.abs(y.low.astype(np.float64)), np.abs(y.high.astype(np.float64)))
    bad = free | spans(y) | ~np.isfinite(x.size) | ~np.isfinite(limit)
    below = (
        np.where(node.wide < 0, -limit, 0.0) if node.op.name == "rem" else np.where(y.wide < 0, -limit, 0.0)
    )
    above = np.where(node.wide < 0, 0.0, limit) if node.op.name == "rem" else np.where(y.wide < 0, 0.0, limit)
    if node.op.name == "rem":
        below, above = np.where(spans(x), -limit, below), np.where(spans(x), limit, above)
    exact = x.exact & y.exact
    node.put(
        np.where(exact, node.value, node.narrowed(below)),
        np.where(exact, node.value, node.narrowed(above)),
        bad & ~exact,
    )


def quotient(node: Node, free: Array) -> None:
    low, high, mixed = hull([reference(node, operands) for operands in ends(node)])
    if not node.dtype.is_float:
        x, y = node.inputs
        node.put(low, high, free | ~(y.exact & (y.low > 0)) & ~(x.exact & y.exact))
        return
    exact = node.inputs[0].exact & node.inputs[1].exact
    step = np.where(exact, 0.0, 1.0)  # the unrounded quotient may be on either side of a whole number
    node.put(
        node.narrowed(low.astype(np.float64) - step), node.narrowed(high.astype(np.float64) + step),
        free | mixed | spans(node.inputs[1]),
    )  # fmt: skip


SPECIAL: dict[str, Callable[[Node, Array], None]] = {
    **dict.fromkeys(("equal", "not_equal", "less", "less_equal", "greater", "greater_equal"), compared),
    "where": chosen, "abs": absolute, "is_nan": nan_or_not, "cast": cast, "mod": remainder, "rem": remainder,
    "popcount": anything, "floor_div": quotient, "trunc_div": quotient, "bitcast": same_bits, "pow": anything,
    **dict.fromkeys(("bitwise_and", "bitwise_or", "bitwise_xor"), bitwise),
    **dict.fromkeys(("bitwise_not", "shift_left", "shift_right"), anything),
}  # fmt: skip

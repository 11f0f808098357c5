"""Computes intervals of reductions, running sums and products of matrices."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import joinery as jn
import numpy as np
from joinery.graph.reference.evaluate import REFERENCE
from joinery.graph.reference.registry import BoundSymbol

from .nodes import Array, Node, hull, is_nan, narrow_through_float32, reference, unit

GRID = 2.0**-6
"""The spacing of values whose sums are exact in float32, as long as they stay below 2**24 multiples of it."""


def on_grid(value: Array) -> bool:
    return bool(np.isfinite(value).all() and (np.rint(value / GRID) * GRID == value).all())


def reduced(node: Node, exact: bool) -> None:
    (operand,) = node.inputs
    name = node.op.name
    axes = tuple(node.attrs["axes"]) if "axes" in node.attrs else (node.attrs["axis"],)
    keep = bool(node.attrs.get("keepdims", name == "cumsum"))
    count = math.prod(operand.value.shape[axis] for axis in axes)
    if name in ("cumprod", "cummax", "cummin"):
        running(node, exact)
        return
    summed = node.dtype.is_float and name in ("reduce_sum", "reduce_prod", "cumsum")
    if exact and not summed:
        return

    def over(function: Callable[..., Any], values: Array) -> Any:
        if name != "cumsum":
            return function(values, axis=axes, keepdims=keep)
        running = reference(node, [values.astype(np.float64)], jn.float64)
        return running > 0 if function is np.any else running

    if name in ("argmax", "argmin"):
        if over(np.any, operand.free | is_nan(operand.value)).any():
            node.put(np.zeros_like(node.value), np.full_like(node.value, max(count - 1, 0)), False)
            return
        top = operand.low if name == "argmax" else operand.high
        best = np.max(top, axes, keepdims=True) if name == "argmax" else np.min(top, axes, keepdims=True)
        candidates = operand.high >= best if name == "argmax" else operand.low <= best
        position = BoundSymbol(
            "argmax",
            jn.int64,
            node.value.shape,
            (BoundSymbol("x", jn.int8, operand.value.shape),),
            node.attrs,
        )
        first = REFERENCE["argmax"](position, candidates.astype(np.int8))
        backwards = np.flip(candidates, axes).astype(np.int8)
        node.put(first, max(count - 1, 0) - REFERENCE["argmax"](position, backwards), False)
        return
    if name in ("reduce_max", "reduce_min"):
        low, high, mixed = hull([reference(node, [operand.low]), reference(node, [operand.high])])
        node.put(low, high, mixed | over(np.any, operand.free))
        return
    if not node.dtype.is_float:
        free = over(np.any, operand.free) | ~(
            over(np.sum, operand.size) < min(2.0**53, float(node.dtype.max_value))
        )
        if name == "reduce_prod":
            node.put(node.value, node.value, over(np.any, ~operand.exact))
            return
        node.put(reference(node, [operand.low]), reference(node, [operand.high]), free)
        return
    if name == "reduce_prod":
        node.around(product_error(node, operand, over, count))
        return
    size = over(np.sum, np.where(np.isfinite(operand.size), operand.size, 0.0))
    none = exact and on_grid(operand.wide) and np.all(size / GRID < 2**24)
    relative = 0.0 if none else (count + 1) * 2 * unit(node.dtype)
    free = over(np.any, operand.free) | ~(
        size < (jn.float64 if node.dtype.name == "float64" else jn.float32).max_value
    )
    wide = [end.astype(np.float64) for end in (operand.low, operand.high)]  # Σx ± γ Σ|x| grows with each x
    results = [
        reference(node, [end], jn.float64)
        + side * relative * over(np.sum, np.abs(np.where(np.isfinite(end), end, 0.0)))
        for side, end in zip((-1, 1), wide, strict=True)
    ]
    infinite = over(np.any, ~np.isfinite(operand.low.astype(np.float64)) & operand.exact)
    low, high = (narrow_through_float32(node, result) for result in results)
    low, high = np.where(infinite, node.value, low), np.where(infinite, node.value, high)
    node.put(low, high, free | (infinite & over(np.any, ~operand.exact & ~np.isfinite(operand.size))))


def running(node: Node, exact: bool) -> None:
    """Sets the interval of running products and extremes; of products of rounded values it is unbounded."""
    (operand,) = node.inputs
    if node.op.name != "cumprod":
        if not exact:
            low, high, mixed = hull([reference(node, [operand.low]), reference(node, [operand.high])])
            node.put(low, high, mixed | np.any(operand.free | is_nan(operand.value), node.attrs["axis"], keepdims=True))
        return
    if not exact:
        node.put(node.value, node.value, True)
    elif node.dtype.is_float:  # any order of the factors, of which the least may be too small for the dtype
        count = operand.value.shape[node.attrs["axis"]]
        step = 2.0**-node.dtype.mantissa_bits
        node.around(np.where(np.isfinite(node.wide), 2 * count * step * np.abs(node.wide) + node.dtype.smallest_normal, np.inf))


def product_error(node: Node, operand: Node, over: Callable[..., Any], count: int) -> Array:
    """Bounds the error of a product of elements: infinite where partial products may overflow in one order
    and not in another."""
    size = np.where(operand.wide == 0, 1.0, np.abs(operand.wide))
    exponents = over(np.sum, np.abs(np.log2(size)))
    relative = np.where(operand.exact, 0.0, operand.error / size)
    bad = over(
        np.any, ~np.isfinite(operand.wide) | ~(relative < 0.5) | ((operand.wide == 0) & ~operand.exact)
    )
    spread = np.expm1(over(np.sum, np.log1p(np.where(relative < 0.5, relative, 0.0))))
    settled = over(np.all, operand.exact) & ~np.isfinite(node.wide)
    error = (4 * spread + count * 4 * unit(node.dtype)) * np.abs(node.wide) + node.rounding()
    fine = (exponents < 100) & ~bad
    return np.asarray(np.where(fine, error, np.where(settled & (exponents < 100), 0.0, np.inf)))


def rounds_weights(node: Node) -> bool:
    """Returns whether these may be weights of attention, which are rounded to 16 bits before their division
    by the sum."""
    quotients = ("div", "softmax")
    source = node.symbol.inputs[0].op.name if node.op.name == "cast" else ""
    return node.dtype.name in ("float16", "bfloat16") and (node.op.name == "softmax" or source in quotients)


def contracted(node: Node) -> None:
    a, b = node.inputs
    exact = a.all_exact and b.all_exact
    if not node.dtype.is_float and exact:
        return
    sizes = [np.abs(np.where(np.isfinite(operand.wide), operand.wide, 0.0)) for operand in (a, b)]
    errors = [operand.error for operand in (a, b)]
    if rounds_weights(a):  # before the division, as docs/design/011-numerics.md allows: by as much as the cast itself
        exact = False
        errors[0] = errors[0] + a.rounding()
    if node.attrs["precision"] == "tf32":
        exact = False
        errors = [error + size * 2.0**-10 for error, size in zip(errors, sizes, strict=True)]
    total = np.matmul(*sizes)
    spread = np.matmul(sizes[0], errors[1]) + np.matmul(errors[0], sizes[1]) + np.matmul(errors[0], errors[1])
    if not node.dtype.is_float:
        positive = all(bool((operand.low >= 0).all()) and not operand.free.any() for operand in (a, b))
        if (
            positive and (total + spread < float(node.dtype.max_value)).all()
        ):  # products of non-negative numbers are monotone
            node.put(reference(node, [a.low, b.low]), reference(node, [a.high, b.high]), False)
            return
        node.around(np.where(total + spread < float(node.dtype.max_value), spread, np.inf))
        return
    none = exact and on_grid(a.wide) and on_grid(b.wide) and np.all(total / GRID**2 < 2**24)
    depth = a.value.shape[-1]
    rounding = 0.0 if none else (2 * depth + 4) * unit(node.dtype) * total
    limit = (jn.float64 if node.dtype.name == "float64" else jn.float32).max_value
    infinite = ~np.isfinite(np.matmul(np.where(np.isfinite(a.wide), 0.0, np.nan), np.zeros_like(b.wide)))
    infinite = infinite | ~np.isfinite(
        np.matmul(np.zeros_like(a.wide), np.where(np.isfinite(b.wide), 0.0, np.nan))
    )
    error = spread + rounding
    if exact and node.attrs["precision"] == "ieee":
        settled = infinite
    else:
        inexact = np.matmul(~a.exact, np.ones_like(b.exact)) | np.matmul(np.ones_like(a.exact), ~b.exact)
        settled = infinite & ~inexact
    error = np.where(settled, 0.0, np.where((total + spread < limit) & ~infinite, error, np.inf))
    middle = np.where(
        settled,
        np.nan,
        np.matmul(np.where(np.isfinite(a.wide), a.wide, 0.0), np.where(np.isfinite(b.wide), b.wide, 0.0)),
    )
    low, high = (narrow_through_float32(node, middle + side * error) for side in (-1, 1))
    if node.attrs["precision"] == "tf32":
        low, high = (
            narrow_through_float32(node, node.wide + side * (error + node.rounding())) for side in (-1, 1)
        )
    low, high = np.where(settled, node.value, low), np.where(settled, node.value, high)
    node.put(low, high, np.isinf(error))

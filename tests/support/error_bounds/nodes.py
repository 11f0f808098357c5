"""Defines a symbol's intervals of values that may be computed, with the functions that all bounds use."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

import joinery as jn
import numpy as np
from joinery.graph.reference.evaluate import REFERENCE
from joinery.graph.reference.numerics import convert
from joinery.graph.reference.registry import BoundSymbol

Array = np.ndarray[Any, Any]


def unit(dtype: jn.DType) -> float:
    """Returns the unit roundoff of the type in which sums of `dtype` are computed."""
    return 2.0**-53 if dtype.name == "float64" else 2.0**-24


def is_nan(values: Array) -> Array:
    if values.dtype.kind in "biu":
        return np.zeros(values.shape, bool)
    return np.isnan(values if values.dtype.kind == "c" else values.astype(np.float64))


class Node:
    """A symbol with its value, the interval of values that may be computed, and its attributes with dims
    replaced by sizes.

    Attributes:
        low, high: the ends, in the value's own dtype. NaN in both: it must be NaN.
        free: elements that may be anything.
        exact: elements with exactly one possible value.
        wide: the value as float64.
        loose: elements that are zeros of either sign (`zeros`), or None.
    """

    loose: Array | None = None
    parts: list[tuple[Array, Array]] | None = None
    """Of complex numbers, both parts and how far they may be off (`transforms`); None where they are exact."""

    def __init__(
        self, symbol: Any, value: Array, inputs: Sequence[Node], attrs: dict[str, Any], fast: bool = False
    ) -> None:
        self.symbol, self.value, self.inputs, self.attrs, self.fast = symbol, value, inputs, attrs, fast
        self.op, self.dtype = symbol.op, symbol.dtype
        self.wide = value.astype(np.float64) if value.dtype.kind != "c" else np.zeros(value.shape)
        self.put(value, value, np.zeros(value.shape, bool))

    def put(self, low: Array, high: Array, free: Any) -> None:
        """Sets the interval and widens it to include the value itself. Where only one end is NaN, the element
        is free."""
        shape = self.value.shape
        low, high, free = (np.broadcast_to(np.asarray(part), shape) for part in (low, high, free))
        nans = is_nan(low), is_nan(high), is_nan(self.value)
        free = free | (nans[0] != nans[1]) | (nans[0] != nans[2])
        if self.dtype.is_bool:
            low, high, free = low & ~free, high | free, np.zeros(shape, bool)
        elif self.dtype.is_integer:
            low = np.where(free, self.value.dtype.type(self.dtype.min_value), low)
            high = np.where(free, self.value.dtype.type(self.dtype.max_value), high)
        self.low = np.where(self.value < low, self.value, low)
        self.high = np.where(self.value > high, self.value, high)
        self.free = free
        self.exact = ~free & ((self.low == self.high) | nans[0])
        self.all_exact = bool(self.exact.all())

    def around(self, error: Any) -> None:
        """Sets the interval of values at most `error` away."""
        error = np.broadcast_to(
            np.nan_to_num(np.asarray(error, np.float64), nan=np.inf, posinf=np.inf), self.value.shape
        )
        if not error.any():
            return
        if self.dtype.is_float:
            ends = [
                self.narrowed(np.where(error == 0, self.wide, self.wide + side * error)) for side in (-1, 1)
            ]
            self.put(*ends, np.isinf(error) | (~np.isfinite(self.wide) & (error > 0)))
            return
        low, high = float(self.dtype.min_value), float(self.dtype.max_value)
        outside = ~(np.abs(self.wide) + error < min(2.0**53, high)) | (self.wide - error < low)
        distance = np.ceil(np.where(outside, 0.0, error)).astype(self.value.dtype)
        self.put(self.value - distance, self.value + distance, outside & (error > 0))

    def narrowed(self, values: Array) -> Array:
        """Rounds float64 values to the node's dtype."""
        return values if self.dtype.name == "float64" else np.asarray(convert(values, jn.float64, self.dtype))

    @property
    def error(self) -> Array:
        """The largest distance of an element from the value; infinite where it may be anything."""
        if self.all_exact:
            return np.zeros(self.value.shape)
        if self.dtype.is_bool:
            return np.where(self.exact, 0.0, 1.0)
        with np.errstate(all="ignore"):
            ends = [np.abs(end.astype(np.float64) - self.wide) for end in (self.low, self.high)]
            return np.asarray(np.where(self.exact, 0.0, np.where(self.free, np.inf, np.maximum(*ends))))

    @property
    def size(self) -> Array:
        """The largest magnitude that the compiled value can have."""
        ends = [np.abs(np.nan_to_num(end.astype(np.float64), posinf=np.inf)) for end in (self.low, self.high)]
        return np.asarray(np.where(self.free, np.inf, np.maximum(*ends)))

    @property
    def unbounded(self) -> Array:
        """Elements without a bound."""
        if self.dtype.is_bool:
            return ~self.exact
        if not self.dtype.is_float:
            return self.free
        return self.free | (
            np.isneginf(self.low.astype(np.float64)) & np.isposinf(self.high.astype(np.float64))
        )

    def holds(self, values: Array) -> Array:
        """Returns which of the values, one per element, are in the interval; the sign of zeros counts unless
        they are loose."""
        missing = is_nan(values)
        with np.errstate(all="ignore"):
            inside = self.free | (is_nan(self.low) & missing) | ((values >= self.low) & (values <= self.high))
        if self.dtype.is_float:
            other = (self.wide == 0) & self.exact & (np.signbit(values.astype(np.float64)) != np.signbit(self.wide))
            inside &= ~other if self.loose is None else ~other | self.loose
        return inside

    def spacing(self, values: Array) -> Array:
        """Returns one unit in the last place, at float64 values, of the type in which the node is computed."""
        dtype = self.dtype if self.dtype.bits >= 32 and self.dtype.name != "tensor_float32" else jn.float32
        _, exponent = np.frexp(np.where(np.isfinite(values), values, 0.0))
        return np.asarray(np.ldexp(1.0, np.maximum(exponent - 1, dtype.min_exponent) - dtype.mantissa_bits))

    def rounding(self) -> Array:
        """Returns the largest error of one more rounding to the node's dtype."""
        if not self.dtype.is_float:
            return np.zeros(self.value.shape)
        beyond = np.abs(self.wide) * (1 + 2.0**-self.dtype.mantissa_bits) > self.dtype.max_value
        return (
            np.where(beyond, 0.0, 2.0**-self.dtype.mantissa_bits * np.abs(self.wide))
            + self.dtype.smallest_subnormal
        )


def reference(node: Node, operands: Sequence[Array], dtype: jn.DType | None = None) -> Array:
    """Computes the node's op on other operands; with `dtype`, in that dtype instead."""
    inputs = tuple(
        [BoundSymbol(operand.op.name, dtype or operand.dtype, np.shape(array))
         for operand, array in zip(node.inputs, operands, strict=True)]
    )  # fmt: skip
    symbol = BoundSymbol(node.op.name, dtype or node.dtype, node.value.shape, inputs, node.attrs)
    return REFERENCE[node.op.name](symbol, *operands)


def ends(node: Node) -> list[tuple[Array, ...]]:
    """Returns every combination of the ends of the operands' intervals."""
    return list(itertools.product(*[
        (operand.value,) if operand.all_exact else (operand.low, operand.high) for operand in node.inputs
    ]))  # fmt: skip


def hull(results: Sequence[Array]) -> tuple[Array, Array, Array]:
    """Returns the least and the largest of the results, and where some are NaN and some are not."""
    low = high = results[0]
    mixed = np.zeros(low.shape, bool)
    for result in results[1:]:
        mixed = mixed | (is_nan(result) != is_nan(low))
        low, high = np.where(result < low, result, low), np.where(result > high, result, high)
    return low, high, mixed


def spans(operand: Node, value: float = 0.0) -> Array:
    """Returns whether an inexact operand's interval contains a value."""
    return ~operand.exact & (operand.low <= value) & (operand.high >= value)


def narrow_through_float32(node: Node, values: Array) -> Array:
    if node.dtype.bits < 32:
        values = values.astype(np.float32).astype(np.float64)
    return node.narrowed(values)

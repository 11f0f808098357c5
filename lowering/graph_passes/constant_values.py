"""Evaluates what a graph computes of constants alone, for passes that lay it out anew."""

from __future__ import annotations

import numpy as np

from ...graph.reference.evaluate import evaluate
from ...graph.symbol import Symbol
from ...promotion.arrays import Array

MAX_WEIGHTS = 1 << 28
"""Elements of a constant operand up to which its codes are looked at."""


def constant_value(symbol: Symbol) -> Array | None:
    """Return what a symbol is, if it is computed of constants alone and not too large."""
    needed: dict[int, Symbol] = {}
    pending = [symbol]
    while pending:
        current = pending.pop()
        if current.id in needed:
            continue
        if not isinstance(current.nbytes, int) or current.nbytes > 4 * MAX_WEIGHTS:
            return None
        if current.op.name in ("input", "dim_value") or (current.op.kind == "source" and not holds_array(current)):
            return None
        needed[current.id] = current
        pending += current.inputs
    if holds_array(symbol):
        return np.asarray(symbol.attrs["value"])
    scratch = symbol.graph.rewriting()
    scratch.standing = ()  # checks are of the inputs, which this graph has not
    new: dict[int, Symbol] = {}
    for number in sorted(needed):
        new[number] = scratch.adopt(needed[number], [new[operand.id] for operand in needed[number].inputs])
    scratch.output(new[symbol.id])
    return np.asarray(evaluate(scratch))


def holds_array(symbol: Symbol) -> bool:
    return symbol.op.name in ("constant", "weight")


def viewed(array: Array, view: Symbol) -> Array:
    """Return what a permutation, reshape or slice with static sizes, or a copy, makes of an array."""
    name, attrs = view.op.name, view.attrs
    if name == "contiguous":
        return array
    if name == "permute":
        return array.transpose(attrs["axes"])
    if name == "reshape":
        return array.reshape(view.shape)
    parts = []
    for start, stop, step in zip(attrs["starts"], attrs["stops"], attrs["steps"], strict=True):
        assert isinstance(stop, int)
        parts.append(slice(start, None if step < 0 and stop < 0 else stop, step))  # backwards, -1 is the position before 0
    return np.asarray(array[tuple(parts)])

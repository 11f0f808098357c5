"""Concatenations of a value with itself, which are views: it is repeated along an axis of its own.

    concat([x, x], axis)  ⇒  reshape(broadcast_to(reshape(x, (…, 1, n, …)), (…, 2, n, …)), (…, 2 n, …))

A stack of a value with itself is a broadcast. Parts of a concatenation are stored by kernels of their own, or chosen for each
element; views are read where they lie.
"""

from __future__ import annotations

from collections.abc import Sequence

from ...graph.ops.building import apply
from ...graph.protocols import SymbolLike
from ...graph.symbol import Symbol


def is_tile(symbol: Symbol) -> bool:
    """Returns whether a symbol is a concatenation of one value with itself."""
    if symbol.op.name != "concat" or len(symbol.inputs) < 2 or symbol.dtype.kind not in ("int", "uint", "float", "bool"):
        return False
    return len({_value(part) for part in symbol.inputs}) == 1


def _value(part: Symbol) -> tuple[object, ...]:
    """Returns what tells a part from others; parts of a stack are reshaped one by one."""
    return ("reshape", part.inputs[0].id, part.shape) if part.op.name == "reshape" else (part.id,)


def repeated(symbol: Symbol, operands: Sequence[Symbol]) -> SymbolLike:
    """Returns the view. operands: the new ones."""
    part, count, axis = operands[0], len(operands), symbol.attrs["axis"]
    shape = part.shape
    if shape[axis] == 1:
        return apply("broadcast_to", part, shape=(*shape[:axis], count, *shape[axis + 1 :]))
    apart = apply("reshape", part, shape=(*shape[:axis], 1, *shape[axis:]))
    return apply("reshape", apply("broadcast_to", apart, shape=(*shape[:axis], count, *shape[axis:])), shape=symbol.shape)

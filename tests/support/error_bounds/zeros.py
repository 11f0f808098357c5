"""Decides of which zeros the sign is defined.

It is defined for the IEEE operations, casts, functions of one element (as in C), `maximum` and `minimum`, sums (which are
never -0.0), running sums, products of elements, and operations that move elements. It is not defined for products of matrices,
the largest and smallest elements over axes, and composites; nor where an operand may differ.
"""

from __future__ import annotations

import numpy as np

from .nodes import Array, Node, reference

_MOVES = ("view", "join", "index")
_OPEN_REDUCTIONS = ("reduce_max", "reduce_min", "cummax", "cummin")


def loose_zeros(node: Node) -> Array | None:
    """Returns the elements that are zeros of either sign; None where there are none."""
    if not node.dtype.is_float:
        return None
    zeros = node.value == 0
    if not zeros.any():
        return None
    kind, name = node.op.kind, node.op.name
    if kind in ("contract", "composite") or name in _OPEN_REDUCTIONS:
        return zeros
    if kind in ("reduce", "scan", "ordered"):
        return zeros if any(not x.all_exact or x.loose is not None for x in node.inputs) else None
    if kind in _MOVES:
        if all(x.loose is None for x in node.inputs):
            return None
        if kind == "index":
            return zeros
        attrs, node.attrs = node.attrs, {**node.attrs, "value": 0} if name == "pad" else node.attrs
        loose = [np.zeros(x.value.shape, bool) if x.loose is None else x.loose for x in node.inputs]
        flags = [each.astype(x.value.dtype) for each, x in zip(loose, node.inputs, strict=True)]
        found = reference(node, flags)
        node.attrs = attrs
        return zeros & found.astype(bool)
    found = np.zeros(node.value.shape, bool)
    for x in node.inputs:
        if not x.all_exact:
            found = found | ~x.exact
        if x.loose is not None:
            found = found | x.loose
    found = found & zeros
    return found if found.any() else None

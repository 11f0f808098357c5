"""Finds the sums that convolutions of single channels are made of: of products with the taps of one `windows`.

Such a sum stands for a product of matrices, as other convolutions are, and multiplies and adds as those do, with one rounding.
"""

from __future__ import annotations

from ...graph.symbol import Symbol
from ...promotion.dtype import float32, float64

_VIEWS = frozenset(("slice", "reshape", "permute", "broadcast_to", "cast"))


def is_sum_of_taps(symbol: Symbol) -> bool:
    """Returns whether a symbol adds the product with a tap to one with another tap of the same windows, or to a sum of such."""
    if symbol.op.name != "add" or symbol.dtype not in (float32, float64):
        return False
    total, product = symbol.inputs
    windows = _windows(product)
    return windows is not None and _windows(total.inputs[-1] if total.op.name == "add" else total) is windows


def _windows(product: Symbol) -> Symbol | None:
    """Returns the windows of which one factor of a product is a tap; None where there are none."""
    if product.op.name != "mul":
        return None
    found: Symbol = product.inputs[0]
    while found.op.name in _VIEWS:
        found = found.inputs[0]
    return found if found.op.name == "windows" else None

"""Finds sums of products of codes that are scaled, rounded and clamped to codes again, as quantised convolutions are."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from .....promotion.dtype import float32, int32
from ....graph import Graph
from ....symbol import Symbol
from ...handlers.spatial.convolution import requantised_conv
from ..equality import found_among

_STEPS = 12
"""Most operations from the sums to the codes."""


def requantised_sum(
    graph: Graph, total: Symbol, consumers: Mapping[int, Sequence[Symbol]], function: Callable[..., Symbol] = requantised_conv
) -> tuple[Symbol, Symbol | None, tuple[Symbol, ...]] | None:
    """Return the codes that sums become, the bias that is added before, and the scales and zero point; None if there are none.

    The scales are those of the image, the weights and the result, the zero point is that of the result.
    function: makes codes of sums, these and the bias: of sums (N, M, …), or of a product of matrices.
    """
    chain = [total]
    while chain[-1].dtype.name not in ("int8", "uint8"):
        after = consumers.get(chain[-1].id, [])
        if len(after) != 1 or len(chain) > _STEPS:
            return None
        chain.append(after[0])
    bias = None
    if chain[1].op.name == "add" and chain[1].dtype is int32:
        bias = _source(chain[1].inputs[1], int32)
    scaled = next((each for each in chain if each.op.name == "mul" and each.dtype is float32), None)
    moved = next((each for each in chain if each.op.name == "add" and each.dtype is float32), None)
    ratio = None if scaled is None else scaled.inputs[1]
    if ratio is not None and ratio.op.name == "reshape":  # of scales that are vectors of one element
        ratio = ratio.inputs[0]
    if ratio is None or moved is None or ratio.op.name != "div":
        return None
    product, result_scale = ratio.inputs
    if product.op.name != "mul":
        return None
    image_scale, weight_scale = (_source(each, float32) for each in product.inputs)
    scales = (image_scale, weight_scale, _source(result_scale, float32))
    zero = _source(moved.inputs[1], chain[-1].dtype)
    leaves = [each for each in (total, *scales, zero, bias) if each is not None]
    if len(leaves) != 5 + (bias is not None):
        return None

    def make(scratch: Graph, *given: Symbol) -> Symbol:
        return function(*given)

    if found_among(graph, make, leaves, (chain[-1],)) is None:
        return None
    return chain[-1], bias, tuple(leaves[1:5])


def _source(symbol: Symbol, dtype: object) -> Symbol | None:
    """Return the scalar or vector of a dtype that a symbol is another form of."""
    while symbol.op.name in ("reshape", "cast") and not (symbol.dtype is dtype and symbol.op.name == "cast"):
        symbol = symbol.inputs[0]
    return symbol if symbol.dtype is dtype and len(symbol.shape) <= 1 else None

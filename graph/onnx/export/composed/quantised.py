"""Finds products of codes, in int32 or as codes again, and tensors that are quantised by the range of their elements."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence

from .....promotion.dtype import float32, int32
from ....functions.quantization.codes import dynamic_quantize
from ....graph import Graph
from ....symbol import Symbol
from ...handlers.products import multiplied_codes, requantised_product
from ..equality import found_among, found_of_several
from ..spatial.quantised import requantised_sum
from .composed import Composed, plain

_CODES = ("int8", "uint8")
_PRODUCTS = (("uint8", "uint8", "uint8"), ("uint8", "int8", "uint8"), ("int8", "int8", "int8"))
"""Codes of both operands and of the product that onnxruntime multiplies."""


def dynamic(root: Symbol, graph: Graph) -> Composed | None:
    """Return the node of a tensor that is quantised by its range; its other results are the scale and the zero point."""
    if root.op.name != "quantize" or root.dtype.name != "uint8" or len(root.inputs) != 3 or root.inputs[0].dtype is not float32:
        return None
    x, scale, zero = root.inputs
    if scale.op.name != "where" or zero.op.name != "quantize":
        return None
    results = found_of_several(graph, lambda _, value: dynamic_quantize(value), (x,), ((root,), (scale,), (zero,)))
    if not all(results):
        return None
    return Composed("DynamicQuantizeLinear", (x,), tuple([tuple(each) for each in results]), {}, {}, None, True)


def product(found: Symbol, consumers: Mapping[int, Sequence[Symbol]], graph: Graph) -> Composed | None:
    """Return the node of a product of integers of 8 bits without their zero points."""
    if found.op.name != "matmul" or not found.dtype.is_integer:
        return None
    after = consumers.get(found.id, ())
    roots = [found, *[each for each in after if each.op.name == "cast"]]
    (a, a_zeros), (b, b_zeros) = (_codes(each) for each in found.inputs)
    if a is None or b is None:
        return None
    for a_zero, b_zero in itertools.product(a_zeros, b_zeros):
        if a_zero is not None and a_zero.shape not in ((), (1,)):
            continue  # onnxruntime refuses one for each row
        leaves = [each for each in (a, b, a_zero, b_zero) if each is not None]
        has_zeros = (a_zero is not None, b_zero is not None)

        def make(_: Graph, first: Symbol, second: Symbol, *zeros: Symbol, has: tuple[bool, bool] = has_zeros) -> Symbol:
            own = iter(zeros)
            one, other = (next(own) if each else None for each in has)
            return multiplied_codes(first, second, one, other)

        root = found_among(graph, make, leaves, [each for each in roots if each.dtype is int32])
        if root is not None:
            codes = _as_codes(root, (a, a_zero), (b, b_zero), consumers, graph)
            return codes or plain("MatMulInteger", (a, b, a_zero, b_zero), root)
    return None


def _as_codes(
    total: Symbol, a: tuple[Symbol, Symbol | None], b: tuple[Symbol, Symbol | None],
    consumers: Mapping[int, Sequence[Symbol]], graph: Graph,
) -> Composed | None:  # fmt: skip
    """Return the node of a product of codes that becomes codes again."""
    (one, a_zero), (other, b_zero) = a, b
    if a_zero is None or b_zero is None or min(len(one.shape), len(other.shape)) < 2:
        return None
    made = requantised_sum(graph, total, consumers, requantised_product)
    if made is None or made[1] is not None:
        return None
    root, _, (a_scale, b_scale, scale, zero) = made
    of_columns = b_scale.shape if len(other.shape) == 2 else ()
    are_single = all([each.shape in ((), (1,)) for each in (a_scale, a_zero, scale, zero)])
    if not are_single or b_scale.shape not in ((), (1,), of_columns) or b_scale.shape != b_zero.shape:
        return None  # onnxruntime has one scale for the left operand, and one for each column of one right matrix
    if (one.dtype.name, other.dtype.name, zero.dtype.name) not in _PRODUCTS:
        return None
    return plain("QLinearMatMul", (one, a_scale, a_zero, other, b_scale, b_zero, scale, zero), root)


def _codes(x: Symbol) -> tuple[Symbol | None, list[Symbol | None]]:
    """Return the codes of 8 bits that an operand in int32 is, and what may be their zero point."""
    zeros: list[Symbol | None] = [None]
    if x.op.name == "sub":
        x, zero = x.inputs
        zeros = []
        while zero.op.name in ("reshape", "cast"):
            zero = zero.inputs[0]
            if zero.dtype.name in _CODES:
                zeros.append(zero)
    if x.op.name != "cast" or x.inputs[0].dtype.name not in _CODES:
        return None, []
    return x.inputs[0], zeros

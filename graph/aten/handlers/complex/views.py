"""Handles what moves, selects or adds complex numbers: it is done to both parts."""

from __future__ import annotations

from typing import Any

from .....promotion.dtype import DType
from ....functions.complex.parts import Complex
from ....ops.complex.parts import PARTS
from ....symbol import Symbol
from ...node import Node
from ...program import Call
from ...registry import HANDLERS, handles_complex

_PARTWISE = (
    "view.default", "_unsafe_view.default", "reshape.default", "flatten.using_ints", "unflatten.int", "squeeze.default",
    "squeeze.dim", "squeeze.dims", "unsqueeze.default", "expand.default", "permute.default", "transpose.int", "t.default",
    "slice.Tensor", "select.int", "narrow.default", "cat.default", "stack.default", "split.Tensor",
    "split_with_sizes.default", "chunk.default", "unbind.int", "flip.default", "roll.default", "repeat.default",
    "diagonal.default", "clone.default", "alias.default", "detach.default", "lift_fresh_copy.default", "contiguous.default",
    "index.Tensor", "index_select.default", "gather.default", "slice_scatter.default", "select_scatter.default",
    "constant_pad_nd.default", "sum.default", "sum.dim_IntList", "mean.default", "mean.dim", "cumsum.default", "neg.default",
    "where.self", "where.ScalarSelf", "where.ScalarOther", "where.Scalar",
    "copy.default", "unfold.default", "tril.default", "triu.default", "index_put.default",
)  # fmt: skip
"""Operators that treat both parts alike."""


_VALUES = {"copy": (0, 1), "slice_scatter": (0, 1), "select_scatter": (0, 1), "where": (1, 2), "index_put": (0, 2),
           "constant_pad_nd": (0, 2)}  # fmt: skip
"""Operator → positions of the arguments that are put into the result; elsewhere the first. Real ones have no imaginary part."""


def _of(value: Any, position: int) -> Any:
    """Return an argument with one part (0: real, 1: imaginary) in place of complex numbers."""
    if isinstance(value, Complex):
        return value.imaginary if position else value.real
    if isinstance(value, complex):
        return value.imag if position else value.real
    return tuple([_of(each, position) for each in value]) if isinstance(value, tuple) else value


def _whole(node: Node, value: Any, part: DType) -> Any:
    """Return what is put into the result as complex numbers with parts of a dtype."""
    if isinstance(value, tuple):
        return tuple([_whole(node, each, part) for each in value])
    if isinstance(value, Complex):
        return Complex(value.real.cast(part), value.imaginary.cast(part))
    if isinstance(value, Symbol):
        real = value.cast(part)
        return Complex(real, node.broadcast(node.number(0.0, part), real.shape))
    return complex(value)


@handles_complex(*_PARTWISE)
def by_parts(
    node: Node, *arguments: Any, dtype: object = None, **options: Any
) -> Complex | Symbol | tuple[Complex | Symbol, ...]:
    """Run the operator on real and on imaginary parts."""
    part = PARTS.get(node.dtype, node.dtype)
    given = list(arguments)
    if node.kind == "constant_pad_nd" and len(given) < 3:
        given.append(options.pop("value", 0))
    for position in _VALUES.get(node.kind, (0,)):
        given[position] = _whole(node, given[position], part)
    results = tuple([
        None if each is None else type(each)(PARTS.get(each.dtype, each.dtype), each.shape) for each in node.call.results
    ])  # fmt: skip
    call = node.call
    inner = Node(Call(call.name, call.op, call.arguments, call.options, results, call.location), node.graph)
    handler = HANDLERS[call.op]

    def found(position: int) -> Any:
        return handler(inner, *_of(tuple(given), position), **{name: _of(value, position) for name, value in options.items()})

    real = found(0)
    if node.dtype not in PARTS:  # `copy` into real numbers
        return real  # type: ignore[no-any-return]
    if isinstance(real, Symbol):
        return Complex(real, found(1))
    return tuple([Complex(one, two) for one, two in zip(real, found(1), strict=True)])

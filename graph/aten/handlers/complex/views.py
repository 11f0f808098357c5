"""Handles what moves, selects or adds complex numbers: it is done to both parts."""

from __future__ import annotations

from typing import Any

from ....functions.complex.parts import Complex
from ....ops.complex_parts import PARTS
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
    "where.self", "copy.default", "unfold.default", "tril.default", "triu.default", "index_put.default",
)  # fmt: skip
"""Operators that treat both parts alike. Numbers that they put in are zeros."""


def _of(value: Any, position: int) -> Any:
    """Return an argument with one part (0: real, 1: imaginary) in place of complex numbers."""
    if isinstance(value, Complex):
        return value.imaginary if position else value.real
    return tuple([_of(each, position) for each in value]) if isinstance(value, tuple) else value


def _require_parts(node: Node, value: Any) -> None:
    """Refuse real tensors among complex ones that are put side by side."""
    if isinstance(value, tuple) and any(isinstance(each, Complex) for each in value):
        mixed = not all(isinstance(each, Complex) for each in value)
        node.require(not mixed, "complex and real tensors side by side", "make all of them complex")


@handles_complex(*_PARTWISE)
def by_parts(node: Node, *arguments: Any, dtype: object = None, **options: Any) -> Complex | tuple[Complex, ...]:
    """Run the operator on real and on imaginary parts."""
    for value in arguments:
        _require_parts(node, value)
    node.require(node.kind != "where" or all(isinstance(each, Complex) for each in arguments[1:]),
                 "a choice between complex and real tensors", "make both complex")  # fmt: skip
    results = tuple([
        None if each is None else type(each)(PARTS.get(each.dtype, each.dtype), each.shape) for each in node.call.results
    ])  # fmt: skip
    call = node.call
    inner = Node(Call(call.name, call.op, call.arguments, call.options, results, call.location), node.graph)
    handler = HANDLERS[call.op]
    real, imaginary = (
        handler(inner, *_of(arguments, position), **{name: _of(value, position) for name, value in options.items()})
        for position in (0, 1)
    )
    if isinstance(real, Symbol):
        return Complex(real, imaginary)
    return tuple([Complex(one, two) for one, two in zip(real, imaginary, strict=True)])

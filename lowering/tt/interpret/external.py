"""Interprets library functions as they stand, not as they are expanded."""

from __future__ import annotations

from collections.abc import Callable

from xdsl.ir import Operation

from ....promotion.arrays import Array
from ...libdevice.reference import evaluate
from ...libdevice.signatures import known_signature
from ..dialect.external import ExternElementwiseOp


def extern_elementwise(op: Operation) -> Callable[..., Array]:
    """Returns the evaluator of a library function. Raises `UnsupportedError` for an unknown symbol."""
    assert isinstance(op, ExternElementwiseOp)
    signature = known_signature(op.symbol.data)

    def apply(*operands: Array) -> Array:
        found = evaluate(signature, operands)
        return found if found.shape else found[()]

    return apply

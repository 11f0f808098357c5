"""Finds the dtype that an operation returns, without a graph of the user's."""

from __future__ import annotations

import numpy as np

from ...promotion.dtype import DType
from ...promotion.errors import UserError
from ...promotion.literals import Operand, Scalar, is_numpy_scalar, is_scalar
from ...promotion.rules import RuleSet, ZeroDim, dtype_of
from ..functions.names.aliases import did_you_mean
from ..functions.names.exports import EXPORTS, public
from ..graph import Graph
from ..symbol import Symbol
from ..types import TensorType

_SIDE = 2  # every operand is a 2 × 2 matrix, which elementwise ops, reductions and products all take


def result_type(op: str, *operands: Operand | ZeroDim, rules: str | RuleSet = "max", **options: object) -> DType:
    """Return the dtype of `joinery.<op>` for operands of these dtypes, by asking the op table itself.

    Args:
        op: the name of a public function ("sum", "div", "sqrt", "where", "argmax", "matmul", …).
        operands: dtypes or their names (or anything with a dtype), `ZeroDim`, and Python scalars, which are
            weak (NumPy scalars: what the rule set says).
        rules: the rule set, or its name.
        options: further arguments of the function, such as `dtype=` or `axis=`.

    Raises `UserError` for unknown functions and for operands it does not take, `UnsupportedError` for dtypes
    it cannot compute.
    """
    if op not in EXPORTS:
        hint = did_you_mean(str(op), EXPORTS) or f"known: {', '.join(EXPORTS)}"
        raise UserError(f"result_type: there is no operation {op!r}; {hint}")
    graph = Graph("result_type", semantics=rules)
    arguments: list[Symbol | Scalar | np.generic] = []
    for operand in operands:
        if is_scalar(operand) or (is_numpy_scalar(operand) and graph.rules.numpy_scalars == "weak"):
            arguments.append(operand)
        else:
            small = isinstance(operand, ZeroDim)
            dtype = operand.dtype if isinstance(operand, ZeroDim) else dtype_of(operand)
            arguments.append(graph.input(TensorType(dtype, () if small else (_SIDE, _SIDE))))
    if not graph.inputs:
        raise UserError(f"result_type: {op} needs at least one operand that is a dtype; fix: result_type({op!r}, 'float32')")
    try:
        result = public(op)(*([arguments] if op in ("concat", "stack") else arguments), **options)
    except TypeError as error:
        raise UserError(f"result_type: {op} does not take these arguments: {error}") from None
    found: DType = result.dtype
    return found

"""Promotes the operands of one op, with messages that show them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeGuard

import numpy as np

from ...promotion.dtype import DType, string
from ...promotion.errors import UnsupportedError, UserError
from ...promotion.literals import is_numpy_scalar, is_scalar
from ...promotion.result_rules import SELECT, Promotion
from ...promotion.rules import RuleSet
from ..errors import compose
from ..ops.opdef import VARIADIC, OpDef
from ..protocols import TensorLike, WrittenOperand

_DEFAULTS = frozenset({np.dtype(np.bool_), np.dtype(np.int64), np.dtype(np.float64)})
"""The dtypes of NumPy scalars that nobody need have chosen, for functions return them."""


def kept_dtypes(
    constant: Callable[[np.generic], TensorLike], row: OpDef, operands: Sequence[TensorLike]
) -> Sequence[TensorLike]:
    """Return the operands of an op, with constants for NumPy scalars between which a condition selects.

    `where(x > 127, np.uint8(255), np.uint8(0))` is of dtype uint8: there is no tensor whose dtype these scalars
    could take, and somebody chose theirs. A scalar of one of NumPy's default dtypes stays weak.
    """
    if row.promote is not SELECT or len(operands) != 3:
        return operands
    branches = operands[1:]
    if not all(is_numpy_scalar(branch) or is_scalar(branch) for branch in branches):
        return operands
    return [operands[0], *(constant(branch) if _is_chosen(branch) else branch for branch in branches)]


def _is_chosen(value: TensorLike) -> TypeGuard[np.generic]:
    if not is_numpy_scalar(value) or value.dtype in _DEFAULTS:
        return False
    dtype = DType.from_numpy(value.dtype)
    return dtype.has_arithmetic and not dtype.is_complex


def promote(rules: RuleSet, row: OpDef, values: Sequence[WrittenOperand], dtype: DType | None, label: str) -> Promotion:
    """Return the dtypes `row` casts its operands (symbols and Python scalars) to, and its result dtype.

    Raises `UserError` when the rule refuses the operands, `UnsupportedError` for dtypes the op cannot compute
    with; messages call the op `label`.
    """
    if row.arity != len(values) and not (row.arity == VARIADIC and values):
        raise UserError(compose(f"{label}: {len(values)} operands, expected {row.arity}", values))
    if "any_dtype" not in row.traits and any(getattr(value, "dtype", None) is string for value in values):
        fix = "the functions on strings (string_equal, string_concat, …), or parse_numbers"
        raise UserError(compose(f"{label}: not defined for strings", values, "numbers", fix))
    try:
        promotion = row.promote.apply(rules, values, op=label, dtype=dtype)
    except UserError as error:
        raise UserError(compose(str(error), values)) from None
    for target in promotion.casts[:1] if row.kind == "index" else promotion.casts:
        if not row.accepts(target):
            raise _refused(row, values, target, label)
    return promotion


def _refused(row: OpDef, values: Sequence[WrittenOperand], dtype: DType, label: str) -> Exception:
    if dtype.has_arithmetic:
        kinds = {
            "bool": "bools",
            "int": "signed integers",
            "uint": "unsigned integers",
            "float": "floats",
        }
        allowed = " and ".join(text for kind, text in kinds.items() if kind in row.emit)
        hint = {"sub": "logical_xor", "negate": "logical_not"}.get(row.name)
        fix = f"use joinery.{hint}, or cast to int8" if hint else "cast to int8 first: operand.cast(int8)"
        return UserError(compose(f"{label}: not defined for {dtype}", values, allowed, fix))
    wider = "float16" if dtype.is_float and dtype.bits <= 8 else "int8"
    fix = (
        "bitcast it and compute on the bits"
        if dtype.storage_only
        else f"compute in {wider}: operand.cast({wider})"
    )
    return UnsupportedError(
        compose(
            f"{label}: {dtype} can be stored, viewed and bit-cast, but not computed with", values, fix=fix
        )
    )

"""Promotes the operands of one op, with messages that show them."""

from __future__ import annotations

from collections.abc import Sequence

from ...promotion.dtype import DType, string
from ...promotion.errors import UnsupportedError, UserError
from ...promotion.result_rules import Promotion
from ...promotion.rules import RuleSet
from ..errors import compose
from ..ops.opdef import VARIADIC, OpDef
from ..protocols import WrittenOperand


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

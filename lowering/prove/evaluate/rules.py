"""Lists the rules of the evaluator: one for each operation that makes values, and for the arguments of regions."""

from __future__ import annotations

from . import control, elements
from .evaluator import Rule

RULES: dict[str, Rule] = {
    **elements.RULES, "scf.for": control.for_result, "scf.if": control.if_result, "scf.for:argument": control.for_argument,
    "scf.while:argument": control.while_argument, "tt.func:argument": control.block_argument,
    "scf.execute_region:argument": control.block_argument,
}  # fmt: skip


__all__ = ["RULES"]

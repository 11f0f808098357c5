"""Lists the rules of the evaluator: one for each operation that makes values, and for the arguments of regions."""

from __future__ import annotations

from . import addresses, elements, loops, paths
from .evaluator import Rule as Rule

RULES: dict[str, Rule] = {
    **elements.RULES, **addresses.RULES, "scf.for": loops.for_result, "scf.if": paths.if_result,
    "scf.for:argument": loops.for_argument, "scf.while:argument": loops.while_argument,
}  # fmt: skip
"""What is not here is any number of its type: the arguments of blocks among others, which branches merge."""


__all__ = ["RULES"]

"""Puts a check before every access of a function, for launches that compare accesses with the memory that they may reach."""

from __future__ import annotations

from ..analysis.control_flow import parent_block
from ..dialect.functions import FuncOp
from ..dialect.memory.check_access import CheckAccessOp

ACCESSES = frozenset({
    "tt.load", "tt.store", "tt.atomic_rmw", "tt.atomic_cas", "tt.atomic_load", "tt.atomic_store", "tt.atomic_poll",
})  # fmt: skip
"""The operations that access memory through pointers."""


def check_bounds(function: FuncOp) -> None:
    """Inserts a `tt.check_access` before each access of a function that descriptors and block pointers are expanded in."""
    for op in list(function.walk()):
        if op.name in ACCESSES:
            parent_block(op).insert_op_before(CheckAccessOp.of(op), op)


__all__ = ["ACCESSES", "check_bounds"]

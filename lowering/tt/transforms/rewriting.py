"""Writes operations into an existing function, for passes that replace one operation by several."""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.ir import Operation, SSAValue

from ....promotion.errors import InternalError
from ..builder.block_builder import BlockBuilder


class _Before:
    """A block's interface for appending, with the end of the block just before an operation."""

    def __init__(self, anchor: Operation) -> None:
        self._anchor = anchor

    def add_op(self, op: Operation) -> None:
        block = self._anchor.parent
        if block is None:
            raise InternalError(f"{self._anchor.name} stands in no block")
        op.location = self._anchor.location
        block.insert_op_before(op, self._anchor)


class Rewriter(BlockBuilder):
    """A builder whose operations come before `anchor`, with its location; `args` are the anchor's
    operands."""

    __slots__ = ("_anchor",)

    def __init__(self, anchor: Operation) -> None:
        self._anchor = anchor
        self.location = anchor.location
        self._block = _Before(anchor)
        self._constants = {}
        self._scopes = []
        self.args = list(anchor.operands)

    def replace(self, results: Sequence[SSAValue]) -> None:
        """Replaces the anchor's results by these values, and erases the anchor."""
        for old, new in zip(self._anchor.results, results, strict=True):
            if old.type != new.type:
                raise InternalError(f"{self._anchor.name}: its replacement is {new.type}, expected {old.type}")
            old.replace_all_uses_with(new)
        block = self._anchor.parent
        if block is None:
            raise InternalError(f"{self._anchor.name} stands in no block")
        block.erase_op(self._anchor)

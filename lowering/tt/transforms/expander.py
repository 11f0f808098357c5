"""Replaces one operation by the operations of a scratch function, for all expansion passes."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from xdsl.ir import Operation, SSAValue

from ....promotion.errors import UnsupportedError
from ..analysis.control_flow import parent_block
from ..builder.block_builder import BlockBuilder
from .expression import Expr

MAX_EXPANDED = 200_000
"""Most operations that expansions may add to one function."""

Build = Callable[[BlockBuilder, Sequence[Expr]], Sequence[Expr]]


class Expander:
    """Replaces operations of one function and counts what that adds."""

    def __init__(self) -> None:
        self.added = 0

    def replace(self, op: Operation, build: Build) -> None:
        """Replaces `op` by what `build` makes of its operands: one value per result, of the result's type.
        Raises `UnsupportedError` if the function grows by more than MAX_EXPANDED operations."""
        b = BlockBuilder.function("expansion", [(f"x{i}", value.type) for i, value in enumerate(op.operands)])
        b.location = op.location
        values = [found.v for found in build(b, [Expr(b, argument) for argument in b.args])]
        block = b.func.body.block
        made = list(block.ops)
        self.added += len(made)
        if self.added > MAX_EXPANDED:
            raise UnsupportedError(f"{op.name}: expanding it adds more than {MAX_EXPANDED} operations to the function")
        target = parent_block(op)
        replaced = dict(zip(b.args, op.operands, strict=True))
        results: list[SSAValue] = [replaced.get(value, value) for value in values]
        for argument, operand in replaced.items():
            argument.replace_all_uses_with(operand)
        for inner in made:
            inner.detach()  # type: ignore[no-untyped-call]
            target.insert_op_before(inner, op)
        for result, value in zip(op.results, results, strict=True):
            result.replace_all_uses_with(value)
        target.erase_op(op)


def operations_named(func: Operation, name: str) -> Iterator[Operation]:
    """Yields the operations of a function with this name, which were collected before: the function may be
    changed meanwhile."""
    yield from [op for op in func.walk() if op.name == name]

"""Replacing an operation by operations that a `BlockBuilder` makes."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from xdsl.ir import Operation, SSAValue

from ...promotion.errors import InternalError
from .builder import BlockBuilder

Build = Callable[[BlockBuilder, list[SSAValue]], Sequence[SSAValue]]
"""(builder, operands) -> results."""


def replace_by(op: Operation, build: Build) -> None:
    """Puts what `build` makes of the operands in the place of `op`; the new operations take over its location."""
    block = op.parent
    if block is None:
        raise InternalError(f"{op.name} stands in no block")
    builder = BlockBuilder.function("replacement", [(f"v{n}", value.type) for n, value in enumerate(op.operands)])
    results = list(build(builder, builder.args))
    source = builder.func.body.block
    made = list(source.ops)
    for argument, value in zip(builder.args, op.operands, strict=True):
        results = [value if result is argument else result for result in results]
        argument.replace_all_uses_with(value)
    for inner in made:
        source.detach_op(inner)
        inner.location = op.location
        block.insert_op_before(inner, op)
    for old, new in zip(op.results, results, strict=True):
        if old.type != new.type:
            raise InternalError(f"{op.name}: its replacement is {new.type}, expected {old.type}")
        old.replace_all_uses_with(new)
    block.erase_op(op)

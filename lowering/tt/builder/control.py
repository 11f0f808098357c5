"""Defines loops and branches under construction, which `BlockBuilder.for_` and `BlockBuilder.if_` return."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from types import TracebackType
from typing import Any

from xdsl.dialects import scf
from xdsl.dialects.builtin import LocationAttr
from xdsl.ir import Attribute, Block, Region, SSAValue

from ....promotion.errors import InternalError
from .operation_builder import OperationBuilder


class Loop:
    """An `scf.for` under construction; `with loop as (index, args):` or `as loop:`. `yield_` once, inside."""

    __slots__ = ("_block", "_builder", "_context", "_operands", "_yielded", "args", "index", "results")

    def __init__(self, builder: OperationBuilder, operands: list[SSAValue], index_type: Attribute) -> None:
        self._builder = builder
        self._operands = operands
        self._block = Block(arg_types=[index_type, *(value.type for value in operands[3:])])
        self._yielded = False
        self._context = builder.inside(self._block)
        self.index: SSAValue = self._block.args[0]
        self.args: list[SSAValue] = list(self._block.args[1:])
        self.results: list[SSAValue] = []

    def __enter__(self) -> Loop:
        self._context.__enter__()
        return self

    def __iter__(self) -> Iterator[Any]:
        yield self.index
        yield self.args

    def yield_(self, values: Sequence[SSAValue] = ()) -> None:
        """End the body with the values of the next iteration (of the results, after the last)."""
        types = [value.type for value in self.args]
        _yield("scf.for", self._block, values, types, self._yielded, self._builder.location)
        self._yielded = True

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._context.__exit__(kind, error, trace)
        if kind is not None:
            return
        if not self._yielded:
            self.yield_()
        types = [value.type for value in self.args]
        self.results = list(
            self._builder.append(scf.ForOp, self._operands, types, regions=(Region(self._block),))
        )


class Branch:
    """An `scf.if` under construction. It is appended when its first block is closed; `otherwise` fills in the
    second."""

    __slots__ = ("_builder", "_condition", "_current", "_else", "_types", "_yielded", "results")

    def __init__(self, builder: OperationBuilder, condition: SSAValue, types: list[Attribute]) -> None:
        self._builder = builder
        self._condition = condition
        self._types = types
        self._current: Block | None = None
        self._else = Region()
        self._yielded = False
        self.results: list[SSAValue] = []

    @contextmanager
    def then(self) -> Iterator[Branch]:
        """Build the block that runs when the condition holds."""
        block = Block()
        with self._filled(block):
            yield self
        regions = (Region(block), self._else)
        self.results = list(self._builder.append(scf.IfOp, (self._condition,), self._types, regions=regions))

    @contextmanager
    def otherwise(self) -> Iterator[Branch]:
        """Build the block that runs when the condition does not hold."""
        block = Block()
        with self._filled(block):
            yield self
        self._else.add_block(block)
        branch = self._else.parent
        if branch is None or branch.parent is None:
            raise InternalError("scf.if: otherwise() before then()")
        # This block may use what was computed since then(): the branch moves behind it.
        outer = branch.parent
        if outer.last_op is not branch:
            if any(result.first_use is not None for result in branch.results):
                raise InternalError("scf.if: its results are used before otherwise() is built")
            outer.detach_op(branch)
            outer.add_op(branch)

    @contextmanager
    def _filled(self, block: Block) -> Iterator[None]:
        self._current, self._yielded = block, False
        with self._builder.inside(block):
            yield
            if not self._yielded:
                self.yield_()
        self._current = None

    def yield_(self, values: Sequence[SSAValue] = ()) -> None:
        """End the block that is open with the values of the results."""
        if self._current is None:
            raise InternalError("scf.if: yield_ outside then() and otherwise()")
        _yield("scf.if", self._current, values, self._types, self._yielded, self._builder.location)
        self._yielded = True


def _yield(
    name: str,
    block: Block,
    values: Sequence[SSAValue],
    expected: Sequence[Attribute],
    done: bool,
    location: LocationAttr | None,
) -> None:
    if done:
        raise InternalError(f"{name}: yield_ called twice in one block")
    found = [value.type for value in values]
    if found != list(expected):
        raise InternalError(
            f"{name} yields ({', '.join(map(str, found))}), expected ({', '.join(map(str, expected))})"
        )
    block.add_op(scf.YieldOp.create(operands=values, location=location))

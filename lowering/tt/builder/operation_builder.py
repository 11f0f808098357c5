"""Appends operations: the part of `BlockBuilder` that loops and branches under construction use."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Protocol

from xdsl.dialects.builtin import LocationAttr
from xdsl.ir import Attribute, Block, Operation, Region, SSAValue

from . import creation

_NONE: dict[str, Attribute] = {}


class Appendable(Protocol):
    """A block, as a builder sees it."""

    def add_op(self, op: Operation, /) -> None: ...


class OperationBuilder:
    """Appends operations to one block at a time. They get `location`, which may be set at any time."""

    __slots__ = ("_block", "_constants", "_scopes", "location")

    location: LocationAttr | None

    def __init__(self, block: Appendable) -> None:
        self.location = None
        self._block = block
        self._constants: dict[object, SSAValue] = {}  # of this block
        self._scopes: list[dict[object, SSAValue]] = []  # of the enclosing blocks whose values are visible here

    def append(
        self,
        operation: type[Operation],
        operands: Sequence[SSAValue],
        result_types: Sequence[Attribute],
        properties: Mapping[str, Attribute] = _NONE,
        regions: Sequence[Region] = (),
    ) -> Sequence[SSAValue]:
        """Append an operation; nothing is checked. Returns its results."""
        made = creation.create(operation, operands, result_types, properties, self.location)
        for region in regions:
            made.add_region(region)
        if regions or type(self._block) is not Block:
            self._block.add_op(made)
        else:
            creation.append(self._block, made)
        return made.results

    @contextmanager
    def inside(self, block: Block, visible: bool = True) -> Iterator[None]:
        """Append to `block` for a while. `visible`: constants of the enclosing blocks may be used in it."""
        outer = self._block, self._constants, self._scopes
        self._scopes = [self._constants, *self._scopes] if visible else [{}]
        self._block, self._constants = block, {}
        try:
            yield
        finally:
            self._block, self._constants, self._scopes = outer

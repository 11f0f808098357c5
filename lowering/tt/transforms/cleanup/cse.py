"""Eliminates common subexpressions: equal values of pure operations are computed once."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass

from xdsl.ir import Attribute, Block, Operation

from ...dialect.functions import FuncOp
from ..folding import is_pure
from ..function_pass import FunctionPass

_OWN_REGION = frozenset({"tt.reduce", "tt.scan"})  # their regions use nothing from outside


@dataclass(frozen=True)
class CommonSubexpressions(FunctionPass):
    """Computes equal values once."""

    name = "cse"

    def run(self, function: FuncOp) -> None:
        # A value of one block serves another only where it dominates it; between branching blocks that is not tracked.
        for block in function.body.blocks:
            _reuse(block, [{}], _Keys())


def _reuse(block: Block, scopes: list[dict[Hashable, Operation]], keys: _Keys) -> None:
    table = scopes[-1]
    op = block.first_op
    while op is not None:
        following = op.next_op
        if op.regions:
            outer = [] if op.name in _OWN_REGION else scopes
            for region in op.regions:
                for inner in region.blocks:
                    _reuse(inner, [*outer, {}], keys)
        elif op.results and is_pure(type(op)):
            key = keys.of(op)
            found = next((earlier for scope in scopes if (earlier := scope.get(key)) is not None), None)
            if found is None:
                table[key] = op
            else:
                for result, other in zip(op.results, found.results, strict=True):
                    result.replace_all_uses_with(other)
                block.erase_op(op)
        op = following


class _Keys:
    """Keys of operations. Attributes and types are compared once per object, since hashing one hashes all its
    parts."""

    def __init__(self) -> None:
        self._of_object: dict[int, tuple[int, Attribute]] = {}  # the object itself, so that its id stays its own
        self._of_value: dict[Attribute, int] = {}

    def _number(self, attribute: Attribute) -> int:
        found = self._of_object.get(id(attribute))
        if found is None:
            number = self._of_value.setdefault(attribute, len(self._of_value))
            found = self._of_object[id(attribute)] = (number, attribute)
        return found[0]

    def of(self, op: Operation) -> Hashable:
        """Returns a key that is equal for operations that compute the same values."""
        number = self._number
        return (
            op.name,
            tuple([id(value) for value in op.operands]),
            tuple([(name, number(value)) for name, value in op.properties.items()]),
            tuple([(name, number(value)) for name, value in op.attributes.items()]),
            tuple([number(result.type) for result in op.results]),
        )

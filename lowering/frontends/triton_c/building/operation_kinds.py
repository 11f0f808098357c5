"""Finds operations that are alike, of which one is verified for all: verifiers look at no context."""

from __future__ import annotations

from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Attribute, Operation

_LIMIT = 1 << 14
_CONTEXTUAL = frozenset(["tt.return", "tt.call", "scf.yield", "scf.condition", "tt.reduce.return"])
"""Operations whose verifiers look at what is around them."""


class Kind:
    """Operations of one name with the same types and properties.

    Attributes:
        parts: types and properties, which are kept so that no others get their identity.
        is_sound: whether one of the operations passed its verifier.
    """

    __slots__ = ("is_sound", "parts")

    def __init__(self, parts: tuple[Attribute, ...]) -> None:
        self.parts = parts
        self.is_sound = False

    def passed(self) -> None:
        """Record that one of the operations passed its verifier."""
        self.is_sound = True


_KINDS: dict[tuple[object, ...], Kind] = {}


def operation_kinds(module: ModuleOp) -> dict[Operation, Kind]:
    """Return the kind of each operation without regions, as `first_problem` takes them.

    The builder interns types and properties, so that the same ones are mostly the same objects, in all texts; equal ones that
    are others are verified once more.
    """
    found: dict[Operation, Kind] = {}
    for op in module.walk():
        if op.regions or op.name in _CONTEXTUAL:
            continue
        types = [*[value.type for value in op.operands], *[value.type for value in op.results]]
        parts = (*types, *op.properties.values())
        key = (op.name, len(op.operands), *op.properties, *map(id, parts))
        kind = _KINDS.get(key)
        if kind is None:
            if len(_KINDS) >= _LIMIT:
                _KINDS.clear()
            kind = _KINDS[key] = Kind(parts)
        found[op] = kind
    return found


__all__ = ["operation_kinds"]

"""Finds operations that are alike, of which one is verified for all: most verifiers look at no context."""

from __future__ import annotations

from xdsl.ir import Attribute, Operation, Region

_LIMIT = 1 << 14
_FRAMES = frozenset(["tt.reduce", "scf.for", "scf.if", "scf.while"])
"""Operations whose verifiers look at their regions' arguments and terminators, and at nothing else in them."""
_CONTEXTUAL = frozenset(["tt.return", "tt.call"])
"""Operations whose verifiers look at functions."""
_TERMINATORS = frozenset(["scf.yield", "scf.condition", "tt.reduce.return"])
"""Operations whose verifiers look at what they are in, and whether they end it."""


class Kind:
    """Operations of one name with the same types and properties, and with the same types at the ends of their regions.

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


class OperationKinds:
    """Finds the kind of an operation, as `first_problem` asks for it.

    The builder interns types and properties, so that the same ones are mostly the same objects, in all texts; equal ones that
    are others are verified once more.
    """

    @staticmethod
    def get(op: Operation, /) -> Kind | None:
        """Return the kind of an operation; None if it has to be verified itself."""
        name = op.name
        parts = [value.type for value in op.operands]
        form: object = len(parts)
        if op.regions:
            if name not in _FRAMES:
                return None
            form = form, *(_frame(region, parts) for region in op.regions)
        elif name in _TERMINATORS:
            parent, block = op.parent_op(), op.parent
            form = form, parent and parent.name, block is None or block.last_op is op
        elif name in _CONTEXTUAL:
            return None
        parts += [value.type for value in op.results]
        properties = op.properties
        if properties:
            parts += properties.values()
            key = (name, form, *properties, *map(id, parts))
        else:
            key = (name, form, *map(id, parts))
        kind = _KINDS.get(key)
        if kind is None:
            if len(_KINDS) >= _LIMIT:
                _KINDS.clear()
            kind = _KINDS[key] = Kind(tuple(parts))
        return kind


def _frame(region: Region, parts: list[Attribute]) -> object:
    """Add the types of a region's arguments and of what its terminator passes on; return what else of it verifiers look at."""
    block = region.blocks.first
    if block is None:
        return None
    last = block.last_op
    passed = [value.type for value in last.operands] if last is not None else []
    parts += [argument.type for argument in block.args]
    parts += passed
    return len(block.args), len(passed), last and last.name, block is region.blocks.last


__all__ = ["OperationKinds"]

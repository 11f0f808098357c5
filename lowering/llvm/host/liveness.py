"""Which operations evaluate block values (roots), and which root is the last to read a value."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from .syntax import is_tensor

ROOTS = frozenset(
    [
        *("tt.store", "tt.reduce", "tt.scan", "tt.dot", "tt.reshape", "tt.join", "tt.cat", "tt.split", "tt.unsplat"),
        *("tt.atomic_rmw", "tt.atomic_cas", "tt.atomic_load", "tt.atomic_store", "tt.gather", "tt.histogram"),
        *("scf.for", "scf.if", "scf.while", "scf.condition", "scf.yield", "tt.return"),
    ]
)


def all_operations(block: Any) -> Iterator[Any]:
    """In the order of execution; an operation with regions comes before its body. Combine regions are left out."""
    for op in block.ops:
        yield op
        if op.name not in ("tt.reduce", "tt.scan"):
            for region in op.regions:
                for inner in region.blocks:
                    yield from all_operations(inner)


def number_roots(block: Any) -> tuple[dict[Any, int], dict[Any, int]]:
    """The roots of a function in order, numbered, and for every block value the last root that evaluates it."""
    operations = [op for op in all_operations(block) if op.name in ROOTS]
    index = {op: i for i, op in enumerate(operations)}
    last: dict[Any, int] = {}
    for op in reversed(operations):
        stack = [v for v in op.operands if is_tensor(v.type)]
        while stack:
            value = stack.pop()
            if value in last:
                continue
            last[value] = index[op]
            producer = getattr(value, "op", None)
            if producer is not None and producer.name not in ROOTS:
                stack.extend(v for v in producer.operands if is_tensor(v.type))
    return index, last

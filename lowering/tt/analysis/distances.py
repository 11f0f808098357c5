"""Finds pointers that are moved by distances between addresses: `a + (b - a) // 4` points into the memory of b.

A number is made of addresses if it is computed from what `tt.ptr_to_int` returns. A pointer that is moved by such a number may
lead anywhere, as one that is made from a number (`tt.int_to_ptr`).
"""

from __future__ import annotations

import weakref
from collections.abc import Iterator

from xdsl.ir import Operation, SSAValue

from ..dialect.functions import CallOp, FuncOp

_LOADS = frozenset({"tt.load", "tt.atomic_load", "tt.atomic_rmw", "tt.atomic_cas", "tt.int_to_ptr", "tt.addptr"})
"""Operations whose results are not computed from their operands, or are pointers."""
_known: weakref.WeakKeyDictionary[Operation, frozenset[Operation]] = weakref.WeakKeyDictionary()


def moves_by_distance(op: Operation) -> bool:
    """Whether a `tt.addptr` of a program that stays as it is moves a pointer by a distance between addresses."""
    root = op
    while (parent := root.parent_op()) is not None:
        root = parent
    found = _known.get(root)
    if found is None:
        found = _known[root] = distance_moves(root)
    return op in found


def distance_moves(root: Operation) -> frozenset[Operation]:
    """The `tt.addptr` of a function or module that move a pointer by a distance between addresses."""
    pending: list[SSAValue] = [op.results[0] for op in root.walk() if op.name == "tt.ptr_to_int"]
    if not pending:
        return frozenset()
    functions = {op.sym_name.data: op for op in root.walk() if isinstance(op, FuncOp)}
    calls = [op for op in root.walk() if isinstance(op, CallOp)]
    seen: set[SSAValue] = set()
    found: set[Operation] = set()
    while pending:
        value = pending.pop()
        if value in seen:
            continue
        seen.add(value)
        for use in value.uses:
            if use.operation.name == "tt.addptr" and use.index == 1:
                found.add(use.operation)
            pending += _computed(use.operation, use.index, functions, calls)
    return frozenset(found)


def _computed(op: Operation, index: int, functions: dict[str, FuncOp], calls: list[CallOp]) -> Iterator[SSAValue]:
    """Yields what is computed from, or is, an operand of an operation."""
    if op.name in _LOADS:
        return
    parent = op.parent_op()
    if isinstance(op, CallOp):
        callee = functions.get(op.callee.root_reference.data)
        if callee is not None and callee.body.blocks:
            yield callee.body.blocks[0].args[index]
    elif op.name == "tt.return":
        for call in calls:
            if isinstance(parent, FuncOp) and call.callee.root_reference.data == parent.sym_name.data:
                yield call.results[index]
    elif op.name in ("scf.yield", "scf.condition") and parent is not None:
        yield from _forwarded(parent, index - (op.name == "scf.condition"))
    elif op.name == "scf.for":
        if index >= 3:
            yield from _forwarded(op, index - 3)
        else:
            yield op.regions[0].block.args[0]
    elif op.name == "scf.while":
        yield op.regions[0].block.args[index]
    elif op.name in ("cf.br", "cf.cond_br"):
        for block in op.successors:
            yield from block.args
    else:
        yield from op.results
        yield from [each for region in op.regions for block in region.blocks for each in block.args]


def _forwarded(parent: Operation, index: int) -> Iterator[SSAValue]:
    """Yields what an operand of the end of a body becomes."""
    if parent.name == "scf.for":
        yield from (parent.regions[0].block.args[index + 1], parent.results[index])
    elif parent.name == "scf.while":
        before, after = (region.block for region in parent.regions)
        for args in (before.args, after.args, parent.results):
            if 0 <= index < len(args):
                yield args[index]
    elif 0 <= index < len(parent.results):
        yield parent.results[index]
    else:
        yield from parent.results


__all__ = ["distance_moves", "moves_by_distance"]

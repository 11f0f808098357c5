"""Finds the operations from which values are computed, backwards: of what loops and branches pass, that at the same place."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from xdsl.ir import Block, BlockArgument, Operation, OpResult, SSAValue

from ...tt.analysis.control_flow import terminator


def computing(function: Operation, values: Sequence[SSAValue], around: Sequence[Operation]) -> list[Operation]:
    """Returns the operations from which values are computed, and what controls these and the operations around."""
    found: dict[Operation, None] = {}
    seen: set[SSAValue] = set()
    entered: set[Operation] = set()
    waiting, standing = list(values), list(around)
    while waiting or standing:
        if standing:
            op = standing.pop()
            parent = op.parent_op()
            block = op.parent
            if block is not None and block.parent is not None and block is not block.parent.blocks[0]:
                waiting += [value for each in block.parent.blocks for value in (each.last_op.operands if each.last_op else ())]
            if parent is not None and parent is not function and parent not in entered:
                entered.add(parent)
                found[parent] = None
                waiting += _controls(parent)
                standing.append(parent)
            continue
        value = waiting.pop()
        if value in seen:
            continue
        seen.add(value)
        if isinstance(value, BlockArgument):
            parent = value.block.parent_op()
            if parent is None or (parent is function and value.block is function.regions[0].blocks[0]):
                continue
            standing += [] if value.block.first_op is None else [value.block.first_op]
            waiting += _passed(parent, value)
            continue
        assert isinstance(value, OpResult)
        op = value.op
        found[op] = None
        standing.append(op)
        if any(block.last_op is not None for region in op.regions for block in region.blocks):
            waiting += _results(op, value.index)
            found.update(dict.fromkeys(_inner(op)))
        else:
            waiting += op.operands
    return list(found)


def _controls(parent: Operation) -> list[SSAValue]:
    """Returns the values that decide whether and how often the regions of an operation run."""
    if parent.name == "scf.while":
        return [terminator(parent.regions[0].block).operands[0]]
    return list(parent.operands[:3] if parent.name == "scf.for" else parent.operands)


def _results(op: Operation, index: int) -> Iterator[SSAValue]:
    """Yields what a result of an operation with regions may be, and what decides that; of unknown ones all that is passed."""
    blocks = _only_blocks(op)
    if blocks is not None:
        yielded = [each.last_op for each in blocks]
        names = [each.name for each in yielded if each is not None]
        if op.name == "scf.for" and names == ["scf.yield"]:
            yield from op.operands[:3]
            yield op.operands[3 + index]
            yield terminator(blocks[0]).operands[index]
            return
        if op.name == "scf.if" and names == ["scf.yield", "scf.yield"]:
            yield op.operands[0]
            yield from [terminator(each).operands[index] for each in blocks]
            return
        if op.name == "scf.while" and names == ["scf.condition", "scf.yield"]:
            yield terminator(blocks[0]).operands[0]
            yield terminator(blocks[0]).operands[1 + index]
            return
    yield from _all_passed(op)


def _passed(parent: Operation, value: BlockArgument) -> Iterator[SSAValue]:
    """Yields what may be passed to the argument of a block, and what decides that; of unknown ones all that is passed."""
    blocks = _only_blocks(parent)
    if blocks is not None:
        index = value.index
        if parent.name == "scf.for":
            yield from parent.operands[:3]
            if index:
                yield parent.operands[2 + index]
                yield terminator(blocks[0]).operands[index - 1]
            return
        if parent.name == "scf.while":
            if value.block is blocks[0]:
                yield parent.operands[index]
                yield terminator(blocks[1]).operands[index]
            else:
                yield terminator(blocks[0]).operands[1 + index]
            return
    yield from _all_passed(parent)


def _all_passed(op: Operation) -> Iterator[SSAValue]:
    yield from op.operands
    for region in op.regions:
        for block in region.blocks:
            if block.last_op is not None:
                yield from block.last_op.operands


def _only_blocks(op: Operation) -> list[Block] | None:
    """Returns the block of each region; None if one has several, or none."""
    regions = [list(region.blocks) for region in op.regions]
    return [each[0] for each in regions] if all(len(each) == 1 for each in regions) else None


def _inner(op: Operation) -> Iterator[Operation]:
    """Yields the operations in regions of what is no control flow: all of them make the result."""
    if op.name.startswith("scf."):
        return
    for each in op.walk():
        if each is not op and each.results:
            yield each


__all__ = ["computing"]

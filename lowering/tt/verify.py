"""Verification of a whole function or module, with joinery's errors.

Beyond the operations' own verifiers it checks what xDSL leaves out: that a value is defined before it is
used, and that the regions of `scf` operations carry the types of their operands and results.
"""

from __future__ import annotations

from xdsl.ir import Attribute, Block, Operation, Region, SSAValue
from xdsl.traits import IsTerminator
from xdsl.utils.exceptions import VerifyException

from ...promotion.errors import InternalError, JoineryError
from . import types as t
from .checks import expect_type, expect_types, fail


def verify(op: Operation, error: type[JoineryError] = InternalError) -> None:
    """Check `op` and everything in it.

    Raises:
        error: the first thing that is wrong, with the operation's text. `InternalError` by default, since
            block programs are made by joinery itself; readers of text pass `UserError`.
    """
    for inner in op.walk():
        try:
            _check_regions(inner)
            inner.verify(verify_nested_ops=False)
        except VerifyException as problem:
            raise error(f"{_cause(problem)}\n  in: {_one_line(inner)}") from None
    try:
        _check_order(op)
    except VerifyException as problem:
        raise error(str(problem)) from None


def _cause(problem: VerifyException) -> str:
    """The message of the check itself; xDSL wraps it into a listing of the whole function."""
    cause: BaseException = problem
    while isinstance(cause.__cause__, VerifyException):
        cause = cause.__cause__
    return str(cause).strip()


def _one_line(op: Operation) -> str:
    try:
        text = str(op).split("\n")[0]
    except Exception:  # an operation too broken to print still has a name
        text = op.name
    return text if len(text) <= 240 else f"{text[:240]} …"


def _end(op: Operation, region: Region, name: str) -> Operation:
    """The terminator of a region of one block."""
    block = region.block
    if block.last_op is None or not block.last_op.has_trait(IsTerminator):
        fail(op, f"a region does not end in {name}")
    if block.last_op.name != name:
        fail(op, f"a region ends in {block.last_op.name}, expected {name}")
    return block.last_op


def _argument_types(region: Region) -> list[Attribute]:
    return [argument.type for argument in region.block.args]


def _check_regions(op: Operation) -> None:
    if op.name not in ("scf.for", "scf.if", "scf.while"):
        return
    for region in op.regions:
        if len(region.blocks) != 1 and not (
            op.name == "scf.if" and not region.blocks and region is op.regions[1]
        ):
            fail(op, f"a region has {len(region.blocks)} blocks, expected one")
    if op.name == "scf.for":
        low, high, step, *inits = [value.type for value in op.operands]
        if not t.is_integer(low) or t.is_tensor(low):
            fail(op, f"the lower bound is {low}, expected a scalar integer")
        expect_type(op, "the upper bound", high, low)
        expect_type(op, "the step", step, low)
        expect_types(op, "region arguments", _argument_types(op.regions[0]), [low, *inits])
        expect_types(op, "yielded values", _end(op, op.regions[0], "scf.yield").operand_types, inits)
        expect_types(op, "results", op.result_types, inits)
    elif op.name == "scf.if":
        expect_type(op, "the condition", op.operands[0].type, t.I1)
        for region in op.regions:
            if region.blocks:
                expect_types(
                    op, "yielded values", _end(op, region, "scf.yield").operand_types, op.result_types
                )
        if op.results and not op.regions[1].blocks:
            fail(op, "has results but no else region")
    else:
        before, after = op.regions
        expect_types(op, "arguments of the first region", _argument_types(before), op.operand_types)
        condition, *passed = _end(op, before, "scf.condition").operand_types
        expect_type(op, "the condition", condition, t.I1)
        expect_types(op, "values passed by scf.condition", passed, op.result_types)
        expect_types(op, "arguments of the second region", _argument_types(after), op.result_types)
        expect_types(op, "yielded values", _end(op, after, "scf.yield").operand_types, op.operand_types)


def _check_order(root: Operation) -> None:
    """Every operand is defined before its use: earlier in the block, in an enclosing block, or in a
    dominating one."""
    _check_block_order(root, set())


def _check_block_order(op: Operation, visible: set[SSAValue]) -> None:
    for region in op.regions:
        if len(region.blocks) > 1:
            _check_branching_region(region, visible)
            continue
        for block in region.blocks:
            inside = visible | set(block.args)
            _check_operations(block, inside)


def _check_operations(block: Block, inside: set[SSAValue]) -> None:
    for op in block.ops:
        for operand in op.operands:
            if operand not in inside:
                raise VerifyException(
                    f"{op.name}: an operand is used before its definition\n  in: {_one_line(op)}"
                )
        if op.regions:
            _check_block_order(op, inside)
        inside.update(op.results)


def _check_branching_region(region: Region, visible: set[SSAValue]) -> None:
    dominators = _dominators(region)
    for block, above in dominators.items():
        inside = visible | set(block.args)
        for other in above - {block}:
            inside.update(other.args)
            inside.update(result for op in other.ops for result in op.results)
        _check_operations(block, inside)


def _dominators(region: Region) -> dict[Block, set[Block]]:
    """Block → the blocks that every path from the entry to it passes, itself included. Unreachable blocks are
    left out: any use is legal there (texts made by a front end have such blocks)."""
    entry = region.blocks[0]
    order, seen = [entry], {entry}
    predecessors: dict[Block, list[Block]] = {entry: []}
    for block in order:
        for successor in block.last_op.successors if block.last_op is not None else ():
            predecessors.setdefault(successor, []).append(block)
            if successor not in seen:
                seen.add(successor)
                order.append(successor)
    found = {block: set(order) for block in order}
    found[entry] = {entry}
    changed = True
    while changed:
        changed = False
        for block in order[1:]:
            new = {block} | set.intersection(*(found[before] for before in predecessors[block]))
            if new != found[block]:
                found[block], changed = new, True
    return found

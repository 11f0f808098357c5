"""Verifies whole functions and modules, with joinery's errors.

Beyond the operations' own verifiers this checks what xDSL leaves out: that a value is defined before it is
used, and that the regions of `scf` operations carry the types of their operands and results.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from xdsl.dialects.builtin import IndexType
from xdsl.ir import Attribute, Block, Operation, Region, SSAValue
from xdsl.traits import IsTerminator, NoTerminator
from xdsl.utils.exceptions import VerifyException

from ...promotion.errors import InternalError, JoineryError, printable
from ..tt.analysis.control_flow import terminator
from . import types as t
from .analysis.dominance import dominated
from .checks import IsolatedByOrder, expect_type, expect_types, fail
from .symbols import symbol_index


def verify(op: Operation, error: type[JoineryError] = InternalError) -> None:
    """Check `op` and everything in it.

    Raises:
        error: the first thing that is wrong, with the operation's text. `InternalError` by default, since
            block programs are made by joinery itself; readers of text pass `UserError`.
    """
    problem = first_problem(op)
    if problem is not None:
        raise error(problem[0])


class Origin(Protocol):
    """What operations were created from. is_sound: an equal operation passed its verifier, which depends on no context."""

    is_sound: bool

    def passed(self) -> None:
        """Record that an operation created from it passed its verifier."""


class Origins(Protocol):
    """What operations were created from, as far as that is known: a mapping, or what finds it when it is asked."""

    def get(self, op: Operation, /) -> Origin | None: ...


def first_problem(op: Operation, origins: Origins | None = None) -> tuple[str, Operation] | None:
    """Return the first fault in `op` and everything in it, and the faulty operation; None if there is none.
    origins: what operations were created from; equal operations are verified once."""
    of: Origins = {} if origins is None else origins
    with symbol_index():
        for inner in _in_order(op, []):
            try:
                if inner.regions:
                    _check_regions(inner)
                _check_position(inner)
                origin = of.get(inner)
                if origin is None:
                    inner.verify_()
                elif not origin.is_sound:
                    inner.verify_()
                    origin.passed()
            except Exception as problem:  # verifiers meet malformed operations: not all of them fail in order
                return f"{_cause(problem)}\n  in: {_one_line(inner)}", inner
    try:
        _check_order(op)
    except _Undefined as problem:
        message = f"{problem.op.name}: an operand is used before its definition\n  in: {_one_line(problem.op)}"
        return message, problem.op
    return None


def _in_order(op: Operation, found: list[Operation]) -> list[Operation]:
    """Append an operation and everything in it, each operation before what is in it."""
    found.append(op)
    for region in op.regions:
        for block in region.blocks:
            for inner in block.ops:
                if inner.regions:
                    _in_order(inner, found)
                else:
                    found.append(inner)
    return found


class _Undefined(Exception):
    """Raised for an operand that is used where its definition does not reach."""

    def __init__(self, op: Operation) -> None:
        super().__init__()
        self.op = op


def _cause(problem: BaseException) -> str:
    """Return the message of the check itself, which xDSL wraps into a listing of the whole function."""
    chain = [problem]
    while (inner := chain[-1].__cause__ or chain[-1].__context__) is not None:
        chain.append(inner)
    own = [each for each in chain if isinstance(each, VerifyException)]
    message = printable(str((own or chain)[-1]).strip()) or type(chain[-1]).__name__
    return message if len(message) <= 1000 else f"{message[:1000]} …"


def _check_position(op: Operation) -> None:
    """Check that blocks end in terminators, and that branches stay in their region."""
    block = op.parent
    if op.successor_uses:
        if block is None or block.parent is None or block.last_op is not op:
            fail(op, "branches, but does not end a block")
        if any(successor.parent is not block.parent for successor in op.successors):
            fail(op, "branches to a block of another region")
        _check_passed(op)
    if block is None or block.last_op is not op or op.has_trait(IsTerminator):
        return
    region = block.parent
    holder = region.parent if region is not None else None
    if region is not None and (
        region.blocks.first is not region.blocks.last or (holder is not None and not holder.has_trait(NoTerminator))
    ):
        fail(op, "ends a block, but is no terminator")


def _check_passed(op: Operation) -> None:
    """Check that a branch passes values of the types that the blocks take, and never to the first block of a
    region."""
    from xdsl.dialects import cf  # texts alone have branches

    passed: list[Sequence[SSAValue]]
    if isinstance(op, cf.BranchOp):
        passed = [op.arguments]
    elif isinstance(op, cf.ConditionalBranchOp):
        passed = [op.then_arguments, op.else_arguments]
    elif isinstance(op, cf.SwitchOp):
        passed = [op.default_operands, *op.case_operand]
    else:
        return
    if len(passed) != len(op.successors):
        fail(op, f"{len(passed)} lists of operands for {len(op.successors)} blocks")
    for number, (values, block) in enumerate(zip(passed, op.successors, strict=True)):
        region = block.parent
        if region is not None and block is region.blocks.first:
            fail(op, "branches to the first block of its region, which nothing may enter again")
        what = f"values passed to block {number} of the branch"
        expect_types(op, what, [value.type for value in values], [argument.type for argument in block.args])


def _one_line(op: Operation) -> str:
    try:
        text = printable(str(op).split("\n")[0])
    except Exception:  # an operation too broken to print still has a name
        text = op.name
    return text if len(text) <= 240 else f"{text[:240]} …"


def _end(op: Operation, region: Region, name: str) -> Operation:
    """Return the terminator of a region of one block, and check that it has this name."""
    block = region.block
    if block.last_op is None or not block.last_op.has_trait(IsTerminator):
        fail(op, f"a region does not end in {name}")
    if terminator(block).name != name:
        fail(op, f"a region ends in {terminator(block).name}, expected {name}")
    return block.last_op


def _argument_types(region: Region) -> list[Attribute]:
    return [argument.type for argument in region.block.args]


def _check_regions(op: Operation) -> None:
    if op.name == "scf.execute_region":
        ends = [block.last_op for block in op.regions[0].blocks]
        for end in ends:
            if end is not None and end.name == "scf.yield":
                expect_types(op, "yielded values", end.operand_types, op.result_types)
        return
    if op.name not in ("scf.for", "scf.if", "scf.while"):
        return
    for region in op.regions:
        if len(region.blocks) != 1 and not (
            op.name == "scf.if" and not region.blocks and region is op.regions[1]
        ):
            fail(op, f"a region has {len(region.blocks)} blocks, expected one")
    if op.name == "scf.for":
        low, high, step, *inits = [value.type for value in op.operands]
        if not (t.is_integer(low) or isinstance(low, IndexType)) or t.is_tensor(low):
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
    """Check that every operand is defined before its use: earlier in the block, in an enclosing block, or in
    a dominating one."""
    _check_inside(root, set())


def _check_inside(op: Operation, visible: set[int]) -> None:
    """Check the order inside the regions of an operation. `visible`: the values' ids. It is restored, since copies would take
    quadratic time. An operation that is isolated sees nothing of what is around it."""
    if op.has_trait(IsolatedByOrder):
        visible = set()
    for region in op.regions:
        first = region.blocks.first
        if first is None:
            continue
        if first is region.blocks.last:
            visible.difference_update(_check_block(first, visible))
            continue
        # Down the tree of dominators: what a block defines is visible in the blocks below it.
        below = dominated(region.blocks[0])
        waiting: list[tuple[Block | None, list[int]]] = [(first, [])]
        while waiting:
            block, defined = waiting.pop()
            if block is None:
                visible.difference_update(defined)
                continue
            waiting.append((None, _check_block(block, visible)))
            waiting.extend((child, []) for child in below.get(block, ()))


def _check_block(block: Block, visible: set[int]) -> list[int]:
    """Check the order in a block. Make visible what it defines, and return that."""
    defined = list(map(id, block.args))
    visible.update(defined)
    for op in block.ops:
        if not visible.issuperset(map(id, op.operands)):
            raise _Undefined(op)
        if op.regions:
            _check_inside(op, visible)
        results = list(map(id, op.results))
        visible.update(results)
        defined += results
    return defined

"""Performs pointer induction (strength reduction): a block of pointers or integers that a loop advances
uniformly becomes its initial value plus a scalar distance, and the loop carries the distance.

    for (p = start; …) { … p …; p += splat(s) }     →     for (d = 0; …) { … start + splat(d) …; d += s }

A thread of a GPU then has two registers for the distance, where it had two for every access, or recomputes
rows of a matrix with a multiplication instead of keeping them. The host back end recognizes such blocks by
itself.
"""

from __future__ import annotations

from dataclasses import dataclass

from xdsl.dialects import scf
from xdsl.dialects.builtin import DenseArrayBase, i64
from xdsl.ir import Attribute, BlockArgument, Operation, SSAValue

from .....promotion.errors import InternalError
from ....tt.analysis.control_flow import terminator
from ... import types as t
from ...constants import splat_value
from ...dialect.functions import FuncOp
from ...facts import FEW_POINTERS
from ..function_pass import FunctionPass
from ..rewriting import Rewriter
from .licm import hoist_invariants

_REPEATS = frozenset({"tt.splat", "tt.broadcast", "tt.expand_dims"})


@dataclass(frozen=True, slots=True)
class _Move:
    """The uniform step of a carried block. advance: "tt.addptr" or "arith.addi".  by: the step, a scalar value or a number."""

    advance: str
    by: SSAValue | int

    def distance(self, b: Rewriter, type_: Attribute) -> SSAValue:
        """Emits the distance of one iteration; i64 for pointers."""
        if isinstance(self.by, int):
            return b.const(self.by, type_)
        return self.by if self.by.type == type_ else b.cast("arith.extsi", self.by, type_)


@dataclass(frozen=True)
class PointerInduction(FunctionPass):
    """Lets loops carry the distance of blocks that they advance uniformly, in place of the blocks."""

    name = "pointer-induction"

    def run(self, function: FuncOp) -> None:
        changed = False
        kept = {op: _kept(op) for op in _loops(function)}
        for op, numbers in kept.items():
            moves = {number: move for number, move in uniform_moves(op).items() if number not in numbers}
            if moves:
                changed = True
                _rewrite(op, moves)
        if changed:
            hoist_invariants(function)

    def is_needed(self, function: FuncOp) -> bool:
        return any(uniform_moves(op).keys() - _kept(op) for op in _loops(function))


def _kept(op: scf.ForOp) -> frozenset[int]:
    """Returns the numbers of the carried values that are left as they are."""
    found = op.attributes.get(FEW_POINTERS)
    return frozenset(found.get_values()) if isinstance(found, DenseArrayBase) else frozenset()


def _loops(function: FuncOp) -> list[scf.ForOp]:
    """Returns the loops of a function, those inside others first: what they leave may be a distance for the
    outer one."""
    return [op for op in reversed(list(function.walk())) if isinstance(op, scf.ForOp)]


def uniform_moves(op: scf.ForOp) -> dict[int, _Move]:
    """Returns the carried blocks that the loop advances uniformly, by number, with their steps."""
    body = op.body.blocks[0]
    moves = {n: _move(argument, terminator(body).operands[n]) for n, argument in enumerate(body.args[1:])}
    return {number: move for number, move in moves.items() if move is not None}


def _move(argument: BlockArgument, following: SSAValue) -> _Move | None:
    op = following.owner
    if not t.is_tensor(argument.type) or not isinstance(op, Operation) or op.parent is not argument.block:
        return None
    if op.name not in ("tt.addptr", "arith.addi") or argument not in op.operands:
        return None
    origin = op.operands[1 if op.operands[0] is argument else 0]
    while isinstance(origin.owner, Operation) and origin.owner.name in _REPEATS:
        origin = origin.owner.operands[0]
    if not t.is_tensor(origin.type):
        return _Move(op.name, origin)
    if isinstance(origin.owner, Operation) and origin.owner.name == "arith.constant":
        number = splat_value(origin.owner.properties["value"])
        return None if number is None else _Move(op.name, int(number))
    return None


def _rewrite(op: scf.ForOp, moves: dict[int, _Move]) -> None:
    body, block = op.body.blocks[0], op.parent
    first, last = body.first_op, body.last_op
    if block is None or first is None or last is None:
        raise InternalError("a loop without a body, or in no block")
    starts = {number: op.operands[3 + number] for number in moves}
    before, inside, ending = Rewriter(op), Rewriter(first), Rewriter(last)
    carried = list(op.operands[3:])
    for number, move in moves.items():
        block_of = body.args[1 + number]
        own = body.insert_arg(i64 if move.advance == "tt.addptr" else t.elem(block_of.type), 1 + number)
        carried[number] = before.const(0, own.type)
        block_of.replace_all_uses_with(_moved(inside, move, starts[number], own))
        body.erase_arg(block_of)
        last.operands[number] = ending.binary("arith.addi", own, move.distance(ending, own.type))
    new = scf.ForOp.create(
        operands=[*op.operands[:3], *carried],
        result_types=[value.type for value in carried],
        regions=[op.detach_region(op.body)],
        attributes={name: value for name, value in op.attributes.items() if name != FEW_POINTERS},
        properties=op.properties,
    )
    new.location = op.location
    block.insert_op_before(new, op)
    after = Rewriter(op)
    results = enumerate(new.results)
    after.replace([_moved(after, moves[n], starts[n], result) if n in moves else result for n, result in results])


def _moved(b: Rewriter, move: _Move, start: SSAValue, distance: SSAValue) -> SSAValue:
    far = b.splat(distance, t.shape_of(start.type))
    return b.addptr(start, far) if move.advance == "tt.addptr" else b.binary("arith.addi", start, far)

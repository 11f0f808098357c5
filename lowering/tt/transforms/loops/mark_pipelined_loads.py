"""Marks the loads of a loop that can be done iterations before their uses: the part of software pipelining
that the text decides.

A block that feeds nothing but matrix products may lie in memory where the products read it, and be copied
there while earlier iterations are computed, as long as nothing that the loop writes can change it and its
addresses and masks take only arithmetic to find. `mark_loads` gives such loads `joinery.ahead`; what a later
iteration needs of the body is its `address_slice`. A back end that copies asynchronously decides in how many
stages, and by which instructions (Lam, "Software pipelining", PLDI 1988, for loops of which only loads run
ahead). Hosts ignore the mark.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import copysign

from xdsl.dialects import arith
from xdsl.dialects.builtin import UnitAttr
from xdsl.ir import Block, BlockArgument, Operation, OpResult, SSAValue

from ... import types as t
from ...analysis.aliasing import ATOMICS, WRITES
from ...analysis.control_flow import terminator
from ...constants import splat_value
from ...dialect.functions import FuncOp
from ...dialect.memory.descriptors import DescriptorLoadOp
from ...dialect.memory.pointers import LoadOp
from ...dialect.shapes import TransOp
from ...facts import PIPELINED
from ..function_pass import FunctionPass

_PURE = ("arith.", "tt.splat", "tt.addptr", "tt.expand_dims", "tt.broadcast", "tt.make_range", "tt.reshape", "tt.trans")
_SWAPPED = (1, 0)


def mark_loads(func: Operation) -> None:
    """Gives `joinery.ahead`, in place, to exactly those loads of scf.for loops that can be
    software-pipelined."""
    for op in func.walk():
        op.attributes.pop(PIPELINED, None)  # from a text that went through this pass before, or claims to
    for loop in func.walk():
        if loop.name == "scf.for":
            for load in _candidates(loop):
                load.attributes[PIPELINED] = UnitAttr()


def marked_loads(loop: Operation) -> list[Operation]:
    """Returns the loads of an scf.for that have the mark, in order, without those of loops in it."""
    return [op for op in loop.regions[0].block.ops if PIPELINED in op.attributes]


def address_slice(loop: Operation, loads: Sequence[Operation]) -> tuple[list[Operation], list[int]]:
    """Returns the operations of the body, and the carried values by number, that addresses and masks of
    marked loads come from, in order."""
    body = loop.regions[0].block
    found: set[Operation] = set()
    carried: set[int] = set()
    for load in loads:
        operations, numbers = _origins(load, body)
        found |= operations
        carried |= numbers
    return [op for op in body.ops if op in found], sorted(carried)


def uses_in_products(load: Operation) -> list[tuple[Operation, int, bool]]:
    """Returns (tt.dot, number of the operand, whether it is transposed) for each product that reads the
    result of a load; none if anything else does."""
    found: list[tuple[Operation, int, bool]] = []
    waiting: list[tuple[SSAValue, bool]] = [(load.results[0], False)]
    while waiting:
        value, transposed = waiting.pop()
        for use in value.uses:
            op = use.operation
            if isinstance(op, TransOp):
                waiting.append((op.results[0], transposed != (op.order.get_values() == _SWAPPED)))
            elif op.name == "tt.dot" and use.index < 2:
                found.append((op, use.index, transposed))
            else:
                return []
    return found


def _candidates(loop: Operation) -> list[Operation]:
    body = loop.regions[0].block
    if any(op.name in WRITES or op.name in ATOMICS for op in loop.walk()):
        return []
    loads = [op for op in body.ops if isinstance(op, LoadOp | DescriptorLoadOp)]
    return [load for load in loads if _feeds_products(load, body) and _is_arithmetic(load, body)]


def _feeds_products(load: Operation, body: Block) -> bool:
    """Returns whether products of the same iteration read the block and nothing else does, and masked
    elements are zeros, as copies leave them."""
    if len(t.shape_of(load.results[0].type)) != 2:
        return False
    if isinstance(load, LoadOp) and (load.isVolatile.value.data or not _fills_with_zeros(load)):
        return False
    found = uses_in_products(load)
    return bool(found) and all(op.parent is body for op, _, _ in found)


def _fills_with_zeros(load: LoadOp) -> bool:
    if load.other is None:
        return True
    op = load.other.owner
    number = splat_value(op.properties["value"]) if isinstance(op, arith.ConstantOp) else None
    return number == 0 and copysign(1.0, number) > 0


def _is_arithmetic(load: Operation, body: Block) -> bool:
    operations, _ = _origins(load, body)
    return all(op.name.startswith(_PURE) and not op.regions for op in operations)


def _origins(load: Operation, body: Block) -> tuple[set[Operation], set[int]]:
    """Returns the operations of the body, and the carried values by number, that address and mask of a load
    come from. A value that the loop carries comes from what the previous iteration yielded."""
    operations: set[Operation] = set()
    carried: set[int] = set()
    waiting = [*load.indices] if isinstance(load, DescriptorLoadOp) else [*load.operands[:2]]
    yielded = terminator(body).operands
    while waiting:
        value = waiting.pop()
        if isinstance(value, BlockArgument) and value.owner is body:
            number = value.index - 1  # the first is the induction variable
            if number >= 0 and number not in carried:
                carried.add(number)
                waiting.append(yielded[number])
        elif isinstance(value, OpResult) and value.op.parent is body and value.op not in operations:
            operations.add(value.op)
            waiting += value.op.operands
    return operations, carried


@dataclass(frozen=True)
class MarkPipelinedLoads(FunctionPass):
    """Marks loads that can be done iterations before the products that read them."""

    name = "mark-pipelined-loads"

    def run(self, function: FuncOp) -> None:
        mark_loads(function)

    def is_needed(self, function: FuncOp) -> bool:
        return any(PIPELINED in op.attributes for op in function.walk()) or any(
            _candidates(op) for op in function.walk() if op.name == "scf.for"
        )

"""Expands switches, loops that count unsigned numbers, and numbers of type `index`, into what back ends know.

`scf.index_switch` becomes nested `scf.if`, `cf.switch` a chain of `cf.cond_br`, and an `index` is an i64. Unsigned numbers are
in the order of the signed ones with the other upper bit, over which a loop then goes.
"""

from __future__ import annotations

from dataclasses import dataclass

from xdsl.dialects import cf, scf
from xdsl.dialects.builtin import IndexType, IntegerAttr, LocationAttr
from xdsl.ir import Block, Operation, Region, SSAValue
from xdsl.rewriter import Rewriter as Replacements

from .....promotion.errors import InternalError
from ... import types as t
from ...analysis.control_flow import counts_unsigned, parent_block, switch_edges, terminator
from ...dialect.functions import FuncOp
from ..folding import constant_of
from ..function_pass import FunctionPass
from ..rewriting import Rewriter


def expand_control(func: Operation) -> None:
    """Rewrites a function in place."""
    operations = list(func.walk())
    for op in operations[1:]:  # the first is the function, whose arguments keep their types
        _without_index(op)
    for op in operations:
        if op.name == "arith.index_cast":
            _cast(op)
        elif isinstance(op, cf.SwitchOp):
            _chain(op)
        elif isinstance(op, scf.IndexSwitchOp):
            _nest(op)
        elif counts_unsigned(op):
            _count_signed(op)


def _without_index(op: Operation) -> None:
    """Replaces `index` by i64 in the results, block arguments and constants of an operation."""
    arguments = [argument for region in op.regions for block in region.blocks for argument in block.args]
    for value in (*op.results, *arguments):
        if isinstance(t.elem(value.type), IndexType):
            Replacements.replace_value_with_new_type(value, t.with_elem(value.type, t.I64))
    if op.name == "arith.constant":
        number = op.properties["value"]
        if isinstance(number, IntegerAttr) and isinstance(number.type, IndexType):
            op.properties["value"] = IntegerAttr(number.value.data, t.I64)


def _cast(op: Operation) -> None:
    """Replaces a cast to or from `index`, which is signed: narrow numbers are extended, wide ones
    truncated."""
    w = Rewriter(op)
    (x,), type_ = op.operands, op.results[0].type
    name = "arith.extsi" if t.bit_width(x.type) < t.bit_width(type_) else "arith.trunci"
    w.replace([w.cast(name, x, t.elem(type_))])


def _count_signed(loop: Operation) -> None:
    """Makes a loop over unsigned numbers one over signed numbers.

    Their upper bit is another one, where the step is known to be positive as a signed number, too. Else it is the number of the
    iteration that is counted, in 64 bits; more than 2^63 - 1 iterations never end.
    """
    body, type_ = loop.regions[0].block, loop.operands[0].type
    step, bits = constant_of(loop.operands[2]), t.bit_width(type_)
    w = Rewriter(loop)
    counter, first = body.args[0], body.first_op
    if first is None:
        raise InternalError("a loop whose body has no end")
    inside = Rewriter(first)
    if step is not None and step > 0 and bits > 1:
        upper = -1 << (bits - 1)
        for position in range(2):
            loop.operands[position] = w.binary("arith.xori", loop.operands[position], w.const(upper, type_))
        number = inside.binary("arith.xori", counter, inside.const(upper, type_))
        counter.replace_uses_with_if(number, lambda use: use.operation is not number.owner)
    else:
        low, high, by = loop.operands[:3]
        distance = w.binary("arith.subi", w.binary("arith.subi", high, low), w.const(1, type_))
        wide = [x if bits == 64 else w.cast("arith.extui", x, t.I64) for x in (distance, by)]
        count = w.binary("arith.addi", w.binary("arith.divui", *wide), w.const(1, t.I64))
        none, most = w.const(0, t.I64), w.const((1 << 63) - 1, t.I64)
        count = w.select(w.cmpi("slt", count, none), most, count)
        count = w.select(w.cmpi("ult", low, high), count, none)
        for position, value in enumerate((none, count, w.const(1, t.I64))):
            loop.operands[position] = value
        Replacements.replace_value_with_new_type(counter, t.I64)
        counter = body.args[0]
        narrow = counter if bits == 64 else inside.cast("arith.trunci", counter, type_)
        moved = inside.binary("arith.muli", narrow, by)
        number = inside.binary("arith.addi", low, moved)
        own = narrow.owner, moved.owner, number.owner
        counter.replace_uses_with_if(number, lambda use: use.operation not in own)
    for said in (loop.properties, loop.attributes):
        said.pop("unsignedCmp", None)


def _chain(op: cf.SwitchOp) -> None:
    """Replaces a switch by a chain of blocks, one per case, that branch to where the case leads, or on to the
    next."""
    numbers, edges = switch_edges(op)
    w = Rewriter(op)
    holds = [w.cmpi("eq", op.flag, w.const(number, op.flag.type)) for number in numbers]
    block = parent_block(op)
    region = block.parent
    if region is None:
        raise InternalError("cf.switch stands in no region")
    default, values = edges.pop()
    location = op.location
    block.erase_op(op)
    for condition, edge in zip(holds[:-1], edges[:-1], strict=True):
        following = Block()
        _end(block, cf.ConditionalBranchOp(condition, *edge, following, []), location)
        region.insert_block_after(following, block)
        block = following
    last = cf.ConditionalBranchOp(holds[-1], *edges[-1], default, values) if holds else cf.BranchOp(default, *values)
    _end(block, last, location)


def _end(block: Block, branch: Operation, location: LocationAttr) -> None:
    branch.location = location
    block.add_op(branch)


def _nest(op: scf.IndexSwitchOp) -> None:
    """Replaces a switch by nested `scf.if`; the last case and the default are the two sides of the innermost
    one."""
    w = Rewriter(op)
    holds = [w.cmpi("eq", op.arg, w.const(int(number), t.I64)) for number in op.cases.iter_values()]
    otherwise, *regions = [op.detach_region(region) for region in (op.default_region, *list(op.case_regions))]
    types = list(op.result_types)
    block = parent_block(op)
    if not holds:
        w.replace(_inline(otherwise, block, op))
        return
    while True:
        made = scf.IfOp.create(operands=[holds.pop()], result_types=types, regions=[regions.pop(), otherwise])
        made.location = op.location
        if not holds:
            break
        otherwise = Region(Block([made, scf.YieldOp(*made.results)]))
    block.insert_op_before(made, op)
    w.replace(made.results)


def _inline(region: Region, block: Block, before: Operation) -> list[SSAValue]:
    """Moves the operations of a region of one block in front of an operation, and returns what the region
    yields."""
    body = region.block
    last = terminator(body)
    results = list(last.operands)
    body.erase_op(last)
    for op in list(body.ops):
        op.detach()  # type: ignore[no-untyped-call]
        block.insert_op_before(op, before)
    return results


@dataclass(frozen=True)
class ExpandControl(FunctionPass):
    """Turns switches into choices between two ways, unsigned loops into signed ones, and index numbers into i64."""

    name = "expand-control"

    def run(self, function: FuncOp) -> None:
        expand_control(function)

"""Finds the demanded elements of block values: the positions that are read.

A block of 128 rows over 5 real ones is masked where it is loaded and where it is stored; everything between would still work on
128 rows. This analysis runs backwards from the masks: the elements of a value that are demanded along a dimension are all of
them, or those where one comparison (an `arith.cmpi` along that dimension) is true, because every reader reads only there.
Loop nests then visit no others, and what they leave in scratch beyond is never read.

A text compares once where it loads and again where it stores. Comparisons with equal results count as one here: a product
before the store then finds the limit that its own loads have set.

Rows that are not computed may hold anything, so nothing that works on them may trap: divisors of integers are made safe before.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator, Sequence
from typing import Any

from xdsl.ir import Block, Operation, OpResult, SSAValue

from ....tt.analysis.control_flow import terminator
from ....tt.dialect.functions import FuncOp
from ...syntax import attributes, is_tensor, shape_of
from ..equal_values import Comparisons

ALL = "all"
Demanded = tuple[Any, ...]
"""Per dimension: None (no reader yet), the comparison that says where, or ALL."""

# Addresses keep every position: a value that was not computed must not become one.
_ELEMENTWISE = ("arith.", "math.", "tt.fp_to_fp", "tt.clampf", "tt.precise_", "tt.approx_", "tt.mulhiui", "tt.bitcast")


def join(left: Any, right: Any) -> Any:
    if left is None or left is right:
        return right
    return left if right is None else ALL


def wide_dim(sizes: Sequence[int]) -> int | None:
    """Returns the only dimension whose extent is not 1, if there is exactly one."""
    wide = [dim for dim, size in enumerate(sizes) if size > 1]
    return wide[0] if len(wide) == 1 else None


class DemandedElements:
    """The demanded elements of every block value of a function; `of` returns those of one value."""

    def __init__(self, function: FuncOp) -> None:
        body = function.body.blocks[0]
        self._found: dict[Any, Demanded] = {}
        self.comparisons = Comparisons(body)
        self._known_limits: dict[Any, Demanded] = {}
        self._changed = False
        self._block(body)

    def of(self, value: SSAValue) -> Iterator[tuple[int, Any]]:
        """Yields (dimension, comparison) pairs: the value is not read where the comparison is false."""
        for dim, where in enumerate(self._found.get(value, ())):
            if where is not None and where is not ALL:
                yield dim, where

    def _limits(self, mask: SSAValue) -> Demanded:
        """Returns, by dimension, a comparison that must hold where the mask is true, or ALL. Masks may share parts."""
        found = self._known_limits.get(mask)
        if found is None:
            found = self._known_limits[mask] = self._limits_of(mask)
        return found

    def _limits_of(self, mask: SSAValue) -> Demanded:
        sizes = shape_of(mask.type)
        if not isinstance(mask, OpResult):
            return (ALL,) * len(sizes)
        op = mask.op
        match op.name:
            case "arith.cmpi" if wide_dim(sizes) is not None and attributes(op)["predicate"] in ("slt", "sle"):
                where = self.comparisons.outermost(mask)
                return tuple([where if size > 1 else ALL for size in sizes])
            case "arith.andi":
                left, right = (self._limits(operand) for operand in op.operands)
                return tuple([b if a is ALL else a for a, b in zip(left, right, strict=True)])
            case "tt.expand_dims":
                axis = int(attributes(op)["axis"])
                inner = self._limits(op.operands[0])
                return (*inner[:axis], ALL, *inner[axis:])
            case "tt.broadcast":
                source = op.operands[0]
                pairs = zip(self._limits(source), shape_of(source.type), sizes, strict=True)
                return tuple([limit if before == after else ALL for limit, before, after in pairs])
            case "tt.trans":
                inner = self._limits(op.operands[0])
                return tuple([inner[int(d)] for d in attributes(op)["order"]])
        return (ALL,) * len(sizes)

    def _need(self, value: SSAValue, demanded: Sequence[Any]) -> None:
        if not is_tensor(value.type):
            return
        before = self._found.get(value)
        after = tuple(demanded) if before is None else tuple([join(a, b) for a, b in zip(before, demanded, strict=True)])
        if after != before:
            self._found[value] = after
            self._changed = True

    def _result(self, value: SSAValue) -> Demanded:
        """Returns the demanded elements of a result; None along dimensions that have no reader yet.

        Joining it with a later reader changes the answer, which is why loops repeat.
        """
        return self._found.get(value, (None,) * len(shape_of(value.type)))

    def _block(self, block: Block) -> None:
        for op in reversed(list(block.ops)):
            self._operation(op)

    def _operation(self, op: Any) -> None:
        match op.name:
            case "tt.store" if is_tensor(op.ptr.type):
                rank = len(shape_of(op.ptr.type))
                where = (ALL,) * rank if op.mask is None else self._limits(op.mask)
                self._need(op.value, where)
                for operand in (op.ptr, op.mask):
                    if operand is not None:
                        self._need(operand, (ALL,) * rank)
            case "tt.load" if is_tensor(op.ptr.type) and not attributes(op).get("isVolatile"):
                self._need(op.ptr, (ALL,) * len(shape_of(op.ptr.type)))
                for operand in (op.mask, op.other):
                    if operand is not None:
                        self._need(operand, self._result(op.results[0]))
            case "arith.select" if is_tensor(op.operands[0].type):
                self._select(op)
            case "tt.expand_dims":
                axis = int(attributes(op)["axis"])
                demanded = self._result(op.results[0])
                self._need(op.operands[0], (*demanded[:axis], *demanded[axis + 1 :]))
            case "tt.broadcast":
                source, result = op.operands[0], op.results[0]
                sizes = zip(self._result(result), shape_of(source.type), shape_of(result.type), strict=True)
                self._need(source, [where if before == after else ALL for where, before, after in sizes])
            case "tt.trans":
                order = [int(d) for d in attributes(op)["order"]]
                demanded = self._result(op.results[0])
                self._need(op.operands[0], [demanded[order.index(d)] for d in range(len(order))])
            case "tt.reduce" | "tt.scan":
                self._along(op)
            case "tt.dot":
                rows, columns = self._result(op.results[0])[-2:]
                batch = (ALL,) * (len(shape_of(op.results[0].type)) - 2)
                self._need(op.operands[0], (*batch, rows, ALL))
                self._need(op.operands[1], (*batch, ALL, columns))
                self._need(op.operands[2], self._result(op.results[0]))
            case "scf.for":
                self._loop(op)
            case "scf.if":
                for region in op.regions:
                    for inner in region.blocks:
                        self._yielded(op, inner)
                        self._block(inner)
            case "scf.yield":
                pass  # the owner says which elements of its operands are demanded
            case name if name.startswith(_ELEMENTWISE) and len(op.results) == 1:
                demanded = self._result(op.results[0])
                for operand in op.operands:
                    self._need(operand, demanded)
            case _:
                self._everything(op)

    def _everything(self, op: Operation) -> None:
        for operand in op.operands:
            self._need(operand, (ALL,) * len(shape_of(operand.type)))
        for region in op.regions:
            for block in region.blocks:
                for inner in block.ops:
                    self._everything(inner)

    def _select(self, op: Operation) -> None:
        """Demands the first choice only where the condition holds."""
        condition, if_true, if_false = op.operands
        demanded = self._result(op.results[0])
        self._need(condition, demanded)
        self._need(if_false, demanded)
        limits = self._limits(condition)
        self._need(if_true, [a if b is ALL or a is not ALL else b for a, b in zip(demanded, limits, strict=True)])

    def _along(self, op: Operation) -> None:
        axis = int(attributes(op)["axis"])
        kept = op.name == "tt.scan"
        ways = zip(*[self._result(result) for result in op.results], strict=True)
        demanded = tuple([functools.reduce(join, each) for each in ways])
        for operand in op.operands:
            self._need(operand, (*demanded[:axis], ALL, *demanded[axis + kept :]))

    def _yielded(self, op: Any, block: Any) -> None:
        for result, value in zip(op.results, terminator(block).operands, strict=True):
            self._need(value, self._result(result))

    def _loop(self, op: Any) -> None:
        """Repeats until a fixed point: the demanded elements of carried blocks can grow twice per dimension."""
        body = op.regions[0].blocks[0]
        arguments, inits = body.args[1:], op.operands[3:]
        outer = self._changed
        while True:
            self._changed = False
            self._yielded(op, body)
            for argument, value in zip(arguments, terminator(body).operands, strict=True):
                self._need(value, self._carried(argument, body))
            self._block(body)
            if not self._changed:
                break
            outer = True
        self._changed = outer
        for argument, init, result in zip(arguments, inits, op.results, strict=True):
            self._need(init, self._carried(argument, body))
            self._need(init, self._result(result))

    def _carried(self, argument: SSAValue, body: Block) -> Demanded:
        """Returns the demanded elements of a carried block in the previous iteration, whose comparisons are others."""
        return tuple([ALL if where not in (None, ALL) and _inside(where, body) else where for where in self._result(argument)])


def _inside(value: Any, body: Any) -> bool:
    block = value.op.parent
    while block is not None and block is not body:
        block = block.parent_block()
    return block is body

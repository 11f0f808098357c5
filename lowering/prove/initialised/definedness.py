"""Says of values when they are undefined: as formulas that may hold too often, and never too seldom.

A formula speaks of one instant of a run, in which a value was computed and what it is made of still is what it was then. Lanes
that are undefined hold some number there, as everywhere else; a formula uses the number of a value only beside the one which
says that this value is undefined. Where any of many lanes may be, a formula looks at one, whose index is an atom: in a run
with such a lane, it stands for that one, and in others for any.
"""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.dialects import cf
from xdsl.ir import Block, BlockArgument, Operation, OpResult, SSAValue

from ...tt import types as t
from ...tt.analysis.control_flow import terminator
from ...tt.dialect.attributes import property_number
from ..evaluate.contexts import NotModelled, context
from ..evaluate.elements import MOVES, element_of
from ..evaluate.evaluator import Evaluator, Lanes, Run
from ..evaluate.undefined import Undefined
from ..evaluate.values import Condition, Integer
from ..terms.atoms import LANE, PROGRAM
from ..terms.formulas import FALSE, TRUE, Formula, both, either, equal, is_larger, negated, within
from ..terms.polynomials import ZERO, Polynomial, TooLarge
from . import sources
from .carried import Carried

MAX_STEPS = 20_000
_MAX_DEPTH = 100
_MAX_FORMULA = 60
"""Largest formula that is written out wherever it is used; longer ones get a name."""


class Definedness:
    """When the values of a run are undefined.

    Attributes:
        run: the symbolic program.
    """

    def __init__(self, run: Run, possible: Undefined) -> None:
        """Starts with nothing looked at. possible: the values that may be undefined; all others are not."""
        self.run = run
        self._possible = possible
        self._carried = Carried(self)
        self._known: dict[tuple[Evaluator, SSAValue, Lanes], Formula] = {}
        self._steps_left = MAX_STEPS
        self._depth = 0

    def formula(self, ev: Evaluator, ssa: SSAValue, lanes: Lanes) -> Formula:
        """Returns when a lane of a value is undefined, as far as the conditions of a context hold."""
        if not self._possible.is_value(ssa):
            return FALSE
        key = (ev, ssa, lanes)
        found = self._known.get(key)
        if found is None:
            self._steps_left -= 1
            if self._steps_left < 0 or self._depth > _MAX_DEPTH:
                return TRUE
            self._depth += 1
            try:
                found = self._made(ev, ssa, lanes)
                if is_larger(found, _MAX_FORMULA):
                    found = self.run.terms.named(found)
            except (NotModelled, TooLarge):
                found = TRUE
            finally:
                self._depth -= 1
            self._known[key] = found
        return found

    def forget(self) -> dict[tuple[Evaluator, SSAValue, Lanes], Formula]:
        """Forgets all formulas, as what loops carry is assumed to be something else now, and returns them."""
        found, self._known = self._known, {}
        return found

    def remember(self, known: dict[tuple[Evaluator, SSAValue, Lanes], Formula]) -> None:
        """Has the formulas again that it had before."""
        self._known = known

    def anywhere(self, ev: Evaluator, ssa: SSAValue, of: Operation) -> Formula:
        """Returns when any lane of an operation's operand is undefined."""
        shape = t.shape_of(ssa.type)
        return self.formula(ev, ssa, tuple([self._any_lane(of, ssa, axis, extent, ()) for axis, extent in enumerate(shape)]))

    def _any_lane(self, op: Operation, ssa: SSAValue, axis: int, extent: int, lanes: Lanes) -> Polynomial:
        """Returns the index of a lane of an operand that is undefined, if there is one, for these lanes of the result."""
        if extent == 1:
            return ZERO
        depends = self.run.around(op.parent_op()) | self.run.terms.depends(*lanes) | {PROGRAM, LANE}
        return self.run.terms.atom(("undefined lane", op, ssa, axis, lanes), "lane()", 0, extent - 1, depends)

    def _made(self, ev: Evaluator, ssa: SSAValue, lanes: Lanes) -> Formula:
        if isinstance(ssa, BlockArgument):
            return self._argument(ev, ssa, lanes)
        assert isinstance(ssa, OpResult)
        op = ssa.op
        if op.name in MOVES:
            found = element_of(ev.terms, ssa, lanes)
            if found is not None:
                return self.formula(ev, *found)
        if op.name in sources.ABSORBING:
            return self._absorbed(ev, op, lanes)
        if op.name in sources.COMBINING:
            return self._combined(ev, op, lanes)
        if op.name in sources.MIXING:
            return self._mixed(ev, op)
        match op.name:
            case "tt.load" if not t.is_tensor(t.pointee(op.operands[0].type)):
                return self._read(ev, op, lanes, op.operands[1:2], op.operands[2:3])
            case "tt.atomic_rmw":
                return self._read(ev, op, lanes, op.operands[2:3], ())
            case "tt.atomic_load":
                return self._read(ev, op, lanes, op.operands[1:2], ())
            case "tt.atomic_cas":
                return self._read(ev, op, lanes, (), ())
            case "arith.select":
                condition = self._scalar_or(op.operands[0], lanes)
                truth = ev.condition(op.operands[0], condition).formula
                yes, no = [self.formula(ev, each, lanes) for each in op.operands[1:]]
                return either(self.formula(ev, op.operands[0], condition), both(truth, yes), both(negated(truth), no))
            case "tt.join":
                yes, no = [self.formula(ev, each, lanes[:-1]) for each in op.operands]
                first = equal(lanes[-1], 0)
                return either(both(first, yes), both(negated(first), no))
            case "tt.gather":
                return self._gathered(ev, op, lanes)
            case "tt.dot":
                return self._product(ev, op, lanes)
            case "scf.if" if all(len(region.blocks) == 1 for region in op.regions):
                return self._branched(ev, op, ssa.index, lanes)
            case "scf.execute_region" if len(op.regions[0].blocks) == 1:
                return self.formula(ev, terminator(op.regions[0].block).operands[ssa.index], lanes)
            case "scf.for" | "scf.while":
                return self._carried.result(ev, op, ssa.index, lanes)
        if sources.is_elementwise(op):
            return either(*[self.formula(ev, each, self._scalar_or(each, lanes)) for each in op.operands])
        return TRUE

    @staticmethod
    def _scalar_or(ssa: SSAValue, lanes: Lanes) -> Lanes:
        return lanes if t.is_tensor(ssa.type) else ()

    # Memory

    def _read(
        self, ev: Evaluator, op: Operation, lanes: Lanes, masks: Sequence[SSAValue], others: Sequence[SSAValue]
    ) -> Formula:
        """Returns when a lane of what an access reads is undefined. What memory holds is not."""
        address = self.formula(ev, op.operands[0], lanes)
        if not masks:
            return address
        index = self._scalar_or(masks[0], lanes)
        live = ev.condition(masks[0], index).formula
        rest = self.formula(ev, others[0], self._scalar_or(others[0], lanes)) if others else TRUE
        return either(self.formula(ev, masks[0], index), both(live, address), both(negated(live), rest))

    # Lanes

    def _absorbed(self, ev: Evaluator, op: Operation, lanes: Lanes) -> Formula:
        """Returns when a lane is undefined that one operand may decide alone, as false does: if it is defined itself."""
        x, y = op.operands
        one, two = self.formula(ev, x, lanes), self.formula(ev, y, lanes)
        by_one, by_two = self._decides(ev, op, x, lanes), self._decides(ev, op, y, lanes)
        return either(both(one, either(two, negated(by_two))), both(two, either(one, negated(by_one))))

    @staticmethod
    def _decides(ev: Evaluator, op: Operation, ssa: SSAValue, lanes: Lanes) -> Formula:
        """Returns when an operand is what decides the result whatever the other is: all zeros, or all ones."""
        found = ev.value(ssa, lanes)
        is_or = op.name == "arith.ori"
        if isinstance(found, Condition):
            return found.formula if is_or else negated(found.formula)
        return equal(ev.signed(found), -1 if is_or else 0) if isinstance(found, Integer) else FALSE

    def _combined(self, ev: Evaluator, op: Operation, lanes: Lanes) -> Formula:
        if sources.has_source(op):
            return TRUE
        axis = property_number(op, "axis")
        found = [self.formula(ev, each, ()) if not t.is_tensor(each.type) else TRUE for each in self._captured(op)]
        for operand in op.operands:
            shape = t.shape_of(operand.type)
            lane = self._any_lane(op, operand, axis, shape[axis], lanes)
            rest = lanes if op.name == "tt.reduce" else lanes[:axis] + lanes[axis + 1 :]
            found.append(self.formula(ev, operand, (*rest[:axis], lane, *rest[axis:])))
        return either(*found)

    def _captured(self, op: Operation) -> list[SSAValue]:
        return [each for each in sources.captured(op) if self._possible.is_value(each)]

    def _mixed(self, ev: Evaluator, op: Operation) -> Formula:
        if sources.has_source(op):
            return TRUE
        return either(*[self.anywhere(ev, each, op) for each in (*op.operands, *self._captured(op))])

    def _gathered(self, ev: Evaluator, op: Operation, lanes: Lanes) -> Formula:
        source, indices = op.operands
        axis = property_number(op, "axis")
        extent = t.shape_of(source.type)[axis]
        found = ev.value(indices, lanes)
        lane = self._any_lane(op, source, axis, extent, lanes)
        if isinstance(found, Integer):
            number = ev.signed(found)
            if ev.terms.fits(number, 0, extent - 1) or ev.is_shown(within(number, 0, extent - 1)):
                lane = number
        return either(self.formula(ev, indices, lanes), self.formula(ev, source, (*lanes[:axis], lane, *lanes[axis + 1 :])))

    def _product(self, ev: Evaluator, op: Operation, lanes: Lanes) -> Formula:
        a, b, c = op.operands[:3]
        *batch, row, column = lanes
        along = self._any_lane(op, a, 0, t.shape_of(a.type)[-1], lanes), self._any_lane(op, b, 1, t.shape_of(b.type)[-2], lanes)
        return either(
            self.formula(ev, a, (*batch, row, along[0])), self.formula(ev, b, (*batch, along[1], column)),
            self.formula(ev, c, lanes),
        )  # fmt: skip

    # Branches

    def _branched(self, ev: Evaluator, op: Operation, index: int, lanes: Lanes) -> Formula:
        condition = ev.condition(op.operands[0], ()).formula
        ways = []
        for truth, region in zip((condition, negated(condition)), op.regions, strict=True):
            ways.append(both(truth, self.formula(ev.under(truth), terminator(region.block).operands[index], lanes)))
        return either(self.formula(ev, op.operands[0], ()), *ways)

    def _argument(self, ev: Evaluator, ssa: BlockArgument, lanes: Lanes) -> Formula:
        block = ssa.block
        parent, region = block.parent_op(), block.parent
        assert region is not None
        assert parent is not None
        if parent.name in ("scf.for", "scf.while") and all(len(each.blocks) == 1 for each in parent.regions):
            return self._carried.argument(ev, parent, ssa, lanes)
        is_reachable = block is not region.blocks[0] and self.run.blocks.is_acyclic(region)
        if not is_reachable or not self.run.blocks.is_reachable(block):
            return TRUE
        found = []
        for source in self.run.blocks.sources(block):
            own = context(self.run, source)
            last = terminator(source)
            if isinstance(last, cf.ConditionalBranchOp):
                truth = own.condition(last.cond, ()).formula
                ways = [(last.then_block, truth, last.then_arguments), (last.else_block, negated(truth), last.else_arguments)]
                for to, condition, passed in ways:
                    if to is block:
                        under = own.under(condition)
                        found.append(both(under.formula, self.formula(under, passed[ssa.index], lanes)))
            else:
                found.append(both(own.formula, self.formula(own, last.operands[ssa.index], lanes)))
        return either(*found, *[self._decided(each) for each in self._before(block)])

    def _before(self, block: Block) -> list[Block]:
        """Returns the blocks that are passed between the one that every way to a block passes, and the block: that one, too."""
        blocks = self.run.blocks
        first = blocks.dominator(block)
        found: dict[Block, None] = {}
        waiting = list(blocks.sources(block))
        while waiting:
            each = waiting.pop()
            if each not in found:
                found[each] = None
                waiting += blocks.sources(each) if each is not first else ()
        return list(found)

    def _decided(self, block: Block) -> Formula:
        """Returns when a block runs, and where it leads is undefined."""
        last = terminator(block)
        if not isinstance(last, cf.ConditionalBranchOp) or not self._possible.is_value(last.cond):
            return FALSE
        own = context(self.run, block)
        return both(own.formula, self.formula(own, last.cond, ()))


__all__ = ["Definedness"]

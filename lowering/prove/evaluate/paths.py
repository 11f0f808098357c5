"""Has the rules of paths: the conditions under which an operation runs, and the values that branches merge."""

from __future__ import annotations

from collections.abc import Iterator

from xdsl.dialects import cf
from xdsl.ir import Block, BlockArgument, Operation, OpResult, SSAValue

from ...tt import types as t
from ...tt.analysis.control_flow import terminator
from ..terms.formulas import (
    FALSE,
    TRUE,
    Flag,
    Formula,
    both,
    either,
    equal,
    flags_of,
    is_larger,
    negated,
    polynomials_of,
    substituted,
)
from ..terms.polynomials import Polynomial
from .evaluator import Evaluator, Lanes
from .loops import earlier, iteration, runs
from .values import Condition, Integer, Needs, Pointer, Unknown, Value, integer, merged, of_ways, under

_STRUCTURED = frozenset({"scf.for", "scf.if", "scf.while", "scf.execute_region"})
_MAX_WAYS = 60
"""Largest condition of several ways to one block; beyond it the condition is left out."""


class NotModelled(Exception):
    """Raised for operations inside regions that have no rule. `reason`: what it is."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


# Paths


def path(ev: Evaluator, op: Operation) -> list[Condition]:
    """Returns the conditions under which an operation is executed, the outermost first.

    Where control flow is not followed a condition is left out, so that more runs are looked at than there are. Raises
    `NotModelled` inside regions of reductions and the like.
    """
    parents = []
    block = op.parent
    while block is not None:
        parent = block.parent_op()
        assert parent is not None
        parents.append((parent, block))
        if parent is ev.function:
            break
        block = parent.parent
    found: list[Condition] = []
    for parent, block in reversed(parents):
        if parent is not ev.function and parent.name not in _STRUCTURED:
            raise NotModelled(f"an access inside {parent.name}")
        found += _entered(ev, parent, block)
    return [each for each in found if each.formula != TRUE]


def _entered(ev: Evaluator, parent: Operation, block: Block) -> list[Condition]:
    """Returns the conditions under which a block of an operation is entered."""
    if parent.name == "scf.if":
        condition = ev.condition(parent.operands[0], ())
        if block is parent.regions[0].block:
            return [condition]
        return [Condition(negated(condition.formula), condition.needs)]
    if parent.name == "scf.for":
        return [runs(ev, parent)]
    if parent.name == "scf.while":
        condition = ev.condition(terminator(parent.regions[0].block).operands[0], ())
        goes_on = _went_on(ev, parent, condition)
        if block is not parent.regions[0].block:
            # What the condition needs is shown of every iteration, given those before it: an induction.
            return [Condition(goes_on), condition]
        return [Condition(goes_on, earlier(ev, parent, condition.needs, iteration(ev, parent), goes_on))]
    return _reached(ev, block)


def _went_on(ev: Evaluator, loop: Operation, condition: Condition) -> Formula:
    """Returns that the loop's condition held in the iteration before, if it depends on nothing but the iteration's number."""
    number = iteration(ev, loop)
    (atom,) = number.atoms
    key = (ev.copy, loop)
    others = {each for polynomial in polynomials_of((condition.formula,)) for each in polynomial.atoms} - {atom}
    if any(True for _ in flags_of((condition.formula,))) or any(key in ev.terms.atoms[each].depends for each in others):
        return TRUE
    return either(equal(number, 0), substituted(condition.formula, atom, number - 1))


def _reached(ev: Evaluator, block: Block) -> list[Condition]:
    """Returns the conditions under which branches lead to a block of a region without circles."""
    region = block.parent
    assert region is not None
    if block is region.blocks[0] or not ev.blocks.is_acyclic(region) or not ev.blocks.is_reachable(block):
        return []
    return _between(ev, region.blocks[0], block)


def _between(ev: Evaluator, top: Block, block: Block) -> list[Condition]:
    """Returns the conditions under which branches lead from a block to one that it dominates."""
    found: list[list[Condition]] = []
    while block is not top:
        found.append(_from_dominator(ev, block))
        block = ev.blocks.dominator(block)
    return [each for conditions in reversed(found) for each in conditions]


def _from_dominator(ev: Evaluator, block: Block) -> list[Condition]:
    """Returns the conditions under which branches lead to a block from its nearest dominator, made once.

    Of several ways, one must be taken. If they have too many conditions, these are left out.
    """
    found = ev.blocks.conditions.get(block)
    if found is None:
        ev.blocks.conditions[block] = []  # while it is made; left out where it asks for itself
        edges = list(_edges(ev, block))
        top = ev.blocks.dominator(block)
        if len(edges) == 1:
            found = [edges[0][1]]
        else:
            ways = [_whole([*_between(ev, top, source), condition]) for source, condition, _ in edges]
            formula = either(*[way.formula for way in ways])
            is_long = is_larger(formula, _MAX_WAYS)
            found = [] if is_long or formula == TRUE else [Condition(formula, merged(*[way.needs for way in ways]))]
        ev.blocks.conditions[block] = found
    return found


def _whole(conditions: list[Condition]) -> Condition:
    needs: Needs = ()
    formula: Formula = TRUE
    for each in conditions:
        needs = merged(needs, under(formula, each.needs))
        formula = both(formula, each.formula)
    return Condition(formula, needs)


def _edges(ev: Evaluator, block: Block) -> Iterator[tuple[Block, Condition, list[SSAValue]]]:
    """Yields the branches to a block: from where, under which condition, and the values that they pass."""
    for source in ev.blocks.sources(block):
        last = source.last_op
        if isinstance(last, cf.BranchOp) and last.successor is block:
            yield source, Condition(TRUE), list(last.arguments)
        elif isinstance(last, cf.ConditionalBranchOp):
            condition = ev.condition(last.cond, ())
            if last.then_block is block:
                yield source, condition, list(last.then_arguments)
            if last.else_block is block:
                yield source, Condition(negated(condition.formula), condition.needs), list(last.else_arguments)


def block_argument(ev: Evaluator, ssa: SSAValue, lanes: Lanes) -> Value | None:
    """Returns what branches pass to a block: the value of one of them, whose condition then holds.

    The conditions are those since the last block that every way passes: whoever has the value has come through that one.
    """
    assert isinstance(ssa, BlockArgument)
    region = ssa.block.parent
    assert region is not None
    if not t.is_integer(ssa.type) or t.bit_width(ssa.type) == 1:
        return None
    if not ev.blocks.is_acyclic(region) or not ev.blocks.is_reachable(ssa.block):
        return None
    ways: list[tuple[Formula, Polynomial]] = []
    needs: list[Needs] = []
    passes: list[tuple[Formula, Needs]] = []
    for number, (source, condition, passed) in enumerate(_edges(ev, ssa.block)):
        way = _whole([*_between(ev, ev.blocks.dominator(ssa.block), source), condition])
        exact, its = ev.signed(ev.integer(passed[ssa.index], lanes), terminator(source))
        flag = Flag(ev.terms.flag((ev.copy, ssa, lanes, number), "branch", ev.loops(ssa) | ev.terms.depends(*lanes)))
        taken = both(flag, way.formula)
        ways.append((taken, exact))
        needs.append(way.needs)
        passes.append((taken, its))
    depends = ev.loops(ssa).union(*[ev.terms.depends(exact) | ev.terms.formula_depends(taken) for taken, exact in ways])
    width = t.bit_width(ssa.type)
    half = 1 << (width - 1)
    made = ev.terms.atom(
        (ev.copy, ssa, lanes, *ways), f"merged {ssa.name_hint or ''}", -half, half - 1, depends,
        lambda made: (either(*[both(taken, equal(made, exact)) for taken, exact in ways]),),
    )  # fmt: skip
    return Integer(made, width, merged(*needs, of_ways(*passes)))


# Branches


def if_result(ev: Evaluator, ssa: SSAValue, lanes: Lanes) -> Value | None:
    """Returns what one of two branches yields."""
    assert isinstance(ssa, OpResult)
    op = ssa.op
    condition = ev.condition(op.operands[0], ())
    yes, no = [ev.value(terminator(region.block).operands[ssa.index], lanes) for region in op.regions]
    return chosen(ev, condition, yes, no)


def chosen(ev: Evaluator, condition: Condition, yes: Value, no: Value) -> Value | None:
    """Returns one of two values, by a condition."""
    formula = condition.formula
    match yes, no:
        case Integer(), Integer():
            needs = merged(condition.needs, of_ways((formula, yes.needs), (negated(formula), no.needs)))
            return integer(ev.terms.chosen(formula, yes.value, no.value), yes.width, needs)
        case Condition(), Condition():
            needs = merged(condition.needs, of_ways((formula, yes.needs), (negated(formula), no.needs)))
            return Condition(either(both(formula, yes.formula), both(negated(formula), no.formula)), needs)
        case Pointer(), Pointer() if yes.base == no.base:
            needs = merged(condition.needs, of_ways((formula, yes.needs), (negated(formula), no.needs)))
            return Pointer(yes.base, ev.terms.chosen(formula, yes.offset, no.offset), needs)
        case Pointer(), Pointer() if condition.needs or formula not in (TRUE, FALSE):
            return Unknown("a pointer into one of several arrays")
    if condition.needs:
        return None  # which of the two it is depends on numbers that may wrap
    if formula == TRUE:
        return yes
    if formula == FALSE:
        return no
    return yes if isinstance(yes, Unknown) else no if isinstance(no, Unknown) else None


__all__ = ["NotModelled", "block_argument", "chosen", "if_result", "path"]

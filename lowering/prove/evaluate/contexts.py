"""Has the contexts in which the operations of blocks run: the conditions of branches and loops around them."""

from __future__ import annotations

from collections.abc import Iterator

from xdsl.dialects import cf
from xdsl.ir import Block, Operation, SSAValue

from ...tt import types as t
from ...tt.analysis.control_flow import counts_unsigned, terminator
from ..terms.formulas import Formula, at_least, at_most, both, implies, less, negated
from ..terms.polynomials import Polynomial
from .evaluator import Evaluator, Run

Bounds = tuple[Polynomial, Polynomial, Polynomial]
"""First number, end and step of a loop that counts."""


class NotModelled(Exception):
    """Raised for operations inside regions that have no rule. `reason`: what it is."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


# Paths


def context(run: Run, block: Block) -> Evaluator:
    """Returns the context of the operations of a block: conditions that hold whenever the block runs, the outermost first.

    A condition is made in the context of the operation that asks it. Where control flow is not followed there is none, so that
    more runs are looked at than there are. Raises `NotModelled` inside regions of reductions and the like.
    """
    found = run.contexts.get(block)
    if found is None:
        found = run.contexts[block] = _entered(run, block)
    return found


def _entered(run: Run, block: Block) -> Evaluator:
    region, parent = block.parent, block.parent_op()
    assert region is not None
    assert parent is not None
    if parent is run.function:
        launched = both(*[at_least(axis, 1) for axis in run.grid])
        return _reached(run, block, Evaluator(run).under(launched) if block is region.blocks[0] else None)
    outer = context(run, parent.parent) if parent.parent is not None else Evaluator(run)
    match parent.name:
        case "scf.execute_region":
            return _reached(run, block, outer)
        case "scf.if" | "scf.for" | "scf.while" if len(region.blocks) > 1:
            raise NotModelled(f"several blocks in a region of {parent.name}")
        case "scf.if":
            condition = outer.condition(parent.operands[0], ()).formula
            return outer.under(condition if region is parent.regions[0] else negated(condition))
        case "scf.for":
            return outer.under(runs(run, parent))
        case "scf.while":
            if region is parent.regions[0]:
                return outer
            before = context(run, parent.regions[0].block)
            return before.under(before.condition(terminator(parent.regions[0].block).operands[0], ()).formula)
    raise NotModelled(f"an access inside {parent.name}")


def _reached(run: Run, block: Block, outer: Evaluator | None) -> Evaluator:
    """Returns the context of one of several blocks: that of its only source and the branch's condition, or its dominator's."""
    region = block.parent
    assert region is not None
    if block is region.blocks[0]:
        assert outer is not None
        return outer
    if not run.blocks.is_acyclic(region) or not run.blocks.is_reachable(block):
        return context(run, region.blocks[0])
    edges = list(_edges(run, block))
    if len(edges) == 1:
        source, condition, is_then = edges[0]
        before = context(run, source)
        if condition is None:
            return before
        formula = before.condition(condition, ()).formula
        return before.under(formula if is_then else negated(formula))
    return context(run, run.blocks.dominator(block))


def _edges(run: Run, block: Block) -> Iterator[tuple[Block, SSAValue | None, bool]]:
    """Yields the branches to a block: from where, the condition that is asked there, and what it is then."""
    for source in run.blocks.sources(block):
        last = source.last_op
        if isinstance(last, cf.BranchOp):
            yield source, None, True
        elif isinstance(last, cf.ConditionalBranchOp):
            if last.then_block is block:
                yield source, last.cond, True
            if last.else_block is block:
                yield source, last.cond, False


# Iterations


def bounds_of(run: Run, loop: Operation) -> Bounds | None:
    """Returns the bounds of a loop that counts upwards as signed numbers do; None if it is not shown to be one.

    They are made and shown where the loop begins, so that they hold of all its iterations. Devices count in the counter's own
    bits: a loop whose counter may wrap goes on with any number, and is none that counts.
    """
    if loop in run.bounds_of_loops:
        return run.bounds_of_loops[loop]
    run.bounds_of_loops[loop] = None
    found = None
    if not counts_unsigned(loop) and t.bit_width(loop.operands[0].type) > 1 and loop.parent is not None:
        ev = context(run, loop.parent)
        low, end, step = [ev.signed(ev.integer(operand, ())) for operand in loop.operands[:3]]
        if _is_positive(ev, step) and _stays_exact(ev, loop, low, end, step):
            found = low, end, step
    run.bounds_of_loops[loop] = found
    return found


def _is_positive(ev: Evaluator, step: Polynomial) -> bool:
    """Returns whether a step is shown to be 1 or more.

    Where the solver shows that the loop is never reached, it shows that of any step. What is made of a number that is none, as
    a quotient by it, would be no definition, so such a loop is none that counts.
    """
    least, most = ev.terms.range(step)
    if least is not None and least >= 1:
        return True
    return (most is None or most >= 1) and ev.is_shown(at_least(step, 1))


def _stays_exact(ev: Evaluator, loop: Operation, low: Polynomial, end: Polynomial, step: Polynomial) -> bool:
    """Returns whether the counter after every iteration that runs is shown to fit its type."""
    most = (1 << (t.bit_width(loop.operands[0].type) - 1)) - 1
    if not ev.run.wraps or step.number == 1 or ev.terms.fits(end + step, -most, most):
        return True  # of a step of 1 it is at most the end
    counter = low + iteration(ev.run, loop) * step
    return ev.is_shown(implies(less(counter, end), at_most(counter + step, most)))


def iteration(run: Run, loop: Operation) -> Polynomial:
    """Returns the number of the iteration, from 0."""
    high = None
    bounds = bounds_of(run, loop) if loop.name == "scf.for" else None
    if bounds is not None:
        (first, _), (_, last), (least, _) = [run.terms.range(each) for each in bounds]
        if first is not None and last is not None:
            high = max(0, last - 1 - first) // max(1, least or 1)
    # The key has all that is said of it, as it may be asked for under other conditions, too.
    return run.terms.atom((loop, "iteration", high), "iteration()", 0, high, run.around(loop))


def runs(run: Run, loop: Operation) -> Formula:
    """Returns the condition that the loop's body runs in the iteration."""
    bounds = bounds_of(run, loop)
    if bounds is None:
        return both()
    low, end, step = bounds
    return less(low + iteration(run, loop) * step, end)


__all__ = ["NotModelled", "bounds_of", "context", "iteration", "runs"]

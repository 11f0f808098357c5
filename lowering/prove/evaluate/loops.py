"""Has the rules of loops: counters, what loops carry from one iteration to the next, and what they leave."""

from __future__ import annotations

from xdsl.ir import BlockArgument, Operation, OpResult, SSAValue

from ...tt import types as t
from ...tt.analysis.control_flow import terminator
from ..terms.formulas import Formula, at_least, both, equal, implies, less, within
from ..terms.polynomials import ZERO, Polynomial
from .contexts import bounds_of, context, iteration
from .evaluator import Evaluator, Lanes, Run
from .invariants import MAX_OPEN, bounded, parts
from .values import Integer, Pointer, Unknown, Value, integer


def _iterations(run: Run, loop: Operation) -> Polynomial | None:
    """Returns how many iterations the loop makes."""
    bounds = bounds_of(run, loop)
    if bounds is None:
        return None
    low, end, step = bounds
    if step.number is not None:
        quotient, _ = run.terms.floor_parts(end - low + (step.number - 1), step)
        return run.terms.larger(quotient, ZERO)
    counts = at_least(step, 1)

    def facts(count: Polynomial) -> list[Formula]:
        last = low + (count - 1) * step
        return [
            implies(both(counts, less(low, end)), both(at_least(count, 1), less(last, end), at_least(last + step, end))),
            implies(both(counts, at_least(low, end)), equal(count, 0)),
        ]

    return run.terms.atom(("iterations", low, end, step), "iterations()", 0, None, run.terms.depends(low, end, step), facts)


# Values


def for_argument(ev: Evaluator, ssa: SSAValue, lanes: Lanes) -> Value | None:
    """Returns the counter of a loop, or a value that it carries."""
    assert isinstance(ssa, BlockArgument)
    loop = ssa.block.parent_op()
    assert loop is not None
    if ssa.index:
        number = ssa.index - 1
        found = _carried(ev, loop, number, lanes, iteration(ev.run, loop))
        return bounded(ev.run, ssa, loop, number, lanes) if found is None else found
    bounds = bounds_of(ev.run, loop)
    if bounds is None:
        return None
    low, _, step = bounds
    # Where the body runs this is from the first number to below the end.
    return Integer(low + iteration(ev.run, loop) * step, t.bit_width(ssa.type), is_number=True)


def for_result(ev: Evaluator, ssa: SSAValue, lanes: Lanes) -> Value | None:
    """Returns what a loop leaves."""
    assert isinstance(ssa, OpResult)
    count = _iterations(ev.run, ssa.op)
    found = None if count is None else _carried(ev, ssa.op, ssa.index, lanes, count)
    return bounded(ev.run, ssa, ssa.op, ssa.index, lanes) if found is None else found


def while_argument(ev: Evaluator, ssa: SSAValue, lanes: Lanes) -> Value | None:
    """Returns a value that a loop with a condition carries, or passes to its body."""
    assert isinstance(ssa, BlockArgument)
    loop = ssa.block.parent_op()
    assert loop is not None
    before = loop.regions[0].block
    if ssa.block is not before:
        return ev.value(terminator(before).operands[1 + ssa.index], lanes)
    found = _carried(ev, loop, ssa.index, lanes, iteration(ev.run, loop))
    return bounded(ev.run, ssa, loop, ssa.index, lanes) if found is None else found


def _carried(ev: Evaluator, loop: Operation, number: int, lanes: Lanes, count: Polynomial) -> Value | None:
    """Returns what is carried after a number of iterations: what it starts with, and as often what each of them adds."""
    _, start, _ = parts(loop, number)
    first = ev.value(start, lanes)
    match first:
        case Integer(value, width):
            increment = _increment(ev.run, loop, number, lanes, first)
            if increment is None:
                return None
            if loop.name == "scf.while" and _stays_exact(ev.run, loop, number, lanes, increment, width):
                return Integer(ev.signed(first) + count * increment, width, is_number=True)
            return integer(value + count * increment, width)
        case Pointer(base, offset):
            increment = _increment(ev.run, loop, number, lanes, first)
            if increment is not None:
                return Pointer(base, offset + count * increment)
            if _keeps_array(ev.run, loop, number, lanes, base):
                return Pointer(base, _free_offset(ev.run, loop, number, lanes, "any offset"))
            return Unknown("a pointer that a loop leads into several arrays")
    return None


def _free_offset(run: Run, loop: Operation, number: int, lanes: Lanes, what: str) -> Polynomial:
    depends = run.around(loop) | run.terms.depends(*lanes)
    return run.terms.atom((loop, number, lanes, what), "carried offset", depends=depends)


def _unknown(run: Run, loop: Operation, number: int, lanes: Lanes, width: int) -> Polynomial:
    """Returns any number of a width, which stands for a carried one in an induction."""
    half = 1 << (width - 1)
    depends = run.around(loop) | run.terms.depends(*lanes)
    return run.terms.atom((loop, number, lanes, "induction"), "carried()", -half, half - 1, depends)


def _following(run: Run, loop: Operation, number: int, lanes: Lanes, taken: Value) -> Value | None:
    """Returns what an iteration makes of a carried value, for which `taken` stands; None if too many are looked at.

    It is made in the context of any iteration, whose conditions hold in each: nothing that is known of whoever asks is used.
    """
    if run.open_loops >= MAX_OPEN:
        return None
    argument, _, following = parts(loop, number)
    run.open_loops += 1
    try:
        return context(run, loop.regions[0].block).taking(argument, lanes, taken).value(following, lanes)
    finally:
        run.open_loops -= 1


def _increment(run: Run, loop: Operation, number: int, lanes: Lanes, start: Integer | Pointer) -> Polynomial | None:
    """Returns what every iteration adds to a carried value; None if that is not always the same.

    Found by induction: with an unknown in place of the carried value, what the iteration makes of it is congruent to that and a
    term in which nothing changes from iteration to iteration.
    """
    base = start.base if isinstance(start, Pointer) else None
    key = (loop, number, lanes, base)
    if key in run.increments:
        return run.increments[key]
    taken: Value
    if isinstance(start, Integer):
        unknown = _unknown(run, loop, number, lanes, start.width)
        taken = Integer(unknown, start.width)
    else:
        unknown = _free_offset(run, loop, number, lanes, "induction")
        taken = Pointer(start.base, unknown)
    found: Polynomial | None = None
    match _following(run, loop, number, lanes, taken):
        case Integer(value) if base is None:
            found = value - unknown
        case Pointer(own, offset) if own == base:
            found = offset - unknown
        case None:
            return None  # more may be found when less is open
    if found is not None and loop in run.terms.depends(found, *lanes):
        found = None
    run.increments[key] = found
    return found


def _stays_exact(run: Run, loop: Operation, number: int, lanes: Lanes, increment: Polynomial, width: int) -> bool:
    """Returns whether a number that a loop with a condition carries never wraps.

    An iteration follows where the condition held. So if, with an unknown number in place of the carried one *and in the context
    of any iteration*, the condition says that the unknown and the increment fit, the next number is exactly their sum.
    """
    key = (loop, number, lanes, "exact")
    found = run.exact.get(key)
    if found is None:
        if not run.wraps:
            return True
        if run.open_loops >= MAX_OPEN:
            return False  # more may be shown when less is open
        run.exact[key] = False  # while it is asked
        half = 1 << (width - 1)
        unknown = _unknown(run, loop, number, lanes, width)
        before = loop.regions[0].block
        run.open_loops += 1
        try:
            ev = context(run, before).taking(before.args[number], lanes, Integer(unknown, width))
            holding = ev.under(ev.condition(terminator(before).operands[0], ()).formula)
            found = run.exact[key] = holding.is_shown(within(unknown + increment, -half, half - 1))
        finally:
            run.open_loops -= 1
    return found


def _keeps_array(run: Run, loop: Operation, number: int, lanes: Lanes, base: int) -> bool:
    """Returns whether a pointer that an iteration is given into an array leads into the same one afterwards."""
    last = _following(run, loop, number, lanes, Pointer(base, _free_offset(run, loop, number, lanes, "any offset")))
    return isinstance(last, Pointer) and last.base == base


__all__ = ["for_argument", "for_result", "while_argument"]

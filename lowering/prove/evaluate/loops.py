"""Has the rules of loops: iterations, counters, what loops carry from one iteration to the next, and what they leave."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import replace

from xdsl.ir import BlockArgument, Operation, OpResult, SSAValue

from ....promotion.dataclass import dataclass
from ...tt import types as t
from ...tt.analysis.control_flow import terminator
from ..terms.formulas import (
    TRUE,
    Formula,
    at_least,
    both,
    equal,
    implies,
    less,
)
from ..terms.polynomials import Polynomial
from ..terms.renaming import Renaming
from .evaluator import Evaluator, Lanes
from .values import Condition, Integer, Need, Needs, Pointer, Reads, Unknown, Value, integer, merged, under

_MAX_OPEN = 4
"""Most carried values that are looked at while others are."""

# Iterations


def counted_bounds(ev: Evaluator, loop: Operation) -> tuple[list[Polynomial], Needs]:
    """Returns the first number, the end and the step of a loop that counts, which needs a step of 1 or more."""
    numbers: list[Polynomial] = []
    needs: list[Needs] = []
    for operand in loop.operands[:3]:
        number, its = ev.signed(ev.integer(operand, ()), loop)
        numbers.append(number)
        needs.append(its)
    step, width = numbers[2], t.bit_width(loop.operands[2].type)
    least = ev.terms.range(step)[0]
    if (least is None or least < 1) and not ev.terms.is_non_negative(step - 1):
        # A number of this width that is as much too small as the step is below 1.
        too_small = step - 1 - (1 << (width - 1))
        needs.append((Need(too_small, width, TRUE, loop, "the step of the loop, which must be 1 or more,"),))
    return numbers, merged(*needs)


def _is_unsigned(loop: Operation) -> bool:
    return "unsignedCmp" in loop.properties or "unsignedCmp" in loop.attributes


def is_counted(ev: Evaluator, loop: Operation) -> bool:
    """Returns whether a loop may count upwards, as signed numbers do. That its step is 1 or more is needed then.

    Nothing is known of the iterations of others: devices run a loop whose step is 0 or negative, and interpreters refuse it.
    """
    if loop.name != "scf.for" or _is_unsigned(loop):
        return False
    most = ev.terms.range(ev.integer(loop.operands[2], ()).value)[1]
    return most is None or most >= 1


def iteration(ev: Evaluator, loop: Operation) -> Polynomial:
    """Returns the number of the iteration, from 0."""
    key = (ev.copy, loop)
    high = None
    if is_counted(ev, loop):
        (low, end, step), _ = counted_bounds(ev, loop)
        first, last, least = ev.terms.range(low)[0], ev.terms.range(end)[1], ev.terms.range(step)[0]
        if first is not None and last is not None:
            high = max(0, (last - first) // max(1, least or 1))
    depends: frozenset[Hashable] = frozenset((key,)) | _around(ev, loop)
    return ev.terms.atom((*key, "iteration"), f"{ev.copy}_iteration", 0, high, depends)


def _around(ev: Evaluator, loop: Operation) -> frozenset[Hashable]:
    """Returns the loops around a loop."""
    found: set[Hashable] = set()
    parent = loop.parent_op()
    while parent is not None and parent is not ev.function:
        if parent.name in ("scf.for", "scf.while"):
            found.add((ev.copy, parent))
        parent = parent.parent_op()
    return frozenset(found)


def runs(ev: Evaluator, loop: Operation) -> Condition:
    """Returns the condition that the loop's body runs in the iteration."""
    if not is_counted(ev, loop):
        return Condition(TRUE)
    (low, end, step), needs = counted_bounds(ev, loop)
    index = low + iteration(ev, loop) * step
    return Condition(both(less(index, end), at_least(step, 1)), needs)


def _iterations(ev: Evaluator, loop: Operation) -> tuple[Polynomial, Needs] | None:
    """Returns how many iterations the loop makes."""
    if not is_counted(ev, loop):
        return None
    (low, end, step), needs = counted_bounds(ev, loop)
    if step.number is not None and step.number >= 1:
        quotient, _ = ev.terms.floor_parts(end - low + (step.number - 1), step)
        return ev.terms.larger(quotient, Polynomial([])), needs
    runs = at_least(step, 1)

    def facts(count: Polynomial) -> list[Formula]:
        last = low + (count - 1) * step
        return [
            implies(both(runs, less(low, end)), both(at_least(count, 1), less(last, end), at_least(last + step, end))),
            implies(both(runs, at_least(low, end)), equal(count, 0)),
        ]

    count = ev.terms.atom(("iterations", low, end, step), "iterations", 0, None, ev.terms.depends(low, end, step), facts)
    return count, needs


def earlier(
    ev: Evaluator, loop: Operation, needs: Needs, limit: Polynomial, given: Formula = TRUE,
    carried: tuple[int, Polynomial, Polynomial] | None = None,
) -> Needs:  # fmt: skip
    """Returns the needs of all iterations whose number is below a limit, given a condition on each of these iterations.

    An iteration has unknowns of its own: nothing that is known of the current one, its mask least of all, is known of the
    others. carried: (atom, start, delta) of a value that is `start + number * delta` there, for which the atom stands.
    """
    key = (ev.copy, loop)
    renaming = Renaming(ev.terms, key, ("earlier", carried, given))
    number = renaming.polynomial(iteration(ev, loop))
    if carried is not None:
        atom, start, delta = carried
        renaming.take(atom, start + number * delta)
    runs_there = runs(ev, loop) if loop.name == "scf.for" else Condition(TRUE)
    there = both(renaming.formula(runs_there.formula), less(number, limit), renaming.formula(given))
    some = at_least(limit, 1)
    found: list[Need | Reads] = list(runs_there.needs) if needs else []
    for need in needs:
        if isinstance(need, Reads):
            found.append(need)
        elif key in ev.terms.depends(need.value) | ev.terms.formula_depends(need.under):
            given_there = both(there, renaming.formula(need.under))
            found.append(replace(need, value=renaming.polynomial(need.value), under=given_there))
        else:
            found += under(some, (need,))
    return tuple(found)


# Values


def for_argument(ev: Evaluator, ssa: SSAValue, lanes: Lanes) -> Value | None:
    """Returns the counter of a loop, or a value that it carries."""
    assert isinstance(ssa, BlockArgument)
    loop = ssa.block.parent_op()
    assert loop is not None
    if ssa.index:
        return _carried(ev, loop, ssa.index - 1, lanes)
    if not is_counted(ev, loop):
        return None
    (low, _, step), needs = counted_bounds(ev, loop)
    return integer(low + iteration(ev, loop) * step, t.bit_width(ssa.type), needs)


def for_result(ev: Evaluator, ssa: SSAValue, lanes: Lanes) -> Value | None:
    """Returns what a loop leaves."""
    assert isinstance(ssa, OpResult)
    loop = ssa.op
    count = _iterations(ev, loop)
    steps = None if count is None else _steps(ev, loop, ssa.index, lanes)
    if count is None or steps is None:
        return None
    return _moved(steps, ev, loop, count[0], count[1])


@dataclass(frozen=True, slots=True)
class _Steps:
    """A carried value that starts with `start`, to which every iteration adds `delta`.

    Attributes:
        needs: what an iteration needs for that, in which `unknown` stands for the value that it is given.
    """

    start: Integer | Pointer
    delta: Polynomial
    needs: Needs
    unknown: int


def _moved(steps: _Steps, ev: Evaluator, loop: Operation, count: Polynomial, needs: Needs = ()) -> Value:
    """Returns what is carried after a number of iterations."""
    start = steps.start
    begin = start.value if isinstance(start, Integer) else start.offset
    before = earlier(ev, loop, steps.needs, count, carried=(steps.unknown, begin, steps.delta))
    whole = merged(start.needs, needs, before)
    if isinstance(start, Integer):
        return integer(begin + count * steps.delta, start.width, whole)
    return Pointer(start.base, begin + count * steps.delta, whole)


def _carried(ev: Evaluator, loop: Operation, number: int, lanes: Lanes) -> Value | None:
    steps = _steps(ev, loop, number, lanes)
    if steps is None:
        return _carried_freely(ev, loop, number, lanes)
    return _moved(steps, ev, loop, iteration(ev, loop))


def _carried_freely(ev: Evaluator, loop: Operation, number: int, lanes: Lanes) -> Value | None:
    """Returns a pointer into the array that the loop starts with, at any offset, if every iteration stays in that array."""
    argument, start, following = _parts(loop, number)
    if not t.is_pointer(argument.type):
        return None
    first = ev.value(start, lanes)
    if not isinstance(first, Pointer):
        return None
    made = _offset(ev, loop, number, lanes, "any offset")
    known = ev.assuming((argument, lanes), Pointer(first.base, made))
    try:
        last = ev.value(following, lanes)
    finally:
        ev.restore(known)
    if isinstance(last, Pointer) and last.base == first.base:
        return Pointer(first.base, made, first.needs)
    return Unknown("a pointer that a loop leads into several arrays")


def _offset(ev: Evaluator, loop: Operation, number: int, lanes: Lanes, what: str) -> Polynomial:
    depends: frozenset[Hashable] = frozenset([(ev.copy, loop)]) | _around(ev, loop)
    return ev.terms.atom((ev.copy, loop, number, lanes, what), "carried offset", depends=depends | ev.terms.depends(*lanes))


def _parts(loop: Operation, number: int) -> tuple[SSAValue, SSAValue, SSAValue]:
    """Returns a carried value's argument, what it starts with, and what an iteration makes of it."""
    first = loop.regions[0].block
    if loop.name == "scf.for":
        return first.args[number + 1], loop.operands[number + 3], terminator(first).operands[number]
    return first.args[number], loop.operands[number], terminator(loop.regions[1].block).operands[number]


def _steps(ev: Evaluator, loop: Operation, number: int, lanes: Lanes) -> _Steps | None:
    """Returns what a carried value starts with and what every iteration adds to it; None if that is not always the same.

    Found by induction: with an unknown in place of the carried value, what the iteration makes of it is that and a term in
    which nothing changes from iteration to iteration.
    """
    argument, start, following = _parts(loop, number)
    if ev.open_loops >= _MAX_OPEN:
        return None
    first = ev.value(start, lanes)
    unknown = _offset(ev, loop, number, lanes, "induction")
    taken: Value
    if isinstance(first, Integer):
        taken = Integer(unknown, first.width)
    elif isinstance(first, Pointer):
        taken = Pointer(first.base, unknown)
    else:
        return None
    ev.open_loops += 1
    known = ev.assuming((argument, lanes), taken)
    try:
        last = ev.value(following, lanes)
    finally:
        ev.restore(known)
        ev.open_loops -= 1
    if isinstance(first, Integer) and isinstance(last, Integer):
        delta = last.value - unknown
    elif isinstance(first, Pointer) and isinstance(last, Pointer) and first.base == last.base:
        delta = last.offset - unknown
    else:
        return None
    key = (ev.copy, loop)
    if key in ev.terms.depends(delta, *lanes):
        return None
    (atom,) = unknown.atoms
    return _Steps(first, delta, last.needs, atom)


def while_argument(ev: Evaluator, ssa: SSAValue, lanes: Lanes) -> Value | None:
    """Returns a value that a loop with a condition carries, or passes to its body."""
    assert isinstance(ssa, BlockArgument)
    loop = ssa.block.parent_op()
    assert loop is not None
    before = loop.regions[0].block
    if ssa.block is not before:
        return ev.value(terminator(before).operands[1 + ssa.index], lanes)
    return _carried(ev, loop, ssa.index, lanes)


__all__ = ["counted_bounds", "earlier", "for_argument", "for_result", "iteration", "runs", "while_argument"]

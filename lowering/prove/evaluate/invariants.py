"""Finds bounds of the integers that loops carry and that do not grow evenly, as those of a binary search, by induction.

Candidates are what the loop starts with, one more or less, 0 and -1, and the range of what an iteration yields. All that
hold where the loop begins are assumed at once of unknown numbers, in the context of any iteration. What the iteration is
not shown to keep is assumed no more, until one pass shows all that is left.
"""

from __future__ import annotations

from collections.abc import Iterable

from xdsl.ir import Operation, SSAValue

from ....promotion.dataclass import dataclass
from ...tt import types as t
from ...tt.analysis.control_flow import terminator
from ..terms.atoms import Terms
from ..terms.formulas import TRUE, Formula, at_least, at_most, both, implies
from ..terms.polynomials import ZERO, Polynomial, constant
from .contexts import NotModelled, context
from .evaluator import Evaluator, Invariant, Lanes, Run
from .values import Integer

MAX_OPEN = 4
"""Most carried values that are looked at while others are."""
_MAX_MEMBERS = 4
_MAX_PASSES = 8


@dataclass(frozen=True, slots=True)
class _Member:
    """A carried integer.

    Attributes:
        first: the number that the loop starts with.
        unknown: stands for the number before an iteration.
    """

    number: int
    lanes: Lanes
    argument: SSAValue
    start: Integer
    first: Polynomial
    following: SSAValue
    unknown: Polynomial


@dataclass(frozen=True, slots=True)
class _Bound:
    """That the number of a member is at least, or at most, a limit that is one number in all iterations."""

    member: _Member
    is_low: bool
    limit: Polynomial

    def of(self, number: Polynomial) -> Formula:
        return at_least(number, self.limit) if self.is_low else at_most(number, self.limit)


def parts(loop: Operation, number: int) -> tuple[SSAValue, SSAValue, SSAValue]:
    """Returns a carried value's argument, what it starts with, and what an iteration makes of it."""
    first = loop.regions[0].block
    if loop.name == "scf.for":
        return first.args[number + 1], loop.operands[number + 3], terminator(first).operands[number]
    return first.args[number], loop.operands[number], terminator(loop.regions[1].block).operands[number]


def bounded(run: Run, ssa: SSAValue, loop: Operation, number: int, lanes: Lanes) -> Integer | None:
    """Returns a carried integer, or what the loop leaves of it, of which bounds are known; None if nothing is.

    ssa: the argument or the result. A bound holds whatever number of iterations was made, none included.
    """
    if not t.is_integer(ssa.type) or t.bit_width(ssa.type) == 1 or any(len(each.blocks) != 1 for each in loop.regions):
        return None
    found = _invariant(run, loop, number, lanes)
    if found is None or isinstance(found, Integer):
        return found
    lows, highs = found
    half = 1 << (t.bit_width(ssa.type) - 1)
    low = max([-half, *[each.number for each in lows if each.number is not None]])
    high = min([half - 1, *[each.number for each in highs if each.number is not None]])
    if low > high:
        return None  # of a loop that is never reached anything is shown
    possible = both(
        *[at_most(one, two) for one in (*lows, constant(low)) for two in (*highs, constant(high))]
    )  # where not, the loop is not reached, and the number is any one

    def facts(made: Polynomial) -> list[Formula]:
        inside = both(*[at_least(made, each) for each in lows], *[at_most(made, each) for each in highs])
        return [implies(possible, inside)]

    depends = run.loops(ssa) | run.terms.depends(*lanes, *lows, *highs)
    key = ("carried", ssa, lanes, lows, highs)
    name = f"carried {ssa.name_hint or ''}".strip()
    return Integer(run.terms.atom(key, name, low, high, depends, facts), t.bit_width(ssa.type))


def _invariant(run: Run, loop: Operation, number: int, lanes: Lanes) -> Invariant:
    key = (loop, number, lanes)
    found: Invariant = None
    if key in run.invariants:
        found = run.invariants[key]
    elif loop not in run.open_invariants and run.open_loops < MAX_OPEN:  # else more may be found when less is open
        run.open_invariants.add(loop)
        run.open_loops += 1
        try:
            found = _found(run, loop, number, lanes)
        except NotModelled:
            found = None
        finally:
            run.open_loops -= 1
            run.open_invariants.discard(loop)
            run.forget(loop)  # the carried values were any numbers to whoever asked meanwhile
        run.invariants[key] = found
    return found


def _members(run: Run, loop: Operation, number: int, lanes: Lanes) -> list[_Member]:
    """Returns the carried integers that may bound each other: the one that is asked for, those of its shape, and scalars."""
    assert loop.parent is not None
    before = context(run, loop.parent)
    own = parts(loop, number)[0].type
    count = len(loop.operands) - (3 if loop.name == "scf.for" else 0)
    found = []
    for each in sorted(range(count), key=lambda each: each != number)[: 4 * _MAX_MEMBERS]:
        argument, start, following = parts(loop, each)
        kind = argument.type
        if not t.is_integer(kind) or t.bit_width(kind) == 1 or (t.is_tensor(kind) and t.shape_of(kind) != t.shape_of(own)):
            continue
        at = lanes if t.is_tensor(kind) else ()
        value = before.value(start, at)
        if not isinstance(value, Integer):
            continue
        first = before.signed(value)
        if loop in run.terms.depends(first, value.value, *at):
            continue
        half = 1 << (value.width - 1)
        depends = run.around(loop) | run.terms.depends(*at)
        unknown = run.terms.atom((loop, each, at, "invariant"), "carried()", -half, half - 1, depends)
        found.append(_Member(each, at, argument, value, first, following, unknown))
        if len(found) == _MAX_MEMBERS:
            break
    return found


def _found(run: Run, loop: Operation, number: int, lanes: Lanes) -> Invariant:
    members = _members(run, loop, number, lanes)
    if not members or members[0].number != number:
        return None
    bounds: list[_Bound] = []
    after = _after(run, loop, members, ())
    for member in members:
        value = after.value(member.following, member.lanes)
        if member is members[0] and isinstance(value, Integer) and value.value == member.start.value:
            return member.start  # whatever the carried numbers are
        bounds += _candidates(run.terms, loop, member, members, value if isinstance(value, Integer) else None)
    assert loop.parent is not None
    before = context(run, loop.parent)
    bounds = [each for each in bounds if _holds(before, each.of(each.member.first))]
    for _ in range(_MAX_PASSES):
        after = _after(run, loop, members, bounds)
        kept = [each for each in bounds if _holds(after, each.of(_number(after, each.member)))]
        if len(kept) == len(bounds):
            break
        bounds = kept
    else:
        return None
    own = [each for each in bounds if each.member is members[0]]
    lows = _strongest([each.limit for each in own if each.is_low], 1)
    highs = _strongest([each.limit for each in own if not each.is_low], -1)
    return (lows, highs) if lows or highs else None


def _after(run: Run, loop: Operation, members: Iterable[_Member], bounds: Iterable[_Bound]) -> Evaluator:
    """Returns the context of any iteration, in which unknown numbers that satisfy bounds stand for the carried ones."""
    first = loop.regions[0].block
    ev = context(run, first)
    for member in members:
        ev = ev.taking(member.argument, member.lanes, Integer(member.unknown, member.start.width))
    ev = ev.under(both(*[each.of(each.member.unknown) for each in bounds]))
    if loop.name == "scf.while":  # an iteration follows where the condition held
        ev = ev.under(ev.condition(terminator(first).operands[0], ()).formula)
    return ev


def _number(ev: Evaluator, member: _Member) -> Polynomial:
    return ev.signed(ev.integer(member.following, member.lanes))


def _holds(ev: Evaluator, claim: Formula) -> bool:
    return claim == TRUE or ev.is_shown(claim)


def _candidates(
    terms: Terms, loop: Operation, member: _Member, members: Iterable[_Member], following: Integer | None
) -> list[_Bound]:
    """Returns the bounds that are tried of a member."""
    lows, highs = [ZERO, constant(-1)], []
    for each in members:
        if terms.depends(each.first) <= terms.depends(member.unknown):
            lows += [each.first, each.first - 1]
            highs += [each.first, each.first + 1]
    half = 1 << (member.start.width - 1)
    if following is not None and terms.fits(following.value, -half, half - 1):
        (least, most), (low, high) = terms.range(following.value), terms.range(member.first)
        if least is not None and low is not None:
            lows.append(constant(min(least, low)))
        if most is not None and high is not None:
            highs.append(constant(max(most, high)))
    found = [_Bound(member, True, each) for each in dict.fromkeys(lows)]
    found += [_Bound(member, False, each) for each in dict.fromkeys(highs)]
    return [each for each in found if loop not in terms.depends(each.limit)]


def _strongest(limits: Iterable[Polynomial], sign: int) -> tuple[Polynomial, ...]:
    """Returns limits without those that another one is beyond by a number."""
    found: list[Polynomial] = []
    for limit in limits:
        distances = [((other - limit) * sign).number for other in limits]
        if not any(distance is not None and distance > 0 for distance in distances):
            found.append(limit)
    return tuple(dict.fromkeys(found))


__all__ = ["MAX_OPEN", "bounded", "parts"]

"""Has the rules of control flow: paths to operations, iterations and carried values of loops, values that branches merge."""

from __future__ import annotations

from collections.abc import Hashable, Iterator

from xdsl.dialects import cf
from xdsl.ir import Block, BlockArgument, Operation, OpResult, Region, SSAValue

from ...tt import types as t
from ...tt.analysis.control_flow import terminator
from ...tt.analysis.dominance import postorder
from ..terms.formulas import (
    FALSE,
    TRUE,
    Flag,
    Formula,
    at_least,
    both,
    either,
    equal,
    flags_of,
    implies,
    less,
    negated,
    polynomials_of,
    substituted,
)
from ..terms.polynomials import Polynomial
from .evaluator import Evaluator, Lanes
from .values import (
    Condition,
    Integer,
    Need,
    Needs,
    Pointer,
    Reads,
    Unknown,
    Value,
    integer,
    merged,
    replaced,
    under,
)

_MAX_OPEN = 4
"""Most carried values that are looked at while others are."""
_STRUCTURED = frozenset({"scf.for", "scf.if", "scf.while", "scf.execute_region"})


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
        return [_runs(ev, parent)]
    if parent.name == "scf.while":
        condition = ev.condition(terminator(parent.regions[0].block).operands[0], ())
        goes_on = _went_on(ev, parent, condition)
        return goes_on if block is parent.regions[0].block else [*goes_on, condition]
    return _reached(ev, block)


def _went_on(ev: Evaluator, loop: Operation, condition: Condition) -> list[Condition]:
    """Returns that the loop's condition held in the iteration before, if it depends on nothing but the iteration's number.

    By induction the numbers in it had not wrapped then, so it has no needs of its own.
    """
    number = iteration(ev, loop)
    (atom,) = number.atoms
    key = (ev.copy, loop)
    others = {each for polynomial in polynomials_of((condition.formula,)) for each in polynomial.atoms} - {atom}
    if any(True for _ in flags_of((condition.formula,))) or any(key in ev.terms.atoms[each].depends for each in others):
        return []
    return [Condition(either(equal(number, 0), substituted(condition.formula, atom, number - 1)))]


def _reached(ev: Evaluator, block: Block) -> list[Condition]:
    """Returns the conditions under which branches lead to a block of a region without circles."""
    region = block.parent
    assert region is not None
    if block is region.blocks[0] or not _is_acyclic(region):
        return []
    edges = list(_edges(ev, block))
    if len(edges) == 1:
        return [*_reached(ev, edges[0][0]), edges[0][1]]
    ways = [_whole([*_reached(ev, source), condition]) for source, condition, _ in edges]
    return [Condition(either(*[way.formula for way in ways]), merged(*[way.needs for way in ways]))]


def _whole(conditions: list[Condition]) -> Condition:
    needs: Needs = ()
    formula: Formula = TRUE
    for each in conditions:
        needs = merged(needs, under(formula, each.needs))
        formula = both(formula, each.formula)
    return Condition(formula, needs)


def _edges(ev: Evaluator, block: Block) -> Iterator[tuple[Block, Condition, list[SSAValue]]]:
    """Yields the branches to a block: from where, under which condition, and the values that they pass."""
    region = block.parent
    assert region is not None
    for source in region.blocks:
        last = source.last_op
        if isinstance(last, cf.BranchOp) and last.successor is block:
            yield source, Condition(TRUE), list(last.arguments)
        elif isinstance(last, cf.ConditionalBranchOp):
            condition = ev.condition(last.cond, ())
            if last.then_block is block:
                yield source, condition, list(last.then_arguments)
            if last.else_block is block:
                yield source, Condition(negated(condition.formula), condition.needs), list(last.else_arguments)


def _is_acyclic(region: Region) -> bool:
    """Returns whether no branch of a region leads back, and all of them are known ones."""
    order = {block: number for number, block in enumerate(postorder(region.blocks[0]))}
    for block in order:
        last = block.last_op
        if last is None or (last.successors and not isinstance(last, cf.BranchOp | cf.ConditionalBranchOp)):
            return False
        if any(order[successor] >= order[block] for successor in last.successors):
            return False
    return True


def block_argument(ev: Evaluator, ssa: SSAValue, lanes: Lanes) -> Value | None:
    """Returns what branches pass to a block: the value of one of them, whose condition then holds."""
    assert isinstance(ssa, BlockArgument)
    region = ssa.block.parent
    assert region is not None
    if not _is_acyclic(region) or not t.is_integer(ssa.type) or t.bit_width(ssa.type) == 1:
        return None
    ways, needs = [], []
    for number, (source, condition, passed) in enumerate(_edges(ev, ssa.block)):
        way = _whole([*_reached(ev, source), condition])
        exact, its = ev.signed(ev.integer(passed[ssa.index], lanes), terminator(source))
        flag = Flag(ev.terms.flag((ev.copy, ssa, lanes, number), "branch", ev.loops(ssa) | ev.terms.depends(*lanes)))
        taken = both(flag, way.formula)
        ways.append((taken, exact))
        needs += [way.needs, under(taken, its)]
    depends = ev.loops(ssa).union(*[ev.terms.depends(exact) | ev.terms.formula_depends(taken) for taken, exact in ways])
    width = t.bit_width(ssa.type)
    half = 1 << (width - 1)
    made = ev.terms.atom(
        (ev.copy, ssa, lanes, *ways), f"merged {ssa.name_hint or ''}", -half, half - 1, depends,
        lambda made: (either(*[both(taken, equal(made, exact)) for taken, exact in ways]),),
    )  # fmt: skip
    return Integer(made, width, merged(*needs))


# Loops with a counter


def _bounds(ev: Evaluator, loop: Operation) -> tuple[list[Polynomial], Needs]:
    numbers, needs = [], []
    for operand in loop.operands[:3]:
        number, its = ev.signed(ev.integer(operand, ()), loop)
        numbers.append(number)
        needs.append(its)
    return numbers, merged(*needs)


def _is_unsigned(loop: Operation) -> bool:
    return "unsignedCmp" in loop.properties or "unsignedCmp" in loop.attributes


def iteration(ev: Evaluator, loop: Operation) -> Polynomial:
    """Returns the number of the iteration, from 0."""
    key = (ev.copy, loop)
    high = None
    if loop.name == "scf.for":
        (low, end, step), _ = _bounds(ev, loop)
        first, last, least = ev.terms.range(low)[0], ev.terms.range(end)[1], ev.terms.range(step)[0]
        if first is not None and last is not None:
            high = max(0, (last - first) // max(1, least or 1))
        key_depends = frozenset((key,)) | ev.terms.depends(low, end, step)
    else:
        key_depends = frozenset((key,))
    return ev.terms.atom((*key, "iteration"), f"{ev.copy}_iteration", 0, high, key_depends | _around(ev, loop))


def _around(ev: Evaluator, loop: Operation) -> frozenset[Hashable]:
    """Returns the loops around a loop."""
    found: set[Hashable] = set()
    parent = loop.parent_op()
    while parent is not None and parent is not ev.function:
        if parent.name in ("scf.for", "scf.while"):
            found.add((ev.copy, parent))
        parent = parent.parent_op()
    return frozenset(found)


def _runs(ev: Evaluator, loop: Operation) -> Condition:
    """Returns the condition that the loop's body runs in the iteration."""
    if _is_unsigned(loop):
        return Condition(TRUE)
    (low, end, step), needs = _bounds(ev, loop)
    index = low + iteration(ev, loop) * step
    return Condition(both(less(index, end), at_least(step, 1)), needs)


def _iterations(ev: Evaluator, loop: Operation) -> tuple[Polynomial, Needs] | None:
    """Returns how many iterations the loop makes."""
    if loop.name != "scf.for" or _is_unsigned(loop):
        return None
    (low, end, step), needs = _bounds(ev, loop)
    if step.number is not None and step.number >= 1:
        quotient, _ = ev.terms.floor_parts(end - low + (step.number - 1), step)
        return ev.terms.larger(quotient, Polynomial([])), needs
    runs = at_least(step, 1)  # a loop with another step is refused where it runs

    def facts(count: Polynomial) -> list[Formula]:
        last = low + (count - 1) * step
        return [
            implies(both(runs, less(low, end)), both(at_least(count, 1), less(last, end), at_least(last + step, end))),
            implies(both(runs, at_least(low, end)), equal(count, 0)),
        ]

    count = ev.terms.atom(("iterations", low, end, step), "iterations", 0, None, ev.terms.depends(low, end, step), facts)
    return count, needs


def for_argument(ev: Evaluator, ssa: SSAValue, lanes: Lanes) -> Value | None:
    """Returns the counter of a loop, or a value that it carries."""
    assert isinstance(ssa, BlockArgument)
    loop = ssa.block.parent_op()
    assert loop is not None
    if ssa.index:
        return _carried(ev, loop, ssa.index - 1, lanes)
    if _is_unsigned(loop):
        return None
    (low, _, step), needs = _bounds(ev, loop)
    return integer(low + iteration(ev, loop) * step, t.bit_width(ssa.type), needs)


def for_result(ev: Evaluator, ssa: SSAValue, lanes: Lanes) -> Value | None:
    """Returns what a loop leaves."""
    assert isinstance(ssa, OpResult)
    loop = ssa.op
    count = _iterations(ev, loop)
    steps = None if count is None else _steps(ev, loop, ssa.index, lanes)
    if count is None or steps is None:
        return None
    start, delta, needs = steps
    return _moved(start, count[0] * delta, merged(needs, count[1]))


# Carried values


def _moved(start: Value, distance: Polynomial, needs: Needs) -> Value | None:
    match start:
        case Integer(value, width, own):
            return integer(value + distance, width, merged(own, needs))
        case Pointer(base, offset, own):
            return Pointer(base, offset + distance, merged(own, needs))
    return None


def _carried(ev: Evaluator, loop: Operation, number: int, lanes: Lanes) -> Value | None:
    steps = _steps(ev, loop, number, lanes)
    if steps is None:
        return _carried_freely(ev, loop, number, lanes)
    start, delta, needs = steps
    number_of_iteration = iteration(ev, loop)
    key, later = (ev.copy, loop), at_least(number_of_iteration, 1)
    own: list[Need | Reads] = []
    for need in needs:
        # What every iteration adds does not matter in the first one; what differs between iterations mattered in all before.
        if isinstance(need, Need) and key not in ev.terms.depends(need.value) | ev.terms.formula_depends(need.under):
            own += under(later, (need,))
        else:
            own.append(need)
    return _moved(start, number_of_iteration * delta, tuple(own))


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


def _steps(ev: Evaluator, loop: Operation, number: int, lanes: Lanes) -> tuple[Value, Polynomial, Needs] | None:
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
        delta, begin = last.value - unknown, first.value
    elif isinstance(first, Pointer) and isinstance(last, Pointer) and first.base == last.base:
        delta, begin = last.offset - unknown, first.offset
    else:
        return None
    (atom,) = unknown.atoms
    key = (ev.copy, loop)
    if key in ev.terms.depends(delta) or ev.terms.depends(*lanes) & {key}:
        return None
    needs = replaced(last.needs, atom, begin + iteration(ev, loop) * delta)
    if loop.name == "scf.for":
        runs = _runs(ev, loop)
        needs = merged(runs.needs, under(runs.formula, needs))
    for need in needs:
        if isinstance(need, Need) and (_mentions(ev, need.value, atom) or _mentions_in(ev, need.under, atom)):
            return None
    return first, delta, needs


def _mentions(ev: Evaluator, polynomial: Polynomial, atom: int) -> bool:
    """Returns whether an atom is in a polynomial, or in what its atoms are defined by."""
    seen, waiting = set(), list(polynomial.atoms)
    while waiting:
        each = waiting.pop()
        if each == atom:
            return True
        if each in seen:
            continue
        seen.add(each)
        for other in polynomials_of(ev.terms.atoms[each].facts):
            waiting += other.atoms
    return False


def _mentions_in(ev: Evaluator, formula: Formula, atom: int) -> bool:
    return any(_mentions(ev, each, atom) for each in polynomials_of((formula,)))


def while_argument(ev: Evaluator, ssa: SSAValue, lanes: Lanes) -> Value | None:
    """Returns a value that a loop with a condition carries, or passes to its body."""
    assert isinstance(ssa, BlockArgument)
    loop = ssa.block.parent_op()
    assert loop is not None
    before = loop.regions[0].block
    if ssa.block is not before:
        return ev.value(terminator(before).operands[1 + ssa.index], lanes)
    return _carried(ev, loop, ssa.index, lanes)


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
            needs = merged(condition.needs, under(formula, yes.needs), under(negated(formula), no.needs))
            return integer(ev.terms.chosen(formula, yes.value, no.value), yes.width, needs)
        case Condition(), Condition():
            needs = merged(condition.needs, under(formula, yes.needs), under(negated(formula), no.needs))
            return Condition(either(both(formula, yes.formula), both(negated(formula), no.formula)), needs)
        case Pointer(), Pointer() if yes.base == no.base:
            needs = merged(condition.needs, under(formula, yes.needs), under(negated(formula), no.needs))
            return Pointer(yes.base, ev.terms.chosen(formula, yes.offset, no.offset), needs)
        case Pointer(), Pointer():
            return Unknown("a pointer into one of several arrays")
    if formula == TRUE:
        return yes
    if formula == FALSE:
        return no
    return yes if isinstance(yes, Unknown) else no if isinstance(no, Unknown) else None


__all__ = [
    "NotModelled", "block_argument", "chosen", "for_argument", "for_result", "if_result", "iteration", "path",
    "while_argument",
]  # fmt: skip

"""Has the rules of numbers that counters return, and of the sums that are added to them.

A counter is a place, the same for all programs, to which each of them adds a number that is not negative, once at most, and
which nothing else writes. What is added by all of them together is bounded, so that no sum wraps: by what each adds at most,
and where programs count the elements of their part of an array, by how many elements there are.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping
from math import prod

from xdsl.dialects.builtin import IntegerAttr
from xdsl.ir import BlockArgument, Operation, OpResult, SSAValue

from ....promotion.dataclass import dataclass
from ...tt import types as t
from ...tt.analysis.combining import single_operation
from ...tt.dialect.attributes import enum_name, property_number
from ...tt.dialect.memory.atomics import HOST_RMW_OPERATIONS
from ..evaluate.contexts import NotModelled, context, iteration
from ..evaluate.elements import MOVES
from ..evaluate.evaluator import Evaluator, Lanes, Rule, Run
from ..evaluate.values import Integer, Pointer, Value
from ..preparation import Access, PreparedFunction
from ..terms.atoms import LANE
from ..terms.counts import Prefix, Slot
from ..terms.formulas import (
    TRUE,
    AtMost,
    Both,
    Either,
    Flag,
    Formula,
    Not,
    at_least,
    at_most,
    both,
    implies,
    less,
    negated,
)
from ..terms.orders import Meaning
from ..terms.polynomials import ONE, ZERO, Polynomial

_MAX_ENDS = 8
"""Most ends of the lanes that have a part in a sum that are tried."""
_MAX_FACTS = 200
"""Most conditions that are looked through for such ends."""
_LOOPS = ("scf.for", "scf.while")


@dataclass(frozen=True, slots=True)
class Total:
    """The sum of the elements of a block, of which none is negative.

    Attributes:
        value: the sum.
        most: the largest element.
        ends: numbers that the sum is not above, where they are not negative; it is 0 where they are.
        live: where the block is made.
    """

    value: Polynomial
    most: int
    ends: tuple[Polynomial, ...]
    live: Formula


def rules(prepared: PreparedFunction, starts: Mapping[int, Polynomial]) -> dict[str, Rule]:
    """Returns the rules of additions to counters, and of sums. starts: what arrays hold at launch, by parameter."""
    slots = dict(_slots(prepared, starts))
    numbers: dict[Hashable, int] = {}
    if not slots:
        return {}

    def added(ev: Evaluator, ssa: SSAValue, lanes: Lanes) -> Value | None:
        assert isinstance(ssa, OpResult)
        start = slots.get(ssa.op)
        try:
            return None if start is None else _slot(ev.run, ssa, start, numbers.setdefault(ssa, len(numbers)))
        except NotModelled:
            return None

    def summed(ev: Evaluator, ssa: SSAValue, lanes: Lanes) -> Value | None:
        assert isinstance(ssa, OpResult)
        try:
            found = total(ev.run, ssa.op.operands[0]) if _is_sum(ssa.op) else None
        except NotModelled:
            return None
        return None if found is None else Integer(found.value, t.bit_width(ssa.type), is_number=True)

    def scanned(ev: Evaluator, ssa: SSAValue, lanes: Lanes) -> Value | None:
        assert isinstance(ssa, OpResult)
        try:
            return _prefix(ev.run, ssa, lanes[0], numbers.setdefault(ssa, len(numbers))) if _is_sum(ssa.op) else None
        except NotModelled:
            return None

    return {"tt.atomic_rmw": added, "tt.reduce": summed, "tt.scan": scanned}


# Counters


def _slots(prepared: PreparedFunction, starts: Mapping[int, Polynomial]) -> Iterator[tuple[Operation, Polynomial]]:
    """Yields the additions of which each is the only operation that writes into its array, with what that holds at launch."""
    arrays = [(access, _array_of(prepared, access)) for access in prepared.accesses if access.writes]
    if any(array is None for _, array in arrays):
        return  # it may be into any
    for position, start in starts.items():
        writing = [access for access, array in arrays if array == position]
        if len(writing) == 1 and _adds(prepared, writing[0], position):
            yield writing[0].op, start


def _array_of(prepared: PreparedFunction, access: Access) -> int | None:
    """Returns the parameter whose array an access is to, as the text has it; None if that is not seen there."""
    if access.obstacle:
        return None
    ssa = access.op.operands[0]
    while isinstance(ssa, OpResult) and ssa.op.name in (*MOVES, "tt.addptr", "tt.bitcast"):
        ssa = ssa.op.operands[0]
    is_parameter = isinstance(ssa, BlockArgument) and ssa.block is prepared.function.regions[0].blocks[0]
    return ssa.index if is_parameter and isinstance(ssa, BlockArgument) else None


def _adds(prepared: PreparedFunction, access: Access, position: int) -> bool:
    """Returns whether an access adds to a whole element of an array, in the view of all programs."""
    op = access.op
    if op.name != "tt.atomic_rmw" or not access.is_ordered or access.shape or not t.is_integer(op.results[0].type):
        return False
    width = t.bit_width(op.results[0].type)
    is_whole = width == 8 * access.size and access.size == prepared.parameters[position].element_size
    return is_whole and enum_name(HOST_RMW_OPERATIONS, op.properties["atomic_rmw_op"]) == "add" and width > 1


def _slot(run: Run, ssa: OpResult, start: Polynomial, number: int) -> Value | None:
    """Returns what a counter held when a program added to it; None if nothing but its type is known of that."""
    op, terms = ssa.op, run.terms
    if op.parent is None or not runs_once(run, op):
        return None
    own = context(run, op.parent)
    pointer = own.value(op.operands[0], ())
    if not isinstance(pointer, Pointer) or terms.depends(pointer.offset):
        return None
    mask = own.condition(op.operands[2], ()).formula if len(op.operands) > 2 else TRUE
    ev = own.under(mask)
    amount = ev.value(op.operands[1], ())
    if not isinstance(amount, Integer):
        return None
    added = ev.signed(amount)
    width = t.bit_width(ssa.type)
    half = 1 << (width - 1)
    low, most = terms.range(added)
    if most is None or most < 0 or ((low is None or low < 0) and not ev.is_shown(at_least(added, 0))):
        return None
    together = prod(run.grid, start=ONE) * most
    end = _end_of_all(ev, op.operands[1], added, most)
    if end is not None:
        together = terms.smaller(together, terms.larger(end, ZERO))
    if not run.solver.is_impossible(*run.base, negated(at_most(start + together, half - 1))):
        return None  # it may wrap
    live = ev.formula
    depends = run.loops(ssa) | terms.depends(added) | terms.formula_depends(live)

    def facts(made: Polynomial) -> list[Formula]:
        is_part = both(live, at_most(added, together))  # which it is, in each run
        return [implies(live, at_least(made, start)), implies(is_part, at_most(made + added, start + together))]

    run.loads[op] = None
    meaning = Meaning(counted=Slot(number, added, live, run.program))
    name = f"counted {ssa.name_hint or ''}".strip()
    key = (ssa, "slot", start, together, added, live)
    return Integer(terms.atom(key, name, -half, half - 1, depends, facts, meaning), width, is_number=True)


def runs_once(run: Run, op: Operation) -> bool:
    """Returns whether an operation runs once at most in each program: it is in no loop, and in no circle of blocks."""
    above = op.parent_op()
    while above is not None and above is not run.function:
        if above.name != "scf.if" or any(len(region.blocks) > 1 for region in above.regions):
            return False
        above = above.parent_op()
    return above is run.function and run.blocks.is_acyclic(run.function.regions[0])


def _end_of_all(ev: Evaluator, ssa: SSAValue, added: Polynomial, most: int) -> Polynomial | None:
    """Returns a number that what all programs add together is not above, where it is not negative, and which is 0 elsewhere.

    Programs along one axis add `most` at the most, and program p no more than end - step * p, or nothing where that is
    negative, with step >= most. So each adds no more than min(step * (p + 1), end) - min(step * p, end), of which the sum is
    min(step * programs, end), if the end is not negative.
    """
    run, terms = ev.run, ev.terms
    axes = [program for program, axis in zip(run.program, run.grid, strict=True) if axis.number != 1]
    if len(axes) > 1:
        return None
    source = ssa.owner
    own = total(run, source.operands[0]) if isinstance(source, Operation) and _is_sum(source) else None
    for limit in (added, *(() if own is None else own.ends)):
        step = -(limit.group(next(iter(axes[0].atoms))).number or 0) if axes else most
        end = limit + axes[0] * step if axes else limit
        if terms.depends(end) or (axes and step < most):
            continue
        if ev.is_shown(implies(at_least(added, 1), at_most(added, limit))):
            return end
    return None


# Sums


def _is_sum(op: Operation) -> bool:
    """Returns whether an operation adds the integers of a block of one axis, from its beginning."""
    if op.name not in ("tt.reduce", "tt.scan") or len(op.operands) != 1 or property_number(op, "axis") != 0:
        return False
    type_, combine = op.operands[0].type, single_operation(op.regions[0])
    is_plain = len(t.shape_of(type_)) == 1 and t.is_integer(type_) and t.bit_width(type_) > 1
    reverse = op.properties.get("reverse")
    is_forward = reverse is None or (isinstance(reverse, IntegerAttr) and not reverse.value.data)
    return is_plain and is_forward and combine is not None and combine.name == "arith.addi"


def total(run: Run, block: SSAValue) -> Total | None:
    """Returns the sum of all elements of a block; None if one may be negative, or the sum may wrap."""
    made = block.owner
    if not isinstance(made, Operation) or made.parent is None:
        return None
    terms = run.terms
    ev = context(run, made.parent)
    lanes = run.lanes(t.shape_of(block.type))
    element = ev.value(block, lanes)
    if not isinstance(element, Integer):
        return None
    value = ev.signed(element)
    low, most = terms.range(value)
    count, width = t.shape_of(block.type)[0], t.bit_width(block.type)
    if low is None or low < 0 or most is None or most * count >= 1 << (width - 1):
        return None
    ends = tuple([
        end * most for end in _ends(ev, value, lanes[0])
        if ev.is_shown(implies(at_least(value, 1), less(lanes[0], end)))
    ])  # fmt: skip
    live = ev.formula
    depends = run.loops(block) | terms.depends(*ends) | terms.formula_depends(live)

    def facts(made: Polynomial) -> list[Formula]:
        return [
            implies(both(live, condition), at_most(made, limit))
            for end in ends for condition, limit in ((at_least(end, 0), end), (less(end, 0), ZERO))
        ]  # fmt: skip

    key = (block, "total", most, ends, live)
    return Total(terms.atom(key, "sum()", 0, most * count, depends, facts), most, ends, live)


def _ends(ev: Evaluator, value: Polynomial, lane: Polynomial) -> list[Polynomial]:
    """Returns numbers that lanes may have to be below, so that their element is not 0: conditions say so, or seem to."""
    terms = ev.terms
    if lane.number is not None:
        return []
    (own,) = lane.atoms
    found: dict[Polynomial, None] = {}
    waiting: list[Formula] = [fact for atom in sorted(value.atoms) for fact in terms.atoms[atom].facts]
    flags: set[int] = set()
    for _ in range(_MAX_FACTS):
        if not waiting:
            break
        match waiting.pop():
            case AtMost(polynomial):
                end = lane - polynomial + 1
                if own not in end.atoms and LANE not in terms.depends(end):  # it is said of the sum, which all lanes have
                    found[end] = None
            case Both(parts) | Either(parts):
                waiting += parts
            case Not(part):
                waiting.append(part)
            case Flag(number) if number not in flags:
                flags.add(number)
                waiting += terms.flag_facts(number)
    return [*found][:_MAX_ENDS]


def _prefix(run: Run, ssa: OpResult, lane: Polynomial, number: int) -> Value | None:
    """Returns the sum of the elements of a block up to a lane; None if nothing but its type is known of it."""
    op, terms = ssa.op, run.terms
    block = op.operands[0]
    count, width = t.shape_of(block.type)[0], t.bit_width(ssa.type)
    made = block.owner
    own = total(run, block)
    if own is None or not isinstance(made, Operation) or made.parent is None or not terms.fits(lane, 0, count - 1):
        return None
    element = context(run, made.parent).value(block, (lane,))
    if not isinstance(element, Integer):
        return None
    value = context(run, made.parent).signed(element)
    if not terms.fits(value, 0, own.most):
        return None
    loops = [each for each in _around(made, run.function) if each.name in _LOOPS]
    indices = (*run.program, *[iteration(run, each) for each in loops])
    meaning = Meaning(counted=Prefix(number, lane, value, own.value, own.live, indices))
    depends = run.loops(ssa) | terms.depends(lane, value, own.value, *indices) | terms.formula_depends(own.live)
    key = (ssa, "prefix", lane, value, own.value, own.live, indices)
    return Integer(terms.atom(key, "prefix()", 0, own.most * count, depends, meaning=meaning), width, is_number=True)


def _around(op: Operation, function: Operation) -> Iterator[Operation]:
    """Yields the operations around another one, in a function."""
    above = op.parent_op()
    while above is not None and above is not function:
        yield above
        above = above.parent_op()


__all__ = ["Total", "rules", "runs_once", "total"]

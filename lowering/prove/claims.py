"""States the properties of accesses as formulas that must not hold together, and asks the solver.

Every claim is made with exact integers and then needs that what it looked at fits its width (`Need`). Needs are shown in the
order in which a program computes: those of the path under the conditions before, those of the mask under the path, those of the
address under both. So by induction no number that a claim looks at has wrapped.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence

from xdsl.ir import Operation, SSAValue

from ...promotion.dataclass import dataclass
from ..tt import types as t
from .evaluate.values import Integer, Need, Pointer, Reads
from .preparation import Access
from .terms.formulas import FALSE, Formula, at_most, both, either, equal, less, negated, within
from .world import AccessTerms, World

ADDRESS_BITS = 64
_MAX_DEPTH = 60


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of a claim.

    Attributes:
        holds: whether it is shown.
        wrapping: the needs that could not be shown; the claim may hold without them.
        reads: loads that the claim takes to be inside their arrays.
        is_possible: whether the claim itself, without the needs, was not shown, so that a model of its negation may be a fault.
    """

    holds: bool
    wrapping: tuple[Need, ...] = ()
    reads: tuple[Operation, ...] = ()
    is_possible: bool = False


def needs_in_order(access: Access, terms: AccessTerms) -> Iterator[tuple[Need | Reads, Formula]]:
    """Yields the needs of an access, each with what may be taken for granted when it is shown.

    The last one is that the address itself is no more than 64 bits away from its array. Inside the array it always is.
    """
    given: list[Formula] = []
    for step in terms.path:
        yield from [(need, both(*given)) for need in step.needs]
        given.append(step.formula)
    yield from [(need, both(*given)) for need in terms.mask.needs]
    given.append(terms.mask.formula)
    if isinstance(terms.pointer, Pointer):
        yield from [(need, both(*given)) for need in terms.pointer.needs]
        yield address_need(access, terms.pointer), both(*given)


def address_need(access: Access, pointer: Pointer) -> Need:
    """Returns that an address is no more than 64 bits away from its array."""
    return Need(pointer.offset, ADDRESS_BITS, True, both(), access.op)


def fits(need: Need) -> Formula:
    """Returns that the exact number of a need is one of its width."""
    half = 1 << (need.width - 1)
    return within(need.value, -half, half - 1)


def unmet(
    world: World, given: Sequence[Formula], access: Access, of: Collection[Need] | None = None, observed: bool = True,
    address: bool = False,
) -> tuple[list[Need], list[Operation]]:
    """Returns the needs that are not shown, and the loads on which the others rely.

    of: only these, where the others are shown with less given. observed: only needs of numbers that something looks
    at; otherwise of all, as for overflow. address: whether the address must be no more than 64 bits away from its array.
    """
    terms = world.access_terms(access)
    last = address_need(access, terms.pointer) if isinstance(terms.pointer, Pointer) else None
    failed: dict[Need, None] = {}
    reads: dict[Operation, None] = {}
    shown: set[Need] = set()
    for need, under in needs_in_order(access, terms):
        if isinstance(need, Reads):
            reads[need.op] = None
            continue
        if need == last and of is None and not address:
            continue
        if need in shown or need in failed or (observed and not need.is_observed) or (of is not None and need not in of):
            continue
        if world.solver.is_impossible(*world.base, *given, under, need.under, negated(fits(need))):
            shown.add(need)
        else:
            failed[need] = None
    return list(failed), list(reads)


def outside(world: World, access: Access, pointer: Pointer) -> Formula | None:
    """Returns that an access is outside its array; None if the array has no extent."""
    extent = world.extents.get(pointer.base)
    if extent is None:
        return None
    size = world.prepared.parameters[pointer.base].element_size
    return either(at_most(pointer.offset, -1), less(extent * size, pointer.offset + access.size))


def bounds(world: World, access: Access, given: Sequence[Formula]) -> Outcome:
    """Asks whether an access, whose pointer and extent are known, stays inside its array."""
    terms = world.access_terms(access)
    assert isinstance(terms.pointer, Pointer)
    fault = outside(world, access, terms.pointer)
    assert fault is not None
    if not world.solver.is_impossible(*world.base, *given, terms.live, fault):
        return Outcome(False, is_possible=True)
    failed, reads = unmet(world, given, access)
    return Outcome(not failed, tuple(failed), tuple(reads))


def is_never_executed(world: World, access: Access) -> bool:
    """Returns whether no lane of an access touches memory in any run."""
    terms = world.access_terms(access)
    return world.solver.is_impossible(*world.base, terms.live)


def inside(world: World, access: Access, pointer: Pointer) -> Formula:
    """Returns that an access is inside its array, as far as its extent is known: faulty ones are reported by themselves."""
    fault = outside(world, access, pointer)
    return both() if fault is None else negated(fault)


def _overlap(one: Pointer, size: int, two: Pointer, other: int) -> Formula:
    difference = one.offset - two.offset
    if size == other and difference.constant_part % size == 0 and difference.divisor % size == 0:
        return equal(difference, 0)
    return both(less(difference, other), less(-difference, size))


def programs_meet(world: World, one: Access, two: Access) -> list[Formula] | None:
    """Returns that two programs touch the same memory by these accesses; None if the pointers are not known."""
    first, second = world.access_terms(one, "p"), world.access_terms(two, "q")
    if not isinstance(first.pointer, Pointer) or not isinstance(second.pointer, Pointer):
        return None
    others = [negated(equal(p, q)) for p, q in zip(world.first.program, world.second.program, strict=True)]
    return [
        first.live, second.live, either(*others), _overlap(first.pointer, one.size, second.pointer, two.size),
        inside(world, one, first.pointer), inside(world, two, second.pointer),
    ]  # fmt: skip


def lanes_meet(world: World, access: Access) -> list[Formula] | None:
    """Returns that two lanes of a store have one address, and may store different values; None if the pointer is not known."""
    first, second = world.access_terms(access), world.access_terms(access, lanes="'")
    if not isinstance(first.pointer, Pointer) or not isinstance(second.pointer, Pointer):
        return None
    axes = axes_of(access.stored) if access.stored is not None else frozenset(range(len(access.shape)))
    one, two = world.first.lanes(access.shape), world.first.lanes(access.shape, "'")
    different: list[Formula] = [either(*[negated(equal(one[axis], two[axis])) for axis in sorted(axes)])]
    if access.stored is not None and t.is_integer(access.stored.type) and t.is_tensor(access.stored.type):
        x, y = world.first.value(access.stored, one), world.first.value(access.stored, two)
        if isinstance(x, Integer) and isinstance(y, Integer) and x.value == y.value:
            return [FALSE]
    return [
        first.live, second.live, *different, _overlap(first.pointer, access.size, second.pointer, access.size),
        inside(world, access, first.pointer), inside(world, access, second.pointer),
    ]  # fmt: skip


def axes_of(value: SSAValue, depth: int = 0) -> frozenset[int]:
    """Returns the axes of a block along which its elements may differ."""
    shape = t.shape_of(value.type)
    everything = frozenset([axis for axis, extent in enumerate(shape) if extent > 1])
    op = value.owner
    if not isinstance(op, Operation) or depth > _MAX_DEPTH:
        return everything
    match op.name:
        case "tt.splat":
            return frozenset()
        case "tt.broadcast":
            return axes_of(op.operands[0], depth + 1)
        case "tt.expand_dims":
            axis = int(op.properties["axis"].value.data)  # type: ignore[attr-defined]
            return frozenset([each + (each >= axis) for each in axes_of(op.operands[0], depth + 1)])
    return everything


def address_needs(world: World, access: Access, given: Sequence[Formula]) -> Outcome:
    """Asks whether the terms of an access stand for its address: for races, which need not be inside arrays without extents."""
    failed, reads = unmet(world, given, access, address=True)
    return Outcome(not failed, tuple(failed), tuple(reads))


__all__ = [
    "Outcome", "address_needs", "bounds", "is_never_executed", "lanes_meet", "outside", "programs_meet",
    "unmet",
]  # fmt: skip

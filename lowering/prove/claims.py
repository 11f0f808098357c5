"""States the properties of accesses as formulas that must not hold together, and asks the solver.

Every claim is made with exact integers and then needs that what it looked at fits its width (`Need`). Needs are shown in the
order in which a program computes: those of the path under the conditions before, those of the mask under the path, those of the
address under both. So by induction no number that a claim looks at has wrapped.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence

from xdsl.ir import Operation, SSAValue

from ...promotion.dataclass import dataclass
from ..tt import types as t
from ..tt.dialect.attributes import property_number
from .evaluate.values import Condition, Integer, Need, Needs, Pointer, Reads
from .preparation import Access
from .terms.formulas import FALSE, Formula, at_least, at_most, both, either, equal, less, negated, within
from .terms.polynomials import constant
from .world import AccessTerms, World

ADDRESS_BITS = 64
_MAX_DEPTH = 60

InOrder = Iterable[tuple[Need | Reads, Formula]]
"""Needs, each with what may be taken for granted when it is shown."""


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


def needs_of_path(steps: Iterable[Condition]) -> Iterator[tuple[Need | Reads, Formula]]:
    """Yields the needs of conditions, each under those before it."""
    given: list[Formula] = []
    for step in steps:
        yield from [(need, both(*given)) for need in step.needs]
        given.append(step.formula)


def needs_in_order(access: Access, terms: AccessTerms) -> Iterator[tuple[Need | Reads, Formula]]:
    """Yields the needs of an access, each with what may be taken for granted when it is shown.

    The last one is that the address itself is no more than 64 bits away from its array. Inside the array it always is.
    """
    yield from needs_of_path((*terms.path, terms.mask))
    if isinstance(terms.pointer, Pointer):
        yield from [(need, terms.live) for need in terms.pointer.needs]
        yield address_need(access, terms.pointer), terms.live


def address_need(access: Access, pointer: Pointer) -> Need:
    """Returns that an address is no more than 64 bits away from its array."""
    return Need(pointer.offset, ADDRESS_BITS, both(), access.op)


def fits(need: Need) -> Formula:
    """Returns that the exact number of a need is one of its width."""
    half = 1 << (need.width - 1)
    return within(need.value, -half, half - 1)


def not_shown(
    world: World, given: Sequence[Formula], needs: InOrder, of: Collection[Need] | None = None, ignored: Need | None = None
) -> tuple[list[Need], list[Operation]]:
    """Returns the needs that are not shown, and the loads on which the others rely.

    of: only these, where the others are shown with less given.
    """
    failed: dict[Need, None] = {}
    reads: dict[Operation, None] = {}
    shown: set[Need] = set()
    for need, under in needs:
        if isinstance(need, Reads):
            reads[need.op] = None
            continue
        if need == ignored or need in shown or need in failed or (of is not None and need not in of):
            continue
        if world.solver.is_impossible(*world.base, *given, under, need.under, negated(fits(need))):
            shown.add(need)
        else:
            failed[need] = None
    return list(failed), list(reads)


def unmet(
    world: World, given: Sequence[Formula], access: Access, of: Collection[Need] | None = None, address: bool = False
) -> tuple[list[Need], list[Operation]]:
    """Returns the needs of an access that are not shown, and the loads on which the others rely.

    of: only these, where the others are shown with less given. address: whether the address must be no more than 64 bits away
    from its array.
    """
    terms = world.access_terms(access)
    last = address_need(access, terms.pointer) if isinstance(terms.pointer, Pointer) and not address else None
    return not_shown(world, given, needs_in_order(access, terms), of, last)


def outside(world: World, access: Access, pointer: Pointer) -> Formula | None:
    """Returns that an access is outside its array; None if the array has no extent."""
    if access.is_gather:
        axis = property_number(access.op, "axis")
        last = t.shape_of(access.op.operands[0].type)[axis] - 1
        return either(at_most(pointer.offset, -1), less(constant(last), pointer.offset))
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


def is_aligned(world: World, access: Access, pointer: Pointer) -> bool:
    """Returns whether every address of an access is a multiple of its size."""
    size = access.size
    if world.prepared.parameters[pointer.base].alignment % size:
        return False
    offset = pointer.offset
    if offset.divisor % size == 0:
        return offset.constant_part % size == 0
    rest = world.terms.floor_parts(offset, constant(size))[1]
    return world.solver.is_impossible(*world.base, world.access_terms(access).live, at_least(rest, 1))


def is_never_executed(world: World, access: Access) -> bool:
    """Returns whether no lane of an access touches memory in any run."""
    terms = world.access_terms(access)
    return world.solver.is_impossible(*world.base, terms.live)


def inside(world: World, access: Access, pointer: Pointer) -> Formula:
    """Returns that an access is inside its array, if the array has an extent."""
    fault = outside(world, access, pointer)
    return both() if fault is None else negated(fault)


def _overlap(one: Pointer, size: int, two: Pointer, other: int) -> tuple[Formula, Formula]:
    """Returns that two accesses are to one element, and that they have some bytes in common but not all."""
    difference = one.offset - two.offset
    if size == other:
        same = equal(difference, 0)
        if difference.constant_part % size == 0 and difference.divisor % size == 0:
            return same, FALSE
        return same, both(negated(same), less(difference, other), less(-difference, size))
    return FALSE, both(less(difference, other), less(-difference, size))


def programs_meet(world: World, one: Access, two: Access, are_inside: tuple[bool, bool]) -> list[Formula] | None:
    """Returns that two programs touch the same memory by these accesses; None if the pointers are not known.

    are_inside: which of the accesses is proven to be inside its array.
    """
    first, second = world.access_terms(one, "p"), world.access_terms(two, "q")
    if not isinstance(first.pointer, Pointer) or not isinstance(second.pointer, Pointer):
        return None
    others = [negated(equal(p, q)) for p, q in zip(world.first.program, world.second.program, strict=True)]
    same, partly = _overlap(first.pointer, one.size, second.pointer, two.size)
    if one.is_ordered and two.is_ordered:
        same = FALSE
    return [
        first.live, second.live, either(*others), either(same, partly),
        *[inside(world, each, pointer) for each, pointer, known in
          ((one, first.pointer, are_inside[0]), (two, second.pointer, are_inside[1])) if known],
    ]  # fmt: skip


def lanes_meet(world: World, access: Access, is_inside: bool) -> list[Formula] | None:
    """Returns that two lanes of a store share memory, and do not store the same there; None if the pointer is not known.

    Lanes of an atomic update one element one after the other; those that overlap in part do not.
    """
    first, second = world.access_terms(access), world.access_terms(access, lanes="'")
    if not isinstance(first.pointer, Pointer) or not isinstance(second.pointer, Pointer):
        return None
    one, two = world.first.lanes(access.shape), world.first.lanes(access.shape, "'")
    apart = [negated(equal(x, y)) for x, y in zip(one, two, strict=True)]
    axes = axes_of(access.stored) if access.stored is not None else frozenset(range(len(access.shape)))
    different = either(*[apart[axis] for axis in sorted(axes)])
    if _stores_equal_values(world, access, (first, second)):
        different = FALSE
    same, partly = _overlap(first.pointer, access.size, second.pointer, access.size)
    if access.is_atomic:
        same = FALSE
    return [
        first.live, second.live, either(both(same, different), both(partly, either(*apart))),
        *[inside(world, access, pointer) for pointer in (first.pointer, second.pointer) if is_inside],
    ]  # fmt: skip


def _stores_equal_values(world: World, access: Access, terms: tuple[AccessTerms, AccessTerms]) -> bool:
    """Returns whether any two lanes store one integer, whatever is needed for the terms to be those numbers included."""
    stored = access.stored
    if stored is None or not t.is_integer(stored.type) or not t.is_tensor(stored.type):
        return False
    x, y = [world.first.value(stored, world.first.lanes(access.shape, each)) for each in ("", "'")]
    if not isinstance(x, Integer) or not isinstance(y, Integer) or x.value != y.value:
        return False
    return all(_are_shown(world, each.live, own.needs) for each, own in zip(terms, (x, y), strict=True))


def _are_shown(world: World, live: Formula, needs: Needs) -> bool:
    failed, reads = not_shown(world, (), [(need, live) for need in needs])
    return not failed and not reads


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
    "Outcome", "address_needs", "bounds", "is_aligned", "is_never_executed", "lanes_meet", "needs_of_path", "not_shown",
    "outside", "programs_meet", "unmet",
]  # fmt: skip

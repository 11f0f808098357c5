"""States what would break a property of accesses as formulas, which must not hold together.

All formulas of one question are made of one access's terms under one level; there is nothing that has to be shown besides.
"""

from __future__ import annotations

from xdsl.ir import Operation, SSAValue

from ..tt import types as t
from ..tt.dialect.attributes import property_number
from .evaluate.contexts import NotModelled, iteration
from .evaluate.values import Pointer, Unknown
from .preparation import Access
from .terms.formulas import FALSE, TRUE, Formula, at_least, at_most, both, either, equal, less, negated
from .terms.polynomials import Polynomial, constant
from .world import Level, World, others

_MAX_DEPTH = 60


def outside(world: World, access: Access, pointer: Pointer) -> Formula | None:
    """Returns that an access is outside its array; None if the array has no extent.

    An offset counts modulo 2 ** 64. An array has fewer bytes than 2 ** 63, so one whose term is inside is inside.
    """
    if access.is_gather:
        axis = property_number(access.op, "axis")
        last = t.shape_of(access.op.operands[0].type)[axis] - 1
        return either(at_most(pointer.offset, -1), less(constant(last), pointer.offset))
    target = world.terms.target_of(pointer.base)
    if target is not None:
        return either(at_most(pointer.offset, -1), less(target[1], pointer.offset + access.size))
    extent = world.extents.get(pointer.base)
    if extent is None:
        return None
    size = world.prepared.parameters[pointer.base].element_size
    return either(at_most(pointer.offset, -1), less(extent * size, pointer.offset + access.size))


def misaligned(world: World, access: Access, pointer: Pointer) -> Formula:
    """Returns that an address is no multiple of the access's size, of which its array begins at one."""
    size = access.size
    if access.is_gather:
        return FALSE
    is_target = world.terms.target_of(pointer.base) is not None  # those begin at a multiple of whatever is read there
    if not is_target and world.prepared.parameters[pointer.base].alignment % size:
        return TRUE
    rest = world.terms.floor_parts(pointer.offset, constant(size))[1] if size > 1 else constant(0)
    return at_least(rest, 1)


def is_never_executed(world: World, access: Access, level: Level) -> bool:
    """Returns whether no lane of an access touches memory in any run."""
    return world.is_impossible(level, world.access_terms(access, level).live)


def is_inside(world: World, access: Access, level: Level) -> bool:
    """Returns whether an access stays inside its array."""
    terms = world.access_terms(access, level)
    fault = outside(world, access, known(terms.pointer))
    return fault is not None and world.is_impossible(level, terms.live, fault)


def is_aligned(world: World, access: Access, level: Level) -> bool:
    """Returns whether every address of an access is a multiple of its size."""
    terms = world.access_terms(access, level)
    fault = misaligned(world, access, known(terms.pointer))
    return fault == FALSE or world.is_impossible(level, terms.live, fault)


def known(pointer: Pointer | Unknown) -> Pointer:
    """Returns a pointer. Raises `NotModelled`: one may be known under some conditions, and too long to look at under others."""
    if isinstance(pointer, Unknown):
        raise NotModelled(f"an address, {pointer.reason},")
    return pointer


def located(world: World, access: Access, level: Level) -> tuple[Formula, Pointer, Formula]:
    """Returns that a lane touches memory, where, and that this is inside its array: for an access that was shown to be.

    That may have been shown under fewer conditions, of another term. A term is only congruent to the offset, so it is the
    offset itself only where it is shown to be inside under these very conditions. Elsewhere that is the signed number it wraps
    to, as arrays have fewer bytes than 2 ** 63. Guesses are made as if nothing wrapped.
    """
    terms = world.access_terms(access, level)
    pointer = known(terms.pointer)
    if world.run(level).wraps:
        offset = world.offsets.get((level, access))
        if offset is None:
            is_exact = is_inside(world, access, level)
            offset = pointer.offset if is_exact else world.terms.wrapped(pointer.offset, 64)
            world.offsets[level, access] = offset
        pointer = Pointer(pointer.base, offset)
    fault = outside(world, access, pointer)
    assert fault is not None
    return terms.live, pointer, negated(fault)


def overlap(one: Polynomial, size: int, two: Polynomial, other: int) -> Formula:
    """Returns that two accesses inside one array have bytes in common. Offsets are multiples of the sizes."""
    difference = one - two
    return equal(difference, 0) if size == other else both(less(difference, other), less(-difference, size))


def programs_meet(world: World, one: Access, two: Access, level: Level) -> list[Formula]:
    """Returns that two programs touch the same memory by these accesses.

    level: conditions under which they are inside their array, and others perhaps.
    """
    renaming = world.other_program
    apart = either(*others(world.run(level).program, renaming))
    if apart == FALSE:
        return [FALSE]  # there is one program
    live, first, inside = located(world, one, level)
    other_live, second, other_inside = located(world, two, level)
    meeting = overlap(first.offset, one.size, renaming.polynomial(second.offset), two.size)
    return [
        live, renaming.formula(other_live), apart, meeting, inside, renaming.formula(other_inside),
    ]  # fmt: skip


def lanes_meet_later(
    world: World, one: Access, two: Access, level: Level, loops: frozenset[Operation], carried: Operation | None, is_own: bool
) -> list[Formula]:
    """Returns that a lane of an access touches the same memory as a lane of a later one of the same program.

    Args:
        level: conditions under which they are inside their array, and others perhaps.
        loops: those of which the two may be in different iterations.
        carried: the outermost of these, of which the later one is in a later iteration; None if there is none.
        is_own: whether a lane's accesses are in order among themselves, so that the lanes are two different ones.
    """
    renaming = world.other_lane_and(loops)
    run = world.run(level)
    live, first, inside = located(world, one, level)
    other_live, second, other_inside = located(world, two, level)
    meeting = overlap(first.offset, one.size, renaming.polynomial(second.offset), two.size)
    found = [live, renaming.formula(other_live), meeting, inside, renaming.formula(other_inside)]
    if carried is not None:
        number = iteration(run, carried)
        found.append(less(number, renaming.polynomial(number)))
    if is_own:
        found.append(either(*others(run.lanes(one.shape), renaming)))
    return found


def lanes_meet(world: World, access: Access, level: Level, with_extents: bool = True) -> list[Formula]:
    """Returns that two lanes of a store have one address and not surely one value.

    Args:
        level: conditions under which it is inside its array, and others perhaps.
        with_extents: whether that is said, too.
    """
    live, pointer, inside = located(world, access, level)
    renaming = world.other_lane
    apart = others(world.run(level).lanes(access.shape), renaming)
    axes = axes_of(access.stored) if access.stored is not None else frozenset(range(len(access.shape)))
    return [
        live, renaming.formula(live), either(*[apart[axis] for axis in sorted(axes)]),
        equal(pointer.offset - renaming.polynomial(pointer.offset), 0),
        *([inside, renaming.formula(inside)] if with_extents else ()),
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
            source = t.shape_of(op.operands[0].type)
            return frozenset([axis for axis in axes_of(op.operands[0], depth + 1) if source[axis] > 1])
        case "tt.expand_dims":
            axis = property_number(op, "axis")
            return frozenset([each + (each >= axis) for each in axes_of(op.operands[0], depth + 1)])
    return everything


__all__ = [
    "axes_of",
    "is_aligned",
    "is_inside",
    "is_never_executed",
    "known",
    "lanes_meet",
    "lanes_meet_later",
    "located",
    "misaligned",
    "outside",
    "overlap",
    "programs_meet",
]

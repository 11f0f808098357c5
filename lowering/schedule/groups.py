"""Defines groups: the symbols that one kernel computes, and how each of them maps to the kernel's axes.

Members are the symbols that are tied to the kernel: its reductions, contractions and scans, and what is
computed from them. Pure producers are not members; they are evaluated wherever they are read (see
`grouping.py`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import field

from ...graph.symbol import Symbol
from ...promotion.dataclass import dataclass
from ..nest import Extent, Template
from .extents import exact_quotient, is_one, product
from .indexing import AxisMap


@dataclass(slots=True)
class Group:
    """One kernel in the making.

    Attributes:
        bit: the group's bit in dependency masks.
        kind: the tile template it must fit.
        axes: extents of its axes; an `AxisMap` refers to them by position.
        reduced: the reduced dimensions of a row group (of attention: the keys), each a tuple of axes.
        splittable: axes that reshapes may split into factors; the others have a fixed role in the template.
        members: axis map of every member, by symbol id.
        reads: axis maps of the operands of reductions, scans and contractions, by symbol id of the op.
        roles: axes (m, n, k) of every contraction, which keep their position in the nest even when their extent
            is 1. Of an axis that was split, the inner factor.
        depth: all axes that a contraction runs over, outermost first; k is the last.
        stores: ids of the symbols it writes to memory, in the order they were found to be needed.
    """

    bit: int
    kind: Template
    axes: list[Extent]
    reduced: tuple[tuple[int, ...], ...] = ()
    splittable: set[int] = field(default_factory=set)
    members: dict[int, AxisMap] = field(default_factory=dict)
    reads: dict[int, tuple[AxisMap, ...]] = field(default_factory=dict)
    roles: dict[int, tuple[int, int, int]] = field(default_factory=dict)
    depth: dict[int, tuple[int, ...]] = field(default_factory=dict)
    stores: dict[int, None] = field(default_factory=dict)

    @property
    def reduced_axes(self) -> frozenset[int]:
        return frozenset([axis for dimension in self.reduced for axis in dimension])

    @property
    def innermost(self) -> int | None:
        """The last axis whose extent is not 1; None where there is none."""
        return next((axis for axis in reversed(range(len(self.axes))) if not is_one(self.axes[axis])), None)

    def new_axis(self, extent: Extent, splittable: bool = False) -> int:
        axis = len(self.axes)
        self.axes.append(extent)
        if splittable:
            self.splittable.add(axis)
        return axis

    def extent_of(self, axes: Sequence[int]) -> Extent:
        return product([self.axes[axis] for axis in axes])

    def split(self, axis: int, inner: Extent) -> tuple[int, int] | None:
        """Replaces `axis` by (outer, inner) factors everywhere and returns both axes, or None when the role
        of the axis or its size forbids it."""
        if axis not in self.splittable:
            return None
        outer = exact_quotient(self.axes[axis], inner)
        if outer is None:
            return None
        self.axes[axis] = outer
        second = self.new_axis(inner, splittable=True)

        def renamed(axes: tuple[int, ...]) -> tuple[int, ...]:
            if axis not in axes:
                return axes
            position = axes.index(axis)
            return (*axes[: position + 1], second, *axes[position + 1 :])

        self._rewrite(renamed)
        return axis, second

    def split_role(self, axis: int, inner: Extent) -> bool:
        """Splits the rows or the contracted axis of a contraction, and returns whether that is possible. The inner factor
        takes the role; the outer one becomes a batch axis of the rows, or another contracted axis."""
        (key,) = self.roles if len(self.roles) == 1 else (None,)
        if key is None or axis not in (self.roles[key][0], self.roles[key][2]):
            return False
        self.splittable.add(axis)
        factors = self.split(axis, inner)
        if factors is None:
            return False
        self.splittable.difference_update(factors)
        m, n, k = self.roles[key]
        if axis == k:
            self.depth[key] = (*self.depth[key][:-1], *factors)
        self.roles[key] = (factors[1] if axis == m else m, n, factors[1] if axis == k else k)
        return True

    def _rewrite(self, change: Callable[[tuple[int, ...]], tuple[int, ...]]) -> None:
        self.reduced = tuple([change(axes) for axes in self.reduced])
        self.members = {key: tuple([change(axes) for axes in value]) for key, value in self.members.items()}
        self.reads = {
            key: tuple([tuple([change(axes) for axes in value]) for value in values])
            for key, values in self.reads.items()
        }

    def is_storable(self, symbol: Symbol) -> bool:
        """Returns whether `symbol` is a member that the group's axes cover; a broadcast dimension along which
        nothing varies is not covered."""
        axis_map = self.members.get(symbol.id)
        return axis_map is not None and all(
            axes or is_one(extent) for axes, extent in zip(axis_map, symbol.shape, strict=True)
        )

    def absorb(self, other: Group, axis_of: dict[int, int]) -> None:
        """Takes over the members of `other`, whose axes correspond to this group's by `axis_of`."""

        def change(axes: tuple[int, ...]) -> tuple[int, ...]:
            return tuple([axis_of[axis] for axis in axes])

        other._rewrite(change)
        self.members.update(other.members)
        self.reads.update(other.reads)
        self.stores.update(other.stores)


def align(axis_map: AxisMap, rank: int) -> AxisMap:
    """Returns the axis map of an operand broadcast to `rank` dimensions, aligned at the right as in NumPy."""
    return ((),) * (rank - len(axis_map)) + axis_map


def is_distinct(axis_map: AxisMap) -> bool:
    axes = [axis for dimension in axis_map for axis in dimension]
    return len(set(axes)) == len(axes)


def joined_map(group: Group, shape: tuple[Extent, ...], operands: Sequence[AxisMap]) -> AxisMap | None:
    """Returns the axis map of an elementwise op on members: the operands' axes, joined per dimension.

    A dimension along which no member varies comes from operands outside (the `x` of `x - mean(x)`); in a
    group with reductions it is taken to be a reduced one of that size, which makes softmax and layer norm one
    nest. Returns None if the op does not fit the group.
    """
    rank = len(shape)
    joined: list[tuple[int, ...]] = [()] * rank
    for operand in operands:
        for position, axes in enumerate(align(operand, rank)):
            if axes and joined[position] != axes:
                if joined[position]:
                    return None
                joined[position] = axes
    used = {axis for axes in joined for axis in axes}
    for position, extent in enumerate(shape):
        if joined[position] or is_one(extent):
            continue
        for axes in group.reduced:
            if axes and used.isdisjoint(axes) and group.extent_of(axes) == extent:
                joined[position] = axes
                used.update(axes)
                break
        else:
            return None
    result = tuple(joined)
    return result if is_distinct(result) else None


def computed_of(symbol: Symbol, is_read: Callable[[Symbol], bool]) -> tuple[int, tuple[str, ...]]:
    """Returns the id of the one symbol that a symbol is computed of elementwise, besides constants, and by which views of it.

    The symbol is the last one that is read from memory, or itself. What is reduced of the same one by one kernel is read once.
    """
    views: list[str] = []
    while symbol.op.kind == "view" or (symbol.op.kind == "map" and not is_read(symbol)):
        operands = {each.id: each for each in symbol.inputs if each.shape or each.op.kind != "source"}
        if len(operands) != 1:
            break
        (operand,) = operands.values()
        if symbol.op.kind == "view":
            views.append(f"{symbol.op.name} {symbol.shape} {sorted(symbol.attrs.items())}")
        elif operand.shape != symbol.shape:
            break
        symbol = operand
    return symbol.id, tuple(views)


def merge_correspondence(
    target: Group,
    source: Group,
    shape: tuple[Extent, ...],
    target_maps: Sequence[AxisMap],
    source_maps: Sequence[AxisMap],
) -> dict[int, int] | None:
    """Maps axes of `source` to axes of `target` such that an op that reads members of both row groups makes
    them one nest; returns None if there is no such map.

    Every axis of `source`, and every reduced axis of `target`, must find its equal in size and role (kept or
    reduced). Kept axes of `target` may be missing in `source`: its reductions are then smaller by those axes,
    so repeating them costs little.
    """
    rank = len(shape)
    pairs: dict[int, int] = {}
    for position in range(rank):
        ours = {aligned for m in target_maps if (aligned := align(m, rank)[position])}
        theirs = {aligned for m in source_maps if (aligned := align(m, rank)[position])}
        if len(ours) > 1 or len(theirs) > 1:
            return None
        if not ours or not theirs:
            continue
        our_axes, their_axes = ours.pop(), theirs.pop()
        if [target.axes[axis] for axis in our_axes] != [source.axes[axis] for axis in their_axes]:
            return None
        for our_axis, their_axis in zip(our_axes, their_axes, strict=True):
            if pairs.setdefault(their_axis, our_axis) != our_axis:
                return None
    their_reduced, our_reduced = source.reduced_axes, target.reduced_axes
    if any((theirs in their_reduced) != (ours in our_reduced) for theirs, ours in pairs.items()):
        return None
    taken = set(pairs.values())
    for dimension in source.reduced:
        missing = [axis for axis in dimension if axis not in pairs]
        if not missing:
            continue
        if missing != list(dimension):
            return None
        for candidate in target.reduced:
            if taken.isdisjoint(candidate) and [target.axes[a] for a in candidate] == [
                source.axes[a] for a in dimension
            ]:
                pairs.update(zip(dimension, candidate, strict=True))
                taken.update(candidate)
                break
        else:
            return None
    if len(pairs) != len(source.axes) or len(taken) != len(pairs) or not our_reduced <= taken:
        return None
    return pairs


def permuted_map(axis_map: AxisMap, axes: Sequence[int]) -> AxisMap:
    return tuple([axis_map[axis] for axis in axes])


def reshaped_map(
    group: Group, axis_map: AxisMap, source: tuple[Extent, ...], target: tuple[Extent, ...]
) -> AxisMap | None:
    """Returns the axis map of a reshaped member, splitting axes of the group that a boundary of the new shape
    cuts.

    Returns None, and leaves the group unchanged, if an axis that must keep its role would be split or a
    broadcast dimension merged.
    """
    if any(not axes and not is_one(extent) for axes, extent in zip(axis_map, source, strict=True)):
        return None
    pending = [axis for axes in axis_map for axis in axes][::-1]  # the next axis is at the end
    sizes, splittable = list(group.axes), set(group.splittable)
    splits: list[tuple[int, Extent]] = []
    dealt: list[tuple[int, ...]] = []
    for want in target:
        taken: list[int] = []
        have: Extent = 1
        while have != want:
            if not pending:
                return None
            axis = pending.pop()
            grown = have * sizes[axis]
            if grown != want and exact_quotient(want, grown) is None:
                outer = exact_quotient(want, have)
                inner = None if outer is None else exact_quotient(sizes[axis], outer)
                if outer is None or inner is None or axis not in splittable:
                    return None
                pending.append(len(sizes))
                splittable.add(len(sizes))
                sizes.append(inner)
                sizes[axis] = outer
                splits.append((axis, inner))
                grown = want
            have = grown
            taken.append(axis)
        dealt.append(tuple(taken))
    if pending:
        return None
    for axis, inner in splits:  # creates the same axis numbers as above
        group.split(axis, inner)
    return tuple(dealt)


def own_axes(group: Group, shape: Sequence[Extent]) -> AxisMap:
    """Adds an axis to the group for every dimension of `shape` that is not 1, and returns their axis map."""
    return tuple([() if is_one(extent) else (group.new_axis(extent, splittable=True),) for extent in shape])


def reduces_group(group: Group, operand: Symbol, operand_map: AxisMap, over: tuple[int, ...]) -> bool:
    """Returns whether reducing `operand` over dimensions `over` is reducing over the group's own reduced
    dimensions."""
    reduced = group.reduced_axes
    if not reduced or not is_distinct(operand_map):
        return False
    covered: set[int] = set()
    for d, (axes, extent) in enumerate(zip(operand_map, operand.shape, strict=True)):
        if not axes and not is_one(extent):
            return False
        if d in over:
            covered.update(axes)
        elif not reduced.isdisjoint(axes):
            return False
    return covered == reduced


def viewed_map(symbol: Symbol, group: Group, axis_map: AxisMap) -> AxisMap | None:
    """Returns the axis map of a view of a member that has `axis_map`; None where it is none, or reads other elements."""
    name = symbol.op.name
    if name == "permute":
        return permuted_map(axis_map, symbol.attrs["axes"])
    if name == "reshape":
        return reshaped_map(group, axis_map, symbol.inputs[0].shape, symbol.shape)
    if name == "broadcast_to":
        return align(axis_map, len(symbol.shape))
    return None


def unless_one(group: Group, axis: int) -> tuple[int, ...]:
    """Returns the map of a dimension that has this axis: no axis where its extent is one."""
    return () if is_one(group.axes[axis]) else (axis,)


def operand_batch(batch: AxisMap, operand: Symbol, rank: int) -> AxisMap:
    """Returns the axis maps of the batch dimensions of a matmul operand, which broadcast against the
    result's."""
    own = operand.shape[:-2]
    return tuple(
        [
            () if is_one(extent) else axes
            for extent, axes in zip(own, batch[rank - 2 - len(own) :], strict=True)
        ]
    )

"""Turns groups into nests: evaluates what a group stores over the group's axes, and checks that a tile
template can run the result."""

from __future__ import annotations

from collections.abc import Callable

from ...graph.symbol import Symbol
from ..nest import Buffer, Extent, Nest
from .body import BodyBuilder, NeedsBufferError, SplitAxisError
from .canonical import PendingStore, finish
from .extents import at_most, contiguous_strides
from .fusion.grouping import Grouping
from .groups import Group, own_axes
from .indexing import linear, map_indices, mask_of, shift
from .templates import NoTemplateError, grid_axes

MAX_SPLITS = 16
"""Most axes of a group that are split; what would need more is stored."""


class MisfitError(Exception):
    """Raised when a group's nest fits no tile template. Never leaves the scheduler."""

    def __init__(self, group: Group, reason: str) -> None:
        super().__init__(reason)
        self.group = group


class EmptyGridError(Exception):
    """Raised when a group would store a value that does not vary along a grid axis that may be empty, so that
    no program would write it.

    `symbols` are the group's reductions that do not vary along such an axis. Never leaves the scheduler.
    """

    def __init__(self, symbols: frozenset[int]) -> None:
        super().__init__(f"%{sorted(symbols)} must not share a kernel with a grid that may be empty")
        self.symbols = symbols


def build_nest(grouping: Grouping, group: Group, buffer_of: Callable[[Symbol], Buffer]) -> Nest:
    """Returns the nest of `group`.

    Raises `NeedsBufferError`, `MisfitError` or `EmptyGridError` when the groups have to be formed anew.
    """
    splits = 0
    while True:
        builder = BodyBuilder(grouping, group)
        try:
            stores = _stores(builder, grouping, group)
        except SplitAxisError as split:
            splits += 1
            is_split = group.split(split.axis, split.inner) is not None or group.split_role(split.axis, split.inner)
            if not is_split or splits > MAX_SPLITS:
                raise NeedsBufferError(split.symbol) from split
            continue
        symbols = tuple(sorted(builder.evaluated))
        fused = tuple([grouping.symbols[key].op.name for key in symbols])
        try:
            nest = finish(builder.entries, stores, group, fused, symbols, buffer_of)
        except NoTemplateError as error:
            raise MisfitError(group, str(error)) from error
        if nest.template != group.kind and not (nest.template == "map" and group.kind in ("row", "scan")):
            raise MisfitError(group, f"it is of the template {nest.template}")
        if lacks_programs(nest):
            raise EmptyGridError(_smaller_reductions(group))
        return nest


def lacks_programs(nest: Nest) -> bool:
    """Returns whether there are sizes for which the nest has elements to store but no program to store
    them."""
    maybe_empty = {axis for axis in grid_axes(nest) if not at_most(1, nest.axes[axis].extent)}
    return any(not maybe_empty <= set(nest.body[store.value].axes) for store in nest.stores)


def _smaller_reductions(group: Group) -> frozenset[int]:
    """Returns the reductions of a group that do not vary along all grid axes that may be empty, which came
    from absorbed groups; all its reductions and stores if there are none."""
    reduced = group.reduced_axes
    maybe_empty = {axis for axis, extent in enumerate(group.axes) if axis not in reduced and not at_most(1, extent)}
    smaller = [key for key in group.reads if not maybe_empty <= {axis for axes in group.members[key] for axis in axes}]
    return frozenset(smaller or (*group.reads, *group.stores))


def copy_nest(
    grouping: Grouping, symbol: Symbol, target: Buffer, buffer_of: Callable[[Symbol], Buffer]
) -> Nest:
    """Makes the nest of an output that no kernel computes: it copies `symbol`, which is in memory or a
    constant, to `target`."""
    group = Group(0, "map", [])
    indices = map_indices(own_axes(group, symbol.shape), group.axes)
    builder = BodyBuilder(grouping, group)
    axes = (1 << len(group.axes)) - 1
    value = builder.spread(builder.evaluate(symbol, indices), axes)
    store = PendingStore(value, target, linear(indices, contiguous_strides(symbol.shape)), axes, symbol.location)
    return finish(builder.entries, [store], group, ("copy",), (symbol.id,), buffer_of)


def _stores(builder: BodyBuilder, grouping: Grouping, group: Group) -> list[PendingStore]:
    fixed = 0
    if group.roles:
        roles = list(group.roles.values())
        fixed = 1 << roles[0][0] | 1 << roles[-1][1]
    stores: list[PendingStore] = []

    def add(symbol: Symbol, whole: Symbol, axis: int, offset: Extent) -> None:
        axis_map = group.members[symbol.id]
        indices = list(map_indices(axis_map, group.axes))
        axes = mask_of(axis_map) | fixed
        value = builder.spread(builder.evaluate(symbol, tuple(indices)), axes)
        if whole is not symbol:
            indices[axis] = shift(indices[axis], offset)
        at = linear(indices, contiguous_strides(whole.shape))
        stores.append(PendingStore(value, whole, at, axes, symbol.location))

    for key in group.stores:
        add(grouping.symbols[key], grouping.symbols[key], 0, 0)
    for part in grouping.parts.get(group.bit, ()):
        add(grouping.symbols[part.part], grouping.symbols[part.whole], part.axis, part.offset)
    return stores

"""Describes how tensors lie in memory, and what compiled parts take them for: axes in the order of memory, gaps as room."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import torch

from ...graph.dims.dim import Extent, dim


@dataclass(frozen=True, slots=True)
class Layout:
    """How the elements of a result lie in memory: the axes from the outermost to the innermost, and the strides stated.

    Attributes:
        order: None for row-major order.
        strides: None where they depend on symbolic sizes.
        copies: whether the elements do not lie side by side in any order of the axes.
    """

    order: tuple[int, ...] | None
    strides: tuple[int, ...] | None
    copies: bool = False

    def axes(self, rank: int) -> tuple[int, ...]:
        """Return the axes from the outermost to the innermost."""
        return tuple(range(rank)) if self.order is None else self.order


def layout_of(value: Any) -> Layout:
    """Return the layout of a tensor, fake ones included."""
    sizes, steps = _numbers(value.shape), _numbers(value.stride())
    static = all(isinstance(number, int) for number in (*value.shape, *value.stride()))
    order = sorted(range(len(sizes)), key=lambda axis: (-steps[axis], sizes[axis] == 1, axis))
    long = [axis for axis in order if sizes[axis] != 1]
    expected, dense = 1, True
    for axis in reversed(long):
        dense = dense and steps[axis] == expected
        expected *= max(sizes[axis], 1)
    if 0 in sizes:
        dense, long = True, []
    straight = long == sorted(long)
    strides = tuple(steps) if static else None
    if straight:
        return Layout(None, strides, not dense)
    return Layout(tuple(_filled(order, sizes)), strides, not dense)


def _numbers(extents: Sequence[Any]) -> list[int]:
    """Return sizes or strides as numbers; those of the traced example for symbolic ones."""
    return [int(extent) if isinstance(extent, int) else _hint(extent) for extent in extents]


def _filled(order: Sequence[int], sizes: Sequence[int]) -> list[int]:
    """Return an order in which axes of size 1, whose strides mean nothing, come first."""
    return [axis for axis in order if sizes[axis] == 1] + [axis for axis in order if sizes[axis] != 1]


def _hint(size: Any) -> int:
    hint = size.node.hint
    return int(hint) if hint is not None else 2


# -- inputs ------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Axis:
    """An axis of an input as a compiled part reads it.

    Attributes:
        number: the axis of the tensor.
        repeated: whether the same elements lie all along it (stride 0): the part takes one of them.
        room: for how many elements there is memory along it, if for more than it has; "found" where its stride depends on
            symbolic sizes: each call finds it in the stride of the next axis.
        step: every which element of the room it has.
    """

    number: int
    repeated: bool = False
    room: int | Literal["found"] | None = None
    step: int = 1


@dataclass(frozen=True, slots=True)
class Reading:
    """What a compiled part takes for an input: a dense array of which the tensor is a part. Strides are checked by each call.

    Attributes:
        axes: from the outermost to the innermost in memory.
        unit: elements from one to the next of the innermost axis; the array has an axis of this size behind it if it is not 1.
            "found" where the stride is symbolic.
    """

    axes: tuple[Axis, ...]
    unit: int | Literal["found"] = 1

    @property
    def is_plain(self) -> bool:
        """Whether the array is all of the tensor, in row-major order."""
        return self.unit == 1 and all(axis == Axis(number) for number, axis in enumerate(self.axes))

    @property
    def is_dense(self) -> bool:
        """Whether the array is all of the tensor."""
        return self.unit == 1 and all(axis == Axis(axis.number) for axis in self.axes)

    def room_name(self, name: str, axis: Axis) -> str:
        """Return the name of the symbolic size of an axis's room."""
        return f"{name}_room_{axis.number}"

    def unit_name(self, name: str) -> str:
        """Return the name of a symbolic unit."""
        return f"{name}_unit"

    def source_shape(self, name: str, shape: Sequence[Extent]) -> tuple[Extent, ...]:
        """Return the shape of the array, for a tensor of a shape."""
        extents: list[Extent] = []
        for axis in self.axes:
            if axis.repeated:
                extents.append(1)
            elif axis.room == "found":
                extents.append(dim(self.room_name(name, axis)))
            else:
                extents.append(shape[axis.number] if axis.room is None else axis.room)
        if self.unit != 1:
            extents.append(self.unit if isinstance(self.unit, int) else dim(self.unit_name(name)))
        return tuple(extents)


def dense_reading(value: Any) -> Reading:
    """Return the reading of a tensor, fake ones included, whose elements lie side by side; others are copied for it."""
    return Reading(tuple([Axis(number) for number in layout_of(value).axes(len(value.shape))]))


def reading_of(value: Any) -> Reading:
    """Return how a part reads a tensor, fake ones included, without a copy; the dense reading where there is no such."""
    plain = dense_reading(value)
    if not layout_of(value).copies:
        return plain
    sizes, steps = _numbers(value.shape), _numbers(value.stride())
    if any(step < 0 for step in steps):
        return plain
    single = [number for number, size in enumerate(sizes) if size == 1]
    repeated = [number for number, size in enumerate(sizes) if size != 1 and steps[number] == 0]
    order = [number for number in sorted(range(len(sizes)), key=lambda each: (-steps[each], each))
             if number not in single and number not in repeated]  # fmt: skip
    outer = [Axis(number) for number in single] + [Axis(number, repeated=True) for number in repeated]
    if not order:
        return Reading(tuple(outer))
    found: list[Axis] = []
    unit: int | Literal["found"] = 1
    running = 1
    is_known = [type(step) is int for step in value.stride()]
    if not is_known[order[-1]]:
        unit, running = "found", steps[order[-1]]
    elif len(order) == 1:
        unit = running = steps[order[0]]
    for position in range(len(order) - 1, -1, -1):  # from the innermost axis
        number = order[position]
        step = 1
        if position == len(order) - 1 and unit == 1:
            step = steps[number]
        if steps[number] != running * step:
            return plain
        if not position:
            found.insert(0, Axis(number))
            break
        following = steps[order[position - 1]]
        room, rest = divmod(following, running)
        if rest or room <= (sizes[number] - 1) * step:
            return plain
        if room == sizes[number] and step == 1:
            found.insert(0, Axis(number))
        else:
            both = is_known[number] and is_known[order[position - 1]]
            found.insert(0, Axis(number, room=room if both else "found", step=step))
        running = following
    return Reading((*outer, *found), unit)


# -- results -----------------------------------------------------------------------------------------------------------


def laid_out(tensor: Any, layout: Layout) -> Any:
    """Return a tensor that was computed in the order of its memory with the strides that are stated."""
    if layout.order is not None:
        back = sorted(range(len(layout.order)), key=layout.order.__getitem__)
        tensor = tensor.permute(back)
    return restrided(tensor, layout)


def restrided(tensor: Any, layout: Layout) -> Any:
    """Return a dense tensor with the strides that are stated."""
    if layout.strides is None or tensor.stride() == layout.strides:
        return tensor
    if not layout.copies:
        return tensor.as_strided(tensor.shape, layout.strides)  # axes of size 1 alone differ
    single = tensor
    for axis, step in enumerate(layout.strides):
        if step == 0:  # the same elements all along the axis
            single = single.narrow(axis, 0, 1)
    if _overlaps(single.shape, layout.strides):
        return tensor
    return torch.empty_strided(single.shape, layout.strides, dtype=tensor.dtype).copy_(single).as_strided(
        tensor.shape, layout.strides
    )


def _overlaps(sizes: Sequence[int], strides: Sequence[int]) -> bool:
    """Return whether two elements of a tensor may lie at one address."""
    reach = 0
    for step, size in sorted(zip(strides, sizes, strict=True)):
        if size > 1:
            if step <= reach:
                return True
            reach += step * (size - 1)
    return False

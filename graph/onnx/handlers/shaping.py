"""Handles operators that move elements without computing: views, joins and pads."""

from __future__ import annotations

from collections.abc import Sequence as Ordered

from ....promotion.dtype import int64
from ...dims.dim import Dim, Extent, at_most, ceil_div, exact_quotient, lower_bound, maximum, minimum, product
from ...functions.building import apply
from ...functions.creation import full
from ...functions.joining import concat as joined
from ...functions.joining import cropped, without_ends
from ...functions.joining import pad as padded
from ...functions.joining import split as pieces
from ...functions.joining import tile as tiled
from ...functions.positions import counting
from ...functions.shaping import expand as expanded
from ...functions.shaping import squeeze as squeezed
from ...functions.shaping import unsqueeze as unsqueezed
from ...indexing import is_open, near
from ...symbol import Symbol
from ..node import Node, Result
from ..registry import handles
from ..sizes.broadcasting import with_units
from ..sizes.moving import bounds_of, window
from ..values import Growing, Known
from .spatial.gathered import windows_at

_LARGE, _SAMPLES = 1 << 12, 64
"""Where forms of sizes are compared; a launch checks that they agree."""


@handles("Reshape")
def reshape(node: Node) -> Result:
    """Reshape; 0 copies a size unless allowzero=1, and one size may be -1."""
    node.ignore("consumed_inputs")
    x = node[0]
    wanted = list(node.sizes(1, "the shape of Reshape")) if node.version >= 5 else list(node.attr("shape"))
    if not node.attr("allowzero", 0):
        for axis, extent in enumerate(wanted):
            if isinstance(extent, int) and extent == 0:
                node.require(axis < len(x.shape), f"size {axis} is 0, which copies axis {axis} of {len(x.shape)}")
                wanted[axis] = x.shape[axis]
    unknown = [axis for axis, extent in enumerate(wanted) if isinstance(extent, int) and extent == -1]
    node.require(len(unknown) < 2, "-1 stands for more than one size")
    if unknown and 0 in wanted:
        wanted[unknown[0]] = 0
    same = _as_in(x.shape, wanted, unknown[0] if unknown else None)
    if same is not None:
        for axis in unknown:
            wanted[axis] = same[axis]
        return apply("reshape", x.reshape(tuple(wanted)), shape=tuple(same))  # the first one has a launch check that they agree
    return x.reshape(tuple(wanted))


def _as_in(shape: tuple[Extent, ...], wanted: list[Extent], unknown: int | None) -> list[Extent] | None:
    """Return a shape with one size as the operand has it, where the number of elements says that it is that one.

    Exporters compute sizes of windows anew, in another form: with that of the operand, sizes divide exactly.
    """
    count = product(shape)
    others = product([extent for axis, extent in enumerate(wanted) if axis != unknown])
    if exact_quotient(count, others) is not None:
        return None
    own = [extent for extent in shape if isinstance(extent, Dim) and extent not in wanted]
    for axis, extent in enumerate(wanted):
        if not isinstance(extent, Dim) or extent in shape:
            continue
        for known in own:
            if not _equal_where_large(extent, known):
                continue
            found = [*wanted[:axis], known, *wanted[axis + 1 :]]
            quotient = exact_quotient(count, product([each for at, each in enumerate(found) if at != unknown]))
            if quotient is not None and (quotient == 1 if unknown is None else isinstance(quotient, int)):
                if unknown is not None:
                    found[unknown] = quotient
                return found
    return None


def _equal_where_large(first: Dim, second: Dim) -> bool:
    """Return whether two forms of a size agree at some large sizes; near 0, where quotients are rounded up, they may differ."""
    names = sorted(first.symbols())
    if names != sorted(second.symbols()):
        return False
    samples = [{name: _LARGE + 97 * number + step for number, name in enumerate(names)} for step in range(_SAMPLES)]
    return all(first.evaluate(sizes) == second.evaluate(sizes) for sizes in samples)


@handles("Transpose")
def transpose(node: Node) -> Result:
    """Permute axes; by default they are reversed. Of gathers at equally spaced positions it may make windows."""
    x = node[0]
    order = tuple(node.attr("perm", tuple(range(len(x.shape)))[::-1]))
    found = windows_at(x, order)
    return x.permute(order) if found is None else found


@handles("Flatten")
def flatten(node: Node) -> Result:
    """Make a matrix of the axes before `axis` and those from it on."""
    x = node[0]
    axis = node.attr("axis")
    rank = len(x.shape)
    node.require(-rank <= axis <= rank, f"axis {axis} of {rank} axes")
    axis = axis + rank if axis < 0 else axis
    return x.reshape((product(x.shape[:axis]), product(x.shape[axis:])))


def _axes(node: Node, what: str) -> tuple[int, ...] | None:
    """Return axes given as an attribute or, since opset 13, an input; None where they are left out."""
    if node.version < 13:
        given = node.attr("axes", None)
        return None if given is None else tuple(given)
    return node.ints(1, what) if node.has(1) else None


@handles("Squeeze")
def squeeze(node: Node) -> Result:
    """Remove axes of size 1, the named ones or all."""
    x = node[0]
    axes = _axes(node, "the axes of Squeeze")
    if axes is None:
        node.static_shape(0)
        return squeezed(x)
    return squeezed(x, node.axes(axes, len(x.shape)))


@handles("Unsqueeze")
def unsqueeze(node: Node) -> Result:
    """Insert axes of size 1."""
    x = node[0]
    axes = _axes(node, "the axes of Unsqueeze") or ()
    return unsqueezed(x, node.axes(axes, len(x.shape) + len(axes))) if axes else x


@handles("Expand")
def expand(node: Node) -> Result:
    """Broadcast to a shape; sizes of 1 in it keep those of the operand."""
    shape = node.counts(1, "the shape of Expand")
    return expanded(*with_units(node[0], shape))


@handles("Concat")
def concat(node: Node) -> Result:
    """Concatenate along an axis."""
    first = node.value(0)
    if isinstance(first, Growing):
        more = [node[position] for position in range(1, len(node))]
        node.require(bool(more), "one operand")
        axis = node.axis(node.attr("axis"), len(more[0].shape))
        return first.appended(joined(more, axis), axis)
    values = node.all()
    number = node.attr("axis", 1) if node.version < 4 else node.attr("axis")
    return joined(values, node.axis(number, len(values[0].shape)))


@handles("Split")
def split(node: Node) -> Result:
    """Split into parts of given sizes, or into equal ones of which the last may be smaller."""
    x = node[0]
    axis = node.axis(node.attr("axis", 0), len(x.shape))
    extent, count = x.shape[axis], len(node.definition.outputs)
    sizes: Ordered[Extent]
    if node.has(1):
        sizes = node.sizes(1, "the sizes of Split")
    elif node.attr("split", None) is not None:
        sizes = node.attr("split")
    else:
        count = node.attr("num_outputs", count)
        node.require(0 < count <= node.limits.unrolled_nodes, f"{count} parts")
        each = ceil_div(extent, count)
        sizes = [*[each] * (count - 1), extent - each * (count - 1)]
        node.require(not isinstance(sizes[-1], int) or sizes[-1] >= 0, f"{extent} elements do not make {count} parts")
    node.ignore("num_outputs", "split")
    node.require(len(sizes) == len(node.definition.outputs), f"{len(sizes)} parts for {len(node.definition.outputs)} outputs")
    return pieces(x, list(sizes), axis)


@handles("Slice")
def slice_(node: Node) -> Result:
    """Take a slice of each named axis; bounds count from the end if negative, and are clamped."""
    x = node[0]
    rank = len(x.shape)
    starts: Ordered[Extent]
    stops: Ordered[Extent]
    if node.version < 10:
        starts, stops = node.attr("starts"), node.attr("ends")
        axes = node.attr("axes", tuple(range(len(starts))))
        steps: Ordered[int] = (1,) * len(starts)
    else:
        moving = _moving_slice(node) if isinstance(node.value(1), Symbol) else None
        if moving is not None:
            return moving
        starts, stops = node.sizes(1, "the starts of Slice"), node.sizes(2, "the ends of Slice")
        axes = node.ints(3, "the axes of Slice") if node.has(3) else tuple(range(len(starts)))
        steps = node.ints(4, "the steps of Slice") if node.has(4) else (1,) * len(starts)
    node.require(len(starts) == len(stops) == len(axes) == len(steps), "starts, ends, axes and steps differ in length")
    bounds: list[tuple[Extent, Extent, int]] = [(0, extent, 1) for extent in x.shape]
    for axis, start, stop, step in zip(node.axes(axes, rank), starts, stops, steps, strict=True):
        node.require(step != 0, "a step of Slice is 0")
        exact = node.definition.row == "slice"
        bounds[axis] = _exact(start, stop, step, x.shape[axis]) if exact else near(*_bounds(start, stop, step, x.shape[axis]))
    is_whole = all(bound == (0, extent, 1) for bound, extent in zip(bounds, x.shape, strict=True))
    if is_whole and node.definition.row != "slice":
        return x
    first, last, strides = zip(*bounds, strict=True)
    return apply("slice", x, starts=first, stops=last, steps=strides)


def _moving_slice(node: Node) -> Symbol | None:
    """Return a slice that moves with the iterations of loops, and whose sizes do not; None where it is none."""
    x, first, last = node[0], bounds_of(node.value(1)), bounds_of(node.value(2))
    if first is None or last is None or len(first) != len(last):
        return None
    numbers = node.ints(3, "the axes of Slice") if node.has(3) else tuple(range(len(first)))
    steps = node.ints(4, "the steps of Slice") if node.has(4) else (1,) * len(first)
    if len({len(first), len(numbers), len(steps)}) != 1:
        return None
    starts = node[1]
    for at, axis in enumerate(node.axes(numbers, len(x.shape))):
        if not (first[at].factors or last[at].factors):
            start, stop, step = near(*_bounds(first[at].size, last[at].size, steps[at], x.shape[axis]))
            whole = [(0, extent, 1) for extent in x.shape]
            begins, ends, strides = zip(*whole[:axis], (start, stop, step), *whole[axis + 1 :], strict=True)
            x = apply("slice", x, starts=begins, stops=ends, steps=strides)
            continue
        moved = window(x, axis, starts[at], first[at], last[at], steps[at])
        if moved is None:
            return None
        x = moved
    return x


def _exact(start: Extent, stop: Extent, step: int, extent: Extent) -> tuple[Extent, Extent, int]:
    """Return bounds of a slice that was written for one of a graph, whose launches check that they are in range."""
    if step < 0:
        return (extent + start if isinstance(start, Dim) or start < 0 else start), extent + stop, step
    return start, stop, step


def _bounds(start: Extent, stop: Extent, step: int, extent: Extent) -> tuple[Extent, Extent, int]:
    """Return bounds counted from the start and clamped; backwards the first one is clamped to an element, unlike Python's."""
    first, last = (_from_start(bound, extent, step) for bound in (start, stop))
    if step > 0:
        first, last = _clamped(first, 0, extent), _clamped(last, 0, extent)
        return first, maximum(first, last), step
    first = minimum(first if at_most(0, first) else maximum(first, 0), extent - 1)
    return first, minimum(first, _clamped(last, -1, extent - 1)), step


def _from_start(bound: Extent, extent: Extent, step: int) -> Extent:
    """Return a bound counted from the start of the axis, up to what clamping changes: a negative one counts from the end."""
    if is_open(bound):
        return extent if isinstance(bound, int) and bound > 0 else -1
    if (below := lower_bound(bound)) is not None and below >= 0:
        return bound
    if (above := lower_bound(-bound)) is not None and above > 0:
        return extent + bound
    if step > 0 and above == 0 and at_most(extent + bound, 0):
        return 0  # -t of t elements: the start, also where t is 0
    if step > 0 and below == -1 and any(exact_quotient(extent - rest, bound + 1) is not None for rest in (0, 1)):
        return bound  # t - 1 of t elements, or of t + 1: where it is negative there is no element before the last one
    is_negative = minimum(maximum(-bound, 0), 1)
    return bound + is_negative * extent


def _clamped(value: Extent, low: Extent, high: Extent) -> Extent:
    if not at_most(value, high):
        value = minimum(value, high)
    return value if at_most(low, value) else maximum(value, low)


@handles("Tile")
def tile(node: Node) -> Result:
    """Repeat the whole tensor along axes."""
    x = node[0]
    if node.version < 6:
        repeats: list[Extent] = [1] * len(x.shape)
        axis = node.integer(2, "the axis of Tile")
        (repeats[node.axis(axis, len(x.shape))],) = node.sizes(1, "the tiles of Tile")
        return tiled(x, tuple(repeats))
    counts = node.sizes(1, "the repeats of Tile")
    node.require(len(counts) == len(x.shape), f"{len(counts)} repeats for {len(x.shape)} axes")
    return tiled(x, counts) if counts else x


@handles("Pad")
def pad(node: Node) -> Result:
    """Add elements around a tensor; negative numbers remove some."""
    x = node[0]
    rank = len(x.shape)
    widths: Ordered[Extent]
    if node.version < 11:
        widths = node.attr("pads", None) or node.attr("paddings")
        axes = tuple(range(rank))
    else:
        widths = node.sizes(1, "the pads of Pad")
        axes = node.axes(node.ints(3, "the axes of Pad"), rank) if node.has(3) else tuple(range(rank))
    node.require(len(widths) == 2 * len(axes), f"{len(widths)} pads for {len(axes)} axes")
    low: list[Extent] = [0] * rank
    high: list[Extent] = [0] * rank
    for position, axis in enumerate(axes):
        low[axis], high[axis] = widths[position], widths[len(axes) + position]
    mode = node.attr("mode")
    node.require(mode in ("constant", "reflect", "edge", "wrap"), f"mode {mode!r}")
    if mode != "constant":
        node.ignore("value")
        if node.has(2):
            node.value(2)  # fills constant padding only
        removed = [(maximum(before * -1, 0), maximum(after * -1, 0)) for before, after in zip(low, high, strict=True)]
        x = without_ends(x, removed, checked=True)
        pairs = [(maximum(before, 0), maximum(after, 0)) for before, after in zip(low, high, strict=True)]
        return padded(x, pairs, mode)
    x, pairs = cropped(x, low, high, checked=True)
    if not node.has(2):
        value = node.attr("value", 0)
        return padded(x, pairs, value=bool(value) if x.dtype.is_bool else value)
    given = node.value(2)
    if isinstance(given, Known):
        node.require(given.array.size == 1, f"a value of {given.array.size} elements; one is expected")
        number = given.array.reshape(-1)[0]
        return padded(x, pairs, value=number.item() if hasattr(number, "item") else float(number))
    inside = padded(full(x, x.shape, True), pairs, value=False)
    return apply("where", inside, padded(x, pairs, value=False if x.dtype.is_bool else 0), node[2].reshape(()))


@handles("DepthToSpace")
def depth_to_space(node: Node) -> Result:
    """Move blocks of channels into space."""
    x = node[0]
    block = _block(node)
    mode = node.attr("mode", "DCR")
    node.require(mode in ("DCR", "CRD"), f"mode {mode!r}")
    return space_of_channels(x, block, mode)


def space_of_channels(x: Symbol, block: int, mode: str) -> Symbol:
    """Move blocks of channels of images (N, C, H, W) into space: DCR, blocks outside of channels, or CRD, inside."""
    batch, channels, height, width = x.shape
    depth = channels // (block * block)
    if mode == "DCR":
        apart = x.reshape((batch, block, block, depth, height, width)).permute((0, 3, 4, 1, 5, 2))
    else:
        apart = x.reshape((batch, depth, block, block, height, width)).permute((0, 1, 4, 2, 5, 3))
    return apart.reshape((batch, depth, height * block, width * block))


@handles("SpaceToDepth")
def space_to_depth(node: Node) -> Result:
    """Move blocks of space into channels."""
    x = node[0]
    block = _block(node)
    mode = node.attr("mode", "DCR")
    node.require(mode in ("DCR", "CRD"), f"mode {mode!r}")
    return channels_of_space(x, block, mode)


def channels_of_space(x: Symbol, block: int, mode: str) -> Symbol:
    """Move blocks of space of images (N, C, H, W) into channels: DCR, blocks outside of channels, or CRD, inside."""
    batch, channels, height, width = x.shape
    apart = x.reshape((batch, channels, height // block, block, width // block, block))
    order = (0, 3, 5, 1, 2, 4) if mode == "DCR" else (0, 1, 3, 5, 2, 4)
    return apart.permute(order).reshape((batch, channels * block * block, height // block, width // block))


def _block(node: Node) -> int:
    block: int = node.attr("blocksize")
    node.require(block > 0 and len(node.shape(0)) == 4, f"blocksize {block} and {len(node.shape(0))} axes; 4 axes are expected")
    return block


@handles("ReverseSequence")
def reverse_sequence(node: Node) -> Result:
    """Reverse the first elements of each row, as many as `sequence_lens` says."""
    x = node[0]
    time, batch = node.attr("time_axis"), node.attr("batch_axis")
    node.require(len(x.shape) >= 2, "a vector; time and batch axes are expected")
    node.require({time, batch} == {0, 1}, f"time_axis {time} and batch_axis {batch}; 0 and 1 are expected")
    aside = (1, x.shape[batch]) if batch == 1 else (x.shape[batch], 1)
    lengths = node[1].cast(int64).reshape(aside)
    steps = counting(node.graph, x.shape[time]).reshape((-1, 1) if time == 0 else (1, -1))
    source = apply("where", apply("less", steps, lengths), apply("sub", apply("sub", lengths, 1), steps), steps)
    wide = source.reshape((*source.shape, *(1,) * (len(x.shape) - 2)))
    return apply("take_along_axis", x, apply("broadcast_to", wide, shape=x.shape), axis=time)

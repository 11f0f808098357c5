"""Infers the shapes of results, by pure functions from operand shapes and attributes to a shape.

They raise `ShapeError`, which `Graph.apply` completes with the op and its operands. Whether two symbolic
sizes are equal may depend on the launch: `Checks` then records a runtime check. Two different plain names are
never taken to be equal silently.
"""

from __future__ import annotations

from collections.abc import Sequence

from ..checks import Checks, ShapeError
from ..dims.dim import Dim, Extent, at_most, exact_quotient, maximum, minimum, product
from ..types import Shape, shape_text
from .attributes import Attributes

# ------------------------------------------------------------------------------------------------------ elementwise


def broadcast_shapes(shapes: Sequence[Shape], checks: Checks) -> Shape:
    """Broadcast shapes as NumPy does: axes are aligned at the right, 1 stretches.

    A symbolic size is never taken for 1.
    """
    first = shapes[0]
    if all(shape == first for shape in shapes):
        return first
    rank = max([len(shape) for shape in shapes])
    result: list[Extent] = []
    for axis in range(-rank, 0):
        size: Extent = 1
        for shape in shapes:
            if len(shape) < -axis:
                continue
            extent = shape[axis]
            if extent is size or extent == size or (type(extent) is int and extent == 1):
                continue
            size = (
                extent if type(size) is int and size == 1 else _same_size(size, extent, axis, shapes, checks)
            )
        result.append(size)
    return tuple(result)


def _same_size(lhs: Extent, rhs: Extent, axis: int, shapes: Sequence[Shape], checks: Checks) -> Extent:
    if checks.decide(lhs, rhs) is False:
        texts = " and ".join(shape_text(shape) for shape in shapes)
        raise ShapeError(
            f"shapes {texts} do not broadcast: axis {axis} is {lhs} and {rhs}",
            "equal sizes, or 1, on every axis counted from the right",
            _broadcast_fix(shapes),
        )
    return checks.require_equal(lhs, rhs, f"broadcast along axis {axis}")


def _broadcast_fix(shapes: Sequence[Shape]) -> str:
    """Return a change that makes two shapes broadcast, tried out: swapped axes, or new axes at the end."""
    if len(shapes) == 2:
        for position, (shape, other) in enumerate(((shapes[1], shapes[0]), (shapes[0], shapes[1]))):
            which = f"operand {1 - position}"
            if len(shape) >= 2 and _fits((*shape[:-2], shape[-1], shape[-2]), other):
                return f"swap the last two axes of {which}: joinery.transpose(operand, -1, -2)"
            for count in range(1, len(other) - len(shape) + 1 if shape else 1):
                if _fits((*shape, *(1,) * count), other):
                    nones = ", ".join(["None"] * count)
                    return f"give {which} {'a new last axis' if count == 1 else 'new last axes'}: operand[..., {nones}]"
    return "reshape or slice one operand, or insert axes of size 1 with operand[:, None]"


def _fits(shape: Shape, other: Shape) -> bool:
    return all(a == b or a == 1 or b == 1 for a, b in zip(reversed(shape), reversed(other), strict=False))


def elementwise(shapes: Sequence[Shape], attrs: Attributes, checks: Checks) -> Shape:
    return shapes[0] if len(shapes) == 1 else broadcast_shapes(shapes, checks)


def same(shapes: Sequence[Shape], attrs: Attributes, checks: Checks) -> Shape:
    """Return the shape of the first operand."""
    return shapes[0]


def given(shapes: Sequence[Shape], attrs: Attributes, checks: Checks) -> Shape:
    """Return the shape of the value that a source holds; inputs take theirs from their type instead."""
    value = attrs.get("value")
    return () if value is None else tuple(value.shape)


# --------------------------------------------------------------------------------------- reductions, scans, contractions


def normalize_axis(axis: object, rank: int, what: str = "axis") -> int:
    """Return an axis in [0, rank); negative axes count from the end.

    Raises `ShapeError` with the valid range.
    """
    if isinstance(axis, bool) or not hasattr(axis, "__index__"):
        raise ShapeError(f"{what} must be an int, not {axis!r}", "an int", "use -1 for the last axis")
    try:
        number = axis.__index__()
    except TypeError:  # of an array of rank 1, for example
        raise ShapeError(f"{what} must be an int, not {axis!r}", "an int", "use -1 for the last axis") from None
    if not -rank <= number < rank:
        if rank == 0:
            raise ShapeError(f"{what} {number} of a scalar, which has no axes", fix="leave the axis out")
        raise ShapeError(
            f"{what} {number} is out of range",
            f"-{rank} to {rank - 1} for {rank} axes",
            f"use {'-1 for the last axis' if number > 0 else '0 for the first axis'}",
        )
    return int(number % rank)


def normalize_axes(axis: object, rank: int) -> tuple[int, ...]:
    """Return sorted distinct axes for None (all), an int, or a sequence of ints.

    Raises `ShapeError` for axes out of range or named twice.
    """
    if axis is None:
        return tuple(range(rank))
    if not isinstance(axis, (tuple, list)):
        return (normalize_axis(axis, rank),)
    axes = sorted(normalize_axis(entry, rank) for entry in axis)
    if len(set(axes)) != len(axes):
        raise ShapeError(f"axis {tuple(axis)} names an axis twice", "distinct axes", "name each axis once")
    return tuple(axes)


def _check_axes(attrs: Attributes, rank: int) -> tuple[int, ...]:
    axes = attrs["axes"]
    if not isinstance(axes, tuple) or normalize_axes(axes, rank) != axes:
        raise ShapeError(f"axes {axes!r} are not sorted non-negative axes of rank {rank}")
    if not isinstance(attrs["keepdims"], bool):
        raise ShapeError(f"keepdims must be True or False, not {attrs['keepdims']!r}")
    return axes


def reduction(shapes: Sequence[Shape], attrs: Attributes, checks: Checks) -> Shape:
    shape = shapes[0]
    axes = _check_axes(attrs, len(shape))
    if attrs["keepdims"]:
        return tuple([1 if axis in axes else extent for axis, extent in enumerate(shape)])
    return tuple([extent for axis, extent in enumerate(shape) if axis not in axes])


def arg_reduction(shapes: Sequence[Shape], attrs: Attributes, checks: Checks) -> Shape:
    if len(attrs["axes"]) != 1:
        raise ShapeError(
            f"axes {attrs['axes']!r}: exactly one axis is needed", fix="flatten the operand first"
        )
    return reduction(shapes, attrs, checks)


def along_axis(shapes: Sequence[Shape], attrs: Attributes, checks: Checks) -> Shape:
    """Return the shape of the operand, which ops with an `axis` attribute keep."""
    axis = attrs["axis"]
    if normalize_axis(axis, len(shapes[0])) != axis:
        raise ShapeError(f"axis {axis} is not normalised")
    return shapes[0]


def matmul(shapes: Sequence[Shape], attrs: Attributes, checks: Checks) -> Shape:
    """Return the shape of a product: (…, M, K) @ (…, K, N) → (…, M, N)."""
    lhs, rhs = shapes
    if len(lhs) < 2 or len(rhs) < 2:
        raise ShapeError(
            f"operands of rank {len(lhs)} and {len(rhs)}", "at least two axes each", "use joinery.dot"
        )
    if checks.decide(lhs[-1], rhs[-2]) is False:
        raise ShapeError(
            f"the contracted sizes differ: axis -1 of operand 0 is {lhs[-1]}, axis -2 of operand 1 is {rhs[-2]}",
            "(…, M, K) @ (…, K, N)",
            _matmul_fix(lhs, rhs),
        )
    checks.require_equal(lhs[-1], rhs[-2], "contraction of axis -1 with axis -2")
    batch = broadcast_shapes((lhs[:-2], rhs[:-2]), checks) if len(lhs) + len(rhs) > 4 else ()
    return (*batch, lhs[-2], rhs[-1])


def _matmul_fix(lhs: Shape, rhs: Shape) -> str:
    if lhs[-1] == rhs[-1]:
        return "transpose operand 1: a @ joinery.transpose(b, -1, -2)"
    if lhs[-2] == rhs[-2]:
        return "transpose operand 0: joinery.transpose(a, -1, -2) @ b"
    if rhs[-1] == lhs[-2]:
        return "swap the operands: b @ a"
    return "reshape or slice one operand so that the two sizes agree"


def normalization(shapes: Sequence[Shape], attrs: Attributes, checks: Checks) -> Shape:
    """Return the shape of layer_norm and rms_norm of x, scale and bias: that of x.

    Scale and bias are vectors over the last axis.
    """
    shape = shapes[0]
    if not shape:
        raise ShapeError("a scalar has no axis to normalise over", "at least one axis")
    wanted = 1 + sum(bool(attrs.get(name, False)) for name in ("has_scale", "has_bias"))
    if len(shapes) != wanted:
        raise ShapeError(f"{len(shapes)} operands, the attributes say {wanted}")
    size = shape[-1]
    for position, vector in enumerate(shapes[1:], 1):
        if len(vector) != 1 or checks.decide(vector[0], size) is False:
            raise ShapeError(
                f"operand {position} has shape {shape_text(vector)}",
                f"{shape_text((size,))}, the size of the last axis of operand 0",
                "reshape the vector, or normalise by hand with mean and var",
            )
        if vector[0] != size and 1 in (vector[0], size):  # which would be broadcast where the other one is not 1
            widened = f"joinery.broadcast_to(operand {position}, {shape_text((size,))})"
            raise ShapeError(
                f"operand {position} has shape {shape_text(vector)}",
                f"{shape_text((size,))}, the size of the last axis of operand 0, and no vector that broadcasts with it",
                widened if vector[0] == 1 else "a vector of one element",
            )
        size = checks.require_equal(size, vector[0], f"operand {position} against the last axis")
    return (*shape[:-1], size)


# ------------------------------------------------------------------------------------------------------------ views


def reshape(shapes: Sequence[Shape], attrs: Attributes, checks: Checks) -> Shape:
    source, target = shapes[0], attrs["shape"]
    if source != target:
        have, want = product(source), product(target)
        if checks.decide(have, want) is False:
            raise ShapeError(
                f"{shape_text(source)} has {have} elements, {shape_text(target)} has {want}",
                "equal element counts",
                "write -1 for one size to have it computed",
            )
        checks.require_equal(have, want, f"reshape of {shape_text(source)} to {shape_text(target)}")
        _sizes(target, "reshape", checks)
    return tuple(target)


def _sizes(target: Sequence[Extent], op: str, checks: Checks) -> None:
    """Require that requested sizes are 0 or more: two negative ones have a positive product."""
    for axis, extent in enumerate(target):
        if isinstance(extent, Dim):
            checks.require_at_least(extent, 0, f"{op}: the size {extent} of axis {axis} must not be negative")
        elif extent < 0:
            raise ShapeError(f"the size {extent} of axis {axis} is negative", "sizes of 0 or more")


def infer_reshape(source: Shape, target: Sequence[Extent], unknown: int | None, checks: Checks) -> Shape:
    """Return the target of a reshape, with the size at position `unknown` computed (-1 in NumPy)."""
    if unknown is None:
        return tuple(target)
    known = product(extent for position, extent in enumerate(target) if position != unknown)
    total = product(source)
    if type(known) is int and known == 0:
        raise ShapeError("-1 cannot be computed beside a size of 0", fix="write the size out")
    size = exact_quotient(total, known)
    if size is None:
        simple_total, simple_known = checks.simplified(total), checks.simplified(known)
        size = exact_quotient(simple_total, simple_known)
    if size is None:
        if isinstance(total, int) and isinstance(known, int):
            raise ShapeError(
                f"{shape_text(source)} has {total} elements, which {known} does not divide",
                "a shape with as many elements",
                "choose sizes that divide the element count",
            )
        size = total // known
    return tuple([size if position == unknown else extent for position, extent in enumerate(target)])


def permute(shapes: Sequence[Shape], attrs: Attributes, checks: Checks) -> Shape:
    shape, axes = shapes[0], attrs["axes"]
    if sorted(axes) != list(range(len(shape))):
        raise ShapeError(
            f"axes {tuple(axes)} are no permutation of the {len(shape)} axes of {shape_text(shape)}",
            f"each of 0 to {len(shape) - 1} once" if shape else "()",
            f"e.g. {tuple(range(len(shape)))[::-1]}, which reverses them",
        )
    return tuple([shape[axis] for axis in axes])


def broadcast_to(shapes: Sequence[Shape], attrs: Attributes, checks: Checks) -> Shape:
    source, target = shapes[0], tuple(attrs["shape"])
    if len(target) < len(source):
        raise ShapeError(
            f"{shape_text(source)} cannot be broadcast to {shape_text(target)}, which has fewer axes",
            "at least as many axes",
            "reduce or reshape the operand first",
        )
    for axis in range(-len(source), 0):
        have, want = source[axis], target[axis]
        if have == want or (type(have) is int and have == 1):
            continue
        if checks.decide(have, want) is False:
            raise ShapeError(
                f"{shape_text(source)} cannot be broadcast to {shape_text(target)}: axis {axis} is {have}, not {want}",
                "equal sizes, or 1 in the operand",
                f"insert an axis of size 1, or ask for {have} there",
            )
        checks.require_equal(have, want, f"broadcast_to along axis {axis}")
    _sizes(target, "broadcast_to", checks)
    return target


def flip(shapes: Sequence[Shape], attrs: Attributes, checks: Checks) -> Shape:
    axes = attrs["axes"]
    if normalize_axes(axes, len(shapes[0])) != axes:
        raise ShapeError(f"axes {axes!r} are not normalised")
    return shapes[0]


def window_count(extent: Extent, size: int, stride: int, dilation: int) -> Extent:
    """Return how many windows fit an axis: 0 where it is shorter than one."""
    reach = maximum(extent - (size - 1) * dilation - 1 + stride, 0)
    return reach if stride == 1 else reach // stride


def windows(shapes: Sequence[Shape], attrs: Attributes, checks: Checks) -> Shape:
    shape, axes, counts = shapes[0], attrs["axes"], attrs["counts"]
    if normalize_axes(axes, len(shape)) != tuple(sorted(axes)):
        raise ShapeError(f"axes {axes!r} are not normalised")
    found = list(shape)
    numbers = (attrs["sizes"], attrs["strides"], attrs["dilations"])
    if any(len(values) != len(axes) for values in (counts, *numbers)):
        raise ShapeError(
            f"{len(numbers[0])} sizes, {len(numbers[1])} strides, {len(numbers[2])} dilations for {len(axes)} axes", "one each"
        )
    for axis, count, size, stride, dilation in zip(axes, counts, *numbers, strict=True):
        if min(size, stride, dilation) < 1:
            what = f"a window of {size} elements on axis {axis}, stride {stride}, dilation {dilation}"
            raise ShapeError(what, "1 or more each")
        span = (size - 1) * dilation + 1
        _contained(shape[axis], count, span, stride, axis, checks)
        found[axis] = count
    return (*found, *attrs["sizes"])


def _contained(extent: Extent, count: Extent, span: int, stride: int, axis: int, checks: Checks) -> None:
    """Require that no window ends beyond the axis."""
    what = f"{count} windows of {span} elements, {stride} apart, on axis {axis} of size {extent}"
    if isinstance(count, int) and count < 0:
        raise ShapeError(what, "0 windows or more")
    checks.require_at_least(count, 0, what)
    if isinstance(count, int) and count == 0:
        return
    end = (count - 1) * stride + span
    if isinstance(extent, int) and isinstance(end, int):
        if end > extent:
            raise ShapeError(what, f"at most {window_count(extent, span, stride, 1)} windows", "pad the axis first")
        return
    if count == window_count(extent, span, stride, 1):
        return
    checks.require_at_most(end, extent if at_most(1, count) else maximum(extent, span - stride), what)


def slice_length(start: Extent, stop: Extent, step: int) -> Extent:
    """Return the number of positions from `start` towards `stop` (excluded) in steps of `step`; 0 if none."""
    span = stop - start if step > 0 else start - stop
    width = abs(step)
    return maximum(span, 0) if width == 1 else maximum((span + (width - 1)) // width, 0)


def sliced_extent(extent: Extent, start: Extent, stop: Extent, step: int) -> Extent:
    """Return the size of a slice of an axis: that of the axis where it is all of it, also if that is a difference.

    Sizes of axes are 0 or more, which the text of a difference, `d - 2`, does not say.
    """
    return extent if (start, step) == (0, 1) and stop == extent else slice_length(start, stop, step)


def slicing(shapes: Sequence[Shape], attrs: Attributes, checks: Checks) -> Shape:
    shape = shapes[0]
    starts, stops, steps = attrs["starts"], attrs["stops"], attrs["steps"]
    if not len(starts) == len(stops) == len(steps) == len(shape):
        raise ShapeError(f"slice attributes for {len(starts)} axes, the operand has {len(shape)}")
    for axis, (start, stop, step, extent) in enumerate(zip(starts, stops, steps, shape, strict=True)):
        if type(step) is not int or step == 0:
            raise ShapeError(f"slice step {step!r} on axis {axis}", "a non-zero int")
        _within(start, stop, step, extent, axis, checks)
    return tuple([sliced_extent(*each) for each in zip(shape, starts, stops, steps, strict=True)])


def _within(start: Extent, stop: Extent, step: int, extent: Extent, axis: int, checks: Checks) -> None:
    """Require that the slice is empty or inside the axis: `low:high` is what it spans, from its low end."""
    low, high = (start, stop) if step > 0 else (stop + 1, start + 1)
    if all(isinstance(value, int) for value in (low, high, extent)):
        if low < 0 or high < low or high > extent:  # type: ignore[operator]
            raise ShapeError(
                f"slice {start}:{stop}:{step} leaves axis {axis} of size {extent}", f"bounds from 0 to {extent}"
            )
        return
    what = f"slice {start}:{stop}:{step} leaves axis {axis} of size {extent}"
    if isinstance(low, int) and low < 0:
        raise ShapeError(what, f"bounds from 0 to {extent}")
    checks.require_at_least(low, 0, what)
    some = at_most(low + 1, high)
    checks.require_at_most(high, extent if some else maximum(extent, low), what)


# ----------------------------------------------------------------------------------------------------- joins, indexing


def concat(shapes: Sequence[Shape], attrs: Attributes, checks: Checks) -> Shape:
    first = shapes[0]
    axis = attrs["axis"]
    if not first:
        raise ShapeError("scalars cannot be concatenated", "at least one axis", "use joinery.stack")
    if normalize_axis(axis, len(first)) != axis:
        raise ShapeError(f"axis {axis} is not normalised")
    result = list(first)
    for position, shape in enumerate(shapes[1:], 1):
        if len(shape) != len(first):
            raise ShapeError(
                f"operand {position} has {len(shape)} axes, operand 0 has {len(first)}",
                "equal ranks",
                "insert axes of size 1 with operand[None]",
            )
        for other, extent in enumerate(shape):
            if other == axis:
                result[axis] = result[axis] + extent
                continue
            if checks.decide(result[other], extent) is False:
                raise ShapeError(
                    f"axis {other} is {result[other]} in operand 0 and {extent} in operand {position}",
                    f"equal sizes on every axis but axis {axis}",
                    "slice or pad one operand, or concatenate along another axis",
                )
            result[other] = checks.require_equal(result[other], extent, f"concatenation: axis {other}")
    return tuple(result)


def pad(shapes: Sequence[Shape], attrs: Attributes, checks: Checks) -> Shape:
    shape, low, high, mode = shapes[0], attrs["low"], attrs["high"], attrs["mode"]
    if not len(low) == len(high) == len(shape):
        raise ShapeError(
            f"{len(low)} pad widths for {len(shape)} axes",
            "one (before, after) pair per axis",
            "write (0, 0) for the others",
        )
    if mode not in ("constant", "reflect", "edge"):
        raise ShapeError(f"unknown mode {mode!r}", '"constant", "reflect" or "edge"')
    for axis, (extent, before, after) in enumerate(zip(shape, low, high, strict=True)):
        for width in (before, after):
            if isinstance(width, int) and width == 0:
                continue
            if isinstance(width, int) and width < 0:
                raise ShapeError(
                    f"the pad width {width} on axis {axis} is negative",
                    "widths of 0 or more",
                    "slice instead",
                )
            checks.require_at_least(width, 0, f"pad: the width {width} must not be negative")
            if mode == "edge":
                _nonempty(extent, axis, mode, checks)
            elif mode == "reflect":
                _reflectable(extent, width, axis, checks)
    return tuple([extent + before + after for extent, before, after in zip(shape, low, high, strict=True)])


def _nonempty(extent: Extent, axis: int, mode: str, checks: Checks) -> None:
    if extent == 0:
        raise ShapeError(
            f"axis {axis} is empty, mode {mode!r} has nothing to repeat", fix='use mode="constant"'
        )
    if isinstance(extent, Dim):
        checks.add(minimum(extent, 1), 1, f"pad: axis {axis} must not be empty in mode {mode!r}")


def _reflectable(extent: Extent, width: Extent, axis: int, checks: Checks) -> None:
    if isinstance(extent, int) and isinstance(width, int):
        if width >= extent:
            raise ShapeError(
                f"cannot reflect {width} elements of axis {axis}, which has {extent}",
                "fewer pad elements than the axis has",
                'pad less, or use mode="edge"',
            )
        return
    checks.require_at_most(
        width + 1, extent, f"pad: axis {axis} must have more than {width} elements to reflect"
    )


def gather(shapes: Sequence[Shape], attrs: Attributes, checks: Checks) -> Shape:
    """Return the shape of the operand with the axis replaced by the axes of the indices."""
    shape, indices = shapes
    axis = attrs["axis"]
    if normalize_axis(axis, len(shape)) != axis:
        raise ShapeError(f"axis {axis} is not normalised")
    indexable(shape[axis], indices, axis, checks)
    return (*shape[:axis], *indices, *shape[axis + 1 :])


def take_along_axis(shapes: Sequence[Shape], attrs: Attributes, checks: Checks) -> Shape:
    shape, indices = shapes
    axis = attrs["axis"]
    if normalize_axis(axis, len(shape)) != axis:
        raise ShapeError(f"axis {axis} is not normalised")
    if len(shape) != len(indices):
        raise ShapeError(
            f"the operand has {len(shape)} axes, the indices have {len(indices)}",
            "equal ranks",
            "insert axes of size 1, or use joinery.gather",
        )
    indexable(shape[axis], indices, axis, checks)
    others = broadcast_shapes(
        ((*shape[:axis], 1, *shape[axis + 1 :]), (*indices[:axis], 1, *indices[axis + 1 :])), checks
    )
    return (*others[:axis], indices[axis], *others[axis + 1 :])


def scatter(shapes: Sequence[Shape], attrs: Attributes, checks: Checks) -> Shape:
    """Return the shape of the data; positions and updates have one shape, that of the data but for the axis."""
    shape, positions, updates = shapes
    axis = attrs["axis"]
    if normalize_axis(axis, len(shape)) != axis:
        raise ShapeError(f"axis {axis} is not normalised")
    expected = "positions and updates of one shape, which is that of the data but for the axis"
    if len(positions) != len(shape) or len(updates) != len(shape):
        problem = f"data, indices and updates have {len(shape)}, {len(positions)} and {len(updates)} axes"
        raise ShapeError(problem, expected, "use joinery.put_along_axis, which broadcasts")
    for number, (size, count, update) in enumerate(zip(shape, positions, updates, strict=True)):
        for one, other in ((count, update), (size, count)) if number != axis else ((count, update),):
            if checks.decide(one, other) is False:
                problem = f"on axis {number} data, indices and updates have {size}, {count} and {update} elements"
                raise ShapeError(problem, expected, "use joinery.put_along_axis, which broadcasts")
            checks.require_equal(one, other, f"scatter along axis {axis}: sizes of axis {number}")
    return shape


LONG_LINE = 256
"""Elements from which on a line is sorted by the bytes of its keys: as many as a byte has values, whose counters it holds."""


def sorted_keys(shapes: Sequence[Shape], attrs: Attributes, checks: Checks) -> Shape:
    if not shapes[0]:
        raise ShapeError("no axis to put in order", "at least one axis")
    extent = shapes[0][-1]
    return (*shapes[0][:-1], 2 if isinstance(extent, int) and extent < LONG_LINE else 3, extent)


def top(shapes: Sequence[Shape], attrs: Attributes, checks: Checks) -> Shape:
    """Return the operand's shape with k elements on the axis, which must have as many."""
    shape, axis, k = shapes[0], attrs["axis"], attrs["k"]
    if normalize_axis(axis, len(shape)) != axis:
        raise ShapeError(f"axis {axis} is not normalised")
    extent = shape[axis]
    if isinstance(extent, Dim):
        checks.add(minimum(extent, k), k, f"top_k: axis {axis} must have {k} elements or more")
    elif extent < k:
        raise ShapeError(f"k is {k}, axis {axis} has {extent} elements", f"at most {extent}", f"k={extent}")
    return (*shape[:axis], k, *shape[axis + 1 :])


def indexable(extent: Extent, indices: Shape, axis: int, checks: Checks) -> None:
    """Require an axis with elements, or no indices."""
    if extent == 0 and not any(size == 0 for size in indices):
        raise ShapeError(f"axis {axis} is empty, no index points into it", "an axis of at least one element")
    if isinstance(extent, Dim):  # the check holds if the axis has an element, or there are no indices
        checks.add(
            maximum(1 - extent, 0) * product(indices), 0, f"axis {axis} is empty, no index points into it"
        )

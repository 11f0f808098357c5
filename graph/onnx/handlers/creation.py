"""Handles operators that make tensors: constants, sizes, ranges, triangular matrices, one-hot vectors, window functions."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np

from ....promotion.arrays import Array
from ....promotion.dtype import float64, int64
from ...construction.stated import require_at_most
from ...dims.dim import Dim, Extent, ceil_div, maximum, product
from ...functions.building import apply
from ...functions.creation import full
from ...functions.host.data_sized import fresh_dim, host
from ...functions.positions import counting, is_never_negative
from ...functions.signal.windows import BLACKMAN, HAMMING_OF_ONNX, HANN, window_values
from ...functions.triangles import arange, eye, tril, triu
from ...functions.triangles import one_hot as ones_at
from ...symbol import Symbol
from ...types import Shape
from ..node import Node, Result
from ..registry import handles
from ..tensors import dtype_of_code, is_addressable, known_elements
from ..values import Known, Ratio, Sizes, from_items, objects


@handles("Constant", structural=True)
def constant(node: Node) -> Result:
    """Return the value of an attribute."""
    names = ("value", "value_float", "value_floats", "value_int", "value_ints", "value_string", "value_strings")
    given = [name for name in names if node.attr(name, None) is not None]
    node.require(len(given) == 1, f"{len(given)} values; one attribute of {', '.join(names)} is expected")
    value = node.attr(given[0])
    if isinstance(value, Known):
        return value
    if "string" in given[0]:
        texts = [value] if given[0] == "value_string" else value
        array = objects(texts, () if given[0] == "value_string" else (len(texts),))
        array.flags.writeable = False
        return Known(array)
    array = np.array(value, np.float32 if "float" in given[0] else np.int64)
    array.flags.writeable = False
    return Known(array)


@handles("Identity", structural=True)
def identity(node: Node) -> Result:
    """Return the operand, whatever it is."""
    node.ignore("consumed_inputs")
    return node.value(0)


@handles("ConstantOfShape", structural=True)
def constant_of_shape(node: Node) -> Result:
    """Return one value everywhere: a view that takes no memory."""
    if node.definition.row == "empty_rows":
        rows = _written_rows(node)
        if rows is not None:
            return rows
    shape = node.counts(0, "the shape of ConstantOfShape")
    given = node.attr("value", None)
    scalar: Array = np.zeros(1, np.float32) if given is None else given.array
    node.require(scalar.size == 1, f"the value has {scalar.size} elements; one is expected")
    node.require(not any(isinstance(extent, int) and extent < 0 for extent in shape), "a size is negative")
    known = [extent for extent in shape if isinstance(extent, int)]
    node.require(is_addressable(known, scalar.dtype.itemsize), f"a tensor of shape {known}", "smaller sizes")
    node.require(known_elements(known) <= node.limits.elements, f"a tensor of shape {known}", "limits=OnnxLimits(elements=…)")
    if not any(isinstance(extent, Dim) for extent in shape):
        return Known(np.broadcast_to(scalar.reshape(()), tuple([int(extent) for extent in shape])))  # type: ignore[arg-type]
    return full(node.graph, shape, node.graph.constant(scalar.reshape(())))


def _to_data(node: Node) -> Symbol | None:
    """Count from a known start by a known step to a limit that data decides; None if these are not known."""
    start, step = node.value(0), node.value(2)
    if not (isinstance(start, Known) and isinstance(step, Known)) or {start.array.size, step.array.size} != {1}:
        return None
    first, by = int(start.array.reshape(-1)[0]), int(step.array.reshape(-1)[0])
    if by <= 0 or first < 0:
        return None
    stops = node.counts(1, "the end of Range")
    node.require(len(stops) == 1, f"an end of Range of {len(stops)} numbers; one is expected")
    (stop,) = stops
    return arange(node.graph, first, stop, by, node.dtype(0))


def _written_rows(node: Node) -> Symbol | None:
    """Return rows without elements whose number a graph that was written computes: the shape is (maximum of it and 0, 0)."""
    shape = node[0]
    first = shape.inputs[0] if shape.op.name == "concat" else shape
    count = first.inputs[0] if first.op.name == "reshape" else first
    if count.op.name != "maximum" or node.attr("value", None) is None:
        return None
    source = count.inputs[0]
    return host("empty_rows", source, sizes=(fresh_dim(node.graph, "rows"),))


def _scaled_range(node: Node) -> Symbol | None:
    """Count in floats from a known start by a known step to a size, or a fraction of one; None for other ends."""
    ends = [_ratio_of(node, position) for position in range(3)]
    if not all(isinstance(end, Ratio) for end in ends):
        return None
    first, last, by = (end for end in ends if end is not None)
    if not (isinstance(first.dividend, int) and isinstance(by.dividend, int)) or by.dividend == 0:
        return None
    start, step = Fraction(first.dividend, first.divisor), Fraction(by.dividend, by.divisor)
    way = last.dividend * start.denominator - start.numerator * last.divisor  # as a fraction of both divisors
    count = ceil_div(way * (step.denominator * (1 if step > 0 else -1)), last.divisor * start.denominator * abs(step.numerator))
    counted = apply("mul", counting(node.graph, maximum(count, 0)).cast(float64), float(step))
    return apply("add", counted, float(start)).cast(node.dtype(0))


def _ratio_of(node: Node, position: int) -> Ratio | None:
    """Return an end of a range that is a size, a fraction of one, or a number, exactly."""
    value = node.value(position)
    if isinstance(value, Sizes):
        item = value.items.reshape(-1).tolist()[0] if value.items.size == 1 else None
        return item if isinstance(item, Ratio) else None
    if not isinstance(value, Known) or value.array.size != 1 or not math.isfinite(number := float(value.array.reshape(-1)[0])):
        return None
    exact = Fraction(number)
    return Ratio(exact.numerator, exact.denominator) if max(abs(exact.numerator), exact.denominator) < 1 << 31 else None


@handles("Range", structural=True)
def range_(node: Node) -> Result:
    """Count from a start to a limit by a step."""
    dtype = node.dtype(0)
    if any(isinstance(node.value(position), Sizes) for position in range(3)):
        if dtype.is_float and (counted := _scaled_range(node)) is not None:
            return counted
        ends = [node.sizes(position, "an end of Range") for position in range(3)]
        node.require(all(len(end) == 1 for end in ends), "an end of Range that is not one number")
        (start,), (stop,), (step,) = ends
        node.require(step != 0, "the step of Range is 0")
        if isinstance(step, Dim):
            require_at_most(node.graph, 1, step, f"the step {step} of Range is 1 or more")
        return arange(node.graph, start, stop, step, dtype)
    if dtype.is_integer and isinstance(node.value(1), Symbol):
        counted = _to_data(node)
        if counted is not None:
            return counted
    read = node.number if dtype.is_float else node.integer
    first, last, by = (read(position, "an end of Range") for position in range(3))
    node.require(by != 0 and all(map(math.isfinite, (first, last, by))), "a Range has finite ends and a step that is not 0")
    count = max(math.ceil((last - first) / by), 0) if dtype.is_float else max(-int((first - last) // by), 0)
    if count > 1 << 16:
        return arange(node.graph, first, last, by, dtype)
    if dtype.is_float:
        wide: Array = np.float64(first) + np.arange(count, dtype=np.float64) * by
        return Known(wide.astype(dtype.numpy))
    return Known(np.array([first + index * by for index in range(count)], np.int64).astype(dtype.numpy))


@handles("EyeLike")
def eye_like(node: Node) -> Result:
    """Return ones on a diagonal, in the shape of a matrix."""
    shape = node.shape(0)
    node.require(len(shape) == 2, f"{len(shape)} axes; a matrix is expected")
    code = node.attr("dtype", None)
    return eye(
        node.graph, shape[0], shape[1], int(node.attr("k")), node.dtype(0) if code is None else dtype_of_code(code, "EyeLike")
    )


@handles("Trilu")
def trilu(node: Node) -> Result:
    """Keep the upper or the lower triangle."""
    diagonals = node.sizes(1, "the diagonal of Trilu") if node.has(1) else (0,)
    node.require(len(diagonals) == 1, f"{len(diagonals)} diagonals; one is expected")
    k = diagonals[0]
    return (triu if node.attr("upper") else tril)(node[0], k)


@handles("OneHot")
def one_hot(node: Node) -> Result:
    """Return one of two values for each position along a new axis; positions out of range give the first everywhere."""
    depths = node.sizes(1, "the depth of OneHot")
    node.require(len(depths) == 1, f"{len(depths)} depths; one is expected")
    positions, values = node[0].cast(int64), node.value(2)
    node.require(node.shape(2) == (2,), f"values of shape {list(node.shape(2))}; two are expected")
    axis = node.axis(node.attr("axis"), len(positions.shape) + 1)
    if isinstance(values, Known) and values.array.tolist() == [0, 1] and is_never_negative(positions):
        return ones_at(positions, depths[0], node.dtype(2), axis)
    return chosen_at(positions, depths[0], node[2], axis)


def chosen_at(positions: Symbol, depth: Extent, values: Symbol, axis: int) -> Symbol:
    """Return one of two values along a new axis: the second one at positions, of which negative ones count from the end."""
    rank = len(positions.shape) + 1
    size = positions.graph.dim_value(depth) if isinstance(depth, Dim) else positions.graph.scalar(depth, int64)
    wrapped = apply("where", apply("less", positions, 0), apply("add", positions, size), positions)
    apart = wrapped.reshape((*positions.shape[:axis], 1, *positions.shape[axis:]))
    counted = counting(positions.graph, depth).reshape((depth, *(1,) * (rank - 1 - axis)))
    return apply("where", apply("equal", apart, counted), values[1], values[0])


_WINDOWS = {"HannWindow": HANN, "HammingWindow": HAMMING_OF_ONNX, "BlackmanWindow": BLACKMAN}


@handles(*_WINDOWS, structural=True)
def window(node: Node) -> Result:
    """Return a window function, computed in float64."""
    size = node.integer(0, "the size of a window")
    dtype = dtype_of_code(node.attr("output_datatype"), node.op)
    node.require(0 <= size <= 1 << 24, f"a window of {size} elements")
    return Known(window_values(_WINDOWS[node.op], size, bool(node.attr("periodic"))).astype(dtype.numpy))


@handles("MelWeightMatrix", structural=True)
def mel_weight_matrix(node: Node) -> Result:
    """Return triangles between points that are equally far from each other on the mel scale."""
    bins, length, rate = (node.integer(position, "MelWeightMatrix") for position in range(3))
    lower, upper = (node.number(position, "MelWeightMatrix") for position in (3, 4))
    node.require(
        0 < bins <= 1 << 16 and 0 < length <= 1 << 24 and rate > 0, "the numbers of bins, samples and the rate are positive"
    )
    low, high = (2595.0 * math.log10(1.0 + edge / 700.0) for edge in (lower, upper))
    mels = low + np.arange(bins + 2) * ((high - low) / (bins + 2))
    hertz = 700.0 * (10.0 ** (mels / 2595.0) - 1.0)
    points = np.floor((length + 1) * hertz / rate).astype(np.int64)
    result = np.zeros((length // 2 + 1, bins), np.float64)
    node.require(bool(points.min() >= 0 and points.max() < len(result)), "the edges lie outside the spectrum")
    for number in range(bins):
        left, middle, right = points[number : number + 3].tolist()
        if left == middle:
            result[middle, number] = 1
        for row in range(left, middle + 1 if left < middle else left):
            result[row, number] = (row - left) / (middle - left)
        for row in range(middle, right):
            result[row, number] = (right - row) / (right - middle)
    return Known(result.astype(dtype_of_code(node.attr("output_datatype", 1), "MelWeightMatrix").numpy))


@handles("Shape", structural=True)
def shape(node: Node) -> Result:
    """Return sizes, which stay expressions of dims."""
    extents = node.shape(0)
    start, end = int(node.attr("start", 0)), node.attr("end", None)
    wanted = extents[slice(start, None if end is None else int(end))]
    return _sizes(node, wanted, (len(wanted),))


@handles("Size", structural=True)
def size(node: Node) -> Result:
    """Return the number of elements."""
    return _sizes(node, (product(node.shape(0)),), ())


def _sizes(node: Node, items: Shape, shape: tuple[int, ...]) -> Known | Sizes:
    found = from_items(objects(items, shape), int64)
    node.require(found is not None, "a size does not fit 64 bits")
    return found  # type: ignore[return-value]

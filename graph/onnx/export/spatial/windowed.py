"""Finds convolutions and poolings among products and reductions of windows, which become one node each.

There is no operation for them: what they are is what `functions/spatial` makes of them. So a convolution is found by making it
again: from the windows follow its sizes, strides and groups, from these the symbols that the function would build, and if the
graph has the same symbols, down to an image and a kernel, it is that convolution. Windows of anything else are gathered.
"""

from __future__ import annotations

import itertools
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from .....promotion.arrays import Array
from .....promotion.dataclass import dataclass
from .....promotion.dtype import DType, int8, int32, uint8
from ....functions.spatial import convolution
from ....graph import Graph
from ....ops.shape import window_count
from ....symbol import Symbol
from ..equality import found_among
from .padding import MAX_PADDINGS, MAX_SPAN, Line, Widths, is_inferred, stated, unpadded
from .poolings import averaging, has_dilations, pooled
from .quantised import requantised_sum

Pairs = tuple[tuple[int, int], ...]
_FLOATS = {"Conv": ("float32", "float16"), "MaxPool": ("float32", "float64", "float16"), "AveragePool": ("float32",)}
"""Operator → dtypes for which runtimes have it, and compute what joinery does."""


@dataclass(frozen=True, slots=True, eq=False)
class Windowed:
    """A node that stands for several symbols.

    Attributes:
        op: Conv, ConvInteger, QLinearConv, ConvTranspose, MaxPool, AveragePool, LpPool or LRN.
        image: a tensor (N, C, …), or (N, …, C) where `image_last`.
        kernel: a tensor (…, C / groups, M), or None.
        result_last: whether the result has channels last.
        bias: a vector that is added to the channels of the result, or None.
        zero: of codes, whose zero points are subtracted, that of the image, or None.
        parameters: of QLinearConv the scales of image, weights and result, and the zero point of the result.
        weights: of ConvTranspose, which has no kernel, a tensor (C, M / groups, …), or the array that it is.
    """

    op: str
    image: Symbol
    kernel: Symbol | None
    attributes: Mapping[str, Any]
    image_last: bool
    result_last: bool
    bias: Symbol | None = None
    zero: Symbol | None = None
    parameters: tuple[Symbol, ...] = ()
    weights: Symbol | Array | None = None

    @property
    def inputs(self) -> tuple[Symbol, ...]:
        """The symbols that the node reads; a kernel that is a constant is written in another order, as one of its own."""
        constant = self.kernel is None or self.kernel.op.name in ("constant", "weight")
        kernel = () if self.kernel is None or constant else (weights_of(self.kernel),)
        weights = (self.weights,) if isinstance(self.weights, Symbol) else ()
        others = [each for each in (self.bias, self.zero) if each is not None]
        return (self.image, *kernel, *weights, *others, *self.parameters)


def weights_of(kernel: Symbol) -> Symbol:
    """Return the weights (M, C / groups, …) that a kernel (…, C / groups, M) is a permutation of; itself if it is none."""
    return kernel.inputs[0] if _permutes(kernel, (*range(2, len(kernel.shape)), 1, 0)) else kernel


def find_windowed(graph: Graph, live: Sequence[Symbol], opset: int) -> dict[int, Windowed]:
    """Return the nodes that stand for several symbols, by the id of the symbol whose value they compute."""
    consumers = consumers_of(live)
    outputs = {symbol.id for symbol in graph.outputs}
    found: dict[int, Windowed] = {}
    for symbol in live:
        if symbol.op.name == "slice":
            pool = pooled(graph, symbol, consumers, opset)
            if pool is not None:
                found[pool.root.id] = Windowed(pool.op, pool.image, None, pool.attributes, False, False)
        elif symbol.op.name == "windows" and is_spatial(symbol):
            match = _matched(graph, symbol, consumers, opset)
            if match is not None:
                root, made = with_channels_first(graph, *match, consumers)
                if made.op == "ConvInteger" and not made.result_last:
                    last = _as_int32(root, consumers, outputs)
                    if last is None:
                        continue
                    root = last
                    quantised = requantised_sum(graph, root, consumers) if made.zero is not None else None
                    if quantised is not None:
                        root, bias, parameters = quantised
                        made = replace(made, op="QLinearConv", bias=bias, parameters=parameters)
                found[root.id] = made
    return found


def consumers_of(live: Sequence[Symbol]) -> dict[int, list[Symbol]]:
    """Return what reads each symbol, by its id, in order."""
    consumers: dict[int, list[Symbol]] = {}
    for symbol in live:
        for operand in dict.fromkeys(symbol.inputs):
            consumers.setdefault(operand.id, []).append(symbol)
    return consumers


def with_channels_first(
    graph: Graph, root: Symbol, made: Windowed, consumers: Mapping[int, list[Symbol]]
) -> tuple[Symbol, Windowed]:
    """Return a result that is only read with channels first as that, with the bias that is added to it, and its node."""
    outputs = {symbol.id for symbol in graph.outputs}
    after = consumers.get(root.id, [])
    if len(after) != 1 or root.id in outputs or not made.result_last or not _permutes(after[0], _first(len(root.shape))):
        return root, made
    root, made = after[0], replace(made, result_last=False)
    biased = _biased(root, consumers) if made.op in ("Conv", "ConvTranspose") and root.id not in outputs else None
    return (root, made) if biased is None else (biased[0], replace(made, bias=biased[1]))


def _as_int32(root: Symbol, consumers: Mapping[int, list[Symbol]], outputs: Collection[int]) -> Symbol | None:
    """Return a sum of products of codes in int32: itself, or what it is cast to if nothing else reads it."""
    after = consumers.get(root.id, [])
    if root.dtype is int32:
        return root
    is_cast = len(after) == 1 and after[0].op.name == "cast" and after[0].dtype is int32 and root.id not in outputs
    return after[0] if is_cast else None


def _biased(root: Symbol, consumers: Mapping[int, list[Symbol]]) -> tuple[Symbol, Symbol] | None:
    """Return the sum of a result (N, M, …) and a vector over its channels, if nothing else reads it, and the vector."""
    after = consumers.get(root.id, [])
    if len(after) != 1 or after[0].op.name != "add" or after[0].inputs[0] is not root:
        return None
    added, filters = after[0].inputs[1], root.shape[1]
    is_vector = added.op.name == "reshape" and added.inputs[0].shape == (filters,)
    if not is_vector or added.shape != (filters, *(1,) * (len(root.shape) - 2)) or added.dtype is not root.dtype:
        return None
    return after[0], added.inputs[0]


def is_spatial(taken: Symbol) -> bool:
    """Return whether windows lie along all axes between batch and channels, and are not none."""
    rank = len(taken.attrs["axes"])
    return rank > 0 and taken.attrs["axes"] == tuple(range(1, rank + 1)) and 0 not in taken.attrs["counts"]


def is_plain(taken: Symbol) -> bool:
    """Return whether there are as many windows as there is room for."""
    (x,), attrs = taken.inputs, taken.attrs
    numbers = zip(attrs["axes"], attrs["sizes"], attrs["strides"], attrs["dilations"], strict=True)
    counts = [window_count(x.shape[axis], size, stride, dilation) for axis, size, stride, dilation in numbers]
    return counts == list(attrs["counts"])


def _matched(
    graph: Graph, taken: Symbol, consumers: Mapping[int, list[Symbol]], opset: int
) -> tuple[Symbol, Windowed] | None:
    """Return the result of a convolution or pooling of these windows, with channels last, and its node."""
    rank, sizes = len(taken.attrs["axes"]), taken.attrs["sizes"]
    chain = chain_of(taken, consumers, 16 + int(np.prod(sizes)))
    for position, symbol in enumerate(chain):
        if symbol.op.name == "reduce_max" and position == 0:
            return _max_pool(graph, taken, symbol)
        if symbol.op.name == "div" and position == 1:
            return _average_pool(graph, taken, symbol, opset)
        if symbol.op.name in ("mul", "matmul"):
            for kernel in _kernels(symbol.inputs[1], sizes):
                found = _conv(graph, taken, kernel, chain[position:], rank)
                if found is not None:
                    return found
            return None
    return None


def chain_of(symbol: Symbol, consumers: Mapping[int, list[Symbol]], most: int) -> list[Symbol]:
    """Return what reads a symbol first, what reads that, and so on."""
    found: list[Symbol] = []
    while len(found) < most and (after := consumers.get(symbol.id)):
        symbol = after[0]
        found.append(symbol)
    return found


def _kernels(symbol: Symbol, sizes: tuple[int, ...]) -> Iterator[Symbol]:
    """Yield what may be the kernel (…, C / groups, M) that an operand is a view of."""
    while True:
        if len(symbol.shape) == len(sizes) + 2 and symbol.shape[: len(sizes)] == sizes:
            yield symbol
        if symbol.op.name not in ("reshape", "permute", "slice", "cast"):
            return
        (symbol,) = symbol.inputs


def _conv(
    graph: Graph, taken: Symbol, kernel: Symbol, chain: Sequence[Symbol], rank: int
) -> tuple[Symbol, Windowed] | None:
    attrs, depth, filters = taken.attrs, kernel.shape[-2], kernel.shape[-1]
    x = taken.inputs[0]
    if len(x.shape) == rank + 3 and x.op.name == "reshape":  # channels in groups
        x = x.inputs[0]
    is_integer = x.dtype is int32 and kernel.op.name in ("constant", "weight")
    if len(x.shape) != rank + 2 or kernel.dtype is not x.dtype or not (is_integer or x.dtype.name in _FLOATS["Conv"]):
        return None
    channels = x.shape[-1]
    if not (isinstance(channels, int) and isinstance(depth, int) and isinstance(filters, int)):
        return None
    groups = channels // depth if depth > 0 and channels % depth == 0 else 0
    if groups == 0 or filters % groups:
        return None

    def make(scratch: Graph, image: Symbol, weights: Symbol) -> Symbol:
        return convolution.convolved(image, weights, attrs["counts"], attrs["strides"], attrs["dilations"], groups)

    root = found_among(graph, make, (x, kernel), chain)
    if root is None:
        return None
    inner, widths = unpadded(x, 0.0, -1)
    padding = stated(_lines(taken, inner, widths), may_round_up=False)
    if padding is None:
        if not is_plain(taken):
            return None
        inner, padding = x, {"pads": (0,) * (2 * rank)}
    image, last = turned(inner)
    given = {**_steps(taken), **padding, "group": groups}
    if is_integer:
        codes = None if last else _codes_of(image)
        if codes is None or zero_of_weights(kernel.attrs["value"]) is None:
            return None
        return root, Windowed("ConvInteger", codes[0], kernel, given, False, True, zero=codes[1])
    return root, Windowed("Conv", image, kernel, given, last, True)


def zero_of_weights(array: Array) -> tuple[DType, int] | None:
    """Return a dtype of 8 bits and the zero point with which its codes are these weights in int32, None if none has them."""
    least, most = (int(array.min()), int(array.max())) if array.size else (0, 0)
    if least >= -128 and most <= 127:
        return int8, 0
    zero = max(-least, 0)
    return (uint8, zero) if most + zero <= 255 and zero <= 255 else None


def _codes_of(image: Symbol) -> tuple[Symbol, Symbol | None] | None:
    """Return the codes of 8 bits that an image in int32 is, and the zero point that is subtracted from them, or None."""
    zero = None
    if image.op.name == "sub":
        image, zero = image.inputs
    if image.op.name != "cast" or image.inputs[0].dtype.name not in ("int8", "uint8"):
        return None
    codes = image.inputs[0]
    while zero is not None and zero.dtype is not codes.dtype:
        if zero.op.name not in ("reshape", "cast"):
            return None
        zero = zero.inputs[0]
    return (codes, zero) if zero is None or zero.size == 1 else None


def _max_pool(graph: Graph, taken: Symbol, root: Symbol) -> tuple[Symbol, Windowed] | None:
    x, attrs = taken.inputs[0], taken.attrs
    if x.dtype.name not in _FLOATS["MaxPool"] or len(x.shape) != len(attrs["axes"]) + 2:
        return None
    for inner, pairs, rounds_up in padded_images(taken, -np.inf):

        def make(scratch: Graph, value: Symbol, pairs: Pairs = pairs, rounds_up: bool = rounds_up) -> Symbol:
            return convolution.max_pool(value, attrs["sizes"], attrs["strides"], attrs["dilations"], pairs, rounds_up)

        if found_among(graph, make, (inner,), (root,)) is not None:
            image, last = turned(inner)
            return root, Windowed("MaxPool", image, None, geometry(taken, pairs, rounds_up), last, True)
    return None


def _average_pool(graph: Graph, taken: Symbol, root: Symbol, opset: int) -> tuple[Symbol, Windowed] | None:
    x, attrs = taken.inputs[0], taken.attrs
    if not has_dilations(attrs["dilations"], opset):
        return None
    if x.dtype.name not in _FLOATS["AveragePool"] or len(x.shape) != len(attrs["axes"]) + 2:
        return None
    for inner, padded, rounds_up in padded_images(taken, 0.0):
        counted = None if rounds_up else _counted(root, inner, padded)
        for include, pairs in ((True, counted), (True, padded), (False, padded)):
            if pairs is None or _too_wide(taken, pairs):
                continue

            def make(scratch: Graph, value: Symbol, given: tuple[Pairs, bool, bool] = (pairs, rounds_up, include)) -> Symbol:
                pairs, ceil_mode, boundary = given
                return convolution.avg_pool(
                    value, attrs["sizes"], attrs["strides"], attrs["dilations"], pairs, ceil_mode, boundary
                )

            if found_among(graph, make, (inner,), (root,)) is not None:
                image, last = turned(inner)
                given = {**geometry(taken, pairs, rounds_up), "count_include_pad": int(include)}
                return root, Windowed("AveragePool", image, None, averaging(given, opset), last, True)
    return None


def padded_images(taken: Symbol, value: float) -> Iterator[tuple[Symbol, Pairs, bool]]:
    """Yield of what image windows may be, how it is padded, and whether the number of windows is rounded up.

    An image is padded as far as its windows reach. Where that is known, it is the padding; where it is an expression of sizes,
    the padding is one for which functions compute as many windows, which reach as far.
    """
    inner, widths = unpadded(taken.inputs[0], value, -1)
    by_numbers, pairs = unpadded_by_numbers(taken.inputs[0], value)
    is_known = is_plain(taken) and not _too_wide(taken, pairs)
    if is_known and by_numbers is inner:
        yield inner, pairs, False
    for rounds_up in (False, True):
        choices = [_ends(line, number, taken, rounds_up) for number, line in enumerate(_lines(taken, inner, widths))]
        for pairs in itertools.islice(itertools.product(*choices), MAX_PADDINGS):
            if not _too_wide(taken, pairs):
                yield inner, pairs, rounds_up
    if is_known and by_numbers is not inner:
        yield by_numbers, pairs, False


def _ends(line: Line, number: int, taken: Symbol, rounds_up: bool) -> list[tuple[int, int]]:
    """Return paddings of an axis with which it has the windows that it has, the same at both ends first."""
    low, attrs = line.low, taken.attrs
    if not isinstance(low, int) or low >= line.span:
        return []
    over = convolution.PoolingWindows(*[(attrs[name][number],) for name in ("sizes", "strides", "dilations")])
    ends = [high for high in dict.fromkeys((low, *range(min(line.span, MAX_SPAN)))) if not rounds_up or is_inferred(line, high)]
    return [(low, high) for high in ends if over.counts((line.extent,), ((low, high),), rounds_up) == (line.count,)]


def _counted(root: Symbol, image: Symbol, padded: Pairs) -> Pairs | None:
    """Return the padding that counts in a mean: with it, the image is as large as the ones whose windows are the divisor.

    The image itself is padded as far as its windows reach, which may be less.
    """
    divisor = root.inputs[1]
    if divisor.op.name != "reduce_sum" or divisor.inputs[0].op.name != "windows":
        return None
    counted = divisor.inputs[0].inputs[0].shape[1:-1]
    found = []
    for size, extent, (low, _) in zip(counted, image.shape[1:-1], padded, strict=True):
        high = size - extent - low
        if not isinstance(high, int) or high < 0:
            return None
        found.append((low, high))
    return tuple(found)


def _too_wide(taken: Symbol, pairs: Pairs) -> bool:
    """Return whether padding is as wide as a window, which poolings do not allow."""
    spans = [(size - 1) * gap + 1 for size, gap in zip(taken.attrs["sizes"], taken.attrs["dilations"], strict=True)]
    return any(max(pair) >= span for pair, span in zip(pairs, spans, strict=True))


def _lines(taken: Symbol, image: Symbol, widths: Widths) -> list[Line]:
    attrs = taken.attrs
    numbers = zip(attrs["counts"], attrs["sizes"], attrs["strides"], attrs["dilations"], strict=True)
    return [
        Line(extent, count, (size - 1) * gap + 1, stride, low, high)
        for extent, (count, size, stride, gap), (low, high) in zip(image.shape[1:-1], numbers, widths, strict=True)
    ]


def _steps(taken: Symbol) -> dict[str, Any]:
    return {"strides": taken.attrs["strides"], "dilations": taken.attrs["dilations"]}


def geometry(taken: Symbol, pairs: Pairs, rounds_up: bool) -> dict[str, Any]:
    """Return the attributes of a pooling by these windows."""
    low, high = [pair[0] for pair in pairs], [pair[1] for pair in pairs]
    given = {**_steps(taken), "pads": (*low, *high), "kernel_shape": taken.attrs["sizes"]}
    return {**given, "ceil_mode": 1} if rounds_up else given


# -- images ------------------------------------------------------------------------------------------------------------


def unpadded_by_numbers(x: Symbol, value: float) -> tuple[Symbol, Pairs]:
    """Return what `x` pads with `value` in space by known widths, and the widths; `x` itself with none otherwise."""
    inner, widths = unpadded(x, value, -1)
    pairs = [(low, high) for low, high in widths if isinstance(low, int) and isinstance(high, int)]
    return (inner, tuple(pairs)) if len(pairs) == len(widths) else (x, ((0, 0),) * len(widths))


def turned(x: Symbol) -> tuple[Symbol, bool]:
    """Return the tensor (N, C, …) that `x` is with channels last, or `x` and True."""
    rank = len(x.shape) - 2
    return (x.inputs[0], False) if _permutes(x, (0, *range(2, rank + 2), 1)) else (x, True)


def _permutes(symbol: Symbol, axes: tuple[int, ...]) -> bool:
    return symbol.op.name == "permute" and symbol.attrs["axes"] == axes


def _first(rank: int) -> tuple[int, ...]:
    """Return the permutation that puts channels first."""
    return (0, rank - 1, *range(1, rank - 1))

"""Finds convolutions and poolings among products and reductions of windows, which become one node each.

There is no operation for them: what they are is what `functions/spatial` makes of them. So a convolution is found by making it
again: from the windows follow its sizes, strides and groups, from these the symbols that the function would build, and if the
graph has the same symbols, down to an image and a kernel, it is that convolution. Windows of anything else are gathered.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from ....promotion.dataclass import dataclass
from ...functions.spatial import convolution
from ...graph import Graph
from ...ops.attributes import Attributes, fixed
from ...ops.shape import window_count
from ...ops.table import OPS
from ...symbol import Symbol

Pairs = tuple[tuple[int, int], ...]
_FLOATS = {"Conv": ("float32", "float16"), "MaxPool": ("float32", "float64", "float16"), "AveragePool": ("float32",)}
"""Operator → dtypes for which runtimes have it, and compute what joinery does."""


@dataclass(frozen=True, slots=True, eq=False)
class Windowed:
    """A node that stands for several symbols.

    Attributes:
        op: Conv, ConvTranspose, MaxPool, AveragePool, LpPool or LRN.
        image: a tensor (N, C, …), or (N, …, C) where `image_last`.
        kernel: a tensor (…, C / groups, M), of ConvTranspose (…, M / groups, C), or None.
        result_last: whether the result has channels last.
    """

    op: str
    image: Symbol
    kernel: Symbol | None
    attributes: Mapping[str, Any]
    image_last: bool
    result_last: bool

    @property
    def inputs(self) -> tuple[Symbol, ...]:
        """The symbols that the node reads; a kernel that is a constant is written in another order, as one of its own."""
        constant = self.kernel is None or self.kernel.op.name in ("constant", "weight")
        return (self.image,) if self.kernel is None or constant else (self.image, weights_of(self.kernel))


def weights_of(kernel: Symbol) -> Symbol:
    """Return the weights (M, C / groups, …) that a kernel (…, C / groups, M) is a permutation of; itself if it is none."""
    return kernel.inputs[0] if _permutes(kernel, (*range(2, len(kernel.shape)), 1, 0)) else kernel


def find_windowed(graph: Graph, live: Sequence[Symbol]) -> dict[int, Windowed]:
    """Return the nodes that stand for several symbols, by the id of the symbol whose value they compute."""
    consumers = consumers_of(live)
    found: dict[int, Windowed] = {}
    for symbol in live:
        if symbol.op.name == "windows" and is_plain(symbol):
            match = _matched(graph, symbol, consumers)
            if match is not None:
                root, made = with_channels_first(graph, *match, consumers)
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
    """Return a result that is only read with channels first as that, and its node."""
    after = consumers.get(root.id, [])
    alone = len(after) == 1 and all(symbol.id != root.id for symbol in graph.outputs)
    if made.result_last and alone and _permutes(after[0], _first(len(root.shape))):
        return after[0], _with(made, result_last=False)
    return root, made


def is_plain(taken: Symbol) -> bool:
    """Return whether windows lie along all axes between batch and channels, as many as there is room for, and not none."""
    (x,), attrs = taken.inputs, taken.attrs
    rank = len(attrs["axes"])
    numbers = zip(attrs["axes"], attrs["sizes"], attrs["strides"], attrs["dilations"], strict=True)
    counts = [window_count(x.shape[axis], size, stride, dilation) for axis, size, stride, dilation in numbers]
    return rank > 0 and attrs["axes"] == tuple(range(1, rank + 1)) and counts == list(attrs["counts"]) and 0 not in counts


def _matched(graph: Graph, taken: Symbol, consumers: Mapping[int, list[Symbol]]) -> tuple[Symbol, Windowed] | None:
    """Return the result of a convolution or pooling of these windows, with channels last, and its node."""
    rank, sizes = len(taken.attrs["axes"]), taken.attrs["sizes"]
    chain = chain_of(taken, consumers, 16 + int(np.prod(sizes)))
    for position, symbol in enumerate(chain):
        if symbol.op.name == "reduce_max" and position == 0:
            return _max_pool(graph, taken, symbol)
        if symbol.op.name == "div" and position == 1:
            return _average_pool(graph, taken, symbol)
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
    if len(x.shape) != rank + 2 or x.dtype.name not in _FLOATS["Conv"] or kernel.dtype is not x.dtype:
        return None
    channels = x.shape[-1]
    if not (isinstance(channels, int) and isinstance(depth, int) and isinstance(filters, int)):
        return None
    groups = channels // depth if depth > 0 and channels % depth == 0 else 0
    if groups == 0 or filters % groups:
        return None

    def make(image: Symbol, weights: Symbol) -> Symbol:
        return convolution.convolved(image, weights, attrs["counts"], attrs["strides"], attrs["dilations"], groups)

    root = remade(graph, make, (x, kernel), chain)
    if root is None:
        return None
    inner, pairs = unpadded(x, 0.0)
    image, last = turned(inner)
    given = {**_geometry(taken, pairs), "group": groups}
    return root, Windowed("Conv", image, kernel, given, last, True)


def _max_pool(graph: Graph, taken: Symbol, root: Symbol) -> tuple[Symbol, Windowed] | None:
    x, attrs = taken.inputs[0], taken.attrs
    if x.dtype.name not in _FLOATS["MaxPool"] or len(x.shape) != len(attrs["axes"]) + 2:
        return None
    inner, pairs = unpadded(x, -np.inf)

    def make(value: Symbol) -> Symbol:
        return convolution.max_pool(value, attrs["sizes"], attrs["strides"], attrs["dilations"], pairs)

    if _too_wide(taken, pairs) or remade(graph, make, (inner,), (root,)) is None:
        return None
    image, last = turned(inner)
    return root, Windowed("MaxPool", image, None, {**_geometry(taken, pairs), "kernel_shape": attrs["sizes"]}, last, True)


def _average_pool(graph: Graph, taken: Symbol, root: Symbol) -> tuple[Symbol, Windowed] | None:
    x, attrs = taken.inputs[0], taken.attrs
    if x.dtype.name not in _FLOATS["AveragePool"] or len(x.shape) != len(attrs["axes"]) + 2:
        return None
    inner, padded = unpadded(x, 0.0)
    for include, pairs in ((True, _counted(root, inner, padded)), (False, padded)):
        if pairs is None or _too_wide(taken, pairs):
            continue

        def make(value: Symbol, pairs: Pairs = pairs, include: bool = include) -> Symbol:
            return convolution.avg_pool(
                value, attrs["sizes"], attrs["strides"], attrs["dilations"], pairs, count_boundary=include
            )

        if remade(graph, make, (inner,), (root,)) is not None:
            image, last = turned(inner)
            given = {"kernel_shape": attrs["sizes"], "count_include_pad": int(include)}
            return root, Windowed("AveragePool", image, None, {**_geometry(taken, pairs), **given}, last, True)
    return None


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


def _geometry(taken: Symbol, pairs: Pairs) -> dict[str, Any]:
    low, high = [pair[0] for pair in pairs], [pair[1] for pair in pairs]
    return {"strides": taken.attrs["strides"], "dilations": taken.attrs["dilations"], "pads": (*low, *high)}


# -- images ------------------------------------------------------------------------------------------------------------


def unpadded(x: Symbol, value: float) -> tuple[Symbol, Pairs]:
    """Return what `x` pads with `value` in space by known widths, and the widths; `x` itself with none otherwise."""
    rank = len(x.shape) - 2
    none: Pairs = ((0, 0),) * rank
    if x.op.name != "pad" or x.attrs["mode"] != "constant" or x.attrs["value"] != value:
        return x, none
    widths = [*x.attrs["low"], *x.attrs["high"]]
    low, high = x.attrs["low"], x.attrs["high"]
    if not all(isinstance(each, int) and each >= 0 for each in widths) or any((low[0], high[0], low[-1], high[-1])):
        return x, none
    pairs = tuple([(int(a), int(b)) for a, b in zip(low[1:-1], high[1:-1], strict=True)])  # type: ignore[arg-type]
    return x.inputs[0], pairs


def turned(x: Symbol) -> tuple[Symbol, bool]:
    """Return the tensor (N, C, …) that `x` is with channels last, or `x` and True."""
    rank = len(x.shape) - 2
    return (x.inputs[0], False) if _permutes(x, (0, *range(2, rank + 2), 1)) else (x, True)


def _permutes(symbol: Symbol, axes: tuple[int, ...]) -> bool:
    return symbol.op.name == "permute" and symbol.attrs["axes"] == axes


def _first(rank: int) -> tuple[int, ...]:
    """Return the permutation that puts channels first."""
    return (0, rank - 1, *range(1, rank - 1))


def _with(made: Windowed, result_last: bool) -> Windowed:
    return Windowed(made.op, made.image, made.kernel, made.attributes, made.image_last, result_last)


# -- equality ----------------------------------------------------------------------------------------------------------


def remade(
    graph: Graph, make: Callable[..., Symbol], leaves: Sequence[Symbol], candidates: Sequence[Symbol]
) -> Symbol | None:
    """Return the candidate that is what `make` builds of the leaves."""
    scratch = graph.rewriting()
    inputs = [
        scratch.restore(
            OPS["input"], (), fixed({"index": number, "name": f"leaf{number}"}), leaf.dtype, leaf.shape, leaf.location
        )
        for number, leaf in enumerate(leaves)
    ]
    built = make(*inputs)
    known = {made.id: leaf.id for made, leaf in zip(inputs, leaves, strict=True)}
    return next((symbol for symbol in candidates if _equal(built, symbol, dict(known))), None)


def _equal(made: Symbol, symbol: Symbol, known: dict[int, int]) -> bool:
    """Return whether two symbols are the same computation of the leaves; `known` has the pairs that are."""
    pending = [(made, symbol)]
    while pending:
        one, other = pending.pop()
        if one.id in known:
            if known[one.id] != other.id:
                return False
            continue
        if one.op is not other.op or one.dtype is not other.dtype or one.shape != other.shape:
            return False
        if not _same_attributes(one.attrs, other.attrs) or len(one.inputs) != len(other.inputs):
            return False
        known[one.id] = other.id
        pending.extend(zip(one.inputs, other.inputs, strict=True))
    return True


def _same_attributes(one: Attributes, other: Attributes) -> bool:
    for name, value in one.items():
        given = other.get(name)
        if isinstance(value, np.ndarray) or isinstance(given, np.ndarray):
            first, second = np.asarray(value), np.asarray(given)
            if first.dtype != second.dtype or not np.array_equal(first, second):
                return False
        elif value != given:
            return False
    return one.keys() == other.keys()

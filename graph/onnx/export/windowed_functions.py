"""Finds what else windows are made into: convolutions backwards, p-norms of windows, and norms of neighbouring channels.

As in `windowed.py`, a function is found by making it again of what its windows say.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ...functions import normalization
from ...functions.spatial import pooling, transposed
from ...functions.spatial.geometry import Windows, kernel_span
from ...graph import Graph
from ...symbol import Symbol
from .windowed import (
    Windowed,
    chain_of,
    consumers_of,
    find_windowed,
    is_plain,
    remade,
    turned,
    unpadded,
    with_channels_first,
)

_MAX_ORDER = 1 << 16


def find_functions(graph: Graph, live: Sequence[Symbol]) -> dict[int, Windowed]:
    """Return the nodes that stand for several symbols, by the id of the symbol whose value they compute."""
    found = find_windowed(graph, live)
    by_id = {symbol.id: symbol for symbol in live}
    consumers = consumers_of(live)
    for key, made in list(found.items()):
        back = _backwards(graph, by_id[key], made) if made.op == "Conv" else None
        if back is not None:
            found[key] = back
    for symbol in live:
        if symbol.op.name == "windows" and symbol.dtype.name == "float32":
            match = _channels(graph, symbol, consumers) or _norm(graph, symbol, consumers)
            if match is not None and match[0].id not in found:
                root, made = with_channels_first(graph, *match, consumers)
                found[root.id] = made
    return found


def _backwards(graph: Graph, result: Symbol, made: Windowed) -> Windowed | None:
    """Return the convolution backwards that a convolution of spread elements with a flipped kernel is."""
    kernel = _flipped(made.kernel)
    root = result if made.result_last else result.inputs[0]
    taken = _windows_below(root)
    if kernel is None or taken is None or root.dtype.name != "float32":
        return None
    rank, dilations = len(root.shape) - 2, taken.attrs["dilations"]
    padded = taken.inputs[0] if len(taken.inputs[0].shape) == rank + 2 else taken.inputs[0].inputs[0]
    wide, pairs = unpadded(padded, 0.0)
    x, strides = _spread(wide, rank)
    begins, ends, extra = [], [], []
    spans = kernel_span(taken.attrs["sizes"], dilations)
    for extent, size, step, span, (low, _) in zip(x.shape[1:-1], root.shape[1:-1], strides, spans, pairs, strict=True):
        whole = (extent - 1) * step + span
        begin = span - 1 - low
        left = whole - begin - size
        if not isinstance(left, int) or begin < 0:
            return None
        begins.append(begin)
        ends.append(max(left, 0))
        extra.append(max(-left, 0))
    if any(more >= max(step, gap) for more, step, gap in zip(extra, strides, dilations, strict=True)):
        return None
    groups = made.attributes["group"]

    def make(image: Symbol, weights: Symbol) -> Symbol:
        return transposed.convolved_back(image, weights, begins, root.shape[1:-1], strides, dilations, groups)

    if remade(graph, make, (x, kernel), (root,)) is None:
        return None
    image, last = turned(x)
    given = {
        "strides": strides, "dilations": dilations, "group": groups, "pads": (*begins, *ends), "output_padding": tuple(extra),
    }  # fmt: skip
    return Windowed("ConvTranspose", image, kernel, given, last, made.result_last)


def _flipped(kernel: Symbol | None) -> Symbol | None:
    """Return the kernel (…, M / groups, C) that was flipped and turned into one for a convolution."""
    for name in ("reshape", "permute", "reshape", "flip"):
        if kernel is None or kernel.op.name != name:
            return None
        kernel = kernel.inputs[0]
    return kernel


def _windows_below(symbol: Symbol) -> Symbol | None:
    """Return the windows that a result is made of, through what is computed with them."""
    while symbol.op.name in ("matmul", "mul", "add", "permute", "reshape", "slice", "cast"):
        symbol = symbol.inputs[0]
    return symbol if symbol.op.name == "windows" else None


def _spread(x: Symbol, rank: int) -> tuple[Symbol, tuple[int, ...]]:
    """Return the tensor whose elements have zeros between them in `x`, and the steps; `x` itself and ones for others."""
    steps: list[Symbol] = [x]
    for name in ("slice", "reshape", "pad", "reshape"):
        if steps[-1].op.name != name:
            return x, (1,) * rank
        steps.append(steps[-1].inputs[0])
    high = steps[2].attrs["high"]
    if len(high) != 2 * rank + 2 or not all(isinstance(width, int) for width in high):
        return x, (1,) * rank
    return steps[-1], tuple([int(high[2 + 2 * axis]) + 1 for axis in range(rank)])  # type: ignore[arg-type]


def _norm(graph: Graph, taken: Symbol, consumers: Mapping[int, list[Symbol]]) -> tuple[Symbol, Windowed] | None:
    """Return the p-norm of windows, which has an integer for p."""
    if not is_plain(taken) or len(taken.inputs[0].shape) != len(taken.attrs["axes"]) + 2:
        return None
    inner, pairs = unpadded(taken.inputs[0], 0.0)
    roots = chain_of(taken, consumers, 2)
    order, x = _order(inner)
    if not 0 < order < _MAX_ORDER or order != int(order) or len(roots) < (1 if order == 1 else 2):
        return None
    attrs, root = taken.attrs, roots[0 if order == 1 else 1]
    low, high = (tuple([pair[side] for pair in pairs]) for side in (0, 1))
    over = Windows(attrs["sizes"], attrs["strides"], attrs["dilations"], low, high, attrs["counts"])
    if remade(graph, lambda value: pooling.lp_pooled(value, over, order, 1), (x,), (root,)) is None:
        return None
    image, last = turned(x)
    given = {"kernel_shape": attrs["sizes"], "strides": attrs["strides"], "dilations": attrs["dilations"],
             "pads": (*low, *high), "p": int(order)}  # fmt: skip
    return root, Windowed("LpPool", image, None, given, last, True)


def _order(x: Symbol) -> tuple[float, Symbol]:
    """Return of which power of which values a tensor is; 0 for others."""
    if x.op.name == "abs":
        return 1.0, x.inputs[0]
    if x.op.name == "mul" and x.inputs[0] is x.inputs[1]:
        return 2.0, x.inputs[0]
    if x.op.name == "pow" and x.inputs[0].op.name == "abs":
        return _number(x.inputs[1]), x.inputs[0].inputs[0]
    return 0.0, x


def _number(x: Symbol) -> float:
    """Return the value of a constant number; 0 for others."""
    while x.op.name in ("broadcast_to", "reshape"):
        x = x.inputs[0]
    return float(x.attrs["value"]) if x.op.name == "constant" and x.attrs["value"].size == 1 else 0.0


def _channels(graph: Graph, taken: Symbol, consumers: Mapping[int, list[Symbol]]) -> tuple[Symbol, Windowed] | None:
    """Return the norm over windows of channels, which are the second axis or the last one."""
    chain = chain_of(taken, consumers, 5)
    if [each.op.name for each in chain] != ["reduce_sum", "mul", "add", "pow", "div"] or len(taken.attrs["axes"]) != 1:
        return None
    (axis,), (size,), root = taken.attrs["axes"], taken.attrs["sizes"], chain[-1]
    x, rank = root.inputs[0], len(root.shape)
    alpha, bias, beta = (_number(each.inputs[1]) for each in chain[1:4])
    alpha *= size

    def make(value: Symbol) -> Symbol:
        return normalization.lrn(value, size, alpha, beta, bias, axis)

    if rank < 3 or axis not in (1, rank - 1) or size % 2 == 0:  # onnxruntime has odd sizes
        return None
    if x.shape != root.shape or remade(graph, make, (x,), (root,)) is None:
        return None
    given = {"size": size, "alpha": alpha, "beta": beta, "bias": bias}
    is_last = axis == rank - 1
    image, last = turned(x) if is_last else (x, False)
    return root, Windowed("LRN", image, None, given, last, is_last)

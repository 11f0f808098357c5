"""Computes layered drawings of acyclic graphs: assigns layers, orders each layer, assigns x coordinates.

The steps are those of K. Sugiyama, S. Tagawa and M. Toda, "Methods for visual understanding of hierarchical
system structures" (IEEE Trans. SMC 11, 1981): longest-path layers, bends where an edge passes a layer,
barycentre sweeps against crossings. Coordinates minimise the squared horizontal length of edges, layer by
layer, with the order kept. The result is deterministic.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import combinations, pairwise

from ..dataclass import dataclass

Edge = tuple[int, int]

_ORDER_SWEEPS = 24
_COORDINATE_SWEEPS = 60
_BEND_WIDTH = 10.0


@dataclass(frozen=True, slots=True)
class Layout:
    """The positions of a drawing.

    Indices below the number of nodes are nodes, those above are bends of edges.

    Attributes:
        layers: the nodes and bends of each layer, the lowest layer first, each from left to right.
        x: the centre of each node and bend, measured from the left side of the drawing.
        width: the width of the drawing, in the unit of `x`.
        chains: each edge as the nodes it connects with the bends between them, upwards, one per layer.
    """

    layers: tuple[tuple[int, ...], ...]
    x: Mapping[int, float]
    width: float
    chains: Mapping[Edge, tuple[int, ...]]


def lay_out(widths: Sequence[float], edges: Sequence[Edge], gap: float) -> Layout:
    """Lay out the nodes 0, 1, … of the given widths.

    Edges are pairs (lower, upper) and have no cycle; `gap` is the least distance between neighbours in a
    layer.
    """
    heights = layer_of(len(widths), edges)
    chains: dict[Edge, tuple[int, ...]] = {}
    layers: list[list[int]] = [[] for _ in range(max(heights, default=-1) + 1)]
    for node, height in enumerate(heights):
        layers[height].append(node)
    extents = dict(enumerate(widths))
    for lower, upper in edges:
        between = range(heights[lower] + 1, heights[upper])
        bends = [len(extents) + position for position in range(len(between))]
        for bend, height in zip(bends, between, strict=True):
            layers[height].append(bend)
            extents[bend] = _BEND_WIDTH
        chains[lower, upper] = (lower, *bends, upper)
    segments = [segment for chain in chains.values() for segment in pairwise(chain)]
    layers = _order_layers(layers, segments)
    x = _assign_coordinates(layers, segments, extents, len(widths), gap)
    left = min((x[node] - extents[node] / 2 for node in x), default=0.0)
    right = max((x[node] + extents[node] / 2 for node in x), default=0.0)
    return Layout(
        tuple(map(tuple, layers)), {node: middle - left for node, middle in x.items()}, right - left, chains
    )


def layer_of(count: int, edges: Sequence[Edge]) -> list[int]:
    """Return the layer of each node: the length of the longest path that ends in it.

    Nodes with nothing below them move up, to the layer directly below the lowest of their upper neighbours.
    """
    heights = [0] * count
    for _ in range(count):  # a longest path has fewer edges than there are nodes
        for lower, upper in edges:
            heights[upper] = max(heights[upper], heights[lower] + 1)
    uppers = {upper for _, upper in edges}
    for node in range(count):
        above = [heights[upper] for lower, upper in edges if lower == node]
        if node not in uppers and above:
            heights[node] = min(above) - 1
    return heights


def crossings(layers: Sequence[Sequence[int]], segments: Sequence[Edge]) -> int:
    """Count the pairs of segments between neighbouring layers that cross."""
    positions = {node: position for layer in layers for position, node in enumerate(layer)}
    height = {node: level for level, layer in enumerate(layers) for node in layer}
    by_level: dict[int, list[tuple[int, int]]] = {}
    for lower, upper in segments:
        by_level.setdefault(height[lower], []).append((positions[lower], positions[upper]))
    return sum(
        (a - c) * (b - d) < 0 for level in by_level.values() for (a, b), (c, d) in combinations(level, 2)
    )


def _order_layers(layers: list[list[int]], segments: Sequence[Edge]) -> list[list[int]]:
    """Reorder layers to reduce crossings: sweep up and down, keep the best order, then swap neighbours."""
    below: dict[int, list[int]] = {}
    above: dict[int, list[int]] = {}
    for lower, upper in segments:
        below.setdefault(upper, []).append(lower)
        above.setdefault(lower, []).append(upper)
    best, fewest = [list(layer) for layer in layers], crossings(layers, segments)
    current = [list(layer) for layer in layers]
    for sweep in range(_ORDER_SWEEPS):
        upwards = sweep % 2 == 0
        levels = range(1, len(current)) if upwards else range(len(current) - 2, -1, -1)
        for level in levels:
            _sort(current[level], current[level - 1 if upwards else level + 1], below if upwards else above)
        found = crossings(current, segments)
        if found < fewest:
            best, fewest = [list(layer) for layer in current], found
    improved = fewest > 0
    while improved:
        improved = False
        for layer in best:
            for at in range(len(layer) - 1):
                layer[at], layer[at + 1] = layer[at + 1], layer[at]
                found = crossings(best, segments)
                if found < fewest:
                    fewest, improved = found, True
                else:
                    layer[at], layer[at + 1] = layer[at + 1], layer[at]
    return best


def _sort(layer: list[int], fixed: Sequence[int], neighbours: Mapping[int, Sequence[int]]) -> None:
    """Sort a layer by the mean position of each node's neighbours in the fixed layer.

    A node without any keeps its position.
    """
    positions = {node: (position + 0.5) / len(fixed) for position, node in enumerate(fixed)}
    keys = {}
    for position, node in enumerate(layer):
        around = [positions[other] for other in neighbours.get(node, ())]
        keys[node] = sum(around) / len(around) if around else (position + 0.5) / len(layer)
    layer.sort(key=keys.__getitem__)


def _assign_coordinates(
    layers: Sequence[Sequence[int]],
    segments: Sequence[Edge],
    widths: Mapping[int, float],
    nodes: int,
    gap: float,
) -> dict[int, float]:
    """Return the x coordinate of each centre.

    Layers in turn move as near to their neighbours as order and gaps allow. Segments that end in bends weigh
    more, so that long edges come out straight.
    """
    pulls: dict[int, list[tuple[int, float]]] = {node: [] for layer in layers for node in layer}
    for lower, upper in segments:
        weight = 1.0 + 2.0 * ((lower >= nodes) + (upper >= nodes))
        pulls[lower].append((upper, weight))
        pulls[upper].append((lower, weight))
    x: dict[int, float] = {}
    offsets: dict[int, float] = {}  # from the first node of the layer, with all as close as `gap` allows
    for layer in layers:
        total = 0.0
        for before, node in zip([None, *layer], layer, strict=False):
            total += 0.0 if before is None else (widths[before] + widths[node]) / 2 + gap
            offsets[node] = total
        for node in layer:
            x[node] = offsets[node] - total / 2
    for sweep in range(_COORDINATE_SWEEPS):
        for layer in layers if sweep % 2 else reversed(layers):
            wanted = []
            for node in layer:
                weight = sum(own for _, own in pulls[node])
                mean = sum(own * x[other] for other, own in pulls[node]) / weight if weight else x[node]
                wanted.append((mean - offsets[node], weight or 0.1))
            for node, start in zip(layer, _increasing(wanted), strict=True):
                x[node] = start + offsets[node]
    return x


def _increasing(wanted: Sequence[tuple[float, float]]) -> list[float]:
    """Return the non-decreasing numbers nearest to (value, weight) pairs in weighted least squares.

    The method is pool adjacent violators.
    """
    pools: list[tuple[float, float, int]] = []
    for value, weight in wanted:
        pools.append((value, weight, 1))
        while len(pools) > 1 and pools[-2][0] > pools[-1][0]:
            (a, first, some), (b, second, more) = pools[-2:]
            pools[-2:] = [((a * first + b * second) / (first + second), first + second, some + more)]
    return [value for value, _, count in pools for _ in range(count)]

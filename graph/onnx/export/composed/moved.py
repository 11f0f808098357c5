"""Finds what moves elements as a whole: pieces, repetitions, blocks of channels and of space, triangles."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from .....promotion.dtype import int64
from ....dims.dim import Extent, exact_quotient
from ....functions.joining import split, tile
from ....functions.triangles import tril, triu
from ....graph import Graph
from ....symbol import Symbol
from ...handlers.shaping import channels_of_space, space_of_channels
from ..body import Constant
from ..equality import found_among, found_of_several
from ..native import NATIVE
from .composed import Composed, Size, plain

_MAX_DIAGONAL = 1 << 31


def pieces(first: Symbol, consumers: Mapping[int, Sequence[Symbol]], graph: Graph) -> Composed | None:
    """Return the node of all slices that the tensor of a slice is cut into, side by side along an axis."""
    x = first.inputs[0]
    if x.dtype.name not in NATIVE["Slice"]:
        return None
    axes = [axis for axis, (own, extent) in enumerate(zip(first.shape, x.shape, strict=True)) if own != extent]
    if len(axes) != 1:
        return None
    (axis,) = axes
    parts: dict[Extent, list[Symbol]] = {}
    for each in consumers.get(x.id, ()):
        if each.op.name == "slice" and _is_piece(each, axis):
            parts.setdefault(each.attrs["starts"][axis], []).append(each)
    starts, sizes = list[Extent](), list[Extent]()
    reached: Extent = 0
    while reached in parts and len(starts) < len(parts):
        starts.append(reached)
        sizes.append(parts[reached][0].shape[axis])
        reached += sizes[-1]
    if len(starts) < 2 or len(starts) != len(parts) or reached != x.shape[axis] or 0 in sizes:
        return None
    if any([len(some) > 1 for some in parts.values()]):
        return None  # import makes one slice of each output
    results = found_of_several(graph, lambda _, value: split(value, sizes, axis), (x,), [parts[start] for start in starts])
    if not all(results) or not any([first is each for some in results for each in some]):
        return None
    outputs = tuple([tuple(each) for each in results])
    return Composed("Split", (x, Size(tuple(sizes))), outputs, {"axis": axis}, {}, None, True)


def _is_piece(cut: Symbol, axis: int) -> bool:
    """Return whether a slice has all of the other axes, and of one axis what lies side by side."""
    bounds = zip(cut.attrs["starts"], cut.attrs["stops"], cut.attrs["steps"], cut.inputs[0].shape, strict=True)
    return all([
        step == 1 and (a == axis or (start == 0 and stop == extent)) for a, (start, stop, step, extent) in enumerate(bounds)
    ])  # fmt: skip


def repeated(root: Symbol, graph: Graph) -> Composed | None:
    """Return the node of a whole tensor that is repeated along axes."""
    if root.op.name != "reshape" or root.inputs[0].op.name != "broadcast_to" or root.inputs[0].inputs[0].op.name != "reshape":
        return None
    x = root.inputs[0].inputs[0].inputs[0]
    if x.dtype.name not in NATIVE["Expand"] or len(x.shape) != len(root.shape):
        return None
    counts: list[Extent] = []
    for extent, size in zip(x.shape, root.shape, strict=True):
        count = exact_quotient(size, extent) if extent != 0 else None
        if count is None:
            return None
        counts.append(count)

    def make(_: Graph, value: Symbol) -> Symbol:
        return tile(value, tuple(counts))

    if set(counts) == {1} or found_among(graph, make, (x,), (root,)) is None:
        return None
    return plain("Tile", (x, Size(tuple(counts))), root)


def blocks(root: Symbol, graph: Graph) -> Composed | None:
    """Return the node of blocks of channels that become space, or the other way round."""
    if root.op.name != "reshape" or len(root.shape) != 4 or root.inputs[0].op.name != "permute":
        return None
    apart = root.inputs[0].inputs[0]
    if apart.op.name != "reshape" or len(apart.shape) != 6 or root.dtype.name not in ("float32", "float64"):
        return None
    x, order = apart.inputs[0], root.inputs[0].attrs["axes"]
    if len(x.shape) != 4 or 0 in x.shape:
        return None
    ways: dict[tuple[int, ...], tuple[str, str, int]] = {
        (0, 3, 4, 1, 5, 2): ("DepthToSpace", "DCR", 1), (0, 1, 4, 2, 5, 3): ("DepthToSpace", "CRD", 2),
        (0, 3, 5, 1, 2, 4): ("SpaceToDepth", "DCR", 3),
    }  # fmt: skip
    op, mode, where = ways.get(tuple(order), ("", "", 0))
    block = apart.shape[where]
    if not op or not isinstance(block, int) or block < 1:
        return None

    def make(_: Graph, value: Symbol) -> Symbol:
        return space_of_channels(value, block, mode) if op == "DepthToSpace" else channels_of_space(value, block, mode)

    if found_among(graph, make, (x,), (root,)) is None:
        return None
    return plain(op, (x,), root, blocksize=block, **({"mode": mode} if op == "DepthToSpace" else {}))


def triangle(root: Symbol, graph: Graph) -> Composed | None:
    """Return the node of the triangles of matrices."""
    if root.dtype.name not in ("float32", "float64", "int64") or root.inputs[2].op.name not in ("constant", "broadcast_to"):
        return None
    condition, x = root.inputs[:2]
    functions = {"greater_equal": tril, "less_equal": triu}
    if condition.op.name not in functions or len(x.shape) < 2 or x.shape != root.shape:
        return None
    rows, k = condition.inputs[0], 0
    if rows.op.name == "add":
        shift = rows.inputs[1]
        if shift.op.name != "constant" or shift.shape or abs(int(shift.attrs["value"])) > _MAX_DIAGONAL:
            return None
        k = int(shift.attrs["value"])

    def make(_: Graph, value: Symbol) -> Symbol:
        return functions[condition.op.name](value, k)

    if found_among(graph, make, (x,), (root,)) is None:
        return None
    return plain("Trilu", (x, Constant(np.array(k, np.int64), int64)), root, upper=int(condition.op.name == "less_equal"))

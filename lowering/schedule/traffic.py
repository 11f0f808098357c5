"""Counts the work of a nest, bytes moved and arithmetic operations, as ints or expressions in the runtime
dims."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable

from ..nest import Affine, Extent, Nest, Value
from .extents import product

_FREE = frozenset({"load", "const", "dim", "index", "cast", "bitcast", "where"})


def bytes_read(nest: Nest) -> Extent:
    """Returns the bytes that the nest would load with perfect caches, which is every distinct element
    once."""
    sizes: defaultdict[tuple[int, ...], int] = defaultdict(int)
    whole: Extent = 0
    by_buffer: dict[tuple[str, int], list[Value]] = {}
    for load in nest.loads:
        buffer = load.attrs["buffer"]
        by_buffer.setdefault((buffer.kind, buffer.index), []).append(load)
    for loads in by_buffer.values():
        buffer = loads[0].attrs["buffer"]
        counts = [_touched(nest, load) for load in loads]
        elements = product(buffer.shape)
        known = [product([nest.axes[axis].extent for axis in axes]) for axes in set(counts)]
        if len(known) > 1 or any(len(load.operands) for load in loads):
            count: Extent = sum(known[1:], known[0])
            if type(count) is int and type(elements) is int:
                count = min(count, elements)
            whole = whole + count * buffer.dtype.itemsize
        else:
            sizes[counts[0]] += buffer.dtype.itemsize
    return _total(nest, sizes, whole)


def bytes_written(nest: Nest) -> Extent:
    sizes: defaultdict[tuple[int, ...], int] = defaultdict(int)
    for store in nest.stores:
        sizes[nest.body[store.value].axes] += store.buffer.dtype.itemsize
    return _total(nest, sizes, 0)


def flops(nest: Nest) -> Extent:
    """Counts arithmetic operations on any type: one per element of an elementwise op, reduction or scan, two
    per contracted pair."""
    counts: defaultdict[tuple[int, ...], int] = defaultdict(int)
    for value in nest.body:
        if value.op == "contract":
            axes = {axis for operand in value.operands for axis in nest.body[operand].axes}
            counts[tuple(sorted(axes))] += 2
        elif value.op in ("reduce", "scan"):
            counts[nest.body[value.operands[0]].axes] += 1
        elif value.op == "scatter":
            counts[nest.body[value.operands[2]].axes] += 1
        elif value.op not in _FREE:
            counts[value.axes] += 1
    return _total(nest, counts, 0)


def _touched(nest: Nest, load: Value) -> tuple[int, ...]:
    """Returns the axes along which a load reads different elements."""
    at: Affine = load.attrs["at"]
    axes = {axis for axis, _ in at.terms}
    for operand in load.operands:
        axes.update(nest.body[operand].axes)
    return tuple(sorted(axes))


def _total(nest: Nest, counts: dict[tuple[int, ...], int], start: Extent) -> Extent:
    total = start
    for axes, count in counts.items():
        if count:
            total = total + product([nest.axes[axis].extent for axis in axes]) * count
    return total


def fused_names(names: Iterable[str]) -> str:
    """Lists the ops of a kernel with their counts, in order of first appearance:
    `add ×3, exp, reduce_sum`."""
    counts: dict[str, int] = {}
    for name in names:
        counts[name] = counts.get(name, 0) + 1
    return ", ".join([name if count == 1 else f"{name} ×{count}" for name, count in counts.items()])

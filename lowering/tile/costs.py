"""What a launch moves and computes, for reports and the cost model. Sizes known only at launch stay `Dim`
expressions."""

from __future__ import annotations

from collections.abc import Iterable

from ..nest import Affine, Buffer, Extent, Nest

_FREE = frozenset(("load", "const", "dim", "index", "cast", "bitcast", "where", "scan", "reduce", "contract"))


def _points(nest: Nest, axes: Iterable[int]) -> Extent:
    total: Extent = 1
    for axis in axes:
        total = total * nest.axes[axis].extent
    return total


def _touched(nest: Nest, touches: Iterable[tuple[Buffer, Affine, tuple[int, ...]]]) -> Extent:
    """Bytes of the distinct elements touched per buffer; `dynamic` axes are those that data-dependent indices
    vary along."""
    per_buffer: dict[tuple[str, int], tuple[Buffer, set[tuple[Affine, tuple[int, ...]]]]] = {}
    for buffer, at, dynamic in touches:
        per_buffer.setdefault((buffer.kind, buffer.index), (buffer, set()))[1].add((at, dynamic))
    total: Extent = 0
    for buffer, places in per_buffer.values():
        elements: Extent = 0
        for at, dynamic in sorted(places, key=str):
            axes = sorted({axis for axis, _ in at.terms} | set(dynamic))
            elements = elements + _points(nest, axes)
        size: Extent = 1
        for extent in buffer.shape:
            size = size * extent
        if type(elements) is int and type(size) is int:
            elements = min(elements, size)
        total = total + elements * buffer.dtype.itemsize
    return total


def bytes_read(nest: Nest) -> Extent:
    """Bytes of the distinct elements that are loaded."""
    touches = []
    for value in nest.loads:
        dynamic = value.operands[:-1] if value.attrs["guarded"] else value.operands
        axes = tuple(sorted({axis for operand in dynamic for axis in nest.body[operand].axes}))
        touches.append((value.attrs["buffer"], value.attrs["at"], axes))
    return _touched(nest, touches)


def bytes_written(nest: Nest) -> Extent:
    return _touched(nest, [(store.buffer, store.at, ()) for store in nest.stores])


def operations(nest: Nest) -> Extent:
    """Arithmetic operations: one per point of an elementwise value, reduction or scan, two per step of a
    contraction."""
    total: Extent = 0
    for value in nest.body:
        if value.op in ("reduce", "scan"):
            total = total + _points(nest, nest.body[value.operands[0]].axes)
        elif value.op == "contract":
            total = total + 2 * _points(nest, {*value.axes, value.attrs["over"]})
        elif value.op not in _FREE:
            total = total + _points(nest, value.axes)
    return total

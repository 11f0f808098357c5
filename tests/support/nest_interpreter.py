"""Interprets nests in NumPy, over whole index grids, and so defines what a nest computes.

Memory is one flat array per buffer. Loads and stores check every address; a guarded lane that is off does not
touch memory.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import numpy as np
from joinery.graph.dims.dim import evaluate_dim
from joinery.graph.reference.registry import REFERENCE, BoundSymbol
from joinery.lowering.nest import Affine, Buffer, Extent, Nest, Value
from joinery.lowering.schedule.templates import grid_axes
from joinery.promotion.arrays import Array
from joinery.promotion.errors import InternalError

Memory = dict[tuple[str, int], Array]


def run_nest(nest: Nest, memory: Memory, dims: Mapping[str, int]) -> None:
    """Executes one nest on the flat arrays of `memory`, keyed by buffer (kind, index)."""
    NestInterpreter(nest, memory, dims).run()


class NestInterpreter:
    """Interprets a nest. Every body value is an array over the extents of its axes, 1 elsewhere, so that
    NumPy broadcasting aligns operands."""

    def __init__(self, nest: Nest, memory: Memory, dims: Mapping[str, int]) -> None:
        self.nest, self.memory, self.dims = nest, memory, dims
        self.extents = [self.size(axis.extent) for axis in nest.axes]
        self.values: list[Array] = []

    def size(self, extent: Extent) -> int:
        return evaluate_dim(extent, self.dims)

    def run(self) -> None:
        if 0 in [self.extents[axis] for axis in grid_axes(self.nest)]:
            return  # no program runs
        for value in self.nest.body:
            result = np.asarray(self._compute(value))
            if value.op not in ("const", "dim"):
                result = np.broadcast_to(result, self._shape(value.axes))
            self.values.append(result)
        for store in self.nest.stores:
            value = self.nest.body[store.value]
            data = np.broadcast_to(self.values[store.value], self._shape(value.axes))
            at = np.broadcast_to(self._affine(store.at), data.shape)
            self._check(store.buffer, at)
            if np.unique(at).size != at.size:
                raise InternalError(
                    f"a store to {store.buffer.kind} {store.buffer.index} writes an element twice"
                )
            if any(axis.iterator != "parallel" for p, axis in enumerate(self.nest.axes) if p in value.axes):
                raise InternalError("a store varies along a reduction axis")
            self.memory[store.buffer.kind, store.buffer.index][at.ravel()] = data.ravel()

    def _shape(self, axes: Sequence[int]) -> tuple[int, ...]:
        return tuple([extent if p in axes else 1 for p, extent in enumerate(self.extents)])

    def _affine(self, at: Affine) -> Array:
        total = np.full((1,) * len(self.extents), self.size(at.offset), np.int64)
        for axis, coefficient in at.terms:
            steps = np.arange(self.extents[axis], dtype=np.int64) * self.size(coefficient)
            total = total + steps.reshape([-1 if p == axis else 1 for p in range(len(self.extents))])
        return total

    def _check(self, buffer: Buffer, at: Array) -> None:
        size = math.prod(self.size(extent) for extent in buffer.shape)
        if at.size and (at.min() < 0 or at.max() >= size):
            raise InternalError(
                f"{buffer.kind} {buffer.index} of {size} elements is accessed at {at.min()} … {at.max()}"
            )

    def _compute(self, value: Value) -> Array:
        operands = [self.values[operand] for operand in value.operands]
        attrs = value.attrs
        match value.op:
            case "const":
                return np.asarray(attrs["value"], value.dtype.numpy)
            case "dim":
                return np.asarray(self.size(attrs["extent"]), np.int64)
            case "index":
                return self._affine(attrs["at"])
            case "load":
                return self._load(value, operands)
            case "reduce":
                return self._reduce(value, operands[0])
            case "scan":
                return self._scan(value, operands[0])
            case "contract":
                return self._contract(value, operands)
            case "scatter":
                return self._scatter(value, *operands)
            case "sort":
                return self._sort(value, operands[0])
            case "sort_lines":
                return self._sort_lines(value, operands[0])
        below = [self.nest.body[operand] for operand in value.operands]
        shape = np.broadcast_shapes(*[operand.shape for operand in operands])
        inputs = tuple(
            [BoundSymbol("operand", v.dtype, o.shape) for v, o in zip(below, operands, strict=True)]
        )
        return REFERENCE[value.op](BoundSymbol(value.op, value.dtype, shape, inputs, attrs), *operands)

    def _load(self, value: Value, operands: list[Array]) -> Array:
        attrs = value.attrs
        guard = operands.pop() if attrs["guarded"] else None
        at = self._affine(attrs["at"])
        for operand, stride in zip(operands, attrs["strides"], strict=True):
            at = at + operand * self.size(stride)
        at = np.broadcast_to(at, self._shape(value.axes))
        memory: Array = self.memory[attrs["buffer"].kind, attrs["buffer"].index]
        if guard is None:
            self._check(attrs["buffer"], at)
            return np.asarray(memory[at])
        inside = np.broadcast_to(guard, at.shape)
        self._check(attrs["buffer"], at[inside])
        result = np.full(at.shape, attrs["fill"], value.dtype.numpy)
        result[inside] = memory[at[inside]]
        return result

    def _bound(self, value: Value, name: str, operand: Array, **attrs: object) -> BoundSymbol:
        below = self.nest.body[value.operands[0]]
        shape = self._shape(value.axes)
        return BoundSymbol(
            name, value.dtype, shape, (BoundSymbol("operand", below.dtype, operand.shape),), attrs
        )

    def _reduce(self, value: Value, operand: Array) -> Array:
        name = (
            value.attrs["kind"] if value.attrs["kind"].startswith("arg") else f"reduce_{value.attrs['kind']}"
        )
        over = value.attrs["over"]
        if not set(over) <= set(self.nest.body[value.operands[0]].axes):
            raise InternalError("a reduction over an axis its operand does not vary along")
        return REFERENCE[name](self._bound(value, name, operand, axes=over, keepdims=True), operand)

    def _scan(self, value: Value, operand: Array) -> Array:
        attrs = value.attrs
        name = "cumsum" if attrs["kind"] == "sum" else attrs["kind"]
        operand = np.broadcast_to(operand, self._shape(self.nest.body[value.operands[0]].axes))  # constants are numbers
        if name.startswith("fft_"):
            lines = np.moveaxis(operand, attrs["axis"], -1)
            bound = self._bound(value, "fft_block", lines, kind=name.removeprefix("fft_"))
            return np.moveaxis(REFERENCE["fft_block"](bound, lines), -1, attrs["axis"])
        bound = self._bound(
            value,
            name,
            operand,
            axis=attrs["axis"],
            exclusive=attrs["exclusive"],
            reverse=attrs["reverse"],
        )
        return REFERENCE[name](bound, operand)

    def _scatter(self, value: Value, data: Array, positions: Array, updates: Array) -> Array:
        """Scatters along the last axis of lines, after the axes of the nest that are none of these are gone."""
        target, over = value.attrs["target"], value.attrs["over"]
        lines = _last(data, target, over)
        extent = lines.shape[-1]
        steps = _last(np.where(positions < 0, extent, positions), over, target)  # they have been counted from the end
        given = _last(updates, over, target)
        shape = (*lines.shape[:-1], max(given.shape[-1], steps.shape[-1]))
        steps, given = (np.broadcast_to(each, shape) for each in (steps, given))
        operand = BoundSymbol("operand", value.dtype, lines.shape)
        attrs = {"axis": lines.ndim - 1, "reduction": value.attrs["kind"]}
        bound = BoundSymbol("scatter", value.dtype, lines.shape, (operand, operand, operand), attrs)
        return _spread(REFERENCE["scatter"](bound, lines, steps, given), target, over)

    def _sort(self, value: Value, keys: Array) -> Array:
        axis, half = value.attrs["axis"], value.attrs["half"]
        lines = _last(keys, axis, half)
        bound = BoundSymbol("sort_keys", value.dtype, (*lines.shape[:-1], self.extents[half], lines.shape[-1]))
        rows = np.moveaxis(REFERENCE["sort_keys"](bound, lines), -2, 0)
        return np.concatenate([_spread(row, axis, half) for row in rows], half)

    def _sort_lines(self, value: Value, elements: Array) -> Array:
        axis = value.attrs["axis"]
        return elements if axis < 0 else np.sort(elements, axis)

    def _contract(self, value: Value, operands: list[Array]) -> Array:
        depth = (*value.attrs.get("outer", ()), value.attrs["over"])
        for operand in value.operands:
            if not set(depth) <= set(self.nest.body[operand].axes):
                raise InternalError("a contraction operand does not vary along the contracted axes")
        count = math.prod(self.extents[axis] for axis in depth)
        last = tuple(range(-len(depth), 0))
        lhs, rhs = (np.moveaxis(operand, depth, last) for operand in operands)
        lhs, rhs = (each.reshape(*each.shape[: each.ndim - len(depth)], count) for each in (lhs, rhs))
        bound = self._bound(value, "matmul", operands[0], precision=value.attrs["precision"])
        product = REFERENCE["matmul"](bound, lhs[..., None, :], rhs[..., :, None])[..., 0, 0]
        return np.expand_dims(product, tuple(sorted(depth)))


def _last(array: Array, along: int, without: int) -> Array:
    """Move an axis of a nest to the end, or add one for none (-1), and drop an axis along which nothing varies."""
    dropped = array if without < 0 else np.squeeze(array, without)
    if along < 0:
        return dropped[..., None]
    return np.moveaxis(dropped, along - (0 <= without < along), -1)


def _spread(array: Array, along: int, without: int) -> Array:
    """Undo `_last`."""
    moved = array[..., 0] if along < 0 else np.moveaxis(array, -1, along - (0 <= without < along))
    return moved if without < 0 else np.expand_dims(moved, without)

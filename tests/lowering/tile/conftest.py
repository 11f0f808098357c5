"""A small notation for nests, and a way to run them through the tiler and the interpreter."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from joinery.graph.dims.dim import Dim
from joinery.lowering.nest import Affine, Axis, Buffer, Nest, Store, Template, Value
from joinery.lowering.tile.schedule import Schedule
from joinery.lowering.tile.tile import Limits, tile
from joinery.lowering.tt.interpret.interpreter import interpret
from joinery.lowering.tt.verify import verify
from joinery.promotion.dtype import DType


def number(extent: Any, env: dict[str, int]) -> int:
    return extent.evaluate(env) if isinstance(extent, Dim) else int(extent)


class Body:
    """Builds a nest. Axes are named; arrays are given when they are loaded; stores name the axes of the
    output."""

    def __init__(self, env: dict[str, int] | None = None, **axes: Any) -> None:
        self.env = env or {}
        self.names = list(axes)
        self.extents = dict(axes)
        self.values: list[Value] = []
        self.stores: list[Store] = []
        self.arrays: dict[tuple[str, int], np.ndarray] = {}
        self.counts = {"input": 0, "constant": 0, "output": 0}

    def axis(self, name: str) -> int:
        return self.names.index(name)

    def affine(self, dims: Sequence[str], shape: Sequence[Any], offset: Any = 0) -> Affine:
        """Row-major address; a dimension is an axis name, or "" for index 0."""
        terms: dict[int, Any] = {}
        step: Any = 1
        for name, extent in zip(reversed(list(dims)), reversed(list(shape)), strict=True):
            if name:
                axis = self.axis(name)
                terms[axis] = terms[axis] + step if axis in terms else step
            step = step * extent
        return Affine(offset, tuple(sorted(terms.items())))

    def add(
        self, op: str, dtype: DType, axes: Sequence[int], operands: Sequence[int] = (), /, **attrs: Any
    ) -> int:
        self.values.append(Value(op, dtype, tuple(sorted(set(axes))), tuple(operands), attrs))
        return len(self.values) - 1

    def buffer(self, kind: str, array: np.ndarray | None, dtype: DType, shape: Sequence[Any]) -> Buffer:
        index = self.counts[kind]
        self.counts[kind] += 1
        if array is not None:
            self.arrays[kind, index] = array
        return Buffer(kind, index, dtype, tuple(shape), index)

    def load(self, array: np.ndarray, dims: Sequence[str], dtype: DType | None = None, kind: str = "input",
             shape: Sequence[Any] | None = None, indices: Sequence[tuple[int, Any]] = (), guard: int | None = None,
             at: Affine | None = None, fill: Any = 0) -> int:  # fmt: skip
        dtype = dtype or DType.from_numpy(array.dtype)
        shape = array.shape if shape is None else shape
        buffer = self.buffer(kind, np.ascontiguousarray(array), dtype, shape)
        at = self.affine(dims, shape) if at is None else at
        operands = [i for i, _ in indices] + ([guard] if guard is not None else [])
        axes = [axis for axis, _ in at.terms] + [axis for o in operands for axis in self.values[o].axes]
        return self.add("load", dtype, axes, operands, buffer=buffer, at=at, strides=tuple(s for _, s in indices),
                        guarded=guard is not None, fill=fill)  # fmt: skip

    def const(self, value: Any, dtype: DType) -> int:
        return self.add("const", dtype, (), value=value)

    def index(self, name: str) -> int:
        axis = self.axis(name)
        return self.add("index", DType("int64"), (axis,), at=Affine(0, ((axis, 1),)))

    def op(self, name: str, *operands: int, dtype: DType | None = None, **attrs: Any) -> int:
        axes = [axis for operand in operands for axis in self.values[operand].axes]
        return self.add(name, dtype or self.values[operands[-1]].dtype, axes, operands, **attrs)

    def reduce(self, kind: str, x: int, *over: str) -> int:
        axes = tuple(self.axis(name) for name in over)
        dtype = DType("int64") if kind.startswith("arg") else self.values[x].dtype
        left = [axis for axis in self.values[x].axes if axis not in axes]
        return self.add("reduce", dtype, left, (x,), kind=kind, over=axes)

    def scan(self, x: int, axis: str, exclusive: bool = False, reverse: bool = False) -> int:
        value = self.values[x]
        return self.add("scan", value.dtype, (*value.axes, self.axis(axis)), (x,), kind="sum", axis=self.axis(axis),
                        exclusive=exclusive, reverse=reverse)  # fmt: skip

    def contract(self, a: int, b: int, over: str, dtype: DType, precision: str = "ieee") -> int:
        k = self.axis(over)
        axes = [axis for o in (a, b) for axis in self.values[o].axes if axis != k]
        return self.add("contract", dtype, axes, (a, b), over=k, precision=precision)

    def store(self, value: int, dims: Sequence[str], shape: Sequence[Any] | None = None) -> None:
        dtype = self.values[value].dtype
        shape = [self.extents[name] if name else 1 for name in dims] if shape is None else shape
        buffer = self.buffer("output", None, dtype, shape)
        self.stores.append(Store(value, buffer, self.affine(dims, shape)))

    def nest(self) -> Nest:
        stored = {axis for store in self.stores for axis, _ in store.at.terms}
        axes = tuple(
            Axis(name, self.extents[name], "parallel" if i in stored else "reduction")
            for i, name in enumerate(self.names)
        )
        return Nest(axes, tuple(self.values), tuple(self.stores), self.template())

    def template(self) -> Template:
        """That of what the values are, also for nests that the scheduler would refuse."""
        ops = [value.op for value in self.values]
        if "contract" not in ops:
            return "scan" if "scan" in ops else "row" if "reduce" in ops else "map"
        below: list[bool] = []  # whether a product is among what a value needs
        for value in self.values:
            below.append(any(below[operand] or ops[operand] == "contract" for operand in value.operands))
        return "attention" if any(op == "contract" and fed for op, fed in zip(ops, below, strict=True)) else "contract"

    def run(self, schedule: Schedule | None = None, limits: Limits | None = None) -> list[np.ndarray]:
        """The outputs, freshly computed by the interpreter; reads and writes outside a buffer raise."""
        program, launch = tile(self.nest(), schedule, limits)
        verify(program.func)
        arrays = {key: array.copy() for key, array in self.arrays.items()}
        for store in self.stores:  # filled with what no test computes, so that elements left out show
            shape = [number(extent, self.env) for extent in store.buffer.shape]
            dtype = store.buffer.dtype.numpy
            blank = np.full((*shape, dtype.itemsize), 0xA5, np.uint8)
            arrays["output", store.buffer.index] = blank.view(dtype).reshape(shape)
        arguments: list[Any] = [arrays[b.kind, b.index] for b in launch.buffers]
        arguments += [number(extent, self.env) for extent in launch.scalars]
        interpret(program.func, number(launch.grid, self.env), arguments)
        self.program, self.launch = program, launch
        return [arrays["output", i] for i in range(self.counts["output"])]


@pytest.fixture
def body() -> type[Body]:
    return Body


@pytest.fixture
def rng() -> np.random.Generator:
    return np.random.default_rng(7)

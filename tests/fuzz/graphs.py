"""Draws random typed graphs: every op, casts anywhere, 16-bit floats everywhere, masks of one operand, dims
that change.

`Builder` draws one step at a time from any object with the methods of `choices.Choices`. Values that may have been rounded
are `rough`: a step that would make their bounds useless (a quotient by a number that may be 0, the bits of a rounded number)
gets operands at a safe distance instead.
"""

from __future__ import annotations

import math
from typing import Any

import joinery as jn
import numpy as np
from joinery.graph.dims.dim import evaluate_dim
from joinery.graph.reference.numerics import convert

from .graph_steps import Steps

MAX_ELEMENTS = 6000
EXTENTS = (1, 1, 2, 3, 4, 5, 8, 17, 33, 65, 130, 300, 0)
SYMBOLIC = (1, 1, 2, 3, 8, "n", "k", "m")
DIMS = (1, 2, 3, 4, 7, 16, 33, 70, 0)
FLOATS = ("float32", "float32", "float16", "bfloat16", "float16", "float64", "tensor_float32")
INTEGERS = ("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64", "index")
DTYPES = (*FLOATS, *INTEGERS, "bool")
ROUGH = ("matmul", "reduce_sum", "reduce_prod", "cumsum")


class Builder(Steps):
    """A graph that is being drawn. `values` are the symbols that later steps may use."""

    DTYPES, FLOATS, INTEGERS = DTYPES, FLOATS, INTEGERS

    def __init__(
        self, draw: Any, symbolic: bool, most: int = MAX_ELEMENTS
    ) -> None:
        self.one, self.integer, self.several, self.order = draw.one, draw.integer, draw.several, draw.order
        self.most, self.symbolic = most, symbolic
        self.extents = SYMBOLIC if symbolic else EXTENTS
        self.dims = self.sizes()
        types: list[Any] = []
        for position in range(self.integer(1, 3)):
            shape = types[0].shape if types and self.flag() else self.shape()
            types.append(jn.TensorType(jn.DType(self.one(*DTYPES)), shape, name=f"x{position}"))
        self.graph = jn.Graph("random", inputs=types)
        self.values = list(self.graph.inputs)
        self.rough: set[int] = set()
        self.seen = 0
        self.count = 0
        self.made: set[str] = set()

    def sizes(self) -> dict[str, int]:
        """Returns the sizes of the symbolic dims in one call."""
        return {name: self.one(*DIMS) for name in ("n", "k", "m")}

    # -- values -----------------------------------------------------------------------------------------------------------

    def flag(self) -> bool:
        return bool(self.one(False, True))

    def shape(self, most_axes: int = 4) -> tuple[Any, ...]:
        shape: list[Any] = []
        for extent in self.several(self.extents, 0, most_axes):
            if math.prod(self.dims.get(e, e) for e in (*shape, extent)) <= self.most:
                shape.append(extent)
        return tuple(shape)

    def extent(self, entry: Any) -> int:
        return evaluate_dim(entry, self.dims)

    def size(self, value: Any) -> int:
        return math.prod(self.extent(entry) for entry in value.shape)

    def pick(self, condition: Any = lambda value: True) -> Any:
        found = [value for value in self.values if condition(value)][-8:]
        if not found:
            raise jn.UserError("no value fits")
        return self.one(*found)

    def is_rough(self, x: Any) -> bool:
        """Returns whether the values of a symbol may have been rounded."""
        for symbol in self.graph.symbols[self.seen :]:
            op = symbol.op
            made = symbol.dtype.is_float and (
                op.kind == "composite" or op.name in ROUGH or (op.kind == "map" and op.ulp > 0.5)
            )
            if made or any(operand.id in self.rough for operand in symbol.inputs):
                self.rough.add(symbol.id)
        self.seen = len(self.graph.symbols)
        return isinstance(x, jn.Symbol) and x.id in self.rough

    def like(self, x: Any, *shape: Any) -> Any:
        """Returns a constant of x's dtype."""
        self.count += 1
        values = np.asarray(
            grid(np.random.default_rng(self.count).integers(-4, 5, shape), x.dtype), x.dtype.numpy
        )
        if self.count % 3 == 0 and shape:
            return self.graph.weight(f"w{self.count}", values)
        return self.graph.constant(values, x.dtype)

    # -- a step -----------------------------------------------------------------------------------------------------------

    def step(self) -> None:
        x = self.pick()
        names = [*self.ANY]
        if x.shape:
            names += (*self.OF_AXES, *self.OF_FUNCTIONS, *self.OF_FUNCTIONS)
        if len(x.shape) >= 2:
            names += (*self.OF_MATRICES, *self.OF_MATRICES)
        name = self.one(*names)
        try:
            result = getattr(self, name)(x)
            if self.integer(0, 5) == 5:
                result = self.cast(result)
        except (jn.UserError, jn.UnsupportedError):  # this op is not for these dtypes or shapes
            return
        if self.size(result) <= 4 * self.most:
            self.values.append(result)
            self.made.add(name)


def grid(values: np.ndarray, dtype: jn.DType) -> np.ndarray:
    """Converts small integers to values of a dtype; floats become multiples of 1/4."""
    if dtype.is_bool:
        return values % 2 == 1
    if dtype.is_float:
        return (values / 4).astype(dtype.numpy)
    return (values if dtype.kind == "int" else np.abs(values)).astype(dtype.numpy)


def special_values(dtype: jn.DType) -> np.ndarray:
    """Returns values at which faults are likely."""
    if dtype.is_bool:
        return np.array([True, False])
    if dtype.is_integer:
        return np.array([dtype.min_value, dtype.max_value], dtype.numpy)
    tiny, normal = dtype.smallest_subnormal, dtype.smallest_normal
    with np.errstate(all="ignore"):
        return np.array([np.nan, np.inf, -np.inf, -0.0, 2.0**-20, tiny, -3 * tiny, normal]).astype(
            dtype.numpy
        )


def input_array(draw: Any, shape: list[int], dtype: jn.DType, number: int) -> np.ndarray:
    rng = np.random.default_rng([number, draw.integer(0, 9)])
    values = grid(rng.integers(-8, 9, shape), dtype)
    how = draw.integer(0, 11)
    if dtype.is_float and how in (5, 6) and dtype.name != "tensor_float32":  # values that are not on a grid
        values = rng.normal(size=shape).astype(dtype.numpy)
    if dtype.is_float and how % 2 == 0:  # zeros of both signs
        values = np.where((values == 0) & (rng.random(shape) < 0.5), -values, values)
    if how == 8 and dtype.is_float:  # sums and squares overflow
        values = values * (dtype.max_value / 4)
    if how in (7, 9, 10, 11) or (dtype.is_integer and how == 6):
        special = special_values(dtype)
        values = np.where(
            rng.random(shape) < (0.1 if how % 2 else 0.02) * (1 if dtype.is_float else 3), rng.choice(special, shape), values
        )
    values = np.array(values, dtype.numpy, order="C")
    return values if dtype.name != "tensor_float32" else convert(values, jn.float32, dtype)  # ten bits of mantissa


def drawn(
    draw: Any, symbolic: bool, most: int = MAX_ELEMENTS, steps: int = 18
) -> Builder:
    """Draws a finished graph."""
    builder = Builder(draw, symbolic, most)
    for _ in range(draw.integer(1, steps)):
        builder.step()
    others = draw.several(builder.values, 0, 5)
    builder.graph.output(builder.values[-1], *others, names=[f"y{i}" for i in range(len(others) + 1)])
    return builder


def arrays_of(draw: Any, builder: Builder) -> list[np.ndarray]:
    """Draws arrays for one call, with the sizes of `builder.dims`."""
    return [
        input_array(draw, [builder.extent(entry) for entry in symbol.shape], symbol.dtype, number)
        for number, symbol in enumerate(builder.graph.inputs)
    ]

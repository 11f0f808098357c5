"""Defines what handlers work on: the operator's declared result, and ATen's rules for dtypes of operands."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import count
from typing import NoReturn, TypeAlias

import numpy as np

from ...promotion.dtype import DType, bool_, float32, int64
from ...promotion.errors import InternalError, UnsupportedError, UserError
from ..checks import Check
from ..dims.dim import Dim, Extent
from ..functions.building import apply
from ..graph import Graph
from ..ops.attributes import fixed
from ..ops.shape import normalize_axis
from ..ops.table import OPS
from ..symbol import Symbol
from ..types import Shape, TensorType, shape_text
from .program import Call

Number: TypeAlias = int | float | bool
Operand: TypeAlias = Symbol | Dim | Number
"""An operand of an elementwise operator. Sizes and Python numbers are weak, and so are tensors without axes."""


class Effects:
    """What a program does beside its results.

    Attributes:
        seed: of random numbers, where it may draw some.
        streams: for each call that does.
        assertions: sizes of 1 that data decides.
    """

    def __init__(self, seed: int | None) -> None:
        self.seed, self.streams = seed, count(0, 2)
        self.assertions: list[Check] = []


class Node:
    """A call of an operator while it is imported.

    Attributes:
        call: what the program says of it.
        graph: the graph that its symbols belong to.
    """

    def __init__(self, call: Call, graph: Graph, effects: Effects | None = None) -> None:
        """effects: what the program does beside its results; None inside loops and branches."""
        self.call, self.graph, self._effects = call, graph, effects

    # -- the declared result -------------------------------------------------------------------------------------------

    @property
    def op(self) -> str:
        """The overload, such as "aten.add.Tensor"."""
        return self.call.op

    @property
    def kind(self) -> str:
        """The operator without namespace and overload, such as "add"."""
        return self.call.op.split(".")[1]

    def result(self, position: int = 0) -> TensorType:
        """Return the dtype and shape that PyTorch states for a result."""
        declared = self.call.results[position] if position < len(self.call.results) else None
        if declared is None:
            raise InternalError(f"result {position} is no tensor")
        return declared

    @property
    def dtype(self) -> DType:
        """The dtype of the first result."""
        return self.result().dtype

    @property
    def shape(self) -> Shape:
        """The shape of the first result."""
        return self.result().shape

    # -- operands ------------------------------------------------------------------------------------------------------

    def common(self, *operands: Operand) -> DType:
        """Return the dtype in which ATen computes with these operands.

        Tensors with axes decide before those without, and these before numbers; among each, the higher kind does.
        """
        plain = [_representative(operand) if isinstance(operand, (int, float, Dim)) else operand for operand in operands]
        if not any(isinstance(operand, Symbol) for operand in plain):
            kinds = {type(operand) for operand in plain}
            return float32 if float in kinds else int64 if int in kinds else bool_
        return self.graph.promotion("concat", plain).result

    def operands(self, *values: Operand, dtype: DType | None = None) -> tuple[Symbol, ...]:
        """Return operands in their common dtype, or a given one. Casts that ATen makes implicitly enter the ledger."""
        target = self.common(*values) if dtype is None else dtype
        return tuple([self.operand(value, target) for value in values])

    def operand(self, value: Operand, dtype: DType) -> Symbol:
        """Return an operand in the dtype that ATen casts it to."""
        if isinstance(value, Symbol):
            return value if value.dtype is dtype else self._implicitly(value, dtype)
        if isinstance(value, Dim):
            return self.graph.dim_value(value).cast(dtype)
        return self.number(value, dtype)

    def _implicitly(self, value: Symbol, dtype: DType) -> Symbol:
        attrs = fixed({"dtype": dtype, "rounding": "nearest", "saturate": True})
        location = self.graph.current_location or self.call.location
        return self.graph.restore(OPS["cast"], (value,), attrs, dtype, value.shape, location, implicit=self.op)

    def computed(self, row: str, *values: Operand) -> Symbol:
        """Apply a row to operands in their common dtype; rounds once.

        Of 16-bit floats, a number or a tensor without axes on the right stays a float32, as in ATen's kernels.
        """
        dtype = self.common(*values)
        last = values[-1]
        if len(values) == 2 and dtype.is_float and dtype.bits == 16 and isinstance(values[0], Symbol) and is_wide(last, dtype):
            right = last.cast(float32) if isinstance(last, Symbol) else self.operand(last, float32)
            result = apply(row, self.operand(values[0], dtype).cast(float32), right)
            return result if result.dtype.is_bool else result.cast(dtype)
        return apply(row, *self.operands(*values, dtype=dtype))

    def number(self, value: Number, dtype: DType) -> Symbol:
        """Return a number as ATen stores it in a dtype: integers wrap, floats round, and bools tell whether it is zero."""
        if dtype.is_bool:
            return self.graph.scalar(bool(value), dtype)
        if dtype.is_integer and not isinstance(value, bool):
            with np.errstate(all="ignore"):
                whole = int(value) if np.isfinite(value) else int(np.float64(value).astype(np.int64))
            wrapped = whole & ((1 << dtype.bits) - 1)
            value = wrapped - (1 << dtype.bits) if dtype.is_signed and wrapped >> (dtype.bits - 1) else wrapped
        if dtype.is_float:
            with np.errstate(over="ignore"):
                return self.graph.constant(np.array(float(value), np.float64).astype(dtype.numpy), dtype)
        return self.graph.scalar(value, dtype)

    def tensor(self, value: object, what: str) -> Symbol:
        """Return an argument that must be a tensor."""
        if not isinstance(value, Symbol):
            raise UserError(f"{what} is {value!r:.60}, no tensor; fix: export the model again")
        return value

    # -- shapes --------------------------------------------------------------------------------------------------------

    def axis(self, number: int, rank: int) -> int:
        """Return an axis, counted from the end if negative, as a position; a tensor without axes has axis 0."""
        return 0 if rank == 0 and number in (0, -1) else normalize_axis(number, rank)

    def axes(self, numbers: Sequence[int] | int | None, rank: int) -> tuple[int, ...]:
        """Return axes to reduce as positions in ascending order; none stand for all."""
        if numbers is None or (isinstance(numbers, tuple) and not numbers):
            return tuple(range(rank))
        given = (numbers,) if isinstance(numbers, int) else numbers
        return tuple(sorted({self.axis(number, rank) for number in given})) if rank else ()

    def shaped(self, x: Symbol, shape: Shape | None = None) -> Symbol:
        """Return the elements of `x`, in row-major order, under the declared shape of the result or a given one."""
        target = self.shape if shape is None else shape
        return x if x.shape == target else apply("reshape", x, shape=target)

    def broadcast(self, x: Symbol, shape: Shape | None = None) -> Symbol:
        """Return `x` repeated to the declared shape of the result or a given one."""
        target = self.shape if shape is None else shape
        return x if x.shape == target else apply("broadcast_to", x, shape=target)

    def static(self, extents: Sequence[Extent], what: str) -> tuple[int, ...]:
        """Return sizes that must be numbers. Raises `UnsupportedError` for symbolic ones."""
        found = tuple([extent for extent in extents if isinstance(extent, int)])
        if len(found) < len(extents):
            self.unsupported(f"{what} has the symbolic shape {shape_text(tuple(extents))}", "export it with a fixed size there")
        return found

    # -- effects -------------------------------------------------------------------------------------------------------

    def stream(self) -> dict[str, int]:
        """Return the seed and a stream of its own for a call that draws random numbers, as options."""
        if self._effects is None or self._effects.seed is None:
            self.unsupported("it draws random numbers from PyTorch's generator", "from_exported(…, seed=0), for others, the "
                             "same at each run; and draw them outside loops and branches")  # fmt: skip
        return {"seed": self._effects.seed, "stream": next(self._effects.streams)}

    def hold(self, size: Dim, message: str) -> None:
        """Require a size that data decides to be 1."""
        if self._effects is None:
            self.unsupported("an assertion in a loop or a branch", "assert it outside")
        self._effects.assertions.append(Check(size, 1, message))

    # -- refusals ------------------------------------------------------------------------------------------------------

    def unsupported(self, problem: str, fix: str) -> NoReturn:
        """Raise `UnsupportedError`."""
        raise UnsupportedError(f"{problem}, which is not supported; fix: {fix}")

    def require(self, holds: bool, problem: str, fix: str) -> None:
        """Raise `UnsupportedError` unless a condition holds."""
        if not holds:
            self.unsupported(problem, fix)


def _representative(number: Operand) -> Number:
    """Return a number of the same kind that fits every dtype: kinds decide, not values."""
    if isinstance(number, bool):
        return True
    return 1.0 if isinstance(number, float) else 1


def is_wide(value: Operand, dtype: DType) -> bool:
    """Return whether an operand without axes would be rounded to this 16-bit float."""
    if isinstance(value, Symbol):
        return not value.shape and value.dtype.is_float and value.dtype.bits > 16
    if isinstance(value, Dim):
        return True
    with np.errstate(over="ignore"):
        return float(np.float64(value).astype(dtype.numpy)) != float(value)

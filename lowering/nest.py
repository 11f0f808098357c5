"""Defines the loop nest that the scheduler hands to the tiler.

A nest is `linalg.generic` (MLIR: iterator types, indexing maps, a scalar body) whose body may also reduce,
scan and contract, so that a softmax, a layer norm, a matmul with its epilogue or a whole attention is *one*
nest with one description. Every body value lives on a subset of the nest's axes; it is computed once for each
point of them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from typing import Any, Literal, TypeAlias

from ..graph.dims.dim import Dim
from ..graph.location import Location
from ..promotion.dataclass import dataclass
from ..promotion.dtype import DType

Extent = int | Dim
"""A size known now (`int`) or at launch (`Dim`)."""


def size_text(extent: Extent) -> int | str:
    """Returns a size as the compiled form has it: an int, or the text of a dim expression."""
    return extent if isinstance(extent, int) else str(extent)


Attributes: TypeAlias = Mapping[str, Any]
"""Attributes of a body value; the table of `Value` lists those of each operation."""
Template = Literal["map", "row", "contract", "attention", "scan", "ordered"]
"""How a nest becomes a block program; see `schedule/templates.py`."""
BufferKind = Literal["input", "constant", "output", "temporary", "variable"]
"""A "variable" is memory whose address changes while the plan runs; see `control/steps.py`."""


@dataclass(frozen=True, slots=True)
class Buffer:
    """A dense, C-contiguous array in memory. `shape` is in elements; `symbol` is the id of the graph symbol it stores."""

    kind: BufferKind
    index: int  # position among the buffers of its kind
    dtype: DType
    shape: tuple[Extent, ...]
    symbol: int


@dataclass(frozen=True, slots=True)
class Axis:
    """One loop. `reduction` axes appear in no store; an axis may be reduced over *and* be parallel elsewhere (softmax)."""

    name: str
    extent: Extent
    iterator: Literal["parallel", "reduction"] = "parallel"


@dataclass(frozen=True, slots=True)
class Affine:
    """`offset + Σ coefficient · axis`; axes are indices into `Nest.axes`, sorted, coefficients never zero."""

    offset: Extent = 0
    terms: tuple[tuple[int, Extent], ...] = ()

    def coefficient(self, axis: int) -> Extent:
        for index, value in self.terms:
            if index == axis:
                return value
        return 0


@dataclass(frozen=True, slots=True)
class Value:
    """One SSA value of the body.

    op            operands                attrs
    ------------  ----------------------  -----------------------------------------------------------------
    load          (*indices, [guard])     buffer: Buffer, at: Affine (elements), strides: tuple[Extent, ...] one per
                                          index operand (int64 values, already clamped, in elements), guarded: bool
                                          (last operand is an i1: false lanes do not touch memory and read `fill`),
                                          fill: Python scalar
    const         ()                      value: Python scalar or NumPy scalar of the dtype
    dim           ()                      extent: Extent            (int64, known at launch)
    index         ()                      at: Affine                (int64 value of an affine expression of the axes)
    reduce        (x,)                    kind: "sum" "prod" "max" "min" "argmax" "argmin", over: tuple of axes
                                          (accumulates in the value's own dtype; x has been cast to it, arg*: int64)
    scan          (x,)                    kind: "sum" "cumprod" "cummax" "cummin", or of lines that a program holds whole:
                                          "sort_block" "fft_forward" "fft_inverse" "fft_real" "fft_real_inverse";
                                          axis: int, exclusive: bool, reverse: bool
    scatter       (x, positions, updates) kind: a reduction of the op, target: int, the axis of the positions, over: int, the
                                          axis of the updates, which come in its order (-1 for an axis of extent 1)
    sort          (keys,)                 axis: int, half: int, the axis of the two rows of the result (-1 as above)
    sort_lines    (x,)                    axis: int, along which elements of the result lie side by side (-1 as above)
    contract      (a, b)                  over: int (the innermost contracted axis), outer: tuple of axes (the other
                                          contracted axes, outermost first; may be missing), precision: "ieee" | "tf32".
                                          Accumulates in the value's dtype; a and b may be narrower (f16, bf16, i8)
    anything else operands of a map op    the attrs of the graph op; `op` is its name in the op table
    """

    op: str
    dtype: DType
    axes: tuple[int, ...]  # sorted
    operands: tuple[int, ...] = ()
    attrs: Attributes = field(default_factory=dict)
    lines: tuple[Location, ...] = field(default=(), compare=False)  # the user's lines that it comes from, its cause first


@dataclass(frozen=True, slots=True)
class Store:
    """Writes body value `value` to `buffer` at the affine element position `at`, for all points of the
    value's axes.

    Axes along which nothing is reduced, scanned or contracted are the grid, with a program per position. The
    value varies along all of them that may be empty at run time; otherwise no program would write it.
    """

    value: int
    buffer: Buffer
    at: Affine
    lines: tuple[Location, ...] = field(default=(), compare=False)


@dataclass(frozen=True, slots=True)
class Nest:
    """A kernel before tiling. `body` is in topological order, and operands index into it. `template` is the
    one that the scheduler chose to make the program. `fused` names the graph ops inside.

    Nests that differ only in the user's lines are equal.
    """

    axes: tuple[Axis, ...]
    body: tuple[Value, ...]
    stores: tuple[Store, ...]
    template: Template
    fused: tuple[str, ...] = ()
    symbols: tuple[int, ...] = ()  # ids of the graph symbols whose value is computed here

    @property
    def loads(self) -> tuple[Value, ...]:
        return tuple(v for v in self.body if v.op == "load")

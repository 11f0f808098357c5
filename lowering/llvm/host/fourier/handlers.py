"""Lowers `tt.fft`: lines beside each other are transformed as they lie, short ones are turned first, long ones are matrices.

    lines along rows ─ turn ─► a lane for each line ─ passes ─ turn ─► lines along rows      (below `LONG_TRANSFORM`)
    one long line ─► a matrix, whose lanes are its columns, and then its rows                (`lines.py`)
"""

from __future__ import annotations

import math
from typing import NamedTuple

from xdsl.ir import Operation

from ....target import LONG_TRANSFORM
from ...syntax import attributes, element_name, shape_of
from ...values import V
from ..context import KernelContext
from ..loops.coordinates import Bound
from ..memory.transpose import transpose_into
from ..nodes import Stored, dense
from .columns import ColumnsTransform
from .kinds import Transform
from .lines import LineTransform, factors

_SQUARE = 8
"""Elements of a side of the squares in which blocks are transposed."""
_SIZE = 8
"""Bytes of an element of a block."""


def lower_fft(k: KernelContext, op: Operation) -> None:
    result, said = op.results[0], attributes(op)
    node, axis = k.node(op.operands[0]), int(said["axis"])
    shape, elem = shape_of(result.type), element_name(result.type)
    of = Transform(said["kind"], int(said["length"]))
    if of.length == 1 and not of.is_real:
        k.define(result, node)
        return
    parts = _Parts("double", 2) if elem == "f64" else _Parts("float", 1)
    read = k.ev.s.constant((of.length + (of.kind == "real_inverse")) * parts.elements)
    block = k.nests.materialize(node, k.ev.scratch(shape, elem, pad=shape[-1]), [Bound(axis, read)])
    beside, extent, outer = math.prod(shape[axis + 1 :]), shape[axis], math.prod(shape[:axis])
    found = Stored(shape, elem, block.pointer, dense(shape), block.memory)
    if beside > 1:
        with k.f.loop(0, outer) as state, k.ev.scope():
            at = k.f.gep(block.pointer, k.ev.s.mul(state.index, k.ev.s.constant(extent * beside)), block.memory)
            _transform_columns(k, of, parts, at, beside)
    elif of.length >= LONG_TRANSFORM and factors(of.length):
        _transform_lines(k, of, parts, block.pointer, outer, extent)
    elif outer == 1:
        _transform_columns(k, of, parts, block.pointer, 1)
    else:
        count = min(extent, -(-(of.length + of.is_real) * parts.elements // _SQUARE) * _SQUARE)  # those that are any numbers
        matrix = Stored((outer, count), elem, block.pointer, (extent, 1), block.memory)
        turned = k.ev.scratch((count, outer), elem, pad=outer)
        transpose_into(k.ev, matrix, turned)
        _transform_columns(k, of, parts, turned.pointer, outer)
        transpose_into(k.ev, turned, matrix)
    k.define(result, found)


class _Parts(NamedTuple):
    """The LLVM element of a part of a number, and how many elements of a block a number is."""

    elem: str
    elements: int

    @property
    def lanes(self) -> str:
        """The element that tells how many lanes a register has."""
        return "f64" if self.elem == "double" else "f32"


def _transform_columns(k: KernelContext, of: Transform, parts: _Parts, rows: V, beside: int) -> None:
    """Transforms the columns of dense rows in place."""
    lanes = min(beside, k.ev.lanes_for(parts.lanes))
    function = ColumnsTransform(of, parts.elem, lanes, _SIZE * beside * parts.elements, parts.elements == 2)
    scratch = k.ev.scratch((function.scratch_bytes,), "i8").pointer
    name = k.f.module.provide(function)
    with k.f.loop(0, _SIZE * beside, _SIZE * lanes) as state:
        k.f.call(name, "void", [k.f.gep(rows, state.index), scratch])


def _transform_lines(k: KernelContext, of: Transform, parts: _Parts, first: V, lines: int, extent: int) -> None:
    """Transforms lines one after the other in place."""
    function = LineTransform(of, parts.elem, k.ev.lanes_for(parts.lanes))
    scratch = k.ev.scratch((function.scratch_bytes,), "i8").pointer
    name = k.f.module.provide(function)
    with k.f.loop(0, _SIZE * extent * lines, _SIZE * extent) as state:
        k.f.call(name, "void", [k.f.gep(first, state.index), scratch])

"""Lowers `tt.fft`: lines beside each other are transformed as they lie, short ones are turned first, long ones are matrices.

    lines along rows ─ turn ─► a lane for each line ─ passes ─ turn ─► lines along rows      (below `LONG_TRANSFORM`)
    one long line ─► a matrix, whose lanes are its columns, and then its rows                (`lines.py`)
"""

from __future__ import annotations

import math

from xdsl.ir import Operation

from .....promotion.errors import UnsupportedError
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
from .passes import MAX_PRIME, passes

_ELEM = "float"


def lower_fft(k: KernelContext, op: Operation) -> None:
    result, said = op.results[0], attributes(op)
    node, axis = k.node(op.operands[0]), int(said["axis"])
    shape, elem = shape_of(result.type), element_name(result.type)
    of = Transform(said["kind"], int(said["length"]))
    if not passes(of.length):
        problem = f"tt.fft: a transform of {of.length} numbers in one program"
        raise UnsupportedError(f"{problem}; fix: a length with prime factors up to {MAX_PRIME}")
    read = k.ev.s.constant(of.length + (of.kind == "real_inverse"))
    block = k.nests.materialize(node, k.ev.scratch(shape, elem, pad=shape[-1]), [Bound(axis, read)])
    beside, extent, outer = math.prod(shape[axis + 1 :]), shape[axis], math.prod(shape[:axis])
    found = Stored(shape, elem, block.pointer, dense(shape), block.memory)
    if beside > 1:
        with k.f.loop(0, outer) as state, k.ev.scope():
            at = k.f.gep(block.pointer, k.ev.s.mul(state.index, k.ev.s.constant(extent * beside)), block.memory)
            _transform_columns(k, of, at, beside)
    elif of.length >= LONG_TRANSFORM and factors(of.length):
        _transform_lines(k, of, block.pointer, outer, extent)
    elif outer == 1:
        _transform_columns(k, of, block.pointer, 1)
    else:
        matrix = Stored((outer, extent), elem, block.pointer, (extent, 1), block.memory)
        turned = k.ev.scratch((extent, outer), elem, pad=outer)
        transpose_into(k.ev, matrix, turned)
        _transform_columns(k, of, turned.pointer, outer)
        transpose_into(k.ev, turned, matrix)
    k.define(result, found)


def _transform_columns(k: KernelContext, of: Transform, rows: V, beside: int) -> None:
    """Transforms the columns of dense rows of numbers in place."""
    lanes = min(beside, k.ev.lanes_for("f32"))
    function = ColumnsTransform(of, _ELEM, lanes, 8 * beside)
    scratch = k.ev.scratch((function.scratch_bytes,), "i8").pointer
    name = k.f.module.provide(function)
    with k.f.loop(0, 8 * beside, 8 * lanes) as state:
        k.f.call(name, "void", [k.f.gep(rows, state.index), scratch])


def _transform_lines(k: KernelContext, of: Transform, first: V, lines: int, extent: int) -> None:
    """Transforms lines one after the other in place."""
    function = LineTransform(of, _ELEM, k.ev.lanes_for("f32"))
    scratch = k.ev.scratch((function.scratch_bytes,), "i8").pointer
    name = k.f.module.provide(function)
    with k.f.loop(0, 8 * extent * lines, 8 * extent) as state:
        k.f.call(name, "void", [k.f.gep(first, state.index), scratch])

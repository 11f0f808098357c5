"""Expands tt.map_elementwise with a straight-line region into the operations of that region on blocks.

Values that depend on no element stay scalars and are splatted where they meet a block. Maps with `pack` above 1, with branches
or loops, or with operations that are not elementwise stay as they are.
"""

from __future__ import annotations

from dataclasses import dataclass

from xdsl.ir import Attribute, Operation, SSAValue

from ... import types as t
from ...analysis.control_flow import parent_block
from ...dialect.debug import AssertOp
from ...dialect.functions import FuncOp
from ...dialect.memory.pointers import LoadOp
from ...dialect.regions import MapElementwiseOp, MapElementwiseReturnOp
from ...dialect.shapes import SplatOp
from ..function_pass import FunctionPass

_ELEMENTWISE = frozenset(
    {
        "tt.addptr", "tt.approx_divf", "tt.bitcast", "tt.clampf", "tt.fp_to_fp", "tt.int_to_ptr", "tt.mulhiui",
        "tt.precise_divf", "tt.precise_sqrt", "tt.ptr_to_int", AssertOp.name, LoadOp.name,
    }
)  # fmt: skip
_UNIFORM = frozenset({"tt.get_program_id", "tt.get_num_programs", "ub.poison"})


def expand_map_elementwise(function: Operation) -> None:
    """Replaces the maps of a function that can be expanded, in place."""
    for op in list(function.walk()):
        if isinstance(op, MapElementwiseOp) and _is_straight(op):
            _expand(op)


def _is_straight(op: MapElementwiseOp) -> bool:
    if op.pack.value.data != 1 or len(op.scalarOp.blocks) != 1:
        return False
    for inner in op.scalarOp.block.ops:
        known = inner.name.startswith(("arith.", "math.")) or inner.name in _ELEMENTWISE or inner.name in _UNIFORM
        if not known and not isinstance(inner, MapElementwiseReturnOp):
            return False
        if inner.regions or any(t.is_tensor(value.type) for value in (*inner.operands, *inner.results)):
            return False
    return True


def _expand(op: MapElementwiseOp) -> None:
    block = parent_block(op)
    shape = t.shape_of(op.srcs[0].type)
    region = op.scalarOp.block
    blocks: dict[SSAValue, SSAValue] = dict(zip(region.args, op.srcs, strict=True))  # of values that depend on elements
    splats: dict[SSAValue, SSAValue] = {}

    def as_block(value: SSAValue) -> SSAValue:
        found = blocks.get(value, splats.get(value))
        if found is None:
            made = SplatOp.create(operands=(value,), result_types=(_spread(value, shape),), location=op.location)
            block.insert_op_before(made, op)
            found = splats[value] = made.results[0]
        return found

    for inner in list(region.ops):
        if isinstance(inner, MapElementwiseReturnOp):
            results = [as_block(value) for value in inner.operands]
        elif any(operand in blocks for operand in inner.operands):
            made = type(inner).create(
                operands=[as_block(operand) for operand in inner.operands],
                result_types=[_spread(result, shape) for result in inner.results],
                properties=dict(inner.properties),
                attributes=dict(inner.attributes),
                location=inner.location,
            )
            block.insert_op_before(made, op)
            blocks.update(zip(inner.results, made.results, strict=True))
        else:
            region.detach_op(inner)
            block.insert_op_before(inner, op)
    for old, new in zip(op.results, results, strict=True):
        old.replace_all_uses_with(new)
    block.erase_op(op)


def _spread(value: SSAValue, shape: tuple[int, ...]) -> Attribute:
    return t.tensor(value.type, shape)


@dataclass(frozen=True)
class ExpandMaps(FunctionPass):
    """Writes `tt.map_elementwise` without branches as operations on blocks."""

    name = "expand-maps"

    def run(self, function: FuncOp) -> None:
        expand_map_elementwise(function)

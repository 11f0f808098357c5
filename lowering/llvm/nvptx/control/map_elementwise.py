"""Lowers tt.map_elementwise: each thread runs the region for its own elements, one after the other."""

from __future__ import annotations

from math import prod

from xdsl.ir import Operation

from ....linear_layouts.distributed import default_blocked
from ....linear_layouts.f2 import Span
from ....linear_layouts.layout import LANE, REGISTER, WARP, LinearLayout
from ...syntax import attributes, element_name, shape_of
from ...values import V
from ..context import Handler, KernelContext
from ..nodes import Distributed
from .regions import each_thread_alone, region_values


def _map(k: KernelContext, op: Operation) -> None:
    region = op.regions[0]
    pack = int(attributes(op)["pack"])
    layout = _layout(k, op, pack)
    columns = [k.registers(operand, layout) for operand in op.operands]
    found: list[list[V | None]] = [[None] * layout.size(REGISTER) for _ in op.results]
    with each_thread_alone(k, op):
        for registers in _packs(layout, pack):
            values = region_values(k, region, [column[register] for column in columns for register in registers])
            for number, value in enumerate(values):
                found[number // pack][registers[number % pack]] = value
    for result, row in zip(op.results, found, strict=True):
        values = [value for value in row if value is not None]
        k.define(result, Distributed(shape_of(result.type), element_name(result.type), layout, tuple(values)))


def _layout(k: KernelContext, op: Operation, pack: int) -> LinearLayout:
    """Returns the layout that the elements have already, if a thread has whole packs there; else one with runs of a pack."""
    own = k.ev.choose_layout([k.node(operand) for operand in op.operands]) or k.accesses.preferred(op.operands[0])
    own = own.unique_registers()
    in_registers = all(1 << bit in Span(own[REGISTER]) for bit in range(pack.bit_length() - 1))
    if in_registers and not any(each % pack for each in own.columns((LANE, WARP))):
        return own
    shape = shape_of(op.operands[0].type)
    count = prod(shape)
    # As if each pack were one element; the elements of a pack are the lowest bits of the register.
    packs = default_blocked((count // pack,), k.warps, 128).unique_registers()
    bases = {name: [each * pack for each in column] for name, column in packs.bases}
    bases[REGISTER] = [*(1 << bit for bit in range(pack.bit_length() - 1)), *bases.get(REGISTER, ())]
    return LinearLayout.of(bases, (count,)).reshape(shape)


def _packs(layout: LinearLayout, pack: int) -> list[list[int]]:
    """Returns the registers of each pack, in row-major order, which the registers' part of the position tells."""
    indices = {layout.apply_flat(register=register): register for register in range(layout.size(REGISTER))}
    starts = sorted(index for index in indices if index % pack == 0)
    return [[indices[start | each] for each in range(pack)] for start in starts]


MAPS: dict[str, Handler] = {"tt.map_elementwise": _map}

"""Plans software pipelining: which loads of a loop are copied to shared memory iterations before products read them.

Loads that the pass `mark-pipelined-loads` marked are copied straight to shared memory, without passing through registers,
several iterations ahead of the products, if a copy instruction fits their layouts. The values that their addresses and masks
depend on are computed for the later iteration besides those of the iteration itself; the loop carries them twice.
`pipelined_loops` emits the code.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from math import prod
from typing import Any

from xdsl.dialects.scf import ForOp
from xdsl.ir import Operation

from .....promotion.dataclass import dataclass
from ....linear_layouts.layout import LinearLayout
from ....linear_layouts.matching import offsets, vector_elements
from ....tt.analysis.control_flow import terminator
from ....tt.transforms.loops.mark_pipelined_loads import address_slice, uses_in_products
from ...syntax import attributes, element_name, shape_of
from ..context import KernelContext
from ..matmul.fma_dot import StagedLines
from ..matmul.mma_dot import StagedBlock, staged
from ..memory.bounds import Bound, bound_of
from ..memory.global_memory import AccessInfo, coalesced, widest
from ..memory.shared_memory import ALIGNMENT
from ..memory.tma import MappedBlock, mapped_block
from ..nodes import Shape
from ..targets import WARP_SIZE
from ..threads import bits_of
from .loop_carried import Layouts

MAX_STAGES = 8
"""The most stages that a loop may ask for (`tt.num_stages`)."""
USUAL_STAGES, MAX_USUAL_STAGES = 3, 4
"""The stages of loops that ask for none: more than three only if as many blocks still share a multiprocessor."""
LONG_ITERATION = 1 << 17
"""The multiply-adds per iteration that keep a multiprocessor busy for about a thousand clocks, longer than a load takes.

Two stages are enough then, and more blocks fit.
"""
CHUNKS = (4, 8, 16)
"""The possible sizes of one copy, in bytes."""


@dataclass(frozen=True, slots=True)
class PipelinedLoad:
    """A load that is copied to shared memory ahead of its use.

    operand: the block as a product reads it.  shared: its layout in shared memory as it is loaded, possibly transposed.
    source: the layout in which threads copy it, or the box that TMA copies.  offset: bytes from the start of a stage.
    chunk: bytes of one copy of a thread.  bound: where the mask ends inside a chunk.
    """

    op: Any  # tt.load, or tt.descriptor_load where the source is a MappedBlock
    operand: StagedBlock
    shared: LinearLayout
    source: LinearLayout | MappedBlock
    offset: int
    chunk: int = 0
    bound: Bound | None = None


@dataclass(frozen=True, slots=True)
class Pipeline:
    """The plan of a software-pipelined loop.

    addresses: the operations of the body that addresses and masks of the loads depend on, in order.
    carried: the loop's carried values among their origins, by number.  stages: of stage_bytes each.
    sums: products that are not waited for in their own iteration, by the number of the carried value that they add to.
    """

    loads: tuple[PipelinedLoad, ...]
    addresses: tuple[Operation, ...]
    carried: tuple[int, ...]
    stages: int
    stage_bytes: int
    sums: dict[int, Operation]

    @property
    def prefetch_distance(self) -> int:
        """The number of iterations between a copy and the products that read it."""
        return self.stages - 1

    @property
    def mapped(self) -> list[tuple[PipelinedLoad, MappedBlock]]:
        """The loads that TMA copies."""
        return [(each, each.source) for each in self.loads if isinstance(each.source, MappedBlock)]

    @property
    def copied(self) -> list[tuple[PipelinedLoad, LinearLayout]]:
        """The loads that threads copy, each with the layout of its elements over the threads."""
        return [(each, each.source) for each in self.loads if not isinstance(each.source, MappedBlock)]


def plan_load(k: KernelContext, op: Any, offset: int) -> PipelinedLoad | None:
    """Plans how a load is copied, once the values of an iteration are known; None if no copy instruction fits."""
    shape, bits = shape_of(op.results[0].type), bits_of(element_name(op.results[0].type))
    if op.name == "tt.descriptor_load":
        block = mapped_block(op.desc.type)
        found = staged(k, op, 1)
        if block is None or found is None or found[0].shared.transpose(_order(found[1])) != block.layout:
            return None
        return PipelinedLoad(op, found[0], block.layout, block, offset)
    layout = k.access_layout(op)
    wide, axis = k.accesses.info(op).width(shape, bits, layout)
    bound, most = _bound(k, op, shape, bits)
    if most > wide:
        layout, wide = coalesced(shape, k.accesses.info(op).order(), most, k.warps), most
    else:
        bound = None
    found = staged(k, op, axis)
    if wide * bits // 8 not in CHUNKS or found is None:
        return None
    operand, turned = found
    shared = operand.shared.transpose(_order(turned))
    if vector_elements(offsets(layout, shared), bits) < wide:
        return None
    return PipelinedLoad(op, operand, shared, layout, offset, wide * bits // 8, bound)


def _bound(k: KernelContext, op: Any, shape: Shape, bits: int) -> tuple[Bound | None, int]:
    """Returns the bound that ends inside an access as wide as the pointers allow, and that width in elements.

    (None, 0) if pointers or mask are no expressions, or the mask is no such bound.
    """
    info = AccessInfo(k.accesses.info(op).pointers)
    wide = widest(info, shape, bits, k.warps * WARP_SIZE)
    if op.mask is None or k.ev.choose_layout([k.node(op.ptr), k.node(op.mask)]) is not None:
        return None, 0
    found = bound_of(k, op.mask, info.order()[0], wide) if wide > 1 else None
    return found, 0 if found is None else wide


def _order(transposed: bool) -> tuple[int, int]:
    return (1, 0) if transposed else (0, 1)


def make_pipeline(k: KernelContext, op: ForOp, loads: Sequence[PipelinedLoad], layouts: Layouts) -> Pipeline | None:
    """Plans the pipeline, or returns None for fewer than two stages.

    It has as many stages as the loop asks for, or seem best, and fit in shared memory.
    """
    size = max((s.offset + -(-s.operand.bytes // ALIGNMENT) * ALIGNMENT for s in loads), default=0)
    if not size:
        return None
    asked = attributes(op).get("tt.num_stages")
    wanted = asked if isinstance(asked, int) and asked > 0 else _usual_stages(k, size, loads)
    stages = min(k.max_stages, wanted, (k.room + k.reserved) // size)
    if stages < 2:
        return None
    k.stages = max(k.stages, stages)
    addresses, carried = address_slice(op, [load.op for load in loads])
    sums = _running_sums(k, op, loads, layouts)
    return Pipeline(tuple(loads), tuple(addresses), tuple(carried), stages, size, sums)


def _usual_stages(k: KernelContext, size: int, loads: Sequence[PipelinedLoad]) -> int:
    """Chooses the number of stages for a loop that asks for none.

    A persistent kernel has a multiprocessor to itself; otherwise other resident blocks hide latency too.
    """
    if all(isinstance(each.operand, StagedLines) for each in loads):
        dots = {op for each in loads for op, _, _ in uses_in_products(each.op)}
        if sum(prod(shape_of(op.results[0].type)) * shape_of(op.operands[0].type)[-1] for op in dots) >= LONG_ITERATION:
            return 2
    blocks = 1 if k.is_persistent else max(1, k.target.blocks(USUAL_STAGES * size))
    fitting = [stages for stages in range(USUAL_STAGES, MAX_USUAL_STAGES + 1) if k.target.blocks(stages * size) >= blocks]
    return max(fitting, default=USUAL_STAGES)


def _running_sums(k: KernelContext, op: ForOp, loads: Sequence[PipelinedLoad], layouts: Layouts) -> dict[int, Operation]:
    """Returns the products that read prefetched blocks, if each adds to a carried value that nothing else reads."""
    body, found = op.body.blocks[0], dict[int, Operation]()
    for dot, read in Counter(op for load in loads for op, _, _ in uses_in_products(load.op)).items():
        product, total, result = k.product(dot), dot.operands[2], dot.results[0]
        if product is None or total not in body.args or read != 2:
            return {}
        number = body.args.index(total) - 1
        uses = [*total.uses, *result.uses]
        if len(uses) != 2 or terminator(body).operands[number] is not result or element_name(result.type) not in ("f32", "i32"):
            return {}
        if layouts[number] != product.accumulator:
            return {}
        found[number] = dot
    return found

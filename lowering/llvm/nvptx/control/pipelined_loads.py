"""Loops whose products read blocks that were loaded turns before: what of a loop can be loaded ahead.

Loads that the pass `load-ahead` marked (`tt.load_ahead`) are copied to where products read shared memory without passing
through registers, several turns ahead of the products, if copies fit how they lie. What the addresses and masks depend on is
computed for the turn to come beside what the turn itself computes; the loop carries it twice. `stages` has the code.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from math import prod
from typing import TYPE_CHECKING, Any

from ....linear_layouts.layout import LinearLayout
from ....linear_layouts.matching import offsets, vector_elements
from ....tt.transforms.pipelining import address_slice, uses_in_products
from ...syntax import attributes, element_name, shape_of
from ..matmul.fma_dot import StagedLines
from ..matmul.mma_dot import StagedBlock, staged
from ..memory.bounds import Bound, bound_of
from ..memory.global_memory import Facts, coalesced, widest
from ..memory.shared_memory import ALIGNMENT
from ..memory.tma import MappedBlock, mapped_block
from ..nodes import Shape
from ..targets import WARP_SIZE
from ..threads import bits_of
from .loop_carried import Layouts

if TYPE_CHECKING:
    from ..kernel import KernelLowering

MOST_STAGES = 8
"""Of a loop that asks for them."""
USUAL_STAGES, USUALLY_AT_MOST = 3, 4
"""Of others: more than three only where no fewer blocks share a multiprocessor for that."""
LONG_TURN = 1 << 17
"""Multiply-adds of threads that take a multiprocessor a thousand clocks, more than loads do: two stages are enough then, and
more blocks have room."""
CHUNKS = (4, 8, 16)
"""Bytes of one copy."""


@dataclass(frozen=True, slots=True)
class Stream:
    """One load: how its block lies in shared memory, as an operand and as it is loaded, which may be its transpose; in which
    layout it is copied there, or what TMA copies; where in a stage; bytes of a thread's copies, and what ends inside them."""

    op: Any
    operand: StagedBlock
    shared: LinearLayout
    source: LinearLayout | MappedBlock
    offset: int
    chunk: int = 0
    bound: Bound | None = None


@dataclass(frozen=True, slots=True)
class Pipeline:
    """streams: the loads.  addresses: the operations of the body that their addresses and masks come from, in order.
    carried: the loop's carried values among these, by number.  stages of stage_bytes each.
    sums: products that are not waited for in their own turn, by the number of the carried value that they add to."""

    streams: tuple[Stream, ...]
    addresses: tuple[Any, ...]
    carried: tuple[int, ...]
    stages: int
    stage_bytes: int
    sums: dict[int, Any]

    @property
    def ahead(self) -> int:
        return self.stages - 1

    @property
    def mapped(self) -> list[tuple[Stream, MappedBlock]]:
        """What TMA copies."""
        return [(each, each.source) for each in self.streams if isinstance(each.source, MappedBlock)]

    @property
    def copied(self) -> list[tuple[Stream, LinearLayout]]:
        """What threads copy, each from where its elements are in this layout."""
        return [(each, each.source) for each in self.streams if not isinstance(each.source, MappedBlock)]


def plan_stream(k: KernelLowering, op: Any, offset: int) -> Stream | None:
    """How a load is copied, once values of a turn are known; None where copies do not fit."""
    shape, bits = shape_of(op.results[0].type), bits_of(element_name(op.results[0].type))
    if op.name == "tt.descriptor_load":
        block = mapped_block(op.desc.type)
        found = staged(k, op, 1)
        if block is None or found is None or found[0].shared.transpose(_order(found[1])) != block.layout:
            return None
        return Stream(op, found[0], block.layout, block, offset)
    layout = k.access_layout(op)
    wide, axis = k.facts(op).width(shape, bits, layout)
    bound, most = _bound(k, op, shape, bits)
    if most > wide:
        layout, wide = coalesced(shape, k.facts(op).order(), most, k.warps), most
    else:
        bound = None
    found = staged(k, op, axis)
    if wide * bits // 8 not in CHUNKS or found is None:
        return None
    operand, turned = found
    shared = operand.shared.transpose(_order(turned))
    if vector_elements(offsets(layout, shared), bits) < wide:
        return None
    return Stream(op, operand, shared, layout, offset, wide * bits // 8, bound)


def _bound(k: KernelLowering, op: Any, shape: Shape, bits: int) -> tuple[Bound | None, int]:
    """Where the mask ends inside an access that is as wide as the pointers allow, and elements of that; 0 where they are no
    expressions, or the mask is another one."""
    facts = Facts(k.facts(op).pointers)
    wide = widest(facts, shape, bits, k.warps * WARP_SIZE)
    if op.mask is None or k.ev.choose_layout([k.node(op.ptr), k.node(op.mask)]) is not None:
        return None, 0
    found = bound_of(k, op.mask, facts.order()[0], wide) if wide > 1 else None
    return found, 0 if found is None else wide


def _order(transposed: bool) -> tuple[int, int]:
    return (1, 0) if transposed else (0, 1)


def make_pipeline(k: KernelLowering, op: Any, streams: Sequence[Stream], layouts: Layouts) -> Pipeline | None:
    """In stages, as many as the loop asks for, or seem best, and shared memory has room for; None for one only."""
    size = max((s.offset + -(-s.operand.bytes // ALIGNMENT) * ALIGNMENT for s in streams), default=0)
    if not size:
        return None
    asked = attributes(op).get("tt.num_stages")
    wanted = asked if isinstance(asked, int) and asked > 0 else _usual_stages(k, size, streams)
    stages = min(k.most_stages, wanted, (k.room + k.reserved) // size)
    if stages < 2:
        return None
    k.stages = max(k.stages, stages)
    addresses, carried = address_slice(op, [stream.op for stream in streams])
    sums = _running_sums(k, op, streams, layouts)
    return Pipeline(tuple(streams), tuple(addresses), tuple(carried), stages, size, sums)


def _usual_stages(k: KernelLowering, size: int, streams: Sequence[Stream]) -> int:
    """A persistent kernel has a multiprocessor to itself; of others, blocks side by side wait for memory in turns too."""
    if all(isinstance(each.operand, StagedLines) for each in streams):
        dots = {op for each in streams for op, _, _ in uses_in_products(each.op)}
        if sum(prod(shape_of(op.results[0].type)) * shape_of(op.operands[0].type)[-1] for op in dots) >= LONG_TURN:
            return 2
    blocks = 1 if k.is_persistent else max(1, k.target.blocks(USUAL_STAGES * size))
    fitting = [stages for stages in range(USUAL_STAGES, USUALLY_AT_MOST + 1) if k.target.blocks(stages * size) >= blocks]
    return max(fitting, default=USUAL_STAGES)


def _running_sums(k: KernelLowering, op: Any, streams: Sequence[Stream], layouts: Layouts) -> dict[int, Any]:
    """The products that read what was loaded ahead, if each adds to a value that the loop carries and nothing else reads."""
    body, found = op.body.blocks[0], dict[int, Any]()
    for dot, read in Counter(op for stream in streams for op, _, _ in uses_in_products(stream.op)).items():
        product, total, result = k.product(dot), dot.operands[2], dot.results[0]
        if product is None or total not in body.args or read != 2:
            return {}
        number = body.args.index(total) - 1
        uses = [*total.uses, *result.uses]
        if len(uses) != 2 or body.last_op.operands[number] is not result or element_name(result.type) not in ("f32", "i32"):
            return {}
        if layouts[number] != product.accumulator:
            return {}
        found[number] = dot
    return found

"""Loops whose products read blocks that were loaded turns before: software pipelining with cp.async.

Loads that feed nothing but a product by ldmatrix are copied from global to shared memory without passing through registers,
several turns ahead of the product. What the addresses and masks depend on is computed for the turn to come beside what the
turn itself computes; the loop carries it twice. A turn waits for its own copies, meets the other threads at one barrier, and
starts the copies of a later turn into the stage that the last turn has read.

Source: NVIDIA, "PTX ISA", "cp.async", "cp.async.commit_group", "cp.async.wait_group".
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ...linear_layouts.layout import LANE, REGISTER, WARP, LinearLayout
from ...linear_layouts.linear import Elected
from ...linear_layouts.matching import offsets, vector_accesses, vector_elements
from ...tt.provenance import ATOMICS, WRITES
from ..ir import V
from ..syntax import attributes, element_name, is_tensor, shape_of
from .matrix_loads import StagedOperand, staged_operand
from .shared import ALIGNMENT
from .threads import bits_of, i32

if TYPE_CHECKING:
    from .kernel import KernelLowering

MOST_STAGES = 3
CHUNK = 16
"""Bytes of one copy."""
_PURE = ("arith.", "tt.splat", "tt.addptr", "tt.expand_dims", "tt.broadcast", "tt.make_range", "tt.reshape", "tt.trans")


@dataclass(frozen=True, slots=True)
class Stream:
    """One load: how its block lies in shared memory, where in a stage, and in which layout it is copied there."""

    op: Any
    operand: StagedOperand
    layout: LinearLayout
    offset: int


@dataclass(frozen=True, slots=True)
class Pipeline:
    """streams: the loads.  addresses: the operations of the body that their addresses and masks come from, in order.
    carried: the loop's carried values among these, by number.  stages of stage_bytes each."""

    streams: tuple[Stream, ...]
    addresses: tuple[Any, ...]
    carried: tuple[int, ...]
    stages: int
    stage_bytes: int

    @property
    def ahead(self) -> int:
        return self.stages - 1


def candidates(op: Any) -> tuple[list[Any], list[Any], list[int]]:
    """(loads, operations of their addresses, carried values): what an scf.for could load ahead, by its text alone."""
    body = op.body.blocks[0]
    operations = list(body.ops)
    if any(inner.name in WRITES or inner.name in ATOMICS for inner in op.walk()):
        return [], [], []
    loads = [inner for inner in operations if inner.name == "tt.load" and _feeds_a_product(inner, body)]
    found: list[Any] = []
    chosen, carried = [], set()
    for load in loads:
        slice_ = _addresses(load, body)
        if slice_ is not None:
            chosen.append(load)
            found += slice_[0]
            carried |= slice_[1]
    order = {inner: number for number, inner in enumerate(operations)}
    return chosen, sorted(set(found), key=order.__getitem__), sorted(carried)


def _feeds_a_product(load: Any, body: Any) -> bool:
    uses = list(load.results[0].uses)
    if len(uses) != 1 or not is_tensor(load.results[0].type) or len(shape_of(load.results[0].type)) != 2:
        return False
    user = uses[0].operation
    facts = attributes(load)
    plain = not facts.get("isVolatile") and (load.other is None or _is_zero(load.other))
    return user.name == "tt.dot" and user.parent is body and uses[0].index < 2 and plain


def _is_zero(value: Any) -> bool:
    attr = value.owner.properties.get("value") if getattr(value.owner, "name", "") == "arith.constant" else None
    return attr is not None and attr.is_splat() and not attr.get_values()[0]


def _addresses(load: Any, body: Any) -> tuple[list[Any], set[int]] | None:
    """The operations and carried values that the address and mask of a load come from; None if they take more than arithmetic."""
    arguments = {argument: number for number, argument in enumerate(body.args)}
    waiting = [load.ptr, *([load.mask] if load.mask is not None else [])]
    found: list[Any] = []
    carried: set[int] = set()
    while waiting:
        value = waiting.pop()
        if value in arguments:
            number = arguments[value] - 1  # the first is the index
            if number >= 0 and number not in carried:
                carried.add(number)
                waiting.append(body.last_op.operands[number])
            continue
        op = value.owner
        if getattr(op, "parent", None) is not body or op in found:
            continue
        if not op.name.startswith(_PURE) or op.regions:
            return None
        found.append(op)
        waiting += op.operands
    return found, carried


def plan_stream(k: KernelLowering, op: Any, layout: LinearLayout, offset: int) -> Stream | None:
    """How a load is copied, once it is known in which layout its addresses are; None where wide copies do not fit."""
    elem = element_name(op.results[0].type)
    shape, bits = shape_of(op.results[0].type), bits_of(elem)
    if bits != 16:
        return None
    wide, axis = k.facts(op).width(shape, bits, layout)
    if wide * bits != 8 * CHUNK:
        return None
    operand = staged_operand(k, op, elem, layout)
    if operand is None or operand.axis != axis:
        return None
    if vector_elements(offsets(layout, operand.shared), bits) * bits < 8 * CHUNK:
        return None
    return Stream(op, operand, layout, offset)


def make_pipeline(k: KernelLowering, op: Any, streams: Sequence[Stream], addresses: Any, carried: Any) -> Pipeline | None:
    """With as many stages as shared memory has room for; None when there is room for one only."""
    size = max((s.offset + -(-s.operand.bytes // ALIGNMENT) * ALIGNMENT for s in streams), default=0)
    stages = min(MOST_STAGES, k.shared.room(k.target.shared_bytes) // size) if size else 0
    return Pipeline(tuple(streams), tuple(addresses), tuple(carried), stages, size) if stages > 1 else None


def start_copies(k: KernelLowering, pipeline: Pipeline, stage: V, goes_on: V) -> None:
    """Copy the blocks of the turn whose values are bound now into a stage (its byte offset); nothing when it is one too many."""
    for stream in pipeline.streams:
        _start(k, stream, stage, goes_on)
    k.t.call("cp.async.commit.group", [], "void")


def _start(k: KernelLowering, stream: Stream, stage: V, goes_on: V) -> None:
    t, f, op, layout = k.t, k.f, stream.op, stream.layout
    bits = bits_of(element_name(op.results[0].type))
    where, free = offsets(layout, stream.operand.shared), layout.free_masks()
    thread = t.linear([each * bits // 8 for each in where[LANE]], [each * bits // 8 for each in where[WARP]])
    moving = 0
    for each in (*where[LANE], *where[WARP]):
        moving |= each * bits // 8
    addresses = k.held(op.ptr, layout)
    mask = None if op.mask is None else k.held(op.mask, layout)
    elected = t.elected(Elected(free[LANE], free[WARP]))
    base = k.shared.at(k.shared.kept, f.add(stage, i32(stream.offset)))
    whole = i32(CHUNK)

    def copy() -> None:
        for access in vector_accesses(where, bits, 8 * CHUNK // bits):
            first = access.registers[0]
            if first & free[REGISTER]:
                continue
            target = k.shared.at(base, t.with_constant(thread, access.offset, moving))
            guard = goes_on if mask is None else f.binary("and", goes_on, mask[first])
            source = k.memory.pointer(addresses[first])
            t.call("cp.async.cg.shared.global.16.s", [target, source, f.select(guard, whole, i32(0))], "void")

    if elected is None:
        copy()
    else:
        with f.when(elected):
            copy()


def wait_for_copies(k: KernelLowering, newer: int) -> None:
    """Until all copies but those of the `newer` last turns have arrived."""
    k.t.call("cp.async.wait.group", [i32(newer)], "void")


def next_stage(k: KernelLowering, pipeline: Pipeline, stage: V) -> V:
    """The byte offset of the stage after this one, the first after the last."""
    following = k.f.add(stage, i32(pipeline.stage_bytes))
    last = k.f.icmp("eq", following, i32(pipeline.stages * pipeline.stage_bytes))
    return k.f.select(last, i32(0), following)

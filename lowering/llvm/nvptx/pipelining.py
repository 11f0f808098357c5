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
from ..ir import V, const
from ..syntax import attributes, element_name, is_tensor, shape_of
from .carried import Layouts, bind, flat
from .dots import operand_layout
from .matrix_loads import StagedOperand, staged_operand
from .nodes import Staged
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


def candidates(op: Any) -> list[Any]:
    """The loads that an scf.for could do ahead, by its text alone."""
    body = op.body.blocks[0]
    if any(inner.name in WRITES or inner.name in ATOMICS for inner in op.walk()):
        return []
    loads = [inner for inner in body.ops if inner.name == "tt.load" and _feeds_a_product(inner, body)]
    return [load for load in loads if _addresses(load, body) is not None]


def address_slice(op: Any, loads: Sequence[Any]) -> tuple[list[Any], list[int]]:
    """(operations, carried values by number) of the body that addresses and masks of these loads come from, in order."""
    body = op.body.blocks[0]
    found: set[Any] = set()
    carried: set[int] = set()
    for load in loads:
        slice_ = _addresses(load, body)
        assert slice_ is not None  # it is a candidate
        found.update(slice_[0])
        carried |= slice_[1]
    return [inner for inner in body.ops if inner in found], sorted(carried)


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
    """The operations and carried values that address and mask come from; None if they take more than arithmetic."""
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
    fragment = operand_layout(k, op)
    operand = None if fragment is None else staged_operand(elem, layout, fragment)
    if operand is None or operand.axis != axis:
        return None
    if vector_elements(offsets(layout, operand.shared), bits) * bits < 8 * CHUNK:
        return None
    return Stream(op, operand, layout, offset)


def make_pipeline(k: KernelLowering, op: Any, streams: Sequence[Stream]) -> Pipeline | None:
    """With as many stages as shared memory has room for; None when there is room for one only."""
    size = max((s.offset + -(-s.operand.bytes // ALIGNMENT) * ALIGNMENT for s in streams), default=0)
    stages = min(k.most_stages, k.shared.room(k.target.shared_bytes) // size) if size else 0
    if stages < 2:
        return None
    addresses, carried = address_slice(op, [stream.op for stream in streams])
    return Pipeline(tuple(streams), tuple(addresses), tuple(carried), stages, size)


def _start(k: KernelLowering, stream: Stream, stage: V, goes_on: V) -> None:
    """Copy the block of the turn whose values are bound now into a stage; nothing when it is one too many."""
    t, f, op, layout = k.t, k.f, stream.op, stream.layout
    bits = bits_of(element_name(op.results[0].type))
    where, free = offsets(layout, stream.operand.shared), layout.free_masks()
    thread = t.linear([each * bits // 8 for each in where[LANE]], [each * bits // 8 for each in where[WARP]])
    moving = 0
    for each in (*where[LANE], *where[WARP]):
        moving |= each * bits // 8
    accesses = [each for each in vector_accesses(where, bits, 8 * CHUNK // bits) if not each.registers[0] & free[REGISTER]]
    firsts = [access.registers[0] for access in accesses]
    addresses = k.some(op.ptr, layout, firsts)
    mask = None if op.mask is None else k.some(op.mask, layout, firsts)
    elected = t.elected(Elected(free[LANE], free[WARP]))
    base = k.shared.at(stage, i32(stream.offset))
    whole = f.select(goes_on, i32(CHUNK), i32(0))

    def copy() -> None:
        for access in accesses:
            first = access.registers[0]
            target = k.shared.place(base, thread, access.offset, moving)
            size = whole if mask is None else f.select(mask[first], whole, i32(0))
            source = k.memory.pointer(addresses[first])
            t.call("cp.async.cg.shared.global.16.s", [target, source, size], "void")

    if elected is None:
        copy()
    else:
        with f.when(elected):
            copy()


class Ahead:
    """A pipelined loop while it is emitted. What it carries besides the loop's own values: the values of the turn to be loaded,
    and the byte offsets of the stages to be read and to be written."""

    def __init__(self, k: KernelLowering, op: Any, pipeline: Pipeline, layouts: Layouts, unsigned: bool) -> None:
        self.k, self.op, self.pipeline = k, op, pipeline
        index, *arguments = op.body.blocks[0].args
        self.index = index
        self.arguments = [arguments[number] for number in pipeline.carried]
        self.layouts = [layouts[number] for number in pipeline.carried]
        self.all_layouts = layouts
        self.less = "ult" if unsigned else "slt"
        self._kept = k.shared.kept(pipeline.stages * pipeline.stage_bytes)
        self._buffer: V | None = None
        k.is_pipelined = True

    def __enter__(self) -> Ahead:
        self._buffer = self._kept.__enter__()
        return self

    def __exit__(self, *failure: Any) -> None:
        self._kept.__exit__(*failure)

    def begin(self, low: V, high: V, step: V, start: Sequence[V]) -> list[V]:
        """Load the first turns. The first values of what is carried besides."""
        k, size = self.k, self.pipeline.stage_bytes
        values = self._of(start)
        index = low
        k.shared.barrier()  # what lay in the stages has been read
        for turn in range(self.pipeline.ahead):
            values = self._load(values, index, high, i32(turn * size))
            index = k.f.add(index, step)
        return [*values, i32(0), i32(self.pipeline.ahead * size)]

    def turn(self, counter: V, high: V, step: V, own: Sequence[V]) -> list[V]:
        """Wait for the turn's blocks, and load later ones. What is carried on besides."""
        k, f = self.k, self.k.f
        *values, read, write = own
        k.t.call("cp.async.wait.group", [i32(self.pipeline.ahead - 1)], "void")
        k.shared.barrier()
        distance = f.mul(step, const(self.pipeline.ahead, step.type))
        following = self._load(values, f.add(counter, distance), high, write)
        assert self._buffer is not None
        for stream in self.pipeline.streams:
            place = k.shared.at(k.shared.at(self._buffer, read), i32(stream.offset))
            operand = stream.operand
            k.staged[stream.op] = Staged(operand.shape, operand.elem, operand, place)
        return [*following, self._next(read), self._next(write)]

    def end(self) -> None:
        """Nothing is on its way any more."""
        self.k.t.call("cp.async.wait.group", [i32(0)], "void")
        for stream in self.pipeline.streams:
            self.k.staged.pop(stream.op, None)

    def _of(self, start: Sequence[V]) -> list[V]:
        """Of all values that the loop carries those that addresses come from."""
        rest = list(start)
        found: list[V] = []
        for number, layout in enumerate(self.all_layouts):
            count = 1 if layout is None else layout.size(REGISTER)
            if number in self.pipeline.carried:
                found += rest[:count]
            rest = rest[count:]
        return found

    def _load(self, values: Sequence[V], index: V, high: V, stage: V) -> list[V]:
        """Start the copies of one turn; the values of the turn after it."""
        k = self.k
        nodes, scalars = dict(k.nodes), dict(k.scalars)
        with k.ev.scope(dominates=True):
            k.scalars[self.index] = index
            bind(k, self.arguments, self.layouts, values)
            for each in self.pipeline.addresses:
                k.operation(each)
            goes_on = k.f.icmp(self.less, index, high)
            assert self._buffer is not None
            place = k.shared.at(self._buffer, stage)
            for stream in self.pipeline.streams:
                _start(k, stream, place, goes_on)
            k.t.call("cp.async.commit.group", [], "void")
            yielded = self.op.body.blocks[0].last_op.operands
            following = flat(k, [yielded[number] for number in self.pipeline.carried], self.layouts)
        k.nodes, k.scalars = nodes, scalars
        return following

    def _next(self, stage: V) -> V:
        """The byte offset of the stage after this one, the first after the last."""
        f, size = self.k.f, self.pipeline.stage_bytes
        following = f.add(stage, i32(size))
        return f.select(f.icmp("eq", following, i32(self.pipeline.stages * size)), i32(0), following)

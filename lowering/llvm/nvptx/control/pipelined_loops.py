"""Emits software-pipelined loops through stages of shared memory, with cp.async and TMA.

An iteration waits for its own blocks (cp.async: its own copies, then the other threads at a barrier; TMA: the mbarrier of the
stage) and starts the copies of a later iteration into the stage that the previous one has read, once all threads have.

Where the products of a loop are wgmma's and an iteration only adds to the result of the previous one, it does not wait for its
own products: they are in flight while the copies of a later iteration start, into the stage that the products of the previous
iteration have read. For cp.async that takes a second barrier; the matrix units always have work.

Source: NVIDIA, "PTX ISA", "cp.async", "cp.async.wait_group", "mbarrier.try_wait", "wgmma.wait_group".
"""

from __future__ import annotations

from collections.abc import Sequence
from types import TracebackType

from xdsl.dialects.scf import ForOp

from ....linear_layouts.layout import LANE, REGISTER, WARP, LinearLayout
from ....linear_layouts.linear import ThreadPredicate
from ....linear_layouts.matching import offsets, vector_accesses
from ....tt.analysis.control_flow import terminator
from ...elementwise import register_element
from ...op_lines import at_line
from ...syntax import element_name, shape_of
from ...values import V, const, i32, i64
from ..context import KernelContext
from ..matmul.wgmma import Matrix, address, pointer, wait_for
from ..memory.mbarriers import BARRIER_BYTES, expect, make_barriers, remove_barriers, wait_for_phase
from ..memory.tma import start_copies
from ..nodes import Staged
from ..threads import bits_of
from .counting import Counting
from .loop_carried import Layouts, bind, flat
from .pipelined_loads import Pipeline, PipelinedLoad


def _start(k: KernelContext, load: PipelinedLoad, layout: LinearLayout, stage: V, goes_on: V) -> None:
    """Copies the block of the iteration whose values are bound now into a stage; nothing past the last iteration."""
    t, f, op = k.t, k.f, load.op
    bits = bits_of(element_name(op.results[0].type))
    where, free = offsets(layout, load.shared), layout.free_masks()
    thread = t.linear([each * bits // 8 for each in where[LANE]], [each * bits // 8 for each in where[WARP]])
    moving = 0
    for each in (*where[LANE], *where[WARP]):
        moving |= each * bits // 8
    accesses = vector_accesses(where, bits, 8 * load.chunk // bits)
    accesses = tuple([each for each in accesses if not each.registers[0] & free[REGISTER]])
    firsts = [access.registers[0] for access in accesses]
    addresses = k.elements(op.ptr, layout, firsts)
    size_of = _sizes(k, load, layout, firsts, goes_on)
    predicate = t.predicate(ThreadPredicate(free[LANE], free[WARP]))
    base = k.shared.at(stage, i32(load.offset))
    cached = "cg" if load.chunk == 16 else "ca"

    def copy() -> None:
        for access in accesses:
            first = access.registers[0]
            target = k.shared.address(base, thread, access.offset, moving)
            source = k.memory.pointer(addresses[first])
            t.call(f"cp.async.{cached}.shared.global.{load.chunk}.s", [target, source, size_of[first]], "void")

    if predicate is None:
        copy()
    else:
        with f.when(predicate):
            copy()


def _sizes(
    k: KernelContext, load: PipelinedLoad, layout: LinearLayout, registers: Sequence[int], goes_on: V
) -> dict[int, V]:
    """Emits the bytes that each copy reads, by the first register of its elements."""
    f, mask, nothing = k.f, load.op.mask, i32(0)
    if load.bound is not None:
        step = i32(load.chunk // load.bound.count)
        found = load.bound.elements(k, layout, registers)
        return {r: f.select(f.binary("and", goes_on, some), f.mul(count, step), nothing) for r, (some, count) in found.items()}
    whole = f.select(goes_on, i32(load.chunk), nothing)
    if mask is None:
        return dict.fromkeys(registers, whole)
    return {register: f.select(is_read, whole, nothing) for register, is_read in k.elements(mask, layout, registers).items()}


class PipelinedLoop:
    """A software-pipelined loop while it is emitted.

    Besides the loop's own values it carries the values of the iteration to be prefetched and the byte offsets of the
    stages to be read and written; with TMA also those of their mbarriers, and the parity of the phase to wait for.
    """

    def __init__(self, k: KernelContext, op: ForOp, pipeline: Pipeline, layouts: Layouts) -> None:
        self.k, self.op, self.pipeline = k, op, pipeline
        index, *arguments = op.body.blocks[0].args
        self.index = index
        self.arguments = [arguments[number] for number in pipeline.carried]
        self.layouts = [layouts[number] for number in pipeline.carried]
        self.all_layouts = layouts
        self._count: Counting | None = None
        self._bytes = pipeline.stages * pipeline.stage_bytes
        own_barriers = pipeline.stages if self.has_barriers else 0
        self._kept = k.shared.kept(self._bytes + BARRIER_BYTES * own_barriers)
        self._buffer: V = k.shared.buffer()
        self._fenced = any(isinstance(load.operand, Matrix) for load, _ in pipeline.copied)

    @property
    def has_barriers(self) -> bool:
        """Whether this loop has mbarriers of its own."""
        return bool(self.pipeline.mapped)

    def __enter__(self) -> PipelinedLoop:
        self._buffer = self._kept.__enter__()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._kept.__exit__(kind, error, trace)

    def _barrier(self, offset: V) -> V:
        """Emits the address of the mbarrier at a byte offset among them."""
        return self.k.shared.at(self.k.shared.at(self._buffer, i32(self._bytes)), offset)

    @property
    def _barriers(self) -> list[V]:
        return [self._barrier(i32(BARRIER_BYTES * stage)) for stage in range(self.pipeline.stages)]

    @property
    def lookahead(self) -> int:
        """The number of steps ahead that the loop tests whether there is an iteration."""
        return self.pipeline.prefetch_distance

    @property
    def count(self) -> Counting:
        assert self._count is not None
        return self._count

    def begin(self, count: Counting, start: Sequence[V]) -> list[V]:
        """Emits the prologue, which starts the copies of the first iterations.

        Returns the initial values of what the loop carries besides its own values.
        """
        k, pipeline = self.k, self.pipeline
        values = self._of(start)
        self._count, index = count, count.low
        k.shared.barrier()  # the previous contents of the stages have been read
        if pipeline.mapped:
            make_barriers(k.shared, self._barriers)
        for iteration in range(pipeline.prefetch_distance):
            goes_on = count.goes_on(k.f, index)
            stage, barrier = i32(iteration * pipeline.stage_bytes), self._barrier(i32(iteration * BARRIER_BYTES))
            values = self._load(values, index, goes_on, stage, barrier)
            index = k.f.add(index, count.step)
        ring = [i32(0), i32(pipeline.prefetch_distance * pipeline.stage_bytes)]
        if pipeline.mapped:
            ring += [i32(0), i32(pipeline.prefetch_distance * BARRIER_BYTES), i32(0)]
        return [*values, *ring]

    def _ring(self, own: Sequence[V]) -> tuple[list[V], list[V]]:
        """Splits what is carried into (values of the iteration to be prefetched, the stages and what goes with them)."""
        size = 5 if self.pipeline.mapped else 2
        return list(own[:-size]), list(own[-size:])

    def iteration(self, counter: V, own: Sequence[V]) -> list[V]:
        """Waits for the iteration's blocks, and prefetches later ones unless `finish` does.

        Returns the next values of what is carried besides.
        """
        k, pipeline = self.k, self.pipeline
        _, (read, _, *barriers) = self._ring(own)
        if pipeline.copied:
            k.t.call("cp.async.wait.group", [i32(pipeline.prefetch_distance - 1)], "void")
        if self._fenced:
            k.t.call("fence.proxy.async.shared_cta", [], "void")
        if pipeline.mapped:
            wait_for_phase(k.shared, self._barrier(barriers[0]), barriers[2])
        if pipeline.copied or not pipeline.sums:
            k.shared.barrier()
        following = [] if pipeline.sums else self._later(counter, own)
        self._offer(k.f.add(address(k.t, self._buffer), k.f.binary("lshr", read, i32(4))))
        return following

    def _offer(self, start: V) -> None:
        """Makes the blocks of the stage at an `address` the results of the loads."""
        k, pipeline = self.k, self.pipeline
        for load in pipeline.loads:
            operand = load.operand
            slot = k.f.add(start, i32(load.offset >> 4))
            if not isinstance(operand, Matrix):
                slot = pointer(k.t, slot)
            k.staged[load.op] = Staged(shape_of(load.op.results[0].type), operand.elem, operand, slot)
        k.in_flight.update(pipeline.sums.values())

    def finish(self, counter: V, own: Sequence[V]) -> list[V]:
        """Ends an iteration with products in flight: waits for those of the previous one, then prefetches later blocks."""
        if not self.pipeline.sums:
            return []
        self._wait_for_previous_iteration()
        self.k.shared.barrier()
        return self._later(counter, own)

    def _wait_for_previous_iteration(self) -> None:
        """Waits until only the products of this iteration are in flight."""
        self.k.t.call("wgmma.wait_group.sync.aligned", [i64(len(self.pipeline.sums))], "void")

    def _later(self, counter: V, own: Sequence[V]) -> list[V]:
        """Starts the copies of a later iteration; returns the next values of what is carried besides."""
        f, size = self.k.f, self.pipeline.stage_bytes
        values, ring = self._ring(own)
        read, write, *barriers = ring
        distance = f.mul(self.count.step, const(self.pipeline.prefetch_distance, self.count.step.type))
        index = f.add(counter, distance)
        barrier = self._barrier(barriers[1] if barriers else i32(0))
        following = self._load(values, index, self.count.goes_on(f, index), write, barrier)
        found = [self._next(read, size), self._next(write, size)]
        if barriers:
            found += [self._next(each, BARRIER_BYTES) for each in barriers[:2]]
            first = f.icmp("eq", found[2], i32(0))  # the first stage again
            found.append(f.binary("xor", barriers[2], f.cast("zext", first, "i32")))
        return [*following, *found]

    def end(self, registers: Sequence[V]) -> list[V]:
        """Emits the epilogue, after which nothing is in flight; returns the registers of the values that the loop carries."""
        k, pipeline = self.k, self.pipeline
        if pipeline.copied:
            k.t.call("cp.async.wait.group", [i32(0)], "void")
        for load in pipeline.loads:
            k.staged.pop(load.op, None)
        k.in_flight.difference_update(pipeline.sums.values())
        found, rest = [], list(registers)
        for number, layout in enumerate(self.all_layouts):
            count = 1 if layout is None else layout.size(REGISTER)
            found += wait_for(k.t, rest[:count]) if number in pipeline.sums else rest[:count]
            rest = rest[count:]
        if self.has_barriers:
            remove_barriers(k.shared, self._barriers)
        return found

    def _of(self, start: Sequence[V]) -> list[V]:
        """Returns those registers of the values that the loop carries which addresses depend on."""
        rest = list(start)
        found: list[V] = []
        for number, layout in enumerate(self.all_layouts):
            count = 1 if layout is None else layout.size(REGISTER)
            if number in self.pipeline.carried:
                found += rest[:count]
            rest = rest[count:]
        return found

    def _load(self, values: Sequence[V], counter: V, goes_on: V | None, stage: V, barrier: V) -> list[V]:
        """Starts the copies of one iteration; returns the values of the next one.

        goes_on: whether there is such an iteration; None: there is, and a single thread runs this code.
        """
        k = self.k
        nodes, scalars = dict(k.nodes), dict(k.scalars)
        with k.ev.scope(dominates=True):
            k.scalars[self.index] = k.f.cast("trunc", counter, register_element(element_name(self.index.type)))
            bind(k, self.arguments, self.layouts, values)
            for each in self.pipeline.addresses:
                k.operation(each)
            pointer = k.shared.at(self._buffer, stage)
            for load, layout in self.pipeline.copied:
                assert goes_on is not None  # all threads copy
                with at_line(k.f, load.op):
                    _start(k, load, layout, pointer, goes_on)
            if self.pipeline.copied:
                k.t.call("cp.async.commit.group", [], "void")
            if self.pipeline.mapped:
                with k.t.where(None if goes_on is None else k.f.binary("and", k.t.is_first(), goes_on)):
                    self._start_mapped(pointer, barrier)
            yielded = terminator(self.op.body.blocks[0]).operands
            following = flat(k, [yielded[number] for number in self.pipeline.carried], self.layouts)
        k.nodes, k.scalars = nodes, scalars
        return following

    def _start_mapped(self, stage: V, barrier: V) -> None:
        expect(self.k.shared, barrier, sum(block.bytes for _, block in self.pipeline.mapped))
        for load, block in self.pipeline.mapped:
            with at_line(self.k.f, load.op):
                start_copies(self.k, load.op, block, self.k.shared.at(stage, i32(load.offset)), barrier)

    def _next(self, pointer: V, size: int) -> V:
        """Emits the offset of the next stage, cyclically."""
        f = self.k.f
        following = f.add(pointer, i32(size))
        return f.select(f.icmp("eq", following, i32(self.pipeline.stages * size)), i32(0), following)

"""Warp specialization: loops whose blocks one more warp copies by TMA, while the others multiply.

The warp leaves the others at the start of the kernel. It recomputes the scalars that the loop's bounds and coordinates come
from, runs through the loop, waits for each stage to be free, and starts its copies. A stage has two mbarriers: the bytes that
arrive end a phase of the one, the arrivals of the warps that have read it end a phase of the other; no barrier of the block is
left in the loop. Where code before the loop has used the stages' memory, the warps first signal that they are done with it.

The loop may be inside another one, as in persistent kernels: stages and phases continue from iteration to iteration of the
outer loop, so that the blocks of the next tile arrive while the last one is stored. The stages have memory of their own then.

One warp is enough. Where a multiprocessor has room for one block only, and the others profit, it comes as a group of four,
as registers can be reassigned only by whole warpgroups (setmaxnreg): three of them exit at once.

Source: NVIDIA, "PTX ISA", "mbarrier", "cp.async.bulk.tensor", "setmaxnreg".
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from types import TracebackType

from xdsl.dialects.scf import ForOp
from xdsl.ir import Operation, SSAValue

from .....promotion.dataclass import dataclass
from ....tt.analysis.control_flow import terminator
from ...elementwise import register_element
from ...syntax import element_name, is_tensor
from ...values import V, i32
from ..context import KernelContext
from ..matmul.wgmma import Matrix, address
from ..memory.mbarriers import BARRIER_BYTES, wait_for_phase
from ..memory.shared_memory import ALIGNMENT
from ..threads import ALL_LANES
from .counting import Counting, counting
from .loop_carried import Layouts
from .pipelined_loads import Pipeline
from .pipelined_loops import PipelinedLoop
from .producer import Producer, Stages, inner_loop


@dataclass(frozen=True, slots=True)
class Slice:
    """The operations that the producer computes.

    before: at the start.  outer: the outer loop; None: there is none.  inside: in each iteration of the outer loop.
    carried: the values among them that the outer loop carries, by number.
    """

    before: tuple[Operation, ...]
    outer: ForOp | None
    inside: tuple[Operation, ...]
    carried: tuple[int, ...]


def _slice(k: KernelContext, loop: ForOp, roots: Sequence[SSAValue]) -> Slice | None:
    """Returns the operations outside a loop that these values come from; None if they are not only arithmetic."""
    entry = k.function.body.blocks[0]
    outer = None if loop.parent is entry else loop.parent_op()
    if outer is not None and not (isinstance(outer, ForOp) and outer.parent is entry and inner_loop(outer) is loop):
        return None
    body = None if outer is None else outer.body.blocks[0]
    found: set[Operation] = set()
    carried: set[int] = set()
    waiting = [*roots, *(() if outer is None else (outer.lb, outer.ub, outer.step))]
    while waiting:
        value = waiting.pop()
        op = value.owner
        if is_tensor(value.type):
            return None
        if op is entry or op in found:
            continue
        if outer is not None and op is body:
            number = value.index - 1
            if number >= 0 and number not in carried:
                carried.add(number)
                waiting += [outer.iter_args[number], terminator(body).operands[number]]
            continue
        pure = op.name.startswith("arith.") or op.name in ("tt.get_program_id", "tt.get_num_programs")
        if op.parent not in (entry, body) or op.regions or not pure:
            return None
        found.add(op)
        waiting += op.operands
    inside = () if body is None else tuple(op for op in body.ops if op in found)
    return Slice(tuple(op for op in entry.ops if op in found), outer, inside, tuple(sorted(carried)))


class OuterConsumerLoop:
    """A loop around a `ConsumerLoop`: it carries the number of the next stage."""

    def __init__(self, producer: Producer) -> None:
        self._producer = producer

    def __enter__(self) -> OuterConsumerLoop:
        return self

    def __exit__(self, *failure: object) -> None:
        pass

    @property
    def lookahead(self) -> int:
        return 1

    def begin(self, count: Counting, start: Sequence[V]) -> list[V]:
        return self._producer.ring

    def iteration(self, counter: V, own: Sequence[V]) -> list[V]:
        self._producer.ring = list(own)
        return []

    def finish(self, counter: V, own: Sequence[V]) -> list[V]:
        return self._producer.ring

    def end(self, registers: Sequence[V]) -> list[V]:
        return list(registers)


def outer_consumer_loop(k: KernelContext, loop: ForOp) -> OuterConsumerLoop | None:
    """Returns the form of a loop around one whose blocks the producer may copy; None for any other loop."""
    producer = k.producer
    if producer is None or producer.is_busy or loop.parent is not k.function.body.blocks[0]:
        return None
    return OuterConsumerLoop(producer) if inner_loop(loop) is not None else None


class ConsumerLoop(PipelinedLoop):
    """A loop whose blocks the producer warp copies.

    It carries the `address` of the stage to be read (a number that the assembler keeps in a uniform register), its mbarriers'
    offset, the parity of the phase to wait for, and the offset of the mbarriers of the stage before.
    """

    def __init__(
        self, k: KernelContext, producer: Producer, op: ForOp, pipeline: Pipeline, layouts: Layouts, slice_: Slice
    ) -> None:
        self._producer, self._slice = producer, slice_
        self._has_room = slice_.outer is not None and k.reserved > 0
        if self._has_room:
            pipeline = replace(pipeline, stages=k.reserved // pipeline.stage_bytes)
        elif slice_.outer is not None:
            producer.wanted = Stages(pipeline.stages, pipeline.stage_bytes)
        super().__init__(k, op, pipeline, layouts)
        self._own: Sequence[V] = ()
        self._is_taken = k.shared.is_used and not self._has_room

    @property
    def has_barriers(self) -> bool:
        return False

    @property
    def is_nested(self) -> bool:
        return self._slice.outer is not None

    def __enter__(self) -> PipelinedLoop:
        if not self._has_room:
            return super().__enter__()
        self._buffer = self.k.shared.at(self.k.shared.buffer(), i32(ALIGNMENT))  # after the mbarriers
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if not self._has_room:
            super().__exit__(kind, error, trace)

    @property
    def lookahead(self) -> int:
        return 1  # the producer counts on its own

    def begin(self, count: Counting, start: Sequence[V]) -> list[V]:
        k, pipeline = self.k, self.pipeline
        self._count = count
        self._producer.make_barriers(pipeline.stages)
        with self._producer.code() as end:
            for each in self._slice.before:
                k.operation(each)
            ring = [i32(0)] * 3
            outer = self._slice.outer
            if outer is None:
                self._producer_loop(ring)
            else:
                self._producer_outer_loop(outer, ring)
            k.f.branch(end)
        if self._is_taken:
            k.shared.finish_copies(reading=True)
            k.t.call("fence.proxy.async.shared_cta", [], "void")
            self._meet()
            with k.f.when(k.f.icmp("eq", k.t.lane, i32(0))):
                for stage in range(pipeline.stages):
                    self._release(i32(stage * BARRIER_BYTES))
        if self._slice.outer is None:
            return [address(k.t, self._buffer), *[i32(0)] * 3]
        return self._producer.ring

    def _producer_outer_loop(self, outer: ForOp, ring: list[V]) -> None:
        """Emits the producer warp's copy of the outer loop."""
        k, numbers = self.k, self._slice.carried
        index, *arguments = outer.body.blocks[0].args
        first = [*(k.scalar(outer.iter_args[number]) for number in numbers), *ring]
        with self._loop(outer, first) as (counter, own, following):
            k.scalars[index] = k.f.cast("trunc", counter, register_element(element_name(index.type)))
            for number, value in zip(numbers, own, strict=False):
                k.scalars[arguments[number]] = value
            for each in self._slice.inside:
                k.operation(each)
            yielded = terminator(outer.body.blocks[0]).operands
            following += [*(k.scalar(yielded[number]) for number in numbers), *self._producer_loop(own[-3:])]

    def _producer_loop(self, ring: list[V]) -> list[V]:
        """Emits the producer warp's copy of the loop; returns the stage, its mbarriers' offset and the parity after it."""
        k, f, pipeline = self.k, self.k.f, self.pipeline
        first = [*(k.scalar(self.op.iter_args[number]) for number in pipeline.carried), *ring]
        with self._loop(self.op, first) as (counter, own, following):
            *values, write, pointer, parity = own
            released = parity if self._is_taken else f.binary("xor", parity, i32(1))  # or free from the start
            wait_for_phase(k.shared, self._producer.free(pointer), released)
            following += self._load(values, counter, None, write, self._producer.full(pointer))
            following += [self._next(write, pipeline.stage_bytes), *self._next_phase(pointer, parity)]
        return own[-3:]

    @contextmanager
    def _loop(self, op: ForOp, first: Sequence[V]) -> Iterator[tuple[V, list[V], list[V]]]:
        """Opens a loop of the producer: yields its index, its carried values, and a list for their next values."""
        k, f = self.k, self.k.f
        count = counting(k, op)
        head, body, done = f.label("head"), f.label("body"), f.label("done")
        before = f.block
        f.branch(head)
        f.start(head)
        counter, own = V(f.fresh("i"), count.low.type), [V(f.fresh("c"), value.type) for value in first]
        slot = len(f.lines)
        f.lines.append("")
        f.cond_branch(count.goes_on(f, counter), body, done)
        f.start(body)
        following: list[V] = []
        with k.ev.scope():
            yield counter, own, following
            following = [f.add(counter, count.step), *following]
        latch = f.block
        f.emit(f"br label %{head}, !llvm.loop !{f.module.metadata.no_unrolling()}")
        f.lines[slot] = "\n".join(
            f"  {value.operand()} = phi {value.type} [ {start.operand()}, %{before} ], [ {new.operand()}, %{latch} ]"
            for value, start, new in zip([counter, *own], [count.low, *first], following, strict=True)
        )
        f.start(done)

    def _next_phase(self, pointer: V, parity: V) -> list[V]:
        """Emits offset and parity of the mbarriers of the next stage; the first stage is then in its next phase."""
        f, following = self.k.f, self._next(pointer, BARRIER_BYTES)
        again = f.cast("zext", f.icmp("eq", following, i32(0)), "i32")
        return [following, f.binary("xor", parity, again)]

    def iteration(self, counter: V, own: Sequence[V]) -> list[V]:
        read, pointer, parity, _ = self._own = own
        wait_for_phase(self.k.shared, self._producer.full(pointer), parity)
        self._offer(read)
        return []

    def finish(self, counter: V, own: Sequence[V]) -> list[V]:
        """Releases a stage: the previous iteration's when its products are done, or this one's."""
        k, f = self.k, self.k.f
        _, pointer, _, last = own
        if not all(isinstance(load.operand, Matrix) for load in self.pipeline.loads):
            self._meet()  # lanes have read the stage; wgmma's reads have been waited for by the whole warp
        done = f.icmp("eq", k.t.lane, i32(0))
        if self.pipeline.sums:
            self._wait_for_previous_iteration()
            done = f.binary("and", done, f.icmp("ne", counter, self.count.low))
        with f.when(done):
            self._release(last if self.pipeline.sums else pointer)
        return self.advance(own)

    def wait_again(self, own: Sequence[V]) -> None:
        """Waits for this iteration's blocks, which are there: the assembler moves no arithmetic across the branch of that."""
        wait_for_phase(self.k.shared, self._producer.full(own[1]), own[2])

    def release_previous(self, own: Sequence[V]) -> None:
        """Signals that the warp's products have read the stage of the previous iteration."""
        k, f = self.k, self.k.f
        with f.when(f.icmp("eq", k.t.lane, i32(0))):
            self._release(own[3])

    def advance(self, own: Sequence[V]) -> list[V]:
        """Emits what the next iteration carries."""
        f = self.k.f
        read, pointer, parity, _ = own
        following, phase = self._next_phase(pointer, parity)
        size = self.pipeline.stage_bytes >> 4
        back = f.select(f.icmp("eq", following, i32(0)), i32(size - size * self.pipeline.stages), i32(size))
        return [f.add(read, back), following, phase, pointer]

    def end(self, registers: Sequence[V]) -> list[V]:
        found = super().end(registers)
        k, f = self.k, self.k.f
        if self._slice.outer is not None:
            if self.pipeline.sums:  # the last iteration's stage, if there was one
                any_iteration = self.count.goes_on(f, self.count.low)
                with f.when(f.binary("and", any_iteration, f.icmp("eq", k.t.lane, i32(0)))):
                    self._release(self._own[3])
            self._producer.ring = list(self._own)
        return found

    def _meet(self) -> None:
        """Makes what all lanes of the warp have done visible before the first lane arrives at an mbarrier.

        An arrival orders only the accesses of its own lane (PTX ISA, "mbarrier.arrive": .release orders the accesses of the
        executing thread).
        """
        self.k.t.call("bar.warp.sync", [ALL_LANES], "void")

    def _release(self, pointer: V) -> None:
        """Signals that the warp has read a stage, given by its mbarriers' offset."""
        self.k.t.call("mbarrier.arrive.shared", [self._producer.free(pointer)], "i64")


def pipelined_loop(k: KernelContext, op: ForOp, pipeline: Pipeline, layouts: Layouts) -> PipelinedLoop:
    """Chooses the form of a pipelined loop: a `ConsumerLoop` if there is an idle producer, else one that copies by itself."""
    producer = k.producer
    if producer is not None and not producer.is_busy and not pipeline.copied:
        copies = [load.op for load, _ in pipeline.mapped]
        values = [op.lb, op.ub, op.step, *(op.iter_args[number] for number in pipeline.carried)]
        for each in (*pipeline.addresses, *copies):
            values += each.operands
        inside = {value for inner in op.walk() if inner is not op for value in inner.results}
        roots = [value for value in values if value not in inside and value not in op.body.blocks[0].args]
        copied = {load.desc for load in copies}
        slice_ = _slice(k, op, [value for value in roots if value not in copied])
        if slice_ is not None:
            return ConsumerLoop(k, producer, op, pipeline, layouts, slice_)
    return PipelinedLoop(k, op, pipeline, layouts)

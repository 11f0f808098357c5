"""Loops whose blocks one more warp copies, by TMA, while the others multiply: warp specialisation.

The warp leaves the others at the start of the kernel. It computes anew the scalars that the loop's bounds and coordinates come
from, runs through the loop, waits for each stage to be free, and starts its copies. A stage has two mbarriers: the bytes that
arrive end a phase of the one, the arrivals of the warps that have read it end a phase of the other; no barrier of the block is
left in the loop. Where code before the loop has used the stages' memory, the warps say first that they are through with it.

One warp is enough, and no registers need be handed over (setmaxnreg): it gets as many as each of the others, which leaves 8 of
them 224.

Source: NVIDIA, "PTX ISA", "mbarrier", "cp.async.bulk.tensor".
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from ..ir import Function, V
from ..syntax import is_tensor
from .shared import ALIGNMENT
from .stages import Ahead
from .threads import i32
from .tma import BARRIER_BYTES, first_thread, wait_for_phase

if TYPE_CHECKING:
    from .carried import Layouts
    from .kernel import KernelLowering
    from .pipelining import Pipeline

WARPS = 1
"""More than those that compute."""


def may_have_a_producer(function: Any) -> bool:
    """Whether there is a loop that loads described blocks, which the program reaches exactly once."""
    blocks = function.body.blocks
    loops = [op for op in blocks[0].ops if op.name == "scf.for"] if len(blocks) == 1 else []
    return any(inner.name == "tt.descriptor_load" for loop in loops for inner in loop.body.blocks[0].ops)


def _scalars_before(k: KernelLowering, loop: Any, roots: Sequence[Any]) -> list[Any] | None:
    """The operations before a loop that these values come from, in order; None if they take more than arithmetic."""
    block = k.function.body.blocks[0]
    if loop.parent is not block:
        return None
    found: set[Any] = set()
    waiting = list(roots)
    while waiting:
        value = waiting.pop()
        op = value.owner
        if op is block or op in found:
            continue
        pure = op.name.startswith("arith.") or op.name in ("tt.get_program_id", "tt.get_num_programs")
        if op.parent is not block or op.regions or not pure or any(is_tensor(each.type) for each in op.results):
            return None
        found.add(op)
        waiting += op.operands
    return [op for op in block.ops if op in found]


@contextmanager
def _apart(f: Function) -> Iterator[list[str]]:
    """What is emitted inside goes to a list of its own."""
    kept, block, f.lines = f.lines, f.block, []
    yield f.lines
    f.lines, f.block = kept, block


class Producer:
    """The warp that copies: from the start of a kernel, until its loop is found."""

    def __init__(self, k: KernelLowering) -> None:
        self.k = k
        self.is_busy = False
        f = k.f
        self._label, consumers = f.label("producer"), f.label("consumers")
        self._first = first_thread(k)
        f.emit("")
        self._slot = len(f.lines) - 1
        k.t.call("barrier.cta.sync.aligned.all", [i32(0)], "void")
        f.cond_branch(f.icmp("uge", k.t.warp, i32(k.warps)), self._label, consumers)
        f.start(consumers)
        self._lines: list[str] = []

    def full(self, offset: V) -> V:
        """The mbarrier that counts a stage's bytes, at an offset among them."""
        return self.k.shared.at(self.k.shared.buffer, offset)

    def free(self, offset: V) -> V:
        """The mbarrier that counts the warps that have read a stage."""
        return self.k.shared.at(self.full(i32(ALIGNMENT // 2)), offset)

    def make_barriers(self, stages: int) -> None:
        """At the start of the kernel, for the loop that was found."""
        k = self.k
        with _apart(k.f) as lines, k.f.when(self._first):
            for stage in range(stages):
                place = i32(stage * BARRIER_BYTES)
                k.t.call("mbarrier.init.shared", [self.full(place), i32(1)], "void")
                k.t.call("mbarrier.init.shared", [self.free(place), i32(k.warps)], "void")
            k.t.call("fence.mbarrier_init.release.cluster", [], "void")
        k.f.lines[self._slot] = "\n".join(lines)

    @contextmanager
    def code(self) -> Iterator[str]:
        """What is emitted inside is done by one thread of the warp; the label ends it."""
        k, f = self.k, self.k.f
        self.is_busy = True
        with _apart(f) as self._lines, k.ev.scope():
            scalars, nodes = dict(k.scalars), dict(k.nodes)
            begin, end = f.label("copies"), f.label("end")
            f.start(self._label)
            f.cond_branch(f.icmp("eq", k.t.lane, i32(0)), begin, end)
            f.start(begin)
            yield end
            f.start(end)
            f.ret()
            k.scalars, k.nodes = scalars, nodes

    def finish(self) -> None:
        """Behind everything else."""
        self.k.f.lines += self._lines


class Consumed(Ahead):
    """A loop whose blocks the producer copies. It carries the stage to be read, its mbarriers' offset, the parity of the phase
    to wait for, and the offset of the mbarriers of the stage before."""

    def __init__(
        self, k: KernelLowering, op: Any, pipeline: Pipeline, layouts: Layouts, unsigned: bool, before: Sequence[Any]
    ) -> None:
        super().__init__(k, op, pipeline, layouts, unsigned)
        assert k.producer is not None
        self._producer = k.producer
        self._before = before
        self._low: V | None = None
        self._is_taken = k.shared.is_used

    @property
    def has_barriers(self) -> bool:
        return False

    def begin(self, low: V, high: V, step: V, start: Sequence[V]) -> list[V]:
        k, pipeline = self.k, self.pipeline
        self._low = low
        self._producer.make_barriers(pipeline.stages)
        with self._producer.code() as end:
            for each in self._before:
                k.operation(each)
            self._produce(end)
        if self._is_taken:
            k.t.call("fence.proxy.async.shared_cta", [], "void")
            with k.f.when(k.f.icmp("eq", k.t.lane, i32(0))):
                for stage in range(pipeline.stages):
                    self._release(i32(stage * BARRIER_BYTES))
        return [i32(0)] * 4

    def _produce(self, end: str) -> None:
        k, f, op, pipeline = self.k, self.k.f, self.op, self.pipeline
        low, high, step = (k.scalar(value) for value in (op.lb, op.ub, op.step))
        first = [low, *(k.scalar(op.iter_args[number]) for number in pipeline.carried), i32(0), i32(0), i32(0)]
        head, body = f.label("head"), f.label("body")
        before = f.block
        f.branch(head)
        f.start(head)
        carried = [V(f.fresh("c"), value.type) for value in first]
        index, *values, write, place, parity = carried
        slot = len(f.lines)
        f.lines.append("")
        f.cond_branch(f.icmp(self.less, index, high), body, end)
        f.start(body)
        released = parity if self._is_taken else f.binary("xor", parity, i32(1))  # or free from the start
        wait_for_phase(k, self._producer.free(place), released)
        following = self._load(values, index, None, write, self._producer.full(place))
        next_place = self._next(place, BARRIER_BYTES)
        again = f.cast("zext", f.icmp("eq", next_place, i32(0)), "i32")
        following = [
            f.add(index, step), *following, self._next(write, pipeline.stage_bytes), next_place, f.binary("xor", parity, again)
        ]  # fmt: skip
        latch = f.block
        f.emit(f"br label %{head}, !llvm.loop !{k.no_unrolling()}")
        f.lines[slot] = "\n".join(
            f"  {value.ref} = phi {value.type} [ {start.ref}, %{before} ], [ {new.ref}, %{latch} ]"
            for value, start, new in zip(carried, first, following, strict=True)
        )

    def turn(self, counter: V, high: V, step: V, own: Sequence[V]) -> list[V]:
        read, place, parity, _ = own
        wait_for_phase(self.k, self._producer.full(place), parity)
        self._offer(read)
        return []

    def finish(self, counter: V, high: V, step: V, own: Sequence[V]) -> list[V]:
        """Say which stage may be overwritten: the last turn's when its products are done, or this one's."""
        k, f = self.k, self.k.f
        read, place, parity, last = own
        done = f.icmp("eq", k.t.lane, i32(0))
        if self.pipeline.sums:
            self._wait_for_last_turn()
            assert self._low is not None
            done = f.binary("and", done, f.icmp("ne", counter, self._low))
        with f.when(done):
            self._release(last if self.pipeline.sums else place)
        following = self._next(place, BARRIER_BYTES)
        again = f.cast("zext", f.icmp("eq", following, i32(0)), "i32")
        return [self._next(read, self.pipeline.stage_bytes), following, f.binary("xor", parity, again), place]

    def _release(self, place: V) -> None:
        """The warp has read a stage, by its mbarriers' offset."""
        self.k.t.call("mbarrier.arrive.shared", [self._producer.free(place)], "i64")


def loop_ahead(k: KernelLowering, op: Any, pipeline: Pipeline, layouts: Layouts, unsigned: bool) -> Ahead:
    """A loop that loads ahead: with the producer's help where there is one that has nothing to do yet, else by itself."""
    if k.producer is not None and not k.producer.is_busy and not pipeline.copied:
        streams = [stream.op for stream, _ in pipeline.mapped]
        values = [op.lb, op.ub, op.step, *(op.iter_args[number] for number in pipeline.carried)]
        for each in (*pipeline.addresses, *streams):
            values += each.operands
        inside = {value for inner in op.walk() if inner is not op for value in inner.results}
        outside = [value for value in values if value not in inside and value not in op.body.blocks[0].args]
        before = _scalars_before(k, op, outside)
        if before is not None:
            return Consumed(k, op, pipeline, layouts, unsigned, before)
    return Ahead(k, op, pipeline, layouts, unsigned)

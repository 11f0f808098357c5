"""Emits loops with two products so that arithmetic between them runs while the matrix units work, as in attention.

The first product of an iteration depends on copied blocks; what is computed from it is the left operand of the second one,
which adds to a value that the loop carries. In order, the matrix units wait for the arithmetic and the arithmetic for them. In
the rotated loop the second product belongs to the next iteration: that starts its own first product and the second one of the
iteration before, waits for the first, and computes while the second goes on. The first iteration stands before the loop, the
last second product behind it. What is computed, and in which order sums are made, does not change.

Only loops whose blocks a producer warp copies are rotated: a stage is then released an iteration later.

Source: Shah et al., "FlashAttention-3: Fast and Accurate Attention with Asynchrony and Low-precision", 2024, section 3.2.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from xdsl.dialects.scf import ForOp
from xdsl.ir import Block, BlockArgument, Operation, SSAValue

from .....promotion.dataclass import dataclass
from ....linear_layouts.conversion import is_warp_local
from ....linear_layouts.layout import REGISTER
from ....tt.analysis.control_flow import terminator
from ....tt.dialect.shapes import TransOp
from ....tt.transforms.folding import is_pure
from ...elementwise import register_element
from ...syntax import element_name, shape_of
from ...values import V, i32
from ..context import KernelContext
from ..matmul.wgmma import Matrix, SharedMatrix, WarpgroupProduct, fragments, multiply, wait_for
from ..nodes import Distributed
from ..targets import REGISTERS, WARP_SIZE
from .counting import Counting, counting
from .loop_carried import Layouts, bind, flat, types
from .trials import trial
from .warp_specialization import ConsumerLoop

_OTHERS = 56
"""The registers of a thread besides those of the products: addresses, what rows carry, and arithmetic under way."""
_MAX = 255


@dataclass(frozen=True, slots=True)
class Rotation:
    """The parts of a loop's body.

    early: the first product.  before: the operations it depends on, in order.  late: the second product.  number: that of the
    carried value to which it adds.  right: the copied block that it reads, and its offset from the start of a stage.
    rest: the other operations, in order.
    """

    early: Operation
    before: tuple[Operation, ...]
    late: Operation
    number: int
    right: tuple[Matrix, int]
    rest: tuple[Operation, ...]


def rotated_loop(k: KernelContext, loop: ConsumerLoop, layouts: Layouts) -> RotatedLoop | None:
    """Returns the rotated form of a loop, if it has one and there are registers for it."""
    body, pipeline = loop.op.body.blocks[0], loop.pipeline
    dots = [op for op in loop.op.walk() if op.name == "tt.dot"]
    products = [product for op in dots if (product := k.product(op)) is not None and op.parent is body]
    if loop.is_nested or pipeline.sums or len(dots) != 2 or len(products) != 2:
        return None
    early, late = dots
    number = _sum_of(late, body)
    if number is None or layouts[number] != products[1].accumulator:
        return None
    before = _slice(loop, early, body, body.args[number + 1])
    right = _copied(loop, late.operands[1])
    if before is None or right is None or not all(isinstance(load.operand, Matrix) for load in pipeline.loads):
        return None
    rest = tuple([op for op in body.ops if op not in {*before, early, late, terminator(body)}])
    rotation = Rotation(early, before, late, number, right, rest)
    is_right = _computes_in_registers(k, loop.op, rotation, products[1], layouts)
    return RotatedLoop(k, loop, rotation, layouts) if is_right and _have_room(k, loop, products) else None


def _sum_of(late: Operation, body: Block) -> int | None:
    """Returns the number of the carried value that a product ends an iteration of; None for other products."""
    uses = list(late.results[0].uses)
    if len(uses) != 1 or uses[0].operation is not terminator(body) or element_name(late.results[0].type) != "f32":
        return None
    return uses[0].index


def _slice(loop: ConsumerLoop, early: Operation, body: Block, total: SSAValue) -> tuple[Operation, ...] | None:
    """Returns the operations of the body that the first product needs; None unless they can go before all others."""
    copied = {load.op for load in loop.pipeline.loads}
    found: set[Operation] = set()
    waiting = [*early.operands]
    while waiting:
        value = waiting.pop()
        if value is total:
            return None
        op = value.owner
        if isinstance(value, BlockArgument) or op.parent is not body or op in found:
            continue
        if op not in copied and (op.regions or not is_pure(type(op))):
            return None
        found.add(op)
        waiting += op.operands
    return tuple([op for op in body.ops if op in found]) if element_name(early.results[0].type) == "f32" else None


def _copied(loop: ConsumerLoop, value: SSAValue) -> tuple[Matrix, int] | None:
    """Returns the copied block, possibly turned, that a value is, and its offset from the start of a stage."""
    while isinstance(value.owner, TransOp):
        value = value.owner.operands[0]
    loads = [load for load in loop.pipeline.loads if load.op is value.owner]
    return next(((load.operand, load.offset) for load in loads if isinstance(load.operand, Matrix)), None)


def _computes_in_registers(
    k: KernelContext, op: ForOp, rotation: Rotation, product: WarpgroupProduct, layouts: Layouts
) -> bool:
    """Whether the left operand of the second product is computed from the first, in the registers that take it."""
    left = rotation.late.operands[0]
    if element_name(left.type) != product.elem or product.bits != 16:
        return False
    found, waiting = set[Operation](), [left]
    while waiting:
        owner = waiting.pop().owner
        if isinstance(owner, Operation) and owner not in found:
            found.add(owner)
            waiting += [value for inner in owner.walk() for value in inner.operands]
    if rotation.early not in found:
        return False
    body = op.body.blocks[0]
    index, *arguments = body.args
    with trial(k):
        k.scalars[index] = V(k.f.fresh("i"), register_element(element_name(index.type)))
        bind(k, arguments, layouts, [V(k.f.fresh("c"), type_) for type_ in types(arguments, layouts)])
        k.block_without_end(body)
        own = k.ev.choose_layout([k.node(left)])
        return own is not None and is_warp_local(own, product.a_registers)


def _have_room(k: KernelContext, loop: ConsumerLoop, products: Sequence[WarpgroupProduct]) -> bool:
    """Whether both results and the words of the left operand fit in registers, for as many blocks as fit in shared memory."""
    first, second = products
    packed = second.a_registers.size(REGISTER) * second.bits // 32
    wanted = first.accumulator.size(REGISTER) + second.accumulator.size(REGISTER) + packed + _OTHERS
    blocks = max(1, k.target.blocks(k.shared.with_kept(loop.pipeline.stages * loop.pipeline.stage_bytes)))
    return wanted <= min(_MAX, REGISTERS // (blocks * (k.warps + 1) * WARP_SIZE) // 8 * 8)


@dataclass(frozen=True, slots=True)
class _Left:
    """What an iteration leaves to the next one of its second product: the `address` of its stage, the packed registers of A."""

    stage: V
    packed: Sequence[V]


class RotatedLoop:
    """A rotated loop while it is emitted."""

    def __init__(self, k: KernelContext, loop: ConsumerLoop, rotation: Rotation, layouts: Layouts) -> None:
        self.k, self.loop, self.rotation, self.layouts = k, loop, rotation, layouts
        body = loop.op.body.blocks[0]
        self._index, *self._arguments = body.args
        self._yielded = list(terminator(body).operands)
        self._yielded[rotation.number] = rotation.late.operands[2]  # which the product, an iteration later, adds to
        product = k.product(rotation.late)
        assert product is not None  # see `rotated_loop`
        self._product = product
        self._total = self._arguments[rotation.number]
        self._at = sum(1 if own is None else own.size(REGISTER) for own in layouts[: rotation.number])
        self._tiles: dict[tuple[int, int], int] = {}  # of the left operand, and their words

    def lower(self, start: Sequence[V]) -> list[V]:
        """Emits the loop, with the registers of its initial values; returns those of its results."""
        k, f, op = self.k, self.k.f, self.loop.op
        count = counting(k, op)
        ring = self.loop.begin(count, start)
        first, done = f.label("first"), f.label("done")
        before = f.block
        f.cond_branch(count.goes_on(f, count.low), first, done)
        f.start(first, True)
        with k.ev.scope():
            results = self._iterations(count, start, ring)
            last = f.block
            f.branch(done)
        f.start(done, True)
        k.shared.several_ways(False)
        found, number = [], 0
        for result, layout in zip(op.results, self.layouts, strict=True):
            for _ in range(1 if layout is None else layout.size(REGISTER)):
                ways = [(start[number], before), (results[number], last)]
                found.append(f.phi(start[number].type, ways) if list(result.uses) else start[number])
                number += 1
        return found

    def _iterations(self, count: Counting, start: Sequence[V], ring: Sequence[V]) -> list[V]:
        """Emits all iterations, of which there is one at least; returns the registers of the results."""
        k, f = self.k, self.k.f
        firsts = [f.add(count.low, count.step), *self._iteration(count, count.low, start, ring, None)]
        with k.ev.loop() as open_loop:
            head, inside, done = f.label("head"), f.label("body"), f.label("done")
            k.shared.several_ways(False)
            f.branch(head)
            f.start(head, True)
            counter, *carried = [f.carried(value.type) for value in firsts]
            slot = len(f.lines)
            f.lines.append("")
            f.cond_branch(count.goes_on(f, counter), inside, done)
            f.start(inside, True)
            with k.ev.scope():
                registers, rest = carried[: len(start)], carried[len(start) :]
                ring, left = rest[: len(ring)], _Left(rest[len(ring)], rest[len(ring) + 1 :])
                following = self._iteration(count, counter, registers, ring, left)
                after = f.add(counter, count.step)
            latch = f.block
            f.emit(f"br label %{head}, !llvm.loop !{f.module.metadata.no_unrolling()}")
            f.join(slot, zip([counter, *carried], firsts, [after, *following], strict=True), open_loop.block, latch)
        f.start(done, True)
        sums = self._late(registers, left, wait=True)
        return self.loop.end([*registers[: self._at], *sums, *registers[self._at + len(sums) :]])

    def _iteration(
        self, count: Counting, counter: V, registers: Sequence[V], ring: Sequence[V], left: _Left | None
    ) -> list[V]:
        """Emits an iteration, and the second product of the one before if that has left one.

        Returns what the next iteration carries: registers of the loop's values, the ring, and what is left of this one.
        """
        k, rotation, late = self.k, self.rotation, self.rotation.late
        self.loop.iteration(counter, ring)
        k.scalars[self._index] = count.index(k.f, counter)
        bind(k, self._arguments, self.layouts, registers)
        for op in rotation.before:
            k.operation(op)
        sums = None if left is None else self._products(registers, left)
        if left is None:
            k.operation(rotation.early)
        for op in rotation.rest:
            if sums is not None and any(self._total in inner.operands for inner in op.walk()):
                self._wait(sums, ring)
                sums = None
            k.operation(op)
        if sums is not None:
            self._wait(sums, ring)
        following = [*flat(k, self._yielded, self.layouts), *self.loop.advance(ring), ring[0]]
        tiles = fragments(k.t, self._product, k.registers(late.operands[0], self._product.a_registers))
        self._tiles = {tile: len(packed) for tile, packed in tiles.items()}
        return [*following, *(register for packed in tiles.values() for register in packed)]

    def _products(self, registers: Sequence[V], left: _Left) -> list[V]:
        """Starts this iteration's first product and the second one of the last iteration, and waits for the first.

        Returns the registers of the second, which is in flight.
        """
        k, early = self.k, self.rotation.early
        k.in_flight.add(early)
        k.operation(early)
        k.in_flight.discard(early)
        sums = self._late(registers, left, wait=False)
        node = k.node(early.results[0])
        assert isinstance(node, Distributed)
        k.define(early.results[0], replace(node, registers=tuple(wait_for(k.t, node.registers, later=1))))
        return sums

    def _late(self, registers: Sequence[V], left: _Left, wait: bool) -> list[V]:
        """Emits the second product of the last iteration."""
        packed = iter(left.packed)
        tiles = {tile: [next(packed) for _ in range(count)] for tile, count in self._tiles.items()}
        right, offset = self.rotation.right
        matrix = SharedMatrix(right, self.k.f.add(left.stage, i32(offset >> 4)))
        start = registers[self._at : self._at + self._product.accumulator.size(REGISTER)]
        return multiply(self.k.t, self._product, [(tiles, matrix)], start, wait)

    def _wait(self, sums: Sequence[V], ring: Sequence[V]) -> None:
        """Waits for the second product of the last iteration, whose stage is free then."""
        k, total = self.k, self._total
        self.loop.wait_again(ring)
        found = tuple(wait_for(k.t, sums))
        k.define(total, Distributed(shape_of(total.type), "f32", self._product.accumulator, found))
        self.loop.release_previous(ring)

"""Makes one product of a loop over the outer taps of a convolution with few channels.

The operands of each iteration lie at a fixed distance from those of the one before. One by one, the products would load and
store all sums once per iteration: for the 21 steps of k of an image with three channels and 7 × 7 taps that takes as long as
the products themselves. Sums of bytes stay in registers over all iterations. Short rows of floats are copied, those of all
iterations side by side, and multiplied with the rows of the other operand, which follow each other in memory.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from xdsl.ir import Operation

from .....promotion.dataclass import dataclass
from ....target import CACHE_LINE
from ....tt.analysis.control_flow import terminator
from ....tt.facts import ORDERED
from ....tt.transforms.folding import constant_of, is_pure
from ...elementwise import memory_element
from ...ir import Function
from ...module import Module
from ...syntax import attributes, element_name, is_tensor
from ...values import V, const, i64, integer, is_constant, is_integer, vector, zero
from ..context import KernelContext
from ..loops.coordinates import Bound, memory_size_of
from ..nodes import Node, Stored
from ..scalars import ZERO
from .int8.unsigned_bytes import flipped_operand
from .operands import Operand, Wanted
from .product_loops import added_per_iteration, define_integer, varies

SIDE_BY_SIDE = 64
"""The most elements of a row of floats that is put together: with longer ones nothing is gained."""
SHORT_SIDE_BY_SIDE = 256
"""The most where those of an iteration fill a cache line at most: to begin so many products takes long."""


def lower_repeated_product(k: KernelContext, op: Any) -> bool:
    """Emits a loop of known length whose only effect is a product of int8, or of short rows of floats; returns False, with
    nothing emitted, for others."""
    low, high, step = (constant_of(operand) for operand in op.operands[:3])
    body = op.regions[0].blocks[0]
    dots = [inner for inner in body.ops if inner.name == "tt.dot"]
    if low is None or high is None or step is None or step < 1 or k.bounds is not None:
        return False
    if len(op.operands) != 4 or len(dots) != 1:  # one carried block
        return False
    dot, accumulator = dots[0], body.args[1]
    only = len(list(accumulator.uses)) == 1 and len(list(dot.results[0].uses)) == 1
    if not only or dot.operands[2] is not accumulator or terminator(body).operands[0] is not dot.results[0]:
        return False
    times = len(range(low, high, step))
    left, right = (_offsets(operand, body, range(low, high, step)) for operand in dot.operands[:2])
    elements = {element_name(operand.type) for operand in dot.operands[:2]} | {element_name(dot.results[0].type)}
    if times < 2 or left is None or right is None or elements not in ({"i8", "i32"}, {"f32"}, {"f64"}):
        return False
    if any(not _is_plain(inner) for inner in body.ops if inner not in (dot, body.last_op)):
        return False
    return _emit(k, op, low, (times, left, right))


def _is_plain(op: Operation) -> bool:
    return not op.regions and (is_pure(type(op)) or (op.name == "tt.load" and not attributes(op).get("isVolatile")))


def _offsets(operand: Any, body: Any, counter: range) -> int | tuple[int, ...] | None:
    """Returns the elements from an iteration's block to the next one's, if it is loaded, and with the same mask.

    Where these differ, and iterations are few, it returns the elements from the first block to each. Indices must be i64, which
    do not wrap.
    """
    operand, mask = flipped_operand(operand)
    load = getattr(operand, "op", None)
    if load is None or load.name != "tt.load" or (mask is not None and varies(mask, body)):
        return None
    pointers = getattr(load.operands[0], "op", None)
    if pointers is None or pointers.name != "tt.addptr" or not is_tensor(load.operands[0].type):
        return None
    base, offset = pointers.operands
    if element_name(offset.type) != "i64" or element_name(body.args[0].type) != "i64":
        return None
    if varies(base, body) or any(varies(other, body) for other in load.operands[1:]):
        return None
    even = added_per_iteration(offset, body, counter.step, {})
    if even is not None or not 2 <= len(counter) <= SHORT_SIDE_BY_SIDE:
        return even
    found: list[int] = []
    for at in counter:
        added = added_per_iteration(offset, body, at - counter.start, {}, counter.start)
        if added is None:
            return None
        found.append(added)
    is_even = all(each == number * found[1] for number, each in enumerate(found))
    return found[1] if is_even else tuple(found)


_Repetition = tuple[int, int | tuple[int, ...], int | tuple[int, ...]]
"""How many products there are, and the offsets of their left and right operands, as `_offsets` returns them."""


def _emit(k: KernelContext, op: Any, low: int, repetition: _Repetition) -> bool:
    body = op.regions[0].blocks[0]
    dot = next(inner for inner in body.ops if inner.name == "tt.dot")
    start, replaced, s = (len(k.f.lines), k.f.block), dict(k.ev.replacement), k.ev.s
    with k.f.scope(), k.ev.scope():  # what is taken back must not be found again
        define_integer(k, body.args[0], s.constant(low))
        for inner in body.ops:
            if inner is not dot and inner is not body.last_op:
                k.operation(inner)
        a, b = (k.node(operand) for operand in dot.operands[:2])
        c, wanted = k.node(op.operands[3]), k.limits(dot.results[0])
        if a.elem != "i8":
            result = _side_by_side(k, dot, (a, b, c), repetition, wanted)
        elif all(isinstance(number, int) for number in repetition):
            result = k.dots.repeated(a, b, c, tuple([s.constant(number) for number in repetition]), wanted)  # type: ignore[arg-type]
        else:
            result = None
    if result is None:
        k.ev.replacement = replaced
        del k.f.lines[start[0] :]
        k.f.block = start[1]
        return False
    k.define(op.results[0], result)
    return True


def _side_by_side(
    k: KernelContext, dot: Operation, operands: tuple[Node, Node, Node], repetition: _Repetition, wanted: Sequence[Bound],
) -> Stored | None:  # fmt: skip
    """Emits the sum of c and some products of floats, a[i] · b[i], as one product; None where rows cannot be copied, or are
    more to copy than sums would be to move.

    The sums are the same, chains along k, iteration after iteration, but where columns are few (`skinny.py`).
    """
    (a, b, c), (times, offsets, below) = operands, repetition
    facts, element = attributes(dot), memory_element(a.elem)
    if not isinstance(below, int):
        return None
    if ORDERED in facts or str(facts.get("inputPrecision", "ieee")) == "tf32" or len(a.shape) != 2 or min(c.shape) == 1:
        return None
    left, right = k.dots.operands.rows_in_place(a, element), k.dots.operands.rows_in_place(b, element)
    if left is None or right is None or right.gathered or left.limits(1) != right.limits(0):
        return None
    steps = _steps(k, left, a.shape[1])
    if steps is None or not is_integer(right.row, below // steps) or below % steps:
        return None
    if right.limits(1) or not left.limits(0) <= {bound.limit.operand() for bound in wanted if bound.dim == 0}:
        return None
    lanes = k.ev.target.vector_bytes // memory_size_of(element)
    if times * steps > (SIDE_BY_SIDE if steps * memory_size_of(element) > CACHE_LINE else SHORT_SIDE_BY_SIDE):
        return None
    moved, copied = -(-c.shape[1] // lanes), -(-steps // lanes)
    if (times - 1) * (4 * moved + 1) <= times * 4 * copied:  # to begin a product counts as a quarter of a vector
        return None
    depth, width = times * steps, -(-times * steps // lanes) * lanes
    memory = k.ev.scratch((a.shape[0], width), a.elem, width)
    rows, _ = k.ev.extent(a.shape[0], wanted, 0)
    if isinstance(offsets, int):
        offsets = tuple([number * offsets for number in range(times)])
    copy = Beside(element, lanes, steps, offsets, width, left.gathered)
    k.f.call(k.f.module.provide(copy), "void", [left.pointer, left.row, rows, memory.pointer])
    whole = Stored((a.shape[0], depth), a.elem, memory.pointer, (width, 1), element)
    under = Stored((depth, b.shape[1]), b.elem, right.pointer, (integer(right.row), 1), element)
    result = k.dots.dot(whole, under, c, "ieee", wanted=Wanted(wanted))
    k.ev.release(memory)
    return result


def _steps(k: KernelContext, left: Operand, depth: int) -> int | None:
    """Returns how many steps of k an iteration has, if that is known."""
    steps: V = k.ev.s.constant(depth)
    for bound in left.bounds:
        if bound.dim == 1:
            steps = k.ev.s.min(steps, bound.limit)
    return integer(steps) if is_constant(steps) and integer(steps) > 0 else None


@dataclass(frozen=True, slots=True)
class Beside:
    """The function that copies short rows of several blocks side by side.

    Implements `SharedFunction`. Row i of block t begins at `a + row[i] + offsets[t]`, or `a + i · row + offsets[t]` where rows
    are not `gathered`, and has `steps` elements; row i of the copy has those of all blocks, and `width` of room.
    What is written beyond that is overwritten by the next row, or lies in the vector of room after the last one.
    """

    element: str
    lanes: int
    steps: int
    offsets: tuple[int, ...]
    width: int
    gathered: bool

    @property
    def name(self) -> str:
        numbers = (self.steps, *self.offsets, self.width)
        return f"jn_beside_{self.element}_{self.lanes}_{'_'.join(map(str, numbers))}{'_gathered' * self.gathered}"

    @property
    def parameters(self) -> list[tuple[str, str]]:
        return [("ptr", "a"), ("ptr" if self.gathered else "i64", "row"), ("i64", "rows"), ("ptr", "copy")]

    def add(self, module: Module, linkage: str = "internal") -> None:
        """Add the function to a module."""
        f = Function(module, self.name, self.parameters, attributes="nounwind noinline", linkage=linkage)
        a, row, rows, copy = f.params
        type_, size = vector(self.element, self.lanes), memory_size_of(self.element)
        last = self.steps % self.lanes or self.lanes
        mask = f.icmp("slt", f.iota(self.lanes, "i32"), f.splat(const(last, "i32"), self.lanes))
        with f.loop(ZERO, rows, i64(1)) as each:
            begin = f.load("i64", f.gep(row, each.index, "i64"), 8) if self.gathered else f.mul(each.index, row)
            first = f.gep(a, begin, self.element)
            target = f.gep(copy, f.mul(each.index, i64(self.width)), self.element)
            for number, offset in enumerate(self.offsets):
                for at in range(0, self.steps, self.lanes):
                    source = f.gep(first, offset + at, self.element)
                    if at + self.lanes <= self.steps:
                        found = f.load(type_, source, size)
                    else:
                        found = f.masked_load(type_, source, mask, zero(type_), size)
                    f.store(found, f.gep(target, number * self.steps + at, self.element), size)
        f.ret()
        module.add(f)

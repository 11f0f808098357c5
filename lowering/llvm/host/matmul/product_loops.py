"""Merges iterations of a loop that only accumulates a matrix product into one deeper product.

A text has `acc = dot(load a, load b, acc)` with pointers that advance by one block per iteration. When every iteration reads
the block that follows the one before, eight blocks of 32 are one block of 256, and the accumulators go through memory an eighth
as often.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from xdsl.ir import Operation, SSAValue

from .....promotion.dataclass import dataclass
from ....tt.analysis.control_flow import terminator
from ....tt.facts import ORDERED
from ....tt.transforms.folding import constant_of, is_pure
from ...elementwise import NARROW, memory_size, register_element
from ...syntax import attributes, element_name, is_tensor, shape_of
from ...values import V
from ..context import KernelContext
from ..loops.coordinates import Bound, decompose_mask
from ..masks.zero_limits import is_zero
from ..memory.advance import Advance
from ..nodes import Affine, Load, Map, Node, Pointers, Splat, Stored, View
from ..scalars import ZERO, is_constant
from .operands import Wanted, within

DEPTH = 256
"""The fewest steps of k that a product should have."""
OPERANDS = 512 << 10
"""The most bytes of both operands together."""


@dataclass(frozen=True, slots=True)
class ProductLoop:
    """A loop whose only effect is a product.

    scalars: position of a carried integer → what an iteration adds to it.
    iterations: how many iterations become one product.
    guards: pairs of numbers that must be equal for the blocks of neighbouring iterations to be adjacent in memory.
    """

    op: Operation
    dot: Any
    accumulator: int
    scalars: Mapping[int, int]
    iterations: int
    guards: tuple[tuple[V, V], ...]


def product_loop(k: KernelContext, op: Any, inductions: Mapping[int, Advance]) -> ProductLoop | None:
    """Describes a loop as a product, if it is one and its blocks are shallow, else returns None."""
    body = op.regions[0].blocks[0]
    arguments, yielded = body.args[1:], terminator(body).operands
    products = [inner for inner in body.ops if inner.name == "tt.dot"]
    blocks = [i for i, argument in enumerate(arguments) if is_tensor(argument.type) and i not in inductions]
    if len(products) != 1 or len(blocks) != 1:
        return None
    (dot,), (accumulator,) = products, blocks
    if dot.operands[2] is not arguments[accumulator] or yielded[accumulator] is not dot.results[0]:
        return None
    if len(list(arguments[accumulator].uses)) != 1 or len(list(dot.results[0].uses)) != 1:
        return None
    if len(shape_of(dot.operands[0].type)) != 2:
        return None
    if element_name(dot.results[0].type) in NARROW:  # every iteration rounds its sum
        return None
    for inner in body.ops:
        plain = is_pure(type(inner)) or (inner.name == "tt.load" and not attributes(inner).get("isVolatile"))
        if inner is not dot and inner is not body.last_op and (inner.regions or not plain):
            return None
    scalars: dict[int, int] = {}
    for i, (argument, value) in enumerate(zip(arguments, yielded, strict=True)):
        if is_tensor(argument.type):
            continue
        moved = _iteration_adds(argument, value)
        if moved is None:
            return None
        scalars[i] = moved
    depth = shape_of(dot.operands[0].type)[1]
    size = sum(memory_size(_computed(o)) * _across(o) for o in dot.operands[:2])
    iterations = min(DEPTH // depth, OPERANDS // (size * depth))
    guards = _neighbours(k, dot, arguments, inductions)
    if iterations < 2 or guards is None:
        return None
    return ProductLoop(op, dot, accumulator, scalars, iterations, guards)


def _iteration_adds(argument: SSAValue, value: SSAValue) -> int | None:
    """Returns what an iteration adds to a carried integer, if that is a known number, else None."""
    if value is argument:
        return 0
    producer = getattr(value, "op", None)
    if producer is None or producer.name not in ("arith.addi", "arith.subi") or producer.operands[0] is not argument:
        return None
    known = constant_of(producer.operands[1])
    return None if known is None else known if producer.name == "arith.addi" else -known


def _computed(operand: SSAValue) -> str:
    """Returns the element type that an operand is multiplied in."""
    elem = element_name(operand.type)
    return "f64" if elem == "f64" else "f32"


def _across(operand: SSAValue) -> int:
    """Returns the elements of an operand per step of k."""
    rows, columns = shape_of(operand.type)
    return max(rows * columns // min(rows, columns), 1)


def _neighbours(
    k: KernelContext, dot: Operation, arguments: Any, inductions: Mapping[int, Advance]
) -> tuple[tuple[V, V], ...] | None:
    """Returns the pairs of numbers that must be equal for both operands to move by one block of k per iteration.

    None unless both are loads through carried pointers that move along k only.
    """
    guards = []
    for operand, along in ((dot.operands[0], 1), (dot.operands[1], 0)):
        load = getattr(operand, "op", None)
        if load is None or load.name != "tt.load":
            return None
        advance = next((a for i, a in inductions.items() if arguments[i] is load.ptr), None)
        if advance is None or any(c is not None for c in advance.step.coefficients):
            return None
        rest = advance.start.rest
        if rest is not None and along in k.ev.depends(rest):
            return None
        stride = advance.start.offset.coefficients[along] or ZERO
        block = k.ev.s.mul(stride, k.ev.s.constant(shape_of(operand.type)[along]))
        if is_constant(block) and is_constant(advance.step.base):
            if block != advance.step.base:
                return None
        elif block != advance.step.base:
            guards.append((block, advance.step.base))
    return tuple(guards)


def lower_product_loop(
    k: KernelContext, loop: ProductLoop, inductions: Mapping[int, Advance], iterations: V, low: V, step: V
) -> bool:
    """Emits the loop with several iterations at a time, on the accumulator's scratch.

    It takes them one by one where the program finds that neighbouring iterations do not read neighbouring blocks.
    Returns False, with nothing emitted, if its masks do not move along.
    """
    body = loop.op.regions[0].blocks[0]
    induction, *arguments = body.args
    start = len(k.f.lines), k.f.block
    s = k.ev.s
    depth = shape_of(loop.dot.operands[0].type)[1]
    memory = k.nodes[arguments[loop.accumulator]]
    assert isinstance(memory, Stored)
    replaced = dict(k.ev.replacement)
    done = True
    with k.f.scope():  # expressions that are taken back must not be found again
        together = s.constant(loop.iterations)
        for left, right in loop.guards:
            together = k.f.select(k.f.icmp("eq", left, right), together, s.constant(1))
        with k.f.loop(0, iterations, together) as state, k.ev.scope():
            k.leave_if_stopped()
            iteration = state.index
            define_integer(k, induction, s.add(low, s.mul(iteration, step)))
            for i, adds in loop.scalars.items():
                first = s.to_i64(k.scalar(loop.op.operands[3 + i]))
                define_integer(k, arguments[i], s.add(first, s.mul(s.constant(adds), iteration)))
            for i, advance in inductions.items():
                k.define(arguments[i], advance.after(k.ev.s, iteration))
            for inner in body.ops:
                if inner is not loop.dot and inner is not body.last_op:
                    k.operation(inner)
            moving = _moving_limits(k, loop)
            reached = s.mul(s.min(s.sub(iterations, iteration), together), s.constant(depth))
            operands = [
                _deeper(k.node(operand), along, depth, loop.iterations, reached, moving)
                for operand, along in ((loop.dot.operands[0], 1), (loop.dot.operands[1], 0))
            ]
            if operands[0] is None or operands[1] is None:
                done = False
            else:
                facts = attributes(loop.dot)
                precision, ordered = str(facts.get("inputPrecision", "ieee")), ORDERED in facts
                wanted = Wanted(k.limits(loop.dot.results[0]), k.limits(loop.dot.operands[1]))
                k.dots.dot(operands[0], operands[1], memory, precision, memory, wanted, ordered)
    k.ev.replacement = replaced
    if not done:
        del k.f.lines[start[0] :]
        k.f.block = start[1]
    return done


def define_integer(k: KernelContext, value: SSAValue, number: V) -> None:
    """Defines an integer of an iteration by its i64 value."""
    type_ = register_element(element_name(value.type))
    if type_ == "i64":
        k.scalars[value] = number
    else:
        k.wide.pop(value, None)
        k.scalars[value] = V(number.operand(), type_) if is_constant(number) else k.f.cast("trunc", number, type_)


def _moving_limits(k: KernelContext, loop: ProductLoop) -> dict[str, int]:
    """Returns the limits of masks inside the loop, by name, with what an iteration adds to them."""
    body = loop.op.regions[0].blocks[0]
    found: dict[str, int] = {}
    for inner in body.ops:
        node = k.nodes.get(inner.results[0]) if inner.name == "arith.cmpi" else None
        if isinstance(node, Map) and "bound" in node.attrs:
            left, right = (_per_iteration(operand, loop, body) for operand in inner.operands)
            if left is not None and right is not None:
                found[node.attrs["bound"].limit.operand()] = right - left
    return found


def _per_iteration(value: Any, loop: ProductLoop, body: Any) -> int | None:
    """Returns what an iteration adds to an integer, or to every element of a block of them; None when it is not known."""
    return added_per_iteration(value, body, constant_of(loop.op.operands[2]), loop.scalars)


def added_per_iteration(
    value: Any, body: Any, step: int | None, scalars: Mapping[int, int], start: int | None = None
) -> int | None:
    """Returns what an iteration adds to an integer, or to every element of a block of them; None when it is not known.

    step: what it adds to the loop's counter. scalars: as in `ProductLoop`. start: what the counter is before, if it is known:
    its quotients and remainders are then, too.
    """
    producer = getattr(value, "op", None)
    if producer is None:
        arguments = list(body.args)
        if value not in arguments:
            return 0
        position = arguments.index(value)
        return step if position == 0 else scalars.get(position - 1)
    if producer.parent is not body:
        return 0
    match producer.name:
        case "tt.splat" | "tt.broadcast" | "tt.expand_dims" | "arith.extsi":
            return added_per_iteration(producer.operands[0], body, step, scalars, start)
        case "arith.addi" | "arith.subi":
            left, right = (added_per_iteration(operand, body, step, scalars, start) for operand in producer.operands)
            if left is None or right is None:
                return None
            return left + right if producer.name == "arith.addi" else left - right
        case "arith.muli":
            moved = added_per_iteration(producer.operands[0], body, step, scalars, start)
            factor = constant_of(producer.operands[1])
            return None if moved is None or factor is None else moved * factor
        case "arith.divsi" | "arith.remsi" if producer.operands[0] is body.args[0] and start is not None and step is not None:
            by = constant_of(producer.operands[1])
            if by is None or by < 1 or min(start, start + step) < 0:
                return None
            quotients, remainders = zip(divmod(start, by), divmod(start + step, by), strict=True)
            before, after = quotients if producer.name == "arith.divsi" else remainders
            return after - before
    return None if varies(value, body) else 0


def varies(value: Any, body: Any) -> bool:
    """Whether a value is computed of what changes from one iteration of a loop to the next."""
    pending, seen = [value], set[int]()
    while pending:
        current = pending.pop()
        producer = getattr(current, "op", None)
        if producer is None:
            if current in list(body.args):
                return True
        elif id(producer) not in seen:
            seen.add(id(producer))
            pending += producer.operands
    return False


def _deeper(node: Node, along: int, depth: int, iterations: int, reached: V, moving: Mapping[str, int]) -> Load | None:
    """Extends the block of a load by the blocks of the following iterations, as far as `reached`; None where it cannot."""
    if not isinstance(node, Load):
        return None
    bounds, others = decompose_mask(node.mask)
    if others or (node.other is not None and not is_zero(node.other)):
        return None
    for bound in bounds:
        if moving.get(bound.limit.operand(), 0) != (-depth if bound.dim == along else 0):
            return None
    shape = tuple(extent * iterations if d == along else extent for d, extent in enumerate(node.shape))
    pointers = _stretched(node.pointers, shape)
    if pointers is None:
        return None
    mask: Node | None = None
    for bound in [*bounds, Bound(along, reached)]:
        below = within(shape, bound)
        mask = below if mask is None else Map(shape, "i1", "arith.andi", (mask, below))
    return Load(shape, node.elem, pointers, mask, None)


def _stretched(pointers: Pointers, shape: tuple[int, ...]) -> Pointers | None:
    offset = Affine(shape, "i64", pointers.offset.base, pointers.offset.coefficients)
    rest = None if pointers.rest is None else _reshaped(pointers.rest, shape)
    if pointers.rest is not None and rest is None:
        return None
    return replace(pointers, shape=shape, offset=offset, rest=rest)


def _reshaped(node: Node, shape: tuple[int, ...]) -> Node | None:
    """Returns the same values in a longer shape, along which they do not vary; None where that cannot be expressed."""
    match node:
        case Splat() | Affine() | View():
            return replace(node, shape=shape)
        case Map():
            operands = [_reshaped(operand, shape) for operand in node.operands]
            known = [operand for operand in operands if operand is not None]
            return replace(node, shape=shape, operands=tuple(known)) if len(known) == len(operands) else None
    return None

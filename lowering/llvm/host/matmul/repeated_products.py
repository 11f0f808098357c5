"""Makes one product of a loop over the outer taps of a convolution of bytes, whose sums stay in registers.

The operands of each iteration lie at a fixed distance from those of the one before. One by one, the products would load and
store all sums once per iteration: for the 21 steps of k of an image with three channels and 7 × 7 taps that takes as long as
the products themselves.
"""

from __future__ import annotations

from typing import Any

from xdsl.ir import Operation

from ....tt.analysis.control_flow import terminator
from ....tt.transforms.folding import constant_of, is_pure
from ...syntax import attributes, element_name, is_tensor
from ..context import KernelContext
from .product_loops import added_per_iteration, define_integer, varies
from .unsigned_bytes import flipped_operand


def lower_repeated_product(k: KernelContext, op: Any) -> bool:
    """Emits a loop of known length whose only effect is a product of int8; returns False, with nothing emitted, for others."""
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
    distances = [_distance(operand, body, step) for operand in dot.operands[:2]]
    if times < 2 or None in distances or any(element_name(operand.type) != "i8" for operand in dot.operands[:2]):
        return False
    if any(not _is_plain(inner) for inner in body.ops if inner not in (dot, body.last_op)):
        return False
    return _emit(k, op, low, (times, *distances))  # type: ignore[arg-type]


def _is_plain(op: Operation) -> bool:
    return not op.regions and (is_pure(type(op)) or (op.name == "tt.load" and not attributes(op).get("isVolatile")))


def _distance(operand: Any, body: Any, step: int) -> int | None:
    """Returns the bytes from an iteration's block to the next one's, if it is loaded, and with the same mask.

    Indices must be i64, which do not wrap.
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
    if added_per_iteration(base, body, step, {}) != 0 or any(varies(other, body) for other in load.operands[1:]):
        return None
    return added_per_iteration(offset, body, step, {})


def _emit(k: KernelContext, op: Any, low: int, repetition: tuple[int, int, int]) -> bool:
    body = op.regions[0].blocks[0]
    dot = next(inner for inner in body.ops if inner.name == "tt.dot")
    start, replaced, s = (len(k.f.lines), k.f.block), dict(k.ev.replacement), k.ev.s
    with k.f.scope(), k.ev.scope():  # what is taken back must not be found again
        define_integer(k, body.args[0], s.constant(low))
        for inner in body.ops:
            if inner is not dot and inner is not body.last_op:
                k.operation(inner)
        a, b = (k.node(operand) for operand in dot.operands[:2])
        c, counts = k.node(op.operands[3]), tuple([s.constant(number) for number in repetition])
        result = k.dots.repeated(a, b, c, counts, k.limits(dot.results[0]))
    if result is None:
        k.ev.replacement = replaced
        del k.f.lines[start[0] :]
        k.f.block = start[1]
        return False
    k.define(op.results[0], result)
    return True

"""Lowers operations with effects outside of a program: assert, print, polls that wait for other programs, and reads of
special registers."""

from __future__ import annotations

import time

from xdsl.ir import Operation

from .....promotion.errors import UnsupportedError
from ....ptx.effects import CLOCKS
from ....tt.dialect.attributes import enum_name
from ....tt.dialect.external import register_read
from ....tt.dialect.memory.atomics import MEMORY_ORDERS, AtomicPollOp
from ....tt.source_locations import callers_of, source_location
from ...elementwise import constant, memory_element, memory_size, to_memory
from ...syntax import attribute, attributes, element_name, is_tensor, pointee_name, shape_of
from ...values import NULL, V, const, i32, i64
from ..context import KernelContext
from ..elements import each_element
from ..loops.coordinates import memory_size_of
from ..memory.atomics import ORDERS, address_of
from ..nodes import Affine, Map, Node, Splat, dense
from ..reduce.combine import Combine
from ..reduce.loops import reduce
from .sites import PRINT, WORKER, WORKERS, Printed, PrintSite, Site

CLOCK, YIELD = "clock_gettime", "sched_yield"
_FINE = (1 << 31) - 1


def lower_assert(k: KernelContext, op: Operation) -> None:
    """Lowers an assert: the launch stops at the first false element. What a program has written before stays."""
    if k.status is None:
        raise UnsupportedError(f"host lowering: {op.name} outside of a launch")
    condition = op.operands[0]
    facts = attributes(op)
    message = str(facts["message"] if "message" in facts else facts["msg"])
    shape = shape_of(condition.type)
    site = Site("assert", message, source_location(op), shape, callers=callers_of(op))
    if not shape:
        k.status.stop_unless(k.scalar(condition), site, k.program, i64(-1))
        return
    first = _first_false(k, k.node(condition))
    k.status.stop_unless(k.f.icmp("eq", first, const(_FINE, "i32")), site, k.program, k.f.cast("sext", first, "i64"))


def _first_false(k: KernelContext, node: Node) -> V:
    """Emits the row-major position of the first false element, i32; `_FINE` if there is none."""
    shape = node.shape
    strides = tuple(i64(s) if s else None for s in dense(shape))
    position = Affine(shape, "i32", i64(0), strides)
    found: Node = Map(shape, "i32", "arith.select", (node, Splat(shape, "i32", const(_FINE, "i32")), position))
    left, right, result = object(), object(), object()
    smallest = Combine(
        (left, right), (("arith.minsi", "i32", result, (left, right), ("i32", "i32"), {}),), (result,)
    )
    while found.shape:
        found = reduce(k.nests, [found], len(found.shape) - 1, smallest)[0]
    return k.nests.argument_of(found)


def lower_print(k: KernelContext, op: Operation) -> None:
    """Lowers a print: operands are written to scratch, and the runtime formats them.

    One print is one call, so lines of programs do not mix.
    """
    if k.status is None:
        raise UnsupportedError(f"host lowering: {op.name} outside of a launch")
    addresses = k.f.alloca("ptr", max(1, len(op.operands)), 8)
    printed = []
    for number, operand in enumerate(op.operands):
        elem, shape = element_name(operand.type), shape_of(operand.type)
        stored = k.nests.materialize(k.node(operand))
        k.f.store(stored.pointer, k.f.gep(addresses, 8 * number), 8)
        printed.append(Printed(elem, shape, tuple(s * memory_size_of(stored.memory) for s in stored.strides)))
    facts = attributes(op)
    site = PrintSite(str(facts["prefix"]), bool(facts["hex"]), tuple(bool(s) for s in facts["isSigned"]), tuple(printed))
    k.f.module.declare(PRINT, "void", ["ptr", "i64", "i64", "ptr"])
    k.f.call(PRINT, "void", [k.status.address, i64(k.status.add(site)), k.program, addresses])


def lower_poll(k: KernelContext, op: AtomicPollOp) -> None:
    """Lowers a poll, lane after lane until each holds the expected value; the timeout counts for all of them together."""
    elem = pointee_name(op.operands[0].type)
    timeout = None if op.timeout is None else k.scalar(op.timeout)
    deadline = None if timeout is None else k.f.add(_nanoseconds(k), timeout)
    shape = shape_of(op.result.type)
    if not shape:
        expected = to_memory(k.f, k.scalar(op.expected), elem)
        k.scalars[op.result] = _wait(k, op, k.scalar(op.ptr), expected, elem, deadline)
        return
    pointers, wanted = k.pointers(op.ptr), k.node(op.expected)
    memory = k.ev.scratch(shape, "i1")
    with each_element(k, shape) as at:
        expected = to_memory(k.f, k.ev.at(wanted, at), elem)
        k.ev.write_scratch(memory, at, _wait(k, op, address_of(k, pointers, at), expected, elem, deadline))
    k.define(op.result, memory)


def _wait(k: KernelContext, op: Operation, pointer: V, expected: V, elem: str, deadline: V | None) -> V:
    f = k.f
    order = ORDERS[str(enum_name(MEMORY_ORDERS, attribute(op, "sem")))]
    type_ = memory_element(elem)
    poll, again, done = f.label("poll"), f.label("again"), f.label("polled")
    f.branch(poll)
    f.start(poll)
    k.leave_if_stopped()
    found = f.op(f"load atomic {type_}, ptr {pointer.operand()} {order}, align {memory_size(elem)}", type_)
    holds = f.icmp("eq", found, expected)
    f.cond_branch(holds, done, again)
    f.start(again)
    f.module.declare(YIELD, "i32", [])
    f.call(YIELD, "i32", [])
    if deadline is None:
        f.branch(poll)
    else:
        f.cond_branch(f.icmp("slt", _nanoseconds(k), deadline), poll, done)
    f.start(done)
    return holds


def lower_register_read(k: KernelContext, op: Operation) -> None:
    """Lowers a read of a special register. Every clock counts nanoseconds, whose halves are those of 64 bits."""
    name = register_read(op)
    if name is None:
        raise UnsupportedError("host lowering: inline assembly that has not been expanded")
    if name in CLOCKS:
        found = _nanoseconds(k)
        if name.endswith("_hi"):
            found = k.f.binary("lshr", found, i64(32))
        k.scalars[op.results[0]] = found if CLOCKS[name] == "u64" else k.f.cast("trunc", found, "i32")
    else:
        function = {"%smid": WORKER, "%nsmid": WORKERS}[name]
        k.f.module.declare(function, "i32", [])
        k.scalars[op.results[0]] = k.f.call(function, "i32", [])


def _nanoseconds(k: KernelContext) -> V:
    """Emits the time of the monotonic clock in nanoseconds, i64."""
    f = k.f
    if not hasattr(time, "CLOCK_MONOTONIC"):
        raise UnsupportedError("host lowering: a read of the time on a platform without a POSIX clock")
    slot = f.alloca("i64", 2, 8)
    f.module.declare(CLOCK, "i32", ["i32", "ptr"])
    f.call(CLOCK, "i32", [i32(int(time.CLOCK_MONOTONIC)), slot])
    seconds = f.binary("mul", f.load("i64", slot, 8), i64(1000000000))
    return f.binary("add", seconds, f.load("i64", f.gep(slot, 8), 8))


def lower_poison(k: KernelContext, op: Operation) -> None:
    """Lowers `ub.poison` to zero: any value is right where none may be used."""
    result = op.results[0]
    elem, shape = element_name(result.type), shape_of(result.type)
    value = NULL if elem == "ptr" else constant(0, elem)
    if is_tensor(result.type):
        k.define(result, Splat(shape, elem, value))
    else:
        k.scalars[result] = value

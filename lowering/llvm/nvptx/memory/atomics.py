"""Lowers atomic operations: one thread acts on an element, and every copy of the element gets the old value.

They are written as PTX, which gives order and scope in the instruction itself; LLVM's `atomicrmw` drops both. Combinations
without an instruction (integers below 32 bits, bfloat16 before sm_90, the larger of two floats) are a loop around a compare and
swap; that of a byte includes the byte beside it, which has to exist: allocations of a device have even sizes. The order
holds for all threads of the program: before a release they wait for each other, so that everything they wrote is released,
and after an acquire, so that none reads too early.

Sources: NVIDIA, "PTX ISA", "Parallel Synchronization and Communication Instructions: atom, red", "ld" and "st" (`.relaxed`,
`.acquire`, `.release`), "Memory Consistency Model". `atom.add.f32` on global memory flushes subnormal numbers to zero.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, overload

from xdsl.ir import Operation, SSAValue

from .....promotion.dataclass import dataclass
from ....linear_layouts.distributed import default_blocked
from ....linear_layouts.layout import LANE, WARP, LinearLayout
from ....linear_layouts.linear import ThreadPredicate
from ....linear_layouts.plans.exchange import plan_exchange
from ....tt.dialect.attributes import enum_name
from ....tt.dialect.memory.atomics import HOST_RMW_OPERATIONS, MEMORY_ORDERS, MEMORY_SCOPES, AtomicPollOp
from ...elementwise import emit_map
from ...syntax import attribute, element_name, is_tensor, pointee_name, shape_of
from ...values import FALSE, V, const, i32, is_integer
from ..context import Handler, KernelContext
from ..nodes import Distributed
from ..threads import bits_of

_LETTERS = {16: "h", 32: "r", 64: "l"}
_INTEGERS = {
    "and": ("and", "b"), "or": ("or", "b"), "xor": ("xor", "b"), "exch": ("exch", "b"), "add": ("add", "u"),
    "max": ("max", "s"), "min": ("min", "s"), "umax": ("max", "u"), "umin": ("min", "u"),
}  # fmt: skip
"""Kind → (modifier, letter of the type) of the instructions on integers of 32 and 64 bits."""
_COMBINED = {
    "and": "arith.andi", "or": "arith.ori", "xor": "arith.xori", "add": "arith.addi", "max": "arith.maxsi",
    "min": "arith.minsi", "umax": "arith.maxui", "umin": "arith.minui", "fadd": "arith.addf", "fmax": "arith.maxnumf",
    "fmin": "arith.minnumf",
}  # fmt: skip
NATIVE_BF16 = 90
"""The capability from which on there is `atom.add.noftz.bf16`."""


@dataclass(frozen=True, slots=True)
class _Atomic:
    """The effect of an operation on one element. kind: of tt.atomic_rmw."""

    name: str
    kind: str
    elem: str
    sem: str
    scope: str
    has_result: bool

    @property
    def bits(self) -> int:
        return bits_of(self.elem)

    @property
    def acquires(self) -> bool:
        return self.sem in ("acquire", "acq_rel")

    @property
    def releases(self) -> bool:
        return self.sem in ("release", "acq_rel")

    def instruction(self, capability: int) -> str | None:
        """Returns the modifiers of the instruction that combines; None where there is none."""
        if self.elem in ("f16", "bf16"):
            has = self.kind == "fadd" and (self.elem == "f16" or capability >= NATIVE_BF16)
            return f"add.noftz.{self.elem}" if has else None
        if self.bits < 32:
            return None
        if self.kind == "fadd":
            return f"add.{self.elem}"
        if self.kind in ("inc", "dec"):
            return f"{self.kind}.u32" if self.bits == 32 else None
        name, letter = _INTEGERS.get(self.kind, ("", ""))
        return f"{name}.{letter}{self.bits}" if name else None


def _operation(op: Operation) -> _Atomic:
    sem = str(enum_name(MEMORY_ORDERS, attribute(op, "sem")))
    scope = str(enum_name(MEMORY_SCOPES, attribute(op, "scope")))
    kind = str(enum_name(HOST_RMW_OPERATIONS, attribute(op, "atomic_rmw_op"))) if op.name == "tt.atomic_rmw" else ""
    elem = pointee_name(op.operands[0].type)
    used = bool(op.results) and op.results[0].first_use is not None
    return _Atomic(op.name, kind, elem, sem, scope, used)


# -- operations ----------------------------------------------------------------------------


def _atomic(k: KernelContext, op: Any) -> None:
    """Lowers a read-modify-write, compare and swap, load or store, on a scalar or a block."""
    a = _operation(op)
    pointer = op.operands[0]
    layout = _layout(k, pointer)
    count = {"tt.atomic_cas": 2, "tt.atomic_load": 0}.get(op.name, 1)
    addresses = _column(k, pointer, layout)
    columns = [_column(k, value, layout) for value in op.operands[1 : 1 + count]]
    mask = None if op.name == "tt.atomic_cas" or op.mask is None else _column(k, op.mask, layout)
    if a.releases:
        k.order.release()
    k.order.before(op, None)
    predicate = _predicate(k, layout)
    found: list[V] = []
    for register, address in enumerate(addresses):
        guard = k.t.both(predicate, None if mask is None else mask[register])
        old = _one(k, a, address, [column[register] for column in columns], guard)
        found.append(const(0, f"i{a.bits}") if old is None else old)
    _finish(k, op, a, layout, found)


def _poll(k: KernelContext, op: AtomicPollOp) -> None:
    """Lowers a poll. Every acting thread waits for its elements; the timeout counts for all of them together."""
    a = _operation(op)
    f, layout = k.f, _layout(k, op.ptr)
    addresses, wanted = _column(k, op.ptr, layout), _column(k, op.expected, layout)
    k.order.before(op, None)
    deadline = None if op.timeout is None else f.add(_nanoseconds(k), k.scalar(op.timeout))
    found = []
    for address, expected in zip(addresses, wanted, strict=True):
        predicate = _predicate(k, layout)
        before = f.block
        poll, again, done = f.label("poll"), f.label("again"), f.label("polled")
        if predicate is None:
            f.branch(poll)
        else:
            f.cond_branch(predicate, poll, done)
        f.start(poll)
        holds = f.icmp("eq", _read(k, a, address), k.t.to_bits(expected, a.elem))
        f.cond_branch(holds, done, again)
        f.start(again)
        ways = [(holds, poll), *([] if predicate is None else [(FALSE, before)])]
        if deadline is None:
            f.branch(poll)
        else:
            f.cond_branch(f.icmp("slt", _nanoseconds(k), deadline), poll, done)
            ways.append((holds, again))
        f.start(done)
        found.append(k.t.to_bits(f.phi("i1", ways), "i1"))
    _finish(k, op, a, layout, found)


def _layout(k: KernelContext, pointer: SSAValue) -> LinearLayout:
    """Returns the layout of the elements; every thread has a copy of a scalar."""
    if is_tensor(pointer.type):
        return k.layout_of(pointer).unique_registers()
    return default_blocked((), k.warps)


def _column(k: KernelContext, value: SSAValue, layout: LinearLayout) -> Sequence[V]:
    return k.registers(value, layout) if is_tensor(value.type) else (k.scalar(value),)


def _predicate(k: KernelContext, layout: LinearLayout) -> V | None:
    free = layout.free_masks()
    return k.t.predicate(ThreadPredicate(free[LANE], free[WARP]))


def _finish(k: KernelContext, op: Operation, a: _Atomic, layout: LinearLayout, bits: list[V]) -> None:
    """Defines the results, in every copy, and emits the barrier after an acquire."""
    barriers = k.shared.barriers
    if a.has_result:
        result = op.results[0]
        elem = element_name(result.type)
        values = tuple(k.t.from_bits(value, elem) for value in spread(k, bits, layout))
        if is_tensor(result.type):
            k.define(result, Distributed(shape_of(result.type), elem, layout, values))
        else:
            k.scalars[result] = values[0]
    elif op.results and not is_tensor(op.results[0].type):
        k.scalars[op.results[0]] = k.ev.zero(element_name(op.results[0].type))
    if a.acquires and barriers == k.shared.barriers:
        k.shared.barrier()


def spread(k: KernelContext, bits: Sequence[V], layout: LinearLayout) -> Sequence[V]:
    """Returns integers that the acting thread of each element has, in every thread that holds the element."""
    free = layout.free_masks()
    if not free[WARP]:
        if not free[LANE]:
            return bits
        source = k.f.binary("and", k.t.lane, i32(~free[LANE]))
        return [k.t.shuffle("idx", value, source) for value in bits]
    width = int(bits[0].type[1:])
    return k.moves.exchange(bits, f"i{width}", plan_exchange(layout, layout, width))


# -- instructions --------------------------------------------------------------------------


def _one(k: KernelContext, a: _Atomic, address: V, values: Sequence[V], guard: V | None) -> V | None:
    """Emits the operation on one element.

    Returns the old bits, 0 where the guard is false, or None when the result is not used.
    """
    t = k.t
    if a.name == "tt.atomic_load":
        return _read(k, a, address, guard)
    bits = [t.to_bits(value, a.elem) for value in values]
    if a.name == "tt.atomic_store":
        return _asm(k, f"st.{a.sem}.{a.scope}.global.b{a.bits} [{{a}}], {{0}};", None, address, bits, guard)
    if a.name == "tt.atomic_cas" and a.bits > 8:
        return _swap(k, a, address, bits, guard)
    native = a.instruction(k.target.capability)
    if native is None:
        return _loop(k, a, address, values, guard)
    if not a.has_result and not a.acquires and a.kind != "exch":
        return _asm(k, f"red.{a.sem}.{a.scope}.global.{native} [{{a}}], {{0}};", None, address, bits, guard)
    return _asm(k, f"atom.{a.sem}.{a.scope}.global.{native} {{r}}, [{{a}}], {{0}};", a.bits, address, bits, guard)


def _read(k: KernelContext, a: _Atomic, address: V, guard: V | None = None) -> V:
    return _asm(k, f"ld.{a.sem}.{a.scope}.global.b{a.bits} {{r}}, [{{a}}];", a.bits, address, [], guard)


def _swap(k: KernelContext, a: _Atomic, address: V, bits: Sequence[V], guard: V | None) -> V:
    """Emits a compare and swap; returns the old bits."""
    width = int(bits[0].type[1:])
    text = f"atom.{a.sem}.{a.scope}.global.cas.b{width} {{r}}, [{{a}}], {{0}}, {{1}};"
    return _asm(k, text, width, address, bits, guard)


def _loop(k: KernelContext, a: _Atomic, address: V, values: Sequence[V], guard: V | None) -> V:
    """Combines in a loop until no other thread interfered. A byte is a half of the 16 bits that it lies in."""
    f, type_, int_ = k.f, f"i{a.bits}", f"i{max(16, a.bits)}"
    before = f.block
    relaxed = _Atomic("tt.atomic_load", "", int_, "relaxed", a.scope, True)
    with k.t.where(guard):
        location, shift = (address, None) if a.bits > 8 else _half(k, address)
        first = _read(k, relaxed, location)
        entry, again, done = f.block, f.label("again"), f.label("combined")
        f.branch(again)
        f.start(again)
        whole, slot = V(f.fresh("c"), int_), len(f.lines)
        f.lines.append("")
        seen = whole if shift is None else f.cast("trunc", f.binary("lshr", whole, shift), type_)
        new = k.t.to_bits(_combined(k, a, k.t.from_bits(seen, a.elem), values), a.elem)
        if shift is not None:
            others = f.binary("and", whole, f.binary("xor", f.binary("shl", const(255, int_), shift), const(-1, int_)))
            new = f.binary("or", others, f.binary("shl", f.cast("zext", new, int_), shift))
        old = _swap(k, a, location, [whole, new], None)
        f.lines[slot] = f"  {whole.operand()} = phi {int_} [ {first.operand()}, %{entry} ], [ {old.operand()}, %{f.block} ]"
        f.cond_branch(f.icmp("eq", old, whole), done, again)
        f.start(done)
    if guard is None:
        return seen
    return f.phi(type_, [(seen, done), (const(0, type_), before)])


def _half(k: KernelContext, address: V) -> tuple[V, V]:
    """Returns the address of the 16 bits around a byte, and the byte's shift in them."""
    f = k.f
    odd = f.cast("trunc", f.binary("and", address, const(1, "i64")), "i16")
    return f.binary("and", address, const(-2, "i64")), f.binary("shl", odd, const(3, "i16"))


def _combined(k: KernelContext, a: _Atomic, old: V, values: Sequence[V]) -> V:
    f, value = k.f, values[-1]
    if a.name == "tt.atomic_cas":
        expected = f.icmp("eq", k.t.to_bits(old, a.elem), k.t.to_bits(values[0], a.elem))
        return f.select(expected, value, old)
    if a.kind == "exch":
        return value
    if a.kind == "inc":
        return f.select(f.icmp("uge", old, value), const(0, old.type), f.add(old, const(1, old.type)))
    if a.kind == "dec":
        wraps = f.binary("or", f.icmp("eq", old, const(0, old.type)), f.icmp("ugt", old, value))
        return f.select(wraps, value, f.sub(old, const(1, old.type)))
    return emit_map(f, _COMBINED[a.kind], a.elem, [old, value], [a.elem, a.elem], {})


@overload
def _asm(k: KernelContext, text: str, width: int, address: V, values: Sequence[V], guard: V | None) -> V: ...
@overload
def _asm(k: KernelContext, text: str, width: None, address: V, values: Sequence[V], guard: V | None) -> None: ...
def _asm(
    k: KernelContext, text: str, width: int | None, address: V, values: Sequence[V], guard: V | None
) -> V | None:
    """Emits one instruction whose text has {r} for the result, {a} for the address, {0} and {1} for the values.

    The result has `width` bits; it is 0 where the guard is false.
    """
    f = k.f
    if guard is not None and is_integer(guard, 1):
        guard = None
    bits = 0 if width is None else max(16, width)
    operands = [address, *(f.cast("zext", value, f"i{max(16, int(value.type[1:]))}") for value in values)]
    letters = ["l", *(_LETTERS[int(value.type[1:])] for value in operands[1:])]
    names = [f"${number}" for number in range(0 if width is None else 1, len(operands) + 2)]
    text = text.format(*names[1:], a=names[0], r="$0")
    if guard is not None:
        text = f"@{names[len(operands)]} {text}"
        operands.append(guard)
        letters.append("b")
        if width is not None:
            text = f"mov.b{bits} $0, 0; {text}"
    given = ", ".join(f"{value.type} {value.operand()}" for value in operands)
    if width is None:
        f.emit(f'call void asm sideeffect "{text}", "{",".join(letters)},~{{memory}}"({given})')
        return None
    constraints = ",".join([f"=&{_LETTERS[bits]}", *letters, "~{memory}"])
    found = f.op(f'call i{bits} asm sideeffect "{text}", "{constraints}"({given})', f"i{bits}")
    return f.cast("trunc", found, f"i{width}")


def _nanoseconds(k: KernelContext) -> V:
    """Emits the global timer (PTX ISA, "%globaltimer"), in nanoseconds, i64."""
    return k.t.call("read.ptx.sreg.globaltimer", [], "i64")


ATOMICS: dict[str, Handler] = {
    "tt.atomic_rmw": _atomic, "tt.atomic_cas": _atomic, "tt.atomic_load": _atomic, "tt.atomic_store": _atomic,
    "tt.atomic_poll": _poll,
}  # fmt: skip

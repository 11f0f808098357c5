"""Lowers assertions and prints to calls of the device's run-time system, by one thread for each element, reads of special
registers, and the order of launches.

Elements are spread over threads in row-major order, lane after lane: a print of a block comes out in order where threads run in
order, and the register and thread that fail identify the element. Lines are those of `tt.print_format`, as far as vprintf
can: it has no limit of its own, and the device drops what its buffer cannot hold.

Sources: NVIDIA, "PTX Writer's Guide to Interoperability", "System Calls" (vprintf, __assertfail); "CUDA C++ Programming Guide",
"Formatted Output", "Assertion".
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from xdsl.ir import Operation

from ....promotion.errors import UnsupportedError, printable
from ...linear_layouts.distributed import default_blocked
from ...linear_layouts.layout import LANE, REGISTER, WARP, LinearLayout
from ...linear_layouts.linear import ThreadPredicate
from ...ptx.effects import CLOCKS, READABLE
from ...tt.dialect.external import register_read
from ...tt.source_locations import source_location
from ..elementwise import emit_map
from ..syntax import attributes, element_name, is_tensor, shape_of
from ..values import TRUE, V, i32, i64
from .context import Handler, KernelContext
from .memory.atomics import spread
from .messages import Assertion
from .nodes import Shape
from .targets import WARP_SIZE

ASSERT, PRINT = "__assertfail", "vprintf"
UNKNOWN = ("unknown", 0)
OVERLAPPING = 90
"""The capability from which on a launch may begin before the one in front of it has ended."""


# -- assertions ------------------------------------------------------------------------------


def _assert(k: KernelContext, op: Operation) -> None:
    """Lowers an assert.

    All threads wait at a barrier after it, as later code may rely on it; in a region each thread asserts alone.
    """
    attrs = attributes(op)
    message = _checked(op, str(attrs["message"] if "message" in attrs else attrs["msg"]))
    location, condition = source_location(op), op.operands[0]
    if k.is_alone:
        _fail_unless(k, k.scalar(condition), k.guard, Assertion(message, location, (), 0), "")
        return
    shape = shape_of(condition.type)
    layout = _in_order(k, shape)
    conditions = k.registers(condition, layout) if shape else (k.scalar(condition),)
    predicate = _one_of_copies(k, layout)
    for register, value in enumerate(conditions):
        first = layout.apply_flat(register=register)
        last = min(first + k.warps * WARP_SIZE, prod(shape)) - 1
        where = f", elements {first} to {last}" if len(conditions) > 1 else ""
        _fail_unless(k, value, predicate, Assertion(message, location, shape, first), where)
    k.shared.barrier()


def _fail_unless(k: KernelContext, condition: V, predicate: V | None, what: Assertion, where: str) -> None:
    file, line = what.location or UNKNOWN
    message, function = printable(what.message), f"{k.name}{where}"  # the device prints it itself
    k.messages.assertions.setdefault(f"{message} ({file}:{line}, {function})", what)
    fails = k.f.binary("xor", condition, TRUE)
    texts = [k.messages.text(each) for each in (message, file, function)]
    k.f.module.declare(ASSERT, "void", ["ptr", "ptr", "i32", "ptr", "i64"])
    with k.t.where(k.t.both(fails, predicate)):
        k.f.call(ASSERT, "void", [texts[0], texts[1], i32(line), texts[2], i64(1)])


# -- prints ----------------------------------------------------------------------------------


def _print(k: KernelContext, op: Operation) -> None:
    attrs = attributes(op)
    program = [k.t.call(f"read.ptx.sreg.ctaid.{axis}", [], "i32") for axis in "xyz"]
    prefix, location = printable(_checked(op, str(attrs["prefix"]))).replace("%", "%%"), "pid (%d, %d, %d)"
    if not op.operands:
        with k.t.where(_one_of_copies(k, _in_order(k, ()))):
            _vprintf(k, f"{location}{prefix}\n", program, k.f.alloca("i8", 4 * len(program), 8))
        return
    for number, operand in enumerate(op.operands):
        elem, shape = element_name(operand.type), shape_of(operand.type)
        layout = _in_order(k, shape)
        values = k.registers(operand, layout) if is_tensor(operand.type) else (k.scalar(operand),)
        all_ = range(layout.size(REGISTER))
        indices = list(zip(*(k.t.indices(layout, axis, all_) for axis in range(len(shape))), strict=True)) or [()]
        index = ", ".join(f"%{len(str(extent - 1))}d" for extent in shape)
        which = f"(operand {number}) " if len(op.operands) > 1 else ""
        buffer = k.f.alloca("i8", 4 * (len(program) + len(shape)) + 12, 8)
        with k.t.where(_one_of_copies(k, layout)):
            for at, value in zip(indices, values, strict=True):
                form, argument = _printed(k, value, elem, bool(attrs["hex"]), bool(attrs["isSigned"][number]))
                _vprintf(k, f"{location} idx ({index}){prefix}{which}{form}\n", [*program, *at, argument], buffer)


def _printed(k: KernelContext, value: V, elem: str, hexadecimal: bool, signed: bool) -> tuple[str, V]:
    """Returns a directive of vprintf and its argument."""
    f = k.f
    if elem.startswith("f8"):
        value = emit_map(f, "tt.fp_to_fp", "f32", [value], [elem], {})
    if value.type in ("float", "double"):
        return "%a" if hexadecimal else "%f", f.cast("fpext", value, "double")
    if elem == "ptr":
        return "0x%llx", value
    bits = int(value.type[1:])
    length, container = ("ll", "i64") if bits > 32 else ("", "i32")
    if hexadecimal:
        return f"0x%0{max(1, bits // 4)}{length}x", f.cast("zext", value, container)
    return (f"%{length}d", f.cast("sext", value, container)) if signed else (f"%{length}u", f.cast("zext", value, container))


def _vprintf(k: KernelContext, form: str, values: Sequence[V], buffer: V) -> None:
    """Emits a call of vprintf. Arguments lie in local memory, each aligned to its size."""
    f, end = k.f, 0
    for value in values:
        size = 4 if value.type == "i32" else 8
        end = -(-end // size) * size
        f.store(value, f.gep(buffer, end), size)
        end += size
    f.module.declare(PRINT, "i32", ["ptr", "ptr"])
    f.call(PRINT, "i32", [k.messages.text(form), buffer])


# -- special registers, and the order of launches --------------------------------------------


def _register_read(k: KernelContext, op: Operation) -> None:
    """Lowers a read of a special register, where it stands. A clock is read by the first thread for all of them: a program has
    one scalar, on which its threads may not disagree."""
    name = register_read(op)
    if name is None:
        raise k.unsupported(op, "assembly that has not been expanded")
    type_, letter = ("i64", "l") if READABLE[name] == "u64" else ("i32", "r")
    found = k.f.op(f'call {type_} asm sideeffect "mov.{READABLE[name]} $0, {name};", "={letter},~{{memory}}"()', type_)
    if name in CLOCKS and not k.is_alone:
        (found,) = spread(k, [found], default_blocked((), k.warps))
    k.scalars[op.results[0]] = found


def _grid_dependency(k: KernelContext, op: Operation) -> None:
    """Lowers the order of launches to griddepcontrol (sm_90 and later). Before that launches do not overlap."""
    if k.target.capability >= OVERLAPPING:
        what = "wait" if op.name == "tt.grid_dependency_wait" else "launch_dependents"
        k.f.emit(f'call void asm sideeffect "griddepcontrol.{what};", "~{{memory}}"()')


# -- helpers of both -------------------------------------------------------------------------


def _in_order(k: KernelContext, shape: Shape) -> LinearLayout:
    """Returns a layout with one element for each thread, row-major, then the next ones."""
    if not shape:
        return default_blocked((), k.warps)
    return default_blocked((prod(shape),), k.warps, contiguity=1).unique_registers().reshape(shape)


def _one_of_copies(k: KernelContext, layout: LinearLayout) -> V | None:
    free = layout.free_masks()
    assert not free[REGISTER]
    return k.t.predicate(ThreadPredicate(free[LANE], free[WARP]))


def _checked(op: Operation, value: str) -> str:
    """Returns a text of the user's; UnsupportedError if it has a zero byte, where the run-time system would end it."""
    if "\0" in value:
        location = source_location(op)
        where = f"{location[0]}:{location[1]}: " if location is not None else ""
        raise UnsupportedError(f"{where}{op.name}: {value!r} has a zero byte, where texts end on a GPU; fix: leave it out")
    return value


EFFECTS: dict[str, Handler] = {
    "tt.assert": _assert, "cf.assert": _assert, "tt.print": _print, "tt.elementwise_inline_asm": _register_read,
    "tt.grid_dependency_wait": _grid_dependency, "tt.grid_dependency_launch_dependents": _grid_dependency,
}  # fmt: skip

"""Lowers a block function to one LLVM function that runs a range of programs.

Operations are visited in order. Scalar operations are emitted at once; block operations become lazy nodes (`nodes.py`), which
are evaluated in the bodies of loop nests (`loops/loop_nests.py`, `matmul/dot.py`). Loop-carried blocks live in scratch and are
updated in place.
"""

from __future__ import annotations

from xdsl.ir import Operation

from ...target import HostTarget
from ...tt.analysis.aliasing import AliasAnalysis
from ...tt.dialect.functions import FuncOp
from ...tt.facts import alias_groups, divisibility, is_in_program_order, is_stoppable
from ...tt.source_locations import naming_line
from ..elementwise import constant, register_element
from ..ir import Function
from ..module import Module
from ..op_lines import begin_lines
from ..syntax import constant_value, element_name, is_tensor, program_axis, shape_of
from ..values import V
from .context import Handler, KernelContext
from .control.branches import lower_blocks, lower_execute_region
from .control.effects import lower_assert, lower_poison, lower_poll, lower_print, lower_register_read
from .control.loops import lower_for, lower_if, lower_while
from .control.regions import lower_map_elementwise
from .control.sites import STATUS_WORDS, PrintSite, Site
from .control.status import Status
from .elements import lower_gather, lower_histogram
from .elementwise import lower_elementwise
from .evaluate import Evaluator
from .fourier.handlers import lower_fft
from .launch_specialization import MULTIPLE, LaunchSpecialization
from .loops.liveness import emits_nest
from .memory.accesses import lower_addptr, lower_bitcast, lower_load, lower_store
from .memory.atomics import lower_atomic
from .memory.bounds import Bounds
from .memory.checked_accesses import lower_check
from .memory.ordering import Ordering
from .nodes import Splat
from .reduce.handlers import lower_dot, lower_reduce, lower_scan
from .shapes import (
    lower_broadcast,
    lower_cat,
    lower_expand_dims,
    lower_join,
    lower_make_range,
    lower_reshape,
    lower_splat,
    lower_split,
    lower_trans,
    lower_unsplat,
)
from .sorts.handlers import lower_sort, lower_sort_lines


def lower_kernel(
    module: Module, function: FuncOp, name: str, target: HostTarget, launch: LaunchSpecialization | None = None
) -> tuple[Site | PrintSite, ...]:
    """Adds `void name(ptr args, i64 lo, i64 hi)` to the module: it runs the programs from lo to hi of a block function.

    launch: the specialization for launches; it replaces what the function states of its parameters and stores. Without it
    the function's own facts (`tt/facts.py`) are all that is known. Returns the sites at which the code can stop a launch.
    """
    with naming_line(function):
        return _lowered(module, function, name, target, launch)


def _lowered(
    module: Module, function: FuncOp, name: str, target: HostTarget, launch: LaunchSpecialization | None
) -> tuple[Site | PrintSite, ...]:
    module.features = target.features
    f = Function(module, name, [("ptr noalias", "args"), ("i64", "lo"), ("i64", "hi")], numbering=True)
    begin_lines(f, function)
    k = KernelContext(f, Evaluator(f, target), function, launch, HANDLERS, lower_elementwise)
    if is_in_program_order(function):
        groups = alias_groups(function) if launch is None else launch.groups
        k.ordering = Ordering(k, AliasAnalysis(function, dict(groups)))
    k.nests.streaming = any(op.name == "tt.store" and k.goes_past_caches(op) for op in k.operations())
    k.dots.fetches = any(op.name == "tt.load" and k.goes_past_caches(op) for op in k.operations())
    k.nests.rows_apart = sum(emits_nest(op) and op.name != "tt.return" for op in k.operations()) > 1
    _load_arguments(k, function)
    with f.loop(f.params[1], f.params[2], 1, _first_position(k)) as state, k.ev.scope():
        k.program = state.index
        k.position = list(state.values)
        state.next = _next_position(k)
        k.leave_if_stopped()
        done = f.label("program")
        lower_blocks(k, function.body, lambda last: f.branch(done))
        f.start(done)
    k.ev.memory.end()
    f.ret()
    if k.status is not None:
        k.status.start_leaving()
        k.ev.memory.end()
        f.ret()
    k.ev.memory.finish()
    module.add(f)
    return () if k.status is None else tuple(k.status.sites)


def _load_arguments(k: KernelContext, function: FuncOp) -> None:
    """Defines the parameters, the extents of the grid and the address of the status words."""
    f, s = k.f, k.ev.s
    parameters = k.blocks[0].args
    for i, argument in enumerate(parameters):
        slot = f.gep(f.params[0], 8 * i)
        if element_name(argument.type) == "ptr":
            pointer = f.load("ptr", slot, 8)
            if k.launch is None:
                s.assume_multiple(pointer, divisibility(function, i))
            k.scalars[argument] = pointer
            k.ev.arguments.add(pointer.operand())
        else:
            k.scalars[argument] = f.load(register_element(element_name(argument.type)), slot, 8)
        if k.launch is not None and i in k.launch.multiples:
            s.assume_multiple(k.scalars[argument], MULTIPLE)
    is_launched = is_stoppable(function)  # and not called by a model's driver, whose grids have one axis
    if any(
        op.name == "tt.get_num_programs" or (op.name == "tt.get_program_id" and (is_launched or program_axis(op) != "x"))
        for op in k.operations()
    ):  # the launcher passes the extents of the grid after the arguments
        first = len(parameters)
        k.grid = [f.load("i64", f.gep(f.params[0], 8 * (first + i)), 8) for i in range(3)]
    if is_stoppable(function):
        k.status = Status(f, f.load("ptr", f.gep(f.params[0], 8 * (len(parameters) + 3)), 8))
        if k.launch is not None and k.launch.checked:
            k.bounds = _load_bounds(k, function)
        k.ev.memory.begin(k.status)


def _first_position(k: KernelContext) -> list[V]:
    """Returns where the first program stands in the grid, up to the last axis that the function asks for.

    Programs are numbered along x first, then y, then z.
    """
    axes = {"xyz".index(str(program_axis(op))) for op in k.operations() if op.name == "tt.get_program_id"}
    found: list[V] = []
    if k.grid and axes:
        rest = k.f.params[1]
        for extent in k.grid[: max(axes) + 1]:
            extent = k.ev.s.max(extent, k.ev.s.constant(1))
            found.append(k.f.binary("urem", rest, extent))
            rest = k.f.binary("udiv", rest, extent)
    return found


def _next_position(k: KernelContext) -> list[V]:
    """Returns where the next program stands. To divide its number again takes as long as a tenth of a short program."""
    f, s = k.f, k.ev.s
    following: list[V] = []
    carry: V = s.constant(1)
    for position, extent in zip(k.position, k.grid, strict=False):
        moved = s.add(position, carry)
        wraps = f.icmp("uge", moved, extent)
        following.append(f.select(wraps, s.constant(0), moved))
        carry = f.cast("zext", wraps, "i64")
    return following


def _load_bounds(k: KernelContext, function: FuncOp) -> Bounds:
    """Loads the memory behind the parameters, which checked launches pass after the status words."""
    f, parameters = k.f, k.blocks[0].args
    first = len(parameters) + 4 + STATUS_WORDS

    def slot(position: int) -> V:
        return f.load("i64", f.gep(f.params[0], 8 * (first + position)), 8)

    memory: list[tuple[V, V] | None] = [None] * len(parameters)
    for i, argument in enumerate(parameters):
        if element_name(argument.type) == "ptr":
            memory[i] = slot(2 * i), slot(2 * i + 1)
    table = f.load("ptr", f.gep(f.params[0], 8 * (first + 2 * len(parameters))), 8)
    return Bounds(function, memory, (table, slot(2 * len(parameters) + 1)))


def _constant(k: KernelContext, op: Operation) -> None:
    result = op.results[0]
    elem, shape = element_name(result.type), shape_of(result.type)
    value = constant(constant_value(op), elem)
    if is_tensor(result.type):
        k.define(result, Splat(shape, elem, value))
    else:
        k.scalars[result] = value


def _program_id(k: KernelContext, op: Operation) -> None:
    position = k.position["xyz".index(str(program_axis(op)))] if k.position else k.program
    result = op.results[0]
    k.wide[result] = position
    k.ev.s.narrow.add(position.operand())  # an axis of a grid has fewer than 2^31 programs
    if program_axis(op) == "x":
        k.ev.s.assume_step(position, 1)
    k.scalars[result] = k.f.cast("trunc", position, "i32")


def _num_programs(k: KernelContext, op: Operation) -> None:
    result = op.results[0]
    k.wide[result] = k.grid["xyz".index(str(program_axis(op)))]
    k.scalars[result] = k.f.cast("trunc", k.wide[result], "i32")


def _nothing(k: KernelContext, op: Operation) -> None:
    """Lowers terminators (their operands are handled by the owner) and hints: to nothing."""


HANDLERS: dict[str, Handler] = {
    "arith.constant": _constant,
    "tt.get_program_id": _program_id,
    "tt.get_num_programs": _num_programs,
    "tt.make_range": lower_make_range,
    "tt.splat": lower_splat,
    "tt.expand_dims": lower_expand_dims,
    "tt.broadcast": lower_broadcast,
    "tt.trans": lower_trans,
    "tt.reshape": lower_reshape,
    "tt.join": lower_join,
    "tt.cat": lower_cat,
    "tt.split": lower_split,
    "tt.unsplat": lower_unsplat,
    "tt.addptr": lower_addptr,
    "tt.bitcast": lower_bitcast,
    "tt.check_access": lower_check,
    "tt.load": lower_load,
    "tt.store": lower_store,
    "tt.atomic_rmw": lower_atomic,
    "tt.atomic_cas": lower_atomic,
    "tt.atomic_load": lower_atomic,
    "tt.atomic_store": lower_atomic,
    "tt.atomic_poll": lower_poll,
    "tt.elementwise_inline_asm": lower_register_read,
    "tt.assert": lower_assert,
    "cf.assert": lower_assert,
    "tt.print": lower_print,
    "ub.poison": lower_poison,
    "tt.map_elementwise": lower_map_elementwise,
    "tt.gather": lower_gather,
    "tt.histogram": lower_histogram,
    "tt.sort": lower_sort,
    "tt.sort_lines": lower_sort_lines,
    "tt.fft": lower_fft,
    "tt.reduce": lower_reduce,
    "tt.scan": lower_scan,
    "tt.dot": lower_dot,
    "scf.for": lower_for,
    "scf.if": lower_if,
    "scf.while": lower_while,
    "scf.execute_region": lower_execute_region,
    "scf.condition": _nothing,
    "scf.yield": _nothing,
    "ttg.barrier": _nothing,
    "llvm.intr.assume": _nothing,
    "tt.grid_dependency_wait": _nothing,
    "tt.grid_dependency_launch_dependents": _nothing,
    "tt.return": _nothing,
    "tt.reduce.return": _nothing,
    "tt.scan.return": _nothing,
    "tt.map_elementwise.return": _nothing,
    "cf.br": _nothing,
    "cf.cond_br": _nothing,
}

"""The driver: one native function that runs a whole model, kernel after kernel, without returning to Python.

`jn_prepare` turns the symbolic dims into sizes and checks; `jn_run` computes grids and arguments and calls every kernel,
directly when the work is small, else through the thread pool (`jn_parallel`, imported from the runtime). Where the variable
`jn_profile` holds a table, the function that is its first entry is called at the beginning and after every launch.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ....graph.dims.dim import Dim
from ....graph.reference.budget import MAX_SIZE
from ....promotion.dataclass import dataclass
from ...nest import Buffer, Extent
from ...program import Launch
from ...target import HostTarget
from ..ir import Function
from ..module import Module
from ..values import NULL, ConstantInt, Global, V, const, i64
from .float_modes import default_modes
from .loops.extents import emit_approximately, emit_extent
from .scalars import Scalars, is_constant

# Rates of one core, which decide when threads pay: bytes and operations per nanosecond, and the time that a
# chunk should take.
BYTES_PER_NS = 16
OPERATIONS_PER_NS = 64
INLINE_NS = 10_000
CHUNK_NS = 4_000
MAX_CHUNKS = 128  # finer chunks would break the streams that prefetching follows, and balance no better


@dataclass(frozen=True, slots=True)
class DriverPlan:
    """The description of a model that the driver is emitted from.

    kernels: name of the LLVM function of every launch.  offsets: arena byte offset of every temporary, by index.
    magnitude: at least every size of the model, with positive coefficients: check 0 is that it is less than `MAX_SIZE`.
    checks: pairs of extents that must be equal, in the order of their messages, which begin with that of check 0.
    """

    dims: tuple[str, ...]
    inputs: int
    constants: int
    outputs: tuple[tuple[Extent, ...], ...]
    offsets: tuple[Extent, ...]
    arena_bytes: Extent
    launches: tuple[Launch, ...]
    kernels: tuple[str, ...]
    magnitude: Extent
    checks: tuple[tuple[Extent, Extent], ...]


def emit_driver(module: Module, plan: DriverPlan, target: HostTarget) -> None:
    """Adds `jn_prepare` and `jn_run` to the module."""
    _emit_prepare(module, plan)
    _emit_run(module, plan, target)


def _dims(f: Function, names: Sequence[str], pointer: V) -> dict[str, V]:
    return {name: f.load("i64", f.gep(pointer, 8 * i), 8) for i, name in enumerate(names)}


def _emit_prepare(module: Module, plan: DriverPlan) -> None:
    f = Function(module, "jn_prepare", [("ptr", "dims"), ("ptr", "sizes")], "i64")
    s = Scalars(f)
    env = _dims(f, plan.dims, f.params[0])
    if isinstance(plan.magnitude, Dim):
        _require(f, f.fcmp("olt", emit_approximately(f, plan.magnitude, env), const(float(MAX_SIZE), "double")), 0)
    for index, (left, right) in enumerate(plan.checks, 1):
        _require(f, f.icmp("eq", emit_extent(s, left, env), emit_extent(s, right, env)), index)
    sizes = [plan.arena_bytes, *(extent for shape in plan.outputs for extent in shape)]
    for position, extent in enumerate(sizes):
        f.store(emit_extent(s, extent, env), f.gep(f.params[1], 8 * position), 8)
    f.ret(i64(-1))
    module.add(f)


def _require(f: Function, condition: V, index: int) -> None:
    """Emits a return of the index of the check unless it holds."""
    holds, fails = f.label("holds"), f.label("fails")
    f.cond_branch(condition, holds, fails)
    f.start(fails)
    f.ret(i64(index))
    f.start(holds)


def _emit_run(module: Module, plan: DriverPlan, target: HostTarget) -> None:
    module.declare("jn_parallel", "void", ["ptr", "ptr", "ptr", "i64", "i64"])
    f = Function(module, "jn_run", [("ptr", "pool"), ("ptr", "buffers"), ("ptr", "dims")])
    s = Scalars(f)
    env = _dims(f, plan.dims, f.params[2])
    first = {"input": 0, "constant": plan.inputs, "output": plan.inputs + plan.constants}
    arena_slot = plan.inputs + plan.constants + len(plan.outputs)
    loaded: dict[tuple[str, int], V] = {}

    def address(buffer: Buffer) -> V:
        key = (buffer.kind, buffer.index)
        if key not in loaded:
            if buffer.kind == "temporary":
                arena = loaded.setdefault(("arena", 0), f.load("ptr", f.gep(f.params[1], 8 * arena_slot), 8))
                loaded[key] = f.gep(arena, emit_extent(s, plan.offsets[buffer.index], env))
            else:
                loaded[key] = f.load("ptr", f.gep(f.params[1], 8 * (first[buffer.kind] + buffer.index)), 8)
        return loaded[key]

    slots = max((len(launch.buffers) + len(launch.scalars) for launch in plan.launches), default=0)
    arguments = f.alloca("i64", max(slots, 1), 8)
    module.globals["jn_profile"] = "@jn_profile = dso_local global ptr null, align 8"
    table = f.load("ptr", Global("jn_profile"), 8)
    profiled = f.icmp("ne", table, NULL)

    def mark(number: int) -> None:
        """Emits a call of the table's function if there is a table: launch `number` is done."""
        on, off = f.label("mark"), f.label("go")
        f.cond_branch(profiled, on, off)  # a call that looks itself would cost each launch four times as much
        f.start(on, dominated=True)
        function = f.load("ptr", table, 8)
        f.emit(f"call void {function.operand()}(ptr {table.operand()}, i64 {number})")
        f.branch(off)
        f.start(off, dominated=True)

    with default_modes(f, target):
        mark(-1)
        for number, (launch, kernel) in enumerate(zip(plan.launches, plan.kernels, strict=True)):
            position = 0
            for buffer in launch.buffers:
                f.store(address(buffer), f.gep(arguments, 8 * position), 8)
                position += 1
            for scalar in launch.scalars:
                f.store(emit_extent(s, scalar, env), f.gep(arguments, 8 * position), 8)
                position += 1
            _emit_launch(f, s, env, launch, kernel, arguments)
            mark(number)
    f.ret()
    module.add(f)


def _emit_launch(
    f: Function, s: Scalars, env: Mapping[str, V], launch: Launch, kernel: str, arguments: V
) -> None:
    grid = emit_extent(s, launch.grid, env)
    work = _work(s, launch, env)
    direct = [arguments, i64(0), grid]
    if isinstance(work, ConstantInt) and work.number <= INLINE_NS:
        f.call(kernel, "void", direct)
        return
    if is_constant(work) and is_constant(grid):
        programs = grid.number
        grain = i64(max(1, programs * CHUNK_NS // work.number, programs // MAX_CHUNKS))
    else:
        share = f.binary("udiv", s.mul(grid, s.constant(CHUNK_NS)), s.max(work, s.constant(1)))
        small = f.icmp("sle", work, s.constant(INLINE_NS))
        share = s.max(s.max(share, s.floor_div(grid, MAX_CHUNKS)), s.constant(1))
        grain = f.select(small, s.max(grid, s.constant(1)), share)
    f.call("jn_parallel", "void", [f.params[0], Global(kernel), arguments, grid, grain])


def _work(s: Scalars, launch: Launch, env: Mapping[str, V]) -> V:
    """Estimates the nanoseconds of the whole launch on one core."""
    traffic = s.add(emit_extent(s, launch.bytes_read, env), emit_extent(s, launch.bytes_written, env))
    operations = emit_extent(s, launch.flops, env)
    return s.add(s.floor_div(traffic, BYTES_PER_NS), s.floor_div(operations, OPERATIONS_PER_NS))

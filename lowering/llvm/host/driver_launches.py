"""Emits launches of kernels, on behalf of the driver: addresses, arguments, and whether threads share the work."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ....promotion.dataclass import dataclass
from ....promotion.errors import InternalError
from ...control.steps import Step
from ...nest import Buffer, Extent
from ...program import Launch
from ..ir import Function
from ..module import Module
from ..values import NULL, ConstantInt, Global, V, i64
from .loops.extents import emit_extent
from .scalars import Scalars, is_constant

# Rates of one core, which decide when threads pay: bytes and operations per nanosecond, and the time that a
# chunk should take.
BYTES_PER_NS = 16
OPERATIONS_PER_NS = 64
INLINE_NS = 10_000
CHUNK_NS = 4_000
MAX_LAUNCHES = 256  # of a function
MAX_CHUNKS = 128  # finer chunks would break the streams that prefetching follows, and balance no better


@dataclass(frozen=True, slots=True)
class DriverPlan:
    """The description of a model that the driver is emitted from.

    kernels: name of the LLVM function of every launch.  offsets: arena byte offset of every temporary, by index.
    magnitude: at least every size of the model, with positive coefficients: check 0 is that it is less than `MAX_SIZE`.
    checks: pairs of extents that must be equal, in the order of their messages, which begin with that of check 0.
    steps: what runs, where that is more than all kernels in order; variables: how many addresses it changes.
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
    steps: tuple[Step, ...] = ()
    variables: int = 0


def load_dims(f: Function, names: Sequence[str], pointer: V) -> dict[str, V]:
    return {name: f.load("i64", f.gep(pointer, 8 * i), 8) for i, name in enumerate(names)}


class DriverCode:
    """Launches kernels in a function under construction, whose parameters begin with those of `jn_run`.

    frame: the addresses of variables, if the plan has any.
    """

    def __init__(self, f: Function, plan: DriverPlan, frame: V | None = None) -> None:
        self.f, self.plan, self.frame = f, plan, frame
        self.s = Scalars(f)
        self.env = load_dims(f, plan.dims, f.params[2])
        self.first = {"input": 0, "constant": plan.inputs, "output": plan.inputs + plan.constants}
        self.loaded: dict[tuple[str, int], V] = {}
        self.arguments: V | None = None
        self._table = f.load("ptr", Global("jn_profile"), 8)
        self.is_profiled = f.icmp("ne", self._table, NULL)

    def mark(self, number: int) -> None:
        """Emit a call of the table's function if there is a table: launch `number` is done; the first one begins after -1."""
        f, on, off = self.f, self.f.label("mark"), self.f.label("go")
        f.cond_branch(self.is_profiled, on, off)  # a call that looks itself would cost each launch four times as much
        f.start(on, dominated=True)
        function = f.load("ptr", self._table, 8)
        f.emit(f"call void {function.operand()}(ptr {self._table.operand()}, i64 {number})")
        f.branch(off)
        f.start(off, dominated=True)

    def slot(self, variable: int) -> V:
        """Return the address of the address of a variable."""
        if self.frame is None:
            raise InternalError("a plan without steps has no variables")
        return self.f.gep(self.frame, 8 * variable)

    def extent(self, extent: Extent) -> V:
        return emit_extent(self.s, extent, self.env)

    def address(self, buffer: Buffer) -> V:
        """Return the address of a buffer. Those of variables change: they are loaded anew."""
        f, key = self.f, (buffer.kind, buffer.index)
        if buffer.kind == "variable":
            return f.load("ptr", self.slot(buffer.index), 8)
        if key not in self.loaded:
            arena_slot = self.plan.inputs + self.plan.constants + len(self.plan.outputs)
            if buffer.kind == "temporary":
                arena = self.loaded.setdefault(("arena", 0), f.load("ptr", f.gep(f.params[1], 8 * arena_slot), 8))
                self.loaded[key] = f.gep(arena, self.extent(self.plan.offsets[buffer.index]))
            else:
                self.loaded[key] = f.load("ptr", f.gep(f.params[1], 8 * (self.first[buffer.kind] + buffer.index)), 8)
        return self.loaded[key]

    def work(self, launch: Launch) -> V:
        """Return an estimate of the nanoseconds that a launch takes on one core."""
        return _work(self.s, launch, self.env)

    def launch(self, first: int, last: int) -> None:
        """Launch kernels in order, with one block of arguments for all of them."""
        f, launches = self.f, self.plan.launches[first:last]
        if self.arguments is None:
            slots = max((len(launch.buffers) + len(launch.scalars) for launch in self.plan.launches), default=0)
            self.arguments = f.alloca("i64", max(slots, 1), 8)
        for number, (launch, kernel) in enumerate(zip(launches, self.plan.kernels[first:last], strict=True), first):
            position = 0
            for buffer in launch.buffers:
                f.store(self.address(buffer), f.gep(self.arguments, 8 * position), 8)
                position += 1
            for scalar in launch.scalars:
                f.store(self.extent(scalar), f.gep(self.arguments, 8 * position), 8)
                position += 1
            _emit_launch(f, self.s, self.env, launch, kernel, self.arguments)
            self.mark(number)


def emit_sections(module: Module, plan: DriverPlan, first: int, last: int, frame: bool = False) -> list[str]:
    """Adds functions that launch kernels number `first` to `last - 1`, where these are many; returns their names, in order.

    LLVM takes more than twice as long for a function of twice as many launches. The functions have the parameters of `jn_run`,
    and the frame of variables after them, if asked for.
    """
    if last - first <= MAX_LAUNCHES:
        return []
    names = []
    parameters = [("ptr", "pool"), ("ptr", "buffers"), ("ptr", "dims"), *([("ptr", "frame")] if frame else [])]
    for begin in range(first, last, MAX_LAUNCHES):
        name = f"jn_section_{len(module.functions)}"
        f = Function(module, name, parameters, attributes="nounwind noinline", linkage="internal")
        DriverCode(f, plan, f.params[3] if frame else None).launch(begin, min(begin + MAX_LAUNCHES, last))
        f.ret()
        module.add(f)
        names.append(f.name)
    return names


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


def work(launch: Launch) -> int | None:
    """Estimates the nanoseconds of a whole launch on one core; None where sizes are known only at run time."""
    sizes = (launch.bytes_read, launch.bytes_written, launch.flops)
    read, written, flops = (each if isinstance(each, int) else None for each in sizes)
    if read is None or written is None or flops is None:
        return None
    return (read + written) // BYTES_PER_NS + flops // OPERATIONS_PER_NS

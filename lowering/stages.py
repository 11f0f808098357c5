"""Defines the values that the stages of a lowering hand on, one type each, and the interface of a back end.

    Graph ─ expand ─► Expanded ─ schedule ─► Scheduled ─ lay_out ─► LaidOut ─ tile ─► Tiled ─ lower ─► L ─ compile ─► Compiled

`pipeline.py` runs the stages; `L` is a type of the back end. Every value prints itself (`text`), and every
stage can be called by itself.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Protocol, TypeVar

from ..graph.graph import Graph
from ..graph.symbol import Symbol
from ..promotion.arrays import Array
from ..promotion.dataclass import dataclass
from .artifact import GpuProgram
from .choices.options import Options
from .control.blocks import Block
from .graph_passes.weight_packing import ConstantLayout, InPanels
from .program import BlockProgram, Launch
from .schedule.plan import Plan
from .tile.schedule import Schedule
from .tt.printing import print_module


@dataclass(frozen=True, slots=True)
class Expanded:
    """A graph of primitive operations.

    source: the graph as it was given. wide: the arrays of complex128 constants, which are pairs of uint64 in `graph`, by the id
    of their symbol there. block: the parts of a graph with loops or branches; `graph` is then the source, and constants have
    the numbers that the block gives them instead of ids.
    """

    source: Graph
    graph: Graph
    wide: Mapping[int, Array]
    block: Block | None = None

    def text(self) -> str:
        return str(self.graph) if self.block is None else "\n".join([str(part.graph) for part in self.block.straight()])

    def symbols(self) -> Iterator[Symbol]:
        """Yield the symbols of all parts."""
        yield from self.graph.symbols
        for part in self.block.straight() if self.block is not None else ():
            yield from part.graph.symbols

    def constants(self) -> Mapping[int, Array]:
        """Return the arrays of constants and weights as they were given, by the number that buffers have for their symbol."""
        if self.block is not None:
            return self.block.constants()[1]
        named = [symbol for symbol in self.graph.symbols if symbol.op.name in ("constant", "weight")]
        return {symbol.id: self.wide.get(symbol.id, symbol.attrs["value"]) for symbol in named}


@dataclass(frozen=True, slots=True)
class Scheduled:
    """The nests of a graph in execution order, and the placement of their buffers in memory."""

    expanded: Expanded
    plan: Plan

    def text(self) -> str:
        return self.plan.describe()


@dataclass(frozen=True, slots=True)
class LaidOut:
    """A plan whose constants are stored as the kernels read them.

    layouts: one per constant of the plan. packed: for each nest, how its second operand is stored in panels, None if it is not.
    names: for each nest, that of its kernel.
    """

    expanded: Expanded
    plan: Plan
    layouts: tuple[ConstantLayout, ...]
    packed: tuple[InPanels | None, ...]
    names: tuple[str, ...]

    def text(self) -> str:
        return self.plan.describe()


@dataclass(frozen=True, slots=True)
class Tiled:
    """The block programs, and one launch and one schedule per nest."""

    laid_out: LaidOut
    programs: tuple[BlockProgram, ...]
    launches: tuple[Launch, ...]
    schedules: tuple[Schedule, ...]

    @property
    def source(self) -> Graph:
        return self.laid_out.expanded.source

    @property
    def plan(self) -> Plan:
        return self.laid_out.plan

    def text(self) -> str:
        return "\n".join(print_module(program.func) for program in self.programs)


@dataclass(frozen=True, slots=True)
class Compiled:
    """Code for a device.

    llvm_ir: text of the modules that it was compiled from. object_code: for hosts, else empty. gpu: for GPUs,
    the kernels and launches.
    """

    tiled: Tiled
    llvm_ir: str
    object_code: bytes = b""
    gpu: GpuProgram | None = None

    def text(self) -> str:
        if self.gpu is not None:
            return "\n".join(kernel.ptx for kernel in self.gpu.kernels)
        return f"{len(self.object_code)} bytes of object code"


class Target(Protocol):
    """What code is generated for. key: part of the compile cache's keys, names all of the target that the
    code depends on."""

    @property
    def key(self) -> str: ...


L = TypeVar("L")


class Backend(Protocol[L]):
    """The stages that differ between kinds of targets. L: the lowered block programs, before they are
    compiled.

    `host_stages.HostBackend` and `gpu_stages.NvptxBackend` implement it; `tests/lowering/test_backend.py` has
    a third as a skeleton for further ones.
    """

    @property
    def target(self) -> Target: ...

    @property
    def sorted_bytes(self) -> int:
        """The longest line that a program puts in order in its block; 0 for targets whose programs work in memory."""

    @property
    def has_short_rows(self) -> bool:
        """Whether a program computes several rows of few elements at a time as fast as long ones."""

    @property
    def tables(self) -> tuple[tuple[int, int], ...]:
        """The elements of the longest arrays that programs look up in registers, by the bytes of an element."""

    def lay_out(self, scheduled: Scheduled, options: Options) -> LaidOut:
        """Choose how constants are stored, and by which algorithm convolutions read them."""

    def tile(self, laid_out: LaidOut, options: Options) -> Tiled:
        """Choose blocks for the nests, and make their programs. Raises `UnsupportedError` where no template computes a nest."""

    def lower(self, tiled: Tiled, options: Options) -> L:
        """Lower the programs. Raises `UnsupportedError` for operations that the target has no code for."""

    def compile(self, lowered: L) -> Compiled:
        """Make the code that a device loads."""

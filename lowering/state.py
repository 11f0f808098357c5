"""Defines the state that the stages of a lowering fill in, and what a back end supplies."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Literal

from ..graph.graph import Graph
from ..promotion.arrays import Array
from .artifact import GpuProgram, KernelCode
from .graph_passes.weight_packing import ConstantLayout
from .llvm.nvptx.gpu_kernel import GpuKernel
from .llvm.nvptx.targets import GpuTarget
from .program import BlockProgram, Launch
from .schedule.plan import Plan
from .target import HostTarget
from .tt.printing import print_module

Stage = Literal["expand", "schedule", "layouts", "tile", "lower", "compile"]
STAGES: tuple[Stage, ...] = ("expand", "schedule", "layouts", "tile", "lower", "compile")


@dataclass(slots=True)
class LoweringState:
    """The state of a lowering: every stage fills in its part. `seconds` is what each stage took.

    module: LLVM IR; for GPUs the modules of all programs.  object_code: of a host.
    wide: the arrays of complex128 constants, by id in `expanded`, where they are pairs of uint64.
    threads, kernels: of a GPU, one per program, before and after LLVM.
    numerics: one of `NUMERICS`: what float operations allow.  debug: whether code has line tables.
    """

    graph: Graph
    target: HostTarget | GpuTarget
    numerics: str = "strict"
    debug: bool = False
    expanded: Graph | None = None
    wide: Mapping[int, Array] = field(default_factory=dict)
    plan: Plan | None = None
    layouts: tuple[ConstantLayout, ...] = ()
    packed: tuple[bool, ...] = ()
    programs: tuple[BlockProgram, ...] = ()
    launches: tuple[Launch, ...] = ()
    threads: tuple[GpuKernel, ...] = ()
    module: str = ""
    object_code: bytes = b""
    kernels: tuple[KernelCode, ...] = ()
    seconds: dict[str, float] = field(default_factory=dict)

    def text(self, stage: Stage) -> str:
        """Returns what the stage produced as text."""
        match stage:
            case "expand":
                return str(self.expanded)
            case "schedule" | "layouts":
                return self.plan.describe() if self.plan is not None else ""
            case "tile":
                return "\n".join(print_module(program.func) for program in self.programs)
            case "lower":
                return self.module
            case "compile":
                if self.kernels:
                    return "\n".join(kernel.ptx for kernel in self.kernels)
                return f"{len(self.object_code)} bytes of object code"


@dataclass(frozen=True, slots=True)
class Backend:
    """The stages that differ between hosts and GPUs; `program` returns what the compiled form holds beside object code."""

    layouts: Callable[[LoweringState], None]
    tile: Callable[[LoweringState], None]
    lower: Callable[[LoweringState], None]
    compile: Callable[[LoweringState], None]
    program: Callable[[LoweringState], GpuProgram | None]

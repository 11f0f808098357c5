"""The whole lowering of a graph, as one function that reads as its stages.

    graph ─ expand ─ schedule ─ layouts ─ tile ─ lower ─ compile ─► CompiledGraph

`lower_graph(..., stop_after=stage)` returns the state after a stage; `Lowered.text(stage)` prints it.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from ..graph.graph import Graph
from ..promotion.errors import UserError
from .artifact import CompiledGraph, ConstantSpec, KernelReport, TensorSpec
from .expand import expand
from .layouts import PANEL, ConstantLayout, store_in_panels
from .llvm.compile import compile_object
from .llvm.host.driver import DriverPlan, emit_driver
from .llvm.host.kernel import lower_kernel
from .llvm.ir import Module
from .llvm.mathlib import check_target
from .nest import Extent
from .program import BlockProgram, Launch
from .schedule.plan import Plan, schedule
from .target import HostTarget
from .tile.host_schedule import HostLimits
from .tile.tile import Tiler
from .tt.text import print_module

Stage = Literal["expand", "schedule", "layouts", "tile", "lower", "compile"]
STAGES: tuple[Stage, ...] = ("expand", "schedule", "layouts", "tile", "lower", "compile")


@dataclass(slots=True)
class Lowered:
    """The state of a lowering: every stage fills in its part. `seconds` is what each stage took."""

    graph: Graph
    target: HostTarget
    expanded: Graph | None = None
    plan: Plan | None = None
    layouts: tuple[ConstantLayout, ...] = ()
    packed: tuple[bool, ...] = ()
    programs: tuple[BlockProgram, ...] = ()
    launches: tuple[Launch, ...] = ()
    module: str = ""
    object_code: bytes = b""
    seconds: dict[str, float] = field(default_factory=dict)

    def text(self, stage: Stage) -> str:
        """What the stage produced, as text."""
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
                return f"{len(self.object_code)} bytes of object code"


def lower_graph(graph: Graph, target: HostTarget, stop_after: Stage | None = None) -> Lowered:
    """Lower a finished graph for a target, stage by stage."""
    if stop_after is not None and stop_after not in STAGES:
        raise UserError(f"no stage {stop_after!r}; expected one of {', '.join(STAGES)}")
    state = Lowered(graph, target)
    for stage in STAGES:
        started = time.perf_counter()
        _RUN[stage](state)
        state.seconds[stage] = time.perf_counter() - started
        if stage == stop_after:
            break
    return state


def _expand(state: Lowered) -> None:
    state.expanded = expand(state.graph)


def _schedule(state: Lowered) -> None:
    assert state.expanded is not None
    state.plan = schedule(state.expanded)


def _layouts(state: Lowered) -> None:
    assert state.plan is not None
    state.plan, state.layouts, state.packed = store_in_panels(state.plan)


def _tile(state: Lowered) -> None:
    assert state.plan is not None
    limits = HostLimits.of(state.target)
    tiler = Tiler(limits)
    launches = []
    for nest, packed in zip(state.plan.nests, state.packed, strict=True):
        chosen = replace(limits.schedule(nest), packed_b=PANEL) if packed else None
        launches.append(tiler.tile(nest, chosen)[1])
    state.programs, state.launches = tuple(tiler.programs), tuple(launches)


def _lower(state: Lowered) -> None:
    assert state.plan is not None
    assert state.expanded is not None
    check_target(state.target)
    module = Module()
    names = [program.name for program in state.programs]
    for program, name in zip(state.programs, names, strict=True):
        lower_kernel(module, program.func, name, state.target)
    emit_driver(module, driver_plan(state, names))
    state.module = module.text()


def _compile(state: Lowered) -> None:
    state.object_code = compile_object(state.module, state.target)


_RUN: dict[Stage, Any] = {
    "expand": _expand,
    "schedule": _schedule,
    "layouts": _layouts,
    "tile": _tile,
    "lower": _lower,
    "compile": _compile,
}


def dim_names(graph: Graph) -> tuple[str, ...]:
    """The symbolic dims of a graph in the order of their first appearance in its inputs."""
    names: dict[str, None] = {}
    for symbol in graph.inputs:
        for extent in symbol.shape:
            if not isinstance(extent, int):
                names.update(dict.fromkeys(sorted(extent.symbols())))
    return tuple(names)


def driver_plan(state: Lowered, names: Sequence[str]) -> DriverPlan:
    plan = state.plan
    assert plan is not None
    return DriverPlan(
        dims=dim_names(state.graph),
        inputs=len(plan.inputs),
        constants=len(plan.constants),
        outputs=tuple(symbol.shape for symbol in state.graph.outputs),
        offsets=tuple(plan.memory.offsets),
        arena_bytes=plan.memory.size,
        launches=state.launches,
        kernels=tuple(names[launch.program] for launch in state.launches),
        checks=tuple((check[0], check[1]) for check in state.graph.checks),
    )


def finish(state: Lowered, key: str, labels: dict[int, str]) -> CompiledGraph:
    """The compiled form. `labels` names the constant symbols of the scheduled graph."""
    plan, graph = state.plan, state.graph
    assert plan is not None
    constants = tuple(
        ConstantSpec(
            labels[layout.symbol],
            buffer.dtype.name,
            _static(buffer.shape[::-1] if layout.transposed else buffer.shape),
            layout.layout,
        )
        for buffer, layout in zip(plan.constants, state.layouts, strict=True)
    )
    reports = []
    for launch in state.launches:
        program = state.programs[launch.program]
        reports.append(
            KernelReport(
                program.name,
                program.template,
                launch.fused,
                _size(launch.grid),
                program.tiles,
                _size(launch.bytes_read),
                _size(launch.bytes_written),
                _size(launch.flops),
            )
        )
    return CompiledGraph(
        name=graph.name,
        target=state.target.key,
        key=key,
        object_code=state.object_code,
        dims=dim_names(graph),
        inputs=tuple(TensorSpec(s.name or "", s.dtype.name, _shape(s.shape)) for s in graph.inputs),
        outputs=tuple(
            TensorSpec(name, s.dtype.name, _shape(s.shape))
            for name, s in zip(graph.output_names, graph.outputs, strict=True)
        ),
        constants=constants,
        checks=tuple(check[2] for check in graph.checks),
        kernels=tuple(reports),
        ttir={program.name: print_module(program.func) for program in state.programs},
        llvm_ir=state.module,
    )


def _size(extent: Extent) -> int | str:
    return extent if isinstance(extent, int) else str(extent)


def _shape(shape: Sequence[Extent]) -> tuple[int | str, ...]:
    return tuple(_size(extent) for extent in shape)


def _static(shape: Sequence[Extent]) -> tuple[int, ...]:
    return tuple(extent for extent in shape if isinstance(extent, int))

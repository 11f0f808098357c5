"""The whole lowering of a graph, as one function that reads as its stages.

    graph ─ expand ─ schedule ─ layouts ─ tile ─ lower ─ compile ─► CompiledGraph

The first two stages are the same for all targets; the others are `host_stages.HOST` or `gpu_stages.GPU`.

`lower_graph(..., stop_after=stage)` returns the state after a stage; `LoweringState.text(stage)` prints it.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from functools import partial

from ..graph.graph import Graph
from ..promotion.errors import UserError
from .artifact import CompiledGraph, ConstantSpec, KernelReport, TensorSpec
from .gc_paused import gc_paused
from .graph_passes.expand import expand
from .graph_passes.weight_packing import ConstantLayout
from .graph_passes.wide import split_complex128
from .launch_checks import check_messages
from .llvm.nvptx.targets import GpuTarget
from .nest import Buffer, Extent, size_text
from .schedule.plan import schedule
from .state import STAGES, Backend, LoweringState, Stage
from .target import HostTarget
from .tile.user_lines import short_names
from .tt.printing import print_module
from .tt.transforms.tiled import run_tiled_pipeline

Run = Callable[[LoweringState], None]


@gc_paused()
def lower_graph(
    graph: Graph,
    target: HostTarget | GpuTarget,
    backend: Backend,
    stop_after: Stage | None = None,
    numerics: str = "strict",
    debug: bool = False,
) -> LoweringState:
    """Lowers a finished graph for a target, stage by stage. `backend`: the stages of the kind of target. `numerics`: one of
    `NUMERICS`. `debug`: whether the code has line tables."""
    if stop_after is not None and stop_after not in STAGES:
        raise UserError(f"no stage {stop_after!r}; expected one of {', '.join(STAGES)}")
    state = LoweringState(graph, target, numerics, debug)
    tile: Run = partial(_tile, backend)
    runs = (_expand, _schedule, backend.layouts, tile, backend.lower, backend.compile)
    for stage, run in zip(STAGES, runs, strict=True):
        started = time.perf_counter()
        run(state)
        state.seconds[stage] = time.perf_counter() - started
        if stage == stop_after:
            break
    return state


def _expand(state: LoweringState) -> None:
    state.expanded, state.wide = split_complex128(expand(state.graph))


def _schedule(state: LoweringState) -> None:
    assert state.expanded is not None
    state.plan = schedule(state.expanded)


def _tile(backend: Backend, state: LoweringState) -> None:
    backend.tile(state)
    run_tiled_pipeline([program.func for program in state.programs], state.numerics)


def block_texts(
    graph: Graph, target: HostTarget | GpuTarget, backend: Backend, numerics: str, locations: bool
) -> dict[str, str]:
    """The block programs of a graph as text, by kernel name. `locations`: with the user's lines."""
    state = lower_graph(graph, target, backend, stop_after="tile", numerics=numerics)
    files = short_names({symbol.location.file for symbol in graph.symbols})
    return {program.name: print_module(program.func, locations, files=files) for program in state.programs}


def finish(state: LoweringState, backend: Backend, key: str, labels: dict[int, str]) -> CompiledGraph:
    """The compiled form, after all stages, without the texts of `block_texts`. `labels` names the constant symbols of the
    scheduled graph."""
    plan, graph = state.plan, state.graph
    assert plan is not None
    constants = tuple(
        ConstantSpec(
            labels[layout.symbol],
            "complex128" if layout.symbol in state.wide else buffer.dtype.name,
            _static(_plain_shape(state, buffer, layout)),
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
                size_text(launch.grid),
                program.tiles,
                size_text(launch.bytes_read),
                size_text(launch.bytes_written),
                size_text(launch.flops),
            )
        )
    return CompiledGraph(
        name=graph.name,
        target=state.target.key,
        key=key,
        object_code=state.object_code,
        dims=graph.dim_names,
        inputs=tuple(TensorSpec(s.name or "", s.dtype.name, _shape(s.shape)) for s in graph.inputs),
        outputs=tuple(
            TensorSpec(name, s.dtype.name, _shape(s.shape))
            for name, s in zip(graph.output_names, graph.outputs, strict=True)
        ),
        constants=constants,
        checks=check_messages(state),
        kernels=tuple(reports),
        ttir={},
        llvm_ir=state.module,
        gpu=backend.program(state),
        numerics=state.numerics,
    )


def _plain_shape(state: LoweringState, buffer: Buffer, layout: ConstantLayout) -> tuple[Extent, ...]:
    """The shape of a constant as the user gave it."""
    if layout.symbol in state.wide:
        return buffer.shape[:-1]
    return buffer.shape[::-1] if layout.transposed else buffer.shape


def _shape(shape: Sequence[Extent]) -> tuple[int | str, ...]:
    return tuple(size_text(extent) for extent in shape)


def _static(shape: Sequence[Extent]) -> tuple[int, ...]:
    return tuple(extent for extent in shape if isinstance(extent, int))

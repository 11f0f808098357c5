"""Lowers a graph to its compiled form, stage by stage.

    graph ─ expand ─ schedule ─ lay out ─ tile ─ lower ─ compile ─► CompiledGraph

The first two stages are the same for all targets; the others are the back end's (`stages.Backend`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TypeVar

from ..graph.graph import Graph
from ..graph.ops.control import has_control
from .artifact import CompiledGraph, ConstantSpec, KernelReport, TensorSpec
from .choices.options import Options
from .control.blocks import divide
from .control.scheduling import schedule_block
from .gc_paused import gc_paused
from .graph_passes.byte_functions import with_byte_tables
from .graph_passes.channels_last import keep_channels_last
from .graph_passes.expand import expand
from .graph_passes.parts.borders import with_borders_apart
from .graph_passes.parts.columns_apart import with_columns_apart
from .graph_passes.weight_packing import ConstantLayout
from .graph_passes.whole_lines import WholeLines
from .graph_passes.wide import split_complex128
from .graph_passes.winograd import convolutions_apart
from .launch_checks import check_messages
from .nest import Buffer, Extent, size_text
from .schedule.plan import schedule
from .stages import Backend, Compiled, Expanded, LaidOut, Scheduled, Target, Tiled
from .tile.user_lines import short_names
from .tt.printing import print_module
from .tt.transforms.tiled import run_tiled_pipeline

L = TypeVar("L")


@gc_paused()
def compile_graph(graph: Graph, backend: Backend[L], options: Options) -> Compiled:
    """Lowers and compiles a finished graph for the target of a back end."""
    tiled = tile_graph(graph, backend, options)
    return backend.compile(backend.lower(tiled, options))


@gc_paused()
def tile_graph(graph: Graph, backend: Backend[L], options: Options) -> Tiled:
    """Returns the block programs of a finished graph, after the passes that belong to its numerics."""
    is_host = backend.sorted_bytes > 0
    is_free = is_host and options.numerics != "reproducible"
    lines = WholeLines(backend.sorted_bytes, is_free, is_free, is_free and backend.has_short_rows, backend.tables)
    tiled = backend.tile(backend.lay_out(scheduled(expanded(graph, lines), is_free, is_host), options), options)
    run_tiled_pipeline([program.func for program in tiled.programs], options.numerics)
    return tiled


def expanded(graph: Graph, lines: WholeLines) -> Expanded:
    """Expands the graph into primitive operations, looks functions of bytes up, computes short rows by columns, keeps channels
    last, takes borders apart, and makes complex128 values pairs of uint64.

    A graph with loops or branches is divided first, and each of its parts expanded. lines: as for `expand`.
    """
    if has_control(graph):
        block = divide(graph, frozenset((*graph.dim_names, *graph.outer_dims)), lines)
        return Expanded(graph, graph, block.wide(), block)
    made = with_byte_tables(expand(graph, lines), lines.tables)
    if lines.columns:
        made = with_columns_apart(made, lines.short_rows)
    made = keep_channels_last(made)
    return Expanded(graph, *split_complex128(with_borders_apart(made) if lines.sorted_bytes else made))


def scheduled(expanded: Expanded, in_tiles: bool = False, stores_repeated: bool = False) -> Scheduled:
    """Fuses the graph into loop nests in execution order, and assigns memory to the values between them.

    in_tiles: whether the target computes convolutions in tiles of their results.
    stores_repeated: whether it stores what a kernel would compute again and again.
    """
    if expanded.block is not None:
        return Scheduled(expanded, schedule_block(expanded.block, stores_repeated))
    apart = convolutions_apart(expanded.graph) if in_tiles else ()
    return Scheduled(expanded, schedule(expanded.graph, apart, stores_repeated))


def block_texts(graph: Graph, backend: Backend[L], options: Options, locations: bool) -> dict[str, str]:
    """Returns the block programs of a graph as text by kernel name, with the user's lines if `locations` is
    set."""
    tiled = tile_graph(graph, backend, options)
    files = short_names({symbol.location.file for symbol in graph.symbols})
    return {program.name: print_module(program.func, locations, files=files) for program in tiled.programs}


def finish(compiled: Compiled, target: Target, options: Options, key: str, labels: Mapping[int, str]) -> CompiledGraph:
    """Returns the compiled form, whose `ttir` is still empty.

    labels: the stored name of each constant, by the id of its symbol in the expanded graph.
    """
    tiled = compiled.tiled
    graph, laid_out, wide = tiled.source, tiled.laid_out, tiled.laid_out.expanded.wide
    constants = tuple(
        ConstantSpec(
            labels[layout.symbol],
            "complex128" if layout.symbol in wide else buffer.dtype.name,
            _static(_plain_shape(laid_out, buffer, layout)),
            layout.layout,
        )
        for buffer, layout in zip(laid_out.plan.constants, laid_out.layouts, strict=True)
    )
    reports = []
    for launch in tiled.launches:
        program = tiled.programs[launch.program]
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
        target=target.key,
        key=key,
        object_code=compiled.object_code,
        dims=graph.dim_names,
        inputs=tuple(TensorSpec(s.name or "", s.dtype.name, _shape(s.shape)) for s in graph.inputs),
        outputs=tuple(
            TensorSpec(name, s.dtype.name, _shape(s.shape))
            for name, s in zip(graph.output_names, graph.outputs, strict=True)
        ),
        constants=constants,
        checks=check_messages(graph),
        kernels=tuple(reports),
        ttir={},
        llvm_ir=compiled.llvm_ir,
        gpu=compiled.gpu,
        numerics=options.numerics,
    )


def _plain_shape(laid_out: LaidOut, buffer: Buffer, layout: ConstantLayout) -> tuple[Extent, ...]:
    """Returns the shape of a constant as the user gave it."""
    if layout.symbol in laid_out.expanded.wide:
        return buffer.shape[:-1]
    return buffer.shape[::-1] if layout.transposed else buffer.shape


def _shape(shape: Sequence[Extent]) -> tuple[int | str, ...]:
    return tuple(size_text(extent) for extent in shape)


def _static(shape: Sequence[Extent]) -> tuple[int, ...]:
    return tuple(extent for extent in shape if isinstance(extent, int))

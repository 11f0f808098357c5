"""Defines the GPU back end: operands stored plainly, blocks sized for threads, a PTX module per kernel."""

from __future__ import annotations

from ..graph.dims.dim import maximum
from ..graph.reference.budget import MAX_SIZE
from .artifact import GPU_ALIGNMENT, GpuLaunch, GpuProgram, KernelCode
from .graph_passes.weight_packing import ConstantLayout
from .launch_checks import launch_checks, magnitude
from .llvm.compile_ptx import compile_ptx
from .llvm.nvptx.gpu_kernel import GpuKernel
from .llvm.nvptx.kernel import lower_to_threads
from .llvm.nvptx.passes.mark_few_pointers import MarkFewPointers
from .llvm.nvptx.targets import GpuTarget
from .nest import size_text
from .program import BlockProgram, DescriptorArgument
from .state import Backend, LoweringState
from .tile.gpu_schedule import GpuLimits
from .tile.tile import Tiler
from .tt.transforms.expand.expand_descriptors import ExpandDescriptors
from .tt.transforms.facts.assume_divisibility import AssumeDivisibility
from .tt.transforms.pipeline import Pipeline, pipeline_of
from .tt.transforms.pipelines import NVPTX


def _target(state: LoweringState) -> GpuTarget:
    assert isinstance(state.target, GpuTarget)
    return state.target


def _choose_layouts(state: LoweringState) -> None:
    assert state.plan is not None
    state.layouts = tuple(ConstantLayout(buffer.symbol, "plain") for buffer in state.plan.constants)


def _tile_plan(state: LoweringState) -> None:
    assert state.plan is not None
    target = _target(state)
    fixed_order = state.numerics == "reproducible"  # matrix instructions add in orders of their own
    use_descriptors, warpgroups = (each and not fixed_order for each in (target.has_tensor_copies, target.has_wgmma))
    limits = GpuLimits(target.shared_bytes, target.processors, use_descriptors, warpgroups, not fixed_order)
    tiler = Tiler(limits, fixed_order)
    state.launches = tiler.tile_all(state.plan.nests, [None] * len(state.plan.nests))
    state.programs = tuple(tiler.programs)


def _lower_programs(state: LoweringState) -> None:
    state.threads = tuple([_lower(program, _target(state), state.numerics, state.debug) for program in state.programs])
    state.module = "\n".join(kernel.llvm_ir for kernel in state.threads)


def _lower(program: BlockProgram, target: GpuTarget, numerics: str, debug: bool) -> GpuKernel:
    function = _pipeline(program, numerics).run_on_copy(program.func)  # the program stays as it was tiled
    return lower_to_threads(function, target, program.warps, debug)


def _pipeline(program: BlockProgram, numerics: str) -> Pipeline:
    # "fast" was applied to the program as it was tiled, and what the tiler says of it is true
    pipeline = pipeline_of(NVPTX, numerics if numerics == "reproducible" else "strict").without("drop-claims")
    first, pointers = program.pointers + program.scalars, tuple(range(program.pointers))
    return pipeline.configured(
        ExpandDescriptors(tuple(range(first, first + program.descriptors))),
        AssumeDivisibility(pointers, (GPU_ALIGNMENT,) * len(pointers)),
        MarkFewPointers(program.warps),
    )


def _compile_module(state: LoweringState) -> None:
    target = _target(state)
    state.kernels = tuple([kernel_code(each, compile_ptx(each.llvm_ir, target)) for each in state.threads])


def kernel_code(lowered: GpuKernel, ptx: str) -> KernelCode:
    """What a device needs of a kernel."""
    return KernelCode(
        lowered.symbol,
        lowered.target.name,
        ptx,
        lowered.target.ptx,
        lowered.threads,
        lowered.shared_bytes,
        lowered.parameters,
        lowered.tensor_maps,
    )


def _description(tensor: DescriptorArgument) -> tuple[tuple[str, int] | int | str, ...]:
    """What the passes make of a descriptor: address, extents, strides, whether it pads with NaN. A tensor that is empty at run
    time is not read; its map needs extents that are not 0 all the same."""
    extents = [each if isinstance(each, int) else f"max({each}, 1)" for each in tensor.extents]
    return ((tensor.buffer.kind, tensor.buffer.index), *extents, *map(size_text, tensor.strides), 0)


def _gpu_program(state: LoweringState) -> GpuProgram:
    """The launches as data: sizes that are known at run time only become texts of dim expressions."""
    plan = state.plan
    assert plan is not None
    launches = tuple(
        GpuLaunch(
            launch.program,
            (
                *[(buffer.kind, buffer.index) for buffer in launch.buffers],
                *[size_text(extent) for extent in launch.scalars],
                *[argument for tensor in launch.descriptors for argument in _description(tensor)],
            ),
            size_text(launch.grid),
        )
        for launch in state.launches
    )
    fits = (maximum(magnitude(state) - (MAX_SIZE - 1), 0), 0)
    checks = tuple((size_text(lhs), size_text(rhs)) for lhs, rhs in (fits, *[c[:2] for c in launch_checks(state)]))
    offsets = tuple(size_text(extent) for extent in plan.memory.offsets)
    return GpuProgram(state.kernels, launches, offsets, size_text(plan.memory.size), checks)


GPU = Backend(_choose_layouts, _tile_plan, _lower_programs, _compile_module, _gpu_program)

"""Defines the GPU back end: operands stored plainly, blocks sized for threads, a PTX module per kernel."""

from __future__ import annotations

from dataclasses import replace

from ..graph.checks import MAX_SIZE
from ..graph.dims.dim import maximum
from ..promotion.dataclass import dataclass
from .artifact import GPU_ALIGNMENT, GpuLaunch, GpuProgram, KernelCode
from .choices.kernel_schedules import chosen_schedules, kernel_names
from .choices.options import Options
from .control.gpu_steps import gpu_steps, variable_alignments
from .control.together import in_order
from .graph_passes.weight_packing import ConstantLayout
from .launch_checks import launch_checks, magnitude
from .llvm.compile_ptx import compile_ptx
from .llvm.nvptx.gpu_kernel import GpuKernel
from .llvm.nvptx.kernel import lower_to_threads
from .llvm.nvptx.passes.mark_few_pointers import MarkFewPointers
from .llvm.nvptx.targets import GpuTarget
from .nest import size_text
from .program import BlockProgram, Launch
from .stages import Compiled, LaidOut, Scheduled, Tiled
from .tile.cost_models.gpu import GpuLimits
from .tile.tile import Tiler
from .tt.dialect.memory.descriptor_types import TensorDescType
from .tt.transforms.expand.expand_descriptors import ExpandDescriptors
from .tt.transforms.facts.assume_divisibility import AssumeDivisibility
from .tt.transforms.pipeline import Pipeline, pipeline_of
from .tt.transforms.pipelines import NVPTX
from .tt.types import bit_width

MAP_MULTIPLE = 16
"""The strides of a tensor map are positive multiples of this many bytes. Source: NVIDIA, "CUDA Driver API"."""


@dataclass(frozen=True, slots=True)
class GpuModules:
    """The LLVM modules of a model, one per block program."""

    tiled: Tiled
    kernels: tuple[GpuKernel, ...]

    def text(self) -> str:
        return "\n".join(kernel.llvm_ir for kernel in self.kernels)


@dataclass(frozen=True, slots=True)
class NvptxBackend:
    """Lowers to PTX of an NVIDIA GPU."""

    target: GpuTarget

    @property
    def sorted_bytes(self) -> int:
        return 0

    @property
    def has_short_rows(self) -> bool:
        return False

    @property
    def tables(self) -> tuple[tuple[int, int], ...]:
        return ()

    def lay_out(self, scheduled: Scheduled, options: Options) -> LaidOut:
        plan = replace(scheduled.plan, steps=in_order(scheduled.plan.steps))
        layouts = tuple(ConstantLayout(buffer.symbol, "plain") for buffer in plan.constants)
        return LaidOut(scheduled.expanded, plan, layouts, (None,) * len(plan.nests), kernel_names(plan.nests))

    def tile(self, laid_out: LaidOut, options: Options) -> Tiled:
        target, plan = self.target, laid_out.plan
        nests, alignments = plan.nests, variable_alignments(plan.steps, GPU_ALIGNMENT)
        fixed_order = options.numerics == "reproducible"  # matrix instructions add in orders of their own
        use_descriptors, warpgroups = (each and not fixed_order for each in (target.has_tensor_copies, target.has_wgmma))
        limits = GpuLimits(target.shared_bytes, target.processors, use_descriptors, warpgroups, not fixed_order)
        unaligned = [number for number, divisor in alignments.items() if divisor % MAP_MULTIPLE]
        tiler = Tiler(limits, frozenset(unaligned))
        chosen = chosen_schedules(nests, laid_out.names, [limits.schedule(nest) for nest in nests], options)
        launches = tiler.tile_all(nests, chosen, laid_out.names)
        return Tiled(laid_out, tuple(tiler.programs), launches, chosen)

    def lower(self, tiled: Tiled, options: Options) -> GpuModules:
        divisors = _divisors(tiled)
        kernels = [
            _lower(program, self.target, options, known) for program, known in zip(tiled.programs, divisors, strict=True)
        ]
        return GpuModules(tiled, tuple(kernels))

    def compile(self, lowered: GpuModules) -> Compiled:
        kernels = tuple([kernel_code(each, compile_ptx(each.llvm_ir, self.target)) for each in lowered.kernels])
        return Compiled(lowered.tiled, lowered.text(), gpu=_gpu_program(lowered.tiled, kernels))


def _divisors(tiled: Tiled) -> list[tuple[int, ...]]:
    """Returns for each program what divides the addresses that its launches pass."""
    steps = variable_alignments(tiled.plan.steps, GPU_ALIGNMENT)
    divisors = [[GPU_ALIGNMENT] * program.pointers for program in tiled.programs]
    for launch in tiled.launches:
        known = divisors[launch.program]
        for number, buffer in enumerate(launch.buffers):
            if buffer.kind == "variable":
                known[number] = min(known[number], steps[buffer.index])
    return [tuple(each) for each in divisors]


def _lower(program: BlockProgram, target: GpuTarget, options: Options, divisors: tuple[int, ...]) -> GpuKernel:
    pipeline = _pipeline(program, options.numerics, divisors)
    function = pipeline.run_on_copy(program.func)  # the program stays as it was tiled
    return lower_to_threads(function, target, program.warps, options.debug)


def _pipeline(program: BlockProgram, numerics: str, divisors: tuple[int, ...]) -> Pipeline:
    # the passes of "fast" ran on the tiled program already, and the hints that the tiler attaches are true
    pipeline = pipeline_of(NVPTX, numerics if numerics == "reproducible" else "strict").without("drop-claims")
    first, pointers = program.pointers + program.scalars, tuple(range(program.pointers))
    return pipeline.configured(
        ExpandDescriptors(tuple(range(first, first + program.descriptors))),
        AssumeDivisibility(pointers, divisors),
        MarkFewPointers(program.warps),
    )


def kernel_code(lowered: GpuKernel, ptx: str) -> KernelCode:
    """Returns the kernel as the data that a device needs: its PTX and what a launch of it takes."""
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


def _descriptions(program: BlockProgram, launch: Launch) -> list[tuple[str, int] | int | str]:
    """Returns the arguments into which the passes expand a launch's descriptors: address, extents, strides, and 0 to
    pad with zeros.

    Extents and strides known only at run time are raised to the least that a tensor map takes, 1 and `MAP_MULTIPLE` bytes:
    those of an empty tensor may be 0, and it is not read.
    """
    first = program.pointers + program.scalars
    kinds = program.func.function_type.inputs.data[first : first + program.descriptors]
    found: list[tuple[str, int] | int | str] = []
    for kind, tensor in zip(kinds, launch.descriptors, strict=True):
        assert isinstance(kind, TensorDescType)
        row = MAP_MULTIPLE * 8 // bit_width(kind.block_type.element_type)
        found.append((tensor.buffer.kind, tensor.buffer.index))
        found += [each if isinstance(each, int) else f"max({each}, 1)" for each in tensor.extents]
        found += [each if isinstance(each, int) else f"max({each}, {row})" for each in tensor.strides]
        found.append(0)
    return found


def _gpu_program(tiled: Tiled, kernels: tuple[KernelCode, ...]) -> GpuProgram:
    """Returns the launches as data, in which sizes known only at run time are the text of dim expressions."""
    memory = tiled.plan.memory
    launches = tuple(
        GpuLaunch(
            launch.program,
            (
                *[(buffer.kind, buffer.index) for buffer in launch.buffers],
                *[size_text(extent) for extent in launch.scalars],
                *_descriptions(tiled.programs[launch.program], launch),
            ),
            size_text(launch.grid),
        )
        for launch in tiled.launches
    )
    fits = (maximum(magnitude(tiled) - (MAX_SIZE - 1), 0), 0)
    checks = tuple((size_text(lhs), size_text(rhs)) for lhs, rhs in (fits, *[c[:2] for c in launch_checks(tiled.source)]))
    offsets = tuple(size_text(extent) for extent in memory.offsets)
    steps = gpu_steps(tiled.plan.steps, tiled.launches)
    return GpuProgram(kernels, launches, offsets, size_text(memory.size), checks, steps, tiled.plan.variables)

"""Defines the host back end: operands packed in panels, blocks sized for caches, one LLVM module for all kernels."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from ..promotion.dataclass import dataclass
from ..promotion.errors import InternalError
from .choices.kernel_schedules import chosen_schedules
from .choices.model_schedule import Algorithm, allowed_algorithms
from .choices.options import Options
from .graph_passes.products.symmetric_products import with_symmetric_products
from .graph_passes.products.turned_operands import with_turned_operands
from .graph_passes.weight_packing import store_in_panels
from .launch_checks import launch_checks, magnitude
from .llvm.compile import compile_object
from .llvm.host.driver import emit_driver
from .llvm.host.driver_launches import DriverPlan
from .llvm.host.kernel import lower_kernel
from .llvm.math.library import check_target
from .llvm.metadata import Metadata
from .llvm.module import Module
from .stages import Compiled, LaidOut, Scheduled, Tiled
from .target import LONGEST_SORTED_BYTES, MAX_SORTED_BYTES, HostTarget
from .tile.cost_models.host import HostLimits
from .tile.tile import Tiler


@dataclass(frozen=True, slots=True)
class HostModule:
    """The LLVM module of a model: its kernels, and the driver that launches them."""

    tiled: Tiled
    llvm_ir: str

    def text(self) -> str:
        return self.llvm_ir


@dataclass(frozen=True, slots=True)
class HostBackend:
    """Lowers to object code of a CPU."""

    target: HostTarget

    @property
    def sorted_bytes(self) -> int:
        return LONGEST_SORTED_BYTES if self.target.compresses else MAX_SORTED_BYTES

    @property
    def has_short_rows(self) -> bool:
        return self.target.picks_lanes

    @property
    def tables(self) -> tuple[tuple[int, int], ...]:
        return self.target.tables

    def lay_out(self, scheduled: Scheduled, options: Options) -> LaidOut:
        kernels = options.schedule.kernels

        def algorithm(name: str) -> Algorithm | None:
            return kernels[name].algorithm if name in kernels else None

        allowed = allowed_algorithms(options.numerics)
        plan = with_symmetric_products(scheduled.plan, self.target.has_short_vectors)
        plan = with_turned_operands(plan) if self.target.has_short_vectors else plan
        return LaidOut(scheduled.expanded, *store_in_panels(plan, algorithm, allowed, options.threads))

    def tile(self, laid_out: LaidOut, options: Options) -> Tiled:
        plan, limits = laid_out.plan, HostLimits.of(self.target, options.threads, options.numerics == "reproducible")
        tiler = Tiler(limits)
        default = [
            replace(limits.schedule(nest, panels.width), packed_b=panels.width, together=panels.together) if panels
            else limits.schedule(nest)
            for nest, panels in zip(plan.nests, laid_out.packed, strict=True)
        ]
        chosen = chosen_schedules(plan.nests, laid_out.names, default, options)
        launches = tiler.tile_all(plan.nests, chosen, laid_out.names)
        return Tiled(laid_out, tuple(tiler.programs), launches, chosen)

    def lower(self, tiled: Tiled, options: Options) -> HostModule:
        check_target(self.target)
        module = Module(opaque_indices=True, metadata=Metadata("LineTablesOnly" if options.debug else None))
        names = [program.name for program in tiled.programs]
        for program, name in zip(tiled.programs, names, strict=True):
            if lower_kernel(module, program.func, name, self.target):
                raise InternalError(f"{name} may stop a launch, and graphs have no status words")
        emit_driver(module, _driver_plan(tiled, names), self.target)
        return HostModule(tiled, module.text())

    def compile(self, lowered: HostModule) -> Compiled:
        return Compiled(lowered.tiled, lowered.llvm_ir, compile_object(lowered.llvm_ir, self.target))


def _driver_plan(tiled: Tiled, names: Sequence[str]) -> DriverPlan:
    plan, graph = tiled.plan, tiled.source
    return DriverPlan(
        dims=graph.dim_names,
        inputs=len(plan.inputs),
        constants=len(plan.constants),
        outputs=tuple(symbol.shape for symbol in graph.outputs),
        offsets=tuple(plan.memory.offsets),
        arena_bytes=plan.memory.size,
        launches=tiled.launches,
        kernels=tuple(names[launch.program] for launch in tiled.launches),
        magnitude=magnitude(tiled),
        checks=tuple((check[0], check[1]) for check in launch_checks(graph)),
        steps=plan.steps,
        variables=plan.variables,
    )

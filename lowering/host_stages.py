"""Defines the host back end: operands packed in panels, blocks sized for caches, one LLVM module for all kernels."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from ..promotion.errors import InternalError
from .graph_passes.weight_packing import PANEL, store_in_panels
from .launch_checks import launch_checks, magnitude
from .llvm.compile import compile_object
from .llvm.host.driver import DriverPlan, emit_driver
from .llvm.host.kernel import lower_kernel
from .llvm.math.library import check_target
from .llvm.metadata import Metadata
from .llvm.module import Module
from .state import Backend, LoweringState
from .target import HostTarget
from .tile.host_schedule import HostLimits
from .tile.tile import Tiler


def _target(state: LoweringState) -> HostTarget:
    assert isinstance(state.target, HostTarget)
    return state.target


def _choose_layouts(state: LoweringState) -> None:
    assert state.plan is not None
    state.plan, state.layouts, state.packed = store_in_panels(state.plan)


def _tile_plan(state: LoweringState) -> None:
    assert state.plan is not None
    limits = HostLimits.of(_target(state))
    tiler = Tiler(limits, fixed_order=state.numerics == "reproducible")
    chosen = [
        replace(limits.schedule(nest), packed_b=PANEL) if packed else None
        for nest, packed in zip(state.plan.nests, state.packed, strict=True)
    ]
    state.launches = tiler.tile_all(state.plan.nests, chosen)
    state.programs = tuple(tiler.programs)


def _lower_programs(state: LoweringState) -> None:
    target = _target(state)
    check_target(target)
    module = Module(opaque_indices=True, metadata=Metadata("LineTablesOnly" if state.debug else None))
    names = [program.name for program in state.programs]
    for program, name in zip(state.programs, names, strict=True):
        if lower_kernel(module, program.func, name, target):
            raise InternalError(f"{name} may stop a launch, and graphs have no status words")
    emit_driver(module, _driver_plan(state, names), target)
    state.module = module.text()


def _compile_module(state: LoweringState) -> None:
    state.object_code = compile_object(state.module, _target(state))


def _driver_plan(state: LoweringState, names: Sequence[str]) -> DriverPlan:
    plan = state.plan
    assert plan is not None
    return DriverPlan(
        dims=state.graph.dim_names,
        inputs=len(plan.inputs),
        constants=len(plan.constants),
        outputs=tuple(symbol.shape for symbol in state.graph.outputs),
        offsets=tuple(plan.memory.offsets),
        arena_bytes=plan.memory.size,
        launches=state.launches,
        kernels=tuple(names[launch.program] for launch in state.launches),
        magnitude=magnitude(state),
        checks=tuple((check[0], check[1]) for check in launch_checks(state)),
    )


HOST = Backend(_choose_layouts, _tile_plan, _lower_programs, _compile_module, lambda _: None)

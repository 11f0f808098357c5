"""The driver: one native function that runs a whole model, kernel after kernel, without returning to Python.

`jn_prepare` turns the symbolic dims into sizes and checks; `jn_run` computes grids and arguments and calls every kernel,
directly when the work is small, else through the thread pool (`jn_parallel`, imported from the runtime). Loops and branches of
a graph are loops and branches of its driver (`driver_steps.py`). Where the variable `jn_profile` holds a table, the function
that is its first entry is called at the beginning and after every launch.
"""

from __future__ import annotations

from ....graph.checks import MAX_SIZE
from ....graph.dims.dim import Dim
from ...target import HostTarget
from ..ir import Function
from ..module import Module
from ..values import V, const, i64
from .driver_launches import DriverCode, DriverPlan, emit_sections, load_dims
from .driver_steps import emit_steps
from .float_modes import default_modes
from .loops.extents import emit_approximately, emit_extent
from .scalars import Scalars


def emit_driver(module: Module, plan: DriverPlan, target: HostTarget) -> None:
    """Adds `jn_prepare` and `jn_run` to the module."""
    _emit_prepare(module, plan)
    _emit_run(module, plan, target)


def _emit_prepare(module: Module, plan: DriverPlan) -> None:
    f = Function(module, "jn_prepare", [("ptr", "dims"), ("ptr", "sizes")], "i64")
    s = Scalars(f)
    env = load_dims(f, plan.dims, f.params[0])
    if isinstance(plan.magnitude, Dim):
        _require(f, f.fcmp("olt", emit_approximately(f, plan.magnitude, env), const(float(MAX_SIZE), "double")), 0)
    for index, (left, right) in enumerate(plan.checks, 1):
        _require(f, f.icmp("eq", emit_extent(s, left, env), emit_extent(s, right, env)), index)
    sizes = [plan.arena_bytes, *(extent for shape in plan.outputs for extent in shape)]
    for position, extent in enumerate(sizes):
        f.store(emit_extent(s, extent, env), f.gep(f.params[1], 8 * position), 8)
    f.ret(i64(-1))
    module.add(f)


def _require(f: Function, condition: V, index: int) -> None:
    """Emits a return of the index of the check unless it holds."""
    holds, fails = f.label("holds"), f.label("fails")
    f.cond_branch(condition, holds, fails)
    f.start(fails)
    f.ret(i64(index))
    f.start(holds)


def _emit_run(module: Module, plan: DriverPlan, target: HostTarget) -> None:
    module.declare("jn_parallel", "void", ["ptr", "ptr", "ptr", "i64", "i64"])
    if plan.steps:
        module.declare("jn_poll", "i64", ["ptr", "i64"])
    steps = emit_steps(module, plan, plan.steps) if plan.steps else ""
    sections = [] if steps else emit_sections(module, plan, 0, len(plan.launches))
    f = Function(module, "jn_run", [("ptr", "pool"), ("ptr", "buffers"), ("ptr", "dims")])
    module.globals["jn_profile"] = "@jn_profile = dso_local global ptr null, align 8"
    code = DriverCode(f, plan)
    with default_modes(f, target):
        code.mark(-1)
        if steps:
            f.call(steps, "i64", [*f.params, f.alloca("ptr", max(plan.variables, 1), 8)])
        else:
            for section in sections:
                f.call(section, "void", f.params)
            if not sections:
                code.launch(0, len(plan.launches))
    f.ret()
    module.add(f)

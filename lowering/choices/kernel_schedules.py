"""Names the kernels of a plan, and applies what the user says of their schedules."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from ...promotion.errors import UserError
from ..nest import Nest, size_text
from ..schedule.traffic import fused_names
from ..tile.fixed_order import in_fixed_order
from ..tile.offsets import share_offsets
from ..tile.schedule import Schedule, check_schedule
from ..tile.signature import Signature, signature
from ..tile.structure import products, tile_side
from .model_schedule import (
    ALGORITHMS,
    Algorithm,
    KernelSchedule,
    ModelSchedule,
    ScheduleError,
    require_kernels,
)
from .options import Options


def kernel_names(nests: Sequence[Nest]) -> tuple[str, ...]:
    """Returns the name of the kernel that computes each nest: the template, what is fused, and a number.

    Nests that may share a program, whatever its schedule, have one name.
    """
    known: dict[Signature, str] = {}
    names = []
    for shared in share_offsets(nests, [None] * len(nests)):
        key = signature(shared.nest)
        if key not in known:
            known[key] = _name(shared.nest, len(known))
        names.append(known[key])
    return tuple(names)


def _name(nest: Nest, number: int) -> str:
    ops = list(dict.fromkeys("".join(c if c.isalnum() else "_" for c in op) for op in nest.fused))
    if nest.template == "ordered":  # named by its last op, after what is computed before it
        ops.reverse()
    middle = "_".join(ops[:4])[:48]
    return f"{nest.template}_{middle}_{number}" if middle else f"{nest.template}_{number}"


def algorithm_of(nest: Nest) -> Algorithm | None:
    """Returns how a nest computes a convolution; None for other nests."""
    if nest.template != "contract":
        return None
    product = products(nest)[0]
    side = tile_side(nest, product)
    if side > 1:
        return "winograd" if side == ALGORITHMS["winograd"] else "winograd4"
    return "plain" if product.outer else None


def edited(nest: Nest, default: Schedule, said: KernelSchedule | None, name: str) -> Schedule:
    """Returns the schedule that the cost model chose, with what the user says. Raises `ScheduleError` for an illegal one."""
    if said is None:
        return default
    schedule = default
    if said.blocks is not None:
        axes = {axis.name: number for number, axis in enumerate(nest.axes)}
        for axis in said.blocks:
            if axis not in axes:
                raise ScheduleError(f"schedule: kernel {name!r} has no axis {axis!r}; fix: {', '.join(axes) or 'no blocks'}")
        schedule = replace(schedule, blocks=tuple([(axes[axis], size) for axis, size in said.blocks.items()]))
    found = algorithm_of(nest)
    if said.algorithm is not None and said.algorithm != found:
        fix = "leave it out" if found is None else f"{found!r}, or another one that its numerics allow"
        raise ScheduleError(f"schedule: kernel {name!r} cannot be computed as {said.algorithm!r}; fix: {fix}")
    for key in ("streaming", "group", "warps", "lanes"):
        if (value := getattr(said, key)) is not None:
            schedule = replace(schedule, **{key: value})
    try:
        check_schedule(nest, schedule)
    except UserError as error:
        raise ScheduleError(f"kernel {name!r}: {error}") from error
    return schedule


def schedule_of(names: Sequence[str], nests: Sequence[Nest], schedules: Sequence[Schedule], is_gpu: bool) -> ModelSchedule:
    """Returns all that the schedules of nests say, by the names of their kernels."""
    kernels: dict[str, KernelSchedule] = {}
    about: dict[str, str] = {}
    for name, nest, schedule in zip(names, nests, schedules, strict=True):
        if name in kernels:
            continue
        blocks = {nest.axes[axis].name: size for axis, size in schedule.blocks}
        has_products = nest.template in ("contract", "attention")
        kernels[name] = KernelSchedule(
            blocks,
            algorithm_of(nest),
            streaming=None if is_gpu or nest.template not in ("map", "row") else schedule.streaming,
            group=schedule.group if nest.template == "contract" else None,
            warps=schedule.warps if is_gpu else None,
            lanes=schedule.lanes if (is_gpu and not has_products) or nest.template == "row" else None,
        )
        extents = ", ".join([f"{axis.name} {size_text(axis.extent)}" for axis in nest.axes])
        about[name] = f"{fused_names(nest.fused)}: {extents}".replace("\n", " ")
    return ModelSchedule(kernels, about)


def chosen_schedules(
    nests: Sequence[Nest], names: Sequence[str], default: Sequence[Schedule], options: Options
) -> tuple[Schedule, ...]:
    """Returns the schedules of nests: those of the cost model, what the user says of them, and the fixed blocks of reproducible
    numerics. Raises `ScheduleError` for a kernel that does not exist, and for an illegal schedule."""
    said = options.schedule.kernels
    require_kernels(options.schedule, dict.fromkeys(names), "compile")
    found = [edited(nest, first, said.get(name), name) for nest, name, first in zip(nests, names, default, strict=True)]
    if options.numerics == "reproducible":
        found = [in_fixed_order(nest, schedule) for nest, schedule in zip(nests, found, strict=True)]
    return tuple(found)

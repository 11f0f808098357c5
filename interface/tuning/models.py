"""Tunes the schedules of a model's kernels by measuring them: `joinery.compile(graph, tune=…)`.

    cost model ─► compile ─► profile: time of each kernel ─┐
                     ▲                                     ▼
                     └── every kernel's next candidate ◄── searches (`lowering/choices/search.py`)
    when the time is up, or nothing is left: best of each kernel against the cost model's, by turns; the faster model stays

All kernels try their next candidate in the same compilation, so a round costs one compilation however many kernels there are.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import field
from typing import TYPE_CHECKING

import numpy as np

from ...graph.dims.binding import parse_extent
from ...graph.dims.dim import Dim
from ...lowering.choices.model_schedule import EMPTY, KernelSchedule, ModelSchedule, allowed_algorithms
from ...promotion.arrays import Array
from ...promotion.dataclass import dataclass
from ...promotion.dtype import DType
from ...promotion.errors import UnsupportedError, UserError
from .lock_file import ModelLock
from .progress import Progress

if TYPE_CHECKING:
    from pathlib import Path

    from ...lowering.choices.search import Search
    from ...lowering.nest import Nest
    from ...lowering.stages import Tiled
    from ...lowering.tile.schedule import Schedule
    from ..model import Model

CALLS = 5
"""Calls of a model in a round, of which the fastest launch of each kernel counts."""
COMPARISONS = 7
"""How often the tuned model and the cost model's are compared at the end, by turns."""


@dataclass(frozen=True, slots=True)
class Tuning:
    """What `joinery.compile(graph, tune=)` measures, and for how long.

    Attributes:
        seconds: after how many no other candidate is tried.
        sizes: the sizes to measure with, by name, of dims that are known only at a call.
        inputs: the arrays to measure with, by name; by default floats are normal numbers and all else is 0.
        lock: a file for the choice, JSON; a choice that it has for the same graph, CPU, threads and sizes is taken without
            measuring.
        progress: whether to show on standard error how far it is; by default, if that is a terminal.
    """

    seconds: float
    sizes: Mapping[str, int] = field(default_factory=dict)
    inputs: Mapping[str, Array] | None = None
    lock: str | Path | None = None
    progress: bool | None = None


def checked_tuning(tune: object) -> Tuning:
    """Return the option `tune`, a number of seconds or a `Tuning`. Raises `UserError` for anything else."""
    found = tune if isinstance(tune, Tuning) else None
    if found is None and isinstance(tune, int | float) and not isinstance(tune, bool):
        found = Tuning(float(tune))
    if found is None or not isinstance(found.seconds, int | float) or not 0 < found.seconds < math.inf:
        raise UserError(f"compile: tune={tune!r:.200}; fix: seconds, above 0, or a joinery.Tuning")
    for name, size in found.sizes.items():
        if type(size) is not int or size < 0:
            raise UserError(f"compile: tune with sizes {{{name!r}: {size!r:.80}}}; fix: integers of 0 or more")
    return found


def tuned(
    tuning: Tuning, entry: str, compile_with: Callable[[ModelSchedule], Model], tiled_with: Callable[[ModelSchedule], Tiled]
) -> ModelSchedule:
    """Return the fastest schedule that was found: only what is better than the cost model's choice.

    entry: what identifies the graph, its target and its options. compile_with, tiled_with: compile the graph, and cut it into
    programs, with a schedule. Raises `UserError` for sizes or inputs that are missing.
    """
    lock = None if tuning.lock is None else ModelLock(tuning.lock)
    key = f"{entry} {' '.join([f'{name}={size}' for name, size in sorted(tuning.sizes.items())])}".rstrip()
    if lock is not None and (kept := lock.schedule(key)) is not None:
        return ModelSchedule.from_text(kept)
    first = compile_with(EMPTY)
    inputs = _inputs(first, tuning)
    best = _searched(first, tuning, inputs, compile_with, tiled_with)
    seconds = _seconds(first, inputs)
    if best.kernels:
        is_faster, seconds = _compared(first, compile_with(best), inputs)
        best = best if is_faster else EMPTY
    if lock is not None:
        lock.keep(key, str(best), seconds)
    return best


def _searched(
    first: Model, tuning: Tuning, inputs: Sequence[Array], compile_with: Callable[[ModelSchedule], Model],
    tiled_with: Callable[[ModelSchedule], Tiled],
) -> ModelSchedule:  # fmt: skip
    """Return what is better than the cost model's choice, of each kernel for which there is anything."""
    until = time.monotonic() + tuning.seconds
    searches = _searches(first, tiled_with)
    asked = {name: next(each) for name, each in searches.items()}
    best: dict[str, tuple[KernelSchedule, float]] = {}
    default = dict(asked)
    with Progress("tuning", max(1, math.ceil(tuning.seconds)), tuning.progress) as progress:
        model: Model | None = first
        while asked:
            times = dict.fromkeys(asked, math.inf) if model is None else _times(model, inputs)
            for name, said in list(asked.items()):
                if name not in best or times[name] < best[name][1]:
                    best[name] = said, times[name]
                try:
                    asked[name] = searches[name].send(times[name])
                except StopIteration as found:
                    best[name] = found.value, 0.0
                    del asked[name]
            left = until - time.monotonic()
            progress.reach(int(tuning.seconds - left), f"{len(asked)} of {len(searches)} kernels have other schedules to try")
            if left <= 0 or not asked:
                break
            try:
                model = compile_with(ModelSchedule({**{name: said for name, (said, _) in best.items()}, **asked}))
            except UnsupportedError:  # a block that needs too much scratch memory: none of this round is taken
                model = None
    return ModelSchedule({name: said for name, (said, _) in best.items() if said != default[name]})


def _searches(first: Model, tiled_with: Callable[[ModelSchedule], Tiled]) -> dict[str, Search]:
    from ...lowering.choices.kernel_schedules import algorithm_of
    from ...lowering.choices.search import search
    from ...lowering.graph_passes.winograd import convolution_of

    tiled = first._tiled() if first._tiled is not None else tiled_with(EMPTY)
    names = tiled.laid_out.names
    convolutions = {
        name: now
        for name, nest in zip(names, tiled.plan.nests, strict=True)
        if (now := algorithm_of(nest)) is not None and (now != "plain" or convolution_of(nest) is not None)
    }
    swapped: dict[str, dict[str, tuple[Nest, Schedule]]] = {name: {} for name in names}
    for algorithm in allowed_algorithms(first.numerics):
        others = {name: KernelSchedule(algorithm=algorithm) for name, now in convolutions.items() if now != algorithm}
        if others:
            turned = tiled_with(ModelSchedule(others))
            for name, nest, schedule in zip(turned.laid_out.names, turned.plan.nests, turned.schedules, strict=True):
                if name in others:
                    swapped[name][algorithm] = nest, schedule
    found: dict[str, Search] = {}
    for name, nest, schedule in zip(names, tiled.plan.nests, tiled.schedules, strict=True):
        if name not in found:
            found[name] = search(nest, schedule, name, tuple(swapped[name].values()))
    return found


def _times(model: Model, inputs: Sequence[Array]) -> dict[str, float]:
    """Return the fastest time of all launches of each kernel, by name."""
    assert model._tiled is not None
    names = model._tiled().laid_out.names
    found = dict.fromkeys(names, 0.0)
    for launch in model.profile(*inputs, repeat=CALLS).kernels:
        found[names[launch.number - 1]] += launch.fastest
    return found


def _seconds(model: Model, inputs: Sequence[Array]) -> float:
    start = time.perf_counter()
    model(*inputs)
    return time.perf_counter() - start


def _compared(first: Model, second: Model, inputs: Sequence[Array]) -> tuple[bool, float]:
    """Return whether the second model was faster in most turns and at best, and the least time of the faster one."""
    for model in (first, second):
        model(*inputs)
    times = [(_seconds(first, inputs), _seconds(second, inputs)) for _ in range(COMPARISONS)]
    least = [min(each) for each in zip(*times, strict=True)]
    wins = sum(second_time < first_time for first_time, second_time in times)
    is_faster = wins > COMPARISONS // 2 and least[1] < least[0]
    return is_faster, least[is_faster]


def _inputs(model: Model, tuning: Tuning) -> list[Array]:
    """Return the arrays to measure with."""
    given = dict(tuning.inputs or {})
    names = [spec.name for spec in model.inputs]
    for name in given:
        if name not in names:
            raise UserError(f"compile: tune with an input {name!r}; fix: {', '.join(map(repr, names))}")
    found = []
    for spec in model.inputs:
        if spec.name in given:
            found.append(given[spec.name])
            continue
        shape = []
        for extent in spec.shape:
            size = parse_extent(extent)
            missing: list[str] = sorted(size.symbols() - set(tuning.sizes)) if isinstance(size, Dim) else []
            if missing:
                raise UserError(
                    f"compile: tune of a model whose size {missing[0]!r} is known only at a call; fix: "
                    f"tune=joinery.Tuning(seconds=60, sizes={{{missing[0]!r}: 128}})"
                )
            shape.append(size.evaluate(tuning.sizes) if isinstance(size, Dim) else size)
        found.append(_array(DType(spec.dtype), tuple(shape)))
    return found


def _array(dtype: DType, shape: tuple[int, ...]) -> Array:
    if dtype.is_float and dtype.bits >= 16:
        return np.random.default_rng(0).standard_normal(shape, np.float32).astype(dtype.numpy)
    return np.zeros(shape, dtype.numpy)


__all__ = ["Tuning", "checked_tuning", "tuned"]

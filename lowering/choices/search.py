"""Searches for the schedule of a kernel that takes least time, one choice after the other.

A search is a generator: it yields a schedule, is sent the time that a launch took with it, and goes on until nothing is left to
try. It changes one choice at a time and keeps what was best (coordinate descent), so its length is the sum of the numbers of
values, not their product. Source: the search of ATLAS, R. C. Whaley, A. Petitet and J. Dongarra, "Automated empirical
optimizations of software and the ATLAS project", Parallel Computing 27, 2001.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator, Sequence
from dataclasses import replace

from ..nest import Nest
from ..tile.schedule import Schedule
from ..tile.structure import products, spaces_of
from .kernel_schedules import algorithm_of, edited
from .model_schedule import KernelSchedule, ScheduleError

GAIN = 0.98
"""What a launch has to take of the time of the best one so far to be better: less is noise."""
MAX_ELEMENTS = 1 << 17
"""Most elements of a block that is tried, so that scratch memory suffices."""

Search = Generator[KernelSchedule, float, KernelSchedule]


def search(nest: Nest, default: Schedule, name: str, others: Sequence[tuple[Nest, Schedule]] = ()) -> Search:
    """Searches among the schedules of a CPU for a nest, from the cost model's choice on, and returns the best.

    others: the nest and its default schedule with each other algorithm, of a convolution that has several.
    """
    best = KernelSchedule(algorithm=algorithm_of(nest))
    least = yield best
    for other in others:
        tried = KernelSchedule(algorithm=algorithm_of(other[0]))
        if (seconds := (yield tried)) < GAIN * least:
            best, least, (nest, default) = tried, seconds, other
    for values in _choices(nest, default):
        for changed in list(values(edited(nest, default, best, name))):
            said = _said(nest, changed, best)
            try:
                edited(nest, default, said, name)
            except ScheduleError:
                continue
            if (seconds := (yield said)) < GAIN * least:
                best, least = said, seconds
    return best


def _said(nest: Nest, schedule: Schedule, best: KernelSchedule) -> KernelSchedule:
    blocks = {nest.axes[axis].name: size for axis, size in schedule.blocks}
    streaming = schedule.streaming if nest.template in ("map", "row") else None
    return replace(best, blocks=blocks, streaming=streaming, group=schedule.group if nest.template == "contract" else None)


def _choices(nest: Nest, default: Schedule) -> list[Callable[[Schedule], Iterator[Schedule]]]:
    """Returns what may be changed, each as a function from a schedule to those with other values of it."""
    match nest.template:
        case "contract":
            product = products(nest)[0]
            tiles = bool(spaces_of(nest.body[product.number]))
            rows = (8, 16, 32, 64) if tiles else (16, 32, 64, 128, 256)
            found: list[Callable[[Schedule], Iterator[Schedule]]] = []
            if product.m is not None:
                found.append(_sizes(nest, product.m, rows))
            found.append(_sizes(nest, product.k, (64, 128, 256, 512, 1024)))
            if not default.packed_b and not tiles and product.n is not None:
                found.append(_sizes(nest, product.n, (32, 64, 128)))
            return [*found, _groups]
        case "attention":
            first, second = products(nest)[:2]
            axes = dict.fromkeys([axis for axis in (first.m, second.k) if axis is not None])
            return [_sizes(nest, axis, (32, 64, 128, 256)) for axis in axes if any(axis == each for each, _ in default.blocks)]
        case "map" | "row":
            scaled = [_scaled(axis) for axis, _ in reversed(default.blocks)]
            return [*scaled, lambda schedule: iter([replace(schedule, streaming=not schedule.streaming)])]
    return []


def _sizes(nest: Nest, axis: int, sizes: tuple[int, ...]) -> Callable[[Schedule], Iterator[Schedule]]:
    def values(schedule: Schedule) -> Iterator[Schedule]:
        extent, now = nest.axes[axis].extent, dict(schedule.blocks).get(axis, 1)
        for size in sizes:
            if size != now and (not isinstance(extent, int) or size < 2 * extent):
                yield _with_block(schedule, axis, size)

    return values


def _scaled(axis: int) -> Callable[[Schedule], Iterator[Schedule]]:
    def values(schedule: Schedule) -> Iterator[Schedule]:
        now, total = dict(schedule.blocks)[axis], 1
        for _, size in schedule.blocks:
            total *= size
        for size in (now // 4, now // 2, 2 * now, 4 * now):
            if size >= 1 and total // now * size <= MAX_ELEMENTS:
                yield _with_block(schedule, axis, size)

    return values


def _groups(schedule: Schedule) -> Iterator[Schedule]:
    for group in dict.fromkeys((0, 1, schedule.group // 2, 2 * schedule.group)):
        if group != schedule.group:
            yield replace(schedule, group=group)


def _with_block(schedule: Schedule, axis: int, size: int) -> Schedule:
    return replace(schedule, blocks=tuple([(each, size if each == axis else old) for each, old in schedule.blocks]))

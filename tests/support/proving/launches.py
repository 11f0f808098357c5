"""Makes random launches that a specification allows, and finds out what the sanitizer says of them."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from typing import Any

import joinery as jn
from joinery.interface.proving.proving import launch_arguments
from joinery.lowering.prove.specify.expressions import evaluate
from joinery.lowering.prove.specify.specification import Specification

KINDS = {"bounds": {"out-of-bounds"}, "races": {"race", "lane-race"}}
PROVED = ("proven", "proven under", "never executed")
Launch = tuple[dict[str, int], dict[str, int], tuple[int, ...]]
"""Sizes, extents and grid."""
_VALUES = [0, 1, 2, 3, 4, 5, 7, 8, 9, 15, 16, 17, 31, 32, 33, 48, 63, 64, 65, 80, 100, 127, 128, 129, 160, 256]
_MAX_PROGRAMS = 48
_MAX_ELEMENTS = 60_000


def launches(
    specification: Specification, example: dict[str, int], rng: random.Random, count: int
) -> Iterator[Launch]:
    """Launches near an example: some sizes are others, as far as the assumptions allow."""

    def drawn(names: list[str]) -> dict[str, int]:
        sizes = {name: example.get(name, 1) for name in names}
        for name in rng.sample(names, rng.randint(min(1, len(names)), len(names))) if names else ():
            sizes[name] = rng.choice(_VALUES)
        return sizes

    yield from _allowed(specification, example, drawn, count)


def small_launches(
    specification: Specification, example: dict[str, int], rng: random.Random, count: int
) -> Iterator[Launch]:
    """Launches in which all sizes are from 0 to 9, as far as the assumptions allow."""
    yield from _allowed(specification, example, lambda names: {name: rng.randint(0, 9) for name in names}, count)


def _allowed(
    specification: Specification, example: dict[str, int], drawn: Callable[[list[str]], dict[str, int]], count: int
) -> Iterator[Launch]:
    parsed = specification.parsed()
    names = sorted({*parsed.names(), *example})
    found = 0
    for _ in range(400 * count):
        sizes = drawn(names)
        if not parsed.holds(sizes):
            continue
        grid = tuple(evaluate(axis, sizes) for axis in parsed.grid)
        extents = {name: evaluate(extent, sizes) for name, extent in parsed.extents.items()}
        if grid[0] * grid[1] * grid[2] > _MAX_PROGRAMS or sum(extents.values()) > _MAX_ELEMENTS:
            continue
        yield sizes, extents, grid
        found += 1
        if found == count or not names:
            return


def kinds_found(
    kernel: jn.kernel.Kernel, specification: Specification, launch: Launch, rng: random.Random
) -> set[str]:
    """The kinds of what the sanitizer finds in a launch; none where it takes no such arguments, or breaks a promise."""
    sizes, extents, grid = launch
    contents = {}
    for name, (low, high) in specification.parsed().ranges_of_contents(sizes).items():
        least = low or 0
        most = least + 10 if high is None else high
        if most < least and extents.get(name, 1):
            return set()  # an array with elements, and no number that they may be
        contents[name] = rng.randint(least, most) if least <= most else 0
    try:
        arguments: list[Any] = launch_arguments(kernel._function, sizes, extents, contents)
        found = {each.kind for each in kernel.sanitize(grid, *arguments).findings}
    except jn.UserError:
        return set()
    return set() if "divisibility" in found else found

"""Compares the verdicts on random kernels with what the sanitizer finds in launches with small sizes."""

from __future__ import annotations

import itertools
import math
import random
import re
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any

import joinery as jn
import numpy as np
from joinery.lowering.prove.preparation import prepare
from joinery.lowering.prove.prover import Prover
from joinery.lowering.prove.specify.expressions import evaluate, holds, parse_assumption
from joinery.lowering.prove.specify.specification import ParsedSpecification, Specification
from joinery.lowering.tt.sanitize.findings import Finding
from joinery.lowering.tt.sanitize.guard import Allowance, allowing
from joinery.promotion.float_modes import default_modes

from .makers.counting_kernels import counting_kernel
from .makers.fetched_kernels import fetched_kernel
from .makers.idioms import idiomatic_kernel
from .makers.mixed_kernels import mixed_kernel
from .makers.random_kernels import RandomKernel, random_kernel
from .makers.searching_kernels import searching_kernel
from .makers.store_kernels import storing_kernel
from .makers.undefined.carrying import carrying_kernel
from .makers.undefined.nesting import nesting_kernel
from .makers.undefined.shaped import shaped_kernel
from .makers.undefined_kernels import undefined_kernel
from .makers.wrapping_kernels import wrapping_kernel
from .watching import run

MAKERS = {
    "random": random_kernel,
    "mixed": mixed_kernel,
    "idioms": idiomatic_kernel,
    "stores": storing_kernel,
    "counters": counting_kernel,
    "wrapping": wrapping_kernel,
    "fetched": fetched_kernel,
    "searching": searching_kernel,
}
UNDEFINED_MAKERS = {
    "undefined": undefined_kernel,
    "carrying": carrying_kernel,
    "nesting": nesting_kernel,
    "shaped": shaped_kernel,
}
"""Of kernels that leave lanes undefined, of which little is asked but that."""

KINDS = {
    "bounds": {"out-of-bounds", "misaligned"}, "races": {"race", "lane-race"}, "overflow": {"overflow"},
    "initialised": {"uninitialised"},
}  # fmt: skip
PROVED = ("proven", "proven under", "never executed")
_EDGES = {
    "i8": [-128, -127, -64, -3, -1, 20, 33, 64, 100, 126, 127],
    "i16": [-(2**15), -129, -1, 127, 255, 2**15 - 1],
    "i32": [-9, -1, 20, 33, 100, 2**31 - 1, -(2**31)],
    "i64": [-5, -1, 20, 33, 2**63 - 1, -(2**63)],
}
_OFFSET = re.compile(r" \+ (\d+) \* (-?\d+) \(")
_MAX_ELEMENTS = 5000
_MAX_PROGRAMS = 6
_MAX_OPERATIONS = 20_000
"""Operations that a launch may run: what was found until then counts."""
LIMIT = 200_000


def sizes_of(
    subject: RandomKernel, parsed: ParsedSpecification, rng: random.Random, count: int | None
) -> Iterator[dict[str, int]]:
    """Yields sizes up to 17 with grids up to 5, and some beyond, that a specification allows. count: how many; None: all."""
    width = next(each for each in _EDGES if f"%n: {each}" in subject.text)
    values = [*range(18), *_EDGES[width]]
    grids = range(6) if "grid_x" in parsed.names() else [0]
    every = list(itertools.product(values, values, grids))
    rng.shuffle(every)
    found = 0
    for n, m, x in every:
        sizes = {"n": n, "m": m, "grid_x": x}
        if "grid_y" in parsed.names():
            sizes["grid_y"] = rng.randrange(4)
        if not parsed.holds(sizes) or math.prod(grid_of(parsed, sizes)) > _MAX_PROGRAMS:
            continue
        if sum(evaluate(extent, sizes) for extent in parsed.extents.values()) > _MAX_ELEMENTS:
            continue
        yield sizes
        found += 1
        if found == count:
            return


def grid_of(parsed: ParsedSpecification, sizes: dict[str, int]) -> tuple[int, int, int]:
    """Returns the numbers of programs of a launch."""
    x, y, z = [evaluate(axis, sizes) for axis in parsed.grid]
    return x, y, z


def arguments_of(
    subject: RandomKernel, parsed: ParsedSpecification, sizes: dict[str, int], seed: int
) -> list[Any] | None:
    """Returns the arguments of a launch, with elements as the assumptions allow; None if there are none of that kind."""
    rng = np.random.default_rng(seed)
    ranges = parsed.ranges_of_contents(sizes)
    arguments: list[Any] = []
    for name, element in subject.elements.items():
        count = evaluate(parsed.extents[name], sizes)
        sign = "u" if rng.random() < 0.5 else "i"
        dtype = np.dtype(f"{sign}{int(element[1:]) // 8}")
        least, most = np.iinfo(dtype).min, np.iinfo(dtype).max
        low, high = ranges.get(name, (-4, 20))
        low = least if low is None else max(low, least)
        high = most if high is None else min(high, most)
        if low > high and count:
            return None
        array = rng.integers(low, high, count, dtype, endpoint=True) if count else np.zeros(0, dtype)
        if count and rng.random() < 0.5:  # the ends of a range are what faults hide at
            array[rng.random(count) < 0.5] = (low, high)[rng.integers(2)]
        arguments.append(array)
    return [*arguments, sizes["n"], sizes["m"]]


def check(
    seed: int, count: int | None, refutes: bool = False, kind: str = "random", properties: Sequence[str] = tuple(KINDS)
) -> Counter[tuple[str, str]]:
    """Proves a random kernel, and runs launches: what is proven of an access is found in none.

    Returns how many accesses have which verdict, by property. refutes: whether launches that break a property are looked for.
    """
    rng = random.Random(seed)
    subject = (MAKERS | UNDEFINED_MAKERS)[kind](rng)
    kernel = jn.kernel.from_ttir(subject.text)
    specification = Specification.of(subject.assume, subject.extents, subject.grid)
    parsed = specification.parsed()
    try:
        if refutes:
            proof = kernel.prove(subject.assume, subject.extents, subject.grid, properties, limit=LIMIT)
        else:
            with default_modes():
                proof = Prover(prepare(kernel._function), specification, None, LIMIT).prove(properties)
    except jn.UserError as error:
        if not ("may not last" in str(error) or "contradict" in str(error)):
            raise
        return Counter({("bounds", "refused"): 1})
    proven = [each for each in proof.accesses if each.verdict in PROVED]
    for sizes in sizes_of(subject, parsed, rng, count) if proven else ():
        arguments = arguments_of(subject, parsed, sizes, rng.randrange(1 << 30))
        if arguments is None:
            continue
        grid = grid_of(parsed, sizes)
        before = [each.copy() if isinstance(each, np.ndarray) else each for each in arguments]
        try:
            with allowing(Allowance(_MAX_OPERATIONS, prints=False)):
                findings = kernel.sanitize(grid, *arguments, needs_barriers="order" in properties).findings
        except jn.UserError:
            continue  # a loop whose step is not positive
        never = {each.line for each in proven if each.verdict == "never executed"}
        if never:
            ran = never & _executed(kernel, grid, before)
            assert not ran, f"seed {seed}: {ran} ran\n{proof}\n{sizes} {before}\n{subject.text}"
        for each in proven:
            if not all(holds(parse_assumption(text), sizes) for text in each.condition):
                continue
            own = each.line.split(" called at ")[0]
            faults = [
                found
                for found in findings
                if _breaks(each.prop, found) and _is_at(found.line, own) and not _is_far(found)
            ]
            if each.prop in ("races", "order") and each.verdict != "never executed":
                faults += [found for found in findings if _breaks(each.prop, found) and _is_at(found.origin, own)]
            assert not faults, (
                f"seed {seed}: {each}\n{faults[0]}\n{specification}\n{sizes} {before}\n{subject.text}"
            )
        own = [each for each in proof.accesses if each.prop == "initialised"]
        texts = {text for each in own for text in each.condition}
        if own and all(each in proven for each in own) and all(holds(parse_assumption(text), sizes) for text in texts):
            faults = [found for found in findings if found.kind == "uninitialised"]  # of branches and loops, too
            assert not faults, f"seed {seed}: {faults[0]}\n{specification}\n{sizes} {before}\n{subject.text}"
    return Counter((each.prop, each.verdict) for each in proof.accesses)


def _breaks(prop: str, found: Finding) -> bool:
    """Returns whether a finding breaks a property: a race of lanes that has another side is one of their order."""
    is_of_order = found.kind == "lane-race" and found.origin != ""
    return is_of_order if prop == "order" else found.kind in KINDS[prop] and not is_of_order


def _executed(kernel: jn.kernel.Kernel, grid: tuple[int, int, int], arguments: list[Any]) -> set[str]:
    """Returns the lines of accesses in which a lane takes part."""
    with default_modes():
        prepared = prepare(kernel._function)
    found = set()
    longer = [
        np.resize(each, each.size + 600) if isinstance(each, np.ndarray) and each.size else each
        for each in arguments
    ]
    by_op = {each.op: each for each in prepared.accesses}
    for op, _, values in run(prepared, grid, longer)[0]:
        access = by_op.get(op)
        if access is not None:
            masks = [value for ssa, value in values if ssa is access.mask]
            if all(np.any(mask) for mask in masks):
                found.add(access.line)
    return found


def _is_far(found: Finding) -> bool:
    """Whether an offset is too far for the sanitizer to follow, as 2 ** 61 bytes are, and does not wrap."""
    offset = _OFFSET.search(found.address)
    if found.kind != "overflow" or "bytes away" not in found.message or offset is None:
        return False
    return abs(int(offset[1]) * int(offset[2])) >= 1 << 60


def _is_at(line: str, own: str) -> bool:
    return line.split(" called at ")[0] == own


def main() -> None:
    """Tries random kernels: which kind, the first seed, how many, and how many launches of each; without it all up to 17."""
    kind, first, count = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])  # a kind of `MAKERS` or `UNDEFINED_MAKERS`
    launches = int(sys.argv[4]) if len(sys.argv) > 4 else None
    found: Counter[tuple[str, str]] = Counter()
    for seed in range(first, first + count):
        try:
            found += check(seed, launches, kind=kind)
        except AssertionError as error:
            print(error, flush=True)
            found["FAULT", ""] += 1
    print(dict(found))


if __name__ == "__main__":
    main()

__all__ = ["check"]

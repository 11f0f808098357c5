"""Compares verdicts on kernels that load from tables with launches whose tables are as assumed."""

from __future__ import annotations

import itertools
import random
import sys
from collections import Counter
from typing import Any

import joinery as jn
from joinery.lowering.prove.specify.expressions import holds, parse_assumption
from joinery.lowering.prove.specify.specification import Specification

from .interleavings import racing
from .makers.contents.locking_kernels import PLACES, LockingKernel
from .makers.contents.ordered_kernels import OrderedKernel
from .makers.contents.pointing_kernels import PointingKernel
from .makers.contents.tables import LIMITS

KINDS = {"bounds": {"out-of-bounds", "misaligned"}, "races": {"race", "lane-race"}, "initialised": {"uninitialised"}}
PROPERTIES = [*KINDS, "overflow", "termination of loops"]
PROVED = ("proven", "proven under", "never executed")
LIMIT = 200_000
MAKERS: dict[str, Any] = {"ordered": OrderedKernel, "pointing": PointingKernel}


def asked(rng: random.Random) -> list[str]:
    """Properties in any order, bounds and races among them."""
    found = ["bounds", "races", *rng.sample(PROPERTIES[2:], rng.choice([0, 1, 1, 2, 3]))]
    rng.shuffle(found)
    return found


def check(kind: str, seed: int, launches: int) -> Counter[tuple[str, str]]:
    """Proves a random kernel: what is proven of an access is broken by no launch of which it is said.

    Returns how many accesses have which verdict, by property.
    """
    rng = random.Random(seed)
    subject = MAKERS[kind](rng)
    kernel = jn.kernel.from_ttir(subject.text)
    given = (subject.assume, subject.extents, subject.programs)
    try:
        proof = kernel.prove(*given, asked(rng), limit=LIMIT)
    except jn.UserError as error:
        if "contradict" not in str(error):
            raise
        return Counter({("bounds", "refused"): 1})
    parsed = Specification.of(*given).parsed()
    own = [each for each in proof.accesses if each.prop in KINDS and each.array not in LIMITS]
    proven = [each for each in own if each.verdict in PROVED]
    for _ in range(launches if proven else 0):
        launch = subject.launch(rng)
        if launch is None or not parsed.holds(launch.sizes):
            continue
        findings = kernel.sanitize(launch.programs, *launch.arguments).findings
        for each in proven:
            if not all(holds(parse_assumption(text), launch.sizes) for text in each.condition):
                continue
            faults = [found for found in findings if found.kind in KINDS[each.prop] and each.line == found.line]
            if each.prop == "races":
                faults += [found for found in findings if found.kind in KINDS["races"] and each.line == found.origin]
            table = [getattr(argument, "arrays", argument) for argument in launch.arguments[:2]]
            assert not faults, f"{kind} {seed}: {each}\n{faults[0]}\n{proof}\n{launch.sizes} {table}\n{subject.text}"
    return Counter((each.prop, each.verdict) for each in own)


def check_locks(seed: int) -> Counter[tuple[str, str]]:
    """Proves a random kernel with locks: of an array without races there is none in any order of two programs.

    Returns how many arrays that are written plainly are free of races, and how many have some.
    """
    rng = random.Random(seed)
    subject = LockingKernel(rng)
    kernel = jn.kernel.from_ttir(subject.text)
    try:
        proof = kernel.prove(subject.assume, subject.extents, "n", asked(rng), limit=LIMIT)
    except jn.UserError as error:
        if "may not last" not in str(error):
            raise
        return Counter({("races", "refused"): 1})
    sizes = {"n": 2}
    own: dict[str, bool] = {}
    written = {each.array for each in proof.accesses if each.operation == "tt.store"}
    for each in proof.accesses:
        if each.prop == "races":
            is_said = each.verdict in PROVED and all(holds(parse_assumption(text), sizes) for text in each.condition)
            own[each.array] = own.get(each.array, True) and is_said
    free = {array for array, is_free in own.items() if is_free}
    if not free & {"lock", "lock2", "total", "other"}:
        return Counter({("races", "unknown"): len(own)})
    numbers = [range(2) if f"0 <= {place}[:] <= 1" in subject.assume else range(3) for place in PLACES]
    for memory in itertools.product(*numbers):
        for flag in (False, True):
            wrong = free & racing(subject.body, memory, flag)
            assert not wrong, f"locking {seed}: {wrong} {memory} {flag}\n{proof}\n{subject.text}"
    return Counter({("races", "proven"): len(free & written), ("races", "unknown"): len(own) - len(free)})


def main() -> None:
    """Tries random kernels: which kind, the first seed, how many, and how many launches of each."""
    kind, first, count, launches = sys.argv[1], *map(int, sys.argv[2:5])
    found: Counter[tuple[str, str]] = Counter()
    for seed in range(first, first + count):
        try:
            found += check_locks(seed) if kind == "locking" else check(kind, seed, launches)
        except AssertionError as error:
            print(error, flush=True)
            found["FAULT", ""] += 1
    print(dict(found))


if __name__ == "__main__":
    main()

__all__ = ["MAKERS", "asked", "check", "check_locks"]

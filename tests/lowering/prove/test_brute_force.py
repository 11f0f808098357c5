"""Every verdict against all launches with small sizes: what is proven holds in the sanitizer, what is refuted fails there."""

from __future__ import annotations

import functools
import itertools
from collections.abc import Iterator
from typing import Any

import joinery as jn
import numpy as np
import pytest

pytest.importorskip("z3")

from joinery.lowering.prove.specify.expressions import evaluate, parse_size
from joinery.lowering.prove.specify.specification import Specification

from ...support.proving.kernels import SUBJECTS, Subject
from ...support.tiers import both_tiers

KINDS = {"bounds": {"out-of-bounds"}, "races": {"race", "lane-race"}}
PROVED = ("proven", "proven under", "never executed")


@functools.cache
def proof_of(name: str) -> Any:
    subject = SUBJECTS[name]
    kernel = jn.kernel.from_ttir(subject.text)
    return kernel.prove(subject.assume, subject.extents, subject.grid)


def launches(subject: Subject, in_full: bool) -> Iterator[dict[str, int]]:
    """The sizes of launches up to 17, and grids up to 5, that satisfy the assumptions."""
    values = range(18) if in_full else (0, 1, 3, 4, 5, 9)
    grids = range(6)
    parsed = Specification.of(subject.assume, subject.extents, subject.grid).parsed()
    axes = [grids if name.startswith("grid_") or name == "rows" else values for name in subject.sizes]
    for numbers in itertools.product(*axes):
        sizes = dict(zip(subject.sizes, numbers, strict=True))
        contents = parsed.ranges_of_contents(sizes).values()
        if any(high is not None and low is not None and low > high for low, high in contents) and sizes["n"]:
            continue  # an array with elements, of which none is allowed
        if parsed.holds(sizes) and all(evaluate(axis, sizes) <= 5 for axis in parsed.grid):
            yield sizes


def findings(name: str, sizes: dict[str, int], rng: np.random.Generator) -> set[str]:
    """The kinds of what the sanitizer finds in a launch."""
    subject = SUBJECTS[name]
    kernel = jn.kernel.from_ttir(subject.text)
    arguments: list[Any] = []
    for parameter in kernel.parameters:
        if not parameter.is_pointer:
            arguments.append(sizes[parameter.name])
            continue
        extent = evaluate(parse_size(subject.extents[parameter.name], "extent"), sizes)
        is_index = parameter.name == "idx"
        high = sizes["m"] if any("idx" in each for each in subject.assume) else sizes.get("m", 0) + 2
        array = rng.integers(0, max(high, 1), extent) if is_index else np.arange(extent)
        arguments.append(array.astype(np.int32 if "i32" in str(parameter.type) else np.float32))
    grid = tuple(evaluate(parse_size(axis, "grid"), sizes) for axis in subject.grid)
    return {each.kind for each in kernel.sanitize(grid, *arguments).findings}


QUICK = ("vector", "mask_of_too_many", "two_lanes", "too_small_tiles", "branches", "grid_stride", "gather")
"""Subjects of the fast tier."""
NOT_SHOWN = ("grid_stride", "branches")
"""Right subjects that stay unknown: a counter of a loop with a condition, which could wrap, and a value that branches merge."""
NAMES = [pytest.param(name, marks=() if name in QUICK else pytest.mark.slow) for name in SUBJECTS]


@pytest.mark.one_in(4)
@pytest.mark.parametrize("name", NAMES)
def test_verdicts_are_those_that_are_right(name: str) -> None:
    """Races of accesses outside of their arrays may stay unknown: their addresses may be anything."""
    proof, subject = proof_of(name), SUBJECTS[name]
    for prop in ("bounds", "races"):
        verdict = proof.verdict(prop)
        may_be_unknown = ("bounds" in subject.faults and prop == "races") or name in NOT_SHOWN
        allowed = (*PROVED, "unknown") if may_be_unknown else PROVED
        assert verdict == "refuted" if prop in subject.faults else verdict in allowed, f"{prop}\n{proof}"
    for each in proof.refuted:
        assert each.counterexample.finding.kind in KINDS[each.prop]


@pytest.mark.one_in(4)
@both_tiers
@pytest.mark.parametrize("name", NAMES)
def test_what_is_proven_holds_in_every_small_launch(name: str, in_full: bool) -> None:
    proof, rng = proof_of(name), np.random.default_rng(3)
    proven = [prop for prop in KINDS if proof.verdict(prop) in PROVED]
    broken: set[str] = set()
    tried = list(launches(SUBJECTS[name], in_full))
    for sizes in tried if in_full else tried[:: max(1, len(tried) // 6)]:
        found = findings(name, sizes, rng)
        for prop in proven:
            assert not found & KINDS[prop], (sizes, found)
        broken |= {prop for prop in KINDS if found & KINDS[prop]}
    assert tried
    if in_full:
        assert broken == set(SUBJECTS[name].faults)


def test_a_counterexample_can_be_run_again() -> None:
    proof = proof_of("mask_of_too_many")
    (first, *_) = proof.refuted
    assert first.line.startswith("ttir:")
    sizes = dict(first.counterexample.sizes)
    assert findings("mask_of_too_many", sizes, np.random.default_rng(0)) & KINDS["bounds"]

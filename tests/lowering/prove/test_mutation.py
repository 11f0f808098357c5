"""Kernels of the corpus with one operation made wrong: whatever is still proven of them holds in random launches."""

from __future__ import annotations

import functools
import random
import re
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NoReturn

import joinery as jn
import pytest

pytest.importorskip("z3")

from ...support.corpus import WITH_DATA, Case, read
from ...support.proving.launches import KINDS, PROVED, kinds_found, launches
from ...support.tiers import both_tiers

QUICK = ("vec_add", "raw_early_exit")
"""Cases of which the fast tier tries a few mutants."""
_HEAVY = frozenset({"conv2d_implicit_gemm", "spin_lock_sum"})
LIMIT = 300_000
SECONDS = 20
"""Of processor time, after which a launch is given up: loops that data ends may never end with other data."""
_ENDLESS = frozenset({"collatz_steps"})
"""Kernels of the corpus with such loops; mutants of all kernels may have them."""


@contextmanager
def given_up_after(seconds: int) -> Iterator[None]:
    """Raise `TimeoutError` where the block takes more processor time."""

    def stop(*_: object) -> NoReturn:
        raise TimeoutError

    before = signal.signal(signal.SIGPROF, stop)
    signal.setitimer(signal.ITIMER_PROF, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, before)


def replaced(text: str, found: re.Match[str], by: str) -> str:
    return text[: found.start()] + by + text[found.end() :]


def mutants(text: str) -> Iterator[tuple[str, str]]:
    """(what was changed, text): comparisons with one more or one less, masks dropped, strides, tiles and factors exchanged."""
    for found in re.finditer(r"arith\.cmpi (slt|sle|sgt|sge), (%[\w.]+), (%[\w.]+)", text):
        other = {"slt": "sle", "sle": "slt", "sgt": "sge", "sge": "sgt"}[found[1]]
        yield f"{found[0]} -> {other}", replaced(text, found, f"arith.cmpi {other}, {found[2]}, {found[3]}")
        yield f"{found[0]} dropped", replaced(text, found, f"arith.cmpi eq, {found[2]}, {found[2]}")
    for found in re.finditer(r"arith\.andi (%[\w.]+), (%[\w.]+) : tensor<[\dx]+xi1>", text):
        yield f"{found[0]}: left alone", replaced(text, found, found[0].replace(found[2], found[1]))
        yield f"{found[0]}: right alone", replaced(text, found, found[0].replace(found[1], found[2]))
    for found in re.finditer(r"arith\.muli (%[\w.]+), (%[\w.]+) : (tensor<[\dx]+xi32>|i32)", text):
        yield f"{found[0]} -> addi", replaced(text, found, found[0].replace("muli", "addi"))
    for found in re.finditer(r"arith\.constant (dense<)?(\d+)(>)? : (tensor<[\dx]+xi32>|i32)", text):
        for value in (int(found[2]) + 1, int(found[2]) // 2):
            changed = f"arith.constant {found[1] or ''}{value}{found[3] or ''} : {found[4]}"
            yield f"{found[0]} -> {value}", replaced(text, found, changed)
    numbers = re.findall(r"(%[\w.]+): i32", text)
    for found in re.finditer(r"tt\.splat (%[\w.]+) : i32", text):
        for name in numbers:
            if found[1] in numbers and name != found[1]:
                yield f"{found[0]} -> {name}", replaced(text, found, f"tt.splat {name} : i32")
    for found in re.finditer(r"tt\.get_program_id ([xy]) : i32", text):
        other = "y" if found[1] == "x" else "x"
        yield f"{found[0]} -> {other}", replaced(text, found, f"tt.get_program_id {other} : i32")


@functools.cache
def subject(name: str) -> tuple[Any, dict[str, int]]:
    """The specification that is guessed for a case, and its sizes."""
    case = Case(name)
    kernel = read(name)
    arguments, _ = case.arguments()
    specification = kernel.prove.specification(tuple(case.facts["grid"]), *arguments)
    sizes = {
        each.name: value for each, value in zip(kernel.parameters, arguments, strict=False) if isinstance(value, int)
    }
    return specification, sizes | {f"grid_{axis}": each for axis, each in zip("xyz", case.facts["grid"], strict=True)}


def check(name: str, change: str, text: str, rng: random.Random, count: int) -> str:
    """Proves a mutant, and tries what is proven in random launches. Returns the weakest verdict."""
    specification, sizes = subject(name)
    try:
        kernel = jn.kernel.from_ttir(text, name=Case(name).facts["entry"])
        proof = kernel.prove(
            specification.assume, dict(specification.extents), specification.grid, ("bounds", "races"), limit=LIMIT
        )
    except jn.UserError:
        return "refused"  # a text that does not verify, or an assumption about an array that the mutant writes
    proven = [prop for prop in KINDS if proof.verdict(prop) in PROVED]
    for launch in launches(kernel, specification, sizes, rng, count) if proven else ():
        try:
            with given_up_after(SECONDS):
                found = kinds_found(kernel, specification, launch, rng)
        except TimeoutError:
            assert name in _ENDLESS or change != "no change", f"{name}: {launch} does not end"
            continue
        for prop in proven:
            assert not found & KINDS[prop], f"{name}, {change}: {launch}: {found}\n{proof}"
    return "proven" if len(proven) == len(KINDS) else "refuted" if proof.refuted else "unknown"


@pytest.mark.parametrize("name", QUICK)
def test_what_is_proven_of_mutants_holds(name: str) -> None:
    rng = random.Random(name)
    for change, text in rng.sample(list(mutants(Case(name).text)), 2):
        check(name, change, text, rng, 2)


@both_tiers
def test_what_is_proven_of_kernels_of_the_corpus_holds(in_full: bool) -> None:
    rng = random.Random(5)
    for name in WITH_DATA if in_full else QUICK:
        if name not in _HEAVY:
            check(name, "no change", Case(name).text, rng, 4 if in_full else 2)


@pytest.mark.slow
def test_most_mutants_are_refuted_or_unknown_and_none_is_proven_wrongly() -> None:
    """`make prove` runs more of them."""
    rng = random.Random(7)
    counts: dict[str, int] = {}
    for name in WITH_DATA:
        if name in _HEAVY:
            continue
        every = list(mutants(Case(name).text))
        for change, text in rng.sample(every, min(3, len(every))):
            verdict = check(name, change, text, rng, 3)
            counts[verdict] = counts.get(verdict, 0) + 1
    print(counts)
    assert counts["refuted"] > 60

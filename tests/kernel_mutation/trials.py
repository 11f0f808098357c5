"""Proves a mutant of a kernel under the specification of the kernel, and holds what is proven against launches."""

from __future__ import annotations

import functools
import io
import random
import signal
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stdout
from dataclasses import dataclass
from typing import Any, NoReturn

import joinery as jn
from joinery.promotion.errors import InternalError, JoineryError

from ..support.corpus import WITH_DATA, Case, read
from ..support.proving.launches import KINDS, PROVED, kinds_found, launches, small_launches
from .rules import Mutant, mutants, paired

HEAVY = frozenset({"conv2d_implicit_gemm", "spin_lock_sum"})
"""Kernels of which one proof or launch takes seconds."""
NAMES = tuple(name for name in WITH_DATA if name not in HEAVY)
LIMIT = 300_000
SECONDS = 5
"""Of processor time, after which a launch is given up: loops that data ends may never end with other data."""
_MOST_GIVEN_UP = 2
"""Launches of one mutant that are given up; no further one is begun then."""
VERDICTS = ("refuted", "unknown", "refused", "proven", "does not verify")
WRONG = "wrong"


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of a mutant.

    Attributes:
        verdict: one of `VERDICTS`, the weakest one of the properties, or `WRONG`.
        launches: how many it was held against.
        given_up: how many of these took too long.
        told: what a wrong proof said, and the launch that breaks it.
    """

    verdict: str
    launches: int = 0
    given_up: int = 0
    told: str = ""


@contextmanager
def _given_up_after(seconds: int) -> Iterator[None]:
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


@functools.cache
def _subject(name: str) -> tuple[Any, dict[str, int]]:
    """The specification that is guessed for a case, and its sizes."""
    case = Case(name)
    kernel = read(name)
    arguments, _ = case.arguments()
    specification = kernel.prove.specification(tuple(case.facts["grid"]), *arguments)
    sizes = {
        each.name: value for each, value in zip(kernel.parameters, arguments, strict=False) if isinstance(value, int)
    }
    return specification, sizes | {f"grid_{axis}": each for axis, each in zip("xyz", case.facts["grid"], strict=True)}


def tried(name: str, text: str, rng: random.Random, count: int, seconds: int = SECONDS) -> Outcome:
    """Proves a text in place of a case's, and tries what is proven in launches.

    count: how many launches with sizes near those of the case; as many more have sizes from 0 to 9 alone.
    """
    with redirect_stdout(io.StringIO()):  # kernels print
        return _tried(name, text, rng, count, seconds)


def _tried(name: str, text: str, rng: random.Random, count: int, seconds: int) -> Outcome:
    specification, sizes = _subject(name)
    try:
        kernel = jn.kernel.from_ttir(text, name=Case(name).facts["entry"])
    except InternalError:
        raise
    except JoineryError:
        return Outcome("does not verify")
    try:
        proof = kernel.prove(
            specification.assume, dict(specification.extents), specification.grid, tuple(KINDS), limit=LIMIT
        )
    except InternalError:
        raise
    except JoineryError:
        return Outcome("refused")  # an assumption about an array that the mutant writes, for one
    proven = [prop for prop in KINDS if proof.verdict(prop) in PROVED]
    verdict = "proven" if len(proven) == len(KINDS) else "refuted" if proof.refuted else "unknown"
    number = given_up = 0
    if proven:
        near = list(launches(specification, sizes, rng, count))
        small = list(small_launches(specification, sizes, rng, count))
        for launch in near + small:
            number += 1
            try:
                with _given_up_after(seconds):
                    found = kinds_found(kernel, specification, launch, rng)
            except TimeoutError:
                given_up += 1
                if given_up >= _MOST_GIVEN_UP:
                    break
                continue
            if any(found & KINDS[prop] for prop in proven):
                return Outcome(WRONG, number, given_up, f"{launch}: {found}\n{proof}")
    return Outcome(verdict, number, given_up)


@functools.cache
def _text(name: str) -> str:
    return Case(name).text


def in_order(seed: int) -> Iterator[tuple[str, Mutant]]:
    """Mutants of all kernels, as a seed shuffles them, without an end: after all single changes two at a time alone.

    Until then every fourth one has two changes.
    """
    rng = random.Random(seed)
    places = [(name, number) for name in NAMES for number in range(len(mutants(_text(name))))]
    rng.shuffle(places)
    seen: set[str] = set()
    singles = iter(places)
    while True:
        single = next(singles, None) if rng.random() < 0.75 else None
        name = rng.choice(NAMES) if single is None else single[0]
        text = _text(name)
        mutant = paired(text, rng) if single is None else mutants(text)[single[1]]
        if mutant.text not in seen and mutant.text != text:
            seen.add(mutant.text)
            yield name, mutant

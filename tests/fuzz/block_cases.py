"""Compares block programs with the interpreter: native code on one and two threads, strict and fast, and
simulated GPUs."""

from __future__ import annotations

import re
import zlib
from collections.abc import Callable, Sequence
from types import SimpleNamespace
from typing import Any

import joinery as jn
import numpy as np

from ..support.random_kernels.checks import differing
from ..support.random_kernels.control import program
from . import block_witness
from .block_statements import STATEMENTS
from .cases import Data, Fault, Kind, Outcome, Settings, packed, unpacked
from .choices import Choices
from .fences import fenced
from .graph_cases import NUMERICS, REFUSALS, TARGETS, fault_of


def generate(choices: Choices, settings: Settings) -> Data:
    size = int(choices.flag(12))
    seeds = [choices.seed() for _ in range(choices.integer(1, 8))]
    names: set[str] = set()
    made = program(seeds, size, [(weight, _noted(each, names)) for weight, each in STATEMENTS])
    arguments = made.arguments(choices.seed())
    for place, elem in enumerate(made.scalars, len(made.arrays)):
        if elem != "f32":
            arguments[place] = choices.one(arguments[place], 0, 1, 16, -16, 4096, (1 << 31) - 1, -(1 << 31))
    arrays = [[array.name, array.kind, array.elem] for array in made.arrays.values()]
    return {"kind": "block", "text": made.text(), "grid": list(made.grid), "arrays": arrays,
            "arguments": [packed(argument) for argument in arguments], "made": sorted(names)}  # fmt: skip


def _noted(statement: Callable[..., None], names: set[str]) -> Callable[..., None]:
    """Wraps a statement, which then adds its name to the set when it is made."""

    def run(*arguments: Any) -> None:
        names.add(statement.__name__)
        statement(*arguments)

    return run


def run(data: Data, settings: Settings) -> Outcome:
    outcome = Outcome()
    arrays = {name: SimpleNamespace(name=name, kind=kind, elem=elem) for name, kind, elem in data["arrays"]}
    arguments = [unpacked(argument) for argument in data["arguments"]]
    launches(data["text"], data["grid"], arguments, SimpleNamespace(arrays=arrays), settings, outcome)
    return outcome


def launches(
    text: str,
    grid: Sequence[int],
    arguments: list[Any],
    described: Any,
    settings: Settings,
    outcome: Outcome,
    mutated: bool = False,
) -> None:
    """Runs a kernel everywhere and adds the findings to the outcome. mutated: the kernel may be anything, so that its values
    are compared only where its operations have exactly one result, and findings of the sanitizer are no faults."""
    try:
        kernel = jn.kernel.from_ttir(text)
        expected = _run(arguments, lambda own: kernel.interpret(grid, *own))
        report = kernel.sanitize(grid, *_copies(arguments))
    except REFUSALS:
        outcome.refused = True
        return
    _sanitize_natively(kernel, grid, arguments, report.findings, outcome)
    # hashes wrap on purpose; where a mutation makes addresses wrap, hosts stop the launch
    mistakes = [finding for finding in report.findings if finding.kind != "overflow" or mutated]
    if mistakes:  # natively it may do anything
        outcome.refused = True
        if not mutated:
            outcome.faults.append(
                Fault("sanitize", f"{mistakes[0].kind}: {mistakes[0].message}", str(report))
            )
        return
    if mutated and not block_witness.is_exact(text):
        runs = _Launches(text, grid, arguments, described, {}, settings, outcome)
    else:
        wanted = {"strict": expected, "reproducible": expected}
        runs = _Launches(text, grid, arguments, described, wanted, settings, outcome)
        runs.expect_fast(kernel.name, expected)
    for numerics in NUMERICS:
        runs.everywhere(numerics)


def _sanitize_natively(
    kernel: jn.kernel.Kernel, grid: Sequence[int], arguments: list[Any], findings: Sequence[jn.Finding], outcome: Outcome
) -> None:
    """Adds a fault if code that stops where a finding is possible ends although there are some."""
    try:
        with np.errstate(all="ignore"):
            is_clean = kernel._first_look(grid, _copies(arguments), {}, needs_barriers=False).is_clean
    except Exception as error:
        outcome.faults.append(fault_of("native sanitizer", error))
        return
    outcome.runs += 1
    if is_clean and findings:
        outcome.faults.append(Fault("native sanitizer", f"{findings[0].kind} missed", str(findings[0])))


class _Launches:
    """Launches a kernel in one way after another. wanted: numerics → the arguments afterwards, where they are
    known."""

    def __init__(
        self, text: str, grid: Sequence[int], arguments: list[Any], described: Any, wanted: dict[str, list[Any]],
        settings: Settings, outcome: Outcome,
    ) -> None:  # fmt: skip
        self.text, self.grid, self.arguments, self.described = text, grid, arguments, described
        self.wanted, self.settings, self.outcome = wanted, settings, outcome

    def expect_fast(self, name: str, expected: list[Any]) -> None:
        own, apart = _copies(self.arguments), _copies(self.arguments)
        block_witness.fused(self.text, name, self.grid, own, apart)
        self.wanted["fast"] = own
        wrong = differing(self.described, apart, expected)
        if wrong is not None:
            self.outcome.faults.append(Fault("contract", f"wrong values in {_place(wrong)}", wrong))

    def compare(self, place: str, numerics: str, found: list[Any], known: bool = True) -> None:
        expected = self.wanted.get(numerics)
        if expected is None or not known:
            self.outcome.unlike += 1
            return
        self.outcome.runs += 1
        self.outcome.elements += sum(array.size for array in found if isinstance(array, np.ndarray))
        described = self.described
        if place.startswith("ptxsim") and ADDS_ATOMICALLY.search(self.text):
            found, expected = flushed(found), flushed(expected)
        wrong = None
        if numerics == "fast":
            arrays = list(described.arrays.values())
            wrong = block_witness.beyond_fast(arrays, found, expected)
            rest = [i for i, array in enumerate(arrays) if not array.kind.startswith("near")]
            described = SimpleNamespace(arrays={i: arrays[i] for i in rest})
            found, expected = [found[i] for i in rest], [expected[i] for i in rest]
        wrong = wrong or differing(described, found, expected)
        if wrong is not None:
            self.outcome.faults.append(Fault(place, f"wrong values in {_place(wrong)}", wrong))

    def everywhere(self, numerics: str) -> None:
        settings, outcome, text, grid = self.settings, self.outcome, self.text, self.grid
        kernel = jn.kernel.from_ttir(text, numerics=numerics, cache=False)
        drawn = zlib.crc32(text.encode())
        ways = ((1, True), (2, True), (1, False)) if numerics == "strict" else ((1, True), (2, False))
        for threads, at_end in ways:
            place = f"cpu {numerics} {threads} thread{'s' * (threads > 1)}"
            if not settings.wants(place):
                continue
            with fenced(at_end) as fence:
                own = [
                    fence.copy(each, 16) if isinstance(each, np.ndarray) else each for each in self.arguments
                ]
                try:
                    with np.errstate(all="ignore"):
                        kernel.launch(grid, *own, threads=threads)
                except jn.UnsupportedError:
                    continue
                except Exception as error:
                    outcome.faults.append(fault_of(place, error))
                    continue
                if fence.damaged():
                    outcome.faults.append(Fault(place, "bytes beside an array were written to"))
                self.compare(place, numerics, own)
        known = numerics != "fast" or not block_witness.APPROXIMATED_ON_GPUS.search(text)
        for at, target in enumerate(TARGETS if settings.simulate else ()):  # more cases find more than more runs of one
            place = f"ptxsim {target} {numerics}"
            one = drawn // 2 % 2 == at if numerics != "fast" else drawn // 2 % 2 != at
            if not settings.wants(place, one and (numerics != "reproducible" or drawn // 4 % 4 == 0)):
                continue
            try:
                found = _copies(self.arguments)
                kernel.launch(grid, *found, device="ptxsim", target=target, sanitize=True)
                self.compare(place, numerics, found, known)
            except jn.UnsupportedError:
                continue
            except Exception as error:
                outcome.faults.append(fault_of(place, error))


ADDS_ATOMICALLY = re.compile(r"tt\.atomic_rmw fadd")


def flushed(arguments: list[Any]) -> list[Any]:
    """Flushes denormals of float32 to zero: `atom.add.f32` flushes them in global memory (PTX ISA, "atom")."""
    least = np.finfo(np.float32).smallest_normal

    def flush(each: Any) -> Any:
        single = isinstance(each, np.ndarray) and each.dtype == np.float32
        return np.where(np.abs(each) < least, np.float32(0), each) if single else each

    return [flush(each) for each in arguments]


def _place(wrong: str) -> str:
    return wrong.partition(":")[0].lstrip("%")


def _copies(arguments: list[Any]) -> list[Any]:
    return [each.copy() if isinstance(each, np.ndarray) else each for each in arguments]


def _run(arguments: list[Any], launch: Callable[[list[Any]], object]) -> list[Any]:
    own = _copies(arguments)
    with np.errstate(all="ignore"):
        launch(own)
    return own


KIND = Kind("block", generate, run, weight=6)

"""Block programs against the interpreter: native code on one and two threads, strict and fast, and simulated GPUs."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from types import SimpleNamespace
from typing import Any

import joinery as jn
import numpy as np

from ..lowering.text.random_checks import differing
from ..lowering.text.random_control import program
from .block_statements import STATEMENTS
from .cases import Data, Fault, Kind, Outcome, Settings, packed, unpacked
from .choices import Choices
from .fences import fenced
from .graph_cases import NUMERICS, REFUSALS, TARGETS, fault_of

INEXACT_IF_FAST = re.compile(
    r"arith\.(mulf|divf)|math\.(?!abs|floor|ceil|trunc|round|copysign)|tt\.dot|tt\.precise"
)
"""Operations whose results `numerics="fast"` may change; a program without them must give the same bits."""


def generate(choices: Choices, settings: Settings) -> Data:
    size = int(choices.flag(12))
    seeds = [choices.seed() for _ in range(choices.integer(1, 8))]
    made = program(seeds, size, STATEMENTS)
    arguments = made.arguments(choices.seed())
    for place, elem in enumerate(made.scalars, len(made.arrays)):
        if elem != "f32":
            arguments[place] = choices.one(arguments[place], 0, 1, 16, -16, 4096, (1 << 31) - 1, -(1 << 31))
    arrays = [[array.name, array.kind, array.elem] for array in made.arrays.values()]
    return {"kind": "block", "text": made.text(), "grid": list(made.grid), "arrays": arrays,
            "arguments": [packed(argument) for argument in arguments]}  # fmt: skip


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
    exact: bool = True,
) -> None:
    """Runs a kernel everywhere and adds what is found to the outcome. exact: whether the values must agree as well."""
    try:
        kernel = jn.kernel.from_ttir(text)
        expected = _run(arguments, lambda own: kernel.interpret(grid, *own))
        report = kernel.sanitize(grid, *_copies(arguments))
    except REFUSALS:
        outcome.refused = True
        return
    mistakes = [
        finding for finding in report.findings if finding.kind != "overflow"
    ]  # hashes wrap on purpose
    if mistakes:  # what it does natively is anything
        outcome.refused = True
        if exact:
            outcome.faults.append(
                Fault("sanitize", f"{mistakes[0].kind}: {mistakes[0].message}", str(report))
            )
        return

    def compare(place: str, found: list[Any], same: bool) -> None:
        if not same or not exact:
            outcome.unlike += 1
            return
        outcome.runs += 1
        outcome.elements += sum(array.size for array in found if isinstance(array, np.ndarray))
        wrong = differing(described, found, expected)
        if wrong is not None:
            outcome.faults.append(
                Fault(place, f"wrong values in {wrong.partition(':')[0].lstrip('%')}", wrong)
            )

    for numerics in NUMERICS:
        same = numerics != "fast" or not INEXACT_IF_FAST.search(text)
        other = jn.kernel.from_ttir(text, numerics=numerics, cache=False)
        for threads, at_end in ((1, True), (2, True), (1, False)):
            if numerics != "strict" and not at_end:
                continue
            place = f"cpu {numerics} {threads} thread{'s' * (threads > 1)}"
            if not settings.wants(place):
                continue
            with fenced(at_end) as fence:
                own = [fence.copy(each, 16) if isinstance(each, np.ndarray) else each for each in arguments]
                try:
                    with np.errstate(all="ignore"):
                        other.launch(grid, *own, threads=threads)
                except jn.UnsupportedError:
                    continue
                except Exception as error:
                    outcome.faults.append(fault_of(place, error))
                    continue
                if fence.damaged():
                    outcome.faults.append(Fault(place, "bytes beside an array were written to"))
                compare(place, own, same)
        if settings.simulate and same and (numerics != "reproducible" or len(text) % 4 == 0):
            for target in TARGETS:
                if not settings.wants(f"ptxsim {target} {numerics}"):
                    continue
                try:
                    found = _copies(arguments)
                    other.launch(grid, *found, device="ptxsim", target=target, sanitize=True)
                    compare(f"ptxsim {target} {numerics}", found, same)
                except jn.UnsupportedError:
                    continue
                except Exception as error:
                    outcome.faults.append(fault_of(f"ptxsim {target} {numerics}", error))


def _copies(arguments: list[Any]) -> list[Any]:
    return [each.copy() if isinstance(each, np.ndarray) else each for each in arguments]


def _run(arguments: list[Any], launch: Callable[[list[Any]], object]) -> list[Any]:
    own = _copies(arguments)
    with np.errstate(all="ignore"):
        launch(own)
    return own


KIND = Kind("block", generate, run, weight=6)

"""Kernels in Triton-C: random programs against their evaluation in NumPy, and texts that are no kernels any more."""

from __future__ import annotations

import re
import time
import warnings
from pathlib import Path
from typing import Any

import joinery as jn
import numpy as np

from . import triton_c_programs
from .cases import Data, Fault, Kind, Outcome, Settings, packed, unpacked
from .choices import Choices
from .graph_cases import REFUSALS, fault_of
from .mutations import mutated_text
from .triton_c_mutations import bomb, mutated_tokens

TEXTS = Path(__file__).resolve().parents[1] / "data"
SECONDS = 10.0
"""Processor time that a text may take until it is refused or is a kernel."""
MEGABYTES = 600
"""What reading one text may add to the process."""
LOCATED = re.compile(r"\S+:\d+:\d+: error: ")


def generate_program(choices: Choices, settings: Settings) -> Data:
    made = triton_c_programs.drawn(choices)
    return {"kind": "triton-c", "text": made.text, "arguments": [packed(each) for each in made.arguments],
            "expected": [packed(each) for each in made.expected], "simulated": choices.flag(12)}  # fmt: skip


def run_program(data: Data, settings: Settings) -> Outcome:
    outcome = Outcome()
    expected = [unpacked(each) for each in data["expected"]]
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", jn.TritonCWarning)
            kernel = jn.kernel.from_triton_c(data["text"], cache=False)
    except Exception as error:
        outcome.faults.append(fault_of("from_triton_c", error))
        return outcome
    runs: dict[str, Any] = {
        "interpreter": lambda arguments: kernel.interpret(1, *arguments),
        "cpu strict 1 thread": lambda arguments: kernel.launch(1, *arguments, threads=1),
    }
    if settings.simulate and settings.wants("ptxsim sm_80", data["simulated"]):
        runs["ptxsim sm_80"] = lambda arguments: kernel.launch(1, *arguments, device="ptxsim", target="sm_80")
    for where, run in runs.items():
        arguments = [unpacked(each) for each in data["arguments"]]
        try:
            run(arguments)
        except Exception as error:
            outcome.faults.append(fault_of(where, error))
            continue
        outcome.runs += 1
        for position, (found, wanted) in enumerate(zip(arguments, expected, strict=True)):
            outcome.elements += wanted.size
            if not np.array_equal(found, wanted, equal_nan=wanted.dtype.kind == "f"):
                at = int(np.flatnonzero(~((found == wanted) | ((found != found) & (wanted != wanted))))[0])
                what = f"argument {position} [{at}] is {found[at]}, NumPy has {wanted[at]}"
                outcome.faults.append(Fault(where, what, data["text"]))
                break
    return outcome


def sources() -> dict[str, str]:
    """Return the texts of the conformance tests, by name."""
    folders = (TEXTS / "triton_c", TEXTS / "triton_c_kernels")
    return {path.stem: path.read_text(encoding="utf-8") for folder in folders for path in sorted(folder.glob("*.tc"))}


DEFINES = {
    "BS": 64, "TM": 16, "TN": 32, "TK": 16, "TYPE": "half", "TB": 2, "ACT": 1, "AT": 0, "BT": 1, "TZ": 2, "LD_DIV": 8,
    "BLOCK": 16, "STRIDE_AM": "lda", "STRIDE_AK": 1, "STRIDE_BN": "ldb", "STRIDE_BK": 1, "TILE": 32, "NAME": "kernel",
    "TD": 16, "CAUSAL": 1,
}  # fmt: skip


def generate_text(choices: Choices, settings: Settings) -> Data:
    include: dict[str, str] = {}
    if choices.flag(4):
        text, include = bomb(choices)
    else:
        text = choices.one(*sources().values())
        text = mutated_text(choices, text) if choices.flag(3) else mutated_tokens(choices, text)
    return {"kind": "triton-c-text", "text": text, "include": include}


def run_text(data: Data, settings: Settings) -> Outcome:
    """Read a text: it is a kernel whose block IR prints as itself, or has located errors; both within a budget."""
    import resource

    outcome = Outcome(refused=True)
    start, before = time.process_time(), resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", jn.TritonCWarning)
            kernel = jn.kernel.from_triton_c(data["text"] + "\n", DEFINES, include=data["include"], cache=False)
            again = jn.kernel.from_ttir(kernel.ttir, kernel.name, cache=False).ttir
        outcome.refused = False
        if again != kernel.ttir:
            outcome.faults.append(Fault("ttir", "what is printed is read as another module", kernel.ttir))
    except REFUSALS as error:
        if not LOCATED.match(str(error)) and "kernel" not in str(error):
            outcome.faults.append(Fault("from_triton_c", f"an error without a place: {str(error).splitlines()[0]}", str(error)))
    except Exception as error:
        outcome.faults.append(fault_of("from_triton_c", error))
    taken, grown = time.process_time() - start, (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1024
    if taken > SECONDS:
        outcome.faults.append(Fault("from_triton_c", f"{taken:.0f} s of processor time"))
    if grown > MEGABYTES:
        outcome.faults.append(Fault("from_triton_c", f"{grown:.0f} MB of memory"))
    return outcome


PROGRAM = Kind("triton-c", generate_program, run_program, weight=3, text="")
TEXT = Kind("triton-c-text", generate_text, run_text, weight=2)

__all__ = ["PROGRAM", "TEXT"]

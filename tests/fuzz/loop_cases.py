"""Compares random loops, branches, sorts and scatters with NumPy: evaluated, on hosts and simulated GPUs, and through ONNX."""

from __future__ import annotations

import importlib.util
import zlib
from collections.abc import Callable
from typing import Any

import joinery as jn
import numpy as np

from .cases import Data, Fault, Kind, Outcome, Settings, packed, unpacked
from .choices import Choices
from .graph_cases import fault_of
from .loop_programs import DTYPES, InGraph, InNumPy, drawn, names_in

INPUTS = 2
LENGTHS = (1, 2, 3, 4, 5, 8, 9)
MOST_SIMULATED = 5
"""The longest vectors that the simulator is given."""


def generate(choices: Choices, settings: Settings) -> Data:
    dtype = choices.one(*DTYPES)
    trees = [drawn(choices, INPUTS + number) for number in range(choices.integer(1, 3))]
    calls = []
    for _ in range(choices.integer(1, 2)):
        rng = np.random.default_rng(choices.seed())
        length = choices.one(*LENGTHS)
        info = np.iinfo(dtype)
        low, high = (int(info.min), int(info.max)) if choices.flag(4) else (max(-9, int(info.min)), 9)
        calls.append([packed(rng.integers(low, high, length, dtype, endpoint=True)) for _ in range(INPUTS)])
    made = sorted({name for tree in trees for name in names_in(tree)})
    return {"kind": "loop", "dtype": dtype, "trees": trees, "calls": calls, "made": made}


def run(data: Data, settings: Settings) -> Outcome:
    outcome = Outcome()
    calls = [[unpacked(array) for array in arrays] for arrays in data["calls"]]
    with np.errstate(all="ignore"):
        expected = [_outputs(InNumPy(), data["trees"], arrays) for arrays in calls]
    try:
        graph = _graph(data)
    except Exception as error:
        outcome.faults.append(fault_of("build", error))
        return outcome
    ways: list[tuple[str, Callable[[], Callable[..., Any]]]] = [
        ("evaluator", lambda: lambda *arrays: jn.evaluate(graph, *arrays)),
        ("text", lambda: lambda *arrays: jn.evaluate(jn.from_text(*jn.to_text(graph), budget=None), *arrays)),
        ("cpu strict 1 thread", lambda: jn.compile(graph, "cpu", threads=1, cache=False)),
        ("cpu strict 2 threads", lambda: jn.compile(graph, "cpu", threads=2, cache=False)),
    ]
    if importlib.util.find_spec("onnx") is not None:
        ways.append(("onnx", lambda: _through_onnx(graph)))
    short = [number for number, arrays in enumerate(calls) if len(arrays[0]) <= MOST_SIMULATED]
    number = zlib.crc32(repr(data["trees"]).encode())
    if settings.simulate and short and (number % 2 == 0 or "ptxsim" in settings.only):
        target = ("sm_80", "sm_90a")[number // 2 % 2]
        ways.append((f"ptxsim {target} strict", lambda: jn.compile(graph, "ptxsim", target=target, cache=False)))
    for place, make in ways:
        if settings.only and not settings.only.endswith(place):
            continue
        for at in short if place.startswith("ptxsim") else range(len(calls)):
            _try(place, make, calls[at], expected[at], outcome)
            if outcome.faults:
                return outcome
    return outcome


def _graph(data: Data) -> jn.Graph:
    graph = jn.Graph("loops", [jn.TensorType(data["dtype"], ("n",), f"x{number}") for number in range(INPUTS)])
    graph.output(*_outputs(InGraph(), data["trees"], graph.inputs))
    return graph


def _outputs(ops: Any, trees: list[Any], inputs: Any) -> list[Any]:
    """What a program returns: each tree sees the inputs and the results of those before it."""
    values = [*inputs]
    for tree in trees:
        values.append(ops.evaluate(tree, values))
    return values[len(inputs) :]


def _through_onnx(graph: jn.Graph) -> Callable[..., Any]:
    back = jn.from_onnx(jn.to_onnx(graph))
    return lambda *arrays: jn.evaluate(back, *arrays)


def _try(place: str, make: Callable[[], Callable[..., Any]], arrays: list[Any], expected: list[Any], outcome: Outcome) -> None:
    try:
        found = make()(*arrays)
    except jn.UnsupportedError:  # running extremes have no form in ONNX
        if place != "onnx":
            raise
        return
    except Exception as error:
        outcome.faults.append(fault_of(place, error))
        return
    outcome.runs += 1
    for number, (ours, wanted) in enumerate(zip(found if isinstance(found, tuple) else (found,), expected, strict=True)):
        outcome.elements += wanted.size
        if ours.dtype != wanted.dtype or ours.shape != wanted.shape:
            what = f"{ours.dtype}{ours.shape} instead of {wanted.dtype}{wanted.shape}"
            outcome.faults.append(Fault(place, what, f"output {number}"))
        elif (ours != wanted).any():
            outcome.faults.append(Fault(place, "wrong values", f"output {number}: {ours}, expected {wanted}, of {arrays}"))


KIND = Kind("loop", generate, run, weight=2, text="")

"""Graphs against the reference evaluator: on the host with one and two threads, strict and fast, and on simulated GPUs."""

from __future__ import annotations

import re
import tempfile
from collections.abc import Iterator
from typing import Any

import joinery as jn
import numpy as np
from joinery.graph.text import from_text, to_text

from ..end_to_end import error_bounds
from . import graphs
from .cases import Data, Fault, Kind, Outcome, Settings, packed, unpacked
from .choices import Choices
from .fences import fenced

TARGETS = ("sm_80", "sm_90a")
MOST_SIMULATED = 3000
"""Elements of all arrays of a call that the simulator is given at most: it takes a millisecond for each few."""
REFUSALS = (jn.UserError, jn.UnsupportedError)


def generate(choices: Choices, settings: Settings) -> Data:
    symbolic = choices.flag()
    most = choices.one(60, 400, graphs.MAX_ELEMENTS)
    builder = graphs.drawn(choices, symbolic, settings.avoid, most, steps=choices.one(4, 9, 18))
    calls = [[packed(array) for array in graphs.arrays_of(choices, builder)]]
    for _ in range(choices.integer(0, 2) if symbolic else 0):  # the same model on other sizes
        builder.dims = builder.sizes()
        if max(map(builder.size, builder.graph.symbols)) > 8 * most:
            continue
        calls.append([packed(array) for array in graphs.arrays_of(choices, builder)])
    text, arrays = to_text(builder.graph)
    return {
        "kind": "graph",
        "text": text,
        "weights": {name: packed(array) for name, array in arrays.items()},
        "calls": calls,
    }


def run(data: Data, settings: Settings) -> Outcome:
    outcome = Outcome()
    graph = from_text(data["text"], {name: unpacked(array) for name, array in data["weights"].items()})
    calls = [[unpacked(array) for array in arrays] for arrays in data["calls"]]
    compare(graph, calls, settings, outcome)
    return outcome


def compare(graph: jn.Graph, calls: list[list[np.ndarray]], settings: Settings, outcome: Outcome) -> None:
    """Runs a graph everywhere and adds what is found to the outcome."""
    expected = []
    for arrays in calls:
        try:
            with np.errstate(all="ignore"):
                jn.evaluate(graph, *arrays)
        except REFUSALS:  # sizes that break a check of the graph break it on both sides
            expected.append(None)
            continue
        wanted = [
            numerics
            for numerics in ("strict", "fast")
            if settings.only.find("strict" if numerics == "fast" else "fast") < 0
        ]
        expected.append(
            {numerics: error_bounds.propagate(graph, *arrays, numerics=numerics) for numerics in wanted}
        )
    outcome.refused = all(nodes is None for nodes in expected)
    with tempfile.TemporaryDirectory() as folder:
        for numerics in ("strict", "fast"):
            for threads in (1, 2):
                options = {"device": "cpu", "numerics": numerics, "threads": threads, "cache": folder}
                place = f"cpu {numerics} {threads} thread{'s' * (threads > 1)}"
                if settings.wants(place):
                    _on(graph, calls, expected, numerics, place, options, outcome)
    size = sum(array.size for array in calls[0])
    if settings.simulate and size <= MOST_SIMULATED:
        numerics = "strict" if len(graph.symbols) % 3 else "fast"
        for target in TARGETS:
            options = {"device": "ptxsim", "target": target, "numerics": numerics, "cache": False}
            if settings.wants(f"ptxsim {target} {numerics}"):
                _on(graph, calls[:1], expected, numerics, f"ptxsim {target} {numerics}", options, outcome)


def _on(
    graph: jn.Graph, calls: list[list[np.ndarray]], expected: list[Any], numerics: str, place: str, options: dict[str, Any],
    outcome: Outcome,
) -> None:  # fmt: skip
    native = options["device"] == "cpu"
    for at_end in (True, False):
        with fenced(at_end) as fence:
            try:
                model = jn.compile(graph, **options)
            except jn.UnsupportedError:
                return
            except Exception as error:
                outcome.faults.append(fault_of(f"compile {place}", error))
                return
            for number, (arrays, bounds) in enumerate(zip(calls, expected, strict=False)):
                nodes = bounds and bounds[numerics]
                try:
                    inputs = [fence.copy(array, array.itemsize) for array in arrays] if native else arrays
                    if nodes is None:
                        found = None
                        model(*inputs)
                    elif native:
                        shapes = [nodes[symbol.id].value for symbol in graph.outputs]
                        outputs = [fence.empty(value.shape, value.dtype, 64) for value in shapes]
                        model.bind(*inputs, outputs=outputs)()
                        found = tuple(outputs)
                    else:
                        found = model(*inputs)
                except jn.UserError as error:
                    if nodes is not None:
                        outcome.faults.append(fault_of(f"call {place}", error))
                    continue
                except Exception as error:
                    outcome.faults.append(fault_of(f"call {place}", error))
                    continue
                if nodes is None:
                    what = "the evaluator refuses these sizes, the model does not"
                    outcome.faults.append(Fault(f"call {place}", what, f"call {number}"))
                    continue
                if native and any((a.tobytes() != b.tobytes()) for a, b in zip(inputs, arrays, strict=True)):
                    outcome.faults.append(Fault(place, "an input was written to"))
                if fence.damaged():
                    outcome.faults.append(Fault(place, "bytes beside an array were written to"))
                outcome.runs += 1
                _compare_outputs(
                    graph, found if isinstance(found, tuple) else (found,), nodes, place, outcome
                )
        if outcome.faults or not native:
            return


def _compare_outputs(
    graph: jn.Graph, found: tuple[Any, ...], nodes: dict[int, Any], place: str, outcome: Outcome
) -> None:
    for name, symbol, ours in zip(graph.output_names, graph.outputs, found, strict=True):
        node = nodes[symbol.id]
        if ours.shape != node.value.shape or ours.dtype != node.value.dtype:
            what = f"{ours.dtype}{ours.shape} instead of {node.value.dtype}{node.value.shape}"
            outcome.faults.append(Fault(place, what, name))
            continue
        outcome.elements += ours.size
        outcome.unbounded += int(node.unbounded.sum())
        wrong = ~node.holds(ours)
        if wrong.any():
            outcome.faults.append(Fault(place, "wrong values", _shown(name, symbol, ours, node, wrong)))


def _shown(name: str, symbol: Any, ours: np.ndarray, node: Any, wrong: np.ndarray) -> str:
    lines = [f"{name} = {symbol!r}: {int(wrong.sum())} of {wrong.size} elements"]
    for place in np.argwhere(wrong)[:5]:
        at = tuple(place)
        lines.append(
            f"  at {tuple(map(int, at))}: {ours[at]!r}, expected {node.value[at]!r} in [{node.low[at]!r}, {node.high[at]!r}]"
        )
    return "\n".join(lines)


def fault_of(where: str, error: BaseException) -> Fault:
    """An exception as a fault: its type, what it says, and where it was raised last."""
    import traceback

    frames = traceback.extract_tb(error.__traceback__)
    last = frames[-1] if frames else None
    place = f" in {last.filename.rpartition('/')[2]}:{last.name}" if last else ""
    return Fault(
        where, f"{type(error).__name__}{place}: {error}", "".join(traceback.format_exception(error))[-4000:]
    )


def warm_up() -> None:
    """Load what compiling and running needs, before children are forked."""
    graph = jn.Graph("warm", inputs=[jn.TensorType("float32", (8, 8))])
    (x,) = graph.inputs
    graph.output(jn.softmax(jn.exp(x) @ x, -1))
    for options in ({"device": "cpu"}, {"device": "ptxsim", "target": "sm_90a"}):
        jn.compile(graph, threads=1, cache=False, **options)(np.zeros((8, 8), np.float32))


def renumbered(text: str) -> str:
    """The text with its symbols numbered in order, as they have to be: lines may have been left out."""
    numbers: dict[str, int] = {}
    for name in re.findall(r"^\s*%(\d+) =", text, re.MULTILINE):
        numbers.setdefault(name, len(numbers))
    return re.sub(r"%(\d+)", lambda found: f"%{numbers.get(found[1], found[1])}", text)


def bypassed(text: str) -> Iterator[str]:
    """The text without one of its ops, whose first operand takes its place."""
    for found in re.finditer(r"^\s*(%\d+) = \w+\((%\d+).*\n", text, re.MULTILINE):
        rest = text[: found.start()] + text[found.end() :]
        yield re.sub(re.escape(found[1]) + r"\b", found[2], rest)


KIND = Kind("graph", generate, run, weight=6, tidy=renumbered, simpler=bypassed)

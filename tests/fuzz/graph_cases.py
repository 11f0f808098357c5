"""Compares graphs with the reference evaluator: on the host with one and two threads, strict and fast, and on
simulated GPUs."""

from __future__ import annotations

import functools
import re
import tempfile
import zlib
from collections.abc import Iterator
from typing import Any

import joinery as jn
import numpy as np
from joinery.graph.text.parsing import from_text
from joinery.graph.text.printing import to_text

from ..support.error_bounds import propagation as error_bounds
from . import graphs
from .cases import Data, Fault, Kind, Outcome, Settings, packed, unpacked
from .choices import Choices
from .fences import Fence, fenced

NUMERICS = ("strict", "fast", "reproducible")
TARGETS = ("sm_80", "sm_90a")
MOST_SIMULATED = 3000
"""The largest number of elements of a call's arrays for the simulator: it takes a millisecond for each few."""
REFUSALS = (jn.UserError, jn.UnsupportedError)


def generate(choices: Choices, settings: Settings) -> Data:
    symbolic = choices.flag()
    most = choices.one(60, 400, graphs.MAX_ELEMENTS)
    builder = graphs.drawn(choices, symbolic, most, steps=choices.one(4, 9, 18))
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
        "made": sorted(builder.made),
    }


def run(data: Data, settings: Settings) -> Outcome:
    outcome = Outcome()
    graph = from_text(data["text"], {name: unpacked(array) for name, array in data["weights"].items()})
    calls = [[unpacked(array) for array in arrays] for arrays in data["calls"]]
    compare(graph, calls, settings, outcome)
    return outcome


def compare(graph: jn.Graph, calls: list[list[np.ndarray]], settings: Settings, outcome: Outcome) -> None:
    """Runs a graph everywhere and adds the findings to the outcome."""
    expected = []
    for arrays in calls:
        try:
            with np.errstate(all="ignore"):
                jn.evaluate(graph, *arrays)
        except REFUSALS:  # sizes that fail a check of the graph must fail it in compiled code too
            expected.append(None)
            continue
        strict = error_bounds.propagate(graph, *arrays)
        fast = (
            error_bounds.propagate(graph, *arrays, numerics="fast")
            if "strict" not in settings.only
            else strict
        )
        expected.append({"strict": strict, "fast": fast, "reproducible": strict})
    outcome.refused = all(nodes is None for nodes in expected)
    runs = _Runs(graph, calls, expected, outcome)
    with tempfile.TemporaryDirectory() as folder:
        for numerics in NUMERICS:
            for threads in (1, 2):
                options = {"device": "cpu", "numerics": numerics, "threads": threads, "cache": folder}
                place = f"cpu {numerics} {threads} thread{'s' * (threads > 1)}"
                if settings.wants(place):
                    runs.at(place, options)
    if settings.simulate and sum(array.size for array in calls[0]) <= MOST_SIMULATED:
        runs.calls = calls[:1]
        number = zlib.crc32(to_text(graph)[0].encode())  # one or two of the six ways: more cases find more
        drawn = ("strict", *NUMERICS)[number % 4], TARGETS[number // 4 % 2]
        for numerics in NUMERICS:
            for target in TARGETS:
                options = {"device": "ptxsim", "target": target, "numerics": numerics, "cache": False}
                place = f"ptxsim {target} {numerics}"
                if settings.wants(place, drawn[0] == numerics and (drawn[1] == target or number // 8 % 4 == 0)):
                    runs.at(place, options)


class _Runs:
    """Runs a graph in one way after another.

    Attributes:
        first: (name of runs that give the same bits, number of the call) → the first such run, and its outputs.
    """

    def __init__(
        self, graph: jn.Graph, calls: list[list[np.ndarray]], expected: list[Any], outcome: Outcome
    ) -> None:
        self.graph, self.calls, self.expected, self.outcome = graph, calls, expected, outcome
        self.first: dict[tuple[str, int], tuple[str, tuple[np.ndarray, ...]]] = {}

    def at(self, place: str, options: dict[str, Any]) -> None:
        native = options["device"] == "cpu"
        both = "strict 1" in place
        for at_end in (True, False) if both else (options.get("threads") != 2,):
            with fenced(at_end) as fence:
                try:
                    model = jn.compile(self.graph, **options)
                except jn.UnsupportedError:
                    return
                except Exception as error:
                    self.outcome.faults.append(fault_of(f"compile {place}", error))
                    return
                for number, (arrays, bounds) in enumerate(zip(self.calls, self.expected, strict=False)):
                    nodes = bounds and bounds[options["numerics"]]
                    inputs = [fence.copy(array, array.itemsize) for array in arrays] if native else arrays
                    found = self._call(place, model, inputs, nodes, fence if native else None)
                    if found is None or nodes is None:
                        continue
                    if native and any(
                        (a.tobytes() != b.tobytes()) for a, b in zip(inputs, arrays, strict=True)
                    ):
                        self.outcome.faults.append(Fault(place, "an input was written to"))
                    if fence.damaged():
                        self.outcome.faults.append(Fault(place, "bytes beside an array were written to"))
                    self.outcome.runs += 1
                    _compare_outputs(self.graph, found, nodes, place, self.outcome)
                    alike = (
                        options["numerics"]
                        if options["numerics"] == "reproducible"
                        else f"{options['numerics']} {options['device']}"
                    )
                    self._same_bits(alike, number, place, found)
            if self.outcome.faults:
                return

    def _call(
        self, place: str, model: Any, inputs: Any, nodes: Any, fence: Fence | None
    ) -> tuple[np.ndarray, ...] | None:
        """Returns the outputs of one call, or None where it was refused."""
        try:
            if nodes is None or fence is None:
                found = model(*inputs)
                found = found if isinstance(found, tuple) else (found,)
            else:
                shapes = [nodes[symbol.id].value for symbol in self.graph.outputs]
                found = tuple([fence.empty(value.shape, value.dtype, 64) for value in shapes])
                model.bind(*inputs, outputs=list(found))()
        except jn.UserError as error:
            if nodes is not None:
                self.outcome.faults.append(fault_of(f"call {place}", error))
            return None
        except Exception as error:
            self.outcome.faults.append(fault_of(f"call {place}", error))
            return None
        if nodes is None:
            self.outcome.faults.append(
                Fault(f"call {place}", "the evaluator refuses these sizes, the model does not")
            )
        return found

    def _same_bits(self, alike: str, number: int, place: str, found: tuple[np.ndarray, ...]) -> None:
        where, before = self.first.setdefault(
            (alike, number), (place, tuple([array.copy() for array in found]))
        )
        for name, one, two in zip(self.graph.output_names, before, found, strict=True):
            missing = error_bounds.is_nan(one) & error_bounds.is_nan(two)
            bits = [np.ascontiguousarray(array).view(f"u{array.dtype.itemsize}") for array in (one, two)]
            differ = (bits[0] != bits[1]).reshape(one.shape) & ~missing
            if differ.any():
                at = tuple(np.argwhere(differ)[0])
                text = f"{name}{list(map(int, at))}: {one[at]!r} on {where}, {two[at]!r} on {place}; {differ.sum()} differ"
                self.outcome.faults.append(
                    Fault(
                        f"bits of {alike}".replace("cpu", "hosts").replace("ptxsim", "GPUs"), "differ", text
                    )
                )
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
    """Makes a fault of an exception: its type, its message, and the function that raised it."""
    import traceback

    frames = traceback.extract_tb(error.__traceback__)
    last = frames[-1] if frames else None
    place = f" in {last.filename.rpartition('/')[2]}:{last.name}" if last else ""
    return Fault(
        where, f"{type(error).__name__}{place}: {error}", "".join(traceback.format_exception(error))[-4000:]
    )


@functools.cache
def warm_up() -> None:
    """Loads what compiling and running need, before children are forked."""
    graph = jn.Graph("warm", inputs=[jn.TensorType("float32", (8, 8))])
    (x,) = graph.inputs
    graph.output(jn.softmax(jn.exp(x) @ x, -1))
    for options in ({"device": "cpu"}, {"device": "ptxsim", "target": "sm_90a"}):
        jn.compile(graph, threads=1, cache=False, **options)(np.zeros((8, 8), np.float32))


def renumbered(text: str) -> str:
    """Returns the text with its symbols numbered in order, as is required: lines may have been left out."""
    numbers: dict[str, int] = {}
    for name in re.findall(r"^\s*%(\d+) =", text, re.MULTILINE):
        numbers.setdefault(name, len(numbers))
    return re.sub(r"%(\d+)", lambda found: f"%{numbers.get(found[1], found[1])}", text)


def bypassed(text: str) -> Iterator[str]:
    """Yields the text without one of its ops, which is replaced by its first operand."""
    for found in re.finditer(r"^\s*(%\d+) = \w+\((%\d+).*\n", text, re.MULTILINE):
        rest = text[: found.start()] + text[found.end() :]
        yield re.sub(re.escape(found[1]) + r"\b", found[2], rest)


KIND = Kind("graph", generate, run, weight=6, tidy=renumbered, simpler=bypassed)

"""Makes one function of the steps of a graph: compiled parts, and nodes that PyTorch runs, as a text that Python compiles.

A dictionary of values and a walk over each node's arguments take longer than many an operator.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from .layouts import restrided
from .parts import CompiledPart
from .reporting import EagerOperator, GraphReport


@dataclass(frozen=True, slots=True)
class EagerStep:
    """A node that PyTorch runs.

    Attributes:
        target: what is called with the node's arguments.
        entry: what counts its calls, None for views and assertions.
    """

    node: Any
    target: Any
    entry: EagerOperator | None


def asserted(condition: Any, message: str = "Expected Tensor with single nonzero value, but got zero") -> None:
    """Raise what PyTorch's assertions raise, unless a tensor of one element holds."""
    if not condition:
        raise RuntimeError(message)


def run_function(
    inputs: Sequence[str],
    constants: Mapping[str, Any],
    steps: Sequence[CompiledPart | EagerStep],
    outputs: Any,
    written: Sequence[tuple[str, str, bool]],
    report: GraphReport,
    views: Sequence[EagerStep] = (),
) -> Callable[[list[Any]], Any]:
    """Return a function of one list, the inputs, which it empties, so that what they hold can be given back on the way.

    Args:
        outputs: nodes, and what may stand in their place: None, numbers, and sequences of all these.
        written: inputs, the nodes whose values are copied into them at the end, in order, and whether a value is read before
            all this, since it is a view of what has been written by then.
        views: what comes after that: views of values that were copied into inputs, which are made of the inputs.
    """
    return _Writer(inputs, constants, [*steps, *views], outputs, written, report, len(views)).function()


class _Writer:
    """Writes the text."""

    def __init__(
        self,
        inputs: Sequence[str],
        constants: Mapping[str, Any],
        steps: Sequence[CompiledPart | EagerStep],
        outputs: Any,
        written: Sequence[tuple[str, str, bool]],
        report: GraphReport,
        views: int,
    ) -> None:
        self.views = views
        self.inputs, self.steps, self.outputs, self.written, self.report = inputs, steps, outputs, written, report
        self.names: dict[str, Any] = {"clock": time.perf_counter, "restrided": restrided, "report": report}
        self.variables: dict[str, str] = {}
        self.made = 0
        for name, value in constants.items():
            self.variables[name] = self.constant(value)
        for position, name in enumerate(inputs):
            self.variables[name] = f"a{position}"

    def constant(self, value: Any) -> str:
        """Return the name of an object that the function holds."""
        name = f"c{len(self.names)}"
        self.names[name] = value
        return name

    def variable(self) -> str:
        """Return the name of a new variable. A node may have several: a view is made by a part, and at the end of the graph."""
        self.made += 1
        return f"v{self.made}"

    def function(self) -> Callable[[list[Any]], Any]:
        lines = self._direct() or self._stepwise()
        text = "def run(arguments):\n" + "".join(f"    {line}\n" for line in lines)
        made = dict(self.names)
        exec(compile(text, f"<{self.report.name}>", "exec"), made)
        return made["run"]  # type: ignore[no-any-return]

    def _direct(self) -> list[str] | None:
        """Return the lines of a graph that is one part and returns what it does; None for others."""
        if len(self.steps) != 1 or not isinstance(part := self.steps[0], CompiledPart) or self.written:
            return None
        if not isinstance(self.outputs, (tuple, list)):
            return None
        names = [getattr(output, "name", None) for output in self.outputs]
        if names != [output.name for output in part.outputs] or any(output.layout.copies for output in part.outputs):
            return None
        if not set(part.needs) <= set(self.inputs):
            return None
        line = f"results = {self.constant(part.caller(self.inputs))}(*arguments)"
        values = {name: f"arguments[{position}]" for position, name in enumerate(self.inputs)}
        return [*self._tried(part, line, "results", values), "arguments.clear()", "report.calls += 1", "return results"]

    def _tried(self, part: CompiledPart, line: str, results: str, values: Mapping[str, str]) -> list[str]:
        """Return the lines of a part, which PyTorch runs if its run raises an exception and all that this needs is there."""
        if part.rerun is None or not set(part.rerun.needs) <= set(values):
            return [line]
        given = ", ".join(["error", *[values[name] for name in part.rerun.needs]])
        again = f"{results} = {self.constant(part.rerun)}({given})"
        return ["try:", f"    {line}", "except Exception as error:", f"    {again}"]

    def _stepwise(self) -> list[str]:
        lines: list[str] = []
        if self.inputs:
            lines.append(f"{', '.join(self.variables[name] for name in self.inputs)}, = arguments")
        lines.append("arguments.clear()")
        needed = self._last_uses()
        for position, step in enumerate(self.steps):
            if position == len(self.steps) - self.views:
                lines += self._writing()
                before = dict(self.variables)
                self.variables |= {source: self.variables[target] for target, source, _ in self.written}
            lines += self._part(step) if isinstance(step, CompiledPart) else self._eager(step)
            lines += [f"{self.variables[name]} = None" for name in needed.get(position, ()) if name in self.variables]
        if self.views:
            self.variables |= {name: before[name] for _, name, _ in self.written}  # itself, where it is returned
        else:
            lines += self._writing()
        return [*lines, "report.calls += 1", f"return {self.text(self.outputs)}"]

    def _writing(self) -> list[str]:
        """Return the lines that copy values into inputs."""
        lines: list[str] = []
        values = [self.variables[name] for _, name, _ in self.written]
        for position, (_, _, is_early) in enumerate(self.written):
            if is_early:
                value, values[position] = values[position], self.variable()
                lines.append(f"{values[position]} = {value}.clone()")
        lines += [f"{self.variables[each[0]]}.copy_({value})" for each, value in zip(self.written, values, strict=True)]
        return lines

    def _last_uses(self) -> dict[int, list[str]]:
        """Return what no step after each one needs."""
        last: dict[str, int] = {}
        for position, step in enumerate(self.steps):
            if isinstance(step, CompiledPart):
                used = [*step.needs, *(step.rerun.needs if step.rerun else ()), *(output.name for output in step.outputs)]
            else:
                used = [step.node.name, *(node.name for node in step.node.all_input_nodes)]
            last.update(dict.fromkeys(used, position))
        kept = {name for pair in self.written for name in pair[:2]}
        torch.fx.node.map_arg(self.outputs, lambda node: kept.add(node.name))
        found: dict[int, list[str]] = {}
        for name, position in last.items():
            if name not in kept and not self.variables.get(name, "").startswith("c"):
                found.setdefault(position, []).append(name)
        return found

    def _part(self, part: CompiledPart) -> list[str]:
        call = self.constant(part.caller(part.needs))
        arguments = ", ".join(self.variables[name] for name in part.needs)
        known = dict(self.variables)
        for output in part.outputs:
            self.variables[output.name] = self.variable()
        results = ", ".join(self.variables[output.name] for output in part.outputs)
        lines = self._tried(part, f"{results}, = {call}({arguments})", f"{results},", known)
        for output in part.outputs:
            if output.layout.copies:
                variable = self.variables[output.name]
                lines.append(f"{variable} = restrided({variable}, {self.constant(output.layout)})")
        return lines

    def _eager(self, step: EagerStep) -> list[str]:
        node = step.node
        values = [self.text(argument) for argument in node.args]
        values += [f"{name}={self.text(argument)}" for name, argument in node.kwargs.items()]
        self.variables[node.name] = variable = self.variable()
        line = f"{variable} = {self.constant(step.target)}({', '.join(values)})"
        if step.entry is None:
            return [line]
        entry = self.constant(step.entry)
        return ["begin = clock()", line, f"{entry}.calls += 1", f"{entry}.seconds += clock() - begin"]

    def text(self, value: Any) -> str:
        """Return an argument of a node as an expression."""
        if isinstance(value, torch.fx.Node):
            return self.variables[value.name]
        if value is None or isinstance(value, bool) or type(value) is int:
            return repr(value)
        if isinstance(value, (tuple, list)):
            entries = "".join(f"{self.text(each)}, " for each in value)
            return f"({entries})" if isinstance(value, tuple) else f"[{entries}]"
        if isinstance(value, dict):
            return "{" + ", ".join(f"{self.constant(key)}: {self.text(each)}" for key, each in value.items()) + "}"
        if isinstance(value, slice):
            return f"slice({self.text(value.start)}, {self.text(value.stop)}, {self.text(value.step)})"
        return self.constant(value)

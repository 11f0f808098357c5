"""Counts what runs in joinery and what is left to PyTorch, what that costs, and tells the user."""

from __future__ import annotations

import warnings
from collections.abc import Iterable
from dataclasses import dataclass, field

from ...promotion.errors import JoineryError

OWN_OPERATORS: set[str] = set()
"""The names of operators that `joinery.torch.custom_op` made, which reports tell from those left to PyTorch."""


@dataclass(slots=True)
class EagerOperator:
    """An operator of a compiled graph that PyTorch runs, or a kernel that it launches.

    Attributes:
        reason: why joinery does not; of a kernel, what it is.
        nodes: how many nodes of the graph it is.
        seconds: what its calls have taken so far.
    """

    name: str
    reason: str
    nodes: int = 0
    calls: int = 0
    seconds: float = 0.0


@dataclass(slots=True)
class GraphReport:
    """A graph that `torch.compile` has handed over.

    Attributes:
        kind: "inference", "forward" or "backward".
        nodes, compiled: operators of the graph, and those of them in kernels of joinery.
        segments: compiled parts, between which PyTorch runs what is left.
        calls: how often it has run.
        copied: tensors whose strides no part takes, which were copied, over all calls.
        eager: operators that PyTorch runs, by name.
        kernels: the user's kernels that the graph launches, by name; they count as compiled.
        failure: why PyTorch runs all of it, else "".
    """

    name: str
    kind: str
    nodes: int = 0
    compiled: int = 0
    segments: int = 0
    calls: int = 0
    copied: int = 0
    eager: dict[str, EagerOperator] = field(default_factory=dict)
    kernels: dict[str, EagerOperator] = field(default_factory=dict)
    failure: str = ""

    def launch(self, name: str, what: str) -> EagerOperator:
        """Count a node that launches a kernel of the user, and return the entry of the kernel."""
        entry = self.kernels.setdefault(name, EagerOperator(name, what))
        entry.nodes += 1
        return entry

    def leave(self, name: str, reason: str) -> EagerOperator:
        """Count a node that PyTorch runs, and return the entry of its operator."""
        entry = self.eager.setdefault(name, EagerOperator(name, reason))
        entry.nodes += 1
        return entry

    def again(self, reason: str) -> EagerOperator:
        """Return the entry of parts that are compiled, and whose runs fail, so that PyTorch runs them."""
        return self.eager.setdefault(reason, EagerOperator("a compiled part, again", reason))

    def __str__(self) -> str:
        lines = [f"{self.name} ({self.kind}): {self.compiled} of {self.nodes} operators in {self.segments} compiled parts, "
                 f"{self.calls} calls, {self.copied} tensors copied"]  # fmt: skip
        if self.failure:
            lines.append(f"  PyTorch runs all of it: {self.failure}")
        left = sorted(self.eager.values(), key=lambda each: -each.seconds)
        for entry in (*left, *self.kernels.values()):
            lines.append(
                f"  {entry.name}: {entry.nodes} nodes, {entry.calls} calls, {entry.seconds * 1e3:.3f} ms: {entry.reason}"
            )
        return "\n".join(lines)


class Report(tuple[GraphReport, ...]):
    """The graphs that `torch.compile` has handed over in this process, in order."""

    __slots__ = ()

    @property
    def share(self) -> float:
        """The share of operators that run in joinery, over all graphs; 1 for none."""
        nodes = sum(graph.nodes for graph in self)
        return sum(graph.compiled for graph in self) / nodes if nodes else 1.0

    def __str__(self) -> str:
        return "\n".join(map(str, self)) or "no graph was compiled"


_GRAPHS: list[GraphReport] = []
"""What `report` tells of: a record of this process, which nothing is decided by."""


def started(kind: str) -> GraphReport:
    """Return a new entry for a graph."""
    entry = GraphReport(f"graph {len(_GRAPHS)}", kind)
    _GRAPHS.append(entry)
    return entry


def recorded() -> Iterable[GraphReport]:
    """Return the entries so far."""
    return tuple(_GRAPHS)


def forget() -> None:
    """Drop the entries so far; graphs that still run are no longer told of."""
    _GRAPHS.clear()


def problem_of(error: Exception) -> str:
    """Return what an exception says, in one line; of those that are no messages of joinery, what it is too."""
    text = str(error).partition("\n")[0]
    return text if isinstance(error, JoineryError) else f"{type(error).__name__}: {text}"


def tell(message: str) -> None:
    """Warn the user."""
    warnings.warn(f"joinery: {message}", stacklevel=2)

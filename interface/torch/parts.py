"""Runs a part of a graph that joinery compiled on tensors of PyTorch: through the native entry, or through arrays of NumPy.

Where that fails, PyTorch runs the nodes of the part.
"""

from __future__ import annotations

import functools
import operator
from collections.abc import Callable, Mapping, Sequence, Set
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from ...graph.types import TensorType
from ...promotion.arrays import Array
from ...promotion.dtype import DType
from ...runtime.native.library import ObjectStore
from ..model import Model
from ..staged import StagedModel
from .layouts import Layout, Reading, laid_out
from .native import SizeInput, TensorInput, TensorOutput, tensor_entry
from .reading import is_symbolic
from .reporting import GraphReport, problem_of, tell
from .tensors import to_array, to_tensor


@dataclass(frozen=True, slots=True)
class PartInput:
    """A tensor that a part takes: the node that it is the value of, its dtype and shape, and how it is read."""

    name: str
    type: TensorType
    reading: Reading


@dataclass(frozen=True, slots=True)
class PartSize:
    """A symbolic size that no input of a part has, and where it is found.

    Attributes:
        name: the size.
        source: a node whose value is the size, or, if there is an axis, a tensor that has it.
        rank: of that tensor.
    """

    name: str
    source: str
    axis: int | None
    rank: int

    def of(self, value: Any) -> Any:
        """Return the size, for the value of the source."""
        return value if self.axis is None else value.shape[self.axis]


@dataclass(frozen=True, slots=True)
class PartOutput:
    """A tensor that a part returns, as the value of a node."""

    name: str
    type: TensorType
    layout: Layout

    @property
    def dtype(self) -> DType:
        """Its dtype."""
        return self.type.dtype


class CompiledPart:
    """A part of a graph that joinery compiled.

    Args:
        model: takes arrays as the readings of the inputs say, arrays of shape (size, 0) for the sizes, and returns arrays in
            the memory order of the layouts of the outputs.
        plain: compiles the part again with dense inputs, for tensors that repeat no elements where it was said that they do.
        store: where native code is kept.
        rerun: returns the results where a run raises an exception; None where PyTorch cannot run the part alone.
    """

    def __init__(
        self,
        model: Model,
        inputs: Sequence[PartInput],
        sizes: Sequence[PartSize],
        outputs: Sequence[PartOutput],
        report: GraphReport,
        plain: Callable[[], CompiledPart],
        store: ObjectStore | None,
        rerun: Rerun | None,
    ) -> None:
        self.model, self.inputs, self.sizes, self.outputs, self.report = model, inputs, sizes, outputs, report
        self.plain, self.store, self.rerun = functools.cache(plain), store, rerun
        self.needs = tuple(dict.fromkeys([each.name for each in inputs] + [each.source for each in sizes]))

    def caller(self, given: Sequence[str]) -> Callable[..., tuple[Any, ...]]:
        """Return a callable that takes the values of the nodes that are given, which have all that the part needs among them,
        and returns the outputs. Those whose layouts ask for copies are returned dense."""
        positions = {name: position for position, name in enumerate(given)}
        slow = functools.partial(self._run, positions)
        if isinstance(self.model, StagedModel):
            return slow
        inputs: list[TensorInput | SizeInput] = [
            TensorInput(positions[each.name], each.type.dtype, each.type.shape, each.reading, each.name) for each in self.inputs
        ]
        inputs += [SizeInput(positions[each.source], each.name, each.axis, each.rank) for each in self.sizes]
        outputs = [TensorOutput(each.dtype, each.type.shape, each.layout) for each in self.outputs]
        return tensor_entry(self.model._executable, len(given), inputs, outputs, slow, self.store) or slow

    def _run(self, positions: dict[str, int], *given: Any) -> tuple[Any, ...]:
        """Run through arrays of NumPy, whatever the tensors are like."""
        values = {name: _plain(given[position]) for name, position in positions.items()}
        if any(not _repeats(values[each.name], each.reading) for each in self.inputs):
            return self.plain()._run(positions, *given)
        arrays = [self._array(values[each.name], each.reading) for each in self.inputs]
        for size in self.sizes:
            arrays.append(np.empty((size.of(values[size.source]), 0), np.bool_))
        results = self.model(*arrays)
        several = results if isinstance(results, tuple) else (results,)
        return tuple([
            laid_out(to_tensor(np.asarray(array), output.dtype), output.layout)
            for output, array in zip(self.outputs, several, strict=True)
        ])  # fmt: skip

    def _array(self, tensor: Any, reading: Reading) -> Array:
        """Return a tensor as the array that its reading says, copied where its elements do not lie so."""
        for axis in reading.axes:
            if axis.repeated:
                tensor = tensor.narrow(axis.number, 0, min(1, tensor.shape[axis.number]))
        tensor = tensor.permute([axis.number for axis in reading.axes])
        if reading.is_dense or (all(axis.repeated or axis.room is None for axis in reading.axes) and reading.unit == 1):
            if not tensor.is_contiguous():
                self.report.copied += 1
                tensor = tensor.contiguous()
            return to_array(tensor)
        self.report.copied += 1
        whole, cut = [], []
        for axis, size in zip(reading.axes, tensor.shape, strict=True):
            reach = max((size - 1) * axis.step + 1, 0)
            whole.append(axis.room if isinstance(axis.room, int) else reach)
            cut.append(slice(0, reach, axis.step))
        if reading.unit != 1:
            whole.append(reading.unit if isinstance(reading.unit, int) else 1)
            cut.append(slice(0, 1))
            tensor = tensor.unsqueeze(-1)
        padded = torch.zeros(whole, dtype=tensor.dtype)
        padded[tuple(cut)] = tensor
        return to_array(padded)


def _plain(value: Any) -> Any:
    """Return a tensor of a subclass as a tensor: modes that look at each operator of the first call know no subclasses."""
    if not isinstance(value, torch.Tensor) or type(value) in (torch.Tensor, torch.nn.Parameter):
        return value
    with torch._C._DisableTorchDispatch():
        return value.as_subclass(torch.Tensor)


def _repeats(tensor: Any, reading: Reading) -> bool:
    """Return whether a tensor repeats its elements along the axes where it is said to."""
    return all(not axis.repeated or tensor.shape[axis.number] == 1 or tensor.stride(axis.number) == 0 for axis in reading.axes)


class Rerun:
    """Runs the nodes of a part in PyTorch when the part raised an exception, and says so the first time.

    Attributes:
        needs: the names of the nodes whose values it takes.
    """

    def __init__(
        self,
        module: Any,
        inside: Set[str],
        outputs: Sequence[Any],
        callee: Callable[[Any], Any],
        size: Callable[[str], PartSize],
        report: GraphReport,
    ) -> None:
        """inside: the names of the part's calls. callee: what is called for a node. size: where a symbol's value is found.

        Raises `UserError` for symbols whose value is found nowhere.
        """
        self.module, self.outputs, self.callee, self.report = module, tuple(outputs), callee, report
        found: set[Any] = set()
        self.leaves: dict[Any, None] = {}
        self.numbers: dict[Any, None] = {}
        pending = list(outputs)
        while pending:
            node = pending.pop()
            if node in found:
                continue
            found.add(node)
            producer = node.args[0] if node.target is operator.getitem else node
            if node.op == "call_function" and is_symbolic(node):
                self.numbers[node] = None
            elif producer.name in inside:
                pending += node.all_input_nodes
            elif node.op != "get_attr":
                self.leaves[node] = None
        symbols = {str(symbol) for node in self.numbers for symbol in node.meta["val"].node.expr.free_symbols}
        self.sizes = [size(symbol) for symbol in sorted(symbols)]
        self.nodes = [node for node in module.graph.nodes if node in found]
        self.needs = tuple(dict.fromkeys([node.name for node in self.leaves] + [each.source for each in self.sizes]))
        self._told = False
        self._run: Callable[..., Any] | None = None

    def __call__(self, error: Exception, *given: Any) -> tuple[Any, ...]:
        """Return the results of the part, for values of what it needs."""
        problem = problem_of(error)
        if not self._told:
            self._told = True
            tell(f"a part of {self.report.name} is run by PyTorch: {problem}")
        self.report.again(problem).calls += 1
        if self._run is None:
            self._run = self._module()
        values = dict(zip(self.needs, given, strict=True))
        sizes = {each.name: each.of(values[each.source]) for each in self.sizes}
        numbers = [_number(node.meta["val"], sizes) for node in self.numbers]
        return tuple(self._run(*[values[node.name] for node in self.leaves], *numbers))

    def _module(self) -> Any:
        graph = torch.fx.Graph()
        copies: dict[Any, Any] = {node: graph.placeholder(node.name) for node in (*self.leaves, *self.numbers)}
        for node in self.nodes:
            if node not in copies:
                copies[node] = copy = graph.node_copy(node, copies.__getitem__)
                if node.op == "call_function":
                    copy.target = self.callee(node)
        graph.output(tuple([copies[node] for node in self.outputs]))
        return torch.fx.GraphModule(self.module.original, graph)


def _number(value: Any, sizes: Mapping[str, int]) -> Any:
    """Return what a symbolic number is for sizes."""
    expression = value.node.expr
    known = expression.subs({symbol: sizes[str(symbol)] for symbol in expression.free_symbols})
    return {"SymInt": int, "SymFloat": float}.get(type(value).__name__, bool)(known)

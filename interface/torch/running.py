"""Runs what a graph was divided into, on tensors of PyTorch."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from ...promotion.arrays import Array
from ...promotion.dtype import DType
from .reporting import EagerOperator, GraphReport
from .tensors import to_array, to_tensor

Values = dict[str, Any]
"""Values of nodes, by name."""


@dataclass(frozen=True, slots=True)
class Layout:
    """How the elements of a tensor lie in memory: the axes from the outermost to the innermost, and the strides stated.

    Attributes:
        order: None for row-major order.
        strides: None where they depend on symbolic sizes.
        copies: whether the elements do not lie side by side in any order of the axes.
    """

    order: tuple[int, ...] | None
    strides: tuple[int, ...] | None
    copies: bool = False


def layout_of(value: Any) -> Layout:
    """Return the layout of a tensor, fake ones included."""
    sizes = [int(size) if isinstance(size, int) else _hint(size) for size in value.shape]
    steps = [int(step) if isinstance(step, int) else _hint(step) for step in value.stride()]
    static = all(isinstance(number, int) for number in (*value.shape, *value.stride()))
    order = sorted(range(len(sizes)), key=lambda axis: (-steps[axis], sizes[axis] == 1, axis))
    long = [axis for axis in order if sizes[axis] != 1]
    expected, dense = 1, True
    for axis in reversed(long):
        dense = dense and steps[axis] == expected
        expected *= max(sizes[axis], 1)
    if 0 in sizes:
        dense, long = True, []
    straight = long == sorted(long)
    strides = tuple(steps) if static else None
    if straight:
        return Layout(None, strides, not dense)
    return Layout(tuple(_filled(order, sizes)), strides, not dense)


def _filled(order: Sequence[int], sizes: Sequence[int]) -> list[int]:
    """Return an order in which axes of size 1, whose strides mean nothing, come first."""
    return [axis for axis in order if sizes[axis] == 1] + [axis for axis in order if sizes[axis] != 1]


def _hint(size: Any) -> int:
    hint = size.node.hint
    return int(hint) if hint is not None else 2


class CompiledPart:
    """A part of a graph that joinery compiled.

    Args:
        model: takes arrays in the memory order of their layouts, and returns such.
        inputs: names of nodes with the layouts of their values.
        sizes: how to find each symbolic size that no input has: a name and an axis of its tensor, or None for an int.
        outputs: names of nodes with dtypes and layouts.
    """

    def __init__(
        self,
        model: Callable[..., Any],
        inputs: Sequence[tuple[str, Layout]],
        sizes: Sequence[tuple[str, int | None]],
        outputs: Sequence[tuple[str, DType, Layout]],
        report: GraphReport,
    ) -> None:
        self.model, self.inputs, self.sizes, self.outputs, self.report = model, inputs, sizes, outputs, report

    def run(self, values: Values) -> None:
        """Compute the outputs from the inputs among the values, and add them to these."""
        arrays: list[Array] = []
        for name, layout in self.inputs:
            tensor = values[name]
            if layout.order is not None:
                tensor = tensor.permute(layout.order)
            if not tensor.is_contiguous():
                self.report.copied += 1
                tensor = tensor.contiguous()
            arrays.append(to_array(tensor))
        for name, axis in self.sizes:
            value = values[name]
            arrays.append(np.empty((value if axis is None else value.shape[axis], 0), np.bool_))
        results = self.model(*arrays)
        several = results if isinstance(results, tuple) else (results,)
        for (name, dtype, layout), array in zip(self.outputs, several, strict=True):
            values[name] = _laid_out(to_tensor(np.asarray(array), dtype), layout)


def _laid_out(tensor: Any, layout: Layout) -> Any:
    """Return a tensor that was computed in the order of its memory with the strides that are stated."""
    if layout.order is not None:
        back = sorted(range(len(layout.order)), key=layout.order.__getitem__)
        tensor = tensor.permute(back)
    if layout.strides is None or tensor.stride() == layout.strides:
        return tensor
    if not layout.copies:
        return tensor.as_strided(tensor.shape, layout.strides)  # axes of size 1 alone differ
    single = tensor
    for axis, step in enumerate(layout.strides):
        if step == 0:  # the same elements all along the axis
            single = single.narrow(axis, 0, 1)
    if _overlaps(single.shape, layout.strides):
        return tensor
    return torch.empty_strided(single.shape, layout.strides, dtype=tensor.dtype).copy_(single).as_strided(
        tensor.shape, layout.strides
    )


def _overlaps(sizes: Sequence[int], strides: Sequence[int]) -> bool:
    """Return whether two elements of a tensor may lie at one address."""
    reach = 0
    for step, size in sorted(zip(strides, sizes, strict=True)):
        if size > 1:
            if step <= reach:
                return True
            reach += step * (size - 1)
    return False


class EagerStep:
    """A node that PyTorch runs."""

    def __init__(self, node: Any, entry: EagerOperator | None) -> None:
        self.node, self.entry = node, entry
        # fakes are sometimes wrong about strides: a view is a reshape, which never fails
        self.target = torch.ops.aten.reshape.default if node.target is torch.ops.aten.view.default else node.target

    def run(self, values: Values) -> None:
        """Call the operator on values."""
        begin = time.perf_counter()
        find = lambda node: values[node.name]  # noqa: E731
        arguments = torch.fx.node.map_arg(self.node.args, find)
        options = torch.fx.node.map_arg(self.node.kwargs, find)
        values[self.node.name] = self.target(*arguments, **options)
        if self.entry is not None:
            self.entry.calls += 1
            self.entry.seconds += time.perf_counter() - begin


class CompiledGraph:
    """The steps of a graph and its results."""

    def __init__(
        self,
        inputs: Sequence[str],
        constants: Values,
        steps: Sequence[CompiledPart | EagerStep],
        outputs: Any,
        written: Sequence[tuple[str, str]],
        report: GraphReport,
    ) -> None:
        """written: inputs and the nodes whose values are copied into them at the end."""
        self.inputs, self.constants, self.steps, self.outputs = inputs, constants, steps, outputs
        self.written, self.report = written, report

    def run(self, arguments: list[Any]) -> Any:
        """Run once on tensors and sizes. The list is emptied, so that what it holds can be given back on the way."""
        values = {**self.constants, **dict(zip(self.inputs, arguments, strict=True))}
        arguments.clear()
        for step in self.steps:
            step.run(values)
        self.report.calls += 1
        for name, source in self.written:
            values[name].copy_(values[source])
        find = lambda node: values[node.name]  # noqa: E731
        return torch.fx.node.map_arg(self.outputs, find)

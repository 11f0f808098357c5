"""Runs the block programs of a plan, launch after launch, under the sanitizer of block kernels.

Inputs and constants are read-only. Each byte of outputs and temporaries counts as undefined until a program
writes it. Every buffer is an array of its own, so that each access has exact bounds.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import field
from typing import Any

import numpy as np

from ..graph.dims.dim import evaluate_dim
from ..promotion.arrays import Array
from ..promotion.dataclass import dataclass
from ..promotion.dtype import DType
from ..promotion.errors import InternalError
from .artifact import GPU_ALIGNMENT, clamped_positions
from .control.steps import Branch, Launches, Loop, Slice, Step, Together
from .nest import Buffer
from .program import Launch
from .stages import Tiled
from .tt.host_values import DescriptorArgument
from .tt.sanitize.findings import Finding, Report
from .tt.sanitize.sanitizer import sanitize


@dataclass(frozen=True, slots=True)
class LaunchReport:
    """What the sanitizer found in one launch of a model.

    Attributes:
        kernel: the kernel's name, as `Model.kernels` has it.
        report: the report of its run; lines are those of the graph.
    """

    kernel: str
    report: Report


@dataclass(frozen=True, slots=True)
class ModelReport:
    """The result of `Model.sanitize`.

    Attributes:
        launches: one report per kernel of the plan, in launch order.
        unwritten: findings about outputs of which some elements were never written.
        outputs: the arrays that the sanitized run computed; faulty lanes are left out of them.
    """

    launches: tuple[LaunchReport, ...]
    unwritten: tuple[Finding, ...]
    outputs: tuple[Array, ...] = field(repr=False, compare=False)

    @property
    def findings(self) -> tuple[Finding, ...]:
        """The findings of all launches in order, then those about unwritten outputs."""
        return (*(finding for launch in self.launches for finding in launch.report.findings), *self.unwritten)

    def __str__(self) -> str:
        count, launches = len(self.findings), len(self.launches)
        lines = [f"{count} finding{'' if count == 1 else 's'} in {launches} launch{'' if launches == 1 else 'es'}"]
        for number, launch in enumerate(self.launches):
            if launch.report.findings:
                lines += [f"kernel {number}, {launch.kernel}:", *map(str, launch.report.findings)]
            if launch.report.dropped:
                lines.append(f"further findings of {launch.report.dropped} lanes are left out")
        return "\n".join([*lines, *map(str, self.unwritten)])


def sanitize_launches(
    tiled: Tiled, inputs: Sequence[Array], constants: Sequence[Array], dims: Mapping[str, int]
) -> ModelReport:
    """Runs the launches of a graph in plan order under the sanitizer, those of loops in every iteration.

    inputs, constants: C-contiguous arrays in the order of the plan, constants stored as the kernels read
    them; they are not modified.  dims: the size of every symbolic dim.

    Raises `UnsupportedError` for operations that the interpreter does not know.
    """
    plan = tiled.plan
    memory = _Memory(dims)
    for buffer, array in zip(plan.inputs, inputs, strict=True):
        memory.give(buffer, array)
    for buffer, array, layout in zip(plan.constants, constants, tiled.laid_out.layouts, strict=True):
        memory.give(buffer, array, is_plain=layout.layout == "plain")
    for buffer in (*plan.outputs, *plan.temporaries):
        memory.reserve(buffer)
    run = _Run(tiled, memory, dims)
    run.steps(plan.steps or (Launches(0, len(tiled.launches)),))
    graph = tiled.source
    missing = [
        finding
        for buffer, name, symbol in zip(plan.outputs, graph.output_names, graph.outputs, strict=True)
        if (finding := memory.missing(buffer, name, f"{symbol.location.file}:{symbol.location.line}")) is not None
    ]
    outputs = [
        _in_dtype(memory.array(buffer), symbol.dtype) for buffer, symbol in zip(plan.outputs, graph.outputs, strict=True)
    ]
    return ModelReport(run.reports(), tuple(missing), tuple(outputs))


class _Run:
    """The steps of a plan under the sanitizer: launches, and the loops and branches around them, as back ends run them.

    Iterations use the same memory: only the first one of a loop can read what nothing has written.
    """

    def __init__(self, tiled: Tiled, memory: _Memory, dims: Mapping[str, int]) -> None:
        self._tiled, self._memory, self._dims = tiled, memory, dims
        self._reports: dict[int, LaunchReport] = {}

    def reports(self) -> tuple[LaunchReport, ...]:
        """Returns a report for each launch that ran, in plan order: of iterations, that of the first one with findings."""
        return tuple([self._reports[number] for number in sorted(self._reports)])

    def steps(self, steps: Sequence[Step]) -> None:
        """Runs steps in order."""
        for step in steps:
            match step:
                case Launches():
                    for number in range(step.first, step.last):
                        self._launch(number)
                case Loop():
                    self._loop(step)
                case Branch():
                    chosen = bool(self._memory.scalar(step.condition))
                    self._memory.write(step.number, 0 if chosen else 1)
                    self.steps(step.then if chosen else step.otherwise)
                case Together():
                    for part in step.parts:
                        self.steps(part)

    def _launch(self, number: int) -> None:
        launch, memory = self._tiled.launches[number], self._memory
        program, grid = self._tiled.programs[launch.program], evaluate_dim(launch.grid, self._dims)
        found = sanitize(program.func, grid, memory.arguments(launch), None, memory.unwritten) if grid > 0 else Report(())
        known = self._reports.get(number)
        if known is None or (found.findings and not known.report.findings):
            self._reports[number] = LaunchReport(program.name, found)

    def _loop(self, loop: Loop) -> None:
        memory = self._memory
        for carried in loop.carried:
            memory.point(carried.now, memory.array(carried.begin))
            if carried.following is not None and carried.spare is not None:
                memory.point(carried.following, memory.array(carried.memory[0]))
                memory.point(carried.spare, memory.array(carried.memory[1]))
        length = evaluate_dim(loop.length, self._dims)
        limits = [] if length < 0 else [length]
        if loop.limit is not None:
            limits.append(int(memory.scalar(loop.limit)))
        count = 0
        while all([count < limit for limit in limits]):
            memory.write(loop.index, count)
            self.steps(loop.condition)
            if loop.asked is not None and not memory.scalar(loop.asked):
                break
            at = length - 1 - count if loop.reverse else count
            for each in loop.slices:
                memory.point_at_row(each.row, each.whole, memory.position(each, at))
            self.steps(loop.body)
            for carried in loop.carried:
                if carried.following is not None and carried.spare is not None:
                    written = memory.array(carried.following)
                    memory.point(carried.now, written)
                    memory.point(carried.following, memory.array(carried.spare))
                    memory.point(carried.spare, written)
            count += 1
        memory.write(loop.count, count)


def _in_dtype(array: Array, dtype: DType) -> Array:
    """Returns an output in the graph's dtype; kernels hold complex128 values as pairs of uint64."""
    return array if array.dtype == dtype.numpy else array.view(dtype.numpy)[..., 0]


def _address(array: Array) -> int:
    address: int = array.__array_interface__["data"][0]
    return address


def _aligned(array: Array) -> Array:
    """Returns the array, or a copy of it, whose address is a multiple of `GPU_ALIGNMENT`, as it is on
    devices."""
    if not array.size or array.__array_interface__["data"][0] % GPU_ALIGNMENT == 0:
        return array
    raw = np.empty(array.nbytes + GPU_ALIGNMENT, np.uint8)
    start = -raw.__array_interface__["data"][0] % GPU_ALIGNMENT
    copy = raw[start : start + array.nbytes].view(array.dtype).reshape(array.shape)
    copy[...] = array
    return copy


class _Memory:
    """The arrays of a plan's buffers, and which of their bytes nothing has written yet, by address."""

    def __init__(self, dims: Mapping[str, int]) -> None:
        self._dims = dims
        self._arrays: dict[tuple[str, int], Array] = {}
        self.unwritten: dict[int, Array] = {}

    def array(self, buffer: Buffer) -> Array:
        return self._arrays[buffer.kind, buffer.index]

    def _shape(self, buffer: Buffer) -> tuple[int, ...]:
        return tuple(evaluate_dim(extent, self._dims) for extent in buffer.shape)

    def give(self, buffer: Buffer, array: Array, is_plain: bool = True) -> None:
        """Makes a read-only view of the array (or of an aligned copy) the memory of a buffer.

        is_plain: whether its elements are the buffer's, which panels of a constant are not: they are padded.
        Raises `InternalError` if the sizes differ.
        """
        seen = array.reshape(-1).view(buffer.dtype.numpy)
        shape = self._shape(buffer) if is_plain else seen.shape
        if seen.size != int(np.prod(shape, dtype=np.int64)):
            raise InternalError(f"sanitize: {buffer.kind} {buffer.index} has {seen.size} elements, the plan says {shape}")
        seen = _aligned(seen).reshape(shape).view()
        seen.flags.writeable = False
        self._arrays[buffer.kind, buffer.index] = seen

    def reserve(self, buffer: Buffer) -> None:
        """Allocates the memory of a buffer, all of whose bytes count as unwritten."""
        array = _aligned(np.zeros(self._shape(buffer), buffer.dtype.numpy))
        self._arrays[buffer.kind, buffer.index] = array
        if array.size:
            self.unwritten[array.__array_interface__["data"][0]] = np.ones(array.nbytes, np.bool_)

    def scalar(self, buffer: Buffer) -> Any:
        """Returns the element of a buffer that has one."""
        return self.array(buffer).reshape(-1)[0]

    def write(self, buffer: Buffer | None, value: int) -> None:
        """Writes a number that the driver of loops and branches computes, where somebody reads it."""
        if buffer is not None:
            array = self.array(buffer)
            array[...] = value
            blank = self.unwritten.get(_address(array))
            if blank is not None:
                blank[:] = False

    def point(self, variable: Buffer, array: Array) -> None:
        """Lets a variable stand for an array."""
        self._arrays[variable.kind, variable.index] = array

    def position(self, each: Slice, iteration: int) -> int:
        """Returns which row an iteration reads."""
        if each.positions is None:
            return iteration
        return clamped_positions([int(self.array(each.positions)[iteration])], evaluate_dim(each.count, self._dims))[0]

    def point_at_row(self, variable: Buffer, whole: Buffer, row: int) -> None:
        """Lets a variable stand for a row of an array, where it lies."""
        array = self.array(whole)
        found = array[row : row + 1].reshape(self._shape(variable))
        blank = self.unwritten.get(_address(array)) if array.size else None
        if blank is not None and found.size:
            start = row * found.nbytes
            self.unwritten.setdefault(_address(found), blank[start : start + found.nbytes])
        self.point(variable, found)

    def arguments(self, launch: Launch) -> list[Array | int | DescriptorArgument]:
        """Returns the arguments of the launch: arrays for pointers, then sizes, then tensor descriptors."""
        found: list[Array | int | DescriptorArgument] = [self.array(buffer) for buffer in launch.buffers]
        found += [evaluate_dim(size, self._dims) for size in launch.scalars]
        for each in launch.descriptors:
            extents = [evaluate_dim(extent, self._dims) for extent in each.extents]
            strides = [evaluate_dim(stride, self._dims) for stride in each.strides]
            found.append(DescriptorArgument(self.array(each.buffer).reshape(-1), extents, strides))
        return found

    def missing(self, buffer: Buffer, name: str, line: str) -> Finding | None:
        """Returns the finding about elements of an output that no kernel has written, or None if there are
        none."""
        array = self.array(buffer)
        blank = self.unwritten.get(array.__array_interface__["data"][0]) if array.size else None
        if blank is None or not blank.any():
            return None
        elements = np.flatnonzero(blank.reshape(array.size, array.itemsize).any(axis=1))
        first = tuple(int(i) for i in np.unravel_index(int(elements[0]), array.shape))
        message = f"no kernel writes element {list(first)} of output {name!r}"
        return Finding("uninitialised", message, f"output {name}", line, None, first, count=len(elements))

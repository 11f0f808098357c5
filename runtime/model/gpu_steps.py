"""Runs the steps of a GPU's program: the host counts, asks conditions and moves addresses; values stay on the device.

An iteration costs the host one copy of eight bytes where its body reads the index, and one wait where a condition is read.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence

import numpy as np

from ...graph.dims.binding import extent_at
from ...lowering.artifact import (
    GpuBranch,
    GpuLoop,
    GpuProgram,
    GpuSection,
    GpuSlice,
    GpuStep,
    Location,
    TensorMap,
    clamped_positions,
)
from ...promotion.dataclass import dataclass
from ...promotion.errors import UserError
from ..gpu import GpuDevice, LoadedKernel, Recording

PreparedLaunch = tuple[LoadedKernel, tuple[int, int, int], Sequence[int]]

MAX_RECORDED = 8
"""How many recordings a section keeps: a loop that carries a value in two temporaries has three sets of addresses."""
MAX_SEEN = 64


@dataclass(frozen=True, slots=True)
class ProgramOnGpu:
    """A program on a device, with its kernels in the order of the program's. name: of the graph."""

    device: GpuDevice
    program: GpuProgram
    kernels: tuple[LoadedKernel, ...]
    name: str

    def launches(
        self, first: int, last: int, dims: Mapping[str, int], addresses: Mapping[str, Sequence[int]]
    ) -> list[PreparedLaunch]:
        """Return the launches `first` to `last - 1` with their arguments. addresses: of all arrays, by kind."""
        program, found = self.program, list[PreparedLaunch]()
        for launch in program.launches[first:last]:
            arguments = [
                addresses[each[0]][each[1]] if isinstance(each, tuple) else extent_at(each, dims)
                for each in launch.arguments
            ]
            grid = extent_at(launch.grid, dims)
            if grid:  # with an empty grid, tensors may be empty, which no map can describe
                arguments += [self._map(facts, arguments) for facts in program.kernels[launch.kernel].tensor_maps]
                found.append((self.kernels[launch.kernel], (grid, 1, 1), arguments))
        return found

    def _map(self, facts: TensorMap, arguments: Sequence[int]) -> int:
        """Encode the tensor map whose sizes follow from the launch's arguments."""
        sizes = facts.source.sizes(arguments)
        if sizes is None:
            raise UserError(f"the extents and strides of a tensor map of {self.name} have no values")
        return self.device.tensor_map(facts, arguments[facts.parameter], sizes.extents, sizes.strides, sizes.pads_with_nan)

    def launch(self, launches: Sequence[PreparedLaunch]) -> None:
        for kernel, grid, arguments in launches:
            self.device.launch(kernel, grid, arguments)


class _Section:
    """Launches in order. Those whose addresses come again are recorded, if there are several.

    used: the variables that the launches depend on.
    """

    def __init__(self, used: Sequence[int]) -> None:
        self._used = tuple(used)
        self._seen: dict[tuple[int, ...], list[PreparedLaunch]] = {}
        self._recorded: dict[tuple[int, ...], Recording] = {}

    def run(
        self, there: ProgramOnGpu, variables: Sequence[int], prepared: Callable[[], list[PreparedLaunch]]
    ) -> None:
        """Run the launches, which `prepared` returns for these addresses of variables."""
        key = tuple([variables[number] for number in self._used])
        recording = self._recorded.get(key)
        if recording is not None:
            recording.replay()
            return
        again = key in self._seen
        if not again and len(self._seen) >= MAX_SEEN:
            self._seen.clear()
        launches = self._seen[key] if again else self._seen.setdefault(key, prepared())
        if again and len(launches) > 1 and len(self._recorded) < MAX_RECORDED:
            recording = self._recorded[key] = there.device.capture(lambda: there.launch(launches))
            recording.replay()
        else:
            there.launch(launches)

    def free(self) -> None:
        for recording in self._recorded.values():
            recording.free()
        self._recorded.clear()


class GpuStepRunner:
    """The steps of a program for certain dims and addresses; implements `Recording`. Replays exclude each other.

    Args:
        there: the program, which has steps.
        dims: the value of each dim.
        addresses: of the arrays, by kind, without variables.
    """

    def __init__(self, there: ProgramOnGpu, dims: Mapping[str, int], addresses: Mapping[str, Sequence[int]]) -> None:
        self._there, self._dims = there, dims
        self._variables = [0] * there.program.variables
        self._addresses = {**addresses, "variable": self._variables}
        self._sections: dict[tuple[int, int], _Section] = {}
        self._lock = threading.Lock()

    def replay(self) -> None:
        """Run all steps; may return before the device is done."""
        with self._lock:
            self._run(self._there.program.steps)

    def free(self) -> None:
        for section in self._sections.values():
            section.free()

    def _run(self, steps: Sequence[GpuStep]) -> None:
        for step in steps:
            match step:
                case GpuSection():
                    self._launch(step.first, step.last)
                case GpuLoop():
                    self._loop(step)
                case GpuBranch():
                    chosen = bool(self._value(step.condition, np.bool_))
                    self._set(step.number, 0 if chosen else 1)
                    self._run(step.then if chosen else step.otherwise)

    def _launch(self, first: int, last: int) -> None:
        there, found = self._there, self._sections.get((first, last))
        if found is None:
            used = {
                argument[1]
                for launch in there.program.launches[first:last]
                for argument in launch.arguments
                if isinstance(argument, tuple) and argument[0] == "variable"
            }
            found = self._sections[first, last] = _Section(sorted(used))
        found.run(there, self._variables, lambda: there.launches(first, last, self._dims, self._addresses))

    def _loop(self, loop: GpuLoop) -> None:
        variables = self._variables
        for carried in loop.carried:
            variables[carried.now] = self._address(carried.begin)
            if carried.following >= 0:
                variables[carried.following], variables[carried.spare] = map(self._address, carried.memory)
        length = extent_at(loop.length, self._dims)
        limits = [] if length < 0 else [length]
        if loop.limit is not None:
            limits.append(int(self._value(loop.limit, np.int64)))
        rows = [
            (each.row, self._address(each.whole), extent_at(each.nbytes, self._dims), self._positions(each, length))
            for each in loop.slices
        ]
        count = 0
        while all(count < limit for limit in limits):
            self._set(loop.index, count)
            self._run(loop.condition)
            if loop.asked is not None and not self._value(loop.asked, np.bool_):
                break
            at = length - 1 - count if loop.reverse else count
            for row, whole, nbytes, positions in rows:
                variables[row] = whole + (at if positions is None else positions[at]) * nbytes
            self._run(loop.body)
            for carried in loop.carried:
                if carried.following >= 0:
                    written = variables[carried.following]
                    variables[carried.now], variables[carried.following] = written, variables[carried.spare]
                    variables[carried.spare] = written
            count += 1
        self._set(loop.count, count)

    def _positions(self, each: GpuSlice, length: int) -> list[int] | None:
        """Read which rows a loop reads, when all that computes it is done."""
        if each.positions is None:
            return None
        found = np.empty(max(length, 0), np.int32 if each.bits == 32 else np.int64)
        if found.size:
            self._there.device.read(self._address(each.positions), found)
        return clamped_positions(found.tolist(), extent_at(each.count, self._dims))

    def _address(self, location: Location) -> int:
        kind, index = location
        return self._addresses[kind][index]

    def _value(self, location: Location, dtype: type[np.generic]) -> np.generic:
        """Read a scalar, when all that computes it is done."""
        found = np.empty(1, dtype)
        self._there.device.read(self._address(location), found)
        return found[0]  # type: ignore[no-any-return]

    def _set(self, location: Location | None, value: int) -> None:
        if location is not None:
            self._there.device.write(self._address(location), np.array([value], np.int64))

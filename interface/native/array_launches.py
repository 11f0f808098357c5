"""Launches on the CPU whose arguments need no conversion: arrays, integers and floats."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ...lowering.tt.arguments import Parameter, grid_extents
from ...runtime.host.threads import launch_pool, launch_threads
from .arguments import plain_arguments, plain_records
from .kernel import NativeKernel
from .plain_launches import PlainLaunches
from .reach import NOTHING, Reach, known_memory


class ArrayLaunches:
    """Launches of one kernel, by native code that compares accesses with the arrays or does not."""

    def __init__(
        self, name: str, parameters: Sequence[Parameter], sizes: Sequence[int], native: Callable[[], NativeKernel]
    ) -> None:
        """sizes: of the parameters, as `plain_sizes` says. native: makes the code, and returns the same every time."""
        self._name = name
        self._parameters = parameters
        self._sizes = sizes
        self._native = native
        self._plain = PlainLaunches(plain_records(parameters, sizes))

    def launch(self, grid: int | Sequence[int], args: Sequence[Any], threads: int | None) -> bool:
        """Run all programs, and return whether the arguments are plain (`plain_arguments`); nothing has run if they are not.

        Raises what `HostProgram.run` does, and `UserError` for grids and numbers of threads that are none.
        """
        stopped = self._plain.start(launch_pool(threads), grid, *args)
        if stopped is None:
            return True
        found = plain_arguments(self._parameters, self._sizes, args)
        if found is None:
            return False
        values, spans = found
        native, extents = self._native(), grid_extents(grid)
        known = known_memory([(first, end) for _, first, end in spans]) if native.facts.follows else NOTHING
        reach = Reach(spans, known) if native.facts.checked else None
        if stopped and self._plain.program is not None:
            self._plain.program.raise_stopped(self._name, stopped, extents, reach)
        native.program(spans, values).run(self._name, values, extents, launch_threads(threads), reach)
        self._plain.prepare(native)
        self._plain.note_dtypes(args)
        return True

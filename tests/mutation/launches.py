"""Records launches in the simulator, to repeat them with another text."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any
from unittest.mock import patch

import joinery as jn
import numpy as np
from joinery.runtime.ptxsim import Module, PtxCheckError
from joinery.runtime.ptxsim import launch as launching
from joinery.runtime.ptxsim.core import state
from joinery.runtime.ptxsim.memory.spaces import GlobalMemory

BUDGET = 2_000_000


@dataclass(frozen=True, slots=True)
class Launch:
    """A launch of a kernel: `memory` are its arrays, with their contents before and after; `budget`:
    instructions that suffice."""

    text: str
    name: str
    memory: list[Any]
    before: list[Any]
    after: list[Any]
    warnings: frozenset[str]
    budget: int
    start: Callable[[Any, int], Any]

    def verdict(self, module: Module) -> str:
        """Tells a module from the launch's own: returns the kind of a finding, "values", or "" where it cannot.

        The first finding ends the launch.
        """
        for array, content in zip(self.memory, self.before, strict=True):
            array[...] = content
        try:
            with patch.object(state, "MAX_VIOLATIONS", 1):
                result = self.start(module.kernel(self.name), self.budget)
        except PtxCheckError as error:
            return error.findings[0].kind
        if any(not np.array_equal(*each) for each in zip(self.memory, self.after, strict=True)):
            return "values"
        new = {finding.kind for finding in result.findings} - self.warnings
        return f"a warning, {min(new)}" if new else ""


def verdict(launches: list[Launch], text: str) -> str:
    """Returns the verdict of the first launch that tells a text from the launches' own; "" if none does."""
    try:
        module = Module(text)
        return next(filter(None, (each.verdict(module) for each in launches)), "")
    except (jn.UserError, jn.UnsupportedError) as error:
        return f"refused: {error}"


@contextmanager
def recorded(one_block: bool) -> Iterator[list[Launch]]:
    """Yields a list to which all launches in the simulator are added; they run with all checks. one_block: only the first block
    of a model's kernels runs."""
    found: list[Launch] = []
    launch, launch_in = launching.Kernel.launch, launching.Kernel.launch_in

    def note(kernel: Any, memory: list[Any], run: Callable[[Any, int], Any]) -> Any:
        before = [array.copy() for array in memory]
        result = run(kernel, BUDGET)
        warnings = frozenset(finding.kind for finding in result.findings)
        after = [array.copy() for array in memory]
        budget = 3 * result.executed + 10_000
        found.append(Launch(kernel.module.text, kernel.name, memory, before, after, warnings, budget, run))
        return result

    def on_arrays(self: Any, grid: Any, block: Any, args: Any, **options: Any) -> Any:
        arrays = [each.view(np.uint8) for each in args if isinstance(each, np.ndarray)]
        return note(self, arrays, lambda k, budget: launch(k, grid, block, args, **options | {"level": 3, "budget": budget}))

    def on_memory(self: Any, memory: GlobalMemory, variables: Any, grid: Any, words: Any, shared: int, level: int) -> Any:
        extents = (1, 1, 1) if one_block else grid

        def run(k: Any, budget: int) -> Any:
            with patch.object(launching, "BUDGET", budget):
                return launch_in(k, memory, variables, extents, words, shared, 3)

        return note(self, [memory.octets], run)

    with patch.object(launching.Kernel, "launch", on_arrays), patch.object(launching.Kernel, "launch_in", on_memory):
        yield found

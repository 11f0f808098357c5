"""Checks every random program; each check raises AssertionError with the program's text."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import joinery as jn
import numpy as np
from joinery.lowering.frontends.ttir.line_reader import read_lines
from joinery.lowering.frontends.ttir.parser import read_module
from joinery.lowering.frontends.ttir.text import parse
from joinery.lowering.tt.interpret.interpreter import interpret
from joinery.lowering.tt.interpret.machine import find_function
from joinery.lowering.tt.interpret.memory import AccessError
from joinery.lowering.tt.printing import print_module
from joinery.lowering.tt.transforms.pipeline import Pipeline, pipeline_of
from joinery.lowering.tt.verify import first_problem

from .programs import Program

ULPS = {"f16": 1, "bf16": 1, "f32": 4, "f64": 8}
"""How far results of elementary functions may be apart, in units in the last place; all other results must
have the same bits."""


def differing(program: Program, found: list[Any], expected: list[Any]) -> str | None:
    """Describes the first array that differs, and where; any NaN equals any NaN."""
    for array, one, two in zip(program.arrays.values(), found, expected, strict=False):
        bits = np.dtype(f"i{one.dtype.itemsize}")
        good = one.view(bits) == two.view(bits)
        if one.dtype.kind not in "iub":
            wide, wanted = one.astype(np.float64), two.astype(np.float64)
            good |= np.isnan(wide) & np.isnan(wanted)
            if array.kind.startswith("near"):
                ordered = [np.where(x < 0, np.iinfo(bits).min - x, x) for x in (one.view(bits), two.view(bits))]
                apart = np.abs(ordered[0] - ordered[1])  # wraps to large numbers where the signs differ
                good |= (apart >= 0) & (apart <= ULPS[array.elem]) & ~np.isnan(wide) & ~np.isnan(wanted)
        if not good.all():
            at = int(np.argmin(good))
            return f"{array.name}: {(~good).sum()} of {good.size} differ; [{at}] is {one[at]!r}, expected {two[at]!r}"
    return None


class Checked:
    """A program, its text as a kernel, and its memory after the interpreter ran it."""

    def __init__(self, program: Program, seed: int) -> None:
        self.program = program
        self.text = program.text()
        self.start = program.arguments(seed)
        self.kernel = jn.kernel.from_ttir(self.text)
        self.expected = self._run(lambda *args: self.kernel.interpret(program.grid, *args))

    def _run(self, run: Callable[..., object]) -> list[Any]:
        own = [arg.copy() if isinstance(arg, np.ndarray) else arg for arg in self.start]
        with np.errstate(all="ignore"):
            run(*own)
        return own

    def _same(self, what: str, run: Callable[..., object]) -> None:
        found = differing(self.program, self._run(run), self.expected)
        assert found is None, f"{what}: {found}\n{self.text}"

    def launched(self) -> None:
        """Launches the program natively, on one and two threads."""
        for threads in (1, 2):
            self._same(f"{threads} threads", lambda *args, n=threads: self.kernel.launch(self.program.grid, *args, threads=n))

    def bounds_are_checked(self, choice: int) -> None:
        """Checks that code which checks bounds computes the same, and stops for a shorter array where the interpreter does.

        The interpreter runs the text after the passes, which leave out loads that nobody reads.
        """
        self._same("checked", lambda *args: self.kernel.launch(self.program.grid, *args, check_bounds=True))
        arrays = [position for position, arg in enumerate(self.start) if isinstance(arg, np.ndarray) and arg.size > 1]
        if not arrays:
            return
        position = arrays[choice % len(arrays)]
        short = 1 + choice // len(arrays) % (self.start[position].size - 1)

        def leaves(run: Callable[..., object], **options: bool) -> bool:
            own = [arg.copy() if isinstance(arg, np.ndarray) else arg for arg in self.start]
            own[position] = own[position][: own[position].size - short].copy()
            try:
                with np.errstate(all="ignore"):
                    run(self.program.grid, *own, **options)
            except AccessError:
                return True
            return False

        prepared = jn.kernel.from_ttir(self.kernel.ttir_after(self.kernel.passes[-1]))
        expected = leaves(prepared.interpret)
        assert leaves(self.kernel.launch, check_bounds=True) == expected, f"argument {position}, {short} short\n{self.text}"

    def passes(self) -> None:
        """Checks that every pass leaves valid text with the same meaning."""
        module = parse(self.text)
        function = find_function(module, "f")
        before = print_module(module)
        for each in (*pipeline_of("sm_80").passes, *Pipeline.parse("fix-order").passes):
            each.run(function)
            problem = first_problem(module)
            assert problem is None, f"{each.name}: {problem}\n{self.text}"
            after = print_module(module)
            if after != before:
                self._same(f"after {each.name}", lambda *args: interpret(module, self.program.grid, args, "f"))
            before = after

    def text_survives(self) -> None:
        """Checks that both readers read the same, and that the printed text reads the same again."""
        from ..readers import difference

        for text in (self.text, self.kernel.ttir):
            strict, fast = read_module(text), read_lines(text)
            assert fast is not None, text
            assert difference(strict, fast) is None, text
            assert print_module(strict) == self.kernel.ttir, text

    def sanitized(self) -> None:
        """Checks that the program is clean, and means the same under the sanitizer."""

        def run(*args: Any) -> None:
            report = self.kernel.sanitize(self.program.grid, *args)
            assert not report.findings, f"{report}\n{self.text}"

        self._same("sanitized", run)


__all__ = ["Checked"]

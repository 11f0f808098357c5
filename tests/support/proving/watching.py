"""Runs prepared functions in the interpreter, and notes what every operation takes and gives."""

from __future__ import annotations

from typing import Any

import numpy as np
from joinery.lowering.prove.preparation import PreparedFunction
from joinery.lowering.tt.interpret.interpreter import _Interpreter
from joinery.lowering.tt.interpret.translation import PlainTranslation
from joinery.promotion.errors import JoineryError
from xdsl.ir import Operation

_MAX_STEPS = 4000


class _Ends(Exception):
    """Ends a run of which enough has been seen."""


class _Watching(PlainTranslation):
    """Notes the values of a program after every operation."""

    def __init__(self, machine: Any, seen: list[tuple[Any, ...]], base: dict[int, int]) -> None:
        super().__init__(machine)
        self._seen, self._base = seen, base

    def operation(self, op: Operation) -> Any:
        inner = super().operation(op)
        slots = [self.slot(result) for result in op.results]
        operands = [self.slot(operand) for operand in op.operands]
        machine = self.machine

        def step(env: Any) -> None:
            before = [env[slot] for slot in operands]
            if inner is not None:
                inner(env)
            program = tuple(int(each) for each in machine.program)
            values = [*zip(op.results, [env[slot] for slot in slots], strict=True), *zip(op.operands, before, strict=True)]
            self._seen.append((op, program, [(ssa, np.array(value)) for ssa, value in values]))
            if len(self._seen) > _MAX_STEPS:
                raise _Ends

        return step


class _Machine(_Interpreter):
    def __init__(self, grid: tuple[int, ...], seen: list[tuple[Any, ...]]) -> None:
        super().__init__(grid, None)
        self.seen = seen

    def translate(self, body: Any) -> Any:
        return _Watching(self, self.seen, {}).body(body)


def run(prepared: PreparedFunction, grid: tuple[int, int, int], arguments: list[Any]) -> tuple[list[tuple[Any, ...]], list[Any]]:  # noqa: E501
    """Returns what the programs of a launch compute, operation by operation, and the values of the parameters."""
    seen: list[tuple[Any, ...]] = []
    machine = _Machine(grid, seen)
    values = machine.bind(prepared.function, arguments)
    with np.errstate(all="ignore"):
        code = machine.function(prepared.function)
        for z in range(grid[2]):
            for y in range(grid[1]):
                for x in range(grid[0]):
                    machine.program = (np.int32(x), np.int32(y), np.int32(z))
                    try:
                        code(values)
                    except (_Ends, JoineryError):
                        return seen, values
    return seen, values


__all__ = ["run"]

"""Traces interpreted runs: a callback sees every operation, with the values of its operands and results."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from xdsl.ir import Block, Operation

from ....promotion.dataclass import dataclass
from ..op_locations import OpLocations
from .machine import Environment, Machine, Value
from .machine import Step as Run
from .translation import PlainTranslation


@dataclass(frozen=True, slots=True)
class Step:
    """One operation that has just run.

    Attributes:
        program: the program's position in the grid, (x, y, z).
        name: the operation's name, `tt.load`.
        text: its first line, as in `Kernel.ttir`.
        line: its source line, or the line of `Kernel.ttir` if the text names no source.
        operands: NumPy values, read-only. Pointers are addresses in the interpreter's memory.
        results: the same; empty for stores and terminators.

    An operation with regions comes after the operations inside. Those of a reduction or a scan run on whole blocks of pairs.
    """

    program: tuple[int, int, int]
    name: str
    text: str
    line: str
    operands: tuple[Value, ...]
    results: tuple[Value, ...]


class TracingTranslation(PlainTranslation):
    """Calls `callback` after every operation. Constants come when their block runs."""

    def __init__(self, machine: Machine, callback: Callable[[Step], object]) -> None:
        super().__init__(machine)
        self._callback = callback
        self._locations: OpLocations | None = None

    def operation(self, op: Operation) -> Run[Environment]:
        return self._traced(op, super().operation(op))

    def block(self, block: Block) -> list[Run[Environment]]:
        last = block.last_op
        return [*super().block(block), *([self._traced(last, None)] if last is not None else [])]

    def _traced(self, op: Operation, run: Run[Environment] | None) -> Run[Environment]:
        operands = [self.slot(value) for value in op.operands]
        results = [self.slot(value) for value in op.results]
        machine, callback = self.machine, self._callback
        if self._locations is None:
            root = op
            while (parent := root.parent_op()) is not None:
                root = parent
            self._locations = OpLocations(root)
        line, text = self._locations.line(op), self._locations.text(op)

        def step(env: Environment) -> None:
            taken = tuple([_frozen(env[slot]) for slot in operands])
            if run is not None:
                run(env)
            given = tuple([_frozen(env[slot]) for slot in results])
            x, y, z = machine.program
            callback(Step((int(x), int(y), int(z)), op.name, text, line, taken, given))

        return step


def _frozen(value: Value) -> Value:
    if isinstance(value, np.ndarray) and value.flags.writeable:
        value = value.view()
        value.flags.writeable = False
    return value

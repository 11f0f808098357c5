"""Runs block functions with NumPy: the definition of the block IR that the back ends are tested against.

A function is translated once into a list of Python closures over one list of values, then run for every
program of the grid, one after the other, axis x fastest. An access outside an array raises
(`memory.AccessError`). Masked lanes touch no memory; where a load says nothing about them they hold poison:
NaN, or the integer 0x5A5A…, so that a test sees it leak. Reductions combine neighbouring elements as a
balanced tree, scans by doubling; both keep the order of the operands.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from xdsl.ir import Operation, Region

from ....promotion.arrays import Array
from ..arguments import grid_extents
from .machine import Function, Machine, find_function
from .memory import AccessError, Memory
from .trace import Step, TracingTranslation
from .translation import PlainTranslation

__all__ = ["AccessError", "interpret"]


def interpret(
    func: Operation,
    grid: int | Sequence[int],
    args: Sequence[Array | int | float | bool],
    name: str | None = None,
    trace: Callable[[Step], object] | None = None,
) -> None:
    """Run every program of the grid; arrays are written in place.

    Args:
        func: a `tt.func`, or a module (the function called `name`, or the only public one).
        grid: number of programs, or one number per axis x, y, z.
        args: one per parameter. A pointer takes a C-contiguous array whose elements have the pointee's
            width, of any dtype (i1 takes bytes); a scalar takes a number, which is rounded to a float
            parameter and must fit an integer one. A descriptor takes a `TensorDescriptor`, which also supplies
            the extents and strides behind it; a table of pointers takes a `PointerTable`.
        trace: called after every operation; what it raises ends the run.

    Raises:
        UserError: the arguments do not fit the parameters.
        AccessError: an access outside the arrays.
        UnsupportedError: the function holds an operation that the interpreter does not know.
    """
    function = find_function(func, name)
    extents = grid_extents(grid)
    machine = _Interpreter(extents, trace)
    values = machine.bind(function, args)
    with np.errstate(all="ignore"):
        code = machine.function(function)
        for z in range(extents[2]):
            for y in range(extents[1]):
                for x in range(extents[0]):
                    machine.program = (np.int32(x), np.int32(y), np.int32(z))
                    try:
                        code(values)
                    except AccessError as error:
                        raised = AccessError(f"@{function.sym_name.data}, program ({x}, {y}, {z}): {error}")
                        raised.origin = error.origin
                        raise raised from None


class _Interpreter(Machine):
    """Runs functions as they are, one operation after the other."""

    def __init__(self, grid: tuple[int, ...], trace: Callable[[Step], object] | None) -> None:
        super().__init__(grid, Memory())
        self._trace = trace

    def translate(self, body: Region) -> Function:
        translation = PlainTranslation(self) if self._trace is None else TracingTranslation(self, self._trace)
        return translation.body(body)

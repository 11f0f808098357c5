"""Runs block functions with NumPy: the definition of the block IR that the back ends are tested against.

A function is translated once into a list of Python closures over one list of values, then run for every
program of the grid, one after the other, axis x fastest. An access outside an array raises
(`memory.AccessError`). Masked lanes touch no memory; where a load says nothing about them they hold poison:
NaN, or the integer 0x5A5A…, so that a test sees it leak. Reductions combine neighbouring elements as a
balanced tree, scans by doubling; both keep the order of the operands.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Operation

from ....promotion.errors import UserError
from ..arguments import grid_extents, parameters_of, supplied
from ..dialect.descriptor_types import TensorDescType
from ..dialect.functions import FuncOp
from ..host_values import PointerTable, TensorDescriptor
from .descriptors import bind_host_value
from .memory import AccessError, Memory
from .trace import Step, TracingTranslation
from .translation import Translation, Value

Array = NDArray[Any]

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
    machine = Machine(extents, Translation if trace is None else partial(TracingTranslation, callback=trace))
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
                        raise AccessError(
                            f"@{function.sym_name.data}, program ({x}, {y}, {z}): {error}"
                        ) from None


def find_function(func: Operation, name: str | None = None) -> FuncOp:
    """The function to run: `func` itself, or one of a module's functions."""
    if isinstance(func, FuncOp):
        return func
    if not isinstance(func, ModuleOp):
        raise UserError(f"expected a tt.func or a module, got {func.name}")
    functions = [op for op in func.body.block.ops if isinstance(op, FuncOp)]
    if name is not None:
        found = [op for op in functions if op.sym_name.data == name]
    else:
        private = [
            op for op in functions if op.sym_visibility is not None and op.sym_visibility.data == "private"
        ]
        found = [op for op in functions if op not in private and op.body.blocks]
    if len(found) != 1:
        names = ", ".join(op.sym_name.data for op in functions) or "none"
        wanted = f"function {name!r}" if name is not None else "single public function"
        raise UserError(f"the module has no {wanted}; its functions: {names}. Pass name= to choose one")
    return found[0]


class Machine:
    """Memory, the current program and the translated functions of one run."""

    def __init__(
        self, grid: tuple[int, ...], translation: Callable[[Machine], Translation] = Translation, memory: Memory | None = None
    ) -> None:
        self.memory = Memory() if memory is None else memory
        self.translation = translation
        self.grid = tuple(np.int32(extent) for extent in grid)
        self.program: tuple[Value, ...] = (np.int32(0),) * 3
        self._functions: dict[Operation, Callable[[Sequence[Value]], list[Value]]] = {}

    def bind(self, function: FuncOp, args: Sequence[Any]) -> list[Value]:
        """Check the arguments and turn them into values."""
        values: list[Value] = []
        for parameter, arg in supplied(function.sym_name.data, parameters_of(function), args):
            if isinstance(arg, TensorDescriptor | PointerTable) or isinstance(parameter.type, TensorDescType):
                values.append(bind_host_value(parameter, arg, self.memory))
            elif parameter.is_pointer:
                values.append(np.int64(self.memory.add(parameter.array(arg), parameter.name)))
            else:
                values.append(parameter.scalar(arg))
        return values

    def function(self, function: FuncOp) -> Callable[[Sequence[Value]], list[Value]]:
        """The translated function: values of the parameters -> values returned."""
        found = self._functions.get(function)
        if found is None:
            translation = self.translation(self)

            def run(args: Sequence[Value]) -> list[Value]:
                return translated(args)

            self._functions[function] = run  # before the body is translated, so that it may call itself
            translated = translation.body(function.body)
            found = run
        return found

    def callee(self, module: ModuleOp, name: str) -> Callable[[Sequence[Value]], list[Value]]:
        """The translated function `name` of a module."""
        return self.function(find_function(module, name))

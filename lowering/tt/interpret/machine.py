"""Defines what translated functions run on: the machine of one run, and the slots of one function's values.

`translation.py` translates operations; those that have a file of their own (`effects.py`) see a `Translator`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import Any, Generic, TypeVar

import numpy as np
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Operation, Region, SSAValue

from ....promotion.arrays import PointerArgument
from ....promotion.errors import UserError
from ..arguments import parameters_of, supplied
from ..dialect.functions import FuncOp
from ..dialect.memory.descriptor_types import TensorDescType
from ..host_values import DescriptorArgument, TableArgument
from .descriptors import bind_host_value
from .memory import Memory

Value = Any
"""A value at run time, by the type of its SSA value: an array (for shape () a NumPy scalar), a `Descriptor`
or a `BlockPointer`."""
Environment = list[Value]
EnvironmentT = TypeVar("EnvironmentT", bound=Environment)
Step = Callable[[EnvironmentT], None]
Function = Callable[[Sequence[Value]], list[Value]]
"""A translated function: values of the parameters -> values returned."""


def find_function(func: Operation, name: str | None = None) -> FuncOp:
    """Returns the function to run: `func` itself, or one of a module's functions. Raises `UserError` if there
    is not exactly one."""
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


class Machine(ABC):
    """Memory, the current program and the translated functions of one run."""

    def __init__(self, grid: tuple[int, ...], memory: Memory) -> None:
        self.memory = memory
        self.grid = tuple(np.int32(extent) for extent in grid)
        self.program: tuple[Value, ...] = (np.int32(0),) * 3
        self._functions: dict[Operation, Function] = {}

    @abstractmethod
    def translate(self, body: Region) -> Function:
        """Translates the body of one more function of the run."""

    def bind(self, function: FuncOp, args: Sequence[object]) -> list[Value]:
        """Checks the arguments and turns them into values. Raises `UserError` for those that do not fit."""
        values: list[Value] = []
        for parameter, arg in supplied(function.sym_name.data, parameters_of(function), args):
            if isinstance(arg, DescriptorArgument | TableArgument) or isinstance(parameter.type, TensorDescType):
                values.append(bind_host_value(parameter, arg, self.memory))
            elif parameter.is_pointer and isinstance(arg, PointerArgument):
                self.memory.elsewhere = arg.elsewhere or self.memory.elsewhere
                values.append(np.int64(self.memory.add(arg.memory, parameter.name) + arg.offset))
            elif parameter.is_null(arg):
                values.append(np.int64(0))
            elif parameter.is_pointer:
                values.append(np.int64(self.memory.add(parameter.array(arg), parameter.name)))
            else:
                values.append(parameter.scalar(arg))
        return values

    def function(self, function: FuncOp) -> Function:
        """Returns the translated function: values of the parameters -> values returned."""
        found = self._functions.get(function)
        if found is None:

            def run(args: Sequence[Value]) -> list[Value]:
                return translated(args)

            self._functions[function] = run  # before the body is translated, so that it may call itself
            translated = self.translate(function.body)
            found = run
        return found

    def callee(self, module: ModuleOp, name: str) -> Function:
        """Returns the translated function `name` of a module."""
        return self.function(find_function(module, name))


class Translator(ABC, Generic[EnvironmentT]):
    """Translates one function. Each of its SSA values gets one slot in the environment of a call."""

    def __init__(self, machine: Machine) -> None:
        self.machine = machine
        self.slots: dict[SSAValue, int] = {}
        self.template: Environment = []  # constants stand here from the start

    def slot(self, value: SSAValue) -> int:
        found = self.slots.get(value)
        if found is None:
            found = self.slots[value] = len(self.template)
            self.template.append(None)
        return found

    @abstractmethod
    def environment(self) -> EnvironmentT:
        """Returns fresh values for one call of the function: a copy of `template`."""

    @abstractmethod
    def body(self, region: Region) -> Function:
        """Translates a function body, which may branch between blocks."""

    @abstractmethod
    def flow(self, region: Region) -> Callable[[EnvironmentT, Sequence[Value]], list[Value]]:
        """Translates a region whose blocks may branch: values of the first block's arguments -> values of the
        operands of the terminator that leaves it."""

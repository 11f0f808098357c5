"""Brings the arguments of launches of Triton-C into the form that block functions take, and checks what is promised."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NoReturn

import numpy as np

from ..lowering.frontends.triton_c.checking import typed
from ..lowering.frontends.triton_c.checking.certain_accesses import certain_accesses
from ..lowering.frontends.triton_c.reading.source import Token
from ..lowering.frontends.triton_c.text import Reading, build
from ..lowering.frontends.triton_c.types import VOID, Pointer, Struct, Type, leaves_of
from ..lowering.tt.analysis.alias_sets import may_alias
from ..lowering.tt.analysis.aliasing import AliasAnalysis
from ..lowering.tt.interpret.machine import find_function
from ..lowering.tt.transforms.pipeline import Pipeline
from ..promotion.arrays import Array
from ..promotion.dataclass import dataclass
from ..promotion.errors import UserError
from ..runtime.native import objects
from .triton_c_arguments import ArgumentCheck, argument_check, check_arguments, dtype_of


@dataclass(frozen=True, slots=True)
class PromiseCheck:
    """One promise of a parameter, which stands at a position of the launch's arguments.

    Attributes:
        written: for noalias, the positions of pointers that the kernel may write through.
    """

    kernel: str
    parameter: str
    position: int
    name: str
    number: int
    written: frozenset[int]

    def check(self, args: Sequence[Any], memories: Sequence[tuple[int, int] | None]) -> None:
        """Raise `UserError` for arguments that break the promise. memories: address and bytes of each that is memory."""
        arg = args[self.position]
        if self.name == "multipleof":
            is_number = isinstance(arg, int | float | np.integer | np.floating) and math.isfinite(arg)
            if is_number and int(arg) % self.number:
                raise UserError(
                    f"{self._what}: __multipleof({self.number}) is promised, and the argument is {arg}; fix: a multiple"
                )
            return
        memory = memories[self.position]
        if memory is None:
            return
        start, size = memory
        if self.name == "aligned" and start % self.number:
            aligned = start & -start
            raise UserError(
                f"{self._what}: __aligned({self.number}) is promised, and the address is a multiple of {aligned} bytes; "
                f"fix: an array whose address is a multiple of {self.number}"
            )
        if self.name != "noalias" or not size:
            return
        for position, found in enumerate(memories):
            if found is None or position == self.position or not (self.position in self.written or position in self.written):
                continue
            if start < found[0] + found[1] and found[0] < start + size:
                raise UserError(
                    f"{self._what}: __noalias is promised, and its memory overlaps that of argument {position}, and one of "
                    "both is written; fix: arrays of their own, or no promise"
                )

    @property
    def _what(self) -> str:
        return f"@{self.kernel}, parameter {self.parameter}"


@dataclass(frozen=True, slots=True)
class ConstantTable:
    """A table in constant memory. values: None for one that the host fills in."""

    name: str
    dtype: Any
    shape: tuple[int, ...]
    values: tuple[int | float, ...] | None

    def array(self) -> Array:
        """Return a new array with the elements; those that the text gives cannot be changed."""
        if self.values is None:
            return np.zeros(self.shape, self.dtype)
        found = np.array(self.values).astype(self.dtype).reshape(self.shape)
        found.flags.writeable = False
        return found


@dataclass(frozen=True, slots=True)
class LaunchRules:
    """What a launch of a kernel has to do with its arguments.

    Attributes:
        declared: names and types of the parameters as the text has them.
        checks: what each parameter of the block function takes, but for tables.
        untyped: which of them are `void*`.
        tables: what stands behind them.
        is_plain: whether there are neither structs nor tables.
        accessed: the positions of pointers that every program loads or stores through, and where.
    """

    kernel: str
    declared: tuple[tuple[str, Type], ...]
    checks: tuple[ArgumentCheck, ...]
    untyped: tuple[int, ...]
    promises: tuple[PromiseCheck, ...]
    tables: tuple[ConstantTable, ...]
    is_plain: bool
    accessed: tuple[tuple[int, str], ...]

    @property
    def count(self) -> int:
        """How many arguments of the block function a launch supplies."""
        return len(self.checks)

    @property
    def signature(self) -> str:
        """The parameters with their types, and the members of those that are structs."""
        return ", ".join(f"{each.declared} {each.parameter}" for each in self.checks) or "none"

    def arguments(self, grid: Any, args: Sequence[Any], constants: Callable[[], Mapping[str, Array]]) -> tuple[Any, ...]:
        """Return the arguments of the block function, see `KernelText.launcher`."""
        self.check_grid(grid)
        found = tuple(args) if self.is_plain else self.flattened(args)
        if self.tables and len(found) == self.count:
            memory = constants()
            found = (*found, *(memory[each.name] for each in self.tables))
        self.check(found)
        return self.as_bytes(found) if self.untyped else found

    def check(self, args: Sequence[Any]) -> None:
        """Raise `UserError` for arguments of the block function that do not go to its parameters, or break a promise."""
        count = len(self.checks)
        if len(args) != count and len(args) != count + len(self.tables):
            self._fail_number(args)
        check_arguments(self.checks, args)
        if self.promises:
            memories = [_memory(arg) for arg in args]
            for each in self.promises:
                each.check(args, memories)

    def refuse_null(self, args: Sequence[Any]) -> None:
        """Raise `UserError` for a None that every program loads or stores through, which would end the process."""
        for position, line in self.accessed:
            if args[position] is None:
                fix = "an array, or a test of the pointer before the access"
                what = self.checks[position].what
                message = f"{what}: None is a null pointer, and every program accesses memory through it at {line}"
                raise UserError(f"{message}; fix: {fix}")

    def with_own_types(self, message: str) -> str:
        """Return a message with the parameter that it begins with as the text declares it."""
        for each in self.checks:
            before = f"@{each.kernel}, parameter {each.parameter} of type !tt."
            if message.startswith(before):
                _, colon, behind = message.removeprefix(before).partition(": ")
                return f"{each.what}{colon}{behind}"
        return message

    def check_grid(self, grid: Any) -> None:
        """Raise `UserError` for a grid with sizes that are not one to three or not positive; launches check everything else."""
        if type(grid) is tuple and len(grid) == 1 and type(grid[0]) is int and grid[0] > 0:
            return
        if isinstance(grid, tuple | list) and not 1 <= len(grid) <= 3:
            raise UserError(f"@{self.kernel}: grid {grid}: expected one to three numbers of programs")
        for size in grid if isinstance(grid, tuple | list) else (grid,):
            if isinstance(size, int | np.integer) and size < 1:
                fix = "1 or more programs along each axis, and a mask"
                raise UserError(f"@{self.kernel}: grid {grid} has a size of {size}; fix: {fix}")

    def _fail_number(self, args: Sequence[Any]) -> NoReturn:
        missing = ", ".join(f"{each.parameter} ({each.declared})" for each in self.checks[len(args) :])
        fix = f"arguments for {missing}" if missing else "one argument for each parameter"
        message = f"@{self.kernel} takes {self.count} arguments, got {len(args)}; parameters: {self.signature}; fix: {fix}"
        raise UserError(message)

    def as_bytes(self, args: tuple[Any, ...]) -> tuple[Any, ...]:
        """Return arguments with arrays of bytes for `void*`, which takes memory of any elements."""
        if not self.untyped:
            return args
        found = list(args)
        for position in self.untyped:
            arg = found[position] if position < len(found) else None
            if isinstance(arg, np.ndarray) and arg.flags.c_contiguous and not arg.dtype.hasobject:
                found[position] = arg.reshape(-1).view(np.int8)
        return tuple(found)

    def flattened(self, args: Sequence[Any]) -> tuple[Any, ...]:
        """Return arguments with one for each part of a struct, with those for tables if there are any.

        A struct may be given as a mapping, a tuple, a list, or a structured scalar of NumPy; or by its parts in place of it.
        """
        if self.is_plain:
            return tuple(args)
        found: list[Any] = []
        rest = list(args)
        for name, type_ in self.declared:
            if not rest:
                self._fail_count(args)
            if isinstance(type_.element, Struct) and is_struct_value(rest[0]):
                found += _parts(f"@{self.kernel}, parameter {name}", type_.element, rest.pop(0))
                continue
            count = len(leaves_of(type_))
            if len(rest) < count:
                self._fail_count(args)
            found += rest[:count]
            del rest[:count]
        if len(rest) not in (0, len(self.tables)):
            self._fail_count(args)
        return (*found, *rest)

    def _fail_count(self, args: Sequence[Any]) -> None:
        listed = ", ".join(f"{type_} {name}" for name, type_ in self.declared)
        raise UserError(
            f"@{self.kernel}: {len(args)} arguments do not supply its parameters ({listed}); "
            "fix: a mapping, a tuple or a structured scalar for each struct, or its members one after the other"
        )


def is_struct_value(arg: object) -> bool:
    """Return whether an argument stands for a whole struct."""
    if isinstance(arg, np.ndarray):
        return arg.ndim == 0 and arg.dtype.names is not None
    return isinstance(arg, Mapping | tuple | list | np.void)


def _parts(what: str, struct: Struct, arg: Any) -> list[Any]:
    """Return the values that a struct consists of."""
    if not is_struct_value(arg):
        raise UserError(f"{what}: expected a mapping, a tuple or a structured scalar for {struct}, got {type(arg).__name__}")
    arg = arg[()] if isinstance(arg, np.ndarray) else arg
    names = _given_names(struct)
    if isinstance(arg, tuple | list):
        if len(arg) != len(names):
            raise UserError(f"{what}: {len(arg)} values for {struct}, which has {', '.join(names)}; fix: one for each")
        values = dict(zip(names, arg, strict=True))
    else:
        values = dict(arg) if isinstance(arg, Mapping) else {name: arg[name] for name in arg.dtype.names or ()}
        if set(values) != set(names):
            given = ", ".join(map(str, values)) or "none"
            raise UserError(f"{what}: members {given} for {struct}, which has {', '.join(names)}; fix: one value for each")
    return _leaf_values(what, struct, values)


def _given_names(struct: Struct) -> list[str]:
    """Return the names that values of a struct are given by: those of structs without a name, too; the first of a union."""
    found: list[str] = []
    for name, type_ in struct.members[:1] if struct.is_union else struct.members:
        element = type_.element
        found += _given_names(element) if name.startswith(" ") and isinstance(element, Struct) else [name]
    return found


def _leaf_values(what: str, struct: Struct, values: Mapping[str, Any]) -> list[Any]:
    found: list[Any] = []
    for name, type_ in struct.members[:1] if struct.is_union else struct.members:
        element = type_.element
        if isinstance(element, Struct):
            is_nameless = name.startswith(" ")
            found += _leaf_values(what, element, values) if is_nameless else _parts(f"{what}.{name}", element, values[name])
        else:
            found.append(values[name])
    return found


def launch_rules(reading: Reading) -> LaunchRules:
    """Return what the launch of a kernel has to do."""
    kernel = reading.typed.kernel
    declared = tuple((each.name, each.type) for each in kernel.declared)
    tables = tuple(_table(each) for each in kernel.tables)
    own = kernel.parameters[: len(kernel.parameters) - len(tables)]
    checks = tuple(argument_check(kernel.name, each) for each in own)
    types = [each.type.element for each in kernel.parameters]
    untyped = tuple(at for at, each in enumerate(types) if isinstance(each, Pointer) and each.pointee == VOID)
    is_plain = not tables and all(not isinstance(type_.element, Struct) for _, type_ in declared)
    certain = certain_accesses(kernel)
    accessed = tuple((at, _line_of(certain[each])) for at, each in enumerate(own) if each in certain)
    return LaunchRules(kernel.name, declared, checks, untyped, _promises(reading), tables, is_plain, accessed)


def _line_of(token: Token) -> str:
    file, line, _ = (token.uses or [token])[0].position
    return f"{file}:{line}"


def _table(table: typed.Table) -> ConstantTable:
    pointer = table.symbol.type.element
    assert isinstance(pointer, Pointer)
    return ConstantTable(table.name, dtype_of(pointer.pointee), table.shape, table.values)


def _promises(reading: Reading) -> tuple[PromiseCheck, ...]:
    """Return the promises that the launch of a kernel has to check."""
    kernel = reading.typed.kernel
    found = [
        PromiseCheck(kernel.name, symbol.name, position, each.name, each.number, frozenset())
        for position, (symbol, promises) in enumerate(zip(kernel.parameters, kernel.promises, strict=True))
        for each in promises
        if each.name in ("multipleof", "aligned", "noalias")
    ]
    if not any(each.name == "noalias" for each in found):
        return tuple(found)
    function = find_function(build(reading), kernel.name)
    Pipeline.parse("inline").run(function)
    written = AliasAnalysis(function).written
    positions = frozenset(number for number in range(len(kernel.parameters)) if may_alias(frozenset({number}), written))
    return tuple(PromiseCheck(e.kernel, e.parameter, e.position, e.name, e.number, positions) for e in found)


def _memory(arg: object) -> tuple[int, int] | None:
    """Return address and bytes of an argument that is memory, and says where; None for others."""
    if type(arg) is np.ndarray and arg.flags.c_contiguous and objects.are_readable():
        return objects.address_in(arg), arg.nbytes
    if arg is None or isinstance(arg, int | float):
        return None
    if isinstance(arg, np.ndarray):
        return arg.ctypes.data, arg.nbytes
    interface = getattr(arg, "__cuda_array_interface__", None)
    if not isinstance(interface, dict):
        return None
    return int(interface["data"][0] or 0), math.prod(interface["shape"]) * np.dtype(interface["typestr"]).itemsize


__all__ = ["ConstantTable", "LaunchRules", "PromiseCheck", "is_struct_value", "launch_rules"]

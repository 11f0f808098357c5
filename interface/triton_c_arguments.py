"""Compares the arguments of launches with the types that a text in Triton-C declares: what arrays hold, the ranges of integers.

Memory is what its elements are: there are no conversions. Integers of one width are alike, signed or not, and a bool is a byte.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Any, NoReturn

import ml_dtypes
import numpy as np

from ..lowering.frontends.triton_c.checking.typed import Symbol
from ..lowering.frontends.triton_c.types import BFLOAT16, BOOL, LONG, VOID, Pointer, Scalar, Type, memory_type
from ..lowering.tt.host_values import DescriptorArgument, TableArgument
from ..lowering.tt.types import numpy_dtype
from ..promotion.arrays import PointerArgument
from ..promotion.dataclass import dataclass
from ..promotion.errors import UserError

_BYTES = frozenset(np.dtype(each) for each in (np.int8, np.uint8, np.bool_))
_ADDRESSES = frozenset(np.dtype(each) for each in (np.int64, np.uint64))


@dataclass(frozen=True, slots=True)
class ArgumentCheck:
    """What one parameter takes.

    Attributes:
        declared: its type.
        line: where the text has it, as in "k.tc:3".
        dtypes: of the arrays that go to a pointer; None for numbers, and for `void*`, which takes all.
        low, high: the range of a number.
        numbers: the types of Python whose values in the range need no other look.
        usual: the dtype of arrays that the text names, which most launches have; None as `dtypes`.
        usual_type: the type of Python of most arguments.
    """

    kernel: str
    parameter: str
    declared: Type
    line: str
    dtypes: frozenset[np.dtype[Any]] | None
    low: float
    high: float
    numbers: tuple[type, ...]
    usual: np.dtype[Any] | None
    usual_type: type

    @property
    def what(self) -> str:
        """Name of the parameter in messages."""
        return f"@{self.kernel}, parameter {self.parameter} of type {self.declared} ({self.line})"

    def check(self, arg: Any) -> None:
        """Raise `UserError` for an argument that does not go to the parameter."""
        if isinstance(self.declared.element, Pointer):
            self._check_memory(arg)
        else:
            self._check_number(arg)

    def _check_memory(self, arg: Any) -> None:
        if arg is None or isinstance(arg, PointerArgument | DescriptorArgument | TableArgument):
            return
        dtype = getattr(arg, "dtype", None)
        if dtype is None or isinstance(arg, np.generic):
            if isinstance(getattr(arg, "__cuda_array_interface__", None), dict) or hasattr(arg, "__dlpack__"):
                return  # of a library whose arrays do not say what they hold
            raise UserError(f"{self.what}: expected an array, got {type(arg).__name__}")
        if self.dtypes is None:
            return
        if isinstance(arg, np.ndarray):
            if dtype not in self.dtypes:
                self._fail_dtype(dtype, arg.itemsize)
            if not arg.flags.c_contiguous:
                raise UserError(f"{self.what}: the array is not C-contiguous; fix: numpy.ascontiguousarray(array)")
        elif str(dtype).rpartition(".")[2] not in {each.name for each in self.dtypes}:  # torch.float32, or a name
            self._fail_dtype(dtype, int(getattr(arg, "itemsize", 0) or 0))

    def _fail_dtype(self, dtype: Any, size: int) -> NoReturn:
        pointer = self.declared.element
        assert isinstance(pointer, Pointer)
        wanted = dtype_of(pointer.pointee)
        name = "ml_dtypes.bfloat16" if pointer.pointee is BFLOAT16 else f"np.{'bool_' if wanted == np.bool_ else wanted.name}"
        fix = f".astype({name})"
        if size == wanted.itemsize:
            fix = f"{fix} for its numbers, or .view({name}) for its bits"
        raise UserError(f"{self.what}: an array of {dtype}, and memory is not converted; fix: {fix}")

    def _check_number(self, arg: Any) -> None:
        if not isinstance(arg, int | float | np.number | np.bool_) or isinstance(arg, np.complexfloating):
            raise UserError(f"{self.what}: expected a number, got {type(arg).__name__}")
        element = self.declared.element
        assert isinstance(element, Scalar)
        if element.is_float:
            self._check_float(arg)
            return
        if isinstance(arg, float | np.floating) and not (np.isfinite(arg) and int(arg) == arg):
            raise UserError(f"{self.what}: {arg} is no integer; fix: int(…), or a parameter of type float")
        if not self.low <= int(arg) <= self.high:
            fits = -(1 << (LONG.bits - 1)) <= int(arg) < 1 << (LONG.bits - 1)
            fix = "a parameter of type long" if fits and element is not LONG else "a number in this range"
            fix = "bool(…), which is true for all numbers but 0" if element is BOOL else fix
            raise UserError(f"{self.what}: {arg} does not fit into {self.low} to {self.high}; fix: {fix}")


    def _check_float(self, arg: Any) -> None:
        """Raise `UserError` for an integer that no float of Python can hold. Others are rounded, to infinity if need be."""
        try:
            float(arg)
        except OverflowError:
            raise UserError(f"{self.what}: an integer of {int(arg).bit_length()} bits; fix: float('inf')") from None


def argument_check(kernel: str, parameter: Symbol) -> ArgumentCheck:
    """Return what a parameter takes."""
    type_, element = parameter.type, parameter.type.element
    file, line, _ = parameter.token.position
    named = kernel, parameter.name, type_, f"{file}:{line}"
    if isinstance(element, Pointer):
        usual = None if element.pointee is VOID else dtype_of(element.pointee)
        return ArgumentCheck(*named, _dtypes_of(element.pointee), 0, -1, (), usual, np.ndarray)
    if element.is_float:
        return ArgumentCheck(*named, None, -sys.float_info.max, sys.float_info.max, (int, float), None, float)
    low = -(1 << (element.bits - 1)) if element.is_signed else 0
    return ArgumentCheck(*named, None, low, low + (1 << element.bits) - 1, (int, bool), None, int)


def check_arguments(checks: Sequence[ArgumentCheck], args: Sequence[Any]) -> None:
    """Raise `UserError` for arguments that do not go to their parameters. Those of tables stand behind them."""
    for each, arg in zip(checks, args, strict=False):
        kind: Any = each.usual_type
        if type(arg) is kind:  # what most launches have, with as little work as can be
            if each.usual is not None:
                if arg.dtype is each.usual and arg.flags.c_contiguous:
                    continue
            elif kind is float or (kind is int and each.low <= arg <= each.high):
                continue
        if each.dtypes is not None:
            if type(arg) is np.ndarray and arg.dtype in each.dtypes and arg.flags.c_contiguous:
                continue
        elif type(arg) in each.numbers and each.low <= arg <= each.high:
            continue
        each.check(arg)


def dtype_of(element: Scalar | Pointer) -> np.dtype[Any]:
    """Return the dtype of elements in memory, with their signedness."""
    if isinstance(element, Pointer):
        return np.dtype(np.int64)
    if element is BFLOAT16:
        bfloat16: np.dtype[Any] = np.dtype(ml_dtypes.bfloat16)
        return bfloat16
    if element.kind == "int" and not element.is_signed:
        return np.dtype(f"uint{element.bits}")
    found: np.dtype[Any] = np.dtype(np.bool_) if element is BOOL else numpy_dtype(memory_type(element))
    return found


def _dtypes_of(element: Scalar | Pointer) -> frozenset[np.dtype[Any]] | None:
    """Return the dtypes of arrays that a pointer to elements takes; None if it takes all."""
    if isinstance(element, Pointer):
        return _ADDRESSES
    if element is VOID:
        return None
    if element.bits <= 8:
        return _BYTES
    if element.is_float:
        return frozenset([dtype_of(element)])
    return frozenset([np.dtype(f"int{element.bits}"), np.dtype(f"uint{element.bits}")])


__all__ = ["ArgumentCheck", "argument_check", "check_arguments", "dtype_of"]

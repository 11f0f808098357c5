"""Defines the methods of `Symbol` that are public functions: `x.sum(axis=0)` is `joinery.sum(x, axis=0)`."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import TYPE_CHECKING, NoReturn, Self

import numpy as np

from ...promotion.errors import UserError
from ..functions.names import aliases
from ..functions.names.exports import EXPORTS, public
from ..protocols import TensorLike
from ..types import Axis, DTypeLike


class Methods:
    """The methods of `Symbol` beside its operators.

    A class of its own, because the functions import `Symbol`.
    """

    __slots__ = ()

    if TYPE_CHECKING:

        def describe(self) -> str: ...

    def _call(self, name: str, *arguments: object, **options: object) -> Self:
        result: Self = public(name)(self, *arguments, **options)
        return result

    def astype(self, dtype: DTypeLike) -> Self:
        """Convert the value to `dtype`; NumPy's name for `cast`."""
        return self._call("cast", dtype)

    def sum(self, axis: Axis = None, keepdims: bool = False, dtype: DTypeLike | None = None) -> Self:
        """Compute the sum over `axis` (see joinery.sum)."""
        return self._call("sum", axis, keepdims, dtype)

    def prod(self, axis: Axis = None, keepdims: bool = False, dtype: DTypeLike | None = None) -> Self:
        """Compute the product over `axis` (see joinery.prod)."""
        return self._call("prod", axis, keepdims, dtype)

    def mean(self, axis: Axis = None, keepdims: bool = False, dtype: DTypeLike | None = None) -> Self:
        """Compute the arithmetic mean over `axis` (see joinery.mean)."""
        return self._call("mean", axis, keepdims, dtype)

    def var(
        self, axis: Axis = None, keepdims: bool = False, correction: float = 0, dtype: DTypeLike | None = None
    ) -> Self:
        """Compute the variance over `axis` (see joinery.var)."""
        return self._call("var", axis, keepdims, correction, dtype)

    def stdev(
        self, axis: Axis = None, keepdims: bool = False, correction: float = 0, dtype: DTypeLike | None = None
    ) -> Self:
        """Compute the standard deviation over `axis` (see joinery.stdev)."""
        return self._call("stdev", axis, keepdims, correction, dtype)

    def max(self, axis: Axis = None, keepdims: bool = False) -> Self:
        """Compute the largest element over `axis` (see joinery.max)."""
        return self._call("max", axis=axis, keepdims=keepdims)

    def min(self, axis: Axis = None, keepdims: bool = False) -> Self:
        """Compute the smallest element over `axis` (see joinery.min)."""
        return self._call("min", axis=axis, keepdims=keepdims)

    def any(self, axis: Axis = None, keepdims: bool = False) -> Self:
        """Compute whether some element over `axis` is true (see joinery.any)."""
        return self._call("any", axis, keepdims)

    def all(self, axis: Axis = None, keepdims: bool = False) -> Self:
        """Compute whether every element over `axis` is true (see joinery.all)."""
        return self._call("all", axis, keepdims)

    def argmax(self, axis: int | None = None, keepdims: bool = False) -> Self:
        """Compute the position of the first largest element along `axis` (see joinery.argmax)."""
        return self._call("argmax", axis, keepdims)

    def argmin(self, axis: int | None = None, keepdims: bool = False) -> Self:
        """Compute the position of the first smallest element along `axis` (see joinery.argmin)."""
        return self._call("argmin", axis, keepdims)

    def cumsum(
        self, axis: int = -1, exclusive: bool = False, reverse: bool = False, dtype: DTypeLike | None = None
    ) -> Self:
        """Compute running sums along `axis` (see joinery.cumsum)."""
        return self._call("cumsum", axis, exclusive, reverse, dtype)

    def clip(self, low: TensorLike | None = None, high: TensorLike | None = None) -> Self:
        """Clamp values between two bounds (see joinery.clip)."""
        return self._call("clip", low, high)

    def squeeze(self, axis: Axis = None) -> Self:
        """Drop axes of size 1 (see joinery.squeeze)."""
        return self._call("squeeze", axis)

    def unsqueeze(self, axis: int | tuple[int, ...] | list[int]) -> Self:
        """Insert axes of size 1 (see joinery.unsqueeze)."""
        return self._call("unsqueeze", axis)

    def flatten(self, start_axis: int = 0, end_axis: int = -1) -> Self:
        """Merge axes into one (see joinery.flatten)."""
        return self._call("flatten", start_axis, end_axis)

    # -- NumPy's protocols ---------------------------------------------------------------------------------------------

    def __array_ufunc__(self, ufunc: np.ufunc, method: str, *inputs: object, **options: object) -> object:
        """Apply the operator in `array + symbol`, which NumPy passes here as numpy.add.

        Raises `UserError` for other NumPy functions, naming joinery's function if there is one.
        """
        operator = _OPERATORS.get(ufunc.__name__)
        reflected = len(inputs) == 2 and inputs[1] is self and inputs[0] is not self
        if method == "__call__" and operator is not None and len(inputs) == 2 and not options.keys() - {"out"}:
            if not reflected:
                return getattr(self, f"__{operator}__")(inputs[1])
            if operator in _MIRRORED:
                return getattr(self, f"__{_MIRRORED[operator]}__")(inputs[0])
            return getattr(self, f"__r{operator}__")(inputs[0])
        reduction = {"add": "sum", "multiply": "prod", "maximum": "max", "minimum": "min"}.get(ufunc.__name__, "")
        self._not_numpy(ufunc.__name__ if method == "__call__" else reduction, f"numpy.{ufunc.__name__}")

    def __array_function__(
        self,
        function: Callable[..., object],
        types: Collection[type],
        arguments: Sequence[object],
        options: Mapping[str, object],
    ) -> object:
        name = function.__name__
        if name in ("ndim", "shape", "size") and len(arguments) == 1 and arguments[0] is self:
            return getattr(self, name)
        self._not_numpy(name, f"numpy.{name}")

    def _not_numpy(self, name: str, shown: str) -> NoReturn:
        own = name if name in EXPORTS else aliases.named_elsewhere(name)
        fix = f"joinery.{own} does this inside the graph" if own else "use joinery's functions inside the graph"
        raise UserError(
            f"{shown} computes with values, which a Symbol does not have while the graph is built\n"
            f"  operand 0: {self.describe()}\n  fix: {fix}; NumPy computes with the arrays that go in and come out"
        )

    if not TYPE_CHECKING:  # type checkers know the names that exist

        def __getattr__(self, name: str) -> NoReturn:
            """Raise `AttributeError` with what the user may have meant.

            Python calls this only for unknown names.
            """
            if name.startswith("_"):
                raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
            own = name if name in EXPORTS else aliases.named_elsewhere(name)
            methods = [entry for entry in dir(type(self)) if not entry.startswith("_")]
            if own in methods:
                hint = f"; did you mean .{own}?"
            elif own:
                hint = f"; fix: call the function joinery.{own}"
            else:
                near = aliases.did_you_mean(name, methods, ".")
                hint = f"; {near}" if near else ""
            raise AttributeError(f"a Symbol has no attribute {name!r}{hint}")


_OPERATORS = {
    "add": "add", "subtract": "sub", "multiply": "mul", "divide": "truediv", "true_divide": "truediv", "power": "pow",
    "floor_divide": "floordiv", "remainder": "mod", "matmul": "matmul", "bitwise_and": "and", "bitwise_or": "or",
    "bitwise_xor": "xor", "left_shift": "lshift", "right_shift": "rshift", "equal": "eq", "not_equal": "ne", "less": "lt",
    "less_equal": "le", "greater": "gt", "greater_equal": "ge",
}  # fmt: skip
"""NumPy's ufuncs for the operators of arrays → the operator."""
_MIRRORED = {"eq": "eq", "ne": "ne", "lt": "gt", "le": "ge", "gt": "lt", "ge": "le"}

"""Methods of `Symbol` that are public functions of the same names: `x.sum(axis=0)` is `joinery.sum(x, axis=0)`."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any, NoReturn, Self

from ...promotion.errors import UserError
from ..protocols import TensorLike
from ..types import Axis, DTypeLike


def _call(name: str, *arguments: Any, **options: Any) -> Any:
    exports = importlib.import_module("..functions.names.exports", __package__)  # its modules import Symbol
    return exports.public(name)(*arguments, **options)


class Methods:
    """What `Symbol` can do beside its operators; kept apart because functions import `Symbol`."""

    __slots__ = ()

    if TYPE_CHECKING:

        def describe(self) -> str: ...

    def astype(self, dtype: DTypeLike) -> Self:
        """The value converted to `dtype`; NumPy's name for `cast`."""
        result: Self = _call("cast", self, dtype)
        return result

    def sum(self, axis: Axis = None, keepdims: bool = False, dtype: DTypeLike | None = None) -> Self:
        """The sum over `axis` (see joinery.sum)."""
        result: Self = _call("sum", self, axis, keepdims, dtype)
        return result

    def prod(self, axis: Axis = None, keepdims: bool = False, dtype: DTypeLike | None = None) -> Self:
        """The product over `axis` (see joinery.prod)."""
        result: Self = _call("prod", self, axis, keepdims, dtype)
        return result

    def mean(self, axis: Axis = None, keepdims: bool = False, dtype: DTypeLike | None = None) -> Self:
        """The arithmetic mean over `axis` (see joinery.mean)."""
        result: Self = _call("mean", self, axis, keepdims, dtype)
        return result

    def var(
        self, axis: Axis = None, keepdims: bool = False, correction: float = 0, dtype: DTypeLike | None = None
    ) -> Self:
        """The variance over `axis` (see joinery.var)."""
        result: Self = _call("var", self, axis, keepdims, correction, dtype)
        return result

    def stdev(
        self, axis: Axis = None, keepdims: bool = False, correction: float = 0, dtype: DTypeLike | None = None
    ) -> Self:
        """The standard deviation over `axis` (see joinery.stdev)."""
        result: Self = _call("stdev", self, axis, keepdims, correction, dtype)
        return result

    def max(self, axis: Axis = None, keepdims: bool = False) -> Self:
        """The largest element over `axis` (see joinery.max)."""
        result: Self = _call("max", self, axis=axis, keepdims=keepdims)
        return result

    def min(self, axis: Axis = None, keepdims: bool = False) -> Self:
        """The smallest element over `axis` (see joinery.min)."""
        result: Self = _call("min", self, axis=axis, keepdims=keepdims)
        return result

    def any(self, axis: Axis = None, keepdims: bool = False) -> Self:
        """Whether some element over `axis` is true (see joinery.any)."""
        result: Self = _call("any", self, axis, keepdims)
        return result

    def all(self, axis: Axis = None, keepdims: bool = False) -> Self:
        """Whether every element over `axis` is true (see joinery.all)."""
        result: Self = _call("all", self, axis, keepdims)
        return result

    def argmax(self, axis: int | None = None, keepdims: bool = False) -> Self:
        """The position of the first largest element along `axis` (see joinery.argmax)."""
        result: Self = _call("argmax", self, axis, keepdims)
        return result

    def argmin(self, axis: int | None = None, keepdims: bool = False) -> Self:
        """The position of the first smallest element along `axis` (see joinery.argmin)."""
        result: Self = _call("argmin", self, axis, keepdims)
        return result

    def cumsum(
        self, axis: int = -1, exclusive: bool = False, reverse: bool = False, dtype: DTypeLike | None = None
    ) -> Self:
        """Running sums along `axis` (see joinery.cumsum)."""
        result: Self = _call("cumsum", self, axis, exclusive, reverse, dtype)
        return result

    def clip(self, low: TensorLike | None = None, high: TensorLike | None = None) -> Self:
        """Values held between two bounds (see joinery.clip)."""
        result: Self = _call("clip", self, low, high)
        return result

    def squeeze(self, axis: Axis = None) -> Self:
        """Axes of size 1 dropped (see joinery.squeeze)."""
        result: Self = _call("squeeze", self, axis)
        return result

    def unsqueeze(self, axis: int | tuple[int, ...] | list[int]) -> Self:
        """New axes of size 1 (see joinery.unsqueeze)."""
        result: Self = _call("unsqueeze", self, axis)
        return result

    def flatten(self, start_axis: int = 0, end_axis: int = -1) -> Self:
        """Axes merged into one (see joinery.flatten)."""
        result: Self = _call("flatten", self, start_axis, end_axis)
        return result

    # -- NumPy's protocols ---------------------------------------------------------------------------------------------

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **options: Any) -> Any:
        """`array + symbol` arrives here as numpy.add, and is the operator; other NumPy functions are refused by name."""
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

    def __array_function__(self, function: Any, types: Any, arguments: Any, options: Any) -> Any:
        name = function.__name__
        if name in ("ndim", "shape", "size") and len(arguments) == 1 and arguments[0] is self:
            return getattr(self, name)
        self._not_numpy(name, f"numpy.{name}")

    def _not_numpy(self, name: str, shown: str) -> NoReturn:
        aliases = importlib.import_module("..functions.names.aliases", __package__)
        own = name if name in aliases.EXPORTS else aliases.named_elsewhere(name)
        fix = f"joinery.{own} does this inside the graph" if own else "use joinery's functions inside the graph"
        raise UserError(
            f"{shown} computes with values, which a Symbol does not have while the graph is built\n"
            f"  operand 0: {self.describe()}\n  fix: {fix}; NumPy computes with the arrays that go in and come out"
        )

    if not TYPE_CHECKING:  # type checkers know the names that exist

        def __getattr__(self, name: str) -> NoReturn:
            """Only for names that do not exist: what the user may have meant."""
            if name.startswith("_"):
                raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
            aliases = importlib.import_module("..functions.names.aliases", __package__)
            own = name if name in aliases.EXPORTS else aliases.named_elsewhere(name)
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
"""NumPy's functions behind the operators of arrays → the operator."""
_MIRRORED = {"eq": "eq", "ne": "ne", "lt": "gt", "le": "ge", "gt": "lt", "ge": "le"}

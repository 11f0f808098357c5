"""NumPy arrays as arguments of Triton's kernels, which takes what has `data_ptr()` and `dtype`."""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ....promotion.errors import UserError
from ....runtime.native import objects
from ..targets import BINARY
from .arguments import explain


class ArrayArgument(np.ndarray):
    """An array of the caller's memory that Triton takes for a tensor.

    It lives for one launch, in which it is asked several times for what takes NumPy long: attributes keep that.
    """

    is_cpu = True
    _address = 0
    _span = None

    def data_ptr(self) -> int:
        return self._address or int(self.__array_interface__["data"][0])

    def memory_span(self) -> tuple[int, int]:
        """First byte and end of the memory that the array is a view of."""
        found = self._span
        if found is None:
            storage = self.untyped_storage()
            first = storage.data_ptr()
            found = self._span = first, first + storage.nbytes()
        return found

    def numel(self) -> int:
        return int(self.size)

    def element_size(self) -> int:
        return int(self.itemsize)

    def untyped_storage(self) -> _Storage:
        return _Storage(self)


class _Storage:
    """The memory that an array is a view of, as `torch.UntypedStorage`."""

    def __init__(self, array: Any) -> None:
        while isinstance(array.base, np.ndarray):
            array = array.base
        self._owner = array

    def data_ptr(self) -> int:
        low, _ = np.lib.array_utils.byte_bounds(self._owner)
        return int(low)

    def nbytes(self) -> int:
        low, high = np.lib.array_utils.byte_bounds(self._owner)
        return int(high) - int(low)


def as_argument(value: np.ndarray[Any, Any]) -> ArrayArgument:
    """The array as an argument. Raises `UserError` for one that a kernel must not write to, or could not read."""
    if value.dtype in _checked_dtypes and value.flags.writeable:
        return _viewed(value)
    if value.dtype.hasobject or value.dtype.names:
        raise UserError(f"an argument is an array of {value.dtype}, which holds no numbers; fix: .astype(…) of it")
    if not value.dtype.isnative:
        raise UserError(f"an argument is an array of {value.dtype} in the other byte order; fix: .astype(…) of it")
    if not value.flags.writeable:
        raise UserError("an argument is a read-only array, and kernels may write to their arguments; fix: pass a copy")
    _checked_dtypes.add(value.dtype)
    return _viewed(value)


_checked_dtypes: set[np.dtype[Any]] = set()
"""Types of elements that kernels can be given: NumPy tells no sooner than it is asked three times."""


def _viewed(value: np.ndarray[Any, Any]) -> ArrayArgument:
    found = value.view(ArrayArgument)
    if objects.are_readable():
        found._address = address = objects.address_in(value)
        if value.base is None:
            found._span = address, address + value.nbytes
    return found


def accept_arrays() -> None:
    """Let Triton's functions that bind arguments take NumPy arrays, in kernels that joinery compiles.

    Triton makes such a function at a kernel's first launch, after its back end: a process's first launch takes arrays as well.
    """
    from triton.runtime import jit

    create = jit.create_function_from_signature
    if getattr(create, "accepts_arrays", False):
        return

    def create_accepting(signature: Any, parameters: Any, backend: Any) -> Any:
        bind = create(signature, parameters, backend)
        return _accepting(bind, parameters) if getattr(backend, "binary_ext", None) == BINARY else bind

    create_accepting.accepts_arrays = True  # type: ignore[attr-defined]
    jit.create_function_from_signature = create_accepting


def _accepting(bind: Callable[..., Any], parameters: Sequence[Any]) -> Callable[..., Any]:
    """A function that binds arguments of which some are arrays, and says which of them cannot be."""

    def bind_or_explain(*args: Any, **keywords: Any) -> Any:
        try:
            return bind_arrays(*args, **keywords)
        except (AttributeError, KeyError, RuntimeError, TypeError, UserError) as error:  # Triton's own say little
            explain(parameters, args, keywords, error)
            raise

    def bind_arrays(*args: Any, **keywords: Any) -> Any:
        if not _HOLD_ARRAYS.isdisjoint(map(type, args)) or not _HOLD_ARRAYS.isdisjoint(map(type, keywords.values())):
            args, keywords = _all_wrapped(args, keywords)
        try:
            return bind(*args, **keywords)
        except (AttributeError, TypeError):  # up to 3.3 and later, of an array in a named tuple perhaps
            given = (*args, *keywords.values())
            args, keywords = _all_wrapped(args, keywords)
            if all(map(operator.is_, given, (*args, *keywords.values()))):
                raise
        return bind(*args, **keywords)

    return bind_or_explain


_ARRAYS = frozenset({np.ndarray, np.memmap})
"""Classes of arrays that are their memory and nothing else."""
_HOLD_ARRAYS = _ARRAYS | {tuple}


def _all_wrapped(args: tuple[Any, ...], keywords: dict[str, Any]) -> tuple[tuple[Any, ...], dict[str, Any]]:
    found = tuple([as_argument(each) if type(each) in _ARRAYS else _wrapped(each) for each in args])
    if _HOLD_ARRAYS.isdisjoint(map(type, keywords.values())):
        return found, keywords
    return found, {name: _wrapped(value) for name, value in keywords.items()}


def _wrapped(value: Any) -> Any:
    """The value with arguments for arrays: itself, or in tuples."""
    if type(value) in _ARRAYS:
        return as_argument(value)
    if not isinstance(value, tuple):
        return value
    found = [_wrapped(each) for each in value]
    if all(new is old for new, old in zip(found, value, strict=True)):
        return value
    return type(value)(*found) if hasattr(value, "_fields") else type(value)(found)

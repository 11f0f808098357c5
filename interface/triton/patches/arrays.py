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

    It lives for one launch.
    """

    is_cpu = True

    def data_ptr(self) -> int:
        return objects.address_in(self) if objects.are_readable() else int(self.__array_interface__["data"][0])

    def memory_span(self) -> tuple[int, int]:
        """First byte and end of the memory that the array is a view of."""
        storage = self.untyped_storage()
        first = storage.data_ptr()
        return first, first + storage.nbytes()

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
        return value.view(ArrayArgument)
    if value.dtype.hasobject or value.dtype.names:
        raise UserError(f"an argument is an array of {value.dtype}, which holds no numbers; fix: .astype(…) of it")
    if not value.dtype.isnative:
        raise UserError(f"an argument is an array of {value.dtype} in the other byte order; fix: .astype(…) of it")
    if not value.flags.writeable:
        raise UserError("an argument is a read-only array, and kernels may write to their arguments; fix: pass a copy")
    _checked_dtypes.add(value.dtype)
    return value.view(ArrayArgument)


_checked_dtypes: set[np.dtype[Any]] = set()
"""Types of elements that kernels can be given: NumPy tells no sooner than it is asked three times."""


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

    has_arrays = False  # whether a call had some: calls without them should not pay for looking

    def bind_or_explain(*args: Any, **keywords: Any) -> Any:
        nonlocal has_arrays
        try:
            if has_arrays:
                args, keywords = _all_wrapped(args, keywords)
            try:
                return bind(*args, **keywords)
            except (AttributeError, TypeError):
                given = (*args, *keywords.values())
                args, keywords = _all_wrapped(args, keywords)
                if all(map(operator.is_, given, (*args, *keywords.values()))):
                    raise
                has_arrays = True
            return bind(*args, **keywords)
        except (AttributeError, KeyError, RuntimeError, TypeError, UserError) as error:  # Triton's own say little
            explain(parameters, args, keywords, error)
            raise

    return bind_or_explain


_ARRAYS = frozenset({np.ndarray, np.memmap})
"""Classes of arrays that are their memory and nothing else."""


def _all_wrapped(args: tuple[Any, ...], keywords: dict[str, Any]) -> tuple[tuple[Any, ...], dict[str, Any]]:
    found = [
        as_argument(each) if type(each) in _ARRAYS else _wrapped(each) if isinstance(each, tuple) else each for each in args
    ]
    return tuple(found), {name: _wrapped(value) for name, value in keywords.items()}


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

"""NumPy arrays as arguments of Triton's kernels, which takes what has `data_ptr()` and `dtype`."""

from __future__ import annotations

from typing import Any

import numpy as np

from ....promotion.errors import UserError


class ArrayArgument(np.ndarray):
    """An array of the caller's memory that Triton takes for a tensor."""

    def data_ptr(self) -> int:
        return int(self.__array_interface__["data"][0])

    def numel(self) -> int:
        return int(self.size)

    def element_size(self) -> int:
        return int(self.itemsize)

    @property
    def is_cpu(self) -> bool:
        return True

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
    if value.dtype.hasobject or value.dtype.names:
        raise UserError(f"an argument is an array of {value.dtype}, which holds no numbers; fix: .astype(…) of it")
    if not value.dtype.isnative:
        raise UserError(f"an argument is an array of {value.dtype} in the other byte order; fix: .astype(…) of it")
    if not value.flags.writeable:
        raise UserError("an argument is a read-only array, and kernels may write to their arguments; fix: pass a copy")
    return value.view(ArrayArgument)


_plain_run: list[Any] = []
"""`JITFunction.run` as Triton has it, while `kernel[grid](…)` takes arrays."""


def accept_arrays() -> None:
    """Let `kernel[grid](…)` take NumPy arrays, until `refuse_arrays`."""
    from triton.runtime.jit import JITFunction

    if _plain_run:
        return
    run = JITFunction.run
    _plain_run.append(run)

    def run_with_arrays(self: Any, *args: Any, **keywords: Any) -> Any:
        for arg in args:
            if type(arg) is np.ndarray:
                args = tuple([as_argument(each) if type(each) is np.ndarray else each for each in args])
                break
        for name, value in keywords.items():
            if type(value) is np.ndarray:
                keywords[name] = as_argument(value)
        return run(self, *args, **keywords)

    JITFunction.run = run_with_arrays


def refuse_arrays() -> None:
    """Leave NumPy arrays to Triton, which refuses them: a GPU could not read their memory."""
    from triton.runtime.jit import JITFunction

    if _plain_run:
        JITFunction.run = _plain_run.pop()

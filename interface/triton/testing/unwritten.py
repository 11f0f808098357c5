"""Memory of torch that nothing has written yet, for sanitized launches.

`torch.empty` and its relatives fill what they return with a pattern, and keep a note of the memory. What still holds the
pattern at a launch was not written: not by torch, nor through a view or an array, nor by native code, none of which is asked.
The pattern is a signalling NaN of float32, and its halves are of bfloat16: no arithmetic returns one.
"""

from __future__ import annotations

import ctypes
import functools
import sys
from collections.abc import Callable
from typing import Any

import numpy as np

from ....promotion.arrays import Array
from ..memory import Span, device

_PATTERN = np.uint32(0xFF8DFFB5)
_MAX_BYTES = 1 << 28
"""Bytes up to which memory is filled: touching all of it takes time."""
_MAX_NOTES = 1 << 14
_FUNCTIONS = ("empty", "empty_like", "empty_strided")
_METHODS = ("new_empty", "new_empty_strided")

_notes: dict[int, Any] = {}
"""Weak references to storages, by the address of their memory."""
_plain: list[tuple[Any, str, Any]] = []
"""What was replaced: (owner, name, function)."""


def follow() -> None:
    """Note memory that torch hands out unwritten from now on; nothing happens before torch is imported."""
    torch = sys.modules.get("torch")
    if _plain or not hasattr(torch, "empty_strided") or not hasattr(torch, "compiler"):
        return
    for owner, names in ((torch, _FUNCTIONS), (torch.Tensor, _METHODS)):  # type: ignore[union-attr]
        for name in names:
            function = getattr(owner, name)
            replacement = _noting(torch, function)
            _plain.append((owner, name, vars(owner).get(name)))
            setattr(owner, name, replacement)
            _let_scripts_call(replacement, function)


def forget() -> None:
    """Give torch its functions back."""
    for owner, name, function in _plain:
        if function is None:
            delattr(owner, name)
        else:
            setattr(owner, name, function)
    _plain.clear()
    _notes.clear()


def unwritten_bytes(span: Span) -> Array | None:
    """Which bytes of a storage's memory nothing has written (bool); None if that is not known, or none of them."""
    first, end = span
    note = _notes.get(first)
    if note is None:
        return None
    if note.expired():
        del _notes[first]
        return None
    blank = _memory(first, end - first) == _PATTERN
    if not blank.any():
        return None
    found = np.zeros(end - first, np.bool_)
    found[: 4 * len(blank)] = np.repeat(blank, 4)
    return found


def _memory(address: int, size: int) -> Array:
    return np.frombuffer(memoryview((ctypes.c_uint32 * (size // 4)).from_address(address)), np.uint32)


def _let_scripts_call(replacement: Any, function: Any) -> None:
    """Make scripts of torch, which know functions by identity, take one function for the other."""
    from torch.jit import _builtins

    name = _builtins._find_builtin(function)
    if name is not None:
        _builtins._register_builtin(replacement, name)


def _noting(torch: Any, function: Callable[..., Any]) -> Callable[..., Any]:
    """The function, with a note of the memory of what it returns."""

    @functools.wraps(function)
    def noting(*args: Any, **keywords: Any) -> Any:
        tensor = function(*args, **keywords)
        if not torch.compiler.is_compiling() and type(tensor) is torch.Tensor and keywords.get("out") is None:
            _note(torch, tensor)
        return tensor

    return noting


def _note(torch: Any, tensor: Any) -> None:
    from torch.multiprocessing.reductions import StorageWeakRef

    try:
        if tensor.layout != torch.strided or torch._C._functorch.is_functorch_wrapped_tensor(tensor):
            return
        storage = tensor.untyped_storage()
        address, size = storage.data_ptr(), storage.nbytes()
        if storage.device.type not in ("cpu", device()) or not address or not 4 <= size <= _MAX_BYTES:
            return
    except (AttributeError, NotImplementedError, RuntimeError):  # a tensor without memory of its own
        return
    _memory(address, size)[:] = _PATTERN
    if len(_notes) >= _MAX_NOTES:
        for each in [each for each, note in _notes.items() if note.expired()]:
            del _notes[each]
    _notes[address] = StorageWeakRef(storage)

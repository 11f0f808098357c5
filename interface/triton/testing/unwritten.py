"""Memory of torch that nothing has written yet, for sanitized launches.

`torch.empty` and its relatives, `torch.Tensor(4)` and what grows by `resize_` fill memory that nothing has written, and it has
a shadow (`memory/shadows.py`), from which goes what operators of torch and launches write, and what holds something else.
"""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from ..memory import device
from .memory import shadows, writes
from .memory.shadows import unwritten_bytes

_MAX_BYTES = 1 << 28
"""Bytes up to which memory is filled: touching all of it takes time."""
_SMALL = 4
"""Bytes of an element from which on what memory holds tells whether somebody wrote it unseen."""
_FUNCTIONS = ("empty", "empty_like", "empty_strided", "empty_permuted")
_METHODS = ("new_empty", "new_empty_strided", "new")
_RESIZING = ("resize_", "resize_as_")
_EXPORTS = ("numpy", "__dlpack__")

_plain: list[tuple[Any, str, Any]] = []
"""What was replaced: (owner, name, function)."""


def follow() -> None:
    """Note memory that torch hands out unwritten from now on; nothing happens before torch is imported."""
    torch = sys.modules.get("torch")
    if _plain or not hasattr(torch, "empty_strided") or not hasattr(torch, "compiler"):
        return
    tensor: Any = torch.Tensor  # type: ignore[union-attr]
    for name in _EXPORTS:
        _replace(tensor, name, _exporting(getattr(tensor, name)))
    _replace(tensor, "__init__", _made(torch, tensor.__init__))
    for name in _RESIZING:
        _replace(tensor, name, _resizing(torch, getattr(tensor, name)))
    _replace(torch.UntypedStorage, "resize_", _resizing(torch, torch.UntypedStorage.resize_))  # type: ignore[union-attr]
    for owner, names in ((torch, _FUNCTIONS), (tensor, _METHODS)):
        for name in names:
            function = getattr(owner, name)
            replacement = _noting(torch, function)
            _replace(owner, name, replacement)
            _let_scripts_call(replacement, function)
    writes.watch(torch)


def _replace(owner: Any, name: str, replacement: Any) -> None:
    _plain.append((owner, name, vars(owner).get(name)))
    setattr(owner, name, replacement)


def forget() -> None:
    """Give torch its functions back."""
    for owner, name, function in _plain:
        if function is None:
            delattr(owner, name)
        else:
            setattr(owner, name, function)
    _plain.clear()
    rules = sys.modules.get("torch._dynamo.trace_rules")
    if hasattr(rules, "clear_lru_cache"):  # it knows functions by identity, and may have met ours
        rules.clear_lru_cache()  # type: ignore[union-attr]
    writes.unwatch()
    shadows.clear()


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
        is_known = type(tensor) is torch.Tensor and keywords.get("out") is None and not torch.compiler.is_compiling()
        if is_known and (not may_copy or _are_sizes(torch, args[1:], keywords)):
            _note(torch, tensor)
        return tensor

    may_copy = function.__name__ == "new"
    return noting


def _made(torch: Any, function: Callable[..., None]) -> Callable[..., None]:
    """What is called when programs have made a tensor by its class: `torch.Tensor(2, 3)` is of memory nobody wrote."""

    @functools.wraps(function)
    def made(self: Any, *args: Any, **keywords: Any) -> None:
        if type(self) is torch.Tensor and not torch.compiler.is_compiling() and _are_sizes(torch, args, keywords):
            _note(torch, self)

    return made


def _are_sizes(torch: Any, args: Sequence[Any], keywords: Mapping[str, Any]) -> bool:
    """Whether a tensor that is made of these has their sizes, and not their values, or the memory of another one."""
    if keywords.keys() - {"device"}:
        return False
    return all(type(arg) is int for arg in args) or (len(args) == 1 and type(args[0]) is torch.Size)


def _resizing(torch: Any, function: Callable[..., Any]) -> Callable[..., Any]:
    """The function, which changes the size of a storage, with a note of what it adds."""

    @functools.wraps(function)
    def resizing(self: Any, *args: Any, **keywords: Any) -> Any:
        if torch.compiler.is_compiling():
            return function(self, *args, **keywords)
        _, first, size = _memory(torch, self) or (None, 0, 0)
        blank = unwritten_bytes((first, first + size))
        before = np.zeros(size, np.bool_) if blank is None else blank.copy()
        result = function(self, *args, **keywords)
        now = _memory(torch, self)
        if now is not None and now[2] > size:
            shadows.add(*now, before)
        return result

    return resizing


def _note(torch: Any, tensor: Any) -> None:
    found = _memory(torch, tensor)
    if found is not None:
        shadows.add(*found)


def _memory(torch: Any, holder: Any) -> tuple[Any, int, int] | None:
    """A weak reference to the storage of a tensor, or to a storage, its address and its bytes; None if it is not followed."""
    from torch.multiprocessing.reductions import StorageWeakRef

    try:
        storage = holder
        if isinstance(holder, torch.Tensor):
            if holder.layout != torch.strided or torch._C._functorch.is_functorch_wrapped_tensor(holder):
                return None
            storage = holder.untyped_storage()
        if storage.device.type not in ("cpu", device()):  # first: a fake tensor warns of whoever asks for its address
            return None
        address, size = storage.data_ptr(), storage.nbytes()
        if not address or not 1 <= size <= _MAX_BYTES:
            return None
    except (AttributeError, NotImplementedError, RuntimeError):  # a tensor without memory of its own
        return None
    return StorageWeakRef(storage), address, size


def _exporting(function: Callable[..., Any]) -> Callable[..., Any]:
    """The function, which hands memory over to who writes it unseen: a small element would tell nothing."""

    @functools.wraps(function)
    def exporting(self: Any, *args: Any, **keywords: Any) -> Any:
        found = function(self, *args, **keywords)
        if not shadows.is_empty() and self.is_cpu and self.element_size() < _SMALL:
            shadow = shadows.around(self.data_ptr())
            if shadow is not None:
                shadows.remove(shadow)
        return found

    return exporting


__all__ = ["follow", "forget", "unwritten_bytes"]

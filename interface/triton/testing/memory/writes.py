"""What operators of torch write, seen where they choose a device: shadows of memory that nothing has written follow it.

The dispatcher asks a function of Python here before it calls the device's, on every thread, below autograd and
transformations of functions. Nothing is replaced, and results are what they were.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from .....promotion.arrays import Array
from . import shadows

_PARTIAL = frozenset({
    "index_put_", "_index_put_impl_", "index_copy_", "index_fill_", "index_add_", "index_reduce_", "scatter_", "scatter_add_",
    "scatter_reduce_", "masked_fill_", "masked_scatter_", "put_", "embedding_renorm_",
})  # fmt: skip
"""Operators that write some elements of their first argument."""
_SHAPES = frozenset({
    "resize_", "resize_as_", "resize_as_sparse_", "set_", "as_strided_", "detach_", "record_stream", "requires_grad_",
    "set_data", "_resize_output_", "rename_",
})  # fmt: skip
"""Operators that write no elements."""
_ARITHMETIC = frozenset({"add_", "sub_", "mul_", "div_"})
"""Operators on a tensor and a number, which may be any tensor without axes if the first has axes, and the number is of its
kind: both compute in the dtype of the first."""
_POINT = "BackendSelect"
_library: list[Any] = []


class _Within(threading.local):
    """What a thread is in: an operator that writes a part of its argument, by others that may write all of it."""

    partial = False


_within = _Within()
on_cuda: list[Callable[..., Any]] = []
"""What computes operators on a device that stands in for CUDA: (operator, arguments, …)."""


def watch(torch: Any) -> None:
    """See what operators write from now on. A torch that cannot be asked is not: what memory holds tells (`shadows`)."""
    if _library:
        return
    try:
        library = torch.library.Library("aten", "IMPL")
        after = torch._C._dispatch_keyset_full_after(getattr(torch._C.DispatchKey, _POINT))
        for operator in _writing(torch):
            watched = _Watched(torch, operator, after)
            library.impl(operator._name.removeprefix("aten::"), watched, _POINT, with_keyset=True)
    except (AttributeError, TypeError):
        return
    _library.append(library)


def unwatch() -> None:
    """Let operators be."""
    while _library:
        _library.pop()._destroy()


def _writing(torch: Any) -> Iterator[Any]:
    """The operators that write their arguments, but for those that torch makes of others on every device."""
    has = torch._C._dispatch_has_kernel_for_dispatch_key
    for name in torch._C._dispatch_get_all_op_names():
        if not name.startswith("aten::") or has(name, "CompositeImplicitAutograd") or has(name, _POINT):
            continue
        packet, _, overload = name.removeprefix("aten::").partition(".")
        operator = getattr(getattr(torch.ops.aten, packet, None), overload or "default", None)
        if operator is None or packet in _SHAPES or torch.Tag.inplace_view in operator.tags:
            continue
        if any(each.alias_info and each.alias_info.is_write for each in operator._schema.arguments):
            yield operator


class _Watched:
    """One operator: does what it does, and notes what it wrote."""

    def __init__(self, torch: Any, operator: Any, after: Any) -> None:
        schema = operator._schema
        self._torch, self._operator, self._after = torch, operator, after
        self._tensor, self._strided, self._cpu = torch.Tensor, torch.strided, torch._C.DispatchKey.CPU
        self._call = operator._handle.redispatch_boxed
        positional = [each for each in schema.arguments if not each.kwarg_only]
        self._tensors = [i for i, each in enumerate(positional) if str(each.type) == "Tensor"]
        names = [each.name for each in positional]
        writes = [each.name for each in schema.arguments if each.alias_info and each.alias_info.is_write]
        self._positions = [names.index(name) for name in writes if name in names]
        self._names = [name for name in writes if name not in names]
        self._is_partial = operator._opname in _PARTIAL
        self._is_arithmetic = operator._name in {f"aten::{name}.Tensor" for name in _ARITHMETIC}
        self._takes_numbers = torch._C._should_allow_numbers_as_tensors(operator._opname)
        self._has_code: set[Any] = set()

    def __call__(self, keys: Any, /, *args: Any, **keywords: Any) -> Any:
        if shadows.is_empty() or _within.partial or not keys.has(self._cpu):
            return self._computed(keys, args, keywords)
        if self._is_partial:
            return self._computed_in_part(keys, args, keywords)
        result = self._computed(keys, args, keywords)
        for position in self._positions:
            if position < len(args):
                self._note(args[position])
        for name in self._names:
            self._note(keywords.get(name))
        return result

    def _computed_in_part(self, keys: Any, args: Any, keywords: Any) -> Any:
        _within.partial = True
        try:
            twin = self._twin(args)
            if twin is not None:
                self._computed(keys, (twin.tensor, *args[1:]), keywords)
            result = self._computed(keys, args, keywords)
        finally:
            _within.partial = False
        if twin is not None:
            twin.note()
        return result

    def _computed(self, keys: Any, args: Any, keywords: Any) -> Any:
        for i in self._tensors:  # torch makes numbers of tensors that it made of numbers
            if i < len(args) and not isinstance(args[i], self._tensor) and args[i] is not None:
                return self._with_numbers(keys & self._after, args, keywords)
        return self._call(keys & self._after, *args, **keywords)

    def _with_numbers(self, keys: Any, args: Any, keywords: Any) -> Any:
        if self._is_arithmetic and keys.has(self._cpu) and _fits(args):
            return self._call(keys, args[0], number_as_tensor(self._torch, args[1]), *args[2:], **keywords)
        key = keys.highestPriorityTypeId()
        has = key in self._has_code or self._torch._C._dispatch_has_kernel_for_dispatch_key(self._operator._name, key)
        if has and key == self._cpu:  # what torch has for the CPU stays
            self._has_code.add(key)
        if self._takes_numbers and has:
            return self._operator._op_dk(key, *args, **keywords)
        if on_cuda and key == self._torch._C.DispatchKey.CUDA and not has:
            return on_cuda[0](self._operator, *args, **keywords)
        led = [number_as_tensor(self._torch, each) if i in self._tensors else each for i, each in enumerate(args)]
        return self._call(keys, *led, **keywords)

    def _note(self, written: Any) -> None:
        if isinstance(written, self._tensor):
            if written.is_cpu and written.layout == self._strided and shadows.may_hold(address := written.data_ptr()):
                shadows.write(address, written.shape, written.stride(), written.element_size())
        elif isinstance(written, list | tuple):
            for each in written:
                self._note(each)

    def _twin(self, args: Any) -> _Twin | None:
        """A copy of what is written in part, whose unwritten elements hold something else; None if all are written."""
        target = args[0]
        if not target.is_cpu or target.layout != self._strided or not target.numel():
            return None
        reached = shadows.reach(target.shape, target.stride(), target.element_size())
        shadow = shadows.around(target.data_ptr(), reached)
        return None if shadow is None else _Twin(shadow, target)


class _Twin:
    """An operator that writes some elements is computed for two tensors whose unwritten elements differ.

    Those that nobody writes stay as they were in both. A value that is what the memory held by chance is not so in one of them.
    """

    def __init__(self, shadow: shadows.Shadow, target: Any) -> None:
        self._target, self.tensor = _bytes(target), target.clone()
        self._blank = shadow.view(target.data_ptr(), target.shape, target.stride(), target.element_size())
        copy = _bytes(self.tensor)
        copy ^= np.where(self._blank, np.uint8(0xFF), np.uint8(0))
        self._before = self._target.copy(), copy.copy()

    def note(self) -> None:
        unchanged = (self._target == self._before[0]) & (_bytes(self.tensor) == self._before[1])
        self._blank &= unchanged


def _fits(args: Any) -> bool:
    """Whether an operator of `_ARITHMETIC` has arguments for which a number is any tensor without axes."""
    if len(args) < 2 or type(args[1]) not in (int, float) or not hasattr(args[0], "is_cpu"):
        return False
    dtype = args[0].dtype
    if not (args[0].is_cpu and args[0].dim()):
        return False
    return bool(dtype.is_floating_point or (type(args[1]) is int and str(dtype).startswith(("torch.int", "torch.uint"))))


def _bytes(tensor: Any) -> Array:
    return shadows.elements(tensor.data_ptr(), tensor.shape, tensor.stride(), tensor.element_size())


def number_as_tensor(torch: Any, value: Any) -> Any:
    """A tensor of a number's own precision; what is none stays."""
    kinds = {bool: torch.bool, int: torch.int64, float: torch.float64, complex: torch.complex128}
    dtype = kinds.get(type(value))
    return value if dtype is None else torch.scalar_tensor(value, dtype=dtype, device="cpu")

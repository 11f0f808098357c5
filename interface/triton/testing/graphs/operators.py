"""Operators of torch in a graph of CUDA: computed while it is captured, and again, into the same memory, at replays."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from ...known.holders import Span
from .capture import Capture

_COPIES = frozenset({"copy_", "_foreach_copy_"})
_OF_SHAPES = frozenset({"is_same_size", "is_set_to"})
"""Operators that return no tensors, and look at none of the elements."""


def compute(
    capture: Capture, operators: Any, plan: Any, operator: Any, args: Sequence[Any], keywords: Mapping[str, Any]
) -> Any:
    """Compute an operator, and note it for replays.

    Raises `RuntimeError` for one that a GPU could not capture, and `NotImplementedError` for one that it might.
    """
    torch = operators.torch
    tensors = list(_tensors((*args, *keywords.values()), torch.Tensor))
    _check(capture, torch, plan, operator, args, keywords, tensors)
    changed = [*plan.writes, *plan.undeclared]
    values = [args[i] if i is not None and i < len(args) else keywords.get(name) for i, name in changed]
    written = list(_tensors(values, torch.Tensor))
    capture.keep(map(_span, written), [each.untyped_storage() for each in written])
    result = operators.computed(plan, operator, args, keywords)
    hold = functools.partial(_kept, torch, operators.alias)
    led_args, led_keywords = [hold(each) for each in args], {name: hold(each) for name, each in keywords.items()}
    results = [hold(each) for each in _tensors([result], torch.Tensor)]
    capture.add(functools.partial(_compute_again, operators, plan, operator, led_args, led_keywords, results))
    return result


def _compute_again(
    operators: Any, plan: Any, operator: Any, args: Sequence[Any], keywords: Mapping[str, Any], results: Sequence[Any]
) -> None:
    """Compute an operator of a graph, with what its results go to. Raises `RuntimeError` for results of another shape."""
    found = _tensors([operators.computed(plan, operator, args, keywords)], operators.torch.Tensor)
    for old, new in zip(results, found, strict=True):
        if old.shape != new.shape:
            shapes = f"shape {list(old.shape)} when it was captured, {list(new.shape)} now"
            raise RuntimeError(f"{operator} in a graph of CUDA has a result of {shapes}")
        if old.data_ptr() != new.data_ptr():  # else it wrote its argument
            operators.led(old).copy_(operators.led(new))


def _check(
    capture: Capture, torch: Any, plan: Any, operator: Any, args: Sequence[Any], keywords: Mapping[str, Any],
    tensors: Sequence[Any],
) -> None:
    """Raises `RuntimeError` for what a GPU could not capture, `NotImplementedError` for what cannot be replayed here."""
    what = str(operator)
    capture.check_stream(what)
    if any(each.layout != torch.strided or each.is_quantized or each.is_nested for each in tensors):
        capture.refuse(what, "a tensor of it is sparse, nested or quantized")
    if torch.Tag.data_dependent_output in operator.tags or _tells(operator):
        capture.forbid(what, "hands a value of the GPU to the CPU", "leave it out of the graph")
    if torch.Tag.dynamic_output_shape in operator.tags and not _is_of_known_shape(torch, operator, args, keywords):
        capture.forbid(what, "has a result whose shape depends on values", "leave it out of the graph, or use torch.where")
    if plan.generator is not None:
        given = args[plan.generator] if plan.generator < len(args) else keywords.get("generator")
        if given is not None:
            capture.check_generator(given, what)
    copies = operator._opname in _COPIES
    if all(each.is_cuda or (each.dim() == 0 and not copies) for each in tensors):
        return
    is_pinned = all(each.is_cuda or each.is_pinned() for each in tensors)
    waits = not (keywords.get("non_blocking") or (copies and len(args) > 2 and args[2]))
    if not copies or waits or not is_pinned:
        capture.forbid(what, "takes memory of the CPU", "copy it before, or from pinned memory with non_blocking=True")


def _tells(operator: Any) -> bool:
    """Whether it returns what is no tensor, and may depend on elements."""
    return operator._opname not in _OF_SHAPES and any("Tensor" not in str(each.type) for each in operator._schema.returns)


def _is_of_known_shape(torch: Any, operator: Any, args: Sequence[Any], keywords: Mapping[str, Any]) -> bool:
    """Whether an operator whose results may have any shape is given what settles it."""
    if operator._opname in ("index", "_unsafe_index"):
        return all(each is None or each.dtype not in (torch.bool, torch.uint8) for each in args[1])
    return operator._opname == "repeat_interleave" and keywords.get("output_size") is not None


def _tensors(values: Sequence[Any], tensor: Any) -> Iterator[Any]:
    """The tensors among values and lists of them."""
    for value in values:
        if isinstance(value, tensor):
            yield value
        elif isinstance(value, list | tuple):
            yield from _tensors(value, tensor)


def _span(tensor: Any) -> Span:
    """The memory that a tensor lies in."""
    storage = tensor.untyped_storage()
    first = storage.data_ptr()
    return first, first + storage.nbytes()


def _kept(torch: Any, alias: Callable[[Any], Any], value: Any) -> Any:
    """A value as replays find it: in the same memory, whatever becomes of the tensor; the CPU's numbers as they are now."""
    if isinstance(value, torch.Tensor):
        return value.clone() if value.is_cpu and not value.is_pinned() else alias(value)
    if isinstance(value, list | tuple):
        return type(value)([_kept(torch, alias, each) for each in value])
    return value

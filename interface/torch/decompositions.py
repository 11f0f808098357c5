"""Says which operators PyTorch takes apart before joinery reads a graph: all that it can, but for those with a handler."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from typing import Any

import torch
import torch._decomp
from torch.export import default_decompositions

from ...graph.aten.table import EXPORT_HANDLERS, HANDLERS

_core_decompositions = getattr(
    torch._decomp, "_core_aten_decompositions_post_autograd", torch._decomp.core_aten_decompositions
)


def handled(overload: Any, *, alone: bool = False) -> bool:
    """Return whether an overload of PyTorch has a handler. alone: for programs that run without PyTorch."""
    schema = getattr(overload, "_schema", None)
    if schema is None:
        return False
    namespace, name = str(schema.name).split("::")
    key = f"{namespace}.{name}.{schema.overload_name or 'default'}"
    return key in HANDLERS or (alone and key in EXPORT_HANDLERS)


def exported_decompositions() -> Any:
    """Return the table for `ExportedProgram.run_decompositions`.

    Linear layers, attention, softmax, normalisations and activations stay whole: each is a composite here, and the parts that
    PyTorch would make of it hide what it is.
    """
    table = default_decompositions()
    for overload in list(table):
        if handled(overload, alone=True):
            del table[overload]
    if _ADDCMUL in table:
        table[_ADDCMUL] = _by_whole_value(table[_ADDCMUL])
    return table


def compiled_decompositions() -> dict[Any, Any]:
    """Return the table for AOTAutograd, which takes composites apart itself: to collect these takes a fifth of a second."""
    table = {overload: _tried(rule) for overload, rule in _core_decompositions().items() if not handled(overload)}
    if _ADDCMUL in table:
        table[_ADDCMUL] = _by_whole_value(table[_ADDCMUL])
    table.update({overload: _tried(_each(overload)) for overload in _of_lists()})
    return table


_OF_LISTS = (
    "abs", "acos", "add", "addcdiv", "addcmul", "asin", "atan", "ceil", "clamp_max", "clamp_min", "clone", "copy", "cos",
    "cosh", "div", "erf", "erfc", "exp", "expm1", "floor", "frac", "lerp", "lgamma", "log", "log10", "log1p", "log2", "max",
    "maximum", "minimum", "mul", "neg", "norm", "pow", "reciprocal", "round", "rsqrt", "sigmoid", "sign", "sin", "sinh", "sqrt",
    "sub", "tan", "tanh", "trunc", "zero",
)  # fmt: skip
"""Operators on lists of tensors, of which optimisers are made: `_foreach_add` and others."""
_BY_NAME = frozenset({"alpha", "value", "dtype"})
"""Options that the operators on a tensor take by name alone."""
_ON_ONE = {"norm": "linalg_vector_norm", "zero": "zeros_like"}
_WITH_NUMBERS = {"maximum": "clamp_min", "minimum": "clamp_max"}
"""Operators on lists whose name on a tensor is another: all, and those with numbers."""


def _of_lists() -> Iterator[Any]:
    """Yield the functional overloads of the operators on lists; those whose numbers are a tensor's stay whole."""
    for name in _OF_LISTS:
        packet = getattr(torch.ops.aten, f"_foreach_{name}", None)
        for kind in packet.overloads() if packet is not None else ():
            overload = getattr(packet, kind)
            has_numbers = name in ("addcmul", "addcdiv") and kind == "Tensor"
            if not overload._schema.is_mutable and not has_numbers:
                yield overload


def _each(overload: Any) -> Callable[..., Any]:
    """Return the rule of an operator on lists: the operator on the tensors of each position."""
    schema = overload._schema
    name = schema.name.removeprefix("aten::_foreach_")
    names = [argument.name for argument in schema.arguments]
    is_by_number = name in _WITH_NUMBERS and schema.overload_name != "List"
    target = getattr(torch.ops.aten, _WITH_NUMBERS[name] if is_by_number else _ON_ONE.get(name, name))

    def rule(*arguments: Any, **options: Any) -> list[Any]:
        given = {**dict(zip(names, arguments, strict=False)), **options}
        if name == "clone":
            given = {"self": given["self"]}
        lists = [value for value in given.values() if isinstance(value, (list, tuple))]
        found = []
        for position in range(len(lists[0])):
            at = {key: value[position] if isinstance(value, (list, tuple)) else value for key, value in given.items()}
            if name in ("addcmul", "addcdiv") and "scalars" in at:
                at["value"] = at.pop("scalars")
            by_name = {key: value for key, value in at.items() if key in _BY_NAME}
            found.append(target(*[value for key, value in at.items() if key not in by_name], **by_name))
        return found

    return rule


_ADDCMUL = torch.ops.aten.addcmul.default


def _tried(rule: Callable[..., Any]) -> Callable[..., Any]:
    """Return a rule that leaves an operator whole where it raises an exception: operators take more than their rules."""

    @functools.wraps(rule)
    def tried(*arguments: Any, **options: Any) -> Any:
        try:
            return rule(*arguments, **options)
        except Exception:
            return NotImplemented

    return tried


def _by_whole_value(rule: Callable[..., Any]) -> Callable[..., Any]:
    """Return the rule of `addcmul` with the factor that the operator takes for integers, which the rule refuses."""

    @functools.wraps(rule)
    def addcmul(tensor: Any, *factors: Any, value: Any = 1) -> Any:
        is_whole = not (tensor.is_floating_point() or tensor.is_complex()) and isinstance(value, float)
        return rule(tensor, *factors, value=int(value) if is_whole else value)

    return addcmul

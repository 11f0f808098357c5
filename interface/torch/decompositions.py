"""Says which operators PyTorch takes apart before joinery reads a graph: all that it can, but for those with a handler."""

from __future__ import annotations

import functools
from collections.abc import Callable
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
    return table


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

"""Says which operators PyTorch takes apart before joinery reads a graph: all that it can, but for those with a handler."""

from __future__ import annotations

from typing import Any

from torch._decomp import core_aten_decompositions
from torch.export import default_decompositions

from ...graph.aten.table import HANDLERS


def handled(overload: Any) -> bool:
    """Return whether an overload of PyTorch has a handler."""
    schema = getattr(overload, "_schema", None)
    if schema is None:
        return False
    namespace, name = str(schema.name).split("::")
    return f"{namespace}.{name}.{schema.overload_name or 'default'}" in HANDLERS


def exported_decompositions() -> Any:
    """Return the table for `ExportedProgram.run_decompositions`.

    Linear layers, attention, softmax, normalisations and activations stay whole: each is a composite here, and the parts that
    PyTorch would make of it hide what it is.
    """
    table = default_decompositions()
    for overload in list(table):
        if handled(overload):
            del table[overload]
    return table


def compiled_decompositions() -> dict[Any, Any]:
    """Return the table for AOTAutograd."""
    return {overload: rule for overload, rule in core_aten_decompositions().items() if not handled(overload)}

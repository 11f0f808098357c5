"""Says which operators PyTorch takes apart before joinery reads a graph: all that it can, but for those with a handler."""

from __future__ import annotations

from typing import Any

import torch
from torch._decomp import core_aten_decompositions, get_decompositions
from torch.export import default_decompositions

from ...graph.aten.table import HANDLERS

_SAMPLER = torch.ops.aten.grid_sampler_2d.default


def _sampled(x: Any, grid: Any, *settings: Any) -> Any:
    """Take apart sampling at positions between elements, which PyTorch calls core; 16-bit floats are computed in float32."""
    (rule,) = get_decompositions([_SAMPLER]).values()
    if x.element_size() > 2:
        return rule(x, grid, *settings)
    return rule(x.float(), grid.float(), *settings).to(x.dtype)


_MORE = {_SAMPLER: _sampled}


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
    table.update(_MORE)
    return table


def compiled_decompositions() -> dict[Any, Any]:
    """Return the table for AOTAutograd."""
    table = {**core_aten_decompositions(), **_MORE}
    return {overload: rule for overload, rule in table.items() if not handled(overload)}

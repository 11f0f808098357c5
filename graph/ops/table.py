"""Collects the op table: everything a graph is made of, one row per op.

An elementwise op is one row in `elementwise.py`; its public function, its operator, its documentation and its
tests derive from the row. Other ops are a row in `structural.py` and an emitter in the tiler, a composite in
`lookups.py` or `quantization.py`, a row in `host.py`, which the evaluator computes between compiled parts, or
one in `control.py` or `host_control.py`, which runs other graphs.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from ...promotion.errors import UserError, close_names
from . import control as ops_control
from . import elementwise as ops_elementwise
from . import host as ops_host
from . import host_control as ops_host_control
from . import lookups as ops_lookups
from . import quantization as ops_quantization
from . import structural as ops_structural
from .complex import fourier as ops_fourier
from .complex import parts as ops_complex_parts
from .opdef import OpDef

OPS: Mapping[str, OpDef] = MappingProxyType(
    {row.name: row for row in (
        *ops_structural.SOURCES, *ops_elementwise.ROWS, *ops_structural.ROWS, *ops_lookups.ROWS, *ops_quantization.ROWS,
        *ops_complex_parts.ROWS, *ops_fourier.ROWS,
        *ops_host.ROWS, *ops_host_control.ROWS, *ops_control.ROWS,
    )}
)
"""Every row by name."""


def op_named(name: str) -> OpDef:
    """Return the row of an op. Raises `UserError` for unknown names."""
    row = OPS.get(name)
    if row is None:
        close = close_names(name, OPS, n=3)
        hint = f"did you mean {', '.join(close)}?" if close else f"known ops: {', '.join(OPS)}"
        raise UserError(f"unknown op {name!r}; {hint}")
    return row

"""Imports all writers, which fills the table."""

from __future__ import annotations

from .handlers import (
    arithmetic,
    bits,
    composites,
    elementwise,
    host,
    lookups,
    ordered,
    quantization,
    reductions,
    structure,
)
from .handlers.structure import SIZED
from .registry import REASONS, WRITERS

__all__ = ["MODULES", "REASONS", "SIZED", "WRITERS"]

MODULES = (arithmetic, bits, composites, elementwise, host, lookups, ordered, quantization, reductions, structure)
"""The modules whose import fills the table."""

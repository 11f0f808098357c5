"""Imports all handlers, which fills the table."""

from __future__ import annotations

from .handlers import (
    activations,
    attention,
    backward,
    conversion,
    creation,
    elementwise,
    indexing,
    normalization,
    products,
    reductions,
    shaping,
    spatial,
)
from .registry import HANDLERS

__all__ = ["HANDLERS", "MODULES"]

MODULES = (
    activations, attention, backward, conversion, creation, elementwise, indexing, normalization, products, reductions,
    shaping, spatial,
)  # fmt: skip
"""The modules whose import fills the table."""

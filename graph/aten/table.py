"""Imports all handlers, which fills the table."""

from __future__ import annotations

from .handlers import (
    activations,
    attention,
    control,
    conversion,
    creation,
    elementwise,
    indexing,
    normalization,
    ordering,
    products,
    recurrent,
    reductions,
    scattering,
    shaping,
    spatial,
    tables,
)
from .handlers.gradients import convolution, pooling
from .registry import HANDLERS

__all__ = ["HANDLERS", "MODULES"]

MODULES = (
    activations, attention, control, conversion, creation, elementwise, indexing, normalization, ordering,
    products, recurrent, reductions, scattering, shaping, spatial, convolution, pooling, tables,
)  # fmt: skip
"""The modules whose import fills the table."""

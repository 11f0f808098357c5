"""Imports all handlers, which fills the table."""

from __future__ import annotations

from .handlers import (
    activations,
    control,
    conversion,
    creation,
    elementwise,
    indexing,
    ml,
    normalization,
    products,
    quantisation,
    recurrent,
    reductions,
    sequences,
    shaping,
    signal,
    training,
)
from .handlers.microsoft import fused
from .handlers.spatial import convolution, pooling, resize, sampling
from .registry import STRUCTURAL, handler_for

__all__ = ["MODULES", "STRUCTURAL", "handler_for"]

MODULES = (
    activations, control, conversion, convolution, creation, elementwise, fused, indexing, ml, normalization, pooling,
    products, quantisation, recurrent, reductions, resize, sampling, sequences, shaping, signal, training,
)  # fmt: skip
"""The modules whose import fills the table."""

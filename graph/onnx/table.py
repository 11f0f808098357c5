"""Imports all handlers, which fills the table."""

from __future__ import annotations

from .handlers import (
    activations,
    control,
    conversion,
    creation,
    elementwise,
    indexing,
    normalization,
    products,
    quantisation,
    recurrent,
    reductions,
    sequences,
    shaping,
    signal,
)
from .handlers.spatial import convolution, pooling, resize, sampling
from .registry import STRUCTURAL, handler_for

__all__ = ["MODULES", "STRUCTURAL", "handler_for"]

MODULES = (
    activations, control, conversion, convolution, creation, elementwise, indexing, normalization, pooling, products,
    quantisation, recurrent, reductions, resize, sampling, sequences, shaping, signal,
)  # fmt: skip
"""The modules whose import fills the table."""

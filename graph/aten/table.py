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
from .handlers.complex import arithmetic, fourier, views
from .handlers.gradients import convolution, pooling, sampling
from .handlers.matrices import elimination
from .handlers.values import bits, drawing, gamma, searching, special
from .registry import COMPLEX_HANDLERS, EXPORT_HANDLERS, HANDLERS

__all__ = ["COMPLEX_HANDLERS", "EXPORT_HANDLERS", "HANDLERS", "MODULES"]

MODULES = (
    activations, attention, control, conversion, creation, elementwise, indexing, normalization, ordering,
    products, recurrent, reductions, scattering, shaping, spatial, convolution, pooling, sampling, tables, bits,
    searching, special, drawing, gamma, elimination, arithmetic, fourier, views,
)  # fmt: skip
"""The modules whose import fills the table."""

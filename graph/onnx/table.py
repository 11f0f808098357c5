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
    random,
    reductions,
    sequences,
    shaping,
    signal,
    training,
)
from .handlers.host import data_sized, strings
from .handlers.microsoft import attention, experts, fused, matrices, plain, quantised, tokens
from .handlers.ml import labels, linear, pipelines, trees, vectors
from .handlers.networks import losses, recurrent, transformers
from .handlers.spatial import convolution, pooling, resize, sampling
from .registry import STRUCTURAL, handler_for

__all__ = ["MODULES", "STRUCTURAL", "handler_for"]

MODULES = (
    activations, attention, control, conversion, convolution, creation, data_sized, elementwise, experts, fused, indexing,
    labels, linear, losses, matrices, normalization, pipelines, plain, pooling, products, quantisation, quantised, random,
    recurrent, reductions, resize, sampling, sequences, shaping, signal, strings, tokens, training, transformers, trees,
    vectors,
)  # fmt: skip
"""The modules whose import fills the table."""

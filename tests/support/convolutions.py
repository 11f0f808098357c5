"""Convolutions by their definition, tap by tap, padded with 0: a witness for others."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np


def convolved(x: Any, w: Any, options: dict[str, Any], dtype: Any = np.float64) -> Any:
    """The sum over all taps, computed in a dtype: float64, or int64, which is exact."""
    rank, group, pads = x.ndim - 2, options["group"], options["pads"]
    wide = np.pad(x.astype(dtype), ((0, 0), (0, 0), *zip(pads[:rank], pads[rank:], strict=True)))
    spans = [(size - 1) * dilation + 1 for size, dilation in zip(w.shape[2:], options["dilations"], strict=True)]
    sizes = [(n - span) // s + 1 for n, span, s in zip(wide.shape[2:], spans, options["strides"], strict=True)]
    result = np.zeros((x.shape[0], w.shape[0], *sizes), dtype)
    filters, channels = w.shape[0] // group, w.shape[1]
    for tap in itertools.product(*map(range, w.shape[2:])):
        begins = [at * dilation for at, dilation in zip(tap, options["dilations"], strict=True)]
        steps = zip(begins, sizes, options["strides"], strict=True)
        part = wide[(slice(None), slice(None), *[slice(b, b + (n - 1) * s + 1, s) for b, n, s in steps])]
        for g in range(group):
            here = part[:, g * channels : (g + 1) * channels]
            factors = w[(slice(g * filters, (g + 1) * filters), slice(None), *tap)].astype(dtype)
            result[:, g * filters : (g + 1) * filters] += np.einsum("nc...,mc->nm...", here, factors)
    return result

"""Conversions between dtypes."""

from __future__ import annotations

import numpy as np

from ..workload import Family, integers

family = Family("casts")
COUNT = 1_000_000
PAIRS = (
    ("uint8", "float32"), ("float32", "uint8"), ("int16", "float32"), ("float32", "int32"), ("int64", "float32"),
    ("float32", "int64"), ("float32", "float64"), ("float64", "float32"), ("float16", "float32"), ("float32", "float16"),
    ("float32", "bfloat16"), ("bfloat16", "float32"), ("int32", "int8"), ("int8", "int32"), ("int64", "int32"),
    ("int64", "float64"), ("float64", "int64"), ("bool", "float32"), ("float32", "bool"), ("int32", "uint8"),
    ("uint64", "float64"), ("uint16", "float16"),
)  # fmt: skip


def add_cast(source: str, target: str) -> None:
    """Add a cast of numbers that both dtypes have."""
    dtype = np.dtype(target)
    family.add(
        f"cast {source} to {target}", [integers(0, 100, COUNT, dtype=source)],
        lambda jn, x: jn.cast(x, target),
        numpy=lambda x: x.astype(dtype),
        torch=lambda torch, x: x.to(getattr(torch, target)),
        jax=lambda jax, x: x.astype(dtype),
    )  # fmt: skip


for one, other in PAIRS:
    add_cast(one, other)

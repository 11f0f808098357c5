"""Reductions, normalizations, and what is summed by atomics."""

from __future__ import annotations

from typing import Any

import numpy as np

from .cases import F16, F32, F64, I8, I32, I64, TYPES, Generator, kernel, normal

Made = tuple[list[Any], dict[int, Any]]
_DTYPES = {"float": F32, "half": F16, "int": I32, "char": I8, "unsigned short": np.uint16}
_FOLDS: dict[str, Any] = {"+": np.add, "max": np.maximum, "min": np.minimum}


def _add_reductions() -> None:
    shapes: list[tuple[str, str, tuple[int, ...], str]] = [
        ("float", "float", (64,), "+"), ("half", "half", (32,), "+"), ("int", "long", (32,), "max"),
        ("char", "char", (16,), "min"), ("float", "float", (16, 32), ":, max"),
        ("half", "float", (16, 8), "+, :"), ("int", "int", (8, 4), "min, :"),
        ("float", "float", (4, 8, 16), "+, :, :"), ("float", "half", (4, 8, 16), ":, max, :"),
        ("int", "int", (4, 8, 16), ":, :, min"),
        ("float", "float", (4, 8, 16), "+, +, :"), ("float", "float", (4, 8, 16), ":, max, +"),
        ("half", "half", (4, 8, 2), "+, :, max"),
        ("unsigned short", "int", (4, 8, 16), "max, max, max"),
    ]  # fmt: skip
    for type_, acc, shape, entries in shapes:
        how = entries.split(", ")
        kept = [axis for axis, each in enumerate(how) if each == ":"]
        defines: dict[str, object] = {f"S{axis}": extent for axis, extent in enumerate(shape)}
        if kept:
            views = [", ".join(":" if other == axis else "newaxis" for other in kept) for axis in kept]
            strides = [int(np.prod([shape[later] for later in kept[place + 1 :]])) for place in range(len(kept))]
            terms = [f"r{axis}[{view}] * {stride}" for axis, view, stride in zip(kept, views, strides, strict=True)]
            defines |= {"OUT0": True, "OUT": ", ".join(f"S{axis}" for axis in kept), "INDEX": " + ".join(terms)}

        tolerance = 4e-3 if "half" in (type_, acc) else 1e-5

        @kernel(f"reduce {type_} to {acc}, {len(shape)}: {entries}", "reduction", (1,), tolerance, TYPE=type_, ACC=acc,
                RANK=len(shape), RED=entries, **defines)  # fmt: skip
        def _(rng: Generator, type_: str = type_, acc: str = acc, shape: tuple[int, ...] = shape, how: list[str] = how) -> Made:
            dtype = np.dtype(_DTYPES[type_])
            x = normal(rng, *shape, dtype=dtype) if dtype.kind == "f" else rng.integers(0, 100, shape).astype(dtype)
            value = x.astype(F64)
            for each in how:  # an axis is removed, or goes behind the others
                value = np.moveaxis(value, 0, -1) if each == ":" else _FOLDS[each].reduce(value, 0)
            strides = [each // dtype.itemsize for each in x.strides]
            return [x, np.zeros(value.shape or 1, _DTYPES.get(acc, I64)), *strides, *[0] * (3 - len(shape))], {1: value}


_add_reductions()

for _how in range(4):

    @kernel(f"atomic sums {_how}", "atomic_sums", (3, 2), 1e-4, HOW=_how, TM=16, TN=32, SHAPE="32")
    def _(rng: Generator, how: int = _how) -> Made:
        x = normal(rng, 40, 50)
        value = [x.sum(1), x.sum(1), x.sum(), x.sum(0)][how]
        return [np.ones(value.shape or 1, F32), x, 40, 50], {0: 1 + value.astype(F64)}


def padded_variance(x: np.ndarray, tile: int) -> np.ndarray:
    """Return the variance of each row, to which lanes past the end add the square of the mean."""
    missing = -x.shape[1] % tile
    wide = x.astype(F64)
    return wide.var(1) + missing * wide.mean(1) ** 2 / x.shape[1]


@kernel("batch norm training", "batch_norm", (5,), 1e-5, "batchnorm_forward", TM=32, TRAINING=True)
def _(rng: Generator) -> Made:
    x, g, b = normal(rng, 5, 75), normal(rng, 5), normal(rng, 5)
    mean, variance = x.astype(F64).mean(1), padded_variance(x, 32)
    y = (x - mean[:, None]) / np.sqrt(variance[:, None] + 1e-5) * g[:, None] + b[:, None]
    return [np.zeros((5, 75), F32), np.zeros(5, F32), np.zeros(5, F32), x, g, b, 75, 1e-5], {0: y, 1: mean, 2: variance}


@kernel("batch norm inference", "batch_norm", (5,), 1e-5, "batchnorm_forward", TM=32)
def _(rng: Generator) -> Made:
    x, g, b, mean, variance = normal(rng, 5, 75), normal(rng, 5), normal(rng, 5), normal(rng, 5), rng.random(5).astype(F32)
    y = (x.astype(F64) - mean[:, None]) / np.sqrt(variance[:, None] + 1e-5) * g[:, None] + b[:, None]
    return [np.zeros((5, 75), F32), mean, variance, x, g, b, 75, 1e-5], {0: y}


@kernel("batch norm backward", "batch_norm", (5,), 1e-4, "batchnorm_backward", TM=32)
def _(rng: Generator) -> Made:
    x, dy, g = normal(rng, 5, 75), normal(rng, 5, 75), normal(rng, 5)
    mean, variance = x.mean(1), x.var(1)
    rstd = 1 / np.sqrt(variance.astype(F64) + 1e-5)
    xhat = (x - mean[:, None]) * rstd[:, None]
    dg, db = (dy * xhat).sum(1), dy.sum(1)
    dx = (g * rstd)[:, None] * (dy - (xhat * dg[:, None] + db[:, None]) / 75)
    zeros = [np.zeros((5, 75), F32), np.zeros(5, F32), np.zeros(5, F32)]
    return [*zeros, dy, x, g, mean, variance, 75, 1e-5], {0: dx, 1: dg, 2: db}


for _type, _dtype in TYPES:
    _tolerance = 4e-3 if _type == "half" else 1e-5

    @kernel(f"cross-entropy {_type}", "cross_entropy", (6,), _tolerance, "forward", TYPE=_type, TILE=64, N_COLS_MULT=1)
    def _(rng: Generator, dtype: Any = _dtype) -> Made:
        x, at = normal(rng, 6, 50, dtype=dtype), rng.integers(0, 50, 6)
        wide = x.astype(F64)
        value = np.log(np.exp(wide).sum(1, keepdims=True)) - wide
        return [x, np.zeros_like(x), at, np.zeros(6, dtype), 50], {1: value, 3: value[np.arange(6), at]}

    @kernel(f"cross-entropy backward {_type}", "cross_entropy", (6,), _tolerance, "backward", TYPE=_type, TILE=64)
    def _(rng: Generator, dtype: Any = _dtype) -> Made:
        x, at, d = rng.random((6, 50)).astype(dtype), rng.integers(0, 50, 6), normal(rng, 6, dtype=dtype)
        value = (np.exp(-x.astype(F64)) - (np.arange(50) == at[:, None])) * d[:, None]
        return [x, at, d, 50], {0: value}

    @kernel(f"layer norm {_type}", "layer_norm", (6,), _tolerance, "forward", TYPE=_type, TILE=64)
    def _(rng: Generator, dtype: Any = _dtype) -> Made:
        x, w, b = normal(rng, 6, 52, dtype=dtype), normal(rng, 50), normal(rng, 50)
        wide = x[:, :50].astype(F64)
        mean, rstd = wide.mean(1), 1 / np.sqrt(wide.var(1) + 1e-5)
        y = np.full((6, 52), 7.0)
        y[:, :50] = (wide - mean[:, None]) * rstd[:, None] * w + b
        return [x, np.full((6, 52), 7, dtype), w, b, np.zeros(6, F32), np.zeros(6, F32), 52, 50, 1e-5], {1: y, 4: mean, 5: rstd}


@kernel("layer norm backward", "layer_norm", (6,), 1e-4, "backward", TYPE="float", TILE=64)
def _(rng: Generator) -> Made:
    x, dy, w = normal(rng, 6, 50), normal(rng, 6, 50), normal(rng, 50)
    mean, rstd = x.mean(1), 1 / np.sqrt(x.var(1) + F32(1e-5))
    xhat = (x.astype(F64) - mean[:, None]) * rstd[:, None]
    wdy = w * dy
    dx = (wdy - xhat * (xhat * wdy).mean(1, keepdims=True) - wdy.mean(1, keepdims=True)) * rstd[:, None]
    arguments = [x, dy, np.zeros((6, 50), F32), w, np.zeros(50, F32), mean, rstd, np.zeros(1, I32), 50, 50]
    return arguments, {2: dx, 4: (dy * xhat).sum(0)}

"""Sums, extremes, means and what is made of them, along any axes."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..workload import Family, Kind, extents, flags, integers, normal, ones, pixels, positions, zeros

family = Family("reductions")
Axes = int | tuple[int, ...] | None
SHAPES: tuple[tuple[tuple[int, ...], Axes], ...] = (
    ((4096, 1000), 1), ((4096, 1000), 0), ((1000, 1000), None), ((64, 256, 256), (1, 2)), ((64, 256, 64), 1),
    ((100_000, 10), 1), ((100_000, 3), 1), ((10, 100_000), 0), ((512, 512, 16), (0, 1)), ((1_000_000,), None),
)  # fmt: skip
TORCH_NAMES = {"max": "amax", "sum": "sum", "mean": "mean"}


def along(axis: Axes) -> str:
    """Name the axes of a reduction."""
    return "all axes" if axis is None else f"axis {axis}"


def torch_reduction(function: str, axis: Axes) -> Any:
    """Return a reduction of PyTorch, which takes no None for its axes everywhere."""
    name = TORCH_NAMES.get(function, function)
    if axis is None:
        return lambda torch, x: getattr(torch, name)(x)
    return lambda torch, x: getattr(torch, name)(x, dim=axis)


def add_reduction(function: str, shape: tuple[int, ...], axis: Axes, dtype: str, kind: Kind, others: str = "") -> None:
    """Add a reduction that all libraries have, with the dtype that it has of itself. `others` is NumPy's and JAX's name."""
    name = others or function
    family.add(
        f"{function} {dtype} {extents(shape)} {along(axis)}", [kind],
        lambda jn, x: getattr(jn, function)(x, axis=axis),
        numpy=lambda x: getattr(np, name)(x, axis=axis),
        torch=torch_reduction(function, axis),
        jax=lambda jax, x: getattr(jax.numpy, name)(x, axis=axis),
    )  # fmt: skip


def add_integer_sum(shape: tuple[int, ...], axis: Axes, dtype: str, kind: Kind) -> None:
    """Add a sum of integers as int64."""
    family.add(
        f"sum {dtype} {extents(shape)} {along(axis)}", [kind],
        lambda jn, x: jn.sum(x, axis=axis, dtype=jn.int64),
        numpy=lambda x: np.sum(x, axis=axis, dtype=np.int64),
        torch=torch_reduction("sum", axis),
        jax=lambda jax, x: jax.numpy.sum(x, axis=axis, dtype="int64"),
    )  # fmt: skip


for extent, axes in SHAPES:
    add_reduction("sum", extent, axes, "float32", normal(*extent))
    add_reduction("max", extent, axes, "float32", normal(*extent))
add_reduction("mean", (64, 256, 256), (1, 2), "float32", normal(64, 256, 256))
add_reduction("max", (100, 200, 50), 1, "float32", normal(100, 200, 50))
add_reduction("max", (64, 128, 256), 1, "float32", normal(64, 128, 256))
for extent in ((200_000, 5), (50_000, 20), (64, 32_000)):
    add_reduction("max", extent, 1, "float32", normal(*extent))
for axes in (0, 1, None):
    add_reduction("max", (2000, 1000), axes, "uint8", pixels(2000, 1000))
    add_reduction("max", (2000, 500), axes, "int64", integers(-9, 9, 2000, 500, dtype="int64"))
    add_reduction("max", (2000, 500), axes, "float64", normal(2000, 500, dtype="float64"))
    add_reduction("max", (2000, 1000), axes, "int16", integers(-9, 9, 2000, 1000, dtype="int16"))
    add_integer_sum((2000, 1000), axes, "uint8", pixels(2000, 1000))
    add_integer_sum((2000, 500), axes, "int64", integers(-9, 9, 2000, 500, dtype="int64"))
    add_reduction("sum", (2000, 500), axes, "float64", normal(2000, 500, dtype="float64"))
    add_integer_sum((2000, 1000), axes, "int16", integers(-9, 9, 2000, 1000, dtype="int16"))
add_reduction("sum", (1_000_000,), None, "complex64", normal(1_000_000, dtype="complex64"))
add_reduction("mean", (10_000, 10, 16), 1, "float32", normal(10_000, 10, 16))
add_reduction("mean", (16, 32, 56, 56), (0, 2, 3), "float32", normal(16, 32, 56, 56))
add_reduction("mean", (8, 224, 224, 3), (0, 1, 2), "float32", normal(8, 224, 224, 3))
family.add(
    "mean bfloat16 16x200x256 axis 1", [normal(16, 200, 256, dtype="bfloat16")],
    lambda jn, x: jn.mean(x, axis=1),
    torch=lambda torch, x: x.mean(1),
    jax=lambda jax, x: x.mean(1),
)  # fmt: skip

# Positions of extremes.
add_reduction("argmax", (2000, 1000), 1, "float32", normal(2000, 1000))
add_reduction("argmax", (2000, 1000), 0, "float32", normal(2000, 1000))
add_reduction("argmax", (50_000, 10), 1, "float32", normal(50_000, 10))
for columns in (3, 5, 8, 10, 12, 16, 20, 32, 64):
    extent = (1_000_000 // columns, columns)
    add_reduction("argmax", extent, 1, "float32", normal(*extent))
    if columns in (5, 10, 20):
        add_reduction("argmax", extent, 1, "int32", integers(0, 100, *extent))
        add_reduction("argmax", extent, 1, "uint8", pixels(*extent))
add_reduction("argmin", (1_000_000,), None, "float64", normal(1_000_000, dtype="float64"))

# Truth values and counts.
add_reduction("any", (2000, 1000), 1, "bool", zeros(2000, 1000, dtype="bool"))
family.add(
    "count of true of 4000000", [flags(4_000_000)],
    lambda jn, x: jn.count_nonzero(x),
    numpy=np.count_nonzero,
    torch=lambda torch, x: torch.count_nonzero(x),
    jax=lambda jax, x: jax.numpy.count_nonzero(x),
)  # fmt: skip
family.add_program("any of x > 3, rows of 50", [normal(20_000, 50)], lambda lib, x: lib.any(x > 3, axis=1))
family.add_program("any NaN of 1000000", [normal(1_000_000)], lambda lib, x: lib.any(x != x, axis=0))
family.add_program(
    "count of x > 0, rows of 50", [normal(20_000, 50)], lambda lib, x: lib.sum(lib.cast(x > 0, "int32"), axis=1)
)
family.add(
    "count of x > 127 uint8, rows of 1000", [pixels(1000, 1000)],
    lambda jn, x: jn.sum(jn.cast(x > 127, jn.int32), axis=1),
    numpy=lambda x: (x > 127).sum(1),
    torch=lambda torch, x: (x > 127).sum(1),
    jax=lambda jax, x: (x > 127).sum(1),
)  # fmt: skip
family.add_program(
    "count of eight truth values as uint8", [flags(100_000, 8)],
    lambda lib, x: lib.cast(lib.sum(lib.cast(x, "int32"), axis=1), "uint8"),
)  # fmt: skip

# Products, norms, moments.
add_reduction("prod", (1_000_000,), None, "float64", ones(1_000_000, dtype="float64"))
family.add(
    "dot product of 1000000", [normal(1_000_000), normal(1_000_000)],
    lambda jn, x, y: jn.sum(x * y),
    numpy=np.dot,
    torch=lambda torch, x, y: torch.dot(x, y),
    jax=lambda jax, x, y: jax.numpy.dot(x, y),
    tolerance=1e-3,
)  # fmt: skip
family.add_program(
    "trace of a product 500x500", [normal(500, 500), normal(500, 500)],
    lambda lib, x, y: lib.sum(x * lib.transpose(y)), tolerance=1e-3,
)  # fmt: skip
family.add(
    "2-norms of rows of 1000", [normal(2000, 1000)],
    lambda jn, x: jn.reduce_l2(x, axis=1),
    numpy=lambda x: np.linalg.norm(x, axis=1),
    torch=lambda torch, x: torch.linalg.norm(x, dim=1),
    jax=lambda jax, x: jax.numpy.linalg.norm(x, axis=1),
)  # fmt: skip
family.add(
    "variances of rows of 1000", [normal(2000, 1000)],
    lambda jn, x: jn.var(x, axis=1),
    numpy=lambda x: np.var(x, axis=1),
    torch=lambda torch, x: torch.var(x, dim=1, correction=0),
    jax=lambda jax, x: jax.numpy.var(x, axis=1),
)  # fmt: skip
family.add(
    "standard deviations of columns of 2000", [normal(2000, 1000)],
    lambda jn, x: jn.stdev(x, axis=0),
    numpy=lambda x: np.std(x, axis=0),
    torch=lambda torch, x: torch.std(x, dim=0, correction=0),
    jax=lambda jax, x: jax.numpy.std(x, axis=0),
)  # fmt: skip
family.add(
    "mean and variance 16x64x56x56 axis (0, 2, 3)", [normal(16, 64, 56, 56)],
    lambda jn, x: (jn.mean(x, axis=(0, 2, 3)), jn.var(x, axis=(0, 2, 3))),
    numpy=lambda x: (x.mean((0, 2, 3)), x.var((0, 2, 3))),
    torch=lambda torch, x: (x.mean((0, 2, 3)), x.var((0, 2, 3), unbiased=False)),
    jax=lambda jax, x: (x.mean((0, 2, 3)), x.var((0, 2, 3))),
    tolerance=1e-3,
)  # fmt: skip


def variances(lib: Any, x: Any) -> Any:
    """Return variances of rows, by their deviations from the mean."""
    deviations = x - lib.mean(x, axis=1, keepdims=True)
    return lib.mean(deviations * deviations, axis=1)


family.add_program("variances of rows of 200 by deviations float64", [normal(3000, 200, dtype="float64")], variances)
family.add_program(
    "standard deviations of 32 columns by squares", [normal(20_000, 32)],
    lambda lib, x: lib.sqrt(lib.mean(x * x, axis=0) - lib.mean(x, axis=0) * lib.mean(x, axis=0)),
)  # fmt: skip
family.add_program(
    "weighted means of rows of 200", [normal(3000, 200), normal(200)],
    lambda lib, x, weights: lib.sum(x * weights, axis=1) / lib.sum(weights), tolerance=1e-3,
)  # fmt: skip
family.add_program("range of 1000000", [normal(1_000_000)], lambda lib, x: lib.max(x) - lib.min(x))
family.add_program(
    "mean and root mean square of 1000000", [normal(1_000_000)], lambda lib, x: lib.mean(x) + lib.sqrt(lib.mean(x * x))
)
family.add_program(
    "sums of 100 blocks of 20x20", [normal(100, 20, 20)], lambda lib, x: lib.sum(lib.sum(x, axis=2), axis=1)
)


def add_logsumexp(shape: tuple[int, int], axis: int) -> None:
    """Add a logarithm of sums of exponentials."""
    family.add(
        f"logsumexp float32 {extents(shape)} axis {axis}", [normal(*shape)],
        lambda jn, x: jn.logsumexp(x, axis=axis),
        torch=lambda torch, x: torch.logsumexp(x, dim=axis),
        jax=lambda jax, x: jax.nn.logsumexp(x, axis=axis),
    )  # fmt: skip


add_logsumexp((2000, 1000), 1)
add_logsumexp((2000, 1000), 0)
for columns in (5, 10, 20):
    add_logsumexp((1_000_000 // columns, columns), 1)
family.add_program(
    "sums of exp below the maximum 64x32000", [normal(64, 32_000)],
    lambda lib, x: lib.sum(lib.exp(x - lib.max(x, axis=1, keepdims=True)), axis=1),
)  # fmt: skip

# Losses and scores.
family.add(
    "mean squared error", [normal(1_000_000), normal(1_000_000)],
    lambda jn, x, y: jn.mean((x - y) ** 2),
    numpy=lambda x, y: np.mean((x - y) ** 2),
    torch=lambda torch, x, y: torch.nn.functional.mse_loss(x, y),
    jax=lambda jax, x, y: jax.numpy.mean((x - y) ** 2),
)  # fmt: skip
family.add_program(
    "accuracy of 5000 rows of 100", [normal(5000, 100), positions(100, 5000)],
    lambda lib, scores, labels: lib.mean(lib.cast(lib.argmax(scores, axis=1) == labels, "float32")),
)  # fmt: skip

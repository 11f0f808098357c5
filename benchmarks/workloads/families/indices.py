"""Positions: gathers, scatters, counts, scans, sorts, searches."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..workload import Family, ascending, flags, in_order, integers, normal, pixels, positions, uniform, zeros

family = Family("indices")


# Gathers.
def add_gather(name: str, kinds: list[Any]) -> None:
    """Add rows or elements at positions along the first axis."""
    family.add(
        name, kinds,
        lambda jn, x, where: jn.gather(x, where, axis=0),
        numpy=lambda x, where: x[where],
        torch=lambda torch, x, where: x[where],
        jax=lambda jax, x, where: x[where],
    )  # fmt: skip


def add_take_along(name: str, kinds: list[Any]) -> None:
    """Add elements at positions in each row."""
    family.add(
        name, kinds,
        lambda jn, x, where: jn.take_along_axis(x, where, axis=1),
        numpy=lambda x, where: np.take_along_axis(x, where, 1),
        torch=lambda torch, x, where: torch.gather(x, 1, where),
        jax=lambda jax, x, where: jax.numpy.take_along_axis(x, where, 1),
    )  # fmt: skip


def add_table(name: str, kinds: list[Any]) -> None:
    """Add a table of 256 bytes at positions that are bytes."""
    family.add(
        name, kinds,
        lambda jn, table, x: jn.gather(table, x),
        numpy=lambda table, x: table[x],
        torch=lambda torch, table, x: table[x.int()],
        jax=lambda jax, table, x: table[x],
    )  # fmt: skip


for dtype, drawn in (("float32", normal), ("uint8", pixels)):
    add_gather(f"gather 20000 rows of 64 {dtype}", [drawn(30_000, 64), positions(30_000, 20_000)])
    add_gather(f"gather 500000 elements {dtype}", [drawn(100_000), integers(0, 100_000, 500_000)])
    add_take_along(f"take 100 of each row of 1000 {dtype}", [drawn(2000, 1000), positions(1000, 2000, 100)])
add_take_along("take 100 of each row of 500 float32", [normal(1000, 500), positions(500, 1000, 100)])
add_table("table of 256 bytes, 2000000 positions", [pixels(256), pixels(2_000_000)])
add_table("table of 256 bytes, image of 720x1280", [pixels(256), pixels(720, 1280)])
add_gather("embedding of 8x512 in 50000 rows of 256", [normal(50_000, 256), positions(50_000, 8, 512)])
family.add_program(
    "embedding of 5000 in 50 rows of 64", [positions(50, 5000), normal(50, 64)], lambda lib, where, x: lib.gather(x, where)
)
family.add(
    "embedding bag, means of 20 rows of 64", [normal(20_000, 64), positions(20_000, 512, 20)],
    lambda jn, table, where: jn.mean(jn.gather(table, where, axis=0), axis=1),
    torch=lambda torch, table, where: torch.nn.functional.embedding_bag(where, table, mode="mean"),
    jax=lambda jax, table, where: jax.numpy.mean(table[where], 1),
)  # fmt: skip
family.add(
    "gather 200000 elements by pairs", [normal(1000, 1000), positions(1000, 200_000, 2)],
    lambda jn, x, where: jn.gather_nd(x, where),
    numpy=lambda x, where: x[where[:, 0], where[:, 1]],
    torch=lambda torch, x, where: x[where[:, 0], where[:, 1]],
    jax=lambda jax, x, where: x[where[:, 0], where[:, 1]],
)  # fmt: skip


def interpolated(lib: Any, table: Any, x: Any) -> Any:
    """Interpolate between neighbours in a table."""
    where = lib.cast(lib.floor(x), "int64")
    share = x - lib.cast(where, "float32")
    return lib.gather(table, where) * (1 - share) + lib.gather(table, where + 1) * share


family.add_program("linear interpolation in a table of 1000", [normal(1000), uniform(500_000, high=998.0)], interpolated)

# Scatters and counts.
family.add(
    "scatter add 500000 to 1000", [normal(1000), normal(500_000), positions(1000, 500_000)],
    lambda jn, x, updates, where: jn.scatter_add(x, updates, where, axis=0),
    torch=lambda torch, x, updates, where: x.index_add(0, where, updates),
    jax=lambda jax, x, updates, where: x.at[where].add(updates),
)  # fmt: skip
family.add(
    "scatter add 20000 rows of 64 to 1000", [normal(1000, 64), normal(20_000, 64), positions(1000, 20_000, 1)],
    lambda jn, x, updates, where: jn.scatter_nd_add(x, updates, where),
    torch=lambda torch, x, updates, where: x.index_add(0, where[:, 0], updates),
    jax=lambda jax, x, updates, where: x.at[where[:, 0]].add(updates),
)  # fmt: skip
family.add(
    "sums of 1000 segments of 100000 rows of 16", [normal(100_000, 16), in_order(positions(1000, 100_000))],
    lambda jn, x, where, start: jn.scatter_nd_add(start, x, jn.unsqueeze(where, 1)),
    torch=lambda torch, x, where, start: start.index_add(0, where, x),
    jax=lambda jax, x, where, _start: jax.ops.segment_sum(x, where, 1000),
    constants=[zeros(1000, 16)],
)  # fmt: skip
family.add(
    "bincount int64", [positions(256, 1_000_000)],
    lambda jn, x: jn.bincount(x, length=256),
    numpy=lambda x: np.bincount(x, minlength=256),
    torch=lambda torch, x: torch.bincount(x, minlength=256),
    jax=lambda jax, x: jax.numpy.bincount(x, length=256),
)  # fmt: skip
family.add(
    "bincount uint8", [pixels(1_000_000)],
    lambda jn, x: jn.bincount(x, minlength=256),
    numpy=lambda x: np.bincount(x, minlength=256),
    torch=lambda torch, x: torch.bincount(x, minlength=256),
    jax=lambda jax, x: jax.numpy.bincount(x, length=256),
)  # fmt: skip
family.add(
    "one-hot 10000x100", [positions(100, 10_000)],
    lambda jn, x: jn.one_hot(x, 100, dtype=jn.float32),
    numpy=lambda x: np.eye(100, dtype=np.float32)[x],
    torch=lambda torch, x: torch.nn.functional.one_hot(x, 100).float(),
    jax=lambda jax, x: jax.nn.one_hot(x, 100, dtype="float32"),
)  # fmt: skip
family.add(
    "one-hot 4096x1000", [positions(1000, 4096)],
    lambda jn, x: jn.cast(jn.one_hot(x, 1000), jn.float32),
    torch=lambda torch, x: torch.nn.functional.one_hot(x, 1000).to(torch.float32),
    jax=lambda jax, x: jax.nn.one_hot(x, 1000, dtype="float32"),
)  # fmt: skip
family.add(
    "positions of true of 1000000", [flags(1_000_000)],
    lambda jn, x: jn.nonzero(x),
    numpy=lambda x: np.stack(np.nonzero(x)),
    torch=lambda torch, x: torch.nonzero(x).T,
)  # fmt: skip
family.add(
    "compress 1000000", [normal(1_000_000), flags(1_000_000)],
    lambda jn, x, kept: jn.compress(x, kept, axis=0),
    numpy=lambda x, kept: x[kept],
    torch=lambda torch, x, kept: x[kept],
)  # fmt: skip

# Scans.
family.add_program("cumsum float32 2000x1000 axis 1", [normal(2000, 1000)], lambda lib, x: lib.cumsum(x, axis=1))
family.add_program("cumsum float32 2000x1000 axis 0", [normal(2000, 1000)], lambda lib, x: lib.cumsum(x, axis=0))
family.add_program("cumsum int64 1000000", [integers(0, 9, 1_000_000, dtype="int64")], lambda lib, x: lib.cumsum(x, axis=0))
family.add_program(
    "cumsum float64 1000x500 axis 1", [normal(1000, 500, dtype="float64")], lambda lib, x: lib.cumsum(x, axis=1)
)
family.add(
    "cumprod float64 1000x500 axis 1", [normal(1000, 500, dtype="float64")],
    lambda jn, x: jn.cumprod(x, axis=1),
    numpy=lambda x: np.cumprod(x, 1),
    torch=lambda torch, x: torch.cumprod(x, 1),
    jax=lambda jax, x: jax.numpy.cumprod(x, 1),
)  # fmt: skip


def add_cummax(rows: int) -> None:
    """Add running maxima of rows."""
    family.add(
        f"cummax float32 {rows}x1000 axis 1", [normal(rows, 1000)],
        lambda jn, x: jn.cummax(x, axis=1),
        numpy=lambda x: np.maximum.accumulate(x, axis=1),
        torch=lambda torch, x: torch.cummax(x, 1)[0],
        jax=lambda jax, x: jax.lax.cummax(x, axis=1),
    )  # fmt: skip


add_cummax(2000)
add_cummax(1000)


def running(width: int, divisor: float | None = None) -> Any:
    """Return a program of sums of so many neighbours by differences of cumulative sums."""

    def program(lib: Any, x: Any) -> Any:
        sums = lib.cumsum(x, axis=1)
        found = sums[:, width:] - sums[:, :-width]
        return found if divisor is None else found / divisor

    return program


family.add_program("running means of 20 by cumsum", [normal(100, 10_000)], running(20, 20.0), tolerance=1e-2)
family.add_program("running sums of 16 int32 by cumsum", [integers(0, 9, 100, 10_000)], running(16))


# Sorts and searches. JAX sorts several times slower than NumPy, and is left out of the long ones.
def add_sort(name: str, kind: Any, axis: int = -1, with_jax: bool = False) -> None:
    """Add a sort along an axis."""
    family.add(
        name, [kind],
        lambda jn, x: jn.sort(x, axis=axis),
        numpy=lambda x: np.sort(x, axis=axis),
        torch=lambda torch, x: torch.sort(x, axis)[0],
        jax=(lambda jax, x: jax.numpy.sort(x, axis=axis)) if with_jax else None,
    )  # fmt: skip


add_sort("sort float32 1000x1000 axis 1", normal(1000, 1000))
add_sort("sort float32 10000x16 axis 1", normal(10_000, 16))
add_sort("sort float32 1000000", normal(1_000_000))
add_sort("sort int32 100000", integers(0, 10**9, 100_000))
add_sort("sort int64 100000 of 1000 values", integers(0, 1000, 100_000, dtype="int64"), with_jax=True)
family.add(
    "argsort float32 100000", [normal(100_000)],
    lambda jn, x: jn.argsort(x),
    numpy=lambda x: np.argsort(x, kind="stable"),
    torch=lambda torch, x: torch.argsort(x, stable=True),
    jax=lambda jax, x: jax.numpy.argsort(x),
)  # fmt: skip
family.add(
    "argsort float32 100x1000 axis 1", [normal(100, 1000)],
    lambda jn, x: jn.argsort(x, axis=1),
    numpy=lambda x: np.argsort(x, 1),
    torch=lambda torch, x: torch.argsort(x, 1),
    jax=lambda jax, x: jax.numpy.argsort(x, 1),
    differing=1e-3,
)  # fmt: skip
family.add(
    "top 10 values of 1000x1000", [normal(1000, 1000)],
    lambda jn, x: jn.top_k(x, 10)[0],
    torch=lambda torch, x: torch.topk(x, 10)[0],
    jax=lambda jax, x: jax.lax.top_k(x, 10)[0],
)  # fmt: skip


def add_top(count: int, shape: tuple[int, int]) -> None:
    """Add the largest values of each row and their positions, of which those of equal values may differ."""
    family.add(
        f"top {count} of {shape[0]}x{shape[1]}", [normal(*shape)],
        lambda jn, x: jn.top_k(x, count),
        torch=lambda torch, x: torch.topk(x, count),
        jax=lambda jax, x: jax.lax.top_k(x, count),
        differing=1e-3,
    )  # fmt: skip


add_top(64, (256, 5000))
add_top(8, (1024, 128))
family.add_program("five largest of rows of 64 by a sort", [normal(2000, 64)], lambda lib, x: lib.sort(x, axis=1)[:, -5:])
family.add_program("quantiles of 64 columns by a sort", [normal(1000, 64)], lambda lib, x: lib.sort(x, axis=0)[100::200])
family.add_program("medians of rows of nine", [normal(100_000, 9)], lambda lib, x: lib.sort(x, axis=1)[:, 4])
family.add(
    "searchsorted 100000 in 10000", [ascending(10_000), normal(100_000)],
    lambda jn, x, values: jn.searchsorted(x, values),
    numpy=np.searchsorted,
    torch=lambda torch, x, values: torch.searchsorted(x, values),
    jax=lambda jax, x, values: jax.numpy.searchsorted(x, values),
)  # fmt: skip

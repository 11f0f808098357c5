"""What moves elements and computes little: permutes, pads, slices, joins, repeats."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ..workload import Family, Kind, extents, integers, normal, pixels

family = Family("moving")


def shorts(*shape: int) -> Kind:
    """Draw int16."""
    return integers(0, 99, *shape, dtype="int16")


def doubles(*shape: int) -> Kind:
    """Draw float64."""
    return normal(*shape, dtype="float64")


MAKERS: dict[str, Callable[..., Kind]] = {"float32": normal, "uint8": pixels, "float64": doubles, "int16": shorts}
PERMUTES = (
    ((1000, 1000), (1, 0)), ((2048, 2048), (1, 0)), ((8, 224, 224, 3), (0, 3, 1, 2)), ((8, 3, 224, 224), (0, 2, 3, 1)),
    ((32, 128, 12, 64), (0, 2, 1, 3)), ((64, 64, 64), (2, 1, 0)), ((64, 64, 64), (1, 0, 2)), ((16, 64, 56, 56), (0, 2, 3, 1)),
)  # fmt: skip
IN_ALL_DTYPES = ((1000, 1000), (64, 64, 64))


def add_permute(shape: tuple[int, ...], axes: tuple[int, ...], dtype: str) -> None:
    """Add a permute, whose result is a copy everywhere."""
    order = "".join(map(str, axes))
    family.add_program(
        f"permute {dtype} {extents(shape)} to {order}", [MAKERS[dtype](*shape)], lambda lib, x: lib.permute(x, axes)
    )


for whole, permuted in PERMUTES:
    for each in MAKERS:
        if each in ("float32", "uint8") or whole in IN_ALL_DTYPES:
            add_permute(whole, permuted, each)


def add_moves(dtype: str) -> None:
    """Add joins, pads, slices and repeats of one dtype."""
    kind = MAKERS[dtype]
    family.add_program(
        f"concat columns {dtype}", [kind(1000, 300), kind(1000, 500)], lambda lib, x, y: lib.concat([x, y], axis=1)
    )
    family.add_program(
        f"stack of three on the last axis {dtype}", [kind(500_000)] * 3, lambda lib, *values: lib.stack(values, axis=-1)
    )
    family.add(
        f"pad {dtype}", [kind(1000, 1000)],
        lambda jn, x: jn.pad(x, ((1, 1), (3, 3))),
        numpy=lambda x: np.pad(x, ((1, 1), (3, 3))),
        torch=lambda torch, x: torch.nn.functional.pad(x, (3, 3, 1, 1)),
        jax=lambda jax, x: jax.numpy.pad(x, ((1, 1), (3, 3))),
    )  # fmt: skip
    family.add_program(f"flip rows {dtype}", [kind(1000, 1000)], lambda lib, x: lib.flip(x, axis=1))
    family.add(
        f"every second of both axes {dtype}", [kind(2000, 2000)],
        lambda jn, x: x[::2, ::2],
        numpy=lambda x: np.ascontiguousarray(x[::2, ::2]),
        torch=lambda torch, x: x[::2, ::2].contiguous(),
        jax=lambda jax, x: x[::2, ::2],
    )  # fmt: skip
    family.add(
        f"three columns apart {dtype}", [kind(500_000, 3)],
        lambda jn, x: (x[:, 0], x[:, 1], x[:, 2]),
        numpy=lambda x: [np.ascontiguousarray(x[:, column]) for column in range(3)],
        torch=lambda torch, x: [x[:, column].contiguous() for column in range(3)],
        jax=lambda jax, x: (x[:, 0], x[:, 1], x[:, 2]),
    )  # fmt: skip
    family.add(
        f"repeat elements 2x2 {dtype}", [kind(500, 500)],
        lambda jn, x: jn.repeat_interleave(jn.repeat_interleave(x, 2, 0), 2, 1),
        numpy=lambda x: x.repeat(2, 0).repeat(2, 1),
        torch=lambda torch, x: x.repeat_interleave(2, 0).repeat_interleave(2, 1),
        jax=lambda jax, x: jax.numpy.repeat(jax.numpy.repeat(x, 2, 0), 2, 1),
    )  # fmt: skip
    family.add_program(f"roll rows {dtype}", [kind(1000, 1000)], lambda lib, x: lib.roll(x, 5, axis=1))
    family.add(
        f"tile 3x3 {dtype}", [kind(300, 300)],
        lambda jn, x: jn.tile(x, (3, 3)),
        numpy=lambda x: np.tile(x, (3, 3)),
        torch=lambda torch, x: x.repeat(3, 3),
        jax=lambda jax, x: jax.numpy.tile(x, (3, 3)),
    )  # fmt: skip


add_moves("float32")
add_moves("uint8")

# Views that are computed with.
family.add_program("x.T + y 1000x1000", [normal(1000, 1000), normal(1000, 1000)], lambda lib, x, y: lib.transpose(x) + y)
family.add_program("x + x.T 1000x1000", [normal(1000, 1000)], lambda lib, x: x + lib.transpose(x))
family.add_program("mean of x and x.T float64", [doubles(800, 800)], lambda lib, x: (x + lib.transpose(x)) * 0.5)
family.add_operators("neighbours in rows of 513", [normal(2000, 513)], lambda x: x[:, 1:] + x[:, :-1])
family.add_operators("differences float32", [normal(1_000_000)], lambda x: x[1:] - x[:-1])
family.add_operators("differences int64", [integers(0, 99, 1_000_000, dtype="int64")], lambda x: x[1:] - x[:-1])
family.add_operators(
    "sum of four columns", [normal(250_000, 4)], lambda x: x[:, 0] + x[:, 1] * 2 + x[:, 2] * 3 + x[:, 3] * 4
)

# Joins and turns.
family.add_program(
    "concat columns of 10, 20 and 30", [normal(20_000, 10), normal(20_000, 20), normal(20_000, 30)],
    lambda lib, *values: lib.concat(values, axis=1),
)  # fmt: skip
family.add_program("interleave four", [normal(250_000)] * 4, lambda lib, *values: lib.stack(values, axis=1))
family.add_program(
    "flip both axes float32", [normal(1000, 1000)], lambda lib, x: lib.flip(lib.flip(x, axis=0), axis=1)
)
family.add_program("quarter turn uint8", [pixels(1000, 1000)], lambda lib, x: lib.flip(lib.transpose(x), axis=1))
family.add(
    "upper triangle 1000x1000", [normal(1000, 1000)],
    lambda jn, x: jn.triu(x),
    numpy=np.triu,
    torch=lambda torch, x: torch.triu(x),
    jax=lambda jax, x: jax.numpy.triu(x),
)  # fmt: skip


# Blocks of images and heads.
def add_blocks(
    name: str, shape: tuple[int, ...], split: tuple[int, ...], axes: tuple[int, ...], result: tuple[int, ...] | None
) -> None:
    """Add a permute between two reshapes."""

    def program(lib: Any, x: Any) -> Any:
        moved = lib.permute(lib.reshape(x, split), axes)
        return moved if result is None else lib.reshape(moved, result)

    family.add_program(name, [normal(*shape)], program)


add_blocks(
    "patches of 16x16", (8, 3, 224, 224), (8, 3, 14, 16, 14, 16), (0, 2, 4, 1, 3, 5), (8, 196, 768)
)
add_blocks(
    "pixel shuffle by 2", (4, 64, 64, 64), (4, 16, 2, 2, 64, 64), (0, 1, 4, 2, 5, 3), (4, 16, 128, 128)
)
add_blocks(
    "windows of 7x7", (8, 56, 56, 96), (8, 8, 7, 8, 7, 96), (0, 1, 3, 2, 4, 5), (512, 49, 96)
)
add_blocks("heads of query, key and value", (8, 128, 2304), (8, 128, 3, 12, 64), (2, 0, 3, 1, 4), None)

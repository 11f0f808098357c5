"""Bits, bytes of texts and sequences, and integers that are computed with step by step."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..formulas import total
from ..workload import Family, counting, integers, pixels

family = Family("bits and texts")


# Bits.
def xor_of_rows(x: Any) -> Any:
    """Return the exclusive or of each row, by halves."""
    width = 256
    while width > 1:
        width //= 2
        x = x[:, :width] ^ x[:, width : 2 * width]
    return x


family.add_program(
    "bytes to their bits", [pixels(100_000)], lambda lib, x, places: (lib.unsqueeze(x, 1) >> places) & 1,
    constants=[counting(8, dtype="uint8")],
)  # fmt: skip
family.add_program(
    "bytes to halves of four bits", [pixels(1000, 512)],
    lambda lib, x: lib.reshape(lib.stack([x & 15, x >> 4], axis=2), (1000, 1024)),
)  # fmt: skip
family.add_operators(
    "halves of four bits to bytes", [integers(0, 16, 1000, 1024, dtype="uint8")], lambda x: x[:, ::2] | (x[:, 1::2] << 4)
)
family.add_operators("exclusive or of rows of 256 int32", [integers(0, 2**31 - 1, 1000, 256)], xor_of_rows)
family.add_operators(
    "lowest two bits alike int32", [integers(0, 2**30, 1_000_000)], lambda x: ((x ^ (x >> 1)) & 1) == 0
)
family.add(
    "bits in which 512 and 512 rows of 8 int32 differ", [integers(0, 2**31 - 1, 512, 8)] * 2,
    lambda jn, x, y: jn.sum(jn.cast(jn.popcount(jn.unsqueeze(x, 1) ^ jn.unsqueeze(y, 0)), jn.int32), axis=2),
    numpy=lambda x, y: np.bitwise_count(x[:, None] ^ y[None]).sum(2, dtype=np.int32),
    jax=lambda jax, x, y: jax.numpy.sum(jax.lax.population_count(x[:, None] ^ y[None]), 2),
)  # fmt: skip


# Texts, and sequences of four letters.
LETTERS = 4


def words_of_eight(x: Any) -> Any:
    """Return the number of each eight neighbouring letters, two bits each."""
    count = x.shape[0] - 7
    return total(x[place : place + count] << (2 * place) for place in range(8))


family.add_program(
    "capital letters to small ones", [pixels(1_000_000)], lambda lib, x: lib.where((x >= 65) & (x <= 90), x + 32, x)
)
family.add_program("count of lines", [pixels(4_000_000)], lambda lib, x: lib.sum(lib.cast(x == 10, "int32")))
family.add_program(
    "counts of 16 bytes by comparison", [pixels(100_000)],
    lambda lib, x, values: lib.sum(lib.cast(lib.unsqueeze(x, 1) == values, "int32"), axis=0),
    constants=[counting(16, dtype="uint8")],
)  # fmt: skip
family.add_operators("words of eight letters int32", [integers(0, LETTERS, 500_007)], words_of_eight)
family.add_program(
    "share of two letters in 10000 rows of 100", [integers(0, LETTERS, 10_000, 100, dtype="uint8")],
    lambda lib, x: lib.mean(lib.cast((x == 1) | (x == 2), "float32"), axis=1),
)  # fmt: skip
family.add_program(
    "one-hot letters by comparison", [integers(0, LETTERS, 200_000, dtype="uint8")],
    lambda lib, x, letters: lib.cast(lib.unsqueeze(x, 1) == letters, "float32"),
    constants=[counting(LETTERS, dtype="uint8")],
)  # fmt: skip
family.add_program(
    "letters in which 300 and 300 rows of 64 differ", [integers(0, LETTERS, 300, 64, dtype="uint8")] * 2,
    lambda lib, x, y: lib.sum(lib.cast(lib.unsqueeze(x, 1) != lib.unsqueeze(y, 0), "int32"), axis=2),
)  # fmt: skip


# Integers, step by step.
def collatz(lib: Any, x: Any) -> Any:
    """Return the numbers after ten steps of halving or of 3 x + 1."""
    for _ in range(10):
        x = lib.where(x % 2 == 0, x // 2, 3 * x + 1)
    return x


def squared_modulo(x: Any) -> Any:
    """Return the 32nd powers modulo a prime."""
    for _ in range(5):
        x = (x * x) % 65_521
    return x


family.add_program("ten steps of 3 x + 1 int32", [integers(1, 10_000, 200_000)], collatz)
family.add_operators(
    "32nd powers modulo a prime int64", [integers(0, 65_521, 100_000, dtype="int64")], squared_modulo
)
family.add_operators(
    "days, hours and minutes of seconds int64", [integers(0, 10**9, 500_000, dtype="int64")],
    lambda x: (x // 86_400, x % 86_400 // 3600, x % 3600 // 60),
)  # fmt: skip

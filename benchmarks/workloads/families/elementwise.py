"""Functions of single elements: elementary functions, activations, arithmetic, bits, comparisons."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..workload import Family, flags, integers, normal, pixels, positive

family = Family("elementwise")
COUNTS = {"float32": 1_000_000, "float64": 500_000}
NAMES = {
    "exp": "exp", "sin": "sin", "cos": "cos", "tanh": "tanh", "expm1": "expm1", "atan": "arctan", "exp2": "exp2",
}  # fmt: skip
"""joinery's name → that of NumPy, PyTorch and JAX."""
NAMES_OF_POSITIVE = {"log": "log", "log2": "log2", "log10": "log10", "sqrt": "sqrt", "log1p": "log1p"}


def add_function(name: str, others: str, dtype: str, domain: Any) -> None:
    """Add a function that all libraries have."""
    family.add(
        f"{name} {dtype}", [domain(COUNTS[dtype], dtype=dtype)],
        lambda jn, x: getattr(jn, name)(x),
        numpy=getattr(np, others),
        torch=lambda torch, x: getattr(torch, others)(x),
        jax=lambda jax, x: getattr(jax.numpy, others)(x),
    )  # fmt: skip


def add_functions(dtype: str) -> None:
    """Add the elementary functions of one dtype."""
    count = COUNTS[dtype]
    for name, others in NAMES.items():
        add_function(name, others, dtype, normal)
    for name, others in NAMES_OF_POSITIVE.items():
        add_function(name, others, dtype, positive)
    family.add(
        f"cbrt {dtype}", [normal(count, dtype=dtype)],
        lambda jn, x: jn.cbrt(x),
        numpy=np.cbrt,
        jax=lambda jax, x: jax.numpy.cbrt(x),
    )  # fmt: skip
    family.add_operators(f"x ** y {dtype}", [positive(count, dtype=dtype), normal(count, dtype=dtype)], lambda x, y: x**y)
    family.add(
        f"erf {dtype}", [positive(count, dtype=dtype)],
        lambda jn, x: jn.erf(x),
        torch=lambda torch, x: torch.erf(x),
        jax=lambda jax, x: jax.scipy.special.erf(x),
    )  # fmt: skip
    family.add(
        f"rsqrt {dtype}", [positive(count, dtype=dtype)],
        lambda jn, x: jn.rsqrt(x),
        numpy=lambda x: 1 / np.sqrt(x),
        torch=lambda torch, x: torch.rsqrt(x),
        jax=lambda jax, x: jax.lax.rsqrt(x),
    )  # fmt: skip
    family.add_operators(f"x / y {dtype}", [positive(count, dtype=dtype), positive(count, dtype=dtype)], lambda x, y: x / y)


for each in COUNTS:
    add_functions(each)

# Activations.
family.add(
    "gelu float32", [normal(1_000_000)],
    lambda jn, x: jn.gelu(x),
    torch=lambda torch, x: torch.nn.functional.gelu(x),
    jax=lambda jax, x: jax.nn.gelu(x, approximate=False),
)  # fmt: skip
family.add(
    "gelu float16", [normal(1_000_000, dtype="float16")],
    lambda jn, x: jn.gelu(x),
    torch=lambda torch, x: torch.nn.functional.gelu(x),
    jax=lambda jax, x: jax.nn.gelu(x, approximate=False),
)  # fmt: skip
family.add(
    "gelu by tanh float32", [normal(1_000_000)],
    lambda jn, x: jn.gelu(x, approximate="tanh"),
    torch=lambda torch, x: torch.nn.functional.gelu(x, approximate="tanh"),
    jax=lambda jax, x: jax.nn.gelu(x),
)  # fmt: skip


def add_activation(name: str) -> None:
    """Add a function of neural networks that has one name everywhere."""
    family.add(
        f"{name} float32", [normal(1_000_000)],
        lambda jn, x: getattr(jn, name)(x),
        torch=lambda torch, x: getattr(torch.nn.functional, name)(x),
        jax=lambda jax, x: getattr(jax.nn, name)(x),
    )  # fmt: skip


for each in ("silu", "sigmoid", "softplus", "mish"):
    add_activation(each)
family.add_program(
    "elu of exp", [normal(1_000_000)], lambda lib, x: lib.where(x > 0, x, lib.exp(x) - 1)
)
family.add_program(
    "mish of log and exp", [normal(500_000)], lambda lib, x: x * lib.tanh(lib.log(1 + lib.exp(x)))
)
family.add_program("hard swish", [normal(1_000_000)], lambda lib, x: x * lib.clip(x + 3, 0.0, 6.0) / 6.0)
family.add_program("leaky relu", [normal(1_000_000)], lambda lib, x: lib.where(x > 0, x, 0.1 * x))
family.add_program(
    "dropout by a mask", [normal(1_000_000), flags(1_000_000)], lambda lib, x, kept: lib.where(kept, x * 1.25, x * 0)
)

# Arithmetic of floats.
family.add(
    "atan2 float32", [normal(500_000), normal(500_000)],
    lambda jn, y, x: jn.atan2(y, x),
    numpy=np.arctan2,
    torch=lambda torch, y, x: torch.atan2(y, x),
    jax=lambda jax, y, x: jax.numpy.arctan2(y, x),
)  # fmt: skip
family.add(
    "hypot float32", [normal(500_000), normal(500_000)],
    lambda jn, x, y: jn.hypot(x, y),
    numpy=np.hypot,
    torch=lambda torch, x, y: torch.hypot(x, y),
    jax=lambda jax, x, y: jax.numpy.hypot(x, y),
)  # fmt: skip
family.add_operators("x * 2 + 1 of 1000000 float32", [normal(1_000_000)], lambda x: x * 2 + 1)
family.add_program("exp float32 64x32000", [normal(64, 32_000)], lambda lib, x: lib.exp(x))
family.add_operators("x / 0.7 float32 64x32000", [normal(64, 32_000)], lambda x: x / 0.7)
family.add_operators("x * 2 + 1 of 65536 float32", [normal(65536)], lambda x: x * 2 + 1)
family.add_operators(
    "x + y of 4000000 float64", [normal(4_000_000, dtype="float64"), normal(4_000_000, dtype="float64")], lambda x, y: x + y
)
family.add_operators("x + y of 16 float32", [normal(16), normal(16)], lambda x, y: x + y)
family.add(
    "x + y float16", [normal(1_000_000, dtype="float16"), normal(1_000_000, dtype="float16")],
    lambda jn, x, y: x + y,
    numpy=np.add,
    torch=lambda torch, x, y: torch.add(x, y),
    jax=lambda jax, x, y: x + y,
)  # fmt: skip
family.add_operators(
    "polynomial of degree 5", [normal(1_000_000)], lambda x: ((((x * 0.1 + 0.2) * x + 0.3) * x + 0.4) * x + 0.5) * x + 0.6
)
family.add_program(
    "density of the normal distribution float64", [normal(500_000, dtype="float64")],
    lambda lib, x: lib.exp(-0.5 * x * x) * 0.3989,
)  # fmt: skip
family.add_operators(
    "x * y complex64", [normal(500_000, dtype="complex64"), normal(500_000, dtype="complex64")], lambda x, y: x * y
)
family.add(
    "abs complex64", [normal(500_000, dtype="complex64")],
    lambda jn, x: jn.abs(x),
    numpy=np.abs,
    torch=lambda torch, x: torch.abs(x),
    jax=lambda jax, x: jax.numpy.abs(x),
)  # fmt: skip

# Broadcasting.
family.add_program(
    "outer sum float32", [normal(2000), normal(2000)], lambda lib, x, y: lib.unsqueeze(x, 1) + lib.unsqueeze(y, 0)
)
family.add_program(
    "rows over a number each 64x32000", [normal(64, 32_000), positive(64)], lambda lib, x, y: x / lib.unsqueeze(y, 1)
)
family.add_program(
    "outer difference float64", [normal(700, dtype="float64"), normal(700, dtype="float64")],
    lambda lib, x, y: lib.abs(lib.unsqueeze(x, 1) - lib.unsqueeze(y, 0)),
)  # fmt: skip
family.add_program(
    "exp of an outer sum", [normal(1000), normal(1000)], lambda lib, x, y: lib.exp(lib.unsqueeze(x, 1) + y)
)
family.add_program(
    "outer products of 1000 rows of 32", [normal(1000, 32), normal(1000, 32)],
    lambda lib, x, y: lib.unsqueeze(x, 2) * lib.unsqueeze(y, 1),
)  # fmt: skip
family.add_program(
    "products of pairs of 20 features", [normal(10_000, 20)],
    lambda lib, x: lib.reshape(lib.unsqueeze(x, 2) * lib.unsqueeze(x, 1), (10_000, 400)),
)  # fmt: skip
family.add_program(
    "sum of blocks of rows", [normal(100, 1000), normal(10, 1000)],
    lambda lib, x, y: lib.reshape(lib.reshape(x, (10, 10, 1000)) + y, (100, 1000)),
)  # fmt: skip

# Integers and bits.
family.add_operators("x + y uint8", [pixels(4_000_000), pixels(4_000_000)], lambda x, y: x + y)
family.add_operators(
    "x * y int64", [integers(-99, 99, 1_000_000, dtype="int64")] * 2, lambda x, y: x * y
)
family.add_operators("x // 7 int32", [integers(-99_999, 99_999, 1_000_000)], lambda x: x // 7)
family.add_operators(
    "x % y int32", [integers(-99_999, 99_999, 1_000_000), integers(1, 99, 1_000_000)], lambda x, y: x % y
)
family.add_operators("x // y uint8", [pixels(1_000_000), integers(1, 256, 1_000_000, dtype="uint8")], lambda x, y: x // y)
family.add_operators(
    "x // y int64",
    [integers(-99_999, 99_999, 1_000_000, dtype="int64"), integers(1, 99, 1_000_000, dtype="int64")],
    lambda x, y: x // y,
)
family.add_operators("(x * 7 + 13) % 1009 int32", [integers(0, 2**30, 1_000_000)], lambda x: (x * 7 + 13) % 1009)
family.add_operators("x * 31 % 1009 int32", [integers(0, 2**30, 1_000_000)], lambda x: (x * 31) % 1009)


def add_popcount(dtype: str, count: int, high: int) -> None:
    """Add counts of bits, which PyTorch lacks."""
    family.add(
        f"popcount {dtype}", [integers(0, high, count, dtype=dtype)],
        lambda jn, x: jn.popcount(x),
        numpy=np.bitwise_count,
        jax=lambda jax, x: jax.lax.population_count(x),
    )  # fmt: skip


add_popcount("uint8", 1_000_000, 256)
add_popcount("uint64", 500_000, 2**62)
family.add_operators("x >> y int32", [integers(0, 9999, 1_000_000), integers(0, 30, 1_000_000)], lambda x, y: x >> y)
family.add_operators("Gray code int32", [integers(0, 2**20, 1_000_000)], lambda x: x ^ (x >> 1))


def xorshift(x: Any) -> Any:
    """Return the next number of a generator."""
    x = x ^ (x << 13)
    x = x ^ (x >> 17)
    return x ^ (x << 5)


def bits_in_bytes(x: Any) -> Any:
    """Count the bits of each byte by shifts and masks."""
    pairs = x - ((x >> 1) & 0x55555555)
    fours = (pairs & 0x33333333) + ((pairs >> 2) & 0x33333333)
    return (fours + (fours >> 4)) & 0x0F0F0F0F


family.add_operators("xorshift int32", [integers(1, 2**30, 1_000_000)], xorshift)
family.add_operators("bits of bytes by masks int32", [integers(0, 2**30, 1_000_000)], bits_in_bytes)
family.add_program(
    "odd and even int32", [integers(0, 9, 1000, 1000)], lambda lib, x: lib.where((x & 1) == 0, x + 1, x - 1)
)
family.add(
    "abs int8", [integers(-128, 127, 4_000_000, dtype="int8")],
    lambda jn, x: jn.abs(x),
    numpy=np.abs,
    torch=lambda torch, x: torch.abs(x),
    jax=lambda jax, x: jax.numpy.abs(x),
)  # fmt: skip
family.add_program("clip int16", [integers(-9999, 9999, 2_000_000, dtype="int16")], lambda lib, x: lib.clip(x, -100, 100))
family.add_program("scale and clip float32", [normal(1_000_000)], lambda lib, x: lib.clip(x * 1000.0, -32768.0, 32767.0))

# Comparisons and truth values.
family.add(
    "where float32", [flags(1_000_000), normal(1_000_000), normal(1_000_000)],
    lambda jn, condition, x, y: jn.where(condition, x, y),
    numpy=np.where,
    torch=lambda torch, condition, x, y: torch.where(condition, x, y),
    jax=lambda jax, condition, x, y: jax.numpy.where(condition, x, y),
)  # fmt: skip
family.add_operators("x > 0 float32", [normal(2_000_000)], lambda x: x > 0)
family.add(
    "is nan float64", [normal(1_000_000, dtype="float64")],
    lambda jn, x: jn.is_nan(x),
    numpy=np.isnan,
    torch=lambda torch, x: torch.isnan(x),
    jax=lambda jax, x: jax.numpy.isnan(x),
)  # fmt: skip
family.add(
    "x and not y bool", [flags(4_000_000), flags(4_000_000)],
    lambda jn, x, y: jn.logical_and(x, jn.logical_not(y)),
    numpy=lambda x, y: x & ~y,
    torch=lambda torch, x, y: x & ~y,
    jax=lambda jax, x, y: x & ~y,
)  # fmt: skip

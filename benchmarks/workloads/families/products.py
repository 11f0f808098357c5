"""Matrix products of any shapes and dtypes, of batches and of vectors, sums of products by einsum, layers around a product."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..workload import Family, Kind, extents, integers, normal, pixels, positive

family = Family("products")
Shape = tuple[int, int, int]
"""Rows, inner extent, columns."""
SHAPES: tuple[Shape, ...] = (
    (64, 64, 64), (128, 128, 128), (256, 256, 256), (512, 512, 512), (1024, 1024, 1024), (777, 1000, 333), (1024, 768, 3072),
    (1024, 3072, 768), (1, 4096, 4096), (4, 2048, 2048), (16, 2048, 2048), (32, 1024, 1024), (1000, 1000, 1), (2000, 50, 2000),
    (50, 2000, 50), (100, 100, 10_000), (100_000, 3, 3),
)  # fmt: skip
TRANSPOSED_RIGHT: tuple[Shape, ...] = (
    (512, 512, 512), (1024, 768, 3072), (16, 2048, 2048), (1, 2048, 2048), (8, 777, 333),
)  # fmt: skip
TRANSPOSED_LEFT: tuple[Shape, ...] = ((512, 512, 512), (1024, 768, 1024), (703, 35, 2))
FLOAT64: tuple[Shape, ...] = ((256, 256, 256), (512, 512, 512), (1, 2048, 2048), (1000, 1000, 1), (4000, 16, 16))
SHORT_FLOATS: tuple[Shape, ...] = ((512, 512, 512), (16, 2048, 2048), (1, 2048, 2048))


def product(x: Any, y: Any) -> Any:
    """Return the matrix product."""
    return x @ y


def add_product(name: str, left: Kind, right: Kind, **options: Any) -> None:
    """Add a product of two operands as they are."""
    family.add_operators(name, [left, right], product, **options)


for rows, inner, columns in SHAPES:
    add_product(f"matmul float32 {extents((rows, inner, columns))}", normal(rows, inner), normal(inner, columns))
for rows, inner, columns in TRANSPOSED_RIGHT:
    family.add_program(
        f"matmul by a transposed matrix {extents((rows, inner, columns))}", [normal(rows, inner), normal(columns, inner)],
        lambda lib, x, y: x @ lib.transpose(y),
    )  # fmt: skip
for rows, inner, columns in TRANSPOSED_LEFT:
    family.add_program(
        f"matmul of a transposed matrix {extents((rows, inner, columns))}", [normal(inner, rows), normal(inner, columns)],
        lambda lib, x, y: lib.transpose(x) @ y,
    )  # fmt: skip
for rows, inner, columns in FLOAT64:
    add_product(
        f"matmul float64 {extents((rows, inner, columns))}",
        normal(rows, inner, dtype="float64"), normal(inner, columns, dtype="float64"),
    )  # fmt: skip


def add_short_product(dtype: str, shape: Shape) -> None:
    """Add a product of 16-bit floats, which NumPy computes in float32."""
    rows, inner, columns = shape
    family.add(
        f"matmul {dtype} {extents(shape)}", [normal(rows, inner, dtype=dtype), normal(inner, columns, dtype=dtype)],
        lambda jn, x, y: x @ y,
        numpy=lambda x, y: x.astype(np.float32) @ y.astype(np.float32),
        torch=lambda torch, x, y: x @ y,
        jax=lambda jax, x, y: x @ y,
    )  # fmt: skip


for whole in SHORT_FLOATS:
    add_short_product("bfloat16", whole)
    add_short_product("float16", whole)
add_short_product("float16", (64, 1024, 1024))


def add_byte_product(name: str, joinery: Any, numpy: Any = None) -> None:
    """Add a product of int8 with sums in int32."""
    octets = integers(-128, 128, 512, 512, dtype="int8")
    family.add(
        name, [octets, octets], joinery,
        numpy=numpy,
        torch=lambda torch, x, y: torch._int_mm(x, y),
        jax=lambda jax, x, y: jax.lax.dot(x, y, preferred_element_type="int32"),
    )  # fmt: skip


add_byte_product(
    "matmul of casts from int8 to int32 512x512x512",
    lambda jn, x, y: jn.cast(x, jn.int32) @ jn.cast(y, jn.int32),
    numpy=lambda x, y: x.astype(np.int32) @ y.astype(np.int32),
)
add_byte_product("matmul int8 512x512x512", lambda jn, x, y: x @ y)
for each in ("int32", "int64"):
    add_product(
        f"matmul {each} 256x256x256", integers(-9, 9, 256, 256, dtype=each), integers(-9, 9, 256, 256, dtype=each)
    )

# Batches, vectors, einsum.
add_product("matmul of a batch 96x64x64x64", normal(96, 64, 64), normal(96, 64, 64))
add_product("matmul of a batch 256x64x64x64", normal(256, 64, 64), normal(256, 64, 64))
add_product("matmul of a batch 64x128x64x128", normal(64, 128, 64), normal(64, 64, 128))
add_product("matmul of a batch 10000x4x4x4", normal(10_000, 4, 4), normal(10_000, 4, 4))
add_product("matmul of a batch 50000x4x4x4", normal(50_000, 4, 4), normal(50_000, 4, 4))
add_product("matmul of a batch 4000x16x16x16", normal(4000, 16, 16), normal(4000, 16, 16))
add_product("matmul of a batch 100000x3x3x1", normal(100_000, 3, 3), normal(100_000, 3, 1))
add_product("matmul of a batch 1000x32x32x1", normal(1000, 32, 32), normal(1000, 32, 1))
add_product("matrix times vector 4096", normal(4096, 4096), normal(4096))
add_product("vector times matrix 4096", normal(4096), normal(4096, 4096))
for rows, columns in ((2000, 200), (20_000, 32), (1000, 512)):
    family.add_program(
        f"gram matrix of {rows}x{columns}", [normal(rows, columns)], lambda lib, x: lib.transpose(x) @ x
    )
family.add_program("gram matrix of the rows of 1000x512", [normal(1000, 512)], lambda lib, x: x @ lib.transpose(x))


def add_einsum(equation: str, shapes: tuple[tuple[int, ...], ...], with_numpy: bool = False) -> None:
    """Add a sum of products."""
    sizes = ", ".join(map(extents, shapes))
    family.add(
        f"einsum {equation} {sizes}", [normal(*shape) for shape in shapes],
        lambda jn, *values: jn.einsum(equation, *values),
        numpy=(lambda *values: np.einsum(equation, *values, optimize=True)) if with_numpy else None,
        torch=lambda torch, *values: torch.einsum(equation, *values),
        jax=lambda jax, *values: jax.numpy.einsum(equation, *values),
    )  # fmt: skip


add_einsum("bhqd,bhkd->bhqk", ((8, 12, 128, 64), (8, 12, 128, 64)), with_numpy=True)
add_einsum("i,j->ij", ((1000,), (1000,)), with_numpy=True)
add_einsum("bhqd,bhkd->bhqk", ((8, 8, 128, 64), (8, 8, 128, 64)))
add_einsum("bqhd,bkhd->bhqk", ((8, 128, 8, 64), (8, 128, 8, 64)))
add_einsum("ij,jk,kl->il", ((300, 200), (200, 400), (400, 100)))
add_einsum("bi,oij,bj->bo", ((64, 64), (32, 64, 64), (64, 64)))


# Matrices and vectors.
def power_iteration(lib: Any, matrix: Any, x: Any) -> Any:
    """Return a unit vector after five products with a matrix."""
    for _ in range(5):
        x = matrix @ x
        x = x / lib.sqrt(lib.sum(x * x))
    return x


def kronecker(lib: Any, x: Any, y: Any) -> Any:
    """Return the Kronecker product of two 32x32 matrices."""
    parts = lib.unsqueeze(lib.unsqueeze(x, 1), 3) * lib.unsqueeze(lib.unsqueeze(y, 0), 2)
    return lib.reshape(parts, (1024, 1024))


family.add_program("five steps of power iteration 512x512", [normal(512, 512), normal(512)], power_iteration)
family.add(
    "Kronecker product of 32x32 and 32x32", [normal(32, 32), normal(32, 32)], kronecker,
    numpy=np.kron,
    torch=lambda torch, x, y: torch.kron(x, y),
    jax=lambda jax, x, y: jax.numpy.kron(x, y),
)  # fmt: skip
family.add_program(
    "matrix and an outer product 1000x1000", [normal(1000, 1000), normal(1000), normal(1000)],
    lambda lib, matrix, x, y: matrix + lib.unsqueeze(x, 1) * lib.unsqueeze(y, 0),
)  # fmt: skip
family.add_program(
    "quadratic forms of 5000 rows of 32", [normal(5000, 32), normal(32, 32)],
    lambda lib, x, matrix: lib.sum(x @ matrix * x, axis=1),
)  # fmt: skip

# Layers.
family.add(
    "linear layer and relu, constant weights", [normal(256, 768)],
    lambda jn, x, weight, bias: jn.relu(x @ weight + bias),
    torch=lambda torch, x, weight, bias: torch.nn.functional.relu(torch.addmm(bias, x, weight)),
    constants=[normal(768, 3072), normal(3072)],
)  # fmt: skip
family.add(
    "linear layer and gelu", [normal(256, 768), normal(768, 3072), normal(3072)],
    lambda jn, x, weight, bias: jn.gelu(x @ weight + bias),
    torch=lambda torch, x, weight, bias: torch.nn.functional.gelu(torch.addmm(bias, x, weight)),
    jax=lambda jax, x, weight, bias: jax.nn.gelu(x @ weight + bias, approximate=False),
)  # fmt: skip
family.add(
    "feed-forward layer of silu, 128 tokens",
    [normal(128, 512), normal(512, 1376, scale=0.05), normal(512, 1376, scale=0.05), normal(1376, 512, scale=0.05)],
    lambda jn, x, gate, up, down: (jn.silu(x @ gate) * (x @ up)) @ down,
    torch=lambda torch, x, gate, up, down: (torch.nn.functional.silu(x @ gate) * (x @ up)) @ down,
    jax=lambda jax, x, gate, up, down: (jax.nn.silu(x @ gate) * (x @ up)) @ down,
)
family.add_program(
    "product with weights in uint8, 16x1024x1024", [normal(16, 1024), pixels(1024, 1024), positive(1024)],
    lambda lib, x, codes, scales: x @ ((lib.cast(codes, "float32") - 128.0) * scales),
)  # fmt: skip
family.add(
    "gates of experts, two of 16", [normal(2048, 256), normal(256, 16, scale=0.1)],
    lambda jn, x, weight: jn.top_k(jn.softmax(x @ weight, axis=1), 2),
    torch=lambda torch, x, weight: torch.topk(torch.softmax(x @ weight, 1), 2),
    jax=lambda jax, x, weight: jax.lax.top_k(jax.nn.softmax(x @ weight, 1), 2),
    differing=1e-3,
)  # fmt: skip

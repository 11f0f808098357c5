"""Makes launches of the kernels in `triton_kernels.py`, with tensors of torch and what comes out of them.

Import it behind whatever changes what `triton.jit` makes (`TRITON_INTERPRET=1`, a tracer).
"""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
import triton_kernels as kernels


class Launch(NamedTuple):
    """`kernel[grid](*arguments, **constants)` writes `out`, which is to be `expected`."""

    kernel: Any
    grid: tuple[int, ...]
    arguments: tuple[Any, ...]
    constants: dict[str, Any]
    out: torch.Tensor
    expected: torch.Tensor


def launch_of(name: str, size: int) -> Launch:
    """Returns a launch. size: elements of a vector, or rows and columns; of attention the keys of each of 4 heads."""

    def random(*shape: int) -> torch.Tensor:
        return torch.randn(shape, dtype=torch.float32)

    torch.manual_seed(0)
    kernel, constants = kernels.TEXTS[name]
    match name:
        case "vec_add":
            x, y = random(size), random(size)
            out, grid = torch.empty_like(x), (-(-size // constants["BLOCK"]),)
            return Launch(kernel, grid, (x, y, out, size), constants, out, x + y)
        case "softmax":
            x = random(size, size)
            out = torch.empty_like(x)
            return Launch(kernel, (size,), (x, out, size), constants, out, torch.softmax(x, 1))
        case "layer_norm":
            x, w, b = random(size, size), random(size), random(size)
            out = torch.empty_like(x)
            expected = torch.nn.functional.layer_norm(x, (size,), w, b, 1e-5)
            return Launch(kernel, (size,), (x, w, b, out, size, 1e-5), constants, out, expected)
        case "matmul_masked":
            x, y = random(size, size), random(size, size)
            out, tiles = torch.empty_like(x), -(-size // constants["BM"])
            return Launch(kernel, (tiles, tiles), (x, y, out, *[size] * 6), constants, out, x @ y)
        case "attention":
            heads, width = 4, constants["D"]
            q, k, v = (random(heads, size, width) for _ in range(3))
            out, grid = torch.empty_like(q), (-(-size // constants["BQ"]), heads)
            expected = torch.nn.functional.scaled_dot_product_attention(q, k, v)
            return Launch(kernel, grid, (q, k, v, out, size, width**-0.5, size * width, width), constants, out, expected)
    raise SystemExit(f"no kernel {name!r}")

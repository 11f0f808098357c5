"""Measures the seconds that Triton's interpreter mode takes for a kernel of the benchmarks; prints them as the last line.

    python benchmarks/triton_interpreter.py softmax 1024      # needs triton and torch
"""

from __future__ import annotations

import os
import sys
import time

os.environ["TRITON_INTERPRET"] = "1"

import torch
import triton_kernels as kernels


def main() -> None:
    name, size = sys.argv[1], int(sys.argv[2])
    torch.manual_seed(0)

    def random(*shape: int) -> torch.Tensor:
        return torch.randn(shape, dtype=torch.float32)

    kernel, constants = kernels.TEXTS[name]
    match name:
        case "vec_add":
            x, y = random(size), random(size)
            out, grid = torch.empty_like(x), (-(-size // constants["BLOCK"]),)
            arguments, expected = (x, y, out, size), x + y
        case "softmax":
            x = random(size, size)
            out, grid = torch.empty_like(x), (size,)
            arguments, expected = (x, out, size), torch.softmax(x, 1)
        case "layer_norm":
            x, w, b = random(size, size), random(size), random(size)
            out, grid = torch.empty_like(x), (size,)
            arguments, expected = (x, w, b, out, size, 1e-5), torch.nn.functional.layer_norm(x, (size,), w, b, 1e-5)
        case "matmul_masked":
            x, y = random(size, size), random(size, size)
            out, tiles = torch.empty_like(x), -(-size // constants["BM"])
            grid, arguments, expected = (tiles, tiles), (x, y, out, size, size, size, size, size, size), x @ y
        case "attention":
            heads, width = 4, constants["D"]
            q, k, v = (random(heads, size, width) for _ in range(3))
            out, grid = torch.empty_like(q), (-(-size // constants["BQ"]), heads)
            arguments = (q, k, v, out, size, width**-0.5, size * width, width)
            expected = torch.nn.functional.scaled_dot_product_attention(q, k, v)
        case _:
            raise SystemExit(f"no kernel {name!r}")
    start = time.perf_counter()
    kernel[grid](*arguments, **constants)
    seconds = time.perf_counter() - start
    torch.testing.assert_close(out, expected, rtol=1e-3, atol=1e-3)
    print(seconds)


if __name__ == "__main__":
    main()

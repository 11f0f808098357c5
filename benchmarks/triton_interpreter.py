"""Measures the seconds that Triton's interpreter mode takes for a kernel of the benchmarks; prints them as the last line.

    python benchmarks/triton_interpreter.py softmax 1024      # needs triton and torch
"""

from __future__ import annotations

import os
import sys
import time

os.environ["TRITON_INTERPRET"] = "1"

import torch
from triton_launches import launch_of


def main() -> None:
    launch = launch_of(sys.argv[1], int(sys.argv[2]))
    start = time.perf_counter()
    launch.kernel[launch.grid](*launch.arguments, **launch.constants)
    seconds = time.perf_counter() - start
    torch.testing.assert_close(launch.out, launch.expected, rtol=1e-3, atol=1e-3)
    print(seconds)


if __name__ == "__main__":
    main()

"""Times Triton programs that run through joinery, beside the same as a graph, in torch, and in Triton's interpreter.

    make bench-triton                                   # in the environment of the doors' tests
    python benchmarks/triton_programs.py softmax        # needs triton and torch

One process, two threads, contenders in turns (`harness.py`). "checked" compares every access with its tensor; "sanitized"
is a launch without findings, on one thread. The interpreter
(`TRITON_INTERPRET=1`) runs once, in a process of its own: its launches take seconds.
"""

from __future__ import annotations

import argparse
import datetime
import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

from peers import Peers, call, limit_threads, versions

HERE = Path(__file__).resolve().parent
OURS = ("triton program", "triton program, checked", "triton program, sanitized")
THREADS = 2
SIZE = 1024
"""Rows and columns of every case; of attention the keys."""


class Program(NamedTuple):
    """A launch, and the same computation by others.

    arguments: of the kernel, `out` the tensor among them that it writes.  graph: a function of joinery and symbols.
    torch: a function of torch and tensors.
    """

    grid: tuple[int, ...]
    arguments: tuple[Any, ...]
    out: Any
    inputs: tuple[Any, ...]
    graph: Callable[..., Any]
    torch: Callable[..., Any]


def programs(torch: Any) -> dict[str, Program]:
    import triton_kernels as kernels

    def random(*shape: int) -> Any:
        return torch.randn(shape, dtype=torch.float32)

    def attended(jn: Any, q: Any, k: Any, v: Any) -> Any:
        return jn.softmax(q @ k.permute(0, 2, 1) * width**-0.5, axis=-1) @ v

    n, heads = SIZE, 4
    width = kernels.TEXTS["attention"][1]["D"]
    torch.manual_seed(0)
    x, y, w, b = random(n, n), random(n, n), random(n), random(n)
    q, k, v = (random(heads, n, width) for _ in range(3))
    tiles = -(-n // kernels.TEXTS["matmul_masked"][1]["BM"])
    outs = [torch.empty(n, n) for _ in range(3)]
    values = torch.empty_like(q)
    rows = -(-n // kernels.TEXTS["attention"][1]["BQ"])
    return {
        "softmax": Program(
            (n,), (x, outs[0], n), outs[0], (x,),
            lambda jn, x: jn.softmax(x, axis=-1), lambda torch, x: torch.softmax(x, -1),
        ),
        "layer_norm": Program(
            (n,), (x, w, b, outs[1], n, 1e-5), outs[1], (x, w, b),
            lambda jn, x, w, b: jn.layer_norm(x, w, b, epsilon=1e-5),
            lambda torch, x, w, b: torch.nn.functional.layer_norm(x, (n,), w, b, 1e-5),
        ),
        "matmul_masked": Program(
            (tiles, tiles), (x, y, outs[2], n, n, n, n, n, n), outs[2], (x, y),
            lambda jn, x, y: x @ y, lambda torch, x, y: x @ y,
        ),
        "attention": Program(
            (rows, heads), (q, k, v, values, n, width**-0.5, n * width, width), values, (q, k, v), attended,
            lambda torch, q, k, v: torch.nn.functional.scaled_dot_product_attention(q[None], k[None], v[None])[0],
        ),
    }  # fmt: skip


def measured(name: str, program: Program, seconds: float, peers: Peers) -> Any:
    import triton_kernels as kernels
    from harness import Measurement, sample

    torch = peers.modules["torch"]
    kernel, constants = kernels.TEXTS[name]
    expected = program.torch(torch, *program.inputs)

    def launches(**options: Any) -> Callable[[], None]:
        def launch() -> None:
            kernel[program.grid](*program.arguments, **constants, threads=THREADS, **options)

        program.out.zero_()
        launch()
        torch.testing.assert_close(program.out, expected, rtol=1e-4, atol=1e-4)
        return launch

    contenders = [
        call("triton program", launches(), (), ours=True),
        call("triton program, checked", launches(check_bounds=True), (), ours=True),
        call("triton program, sanitized", launches(sanitize=True), (), ours=True),
        *peers.joinery(program.graph, *[tensor.numpy() for tensor in program.inputs]),
        *peers.torch(program.torch, *[tensor.numpy() for tensor in program.inputs]),
    ]
    return Measurement(f"{name} {SIZE}", "", sample(contenders, seconds), OURS)


def interpreted(name: str) -> float:
    """Return the seconds of one launch in Triton's interpreter."""
    command = [sys.executable, str(HERE / "triton_interpreter.py"), name, str(SIZE)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    return float(done.stdout.splitlines()[-1])


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("names", nargs="*", help="cases; all of them by default")
    parser.add_argument("--seconds", type=float, default=8.0, help="of each case")
    parser.add_argument("--output", type=Path, help="result file (default: benchmarks/results/DATE-triton-programs.json)")
    options = parser.parse_args()
    limit_threads(THREADS)
    import joinery.triton
    import torch
    from harness import ForeignLoad, report

    joinery.triton.enable(threads=THREADS)
    load, peers = ForeignLoad(), Peers(THREADS, with_joinery=True)
    found = []
    for name, program in programs(torch).items():
        if options.names and name not in options.names:
            continue
        measurement = measured(name, program, options.seconds, peers)
        slow = interpreted(name)
        ratio = slow / measurement.summary("triton program").median
        measurement.notes["TRITON_INTERPRET=1"] = f"{slow:.3g} s, one launch: {ratio:.0f} times the program's time"
        print(report(measurement), flush=True)
        found.append(measurement.as_dict())
    date = datetime.datetime.now(datetime.UTC)
    output = options.output or HERE / "results" / f"{date:%Y-%m-%d-%H%M}-triton-programs.json"
    content = {
        "date": date.isoformat(timespec="seconds"), "threads": THREADS, "versions": versions(),
        "foreign_load": load.processors(), "cases": found,
    }  # fmt: skip
    output.write_text(json.dumps(content, indent=1) + "\n")


if __name__ == "__main__":
    main()

"""Measures how long graphs of 10^2 to 10^5 nodes take to compile: compile_curve.py [--kinds KIND …] [--most N].

"layers" is a network of many layers with weights (a product, a bias, a function each), "chain" one long chain of elementwise
operations, "wide" many sums of one tensor, which are joined. No cache is used. Seconds are of processor time, since a machine
may be busy. Each size has a process: memory is that of the process at its most.
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
import time

KINDS = ("layers", "chain", "wide")
SIZES = (100, 1_000, 10_000, 100_000)


def build(kind: str, nodes: int):
    """A graph of about as many nodes."""
    import joinery as jn
    import numpy as np

    rng = np.random.default_rng(0)
    graph = jn.Graph("curve", [jn.TensorType(jn.float32, (64, 256), "x")])
    (x,) = graph.inputs
    match kind:
        case "layers":
            weights = [graph.constant(rng.standard_normal((256, 256)).astype(np.float32) / 16) for _ in range(4)]
            for number in range(nodes // 4):
                x = jn.tanh(x @ weights[number % 4] + 0.5) * 1.25
        case "chain":
            for number in range(nodes * 2 // 3):
                x = x * 1.0001 + 0.5 if number % 2 else jn.sin(x)
        case "wide":
            total = jn.sum(x, 1)
            for number in range(nodes // 4):
                total = total + jn.sum(jn.exp(x * float(number + 1)), 1)
            x = total
    graph.output(x)
    return graph


def measure(kind: str, nodes: int) -> dict[str, float]:
    import joinery as jn

    start = time.process_time()
    graph = build(kind, nodes)
    built = time.process_time()
    model = jn.compile(graph, "cpu", threads=1, cache=False)
    seconds = time.process_time() - built
    return {
        "nodes": len(graph.symbols), "kernels": len(model.kernels), "build": built - start, "compile": seconds,
        "per_node": seconds / len(graph.symbols) * 1e6, "memory": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
    }  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description="How long graphs of 10^2 to 10^5 nodes take to compile.")
    parser.add_argument("--kinds", nargs="+", choices=KINDS, default=list(KINDS))
    parser.add_argument("--most", type=int, default=SIZES[-1])
    parser.add_argument("--one", nargs=2, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.one:
        print(json.dumps(measure(options.one[0], int(options.one[1]))))
        return
    print(f"{'graph':8}{'nodes':>8}{'kernels':>9}{'build, s':>10}{'compile, s':>12}{'us per node':>13}{'memory, MB':>12}")
    for kind in options.kinds:
        for nodes in [size for size in SIZES if size <= options.most]:
            command = [sys.executable, __file__, "--one", kind, str(nodes)]
            found = json.loads(subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines()[-1])
            line = f"{kind:8}{found['nodes']:8}{found['kernels']:9}{found['build']:10.2f}{found['compile']:12.2f}"
            print(f"{line}{found['per_node']:13.0f}{found['memory']:12.0f}", flush=True)


if __name__ == "__main__":
    main()

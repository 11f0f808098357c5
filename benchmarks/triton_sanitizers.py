"""Times sanitized launches of Triton programs: joinery's, and those of triton-viz's sanitizer.

    python benchmarks/triton_sanitizers.py           # needs triton, torch, triton-viz, and joinery

Processes of the two tools take turns. "first" is the first launch of a process, with what it compiles and translates, "next"
the least of those that follow. Both look for accesses outside of tensors; joinery for races, undefined values and wrapped
offsets, too, and it computes the results, which are compared. triton-viz follows one program with symbolic indices.
"""

from __future__ import annotations

import argparse
import statistics
import subprocess
import sys
import time
from pathlib import Path

CASES = {"vec_add": 1 << 20, "softmax": 1024, "matmul_masked": 512, "layer_norm": 1024, "attention": 512}
TOOLS = ("joinery", "triton-viz")
LAUNCHES = 7


def launched(tool: str, name: str) -> None:
    """Prints the seconds of each of some launches in this process."""
    options: dict[str, object] = {}
    if tool == "joinery":
        import joinery.triton

        joinery.triton.enable()
        options["sanitize"] = True
    import torch
    from triton_launches import launch_of

    torch.set_num_threads(1)
    launch = launch_of(name, CASES[name])
    kernel = launch.kernel
    if tool == "triton-viz":
        import triton_viz

        kernel = triton_viz.trace("sanitizer")(kernel)
    for _ in range(LAUNCHES):
        start = time.perf_counter()
        kernel[launch.grid](*launch.arguments, **launch.constants, **options)
        print("seconds", time.perf_counter() - start)
    if tool == "joinery":
        torch.testing.assert_close(launch.out, launch.expected, rtol=1e-3, atol=1e-3)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--launch", nargs=2, metavar=("TOOL", "KERNEL"), help="one process of it, as this program calls itself")
    parser.add_argument("--rounds", type=int, default=5, help="processes of each tool and kernel")
    options = parser.parse_args()
    if options.launch:
        launched(*options.launch)
        return
    print(f"{'ms, median of ' + str(options.rounds):24}" + "".join([f"{tool + ' first':>20}{'next':>10}" for tool in TOOLS]))
    for name, size in CASES.items():
        found: dict[str, list[list[float]]] = {tool: [] for tool in TOOLS}
        for _ in range(options.rounds):
            for tool in TOOLS:
                command = [sys.executable, str(Path(__file__).resolve()), "--launch", tool, name]
                done = subprocess.run(command, capture_output=True, text=True, check=False)
                if done.returncode:
                    raise SystemExit(f"{tool}, {name}:\n{done.stdout}{done.stderr}")
                found[tool].append([float(line.split()[1]) for line in done.stdout.splitlines() if line.startswith("seconds ")])
        line = f"{name + ' ' + str(size):24}"
        for runs in found.values():
            first, after = (statistics.median(each) for each in ([run[0] for run in runs], [min(run[1:]) for run in runs]))
            line += f"{first * 1e3:>20.1f}{after * 1e3:>10.2f}"
        print(line, flush=True)


if __name__ == "__main__":
    main()

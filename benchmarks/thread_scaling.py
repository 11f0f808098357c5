"""Simulates how models scale from 1 to 64 threads, from what each kernel takes on one: for machines that are not at hand.

    python benchmarks/thread_scaling.py out/models/resnet50.onnx [--dim batch=8] [--kernels 5] [--output FILE.json]

Code is planned for each number of threads, and each launch of a model is measured on one (`Model.profile`, the fastest of many
calls). Its programs are dealt out in the chunks of the driver (`lowering/llvm/host/driver_launches.py`), to as many workers as
there are chunks, each of which comes a little later than the one before; launches follow each other. This has the work that
is not divided, the unevenness of the last chunks and the hand-over in it, and neither a limit of shared memory nor clocks that
fall when all cores compute: it says what the schedule allows, no more. Two threads are measured as well, which shows how far
the simulation is right.
"""

from __future__ import annotations

import argparse
import heapq
import json
import math
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import joinery as jn
import numpy as np
from joinery.lowering.choices.options import planned_threads
from joinery.lowering.llvm.host.driver_launches import (
    BYTES_PER_NS,
    CHUNK_NS,
    INLINE_NS,
    MAX_CHUNKS,
    OPERATIONS_PER_NS,
)

THREADS = (1, 2, 4, 8, 16, 32, 64)
POST_NS, WAKE_NS, JOIN_NS = 60, 400, 60
"""To offer a worker a job, until a worker that looks for one has begun, and to see that it is done: a line of cache that goes
from core to core."""


@dataclass(frozen=True, slots=True)
class LaunchCost:
    """A launch: its kernel, nanoseconds on one thread, and the chunks that its programs are dealt out in."""

    kernel: str
    nanoseconds: float
    programs: int
    chunks: int

    def on(self, threads: int) -> float:
        """Return the nanoseconds on some threads, the caller included."""
        team = min(threads, self.chunks)
        if team <= 1:
            return self.nanoseconds
        grain = -(-self.programs // self.chunks)
        each = self.nanoseconds / self.programs
        free = [(team - 1.0) * POST_NS] + [worker * POST_NS + WAKE_NS for worker in range(1, team)]
        heapq.heapify(free)
        for at in range(0, self.programs, grain):
            heapq.heapreplace(free, free[0] + each * min(grain, self.programs - at))
        return min(max(free) + (team - 1) * JOIN_NS, self.nanoseconds + (team - 1) * (POST_NS + JOIN_NS))


def launches_of(model: jn.Model, arrays: Sequence[np.ndarray], dims: Mapping[str, int], repeat: int) -> list[LaunchCost]:
    """Measure the launches of a model that runs on one thread."""
    found = []
    for each in model.profile(*arrays, repeat=repeat).kernels:
        sizes = each.kernel.at(**dims)
        work = (sizes["bytes_read"] + sizes["bytes_written"]) // BYTES_PER_NS + sizes["flops"] // OPERATIONS_PER_NS
        programs = max(1, sizes["grid"])
        grain = programs if work <= INLINE_NS else max(1, programs * CHUNK_NS // work, programs // MAX_CHUNKS)
        chunks = -(-programs // min(grain, programs))
        found.append(LaunchCost(each.kernel.name, each.fastest * 1e9, programs, chunks))
    return found


def arrays_for(model: jn.Model, dims: Mapping[str, int]) -> list[np.ndarray]:
    """Return inputs of a model: small integers, or normal numbers. Dims without a size are 1."""
    rng = np.random.default_rng(0)
    found = []
    for spec in model.inputs:
        shape = [jn.Dim.parse(str(extent)).evaluate(dims) if isinstance(extent, str) else extent for extent in spec.shape]
        dtype = jn.DType(spec.dtype).numpy
        values = rng.integers(0, 2, shape) if dtype.kind in "iub" else rng.standard_normal(shape)
        found.append(values.astype(dtype))
    return found


def fastest(model: jn.Model, arrays: Sequence[np.ndarray], repeat: int) -> float:
    """Return the shortest time of a call, in nanoseconds."""
    times = []
    for _ in range(repeat):
        start = time.perf_counter_ns()
        model(*arrays)
        times.append(time.perf_counter_ns() - start)
    return float(min(times))


def report(path: Path, dims: Mapping[str, int], repeat: int, shown: int) -> dict[str, Any]:
    """Print the simulation of a model in ONNX, and return it."""
    graph = jn.from_onnx(path)
    sizes = {name: dims.get(name, 1) for name in graph.dim_names}
    arrays = arrays_for(jn.compile(graph, device="cpu", threads=1), sizes)
    launches: list[LaunchCost] = []
    times: dict[int, float] = {}
    planned = 0
    for threads in THREADS:
        if planned_threads(threads) != planned:  # code of its own, whose launches are measured one thread at a time
            planned = planned_threads(threads)
            model = jn.compile(graph, device="cpu", threads=threads)
            with jn.limit_threads(1):
                launches = launches_of(model, arrays, sizes, repeat)
        times[threads] = sum(each.on(threads) for each in launches)
    measured = fastest(jn.compile(graph, device="cpu", threads=2), arrays, repeat)
    path_ns = sum(each.on(1 << 20) for each in launches)
    print(f"{path.stem}: {len(launches)} launches, {times[1] / 1e6:.2f} ms on one thread; two threads measured "
          f"{measured / 1e6:.2f} ms, simulated {times[2] / 1e6:.2f}; critical path {path_ns / 1e6:.2f} ms")  # fmt: skip
    print("  " + ", ".join(f"{threads}: {times[1] / time:.1f}" for threads, time in times.items()))
    last = THREADS[-1]
    behind = sorted(launches, key=lambda each: each.nanoseconds / last - each.on(last))
    for each in behind[:shown]:
        print(f"    {each.kernel}: {each.nanoseconds / 1e3:.0f} us on one thread, {each.on(last) / 1e3:.1f} on {last}, "
              f"{each.programs} programs in {each.chunks} chunks")  # fmt: skip
    return {"model": path.stem, "nanoseconds": times, "two threads": measured, "launches": [asdict(each) for each in launches]}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("models", nargs="+", type=Path)
    parser.add_argument("--dim", action="append", default=[], metavar="NAME=SIZE")
    parser.add_argument("--repeat", type=int, default=20)
    parser.add_argument("--kernels", type=int, default=5, help="how many of the launches that hold a model back are shown")
    parser.add_argument("--output", type=Path)
    options = parser.parse_args()
    dims = {name: int(size) for name, _, size in (each.partition("=") for each in options.dim)}
    found = [report(path, dims, options.repeat, options.kernels) for path in options.models]
    means = {threads: math.prod([each["nanoseconds"][1] / each["nanoseconds"][threads] for each in found]) ** (1 / len(found))
             for threads in THREADS}  # fmt: skip
    print("geometric mean of speed-ups: " + ", ".join(f"{threads}: {mean:.1f}" for threads, mean in means.items()))
    if options.output is not None:
        options.output.write_text(json.dumps(found, indent=1))


if __name__ == "__main__":
    main()

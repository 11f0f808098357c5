"""Runs the parts of benchmarks/gpu.py, each in a process of its own, since an illegal address loses the
device for its process.

Each process writes lines of JSON to a file: {"at": …} before each step that might not end, then the results.
"""

from __future__ import annotations

import contextlib
import importlib.metadata
import importlib.util
import io
import json
import platform
import statistics
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

import joinery as jn
import numpy as np
from joinery.runtime.cuda.device import cuda_device
from joinery.runtime.cuda.driver import version_text

ROOT = Path(__file__).resolve().parents[1]
PACKAGES = ("cuda-bindings", "torch", "triton", "numpy", "llvmlite", "xdsl")
MINILM_ERROR = 1e-4
Write = Callable[[dict[str, Any]], None]


def writer(path: Path) -> Write:
    def write(line: dict[str, Any]) -> None:
        with path.open("a") as file:
            file.write(json.dumps(line) + "\n")

    return write


def facts(write: Write) -> None:
    """Writes the properties of the device, and the versions of the installed packages."""
    device = cuda_device()
    versions = {}
    for name in PACKAGES:
        with contextlib.suppress(importlib.metadata.PackageNotFoundError):
            versions[name] = importlib.metadata.version(name)
    write({
        "device": {
            "name": device.model, "capability": device.capability, "target": device.target, "memory": device.total_memory,
            "l2_bytes": device.l2_bytes, "processors": device.processors, "clock_hz": device.clock_hz,
            "driver": version_text(device.driver_version),
        },
        "python": platform.python_version(),
        "versions": {"joinery": jn.__version__, **versions},
        "cases": corpus().WITH_DATA,
    })  # fmt: skip


def load(path: Path) -> ModuleType:
    spec = importlib.util.spec_from_file_location(f"benchmarks_{path.stem}", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


def corpus() -> ModuleType:
    return load(ROOT / "tests" / "support" / "corpus.py")


def check_corpus(names: Sequence[str], write: Write) -> None:
    """Runs cases of the corpus on the device; writes what is wrong with each, until one loses the device."""
    cases, device = corpus(), cuda_device()

    def launch(kernel: Any, grid: Any, arguments: Any) -> None:
        kernel.launch(grid, *arguments, device=device.name)

    for name in names:
        write({"at": name})
        problem = ""
        try:
            with contextlib.redirect_stdout(io.StringIO()):
                cases.run(name, launch, gpu=True)
        except (AssertionError, jn.JoineryError) as error:
            problem = f"{type(error).__name__}: {error}".splitlines()[0]
        write({"case": name, "problem": problem})
        device.check_alive()


def measure(name: str, seconds: float, small: bool, without: Sequence[str], write: Write) -> None:
    """Measures one case of gpu_cases.py."""
    import gpu_cases
    from gpu_timing import sample

    sizes = gpu_cases.Sizes(small, frozenset(without), lambda what: write({"at": what}))
    write({"at": "inputs"})
    case = gpu_cases.CASES[name](sizes)
    found = sample(case, seconds, sizes.effort)
    write({
        "measurement": {
            "name": found.name, "limit_reason": found.limit_reason, "samples": found.samples, "ours": found.ours,
            "notes": found.notes,
        }
    })  # fmt: skip


def minilm(seconds: float, small: bool, write: Write) -> None:
    """Compares MiniLM's embeddings on the device with those of the CPU, for a batch of 256, and times a run."""
    example = load(ROOT / "examples" / "minilm.py")
    try:
        folder = example.model_dir()
    except FileNotFoundError as error:
        write({"absent": str(error)})
        return
    write({"at": "building"})
    graph = example.build(folder)
    generator = np.random.default_rng(0)
    batch, length = (2, 8) if small else (256, 128)
    ids = generator.integers(1000, 30000, (batch, length))
    mask = (np.arange(length)[None, :] < generator.integers(length // 8, length + 1, (batch, 1))).astype(np.int64)
    write({"at": "the CPU"})
    expected = jn.compile(graph, device="cpu")(ids, mask)
    write({"at": "compiling"})
    model = jn.compile(example.build(folder), device="cuda")
    write({"at": "running"})
    error = example.relative_error(model(ids, mask), expected)
    times: list[float] = []
    end = time.perf_counter() + seconds
    while len(times) < 2 or time.perf_counter() < end:
        start = time.perf_counter()
        model(ids, mask)
        times.append(time.perf_counter() - start)
    problem = "" if error <= MINILM_ERROR else f"relative error {error:.1e}, allowed {MINILM_ERROR:.0e}"
    quartiles = statistics.quantiles(times, n=4, method="inclusive")
    found = {"batch": batch, "length": length, "relative_error": error, "quartiles_s": quartiles, "problem": problem}
    write({"minilm": found})

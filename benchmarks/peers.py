"""Provides the other libraries of a comparison, if importable, limited to the same number of threads and
called at their best.

Each adapter makes a `Contender` out of plain arrays: NumPy as written, torch eagerly on tensors it
already owns, JAX jitted on device arrays, ONNX Runtime on a prepared session, joinery on a compiled
model.
"""

from __future__ import annotations

import importlib
import importlib.metadata
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from harness import Contender

NAMES = ("numpy", "onnxruntime", "torch", "jax")
DISTRIBUTIONS = (
    "joinery-graph",
    "numpy",
    "onnxruntime",
    "onnx",
    "torch",
    "jax",
    "jaxlib",
    "llvmlite",
    "xdsl",
)


def limit_threads(threads: int) -> None:
    """Hold this process and every library to `threads` threads. Call it before any of them is imported."""
    for variable in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NPROC"):
        os.environ[variable] = str(threads)  # NPROC: the size of XLA's CPU thread pool
    os.environ["JAX_PLATFORMS"] = "cpu"
    if hasattr(os, "sched_setaffinity"):
        processors = sorted(os.sched_getaffinity(0))
        if len(processors) > threads:
            os.sched_setaffinity(0, processors[:threads])


def versions() -> dict[str, str]:
    """Return the versions of everything that takes part, "absent" where it is not installed."""
    found = {}
    for name in DISTRIBUTIONS:
        try:
            found[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            found[name] = "absent"
    return found


@dataclass(slots=True)
class Peers:
    """The libraries of `names` that could be imported, and joinery unless only the peers are wanted."""

    threads: int
    with_joinery: bool
    modules: dict[str, Any] = field(default_factory=dict)
    absent: dict[str, str] = field(default_factory=dict)
    names: Sequence[str] = NAMES

    def __post_init__(self) -> None:
        for name in (*self.names, *(["joinery"] if self.with_joinery else [])):
            try:
                self.modules[name] = importlib.import_module(name)
            except ImportError as error:
                self.absent[name] = str(error)
        if self.with_joinery and "joinery" in self.absent:
            raise SystemExit(f"joinery cannot be imported: {self.absent['joinery']}")
        if "torch" in self.modules:
            self.modules["torch"].set_num_threads(self.threads)
            self.modules["torch"].set_grad_enabled(False)

    def numpy(self, function: Callable[..., Any], *arrays: Any) -> list[Contender]:
        """Make a contender of `function(*arrays)` as NumPy runs it. OpenBLAS's threads spin after a product."""
        return [call("numpy", function, arrays, spins=True)]

    def torch(self, function: Callable[..., Any], *arrays: Any) -> list[Contender]:
        """Make a contender of `function(torch, *tensors)`, eager. libgomp's threads spin after a parallel region."""
        if "torch" not in self.modules:
            return []
        torch = self.modules["torch"]
        tensors = [_tensor(torch, array) for array in arrays]
        return [call("torch", lambda *values: function(torch, *values), tensors, spins=True)]

    def jax(self, function: Callable[..., Any], *arrays: Any) -> list[Contender]:
        """Make a contender of `function(jax, *arrays)` under jit, on arrays that are on the device already."""
        if "jax" not in self.modules:
            return []
        jax = self.modules["jax"]
        compiled = jax.jit(lambda *values: function(jax, *values))
        names = {"function": compiled, "wait": jax.block_until_ready}
        names |= {f"a{index}": jax.device_put(array) for index, array in enumerate(arrays)}
        arguments = ", ".join(f"a{index}" for index in range(len(arrays)))
        return [Contender("jax", f"wait(function({arguments}))", names, spins=True)]

    def onnxruntime(
        self, model: bytes, feeds: Mapping[str, Any], name: str = "onnxruntime"
    ) -> list[Contender]:
        """Make a contender of a session with default graph optimisations. Its workers spin after a run."""
        if "onnxruntime" not in self.modules:
            return []
        names = {
            "run": onnx_session(self.modules["onnxruntime"], model, self.threads).run,
            "feeds": dict(feeds),
        }
        return [Contender(name, "run(None, feeds)[0]", names, spins=True)]

    def joinery(self, build: Callable[..., Any], *arrays: Any) -> list[Contender]:
        """Make a contender of `build(jn, *symbols)`, one symbol or several, compiled for the CPU; shapes are those of the
        arrays."""
        if "joinery" not in self.modules:
            return []
        jn = self.modules["joinery"]
        types = [
            jn.TensorType(jn.DType(str(array.dtype)), array.shape, name=f"a{index}")
            for index, array in enumerate(arrays)
        ]
        graph = jn.Graph("benchmark", inputs=types)
        built = build(jn, *graph.inputs)
        graph.output(*(built if isinstance(built, tuple | list) else (built,)))
        return [call("joinery", jn.compile(graph, device="cpu", threads=self.threads), arrays, ours=True)]


def _tensor(torch: Any, array: Any) -> Any:
    """Return an array as a tensor; torch takes bfloat16 from NumPy as bits only."""
    if array.dtype.name == "bfloat16":
        return torch.from_numpy(array.view("int16")).view(torch.bfloat16)
    return torch.from_numpy(array)


def onnx_session(onnxruntime: Any, model: bytes, threads: int) -> Any:
    """Return an inference session on the CPU with `threads` threads and otherwise default options."""
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    options.inter_op_num_threads = 1
    options.log_severity_level = 3
    return onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])


def call(
    name: str, function: Callable[..., Any], arguments: Sequence[Any], spins: bool = False, ours: bool = False
) -> Contender:
    """Make a contender that calls `function(*arguments)`."""
    names = {"function": function} | {f"a{index}": value for index, value in enumerate(arguments)}
    statement = f"function({', '.join(f'a{index}' for index in range(len(arguments)))})"
    return Contender(name, statement, names, spins=spins, ours=ours)

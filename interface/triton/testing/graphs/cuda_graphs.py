"""`torch.cuda.CUDAGraph` where a device of torch's stands in for a GPU's: what it captures runs again at each replay.

`torch.cuda.graph` and `make_graphed_callables` are torch's own, and use it.
"""

from __future__ import annotations

import itertools
from typing import Any

from .capture import Capture, captures

_pools = itertools.count(1)


def install(torch: Any, generator: Any) -> None:
    """Let torch capture graphs. generator: the default one of the device."""
    graphs = torch.cuda.graphs
    graph = graph_class(torch, generator)
    torch.cuda.CUDAGraph = graphs.CUDAGraph = graph
    torch.cuda.graph, torch.cuda.make_graphed_callables = graphs.graph, graphs.make_graphed_callables
    torch.cuda.graph_pool_handle = graphs.graph_pool_handle = new_pool
    torch.cuda.is_current_stream_capturing = graphs.is_current_stream_capturing = is_capturing
    torch._C._cuda_isCurrentStreamCapturing = is_capturing
    if not hasattr(torch._C, "_host_emptyCache"):
        torch._C._host_emptyCache = lambda: None


def is_capturing() -> bool:
    """Whether the current stream is being captured."""
    return bool(captures) and captures[0].covers()


def new_pool() -> tuple[int, int]:
    """The name of a pool of memory. Graphs share none: each has its memory for itself."""
    return 0, next(_pools)


def graph_class(torch: Any, generator: Any) -> Any:
    """The class of graphs. generator: the device's default one, which every graph may draw from."""

    class CUDAGraph:
        """Launches and operators that are done again by `replay`."""

        def __init__(self, keep_graph: bool = False) -> None:
            self._generators = [generator]
            self._capture: Capture | None = None
            self._is_captured = False
            self._pool = new_pool()

        def register_generator_state(self, generator: Any) -> None:
            self._generators.append(generator)

        def capture_begin(self, pool: Any = None, capture_error_mode: str = "global", **options: Any) -> None:
            """Capture what is done on the current stream from now on.

            Raises `RuntimeError` on the default stream, while another graph is captured, and for a graph that is there.
            """
            if torch.cuda.current_stream() == torch.cuda.default_stream():
                raise RuntimeError("CUDA graphs must be captured on a non-default stream.")
            if self._capture is not None:
                raise RuntimeError("This CUDAGraph instance already owns a captured graph. Create another one.")
            if captures:
                raise RuntimeError("CUDA error: a graph is being captured already; only one may be at a time")
            self._pool = pool or self._pool
            self._capture = Capture(torch.cuda.current_stream, self._generators)
            captures.append(self._capture)

        def capture_end(self) -> None:
            if self._capture is None or self._capture not in captures:
                raise RuntimeError("CUDA error: capture_end without capture_begin")
            captures.remove(self._capture)
            self._capture.end()
            self._is_captured = True

        def instantiate(self) -> None:
            """There is nothing to prepare."""

        def replay(self) -> None:
            """Do again what was captured, on the same memory. Raises `RuntimeError` for a graph that was not captured."""
            if self._capture is None or not self._is_captured:
                raise RuntimeError("Called CUDAGraph::replay without a preceding successful capture.")
            if captures:
                captures[0].refuse("a replay", "graphs are no parts of others here")
            if self._capture.failure is not None:
                raise RuntimeError(f"the capture of this graph failed: {self._capture.failure}") from self._capture.failure
            with torch.no_grad(), torch._C.DisableTorchFunction():
                for step in self._capture.steps:
                    step()

        def reset(self) -> None:
            """Forget what was captured, and free its memory."""
            if self._capture in captures:
                self.capture_end()
            self._capture, self._is_captured = None, False

        def pool(self) -> Any:
            return self._pool

        def enable_debug_mode(self) -> None:
            """There is nothing to dump."""

        def debug_dump(self, debug_path: str) -> None:
            raise NotImplementedError("a graph of CUDA that is captured without a GPU has no nodes to dump")

        raw_cuda_graph = raw_cuda_graph_exec = get_graph_data = debug_dump

    CUDAGraph.__module__, CUDAGraph.__qualname__ = "torch.cuda.graphs", "CUDAGraph"
    return CUDAGraph

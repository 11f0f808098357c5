"""Compiles one thing with one library and prints the seconds: compile_once.py TASK LIBRARY MOMENT CACHE.

TASK is "ten-ops" (ten element-wise operations and a reduction on (64, 1024) float32) or "minilm" at (8, 128).
MOMENT is "first", or "later": after the process has compiled another small graph; importing and building the graph are
not counted then (for JAX, tracing is). "process" counts them too, and leaves out only NumPy's import. The first
execution counts, because some libraries defer work until then. CACHE is a folder for joinery's compile cache, or "none".
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from peers import limit_threads

ROOT = Path(__file__).resolve().parents[1]


def warm_up_operations(x: Any, tanh: Any, exp: Any, total: Any) -> Any:
    """Builds another graph with the same kinds of operation, so that everything that loads lazily is loaded."""
    return total(tanh(x) + exp(x))


def ten_operations(x: Any, tanh: Any, exp: Any, total: Any) -> Any:
    y = tanh(x * 2.0 + 1.0) * x
    z = exp(y - 0.5) / (y * y + 1.0)
    return total(z + x)


def joinery_task(task: str, cache: str) -> Callable[[], Any]:
    import joinery as jn
    import numpy as np

    option: Any = False if cache == "none" else cache
    if task == "minilm":
        from cases import load_module

        example = load_module(ROOT / "examples" / "minilm.py")
        graph = example.build(example.model_dir())
        arguments = [np.ones((8, 128), np.int64)] * 2
    else:
        operations = ten_operations if task == "ten-ops" else warm_up_operations
        graph = jn.Graph(task, inputs=[jn.TensorType(jn.float32, (64, 1024), name="x")])
        graph.output(operations(graph.inputs[0], jn.tanh, jn.exp, lambda z: jn.sum(z, axis=-1)))
        arguments = [np.ones((64, 1024), np.float32)]
    return lambda: jn.compile(graph, device="cpu", cache=option)(*arguments)


def onnxruntime_task(task: str) -> Callable[[], Any]:
    import numpy as np
    import onnxruntime
    import peers_onnx
    from cases import load_module
    from peers import onnx_session

    if task == "minilm":
        model = peers_onnx.minilm_standard(load_module(ROOT / "examples" / "minilm.py").model_dir())
        feeds = {name: np.ones((8, 128), np.int64) for name in ("input_ids", "attention_mask")}
    else:
        x = np.ones((64, 1024), np.float32)
        steps: list[Any] = [
            ("Mul", ["x", "two"], {}),
            ("Add", ["-1", "one"], {}),
            ("Tanh", ["-1"], {}),
            ("Mul", ["-1", "x"], {}),
            ("Sub", ["-1", "half"], {}),
            ("Exp", ["-1"], {}),
            ("Mul", ["-3", "-3"], {}),
            ("Add", ["-1", "one"], {}),
            ("Div", ["-3", "-1"], {}),
            ("Add", ["-1", "x"], {}),
            ("ReduceSum", ["-1", "axes"], {"keepdims": 0}),
        ]
        constants = {"two": np.float32(2), "one": np.float32(1), "half": np.float32(0.5)}
        if task != "ten-ops":
            steps = [("Tanh", ["x"], {}), ("Exp", ["x"], {}), ("Add", ["-2", "-1"], {}), steps[-1]]
        model = peers_onnx.single(steps, {"x": x}, constants | {"axes": np.array([-1], np.int64)})
        feeds = {"x": x}
    return lambda: onnx_session(onnxruntime, model, 2).run(None, feeds)


def jax_task(task: str) -> Callable[[], Any]:
    import jax
    import numpy as np

    if task == "minilm":
        import minilm_peers
        from cases import load_module

        model_dir = load_module(ROOT / "examples" / "minilm.py").model_dir()
        function: Any = minilm_peers.jax_minilm(jax, model_dir)
        arguments = [jax.device_put(np.ones((8, 128), np.int32))] * 2
    else:
        jnp = jax.numpy
        operations = ten_operations if task == "ten-ops" else warm_up_operations
        arguments = [jax.device_put(np.ones((64, 1024), np.float32))]

        def function(x: Any) -> Any:
            return operations(x, jnp.tanh, jnp.exp, lambda z: z.sum(axis=-1))

    return lambda: jax.block_until_ready(jax.jit(function)(*arguments))


def prepared(library: str, task: str, cache: str) -> Callable[[], Any]:
    """Returns a function that compiles and runs once; everything before that is done here."""
    if library == "joinery":
        return joinery_task(task, cache)
    return {"onnxruntime": onnxruntime_task, "jax": jax_task}[library](task)


def main() -> None:
    task, library, moment, cache = sys.argv[1:]
    limit_threads(2)
    import numpy  # noqa: F401 - every library needs it

    start = time.perf_counter()
    if moment == "later":
        prepared(library, "warm-up", "none")()
    run = prepared(library, task, cache)
    if moment != "process":
        start = time.perf_counter()
    run()
    print(time.perf_counter() - start)


if __name__ == "__main__":
    main()

"""Compares what runtimes of ONNX compute with what joinery's evaluator does, within stated tolerances."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import joinery as jn
import numpy as np
import onnx

RELATIVE, ABSOLUTE = 16, 8
"""Units in the last place of the result's dtype that a result may be off, of the value and of 1: runtimes approximate
elementary functions (onnxruntime's sigmoid is good to 10⁻⁷), and order sums otherwise. Integers and bools are exact."""
MANTISSAS = {"bfloat16": 7, "float16": 10, "float32": 23, "float64": 52}


def outputs(graph: Any, arrays: Sequence[Any]) -> tuple[Any, ...]:
    """What the evaluator computes, always as a tuple."""
    result = jn.evaluate(graph, *arrays)
    return result if isinstance(result, tuple) else (result,)


def by_reference(model: Any, graph: Any, arrays: Sequence[Any]) -> list[Any]:
    """Run a model in ONNX's own evaluator."""
    from onnx.reference import ReferenceEvaluator

    with np.errstate(all="ignore"):
        found: list[Any] = ReferenceEvaluator(model).run(None, _feeds(graph, arrays))
    return found


def by_onnxruntime(model: Any, graph: Any, arrays: Sequence[Any]) -> list[Any]:
    """Run a model in onnxruntime on the CPU."""
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads, options.log_severity_level = 1, 4
    source = model if isinstance(model, str) else model.SerializeToString()
    session = onnxruntime.InferenceSession(source, options, providers=["CPUExecutionProvider"])
    found: list[Any] = session.run(None, _feeds(graph, arrays))
    return found


def _feeds(graph: Any, arrays: Sequence[Any]) -> dict[str, Any]:
    return {symbol.name: array for symbol, array in zip(graph.inputs, arrays, strict=True)}


def exported(graph: Any, **options: Any) -> Any:
    """The model of a graph, which ONNX's checker accepts with its shapes inferred."""
    model = jn.to_onnx(graph, **options)
    onnx.checker.check_model(model, full_check=True)
    return model


def difference(got: Any, want: Any, dtype: str, factor: float = 1.0) -> str:
    """Return how an array differs from the evaluator's, "" where it agrees. `dtype` is that of the computation."""
    got = np.asarray(got)
    if got.dtype != want.dtype or got.shape != want.shape:
        return f"{got.dtype} {got.shape}, not {want.dtype} {want.shape}"
    if want.dtype.kind in "biu":
        wrong = got != want
    else:
        a, b = got.astype(np.float64), want.astype(np.float64)
        step = factor * 2.0 ** -MANTISSAS.get(dtype, 2)
        with np.errstate(all="ignore"):
            near = np.abs(a - b) <= step * (RELATIVE * np.abs(b) + ABSOLUTE)
        wrong = ~((a == b) | (np.isnan(a) & np.isnan(b)) | near)
    return f"{got[wrong][:4]}, not {want[wrong][:4]}" if np.any(wrong) else ""


def computed_in(graph: Any, number: int = 0) -> str:
    """The dtype that an output was computed in, before the cast to one that runtimes take."""
    symbol = graph.outputs[number]
    return str(symbol.inputs[0].dtype if symbol.op.name == "cast" and symbol.dtype.is_float else symbol.dtype)

"""Models in ONNX's text, and the comparison of what is compiled of them with onnxruntime."""

from __future__ import annotations

from typing import Any

import joinery as jn
import numpy as np
from onnx import numpy_helper, parser


def model(signature: str, body: str, opset: int = 18, **arrays: Any) -> Any:
    domains = f'"": {opset}, "com.microsoft": 1, "ai.onnx.ml": 3'
    made = parser.parse_model(f'<ir_version: 9, opset_import: [{domains}]> g {signature} {{ {body} }}')
    made.graph.initializer.extend([numpy_helper.from_array(np.asarray(array), name) for name, array in arrays.items()])
    return made


def by_onnxruntime(made: Any, feeds: dict[str, Any]) -> list[Any]:
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    return list(onnxruntime.InferenceSession(made.SerializeToString(), options).run(None, feeds))


def agrees(made: Any, *runs: dict[str, Any], tolerance: float = 1e-5) -> Any:
    """One compiled graph that computes what onnxruntime does, for all of these inputs. Returns the graph.

    Integers are equal, but for codes of 8 bits, of which a tie may go to either neighbour.
    """
    graph = jn.from_onnx(made)
    assert not graph.casts()
    compiled = jn.compile(graph, device="cpu", cache=False)
    for feeds in runs:
        _same(made, compiled.run(feeds), feeds, tolerance)
    return graph


def serves(made: Any, *runs: dict[str, Any], tolerance: float = 1e-5) -> Any:
    """What `compile_onnx` returns computes what onnxruntime does, for all of these inputs. Returns the model."""
    compiled: Any = jn.compile_onnx(made, device="cpu", cache=False)
    for feeds in runs:
        _same(made, compiled.run(feeds), feeds, tolerance)
    return compiled


def _same(made: Any, got: dict[str, Any], feeds: dict[str, Any], tolerance: float) -> None:
    for output, found in zip(made.graph.output, by_onnxruntime(made, feeds), strict=True):
        want = np.asarray(found)  # one string comes as one
        assert got[output.name].shape == want.shape
        assert got[output.name].dtype == (object if want.dtype.kind == "U" else want.dtype)
        if want.dtype.kind in "OU":
            assert got[output.name].tolist() == want.tolist()
            continue
        is_code = want.dtype.kind in "iu" and want.dtype.itemsize == 1
        rtol, atol = (0.0, 1.0) if is_code else (tolerance, tolerance)
        np.testing.assert_allclose(got[output.name].astype(float), want.astype(float), rtol, atol)

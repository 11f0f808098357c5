"""Writes programs of ATen operators as JSON and reads them, so that what PyTorch traced is tested without PyTorch."""

from __future__ import annotations

import base64
import json
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from joinery.graph.aten.program import Call, Program, Ref, Source
from joinery.graph.dims.dim import Dim
from joinery.graph.location import Location
from joinery.graph.types import TensorType
from joinery.promotion.dtype import DType

DATA = Path(__file__).resolve().parents[1] / "data" / "aten"


class Recorded(NamedTuple):
    """A program, and what PyTorch computed: for each run arrays of inputs, and arrays of outputs."""

    program: Program
    runs: list[tuple[list[np.ndarray], list[np.ndarray]]]


def written(recorded: Recorded) -> str:
    program = recorded.program
    return json.dumps({
        "name": program.name,
        "sources": [{"name": s.name, "type": _type(s.type), "array": None if s.array is None else _array(s.array)}
                    for s in program.sources],
        "calls": [{"name": c.name, "op": c.op, "arguments": [_value(a) for a in c.arguments],
                   "options": {k: _value(v) for k, v in c.options.items()}, "results": [r and _type(r) for r in c.results],
                   "location": [Path(c.location.file).name, c.location.line, c.location.function]} for c in program.calls],
        "outputs": [[name, _value(value)] for name, value in program.outputs],
        "ranges": {name: list(bounds) for name, bounds in program.ranges.items()},
        "runs": [[[_array(a) for a in arrays] for arrays in run] for run in recorded.runs],
    }, indent=1)  # fmt: skip


def read(path: Path) -> Recorded:
    found = json.loads(path.read_text())
    sources = tuple(Source(s["name"], _type_of(s["type"]), None if s["array"] is None else _array_of(s["array"]))
                    for s in found["sources"])  # fmt: skip
    calls = tuple(
        Call(c["name"], c["op"], tuple(map(_value_of, c["arguments"])), {k: _value_of(v) for k, v in c["options"].items()},
             tuple(r and _type_of(r) for r in c["results"]), Location(*c["location"])) for c in found["calls"]
    )  # fmt: skip
    outputs = tuple((name, _value_of(value)) for name, value in found["outputs"])
    ranges = {name: tuple(bounds) for name, bounds in found["ranges"].items()}
    runs = [tuple([_array_of(a) for a in arrays] for arrays in run) for run in found["runs"]]
    return Recorded(Program(found["name"], sources, calls, outputs, ranges), runs)


def _type(tensor: TensorType) -> list[Any]:
    return [tensor.dtype.name, [str(extent) if isinstance(extent, Dim) else extent for extent in tensor.shape]]


def _type_of(found: list[Any]) -> TensorType:
    return TensorType(found[0], tuple(found[1]))


def _array(array: np.ndarray) -> dict[str, Any]:
    name = DType.from_numpy(array.dtype).name
    content = base64.b64encode(np.ascontiguousarray(array).tobytes()).decode()
    return {"dtype": name, "shape": list(array.shape), "bytes": content}


def _array_of(found: dict[str, Any]) -> np.ndarray:
    return np.frombuffer(base64.b64decode(found["bytes"]), DType(found["dtype"]).numpy).reshape(found["shape"])


def _value(value: Any) -> Any:
    if isinstance(value, Ref):
        return {"ref": value.name, "position": value.position}
    if isinstance(value, Dim):
        return {"size": str(value)}
    if isinstance(value, DType):
        return {"dtype": value.name}
    if isinstance(value, tuple):
        return [_value(each) for each in value]
    return value


def _value_of(found: Any) -> Any:
    if isinstance(found, list):
        return tuple([_value_of(each) for each in found])
    if isinstance(found, dict):
        if "ref" in found:
            return Ref(found["ref"], found["position"])
        return Dim.parse(found["size"]) if "size" in found else DType(found["dtype"])
    return found

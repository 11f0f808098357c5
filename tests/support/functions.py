"""Runs functions of graphs on small inputs, with sizes that are numbers and with names, and compares them with a witness."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import joinery as jn
import numpy as np

Array = np.ndarray[Any, Any]
TORCH = Path(__file__).resolve().parents[1] / "data" / "torch_functions" / "torch.npz"
"""What PyTorch gives, as `record.py` beside it says: "case/name" of inputs, "case/0" and so on of results."""


def recorded(case: str) -> tuple[dict[str, Array], list[Array]]:
    """The inputs of a case by name, and its results."""
    with np.load(TORCH) as record:
        found = {key.rpartition("/")[2]: record[key] for key in record.files if key.rpartition("/")[0] == case}
    assert found, case
    results = [found.pop(str(number)) for number in range(len(found)) if str(number) in found]
    return found, results


def cases(prefix: str) -> list[str]:
    """The names of the recorded cases that begin with this one."""
    with np.load(TORCH) as record:
        found = {key.rpartition("/")[0] for key in record.files}
    return sorted(name for name in found if name.split()[0] == prefix)


def last(x: Array) -> Array:
    """An array (N, C, …) as (N, …, C)."""
    return np.ascontiguousarray(np.moveaxis(x, 1, -1))


def built(
    build: Callable[..., Any], arrays: Sequence[Array], fixed: Sequence[Sequence[int]] | None = None
) -> jn.Graph:
    """A graph of what `build` makes of inputs; axes have names, the same for equal sizes
    of one axis, but for those listed in `fixed`, or for all if it is None."""
    types = []
    for number, array in enumerate(arrays):
        shape: list[int | str] = list(array.shape)
        if fixed is not None:
            shape = [size if axis in fixed[number] else f"s{axis}_{size}" for axis, size in enumerate(array.shape)]
        types.append(jn.TensorType(str(array.dtype), shape, f"x{number}"))
    graph = jn.Graph("g", types)
    results = build(*graph.inputs)
    graph.output(*(results if isinstance(results, (tuple, list)) else (results,)))
    return graph


def agrees(
    graph: jn.Graph, arrays: Sequence[Array], expected: Sequence[Array], rtol: float = 2e-5, atol: float = 2e-6,
    devices: Sequence[str] = ("cpu",),
) -> None:  # fmt: skip
    """Compare the evaluator, and models compiled for devices, with what is right: shapes and dtypes exactly."""
    runs: Mapping[str, Callable[..., Any]] = {
        "evaluator": lambda *given: jn.evaluate(graph, *given),
        **{device: jn.compile(graph, device=device, cache=False) for device in devices},
    }
    for name, run in runs.items():
        found = run(*arrays)
        for one, other in zip(found if isinstance(found, tuple) else (found,), expected, strict=True):
            assert (one.dtype, one.shape) == (other.dtype, other.shape), name
            np.testing.assert_allclose(one, other, rtol=rtol, atol=atol, err_msg=name)

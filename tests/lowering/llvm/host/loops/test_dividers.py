"""Divisions and roots beside other work: whichever instructions compute them, results are IEEE's."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import joinery as jn
import numpy as np
import pytest
from joinery.interface.opening import devices
from joinery.lowering.llvm.compile import host_target
from joinery.lowering.llvm.host.loops import dividers, loop_nests

FUNCTIONS: dict[str, tuple[Callable[[Any, Any], Any], int]] = {
    "a root": (lambda lib, x: lib.sqrt((x * x + 1) * (x - 2) * (x - 2) + 3) * 2 - x, 1),
    "a division by one number": (lambda lib, x: ((x + 1) * x * x + 2 * x) / np.float32(3.3), 1),
    "a division": (lambda lib, x: (x * x + 1) * (x + 2) / (x * x + np.float32(0.5)), 1),
    "alone": (lambda lib, x: x / np.float32(0.7), 0),
    "two of them": (lambda lib, x: (x * x + 1) * (x + 2) / (lib.sqrt(x * x) + 1), 0),
}


@pytest.mark.parametrize("cpu", ["znver4", "other"])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("name", FUNCTIONS)
def test_bits(name: str, dtype: str, cpu: str, monkeypatch: pytest.MonkeyPatch) -> None:
    target = host_target()
    if not target.is_x86:
        pytest.skip("processors that divide fast are x86")
    monkeypatch.setattr(type(target), "divides_beside", property(lambda _self: cpu == "znver4"))
    found: list[bool] = []

    def has_room(*given: Any) -> bool:
        found.append(dividers.has_room(*given))
        return found[-1]

    monkeypatch.setattr(loop_nests, "has_room", has_room)
    monkeypatch.setattr(devices, "host_target", lambda: target)
    function, expected = FUNCTIONS[name]
    for size in (1, 15, 16, 100, 2049):
        x = (np.random.default_rng(size).standard_normal(size) * 100).astype(dtype)
        x[: size // 3] = np.resize([0, -0.0, 1e-38, np.inf, -np.inf, np.nan, 3e38, 1e-44, -2], size // 3)
        graph = jn.Graph("g", [jn.TensorType(dtype, x.shape, "x")])
        graph.output(function(jn, graph.inputs[0]))
        with np.errstate(all="ignore"):
            wanted = function(np, x)
        np.testing.assert_array_equal(jn.compile(graph, device="cpu", cache=False)(x), wanted)
    assert any(found) == (bool(expected) and cpu == "znver4")

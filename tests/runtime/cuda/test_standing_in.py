"""Tests on a device in place of simulated GPUs, as `make test-gpu` runs them; here the device is the fake driver's."""

from __future__ import annotations

from typing import Any

import joinery as jn
import numpy as np
import pytest
from joinery.interface.kernel import Kernel
from joinery.interface.opening import devices

from ...support import on_cuda

ADD = """
tt.func public @add(%p: !tt.ptr<f32>, %n: i32) {
  %i = tt.make_range {start = 0 : i32, end = 16 : i32} : tensor<16xi32>
  %s = tt.splat %p : !tt.ptr<f32> -> tensor<16x!tt.ptr<f32>>
  %a = tt.addptr %s, %i : tensor<16x!tt.ptr<f32>>, tensor<16xi32>
  %x = tt.load %a : tensor<16x!tt.ptr<f32>>
  %y = arith.addf %x, %x : tensor<16xf32>
  tt.store %a, %y : tensor<16x!tt.ptr<f32>>
  tt.return
}
"""


@pytest.fixture
def standing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(devices, "device_of", devices.device_of)
    monkeypatch.setattr(Kernel, "_launch", Kernel._launch)
    on_cuda.install()


@pytest.mark.parametrize(("target", "launches"), [("sm_80", 1), ("sm_90a", 1), ("sm_100a", 0)])
def test_kernels_and_graphs_run_on_the_device(hopper: Any, standing: None, target: str, launches: int) -> None:
    x = np.arange(16, dtype=np.float32)
    jn.kernel.from_ttir(ADD).launch(1, x, 16, device="ptxsim", target=target)
    assert np.array_equal(x, 2.0 * np.arange(16))
    assert len(hopper.named("cuLaunchKernelEx")) == launches
    graph = jn.Graph("g", [jn.TensorType("float32", (16,), "x")])
    graph.output(jn.exp(graph.inputs[0]))
    found = jn.compile(graph, "ptxsim", target=target, cache=False)(np.ones(16, np.float32))
    np.testing.assert_allclose(found, np.e * np.ones(16), rtol=1e-6)
    assert len(hopper.named("cuGraphLaunch")) == launches


def test_what_is_sanitized_stays_simulated(hopper: Any, standing: None) -> None:
    with pytest.raises(jn.JoineryError, match="beyond its end"):
        jn.kernel.from_ttir(ADD).launch(1, np.zeros(15, np.float32), 16, device="ptxsim", sanitize=True)


def test_a_product_over_nothing_has_tensor_maps_that_the_driver_takes(hopper: Any, standing: None) -> None:
    graph = jn.Graph("g", [jn.TensorType("float16", (64, "8*k"), "a"), jn.TensorType("float16", ("8*k", 64), "b")])
    graph.output(graph.inputs[0] @ graph.inputs[1])
    model = jn.compile(graph, "ptxsim", target="sm_90a", cache=False)
    for k in (0, 8):
        found = model(np.ones((64, k), np.float16), np.ones((k, 64), np.float16))
        assert np.array_equal(found, np.full((64, 64), k, np.float16))
    assert len(hopper.named("cuTensorMapEncodeTiled")) == 6

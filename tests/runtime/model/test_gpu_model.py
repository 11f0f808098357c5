"""Models on GPUs: what is allocated, copied, recorded and given back, on a simulated device that keeps count."""

from __future__ import annotations

import gc
from dataclasses import replace
from typing import Any

import joinery as jn
import numpy as np
import pytest
from joinery.interface.compiling import _compiled, _constants
from joinery.lowering.artifact import ArgumentExpression
from joinery.lowering.choices.options import Options
from joinery.lowering.keys import constant_labels
from joinery.lowering.llvm.nvptx.targets import gpu_target
from joinery.promotion.errors import DeviceMemoryError, InternalError
from joinery.runtime.model.gpu_model import MAX_RECORDINGS, GpuBackend, GpuModel
from joinery.runtime.model.model import Model
from joinery.runtime.ptxsim.device import SimulatedGpu


class Counting(SimulatedGpu):
    """Counts what is asked of it; `fail_at`: the allocation that finds no memory."""

    def __init__(self) -> None:
        super().__init__("sm_80")
        self.calls: dict[str, int] = dict.fromkeys(("allocate", "upload", "download", "capture"), 0)
        self.fail_at = 0

    def allocate(self, nbytes: int) -> Any:
        self.calls["allocate"] += 1
        if self.calls["allocate"] == self.fail_at:
            raise DeviceMemoryError("no memory")
        return super().allocate(nbytes)

    def upload(self, *args: Any) -> None:
        self.calls["upload"] += 1
        super().upload(*args)

    def download(self, *args: Any) -> None:
        self.calls["download"] += 1
        super().download(*args)

    def capture(self, record: Any) -> Any:
        self.calls["capture"] += 1
        return super().capture(record)

    @property
    def live(self) -> int:
        return sum(not each.name.startswith("variable") for each in self._allocations)


def model_on(device: SimulatedGpu) -> Model:
    g = jn.Graph("m", [jn.TensorType("float32", ("n", 8), "x"), jn.TensorType("float32", (3,), "y")])
    x, y = g.inputs
    w = np.arange(24, dtype=np.float32).reshape(8, 3) / 8
    g.output((x @ g.weight("w", w) + y).reshape(-1), jn.sum(jn.exp(x), 0))
    compiled = _compiled(g, gpu_target("sm_80"), Options(), False, None, constant_labels(g))
    return Model(compiled, _constants(g, compiled, {}), "", device=GpuBackend(device))


def run(model: Model, n: int, y: float = 1) -> None:
    x = np.random.default_rng(n).standard_normal((n, 8)).astype(np.float32)
    w = np.arange(24, dtype=np.float32).reshape(8, 3) / 8
    first, second = model(x, np.full(3, y, np.float32))
    np.testing.assert_allclose(first, (x @ w + np.float32(y)).ravel(), rtol=1e-5, atol=1e-5)
    np.testing.assert_allclose(second, np.exp(x).sum(0), rtol=1e-5)


def test_constants_are_copied_once_and_launches_recorded_once_per_size() -> None:
    device = Counting()
    model = model_on(device)
    run(model, 4)
    run(model, 4, 2)
    assert device.calls == {"allocate": 2, "upload": 1 + 2 * 2, "download": 2 * 2, "capture": 1}
    run(model, 5)
    assert device.calls["capture"] == 2
    assert device.calls["allocate"] == 3


@pytest.mark.slow
def test_recordings_of_sizes_used_last_are_kept() -> None:
    device = Counting()
    model = model_on(device)
    for n in range(1, MAX_RECORDINGS + 3):
        run(model, n)
        run(model, 1)  # always among the last used ones
    assert device.live == 1 + MAX_RECORDINGS
    captured = device.calls["capture"]
    assert captured == MAX_RECORDINGS + 2
    run(model, 2)
    assert device.calls["capture"] == captured + 1


def test_empty_inputs_and_outputs() -> None:
    device = Counting()
    model = model_on(device)
    run(model, 0)
    assert device.calls["upload"] == 1 + 1
    assert device.calls["download"] == 1


def test_a_model_that_dies_gives_everything_back() -> None:
    device = Counting()
    model = model_on(device)
    run(model, 3)
    assert device.live == 2
    del model
    gc.collect()
    assert device.live == 0


@pytest.mark.one_in(2)
@pytest.mark.parametrize("fail_at", [1, 2])
def test_a_run_that_finds_no_memory_leaves_the_model_usable(fail_at: int) -> None:
    device = Counting()
    model = model_on(device)
    device.fail_at = fail_at
    with pytest.raises(DeviceMemoryError, match="no memory"):
        run(model, 3)
    run(model, 3)
    assert device.live == 2


def test_a_recording_that_fails_leaves_no_memory_behind(monkeypatch: pytest.MonkeyPatch) -> None:
    device = Counting()
    model = model_on(device)
    run(model, 3)
    monkeypatch.setattr(device, "capture", lambda _: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        run(model, 4)
    assert device.live == 2


def test_bound_calls_read_their_inputs_anew() -> None:
    model = model_on(Counting())
    x, y = np.zeros((2, 8), np.float32), np.zeros(3, np.float32)
    bound = model.bind(x, y)
    assert bound()[0].tolist() == [0.0] * 6
    y[:] = [1, 2, 3]
    assert bound()[0].tolist() == [1.0, 2.0, 3.0] * 2


def test_checks_at_run_time_name_what_fails() -> None:
    g = jn.Graph("checked", [jn.TensorType("float32", ("n",), "x"), jn.TensorType("float32", ("m",), "y")])
    x, y = g.inputs
    g.output(x + jn.rebind(y, ("n",)))
    model = jn.compile(g, device="ptxsim", cache=False)
    np.testing.assert_array_equal(model(np.ones(3, np.float32), np.ones(3, np.float32)), np.full(3, 2, np.float32))
    with pytest.raises(jn.UserError, match=r"m must equal n \(n = 3, m = 4\)"):
        model(np.ones(3, np.float32), np.ones(4, np.float32))


def test_host_code_is_not_run_on_gpus() -> None:
    g = jn.Graph("h", [jn.TensorType("float32", (2,), "x")])
    g.output(g.inputs[0] + 1)
    compiled = jn.compile(g, cache=False).compiled
    with pytest.raises(InternalError, match="not for a GPU"):
        GpuModel(compiled, SimulatedGpu("sm_80"))


def test_tensor_maps_are_made_of_what_expressions_say() -> None:
    """Not of words alone, as those of the products that graphs have."""
    g = jn.Graph("p", [jn.TensorType("float16", (64, 64), "a"), jn.TensorType("float16", (64, 64), "b")])
    a, b = g.inputs
    g.output(a @ b)
    compiled = _compiled(g, gpu_target("sm_90a"), Options(), False, None, constant_labels(g))
    assert compiled.gpu is not None
    (code,) = compiled.gpu.kernels

    def model_with(*steps: tuple[str, int, int]) -> Model:
        """The first operand has so many rows."""
        first, *others = code.tensor_maps
        source = replace(first.source, extents=(ArgumentExpression(steps), first.source.extents[1]))
        kernel = replace(code, tensor_maps=(replace(first, source=source), *others))
        changed = replace(compiled, gpu=replace(compiled.gpu, kernels=(kernel,)))
        return Model(changed, [], "", device=GpuBackend(SimulatedGpu("sm_90a")))

    ones = np.ones((64, 64), np.float16)
    found = model_with(("constant", 64, 80), ("constant", 64, 2), ("divsi", 64, 0))(ones, ones)
    assert (found[:40] == 64).all()
    assert (found[40:] == 0).all()
    with pytest.raises(jn.UserError, match="the extents and strides of a tensor map of p have no values"):
        model_with(("constant", 64, 80), ("constant", 64, 0), ("divsi", 64, 0))(ones, ones)


def test_kernels_show_what_a_gpu_runs() -> None:
    g = jn.Graph("k", [jn.TensorType("float16", (256, 64), "a"), jn.TensorType("float16", (64, 256), "b")])
    a, b = g.inputs
    g.output(jn.relu(a @ b))
    (kernel,) = jn.compile(g, device="ptxsim", target="sm_90a", cache=False).kernels
    assert ".target sm_90a" in kernel.ptx
    assert kernel.asm == kernel.ptx
    assert kernel.code is not None
    assert kernel.code.threads % 32 == 0
    assert f".reqntid {kernel.code.threads}" in kernel.ptx
    assert "define ptx_kernel" in kernel.llvm_ir
    assert "tt.dot" in kernel.ttir
    (host,) = jn.compile(g, cache=False).kernels
    with pytest.raises(jn.UserError, match="runs on the CPU and has no PTX"):
        _ = host.ptx


@pytest.mark.slow
def test_saved_models_open_on_either_device(tmp_path: Any) -> None:
    g = jn.Graph("s", [jn.TensorType("float32", ("n", 130), "x")])
    w = np.random.default_rng(0).standard_normal((130, 70)).astype(np.float32)
    g.output(g.inputs[0] @ g.weight("w", w))
    x = np.random.default_rng(1).standard_normal((3, 130)).astype(np.float32)
    path = tmp_path / "s.joinery"
    for saved, opened in (("ptxsim", "cpu"), ("cpu", "ptxsim"), ("ptxsim", "ptxsim")):
        jn.compile(g, device=saved, cache=False).save(path)
        for trusted in (False, True):
            model = jn.load(path, opened, trusted=trusted, cache=False)
            np.testing.assert_allclose(model(x), x @ w, rtol=1e-4, atol=1e-4)


def test_targets_have_cache_entries_of_their_own(tmp_path: Any) -> None:
    g = jn.Graph("c", [jn.TensorType("float32", (40,), "x")])
    g.output(g.inputs[0] * 2)
    for target in ("sm_80", "sm_90a"):
        made = jn.compile(g, device="ptxsim", target=target, cache=tmp_path)
        again = jn.compile(g, device="ptxsim", target=target, cache=tmp_path)
        assert made.compiled == again.compiled
        assert f".target {target}" in again.kernels[0].ptx
    assert len({jn.compile(g, cache=tmp_path).compiled.key, made.compiled.key}) == 2


def test_lowering_twice_gives_the_same_code() -> None:
    def code() -> tuple[str, ...]:
        g = jn.Graph("t", [jn.TensorType("float32", ("n", 40), "x")])
        g.output(jn.softmax(g.inputs[0], -1), g.inputs[0] @ g.inputs[0].T)
        return tuple(kernel.ptx for kernel in jn.compile(g, device="ptxsim", cache=False).kernels)

    assert code() == code()

"""Kernels launched on a CUDA device, on the fake driver: results against NumPy, what goes wrong, and what is left behind."""

from __future__ import annotations

import gc
from typing import Any

import joinery as jn
import ml_dtypes
import numpy as np
import pytest
from joinery.runtime.cuda.device import cuda_device

from ...support.cuda.kernels import ASSERTS, PRINTS, SCALARS, VECTOR_ADD


def kernel(text: str) -> jn.kernel.Kernel:
    return jn.kernel.from_ttir(text, cache=False)


def floats(n: int, seed: int = 0) -> np.ndarray[Any, Any]:
    return np.random.default_rng(seed).standard_normal(n, np.float32)


@pytest.fixture
def nothing_left(fake: Any) -> Any:
    """The fake driver; afterwards no memory, events or graphs may be left."""
    yield fake
    gc.collect()
    if 0 not in fake.dead:
        cuda_device().synchronize()
        assert fake.live() == []
    assert (fake.graphs, fake.executables) == ({}, {})


@pytest.mark.parametrize("n", [0, 1, 255, 256, 257, 1000])
def test_arrays_of_the_host_are_copied_there_and_back(nothing_left: Any, n: int) -> None:
    x, y, out = floats(n, 1), floats(n, 2), np.full(n, np.nan, np.float32)
    guard = np.full(n + 16, 7, np.float32)
    kernel(VECTOR_ADD).launch(((n + 255) // 256,), x, y, guard[8 : 8 + n], n, device="cuda")
    np.testing.assert_array_equal(guard[8 : 8 + n], x + y)
    assert (guard[:8] == 7).all()
    assert (guard[8 + n :] == 7).all()
    kernel(VECTOR_ADD).launch(((n + 255) // 256,), x, y, out, n, device="cuda:0")
    np.testing.assert_array_equal(out, x + y)


def test_only_what_the_kernel_may_write_comes_back(nothing_left: Any) -> None:
    x, y, out = floats(256, 1), floats(256, 2), np.zeros(256, np.float32)
    x.flags.writeable = False
    kernel(VECTOR_ADD).launch((1,), x, y, out, 256, device="cuda")
    assert len(nothing_left.named("cuMemcpyHtoDAsync")) == 3
    assert len(nothing_left.named("cuMemcpyDtoHAsync")) == 1
    out.flags.writeable = False
    with pytest.raises(jn.UserError, match=r"parameter o of type .*: the array is read-only"):
        kernel(VECTOR_ADD).launch((1,), x, y, out, 256, device="cuda")


def test_buffers_are_used_in_place_and_without_waiting(nothing_left: Any) -> None:
    x, y = floats(1000, 1), floats(1000, 2)
    add = kernel(VECTOR_ADD)
    with jn.Buffer(x) as first, jn.Buffer(y) as second, jn.Buffer((1000,)) as out:
        copies = len(nothing_left.named("cuMemcpyHtoDAsync"))
        add.launch((4,), first, second, out, 1000, device="cuda")
        add.launch((4,), out, second, out, 1000, device="cuda")
        assert nothing_left.named("cuStreamSynchronize") == []
        assert len(nothing_left.named("cuMemcpyHtoDAsync")) == copies
        np.testing.assert_array_equal(out.numpy(), (x + y) + y)
    assert len(nothing_left.named("cuModuleLoadDataEx")) == 1


def test_arrays_and_buffers_may_be_mixed(nothing_left: Any) -> None:
    x, y, out = floats(300, 1), floats(300, 2), np.zeros(300, np.float32)
    kernel(VECTOR_ADD).launch((2,), jn.Buffer(x), y, out, 300, device="cuda")
    np.testing.assert_array_equal(out, x + y)


def test_arrays_that_share_memory_share_it_on_the_device(nothing_left: Any) -> None:
    whole = floats(600, 3)
    expected = whole.copy()
    expected[100:356] = whole[:256] + whole[200:456]
    kernel(VECTOR_ADD).launch((1,), whole[:256], whole[200:456], whole[100:356], 256, device="cuda")
    # one program loads all before it stores
    np.testing.assert_array_equal(whole, expected)
    assert len(nothing_left.named("cuMemAllocAsync")) == 1


def test_launches_with_buffers_can_be_recorded(nothing_left: Any) -> None:
    x, add, device = floats(300), kernel(VECTOR_ADD), cuda_device()
    with jn.Buffer(np.zeros(300, np.float32)) as total, jn.Buffer(x) as step:
        with pytest.raises(jn.UserError, match="a kernel is loaded while launches are recorded; fix: do it before"):
            device.capture(lambda: add.launch((2,), total, step, total, 300, device="cuda"))
        with pytest.raises(jn.UserError, match="memory is allocated while launches are recorded"):
            device.capture(lambda: add.launch((2,), total, x, total, 300, device="cuda"))
        add.launch((2,), total, step, total, 300, device="cuda")
        recording = device.capture(lambda: add.launch((2,), total, step, total, 300, device="cuda"))
        recording.replay()
        recording.replay()
        np.testing.assert_array_equal(total.numpy(), (x + x) + x)
        recording.free()


def test_scalars_of_every_kind(nothing_left: Any) -> None:
    values = [True, -5, -12345, -(1 << 31), (1 << 63) - 1, 1.5, -3.0e38, 3.14159, 2.718281828459045]
    dtypes = [np.int8, np.int8, np.int16, np.int32, np.int64, np.float16, ml_dtypes.bfloat16, np.float32, np.float64]
    arrays = [np.zeros(1, dtype) for dtype in dtypes]
    kernel(SCALARS).launch((1,), *values, *arrays, device="cuda")
    for value, array in zip(values, arrays, strict=True):
        np.testing.assert_array_equal(array, np.array([value]).astype(array.dtype))
    values = [False, 127, 1, 16, -16, float("inf"), float("nan"), -0.0, 5e-324]
    kernel(SCALARS).launch((1,), *values, *arrays, device="cuda")
    for value, array in zip(values, arrays, strict=True):
        expected = np.array([value]).astype(array.dtype)
        assert array.tobytes() == expected.tobytes() or np.isnan(value)
    assert np.isnan(arrays[6].astype(np.float32)[0])


def test_numbers_that_do_not_fit_are_refused(nothing_left: Any) -> None:
    x = floats(4)
    with pytest.raises(jn.UserError, match="parameter n of type i32: 4294967296 does not fit into 32 bits"):
        kernel(VECTOR_ADD).launch((1,), x, x, x, 1 << 32, device="cuda")
    with pytest.raises(jn.UserError, match="takes 4 arguments, got 2"):
        kernel(VECTOR_ADD).launch((1,), x, x, device="cuda")
    with pytest.raises(jn.UserError, match="dtype float64 of 8 bytes, expected elements of 4"):
        kernel(VECTOR_ADD).launch((1,), x.astype(np.float64), x, x, 4, device="cuda")
    with pytest.raises(jn.UserError, match="the buffer has dtype float64 of 8 bytes, expected elements of 4"):
        kernel(VECTOR_ADD).launch((1,), jn.Buffer((4,), jn.float64), x, x, 4, device="cuda")


def test_pointer_tables_hold_addresses_of_the_device(nothing_left: Any) -> None:
    text = """
    tt.func public @gather(%t: !tt.ptr<i64>, %o: !tt.ptr<f32>) {
      %one = arith.constant 1 : i32
      %p = tt.get_program_id x : i32
      %a = tt.addptr %t, %p : !tt.ptr<i64>, i32
      %w = tt.load %a : !tt.ptr<i64>
      %q = tt.int_to_ptr %w : i64 -> !tt.ptr<f32>
      %r = tt.addptr %q, %one : !tt.ptr<f32>, i32
      %v = tt.load %r : !tt.ptr<f32>
      %d = tt.addptr %o, %p : !tt.ptr<f32>, i32
      tt.store %d, %v : !tt.ptr<f32>
      %n = arith.negf %v : f32
      tt.store %r, %n : !tt.ptr<f32>
      tt.return
    }
    """
    tables = [floats(3, seed) for seed in range(3)]
    expected = np.array([array[1] for array in tables])
    out = np.zeros(3, np.float32)
    kernel(text).launch((3,), jn.PointerTable(tables), out, device="cuda")
    np.testing.assert_array_equal(out, expected)
    np.testing.assert_array_equal([array[1] for array in tables], -expected)


def test_a_failed_assertion_names_the_kernel_and_ends_the_device(nothing_left: Any) -> None:
    out = np.zeros(1, np.int32)
    checked = kernel(ASSERTS)
    checked.launch((1,), out, 4, device="cuda")
    assert out[0] == 4
    with pytest.raises(jn.KernelAssertionError, match=r"an assertion of @checked fails in a launch .*: n is below five"):
        checked.launch((2,), out, 5, device="cuda")
    with pytest.raises(jn.DeviceError, match=r"lost to this process since an earlier error.*CUDA_ERROR_ASSERT"):
        checked.launch((1,), out, 4, device="cuda")


def test_prints_are_waited_for(nothing_left: Any) -> None:
    kernel(PRINTS).launch((2,), -7, device="cuda")
    assert nothing_left.printed.count("n: -7") == 2


def test_a_kernel_that_leaves_its_arrays(nothing_left: Any) -> None:
    short = floats(10)
    with pytest.raises(jn.DeviceError, match=r"CUDA_ERROR_ILLEGAL_ADDRESS.*on their way were: @add on grid"):
        kernel(VECTOR_ADD).launch((4,), short, short, short, 1000, device="cuda")


def test_memory_is_freed_after_errors(nothing_left: Any) -> None:
    x, out = floats(256), np.zeros(256, np.float32)
    add = kernel(VECTOR_ADD)
    for name, code in (
        ("cuMemAllocAsync", 1), ("cuMemcpyHtoDAsync", 1), ("cuModuleLoadDataEx", 218), ("cuModuleGetFunction", 500),
        ("cuLaunchKernelEx", 701), ("cuMemcpyDtoHAsync", 1),
    ):  # fmt: skip
        nothing_left.fail(name, code)
        with pytest.raises(jn.DeviceError) as caught:
            add.launch((1,), x, x.copy(), out, 256, device="cuda")
        assert caught.tb is not None  # which keeps the frames: memory is freed, not left to their end
        cuda_device().synchronize()
        assert nothing_left.live() == []
    add.launch((1,), x, x, out, 256, device="cuda")
    np.testing.assert_array_equal(out, x + x)


def test_out_of_memory_in_the_third_allocation(nothing_left: Any) -> None:
    big = np.zeros(3 << 18, np.float32)
    with pytest.raises(jn.DeviceMemoryError, match="3145728 bytes of memory were asked for, 2097152 of 8388608 are free"):
        kernel(VECTOR_ADD).launch((1,), big, big.copy(), big.copy(), 1, device="cuda")


def test_a_small_grid_is_all_there_is_to_nothing(nothing_left: Any) -> None:
    x = floats(4)
    kernel(VECTOR_ADD).launch((0, 3), x, x, x, 4, device="cuda")
    assert nothing_left.named("cuMemAllocAsync", "cuModuleLoadDataEx") == []


def test_grids_beyond_the_limits(nothing_left: Any) -> None:
    x = floats(4)
    with pytest.raises(jn.UserError, match="65536 programs along y; cuda takes 65535 at most"):
        kernel(VECTOR_ADD).launch((1, 65536), x, x, x, 4, device="cuda")


def test_a_buffer_of_another_device_is_refused(install: Any) -> None:
    install(devices=2)
    there = jn.Buffer(floats(4), device="cuda:1")
    with pytest.raises(jn.UserError, match=r"<Buffer float32\[4\] on cuda:1> does not lie on cuda, .*fix: device='cuda:1'"):
        kernel(VECTOR_ADD).launch((1,), there, there, there, 4, device="cuda")
    kernel(VECTOR_ADD).launch((1,), there, there, there, 4, device="cuda:1")
    np.testing.assert_array_equal(there.numpy(), floats(4) * 2)


def test_a_kernel_runs_on_every_device(install: Any) -> None:
    fake = install(devices=2)
    add, x, out = kernel(VECTOR_ADD), floats(5), np.zeros(5, np.float32)
    for name in ("cuda", "cuda:1", "cuda", "cuda:1"):
        out[:] = 0
        add.launch((1,), x, x, out, 5, device=name)
        np.testing.assert_array_equal(out, x + x)
    assert len(fake.named("cuModuleLoadDataEx")) == 2


def test_code_is_made_for_the_device(install: Any) -> None:
    fake = install(capability=(9, 0))
    x = floats(5)
    kernel(VECTOR_ADD).launch((1,), x, x, x, 5, device="cuda")
    assert b".target sm_90a" in fake.named("cuModuleLoadDataEx")[0][1][0]


def test_auto_is_the_device_there_is(fake: Any) -> None:
    x, out = floats(5), np.zeros(5, np.float32)
    kernel(VECTOR_ADD).launch((1,), x, x, out, 5, device="auto")
    np.testing.assert_array_equal(out, x + x)
    assert len(fake.named("cuLaunchKernelEx")) == 1


def test_auto_is_the_cpu_without_a_device(install: Any) -> None:
    fake = install(devices=0)
    x, out = floats(5), np.zeros(5, np.float32)
    kernel(VECTOR_ADD).launch((1,), x, x, out, 5, device="auto")
    np.testing.assert_array_equal(out, x + x)
    assert fake.named("cuLaunchKernelEx") == []


def test_without_a_device_nothing_is_compiled(install: Any) -> None:
    install(devices=0)
    add = kernel(VECTOR_ADD)
    with pytest.raises(jn.DeviceError, match="there is no device cuda:0"):
        add.launch((1,), device="cuda")
    assert "_gpu" not in vars(add)


def test_options_of_other_devices_are_refused(fake: Any) -> None:
    x = floats(4)
    with pytest.raises(jn.UnsupportedError, match="target 'sm_90a' on cuda, whose own is sm_80"):
        kernel(VECTOR_ADD).launch((1,), x, x, x, 4, device="cuda", target="sm_90a")
    with pytest.raises(jn.UnsupportedError, match="sanitize=True on a CUDA device; fix: "):
        kernel(VECTOR_ADD).launch((1,), x, x, x, 4, device="cuda", sanitize=True)


def test_how_many_warps_run_a_program(fake: Any) -> None:
    add, x = kernel(VECTOR_ADD), floats(300)
    for device, options in (("cuda", {}), ("ptxsim", {"target": "sm_80"})):
        for warps in (1, 2, 8):
            out = np.zeros(300, np.float32)
            add.launch((2,), x, x, out, 300, device=device, warps=warps, **options)
            np.testing.assert_array_equal(out, x + x)
    assert [args[2] for _, args in fake.named("cuLaunchKernelEx")] == [32, 64, 256]
    for wrong in (0, 3, 64):
        with pytest.raises(jn.UserError, match=f"{wrong} warps for a program; fix: one of 1, 2, 4, 8, 16, 32"):
            add.launch((2,), x, x, x, 300, device="cuda", warps=wrong)


def test_a_descriptor_that_goes_to_no_map_is_refused_alike_on_every_device(fake: Any) -> None:
    text = "module {\n  tt.func public @k(%x: !tt.ptr<f32>, %n: i32) {\n    tt.return\n  }\n}\n"
    array, kernel = np.zeros((4, 4), np.float32), jn.kernel.from_ttir(text)
    for device in ("cpu", "ptxsim", "cuda"):
        with pytest.raises(jn.UserError, match=r"parameter x of type !tt.ptr<f32>: .* does not go to this parameter"):
            kernel.launch((1,), jn.TensorDescriptor(array), 3, device=device)
        with pytest.raises(jn.UserError, match=r"parameter n of type i32: expected a number, got TensorDescriptor"):
            kernel.launch((1,), array, jn.TensorDescriptor(array), device=device)

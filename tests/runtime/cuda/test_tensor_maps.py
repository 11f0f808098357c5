"""Tensor maps in launches on a CUDA device of capability 9.0: on the fake driver, which takes what the real one documents and
whose kernels read the maps."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import joinery as jn
import ml_dtypes
import numpy as np
import pytest
from joinery.lowering.artifact import TensorMap, TensorSource
from joinery.runtime.cuda.device import cuda_device
from joinery.runtime.cuda.driver import CudaFailure

from ...support.cuda.exporting import Exporter

TEXT = (Path(__file__).parents[3] / "benchmarks" / "kernels" / "gpu_matmul_described_f16.ttir").read_text()
DTYPES = {"f16": np.float16, "f32": np.float32, "bf16": ml_dtypes.bfloat16, "i8": np.int8, "i16": np.int16, "i32": np.int32,
          "i64": np.int64, "f64": np.float64, "f8E5M2": ml_dtypes.float8_e5m2}  # fmt: skip


def copy(shape: str, elem: str, rank: int = 2) -> jn.kernel.Kernel:
    """Copies one block, two columns to the left."""
    desc, block, leading = f"!tt.tensordesc<{shape}x{elem}>", f"tensor<{shape}x{elem}>", "%zero, " * (rank - 1)
    return jn.kernel.from_ttir(f"""
    tt.func public @copy(%a: {desc}, %b: {desc}) {{
      %zero = arith.constant 0 : i32
      %two = arith.constant 2 : i32
      %v = tt.descriptor_load %a[{leading}%two] : {desc} -> {block}
      tt.descriptor_store %b[{leading}%zero], %v : {desc}, {block}
      tt.return
    }}""", cache=False)  # fmt: skip


def has_maps(fake: Any, number: int = -1) -> bool:
    return b"bulk.tensor" in fake.named("cuModuleLoadDataEx")[number][1][0]


def whole(shape: tuple[int, ...], seed: int, dtype: Any = np.float16) -> Any:
    return np.random.default_rng([seed, *shape]).integers(-2, 3, shape).astype(dtype)


@pytest.mark.one_in(4)
@pytest.mark.parametrize(("m", "n", "k"), [(128, 128, 64), (200, 136, 328), (64, 264, 8), (129, 8, 72)])
def test_a_product_of_arrays_of_the_host(hopper: Any, m: int, n: int, k: int) -> None:
    a, b, c = whole((m, k), 1), whole((k, n), 2), np.full((m, n), 77, np.float16)
    descriptors = [jn.TensorDescriptor(each) for each in (a, b, c)]
    grid = (-(-m // 128), -(-n // 128))
    jn.kernel.from_ttir(TEXT, cache=False).launch(grid, *descriptors, k, device="cuda")
    np.testing.assert_array_equal(c, (a.astype(np.float32) @ b.astype(np.float32)).astype(np.float16))
    assert has_maps(hopper)
    assert len(hopper.named("cuTensorMapEncodeTiled")) == 3


def test_a_product_of_buffers_makes_every_map_once(hopper: Any) -> None:
    a, b = whole((96, 72), 1), whole((72, 160), 2)
    matmul = jn.kernel.from_ttir(TEXT, cache=False)
    with jn.Buffer(a) as first, jn.Buffer(b) as second, jn.Buffer((96, 160), np.float16) as out:
        descriptors = [jn.TensorDescriptor(each) for each in (first, second, out)]
        for _ in range(3):
            matmul.launch((1, 2), *descriptors, 72, device="cuda")
        assert len(hopper.named("cuTensorMapEncodeTiled")) == 3
        assert hopper.named("cuStreamSynchronize") == []
        np.testing.assert_array_equal(out.numpy(), (a.astype(np.float32) @ b.astype(np.float32)).astype(np.float16))
        smaller = jn.TensorDescriptor(out, (90, 160))
        out.copy_from(np.full((96, 160), 5, np.float16))
        matmul.launch((1, 2), *descriptors[:2], smaller, 72, device="cuda")
        assert (out.numpy()[90:] == 5).all()
        assert len(hopper.named("cuTensorMapEncodeTiled")) == 4
    with pytest.raises(jn.UserError, match=r"<Buffer float16\[96, 72\] on cuda, freed> is used; fix: free it later"):
        matmul.launch((1, 2), *descriptors, 72, device="cuda")


@pytest.mark.one_in(4)
@pytest.mark.parametrize(
    ("shape", "elem"),
    [((16, 64), "f16"), ((16, 64), "bf16"), ((4, 8), "f32"), ((8, 256), "f32"), ((16, 16), "f64"), ((512, 16), "i8"),
     ((16, 32), "i16"), ((32, 16), "i32"), ((8, 16), "i64"), ((16, 32), "f8E5M2"), ((1, 1, 8, 32), "f32"),
     ((1, 1, 1, 8, 16), "bf16")],
)  # fmt: skip
@pytest.mark.parametrize(("padding", "on_device"), [("zero", False), ("nan", True)])
def test_blocks_are_copied(hopper: Any, shape: tuple[int, ...], elem: str, padding: str, on_device: bool) -> None:
    """Swizzled or not, in one box or several, partly outside the tensor."""
    dtype = np.dtype(DTYPES[elem])
    padding = "zero" if dtype.kind == "i" else padding
    extents = (*shape[:-1], shape[-1] + 16)
    source = np.arange(1, np.prod(extents) + 1).astype(np.int8).astype(dtype).reshape(extents)
    target, expected = np.zeros(extents, dtype), np.zeros(extents, dtype)
    described = {"shape": (*shape[:-2], shape[-2] - 1, shape[-1]), "padding": padding,
                 "strides": [each // dtype.itemsize for each in source.strides]}  # fmt: skip
    kernel = copy("x".join(map(str, shape)), elem, len(shape))
    kernel.interpret((1,), jn.TensorDescriptor(source, **described), jn.TensorDescriptor(expected))
    if on_device:
        with jn.Buffer(source) as first, jn.Buffer(target) as second:
            kernel.launch((1,), jn.TensorDescriptor(first, **described), jn.TensorDescriptor(second), device="cuda")
            target = second.numpy()
    else:
        kernel.launch((1,), jn.TensorDescriptor(source, **described), jn.TensorDescriptor(target), device="cuda")
    np.testing.assert_array_equal(target.astype(np.float64), expected.astype(np.float64))
    assert has_maps(hopper)
    made = len(hopper.named("cuTensorMapEncodeTiled"))
    assert made == (1 if padding == "nan" and dtype.itemsize == 1 else 2)  # there is no NaN of fp8 to fill with


def flat(shape: tuple[int, ...], strides: tuple[int, ...], first: int = 0) -> tuple[Any, tuple[int, ...], tuple[int, ...]]:
    """An array, which lies in another one at an offset, shape and strides."""
    return np.arange(1 << 12, dtype=np.float32)[first:], shape, strides


@pytest.mark.one_in(2)
@pytest.mark.parametrize(
    ("source", "fits"),
    [
        (flat((16, 32), (32, 1)), True),
        (flat((16, 32), (36, 1)), True),  # rows apart
        (flat((16, 32), (32, 1), 4), True),
        (flat((16, 32), (32, 1), 1), False),  # its address
        (flat((16, 30), (30, 1)), False),  # its stride
        (flat((32, 16), (1, 32)), False),  # its order
        (flat((0, 32), (32, 1)), False),
        (flat((16, 32), (0, 1)), False),
        (flat((16, 32), (16, 1)), False),  # rows that overlap
        (flat((1, 32), (16, 1)), True),  # only one row
    ],
)
def test_other_tensors_are_reached_by_pointers(hopper: Any, source: Any, fits: bool) -> None:
    kernel, expected, target = copy("8x32", "f32"), np.zeros((8, 32), np.float32), np.zeros((8, 32), np.float32)
    kernel.interpret((1,), jn.TensorDescriptor(*source), jn.TensorDescriptor(expected))
    kernel.launch((1,), jn.TensorDescriptor(*source), jn.TensorDescriptor(target), device="cuda")
    np.testing.assert_array_equal(target, expected)
    assert len(hopper.named("cuTensorMapEncodeTiled")) == 1 + fits
    with jn.Buffer(source[0]) as there, jn.Buffer((8, 32)) as out:
        kernel.launch((1,), jn.TensorDescriptor(there, *source[1:]), jn.TensorDescriptor(out), device="cuda")
        np.testing.assert_array_equal(out.numpy(), expected)


def test_tensors_that_share_memory_are_reached_by_pointers(hopper: Any) -> None:
    array = np.arange(32 * 32, dtype=np.float32).reshape(32, 32)
    kernel, expected = copy("8x32", "f32"), array.copy()
    kernel.interpret((1,), jn.TensorDescriptor(expected), jn.TensorDescriptor(expected[4:]))
    with jn.Buffer(array) as there:
        kernel.launch((1,), jn.TensorDescriptor(there), jn.TensorDescriptor(there, (28, 32)), device="cuda")
    assert not hopper.named("cuTensorMapEncodeTiled")
    kernel.launch((1,), jn.TensorDescriptor(array), jn.TensorDescriptor(array[4:]), device="cuda")
    np.testing.assert_array_equal(array, expected)
    assert not hopper.named("cuTensorMapEncodeTiled")
    kernel.launch((1,), jn.TensorDescriptor(array[:8]), jn.TensorDescriptor(array[16:]), device="cuda")
    assert len(hopper.named("cuTensorMapEncodeTiled")) == 2


def test_a_pointer_to_the_tensor_is_noticed(hopper: Any) -> None:
    """Between accesses through a pointer and copies nothing would keep the order."""
    text = """
    tt.func public @f(%a: !tt.tensordesc<8x32xf32>, %o: !tt.ptr<f32>) {
      %zero = arith.constant 0 : i32
      %c = arith.constant 9.0 : f32
      tt.store %o, %c : !tt.ptr<f32>
      %v = tt.descriptor_load %a[%zero, %zero] : !tt.tensordesc<8x32xf32> -> tensor<8x32xf32>
      %s = "tt.reduce"(%v) <{axis = 0 : i32}> ({
      ^bb0(%x: f32, %y: f32):
        %z = arith.addf %x, %y : f32
        tt.reduce.return %z : f32
      }) : (tensor<8x32xf32>) -> tensor<32xf32>
      %r = tt.make_range {start = 0 : i32, end = 32 : i32} : tensor<32xi32>
      %p = tt.splat %o : !tt.ptr<f32> -> tensor<32x!tt.ptr<f32>>
      %q = tt.addptr %p, %r : tensor<32x!tt.ptr<f32>>, tensor<32xi32>
      tt.store %q, %s : tensor<32x!tt.ptr<f32>>
      tt.return
    }
    """
    kernel = jn.kernel.from_ttir(text, cache=False)
    ones = np.ones((8, 32), np.float32)
    with jn.Buffer(ones) as there, jn.Buffer((32,)) as out:
        for exported, maps in ((there, 0), (Exporter(there), 0), (out, 1), (Exporter(out), 2)):
            there.copy_from(ones)
            kernel.launch((1,), jn.TensorDescriptor(there), exported, device="cuda")
            assert len(hopper.named("cuTensorMapEncodeTiled")) == maps
            result = (there if maps == 0 else out).numpy().reshape(-1)[:32]
            np.testing.assert_array_equal(result, [16 if maps == 0 and n == 0 else 8 for n in range(32)])


def test_arrays_of_other_libraries(hopper: Any) -> None:
    a, b = whole((64, 72), 1), whole((72, 128), 2)
    matmul = jn.kernel.from_ttir(TEXT, cache=False)
    first, second, out = jn.Buffer(a), jn.Buffer(b), jn.Buffer((64, 128), np.float16)
    shared = [Exporter(each) for each in (first, second, out)]
    descriptors = [jn.TensorDescriptor(each) for each in shared]
    matmul.launch((1, 1), *descriptors, 72, device="cuda")
    assert hopper.named("cuStreamSynchronize")  # the other library has an order of its own
    matmul.launch((1, 1), *descriptors, 72, device="cuda")
    assert len(hopper.named("cuTensorMapEncodeTiled")) == 3
    np.testing.assert_array_equal(out.numpy(), (a.astype(np.float32) @ b.astype(np.float32)).astype(np.float16))
    shared[0].buffer = second
    with pytest.raises(jn.UserError, match=r"parameter a .*: the memory of its Exporter has moved since it was described"):
        matmul.launch((1, 1), *descriptors, 72, device="cuda")


def test_tables_of_arrays_on_the_device(hopper: Any) -> None:
    text = """
    tt.func public @gather(%t: !tt.ptr<i64>, %o: !tt.ptr<f32>) {
      %p = tt.get_program_id x : i32
      %a = tt.addptr %t, %p : !tt.ptr<i64>, i32
      %w = tt.load %a : !tt.ptr<i64>
      %q = tt.int_to_ptr %w : i64 -> !tt.ptr<f32>
      %v = tt.load %q : !tt.ptr<f32>
      %n = arith.negf %v : f32
      tt.store %q, %n : !tt.ptr<f32>
      %d = tt.addptr %o, %p : !tt.ptr<f32>, i32
      tt.store %d, %v : !tt.ptr<f32>
      tt.return
    }
    """
    kernel, out, host = jn.kernel.from_ttir(text, cache=False), np.zeros(3, np.float32), np.full(1, 7, np.float32)
    with jn.Buffer(np.full(4, 3, np.float32)) as one, jn.Buffer(np.full(2, 5, np.float32)) as two:
        table = jn.PointerTable([one, host, Exporter(two)])
        kernel.launch((3,), table, out, device="cuda")
        assert (one.numpy()[0], host[0], two.numpy()[0]) == (-3, -7, -5)
    np.testing.assert_array_equal(out, [3, 7, 5])
    for run in (kernel.interpret, kernel.launch):
        with pytest.raises(jn.UserError, match=r"PointerTable, array 0: .* lies on cuda; fix: launch there, or pass a NumPy"):
            run((3,), table, out)
    with pytest.raises(jn.UserError, match="freed"):
        kernel.launch((3,), table, out, device="cuda")


def test_what_lies_on_a_device_stays_there(hopper: Any) -> None:
    kernel = copy("8x32", "f32")
    target = jn.TensorDescriptor(np.zeros((8, 32), np.float32))
    with jn.Buffer((8, 32)) as there:
        source = jn.TensorDescriptor(there)
        assert repr(source) == "<TensorDescriptor float32: shape (8, 32), strides (32, 1), padding zero>"
        runs = [kernel.interpret, kernel.launch, kernel.sanitize, lambda *args: kernel.launch(*args, device="ptxsim")]
        for run in runs:
            with pytest.raises(jn.UserError, match=r"TensorDescriptor: <Buffer .* lies on cuda; fix: launch there, or pass a"):
                run((1,), source, target)
        with pytest.raises(jn.UserError, match=r"the array has dtype float32 of 4 bytes, expected elements of 2"):
            copy("8x32", "f16").launch((1,), source, target, device="cuda")
        with pytest.raises(jn.UserError, match=r"shape \(9, 32\) with strides \(32, 1\) reaches element 287, the array has"):
            jn.TensorDescriptor(there, (9, 32))
    with pytest.raises(jn.UserError, match="expected a NumPy array, got list"):
        jn.TensorDescriptor([[1.0]])


def test_read_only_arrays_are_read(hopper: Any) -> None:
    kernel = copy("8x32", "f32")
    source = np.ones((8, 64), np.float32)
    source.flags.writeable = False
    target = np.zeros((8, 32), np.float32)
    kernel.launch((1,), jn.TensorDescriptor(source), jn.TensorDescriptor(target), device="cuda")
    assert (target == 1).all()
    with pytest.raises(jn.UserError, match=r"parameter b .*: the array is read-only"):
        kernel.launch((1,), jn.TensorDescriptor(target), jn.TensorDescriptor(source), device="cuda")


def test_recordings_have_maps_of_their_own(hopper: Any) -> None:
    """A launch with other maps in between changes nothing."""
    device, kernel = cuda_device(), copy("8x32", "f32")
    loaded = device.load(kernel.gpu_code("sm_90a", tensor_maps=True).kernel)

    def words(source: jn.Buffer, target: jn.Buffer) -> list[int]:
        found: list[int] = []
        for each in (source, target):
            found += [each.address, 8, 32, 32, 1, 0]
        for facts, each in zip(loaded.code.tensor_maps, (source, target), strict=True):
            found.append(device.tensor_map(facts, each.address, (8, 32), (32, 1)))
        return found

    first, second = (jn.Buffer(np.full((8, 32), value, np.float32)) for value in (1, 2))
    out, other = jn.Buffer(np.zeros((8, 32), np.float32)), jn.Buffer(np.zeros((8, 32), np.float32))
    recording = device.capture(lambda: device.launch(loaded, (1, 1, 1), words(first, out)))
    device.launch(loaded, (1, 1, 1), words(second, other))
    recording.replay()
    assert (out.numpy()[:, :30] == 1).all()
    assert (other.numpy()[:, :30] == 2).all()
    recording.free()




def facts(element: str = "f16", box: tuple[int, ...] = (64, 64), swizzle: int = 128) -> TensorMap:
    return TensorMap(TensorSource.of_parts(0, len(box)), element, box, swizzle)


FACTS = facts()
REFUSED = [
    (FACTS, 8, (64, 64), (64, 1), False, "its address is no multiple of 16"),
    (FACTS, 0, (64, 64), (64, 1), False, "its address"),
    (FACTS, 4096, (64, 64), (64, 2), False, "its last stride is not 1; fix: a copy"),
    (FACTS, 4096, (64, 64), (68, 1), False, r"strides of \(136,\) bytes are not all multiples of 16; fix: pad its rows"),
    (FACTS, 4096, (64, 64), (1 << 39, 1), False, r"strides of \(1099511627776,\) bytes; fix: above 0 and below 2\*\*40"),
    (FACTS, 4096, (64, 64), (-64, 1), False, "fix: above 0"),
    (FACTS, 4096, (64, 0), (64, 1), False, r"its extents; fix: from 1 to 2\*\*32"),
    (FACTS, 4096, ((1 << 32) + 1, 8), (8, 1), False, "its extents"),
    (facts(box=(512, 64)), 4096, (64, 64), (64, 1), False, r"boxes of \(512, 64\); fix: extents of at most 256"),
    (facts(box=(8, 4), swizzle=0), 4096, (64, 64), (64, 1), False, "boxes of 8 bytes along the last axis; fix: a multiple"),
    (facts(box=(8, 64), swizzle=64), 4096, (64, 64), (64, 1), False, "boxes of 128 bytes along the last axis, swizzled by 64"),
    (facts("i16"), 4096, (64, 64), (64, 1), True, "padding with NaN of i16 elements; fix: zeros"),
    (facts(box=(1,) * 5 + (64,)), 4096, (1,) * 5 + (64,), (64,) * 5 + (1,), False, "6 axes; fix: 1 to 5"),
]  # fmt: skip


@pytest.mark.parametrize(("facts", "address", "extents", "strides", "nan", "message"), REFUSED)
def test_tensors_without_a_map(
    hopper: Any, facts: Any, address: int, extents: Any, strides: Any, nan: bool, message: str
) -> None:
    """They are refused before the driver is asked, which would refuse all but the first two kinds of them too."""
    device = cuda_device()
    with pytest.raises(jn.UserError, match=rf"a tensor of shape .* has no tensor map: .*{message}"):
        device.tensor_map(facts, address, extents, strides, nan)
    assert not hopper.named("cuTensorMapEncodeTiled")
    assert device.tensor_map(FACTS, 4096, (64, 64), (64, 1)) > 0


def test_what_the_driver_says_all_the_same(hopper: Any) -> None:
    hopper.fail("cuTensorMapEncodeTiled", 1)
    with pytest.raises(jn.DeviceError, match=r"cuda, making a tensor map: CUDA_ERROR_INVALID_VALUE \(1\)") as caught:
        cuda_device().tensor_map(FACTS, 4096, (64, 64), (64, 1))
    assert isinstance(caught.value.__cause__, CudaFailure)


def test_memory_is_given_back_when_a_map_fails(hopper: Any) -> None:
    hopper.fail("cuTensorMapEncodeTiled", 1, 2)
    array = np.zeros((8, 32), np.float32)
    with pytest.raises(jn.DeviceError, match="making a tensor map"):
        copy("8x32", "f32").launch((1,), jn.TensorDescriptor(array), jn.TensorDescriptor(array.copy()), device="cuda")


def test_older_devices_have_none(install: Any) -> None:
    fake = install(capability=(8, 0))
    source, target = np.ones((8, 64), np.float32), np.zeros((8, 32), np.float32)
    copy("8x32", "f32").launch((1,), jn.TensorDescriptor(source), jn.TensorDescriptor(target), device="cuda")
    assert (target == 1).all()
    assert not has_maps(fake)
    with pytest.raises(jn.UserError, match=r"cuda \(Fake GPU 0\) has no tensor maps; they came with compute capability 9.0"):
        cuda_device().tensor_map(FACTS, 4096, (64, 64), (64, 1))


def test_small_tensors_with_gaps_get_none_on_newer_devices(install: Any) -> None:
    fake = install(capability=(10, 0), version=12080)
    kernel, target = copy("8x32", "f32"), np.zeros((8, 32), np.float32)
    for shape, maps in (((8, 32), 2), ((1024, 64), 4), ((8, 64), 5)):
        source = np.ones(shape, np.float32)
        described = jn.TensorDescriptor(source, (8, 32), (shape[1], 1))
        kernel.launch((1,), described, jn.TensorDescriptor(target), device="cuda")
        assert (target[:, :30] == 1).all()
        assert len(fake.named("cuTensorMapEncodeTiled")) == maps


def test_time_on_the_device(hopper: Any) -> None:
    device, kernel = cuda_device(), copy("8x32", "f32")
    with jn.Buffer((8, 32)) as source, jn.Buffer((8, 32)) as target:
        arguments = jn.TensorDescriptor(source), jn.TensorDescriptor(target)
        kernel.launch((1,), *arguments, device="cuda")
        twice = device.time(lambda: [kernel.launch((1,), *arguments, device="cuda") for _ in range(2)], 3)
        assert twice == [2.0, 2.0, 2.0]
        assert device.time(lambda: target.copy_from(source)) == [1.0]
        assert device.time(lambda: None, 0) == []
        with pytest.raises(jn.UserError, match="time is taken while launches are recorded"):
            device.capture(lambda: device.time(lambda: None))
        hopper.fail("cuEventElapsedTime", 400)
        with pytest.raises(jn.DeviceError, match="cuda, timing: "):
            device.time(lambda: None)
    assert hopper.events.keys() <= {piece.event for piece in device._transfers._pieces}


def test_copies_between_buffers(hopper: Any) -> None:
    array = np.arange(64, dtype=np.float32)
    with jn.Buffer(array) as source, jn.Buffer((64,)) as target, jn.Buffer((63,)) as short:
        target.copy_from(source)
        source.copy_from(np.zeros(64, np.float32))
        np.testing.assert_array_equal(target.numpy(), array)
        with pytest.raises(jn.UserError, match=r"expected an array float32\[63\], got <Buffer float32\[64\] on cuda>"):
            short.copy_from(target)
        with pytest.raises(jn.UserError, match="copy: bytes 8 to 16 of memory that has 12"):
            cuda_device().copy(cuda_device().allocate(12), 8, target._memory(), 0, 8)

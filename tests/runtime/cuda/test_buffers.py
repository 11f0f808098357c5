"""Arrays on a CUDA device: copies, lives, and DLPack and the CUDA array interface in both directions."""

from __future__ import annotations

import copy
import ctypes
import gc
import pickle
from typing import Any

import joinery as jn
import ml_dtypes
import numpy as np
import pytest
from joinery.runtime.cuda import dlpack
from joinery.runtime.cuda.device import cuda_device
from joinery.runtime.cuda.dlpack import Imported, make_capsule

from ...support.cuda.kernels import VECTOR_ADD

DTYPES = [
    "bool", "int8", "uint16", "int32", "uint64", "float16", "bfloat16", "float32", "float64", "complex64", "float8_e4m3fn",
    "float8_e5m2",
]  # fmt: skip


class Exporter:
    """An array of another library on a fake device; keeps count of the capsules it gave away."""

    def __init__(self, fake: Any, array: np.ndarray[Any, Any], device: int = 0, **how: Any) -> None:
        self.array = array
        self.device = device
        self.how = how
        self.address = fake.outside(device, array)
        self.streams: list[int] = []
        self.released = 0

    def __dlpack_device__(self) -> tuple[int, int]:
        return self.how.get("place", (2, self.device))

    def __dlpack__(self, *, stream: int | None = None, max_version: tuple[int, int] | None = None) -> object:
        self.streams.append(stream or 0)
        return make_capsule(
            self.address, self.array.shape, self.array.dtype, 2, self.how.get("inside", self.device), Token(self),
            versioned=max_version is not None and self.how.get("versioned", True), read_only=self.how.get("read_only", False),
        )  # fmt: skip


class OldExporter(Exporter):
    """From before DLPack 1.0: no max_version."""

    def __dlpack__(self, *, stream: int | None = None) -> object:  # type: ignore[override]
        return super().__dlpack__(stream=stream)


class Token:
    """Dies when the consumer of a capsule is done."""

    def __init__(self, exporter: Exporter) -> None:
        self.exporter = exporter

    def __del__(self) -> None:
        self.exporter.released += 1


class Interface:
    """An array with `__cuda_array_interface__`."""

    def __init__(self, **values: Any) -> None:
        self.__cuda_array_interface__ = values


# -- arrays of our own


@pytest.mark.parametrize("name", DTYPES)
@pytest.mark.parametrize("shape", [(), (0, 3), (7,), (2, 3, 5)])
def test_arrays_go_there_and_back(fake: Any, name: str, shape: tuple[int, ...]) -> None:
    dtype = jn.DType(name).numpy
    array = np.random.default_rng(1).integers(0, 2, shape).astype(dtype)
    with jn.Buffer(array) as buffer:
        assert (buffer.shape, buffer.dtype, buffer.nbytes, buffer.size) == (shape, dtype, array.nbytes, array.size)
        back = buffer.numpy()
        assert back.dtype == dtype
        np.testing.assert_array_equal(back, array)
    cuda_device().synchronize()
    assert fake.live() == []


def test_a_shape_makes_an_array_with_undefined_contents(fake: Any) -> None:
    buffer = jn.Buffer((2, 3), dtype=jn.bfloat16)
    assert repr(buffer) == "<Buffer bfloat16[2, 3] on cuda>"
    assert (buffer.dtype, buffer.nbytes, buffer.device) == (ml_dtypes.bfloat16, 12, "cuda")
    assert jn.Buffer(5).dtype == np.float32
    buffer.copy_from(np.ones((2, 3), ml_dtypes.bfloat16))
    assert (buffer.numpy() == 1).all()
    for wrong in (np.ones((3, 2), ml_dtypes.bfloat16), np.ones((2, 3), np.float32), [1, 2]):
        with pytest.raises(jn.UserError, match=r"copy_from: expected an array bfloat16\[2, 3\], got "):
            buffer.copy_from(wrong)  # type: ignore[arg-type]


def test_arrays_are_converted_and_made_row_major(fake: Any) -> None:
    array = np.arange(12, dtype=np.float64).reshape(3, 4)
    np.testing.assert_array_equal(jn.Buffer(array.T, dtype="float32").numpy(), array.T.astype(np.float32))


@pytest.mark.parametrize("wrong", [(-1,), (2, "3"), (True,), (1 << 40, 1 << 40)])
def test_shapes_are_checked(fake: Any, wrong: Any) -> None:
    with pytest.raises(jn.UserError, match="shape "):
        jn.Buffer(wrong)


def test_objects_are_no_array(fake: Any) -> None:
    with pytest.raises(jn.UserError, match="Python objects"):
        jn.Buffer(np.array([None]))
    with pytest.raises(jn.UserError, match=r"expected a joinery\.DType"):
        jn.Buffer((2,), dtype=42)


def test_a_model_of_another_device_says_how_to_fetch_it(fake: Any) -> None:
    buffer = jn.Buffer(np.ones(3, np.float32))
    graph = jn.Graph("g", [jn.TensorType("float32", (3,), "x")])
    graph.output(graph.inputs[0] * 2)
    model = jn.compile(graph, "cpu", cache=False)
    with pytest.raises(jn.UserError, match=r"got a Buffer; fix: x\.numpy\(\), or device='cuda' for the model"):
        model(buffer)
    np.testing.assert_array_equal(model(buffer.numpy())[0], [2, 2, 2])


def test_a_freed_buffer_is_refused(fake: Any) -> None:
    buffer = jn.Buffer(np.ones(4, np.float32))
    buffer.free()
    buffer.free()
    uses = [buffer.numpy, buffer.__dlpack__, lambda: buffer.__cuda_array_interface__, lambda: jn.Buffer.from_dlpack(buffer)]
    for use in uses:
        with pytest.raises(jn.UserError, match=r"<Buffer float32\[4\] on cuda, freed> is used"):
            use()
    with pytest.raises(jn.UserError, match="freed> is used"):
        jn.kernel.from_ttir(VECTOR_ADD, cache=False).launch((1,), buffer, buffer, buffer, 4, device="cuda")


def test_a_failed_upload_gives_the_memory_back(fake: Any) -> None:
    fake.fail("cuMemcpyHtoDAsync", 1)
    with pytest.raises(jn.DeviceError, match="copying 16 bytes to the device"):
        jn.Buffer(np.ones(4, np.float32))
    cuda_device().synchronize()
    assert fake.live() == []


def test_python_does_not_copy_buffers(fake: Any) -> None:
    buffer = jn.Buffer(np.arange(4, dtype=np.float32))
    for how in (copy.copy, copy.deepcopy, pickle.dumps):
        with pytest.raises(jn.UserError, match=r"cannot be copied or pickled by Python.*fix: joinery\.Buffer\(buffer\.numpy"):
            how(buffer)


def test_a_buffer_without_a_driver(install: Any) -> None:
    install(devices=0)
    with pytest.raises(jn.DeviceError, match="there is no device cuda:0"):
        jn.Buffer((1,))
    with pytest.raises(jn.UserError, match="device 'cpu': expected 'cuda' or 'cuda:N'"):
        jn.Buffer((1,), device="cpu")


# -- in


@pytest.mark.parametrize("kind", [Exporter, OldExporter])
@pytest.mark.parametrize("name", DTYPES)
def test_arrays_of_other_libraries_are_shared(fake: Any, kind: type[Exporter], name: str) -> None:
    array = np.random.default_rng(2).integers(0, 2, (3, 4)).astype(jn.DType(name).numpy)
    exporter = kind(fake, array)
    buffer = jn.Buffer.from_dlpack(exporter)
    assert (buffer.address, buffer.shape, buffer.dtype) == (exporter.address, (3, 4), array.dtype)
    assert exporter.streams == [cuda_device().stream]  # the exporter makes our stream wait
    np.testing.assert_array_equal(buffer.numpy(), array)
    assert exporter.released == 0
    buffer.free()
    assert exporter.released == 1
    assert not fake.blocks[exporter.address].is_freed


def test_kernels_take_arrays_of_other_libraries_in_place(fake: Any) -> None:
    x, y = np.arange(300, dtype=np.float32), np.ones(300, np.float32)
    first, out = Exporter(fake, x), OldExporter(fake, np.zeros(300, np.float32))
    second = Interface(shape=(300,), typestr="<f4", data=(fake.outside(0, y), True), version=3, strides=None, stream=2)
    jn.kernel.from_ttir(VECTOR_ADD, cache=False).launch((2,), first, second, out, 300, device="cuda")
    np.testing.assert_array_equal(fake.blocks[out.address].data.view(np.float32), x + y)  # it is done, not only asked for
    gc.collect()
    assert (first.released, out.released) == (1, 1)
    assert fake.named("cuMemcpyHtoDAsync", "cuMemAllocAsync") == []


def test_a_kernel_may_not_write_what_is_read_only(fake: Any) -> None:
    locked = Exporter(fake, np.zeros(4, np.float32), read_only=True)
    add = jn.kernel.from_ttir(VECTOR_ADD, cache=False)
    free = jn.Buffer((4,))
    add.launch((1,), locked, locked, free, 4, device="cuda")
    with pytest.raises(jn.UserError, match=r"parameter o .*: the buffer is read-only"):
        add.launch((1,), free, free, locked, 4, device="cuda")
    with pytest.raises(jn.UserError, match="belongs to a library that forbids writes"):
        jn.Buffer.from_dlpack(locked).copy_from(np.zeros(4, np.float32))


def test_what_does_not_lie_on_a_device_is_refused(fake: Any) -> None:
    with pytest.raises(jn.UserError, match="Exporter: it lies on the CPU, not on a CUDA device; fix: a NumPy array"):
        jn.Buffer.from_dlpack(Exporter(fake, np.zeros(4), place=(1, 0)))
    with pytest.raises(jn.UserError, match="it lies on ROCm"):
        jn.Buffer.from_dlpack(Exporter(fake, np.zeros(4), place=(10, 0)))
    with pytest.raises(jn.UserError, match="expected an object with __dlpack__ or __cuda_array_interface__, got list"):
        jn.Buffer.from_dlpack([1, 2])
    with pytest.raises(jn.DeviceError, match="there is no device cuda:3"):
        jn.Buffer.from_dlpack(Exporter(fake, np.zeros(4), place=(2, 3)))


def test_a_capsule_that_contradicts_its_exporter_is_released(fake: Any) -> None:
    exporter = Exporter(fake, np.zeros(4), inside=5)
    with pytest.raises(jn.UserError, match="it said device 0, its capsule says 5"):
        jn.Buffer.from_dlpack(exporter)
    gc.collect()
    assert exporter.released == 1


def odd_capsule(fake: Any, exporter: Exporter, **fields: Any) -> object:
    """A capsule whose tensor is changed behind the back of its maker."""
    capsule = make_capsule(exporter.address, exporter.array.shape, exporter.array.dtype, 2, 0, Token(exporter))
    managed, numbers, _ = list(dlpack._exported.values())[-1]
    for name, value in fields.items():
        if name == "numbers":
            numbers[:] = value
        else:
            setattr(managed if name in ("major",) else managed.tensor, name, value)
    return capsule


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"ndim": 65}, "a DLPack tensor of 65 axes; at most 64 are taken"),
        ({"ndim": -1}, "a DLPack tensor of -1 axes"),
        ({"shape": None}, "without a shape"),
        ({"numbers": [-2, 3, 3, 1]}, r"a DLPack tensor of shape \(-2, 3\)"),
        ({"numbers": [1 << 40, 1 << 40, 1, 1]}, "more than memory can hold"),
        ({"byte_offset": (1 << 64) - 8}, "more than memory can hold"),
        ({"lanes": 4}, "whose elements are vectors of 4; fix: one more axis"),
        ({"code": 99}, "of type code 99 with 32 bits, which is not known"),
        ({"bits": 7}, "of type code 2 with 7 bits"),
        ({"data": None}, r"of shape \(2, 3\) without memory"),
        ({"major": 2}, r"a DLPack capsule of version 2\.0; known are 0\.x and 1\.x"),
        ({"numbers": [2, 3, 1, 2]}, r"shape \(2, 3\) with strides \(1, 2\) is not row-major; fix: make it contiguous"),
        ({"numbers": [2, 3, -3, 1]}, r"strides \(-3, 1\) is not row-major"),
        ({"device_type": 1}, "it lies on the CPU"),
    ],
)
def test_odd_capsules_are_refused_and_released(fake: Any, fields: dict[str, Any], message: str) -> None:
    exporter = Exporter(fake, np.zeros((2, 3), np.float32))

    class Odd:
        def __dlpack_device__(self) -> tuple[int, int]:
            return 2, 0

        def __dlpack__(self, **_: Any) -> object:
            return odd_capsule(fake, exporter, **fields)

    with pytest.raises(jn.UserError, match=message) as caught:
        jn.Buffer.from_dlpack(Odd())
    assert caught.tb is not None  # which keeps the capsule's frame: that it is released is not left to its end
    assert exporter.released == 1


def test_strides_that_do_not_matter(fake: Any) -> None:
    exporter = Exporter(fake, np.arange(3, dtype=np.float32).reshape(1, 3))
    found = Imported(odd_capsule(fake, exporter, numbers=[1, 3, 77, 1], byte_offset=0))
    assert dlpack.is_row_major(found.shape, found.strides)
    found = Imported(odd_capsule(fake, exporter, strides=None, byte_offset=8))
    assert (found.strides, found.address) == (None, exporter.address + 8)


def test_a_capsule_is_consumed_once(fake: Any) -> None:
    capsule = jn.Buffer(np.ones(3, np.float32)).__dlpack__()
    kept = Imported(capsule)
    with pytest.raises(jn.UserError, match="the DLPack capsule was consumed before"):
        Imported(capsule)
    with pytest.raises(jn.UserError, match="expected a DLPack capsule, got int"):
        Imported(3)
    kept.release()
    kept.release()


# -- out


@pytest.mark.parametrize("versioned", [False, True])
def test_a_capsule_keeps_the_memory_until_its_consumer_is_done(fake: Any, versioned: bool) -> None:
    buffer = jn.Buffer(np.arange(6, dtype=np.int16).reshape(2, 3))
    address = buffer.address
    assert buffer.__dlpack_device__() == (2, 0)
    capsule = buffer.__dlpack__(stream=1, max_version=(1, 1) if versioned else None)
    found = Imported(capsule)
    assert (found.address, found.shape, found.strides, found.dtype) == (address, (2, 3), (3, 1), np.dtype(np.int16))
    assert (found.device_type, found.device_id, found.is_read_only) == (2, 0, False)
    buffer.free()
    del buffer, capsule
    gc.collect()
    cuda_device().synchronize()
    assert [block.address for block in fake.live()] == [address]
    found.release()
    gc.collect()
    cuda_device().synchronize()
    assert fake.live() == []
    assert dlpack._exported == {}


def test_a_capsule_that_nobody_takes_lets_go(fake: Any) -> None:
    capsule = jn.Buffer((4,)).__dlpack__()
    assert len(fake.live()) == 1
    del capsule
    gc.collect()
    cuda_device().synchronize()
    assert fake.live() == []
    assert dlpack._exported == {}


def test_the_stream_of_the_consumer_waits(fake: Any) -> None:
    buffer = jn.Buffer((4,))
    stream = fake.foreign_stream(0, 77)
    buffer.copy_from(np.array([1, 2, 3, 4], np.float32))
    Imported(buffer.__dlpack__(stream=77))
    assert (fake.blocks[buffer.address].data == 0xA5).all()
    fake._run(stream, len(stream.todo))  # nobody waited for our stream itself
    assert fake.blocks[buffer.address].data.view(np.float32).tolist() == [1, 2, 3, 4]
    before = len(fake.named("cuStreamWaitEvent"))
    buffer.__dlpack__(stream=-1)
    assert len(fake.named("cuStreamWaitEvent")) == before
    buffer.__dlpack__(stream=None)
    assert fake.named("cuStreamWaitEvent")[-1][1][0] == 1
    assert len(fake.events) == 1  # that of the copy; those of waiting are gone


class Interfaced:
    """A consumer of the CUDA array interface: it keeps the exporter, and says nothing about its streams."""

    def __init__(self, buffer: jn.Buffer) -> None:
        self.exporter: Any = buffer
        self.address = buffer.__cuda_array_interface__["data"][0]

    def release(self) -> None:
        self.exporter = None


@pytest.mark.parametrize("pools", [True, False])
@pytest.mark.parametrize("stream", [None, 1, 2, 77, -1, "interface"])
def test_memory_goes_back_after_its_consumer_s_stream(install: Any, stream: Any, pools: bool) -> None:
    """A consumer lets go of memory when it has asked for its last use. Its stream may be far from there."""
    fake = install(pools=pools)
    device = cuda_device()
    theirs = fake.foreign_stream(0, 77)
    if stream in (None, 1, 2):
        theirs = fake._stream("", 1 if stream is None else stream, 0)
    buffer = jn.Buffer(np.arange(4, dtype=np.float32))
    found: Any = Interfaced(buffer) if stream == "interface" else Imported(buffer.__dlpack__(stream=stream))
    read: list[list[float]] = []
    fake._put(theirs, lambda: read.append(fake._bytes(found.address, 16).view(np.float32).tolist()))
    if stream != "interface":
        buffer.free()
    del buffer
    found.release()
    gc.collect()
    other = jn.Buffer((8,))  # gives back what died
    device.synchronize()
    fake.settle()
    assert read == [[0, 1, 2, 3]]
    device.synchronize()
    assert [block.address for block in fake.live()] == [other.address]


def test_memory_of_our_own_waits_for_nobody(fake: Any) -> None:
    theirs = fake.foreign_stream(0, 77)
    fake._put(theirs, lambda: None)
    jn.Buffer((4,)).free()
    buffer = jn.Buffer((4,))
    del buffer
    gc.collect()
    cuda_device().synchronize()
    assert fake.live() == []
    assert theirs.done == 0
    assert not fake.named("cuCtxSynchronize", "cuStreamWaitEvent")


@pytest.mark.parametrize("stream", [1, 77])
def test_memory_is_kept_while_another_library_records(fake: Any, stream: int) -> None:
    """Waiting is not allowed then, and would break the recording."""
    fake.foreign_stream(0, 77)
    buffer = jn.Buffer((4,))
    Imported(buffer.__dlpack__(stream=stream))
    fake.fail("cuCtxSynchronize" if stream == 77 else "cuEventRecord", 900)
    del buffer
    gc.collect()
    other = jn.Buffer((8,))  # gives back what it can
    fake.settle()
    assert len(fake.live()) == 2
    cuda_device().synchronize()  # tries again
    fake.settle()
    assert [block.address for block in fake.live()] == [other.address]


def test_what_a_capsule_cannot_say(fake: Any) -> None:
    buffer = jn.Buffer((4,))
    with pytest.raises(BufferError, match=r"goes to device \(2, 0\) only, not to \(1, 0\)"):
        buffer.__dlpack__(dl_device=(1, 0))
    with pytest.raises(BufferError, match="shared, not copied"):
        buffer.__dlpack__(copy=True)
    with pytest.raises(BufferError, match="stream 0 may mean two things"):
        buffer.__dlpack__(stream=0)
    locked = jn.Buffer.from_dlpack(Exporter(fake, np.zeros(4, np.float32), read_only=True))
    with pytest.raises(BufferError, match="read-only"):
        locked.__dlpack__()
    assert Imported(locked.__dlpack__(max_version=(1, 0))).is_read_only
    with pytest.raises(jn.UserError, match=r"dtype \|V3 has no DLPack type"):
        jn.Buffer(np.zeros(2, "V3")).__dlpack__()


def test_a_round_trip_through_another_buffer(fake: Any) -> None:
    buffer = jn.Buffer(np.arange(5))
    view = jn.Buffer.from_dlpack(buffer)
    assert view.address == buffer.address
    buffer.free()
    assert view.numpy().tolist() == [0, 1, 2, 3, 4]
    view.free()
    gc.collect()
    cuda_device().synchronize()
    assert fake.live() == []


def test_the_cuda_array_interface(fake: Any) -> None:
    buffer = jn.Buffer(np.arange(6, dtype=np.float64).reshape(2, 3))
    assert buffer.__cuda_array_interface__ == {
        "shape": (2, 3), "typestr": "<f8", "data": (buffer.address, False), "strides": None, "stream": None, "version": 3,
    }  # fmt: skip
    assert fake.blocks[buffer.address].data.view(np.float64).tolist() == [0, 1, 2, 3, 4, 5]  # it was waited for
    assert jn.Buffer((2,), jn.bfloat16).__cuda_array_interface__["typestr"] == "|V2"


def test_the_interface_of_other_libraries(install: Any) -> None:
    fake = install(devices=2)
    array = np.arange(6, dtype=np.float32).reshape(2, 3)
    there = {"shape": (2, 3), "typestr": "<f4", "data": (fake.outside(1, array), False), "version": 3}
    buffer = jn.Buffer.from_dlpack(Interface(**there))
    assert (buffer.device, buffer.is_read_only) == ("cuda:1", False)
    np.testing.assert_array_equal(buffer.numpy(), array)
    np.testing.assert_array_equal(jn.Buffer.from_dlpack(Interface(**there, strides=(12, 4))).numpy(), array)
    empty = jn.Buffer.from_dlpack(Interface(**{**there, "shape": (0, 3), "data": (0, False)}))
    assert empty.numpy().shape == (0, 3)
    for change, message in (
        ({"strides": (4, 8)}, r"shape \(2, 3\) with strides \(4, 8\) \(bytes\) is not row-major"),
        ({"strides": (12, 5)}, "are no multiples of the element's 4 bytes"),
        ({"strides": (4,)}, "1 strides for 2 axes"),
        ({"typestr": ">f4"}, "in the machine's byte order"),
        ({"typestr": "|O"}, "is not taken"),
        ({"typestr": "nonsense"}, "its __cuda_array_interface__ cannot be read"),
        ({"mask": object()}, "masked arrays"),
        ({"stream": 0}, "names stream 0"),
        ({"data": (0, False)}, "without memory"),
        ({"data": (1234, False)}, "its address 0x4d2 is none that the driver knows"),
        ({"data": None}, "cannot be read"),
        ({"shape": (-1, 3)}, "shape"),
    ):
        with pytest.raises(jn.UserError, match=message):
            jn.Buffer.from_dlpack(Interface(**{**there, **change}))


def test_structures_have_the_sizes_of_the_header() -> None:
    # dlpack.h 1.1 on a 64-bit machine
    assert ctypes.sizeof(dlpack._Tensor) == 48
    assert ctypes.sizeof(dlpack._Managed) == 64
    assert (dlpack._Versioned.context.offset, dlpack._Versioned.flags.offset, dlpack._Versioned.tensor.offset) == (8, 24, 32)


def test_numpy_agrees_about_capsules_of_both_kinds() -> None:
    """NumPy is a witness for the layout, for memory of the CPU."""
    array = np.arange(12, dtype=np.float32).reshape(3, 4)
    for options in ({}, {"max_version": (1, 0)}):
        found = Imported(array.__dlpack__(**options))
        assert (found.address, found.shape, found.dtype) == (array.ctypes.data, (3, 4), array.dtype)
        assert (found.device_type, found.device_id) == (1, 0)
        found.release()

    class Ours:
        def __init__(self, versioned: bool) -> None:
            self.versioned = versioned

        def __dlpack_device__(self) -> tuple[int, int]:
            return 1, 0

        def __dlpack__(self, **_: Any) -> object:
            return make_capsule(array.ctypes.data, array.shape, array.dtype, 1, 0, array, self.versioned)

    for versioned in (False, True):
        theirs = np.from_dlpack(Ours(versioned))
        np.testing.assert_array_equal(theirs, array)
        assert theirs.ctypes.data == array.ctypes.data
        assert len(dlpack._exported) == 1
        del theirs
        gc.collect()
        assert dlpack._exported == {}

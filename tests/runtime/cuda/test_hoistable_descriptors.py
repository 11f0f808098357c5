"""Descriptors that kernels make, in launches on a CUDA device of capability 9.0: the launch makes their tensor maps where the
arguments allow it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import joinery as jn
import numpy as np
import pytest

from ...support.cuda.exporting import Exporter

TEXTS = Path(__file__).parents[2] / "data" / "ttir_descriptors"
COPY = """
tt.func public @copy(%a: !tt.ptr<f32>, %b: !tt.ptr<f32>, %m: i32, %n: i32, %step: i64) {
  %zero = arith.constant 0 : i32
  %two = arith.constant 2 : i32
  %eight = arith.constant 8 : i32
  %columns = arith.constant 32 : i32
  %unit = arith.constant 1 : i64
  %dense = arith.constant 32 : i64
  %x = tt.make_tensor_descriptor %a, [%m, %n], [%step, %unit] : <f32>, <8x32xf32>
  %y = tt.make_tensor_descriptor %b, [%eight, %columns], [%dense, %unit] : <f32>, <8x32xf32>
  %v = tt.descriptor_load %x[%zero, %two] : !tt.tensordesc<8x32xf32> -> tensor<8x32xf32>
  tt.descriptor_store %y[%zero, %zero], %v : !tt.tensordesc<8x32xf32>, tensor<8x32xf32>
  tt.return
}
"""


def maps(fake: Any) -> int:
    return len(fake.named("cuTensorMapEncodeTiled"))


def whole(shape: tuple[int, ...], seed: int) -> Any:
    return np.random.default_rng([seed, *shape]).integers(-2, 3, shape).astype(np.float16)


def product(a: Any, b: Any) -> Any:
    return (a.astype(np.float32) @ b.astype(np.float32)).astype(np.float16)


@pytest.mark.one_in(4)
@pytest.mark.parametrize(("m", "n", "k", "made"), [(200, 136, 328, 3), (64, 264, 8, 3), (129, 12, 72, 1), (65, 16, 10, 2)])
def test_a_product_of_arrays_of_the_host(hopper: Any, m: int, n: int, k: int, made: int) -> None:
    """Rows of 12 and 10 numbers are no multiples of 16 bytes."""
    a, b, c = whole((m, k), 1), whole((k, n), 2), np.full((m, n), 77, np.float16)
    kernel = jn.kernel.from_ttir(TEXTS / "matmul.ttir", cache=False)
    kernel.launch((-(-m // 128), -(-n // 128)), a, b, c, m, n, k, device="cuda")
    np.testing.assert_array_equal(c, product(a, b))
    assert maps(hopper) == made
    assert b"bulk.tensor" in hopper.named("cuModuleLoadDataEx")[-1][1][0]


@pytest.mark.slow
def test_buffers_keep_their_maps(hopper: Any) -> None:
    a, b = whole((96, 72), 1), whole((72, 160), 2)
    matmul = jn.kernel.from_ttir(TEXTS / "persistent.ttir", cache=False)
    with jn.Buffer(a) as first, jn.Buffer(np.ascontiguousarray(b.T)) as second, jn.Buffer((96, 160), np.float16) as out:
        for _ in range(3):
            matmul.launch((2,), first, second, out, 96, 160, 72, device="cuda")
        assert maps(hopper) == 3
        assert hopper.named("cuStreamSynchronize") == []
        np.testing.assert_array_equal(out.numpy(), product(a, b))
        out.copy_from(np.full((96, 160), 5, np.float16))
        matmul.launch((2,), first, second, out, 90, 160, 72, device="cuda")
        np.testing.assert_array_equal(out.numpy()[:90], product(a, b)[:90])
        assert (out.numpy()[90:] == 5).all()
        assert maps(hopper) == 5  # of the first and the last; the second has its sizes still
        matmul.launch((2,), first, second, out, 96, 160, 72, device="cuda", warps=8)
        assert maps(hopper) == 5
        address = first.address
    assert not first.maps
    with jn.Buffer(a + 1) as first, jn.Buffer(np.ascontiguousarray(b.T)) as second, jn.Buffer((96, 160), np.float16) as out:
        matmul.launch((2,), first, second, out, 96, 160, 72, device="cuda")
        np.testing.assert_array_equal(out.numpy(), product(a + 1, b))
        assert maps(hopper) == 8
        assert address
    with pytest.raises(jn.UserError, match="freed"):
        matmul.launch((2,), first, second, out, 96, 160, 72, device="cuda")


def test_a_buffer_keeps_so_many_maps(hopper: Any) -> None:
    kernel = jn.kernel.from_ttir(COPY, cache=False)
    with jn.Buffer(np.ones((100, 32), np.float32)) as source, jn.Buffer((8, 32)) as target:
        for rows in range(1, 100):
            kernel.launch((1,), source, target, rows, 32, 32, device="cuda")
            assert len(source.maps) <= 64
        assert maps(hopper) == 100


def test_arrays_of_other_libraries(hopper: Any) -> None:
    """Their maps are made anew, as their memory is asked for anew."""
    a, b = whole((64, 72), 1), whole((72, 128), 2)
    matmul = jn.kernel.from_ttir(TEXTS / "matmul.ttir", cache=False)
    with jn.Buffer(a) as first, jn.Buffer(b) as second, jn.Buffer((64, 128), np.float16) as out:
        shared = [Exporter(each) for each in (first, second, out)]
        for made in (3, 6):
            matmul.launch((1, 1), *shared, 64, 128, 72, device="cuda")
            assert maps(hopper) == made
        assert hopper.named("cuStreamSynchronize")
        np.testing.assert_array_equal(out.numpy(), product(a, b))


@pytest.mark.one_in(3)
@pytest.mark.parametrize(
    ("first", "m", "n", "step", "made"),
    [(0, 8, 32, 32, 2), (0, 8, 32, 36, 2), (4, 8, 32, 32, 2), (1, 8, 32, 32, 1), (0, 8, 32, 30, 1), (0, 16, 32, 16, 1),
     (0, 0, 32, 32, 1), (0, -1, 32, 32, 1), (0, 8, -4, 32, 1), (0, 8, 32, 0, 1), (32 * 7, 1, 32, -32, 1),
     (0, 1 << 20, 32, 32, 1), (0, 1, 32, 1 << 40, 1), (0, 129, 32, 32, 1), (0, 128, 32, 32, 2)],
)  # fmt: skip
def test_tensors_that_fit_no_map(hopper: Any, first: int, m: int, n: int, step: int, made: int) -> None:
    """Addresses, extents and strides; the last two leave their array, or just do not. The kernel reads what is there."""
    kernel = jn.kernel.from_ttir(COPY, cache=False)
    source = np.arange(128 * 32 + first, dtype=np.float32)
    expected, target = np.full((8, 32), -1, np.float32), np.full((8, 32), -1, np.float32)
    base = source[first:]
    kernel.interpret((1,), base, expected, m, n, step)
    kernel.launch((1,), base, target, m, n, step, device="cuda")
    np.testing.assert_array_equal(target, expected)
    assert maps(hopper) == made
    if first == 0:
        with jn.Buffer(source) as there, jn.Buffer((8, 32)) as out:
            kernel.launch((1,), there, out, m, n, step, device="cuda")
            np.testing.assert_array_equal(out.numpy(), expected)
            assert maps(hopper) == 2 * made


def test_memory_that_is_shared(hopper: Any) -> None:
    array = np.arange(32 * 32, dtype=np.float32).reshape(32, 32)
    kernel, expected = jn.kernel.from_ttir(COPY, cache=False), array.copy()
    kernel.interpret((1,), expected, expected[4:], 8, 32, 32)
    kernel.launch((1,), array, array[4:], 8, 32, 32, device="cuda")
    np.testing.assert_array_equal(array, expected)
    with jn.Buffer(array) as there:
        kernel.launch((1,), there, Exporter(there), 8, 32, 32, device="cuda")
    assert maps(hopper) == 0
    kernel.launch((1,), array[:8], array[16:], 8, 32, 32, device="cuda")
    assert maps(hopper) == 2


def test_memory_that_is_shared_and_only_read(hopper: Any) -> None:
    """A product of a matrix and itself."""
    a, c = whole((128, 128), 1), np.zeros((128, 128), np.float16)
    matmul = jn.kernel.from_ttir(TEXTS / "matmul.ttir", cache=False)
    matmul.launch((1, 1), a, a, c, 128, 128, 128, device="cuda")
    np.testing.assert_array_equal(c, product(a, a))
    assert maps(hopper) == 3
    with jn.Buffer(a) as there, jn.Buffer((128, 128), np.float16) as out:
        matmul.launch((1, 1), there, Exporter(there), out, 128, 128, 128, device="cuda")
        np.testing.assert_array_equal(out.numpy(), product(a, a))
    assert maps(hopper) == 6


def test_tables_of_pointers_to_the_tensor(hopper: Any) -> None:
    """Nobody knows where what was loaded from a table points."""
    text = COPY.replace("%step: i64)", "%step: i64, %t: !tt.ptr<i64>)")
    reads = """%w = tt.load %t : !tt.ptr<i64>
  %q = tt.int_to_ptr %w : i64 -> !tt.ptr<f32>
  %s = tt.load %q : !tt.ptr<f32>
  %z = tt.splat %s : f32 -> tensor<8x32xf32>
  %u = arith.addf %v, %z : tensor<8x32xf32>
  tt.descriptor_store %y[%zero, %zero], %u"""
    source, other = np.ones((8, 32), np.float32), np.full(1, 5, np.float32)
    kernel = jn.kernel.from_ttir(text.replace("tt.descriptor_store %y[%zero, %zero], %v", reads), cache=False)
    for table, made in ((other, 1), (source, 1)):
        target = np.zeros((8, 32), np.float32)
        kernel.launch((1,), source, target, 8, 32, 32, jn.PointerTable([table]), device="cuda")
        assert (target[:, :30] == 1 + table.flat[0]).all()
        assert maps(hopper) == made  # what the kernel stores to may be what it reads; the source has shared memory


@pytest.mark.parametrize("capability", [(8, 0), (8, 9)])
def test_older_devices_have_none(install: Any, capability: tuple[int, int]) -> None:
    fake, target = install(capability=capability), np.zeros((8, 32), np.float32)
    kernel = jn.kernel.from_ttir(COPY, cache=False)
    kernel.launch((1,), np.ones((8, 64), np.float32), target, 8, 64, 64, device="cuda")
    assert (target == 1).all()
    assert maps(fake) == 0
    assert "descriptors" not in vars(kernel._gpu)  # nor did anybody look for them


def test_small_tensors_with_gaps_get_none_on_newer_devices(install: Any) -> None:
    fake = install(capability=(10, 0), version=12080)
    kernel, target = jn.kernel.from_ttir(COPY, cache=False), np.zeros((8, 32), np.float32)
    for shape, made in (((8, 32), 2), ((1024, 64), 4), ((8, 64), 5)):
        kernel.launch((1,), np.ones(shape, np.float32), target, 8, 32, shape[1], device="cuda")
        assert (target[:, :30] == 1).all()
        assert maps(fake) == made


def test_an_empty_grid_makes_no_maps(hopper: Any) -> None:
    jn.kernel.from_ttir(COPY, cache=False).launch(
        (0,), np.ones((8, 32), np.float32), np.zeros((8, 32), np.float32), 8, 32, 32, device="cuda"
    )
    assert maps(hopper) == 0

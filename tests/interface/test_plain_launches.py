"""Launches that native code takes apart: results and errors are those of launches that Python takes apart, the first ones."""

from __future__ import annotations

import ctypes
import ctypes.util
import platform
import re
import signal
import sys
import threading
import time
from typing import Any

import joinery as jn
import ml_dtypes
import numpy as np
import pytest
from joinery.interface.kernel import Kernel
from joinery.runtime.host.threads import launch_pool
from joinery.runtime.native import objects

pytestmark = pytest.mark.skipif(not objects.are_readable(), reason="this interpreter has no native entry")

NUMBERS = """
module {
  tt.func public @numbers(%s: f32, %d: f64, %i: i32, %l: i64, %b: i8, %so: !tt.ptr<f32>, %do: !tt.ptr<f64>, %io: !tt.ptr<i32>,
                          %lo: !tt.ptr<i64>, %bo: !tt.ptr<i8>) {
    tt.store %so, %s : !tt.ptr<f32>
    tt.store %do, %d : !tt.ptr<f64>
    tt.store %io, %i : !tt.ptr<i32>
    tt.store %lo, %l : !tt.ptr<i64>
    tt.store %bo, %b : !tt.ptr<i8>
    tt.return
  }
}
"""
PLACES = """
module {
  tt.func public @places(%x: !tt.ptr<i32>, %y: !tt.ptr<i32>) {
    %a = tt.get_program_id x : i32
    %b = tt.get_program_id y : i32
    %c = tt.get_program_id z : i32
    %ten = arith.constant 10 : i32
    %p = arith.muli %a, %ten : i32
    %q = arith.addi %p, %b : i32
    %r = arith.muli %q, %ten : i32
    %s = arith.addi %r, %c : i32
    %xp = tt.addptr %x, %a : !tt.ptr<i32>, i32
    %yp = tt.addptr %y, %a : !tt.ptr<i32>, i32
    %v = tt.load %xp : !tt.ptr<i32>
    %w = arith.addi %v, %s : i32
    tt.store %yp, %w : !tt.ptr<i32>
    tt.return
  }
}
"""
SPINNING = """
module {
  tt.func public @spin(%x: !tt.ptr<i32>, %n: i64) {
    %zero = arith.constant 0 : i64
    %one = arith.constant 1 : i64
    scf.for %i = %zero to %n step %one : i64 {
      %v = tt.atomic_rmw add, acq_rel, gpu, %x, %c : (!tt.ptr<i32>, i32) -> i32
    }
    tt.return
  }
}
""".replace("    scf.for", "    %c = arith.constant 1 : i32\n    scf.for")


def is_native(kernel: Kernel, grid: Any, *args: Any, check_bounds: bool = False) -> bool:
    """Launch natively, if the kernel can; return whether it did."""
    return kernel._launches[check_bounds]._plain.start(launch_pool(None), grid, *args) is None


@pytest.fixture(scope="module")
def numbers() -> Kernel:
    kernel = jn.kernel.from_ttir(NUMBERS)
    kernel.launch(1, 0.0, 0.0, 0, 0, 0, *results())
    return kernel


@pytest.fixture
def places() -> Kernel:
    kernel = jn.kernel.from_ttir(PLACES)
    kernel.launch(1, *np.zeros((2, 1), np.int32))
    return kernel


def results() -> list[Any]:
    return [np.zeros(1, each) for each in (np.float32, np.float64, np.int32, np.int64, np.int8)]


def doubles() -> np.ndarray[Any, Any]:
    """Doubles of all kinds: any bits, halfway between two floats and beside it, at the ends of the range."""
    random = np.random.default_rng(3)
    singles = random.integers(0, 1 << 32, 300, np.uint32).view(np.float32)
    singles = np.append(singles, np.array([0x7F7FFFFF, 0x00800000, 0x00800001, 1, 0x3F800000], np.uint32).view(np.float32))
    finite = singles[np.isfinite(singles)].astype(np.float64)
    with np.errstate(over="ignore"):
        middles = (finite + np.nextafter(finite.astype(np.float32), np.float32(np.inf)).astype(np.float64)) / 2
    around = [np.nextafter(middles, side) for side in (-np.inf, np.inf)]
    ends = np.array([0.0, -0.0, np.inf, -np.inf, np.nan, 1e-5, 5e-324, 3.4028235677973366e38, 2.0**128, 1.7e308, -1e300])
    return np.concatenate([random.integers(0, 1 << 64, 200, np.uint64).view(np.float64), finite, middles, *around, ends])


@pytest.mark.filterwarnings("ignore:overflow encountered")
def test_floats_are_rounded_as_numpy_rounds_them(numbers: Kernel) -> None:
    natively = 0
    for value in doubles().tolist():
        out = results()
        natively += is_native(numbers, 1, value, value, 0, 0, 0, *out)
        numbers.launch(1, value, value, 0, 0, 0, *out)
        assert out[1].tobytes() == np.float64(value).tobytes()
        single = np.float32(value)
        assert out[0].tobytes() == single.tobytes() or (np.isnan(single) and np.isnan(out[0][0])), value
    assert natively > 1000


@pytest.mark.skipif(platform.machine() != "x86_64" or sys.platform != "linux", reason="sets the modes by the C library")
@pytest.mark.parametrize("rounding", [0x400, 0x800, 0xC00])
def test_floats_are_rounded_to_nearest_in_every_mode(numbers: Kernel, rounding: int) -> None:
    library, out = ctypes.CDLL("libm.so.6"), results()
    library.fesetround(rounding)
    try:
        assert is_native(numbers, 1, 1e-5, 0.1, 0, 0, 0, *out)
    finally:
        library.fesetround(0)
    assert out[0][0] == np.float32(1e-5)


@pytest.mark.parametrize(("parameter", "bits"), [(2, 32), (3, 64), (4, 8)])
def test_integers_fit_or_are_refused(numbers: Kernel, parameter: int, bits: int) -> None:
    for value, fits in ((-(1 << (bits - 1)), True), ((1 << (bits - 1)) - 1, True), (1 << (bits - 1), False), (-1, True)):
        args, out = [0.0, 0.0, 0, 0, 0], results()
        args[parameter] = value
        assert is_native(numbers, 1, *args, *out) is fits
        numbers.launch(1, *args, *out)  # unsigned numbers of as many bits as well
        assert int(out[parameter][0]) == (value + (1 << (bits - 1))) % (1 << bits) - (1 << (bits - 1))
    for value in (1 << bits, -(1 << (bits - 1)) - 1, 1 << 200, -(1 << 200)):
        args[parameter] = value
        with pytest.raises(jn.UserError, match=f"does not fit into {bits} bits"):
            numbers.launch(1, *args, *out)


@pytest.mark.parametrize("value", [True, np.int32(7), 7.0, np.float64(7), np.int64(7)])
def test_numbers_of_other_types_are_converted_in_python(numbers: Kernel, value: Any) -> None:
    out = results()
    assert not is_native(numbers, 1, 0.0, 0.0, value, 0, 0, *out)
    numbers.launch(1, value, 0.0, value, value, value, *out)
    assert [float(each[0]) for each in out] == [float(value), 0.0, *[float(value)] * 3]


@pytest.mark.parametrize("value", ["7", None, 7.5, 1j])
def test_what_is_no_number(numbers: Kernel, value: Any) -> None:
    with pytest.raises(jn.UserError, match="@numbers, parameter i of type i32"):
        numbers.launch(1, 0.0, 0.0, value, 0, 0, *results())


@pytest.mark.parametrize(
    ("grid", "natively"),
    [(1, True), (3, True), ((2,), True), ((2, 3), True), ((2, 1, 4), True), ([2, 3], False), (np.int64(3), False), (0, True),
     ((3, 0, 2), True), ((0, 5, 7), True)],
)  # fmt: skip
def test_grids(places: Kernel, grid: Any, natively: bool) -> None:
    x, y = np.arange(4, dtype=np.int32), np.full(4, -1, np.int32)
    expected = y.copy()
    places.interpret(grid, x, expected)
    assert is_native(places, grid, x, y) is natively
    places.launch(grid, x, y, threads=1)
    np.testing.assert_array_equal(y, expected)


GRIDS_THAT_ARE_NONE = [(), (1, 1, 1, 1), -1, (1, -1), 1 << 31, (1 << 40,), 1.0, "1", None, (1 << 30, 1 << 30, 1 << 30)]


@pytest.mark.parametrize("grid", GRIDS_THAT_ARE_NONE)
def test_grids_that_are_none(places: Kernel, grid: Any) -> None:
    with pytest.raises(jn.UserError, match="grid"):
        places.launch(grid, *np.zeros((2, 4), np.int32))


def unwritable(array: Any) -> Any:
    array.flags.writeable = False
    return array


class Mine(np.ndarray):
    pass


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: np.zeros(8, np.int32)[::2], "not C-contiguous"),
        (lambda: np.zeros(4, np.int64), "8 bytes, expected elements of 4"),
        (lambda: np.zeros(4, np.int8), "1 bytes, expected elements of 4"),
        (lambda: unwritable(np.zeros(4, np.int32)), "read-only"),
        (lambda: [0, 0, 0, 0], "expected a NumPy array, got list"),
    ],
)
def test_arrays_that_are_refused(places: Kernel, make: Any, message: str) -> None:
    x, other = np.zeros(4, np.int32), make()
    assert not is_native(places, 4, x, other)
    with pytest.raises(jn.UserError, match=message):
        places.launch(4, x, other)


def test_arrays_of_any_type_with_elements_of_the_size(places: Kernel) -> None:
    x, y = np.arange(4, dtype=np.int32), np.zeros(4, np.int32)
    kinds = (np.uint32, np.float32, np.dtype("V4"), np.dtype([("a", "i2"), ("b", "i2")]))
    for kind in kinds:
        for _ in range(2):  # the second launch finds the dtype that the first one brought
            y[:] = 0
            places.launch(4, x.view(kind), y.view(kind))
            np.testing.assert_array_equal(y, x + 100 * x)
        assert is_native(places, 4, x.view(kind), y.view(kind))
        assert not is_native(places, 4, x, y.view(kind))
    places.launch(4, x.view(Mine), y)
    assert not is_native(places, 4, x.view(Mine), y)


def test_arrays_of_16_bit_floats_of_another_library() -> None:
    copy = jn.kernel.from_ttir(PLACES.replace("i32>", "i16>").replace("!tt.ptr<i32>", "!tt.ptr<i16>").replace(
        "%w = arith.addi %v, %s : i32", "%t = arith.trunci %s : i32 to i16\n    %w = arith.addi %v, %t : i16"
    ))  # fmt: skip
    x, y = np.arange(4).astype(ml_dtypes.bfloat16), np.zeros(4, ml_dtypes.bfloat16)
    copy.launch(1, x, y)
    assert is_native(copy, 1, x, y)
    assert y[0] == x[0]


def test_overlapping_arrays_take_their_own_code(places: Kernel) -> None:
    memory = np.arange(8, dtype=np.int32)
    expected = memory.copy()
    places.interpret(4, expected[:4], expected[1:5])
    assert not is_native(places, 4, memory[:4], memory[1:5])
    places.launch(4, memory[:4], memory[1:5], threads=1)
    np.testing.assert_array_equal(memory, expected)
    assert is_native(places, 4, memory[:4], memory[4:])  # side by side
    assert is_native(places, 0, memory[4:4], memory[:4])


def test_accesses_outside_stop_every_launch_with_the_same_words(places: Kernel) -> None:
    x, y = np.arange(4, dtype=np.int32), np.zeros(3, np.int32)
    words = set()
    for _ in range(3):
        with pytest.raises(jn.AccessError) as caught:
            places.launch(4, x, y, check_bounds=True, threads=1)
        words.add(str(caught.value))
        places.launch(3, x, y, check_bounds=True)
    assert is_native(places, 3, x, y, check_bounds=True)
    assert len(words) == 1
    assert re.search(r"program \(3, 0, 0\).*element 3 of array 'y'.*elements 0 … 2 \(12 bytes\)", words.pop())


def test_numbers_of_arguments_and_threads(places: Kernel) -> None:
    x, y = np.zeros((2, 4), np.int32)
    for args in ((), (x,), (x, y, 1)):
        with pytest.raises(jn.UserError, match=f"takes 2 arguments, got {len(args)}"):
            places.launch(1, *args)
    for threads in (0, -1, True, 1.0, 5000):
        with pytest.raises(jn.UserError, match="threads must be an int"):
            places.launch(1, x, y, threads=threads)  # type: ignore[arg-type]
    for count in (1, 2, 3):
        places.launch((4, 1), x, y, threads=count)


def test_launches_of_several_threads_at_once(places: Kernel) -> None:
    def work(number: int) -> None:
        x, y = np.full(4, number, np.int32), np.zeros(4, np.int32)
        for _ in range(200):
            y[:] = 0
            places.launch(4, x, y)
            found.append(bool((y == x + 100 * np.arange(4)).all()))

    found: list[bool] = []
    threads = [threading.Thread(target=work, args=(each,)) for each in range(4)]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    assert found == [True] * 800


@pytest.mark.skipif(threading.current_thread() is not threading.main_thread(), reason="signals come to the main thread")
@pytest.mark.skipif(not hasattr(signal, "pthread_kill"), reason="sends a signal to a thread")
def test_ctrl_c_ends_a_launch_that_native_code_began() -> None:
    kernel, x = jn.kernel.from_ttir(SPINNING), np.zeros(1, np.int32)
    kernel.launch(1, x, 3)
    assert is_native(kernel, 1, x, 3)
    assert x[0] == 6
    before = signal.set_wakeup_fd(-1)
    signal.set_wakeup_fd(before)
    main = threading.get_ident()

    def interrupt() -> None:
        while x[0] == 6:
            time.sleep(0.001)
        signal.pthread_kill(main, signal.SIGINT)

    aside = threading.Thread(target=interrupt)
    aside.start()
    with pytest.raises(KeyboardInterrupt):
        kernel.launch(1, x, 1 << 40)
    aside.join()
    assert signal.set_wakeup_fd(before) == before, "the descriptor is the one that was there"
    kernel.launch(1, x, 1)


def test_another_thread_launches_where_signals_have_handlers() -> None:
    kernel, x = jn.kernel.from_ttir(SPINNING), np.zeros(1, np.int32)
    kernel.launch(1, x, 3)
    earlier = signal.signal(signal.SIGTERM, lambda number, frame: None)
    try:
        assert not is_native(kernel, 1, x, 3)
        kernel.launch(1, x, 3)
    finally:
        signal.signal(signal.SIGTERM, earlier)
    assert x[0] == 6

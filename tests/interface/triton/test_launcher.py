"""Launches as Triton makes them, on objects that stand for its tensors: Triton is not needed."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import joinery as jn
import numpy as np
import pytest
from joinery.interface.triton.benchmarking import benchmarker, is_timed
from joinery.interface.triton.binary import LoadedKernel, encode
from joinery.interface.triton.launcher import Launcher, take_any
from joinery.interface.triton.options import Options
from joinery.interface.triton.patches.arrays import as_argument
from joinery.interface.triton.testing import record

SCALE = """
module {
  tt.func public @scale(%x: !tt.ptr<f32>, %y: !tt.ptr<f32>, %n: i32, %f: f32) {
    %p = tt.get_program_id x : i32
    %c = arith.constant 16 : i32
    %s = arith.muli %p, %c : i32
    %r = tt.make_range {start = 0 : i32, end = 16 : i32} : tensor<16xi32>
    %b = tt.splat %s : i32 -> tensor<16xi32>
    %i = arith.addi %b, %r : tensor<16xi32>
    %e = tt.splat %n : i32 -> tensor<16xi32>
    %m = arith.cmpi slt, %i, %e : tensor<16xi32>
    %xs = tt.splat %x : !tt.ptr<f32> -> tensor<16x!tt.ptr<f32>>
    %xp = tt.addptr %xs, %i : tensor<16x!tt.ptr<f32>>, tensor<16xi32>
    %v = tt.load %xp, %m : tensor<16x!tt.ptr<f32>>
    %fs = tt.splat %f : f32 -> tensor<16xf32>
    %w = arith.mulf %v, %fs : tensor<16xf32>
    %ys = tt.splat %y : !tt.ptr<f32> -> tensor<16x!tt.ptr<f32>>
    %yp = tt.addptr %ys, %i : tensor<16x!tt.ptr<f32>>, tensor<16xi32>
    tt.store %yp, %w, %m : tensor<16x!tt.ptr<f32>>
    tt.return
  }
}
"""
UNMASKED = SCALE.replace("tt.load %xp, %m", "tt.load %xp")
SIGNATURE = {"x": "*fp32", "y": "*fp32", "n": "i32", "f": "fp32", "BLOCK": "constexpr"}
MODES: dict[str, dict[str, Any]] = {
    "native": {}, "one thread": {"threads": 1}, "interpret": {"interpret": True}, "sanitize": {"sanitize": True},
    "ptxsim": {"device": "ptxsim", "gpu": "sm_80"},
}  # fmt: skip


def tensor(values: Any, dtype: Any = np.float32) -> Any:
    return as_argument(np.array(values, dtype))


class Launch:
    """Calls a launcher as Triton does."""

    def __init__(self, text: str = SCALE, signature: dict[str, Any] = SIGNATURE, **options: Any) -> None:
        self.launcher = Launcher(SimpleNamespace(signature=signature), Options(**options))
        self.loaded = LoadedKernel("scale", encode(text, "scale", "strict", 4, native=not options))
        self.log: list[Any] = []

    def __call__(self, grid: tuple[Any, Any, Any], *args: Any, hooks: bool = False) -> None:
        enter = (lambda metadata: self.log.append(("enter", metadata))) if hooks else None
        leave = (lambda metadata: self.log.append(("exit", metadata))) if hooks else None
        self.launcher(*grid, 0, self.loaded, None, "metadata", enter, leave, *args)


@pytest.mark.parametrize("mode", MODES)
def test_every_mode_computes_the_same(mode: str) -> None:
    launch = Launch(**MODES[mode])
    x, y = tensor(np.arange(20)), tensor(np.zeros(20))
    launch((2, 1, 1), x, y, 20, 0.5, 16, hooks=True)
    np.testing.assert_array_equal(y, np.arange(20) * 0.5)
    assert launch.log == [("enter", "metadata"), ("exit", "metadata")]


@pytest.mark.parametrize("mode", MODES)
def test_views_lie_where_their_storage_does(mode: str) -> None:
    whole = np.arange(30, dtype=np.float32)
    x, y = as_argument(whole[2:12]), as_argument(whole[12:22])
    Launch(**MODES[mode])((1, 1, 1), x, y, 10, 2.0, 16)
    np.testing.assert_array_equal(whole, [*range(12), *(2 * i for i in range(2, 12)), *range(22, 30)])


@pytest.mark.parametrize("mode", MODES)
def test_in_place(mode: str) -> None:
    x = tensor(np.arange(20))
    Launch(**MODES[mode])((2, 1, 1), x, x, 20, 3.0, 16)
    np.testing.assert_array_equal(x, np.arange(20) * 3.0)


def test_the_sanitizer_finds_reads_beyond_the_storage_and_takes_note() -> None:
    x, y = tensor(np.arange(20)), tensor(np.zeros(20))
    noted = record.start()
    with pytest.raises(jn.SanitizerError, match=r"array of 20 elements"):
        Launch(UNMASKED, sanitize=True)((2, 1, 1), x, y, 20, 1.0, 16)
    assert dict(noted.launches) == {"scale": 1}
    assert [each.kernel for each in noted.findings] == ["scale"]
    whole = np.arange(40, dtype=np.float32)
    Launch(UNMASKED, sanitize=True)((2, 1, 1), as_argument(whole[:20]), y, 20, 1.0, 16)  # inside its storage


def test_constexprs_may_be_left_out() -> None:
    x, y = tensor(np.arange(20)), tensor(np.zeros(20))
    Launch()((2, 1, 1), x, y, 20, 0.5)
    np.testing.assert_array_equal(y, np.arange(20) * 0.5)
    with pytest.raises(jn.UserError, match="takes 5 arguments, got 3"):
        Launch()((2, 1, 1), x, y, 20)


@pytest.mark.parametrize("grid", [(-1, 1, 1), (1.5, 1, 1), ("2", 1, 1), (1 << 31, 1, 1), (1 << 30, 1 << 30, 16)])
def test_grids_that_are_none(grid: Any) -> None:
    with pytest.raises(jn.UserError, match="the grid"):
        Launch()(grid, tensor([1]), tensor([1]), 1, 1.0, 16)


def test_grids_of_numpy_integers_and_empty_ones() -> None:
    x, y = tensor(np.arange(20)), tensor(np.zeros(20))
    Launch()((0, 1, 1), x, y, 20, 0.5, 16)
    assert not y.any()
    Launch()((np.int64(2), np.int32(1), 1), x, y, 20, 0.5, 16)
    np.testing.assert_array_equal(y, np.arange(20) * 0.5)


class Bare:
    """What has an address and nothing else."""

    def __init__(self, array: Any) -> None:
        self.array = array

    def data_ptr(self) -> int:
        return int(self.array.ctypes.data)


def test_addresses_without_a_storage_may_lie_anywhere() -> None:
    x, y = np.arange(20, dtype=np.float32), np.zeros(20, np.float32)
    Launch()((2, 1, 1), Bare(x), Bare(y), 20, 0.5, 16)
    np.testing.assert_array_equal(y, x * 0.5)
    values, spans = take_any(list(SIGNATURE), list(SIGNATURE.values()), [Bare(x), y.ctypes.data, 20, 1.0, 16])
    assert [end - first for _, first, end in spans] == [1 << 62, 1 << 62]
    assert values[:3] == [x.ctypes.data, y.ctypes.data, 20]


def test_addresses_that_programs_wrap_themselves() -> None:
    class Wrapped(Bare):
        def untyped_storage(self) -> Any:
            return self

    x, y = np.arange(20, dtype=np.float32), np.zeros(20, np.float32)
    Launch()((2, 1, 1), Wrapped(x), as_argument(y), 20, 0.5, 16)
    np.testing.assert_array_equal(y, x * 0.5)


def test_what_is_no_argument() -> None:
    x = tensor([1.0])
    elsewhere = SimpleNamespace(is_cpu=False, device="cuda:0", data_ptr=lambda: 64)
    with pytest.raises(jn.UserError, match=r"x is a tensor on cuda:0.*fix: x\.cpu\(\)"):
        Launch()((1, 1, 1), elsewhere, x, 1, 1.0, 16)
    with pytest.raises(jn.UserError, match="x: a str has no memory to reach"):
        Launch()((1, 1, 1), "memory", x, 1, 1.0, 16)
    with pytest.raises(jn.UserError, match="n: expected a number"):
        Launch()((1, 1, 1), Bare(np.zeros(1, np.float32)), x, "1", 1.0, 16)
    for wrong, message in [
        (np.array(["a"], object), "holds no numbers"),
        (np.arange(3, dtype=">f4"), "byte order"),
        (np.broadcast_to(np.float32(1), (3,)), "read-only"),
    ]:
        with pytest.raises(jn.UserError, match=message):
            as_argument(wrong)


@pytest.mark.parametrize(
    ("type_", "value", "encoded"),
    [
        ("fp32", 1.5, np.float32(1.5).view(np.int32)),
        ("fp32", 1e39, np.float32(np.inf).view(np.int32)),
        ("fp16", 1 / 3, np.float32(np.float16(1 / 3)).view(np.int32)),
        ("bf16", 1.00390625, np.float32(1.0).view(np.int32)),
        ("fp64", 1 / 3, np.float64(1 / 3).view(np.int64)),
        ("i32", -1, -1),
        ("u64", (1 << 64) - 1, -1),
        ("i1", True, 1),
        ("i64", np.int64(7), 7),
    ],
)
def test_numbers_as_native_code_reads_them(type_: str, value: Any, encoded: Any) -> None:
    values, spans = take_any(["n"], [type_], [value])
    assert (values, spans) == ([int(encoded)], [])
    launcher = Launcher(SimpleNamespace(signature={"n": type_}), Options())
    try:
        assert int(launcher._take(value)[0][0]) % (1 << 64) == int(encoded) % (1 << 64)
    except (OverflowError, TypeError):
        assert (type_, value) == ("fp32", 1e39) or type_ in ("fp16", "bf16"), "the launcher asks take_any then"


def test_tuples_are_taken_apart_and_their_constexprs_dropped() -> None:
    values, spans = take_any(["t", "n"], [("*fp32", "constexpr", ("i32", "i32")), "i32"], [(64, "x", (1, 2)), 3])
    assert values == [64, 1, 2, 3]
    assert len(spans) == 1


def test_descriptors_become_what_the_kernel_reads() -> None:
    base = tensor(np.zeros((4, 8)))
    described = SimpleNamespace(base=base, shape=[4, 8], strides=[8, 1], padding="nan")
    values, ((position, first, end),) = take_any(["d"], ["tensordesc<fp32[2, 2]>"], [described])
    assert values == [base.data_ptr(), 4, 8, 8, 1, 1, 4, 8, 8, 1]
    assert (position, end - first) == (0, 128)
    for shape, strides in [([5, 8], [8, 1]), ([4, 8], [9, 1]), ([4, 8], [-8, 1])]:
        beyond = SimpleNamespace(base=base, shape=shape, strides=strides)
        with pytest.raises(jn.UserError, match="bytes beyond its tensor"):
            take_any(["d"], ["tensordesc<fp32[2, 2]>"], [beyond])


def test_kernels_in_a_cache_that_are_damaged() -> None:
    data = encode(SCALE, "scale", "strict", 4, native=False)
    assert LoadedKernel("scale", data).text == SCALE
    for damaged in (b"", data[:-1], data + b"x", b"X" + data[1:]):
        with pytest.raises(jn.UserError, match="damaged"):
            LoadedKernel("scale", damaged)


@pytest.mark.parametrize("kept", [False, True], ids=["compiled anew", "kept"])
def test_native_code_that_checks_bounds(kept: bool) -> None:
    """An access outside of a tensor's storage is an error of the launch and of the test that makes it, with nothing written."""
    launch = Launch(UNMASKED, check_bounds=True)
    if kept:
        launch.loaded = LoadedKernel("scale", encode(UNMASKED, "scale", "strict", 4, native=True, check_bounds=True))
        assert launch.loaded.checked_native.facts.checked
        assert not launch.loaded.native.facts.checked
    x, y = tensor(np.arange(32)), tensor(np.zeros(20))
    launch((2, 1, 1), x, y, 20, 0.5, 16)
    np.testing.assert_array_equal(y, np.arange(20) * 0.5)
    found = record.start()
    message = r"program \(1, 0, 0\): tt.load: element 20 of array 'x' is read, by element \(4,\) of the block"
    with pytest.raises(jn.UserError, match=message):
        launch((2, 1, 1), tensor(np.arange(20)), y, 20, 0.5, 16)
    assert [each.kernel for each in found.findings] == ["scale"]


def test_configurations_with_the_same_code_are_timed_once() -> None:
    timed: list[int] = []

    def do_bench(kernel_call: Any, quantiles: Any = None) -> list[float]:
        kernel_call()
        timed.append(1)
        return [float(len(timed))] * 3

    bench = benchmarker(do_bench)
    x, y, launch = tensor(np.arange(20)), tensor(np.zeros(20)), Launch()
    other = Launch(SCALE.replace("mulf", "addf"))

    def call(launch: Launch, factor: float = 0.5, programs: int = 2) -> list[float]:
        found: list[float] = bench(lambda: launch((programs, 1, 1), x, y, 20, factor, 16), quantiles=(0.5, 0.2, 0.8))
        return found

    assert [call(launch)[0], call(Launch())[0], call(launch)[0]] == [1, 1, 1]
    assert call(other)[0] == 2, "another text"
    assert call(launch, factor=0.25)[0] == 3, "other arguments"
    assert call(launch, programs=1)[0] == 4, "another grid"
    interpreted = Launch(interpret=True)
    assert call(interpreted)[0] != call(interpreted)[0], "launches that are not native are timed each time"

    def fail() -> None:
        raise ValueError("of the kernel")

    with pytest.raises(ValueError, match="of the kernel"):
        bench(fail)
    assert not is_timed()


def test_unsigned_numbers_beyond_the_signed_ones() -> None:
    text = "module { tt.func public @scale(%y: !tt.ptr<i64>, %a: i64) { tt.store %y, %a : !tt.ptr<i64>\n tt.return } }"
    launch, y = Launch(text, {"y": "*u64", "a": "u64"}), tensor(np.zeros(1), np.uint64)
    launch.loaded = LoadedKernel("scale", encode(text, "scale", "strict", 4, native=True))
    for number in ((1 << 64) - 5, 1 << 63, 7):
        launch((1, 1, 1), y, number)
        assert y[0] == number


def test_arrays_know_their_memory() -> None:
    owner = np.zeros((8, 16), np.float32)
    first = owner.__array_interface__["data"][0]
    for array in (owner, owner[2:], owner[:, ::-1], owner.T, owner.reshape(-1)[5:9]):
        argument = as_argument(array)
        assert argument.data_ptr() == array.__array_interface__["data"][0]
        assert argument.memory_span() == (first, first + owner.nbytes)
        assert argument[1:].data_ptr() == array[1:].__array_interface__["data"][0], "a part of it is another array"
    closed = owner.copy()
    assert as_argument(closed).memory_span()[1] - as_argument(closed).memory_span()[0] == owner.nbytes
    closed.flags.writeable = False
    with pytest.raises(jn.UserError, match="read-only"):
        as_argument(closed)
    with pytest.raises(jn.UserError, match="other byte order"):
        as_argument(owner.astype(owner.dtype.newbyteorder()))

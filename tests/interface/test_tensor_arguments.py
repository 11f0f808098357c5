"""`TensorDescriptor` and `PointerTable`: what they accept, what kernels make of them, and tensor maps in memory."""

from __future__ import annotations

import gc
from collections.abc import Callable
from typing import Any

import joinery as jn
import ml_dtypes
import numpy as np
import pytest

Runner = Callable[..., None]


def interpret(kernel: Any, grid: Any, *args: Any) -> None:
    kernel.interpret(grid, *args)


def launch(kernel: Any, grid: Any, *args: Any) -> None:
    kernel.launch(grid, *args, threads=2)


both = pytest.mark.parametrize("run", [interpret, launch])

SIZES = "%{0}n: i32, %{0}m: i32, %{0}s: i64, %{0}t: i64"


def copy(elem: str = "f32", sizes: bool = True, kind: str = "") -> Any:
    """Copies blocks of 4 x 8 from one descriptor to another, two columns to the left."""
    name = f"!tt.tensordesc<4x8x{kind}{elem}>"
    trailing = [f", {SIZES.format(letter)}" if sizes else "" for letter in "ab"]
    return jn.kernel.from_ttir(f"""
    tt.func public @copy(%a: {name}{trailing[0]}, %b: {name} {{tt.hint = 1 : i32}}{trailing[1]}) {{
      %c2 = arith.constant 2 : i32
      %c4 = arith.constant 4 : i32
      %c8 = arith.constant 8 : i32
      %x = tt.get_program_id x : i32
      %y = tt.get_program_id y : i32
      %i = arith.muli %x, %c4 : i32
      %j = arith.muli %y, %c8 : i32
      %k = arith.addi %j, %c2 : i32
      %v = tt.descriptor_load %a[%i, %k] : {name} -> tensor<4x8x{elem}>
      tt.descriptor_store %b[%i, %j], %v : {name}, tensor<4x8x{elem}>
      tt.return
    }}""")


@both
@pytest.mark.parametrize("sizes", [True, False])
@pytest.mark.parametrize("padding", ["zero", "nan"])
def test_one_descriptor_supplies_sizes_and_padding(sizes: bool, padding: str, run: Runner) -> None:
    source = np.arange(300, dtype=np.float32)
    target = np.full((9, 16), -1, np.float32)
    given = jn.TensorDescriptor(source, shape=(7, 10), strides=(20, 1), block_shape=(4, 8), padding=padding)
    run(copy(sizes=sizes), (3, 2), given, jn.TensorDescriptor(target))
    expected = np.full((9, 16), np.nan if padding == "nan" else 0, np.float32)
    expected[:7, :8] = source[:140].reshape(7, 20)[:, 2:10]
    np.testing.assert_array_equal(target, expected)


@both
def test_strides_of_any_kind(run: Runner) -> None:
    """The transpose of the source, backwards in the target's memory order."""
    source = np.arange(70, dtype=np.float32)
    target = np.zeros((7, 10), np.float32)
    run(
        copy(),
        (2, 2),
        jn.TensorDescriptor(source, shape=(7, 10), strides=(1, 7)),
        jn.TensorDescriptor(target, shape=[np.int64(7), 8], strides=np.array([10, 1])),
    )
    np.testing.assert_array_equal(target[:, :8], source.reshape(10, 7).T[:, 2:])
    np.testing.assert_array_equal(target[:, 8:], 0)


@both
def test_sizes_may_be_passed_one_by_one(run: Runner) -> None:
    source, target = np.arange(32, dtype=np.float32).reshape(4, 8), np.zeros((4, 8), np.float32)
    given, other = jn.TensorDescriptor(source), jn.TensorDescriptor(target)
    run(copy(), 1, given, 4, 8, 8, 1, other, 4, 8, 8, 1)
    np.testing.assert_array_equal(target[:, :6], source[:, 2:])


@both
@pytest.mark.parametrize(
    ("elem", "dtype"),
    [("bf16", ml_dtypes.bfloat16), ("bf16", np.uint16), ("f8E5M2", np.uint8), ("i8", np.int8)],
)
def test_elements_may_be_raw_bits(elem: str, dtype: Any, run: Runner) -> None:
    source = np.arange(1, 33).reshape(4, 8).astype(dtype)
    target = np.zeros((4, 8), dtype)
    run(copy(elem), 1, jn.TensorDescriptor(source), jn.TensorDescriptor(target))
    bits = f"u{source.itemsize}"
    np.testing.assert_array_equal(target.view(bits)[:, :6], source.view(bits)[:, 2:])
    np.testing.assert_array_equal(target.view(bits)[:, 6:], 0)


def test_the_sizes_a_kernel_reads_are_the_descriptors() -> None:
    kernel = jn.kernel.from_ttir(f"""
    tt.func public @f(%a: !tt.tensordesc<4x8xf32>, {SIZES.format("a")}, %o: !tt.ptr<i64>) {{
      %c1 = arith.constant 1 : i32
      %n = arith.extsi %an : i32 to i64
      %m = arith.extsi %am : i32 to i64
      %p = tt.addptr %o, %c1 : !tt.ptr<i64>, i32
      %q = tt.addptr %p, %c1 : !tt.ptr<i64>, i32
      %r = tt.addptr %q, %c1 : !tt.ptr<i64>, i32
      tt.store %o, %n : !tt.ptr<i64>
      tt.store %p, %m : !tt.ptr<i64>
      tt.store %q, %as : !tt.ptr<i64>
      tt.store %r, %at : !tt.ptr<i64>
      tt.return
    }}""")
    for run in (interpret, launch):
        out = np.zeros(4, np.int64)
        run(kernel, 1, jn.TensorDescriptor(np.zeros(100, np.float32), shape=(3, 5), strides=(11, 2)), out)
        assert out.tolist() == [3, 5, 11, 2]


F32 = np.zeros((6, 10), np.float32)
REFUSED = [
    (lambda: jn.TensorDescriptor([1.0]), "TensorDescriptor: expected a NumPy array, got list"),
    (lambda: jn.TensorDescriptor(F32.T), "TensorDescriptor: the array is not C-contiguous"),
    (lambda: jn.TensorDescriptor(np.array([None])), "an array of Python objects"),
    (lambda: jn.TensorDescriptor(np.zeros(())), "a tensor has at least one axis"),
    (lambda: jn.TensorDescriptor(F32, strides=(1,)), r"shape \(6, 10\) has 2 axes, strides \(1,\) has 1"),
    (lambda: jn.TensorDescriptor(F32, block_shape=(1, 2, 4)), r"shape \(6, 10\) has 2 axes, block_shape \(1, 2, 4\) has 3"),
    (lambda: jn.TensorDescriptor(F32, shape=(6, 11)), r"shape \(6, 11\) with strides \(11, 1\) reaches element 65, "
     "the array has elements 0 … 59"),
    (lambda: jn.TensorDescriptor(F32, strides=(10, 2)), "reaches element 68, the array has elements 0 … 59"),
    (lambda: jn.TensorDescriptor(F32, strides=(10, -1)), "reaches element -9, the array has elements 0 … 59"),
    (lambda: jn.TensorDescriptor(F32, shape=(-6, 10)), r"shape \(-6, 10\), expected extents from 0 to 2147483647"),
    (lambda: jn.TensorDescriptor(F32, shape=(1 << 31, 1), strides=(0, 0)), "expected extents from 0 to 2147483647"),
    (lambda: jn.TensorDescriptor(F32, shape=((1 << 31) - 1,) * 3), "more elements than fit into memory"),
    (lambda: jn.TensorDescriptor(F32, strides=(1 << 63, 1)), "does not fit into 64 bits"),
    (lambda: jn.TensorDescriptor(F32, shape="ab"), "shape 'ab', expected a sequence of integers"),
    (lambda: jn.TensorDescriptor(F32, shape=(6.0, 10)), r"shape \(6.0, 10\), expected a sequence of integers"),
    (lambda: jn.TensorDescriptor(F32, shape=(True, 10)), "expected a sequence of integers"),
    (lambda: jn.TensorDescriptor(F32, padding="NaN"), "padding 'NaN', expected 'zero' or 'nan'"),
    (lambda: jn.TensorDescriptor(F32.astype(np.int32), padding="nan"), "padding 'nan' of int32 elements"),
    (lambda: jn.PointerTable(F32), "PointerTable: expected a list of NumPy arrays, got ndarray"),
    (lambda: jn.PointerTable([F32, 3]), "PointerTable, array 1: expected a NumPy array, got int"),
    (lambda: jn.PointerTable([F32[:, ::2]]), "PointerTable, array 0: the array is not C-contiguous"),
]  # fmt: skip


@pytest.mark.parametrize(("make", "message"), REFUSED)
def test_what_cannot_be_described_is_refused(make: Callable[[], Any], message: str) -> None:
    with pytest.raises(jn.UserError, match=message):
        make()


def test_an_empty_tensor_needs_no_memory() -> None:
    target = np.ones((4, 8), np.float32)
    for run in (interpret, launch):
        run(copy(), 1, jn.TensorDescriptor(np.zeros((0, 8), np.float32)), jn.TensorDescriptor(target))
        np.testing.assert_array_equal(target, 0)


def given(*args: Any, **options: Any) -> Any:
    return jn.TensorDescriptor(np.zeros((8, 8), np.float32), *args, **options)


MISMATCHED = [
    (
        (F32, given()),
        "parameter a of type !tt.tensordesc<4x8xf32>: expected a joinery.TensorDescriptor, got ndarray",
    ),
    (
        (given(), 3.5),
        "parameter b of type !tt.tensordesc<4x8xf32>: expected a joinery.TensorDescriptor, got float",
    ),
    ((given(),), "@copy takes 2 or 10 arguments, got 1"),
    ((given(), given(), 8), "@copy takes 2 or 10 arguments, got 3"),
    (
        (jn.TensorDescriptor(np.zeros((8, 8), np.float16)), given()),
        "float16 of 2 bytes, expected elements of 4",
    ),
    (
        (jn.TensorDescriptor(np.zeros(64, np.float32)), given()),
        r"the tensor has shape \(64,\), expected 2 axes",
    ),
    (
        (given(), jn.TensorDescriptor(np.zeros((2, 4, 8), np.float32))),
        r"the tensor has shape \(2, 4, 8\), expected 2 axes",
    ),
    ((given(block_shape=(8, 4)), given()), r"block_shape is \(8, 4\), expected \(4, 8\)"),
    ((jn.PointerTable([F32]), given()), "expected a joinery.TensorDescriptor, got PointerTable"),
]


@both
@pytest.mark.parametrize(("args", "message"), MISMATCHED)
def test_arguments_that_do_not_fit_the_type(args: Any, message: str, run: Runner) -> None:
    with pytest.raises(jn.UserError, match=message):
        run(copy(), 1, *args)


@both
def test_nan_for_integers_is_refused_at_the_launch_too(run: Runner) -> None:
    with pytest.raises(jn.UserError, match="padding 'nan' of integers"):
        run(copy("i32", kind="s"), 1, given(padding="nan"), given())


@both
def test_read_only_memory(run: Runner) -> None:
    source = np.zeros((8, 8), np.float32)
    source.flags.writeable = False
    with pytest.raises(jn.UserError, match="read-only"):
        run(copy(), 1, given(), jn.TensorDescriptor(source))


TABLE = """
tt.func public @f(%tab: {type}, %o: !tt.ptr<f32>) {{
  %g = tt.get_program_id x : i32
  %p = tt.addptr %tab, %g : {type}, i32
  {load}
  %v = tt.load %b : !tt.ptr<f32>
  %w = arith.addf %v, %v : f32
  tt.store %b, %w : !tt.ptr<f32>
  %q = tt.addptr %o, %g : !tt.ptr<f32>, i32
  tt.store %q, %v : !tt.ptr<f32>
  tt.return
}}"""
INTEGERS = TABLE.format(
    type="!tt.ptr<i64>", load="%a = tt.load %p : !tt.ptr<i64>\n%b = tt.int_to_ptr %a : i64 -> !tt.ptr<f32>"
)


@both
def test_tables_of_pointers_are_read_and_their_arrays_written(run: Runner) -> None:
    kernel = jn.kernel.from_ttir(INTEGERS)
    arrays = [np.array([i, 5], np.float32) for i in range(4)]
    out = np.zeros(4, np.float32)
    run(kernel, 4, jn.PointerTable(arrays), out)
    assert out.tolist() == [0, 1, 2, 3]
    assert [array.tolist() for array in arrays] == [[0, 5], [2, 5], [4, 5], [6, 5]]


def test_a_table_keeps_its_arrays() -> None:
    kernel = jn.kernel.from_ttir(INTEGERS)
    table = jn.PointerTable([np.full(100_000, i, np.float32) for i in range(8)])
    out = np.zeros(8, np.float32)
    for turn in range(3):
        gc.collect()
        kernel.launch(8, table, out)
        assert out.tolist() == [i * 2**turn for i in range(8)]


@both
@pytest.mark.parametrize(
    ("args", "message"),
    [
        ((given(), F32), r"does not go to this parameter; a TensorDescriptor goes to a !tt.tensordesc"),
        ((jn.PointerTable([F32]), jn.PointerTable([F32])), "a PointerTable to a !tt.ptr<i64>"),
        ((np.zeros(3, np.float32), F32), "dtype float32 of 4 bytes, expected elements of 8"),
    ],
)
def test_what_does_not_go_to_a_table(args: Any, message: str, run: Runner) -> None:
    with pytest.raises(jn.UserError, match=message):
        run(jn.kernel.from_ttir(INTEGERS), 1, *args)


@both
def test_block_pointers_do_not_come_from_outside(run: Runner) -> None:
    kernel = jn.kernel.from_ttir("tt.func public @f(%p: !tt.ptr<tensor<8xf32>>) {\ntt.return\n}")
    with pytest.raises(jn.UserError, match=r"pointers to blocks are made by tt\.make_tensor_ptr"):
        run(kernel, 1, F32)


RAW = """
tt.func public @f(%da: !tt.ptr<i8, 0> {tt.nv_tma_desc = 1 : i32}, %db: !tt.ptr<i8, 0> {tt.nv_tma_desc = 1 : i32}) {
  %c0 = arith.constant 0 : i32
  %c16 = arith.constant 16 : i32
  %a = tt.reinterpret_tensor_descriptor %da : !tt.ptr<i8, 0> to !tt.tensordesc<tensor<16x64xf16>>
  %b = tt.reinterpret_tensor_descriptor %db : !tt.ptr<i8, 0> to !tt.tensordesc<tensor<16x64xf16>>
  %x = tt.get_program_id x : i32
  %i = arith.muli %x, %c16 : i32
  %t = tt.experimental_descriptor_load %a[%i, %c0] : !tt.tensordesc<tensor<16x64xf16>> -> tensor<16x64xf16>
  tt.experimental_descriptor_store %b[%i, %c0], %t : !tt.tensordesc<tensor<16x64xf16>>, tensor<16x64xf16>
  tt.return
}"""


@both
@pytest.mark.parametrize("padding", ["zero", "nan"])
def test_descriptors_as_tensor_maps(padding: str, run: Runner) -> None:
    source = np.random.default_rng(0).standard_normal((37, 50)).astype(np.float16)
    target = np.zeros((40, 60), np.float16)
    run(
        jn.kernel.from_ttir(RAW), 3, jn.TensorDescriptor(source, padding=padding), jn.TensorDescriptor(target)
    )
    expected = np.full((40, 60), np.nan if padding == "nan" else 0, np.float16)
    expected[:37, :50] = source
    np.testing.assert_array_equal(target, expected)


def test_memory_that_is_no_tensor_map() -> None:
    kernel = jn.kernel.from_ttir(RAW)
    target = np.ones((16, 64), np.float16)
    wrong = [
        np.zeros(128, np.int8),
        jn.TensorDescriptor(np.ones(64, np.float16)),
        jn.TensorDescriptor(np.ones((16, 64), np.float32)),
    ]
    for nothing in wrong:
        with pytest.raises(jn.UserError, match="there is no tensor map of 2 axes and elements of 2 bytes"):
            kernel.interpret(1, nothing, jn.TensorDescriptor(target))
        target[:] = 1
        kernel.launch(1, nothing, jn.TensorDescriptor(target))  # an empty tensor: padding
        np.testing.assert_array_equal(target, 0)
    for strange in (np.ones((1,) * 6, np.float16), np.ones((4, 4), np.float16)):
        strides = (16, 2) if strange.ndim == 2 else None
        bad = jn.TensorDescriptor(np.ones(99, np.float16), shape=strange.shape, strides=strides)
        for run in (interpret, launch):
            with pytest.raises(
                jn.UserError, match="has no tensor map; that takes at most 5 axes and a last stride of 1"
            ):
                run(kernel, 1, bad, jn.TensorDescriptor(target))


def tensormap(create: str, options: str = "interleave_layout = 0 : i32") -> Any:
    return jn.kernel.from_ttir(f"""
    tt.func public @f(%ws: !tt.ptr<i8>, %x: !tt.ptr<f32>, %o: !tt.ptr<f32>, %n: i32, %m: i32, %s: i64, %i: i32, %j: i32) {{
      %c1 = arith.constant 1 : i32
      %c8 = arith.constant 8 : i32
      %one = arith.constant 1 : i64
      tt.experimental_tensormap_create %ws, %x, [%c8, %c8], [%m, %n], [%s], [{create}] {{elem_type = 7 : i32,
        fill_mode = 1 : i32, {options}, swizzle_mode = 0 : i32}}
        : (!tt.ptr<i8>, !tt.ptr<f32>, i32, i32, i32, i32, i64, i32, i32) -> ()
      tt.experimental_tensormap_fenceproxy_acquire %ws : !tt.ptr<i8>
      %d = tt.reinterpret_tensor_descriptor %ws : !tt.ptr<i8> to !tt.tensordesc<tensor<8x8xf32>>
      %t = tt.experimental_descriptor_load %d[%i, %j] : !tt.tensordesc<tensor<8x8xf32>> -> tensor<8x8xf32>
      %8 = arith.constant 8 : i64
      %e = tt.make_tensor_descriptor %o, [%c8, %c8], [%8, %one] : <f32>, <tensor<8x8xf32>>
      %c0 = arith.constant 0 : i32
      tt.experimental_descriptor_store %e[%c0, %c0], %t : !tt.tensordesc<tensor<8x8xf32>>, tensor<8x8xf32>
      tt.return
    }}""")


@both
def test_tensor_maps_made_by_the_kernel(run: Runner) -> None:
    """Extents go from the innermost axis outwards, strides are bytes."""
    x, out = np.arange(200, dtype=np.float32), np.zeros((8, 8), np.float32)
    workspace = np.full(136, 7, np.int8)
    run(tensormap("%c1, %c1"), 1, workspace, x, out, 9, 12, 4 * 16, 3, 7)
    expected = np.full((8, 8), np.nan, np.float32)
    expected[:6, :5] = x[:144].reshape(9, 16)[3:, 7:12]
    np.testing.assert_array_equal(out, expected)
    np.testing.assert_array_equal(workspace[128:], 7)


@both
@pytest.mark.parametrize(
    ("create", "options", "message"),
    [
        ("%c1, %c8", "interleave_layout = 0 : i32", "element strides"),
        ("%c1, %c1", "interleave_layout = 1 : i32", "interleaved layout"),
    ],
)
def test_tensor_maps_that_are_not_known(create: str, options: str, message: str, run: Runner) -> None:
    x, out = np.arange(200, dtype=np.float32), np.zeros((8, 8), np.float32)
    with pytest.raises(jn.UnsupportedError, match=message):
        run(tensormap(create, options), 1, np.zeros(128, np.int8), x, out, 9, 12, 4 * 16, 3, 7)


def test_the_classes_are_public() -> None:
    assert {"TensorDescriptor", "PointerTable"} <= set(dir(jn))
    assert (
        repr(given(padding="nan")) == "<TensorDescriptor float32: shape (8, 8), strides (8, 1), padding nan>"
    )
    assert repr(jn.PointerTable([F32, F32])) == "<PointerTable of 2 arrays>"

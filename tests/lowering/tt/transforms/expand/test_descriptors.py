"""Accesses through descriptors and block pointers against plain NumPy indexing, interpreted and on the host."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from typing import Any

import joinery as jn
import ml_dtypes
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from .....support.tiers import examples

Runner = Callable[..., None]
DTYPES = {
    "f64": np.float64, "f32": np.float32, "f16": np.float16, "bf16": ml_dtypes.bfloat16, "f8E5M2": ml_dtypes.float8_e5m2,
    "f8E4M3FN": ml_dtypes.float8_e4m3fn, "i8": np.int8, "i16": np.int16, "i32": np.int32, "i64": np.int64,
}  # fmt: skip


def interpret(kernel: Any, grid: Any, *args: Any) -> None:
    kernel.interpret(grid, *args)


def launch(kernel: Any, grid: Any, *args: Any) -> None:
    kernel.launch(grid, *args, threads=1)


def launch_on_two(kernel: Any, grid: Any, *args: Any) -> None:
    kernel.launch(grid, *args, threads=2)


both = pytest.mark.parametrize("run", [interpret, launch])


def numbers(count: int, elem: str, seed: int = 0) -> np.ndarray:
    values = np.random.default_rng(seed).integers(-100, 100, count)
    return (values / 4 if elem[0] in "fb" else values).astype(DTYPES[elem])


def bits(array: np.ndarray) -> np.ndarray:
    """What makes two arrays the same: NaN is NaN."""
    wide = array.astype(np.float64)
    return np.where(np.isnan(wide), np.inf, wide)


def lanes(shape: Sequence[int], strides: Sequence[int], offsets: Sequence[int], block: Sequence[int], checked: Sequence[int]):
    """(position in the block, element of the array or None outside the tensor), written out."""
    for position in itertools.product(*map(range, block)):
        index = [offset + step for offset, step in zip(offsets, position, strict=True)]
        inside = all(0 <= index[axis] < shape[axis] for axis in checked)
        yield position, sum(i * stride for i, stride in zip(index, strides, strict=True)) if inside else None


def read(array, shape, strides, offsets, block, padding, checked=None) -> np.ndarray:
    out = np.full(block, np.nan if padding == "nan" else 0, np.float64).astype(array.dtype)
    for position, element in lanes(shape, strides, offsets, block, range(len(block)) if checked is None else checked):
        if element is not None:
            out[position] = array[element]
    return out


def write(array, value, shape, strides, offsets, update=lambda old, new: new, checked=None) -> np.ndarray:
    out = array.copy()
    for position, element in lanes(shape, strides, offsets, value.shape, range(value.ndim) if checked is None else checked):
        if element is not None:
            out[element] = update(out[element], value[position])
    return out


def text(kind: str, block: Sequence[int], elem: str, padding: str = "zero", starts: str = "%o{d}", reduce: str = "add",
         sign: str = "", checked: Sequence[int] | None = None) -> str:  # fmt: skip
    """A program between a flat block at %v and the tensor at %t.

    `kind`: load or store (descriptor), pointer_load or pointer_store (block pointer), reduce. `starts`: how an offset is made.
    """
    rank, axes = len(block), range(len(block))
    shape, count = "x".join(map(str, block)), int(np.prod(block))
    sizes = ", ".join(f"%n{d}: i32, %s{d}: i64, %o{d}: i32" for d in axes)
    lines = [f"tt.func public @f(%t: !tt.ptr<{elem}>, %v: !tt.ptr<{elem}>, {sizes}) {{"]
    for d in axes:
        lines += [f"%b{d} = arith.constant {block[d]} : i32", f"%w{d} = arith.extsi %n{d} : i32 to i64"]
        if "{d}" in starts and "at" in starts:
            lines.append(f"%at{d} = arith.muli %o{d}, %b{d} : i32")
    extents, wide = (", ".join(f"%{name}{d}" for d in axes) for name in "nw")
    strides, offsets = ", ".join(f"%s{d}" for d in axes), ", ".join(starts.format(d=d) for d in axes)
    tensor, desc = f"tensor<{shape}x{elem}>", f"!tt.tensordesc<{shape}x{sign}{elem}>"
    lines += [
        f"%r = tt.make_range {{end = {count} : i32, start = 0 : i32}} : tensor<{count}xi32>",
        f"%p = tt.splat %v : !tt.ptr<{elem}> -> tensor<{count}x!tt.ptr<{elem}>>",
        f"%flat = tt.addptr %p, %r : tensor<{count}x!tt.ptr<{elem}>>, tensor<{count}xi32>",
    ]
    if kind.startswith("pointer"):
        order = ", ".join(str(d) for d in reversed(axes))
        check = ", ".join(map(str, axes if checked is None else checked))
        hint = f"boundaryCheck = array<i32{':' if check else ''} {check}>" + (
            f", padding = {1 if padding == 'zero' else 2} : i32" if kind == "pointer_load" else ""
        )
        lines.append(
            f"%d = tt.make_tensor_ptr %t, [{wide}], [{strides}], [{offsets}] {{order = array<i32: {order}>}} : <{tensor}>"
        )
    else:
        option = " {padding = 2 : i32}" if padding == "nan" else ""
        lines.append(
            f"%d = tt.make_tensor_descriptor %t, [{extents}], [{strides}]{option} : <{elem}>, <{shape}x{sign}{elem}>"
        )
    value = [
        f"%x = tt.load %flat : tensor<{count}x!tt.ptr<{elem}>>",
        f"%y = tt.reshape %x : tensor<{count}x{elem}> -> {tensor}",
    ]
    back = [
        f"%x = tt.reshape %y : {tensor} -> tensor<{count}x{elem}>",
        f"tt.store %flat, %x : tensor<{count}x!tt.ptr<{elem}>>",
    ]
    match kind:
        case "load":
            lines += [f"%y = tt.descriptor_load %d[{offsets}] : {desc} -> {tensor}", *back]
        case "store":
            lines += [*value, f"tt.descriptor_store %d[{offsets}], %y : {desc}, {tensor}"]
        case "reduce":
            lines += [*value, f"tt.descriptor_reduce {reduce}, %d[{offsets}], %y : {desc}, {tensor}"]
        case "pointer_load":
            lines += [f"%y = tt.load %d {{{hint}}} : !tt.ptr<{tensor}>", *back]
        case "pointer_store":
            lines += [*value, f"tt.store %d, %y {{{hint}}} : !tt.ptr<{tensor}>"]
    assert rank == len(shape.split("x"))
    return "\n".join([*lines, "tt.return", "}"])


def sizes_of(shape: Sequence[int], strides: Sequence[int], offsets: Sequence[int]) -> list[int]:
    return [value for triple in zip(shape, strides, offsets, strict=True) for value in triple]


TAILS = [  # shape, strides, offsets, block: inside, over each edge, over opposite corners, wholly outside, strides of all kinds
    ((5,), (1,), (0,), (8,)),
    ((20,), (1,), (-3,), (8,)),
    ((20,), (3,), (17,), (4,)),
    ((20,), (1,), (40,), (8,)),
    ((20,), (1,), (-8,), (8,)),
    ((7, 9), (9, 1), (0, 0), (4, 8)),
    ((7, 9), (9, 1), (4, 8), (4, 8)),
    ((7, 9), (12, 1), (-2, 3), (4, 8)),
    ((7, 9), (1, 7), (5, -5), (4, 8)),
    ((7, 9), (20, 2), (-1, 6), (8, 4)),
    ((3, 9), (0, 1), (1, 4), (4, 8)),
    ((7, 1), (1, 1), (3, 0), (8, 1)),
    ((0, 9), (9, 1), (0, 0), (4, 8)),
    ((3, 5, 9), (45, 9, 1), (1, 2, 3), (2, 4, 8)),
    ((3, 5, 9), (1, 27, 3), (-1, 2, -3), (1, 4, 8)),
    ((2, 3, 2, 5), (30, 10, 5, 1), (1, -1, 0, 2), (2, 2, 1, 4)),
    ((2, 3, 2, 3, 4), (72, 24, 12, 4, 1), (0, 1, 1, -1, 2), (1, 2, 2, 2, 4)),
]


def largest(shape: Sequence[int], strides: Sequence[int]) -> int:
    return sum(max(extent - 1, 0) * stride for extent, stride in zip(shape, strides, strict=True)) + 1


@pytest.mark.one_in(6)
@both
@pytest.mark.parametrize("kind", ["load", "pointer_load"])
@pytest.mark.parametrize(("shape", "strides", "offsets", "block"), TAILS)
def test_loads_pad_outside(kind: str, shape: Any, strides: Any, offsets: Any, block: Any, run: Runner) -> None:
    kernel = jn.kernel.from_ttir(text(kind, block, "f32", "nan"))
    source = numbers(largest(shape, strides), "f32")
    out = np.zeros(block, np.float32)
    run(kernel, 1, source, out, *sizes_of(shape, strides, offsets))
    np.testing.assert_array_equal(out, read(source, shape, strides, offsets, block, "nan"))


@pytest.mark.one_in(6)
@both
@pytest.mark.parametrize("kind", ["store", "pointer_store"])
@pytest.mark.parametrize(("shape", "strides", "offsets", "block"), [tail for tail in TAILS if 0 not in tail[1]])
def test_stores_drop_what_lies_outside(kind: str, shape: Any, strides: Any, offsets: Any, block: Any, run: Runner) -> None:
    kernel = jn.kernel.from_ttir(text(kind, block, "i32"))
    target, value = numbers(largest(shape, strides), "i32"), numbers(int(np.prod(block)), "i32", 1)
    expected = write(target, value.reshape(block), shape, strides, offsets)
    run(kernel, 1, target, value, *sizes_of(shape, strides, offsets))
    np.testing.assert_array_equal(target, expected)


@pytest.mark.one_in(3)
@both
@pytest.mark.parametrize("elem", DTYPES)
def test_every_element_type_is_read_padded_and_written(elem: str, run: Runner) -> None:
    padding = "nan" if elem[0] in "fb" else "zero"
    source, out = numbers(70, elem), np.zeros(32, DTYPES[elem])
    run(jn.kernel.from_ttir(text("load", (4, 8), elem, padding)), 1, source, out, *sizes_of((7, 10), (10, 1), (5, -3)))
    np.testing.assert_array_equal(bits(out.reshape(4, 8)), bits(read(source, (7, 10), (10, 1), (5, -3), (4, 8), padding)))
    value, target = numbers(32, elem, 2), numbers(70, elem)
    run(jn.kernel.from_ttir(text("store", (4, 8), elem)), 1, target, value, *sizes_of((7, 10), (10, 1), (-2, 6)))
    expected = write(source, value.reshape(4, 8), (7, 10), (10, 1), (-2, 6))
    np.testing.assert_array_equal(bits(target), bits(expected))


@both
@pytest.mark.parametrize("place", [-3, -1, 0, 1, 2, 5])
def test_offsets_that_are_multiples_of_the_block(place: int, run: Runner) -> None:
    """The host tells such blocks apart as a whole: before the tensor, or not."""
    kernel = jn.kernel.from_ttir(text("load", (4, 8), "f32", "nan", starts="%at{d}"))
    source, out = numbers(130, "f32"), np.zeros((4, 8), np.float32)
    run(kernel, 1, source, out, *sizes_of((10, 13), (13, 1), (place, 1)))
    np.testing.assert_array_equal(out, read(source, (10, 13), (13, 1), (4 * place, 8), (4, 8), "nan"))
    run(kernel, 1, source, out, *sizes_of((10, 13), (13, 1), (1, place)))
    np.testing.assert_array_equal(out, read(source, (10, 13), (13, 1), (4, 8 * place), (4, 8), "nan"))


@both
def test_an_offset_that_wraps_lies_before_the_tensor(run: Runner) -> None:
    kernel = jn.kernel.from_ttir(text("load", (4, 8), "f32", "nan", starts="%at{d}"))
    out = np.zeros((4, 8), np.float32)
    run(kernel, 1, numbers(130, "f32"), out, *sizes_of((10, 13), (13, 1), (1 << 29, 0)))  # 4 * 2**29 is -2**31 in i32
    assert np.isnan(out).all()


@both
@pytest.mark.parametrize("checked", [(), (0,), (1,)])
def test_block_pointers_check_the_axes_they_name(checked: Any, run: Runner) -> None:
    """An axis without a check runs on into the next rows."""
    place = sizes_of((4, 6), (6, 1), (2, 2))
    source, out = numbers(100, "f32"), np.zeros((4, 8), np.float32)
    run(jn.kernel.from_ttir(text("pointer_load", (4, 8), "f32", "nan", checked=checked)), 1, source, out, *place)
    np.testing.assert_array_equal(out, read(source, (4, 6), (6, 1), (2, 2), (4, 8), "nan", checked))
    value = np.ones((4, 8), np.float32)
    expected = write(source, value, (4, 6), (6, 1), (2, 2), checked=checked)
    run(jn.kernel.from_ttir(text("pointer_store", (4, 8), "f32", checked=checked)), 1, source, value, *place)
    np.testing.assert_array_equal(source, expected)


def test_the_interpreter_sees_accesses_outside_the_array() -> None:
    kernel = jn.kernel.from_ttir(text("load", (4, 8), "f32"))
    with pytest.raises(jn.UserError, match=r"element \d+ of array 't' is read, which has elements 0 … 29"):
        kernel.interpret(1, numbers(30, "f32"), np.zeros(32, np.float32), *sizes_of((4, 8), (8, 1), (0, 0)))


UNSIGNED = {"i8": np.uint8, "i16": np.uint16, "i32": np.uint32, "i64": np.uint64}


def updates(elem: str) -> dict[str, Callable[[Any, Any], Any]]:
    """The kinds of tt.descriptor_reduce on Python integers, after their definition in the PTX manual (red)."""
    width = 8 * np.dtype(DTYPES[elem]).itemsize
    low = (1 << width) - 1

    def signed(function: Callable[[int, int], int]) -> Callable[[Any, Any], Any]:
        def update(old: Any, new: Any) -> Any:
            result = function(int(old), int(new)) & low
            return result - (low + 1) if result >> (width - 1) else result

        return update

    def unsigned(function: Callable[[int, int], int]) -> Callable[[Any, Any], Any]:
        return signed(lambda old, new: function(old & low, new & low))

    return {
        "add": signed(lambda x, y: x + y), "min": signed(min), "max": signed(max), "and": signed(lambda x, y: x & y),
        "or": signed(lambda x, y: x | y), "xor": signed(lambda x, y: x ^ y),
        "inc": unsigned(lambda x, y: 0 if x >= y else x + 1),
        "dec": unsigned(lambda x, y: y if x == 0 or x > y else x - 1),
        "umin": unsigned(min), "umax": unsigned(max),
    }  # fmt: skip


@pytest.mark.one_in(3)
@both
@pytest.mark.parametrize("kind", ["add", "min", "max", "and", "or", "xor", "inc", "dec", "umin", "umax"])
@pytest.mark.parametrize("elem", ["i32", "i64"])
def test_integer_reductions(kind: str, elem: str, run: Runner) -> None:
    sign, name = ("u", kind[1:]) if kind[0] == "u" else ("s", kind)
    kernel = jn.kernel.from_ttir(text("reduce", (4, 8), elem, reduce=name, sign=sign))
    target, value = numbers(70, elem), numbers(32, elem, 1)
    target[::3] = 0
    value[::5] = target[0:70:11][:7]  # equal values, for inc and dec
    expected = write(target, value.reshape(4, 8), (7, 10), (10, 1), (-1, 5), updates(elem)[kind])
    run(kernel, 1, target, value, *sizes_of((7, 10), (10, 1), (-1, 5)))
    np.testing.assert_array_equal(target, expected)


@both
@pytest.mark.parametrize("kind", ["add", "min", "max"])
@pytest.mark.parametrize("elem", ["f32", "f64"])
def test_float_reductions(kind: str, elem: str, run: Runner) -> None:
    kernel = jn.kernel.from_ttir(text("reduce", (4, 8), elem, reduce=kind))
    target, value = numbers(70, elem), numbers(32, elem, 1)
    combine = {"add": np.add, "min": np.minimum, "max": np.maximum}[kind]
    expected = write(target, value.reshape(4, 8), (7, 10), (10, 1), (5, -1), combine)
    run(kernel, 1, target, value, *sizes_of((7, 10), (10, 1), (5, -1)))
    np.testing.assert_array_equal(target, expected)


@both
def test_reductions_count_every_lane_of_one_address(run: Runner) -> None:
    kernel = jn.kernel.from_ttir(text("reduce", (4, 8), "i32"))
    target, value = np.zeros(8, np.int32), np.arange(32, dtype=np.int32)
    run(kernel, 1, target, value, *sizes_of((4, 8), (0, 1), (0, 0)))
    np.testing.assert_array_equal(target, value.reshape(4, 8).sum(axis=0))


def test_reductions_of_many_programs_on_two_threads() -> None:
    kernel = jn.kernel.from_ttir(text("reduce", (4, 8), "i32", reduce="inc"))
    target, value = np.zeros(32, np.int32), np.full(32, 1 << 30, np.int32)
    kernel.launch(2000, target, value, *sizes_of((4, 8), (8, 1), (0, 0)), threads=2)
    np.testing.assert_array_equal(target, 2000)


@pytest.mark.parametrize("run", ["interpret", "launch"])
@pytest.mark.parametrize("elem", ["bf16", "f16"])
@pytest.mark.parametrize(("kind", "ufunc"), [("max", np.maximum), ("min", np.minimum), ("add", np.add)])
def test_16_bit_reductions(kind: str, ufunc, elem: str, run: str) -> None:
    kernel = jn.kernel.from_ttir(text("reduce", (4, 8), elem, reduce=kind))
    target, value = numbers(32, elem), numbers(32, elem, 1)
    expected = ufunc(target, value)
    getattr(kernel, run)(1, target, value, *sizes_of((4, 8), (8, 1), (0, 0)))
    np.testing.assert_array_equal(target.astype(np.float32), expected.astype(np.float32))


ROWS = """
tt.func public @f(%t: !tt.ptr<f32>, %v: !tt.ptr<f32>, %i: !tt.ptr<i32>, %n: i32, %m: i32, %s: i64, %c: i32) {{
  %one = arith.constant 1 : i64
  %d = tt.make_tensor_descriptor %t, [%n, %m], [%s, %one] {{padding = {padding} : i32}} : <f32>, <1x8xf32>
  %r = tt.make_range {{end = 16 : i32, start = 0 : i32}} : tensor<16xi32>
  %p = tt.splat %i : !tt.ptr<i32> -> tensor<16x!tt.ptr<i32>>
  %q = tt.addptr %p, %r : tensor<16x!tt.ptr<i32>>, tensor<16xi32>
  %rows = tt.load %q : tensor<16x!tt.ptr<i32>>
  %e = tt.make_range {{end = 128 : i32, start = 0 : i32}} : tensor<128xi32>
  %w = tt.splat %v : !tt.ptr<f32> -> tensor<128x!tt.ptr<f32>>
  %flat = tt.addptr %w, %e : tensor<128x!tt.ptr<f32>>, tensor<128xi32>
  {body}
  tt.return
}}
"""
GATHER = """%y = tt.descriptor_gather %d[%rows, %c] : (!tt.tensordesc<1x8xf32>, tensor<16xi32>, i32) -> tensor<16x8xf32>
  %x = tt.reshape %y : tensor<16x8xf32> -> tensor<128xf32>
  tt.store %flat, %x : tensor<128x!tt.ptr<f32>>"""
SCATTER = """%x = tt.load %flat : tensor<128x!tt.ptr<f32>>
  %y = tt.reshape %x : tensor<128xf32> -> tensor<16x8xf32>
  tt.descriptor_scatter %d[%rows, %c], %y : !tt.tensordesc<1x8xf32>, tensor<16xi32>, i32, tensor<16x8xf32>"""


@both
@pytest.mark.parametrize("column", [-5, 0, 3, 6, 11])
def test_rows_by_number(column: int, run: Runner) -> None:
    rows = np.random.default_rng(3).permutation(np.arange(-4, 12)).astype(np.int32)  # 0 … 7 exist
    source, out = numbers(8 * 13, "f32"), np.zeros((16, 8), np.float32)
    run(jn.kernel.from_ttir(ROWS.format(padding=2, body=GATHER)), 1, source, out, rows, 8, 10, 13, column)
    expected = np.full((16, 8), np.nan, np.float32)
    target = source.copy()
    for lane, row in enumerate(rows):
        for j in range(8):
            if 0 <= row < 8 and 0 <= column + j < 10:
                expected[lane, j] = source[13 * row + column + j]
                target[13 * row + column + j] = 1000 + 8 * lane + j
    np.testing.assert_array_equal(out, expected)
    value = np.arange(1000, 1128, dtype=np.float32)
    run(jn.kernel.from_ttir(ROWS.format(padding=1, body=SCATTER)), 1, source, value, rows, 8, 10, 13, column)
    np.testing.assert_array_equal(source, target)


@st.composite
def accesses(draw: st.DrawFn) -> tuple[str, tuple[int, ...], tuple[int, ...], tuple[int, ...], tuple[int, ...], str, str, str]:
    rank = draw(st.integers(1, 3))
    block = tuple(1 << draw(st.integers(0, 3)) for _ in range(rank))
    shape = tuple(draw(st.integers(0, 12)) for _ in range(rank))
    gaps = [draw(st.integers(0, 3)) for _ in range(rank)]
    strides, step = [0] * rank, draw(st.integers(1, 2))
    for axis in draw(st.permutations(range(rank))):
        strides[axis] = step
        step = step * max(shape[axis], 1) + gaps[axis]
    starts = draw(st.sampled_from(["%o{d}", "%at{d}"]))
    offsets = tuple(
        draw(st.integers(-2, 3)) if "at" in starts else draw(st.integers(-2 * b, extent + b))
        for b, extent in zip(block, shape, strict=True)
    )
    kind = draw(st.sampled_from(["load", "pointer_load", "store", "pointer_store", "reduce"]))
    return kind, shape, tuple(strides), offsets, block, starts, draw(st.sampled_from(["f32", "i32"])), "zero"


@pytest.mark.slow
@settings(max_examples=examples(60))
@given(accesses())
def test_the_host_does_what_the_interpreter_and_numpy_do(case: Any) -> None:
    kind, shape, strides, offsets, block, starts, elem, padding = case
    kernel = jn.kernel.from_ttir(text(kind, block, elem, padding, starts))
    tensor, value = numbers(largest(shape, strides), elem), numbers(int(np.prod(block)), elem, 1)
    at = [o * b if "at" in starts else o for o, b in zip(offsets, block, strict=True)]
    results = []
    for run in (interpret, launch):
        memory, flat = tensor.copy(), value.copy()
        run(kernel, 1, memory, flat, *sizes_of(shape, strides, offsets))
        results.append((memory, flat))
    if kind.endswith("load"):
        expected = tensor, read(tensor, shape, strides, at, block, padding).reshape(-1)
    else:
        update = (lambda old, new: old + new) if kind == "reduce" else (lambda old, new: new)
        expected = write(tensor, value.reshape(block), shape, strides, at, update), value
    for found in results:
        for array, wanted in zip(found, expected, strict=True):
            np.testing.assert_array_equal(array, wanted)

"""Descriptors that become tensor maps: blocks copied by TMA, in loops and outside, and launches that cannot have them."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import joinery as jn
import ml_dtypes
import numpy as np
import pytest
from joinery.interface.gpu_code import simulated_map
from joinery.runtime.ptxsim import Module, PtxCheckError

from .....support.tiers import each

TEXT = (Path(__file__).parents[5] / "benchmarks" / "kernels" / "gpu_matmul_described_f16.ttir").read_text()
DTYPES = {"f16": np.float16, "f32": np.float32, "i8": np.int8, "i32": np.int32, "bf16": ml_dtypes.bfloat16}


def run(code: Any, grid: tuple[int, ...], *args: Any, ptx: str = "", **options: Any) -> Any:
    """Simulate a launch; arrays go to descriptors, with their own shapes."""
    values: list[Any] = []
    for arg in args:
        values += [arg, *arg.shape, *np.array(arg.strides) // arg.itemsize, 0] if isinstance(arg, np.ndarray) else [arg]
    values += [simulated_map(facts, values) for facts in code.kernel.tensor_maps]
    return Module(ptx or code.ptx).kernel().launch(
        grid, None, values, shared=code.lowered.shared_bytes, level=3, **options
    )


def whole(shape: tuple[int, ...], elem: str, seed: int = 0) -> Any:
    return np.random.default_rng([seed, *shape]).integers(-2, 3, shape).astype(DTYPES[elem])


def product(m: int, n: int, depth: int, elem: str, total: str, turned: bool = False) -> str:
    """C = A B, in steps of `depth`; turned: B is stored transposed."""
    b = (n, depth) if turned else (depth, n)
    block = f"tensor<{b[0]}x{b[1]}x{elem}>"
    result, operand = f"tensor<{m}x{n}x{total}>", f"tensor<{depth}x{n}x{elem}>"
    place = "%zero, %k" if turned else "%k, %zero"
    load = f"%b_0 = tt.descriptor_load %b[{place}] : !tt.tensordesc<{block}> -> {block}"
    turn = f"%b_1 = tt.trans %b_0 {{order = array<i32: 1, 0>}} : {block} -> {operand}" if turned else ""
    zero = "0" if total == "i32" else "0.0"
    return f"""
tt.func public @product(%a: !tt.tensordesc<{m}x{depth}x{elem}>, %b: !tt.tensordesc<{block}>,
    %c: !tt.tensordesc<{m}x{n}x{total}>, %K: i32) {{
  %acc = arith.constant dense<{zero}> : {result}
  %zero = arith.constant 0 : i32
  %step = arith.constant {depth} : i32
  %sum = scf.for %k = %zero to %K step %step iter_args(%acc_0 = %acc) -> ({result}) : i32 {{
    %a_0 = tt.descriptor_load %a[%zero, %k] : !tt.tensordesc<{m}x{depth}x{elem}> -> tensor<{m}x{depth}x{elem}>
    {load}
    {turn}
    %y = tt.dot %a_0, %b_{int(turned)}, %acc_0 : tensor<{m}x{depth}x{elem}> * {operand} -> {result}
    scf.yield %y : {result}
  }}
  tt.descriptor_store %c[%zero, %zero], %sum : !tt.tensordesc<{m}x{n}x{total}>, {result}
  tt.return
}}
"""


# -- products ---------------------------------------------------------------------------------


@pytest.mark.one_in(6)
@pytest.mark.parametrize(
    ("m", "n", "k", "warps", "delivery"),
    [
        (128, 128, 64, 4, "late"), (200, 136, 264, 4, "random"), (200, 136, 264, 8, "early"), (64, 128, 8, 4, "early"),
        (72, 128, 328, 8, "late"), (64, 128, 200, 8, "random"),
    ],
)  # fmt: skip
def test_a_product(m: int, n: int, k: int, warps: int, delivery: str) -> None:
    """What lies outside of the tensors is filled with zeros, and not written."""
    a, b, c = whole((m, k), "f16"), whole((k, n), "f16", 1), np.full((m, n), 77, np.float16)
    code = jn.kernel.from_ttir(TEXT).gpu_code("sm_90a", warps, tensor_maps=True)
    run(code, (-(-m // 128), -(-n // 128)), a, b, c, k, delivery=delivery)
    np.testing.assert_array_equal(c, (a.astype(np.float32) @ b.astype(np.float32)).astype(np.float16))


@pytest.mark.one_in(8)
@pytest.mark.parametrize("delivery", ["late", "early"])
@pytest.mark.parametrize(("m", "warps", "producers"), [(32, 1, 1), (64, 1, 1), (64, 32, 0)])
def test_as_few_and_as_many_warps_as_there_can_be(m: int, warps: int, producers: int, delivery: str) -> None:
    """One warp has another beside it that copies, and must not take itself for all; beside 32 there is room for none."""
    a, b, c = whole((m, 168), "f16"), whole((168, 32), "f16", 1), np.full((m, 32), 77, np.float32)
    code = jn.kernel.from_ttir(product(m, 32, 64, "f16", "f32")).gpu_code("sm_90a", warps, tensor_maps=True)
    assert (code.lowered.producers, code.kernel.threads) == (producers, 32 * (warps + producers))
    run(code, (1,), a, b, c, 168, delivery=delivery)
    np.testing.assert_array_equal(c, a.astype(np.float32) @ b.astype(np.float32))


def test_what_a_launch_has_to_know() -> None:
    code = jn.kernel.from_ttir(TEXT).gpu_code("sm_90a").kernel
    assert [(each.parameter, each.rank, each.element, each.box, each.swizzle) for each in code.tensor_maps] == [
        (0, 2, "f16", (128, 64), 128), (6, 2, "f16", (64, 64), 128), (12, 2, "f16", (128, 64), 128),
    ]  # fmt: skip
    assert code.parameters[-4:] == ("i32", "ptr", "ptr", "ptr")
    assert code.ptx.count(".param .align 64 .b8") == 3
    plain = jn.kernel.from_ttir(TEXT).gpu_code("sm_90a", tensor_maps=False).kernel
    assert not plain.tensor_maps
    assert "bulk.tensor" not in plain.ptx


@pytest.mark.one_in(12)
@pytest.mark.parametrize("turns", [0, 1, 5])
@pytest.mark.parametrize(
    ("m", "n", "depth", "elem", "total", "turned"),
    [
        (64, 32, 64, "f16", "f32", False), (128, 64, 32, "bf16", "f32", True), (64, 64, 64, "i8", "i32", True),
        (64, 64, 128, "i8", "i32", False), (32, 32, 64, "f16", "f32", False), (32, 64, 32, "f16", "f32", True),
    ],
)  # fmt: skip
def test_other_products(m: int, n: int, depth: int, elem: str, total: str, turned: bool, turns: int) -> None:
    """By wgmma or, where it does not fit, by mma.sync; blocks that have to become contiguous along k pass through registers."""
    k = max(turns * depth - 16, 16) if turns else 0
    a, b = whole((m, max(k, 16)), elem), whole((max(k, 16), n), elem, 1)
    c = np.full((m, n), 77, DTYPES[total])
    code = jn.kernel.from_ttir(product(m, n, depth, elem, total, turned)).gpu_code("sm_90a", tensor_maps=True)
    run(code, (1,), a, np.ascontiguousarray(b.T) if turned else b, c, k, delivery="random")
    exact = a[:, :k].astype(np.float64) @ b[:k].astype(np.float64)
    np.testing.assert_array_equal(c, exact.astype(DTYPES[total]))
    assert ("wgmma.mma_async" in code.ptx) == (m % 64 == 0)


def two_products(m: int, n: int, depth: int) -> str:
    """C = silu-like gate: (A B) * (A D), where both products read the same block of A."""
    a, b, c = f"tensor<{m}x{depth}xf16>", f"tensor<{depth}x{n}xf16>", f"tensor<{m}x{n}xf32>"
    da, db, dc = (f"!tt.tensordesc<{each[7:]}" for each in (a, b, c))
    return f"""
tt.func public @gated(%a: {da}, %b: {db}, %d: {db}, %c: {dc}, %K: i32) {{
  %acc = arith.constant dense<0.0> : {c}
  %zero = arith.constant 0 : i32
  %step = arith.constant {depth} : i32
  %sum:2 = scf.for %k = %zero to %K step %step iter_args(%one = %acc, %two = %acc) -> ({c}, {c}) : i32 {{
    %x = tt.descriptor_load %a[%zero, %k] : {da} -> {a}
    %y = tt.descriptor_load %b[%k, %zero] : {db} -> {b}
    %z = tt.descriptor_load %d[%k, %zero] : {db} -> {b}
    %p = tt.dot %x, %y, %one : {a} * {b} -> {c}
    %q = tt.dot %x, %z, %two : {a} * {b} -> {c}
    scf.yield %p, %q : {c}, {c}
  }}
  %r = arith.mulf %sum#0, %sum#1 : {c}
  tt.descriptor_store %c[%zero, %zero], %r : {dc}, {c}
  tt.return
}}
"""


@pytest.mark.one_in(2)
@pytest.mark.parametrize(("m", "n"), [(64, 64), (32, 32)])
@pytest.mark.parametrize("delivery", ["late", "random"])
def test_two_products_read_one_block(m: int, n: int, delivery: str) -> None:
    k = 112
    a, b, d = whole((m, k), "f16"), whole((k, n), "f16", 1), whole((k, n), "f16", 2)
    c = np.zeros((m, n), np.float32)
    code = jn.kernel.from_ttir(two_products(m, n, 32)).gpu_code("sm_90a", tensor_maps=True)
    run(code, (1,), a, b, d, c, k, delivery=delivery)
    wide = [each.astype(np.float32) for each in (a, b, d)]
    np.testing.assert_array_equal(c, (wide[0] @ wide[1]) * (wide[0] @ wide[2]))
    assert code.lowered.producers == 1
    assert code.ptx.count("shared::cluster.global") == 3  # and no other loads
    assert bool(re.search(r"wgmma\.wait_group\.sync\.aligned\s+2", code.ptx)) == (m == 64)


def attention(rows: int, width: int) -> str:
    """Softmax without the maximum: the second product's A is computed of the first, and its sum is scaled in every turn."""
    kv, s, p = f"tensor<{rows}x{width}xf16>", f"tensor<64x{rows}xf32>", f"tensor<64x{rows}xf16>"
    o, q, t = f"tensor<64x{width}xf32>", f"tensor<64x{width}xf16>", f"tensor<{width}x{rows}xf16>"
    desc = f"!tt.tensordesc<{rows}x{width}xf16>"
    return f"""
tt.func public @attention(%q: !tt.tensordesc<64x{width}xf16>, %k: {desc}, %v: {desc}, %o: !tt.tensordesc<64x{width}xf32>,
    %T: i32) {{
  %none = arith.constant dense<0.0> : {o}
  %half = arith.constant dense<0.5> : {o}
  %clear = arith.constant dense<0.0> : {s}
  %zero = arith.constant 0 : i32
  %step = arith.constant {rows} : i32
  %x = tt.descriptor_load %q[%zero, %zero] : !tt.tensordesc<64x{width}xf16> -> {q}
  %sum = scf.for %j = %zero to %T step %step iter_args(%acc = %none) -> ({o}) : i32 {{
    %y = tt.descriptor_load %k[%j, %zero] : {desc} -> {kv}
    %z = tt.trans %y {{order = array<i32: 1, 0>}} : {kv} -> {t}
    %s = tt.dot %x, %z, %clear : {q} * {t} -> {s}
    %p = arith.truncf %s : {s} to {p}
    %w = tt.descriptor_load %v[%j, %zero] : {desc} -> {kv}
    %r = arith.mulf %acc, %half : {o}
    %n = tt.dot %p, %w, %r : {p} * {kv} -> {o}
    scf.yield %n : {o}
  }}
  tt.descriptor_store %o[%zero, %zero], %sum : !tt.tensordesc<64x{width}xf32>, {o}
  tt.return
}}
"""


@pytest.mark.one_in(4)
@pytest.mark.parametrize("delivery", ["late", "early", "random"])
def test_products_one_after_the_other(delivery: str) -> None:
    rows, width, length = 32, 64, 112
    q, k, v = whole((64, width), "f16"), whole((length, width), "f16", 1), whole((length, width), "f16", 2)
    out = np.zeros((64, width), np.float32)
    code = jn.kernel.from_ttir(attention(rows, width)).gpu_code("sm_90a", tensor_maps=True)
    run(code, (1,), q, k, v, out, length, delivery=delivery)
    expected = np.zeros((64, width))
    for start in range(0, length, rows):
        part = q.astype(float) @ k[start : start + rows].T.astype(float)
        expected = expected / 2 + part @ v[start : start + rows].astype(float)
    np.testing.assert_array_equal(out, expected)


# -- planted bugs -----------------------------------------------------------------------------


def persistent(extra: bool = False) -> str:
    """Each program computes every second tile of 128 rows; K depends on the tile's number.

    extra: in one more loop, of one turn: no warp of its own copies for what is reached in that way.
    """
    inner = TEXT[TEXT.index("    %sum = scf.for") : TEXT.index("    tt.return")]
    inner = inner.replace("%rm", "%rt").replace("%K step", "%Kt step")
    more = ("scf.for %e = %c0_i32 to %c1_i32 step %c1_i32 : i32 {", "}") if extra else ("", "")
    around = f"""
    %c1_i32 = arith.constant 1 : i32
    %two = tt.get_num_programs x : i32
    {more[0]}
    %last = scf.for %t = %x to %tiles step %two iter_args(%rt = %rm) -> (i32) : i32 {{
      %u = arith.muli %t, %c64_i32 : i32
      %Kt = arith.subi %K, %u : i32
{inner}
      %v = arith.muli %two, %c128_i32 : i32
      %w = arith.addi %rt, %v : i32
      scf.yield %w : i32
    }}
    {more[1]}
"""
    text = TEXT[: TEXT.index("    %sum = scf.for")] + around + TEXT[TEXT.index("    tt.return") :]
    return text.replace("%K: i32", "%tiles: i32, %K: i32")


@pytest.mark.one_in(4)
@pytest.mark.parametrize(
    ("delivery", "extra"), each([("late", 1, 328), ("early", 2, 200), ("random", 2, 328), ("random", 1, 64)], [False, True])
)
def test_several_tiles(delivery: tuple[str, int, int], extra: bool) -> None:
    """Blocks of the next tile may arrive while the last one is stored; tiles may have no turns at all."""
    order, programs, k = delivery
    code = jn.kernel.from_ttir(persistent(extra)).gpu_code("sm_90a", 8, tensor_maps=True)
    a, b, c = whole((456, k), "f16"), whole((k, 128), "f16", 1), np.full((456, 128), 77, np.float16)
    run(code, (programs,), a, b, c, 4, k, delivery=order)
    expected = np.zeros_like(c)
    for tile in range(4):
        rows = slice(128 * tile, 128 * tile + 128)
        depth = -(-max(k - 64 * tile, 0) // 64) * 64
        expected[rows] = a[rows, :depth].astype(np.float32) @ b[:depth].astype(np.float32)
    np.testing.assert_array_equal(c, expected)
    assert code.lowered.producers == (0 if extra else 4)


def test_a_warp_of_its_own_copies() -> None:
    code = jn.kernel.from_ttir(TEXT).gpu_code("sm_90a", 8, tensor_maps=True)
    assert code.kernel.threads == 9 * 32
    loop = code.ptx[code.ptx.index("wgmma.mma_async") : code.ptx.rindex("wgmma.mma_async")]
    assert "bar" not in loop
    assert "cp.async.bulk" not in loop


def registers(ptx: str) -> list[tuple[str, int]]:
    return [(way, int(count)) for way, count in re.findall(r"setmaxnreg\.(inc|dec)\.sync\.aligned\.u32\s+(\d+);", ptx)]


def test_a_warpgroup_of_its_own_hands_over_registers() -> None:
    """Where the block has a multiprocessor to itself and its warps gain by it: 8 of them get 232, beside one more 224."""
    codes = {
        warps: jn.kernel.from_ttir(persistent()).gpu_code("sm_90a", warps, tensor_maps=True) for warps in (4, 8, 16)
    }  # fmt: skip
    assert {warps: code.lowered.producers for warps, code in codes.items()} == {4: 1, 8: 4, 16: 1}
    assert sorted(registers(codes[8].ptx)) == [("dec", 40), ("inc", 232)]
    assert not registers(codes[4].ptx) + registers(codes[16].ptx)
    assert ".minnctapersm 1" in codes[8].ptx  # without a bound the assembler ignores it
    assert 232 * 8 * 32 + 40 * 4 * 32 <= 1 << 16


@pytest.mark.one_in(4)
@pytest.mark.parametrize("delivery", ["late", "early", "random"])
def test_wide_blocks_of_two_warpgroups(delivery: str) -> None:
    """128 sums per thread, four stages, which leave one block on a multiprocessor."""
    a, b, c = whole((104, 392), "bf16"), whole((392, 248), "bf16", 1), np.full((104, 248), 77, np.float32)
    code = jn.kernel.from_ttir(product(128, 256, 64, "bf16", "f32")).gpu_code("sm_90a", 8, tensor_maps=True)
    assert (code.kernel.threads, code.lowered.shared_bytes >> 10) == (384, 4 * 48 + 1)
    run(code, (1,), a, b, c, 392, delivery=delivery)
    np.testing.assert_array_equal(c, a.astype(np.float32) @ b.astype(np.float32))


def test_registers_that_are_not_there_are_waited_for_in_vain() -> None:
    code = jn.kernel.from_ttir(persistent()).gpu_code("sm_90a", 8, tensor_maps=True)
    ptx, found = re.subn(r"(setmaxnreg\.inc\.sync\.aligned\.u32\s+)232;", r"\g<1>240;", code.ptx)
    assert found == 1
    a, b, c = whole((128, 64), "f16"), whole((64, 128), "f16", 1), np.zeros((128, 128), np.float16)
    with pytest.raises(PtxCheckError, match=r"setmaxnreg.*deadlock"):
        run(code, (1,), a, b, c, 1, 64, ptx=ptx)


WAIT = (r"wgmma\.wait_group\.sync\.aligned(\s+)1;", r"wgmma.wait_group.sync.aligned\g<1>2;")  # stages are still read
BYTES = (r"(mov\.b32\s+%r\d+), 32768;(\s+mbarrier)", r"\1, 16384;\2")  # too few
ARRIVALS = (r"(mov\.b32\s+%r\d+), 8;(\s+mbarrier\.init)", r"\1, 1;\2")  # the first warp has read it, others have not
BARRIER = (r"(wgmma\.wait_group\.sync\.aligned\s+1;\s+)bar\w*\.sync\s+0;", r"\1")  # others still read


@pytest.mark.one_in(8)
@pytest.mark.parametrize(
    ("text", "old", "new"),
    [
        (TEXT, *WAIT), (TEXT, *BYTES), (TEXT, *ARRIVALS), (persistent(), *WAIT), (persistent(), *ARRIVALS),
        (persistent(extra=True), *WAIT), (persistent(extra=True), *BARRIER),
    ],
)  # fmt: skip
def test_waiting_for_too_little_is_noticed(text: str, old: str, new: str) -> None:
    code = jn.kernel.from_ttir(text).gpu_code("sm_90a", 8, tensor_maps=True)
    ptx, found = re.subn(old, new, code.ptx)
    assert found
    a, b, c = whole((128, 512), "f16"), whole((512, 128), "f16", 1), np.zeros((128, 128), np.float16)
    tiles = [1] if "%tiles" in text else []
    with pytest.raises(PtxCheckError):
        run(code, (1,), a, b, c, *tiles, 512, ptx=ptx)


# -- launches ---------------------------------------------------------------------------------


def copy(shape: str, elem: str, rank: int = 2, reads_target: bool = False) -> jn.kernel.Kernel:
    """Copies one block, two columns to the left."""
    desc, block = f"!tt.tensordesc<{shape}x{elem}>", f"tensor<{shape}x{elem}>"
    leading = "%zero, " * (rank - 1)
    read = f"%u = tt.descriptor_load %b[{leading}%zero] : {desc} -> {block}" if reads_target else ""
    return jn.kernel.from_ttir(f"""
    tt.func public @copy(%a: {desc}, %b: {desc}) {{
      %zero = arith.constant 0 : i32
      %two = arith.constant 2 : i32
      {read}
      %v = tt.descriptor_load %a[{leading}%two] : {desc} -> {block}
      tt.descriptor_store %b[{leading}%zero], %v : {desc}, {block}
      tt.return
    }}""")


def launched(kernel: jn.kernel.Kernel, source: Any, target: Any, gpu: str = "sm_90a") -> bool:
    """Run on a simulated GPU and compare with the interpreter; whether TMA did it."""
    expected = target.array.copy()
    kernel.interpret((1,), source, jn.TensorDescriptor(expected, target.shape, target.strides))
    kernel.launch((1,), source, target, device="ptxsim", target=gpu, sanitize=True)
    np.testing.assert_array_equal(target.array, expected)
    (code,) = kernel._gpu._codes.values()
    return "bulk.tensor" in code.ptx


def some(shape: tuple[int, ...], elem: str) -> Any:
    return np.arange(1, int(np.prod(shape)) + 1).astype(DTYPES[elem]).reshape(shape)


@pytest.mark.one_in(3)
@pytest.mark.parametrize(
    ("shape", "elem"),
    [((16, 64), "f16"), ((4, 8), "f32"), ((8, 256), "f32"), ((512, 16), "i8"), ((32, 16), "i32"), ((1, 1, 8, 32), "f32")],
)
@pytest.mark.parametrize("padding", ["zero", "nan"])
def test_blocks_are_copied(shape: tuple[int, ...], elem: str, padding: str) -> None:
    """Swizzled or not, in one box or several, with axes of extent 1 before them; partly outside."""
    if padding == "nan" and elem[0] == "i":
        padding = "zero"
    extents = (*shape[:-1], shape[-1] + 16)
    source = jn.TensorDescriptor(some(extents, elem), (*shape[:-2], shape[-2] - 1, shape[-1]), padding=padding,
                                 strides=np.array(some(extents, elem).strides) // DTYPES[elem]().itemsize)  # fmt: skip
    target = jn.TensorDescriptor(np.zeros(extents, DTYPES[elem]))
    assert launched(copy("x".join(map(str, shape)), elem, len(shape)), source, target)


@pytest.mark.parametrize(
    ("shape", "strides", "fits"),
    [((16, 32), (32, 1), True), ((16, 30), (30, 1), False), ((32, 16), (1, 32), False), ((0, 32), (32, 1), False)],
)
def test_tensors_that_fit_no_map(shape: tuple[int, ...], strides: tuple[int, ...], fits: bool) -> None:
    source = jn.TensorDescriptor(some((32, 32), "f32"), shape, strides)
    kernel = copy("8x32", "f32")
    target = jn.TensorDescriptor(np.zeros((8, 32), np.float32))
    launched(kernel, source, target)
    ((_, _, _, described, *_),) = kernel._gpu._codes
    assert described == ((0, 1) if fits else (1,))


def test_tensors_that_share_memory_get_no_map() -> None:
    array = np.zeros((32, 32), np.float32)
    array[:8] = 1
    kernel = copy("8x32", "f32")
    kernel.launch((1,), jn.TensorDescriptor(array), jn.TensorDescriptor(array[16:]), device="ptxsim", target="sm_90a")
    ((_, _, _, described, *_),) = kernel._gpu._codes
    assert described in ((), (0, 1))  # views that do not overlap may have maps
    kernel = copy("8x32", "f32")
    kernel.launch((1,), jn.TensorDescriptor(array), jn.TensorDescriptor(array[4:]), device="ptxsim", target="sm_90a")
    ((_, _, _, described, *_),) = kernel._gpu._codes
    assert described == ()


def test_what_is_read_and_written_is_no_map() -> None:
    kernel = copy("8x32", "f32", reads_target=True)
    code = kernel.gpu_code("sm_90a", tensor_maps=True)
    assert [each.parameter for each in code.kernel.tensor_maps] == [0]


@pytest.mark.parametrize(
    ("shape", "strides", "fits"),
    [
        ((8, 32), (32, 1), True), ((7, 32), (36, 1), True), ((8, 32), (33, 1), False), ((8, 32), (1, 8), False),
        ((8, 29), (32, 1), True), ((0, 32), (32, 1), False),
    ],
)  # fmt: skip
def test_older_targets_have_wide_accesses_to_tensors_that_fit(
    shape: tuple[int, ...], strides: tuple[int, ...], fits: bool
) -> None:
    """Launches find out that the last stride is 1, and that rows start at multiples of 16 bytes."""
    kernel = copy("8x32", "f32")
    target = jn.TensorDescriptor(np.zeros((9, 36), np.float32), shape, strides)
    assert not launched(kernel, jn.TensorDescriptor(some((8, 64), "f32")), target, "sm_80")
    (((_, _, _, described, *_), code),) = kernel._gpu._codes.items()
    assert described == ((0, 1) if fits else (0,))
    assert ("st.global.v2" in code.ptx) == (fits and shape[1] % 16 == 0)  # two elements per thread


@pytest.mark.parametrize("target", ["sm_80", "sm_89"])
def test_older_targets_have_none(target: str) -> None:
    assert not copy("8x32", "f32").gpu_code(target, tensor_maps=True).kernel.tensor_maps


def test_lowering_twice_gives_the_same() -> None:
    first, second = (jn.kernel.from_ttir(TEXT).gpu_code("sm_90a", tensor_maps=True).ptx for _ in range(2))
    assert first == second


# -- the assembler ----------------------------------------------------------------------------


PTXAS = shutil.which("ptxas")


@pytest.mark.one_in(4)
@pytest.mark.skipif(PTXAS is None, reason="no ptxas on this machine")
@pytest.mark.parametrize(
    ("text", "warps", "target"),
    [
        (TEXT, 4, "sm_90a"), (TEXT, 8, "sm_90a"), (persistent(), 8, "sm_90a"), (persistent(extra=True), 8, "sm_90a"),
        (attention(64, 64), 4, "sm_90a"), (attention(64, 64), 4, "sm_100a"), (product(32, 32, 64, "f16", "f32"), 4, "sm_120a"),
    ],
)  # fmt: skip
def test_the_assembler_neither_spills_nor_waits(text: str, warps: int, target: str, tmp_path: Path) -> None:
    source = tmp_path / "k.ptx"
    source.write_text(jn.kernel.from_ttir(text).gpu_code(target, warps, tensor_maps=True).ptx)
    command = [str(PTXAS), "-arch", target, "-v", "-o", str(tmp_path / "k.cubin"), str(source)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert " 0 bytes spill stores" in done.stderr, done.stderr
    assert "(C75" not in done.stderr, done.stderr

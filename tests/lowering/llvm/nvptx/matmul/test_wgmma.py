"""Products by warpgroups: right for every type and arrangement, in loops of any length, and assembled as they are meant."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import joinery as jn
import numpy as np
import pytest
from joinery.runtime.ptxsim import Module, PtxCheckError

from .....support.kernels.blocks import block_type, empty, kernel, simulate
from .....support.kernels.products import DTYPES, Product
from .....support.tiers import each

KERNELS = Path(__file__).parents[5] / "benchmarks" / "kernels"
TF32, EXACT_FP8 = ", inputPrecision = tf32", ""
FAST_FP8 = " {maxNumImpreciseAcc = 1073741824 : i32}"


def expected(product: Product, a: Any, b: Any) -> Any:
    return (a.astype(np.float64) @ b.astype(np.float64)).astype(DTYPES[product.total])


def check(product: Product, turns: int = 2, warps: int = 4, tail: int = 16, **options: Any) -> Any:
    """The product is right; its code."""
    code = product.code(warps)
    a, b = product.matrices(max(0, turns * product.depth - tail))
    np.testing.assert_array_equal(product.launch(code, a, b, **options), expected(product, a, b))
    return code


def instructions(code: Any) -> int:
    return int(code.ptx.count("wgmma.mma_async"))


# -- types and arrangements -------------------------------------------------------------------


OPERANDS = [
    ("f16", "f32", "", 4), ("bf16", "f32", "", 4), ("f32", "f32", TF32, 8), ("i8", "i32", "", 2),
    ("f8E4M3FN", "f32", FAST_FP8, 2), ("f8E5M2", "f32", FAST_FP8, 2), ("f8E5M2", "f32", EXACT_FP8, 0),
]  # fmt: skip
"""Types of the elements and of the sum, what the text says more, how many instructions it takes."""
TRANSPOSED = [(False, False), (False, True), (True, False), (True, True)]


@pytest.mark.one_in(16)
@pytest.mark.parametrize(("operands", "transposed"), each(OPERANDS, TRANSPOSED, times=2))
def test_types_and_arrangements(operands: tuple[str, str, str, int], transposed: tuple[bool, bool]) -> None:
    """Operands of 8 and 32 bits become contiguous along k on their way; fp8 goes another way unless few bits are allowed."""
    (elem, total, facts, count), (a_transposed, b_transposed) = operands, transposed
    code = check(Product(64, 64, 64, elem, total, a_transposed, b_transposed, facts), delivery="random")
    assert instructions(code) == count


@pytest.mark.one_in(2)
@pytest.mark.parametrize("target", ["sm_80", "sm_90a"])
@pytest.mark.parametrize("transposed", [False, True])
def test_blocks_that_are_transposed_after_their_load(transposed: bool, target: str) -> None:
    """They are loaded ahead like others."""
    product = Product(64, 32, 64, a_transposed=transposed, b_transposed=transposed, turned=True)
    code = product.code(4, target)
    a, b = product.matrices(176)
    np.testing.assert_array_equal(product.launch(code, a, b, delivery="random"), expected(product, a, b))
    assert code.ptx.count("cp.async.cg") == 3 * (4 + 2)


@pytest.mark.parametrize("precision", ["tf32x3", "bf16x3"])
def test_split_float32(precision: str) -> None:
    product = Product(64, 32, 32, "f32", facts=f", inputPrecision = {precision}")
    rng = np.random.default_rng(3)
    a, b = rng.standard_normal((64, 64)).astype(np.float32), rng.standard_normal((64, 32)).astype(np.float32)
    code = product.code()
    exact = a.astype(np.float64) @ b.astype(np.float64)
    np.testing.assert_allclose(product.launch(code, a, b), exact, atol=3e-5)
    assert instructions(code) == 3 * 4


@pytest.mark.one_in(6)
@pytest.mark.parametrize(
    ("block", "transposed"),
    each([
        (64, 8, 16, 4), (64, 16, 32, 4), (64, 16, 32, 8), (128, 32, 16, 8), (64, 256, 32, 4), (64, 256, 32, 8),
        (256, 64, 64, 4), (256, 64, 64, 8), (128, 128, 128, 8), (64, 128, 64, 16),
    ], [False, True]),
)  # fmt: skip
def test_shapes(block: tuple[int, int, int, int], transposed: bool) -> None:
    """Every width of the swizzle, rows too short for any, several tiles in a warpgroup, warpgroups along rows and columns."""
    m, n, depth, warps = block
    code = check(Product(m, n, depth, a_transposed=transposed, b_transposed=transposed), 2, warps)
    assert instructions(code) > 0
    assert "mma.sync" not in code.ptx


@pytest.mark.one_in(3)
@pytest.mark.parametrize(("m", "n", "warps"), [(32, 64, 4), (64, 64, 2), (64, 8, 8)])
def test_what_does_not_fit_goes_the_old_way(m: int, n: int, warps: int) -> None:
    code = check(Product(m, n, 32), 2, warps)
    assert instructions(code) == 0
    assert "mma.sync" in code.ptx


def test_more_operands_than_shared_memory_holds_go_the_old_way() -> None:
    product = Product(256, 32, 128, "f32", facts=", inputPrecision = tf32x3")  # 288 KiB in two parts each
    assert instructions(product.code(16)) == 0


@pytest.mark.one_in(2)
@pytest.mark.parametrize("target", ["sm_80", "sm_89", "sm_100a", "sm_120a"])
def test_other_targets_have_none(target: str) -> None:
    assert instructions(Product(64, 64, 64).code(4, target)) == 0


# -- loops ------------------------------------------------------------------------------------


@pytest.mark.one_in(12)
@pytest.mark.parametrize(
    ("turns", "delivery"),
    [(0, "late"), (1, "early"), (1, "random"), (2, "late"), (3, "early"), (3, "random"), (6, "late"), (6, "random")],
)
def test_any_number_of_turns(turns: int, delivery: str) -> None:
    code = check(Product(128, 64, 32), turns, delivery=delivery)
    assert re.search(r"wgmma.wait_group.sync.aligned\s+1", code.ptx)  # a turn's products are on their way in the next


@pytest.mark.one_in(4)
@pytest.mark.parametrize("delivery", ["late", "early", "random"])
def test_two_warpgroups(delivery: str) -> None:
    check(Product(128, 64, 32), 5, 8, delivery=delivery)


def test_a_sum_that_is_read_in_its_turn_is_waited_for() -> None:
    total = "tensor<64x32xf32>"
    body = f"%two = arith.constant dense<2.0> : {total}\n%y = arith.mulf %d, %two : {total}"
    product = Product(64, 32, 32, body=body)
    code = product.code()
    a, b = product.matrices(96)
    parts = [a[:, i : i + 32].astype(np.float32) @ b[i : i + 32].astype(np.float32) for i in (0, 32, 64)]
    np.testing.assert_array_equal(product.launch(code, a, b), 2 * parts[2] + 4 * parts[1] + 8 * parts[0])
    assert not re.search(r"wgmma.wait_group.sync.aligned\s+1", code.ptx)


def test_lowering_twice_gives_the_same() -> None:
    product = Product(128, 64, 64)
    assert product.code(8).ptx == product.code(8).ptx


# -- planted bugs -----------------------------------------------------------------------------


@pytest.mark.one_in(2)
@pytest.mark.parametrize(
    ("old", "new", "count"),
    [
        (r"cp.async.wait_group(\s+)1", r"cp.async.wait_group\g<1>2", 1),
        (r"wgmma.wait_group.sync.aligned(\s+)1", r"wgmma.wait_group.sync.aligned\g<1>2", 1),
        (r"wgmma.wait_group.sync.aligned 0;", "", 1),
    ],
)
def test_waiting_for_too_little_is_noticed(old: str, new: str, count: int) -> None:
    product = Product(64, 64, 64)
    code = product.code()
    a, b = product.matrices(320)
    hasty, found = re.subn(old, new, code.ptx)
    assert found == count
    with pytest.raises((PtxCheckError, AssertionError)):
        np.testing.assert_array_equal(product.launch(code, a, b, ptx=hasty), expected(product, a, b))


def test_a_missing_fence_is_noticed() -> None:
    """Operands that pass through registers are stored by ordinary stores."""
    product = Product(64, 32, 32, "f32", facts=TF32)
    code = product.code()
    a, b = product.matrices(64)
    with pytest.raises(PtxCheckError, match="fence"):
        product.launch(code, a, b, ptx=code.ptx.replace("fence.proxy.async.shared::cta;", ""))


# -- outside of loops, and one after the other -------------------------------------------------


def dots(elem: str, shapes: tuple[tuple[int, int], ...], body: str) -> jn.kernel.Kernel:
    rows, columns = shapes[0][0], shapes[-1][1]
    blocks = [(shape, elem) for shape in shapes]
    return kernel(blocks, [((rows, columns), "f32")], body)


@pytest.mark.one_in(2)
@pytest.mark.parametrize("shape", [(64, 64, 64), (128, 32, 64), (64, 128, 16)])
def test_without_a_loop(shape: tuple[int, int, int]) -> None:
    m, n, depth = shape
    types = [block_type(each, "f16") for each in ((m, depth), (depth, n))]
    total = block_type((m, n), "f32")
    body = f"%c = arith.constant dense<1.0> : {total}\n%y0 = tt.dot %x0, %x1, %c : {types[0]} * {types[1]} -> {total}"
    rng = np.random.default_rng(1)
    a, b = (rng.integers(-3, 4, each).astype(np.float16) for each in ((m, depth), (depth, n)))
    k = dots("f16", ((m, depth), (depth, n)), body)
    assert "wgmma" in k.ptx("sm_90a")
    found = simulate(k, a, b, empty((m, n), "f32"), target="sm_90a")[-1]
    np.testing.assert_array_equal(found, a.astype(np.float32) @ b.astype(np.float32) + 1)


@pytest.mark.parametrize("elem", ["f16", "bf16"])
def test_a_product_of_a_product(elem: str) -> None:
    """The first result is the second's A, and does not leave its registers."""
    m, depth, n, last = 64, 32, 48 + 16, 32
    sizes = ((m, depth), (depth, n), (n, last))
    types = [block_type(each, elem) for each in sizes]
    first, second = block_type((m, n), "f32"), block_type((m, last), "f32")
    body = (
        f"%c = arith.constant dense<0.0> : {first}\n%e = arith.constant dense<0.0> : {second}\n"
        f"%s = tt.dot %x0, %x1, %c : {types[0]} * {types[1]} -> {first}\n"
        f"%p = arith.truncf %s : {first} to {block_type((m, n), elem)}\n"
        f"%y0 = tt.dot %p, %x2, %e : {block_type((m, n), elem)} * {types[2]} -> {second}"
    )
    rng = np.random.default_rng(2)
    a, b, c = (rng.integers(-1, 2, each).astype(DTYPES[elem]) for each in sizes)
    k = dots(elem, sizes, body)
    code = k.gpu_code("sm_90a")
    assert re.search(r"f32\.\w+\.\w+ \{[^}]+\}, \{%r", code.ptx)
    assert "mma.sync" not in code.ptx
    found = simulate(k, a, b, c, empty((m, last), "f32"), target="sm_90a")[-1]
    rounded = (a.astype(np.float32) @ b.astype(np.float32)).astype(DTYPES[elem]).astype(np.float32)
    np.testing.assert_array_equal(found, rounded @ c.astype(np.float32))


# -- attention --------------------------------------------------------------------------------


@pytest.mark.one_in(4)
@pytest.mark.parametrize(("rows", "delivery"), [(64, "late"), (112, "random"), (192, "early")])
def test_attention(rows: int, delivery: str) -> None:
    rng = np.random.default_rng(rows)
    q, k, v = (rng.standard_normal((1, rows, 64)).astype(np.float16) for _ in range(3))
    out = np.zeros_like(q)
    code = jn.kernel.from_ttir((KERNELS / "gpu_attention_f16.ttir").read_text()).gpu_code("sm_90a")
    given = (q, k, v, out, rows, 0.125, rows * 64, 64)
    grid = (-(-rows // 64), 1)
    Module(code.ptx).kernel().launch(grid, None, given, shared=code.lowered.shared_bytes, level=3, delivery=delivery)
    wide = [each[0].astype(np.float64) for each in (q, k, v)]
    weights = np.exp((wide[0] @ wide[1].T) / 8)
    np.testing.assert_allclose(out[0], weights / weights.sum(1, keepdims=True) @ wide[2], atol=2e-3)


def test_queries_are_stored_once() -> None:
    """What a loop does not change is stored before it."""
    ptx = jn.kernel.from_ttir((KERNELS / "gpu_attention_f16.ttir").read_text()).ptx("sm_90a")
    loop = ptx[ptx.index("cp.async.commit_group") : ptx.rindex("wgmma.mma_async")]
    assert "st.shared" not in loop


# -- the assembler ----------------------------------------------------------------------------


PTXAS = shutil.which("ptxas")


@pytest.mark.one_in(6)
@pytest.mark.skipif(PTXAS is None, reason="no ptxas on this machine")
@pytest.mark.parametrize("name", ["matmul", "attention", "tf32", "fp8", "two groups", "int8", "scaled"])
def test_the_assembler_neither_spills_nor_waits(name: str, tmp_path: Path) -> None:
    """C7510 to C7519 say that it serialised products or put waits in."""
    scaled = "%two = arith.constant dense<2.0> : tensor<128x128xf32>\n%y = arith.mulf %d, %two : tensor<128x128xf32>"
    codes = {
        "matmul": lambda: jn.kernel.from_ttir((KERNELS / "gpu_matmul_f16.ttir").read_text()).gpu_code("sm_90a"),
        "attention": lambda: jn.kernel.from_ttir((KERNELS / "gpu_attention_f16.ttir").read_text()).gpu_code("sm_90a"),
        "tf32": lambda: Product(128, 64, 32, "f32", facts=TF32).code(),
        "fp8": lambda: Product(128, 128, 128, "f8E4M3FN", b_transposed=True, facts=FAST_FP8).code(),
        "two groups": lambda: Product(128, 256, 64).code(8),
        "int8": lambda: Product(128, 128, 64, "i8", "i32").code(8),
        "scaled": lambda: Product(128, 128, 64, body=scaled).code(8),
    }
    source = tmp_path / "k.ptx"
    source.write_text(codes[name]().ptx)
    command = [str(PTXAS), "-arch", "sm_90a", "-v", "-o", str(tmp_path / "k.cubin"), str(source)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert " 0 bytes spill stores" in done.stderr, done.stderr
    assert "(C75" not in done.stderr, done.stderr

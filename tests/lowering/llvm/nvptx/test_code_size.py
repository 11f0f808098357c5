"""What kernels are printed as: no more instructions, barriers and accesses than they need."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import joinery as jn
import numpy as np
import pytest

from ....support.kernels.blocks import check, empty, kernel, some

KERNELS = Path(jn.__file__).parent / "benchmarks" / "kernels"
PTXAS = shutil.which("ptxas")


def product(rows: int, depth: int, columns: int) -> jn.kernel.Kernel:
    left, right, out = (f"tensor<{m}x{n}xf32>" for m, n in ((rows, depth), (depth, columns), (rows, columns)))
    body = f"%zero = arith.constant dense<0.0> : {out}\n%y0 = tt.dot %x0, %x1, %zero : {left} * {right} -> {out}"
    return kernel([((rows, depth), "f32"), ((depth, columns), "f32")], [((rows, columns), "f32")], body)


@pytest.mark.one_in(4)
@pytest.mark.parametrize(("rows", "depth", "columns"), [(32, 64, 32), (64, 16, 128), (16, 128, 16), (128, 32, 128)])
def test_products_in_full_float32_are_chains_of_fused_steps(rows: int, depth: int, columns: int) -> None:
    a, b = some((rows, depth), "f32"), some((depth, columns), "f32", 1)
    found = check(product(rows, depth, columns), a, b, empty((rows, columns), "f32"), rtol=1e-5)[2]
    chain = np.zeros((rows, columns))
    for step in range(depth):  # float64 holds the product; its sum is rounded twice here, which is rare to show
        chain = (a[:, step, None].astype(np.float64) * b[step] + chain).astype(np.float32).astype(np.float64)
    assert np.count_nonzero(found != chain) < 1e-3 * found.size
    np.testing.assert_allclose(found, chain, rtol=3e-5, atol=3e-6)


def test_the_code_of_products_does_not_grow_with_their_depth() -> None:
    lengths = [len(product(64, depth, 64).ptx().splitlines()) for depth in (32, 128)]
    loads = [len(re.findall(r"fma\.rn\.f32", product(64, depth, 64).ptx())) for depth in (32, 128)]
    assert loads == [256, 256]  # eight steps of a loop, 64 x 64 elements over 128 threads
    assert lengths[1] < lengths[0] + 64 * 96 * 2 * 4 // 128  # what is loaded and stored


def test_an_operand_that_a_loop_does_not_change_is_fetched_before_it() -> None:
    ptx = jn.kernel.from_ttir(KERNELS / "gpu_attention_f16.ttir").ptx("sm_80")
    loop = ptx[ptx.index("nounroll") :]
    loop = loop[: loop.index("bra.uni", loop.index("mma.sync"))]
    assert loop.count("mma.sync") == 64
    assert "st.shared" not in loop
    assert loop.count("bar.sync") == 1
    assert loop.count("ldmatrix") == 32


def test_addresses_that_differ_by_constants_share_a_register() -> None:
    ptx = jn.kernel.from_ttir(KERNELS / "gpu_vec_add.ttir").ptx("sm_80")
    accesses = re.findall(r"(?:ld|st)\.global\S*\s[^;]*\[(%rd\d+)(\+\d+)?\]", ptx)
    assert len(accesses) == 6
    assert len({base for base, _ in accesses}) == 3  # two inputs and an output
    assert {step for _, step in accesses} == {"", "+2048"}


@pytest.mark.parametrize(("name", "lines"), [("matmul_f16", 3000), ("attention_f16", 2400), ("softmax", 1800)])
def test_lines_that_llvm_reads(name: str, lines: int) -> None:
    """Time to PTX is in proportion."""
    text = jn.kernel.from_ttir(KERNELS / f"gpu_{name}.ttir").llvm_ir("sm_80")
    assert text.count("\n") < lines


SUM = """%%y0 = "tt.scan"(%%x0) <{axis = 0 : i32, reverse = false}> ({
    ^bb0(%%a: f32, %%b: f32):
      %%s = arith.addf %%a, %%b : f32
      tt.scan.return %%s : f32
    }) : (tensor<%dxf32>) -> tensor<%dxf32>"""


@pytest.mark.one_in(2)
@pytest.mark.skipif(PTXAS is None, reason="no ptxas on this machine")
@pytest.mark.parametrize("target", ["sm_80", "sm_90a"])
def test_kernels_that_hold_much_get_the_registers_there_are(target: str, tmp_path: Path) -> None:
    """64 elements per thread; without a word to the assembler, it spilled five kilobytes."""
    n = 16384
    file = tmp_path / "sum.ptx"
    file.write_text(kernel([((n,), "f32")], [((n,), "f32")], SUM % (n, n)).gpu_code(target, 8).ptx)
    command = [PTXAS, "-arch", target, "-v", "-o", str(tmp_path / "out"), str(file)]
    said = subprocess.run(command, capture_output=True, text=True, check=True).stderr
    found = re.search(r"(\d+) bytes spill stores", said)
    assert found is not None
    assert int(found[1]) < 128, said


def test_only_kernels_that_hold_much_ask_for_one_block() -> None:
    for n, asked in ((1024, False), (2048, False), (4096, True)):
        ptx = kernel([((n,), "f32")], [((n,), "f32")], SUM % (n, n)).ptx()
        assert (".minnctapersm 1" in ptx) == asked
    assert ".minnctapersm" not in product(32, 64, 32).ptx()
    assert ".minnctapersm 1" in product(128, 32, 128).ptx()

"""Loops that load ahead: the product is right for every number of turns, and nothing is read before it has arrived."""

from __future__ import annotations

from pathlib import Path

import joinery as jn
import numpy as np
import pytest
from joinery.lowering.frontends.ttir.text import parse
from joinery.lowering.llvm.nvptx.gpu_kernel import GpuKernel
from joinery.lowering.llvm.nvptx.kernel import lower_to_threads
from joinery.lowering.llvm.nvptx.memory.shared_memory import SharedMemory
from joinery.lowering.llvm.nvptx.targets import GpuTarget
from joinery.lowering.tt.interpret.machine import find_function
from joinery.lowering.tt.transforms.pipeline import pipeline_of
from joinery.runtime.ptxsim import Module, PtxCheckError

from .....support.kernels.products import code_of
from .....support.tiers import each

TEXT = (Path(__file__).parents[5] / "benchmarks" / "kernels" / "gpu_matmul_f16.ttir").read_text()
TILE = 128
STAGE = 2 * TILE * 64 * 2


def matrices(m: int, n: int, k: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Small whole numbers: sums are exact in any order."""
    rng = np.random.default_rng(m + n + k)
    a, b = (rng.integers(-2, 3, shape).astype(np.float16) for shape in ((m, k), (k, n)))
    return a, b, np.zeros((m, n), np.float32)


def arguments(a: np.ndarray, b: np.ndarray, c: np.ndarray) -> tuple[object, ...]:
    (m, k), n = a.shape, b.shape[1]
    return (a, b, c, m, n, k, k, n, n)


@pytest.mark.one_in(2)
@pytest.mark.parametrize(("target", "stages"), [("sm_80", 4), ("sm_90a", 3), ("sm_86", 3)])
def test_the_loop_is_pipelined(target: str, stages: int) -> None:
    """Three stages, or four where three leave no room for a second block anyway."""
    code = code_of(TEXT, target, 4)
    assert code.ptx.count("cp.async.cg.shared.global") == stages * 16  # all turns but one before the loop, one in it
    assert "ld.global" not in code.ptx
    assert code.lowered.shared_bytes == stages * STAGE


def of_type(elem: str, precision: str = "") -> str:
    """The text for operands of another type."""
    text = TEXT.replace("f16", elem)
    if elem == "i8":
        text = text.replace("dense<0.000000e+00> : tensor<64x128xi8>", "dense<0> : tensor<64x128xi8>")
        text = text.replace("dense<0.000000e+00> : tensor<128x64xi8>", "dense<0> : tensor<128x64xi8>")
        text = text.replace("dense<0.000000e+00> : tensor<128x128xf32>", "dense<0> : tensor<128x128xi32>")
        text = text.replace("128x128xf32", "128x128xi32").replace("ptr<f32>", "ptr<i32>")
    total = "i32" if elem == "i8" else "f32"
    end = f"tensor<128x64x{elem}> * tensor<64x128x{elem}> -> tensor<128x128x{total}>"
    return text.replace(f" : {end}", f"{precision and f', inputPrecision = {precision}'} : {end}")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("elem", "precision", "copies", "warps"),
    [("f32", "tf32", 32, 4), pytest.param("f32", "tf32x3", 16, 8, marks=pytest.mark.slow), ("i8", "", 4, 4)],
)
def test_other_types(elem: str, precision: str, copies: int, warps: int) -> None:
    """tf32 is rounded when it is fetched. B of bytes has to change places with its neighbours, and is loaded turn by turn."""
    text = of_type(elem, precision)
    dtype, total = {"f32": (np.float32, np.float32), "i8": (np.int8, np.int32)}[elem]
    rng = np.random.default_rng(9)
    a, b = rng.integers(-9, 10, (144, 272)).astype(dtype), rng.integers(-9, 10, (272, 96)).astype(dtype)
    c = np.zeros((144, 96), total)
    code = code_of(text, "sm_80", warps)
    assert code.ptx.count("cp.async.cg.shared.global") == copies * code.ptx.count("cp.async.commit_group")
    kernel = Module(code.ptx).kernel()
    kernel.launch((2, 1), None, arguments(a, b, c), shared=code.lowered.shared_bytes, level=3, delivery="random")
    np.testing.assert_array_equal(c, a.astype(total) @ b.astype(total))


@pytest.mark.one_in(6)
@pytest.mark.parametrize(("turns", "delivery"), each([0, 1, 2, 3, 5], ["late", "early", "random"]))
def test_any_number_of_turns(turns: int, delivery: str) -> None:
    a, b, c = matrices(TILE, TILE, 64 * turns - 16 if turns else 0)
    code = code_of(TEXT, "sm_80", 4)
    kernel = Module(code.ptx).kernel()
    kernel.launch((1, 1), None, arguments(a, b, c), shared=code.lowered.shared_bytes, level=3, delivery=delivery)
    np.testing.assert_array_equal(c, a.astype(np.float32) @ b.astype(np.float32))


@pytest.mark.one_in(2)
@pytest.mark.parametrize("step", [2**30, 2**31 - 2])
def test_turns_looked_at_ahead_do_not_wrap_around(step: int) -> None:
    """The loop's blocks are not masked, so that loads for a turn that is none leave the matrices."""
    text = TEXT.replace("scf.for %_ = %c0_i32 to %1 step %c1_i32", "scf.for %_ = %c0_i32 to %far step %stride")
    constants = f"%far = arith.constant {2**31 - 1} : i32\n    %stride = arith.constant {step} : i32\n    %0 ="
    text = text.replace("%0 =", constants, 1).replace("tt.splat %left_28", "tt.splat %c64_i32")
    a, b, c = matrices(TILE, TILE, 128)
    code = code_of(text, "sm_80", 4)
    assert "cp.async" in code.ptx
    Module(code.ptx).kernel().launch((1, 1), None, arguments(a, b, c), shared=code.lowered.shared_bytes, level=3)
    np.testing.assert_array_equal(c, a.astype(np.float32) @ b.astype(np.float32))


@pytest.mark.slow
@pytest.mark.parametrize("shape", [(144, 160, 80), (16, 48, 16)])
def test_masked_tiles(shape: tuple[int, int, int]) -> None:
    a, b, c = matrices(*shape)
    grid = (-(-shape[0] // TILE), -(-shape[1] // TILE))
    jn.kernel.from_ttir(TEXT).launch(grid, *arguments(a, b, c), device="ptxsim", sanitize=True)
    np.testing.assert_array_equal(c, a.astype(np.float32) @ b.astype(np.float32))


@pytest.mark.slow
@pytest.mark.parametrize("warps", [1, 8])
def test_other_numbers_of_warps(warps: int) -> None:
    a, b, c = matrices(TILE, TILE, 128)
    code = code_of(TEXT, "sm_80", warps)
    kernel = Module(code.ptx).kernel()
    kernel.launch((1, 1), None, arguments(a, b, c), shared=code.lowered.shared_bytes, level=3)
    np.testing.assert_array_equal(c, a.astype(np.float32) @ b.astype(np.float32))


def test_waiting_for_too_little_is_noticed() -> None:
    """The same code with one wait that lets one more turn be on its way."""
    a, b, c = matrices(TILE, TILE, 256)
    code = code_of(TEXT, "sm_80", 4)
    hasty = code.ptx.replace("cp.async.wait_group \t2", "cp.async.wait_group \t3").replace("wait_group 2", "wait_group 3")
    assert hasty != code.ptx
    with pytest.raises(PtxCheckError):
        Module(hasty).kernel().launch(
            (1, 1), None, arguments(a, b, c), shared=code.lowered.shared_bytes, level=3
        )


def test_loops_that_write_memory_do_not_load_ahead() -> None:
    """What a turn writes a later turn may read."""
    place = "      %pa_44 = tt.addptr"
    stores = TEXT.replace(place, f"      tt.store %pa_25, %x_35, %x_34 : tensor<128x64x!tt.ptr<f16>>\n{place}")
    assert stores != TEXT
    assert "cp.async" not in jn.kernel.from_ttir(stores).ptx()


def lowered(shared_bytes: int) -> GpuKernel:
    function = find_function(parse(TEXT), None)
    pipeline_of("sm_80").run(function)
    return lower_to_threads(function, GpuTarget("sm_80", 70, shared_bytes, 108))


@pytest.mark.parametrize(("kibibytes", "stages"), [(163, 4), (127, 3), (80, 2)])
def test_as_many_stages_as_there_is_room_for(kibibytes: int, stages: int) -> None:
    code = lowered(kibibytes << 10)
    assert code.llvm_ir.count("call void @llvm.nvvm.cp.async.cg.shared.global.16.s(") == 16 * stages
    assert code.shared_bytes <= kibibytes << 10


def test_fewer_stages_where_the_loop_turns_out_to_need_more(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(SharedMemory, "room", lambda self, limit: 1 << 20)
    assert lowered(80 << 10).shared_bytes == 2 * STAGE


def test_without_room_operands_are_stored_turn_by_turn(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(SharedMemory, "room", lambda self, limit: 63 << 10)  # two stages take 64
    assert "cp.async" not in lowered(80 << 10).llvm_ir


@pytest.mark.one_in(8)
@pytest.mark.parametrize(
    ("asked", "stages"),
    [("1 : i32", 0), ("2 : i32", 2), ("5 : i32", 5), ("9 : i64", 5), ("0 : i32", 4), ("-1 : i32", 4), ('"five"', 4),
     ("dense<5> : tensor<1xi32>", 4)],
)  # fmt: skip
def test_a_loop_may_ask_for_a_number_of_stages(asked: str, stages: int) -> None:
    """As many as there is room for; one means that nothing is loaded ahead, and what is no number of stages means nothing."""
    at = TEXT.index("}", TEXT.index("scf.yield"))
    text = f"{TEXT[:at]}}} {{tt.num_stages = {asked}}}{TEXT[at + 1:]}"
    code = code_of(text, "sm_80", 4)
    assert code.ptx.count("cp.async.cg.shared.global") == stages * 16
    if stages:
        assert code.lowered.shared_bytes == stages * STAGE
    if stages == 4:
        return  # the code of a loop that asks for nothing
    a, b, c = matrices(TILE, TILE, 336)
    kernel = Module(code.ptx).kernel()
    kernel.launch((1, 1), None, arguments(a, b, c), shared=code.lowered.shared_bytes, level=3)
    np.testing.assert_array_equal(c, a.astype(np.float32) @ b.astype(np.float32))

"""Descriptors that kernels make themselves: tensor maps of the launch where base, extents and strides are the same in all
programs and nothing else reaches the memory, pointers and masks elsewhere."""

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
from joinery.runtime.ptxsim import PtxCheckError

from .....support.kernels.descriptors import (
    BLOCK,
    MORE,
    TYPE,
    code_of,
    launched,
    load,
    make,
    some,
    store,
    text_of,
)
from .....support.tiers import each

TEXTS = Path(__file__).parents[4] / "data" / "ttir_descriptors"
"""As Triton 3.9 printed them, locations left out."""
BF16 = ml_dtypes.bfloat16


def kernel_of(name: str) -> jn.kernel.Kernel:
    return jn.kernel.from_ttir(TEXTS / f"{name}.ttir")


def whole(shape: tuple[int, ...], seed: int = 0, dtype: Any = np.float16) -> Any:
    return np.random.default_rng([seed, *shape]).integers(-2, 3, shape).astype(dtype)


# -- texts of Triton --------------------------------------------------------------------------


@pytest.mark.one_in(6)
@pytest.mark.parametrize("warps", [4, 8])
@pytest.mark.parametrize(("m", "n", "k"), [(200, 136, 264), (64, 8, 328), (129, 256, 8)])
def test_a_product(m: int, n: int, k: int, warps: int) -> None:
    kernel = kernel_of("matmul")
    a, b, c = whole((m, k)), whole((k, n), 1), np.full((m, n), 77, np.float16)
    kernel.launch((-(-m // 128), -(-n // 128)), a, b, c, m, n, k, device="ptxsim", target="sm_90a", sanitize=True, warps=warps)
    np.testing.assert_array_equal(c, (a.astype(np.float32) @ b.astype(np.float32)).astype(np.float16))
    code = code_of(kernel)
    assert [each.parameter for each in code.lowered.tensor_maps] == [0, 1, 2]
    assert (code.lowered.producers, "wgmma.mma_async" in code.ptx, "stmatrix" in code.ptx) == (1, True, True)
    assert code.ptx.count("shared::cluster.global") == 3  # B's block has two panels
    assert not re.search(r"\bld\.global|\bst\.global", code.ptx)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "size"), each(["persistent", "persistent_halves"], [(1, 200, 264, 136), (2, 300, 136, 264), (3, 520, 8, 72)])
)
def test_a_persistent_product(name: str, size: tuple[int, int, int, int]) -> None:
    """B is stored transposed; the second text stores each tile in two halves."""
    programs, m, n, k = size
    kernel = kernel_of(name)
    a, b, c = whole((m, k)), whole((n, k), 1), np.full((m, n), 77, np.float16)
    kernel.launch((programs,), a, b, c, m, n, k, device="ptxsim", target="sm_90a", sanitize=True, warps=8)
    np.testing.assert_array_equal(c, (a.astype(np.float32) @ b.T.astype(np.float32)).astype(np.float16))
    code = code_of(kernel)
    assert (len(code.lowered.tensor_maps), code.lowered.producers, "stmatrix" in code.ptx) == (3, 4, True)


@pytest.mark.slow
@pytest.mark.parametrize("length", [64, 168, 200])
def test_attention(length: int) -> None:
    kernel, rng = kernel_of("attention"), np.random.default_rng(length)
    q, k, v = (rng.standard_normal((2, length, 64)).astype(np.float16) for _ in range(3))
    out = np.full((2, length, 64), 77, np.float16)
    kernel.launch((-(-length // 64), 2), q, k, v, out, 2, length, 0.18, device="ptxsim", target="sm_90a", sanitize=True)
    weight = np.exp2(np.float64(0.18) * (q.astype(np.float64) @ k.astype(np.float64).transpose(0, 2, 1)))
    right = weight / weight.sum(-1, keepdims=True) @ v.astype(np.float64)
    np.testing.assert_allclose(out.astype(np.float64), right, atol=2e-3)
    code = code_of(kernel)
    assert (len(code.lowered.tensor_maps), code.lowered.producers, "wgmma.mma_async" in code.ptx) == (4, 1, True)


def test_a_layer_with_a_batch() -> None:
    """Descriptors of three axes, their strides products of sizes; the bias comes by pointers."""
    batch, m, n, k = 3, 72, 104, 136
    kernel = kernel_of("batched")
    x, w = whole((batch, m, k), 0, BF16), whole((batch, k, n), 1, BF16)
    bias, y = whole((n,), 2, np.float32), np.full((batch, m, n), 77, BF16)
    assert launched(kernel, (2, 2, batch), x, w, bias, y, batch, m, n, k) == 3
    right = np.maximum(x.astype(np.float32) @ w.astype(np.float32) + bias, 0)
    np.testing.assert_array_equal(y.astype(np.float32), right.astype(BF16).astype(np.float32))
    assert code_of(kernel).lowered.producers == 1


def test_the_code_is_that_of_descriptors_that_are_parameters() -> None:
    text = (TEXTS / "matmul.ttir").read_text()
    made = jn.kernel.from_ttir(text).gpu_code("sm_90a", tensor_maps=True).ptx
    for name, shape in (("a", "128x64"), ("b", "64x128"), ("c", "128x128")):
        maker = re.search(rf"(%\w+) = tt.make_tensor_descriptor %{name}_ptr[^\n]*\n", text)
        assert maker is not None
        text = re.sub(rf"{maker[1]}\b", f"%{name}_ptr", text.replace(maker[0], ""))
        text = text.replace(f"%{name}_ptr: !tt.ptr<f16>", f"%{name}_ptr: !tt.tensordesc<{shape}xf16>")
    given = jn.kernel.from_ttir(text).gpu_code("sm_90a", tensor_maps=True).ptx

    def operations(ptx: str) -> list[str]:
        body = ptx[ptx.index("\n{") :]
        return [line.split()[0] for line in body.splitlines() if line.startswith("\t") and not line.startswith("\t.")]

    assert operations(made) == operations(given)


PTXAS = shutil.which("ptxas")


@pytest.mark.one_in(4)
@pytest.mark.skipif(PTXAS is None, reason="no ptxas on this machine")
@pytest.mark.parametrize(("name", "warps"), [("matmul", 4), ("persistent", 8), ("attention", 4), ("batched", 4)])
def test_the_assembler_neither_spills_nor_waits(name: str, warps: int, tmp_path: Path) -> None:
    source = tmp_path / "k.ptx"
    source.write_text(kernel_of(name).gpu_code("sm_90a", warps, tensor_maps=True).ptx)
    command = [str(PTXAS), "-arch", "sm_90a", "-v", "-o", str(tmp_path / "k.cubin"), str(source)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert " 0 bytes spill stores" in done.stderr, done.stderr
    assert "(C75" not in done.stderr, done.stderr


@pytest.mark.one_in(2)
@pytest.mark.parametrize("target", ["sm_80", "sm_89"])
def test_older_targets_have_none(target: str) -> None:
    kernel = kernel_of("batched")
    x, w = whole((1, 24, 40), 0, BF16), whole((1, 40, 16), 1, BF16)
    y = np.zeros((1, 24, 16), BF16)
    assert launched(kernel, (1, 1, 1), x, w, np.ones(16, np.float32), y, 1, 24, 16, 40, target=target) == 0
    code = kernel.gpu_code(target).kernel
    assert not code.tensor_maps
    # rows of 16 bytes that start on multiples of 16 are copied whole; of any other rows no element's place is known
    assert "cp.async.cg" in code.ptx
    assert "cp.async.cg" not in kernel.gpu_code(target, tensor_maps=False).ptx


def test_code_without_a_launch() -> None:
    """`ptx` is for tensors that fit tensor maps; `gpu_code` without them for all."""
    kernel = kernel_of("matmul")
    assert "bulk.tensor" not in kernel.gpu_code("sm_90a", tensor_maps=False).ptx
    code = kernel.gpu_code("sm_90a").kernel
    assert code.ptx == kernel.ptx("sm_90a")
    assert code.parameters == ("i64",) * 3 + ("i32",) * 3 + ("ptr",) * 3
    source = code.tensor_maps[0].source
    assert [each.evaluate([0, 0, 0, 5, 6, 7]) for each in (*source.extents, *source.strides)] == [5, 7, 7, 1]
    assert code.ptx == kernel_of("matmul").gpu_code("sm_90a", tensor_maps=True).ptx


# -- launches whose tensors fit, or do not ----------------------------------------------------

COPY = text_of(make("x", "a") + make("y", "b") + load("v", "x") + store("y", "v"))


@pytest.mark.parametrize(
    ("rows", "columns", "maps"),
    [(8, 32, 2), (6, 32, 2), (20, 64, 2), (1, 4, 2), (8, 30, 0), (8, 33, 0), (0, 32, 0), (8, 0, 0), (-3, 32, 0), (8, -32, 0)],
)
def test_tensors_that_fit_no_map(rows: int, columns: int, maps: int) -> None:
    """A stride that is no multiple of 16 bytes; extents of 0 and less, outside of which everything is."""
    kernel = jn.kernel.from_ttir(COPY)
    assert launched(kernel, (1,), some(24, 64), np.zeros((24, 64), np.float32), rows, columns) == maps


def test_an_address_that_is_no_multiple_of_16_bytes() -> None:
    kernel = jn.kernel.from_ttir(COPY)
    assert launched(kernel, (1,), some(400)[1:], np.zeros(400, np.float32), 8, 32) == 1
    assert code_of(kernel).lowered.tensor_maps[0].parameter == 1


def test_tensors_beyond_their_array_are_not_hidden() -> None:
    """They are reached by pointers, of which the simulator says that they leave the array."""
    kernel = jn.kernel.from_ttir(COPY)
    with pytest.raises(PtxCheckError, match=r"bounds: 8 bytes at .* of argument 0 \(a\) with 896 bytes, 16 bytes beyond"):
        kernel.launch((1,), some(7, 32), np.zeros((8, 32), np.float32), 8, 32, device="ptxsim", target="sm_90a", sanitize=True)
    assert [each.parameter for each in code_of(kernel).lowered.tensor_maps] == [1]


@pytest.mark.parametrize(("step", "maps"), [(1, 2), (2, 0), (0, 0), (-1, 0)])
def test_the_last_stride_may_be_a_parameter(step: int, maps: int) -> None:
    strides = "%wide, %step"
    body = make("x", "a", strides=strides) + make("y", "b", strides=strides) + load("v", "x") + store("y", "v")
    kernel = jn.kernel.from_ttir(text_of(body, "%a: !tt.ptr<f32>, %b: !tt.ptr<f32>, %m: i32, %n: i32, %step: i64"))
    source, target = some(16, 64), np.zeros((16, 64), np.float32)
    if step < 0:
        first = text_of(body, "%a: !tt.ptr<f32>, %b: !tt.ptr<f32>, %m: i32, %n: i32, %step: i64")
        kernel = jn.kernel.from_ttir(first.replace("%zero, %two", "%two, %zero").replace("[%m, %n]", "[%m, %one]"))
    assert launched(kernel, (1,), source, target, 4, 32, step) == maps


def test_sizes_that_wrap_or_have_no_value() -> None:
    """32-bit products wrap as in the kernel; a quotient by 0 is for the kernel to define."""
    body = "%s = arith.muli %m, %n : i32\n%l = arith.extsi %s : i32 to i64\n"
    body += make("x", "a", strides="%l, %unit") + make("y", "b") + load("v", "x") + store("y", "v")
    kernel = jn.kernel.from_ttir(text_of(body))
    big = (1 << 31) - 4
    (source,) = [each.source for each in kernel.gpu_code("sm_90a", tensor_maps=True).kernel.tensor_maps if each.parameter == 0]
    assert source.strides[0].evaluate([0, 0, 12, big]) == -48
    kernel = jn.kernel.from_ttir(text_of(body.replace("arith.muli", "arith.divsi")))
    assert launched(kernel, (1,), some(24, 64), np.zeros((24, 64), np.float32), 32, 1) == 1  # columns of 1: the target's stride
    kernel = jn.kernel.from_ttir(text_of(body.replace("arith.muli %m, %n", "arith.divsi %n, %m")))
    assert launched(kernel, (1,), some(24, 64), np.zeros((24, 64), np.float32), 0, 32) == 0


def test_padding_with_nan() -> None:
    body = make("x", "a", more=" {padding = 2 : i32}") + make("y", "b", "%eight, %n") + load("v", "x") + store("y", "v")
    kernel = jn.kernel.from_ttir(text_of(body))
    target = np.zeros((8, 32), np.float32)
    assert launched(kernel, (1,), some(6, 32), target, 6, 32) == 2
    assert np.isnan(target[6:]).all()
    assert np.isnan(target[:6, 30:]).all()
    assert not np.isnan(target[:6, :30]).any()


def test_arrays_that_share_memory() -> None:
    array = some(32, 32)
    kernel = jn.kernel.from_ttir(COPY)
    expected = array.copy()
    kernel.interpret((1,), expected, expected[4:], 8, 32)
    kernel.launch((1,), array, array[4:], 8, 32, device="ptxsim", target="sm_90a", sanitize=True)
    np.testing.assert_array_equal(array, expected)
    assert not code_of(kernel).lowered.tensor_maps
    kernel = jn.kernel.from_ttir(COPY)
    kernel.launch((1,), array[:8], array[16:], 8, 32, device="ptxsim", target="sm_90a", sanitize=True)
    assert len(code_of(kernel).lowered.tensor_maps) == 2
    # What is only read may be passed twice.
    add = "%s = arith.addf %v, %w : " + BLOCK + "\n"
    body = make("x", "a") + make("y", "b") + make("z", "c") + load("v", "x") + load("w", "y") + add + store("z", "s")
    twice = text_of(body, "%a: !tt.ptr<f32>, %b: !tt.ptr<f32>, %c: !tt.ptr<f32>, %m: i32, %n: i32")
    kernel, target = jn.kernel.from_ttir(twice), np.zeros((8, 32), np.float32)
    assert launched(kernel, (1,), array, array, target, 8, 32) == 3
    kernel = jn.kernel.from_ttir(twice)
    kernel.launch((1,), array[:8], target, target, 8, 32, device="ptxsim", target="sm_90a", sanitize=True)
    assert [each.parameter for each in code_of(kernel).lowered.tensor_maps] == [0]


def random_copy(rng: np.random.Generator) -> tuple[str, list[Any]]:
    """A kernel that copies blocks from one place to another, and its arguments: tensors with gaps, some of which fit no map."""
    elem, dtype = [("f16", np.float16), ("f32", np.float32), ("i8", np.int8), ("i64", np.int64)][rng.integers(4)]
    rank, size = int(rng.integers(2, 5)), np.dtype(dtype).itemsize
    block = [1] * (rank - 2) + [int(rng.choice([4, 8, 16])), max(16 // size, int(rng.choice([16, 32, 64])))]
    desc = f"!tt.tensordesc<{'x'.join(map(str, block))}x{elem}>"
    tensor = f"tensor<{'x'.join(map(str, block))}x{elem}>"
    lines, arguments = ["%unit = arith.constant 1 : i64"], []
    parameters = [f"%a: !tt.ptr<{elem}>", f"%b: !tt.ptr<{elem}>"]
    for name in "ab":
        extents = [int(rng.integers(1, 4)) for _ in range(rank - 2)] + [int(rng.integers(1, 30)), int(rng.integers(1, 90))]
        strides, step = [1], extents[-1]
        for extent in reversed(extents[:-1]):
            step = -(-step * size // 16) * 16 // size if rng.random() < 0.9 else step + int(rng.integers(2))
            strides.insert(0, step)
            step = step * extent + int(rng.integers(3)) * 16 // size
        numbers = []
        for axis, (extent, stride) in enumerate(zip(extents, strides, strict=True)):
            of = f"{name}{axis}"
            parameters += [f"%e{of}: i32", *([f"%s{of}: i64"] if axis < rank - 1 else [])]
            lines += [f"%k{of} = arith.constant {rng.integers(5)} : i32", f"%x{of} = arith.addi %e{of}, %k{of} : i32"]
            numbers += [extent - int(lines[-2].split()[3]), *([stride] if axis < rank - 1 else [])]
        sizes = ", ".join(f"%x{name}{axis}" for axis in range(rank))
        steps = ", ".join([*(f"%s{name}{axis}" for axis in range(rank - 1)), "%unit"])
        line = f"%d{name} = tt.make_tensor_descriptor %{name}, [{sizes}], [{steps}] : <{elem}>, <{desc[15:]}"
        lines.append(line)
        start = int(rng.choice([0, 0, 16 // size, 1]))
        array = rng.integers(-99, 99, step + start).astype(dtype)
        arguments.append((array[start:], numbers))
    for name in "ab":
        for axis in range(rank):
            place = rng.integers(-3, 12) if axis >= rank - 2 else rng.integers(3)
            lines.append(f"%i{name}{axis} = arith.constant {place} : i32")
    at = {name: ", ".join(f"%i{name}{axis}" for axis in range(rank)) for name in "ab"}
    lines.append(f"%v = tt.descriptor_load %da[{at['a']}] : {desc} -> {tensor}")
    lines.append(f"tt.descriptor_store %db[{at['b']}], %v : {desc}, {tensor}")
    text = f"tt.func public @f({', '.join(parameters)}) {{\n" + "\n".join(lines) + "\ntt.return\n}\n"
    (first, numbers), (second, more) = arguments
    return text, [first, second, *numbers, *more]


@pytest.mark.one_in(4)
@pytest.mark.parametrize("seed", range(4))
def test_random_copies(seed: int) -> None:
    rng, maps = np.random.default_rng(seed), []
    for _ in range(12):
        text, arguments = random_copy(rng)
        maps.append(launched(jn.kernel.from_ttir(text), (1,), *arguments))
    assert {0, 1, 2} >= set(maps) >= {1, 2}


# -- kernels whose descriptors may become maps, or not ----------------------------------------

POINTERS = """%i = tt.make_range {start = 0 : i32, end = 32 : i32} : tensor<32xi32>
%p = tt.splat %NAME : !tt.ptr<f32> -> tensor<32x!tt.ptr<f32>>
%q = tt.addptr %p, %i : tensor<32x!tt.ptr<f32>>, tensor<32xi32>
%r = tt.load %q : tensor<32x!tt.ptr<f32>>
"""
CHANGE = """%twice = arith.addf %r, %r : tensor<32xf32>
tt.store %q, %twice : tensor<32x!tt.ptr<f32>>
"""
ADDRESS = """%t = tt.ptr_to_int %NAME : !tt.ptr<f32> -> i64
%u = tt.int_to_ptr %t : i64 -> !tt.ptr<f32>
%w = arith.constant 1.0 : f32
"""
THROUGH = "tt.store %u, %w : !tt.ptr<f32>\n"
FROM = "%z = tt.load %u : !tt.ptr<f32>\ntt.store %c, %z : !tt.ptr<f32>\n"
BOTH = make("x", "a") + make("y", "b") + load("v", "x") + store("y", "v")


@pytest.mark.one_in(9)
@pytest.mark.parametrize(
    ("body", "maps"),
    [
        (BOTH, [0, 1]),
        # several descriptors of one parameter
        (make("z", "a", "%m, %eight") + BOTH + load("w", "z") + store("y", "w", "%zero, %eight"), [0, 0, 1]),
        (make("z", "a") + BOTH, [0, 1]),  # made twice, one descriptor
        (BOTH + make("z", "b", "%m, %eight") + store("z", "v", "%eight, %zero"), [0]),  # two are stored to
        (BOTH + make("z", "b", "%m, %eight") + load("w", "z", "%zero, %zero") + store("y", "w"), [0]),
        (BOTH + load("w", "y", "%zero, %zero") + store("y", "w", "%zero, %eight"), [0]),  # loads and stores by one
        (BOTH + make("z", "a", "%m, %eight") + store("z", "v"), [1]),
        # pointers besides
        (BOTH + POINTERS.replace("NAME", "a"), [0, 1]),
        (POINTERS.replace("NAME", "a") + CHANGE + BOTH, [1]),
        (BOTH + POINTERS.replace("NAME", "b") + CHANGE, [0]),
        (BOTH + POINTERS.replace("NAME", "b") + "%h = tt.addptr %k, %zero : !tt.ptr<i32>, i32\n", [0, 1]),  # nobody reads %r
        # addresses as integers
        (ADDRESS.replace("NAME", "c") + THROUGH + BOTH, []),
        (ADDRESS.replace("NAME", "c") + FROM + BOTH, [0]),
        (ADDRESS.replace("NAME", "a") + FROM + BOTH, []),
        (ADDRESS.replace("NAME", "b") + BOTH, [0, 1]),  # nobody uses it
        # operands that the launch does not know
        (BOTH.replace("[%m, %n]", "[%e, %n]", 1), [1]),
        (BOTH.replace("[%m, %n]", "[%l, %n]", 1), [1]),
        (BOTH.replace("descriptor %a", "descriptor %d", 1), [1]),
        (BOTH.replace("[%m, %n]", "[%g, %n]", 1), [1]),
    ],
)
def test_what_else_reaches_the_memory(body: str, maps: list[int]) -> None:
    before = """%pid = tt.get_program_id x : i32
    %d = tt.addptr %a, %pid : !tt.ptr<f32>, i32
    %e = arith.subi %m, %pid : i32
    %l = tt.load %k : !tt.ptr<i32>
    %small = arith.cmpi slt, %m, %n : i32
    %g = arith.select %small, %m, %n : i32
    """
    parameters = "%a: !tt.ptr<f32>, %b: !tt.ptr<f32>, %m: i32, %n: i32, %c: !tt.ptr<f32>, %k: !tt.ptr<i32>"
    kernel = jn.kernel.from_ttir(text_of(before + body, parameters))
    arrays = [some(20, 64), np.zeros((20, 64), np.float32)]
    assert launched(kernel, (1,), *arrays, 18, 32, np.zeros(4, np.float32), np.full(1, 18, np.int32)) == len(maps)
    code = jn.kernel.from_ttir(text_of(before + body, parameters)).gpu_code("sm_90a", tensor_maps=True)
    assert [each.parameter for each in (*code_of(kernel).lowered.tensor_maps, *code.lowered.tensor_maps)] == maps * 2


LOOP = "%last = scf.for %j = %zero to %two step %one iter_args(%now = %zero) -> (i32) : i32 {\nBODY scf.yield %now : i32\n}\n"


@pytest.mark.one_in(2)
@pytest.mark.parametrize(
    ("body", "maps"),
    [
        # made in a loop, also of sizes that are computed there
        (LOOP.replace("BODY", "%h = arith.muli %two, %eight : i32\n%k = arith.addi %h, %m : i32\n"
                      + "%r = arith.subi %k, %h : i32\n" + make("x", "a", "%r, %n") + make("y", "b")
                      + load("v", "x", "%j, %zero") + store("y", "v", "%j, %zero")), 2),
        (LOOP.replace("BODY", make("x", "a", "%j, %n") + make("y", "b") + load("v", "x")
                      + store("y", "v", "%j, %zero")), 1),
        # in a branch
        (f"%c = arith.cmpi sgt, %m, %two : i32\n%v = scf.if %c -> ({BLOCK}) {{\n" + make("x", "a") + load("s", "x")
         + f"scf.yield %s : {BLOCK}\n}} else {{\n%t = arith.constant dense<0.0> : {BLOCK}\nscf.yield %t : {BLOCK}\n}}\n"
         + make("y", "b") + store("y", "v"), 2),
        # chosen among
        ("%c = arith.cmpi sgt, %m, %two : i32\n" + make("x", "a") + make("z", "a", "%two, %n")
         + f"%w = arith.select %c, %x, %z : {TYPE}\n" + load("v", "w") + make("y", "b") + store("y", "v"), 1),
        (f"%c = arith.cmpi sgt, %m, %two : i32\n%w = scf.if %c -> ({TYPE}) {{\n" + make("x", "a")
         + f"scf.yield %x : {TYPE}\n}} else {{\n" + make("z", "a", "%two, %n") + f"scf.yield %z : {TYPE}\n}}\n"
         + load("v", "w") + make("y", "b") + store("y", "v"), 1),
        # carried by loops
        (make("x", "a") + f"%e = scf.for %j = %zero to %two step %one iter_args(%w = %x) -> ({TYPE}) : i32 {{\n"
         + make("y", "b") + load("v", "w") + store("y", "v", "%j, %zero") + make("z", "a", "%j, %n")
         + f"scf.yield %z : {TYPE}\n}}\n", 1),
        (make("x", "a") + f"%e:2 = scf.while (%w = %x, %i = %zero) : ({TYPE}, i32) -> ({TYPE}, i32) {{\n"
         + f"%c = arith.cmpi slt, %i, %two : i32\nscf.condition(%c) %w, %i : {TYPE}, i32\n}} do {{\n"
         + f"^bb0(%u: {TYPE}, %k: i32):\n"
         + make("y", "b") + load("v", "u") + store("y", "v", "%k, %zero") + "%l = arith.addi %k, %one : i32\n"
         + f"scf.yield %u, %l : {TYPE}, i32\n}}\n", 1),
    ],
)  # fmt: skip
def test_control_flow(body: str, maps: int) -> None:
    kernel = jn.kernel.from_ttir(text_of(body))
    assert launched(kernel, (1,), some(20, 64), np.zeros((20, 64), np.float32), 18, 32) == maps


@pytest.mark.parametrize("hands_back", [False, True])
def test_functions_that_make_descriptors(hands_back: bool) -> None:
    """Calls are replaced by bodies; descriptors go in and out."""
    result, value = (TYPE, "%x") if hands_back else (BLOCK, "%v")
    inner = make("x", "a") + ("" if hands_back else load("v", "x")) + f"tt.return {value} : {result}"
    helper = f"tt.func private @rows(%a: !tt.ptr<f32>, %m: i32, %n: i32) -> {result} {{\n{MORE}{inner}\n}}"
    inner = "%zero = arith.constant 0 : i32\n" + store("y", "v") + "tt.return"
    other = f"tt.func private @put(%y: {TYPE}, %v: {BLOCK}) {{\n{inner}\n}}"
    body = f"{value} = tt.call @rows(%a, %m, %n) : (!tt.ptr<f32>, i32, i32) -> {result}\n"
    body += load("v", "x") if hands_back else ""
    body += make("y", "b") + f"tt.call @put(%y, %v) : ({TYPE}, {BLOCK}) -> ()\n"
    kernel = jn.kernel.from_ttir(f"module {{\n{helper}\n{other}\n{text_of(body)}}}\n", "f")
    assert launched(kernel, (1,), some(20, 64), np.zeros((20, 64), np.float32), 18, 32) == 2


@pytest.mark.parametrize("rows", [18, 0])
def test_kernels_of_several_blocks(rows: int) -> None:
    body = make("y", "b", "%eight, %n") + "%c = arith.cmpi slt, %m, %one : i32\n"
    body += "cf.cond_br %c, ^bb1, ^bb2\n^bb1:\ntt.return\n^bb2:\n"
    kernel = jn.kernel.from_ttir(text_of(body + make("x", "a") + load("v", "x") + store("y", "v")))
    assert launched(kernel, (1,), some(20, 64), np.zeros((20, 64), np.float32), rows, 32) == (2 if rows else 1)


@pytest.mark.parametrize("what", ["gather", "scatter", "reduce"])
def test_other_accesses_stay_pointers(what: str) -> None:
    rows = "%i = tt.make_range {start = 0 : i32, end = 8 : i32} : tensor<8xi32>\n"
    line = "%x = tt.make_tensor_descriptor %NAME, [%m, %n], [%wide, %unit] : <f32>, <1x32xf32>\n"
    one, types = "!tt.tensordesc<1x32xf32>", "tensor<8xi32>, i32"
    body, maps = {
        "gather": (rows + line.replace("NAME", "a") + f"%v = tt.descriptor_gather %x[%i, %zero] : ({one}, {types}) -> {BLOCK}\n"
                   + make("y", "b") + store("y", "v"), [1]),
        "scatter": (rows + line.replace("NAME", "b") + make("y", "a") + load("v", "y")
                    + f"tt.descriptor_scatter %x[%i, %zero], %v : {one}, {types}, {BLOCK}\n", [0]),
        "reduce": (make("x", "a") + make("y", "b") + load("v", "x")
                   + f"tt.descriptor_reduce add, %y[%zero, %zero], %v : {TYPE}, {BLOCK}\n", [0]),
    }[what]  # fmt: skip
    kernel = jn.kernel.from_ttir(text_of(body))
    assert launched(kernel, (1,), some(20, 64), np.zeros((20, 64), np.float32), 18, 32) == 1
    assert [each.parameter for each in code_of(kernel).lowered.tensor_maps] == maps


def test_beside_descriptors_that_are_parameters() -> None:
    """Those come first among the maps; sizes are counted among the words that parameters come to."""
    body = make("y", "b") + load("v", "a") + store("y", "v")
    text = text_of(body, f"%a: {TYPE}, %b: !tt.ptr<f32>, %m: i32, %n: i32")
    source, target = some(20, 32), np.zeros((20, 64), np.float32)
    expected, kernel = target.copy(), jn.kernel.from_ttir(text)
    kernel.interpret((1,), jn.TensorDescriptor(source), expected, 7, 32)
    kernel.launch((1,), jn.TensorDescriptor(source), target, 7, 32, device="ptxsim", target="sm_90a", sanitize=True)
    np.testing.assert_array_equal(target, expected)
    assert [each.parameter for each in code_of(kernel).lowered.tensor_maps] == [0, 6]
    kernel = jn.kernel.from_ttir(text)
    kernel.launch((1,), jn.TensorDescriptor(source), source[4:], 7, 32, device="ptxsim", target="sm_90a", sanitize=True)
    assert not code_of(kernel).lowered.tensor_maps


def test_blocks_that_tma_does_not_copy() -> None:
    """Rows of 8 bytes, of the very tensor that other blocks are loaded from."""
    small, block = "!tt.tensordesc<8x2xf32>", "tensor<8x2xf32>"
    body = "%s = tt.make_tensor_descriptor %a, [%m, %n], [%wide, %unit] : <f32>, <8x2xf32>\n"
    body += f"%w = tt.descriptor_load %s[%one, %two] : {small} -> {block}\n"
    body += "%t = tt.make_tensor_descriptor %c, [%m, %n], [%wide, %unit] : <f32>, <8x2xf32>\n"
    body += f"tt.descriptor_store %t[%zero, %zero], %w : {small}, {block}\n"
    body += make("x", "a") + make("y", "b") + load("v", "x") + store("y", "v")
    kernel = jn.kernel.from_ttir(text_of(body, "%a: !tt.ptr<f32>, %b: !tt.ptr<f32>, %c: !tt.ptr<f32>, %m: i32, %n: i32"))
    assert launched(kernel, (1,), some(20, 64), np.zeros((20, 64), np.float32), np.zeros((20, 64), np.float32), 18, 32) == 2
    ((_, _, _, described, *_),) = kernel._gpu._codes
    assert code_of(kernel).mapped == described


def test_the_number_of_maps_is_limited() -> None:
    """128 bytes each, of the 4096 that parameters may take; the others stay pointers."""
    body = make("y", "b")
    for number in range(20):
        at = f"%at{number}"
        body += f"{at} = arith.constant {number + 1} : i32\n"
        body += make(f"x{number}", "a", f"{at}, %n") + load(f"v{number}", f"x{number}", f"{at}, %zero")
        body += store("y", f"v{number}")
    code = jn.kernel.from_ttir(text_of(body)).gpu_code("sm_90a", tensor_maps=True)
    assert len(code.lowered.tensor_maps) == 16


def test_tensor_maps_in_memory_describe_anything() -> None:
    """What is stored through one may be what the kernel's own descriptor loads."""
    other = f"%y = ttng.reinterpret_tensor_descriptor %d : !tt.ptr<i8> to {TYPE}\n"
    parameters = "%a: !tt.ptr<f32>, %d: !tt.ptr<i8>, %m: i32, %n: i32"
    text = text_of(make("x", "a") + other + load("v", "x") + store("y", "v"), parameters)
    kernel = jn.kernel.from_ttir(text)
    assert not kernel.gpu_code("sm_90a", tensor_maps=True).lowered.tensor_maps
    kernel = jn.kernel.from_ttir(text.replace(load("v", "x") + store("y", "v"), load("w", "y") + store("x", "w")))
    assert not kernel.gpu_code("sm_90a", tensor_maps=True).lowered.tensor_maps

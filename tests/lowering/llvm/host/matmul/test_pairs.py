"""Products of bfloat16 in pairs: the order and rounding of sums, and what the instruction flushes and results do not show."""

from __future__ import annotations

import ctypes
import functools
import itertools
from dataclasses import replace
from typing import Any

import joinery as jn
import llvmlite.binding as llvm
import ml_dtypes
import numpy as np
import pytest
from joinery.lowering.choices.options import Options
from joinery.lowering.host_stages import HostBackend, compile_object
from joinery.lowering.llvm.compile import compile_assembly, host_target
from joinery.lowering.llvm.host.matmul.across_pairs import LeftPairs
from joinery.lowering.llvm.host.matmul.pairs import Pairs
from joinery.lowering.llvm.module import module_of
from joinery.lowering.pipeline import tile_graph
from joinery.lowering.target import HostTarget
from joinery.lowering.tile.cost_models.host import HostLimits
from joinery.runtime.native.linking import link

from .....support.fenced_arrays import Fenced
from .....support.tiers import pairs

BF16 = ml_dtypes.bfloat16
F = np.float32
EPSILON = 2.0**-23
HERE = host_target()
BASE = ("avx", "avx2", "avx512f", "avx512bw", "avx512cd", "avx512dq", "avx512vl", "bmi", "bmi2", "cmov", "cx8", "f16c", "fma",
        "fxsr", "lzcnt", "mmx", "popcnt", "sse", "sse2", "sse3", "sse4.1", "sse4.2", "ssse3")  # fmt: skip
COOPERLAKE = HostTarget("x86_64-unknown-linux-gnu", "cooperlake", frozenset((*BASE, "avx512vnni", "avx512bf16")), 64)
OTHERS = {
    "AVX-512 without BF16": HostTarget(COOPERLAKE.triple, "icelake-server", frozenset((*BASE, "avx512vnni")), 64),
    "AVX2": HostTarget(COOPERLAKE.triple, "haswell", frozenset(each for each in BASE if "512" not in each), 32),
    "AArch64": HostTarget("aarch64-unknown-linux-gnu", "neoverse-v1", frozenset(("neon", "bf16", "dotprod")), 16),
}
here = pytest.mark.skipif(not HERE.multiplies_pairs, reason="no AVX512-BF16")
LEAST = 2.0**-149
KINDS = {"ptr": ctypes.c_void_p, "i1": ctypes.c_bool, "i64": ctypes.c_int64}


@functools.lru_cache(maxsize=32)
def _function(panel: Pairs) -> Any:
    code = link([compile_object(module_of(panel), HERE)], (panel.name,), {})
    return code, ctypes.CFUNCTYPE(None, *[KINDS[type_] for type_, _ in panel.parameters])(code[panel.name])


def _run(panel: Pairs, a: Any, b: Any, start: Any = None, rows: Any = None) -> Any:
    """Multiply bits of bfloat16: A (m, k) with B (k, live), both of which end where memory does, as the panel reads them."""
    (m, k), live = a.shape, b.shape[1]
    result = np.full((m, panel.width), 77, F) if start is None else np.ascontiguousarray(start)
    packed = np.full(panel.scratch_bytes(k) + 64, 77, np.uint8)
    left = np.ascontiguousarray(np.pad(a, ((0, 0), (0, k % 2))).reshape(m, -(-k // 2), 2).swapaxes(0, 1)) if panel.paired else a
    first, second = Fenced(left), Fenced(np.ascontiguousarray(b.T) if panel.across else b)
    distance = rows.ctypes.data if panel.gathered else m if panel.paired else k
    between = k if panel.across else live
    operands = first.address, distance, second.address, between
    _function(panel)[1](*operands, result.ctypes.data, panel.width, m, k, start is not None, packed.ctypes.data, live)
    assert (packed[panel.scratch_bytes(k) :] == 77).all()
    return result


def _wide(x: Any) -> Any:
    return x.view(BF16).astype(np.float64)


def _fused(x: Any, y: Any, z: Any) -> Any:
    """Return x · y + z of float32, rounded once: the product is exact in float64, and their sum is rounded to odd there."""
    product, total = x.astype(np.float64) * y, z.astype(np.float64)
    whole = product + total
    part = whole - product
    error = (product - (whole - part)) + (total - part)
    bits = whole.view(np.int64)
    odd = np.where((error != 0) & (bits & 1 == 0), np.where((error > 0) == (whole > 0), 1, -1), 0)
    return (bits + odd).view(np.float64).astype(F)


def _chain(a: Any, b: Any) -> Any:
    """Return the sums of pairs in the order of the instruction: of each pair, the upper product first."""
    left, right = _wide(a), _wide(b)
    if left.shape[1] % 2:
        left, right = np.pad(left, ((0, 0), (0, 1))), np.pad(right, ((0, 1), (0, 0)))
    total = np.zeros((len(left), right.shape[1]), F)
    for step in range(0, left.shape[1], 2):
        for at in (step + 1, step):
            total = _fused(left[:, at : at + 1], right[at : at + 1], total)
    return total


def _normal(rng: Any, shape: tuple[int, ...]) -> Any:
    return rng.standard_normal(shape).astype(BF16).view(np.uint16)


def _spread(rng: Any, shape: tuple[int, ...], low: int, high: int, zeros: float = 0.1) -> Any:
    """Return bits of bfloat16 of exponents from `low` to `high`, as they are stored: 0 is that of denormal numbers."""
    bits = rng.integers(low, high + 1, shape) << 7 | rng.integers(0, 128, shape) | rng.integers(0, 2, shape) << 15
    return np.where(rng.random(shape) < zeros, 0, bits).astype(np.uint16)


@here
@pytest.mark.parametrize(
    ("vectors", "m", "k"), pairs([1, 2, 4], [0, 1, 2, 4, 5, 6, 7, 11, 12, 17], [0, 1, 2, 3, 4, 5, 31, 32, 33, 67, 514])
)
def test_sums_are_chains_of_fused_products(vectors: int, m: int, k: int) -> None:
    """To the bit, gathered rows too, added to what was there; nothing beyond an operand is read."""
    rng = np.random.default_rng(m * 100 + k)
    a, wide = _normal(rng, (m, k)), _normal(rng, (k, Pairs(vectors).width))
    sums = _chain(a, wide)  # a row and a column each: which rows, in which order, and how many columns makes no difference
    for gathered, across, paired, missing in itertools.product(*[(False, True)] * 3, (0, 1, 7)):
        if gathered and paired:
            continue
        panel = Pairs(vectors, gathered, across, paired)
        b = np.ascontiguousarray(wide[:, : panel.width - missing])
        order = rng.permutation(m).astype(np.int64)
        expected = np.zeros((m, panel.width), F)
        expected[:, : panel.width - missing] = (sums[order] if gathered else sums)[:, : panel.width - missing]
        np.testing.assert_array_equal(_run(panel, a, b, rows=order * k), expected)
        start = rng.standard_normal(expected.shape).astype(F)
        np.testing.assert_array_equal(_run(panel, a, b, start.copy(), order * k), start + expected)


def _check(a: Any, b: Any, found: Any) -> None:
    """Check the bound of the table of operations; below normal numbers each step may be off by half of the least number."""
    left, right = _wide(a), _wide(b)
    exact, most = left @ right, np.abs(left) @ np.abs(right)
    depth = a.shape[1]
    error = np.abs(found.astype(np.float64) - exact)
    inside = most < 2.0**127
    bound = (depth + 4) * EPSILON * most + depth * LEAST
    assert (error <= bound)[inside].all(), np.max((error / bound)[inside])


RANGES = {
    "denormal a": ((0, 1), (120, 254)),
    "denormal b": ((120, 254), (0, 1)),
    "both denormal": ((0, 4), (0, 4)),
    "some denormal": ((0, 140), (0, 140)),
    "denormal sums": ((40, 80), (40, 80)),
    "sums at the end": ((60, 72), (60, 72)),
    "all": ((0, 254), (0, 254)),
    "few": ((110, 130), (110, 130)),
}


@pytest.mark.one_in(4)
@here
@pytest.mark.parametrize("name", RANGES)
@pytest.mark.parametrize("k", [1, 2, 7, 64, 301])
def test_denormal_numbers_are_kept(name: str, k: int) -> None:
    rng = np.random.default_rng(k)
    left, right = RANGES[name]
    for vectors, m, across, paired in itertools.product((4, 1, 2), (3, 13), (False, True), (False, True)):
        panel = Pairs(vectors, across=across, paired=paired)
        a, b = _spread(rng, (m, k), *left), _spread(rng, (k, 16 * vectors), *right)
        for rows in (a, np.where(rng.random((m, 1)) < 0.5, a, _normal(rng, (m, k))).astype(np.uint16)):
            _check(rows, b, _run(panel, rows, b))
        mixed = np.where(rng.random((1, 16 * vectors)) < 0.5, b, _normal(rng, b.shape)).astype(np.uint16)
        _check(a, mixed, _run(panel, a, mixed))


@here
def test_the_instruction_alone_would_lose_them() -> None:
    """What the checks are for: 2^-130 · 2^100, and a sum of 2^-140 that is made of normal numbers."""
    for left, right in ((2.0**-130, 2.0**100), (2.0**100, 2.0**-130), (2.0**-70, 2.0**-70)):
        a, b = np.full((7, 2), left).astype(BF16), np.full((2, 64), right).astype(BF16)
        found = _run(Pairs(4), a.view(np.uint16), b.view(np.uint16))
        np.testing.assert_array_equal(found, np.full((7, 64), 2 * left * right, F))


@here
@pytest.mark.parametrize("seed", range(6))
def test_infinities_and_nan_come_out(seed: int) -> None:
    """Beside zeros and denormal numbers, which are no zeros where an infinity is multiplied with them."""
    rng = np.random.default_rng(seed)
    special = np.array([0, -0.0, np.inf, -np.inf, np.nan, 2.0**-130, -(2.0**-133), 1, -3, 2.0**60, 3e38], BF16)
    for k, share in itertools.product((1, 2, 9, 40), (0.02, 0.3)):
        a, b = (
            np.where(rng.random(shape) < share, rng.choice(special, shape), _normal(rng, shape).view(BF16)).astype(BF16)
            for shape in ((11, k), (k, 64))
        )
        with np.errstate(all="ignore"):
            terms = a.astype(np.float64)[:, :, None] * b.astype(np.float64)
            expected = terms.sum(1)
            certain = np.abs(terms, where=np.isfinite(terms), out=np.zeros_like(terms)).sum(1) < 2.0**127
        odd = ~np.isfinite(expected)
        for across, paired in itertools.product((False, True), (False, True)):
            found = _run(Pairs(4, across=across, paired=paired), a.view(np.uint16), b.view(np.uint16))
            np.testing.assert_array_equal(found[certain & odd], expected[certain & odd].astype(F))
            assert np.isfinite(found[certain & ~odd]).all()


@pytest.mark.one_in(3)
@here
@pytest.mark.parametrize("k", [0, 1, 2, 5])
@pytest.mark.parametrize("m", [0, 1, 31, 32, 33, 70])
def test_left_operands_are_put_in_pairs(m: int, k: int) -> None:
    """Nothing beyond the operand is read, and of the scratch nothing beyond whole groups of rows written."""
    function = LeftPairs()
    code = link([compile_object(module_of(function), HERE)], (function.name,), {})
    call = ctypes.CFUNCTYPE(None, *[KINDS[type_] for type_, _ in function.parameters])(code[function.name])
    a = np.random.default_rng(m + k).integers(0, 1 << 16, (k, m)).astype(np.uint16)
    room = -(-m // 32) * 32
    pairs = np.full((-(-k // 2) + 1, room + 16, 2), 7, np.uint16)
    operand = Fenced(a)
    call(operand.address, m, m, k, pairs.ctypes.data, room + 16)
    expected = np.pad(a, ((0, k % 2), (0, 0))).reshape(-(-k // 2), 2, m).swapaxes(1, 2)
    np.testing.assert_array_equal(pairs[:-1, :m], expected)
    assert (pairs[:, room:] == 7).all()
    assert (pairs[-1] == 7).all()


@here
@pytest.mark.parametrize("name", RANGES)
def test_a_row_does_not_depend_on_its_tile(name: str) -> None:
    rng = np.random.default_rng(5)
    a, b = (_spread(rng, shape, *limits, 0.3) for shape, limits in zip(((13, 70), (70, 64)), RANGES[name], strict=True))
    a[::3] = _normal(rng, a[::3].shape)
    whole = _run(Pairs(4), a, b)
    kinds = Pairs(4), Pairs(4, across=True), Pairs(4, paired=True)
    for (start, stop), panel in itertools.product(((0, 1), (3, 5), (2, 13), (7, 12)), kinds):
        part = _run(panel, a[start:stop], b)
        np.testing.assert_array_equal(part, whole[start:stop])


@here
def test_rows_and_columns_of_zeros_cost_no_second_sum() -> None:
    """Products with zeros are exact; denormal elements beside large ones are not looked for in vain either."""
    a, b = np.zeros((12, 64), np.uint16), np.zeros((64, 64), np.uint16)
    assert (_run(Pairs(4), a, b) == 0).all()
    a[3] = _normal(np.random.default_rng(0), (64,))
    assert (_run(Pairs(4), a, b) == 0).all()


# -- code --------------------------------------------------------------------------------------------------------------------


def _graph(m: Any, k: Any, n: Any) -> Any:
    graph = jn.Graph("g", [jn.TensorType(jn.bfloat16, (m, k), "x"), jn.TensorType(jn.bfloat16, (k, n), "w")])
    x, w = graph.inputs
    graph.output(x @ w)
    return graph


def _code(target: HostTarget, numerics: Any = "strict") -> str:
    llvm.initialize_all_targets()
    llvm.initialize_all_asmprinters()
    options = Options(numerics=numerics)
    backend = HostBackend(target)
    return compile_assembly(backend.lower(tile_graph(_graph(300, 700, 130), backend, options), options).llvm_ir, target)


def test_a_processor_with_the_instruction_has_it_in_its_code() -> None:
    assert "vdpbf16ps" in _code(COOPERLAKE)
    assert HostLimits.of(COOPERLAKE).pairs


@pytest.mark.one_in(3)
@pytest.mark.parametrize("name", OTHERS)
def test_code_for_others_has_none(name: str) -> None:
    """Compiled, as their code widens and multiplies floats."""
    text = _code(OTHERS[name])
    assert "vdpbf16ps" not in text
    assert "fmla" in text if name == "AArch64" else "vfmadd" in text
    assert not HostLimits.of(OTHERS[name]).pairs


def test_reproducible_products_are_chains() -> None:
    assert "vdpbf16ps" not in _code(COOPERLAKE, "reproducible")


def test_no_sum_of_the_tallest_tile_leaves_its_register() -> None:
    """Inside the loop over k, which is where there is a product after a label and before the jump back to it."""
    llvm.initialize_all_targets()
    llvm.initialize_all_asmprinters()
    text = compile_assembly(module_of(Pairs(4)), COOPERLAKE)
    start = text.index("\njn_pairs_4x16_6:")
    blocks = text[start : text.index(".size\tjn_pairs_4x16_6", start)].split("\n.L")
    loops = [block for block in blocks if block.count("vdpbf16ps") == 24 and f"\t.L{block.split(':')[0]}" in block]
    assert len(loops) == 1
    assert not [line for line in loops[0].splitlines() if "zmm" in line and "(%rsp)" in line]


# -- graphs ------------------------------------------------------------------------------------------------------------------

SIZES = [1, 2, 17, 63, 65, 130]


def _bounded(found: Any, left: Any, right: Any) -> None:
    left, right = left.astype(np.float64), right.astype(np.float64)
    exact = left @ right
    bound = (left.shape[-1] + 4) * EPSILON * (np.abs(left) @ np.abs(right))
    error = np.abs(found.astype(np.float64) - exact)
    if found.dtype == BF16:
        bound = bound + 2.0**-8 * (np.abs(exact) + bound)
    assert (error <= bound).all(), np.max(error / bound)


@pytest.mark.one_in(72)
@pytest.mark.parametrize(("m", "k", "n"), pairs(SIZES, [0, 1, 2, 65, 519, 2100], SIZES))
def test_products_of_every_kind_of_operand(m: int, k: int, n: int) -> None:
    """Read in place, transposed, computed, constant, of sizes that are known and not; on all processors."""
    rng = np.random.default_rng(m + k + n)
    a, b = (rng.standard_normal(shape).astype(BF16) for shape in ((m, k), (k, n)))
    for rows, depth in (((m, k), ("m", "k"))[(m + k + n) % 2],):
        graph = jn.Graph("g", [jn.TensorType(jn.bfloat16, shape, name) for shape, name in (
            ((rows, depth), "x"), ((depth, n), "w"), ((n, depth), "t"), ((depth, rows), "y"))])  # fmt: skip
        x, w, t, y = graph.inputs
        outputs = [x @ w, x @ t.transpose(), y.transpose() @ w, (-x) @ w, x @ (w + w), x.cast(jn.float32).cast(jn.bfloat16) @ w]
        operands = [(a, b), (a, b), (a, b), (-a, b), (a, b + b), (a, b)]
        if depth == k:
            outputs += [x @ graph.constant(b), x @ graph.constant(np.ascontiguousarray(b.T)).transpose()]
            operands += [(a, b), (a, b)]
        graph.output(*outputs)
        found = jn.compile(graph, "cpu", cache=False)(a, b, np.ascontiguousarray(b.T), np.ascontiguousarray(a.T))
        for one, (left, right) in zip(found, operands, strict=True):
            _bounded(one, left, right)


@pytest.mark.one_in(2)
@pytest.mark.parametrize("name", ["strict", "fast", "reproducible"])
def test_batches_and_epilogues(name: Any) -> None:
    rng = np.random.default_rng(1)
    a, b, c = (rng.standard_normal(shape).astype(BF16) for shape in ((3, 2, 70, 90), (3, 2, 90, 33), (33,)))
    graph = jn.Graph("g", [jn.TensorType(jn.bfloat16, x.shape, n) for n, x in zip("abc", (a, b, c), strict=True)])
    x, y, z = graph.inputs
    graph.output(x @ y, jn.relu(x @ y + z))
    plain, finished = jn.compile(graph, "cpu", numerics=name, cache=False)(a, b, c)
    _bounded(plain, a, b)
    np.testing.assert_array_equal(finished, np.maximum((plain + c).astype(BF16), BF16(0)))


def test_products_of_masked_blocks_have_the_infinities_beside() -> None:
    """A text whose left operand ends before the right one does: zeros times infinities, which no product may leave out."""
    text = """
tt.func public @k(%a: !tt.ptr<bf16>, %b: !tt.ptr<bf16>, %c: !tt.ptr<f32>, %n: i32) {
  %r = tt.make_range {start = 0 : i32, end = 32 : i32} : tensor<32xi32>
  %w = arith.constant dense<32> : tensor<32x1xi32>
  %rows = tt.expand_dims %r {axis = 1 : i32} : tensor<32xi32> -> tensor<32x1xi32>
  %columns = tt.expand_dims %r {axis = 0 : i32} : tensor<32xi32> -> tensor<1x32xi32>
  %start = arith.muli %rows, %w : tensor<32x1xi32>
  %0 = tt.broadcast %start : tensor<32x1xi32> -> tensor<32x32xi32>
  %1 = tt.broadcast %columns : tensor<1x32xi32> -> tensor<32x32xi32>
  %at = arith.addi %0, %1 : tensor<32x32xi32>
  %end = tt.splat %n : i32 -> tensor<32x32xi32>
  %mask = arith.cmpi slt, %1, %end : tensor<32x32xi32>
  %zero = arith.constant dense<0.0> : tensor<32x32xbf16>
  %pa = tt.splat %a : !tt.ptr<bf16> -> tensor<32x32x!tt.ptr<bf16>>
  %pb = tt.splat %b : !tt.ptr<bf16> -> tensor<32x32x!tt.ptr<bf16>>
  %pc = tt.splat %c : !tt.ptr<f32> -> tensor<32x32x!tt.ptr<f32>>
  %aa = tt.addptr %pa, %at : tensor<32x32x!tt.ptr<bf16>>, tensor<32x32xi32>
  %ab = tt.addptr %pb, %at : tensor<32x32x!tt.ptr<bf16>>, tensor<32x32xi32>
  %ac = tt.addptr %pc, %at : tensor<32x32x!tt.ptr<f32>>, tensor<32x32xi32>
  %x = tt.load %aa, %mask, %zero : tensor<32x32x!tt.ptr<bf16>>
  %y = tt.load %ab : tensor<32x32x!tt.ptr<bf16>>
  %none = arith.constant dense<0.0> : tensor<32x32xf32>
  %p = tt.dot %x, %y, %none : tensor<32x32xbf16> * tensor<32x32xbf16> -> tensor<32x32xf32>
  tt.store %ac, %p : tensor<32x32x!tt.ptr<f32>>
  tt.return
}"""
    rng = np.random.default_rng(2)
    a, b = (rng.standard_normal((32, 32)).astype(BF16) for _ in range(2))
    b[20, 5] = np.inf
    for n in (32, 17, 0):
        c = np.full((32, 32), 7, F)
        jn.kernel.from_ttir(text, cache=False).launch(1, a, b, c, n)
        with np.errstate(invalid="ignore"):
            expected = np.where(np.arange(32) < n, a, BF16(0)).astype(np.float64) @ b.astype(np.float64)
        assert np.isnan(c[:, 5]).all() if n < 21 else not np.isfinite(c[:, 5]).any()
        np.testing.assert_allclose(np.delete(c, 5, 1), np.delete(expected, 5, 1), rtol=1e-5, atol=1e-5)


def test_other_features_are_another_key() -> None:
    assert replace(COOPERLAKE, features=COOPERLAKE.features - {"avx512bf16"}).key != COOPERLAKE.key

"""The cost model of GPUs: what it picks for shapes that matter, and that it always picks something legal that fits."""

from __future__ import annotations

from math import prod
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from joinery.graph.dims.dim import dim
from joinery.lowering.llvm.nvptx.targets import WARP_SIZE
from joinery.lowering.tile.cost_models.gpu import LONGEST_WHOLE_ROW, PER_THREAD, SUMS, GpuLimits
from joinery.lowering.tile.schedule import check_schedule
from joinery.promotion.dtype import DType

SMALL = GpuLimits(shared_bytes=99 << 10, processors=84)
ONE = np.zeros(1, np.float32)
EXTENTS = st.sampled_from([0, 1, 2, 3, 17, 64, 100, 384, 1000, 1025, 4096, 5000, 20000, 100000, dim("n")])
QUICK = settings(max_examples=60, suppress_health_check=list(HealthCheck))


def unary(body: Any, *shape: Any, dtype: str = "float32") -> Any:
    names = "ijk"[: len(shape)]
    b = body(**dict(zip(names, shape, strict=True)))
    b.store(b.op("exp", b.load(ONE, list(names), shape=shape, dtype=DType(dtype))), list(names))
    return b.nest()


def summed(body: Any, shape: tuple[Any, ...], axis: int, dtype: str = "float32") -> Any:
    names = "ijk"[: len(shape)]
    b = body(**dict(zip(names, shape, strict=True)))
    x = b.load(ONE, list(names), shape=shape, dtype=DType(dtype))
    b.store(b.reduce("sum", x, names[axis]), [name for name in names if name != names[axis]])
    return b.nest()


def product(body: Any, m: Any, n: Any, k: Any, dtype: str = "float16", precision: str = "ieee") -> Any:
    b = body(m=m, n=n, k=k)
    sizes = {"m": m, "n": n, "k": k}
    loads = [b.load(ONE, list(d), shape=[sizes[c] for c in d], dtype=DType(dtype)) for d in ("mk", "kn")]
    b.store(b.contract(*loads, "k", DType(dtype), precision), ["m", "n"])
    return b.nest()


@pytest.mark.parametrize(
    ("shape", "blocks", "warps"),
    [
        ((1 << 24,), ((0, 1024),), 4),
        (("n",), ((0, 1024),), 4),
        ((1000,), ((0, 256),), 1),  # few elements: more programs instead of more per thread
        ((3,), ((0, 4),), 1),
        ((4096, 12), ((0, 32), (1, 16)), 2),
        ((100000, 12), ((0, 64), (1, 16)), 4),
        ((0,), (), 1),
        ((), (), 1),
    ],
)
def test_elementwise_programs_have_a_few_elements_per_thread(
    body: Any, shape: Any, blocks: Any, warps: int
) -> None:
    shape = tuple(dim(extent) if isinstance(extent, str) else extent for extent in shape)
    chosen = GpuLimits().schedule(unary(body, *shape))
    assert (chosen.blocks, chosen.warps) == (blocks, warps)


def test_transpositions_are_square(body: Any) -> None:
    b = body(i=1000, j=1000)
    b.store(b.load(ONE, ["j", "i"], shape=(1000, 1000)), ["i", "j"])
    chosen = GpuLimits().schedule(b.nest())
    assert (chosen.blocks, chosen.warps) == (((0, 64), (1, 64)), 8)


@pytest.mark.parametrize(
    ("shape", "axis", "blocks", "warps"),
    [
        ((512, 1000), 1, ((1, 1024),), 4),
        ((512, 4096), 1, ((1, 4096),), 16),
        ((512, 16384), 1, ((1, 16384),), 16),
        ((512, 16385), 1, ((1, 2048),), 8),  # chunks
        ((64, 1 << 20), 1, ((1, 8192),), 16),  # larger ones, where processors have less than four rows each
        ((512, dim("n")), 1, ((1, 2048),), 8),
        ((10000, 100), 1, ((0, 8), (1, 128)), 4),
        ((200, 100), 1, ((1, 128),), 1),  # one row each, so that every processor has a program
        ((4096, 4096), 0, ((0, 256), (1, 32)), 16),
        ((4096, 1 << 16), 0, ((0, 8), (1, 128)), 4),
        ((4096, 1 << 15), 0, ((0, 64), (1, 128)), 16),
        ((4, 1 << 16), 0, ((0, 4), (1, 128)), 2),
    ],
)
def test_rows_and_columns(body: Any, shape: Any, axis: int, blocks: Any, warps: int) -> None:
    chosen = GpuLimits().schedule(summed(body, shape, axis))
    assert (chosen.blocks, chosen.warps) == (blocks, warps)


def test_rows_that_shared_memory_could_not_exchange_are_cut(body: Any) -> None:
    nest = summed(body, (512, 16384), 1, "float64")
    assert GpuLimits(shared_bytes=256 << 10).schedule(nest).blocks == ((1, 16384),)
    assert SMALL.schedule(nest).blocks == ((1, 2048),)


@pytest.mark.parametrize(
    ("sizes", "dtype", "precision", "blocks", "warps"),
    [
        ((4096, 4096, 4096), "float16", "ieee", (128, 128, 64), 8),
        ((4096, 4096, 4096), "float32", "ieee", (128, 128, 16), 8),
        ((4096, 4096, 4096), "float32", "tf32", (128, 64, 32), 4),
        ((4096, 4096, 4096), "tensor_float32", "ieee", (128, 64, 32), 4),
        ((4096, 4096, 4096), "float64", "ieee", (64, 64, 16), 4),
        ((4096, 4096, 4096), "int64", "ieee", (32, 32, 16), 4),
        ((dim("n"), 384, 384), "bfloat16", "ieee", (128, 128, 64), 8),
        ((512, 512, 4096), "float16", "ieee", (32, 64, 64), 4),  # fewer, smaller blocks: as many programs as processors
        ((1, 4096, 4096), "float16", "ieee", (16, 32, 64), 2),  # the least the matrix instructions take
        ((3, 5, 7), "float16", "ieee", (16, 16, 16), 1),
        ((3, 5, 7), "float32", "ieee", (4, 8, 8), 1),
    ],
)
def test_products(body: Any, sizes: Any, dtype: str, precision: str, blocks: Any, warps: int) -> None:
    chosen = GpuLimits().schedule(product(body, *sizes, dtype=dtype, precision=precision))
    assert (tuple(dict(chosen.blocks).values()), chosen.warps) == (blocks, warps)


HOPPER = GpuLimits(227 << 10, 132, use_descriptors=True, warpgroups=True)


@pytest.mark.parametrize(
    ("sizes", "dtype", "blocks", "warps"),
    [
        ((4096, 4096, 4096), "bfloat16", (128, 256, 64), 8),
        ((8192, 2048, 512), "float16", (128, 256, 64), 8),
        ((2048, 2048, 4096), "float16", (128, 128, 64), 8),  # not enough blocks of the larger kind
        ((8192, 2176, 512), "float16", (128, 128, 64), 8),  # a quarter block more would be computed for nothing
        ((dim("n"), 4096, 4096), "float16", (128, 128, 64), 8),
        ((4096, 4096, 4096), "float32", (128, 128, 16), 8),
    ],
)
def test_products_of_warpgroups(body: Any, sizes: Any, dtype: str, blocks: Any, warps: int) -> None:
    chosen = HOPPER.schedule(product(body, *sizes, dtype=dtype))
    assert (tuple(dict(chosen.blocks).values()), chosen.warps) == (blocks, warps)


@pytest.mark.parametrize(
    ("batch", "rows", "dtype", "limits", "blocks", "warps"),
    [
        (16, 2048, "float16", HOPPER, (128, 64), 8),
        (16, 2048, "float16", GpuLimits(), (64, 64), 4),
        (16, 2048, "float32", HOPPER, (32, 32), 4),
        (8, 2048, "float16", HOPPER, (64, 64), 4),  # not enough blocks of the larger kind
        (200, 320, "float16", HOPPER, (64, 64), 4),  # half a block more would be computed for nothing
    ],
)
def test_attention(
    body: Any, batch: int, rows: int, dtype: str, limits: GpuLimits, blocks: tuple[int, int], warps: int
) -> None:
    b = body(b=batch, m=rows, keys=rows, n=128, k=128)
    dims = (["b", "m", "k"], ["b", "keys", "k"], ["b", "keys", "n"])
    q, k, v = (b.load(ONE, each, shape=(batch, rows, 128), dtype=DType(dtype)) for each in dims)
    scores = b.contract(q, k, "k", DType("float32"))
    powers = b.op("exp", b.op("sub", scores, b.reduce("max", scores, "keys")))
    weights = b.op("cast", b.op("div", powers, b.reduce("sum", powers, "keys")), dtype=DType(dtype))
    b.store(b.contract(weights, v, "keys", DType("float32")), ["b", "m", "n"])
    chosen = limits.schedule(b.nest())
    assert (tuple(size for _, size in chosen.blocks), chosen.warps) == (blocks, warps)


@pytest.mark.parametrize(("after", "columns"), [([], 256), (["neg", "abs"], 256), (["erf"], 128), (["exp", "tanh"], 128)])
def test_wide_blocks_where_little_follows(body: Any, after: list[str], columns: int) -> None:
    b = body(m=4096, n=4096, k=4096)
    loads = [b.load(ONE, list(d), shape=[4096, 4096], dtype=DType("float16")) for d in ("mk", "kn")]
    value = b.contract(*loads, "k", DType("float32"), "ieee")
    for name in after:
        value = b.op(name, value)
    b.store(value, ["m", "n"])
    assert dict(HOPPER.schedule(b.nest()).blocks)[1] == columns


def is_legal(nest: Any, limits: GpuLimits) -> None:
    chosen = limits.schedule(nest)
    check_schedule(nest, chosen)
    assert chosen.warps & (chosen.warps - 1) == 0


@QUICK
@given(shape=st.tuples(EXTENTS, EXTENTS), axis=st.integers(0, 1), dtype=st.sampled_from(["int8", "float32", "float64"]))
def test_whatever_the_extents_rows_fit(body: Any, shape: Any, axis: int, dtype: str) -> None:
    for limits in (GpuLimits(), SMALL):
        for nest in (unary(body, *shape, dtype=dtype), summed(body, shape, axis, dtype)):
            is_legal(nest, limits)
            chosen = limits.schedule(nest)
            elements = prod(size for _, size in chosen.blocks)
            assert elements <= LONGEST_WHOLE_ROW
            assert elements * DType(dtype).itemsize <= limits.shared_bytes
            assert elements <= max(4 * PER_THREAD, 1) * chosen.warps * WARP_SIZE


@QUICK
@given(sizes=st.tuples(EXTENTS, EXTENTS, EXTENTS), dtype=st.sampled_from(["float16", "float32", "int8", "int64"]))
def test_whatever_the_extents_products_fit(body: Any, sizes: Any, dtype: str) -> None:
    nest = product(body, *sizes, dtype=dtype)
    for limits in (GpuLimits(), SMALL, HOPPER):
        is_legal(nest, limits)
        chosen = limits.schedule(nest)
        blocks = dict(chosen.blocks)
        assert blocks[0] * blocks[1] <= (2 if blocks[1] == 256 else 1) * SUMS * WARP_SIZE * chosen.warps


@pytest.mark.parametrize("shape", [(1,), (1025,), (3, 1000), (70, 33)])
def test_the_schedule_changes_no_result(body: Any, shape: tuple[int, ...]) -> None:
    names = "ij"[: len(shape)]
    b = body(**dict(zip(names, shape, strict=True)))
    x = np.random.default_rng(0).standard_normal(shape)
    value = b.load(x, list(names))
    b.store(b.op("add", value, b.reduce("max", value, names[-1])), list(names))
    b.store(b.reduce("sum", value, names[0]), list(names[1:]))
    rows, sums = b.run(None, GpuLimits())
    np.testing.assert_array_equal(rows, x + x.max(-1, keepdims=True))
    np.testing.assert_allclose(sums, x.sum(0), rtol=1e-12)

"""Schedules: legality, the default's choices, and that no legal schedule changes a result."""

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from joinery.graph.dims.dim import dim
from joinery.lowering.nest import Affine, Axis, Buffer, Nest, Store, Value
from joinery.lowering.tile.cost_models.host import HostLimits
from joinery.lowering.tile.schedule import Schedule, check_schedule
from joinery.promotion.dtype import float32, float64
from joinery.promotion.errors import UserError

from ...support.tiers import examples

QUICK = settings(
    max_examples=examples(25),
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)


def power_of_two(limit):
    return st.integers(0, limit).map(lambda n: 1 << n)


@st.composite
def row_schedules(draw, axes):
    """Blocks for some of the axes, in any order; the last axis (reduced or scanned) always has one."""
    chosen = [axis for axis in range(axes - 1) if draw(st.booleans())] + [axes - 1]
    order = draw(st.permutations(chosen))
    return Schedule(
        tuple((axis, draw(power_of_two(6 if axis == axes - 1 else 3))) for axis in order),
        streaming=draw(st.booleans()),
    )


@QUICK
@given(schedule=row_schedules(3), n=st.integers(1, 70), seed=st.integers(0, 5))
def test_any_schedule_normalises_rows(body, schedule, n, seed):
    x = np.random.default_rng(seed).standard_normal((3, 5, n))
    b = body(i=3, j=5, k=n)
    value = b.load(x, ["i", "j", "k"])
    centred = b.op("sub", value, b.reduce("max", value, "k"))
    powers = b.op("exp", centred)
    b.store(b.op("div", powers, b.reduce("sum", powers, "k")), ["i", "j", "k"])
    b.store(b.reduce("argmax", value, "k"), ["j", "i"])
    rows, where = b.run(schedule)
    expected = np.exp(x - x.max(-1, keepdims=True))
    np.testing.assert_allclose(rows, expected / expected.sum(-1, keepdims=True), rtol=1e-12)
    np.testing.assert_array_equal(where, x.argmax(-1).T)


@QUICK
@given(schedule=row_schedules(2), n=st.integers(1, 70), flags=st.tuples(st.booleans(), st.booleans()))
def test_any_schedule_sums_up(body, schedule, n, flags):
    exclusive, reverse = flags
    x = np.random.default_rng(n).integers(-9, 9, (n, 6))
    b = body(i=6, j=n)
    b.store(b.scan(b.load(x, ["j", "i"]), "j", exclusive, reverse), ["i", "j"])
    total = np.cumsum(x[::-1] if reverse else x, 0)
    total = total - (x[::-1] if reverse else x) if exclusive else total
    np.testing.assert_array_equal(b.run(schedule)[0], (total[::-1] if reverse else total).T)


@QUICK
@given(st.data(), st.tuples(*[st.integers(1, 12)] * 3))
def test_any_schedule_maps(body, data, shape):
    x, y = np.arange(np.prod(shape)).reshape(shape), np.arange(shape[1]) * 1000
    order = data.draw(st.permutations([axis for axis in range(3) if data.draw(st.booleans())]))
    schedule = Schedule(tuple((axis, data.draw(power_of_two(5))) for axis in order))
    b = body(i=shape[0], j=shape[1], k=shape[2])
    b.store(b.op("add", b.load(x, ["i", "j", "k"]), b.load(y, ["j"])), ["k", "i", "j"])
    np.testing.assert_array_equal(b.run(schedule)[0], (x + y[:, None]).transpose(2, 0, 1))


@QUICK
@given(st.data(), st.tuples(*[st.integers(1, 20)] * 3))
def test_any_schedule_multiplies(body, data, shape):
    m, n, k = shape
    rng = np.random.default_rng(m)
    x, y = rng.integers(-9, 9, (m, k)).astype(np.int32), rng.integers(-9, 9, (n, k)).astype(np.int32)
    blocks = [(axis, data.draw(power_of_two(6))) for axis in range(3) if data.draw(st.booleans())]
    b = body(m=m, n=n, k=k)
    b.store(b.contract(b.load(x, "mk"), b.load(y, "nk"), "k", b.values[0].dtype), ["n", "m"])
    np.testing.assert_array_equal(b.run(Schedule(tuple(blocks)))[0], (x @ y.T).T)


@pytest.mark.slow
@QUICK
@given(st.data(), st.integers(1, 40), st.integers(1, 40))
def test_any_schedule_attends(body, data, rows, keys):
    rng = np.random.default_rng(rows)
    q, k, v = (
        rng.standard_normal((2, rows, 6)),
        rng.standard_normal((2, keys, 6)),
        rng.standard_normal((2, keys, 3)),
    )
    schedule = Schedule(((1, data.draw(power_of_two(5))), (2, data.draw(power_of_two(6)))))
    b = body(b=2, m=rows, keys=keys, n=3, k=6)
    scores = b.contract(b.load(q, ["b", "m", "k"]), b.load(k, ["b", "keys", "k"]), "k", float64)
    powers = b.op("exp", b.op("sub", scores, b.reduce("max", scores, "keys")))
    weights = b.op("div", powers, b.reduce("sum", powers, "keys"))
    b.store(b.contract(weights, b.load(v, ["b", "keys", "n"]), "keys", float64), ["b", "m", "n"])
    expected = np.exp(q @ k.transpose(0, 2, 1))
    np.testing.assert_allclose(b.run(schedule)[0], expected / expected.sum(-1, keepdims=True) @ v, rtol=1e-10)


def unary_nest(*extents):
    """-x over a contiguous array of those extents."""
    axes = tuple(Axis(f"i{n}", extent) for n, extent in enumerate(extents))
    terms, step = [], 1
    for axis in reversed(range(len(extents))):
        terms.append((axis, step))
        step = step * extents[axis]
    at = Affine(0, tuple(sorted(terms)))
    attrs = {
        "buffer": Buffer("input", 0, float32, extents, 0),
        "at": at,
        "strides": (),
        "guarded": False,
        "fill": 0,
    }
    everywhere = tuple(range(len(extents)))
    values = (Value("load", float32, everywhere, (), attrs), Value("negate", float32, everywhere, (0,)))
    return Nest(axes, values, (Store(1, Buffer("output", 0, float32, extents, 1), at),), "map")


def test_illegal_schedules_are_refused(body):
    nest = unary_nest(8, 8)
    for schedule, message in [
        (Schedule(((0, 3),)), "power of two, such as 4"),
        (Schedule(((0, 0),)), "power of two"),
        (Schedule(((2, 4),)), "2 axes"),
        (Schedule(((0, 4), (0, 4))), "each axis once"),
        (Schedule(((0, 1024), (1, 2048))), "exceed 2\\*\\*20"),
        (Schedule((), packed_b=4), "without a product"),
    ]:
        with pytest.raises(UserError, match=message):
            check_schedule(nest, schedule)
    check_schedule(nest, Schedule(((1, 1 << 20),)))
    b = body(j=8)
    b.store(b.scan(b.load(np.zeros(8), ["j"]), "j"), ["j"])
    with pytest.raises(UserError, match="scanned axis j has no block"):
        check_schedule(b.nest(), Schedule())
    b = body(m=8, n=8, k=8)
    b.store(
        b.contract(b.load(np.zeros((8, 8)), "mk"), b.load(np.zeros((8, 8)), "kn"), "k", float64), ["m", "n"]
    )
    with pytest.raises(UserError, match="in a product"):
        check_schedule(b.nest(), Schedule(((0, 2048), (2, 1024))))


def test_default_blocks_of_maps():
    assert HostLimits().schedule(unary_nest(10**6)).blocks == ((0, 4096),)
    assert HostLimits().schedule(unary_nest(700)).blocks == ((0, 1024),)
    assert HostLimits().schedule(unary_nest(dim("n"))).blocks == ((0, 1024),)
    assert HostLimits().schedule(unary_nest(1000, 3)).blocks == ((0, 256), (1, 4))


def test_stores_bypass_the_caches_when_traffic_exceeds_them():
    assert not HostLimits().schedule(unary_nest(1 << 20)).streaming
    assert HostLimits().schedule(unary_nest(1 << 23)).streaming
    assert HostLimits(l3_bytes=1 << 20).schedule(unary_nest(1 << 20)).streaming
    assert not HostLimits().schedule(unary_nest(dim("n"))).streaming


@pytest.mark.parametrize(
    ("shape", "axis", "blocks"),
    [
        ((100, 384), 1, ((0, 2), (1, 512))),
        ((100, 8), 1, ((0, 128), (1, 8))),
        ((100, 5000), 1, ((1, 8192),)),
        ((100, 50000), 1, ((1, 2048),)),
        ((4096, 4096), 0, ((0, 8), (1, 1024))),
        ((4, 4096), 0, ((0, 4), (1, 1024))),
        ((10_000, 1000), 0, ((0, 8), (1, 512))),  # as much for each of two threads
        ((2000, 1500), 0, ((0, 8), (1, 256))),
    ],
)
def test_default_blocks_of_rows_and_columns(body, shape, axis, blocks):
    b = body(i=shape[0], j=shape[1])
    x = b.load(np.broadcast_to(np.float32(0), (1,)), ["i", "j"], shape=shape)
    b.store(b.reduce("sum", x, "ij"[axis]), ["ji"[axis]])
    assert HostLimits().schedule(b.nest()).blocks == blocks


@pytest.mark.parametrize(
    ("kind", "shape", "blocks", "lanes"),
    [
        ("sum", (512, 256, 256), ((2, 256),), False),  # from memory, in the order of memory
        ("sum", (512, 1024, 32), ((1, 8), (2, 32)), False),  # a chain of few sums would wait for itself
        ("sum", (64, 64, 256), ((1, 8), (2, 256)), False),  # from a cache, where the order is all the same
        ("sum", (64, 256, 2048), ((1, 8), (2, 1024)), False),  # pieces of rows
        ("argmax", (16, 256, 1000), ((2, 1024),), False),
        ("argmax", (16, 256, 100), ((1, 8), (2, 128)), True),
        ("argmax", (64, 1024, 4096), ((1, 8), (2, 1024)), False),
        ("argmax", (8, 21, 1 << 18), ((2, 2048),), False),  # channels of images
        ("argmax", (64, 4, 4096), ((2, 1024),), False),
    ],
)
def test_rows_follow_each_other_where_memory_streams(body, kind, shape, blocks, lanes):
    b = body(h=shape[0], i=shape[1], j=shape[2])
    x = b.load(np.broadcast_to(np.float32(0), (1,)), ["h", "i", "j"], shape=shape)
    b.store(b.reduce(kind, x, "i"), ["h", "j"])
    found = HostLimits().schedule(b.nest())
    assert (found.blocks, found.lanes) == (blocks, lanes)


def test_variances_of_columns_have_wide_blocks(body):
    b = body(i=2048, j=2048)
    x = b.load(np.broadcast_to(np.float32(0), (1,)), ["i", "j"], shape=(2048, 2048))
    mean = b.reduce("sum", x, "i")
    b.store(b.reduce("sum", b.add("sub", b.values[x].dtype, b.values[x].axes, (x, mean)), "i"), ["j"])
    assert HostLimits().schedule(b.nest()).blocks == ((0, 8), (1, 1024))


@pytest.mark.parametrize(("shape", "blocks"), [((4000, 100), ((0, 8), (1, 128))), ((1000, 16), ((0, 64), (1, 16)))])
def test_positions_along_rows_are_found_in_blocks_of_whole_rows(body, shape, blocks):
    """They are no columns: their blocks stay as they lie in memory, or the code takes five times as long."""
    b = body(i=shape[0], j=shape[1])
    x = b.load(np.broadcast_to(np.float32(0), (1,)), ["i", "j"], shape=shape)
    b.store(b.reduce("argmax", x, "j"), ["i"])
    found = HostLimits().schedule(b.nest())
    assert (found.blocks, found.lanes) == (blocks, False)


@pytest.mark.parametrize(
    ("shape", "blocks"),
    [((1 << 18, 64), ((0, 1), (1, 64))), ((1 << 19, 20), ((0, 32), (1, 32))), ((1 << 12, 64), ((0, 32), (1, 32))),
     ((1 << 12, 5000), ((0, 32), (1, 1024)))],
)  # fmt: skip
def test_one_thread_scans_all_columns_where_memory_streams(body, shape, blocks):
    b = body(i=shape[0], j=shape[1])
    x = b.load(np.broadcast_to(np.float32(0), (1,)), ["i", "j"], shape=shape)
    b.store(b.scan(x, "i"), ["i", "j"])
    assert HostLimits().schedule(b.nest()).blocks == blocks


@pytest.mark.parametrize(
    ("m", "n", "rows", "columns", "steps"),
    [(1000, 30, 128, 32, 512), (512, 30, 64, 32, 512), (1000, 500, 256, 256, 128), (1000, 300, 256, 64, 512),
     (256, 256, 128, 64, 512), (20, 256, 32, 64, 512), ("r", 4096, 256, 256, 128), ("r", 768, 256, 128, 256),
     ("r", 256, 64, 64, 512)],
)  # fmt: skip
def test_default_blocks_of_products(body, m, n, rows, columns, steps):
    """As many rows as leave every one of two threads four programs; long pieces of a matrix beyond the second-level cache."""
    m = dim(m) if isinstance(m, str) else m
    b = body(m=m, n=n, k=768)
    shapes = {"m": m, "n": n, "k": 768}
    one = np.zeros(1, np.float32)
    loads = [b.load(one, dims, shape=[shapes[d] for d in dims]) for dims in ("mk", "kn")]
    b.store(b.contract(*loads, "k", float32), ["m", "n"])
    assert dict(HostLimits().schedule(b.nest()).blocks) == {0: rows, 1: columns, 2: steps}


@pytest.mark.parametrize(("m", "n", "k", "threads", "blocks_of_rows"), [
    (4096, 64, 32, 2, 8), (4096, 64, 32, 4, 4), (256, 384, 64, 2, 1), (196, 384, 64, 2, 16), (4096, 4096, 64, 2, 32),
    (4096, 4096, 1024, 2, 1), (1024, 512, 16, 2, 8), (1024, 512, 128, 2, 8), ("r", 64, 32, 2, 64),
])  # fmt: skip
def test_threads_have_rows_of_their_own_where_the_matrix_is_small(body, m, n, k, threads, blocks_of_rows):
    """Half of the blocks of rows for two threads, and less where more of them do not stay in a cache; as many as stay there
    where the matrix is large, rows are few, or known at launch only."""
    m = dim(m) if isinstance(m, str) else m
    b = body(m=m, n=n, k=k)
    shapes = {"m": m, "n": n, "k": k}
    loads = [b.load(np.zeros(1, np.float32), dims, shape=[shapes[d] for d in dims]) for dims in ("mk", "kn")]
    b.store(b.contract(*loads, "k", float32), ["m", "n"])
    assert HostLimits(threads=threads).schedule(b.nest()).group == blocks_of_rows


FEW_ROWS = [
    (1, 4096, 768, 2048, 256), (1, 1000, 768, 512, 256), (1, 100, 768, 128, 256), (1, 50_000, 768, 2048, 256),
    (1, 768, 20_000, 256, 256),
    (1, 30, 768, 32, 256),
    (8, 4096, 4096, 2048, 32), (8, 3072, 768, 512, 64), (16, 1536, 1536, 256, 128), (32, 4096, 4096, 2048, 32),
    (64, 4096, 4096, 2048, 64),
    (128, 4096, 4096, 1024, 64), (129, 4096, 4096, 256, 128), (8, 128, 768, 64, 512),
]  # fmt: skip
"""Rows, columns, steps of k; columns and steps of a block. The last operand stays in the second-level cache."""


@pytest.mark.parametrize(("m", "n", "k", "columns", "steps"), FEW_ROWS)
def test_few_rows_take_long_pieces_of_a_matrix(body, m, n, k, columns, steps):
    b = body(m=m, n=n, k=k)
    shapes = {"m": m, "n": n, "k": k}
    loads = [b.load(np.zeros(1, np.float32), dims, shape=[shapes[d] for d in dims]) for dims in ("mk", "kn")]
    b.store(b.contract(*loads, "k", float32), ["m", "n"])
    blocks = dict(HostLimits().schedule(b.nest()).blocks)
    assert (blocks[1], blocks[2]) == (columns, steps)


@pytest.mark.parametrize(("m", "k", "rows", "steps"), [
    (4096, 4096, 64, 4096), (4096, 16384, 16, 16384), (4096, 768, 256, 1024), (4096, 20_000, 16, 32768), (4096, 100, 256, 128),
    (40, 4096, 64, 4096), (16, 4096, 16, 512), (4096, 70_000, 256, 512), (300, 2000, 32, 2048),
])  # fmt: skip
def test_rows_of_a_matrix_times_a_vector_are_read_whole(body, m, k, rows, steps):
    b = body(m=m, k=k)
    loads = [b.load(np.zeros(1, np.float32), dims, shape=[{"m": m, "k": k}[d] for d in dims]) for dims in ("mk", "k")]
    b.store(b.contract(*loads, "k", float32), ["m"])
    assert dict(HostLimits().schedule(b.nest()).blocks) == {0: rows, 1: steps}


@pytest.mark.parametrize(
    ("factors", "channels", "blocks"),
    [
        (49, 192, ((0, 4), (1, 256))), (49, 64, ((0, 16), (1, 64))), (49, 960, ((0, 4), (1, 256))),
        (9, 192, ((0, 4), (1, 256))), (9, 960, ((0, 1), (1, 1024))), (3, 960, ((0, 1), (1, 1024))),
    ],
)  # fmt: skip
def test_factors_of_all_positions_stay_in_a_cache(body, factors, channels, blocks):
    """49 taps of 256 channels are 49 KiB, which is less than twice 32; up to four factors do not count."""
    b = body(i=100, j=channels)
    total = b.load(np.zeros(1, np.float32), ["i", "j"], shape=(100, channels))
    for _ in range(factors):
        factor = b.load(np.zeros(1, np.float32), ["j"], shape=(channels,))
        total = b.op("mul", total, factor)
    b.store(total, ["i", "j"])
    found = HostLimits().schedule(b.nest()).blocks
    assert found == blocks or (blocks[0] == (0, 1) and found == blocks[1:])

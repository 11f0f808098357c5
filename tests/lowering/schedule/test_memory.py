"""The memory plan: what lives at the same time never overlaps, at any size of the runtime dims, and little is wasted."""

import random

import pytest
from joinery.graph.dims.dim import Dim, evaluate_dim
from joinery.lowering.nest import Buffer
from joinery.lowering.schedule.memory import Lifetime, plan_memory
from joinery.promotion.dtype import DType

F32, I8 = DType("float32"), DType("int8")
BATCH, SEQ = Dim("batch"), Dim("seq")


def lifetimes(*entries, dtype=F32):
    return [
        Lifetime(Buffer("temporary", index, dtype, shape, index), first, last)
        for index, (shape, first, last) in enumerate(entries)
    ]


def assert_disjoint(entries, plan, dims):
    spans = []
    for entry in entries:
        start = evaluate_dim(plan.offsets[entry.buffer.index], dims)
        size = entry.buffer.dtype.itemsize
        for extent in entry.buffer.shape:
            size *= evaluate_dim(extent, dims)
        assert start % 64 == 0
        assert start + size <= evaluate_dim(plan.size, dims)
        spans.append((start, start + size))
    for i, a in enumerate(entries):
        for j, b in enumerate(entries[:i]):
            if a.first <= b.last and b.first <= a.last:
                assert spans[i][1] <= spans[j][0] or spans[j][1] <= spans[i][0]


def test_nothing_needs_nothing():
    plan = plan_memory([])
    assert (plan.offsets, plan.size) == ((), 0)


def test_buffers_that_never_meet_share_memory():
    plan = plan_memory(lifetimes(((64,), 0, 1), ((64,), 2, 3), ((64,), 4, 5)))
    assert plan.offsets == (0, 0, 0)
    assert plan.size == 256


def test_a_buffer_read_while_another_is_written_is_not_overwritten():
    plan = plan_memory(lifetimes(((64,), 0, 1), ((64,), 1, 2)))
    assert sorted(plan.offsets) == [0, 256]


def test_small_buffers_fit_into_the_place_of_a_large_one():
    plan = plan_memory(lifetimes(((64,), 0, 1), ((64,), 0, 1), ((128,), 2, 3)))
    assert plan.size == 512


def test_odd_sizes_are_aligned():
    plan = plan_memory(lifetimes(((3,), 0, 1), ((5,), 0, 1), dtype=I8))
    assert sorted(plan.offsets) == [0, 64]
    assert plan.size == 128


def test_symbolic_buffers_are_packed_in_units_of_their_dims():
    entries = lifetimes(((BATCH, SEQ, 1536), 0, 1), *[((BATCH, SEQ, 384), 2, 3)] * 4)
    plan = plan_memory(entries)
    assert plan.size == 4 * 1536 * BATCH * SEQ


def test_a_dim_may_be_zero():
    """batch*seq does not bound batch: with an empty sequence the pooled rows would overlap whatever comes next."""
    entries = lifetimes(((BATCH, SEQ, 384), 0, 1), ((BATCH, 384), 2, 3), ((16,), 0, 3))
    assert_disjoint(entries, plan_memory(entries), {"batch": 5, "seq": 0})


@pytest.mark.parametrize("seed", range(40))
def test_random_plans_never_overlap(seed):
    choose = random.Random(seed)
    shapes = [
        (7,),
        (64,),
        (1000,),
        (BATCH,),
        (BATCH, 16),
        (BATCH, SEQ),
        (BATCH, SEQ, 5),
        (SEQ + 1, 3),
        (BATCH, SEQ, SEQ),
    ]
    entries = []
    for index in range(25):
        first = choose.randrange(20)
        shape = choose.choice(shapes[: 3 if seed % 2 else None])
        entries.append(
            Lifetime(
                Buffer("temporary", index, choose.choice((F32, I8)), shape, index),
                first,
                first + choose.randrange(6),
            )
        )
    plan = plan_memory(entries)
    for dims in (
        {"batch": 1, "seq": 1},
        {"batch": 3, "seq": 17},
        {"batch": 0, "seq": 4},
        {"batch": 9, "seq": 0},
    ):
        assert_disjoint(entries, plan, dims)

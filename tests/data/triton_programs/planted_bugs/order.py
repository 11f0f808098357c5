"""Programs and lanes that touch the same memory with nothing to order them; memory that nobody wrote."""

import numpy as np
import triton
import triton.language as tl

from .cases import Case, Empty, floats, planted


@triton.jit
def largest(x, out, BLOCK: tl.constexpr, FAULT: tl.constexpr):
    v = tl.max(tl.load(x + tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)), 0)
    if FAULT:
        tl.store(out, tl.maximum(tl.load(out), v))  # found: maximum_without_atomic
    else:
        tl.atomic_max(out, v)


@planted("race", (1,))
def maximum_without_atomic() -> Case:
    """Programs read, compare and write back one result: some of them overwrite what others found."""
    x = np.random.default_rng(0).integers(0, 1000, 256).astype(np.int32)
    return Case(largest, (4,), {"x": x, "out": np.zeros(1, np.int32)}, {"out": x.max(keepdims=True)}, {"BLOCK": 64})


@triton.jit
def smooth(x, out, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    left = tl.load(x + i - 1, mask=(i > 0) & (i < n), other=0.0)  # found: halo_in_place
    right = tl.load(x + i + 1, mask=i + 1 < n, other=0.0)
    tl.store(out + i, (left + right) * 0.5, mask=i < n)


@planted("race", (1,))
def halo_in_place() -> Case:
    """A stencil writes where it reads: at the edges of blocks, neighbours see new values or old ones."""
    x = floats(256)
    left, right = np.append(np.float32(0), x[:-1]), np.append(x[1:], np.float32(0))
    expected = (left + right) * np.float32(0.5)
    args = {"x": x, "out": np.zeros_like(x), "n": 256}
    return Case(smooth, (4,), args, {"out": expected}, {"BLOCK": 64}, {"out": "x"})


@triton.jit
def split_product(a, b, c, k, M: tl.constexpr, N: tl.constexpr, K: tl.constexpr, FAULT: tl.constexpr):
    rows, columns = tl.arange(0, M)[:, None], tl.arange(0, N)[None, :]
    depth = tl.program_id(0) * K + tl.arange(0, K)
    part = tl.dot(tl.load(a + rows * k + depth[None, :]), tl.load(b + depth[:, None] * N + columns))
    if FAULT:
        tl.store(c + rows * N + columns, tl.load(c + rows * N + columns) + part)  # found: split_product_without_atomic
    else:
        tl.atomic_add(c + rows * N + columns, part)


@planted("race", (1,))
def split_product_without_atomic() -> Case:
    """The parts of a product's depth are added by loads and stores: parts get lost, other ones each time."""
    a, b = floats(16, 64), floats(64, 16, seed=1)
    args = {"a": a, "b": b, "c": np.zeros((16, 16), np.float32), "k": 64}
    return Case(split_product, (4,), args, {"c": a @ b}, {"M": 16, "N": 16, "K": 16}, tolerance=1e-4)


@triton.jit
def split_product_into(a, b, c, k, M: tl.constexpr, N: tl.constexpr, K: tl.constexpr):
    rows, columns = tl.arange(0, M)[:, None], tl.arange(0, N)[None, :]
    depth = tl.program_id(0) * K + tl.arange(0, K)
    part = tl.dot(tl.load(a + rows * k + depth[None, :]), tl.load(b + depth[:, None] * N + columns))
    tl.atomic_add(c + rows * N + columns, part)  # found: split_product_into_nothing


@planted("uninitialised", (0,))
def split_product_into_nothing() -> Case:
    """Parts are added to `torch.empty` in place of `torch.zeros`: right wherever the allocator hands out fresh pages."""
    a, b = floats(16, 64), floats(64, 16, seed=1)
    args = {"a": a, "b": b, "c": np.zeros((16, 16), np.float32), "k": 64}
    constexprs = {"M": 16, "N": 16, "K": 16}
    return Case(split_product_into, (4,), args, {"c": a @ b}, constexprs, {"c": Empty((16, 16))}, tolerance=1e-4)


@triton.jit
def accumulate(x, total, rows, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    columns = tl.num_programs(0) * BLOCK
    for row in range(rows):
        v = tl.load(total + i) + tl.load(x + row * columns + i)
        tl.store(total + i, v)  # found: accumulator_nobody_cleared


@planted("uninitialised", (0,))
def accumulator_nobody_cleared() -> Case:
    """Column sums go to a `torch.empty`: the sums of the tensor whose memory it was are in them."""
    x = floats(5, 128)
    args = {"x": x, "total": np.zeros(128, np.float32), "rows": 5}
    return Case(accumulate, (2,), args, {"total": x.sum(0)}, {"BLOCK": 64}, {"total": Empty((128,))})


@triton.jit
def bucketed(x, counts, offsets, out, n, BINS: tl.constexpr, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    v = tl.load(x + i, mask=i < n, other=0)
    at = tl.load(offsets + v, mask=i < n, other=0)
    tl.store(out + i, tl.load(counts + at, mask=i < n, other=0), mask=i < n)  # found: index_nobody_wrote


@planted("uninitialised", (0,))
def index_nobody_wrote() -> Case:
    """Offsets of buckets were allocated and never computed: any address, and a fault only if it is far away."""
    x = np.random.default_rng(0).integers(0, 8, 100).astype(np.int32)
    counts, offsets = np.arange(8, dtype=np.int32) * 10, np.arange(8, dtype=np.int32)[::-1].copy()
    args = {"x": x, "counts": counts, "offsets": offsets, "out": np.zeros_like(x), "n": 100}
    constexprs = {"BINS": 8, "BLOCK": 64}
    return Case(bucketed, (2,), args, {"out": counts[offsets[x]]}, constexprs, {"offsets": Empty((8,), "int32")})


@triton.jit
def add_tiles(x, y, out, n, T: tl.constexpr, FAULT: tl.constexpr):
    rows = tl.program_id(0) * T + tl.arange(0, T)[:, None]
    columns = tl.program_id(0 if FAULT else 1) * T + tl.arange(0, T)[None, :]
    at = rows * n + columns
    tl.store(out + at, tl.load(x + at) + tl.load(y + at))  # found: wrong_program_axis


@planted("race", (0, 1))
def wrong_program_axis() -> Case:
    """Columns come from the program's first axis, as rows do: the diagonal is written many times, the rest never."""
    x, y = floats(32, 32), floats(32, 32, seed=1)
    args = {"x": x, "y": y, "out": np.zeros_like(x), "n": 32}
    return Case(add_tiles, (2, 2), args, {"out": x + y}, {"T": 16})


@triton.jit
def axpy(x, y, n, factor, BLOCK: tl.constexpr, FAULT: tl.constexpr):
    i = tl.program_id(0) * (BLOCK - 8 if FAULT else BLOCK) + tl.arange(0, BLOCK)
    v = tl.load(y + i, mask=i < n) + factor * tl.load(x + i, mask=i < n)  # found: tiles_that_overlap
    tl.store(y + i, v, mask=i < n)


@planted("race", (1,))
def tiles_that_overlap() -> Case:
    """Tiles are laid at a distance smaller than they are: what two of them cover is added once or twice."""
    x, y = floats(200), floats(200, seed=1)
    args = {"x": x, "y": y, "n": 200, "factor": 3.0}
    return Case(axpy, (4,), args, {"y": y + np.float32(3) * x}, {"BLOCK": 64})


@triton.jit
def normalised_gradient(dy, x, dw, lock, n, GROUPS: tl.constexpr, BLOCK: tl.constexpr, FAULT: tl.constexpr):
    row, i = tl.program_id(0), tl.arange(0, BLOCK)
    group = row % GROUPS
    part = tl.load(dy + row * n + i, mask=i < n, other=0.0) * tl.load(x + row * n + i, mask=i < n, other=0.0)
    if not FAULT:
        while tl.atomic_cas(lock + group, 0, 1) == 1:
            pass
    target = dw + group * n + i
    part += tl.load(target, mask=i < n, other=0.0)  # found: layer_norm_without_its_lock
    tl.store(target, part, mask=i < n)
    tl.debug_barrier()
    if not FAULT:
        tl.atomic_xchg(lock + group, 0)


@planted("race", (2,))
def layer_norm_without_its_lock() -> Case:
    """Layer norm's backward sums rows into a few buffers under locks, and here without them: rows of a gradient get lost."""
    dy, x = floats(6, 40), floats(6, 40, seed=1)
    expected = (dy * x).reshape(3, 2, 40).sum(0)
    args = {"dy": dy, "x": x, "dw": np.zeros((2, 40), np.float32), "lock": np.zeros(2, np.int32), "n": 40}
    return Case(normalised_gradient, (6,), args, {"dw": expected}, {"GROUPS": 2, "BLOCK": 64})


@triton.jit
def locked_sum(x, total, lock, BLOCK: tl.constexpr, FAULT: tl.constexpr):
    i = tl.arange(0, BLOCK)
    v = tl.load(x + tl.program_id(0) * BLOCK + i)
    while tl.atomic_cas(lock, 0, 1) == 1:  # found: lock_given_back_by_a_plain_store
        pass
    tl.store(total + i, tl.load(total + i) + v)
    tl.debug_barrier()
    if FAULT:
        tl.store(lock, 0)
    else:
        tl.atomic_xchg(lock, 0)


@planted("race", (1,))
def lock_given_back_by_a_plain_store() -> Case:
    """The lock is opened by a store: it may be seen before what the lock guards, or be kept in a cache."""
    x = floats(4, 32)
    args = {"x": x, "total": np.zeros(32, np.float32), "lock": np.zeros(1, np.int32)}
    return Case(locked_sum, (4,), args, {"total": x.sum(0)}, {"BLOCK": 32})


@triton.jit
def relaxed_sum(x, total, lock, BLOCK: tl.constexpr, FAULT: tl.constexpr):
    i = tl.arange(0, BLOCK)
    v = tl.load(x + tl.program_id(0) * BLOCK + i)
    while tl.atomic_cas(lock, 0, 1, sem="relaxed" if FAULT else "acq_rel") == 1:
        pass
    v += tl.load(total + i)  # found: lock_that_orders_nothing
    tl.store(total + i, v)
    tl.debug_barrier()
    tl.atomic_xchg(lock, 0)


@planted("race", (1,))
def lock_that_orders_nothing() -> Case:
    """The lock is taken by a relaxed compare-and-swap: one holder at a time, who need not see what the last one wrote."""
    x = floats(4, 32)
    args = {"x": x, "total": np.zeros(32, np.float32), "lock": np.zeros(1, np.int32)}
    return Case(relaxed_sum, (4,), args, {"total": x.sum(0)}, {"BLOCK": 32})


@triton.jit
def kept_lock(x, total, lock, BLOCK: tl.constexpr, FAULT: tl.constexpr):
    i = tl.arange(0, BLOCK)
    v = tl.load(x + tl.program_id(0) * BLOCK + i)
    while tl.atomic_cas(lock, 0, 1) == 1:  # found: lock_never_given_back
        pass
    tl.store(total + i, tl.load(total + i) + v)
    tl.debug_barrier()
    if not FAULT:
        tl.atomic_xchg(lock, 0)


@planted("deadlock", (1,))
def lock_never_given_back() -> Case:
    """The lock is taken and kept: every other program spins, and the GPU hangs."""
    x = floats(4, 32)
    args = {"x": x, "total": np.zeros(32, np.float32), "lock": np.zeros(1, np.int32)}
    return Case(kept_lock, (4,), args, {"total": x.sum(0)}, {"BLOCK": 32})


@triton.jit
def sum_of_programs(x, parts, counter, out, BLOCK: tl.constexpr, PROGRAMS: tl.constexpr, FAULT: tl.constexpr):
    pid = tl.program_id(0)
    tl.store(parts + pid, tl.sum(tl.load(x + pid * BLOCK + tl.arange(0, BLOCK))))
    done = tl.atomic_add(counter, 1, sem="relaxed" if FAULT else "acq_rel")
    if done == PROGRAMS - 1:
        total = tl.sum(tl.load(parts + tl.arange(0, PROGRAMS)))  # found: counter_that_orders_nothing
        tl.store(out, total)


@planted("race", (3,))
def counter_that_orders_nothing() -> Case:
    """The last program to count itself sums the parts, by a relaxed counter: it may see parts that are not written yet."""
    x = floats(256)
    args = {"x": x, "parts": np.zeros(4, np.float32), "counter": np.zeros(1, np.int32), "out": np.zeros(1, np.float32)}
    return Case(sum_of_programs, (4,), args, {"out": x.sum(keepdims=True)}, {"BLOCK": 64, "PROGRAMS": 4}, tolerance=1e-4)


@triton.jit
def produce_and_consume(x, data, flag, out, BLOCK: tl.constexpr, FAULT: tl.constexpr):
    i = tl.arange(0, BLOCK)
    if tl.program_id(0) == 0:
        tl.store(data + i, tl.load(x + i) * 2)
        tl.debug_barrier()
        if FAULT:
            tl.store(flag, 1)
        else:
            tl.atomic_xchg(flag, 1, sem="release")
    else:
        if FAULT:  # noqa: SIM108
            ready = tl.load(flag, volatile=True)  # found: flag_that_is_no_atomic
        else:
            ready = tl.atomic_add(flag, 0, sem="acquire")
        while ready == 0:
            ready = tl.atomic_add(flag, 0, sem="acquire")
        tl.store(out + i, tl.load(data + i))


@planted("race", (1,))
def flag_that_is_no_atomic() -> Case:
    """A consumer waits for a flag that is stored and loaded as data: it may see the flag and not what it announces."""
    x = floats(32)
    args = {"x": x, "data": np.zeros_like(x), "flag": np.zeros(1, np.int32), "out": np.zeros_like(x)}
    return Case(produce_and_consume, (2,), args, {"out": x * 2}, {"BLOCK": 32})


@triton.jit
def running_sum(x, ends, out, BLOCK: tl.constexpr, FAULT: tl.constexpr):
    pid, i = tl.program_id(0), tl.arange(0, BLOCK)
    v = tl.cumsum(tl.load(x + pid * BLOCK + i), 0)
    if FAULT:
        tl.store(ends + pid, tl.sum(tl.load(x + pid * BLOCK + i), 0))
        before = tl.sum(tl.load(ends + i, mask=i < pid, other=0.0), 0)  # found: sums_of_blocks_in_one_launch
    else:
        before = 0.0
        for block in range(pid):
            before += tl.sum(tl.load(x + block * BLOCK + i), 0)
    tl.store(out + pid * BLOCK + i, v + before)


@planted("race", (1,))
def sums_of_blocks_in_one_launch() -> Case:
    """A cumulative sum over blocks reads the sums of earlier blocks in the launch that writes them: not all are there."""
    x = floats(128)
    args = {"x": x, "ends": np.zeros(4, np.float32), "out": np.zeros_like(x)}
    return Case(running_sum, (4,), args, {"out": np.cumsum(x)}, {"BLOCK": 32}, tolerance=1e-4)


@triton.jit
def histogram(x, counts, n, BINS: tl.constexpr, BLOCK: tl.constexpr, FAULT: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    v = tl.load(x + i, mask=i < n, other=0)
    if FAULT:
        bins = tl.arange(0, BINS)
        found = tl.histogram(v, BINS, mask=i < n)
        tl.store(counts + bins, tl.load(counts + bins) + found)  # found: histogram_without_atomics
    else:
        tl.atomic_add(counts + v, 1, mask=i < n)


@planted("race", (1,))
def histogram_without_atomics() -> Case:
    """Each program adds its counts by a load and a store: counts of others get lost."""
    x = np.random.default_rng(0).integers(0, 16, 200).astype(np.int32)
    args = {"x": x, "counts": np.zeros(16, np.int32), "n": 200}
    expected = np.bincount(x, minlength=16).astype(np.int32)
    return Case(histogram, (2,), args, {"counts": expected}, {"BINS": 16, "BLOCK": 128})


@triton.jit
def scatter(x, indices, out, BLOCK: tl.constexpr, FAULT: tl.constexpr):
    i = tl.arange(0, BLOCK)
    at = tl.load(indices + i)
    if FAULT:
        tl.store(out + at, tl.load(out + at) + tl.load(x + i))  # found: scatter_to_equal_indices
    else:
        tl.atomic_add(out + at, tl.load(x + i))


@planted("lane-race", (0,))
def scatter_to_equal_indices() -> Case:
    """Gradients of an embedding are scattered by stores, and a token comes twice: one of its gradients stays, either one."""
    x, indices = floats(32), np.random.default_rng(0).integers(0, 10, 32).astype(np.int32)
    expected = np.zeros(10, np.float32)
    np.add.at(expected, indices, x)
    args = {"x": x, "indices": indices, "out": np.zeros(10, np.float32)}
    return Case(scatter, (1,), args, {"out": expected}, {"BLOCK": 32})


@triton.jit
def reverse(x, scratch, out, BLOCK: tl.constexpr, FAULT: tl.constexpr):
    i = tl.arange(0, BLOCK)
    at = tl.program_id(0) * BLOCK
    tl.store(scratch + at + i, tl.load(x + at + i))
    if not FAULT:
        tl.debug_barrier()
    v = tl.load(scratch + at + BLOCK - 1 - i)  # found: missing_barrier
    tl.store(out + at + i, v)


@planted("lane-race", (0,))
def missing_barrier() -> Case:
    """A block is turned round through memory with no barrier between: warps that are ahead read what is not there."""
    x = floats(512)
    args = {"x": x, "scratch": np.zeros_like(x), "out": np.zeros_like(x)}
    return Case(reverse, (2,), args, {"out": x.reshape(2, 256)[:, ::-1].reshape(-1).copy()}, {"BLOCK": 256})


@triton.jit
def cross_entropy_in_place(x, labels, losses, n, BLOCK: tl.constexpr, FAULT: tl.constexpr):
    row, i = tl.program_id(0), tl.arange(0, BLOCK)
    label = tl.load(labels + row)
    v = tl.load(x + row * n + i, mask=i < n, other=-float("inf"))
    e = tl.exp(v - tl.max(v, 0))
    total = tl.sum(e, 0)
    tl.store(losses + row, tl.log(total) + tl.max(v, 0) - tl.load(x + row * n + label))
    tl.debug_barrier()
    tl.store(x + row * n + i, e / total, mask=i < n)
    if not FAULT:
        tl.debug_barrier()
    chosen = tl.load(x + row * n + label)  # found: gradient_read_back_too_early
    tl.store(x + row * n + label, chosen - 1.0)


@planted("lane-race", (0,))
def gradient_read_back_too_early() -> Case:
    """Cross entropy writes probabilities over logits, and reads one of them at once, in other threads: it may be a logit."""
    x, labels = floats(3, 50), np.array([4, 49, 20], np.int32)
    e = np.exp(x - x.max(1, keepdims=True))
    expected = e / e.sum(1, keepdims=True)
    losses = -np.log(expected[np.arange(3), labels])
    expected[np.arange(3), labels] -= 1
    args = {"x": x, "labels": labels, "losses": np.zeros(3, np.float32), "n": 50}
    return Case(cross_entropy_in_place, (3,), args, {"x": expected, "losses": losses}, {"BLOCK": 64})

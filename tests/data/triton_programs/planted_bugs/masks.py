"""Masks that are missing, of the wrong axis, or too late; blocks larger than what they cover."""

import numpy as np
import triton
import triton.language as tl

from .cases import Case, floats, planted, softmax


@triton.jit
def add(x, y, out, n, BLOCK: tl.constexpr, FAULT: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = i < n
    a = tl.load(x + i, mask=None if FAULT else inside)  # found: missing_mask_of_a_load
    tl.store(out + i, a + tl.load(y + i, mask=inside), mask=inside)


@planted("out-of-bounds", (3,))
def missing_mask_of_a_load() -> Case:
    """The last block reads behind the end of x: a fault of the memory if no page follows, nothing at all if one does."""
    x, y = floats(1000), floats(1000, seed=1)
    args = {"x": x, "y": y, "out": np.zeros_like(x), "n": 1000}
    return Case(add, (4,), args, {"out": x + y}, {"BLOCK": 256})


@triton.jit
def scale(x, out, n, factor, BLOCK: tl.constexpr, FAULT: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    v = tl.load(x + i, mask=i < n, other=0.0) * factor
    tl.store(out + i, v, mask=None if FAULT else i < n)  # found: missing_mask_of_a_store


@planted("out-of-bounds", (1,))
def missing_mask_of_a_store() -> Case:
    """The last block writes behind the end of out, into whatever tensor lies there."""
    x = floats(200)
    return Case(scale, (2,), {"x": x, "out": np.zeros_like(x), "n": 200, "factor": 0.5}, {"out": x * 0.5}, {"BLOCK": 128})


@triton.jit
def copy_tile(x, out, m, n, ROWS: tl.constexpr, COLUMNS: tl.constexpr, FAULT: tl.constexpr):
    rows = tl.program_id(0) * ROWS + tl.arange(0, ROWS)[:, None]
    columns = tl.arange(0, COLUMNS)[None, :]
    inside = (rows < (n if FAULT else m)) & (columns < n)
    v = tl.load(x + rows * n + columns, mask=inside)  # found: mask_of_the_wrong_axis
    tl.store(out + rows * n + columns, v, mask=inside)


@planted("out-of-bounds", (1,))
def mask_of_the_wrong_axis() -> Case:
    """Rows are compared with the number of columns: with more columns than rows, rows behind the last are read and written."""
    x = floats(20, 40)
    args = {"x": x, "out": np.zeros_like(x), "m": 20, "n": 40}
    return Case(copy_tile, (2,), args, {"out": x}, {"ROWS": 16, "COLUMNS": 64})


@triton.jit
def square(x, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    v = tl.load(x + i)  # found: one_program_too_many
    tl.store(x + i, v * v)


@planted("out-of-bounds", (4,))
def one_program_too_many() -> Case:
    """The grid is n // BLOCK + 1 in place of cdiv(n, BLOCK): where BLOCK divides n, a whole block lies behind the end."""
    x = floats(256)
    return Case(square, (4,), {"x": x}, {"x": x * x}, {"BLOCK": 64}, {"grid": (5,)})


@triton.jit
def rms_norm(x, w, out, n, eps, BLOCK: tl.constexpr, FAULT: tl.constexpr):
    row, i = tl.program_id(0), tl.arange(0, BLOCK)
    inside = i < (BLOCK if FAULT else n)
    v = tl.load(x + row * n + i, mask=inside, other=0.0)
    rms = tl.sqrt(tl.sum(v * v) / n + eps)
    g = tl.load(w + i, mask=i < n, other=0.0)
    tl.store(out + row * n + i, v / rms * g, mask=inside)  # found: block_wider_than_the_row


@planted("race", (1,))
def block_wider_than_the_row() -> Case:
    """Blocks go on into the next row: its first elements come from either of two programs, and the last row ends outside."""
    x, w = floats(5, 100), floats(100, seed=1)
    rms = np.sqrt((x * x).mean(1, keepdims=True) + 1e-5)
    args = {"x": x, "w": w, "out": np.zeros_like(x), "n": 100, "eps": 1e-5}
    return Case(rms_norm, (5,), args, {"out": x / rms * w}, {"BLOCK": 128})


@triton.jit
def row_sums(x, out, n, BLOCK: tl.constexpr, FAULT: tl.constexpr):
    row, i = tl.program_id(0), tl.arange(0, BLOCK)
    v = tl.load(x + row * n + i, mask=i < n, other=None if FAULT else 0.0)
    tl.store(out + row, tl.sum(v))  # found: sum_of_masked_lanes


@planted("uninitialised", (0,))
def sum_of_masked_lanes() -> Case:
    """A masked load has no `other`: the lanes that are off add whatever their registers hold, often zero."""
    x = floats(3, 50)
    args = {"x": x, "out": np.zeros(3, np.float32), "n": 50}
    return Case(row_sums, (3,), args, {"out": x.sum(1)}, {"BLOCK": 64})


@triton.jit
def best_of_blocks(values, indices, out, blocks, BLOCKS: tl.constexpr, FAULT: tl.constexpr):
    i = tl.arange(0, BLOCKS)
    inside = i < (BLOCKS if FAULT else blocks)
    at = tl.argmax(tl.load(values + i, mask=inside, other=-float("inf")), 0)  # found: argmax_over_too_many_blocks
    tl.store(out, tl.load(indices + at))


@planted("out-of-bounds", (0,))
def argmax_over_too_many_blocks() -> Case:
    """The second stage of an argmax takes a power of two of partial results where there are fewer: a stranger may win."""
    values, indices = floats(6), np.arange(6, dtype=np.int32) * 64 + 3
    args = {"values": values, "indices": indices, "out": np.zeros(1, np.int32), "blocks": 6}
    return Case(best_of_blocks, (1,), args, {"out": indices[[values.argmax()]]}, {"BLOCKS": 8})


@triton.jit
def masked_product(a, b, c, m, n, k, M: tl.constexpr, N: tl.constexpr, K: tl.constexpr, FAULT: tl.constexpr):
    rows, columns, depth = tl.arange(0, M)[:, None], tl.arange(0, N)[None, :], tl.arange(0, K)
    total = tl.zeros((M, N), tl.float32)
    for start in range(0, k, K):
        at = start + depth
        inside = at < (k + K if FAULT else k)
        x = tl.load(a + rows * k + at[None, :], mask=(rows < m) & inside[None, :], other=0.0)
        y = tl.load(b + at[:, None] * n + columns, mask=inside[:, None] & (columns < n), other=0.0)  # found: last_block_of_k
        total = tl.dot(x, y, total)
    tl.store(c + rows * n + columns, total, mask=(rows < m) & (columns < n))


@planted("out-of-bounds", (0,))
def last_block_of_k() -> Case:
    """The last block of a product's depth has no bound: a's next row and memory behind b are multiplied into the result."""
    a, b = floats(16, 40), floats(40, 16, seed=1)
    args = {"a": a, "b": b, "c": np.zeros((16, 16), np.float32), "m": 16, "n": 16, "k": 40}
    return Case(masked_product, (1,), args, {"c": a @ b}, {"M": 16, "N": 16, "K": 16}, tolerance=1e-4)


@triton.jit
def attention(q, k, v, out, length, scale, M: tl.constexpr, N: tl.constexpr, D: tl.constexpr, FAULT: tl.constexpr):
    rows, d = tl.program_id(0) * M + tl.arange(0, M), tl.arange(0, D)
    x = tl.load(q + rows[:, None] * D + d[None, :], mask=(rows < length)[:, None], other=0.0)
    largest, total = tl.full((M,), -float("inf"), tl.float32), tl.zeros((M,), tl.float32)
    result = tl.zeros((M, D), tl.float32)
    for start in range(0, (tl.program_id(0) + 1) * M, N):
        columns = start + tl.arange(0, N)
        inside = columns < (start + N if FAULT else length)
        y = tl.load(k + columns[:, None] * D + d[None, :], mask=inside[:, None], other=0.0)  # found: attention_beyond_the_keys
        z = tl.load(v + columns[:, None] * D + d[None, :], mask=(columns < length)[:, None], other=0.0)
        s = tl.dot(x, tl.trans(y)) * scale
        s = tl.where((columns[None, :] <= rows[:, None]) & (columns < length)[None, :], s, -float("inf"))
        now = tl.maximum(largest, tl.max(s, 1))
        p, shrink = tl.exp(s - now[:, None]), tl.exp(largest - now)
        result = tl.dot(p, z, result * shrink[:, None])
        total, largest = total * shrink + tl.sum(p, 1), now
    tl.store(out + rows[:, None] * D + d[None, :], result / total[:, None], mask=(rows < length)[:, None])


@planted("out-of-bounds", (2,))
def attention_beyond_the_keys() -> Case:
    """Causal attention bounds its queries but not its keys: the last block reads behind k, which its mask hides."""
    length, d = 40, 16
    q, k, v = floats(length, d), floats(length, d, seed=1), floats(length, d, seed=2)
    scores = np.where(np.tri(length, dtype=bool), q @ k.T / 4, -np.inf).astype(np.float32)
    args = {"q": q, "k": k, "v": v, "out": np.zeros_like(q), "length": length, "scale": 0.25}
    return Case(attention, (3,), args, {"out": softmax(scores) @ v}, {"M": 16, "N": 16, "D": d}, tolerance=1e-4)


@triton.jit
def convolution(x, w, out, n, TAPS: tl.constexpr, BLOCK: tl.constexpr, FAULT: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    total = tl.zeros((BLOCK,), tl.float32)
    for tap in range(TAPS):
        at = i + tap - TAPS // 2
        inside = (at < n) if FAULT else (at >= 0) & (at < n)
        total += tl.load(x + at, mask=inside, other=0.0) * tl.load(w + tap)  # found: halo_before_the_start
    tl.store(out + i, total, mask=i < n)


@planted("out-of-bounds", (0,))
def halo_before_the_start() -> Case:
    """A convolution pads at its right end alone: the first outputs take what lies in front of the tensor for its padding."""
    x, w = floats(100), floats(5, seed=1)
    args = {"x": x, "w": w, "out": np.zeros_like(x), "n": 100}
    expected = np.convolve(np.pad(x, 2), w[::-1], "valid")
    return Case(convolution, (2,), args, {"out": expected.astype(np.float32)}, {"TAPS": 5, "BLOCK": 64})


@triton.jit
def differences(x, out, n, BLOCK: tl.constexpr, FAULT: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    before = tl.load(x + i - 1, mask=(i < n) if FAULT else (i > 0) & (i < n), other=0.0)  # found: element_before_the_first
    tl.store(out + i, tl.load(x + i, mask=i < n) - before, mask=i < n)


@planted("out-of-bounds", (0,))
def element_before_the_first() -> Case:
    """x[i - 1] of the first element: one element in front of the tensor, which the allocator's rounding usually hides."""
    x = floats(100)
    args = {"x": x, "out": np.zeros_like(x), "n": 100}
    return Case(differences, (2,), args, {"out": np.diff(x, prepend=np.float32(0))}, {"BLOCK": 64})

"""Strides, shapes, element types, offsets that wrap, and indices that nobody checked."""

import numpy as np
import triton
import triton.language as tl

from .cases import Addresses, Case, floats, planted, softmax


@triton.jit
def softmax_rows(x, out, stride, n, BLOCK: tl.constexpr):
    row, i = tl.program_id(0), tl.arange(0, BLOCK)
    v = tl.load(x + row * stride + i, mask=i < n, other=-float("inf"))  # found: wrong_row_stride
    e = tl.exp(v - tl.max(v, 0))
    tl.store(out + row * n + i, e / tl.sum(e, 0), mask=i < n)


@planted("out-of-bounds", (5,))
def wrong_row_stride() -> Case:
    """The stride of a padded tensor is given for a dense one: later rows are those of others, the last ones lie outside."""
    x = floats(6, 60)
    args = {"x": x, "out": np.zeros_like(x), "stride": 60, "n": 60}
    return Case(softmax_rows, (6,), args, {"out": softmax(x)}, {"BLOCK": 64}, {"stride": 64})


@triton.jit
def product(a, b, c, n, k, stride_bk, stride_bn, M: tl.constexpr, N: tl.constexpr, K: tl.constexpr):
    rows, depth = tl.arange(0, M)[:, None], tl.arange(0, K)
    columns = tl.program_id(0) * N + tl.arange(0, N)[None, :]
    total = tl.zeros((M, N), tl.float32)
    for start in range(0, k, K):
        x = tl.load(a + rows * k + start + depth[None, :])
        y = tl.load(b + (start + depth[:, None]) * stride_bk + columns * stride_bn)  # found: strides_of_the_transposed
        total = tl.dot(x, y, total)
    tl.store(c + rows * n + columns, total)


@planted("out-of-bounds", (2,))
def strides_of_the_transposed() -> Case:
    """b's two strides are exchanged, as if it were its transpose: wrong values, and reads outside where b is wide."""
    a, b = floats(16, 32), floats(32, 64, seed=1)
    args = {"a": a, "b": b, "c": np.zeros((16, 64), np.float32), "n": 64, "k": 32, "stride_bk": 64, "stride_bn": 1}
    constexprs = {"M": 16, "N": 16, "K": 16}
    return Case(product, (4,), args, {"c": a @ b}, constexprs, {"stride_bk": 1, "stride_bn": 64}, tolerance=1e-4)


@triton.jit
def embed_shard(ids, weights, out, shard_start, hidden, HIDDEN: tl.constexpr, FAULT: tl.constexpr):
    token = tl.load(ids + tl.program_id(0))
    i = tl.arange(0, HIDDEN)
    if FAULT:  # noqa: SIM108 - of two types
        row = token * hidden - shard_start
    else:
        row = token.to(tl.int64) * hidden - shard_start
    v = tl.load(weights + row + i)  # found: offset_beyond_32_bits
    tl.store(out + tl.program_id(0) * HIDDEN + i, v)


@planted("overflow", (0,))
def offset_beyond_32_bits() -> Case:
    """Token times width, for a shard of a large embedding, is computed in 32 bits: rows far in front of the shard are read."""
    hidden, first = 16384, 140_000
    weights, ids = np.zeros((4, hidden), np.float32), np.array([140_001, 140_003], np.int32)
    weights[:, :128] = floats(4, 128)
    out = np.zeros((2, 128), np.float32)
    args = {"ids": ids, "weights": weights, "out": out, "shard_start": first * hidden, "hidden": hidden}
    return Case(embed_shard, (2,), args, {"out": weights[ids - first, :128]}, {"HIDDEN": 128})


@triton.jit
def upsample(x, out, n, size, first, BLOCK: tl.constexpr, FAULT: tl.constexpr):
    i = first + tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    if FAULT:  # noqa: SIM108
        source = i * n // size
    else:
        source = (i.to(tl.int64) * n // size).to(tl.int32)
    tl.store(out + i - first, tl.load(x + source))  # found: index_times_size


@planted("out-of-bounds", (0,))
def index_times_size() -> Case:
    """Nearest upsampling multiplies index and size before it divides: negative indices, once the product passes 31 bits."""
    n, size, first = 50_000, 100_000, 60_000
    x = np.tile(floats(50), n // 50)
    expected = x[np.arange(first, first + 256) * n // size]
    args = {"x": x, "out": np.zeros(256, np.float32), "n": n, "size": size, "first": first}
    return Case(upsample, (2,), args, {"out": expected}, {"BLOCK": 128})


@triton.jit
def copy_described(x, out, m, n, height, M: tl.constexpr, N: tl.constexpr):
    source = tl.make_tensor_descriptor(x, [height, n], [n, 1], [M, N])
    target = tl.make_tensor_descriptor(out, [m, n], [n, 1], [M, N])
    v = source.load([tl.program_id(0) * M, 0])  # found: descriptor_taller_than_its_tensor
    target.store([tl.program_id(0) * M, 0], v)


@planted("out-of-bounds", (1,))
def descriptor_taller_than_its_tensor() -> Case:
    """A descriptor has the rows rounded up to its blocks: hardware fills what lies outside the shape with zeros, not what this
    one calls its inside."""
    x = floats(20, 32)
    args = {"x": x, "out": np.zeros_like(x), "m": 20, "n": 32, "height": 20}
    return Case(copy_described, (2,), args, {"out": x}, {"M": 16, "N": 32}, {"height": 32})


@triton.jit
def transpose_described(x, out, m, n, stride, M: tl.constexpr, N: tl.constexpr):
    source = tl.make_tensor_descriptor(x, [m, n], [stride, 1], [M, N])
    target = tl.make_tensor_descriptor(out, [n, m], [m, 1], [N, M])
    v = source.load([tl.program_id(0) * M, tl.program_id(1) * N])  # found: descriptor_with_a_longer_stride
    target.store([tl.program_id(1) * N, tl.program_id(0) * M], tl.trans(v))


@planted("out-of-bounds", (1,))
def descriptor_with_a_longer_stride() -> Case:
    """The stride of the tensor before it was cut to its columns: later rows are read from the wrong place, and from outside."""
    x = floats(32, 48)
    args = {"x": x, "out": np.zeros((48, 32), np.float32), "m": 32, "n": 48, "stride": 48}
    return Case(transpose_described, (2, 3), args, {"out": x.T.copy()}, {"M": 16, "N": 16}, {"stride": 64})


@triton.jit
def transpose(x, out, m, n, M: tl.constexpr, N: tl.constexpr, FAULT: tl.constexpr):
    rows, columns = tl.program_id(0) * M + tl.arange(0, M)[:, None], tl.program_id(1) * N + tl.arange(0, N)[None, :]
    v = tl.load(x + rows * n + columns)
    if FAULT:
        tl.store(out + columns * n + rows, v)  # found: offsets_in_the_wrong_order
    else:
        tl.store(out + columns * m + rows, v)


@planted("out-of-bounds", (0, 2))
def offsets_in_the_wrong_order() -> Case:
    """The result's rows are stepped over by the source's width: tiles overwrite each other, and the last ones fall outside."""
    x = floats(32, 48)
    args = {"x": x, "out": np.zeros((48, 32), np.float32), "m": 32, "n": 48}
    return Case(transpose, (2, 3), args, {"out": x.T.copy()}, {"M": 16, "N": 16})


@triton.jit
def embed(ids, weights, out, vocabulary, HIDDEN: tl.constexpr, FAULT: tl.constexpr):
    token, i = tl.load(ids + tl.program_id(0)), tl.arange(0, HIDDEN)
    known = (token < vocabulary) if FAULT else (token >= 0) & (token < vocabulary)
    v = tl.load(weights + token * HIDDEN + i, mask=known, other=0.0)  # found: unchecked_token
    tl.store(out + tl.program_id(0) * HIDDEN + i, v)


@planted("out-of-bounds", (1,))
def unchecked_token() -> Case:
    """Padding is the token -1, which only an upper bound looks at: a row in front of the weights is read."""
    ids, weights = np.array([3, -1, 0], np.int32), floats(10, 32)
    expected = np.where(ids[:, None] >= 0, weights[ids], np.float32(0))
    args = {"ids": ids, "weights": weights, "out": np.zeros((3, 32), np.float32), "vocabulary": 10}
    return Case(embed, (3,), args, {"out": expected}, {"HIDDEN": 32})


@triton.jit
def cross_entropy(logits, labels, losses, n, ignored, BLOCK: tl.constexpr, FAULT: tl.constexpr):
    row, i = tl.program_id(0), tl.arange(0, BLOCK)
    label = tl.load(labels + row)
    x = tl.load(logits + row * n + i, mask=i < n, other=-float("inf"))
    largest = tl.max(x, 0)
    total = largest + tl.log(tl.sum(tl.exp(x - largest), 0))
    if FAULT:  # noqa: SIM108
        chosen = tl.load(logits + row * n + label)  # found: label_to_ignore
    else:
        chosen = tl.load(logits + row * n + label, mask=label != ignored, other=0.0)
    tl.store(losses + row, tl.where(label == ignored, 0.0, total - chosen))


@planted("out-of-bounds", (0,))
def label_to_ignore() -> Case:
    """The logit of label -100, which is to be ignored, is loaded before anybody looks: in front of the first rows."""
    logits, labels = floats(4, 20), np.array([-100, 3, -100, 19], np.int32)
    losses = -np.log(softmax(logits))[np.arange(4), np.maximum(labels, 0)]
    args = {"logits": logits, "labels": labels, "losses": np.zeros(4, np.float32), "n": 20, "ignored": -100}
    return Case(cross_entropy, (4,), args, {"losses": np.where(labels < 0, np.float32(0), losses)}, {"BLOCK": 32})


@triton.jit
def rotate(x, cosines, sines, out, HALF: tl.constexpr, FAULT: tl.constexpr):
    row, i = tl.program_id(0), tl.arange(0, HALF)
    first = x + row * 2 * HALF + i
    second = first + (2 * HALF if FAULT else HALF)
    c, s = tl.load(cosines + row * HALF + i), tl.load(sines + row * HALF + i)
    a, b = tl.load(first), tl.load(second)  # found: rotary_partner
    tl.store(out + row * 2 * HALF + i, a * c - b * s)
    tl.store(out + row * 2 * HALF + HALF + i, b * c + a * s)


@planted("out-of-bounds", (3,))
def rotary_partner() -> Case:
    """Rotary embedding takes the partner a whole head further on, not half of one: the next row's, and outside for the last."""
    x, angles = floats(4, 32), floats(4, 16, seed=1)
    c, s = np.cos(angles), np.sin(angles)
    expected = np.concatenate([x[:, :16] * c - x[:, 16:] * s, x[:, 16:] * c + x[:, :16] * s], 1)
    args = {"x": x, "cosines": c, "sines": s, "out": np.zeros_like(x)}
    return Case(rotate, (4,), args, {"out": expected}, {"HALF": 16})


@triton.jit
def dequantise(packed, scales, out, k, GROUP: tl.constexpr, BLOCK: tl.constexpr, FAULT: tl.constexpr):
    row = tl.program_id(0)
    i = tl.arange(0, BLOCK)
    word = tl.load(packed + row * (k // 8) + i // 8)
    q = ((word >> (i % 8 * 4)) & 15) - 8
    groups = k // GROUP
    group = i // (GROUP // 8 if FAULT else GROUP)
    s = tl.load(scales + row * groups + group)  # found: scale_of_a_packed_index
    tl.store(out + row * k + i, q * s)


@planted("out-of-bounds", (0,))
def scale_of_a_packed_index() -> Case:
    """The group of a scale is counted in packed words where it is one of elements: eight times too far."""
    generator = np.random.default_rng(0)
    q, scales = generator.integers(0, 16, (2, 64)), np.abs(floats(2, 4))
    packed = (q.reshape(2, 8, 8) << (np.arange(8) * 4)).sum(-1).astype(np.uint32).view(np.int32)
    expected = ((q - 8) * np.repeat(scales, 16, 1)).astype(np.float32)
    args = {"packed": packed, "scales": scales, "out": np.zeros((2, 64), np.float32), "k": 64}
    return Case(dequantise, (2,), args, {"out": expected}, {"GROUP": 16, "BLOCK": 64})


@triton.jit
def dropout(x, seeds, out, n, BLOCK: tl.constexpr, FAULT: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    seed = tl.load(seeds + (tl.program_id(0) if FAULT else 0))  # found: a_seed_for_each_program
    kept = tl.rand(seed, i) >= 0.0
    tl.store(out + i, tl.where(kept, tl.load(x + i, mask=i < n), 0.0), mask=i < n)


@planted("out-of-bounds", (1,))
def a_seed_for_each_program() -> Case:
    """There is one seed, and each program reads its own: whatever lies behind it, so that no two runs drop the same."""
    x = floats(200)
    args = {"x": x, "seeds": np.array([7], np.int32), "out": np.zeros_like(x), "n": 200}
    return Case(dropout, (2,), args, {"out": x}, {"BLOCK": 128})


@triton.jit
def widen(x, out, BLOCK: tl.constexpr, FAULT: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    if FAULT:  # noqa: SIM108
        v = tl.load(x.to(tl.pointer_type(tl.float32)) + i)  # found: wider_elements
    else:
        v = tl.load(x + i).to(tl.float32)
    tl.store(out + i, v)


@planted("out-of-bounds", (1,))
def wider_elements() -> Case:
    """A tensor of 16-bit floats is read as one of 32 bits: nonsense, of which the second half lies outside."""
    x = floats(128).astype(np.float16)
    return Case(widen, (2,), {"x": x, "out": np.zeros(128, np.float32)}, {"out": x.astype(np.float32)}, {"BLOCK": 64})


@triton.jit
def swizzled(x, out, tiles_m, tiles_n, GROUP: tl.constexpr, T: tl.constexpr, FAULT: tl.constexpr):
    pid = tl.program_id(0)
    first = pid // (GROUP * tiles_n) * GROUP
    size = GROUP if FAULT else min(tiles_m - first, GROUP)
    m, n = first + pid % (GROUP * tiles_n) % size, pid % (GROUP * tiles_n) // size
    rows, columns = m * T + tl.arange(0, T)[:, None], n * T + tl.arange(0, T)[None, :]
    at = rows * tiles_n * T + columns
    tl.store(out + at, tl.load(x + at) * 2)  # found: swizzle_past_the_last_row


@planted("out-of-bounds", (5,))
def swizzle_past_the_last_row() -> Case:
    """Tiles are visited in groups of rows, and the last group is not cut to the rows there are: tiles behind the end, and
    others never written."""
    x = floats(24, 16)
    args = {"x": x, "out": np.zeros_like(x), "tiles_m": 3, "tiles_n": 2}
    return Case(swizzled, (6,), args, {"out": x * 2}, {"GROUP": 2, "T": 8})


@triton.jit
def attend_pages(q, pages, table, lengths, out, PAGE: tl.constexpr, PAGES: tl.constexpr, D: tl.constexpr, FAULT: tl.constexpr):
    sequence, d = tl.program_id(0), tl.arange(0, D)
    length = tl.load(lengths + sequence)
    x = tl.load(q + sequence * D + d)
    result = tl.zeros((D,), tl.float32)
    for number in range(PAGES if FAULT else tl.cdiv(length, PAGE)):
        page = tl.load(table + sequence * PAGES + number)
        for slot in range(PAGE):
            inside = True if FAULT else number * PAGE + slot < length
            k = tl.load(pages + (page * PAGE + slot) * D + d, mask=inside, other=0.0)  # found: page_that_is_not_there
            result += tl.where(number * PAGE + slot < length, tl.sum(x * k), 0.0) * k
    tl.store(out + sequence * D + d, result)


@planted("out-of-bounds", (0,))
def page_that_is_not_there() -> Case:
    """Attention goes through all places of the block table, of which those behind the sequence's end hold -1."""
    q, pages = floats(2, 16), floats(5, 4, 16, seed=1)
    table, lengths = np.array([[3, -1, -1], [0, 4, 2]], np.int32), np.array([3, 10], np.int32)
    expected = np.zeros_like(q)
    for row, length in enumerate(lengths):
        keys = pages[table[row]].reshape(-1, 16)[:length]
        expected[row] = (keys @ q[row]) @ keys
    args = {"q": q, "pages": pages, "table": table, "lengths": lengths, "out": np.zeros_like(q)}
    return Case(attend_pages, (2,), args, {"out": expected}, {"PAGE": 4, "PAGES": 3, "D": 16}, tolerance=1e-4)


@triton.jit
def grouped(sources, out, BLOCK: tl.constexpr):
    source = tl.load(sources + tl.program_id(0)).to(tl.pointer_type(tl.float32))
    i = tl.arange(0, BLOCK)
    v = tl.load(source + i)  # found: address_of_a_tensor_that_is_gone
    tl.store(out + tl.program_id(0) * BLOCK + i, v)


@planted("out-of-bounds", (1,), is_recorded=False)
def address_of_a_tensor_that_is_gone() -> Case:
    """A table of addresses outlives a tensor: its memory is another's by now, or nobody's."""
    arrays = tuple(floats(1 << 20, seed=seed) for seed in range(3))
    args = {"sources": Addresses(arrays), "out": np.zeros((3, 32), np.float32)}
    expected = np.stack([each[:32] for each in arrays])
    return Case(grouped, (3,), args, {"out": expected}, {"BLOCK": 32}, {"sources": Addresses(arrays, stale=(1,))})


@triton.jit
def grouped_rows(sources, sizes, out, BLOCK: tl.constexpr, FAULT: tl.constexpr):
    group = tl.program_id(0)
    source = tl.load(sources + group).to(tl.pointer_type(tl.float32))
    size = tl.load(sizes + (0 if FAULT else group))
    i = tl.arange(0, BLOCK)
    v = tl.load(source + i, mask=i < size, other=0.0)  # found: size_of_another_group
    tl.store(out + group * BLOCK + i, v)


@planted("out-of-bounds", (1,))
def size_of_another_group() -> Case:
    """A grouped kernel takes the first group's size for all: smaller groups are read beyond their end."""
    arrays = (floats(60), floats(40, seed=1), floats(20, seed=2))
    expected = np.stack([np.pad(each, (0, 64 - len(each))) for each in arrays])
    args = {"sources": Addresses(arrays), "sizes": np.array([60, 40, 20], np.int32), "out": np.zeros((3, 64), np.float32)}
    return Case(grouped_rows, (3,), args, {"out": expected}, {"BLOCK": 64})

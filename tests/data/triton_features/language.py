"""The language: control, memory, libraries, products, small floats."""

from __future__ import annotations

import inspect

import joinery
import pytest
import torch
import triton
import triton.language as tl
from capture import written
from features import MODES, Absent, feature, needs
from joinery.runtime.ptxsim.checks.findings import PtxCheckError
from triton.language.extra import libdevice


@triton.jit
def twice(v):
    return v + v


@triton.jit(noinline=True)
def apart(v, w):
    return v * w + 1


@triton.jit
def nested(x, BLOCK: tl.constexpr, F: tl.constexpr):
    i = tl.arange(0, BLOCK)
    tl.store(x + i, F(tl.load(x + i)) + apart(BLOCK, 3.0))


@feature("jit functions that call others, also noinline", MODES)
def functions() -> None:
    x = torch.randn(16)
    expected = x * 2 + 49
    nested[(1,)](x, BLOCK=16, F=twice)
    torch.testing.assert_close(x, expected)


@triton.jit
def loops(x, out, n, BLOCK: tl.constexpr, STEPS: tl.constexpr):
    i = tl.arange(0, BLOCK)
    total = tl.zeros((BLOCK,), tl.float32)
    for step in range(0, n, BLOCK):
        total += tl.load(x + step + i, mask=step + i < n, other=0.0)
    for k in tl.static_range(STEPS):
        total += k
    for k in tl.range(0, STEPS, num_stages=2):
        total += k
    left = n
    while left > 10:
        left = left // 2
    if left > 5:
        total += 1
    tl.store(out + i, total)


@feature("loops and conditions", MODES)
def control() -> None:
    x, out = torch.randn(50), torch.zeros(16)
    loops[(1,)](x, out, 50, BLOCK=16, STEPS=3)
    expected = torch.zeros(64)
    expected[:50] = x
    torch.testing.assert_close(out, expected.view(4, 16).sum(0) + 6 + 1)


@triton.jit
def shapes(x, out, M: tl.constexpr, N: tl.constexpr):
    i, j = tl.arange(0, M), tl.arange(0, N)
    v = tl.load(x + i[:, None] * N + j[None, :])
    a, b = tl.split(tl.reshape(v, (M, N // 2, 2)))
    w = tl.reshape(tl.join(b, a), (M, N))
    tl.store(out + j[:, None] * M + i[None, :], tl.trans(w))


@feature("shapes: reshape, join, split, trans", MODES)
def shape_changes() -> None:
    x, out = torch.randn(4, 8), torch.zeros(8, 4)
    shapes[(1,)](x, out, M=4, N=8)
    assert torch.equal(out, x.view(4, 4, 2).flip(2).reshape(4, 8).T)


@triton.jit
def reductions(x, values, places, M: tl.constexpr, N: tl.constexpr):
    i, j = tl.arange(0, M), tl.arange(0, N)
    v = tl.load(x + i[:, None] * N + j[None, :])
    best, at = tl.max(v, 1, return_indices=True)
    tl.store(values + i, tl.sum(v, 1) + best + tl.reduce(v, 1, _smaller))
    tl.store(places + i, at + tl.argmin(v, 1))


@triton.jit
def _smaller(a, b):
    return tl.minimum(a, b)


@feature("reductions", MODES)
def reduce() -> None:
    x, values, places = torch.randn(4, 16), torch.zeros(4), torch.zeros(4, dtype=torch.int32)
    reductions[(1,)](x, values, places, M=4, N=16)
    torch.testing.assert_close(values, x.sum(1) + x.amax(1) + x.amin(1))
    assert torch.equal(places.long(), x.argmax(1) + x.argmin(1))


@triton.jit
def scans(x, sums, products, last, N: tl.constexpr):
    i = tl.arange(0, N)
    v = tl.load(x + i)
    tl.store(sums + i, tl.cumsum(v, 0, reverse=True))
    tl.store(products + i, tl.cumprod(v, 0))
    tl.store(last + i, tl.associative_scan(v, 0, _smaller))


@feature("scans", MODES)
def scan() -> None:
    x = torch.rand(32) + 0.5
    sums, products, last = torch.zeros(32), torch.zeros(32), torch.zeros(32)
    scans[(1,)](x, sums, products, last, N=32)
    torch.testing.assert_close(sums, x.flip(0).cumsum(0).flip(0))
    torch.testing.assert_close(products, x.cumprod(0))
    torch.testing.assert_close(last, x.cummin(0).values)


@triton.jit
def sorting(x, up, down, N: tl.constexpr):
    i = tl.arange(0, N)
    tl.store(up + i, tl.sort(tl.load(x + i)))
    tl.store(down + i, tl.flip(tl.sort(tl.load(x + i), descending=False), 0))


@feature("sort and flip", MODES)
def sort() -> None:
    x, up, down = torch.randn(32), torch.zeros(32), torch.zeros(32)
    sorting[(1,)](x, up, down, N=32)
    assert torch.equal(up, x.sort().values)
    assert torch.equal(down, x.sort(descending=True).values)


@triton.jit
def largest(x, out, N: tl.constexpr, K: tl.constexpr):
    tl.store(out + tl.arange(0, K), tl.topk(tl.load(x + tl.arange(0, N)), K))


@feature("topk", MODES)
def topk() -> None:
    needs(tl, "topk", "tl.topk")
    x, out = torch.randn(32), torch.zeros(4)
    largest[(1,)](x, out, N=32, K=4)
    assert torch.equal(out, x.topk(4).values)


@triton.jit
def counting(x, counts, N: tl.constexpr, BINS: tl.constexpr):
    tl.atomic_add(counts + tl.arange(0, BINS), tl.histogram(tl.load(x + tl.program_id(0) * N + tl.arange(0, N)), BINS))


@feature("histogram", MODES)
def histogram() -> None:
    x, counts = torch.randint(0, 8, (64,), dtype=torch.int32), torch.zeros(8, dtype=torch.int32)
    counting[(2,)](x, counts, N=32, BINS=8)
    assert torch.equal(counts.long(), torch.bincount(x, minlength=8))


@triton.jit
def gathering(x, at, out, M: tl.constexpr, N: tl.constexpr):
    i = tl.arange(0, M)[:, None] * N + tl.arange(0, N)[None, :]
    tl.store(out + i, tl.gather(tl.load(x + i), tl.load(at + i), 1))


@feature("gather", MODES)
def gather() -> None:
    x, at, out = torch.randn(4, 16), torch.randint(0, 16, (4, 16), dtype=torch.int32), torch.zeros(4, 16)
    gathering[(1,)](x, at, out, M=4, N=16)
    assert torch.equal(out, x.gather(1, at.long()))


@triton.jit
def atomics(x, cells, lock, N: tl.constexpr):
    v = tl.load(x + tl.program_id(0) * N + tl.arange(0, N))
    zero = tl.zeros((N,), tl.int32)
    tl.atomic_add(cells + zero, v)
    tl.atomic_max(cells + 1 + zero, v, mask=v < 1000)
    tl.atomic_min(cells + 2 + zero, v)
    while tl.atomic_cas(lock, 0, 1) == 1:
        pass
    tl.store(cells + 3, tl.load(cells + 3) + tl.sum(v))
    tl.debug_barrier()
    tl.atomic_xchg(lock, 0)


@feature("atomics, a lock, debug_barrier", MODES)
def atomic() -> None:
    x, cells, lock = torch.arange(64, dtype=torch.int32), torch.zeros(4, dtype=torch.int32), torch.zeros(1, dtype=torch.int32)
    atomics[(2,)](x, cells, lock, N=32)
    assert cells.tolist() == [2016, 63, 0, 2016]


@triton.jit
def random_numbers(out, seed, N: tl.constexpr):
    i = tl.arange(0, N)
    tl.store(out + i, tl.rand(seed, i))


@feature("random numbers", MODES)
def random() -> None:
    out = torch.zeros(128)
    random_numbers[(1,)](out, 7, N=128)
    assert ((out >= 0) & (out < 1)).all()
    assert len(out.unique()) > 120


@triton.jit
def mathematics(x, out, N: tl.constexpr):
    i = tl.arange(0, N)
    v = tl.load(x + i)
    tl.store(out + i, libdevice.asin(v) + libdevice.pow(v, 3.0) + tl.erf(v) + tl.exp2(tl.sqrt(v)) + libdevice.rint(v))


@feature("libdevice and tl.math", MODES)
def library() -> None:
    x, out = torch.rand(32), torch.zeros(32)
    mathematics[(1,)](x, out, N=32)
    torch.testing.assert_close(out, x.asin() + x**3 + x.erf() + x.sqrt().exp2() + x.round(), rtol=1e-5, atol=1e-5)


@triton.jit
def assembly(x, out, N: tl.constexpr):
    i = tl.arange(0, N)
    v = tl.load(x + i)
    tl.store(out + i, tl.inline_asm_elementwise("shf.l.wrap.b32 $0, $1, $1, 3;", "=r,r", [v], tl.int32, True, 1))


@feature("inline assembly", MODES)
def inline() -> None:
    x, out = torch.randint(-100, 100, (32,), dtype=torch.int32), torch.zeros(32, dtype=torch.int32)
    assembly[(1,)](x, out, N=32)
    wide = x.long() & 0xFFFFFFFF
    assert torch.equal(out.long() & 0xFFFFFFFF, (wide << 3 | wide >> 29) & 0xFFFFFFFF)


@triton.jit
def printing(x, N: tl.constexpr):
    tl.device_print("value: ", tl.load(x + tl.arange(0, N)), tl.program_id(0))


@feature("device_print", MODES)
def prints() -> None:
    with written() as lines:
        printing[(1,)](torch.tensor([1.5, 2.5]), N=2)
    assert any("value:" in line and "1.5" in line for line in lines), lines


@triton.jit
def asserting(x, N: tl.constexpr):
    v = tl.load(x + tl.arange(0, N))
    tl.device_assert(v < 3, "three or more")
    tl.static_assert(N < 100)
    tl.assume(N > 0)


@feature("device_assert, with file and line", MODES)
def asserts() -> None:
    asserting[(1,)](torch.zeros(4), N=4, debug=True)
    errors = (joinery.KernelAssertionError, joinery.SanitizerError, PtxCheckError)
    with pytest.raises(errors, match="three or more") as stopped:
        asserting[(1,)](torch.arange(4.0), N=4, debug=True)
    assert f"language.py:{inspect.getsourcelines(asserting.fn)[1] + 3}" in str(stopped.value)
    asserting[(1,)](torch.arange(4.0), N=4)  # without debug there is nothing to check


@triton.jit
def product(a, b, out, M: tl.constexpr, K: tl.constexpr, PRECISION: tl.constexpr):
    i, k = tl.arange(0, M), tl.arange(0, K)
    x, y = tl.load(a + i[:, None] * K + k[None, :]), tl.load(b + k[:, None] * M + i[None, :])
    tl.store(out + i[:, None] * M + i[None, :], tl.dot(x, y, input_precision=PRECISION))


@feature("dot: float16, bfloat16, int8, float32 in all precisions", MODES)
def dots() -> str | None:
    a, b, out = torch.randn(16, 32), torch.randn(32, 16), torch.zeros(16, 16)
    missing = []
    errors = {None: 1e-5, "ieee": 1e-5, "tf32x3": 1e-4, "tf32": 2e-2, "bf16x3": 1e-3, "bf16x6": 1e-4}
    for precision, error in errors.items():
        try:
            product[(1,)](a, b, out, M=16, K=32, PRECISION=precision)
        except Exception as refusal:
            reason = f"{refusal} {refusal.__cause__}"
            if "input_precision must be one of" not in reason or not str(precision).startswith("bf16"):
                raise
            missing.append(precision)
            continue
        torch.testing.assert_close(out, a @ b, rtol=error, atol=error * 4)
    for dtype in (torch.float16, torch.bfloat16):
        product[(1,)](a.to(dtype), b.to(dtype), out, M=16, K=32, PRECISION=None)
        torch.testing.assert_close(out, a.to(dtype).float() @ b.to(dtype).float(), rtol=1e-4, atol=1e-4)
    x, y = torch.randint(-128, 128, (16, 32), dtype=torch.int8), torch.randint(-128, 128, (32, 16), dtype=torch.int8)
    whole = torch.zeros(16, 16, dtype=torch.int32)
    product[(1,)](x, y, whole, M=16, K=32, PRECISION=None)
    assert torch.equal(whole, x.int() @ y.int())
    return f"no {' and '.join(missing)}" if missing else None


@triton.jit
def scaled_product(a, sa, b, sb, out, M: tl.constexpr, K: tl.constexpr):
    i, k, s = tl.arange(0, M), tl.arange(0, K), tl.arange(0, K // 32)
    x, y = tl.load(a + i[:, None] * K + k[None, :]), tl.load(b + k[:, None] * M + i[None, :])
    xs, ys = tl.load(sa + i[:, None] * (K // 32) + s[None, :]), tl.load(sb + i[:, None] * (K // 32) + s[None, :])
    tl.store(out + i[:, None] * M + i[None, :], tl.dot_scaled(x, xs, "e4m3", y, ys, "e4m3"))


@feature("dot_scaled", MODES)
def scaled() -> None:
    a, b = torch.randn(32, 64).to(torch.float8_e4m3fn), torch.randn(64, 32).to(torch.float8_e4m3fn)
    sa, sb = torch.randint(125, 130, (32, 2), dtype=torch.uint8), torch.randint(125, 130, (32, 2), dtype=torch.uint8)
    out = torch.zeros(32, 32)
    scaled_product[(1,)](a, sa, b, sb, out, M=32, K=64)
    left = a.float() * (sa.float() - 127).exp2().repeat_interleave(32, 1)
    right = b.float() * (sb.float() - 127).exp2().repeat_interleave(32, 1).T
    torch.testing.assert_close(out, left @ right, rtol=1e-4, atol=1e-3)


@triton.jit
def small_floats(x, y, out, same, N: tl.constexpr):
    i = tl.arange(0, N)
    v = tl.load(x + i).to(y.dtype.element_ty)
    tl.store(y + i, v)
    tl.store(out + i, v.to(tl.float32))
    tl.store(same + i, (v.to(tl.float32) == tl.load(y + i).to(tl.float32)).to(tl.int8))


@feature("float8", MODES)
def float8() -> None:
    x = torch.randn(32)
    for dtype in (torch.float8_e4m3fn, torch.float8_e5m2):
        y, out, same = torch.zeros(32, dtype=dtype), torch.zeros(32), torch.zeros(32, dtype=torch.int8)
        small_floats[(1,)](x, y, out, same, N=32)
        torch.testing.assert_close(out, x.to(dtype).float())
        torch.testing.assert_close(y.float(), out)
        assert same.all()


@triton.jit
def block_pointers(a, out, m, n, M: tl.constexpr, N: tl.constexpr):
    source = tl.make_block_ptr(a, (m, n), (n, 1), (0, 0), (M, N), (1, 0))
    target = tl.make_block_ptr(out, (m, n), (n, 1), (0, 0), (M, N), (1, 0))
    for _ in range(0, n, N):
        v = tl.load(source, boundary_check=(0, 1), padding_option="zero")
        tl.store(target, v + 1, boundary_check=(0, 1))
        source, target = tl.advance(source, (0, N)), tl.advance(target, (0, N))


@feature("block pointers", MODES)
def block_pointer() -> None:
    a, out = torch.randn(13, 21), torch.zeros(13, 21)
    try:
        block_pointers[(1,)](a, out, 13, 21, M=16, N=8)
    except Exception as refusal:
        if "have been removed" not in str(refusal):
            raise
        raise Absent("`tl.make_block_ptr` was removed") from None
    torch.testing.assert_close(out, a + 1)


@triton.jit
def described(a, out, M: tl.constexpr, N: tl.constexpr):
    column = tl.program_id(0) * N
    out.store([0, column], a.load([0, column]) + 1)


@feature("descriptors made by the host", MODES)
def host_descriptors() -> None:
    try:
        from triton.tools.tensor_descriptor import TensorDescriptor
    except ImportError:
        raise Absent("no `TensorDescriptor`") from None
    a, out = torch.randn(13, 20), torch.zeros(13, 20)
    views = [TensorDescriptor.from_tensor(each, [16, 8]) for each in (a, out)]
    described[(3,)](*views, M=16, N=8)
    torch.testing.assert_close(out, a + 1)


@triton.jit
def describing(a, out, m, n, M: tl.constexpr, N: tl.constexpr, MAKE: tl.constexpr):
    source = MAKE(a, shape=[m, n], strides=[n, 1], block_shape=[M, N])
    target = MAKE(out, shape=[m, n], strides=[n, 1], block_shape=[M, N])
    column = tl.program_id(0) * N
    target.store([0, column], source.load([0, column]) + 1)


@feature("descriptors made by kernels", MODES)
def device_descriptors() -> str | None:
    older = "_experimental_make_tensor_descriptor"
    name = "make_tensor_descriptor" if hasattr(tl, "make_tensor_descriptor") else older
    a, out = torch.randn(13, 20), torch.zeros(13, 20)
    describing[(3,)](a, out, 13, 20, M=16, N=8, MAKE=getattr(tl, name))
    torch.testing.assert_close(out, a + 1)
    return f"`tl.{older}`" if name == older else None

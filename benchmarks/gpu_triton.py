"""Provides Triton kernels for benchmarks/gpu.py: common ones, each in a few configurations of which the
fastest is measured."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
import triton
import triton.language as tl


@triton.jit
def matmul(a, b, c, M, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr, GROUP: tl.constexpr):
    pid = tl.program_id(0)
    rows, columns = tl.cdiv(M, BM), tl.cdiv(N, BN)
    first = pid // (GROUP * columns) * GROUP
    height = min(rows - first, GROUP)
    inside = pid % (GROUP * columns)
    rm = (first + inside % height) * BM + tl.arange(0, BM)
    rn = inside // height * BN + tl.arange(0, BN)
    rk = tl.arange(0, BK)
    pa = a + rm[:, None] * K + rk[None, :]
    pb = b + rk[:, None] * N + rn[None, :]
    acc = tl.zeros((BM, BN), tl.float32)
    for k in range(0, tl.cdiv(K, BK)):
        x = tl.load(pa, mask=rk[None, :] < K - k * BK, other=0.0)
        y = tl.load(pb, mask=rk[:, None] < K - k * BK, other=0.0)
        acc = tl.dot(x, y, acc)
        pa += BK
        pb += BK * N
    tl.store(c + rm[:, None] * N + rn[None, :], acc.to(c.dtype.element_ty), (rm[:, None] < M) & (rn[None, :] < N))


@triton.jit
def matmul_described(a, b, c, M, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr, GROUP: tl.constexpr):
    pid = tl.program_id(0)
    rows, columns = tl.cdiv(M, BM), tl.cdiv(N, BN)
    first = pid // (GROUP * columns) * GROUP
    height = min(rows - first, GROUP)
    inside = pid % (GROUP * columns)
    m, n = (first + inside % height) * BM, inside // height * BN
    acc = tl.zeros((BM, BN), tl.float32)
    for k in range(0, K, BK):
        acc = tl.dot(a.load([m, k]), b.load([k, n]), acc)
    c.store([m, n], acc.to(c.dtype))


@triton.jit
def attention(q, k, v, o, T, scale, CAUSAL: tl.constexpr, BQ: tl.constexpr, BK: tl.constexpr, D: tl.constexpr):
    block, head = tl.program_id(0) * BQ, tl.program_id(1) * T
    rq = block + tl.arange(0, BQ)
    d = tl.arange(0, D)
    qt = tl.load(q + (head + rq)[:, None] * D + d[None, :])
    top = tl.full((BQ,), -float("inf"), tl.float32)
    den = tl.zeros((BQ,), tl.float32)
    acc = tl.zeros((BQ, D), tl.float32)
    end = block + BQ if CAUSAL else T
    for j in range(0, end, BK):
        rk = j + tl.arange(0, BK)
        kt = tl.load(k + (head + rk)[None, :] * D + d[:, None])
        s = tl.dot(qt, kt) * scale
        if CAUSAL:
            s = tl.where(rq[:, None] >= rk[None, :], s, -1.0e30)
        new = tl.maximum(top, tl.max(s, 1))
        alpha = tl.exp2(top - new)
        p = tl.exp2(s - new[:, None])
        den = den * alpha + tl.sum(p, 1)
        vt = tl.load(v + (head + rk)[:, None] * D + d[None, :])
        acc = tl.dot(p.to(vt.dtype), vt, acc * alpha[:, None])
        top = new
    tl.store(o + (head + rq)[:, None] * D + d[None, :], (acc / den[:, None]).to(o.dtype.element_ty))


@triton.jit
def softmax(x, o, n, BLOCK: tl.constexpr):
    row, column = tl.program_id(0), tl.arange(0, BLOCK)
    value = tl.load(x + row * n + column, column < n, other=-float("inf")).to(tl.float32)
    power = tl.exp(value - tl.max(value, 0))
    tl.store(o + row * n + column, (power / tl.sum(power, 0)).to(o.dtype.element_ty), column < n)


@triton.jit
def layer_norm(x, w, b, o, n, eps, BLOCK: tl.constexpr):
    row, column = tl.program_id(0), tl.arange(0, BLOCK)
    mask = column < n
    value = tl.load(x + row * n + column, mask, other=0.0).to(tl.float32)
    centred = tl.where(mask, value - tl.sum(value, 0) / n, 0.0)
    scale = tl.rsqrt(tl.sum(centred * centred, 0) / n + eps)
    weight = tl.load(w + column, mask, other=0.0).to(tl.float32)
    bias = tl.load(b + column, mask, other=0.0).to(tl.float32)
    tl.store(o + row * n + column, (centred * scale * weight + bias).to(o.dtype.element_ty), mask)


Candidates = dict[str, Callable[[int], Any]]


def _descriptor() -> Any:
    """Returns the class of descriptors; None for devices and versions of Triton that have none."""
    try:
        from triton.tools.tensor_descriptor import TensorDescriptor
    except ImportError:
        return None
    return TensorDescriptor if torch.cuda.get_device_capability()[0] >= 9 else None


def matmuls(sets: list[list[Any]]) -> Candidates:
    """Returns candidates for sets of (a, b, c)."""
    (m, k), n = sets[0][0].shape, sets[0][1].shape[1]
    found: Candidates = {}
    descriptor = _descriptor()
    for bm, bn, bk, warps, stages in ((128, 256, 64, 8, 3), (128, 256, 64, 8, 4), (128, 128, 64, 4, 4), (128, 128, 64, 8, 4)):
        tiles = (triton.cdiv(m, bm) * triton.cdiv(n, bn),)
        blocks = {"BM": bm, "BN": bn, "BK": bk, "GROUP": 8, "num_warps": warps, "num_stages": stages}
        label = f"{bm}x{bn}x{bk}, {warps} warps, {stages} stages"

        def plain(number: int, tiles: Any = tiles, blocks: Any = blocks) -> Any:
            a, b, c = sets[number]
            matmul[tiles](a, b, c, m, n, k, **blocks)
            return c

        found[label] = plain
        if descriptor is not None:
            made = [
                [descriptor.from_tensor(t, list(s)) for t, s in zip(each, ((bm, bk), (bk, bn), (bm, bn)), strict=True)]
                for each in sets
            ]

            def described(number: int, tiles: Any = tiles, blocks: Any = blocks, made: Any = made) -> Any:
                matmul_described[tiles](*made[number], m, n, k, **blocks)
                return sets[number][2]

            found[f"{label}, descriptors"] = described
    return found


def attentions(sets: list[list[Any]], scale: float, causal: bool) -> Candidates:
    """Returns candidates for sets of (q, k, v, o), each (heads, length, width)."""
    heads, length, width = sets[0][0].shape
    found: Candidates = {}
    for bq, bk, warps, stages in ((128, 64, 8, 3), (128, 64, 4, 3), (128, 128, 8, 2), (128, 128, 8, 3), (64, 64, 4, 3)):
        blocks = {"CAUSAL": causal, "BQ": bq, "BK": bk, "D": width, "num_warps": warps, "num_stages": stages}

        def call(number: int, blocks: Any = blocks, grid: Any = (length // bq, heads)) -> Any:
            q, k, v, o = sets[number]
            attention[grid](q, k, v, o, length, scale * 1.4426950408889634, **blocks)
            return o

        found[f"{bq}x{bk}, {warps} warps, {stages} stages"] = call
    return found


def rows(kernel: Any, sets: list[list[Any]], *scalars: Any) -> Candidates:
    """Returns candidates for sets of arguments, of which the first is (rows, columns) and the last the result."""
    count, columns = sets[0][0].shape
    found: Candidates = {}
    for warps in (4, 8, 16):

        def call(number: int, warps: int = warps) -> Any:
            block = triton.next_power_of_2(columns)
            kernel[(count,)](*sets[number], columns, *scalars, BLOCK=block, num_warps=warps)
            return sets[number][-1]

        found[f"{warps} warps"] = call
    return found

"""Contains the block kernels of the benchmarks as Triton source, and prints their texts.

    python benchmarks/triton_kernels.py        # needs triton 3.9 and torch; writes benchmarks/kernels/*.ttir

The texts are what Triton prints for a compile to sm_80, which needs no GPU. joinery reads the texts; Triton's interpreter mode
runs the sources (`triton_interpreter.py`).
"""

from __future__ import annotations

import re
from pathlib import Path

import triton
import triton.language as tl

LOCATION = re.compile(r' loc\((?:[^()"]|"[^"]*"|\([^()]*\))*\)')
KERNELS = Path(__file__).resolve().parent / "kernels"


@triton.jit
def vec_add(x, y, o, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = at < n
    tl.store(o + at, tl.load(x + at, mask) + tl.load(y + at, mask), mask)


@triton.jit
def softmax(x, o, n, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    column = tl.arange(0, BLOCK)
    mask = column < n
    value = tl.load(x + row * n + column, mask, other=-float("inf"))
    power = tl.exp(value - tl.max(value, 0))
    tl.store(o + row * n + column, power / tl.sum(power, 0), mask)


@triton.jit
def layer_norm(x, w, b, o, n, eps, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    column = tl.arange(0, BLOCK)
    mask = column < n
    value = tl.load(x + row * n + column, mask, other=0.0)
    mean = tl.sum(value, 0) / n
    centred = tl.where(mask, value - mean, 0.0)
    scale = tl.rsqrt(tl.sum(centred * centred, 0) / n + eps)
    weight = tl.load(w + column, mask, other=0.0)
    bias = tl.load(b + column, mask, other=0.0)
    tl.store(o + row * n + column, centred * scale * weight + bias, mask)


@triton.jit
def layer_norm_passes(y, x, w, b, n, eps, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    column = tl.arange(0, BLOCK)
    x += row * n
    y += row * n
    total = tl.zeros((BLOCK,), tl.float32)
    for o in range(0, n, BLOCK):
        total += tl.load(x + o + column, mask=o + column < n, other=0.0)
    mean = tl.sum(total, 0) / n
    squares = tl.zeros((BLOCK,), tl.float32)
    for o in range(0, n, BLOCK):
        d = tl.where(o + column < n, tl.load(x + o + column, mask=o + column < n, other=0.0) - mean, 0.0)
        squares += d * d
    scale = 1 / tl.sqrt(tl.sum(squares, 0) / n + eps)
    for o in range(0, n, BLOCK):
        mask = o + column < n
        value = (tl.load(x + o + column, mask=mask, other=0.0) - mean) * scale
        value = value * tl.load(w + o + column, mask=mask, other=0.0) + tl.load(b + o + column, mask=mask, other=0.0)
        tl.store(y + o + column, value, mask=mask)


@triton.jit
def matmul(a, b, c, M, N, K, sam, sbk, scm, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr, GROUP: tl.constexpr):
    program = tl.program_id(0)
    rows, columns = tl.cdiv(M, BM), tl.cdiv(N, BN)
    group = program // (GROUP * columns)
    first = group * GROUP
    size = min(rows - first, GROUP)
    im = first + (program % (GROUP * columns)) % size
    jn = (program % (GROUP * columns)) // size
    rm = (im * BM + tl.arange(0, BM)) % M
    rn = (jn * BN + tl.arange(0, BN)) % N
    rk = tl.arange(0, BK)
    pa = a + rm[:, None] * sam + rk[None, :]
    pb = b + rk[:, None] * sbk + rn[None, :]
    acc = tl.zeros((BM, BN), tl.float32)
    for k in range(0, tl.cdiv(K, BK)):
        x = tl.load(pa, mask=rk[None, :] < K - k * BK, other=0.0)
        y = tl.load(pb, mask=rk[:, None] < K - k * BK, other=0.0)
        acc = tl.dot(x, y, acc, input_precision="ieee")
        pa += BK
        pb += BK * sbk
    om = im * BM + tl.arange(0, BM)
    on = jn * BN + tl.arange(0, BN)
    tl.store(c + om[:, None] * scm + on[None, :], acc, (om[:, None] < M) & (on[None, :] < N))


@triton.jit
def matmul_masked(a, b, c, M, N, K, sam, sbk, scm, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    rm = tl.program_id(0) * BM + tl.arange(0, BM)
    rn = tl.program_id(1) * BN + tl.arange(0, BN)
    rk = tl.arange(0, BK)
    pa = a + rm[:, None] * sam + rk[None, :]
    pb = b + rk[:, None] * sbk + rn[None, :]
    acc = tl.zeros((BM, BN), tl.float32)
    left = K
    for _ in range(0, tl.cdiv(K, BK)):
        x = tl.load(pa, mask=(rm[:, None] < M) & (rk[None, :] < left), other=0.0)
        y = tl.load(pb, mask=(rk[:, None] < left) & (rn[None, :] < N), other=0.0)
        acc = tl.dot(x, y, acc, input_precision="ieee")
        pa += BK
        pb += BK * sbk
        left -= BK
    tl.store(c + rm[:, None] * scm + rn[None, :], acc, (rm[:, None] < M) & (rn[None, :] < N))


@triton.jit
def attention(q, k, v, o, T, scale, sh, st, BQ: tl.constexpr, BK: tl.constexpr, D: tl.constexpr):
    rq = tl.program_id(0) * BQ + tl.arange(0, BQ)
    d = tl.arange(0, D)
    base = tl.program_id(1) * sh
    qt = tl.load(q + base + rq[:, None] * st + d[None, :], rq[:, None] < T, other=0.0)
    top = tl.full((BQ,), -float("inf"), tl.float32)
    den = tl.zeros((BQ,), tl.float32)
    acc = tl.zeros((BQ, D), tl.float32)
    s2 = scale * 1.44269504
    for j in range(0, T, BK):
        rk = j + tl.arange(0, BK)
        kt = tl.load(k + base + rk[None, :] * st + d[:, None], rk[None, :] < T, other=0.0)
        s = tl.dot(qt, kt, input_precision="ieee") * s2
        s = tl.where(rk[None, :] < T, s, -1.0e30)
        new = tl.maximum(top, tl.max(s, 1))
        alpha = tl.exp2(top - new)
        p = tl.exp2(s - new[:, None])
        den = den * alpha + tl.sum(p, 1)
        vt = tl.load(v + base + rk[:, None] * st + d[None, :], rk[:, None] < T, other=0.0)
        acc = tl.dot(p, vt, acc * alpha[:, None], input_precision="ieee")
        top = new
    tl.store(o + base + rq[:, None] * st + d[None, :], acc / den[:, None], rq[:, None] < T)


@triton.jit
def attention_f16(q, k, v, o, T, scale, sh, st, BQ: tl.constexpr, BK: tl.constexpr, D: tl.constexpr):
    rq = tl.program_id(0) * BQ + tl.arange(0, BQ)
    d = tl.arange(0, D)
    base = tl.program_id(1) * sh
    qt = tl.load(q + base + rq[:, None] * st + d[None, :], rq[:, None] < T, other=0.0)
    top = tl.full((BQ,), -float("inf"), tl.float32)
    den = tl.zeros((BQ,), tl.float32)
    acc = tl.zeros((BQ, D), tl.float32)
    s2 = scale * 1.44269504
    for j in range(0, T, BK):
        rk = j + tl.arange(0, BK)
        kt = tl.load(k + base + rk[None, :] * st + d[:, None], rk[None, :] < T, other=0.0)
        s = tl.dot(qt, kt) * s2
        s = tl.where(rk[None, :] < T, s, -1.0e30)
        new = tl.maximum(top, tl.max(s, 1))
        alpha = tl.exp2(top - new)
        p = tl.exp2(s - new[:, None])
        den = den * alpha + tl.sum(p, 1)
        vt = tl.load(v + base + rk[:, None] * st + d[None, :], rk[:, None] < T, other=0.0)
        acc = tl.dot(p.to(tl.float16), vt, acc * alpha[:, None])
        top = new
    tl.store(o + base + rq[:, None] * st + d[None, :], (acc / den[:, None]).to(tl.float16), rq[:, None] < T)


POINTERS, SIZES = "xyowbacqkv", ("n", "M", "N", "K", "T", "sam", "sbk", "scm", "sh", "st")
TEXTS = {
    "vec_add": (vec_add, {"BLOCK": 1024}),
    "softmax": (softmax, {"BLOCK": 4096}),
    "layer_norm": (layer_norm, {"BLOCK": 4096}),
    "layer_norm_passes": (layer_norm_passes, {"BLOCK": 1024}),
    "matmul": (matmul, {"BM": 128, "BN": 128, "BK": 32, "GROUP": 8}),
    "matmul_masked": (matmul_masked, {"BM": 128, "BN": 128, "BK": 32}),
    "attention": (attention, {"BQ": 64, "BK": 64, "D": 64}),
}
GPU_TEXTS = {
    "gpu_softmax": (softmax, {"BLOCK": 4096}, "*fp32"),
    "gpu_layer_norm": (layer_norm, {"BLOCK": 4096}, "*fp32"),
    "gpu_vec_add": (vec_add, {"BLOCK": 1024}, "*fp32"),
    "gpu_matmul_f16": (matmul_masked, {"BM": 128, "BN": 128, "BK": 64}, "*fp16"),
    "gpu_attention_f16": (attention_f16, {"BQ": 64, "BK": 64, "D": 64}, "*fp16"),
}
"""Kernels for code that is inspected without being run: integers are multiples of 16 too, as Triton finds
them at a launch."""


def main() -> None:
    from triton.backends.compiler import GPUTarget

    KERNELS.mkdir(exist_ok=True)
    plain = {name: (*entry, "*fp32") for name, entry in TEXTS.items()}
    for name, (kernel, constants, pointer) in {**plain, **GPU_TEXTS}.items():
        signature = {
            argument: "constexpr" if argument in constants else "i32" if argument in SIZES
            else "fp32" if argument in ("eps", "scale") else "*fp32" if argument == "c" else pointer
            for argument in kernel.arg_names
        }  # fmt: skip
        kinds = ("*",) if name in TEXTS else ("*", "i32")
        aligned = {
            (i,): [["tt.divisibility", 16]] for i, a in enumerate(kernel.arg_names) if signature[a].startswith(kinds)
        }
        values = {(kernel.arg_names.index(argument),): value for argument, value in constants.items()}
        source = triton.compiler.ASTSource(fn=kernel, signature=signature, constexprs=values, attrs=aligned)
        text = triton.compile(source, target=GPUTarget("cuda", 80, 32)).asm["ttir"]
        lines = [line for line in text.splitlines() if not line.startswith("#loc")]
        (KERNELS / f"{name}.ttir").write_text(LOCATION.sub("", "\n".join(lines)) + "\n")
        print(name, len(lines), "lines")


if __name__ == "__main__":
    main()

"""More kernels as Triton 3.9 printed them (locations left out), against NumPy: memory that is overwritten in place, carried
blocks, locks, tables of pointers, calls, descriptors; and those of `numpy_user_cases`. Names that end in `_raw` are texts
before any pass."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import joinery as jn
import numpy as np
import pytest

from . import numpy_user_cases  # noqa: F401  (registers its cases)
from .numpy_cases import BF16, CASES, F8, F32, F64, I32, case, normal, small, zeros

ROOT = Path(__file__).resolve().parents[1] / "data" / "ttir_numpy"


@case((3, 3))
def transpose_in_place(rng: Any) -> Any:
    x = normal(rng, 37, 37)
    return [x, 37], [x.T, None]


@case(1)
def topk_flip_histogram_gather(rng: Any) -> Any:
    x, at = normal(rng, 128), rng.integers(0, 16, 128).astype(I32)
    rows = np.take_along_axis(x.reshape(8, 16), at.reshape(8, 16), 1)
    moved = np.concatenate([x[::-1], x[(at * 7 + np.arange(128)) % 128], rows.ravel()])
    best, counts = np.sort(x)[::-1][:8], np.bincount(at[:123], minlength=16).astype(I32)
    return [x, zeros(8), zeros(384), at, zeros(16, dtype=I32)], [None, best, moved, None, counts]


@case(1)
def reduce_with_branches_raw(rng: Any) -> Any:
    x = rng.permutation(np.arange(-60, 68)).astype(F32)
    rows = x.reshape(16, 8)
    values = np.concatenate([[x[np.argmax(np.abs(x))], x.max()], rows.max(1)])
    places = np.concatenate([[x.argmax(), 0], rows.argmax(1)])
    return [x, zeros(18), zeros(18, dtype=I32)], [None, values, places]


@case(5, 1e-4)
def welford_partial(rng: Any) -> Any:
    x = normal(rng, 5, 333)
    return [x, zeros(5, 3), 333], [None, np.stack([x.mean(1), x.var(1), np.full(5, 333)], 1), None]


@case(1, 1e-4)
def recurrence_reversed(rng: Any) -> Any:
    a, b = normal(rng, 16, 32) / 3, normal(rng, 16, 32)
    out = b.astype(F64)
    for i in reversed(range(15)):
        out[i] += a[i] * out[i + 1]
    return [a, b, zeros(16, 32)], [None, None, out]


@case(8)
def decoupled_lookback(rng: Any) -> Any:
    x = rng.integers(-9, 9, 500).astype(I32)
    sums = np.concatenate([x, np.zeros(12, I32)]).reshape(8, 64).sum(1)
    arguments = [x, zeros(500, dtype=I32), *(zeros(8, dtype=I32) for _ in range(3)), 500]
    return arguments, [None, x.cumsum(), np.full(8, 2), sums, sums.cumsum(), None]


@case(9)
def spin_lock_rows(rng: Any) -> Any:
    x = rng.integers(0, 99, (9, 32)).astype(I32)
    return [zeros(1, dtype=I32), zeros(33, dtype=I32), x, 1], [None, np.append(x.sum(0), 9), None, None]


@case(4, 1e-4)
def grouped_matmul(rng: Any) -> Any:
    sizes = [(20, 30, 40), (5, 50, 17), (33, 16, 16), (0, 4, 4), (16, 16, 0)]
    left = [normal(rng, max(m * k, 1)) for m, _, k in sizes]
    right = [normal(rng, max(k * n, 1)) for _, n, k in sizes]
    out = [np.full(max(m * n, 1), 7, F32) for m, n, _ in sizes]
    products = [
        (a[: m * k].reshape(m, k) @ b[: k * n].reshape(k, n)).ravel() if m * n else o
        for a, b, o, (m, n, k) in zip(left, right, out, sizes, strict=True)
    ]
    tables = [jn.PointerTable(arrays) for arrays in (left, right, out)]
    return [*tables, np.array(sizes, I32), 5], [left, right, products, None, None]


@case(3, 2e-2)
def matmul_strided_bf16(rng: Any) -> Any:
    a, b = normal(rng, 90, 75).astype(BF16), normal(rng, 90, 53).astype(BF16)  # a is read by columns
    c = a.astype(F64).T @ b.astype(F64)
    return [a, b, zeros(75, 53), 75, 53, 90, 1, 75, 53, 1, 53], [None, None, np.where(c >= 0, c, c * 0.01), *[None] * 8]


def softmax(scores: Any) -> tuple[Any, Any]:
    """The rows' softmax and the logarithms of their sums."""
    top = scores.max(-1, keepdims=True)
    power = np.exp(scores - top)
    total = power.sum(-1, keepdims=True)
    return power / total, (top + np.log(total))[..., 0]


@case((2, 4, 2), 2e-2)
def attention_gqa_causal(rng: Any) -> Any:
    q, bias = normal(rng, 2, 4, 50, 32).astype(np.float16), normal(rng, 4, 50, 50)
    k, v = (normal(rng, 2, 2, 50, 32).astype(np.float16) for _ in range(2))
    keys, values = (np.repeat(each.astype(F64), 2, 1) for each in (k, v))
    scores = q.astype(F64) @ keys.swapaxes(-1, -2) * 32**-0.5
    share, lse = softmax(np.where(np.tri(50, dtype=bool), scores, -np.inf))
    out = zeros(2, 4, 50, 32, dtype=np.float16)
    return [q, k, v, bias, out, zeros(2, 4, 50), 4, 2, 50, 32**-0.5], [*[None] * 4, share @ values, lse, *[None] * 4]


@case((2, 2), 1e-3)
def attention_backward(rng: Any) -> Any:
    q, k, v, do = (normal(rng, 2, 53, 32) for _ in range(4))
    scale = 32**-0.5
    share, lse = softmax(np.where(np.tri(53, dtype=bool), q.astype(F64) @ k.swapaxes(1, 2) * scale, -np.inf))
    delta = ((share @ v) * do).sum(-1)
    inner = share * (do @ v.swapaxes(1, 2) - delta[..., None]) * scale
    results = [inner @ k, inner.swapaxes(1, 2) @ q, share.swapaxes(1, 2) @ do]
    arguments = [q, k, v, do, lse.astype(F32), delta.astype(F32), *(zeros(2, 53, 32) for _ in range(3)), 53, scale]
    return arguments, [*[None] * 6, *results, None, None]


@case(1)
def dot_after_overwrite(rng: Any) -> Any:
    x, y = small(rng, 32, 32), small(rng, 32, 32)
    product = x.T @ y
    return [x, y], [product + x.T, product]


@case(1)
def matrix_power(rng: Any) -> Any:
    x, w = small(rng, 16, 16), small(rng, 16, 16)
    return [x, w, zeros(2, 16, 16), 3], [None, None, np.stack([x @ w @ w @ w, w]), None]


@case(1)
def dot_transposed_carry(rng: Any) -> Any:
    x, w = small(rng, 16, 16), small(rng, 16, 16)
    a = x
    for _ in range(3):
        a = a.T @ w + a
    return [x, w, zeros(2, 16, 16), 3], [None, None, np.stack([a, w]), None]


@case(1)
def triangle_transposed(rng: Any) -> Any:
    x = small(rng, 32, 32)
    upper = np.where(np.tri(32, dtype=bool).T, x, -1).T
    return [x, zeros(2, 32, 32), 19], [None, np.stack([upper, upper + np.where(np.tri(32, dtype=bool).T, x.T, 3)]), None]


@case(6, 1e-4)
def cross_entropy_two_pass(rng: Any) -> Any:
    x, labels = normal(rng, 6, 150), np.array([3, -100, 149, 0, 64, -100])
    share, lse = softmax(x.astype(F64))
    kept, hot = (labels >= 0)[:, None], np.eye(150)[labels * (labels >= 0)]
    gradient = np.where(kept, share - 0.1 / 150 - 0.9 * hot, 0)
    loss = np.where(kept[:, 0], (lse - (x * hot).sum(1)) * 0.9 + 0.1 * (lse - x.mean(1)), 0)
    return [x, labels, zeros(6), zeros(6, 150), 150, -100, 0.1], [None, None, loss, gradient, *[None] * 3]


def philox(seed: int, offsets: Any, rounds: int) -> list[Any]:
    """Philox 4 × 32 (J. K. Salmon et al., SC 2011)."""
    low, half = np.uint64(0xFFFFFFFF), np.uint64(32)
    counter = [offsets.astype(np.uint64), *(np.zeros(offsets.shape, np.uint64) for _ in range(3))]
    keys = [seed & 0xFFFFFFFF, seed >> 32]
    for _ in range(rounds):
        first, second = np.uint64(0xD2511F53) * counter[0], np.uint64(0xCD9E8D57) * counter[2]
        counter = [
            *((second >> half) ^ counter[1] ^ np.uint64(keys[0]), second & low),
            *((first >> half) ^ counter[3] ^ np.uint64(keys[1]), first & low),
        ]
        keys = [(keys[0] + 0x9E3779B9) & 0xFFFFFFFF, (keys[1] + 0xBB67AE85) & 0xFFFFFFFF]
    return [word.astype(np.uint32).view(I32) for word in counter]


@case(4, 1e-5)
def philox_streams(rng: Any) -> Any:
    seed = 0x123456789ABCDEF
    words, few = philox(seed, np.arange(256), 10), philox(seed, np.arange(256), 7)
    uniform = [np.where(word < 0, -word.astype(np.int64) - 1, word) * 4.6566127342e-10 for word in words]
    normals = np.sqrt(-2 * np.log(np.maximum(1e-7, uniform[0]))) * np.cos(2 * np.pi * uniform[1])
    out = np.concatenate([uniform[0], normals])
    arguments = [zeros(512), zeros(256, dtype=I32), zeros(256, dtype=I32), seed]
    return arguments, [out, words[0], few[0] ^ few[1] ^ few[2] ^ few[3], None]


@case(1, 1e-4)
def noinline_raw(rng: Any) -> Any:
    x = normal(rng, 60)
    power = np.ones(60)
    for i in range(3):
        power = power * x + i
    return [x, zeros(60), 60, 3], [None, (power + x) * (power - x) + x + 3 + x * 9, None, None]


@case(1)
def loop_attributes(rng: Any) -> Any:
    """Every option of `tl.range`, and a `while`."""
    x = rng.integers(-8, 8, (3, 64)).astype(F32)
    out = 7 * x.sum(0, dtype=F64)
    for row in x:
        out = out * 0.5 + row
    return [x, zeros(64), 3], [None, out + 2 * x.sum(0) + 3, None]


@case(1)
def linked_lists(rng: Any) -> Any:
    after = np.array([-1 if k == 0 or rng.random() < 0.2 else rng.integers(0, k) for k in range(50)], I32)
    values, heads = rng.integers(-99, 99, 50), np.append(rng.integers(0, 50, 15), -1).astype(I32)
    sums = []
    for head in heads:
        total, at = 0, head
        while at >= 0:
            total, at = total + values[at], after[at]
        sums.append(total)
    return [after, values, zeros(16, dtype=np.int64), heads], [None, None, np.array(sums), None]


@case((3, 3))
def descriptor_3d_nan(rng: Any) -> Any:
    x = normal(rng, 3, 7, 12)
    padded = np.full((20, 20, 40), 7, F32)  # the kernel replaces NaN by 7
    padded[5:8, 5:12, 5:17] = x
    tiles = [padded[4 + 2 * p : 6 + 2 * p, 3 + 4 * q : 7 + 4 * q, 1:17] for p in range(3) for q in range(3)]
    return [x, zeros(9, 2, 4, 16), 3, 7, 12], [None, np.stack(tiles), *[None] * 3]


@case(2)
def descriptor_max_u32(rng: Any) -> Any:
    x, o = (rng.integers(0, 2**32, shape, np.uint32) for shape in ((27, 12), (16, 16)))
    padded = np.zeros((32, 16), np.uint32)
    padded[:27, :12] = x
    return [x, o, 27, 12], [None, np.maximum(o, padded.reshape(2, 16, 16).max(0)), None, None]


@case(4)
def dequantize_int4(rng: Any) -> Any:
    packed, scales = rng.integers(-(2**31), 2**31, 32).astype(I32), normal(rng, 8).astype(np.float16)
    i = np.arange(250)
    nibble = (packed.view(np.uint32)[i // 8] >> (i % 8 * 4).astype(np.uint32) & 15).astype(I32)
    out = np.append(np.where(nibble >= 8, nibble - 16, nibble) * scales[i // 32].astype(F32), np.zeros(6))
    return [packed, scales, zeros(256, dtype=np.float16), 250], [None, None, out, None]


@case(4)
def quantize_fp8_rows(rng: Any) -> Any:
    x = normal(rng, 4, 100).astype(BF16)
    wide = x.astype(F32)
    scales = (np.abs(wide).max(1) / F32(448)).astype(F32)
    quotients = np.clip(wide / scales[:, None], -448, 448).astype(F8)
    return [x, zeros(4, 100, dtype=F8), zeros(4), 100], [None, quotients, scales, None]


@case(1, 1e-4)
def cholesky_in_place(rng: Any) -> Any:
    root = rng.normal(0, 1, (13, 13))
    x = (root @ root.T + 13 * np.eye(13)).astype(F32)
    factor = np.linalg.cholesky(x.astype(F64))
    above = factor.T * np.diag(factor)[:, None]  # what is left of x there when its row's turn comes
    return [x, 13], [np.where(np.tri(13, dtype=bool), factor, above), None]


@case(1)
def life_in_place(rng: Any) -> Any:
    x = rng.integers(0, 2, (13, 13)).astype(I32)
    now, changes = x, []
    for _ in range(3):
        around = sum(np.roll(now, (a, b), (0, 1)) for a in (-1, 0, 1) for b in (-1, 0, 1)) - now
        after = ((around == 3) | ((now == 1) & (around == 2))).astype(I32)
        changes.append(after - now)
        now = after
    return [x, zeros(3, 13, 13, dtype=I32), 13], [now, np.stack(changes), None]


@case(7, 1e-4)
def layernorm_backward_lock_raw(rng: Any) -> Any:
    x, dy, w = normal(rng, 7, 100), normal(rng, 7, 100), normal(rng, 100)
    mean, rstd = x.mean(1), 1 / np.sqrt(x.var(1) + F32(1e-5))
    unit = (x.astype(F64) - mean[:, None]) * rstd[:, None]
    weighted = w * dy.astype(F64)
    inner = unit * (unit * weighted).mean(1, keepdims=True) + weighted.mean(1, keepdims=True)
    dw, db = (np.stack([each[g::2].sum(0) for g in range(2)]) for each in (dy * unit, dy))
    arguments = [zeros(7, 100), dy, zeros(2, 100), zeros(2, 100), x, w, mean, rstd, zeros(4, dtype=I32), 100]
    return arguments, [(weighted - inner) * rstd[:, None], None, dw, db, *[None] * 4, np.array([0, 0, 1, 1]), None]


def memory(arguments: list[Any]) -> list[np.ndarray]:
    """Copies of the arguments' arrays."""
    found = []
    for argument in arguments:
        arrays = argument.arrays if isinstance(argument, jn.PointerTable) else [argument]
        found += [array.copy() for array in arrays if isinstance(array, np.ndarray)]
    return found


def check(name: str, run: Callable[[jn.kernel.Kernel, Any, list[Any]], object]) -> None:
    grid, tolerance, make = CASES[name]
    arguments, expected = make(np.random.default_rng(11))
    wanted = []
    for argument, result in zip(arguments, expected, strict=True):
        if isinstance(argument, jn.PointerTable):
            wanted += result
        elif isinstance(argument, np.ndarray):
            wanted.append(argument.copy() if result is None else np.array(result))
    run(jn.kernel.from_ttir((ROOT / f"{name}.ttir").read_text()), grid, arguments)
    found = memory(arguments)
    assert len(found) == len(wanted)
    for one, other in zip(found, wanted, strict=True):
        one, other = one.astype(F64), other.astype(one.dtype).astype(F64)
        np.testing.assert_allclose(one, other.reshape(one.shape), rtol=tolerance, atol=tolerance)


def test_every_text_has_a_case() -> None:
    assert {path.stem for path in ROOT.glob("*.ttir")} == set(CASES)


@pytest.mark.parametrize("name", CASES)
def test_interpreted(name: str) -> None:
    check(name, lambda kernel, grid, arguments: kernel.interpret(grid, *arguments))


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("name", CASES)
def test_on_the_host(name: str, threads: int) -> None:
    check(name, lambda kernel, grid, arguments: kernel.launch(grid, *arguments, threads=threads))


@pytest.mark.parametrize("name", CASES)
def test_the_sanitizer_finds_nothing(name: str) -> None:
    def run(kernel: jn.kernel.Kernel, grid: Any, arguments: list[Any]) -> None:
        report = kernel.sanitize(grid, *arguments)
        assert report.findings == (), str(report)

    check(name, run)


@pytest.mark.parametrize("name", CASES)
def test_text_survives_printing_and_reading(name: str) -> None:
    kernel = jn.kernel.from_ttir((ROOT / f"{name}.ttir").read_text())
    assert jn.kernel.from_ttir(kernel.ttir).ttir == kernel.ttir


@pytest.mark.parametrize("target", ["sm_80", "sm_90a"])
@pytest.mark.parametrize("name", CASES)
def test_on_a_simulated_gpu(name: str, target: str) -> None:
    options = {"device": "ptxsim", "target": target, "sanitize": True}
    check(name, lambda kernel, grid, arguments: kernel.launch(grid, *arguments, **options))

"""Functions that torch's inductor compiles to Triton kernels (`cpu_backend="triton"`), beside eager torch."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F

X = torch.randn(37, 130, generator=torch.Generator().manual_seed(1))
Y = torch.randn(37, 130, generator=torch.Generator().manual_seed(2))
ROW = torch.randn(130, generator=torch.Generator().manual_seed(3))
NUMBERS = torch.randint(0, 37, (64,), generator=torch.Generator().manual_seed(4))
PICTURE = torch.randn(2, 6, 12, 12, generator=torch.Generator().manual_seed(5))

FORWARD: dict[str, Callable[[], Any]] = {
    "add": lambda: X + Y,
    "broadcast": lambda: X * ROW + 1,
    "chain": lambda: torch.tanh(torch.sigmoid(X) * Y).exp() - ROW.abs().sqrt(),
    "gelu": lambda: F.gelu(X),
    "gelu_tanh": lambda: F.gelu(X, approximate="tanh"),
    "silu": lambda: F.silu(X) * Y,
    "where": lambda: torch.where(X > Y, X, Y * 2),
    "clamp": lambda: X.clamp(-0.5, 0.5),
    "trigonometric": lambda: X.sin() + Y.cos() + X.atan2(Y),
    "erf_and_logarithms": lambda: torch.erf(X) + torch.log1p(Y.abs()) + torch.expm1(X),
    "power": lambda: X.abs() ** 1.5 + Y**2,
    "remainder": lambda: X % 0.75 + torch.fmod(Y, 0.3),
    "rounding": lambda: X.floor() + Y.ceil() + (X * 3).round() + Y.trunc(),
    "sum": lambda: X.sum(),
    "sum_of_rows": lambda: X.sum(1),
    "sum_of_columns": lambda: X.sum(0),
    "mean_and_variance": lambda: (X.mean(1), X.var(1)),
    "maximum_and_where": lambda: (X.amax(1), X.argmax(1), X.argmin(0)),
    "all_and_any": lambda: ((X > 5).any(1), (X < 9).all(0)),
    "product": lambda: (X * 0.1 + 1).prod(1),
    "softmax": lambda: X.softmax(-1),
    "log_softmax": lambda: X.log_softmax(0),
    "layer_norm": lambda: F.layer_norm(X, (130,), ROW, ROW),
    "rms_norm": lambda: F.rms_norm(X, (130,), ROW),
    "group_norm": lambda: F.group_norm(PICTURE, 3),
    "batch_norm": lambda: F.batch_norm(PICTURE, torch.zeros(6), torch.ones(6)),
    "cross_entropy": lambda: F.cross_entropy(X, NUMBERS[:37] % 130),
    "cumulative_sum": lambda: X.cumsum(1),
    "cumulative_product": lambda: (X * 0.1 + 1).cumprod(0),
    "transpose_and_cat": lambda: torch.cat([X.t().contiguous(), Y.t() + 1], 1),
    "slices_and_pad": lambda: F.pad(X[1::2, 3:-4], (2, 1), value=3.0),
    "embedding": lambda: F.embedding(NUMBERS, X),
    "gather": lambda: X.gather(0, (NUMBERS % 37).reshape(1, -1).expand(3, -1)),
    "index_put": lambda: torch.zeros(37, 130).index_put((NUMBERS,), torch.ones(64, 130), accumulate=True),
    "scatter_add": lambda: torch.zeros(40).scatter_add(0, NUMBERS, X[0, :64]),
    "one_hot": lambda: F.one_hot(NUMBERS, 37),
    "average_pool": lambda: F.avg_pool2d(PICTURE, 3, 2),
    "maximum_pool": lambda: F.max_pool2d(PICTURE, 2),
    "upsample": lambda: F.interpolate(PICTURE, scale_factor=2.0, mode="bilinear"),
    "bfloat16": lambda: (X.bfloat16() * Y.bfloat16() + 1).softmax(-1),
    "float16": lambda: F.gelu(X.half()) + Y.half(),
    "float64": lambda: (X.double().exp() + Y.double()).sum(0),
    "integers": lambda: (NUMBERS * 3 - 7) // 5 + (NUMBERS << 2) % 11,
    "bits": lambda: (NUMBERS & 12) | (NUMBERS ^ 3),
    "booleans": lambda: (X > 0) & ~(Y > 0),
    "casts": lambda: X.mul(30).to(torch.int8).to(torch.float32) + Y.to(torch.float64).to(torch.float16),
    "product_with_epilogue": lambda: F.relu(X @ Y.t() + 1),
    "attention": lambda: (X @ Y.t() / 8).softmax(-1) @ Y,
    "triangles": lambda: X.tril() + Y.triu(2),
    "flip_and_roll": lambda: X.flip(1) + Y.roll(3, 0),
    "views_of_complex": lambda: torch.view_as_real(torch.complex(X, Y)) * 2,
}  # fmt: skip

BACKWARD: dict[str, Callable[[Any], Any]] = {
    "chain": lambda x: (torch.tanh(x) * x.sigmoid()).sum(),
    "softmax": lambda x: (x.softmax(-1) * Y).sum(),
    "layer_norm": lambda x: (F.layer_norm(x, (130,), ROW, ROW) * Y).sum(),
    "gelu": lambda x: F.gelu(x).square().mean(),
    "embedding": lambda x: F.embedding(NUMBERS, x).square().sum(),
    "cross_entropy": lambda x: F.cross_entropy(x, NUMBERS[:37]),
    "cumulative_sum": lambda x: (x.cumsum(1) * Y).sum(),
    "product": lambda x: (F.relu(x @ Y.t()) ** 2).sum(),
}


@pytest.fixture(autouse=True)
def _by_triton() -> Any:
    import torch._inductor.config as config

    torch._dynamo.reset()
    # Eager torch rounds after every operation, which inductor does where it is asked to.
    options = {"compile_threads": 1, "fx_graph_cache": False, "fallback_random": True, "emulate_precision_casts": True}
    with config.patch(cpu_backend="triton", **options):
        yield


@pytest.mark.parametrize("name", FORWARD)
def test_forward(name: str) -> None:
    function = FORWARD[name]
    torch.testing.assert_close(torch.compile(function)(), function())


@pytest.mark.parametrize("name", BACKWARD)
def test_backward(name: str) -> None:
    function = BACKWARD[name]
    ours, theirs = X.clone().requires_grad_(), X.clone().requires_grad_()
    torch.compile(function)(ours).backward()
    function(theirs).backward()
    torch.testing.assert_close(ours.grad, theirs.grad, rtol=1e-4, atol=1e-5)

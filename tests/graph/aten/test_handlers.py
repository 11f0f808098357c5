"""Single operators against NumPy: ATen's rules for dtypes, axes and arguments that differ from NumPy's are written out here."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import joinery as jn
import ml_dtypes
import numpy as np
import pytest
from joinery.graph.aten.importing import import_program
from joinery.graph.aten.program import Call, Program, Ref, Source
from joinery.graph.aten.registry import HANDLERS
from joinery.graph.types import TensorType
from joinery.promotion.dtype import DType

from ...support.aten_calls import run, several

BFLOAT16 = ml_dtypes.bfloat16
RANDOM = np.random.default_rng(3)
X = RANDOM.standard_normal((3, 4)).astype(np.float32)
I = RANDOM.integers(-9, 9, (3, 4))  # noqa: E741
IMAGE = RANDOM.standard_normal((1, 1, 5, 6)).astype(np.float32)


HALF = X.astype(BFLOAT16)
WIDE = HALF.astype(np.float32)
CASES: list[tuple[str, tuple[Any, ...], dict[str, Any], Callable[[], Any]]] = [
    # numbers on the right of 16-bit floats are not rounded first
    ("mul.Tensor", (HALF, 0.3), {}, lambda: (WIDE * np.float32(0.3)).astype(BFLOAT16)),
    ("add.Tensor", (HALF, HALF), {"alpha": 0.3}, lambda: (WIDE + WIDE * np.float32(0.3)).astype(BFLOAT16)),
    ("rsub.Scalar", (X, 2), {}, lambda: np.float32(2) - X),
    ("div.Tensor", (I, 4), {}, lambda: (I / np.float32(4)).astype(np.float32)),
    ("div.Tensor_mode", (I, 4), {"rounding_mode": "floor"}, lambda: I // 4),
    ("div.Tensor_mode", (I, 4), {"rounding_mode": "trunc"}, lambda: np.trunc(I / 4).astype(np.int64)),
    ("remainder.Scalar", (I, 4), {}, lambda: I % 4),
    ("remainder.Scalar_Tensor", (7, I * 2 + 1), {}, lambda: 7 % (I * 2 + 1)),
    ("fmod.Scalar", (I, 4), {}, lambda: np.fmod(I, 4)),
    ("add.Tensor", (I.astype(np.int8), 300), {}, lambda: I.astype(np.int8) + np.int8(44)),
    ("eq.Scalar", (HALF, 0.3), {}, lambda: BFLOAT16(0.3) == HALF),
    ("logical_and.default", (I, X), {}, lambda: (I != 0) & (X != 0)),
    ("sign.default", (np.array([math.nan, -2.0, 0.0], np.float32),), {}, lambda: np.array([0, -1, 0], np.float32)),
    ("pow.Tensor_Scalar", (X, 3), {}, lambda: X * X * X),
    ("pow.Tensor_Scalar", (np.abs(X), 0.5), {}, lambda: np.sqrt(np.abs(X))),
    ("clamp.default", (I, None, 2), {}, lambda: np.minimum(I, 2)),
    ("where.self", (X > 0, X, np.array(1.0)), {}, lambda: np.where(X > 0, X, np.float32(1))),
    ("masked_fill.Scalar", (I, X > 0, -1), {}, lambda: np.where(X > 0, -1, I)),
    # no axes stand for all of them, but not in any
    ("sum.dim_IntList", (X.astype(np.float64), ()), {}, lambda: X.astype(np.float64).sum()),
    ("any.dims", (I, ()), {}, lambda: I != 0),
    ("var.correction", (X.astype(np.float64), (1,)), {}, lambda: X.astype(np.float64).var(1, ddof=1)),
    ("amax.default", (I, (-1,), True), {}, lambda: I.max(1, keepdims=True)),
    ("argmax.default", (I,), {}, lambda: np.array(I.argmax())),
    ("cumsum.default", (I > 0, 1), {}, lambda: (I > 0).cumsum(1)),
    ("linalg_vector_norm.default", (X.astype(np.float64), math.inf), {}, lambda: np.abs(X.astype(np.float64)).max()),
    # views
    ("slice.Tensor", (X, 1, -3, 2**63 - 1), {}, lambda: X[:, -3:]),
    ("slice.Tensor", (X, 0, 5, 2**63 - 1), {}, lambda: X[5:]),
    ("slice.Tensor", (X, 1, 0, 2**63 - 1, 3), {}, lambda: X[:, ::3]),
    ("select.int", (X, 1, -1), {}, lambda: X[:, -1]),
    ("slice_scatter.default", (X, X[:, :1], 1, 2, 3), {}, lambda: np.concatenate([X[:, :2], X[:, :1], X[:, 3:]], 1)),
    ("select_scatter.default", (X, X[0], 0, -1), {}, lambda: np.stack([X[0], X[1], X[0]])),
    ("constant_pad_nd.default", (X, (1, -2, 0, 1), 7.0), {}, lambda: np.pad(X[:, :2], ((0, 1), (1, 0)), constant_values=7)),
    ("repeat.default", (X, (2, 1, 2)), {}, lambda: np.tile(X, (2, 1, 2))),
    ("roll.default", (X, (1,)), {}, lambda: np.roll(X, 1)),
    ("roll.default", (X, (1, -1), (0, 1)), {}, lambda: np.roll(X, (1, -1), (0, 1))),
    ("diagonal.default", (X, 1), {}, lambda: np.diagonal(X, 1)),
    ("diagonal.default", (X, -1), {}, lambda: np.diagonal(X, -1)),
    ("unfold.default", (X, 1, 2, 2), {}, lambda: np.lib.stride_tricks.sliding_window_view(X, 2, 1)[:, ::2]),
    ("as_strided.default", (X, (2, 3), (3, 1), 4), {}, lambda: X.reshape(-1)[4:10].reshape(2, 3)),
    ("as_strided.default", (X, (2, 3), (3, 1), 4), {"order": (1, 0)}, lambda: X.T.reshape(-1)[4:10].reshape(2, 3)),
    ("as_strided.default", (X, (2, 0), (2, 5), 99), {}, lambda: np.zeros((2, 0), np.float32)),
    ("as_strided.default", (X, (2, 3, 2), (1, 4, 0), 1), {}, lambda: np.stack([X.T[1:3], X.T[1:3]], -1)),
    ("round.decimals", (X, ), {"decimals": 2}, lambda: np.round(X, 2)),
    ("round.decimals", (X * 99, ), {"decimals": -1}, lambda: np.round(X * 99, -1)),
    # positions
    ("index.Tensor", (X, (np.array([2, -1]), np.array([0, -1]))), {}, lambda: X[[2, -1], [0, -1]]),
    ("index.Tensor", (IMAGE, (np.array([0]), None, np.array([4]))), {}, lambda: IMAGE[[0], :, [4]]),
    ("index_select.default", (X, 1, np.array([3, 0])), {}, lambda: X[:, [3, 0]]),
    ("gather.default", (X, 1, np.array([[3, 0], [1, 1]])), {}, lambda: X[[[0, 0], [1, 1]], [[3, 0], [1, 1]]]),
    ("gather.default", (X[0], 0, np.zeros((2, 0), np.int64)), {}, lambda: np.zeros((2, 0), np.float32)),
    ("index_put.default", (X, (X > 0,), np.array(5, np.float32)), {}, lambda: np.where(X > 0, np.float32(5), X)),
    # made of nothing
    ("arange.start_step", (1, 2.0, 0.25), {}, lambda: np.arange(1, 2, 0.25, dtype=np.float32)),
    ("arange.start_step", (-7.9, -4.0), {"dtype": jn.int64}, lambda: np.array([-7, -6, -5])),
    ("full.default", ((2, 3), 300), {"dtype": jn.uint8}, lambda: np.full((2, 3), 44, np.uint8)),
    ("eye.m", (2, 3), {}, lambda: np.eye(2, 3, dtype=np.float32)),
    ("linspace.default", (0.0, 1.0, 5), {}, lambda: np.linspace(0, 1, 5, dtype=np.float32)),
    ("avg_pool2d.default", (IMAGE, (5, 6)), {}, lambda: IMAGE.mean((2, 3), np.float64, keepdims=True).astype(np.float32)),
    ("_adaptive_avg_pool2d.default", (IMAGE, (1, 2)), {},
     lambda: np.stack([IMAGE[..., :3].mean((2, 3)), IMAGE[..., 3:].mean((2, 3))], -1)[:, :, None]),
    ("upsample_nearest2d.vec", (IMAGE, None, (2.0, 3.0)), {}, lambda: IMAGE.repeat(2, 2).repeat(3, 3)),
]  # fmt: skip


@pytest.mark.parametrize(("op", "arguments", "options", "witness"), CASES, ids=[f"{n}-{c[0]}" for n, c in enumerate(CASES)])
def test_operators_agree_with_numpy(op: str, arguments: Any, options: Any, witness: Callable[[], Any]) -> None:
    wanted = np.asarray(witness())
    got = run(op, *arguments, dtype=DType.from_numpy(wanted.dtype), shape=wanted.shape, options=options)
    tolerance = 4 * float(np.finfo(wanted.dtype).eps) if wanted.dtype.kind == "f" else 0
    np.testing.assert_allclose(got.astype(np.float64), wanted.astype(np.float64), rtol=tolerance, atol=tolerance)


def test_addmm_rounds_once() -> None:
    a, b = (RANDOM.standard_normal((64, 64)).astype(BFLOAT16) for _ in range(2))
    bias = RANDOM.standard_normal(64).astype(BFLOAT16)
    exact = a.astype(np.float64) @ b.astype(np.float64)
    got = run("addmm.default", bias, a, b, dtype=jn.bfloat16, shape=(64, 64))
    once = (exact + bias.astype(np.float64)).astype(BFLOAT16)
    twice = (exact.astype(BFLOAT16).astype(np.float64) + bias.astype(np.float64)).astype(BFLOAT16)
    assert np.mean(got != once) < 0.01 < np.mean(twice != once)


def test_rows_of_attention_without_keys_are_zero() -> None:
    q = RANDOM.standard_normal((1, 1, 2, 4)).astype(np.float32)
    seen = np.array([[True, True], [False, False]])
    got = run("scaled_dot_product_attention.default", q, q, q, seen, dtype=jn.float32, shape=q.shape)
    assert np.isfinite(got).all()
    assert (got[0, 0, 1] == 0).all()
    assert (got[0, 0, 0] != 0).all()


def test_heads_of_queries_may_share_keys() -> None:
    q, k = (RANDOM.standard_normal((1, heads, 3, 4)).astype(np.float32) for heads in (4, 2))
    name = "scaled_dot_product_attention.default"
    shared = run(name, q, k, k, dtype=jn.float32, shape=q.shape, is_causal=True, enable_gqa=True)
    wide = np.repeat(k, 2, 1)
    np.testing.assert_allclose(shared, run(name, q, wide, wide, dtype=jn.float32, shape=q.shape, is_causal=True), rtol=1e-6)


@pytest.mark.parametrize("groups", [1, 2])
def test_transposed_convolutions_are_the_adjoint_of_convolutions(groups: int) -> None:
    """⟨conv(x), y⟩ = ⟨x, convᵀ(y)⟩ for the same kernel."""
    x = RANDOM.standard_normal((2, 4, 7, 6))
    kernel = RANDOM.standard_normal((4, 4 // groups, 3, 2))
    settings = ((2, 1), (1, 0), (1, 2))
    y = run("convolution.default", x, kernel, None, *settings, False, (0, 0), groups, dtype=jn.float64, shape=(2, 4, 4, 4))
    other = RANDOM.standard_normal(y.shape)
    back = run("convolution.default", other, kernel, None, *settings, True, (0, 0), groups, dtype=jn.float64, shape=x.shape)
    assert np.vdot(y, other) == pytest.approx(np.vdot(x, back))


def test_masks_as_indices_are_refused() -> None:
    with pytest.raises(jn.UnsupportedError, match="an index by a mask, whose size data decides"):
        run("index.Tensor", X, (X > 0,), dtype=jn.float32, shape=(3,))


@pytest.mark.parametrize(("op", "arguments", "text"), [
    ("index_put.default", (X, (np.array([0, 1, 2]), X[0] > 0), X[0]), "writing by a mask and positions"),
    ("as_strided.default", (X, (2, 3), (3, 2), X.size - 7), f"to {X.size + 1} elements of a tensor with {X.size}"),
    ("as_strided.default", (X, (1 << 13, 1 << 12), (0, 0), 0), "as_strided to 33554432 elements"),
    ("view.dtype", (X, jn.float64), "of another width"),
])  # fmt: skip
def test_what_has_no_form_is_refused(op: str, arguments: Any, text: str) -> None:
    with pytest.raises(jn.UnsupportedError, match=text):
        run(op, *arguments, dtype=jn.float32, shape=(3, 4))


def test_handlers_are_named_as_overloads() -> None:
    spaces = ("aten", "prims", "higher_order", "number", "transformers")
    assert all(len(name.split(".")) == 3 and name.split(".")[0] in spaces for name in HANDLERS)


@pytest.mark.parametrize(("stride", "padding", "dilation", "groups"), [
    ((1, 1), (0, 0), (1, 1), 1), ((2, 1), (1, 0), (1, 2), 1), ((2, 2), (1, 1), (1, 1), 4), ((3, 2), (0, 1), (1, 1), 1),
])  # fmt: skip
def test_gradients_of_convolutions_are_those_of_their_products(stride: Any, padding: Any, dilation: Any, groups: int) -> None:
    """A convolution is linear in image and in kernel: ⟨grad, conv(dx, w)⟩ = ⟨dx, grad_x⟩, and the same for the kernel."""
    x, w = RANDOM.standard_normal((2, 4, 8, 7)), RANDOM.standard_normal((4, 4 // groups, 3, 2))
    sizes = [(n + 2 * p - d * (k - 1) - 1) // s + 1
             for n, k, s, p, d in zip((8, 7), (3, 2), stride, padding, dilation, strict=True)]  # fmt: skip
    shape = (2, 4, *sizes)

    def forward(image: np.ndarray, kernel: np.ndarray) -> np.ndarray:
        settings = (None, stride, padding, dilation, False, (0, 0), groups)
        return run("convolution.default", image, kernel, *settings, dtype=jn.float64, shape=shape)

    grad = RANDOM.standard_normal(shape)
    grad_x, grad_w, grad_b = several(
        "convolution_backward.default", grad, x, w, (4,), stride, padding, dilation, False, (0, 0), groups, (True, True, True),
        results=[x, w, np.zeros(4)],
    )  # fmt: skip
    dx, dw = RANDOM.standard_normal(x.shape), RANDOM.standard_normal(w.shape)
    assert np.vdot(grad, forward(dx, w)) == pytest.approx(np.vdot(dx, grad_x))
    assert np.vdot(grad, forward(x, dw)) == pytest.approx(np.vdot(dw, grad_w))
    np.testing.assert_allclose(grad_b, grad.sum((0, 2, 3)))


def test_gradients_of_transposed_convolutions_are_those_of_their_products() -> None:
    x, w = RANDOM.standard_normal((2, 3, 5, 4)), RANDOM.standard_normal((3, 2, 4, 3))
    settings = ((2, 2), (1, 1), (1, 1), True, (0, 1), 1)
    shape = (2, 2, 10, 8)

    def forward(image: np.ndarray, kernel: np.ndarray) -> np.ndarray:
        return run("convolution.default", image, kernel, None, *settings, dtype=jn.float64, shape=shape)

    grad = RANDOM.standard_normal(shape)
    grad_x, grad_w, grad_b = several(
        "convolution_backward.default", grad, x, w, (2,), *settings, (True, True, True), results=[x, w, np.zeros(2)]
    )
    dx, dw = RANDOM.standard_normal(x.shape), RANDOM.standard_normal(w.shape)
    assert np.vdot(grad, forward(dx, w)) == pytest.approx(np.vdot(dx, grad_x))
    assert np.vdot(grad, forward(x, dw)) == pytest.approx(np.vdot(dw, grad_w))
    np.testing.assert_allclose(grad_b, grad.sum((0, 2, 3)))


def test_gradients_of_attention_are_its_slopes() -> None:
    """Against differences of the forward pass in float64, and zero for a row without keys."""
    q, k, v = (RANDOM.standard_normal((1, 2, 3, 4)) for _ in range(3))
    bias = np.where(np.array([[True, True, False], [False, False, False], [True, True, True]]), 0.0, -np.inf)
    name, rows = "_scaled_dot_product_flash_attention_for_cpu", np.zeros((1, 2, 3), np.float32)

    def forward(*operands: np.ndarray) -> list[np.ndarray]:
        masked = Ref("bias")
        sources = tuple(Source(f"x{n}", TensorType(jn.float64, q.shape)) for n in range(3))
        call = Call("node", f"aten.{name}.default", (Ref("x0"), Ref("x1"), Ref("x2")), {"attn_mask": masked},
                    (TensorType(jn.float64, q.shape), TensorType(jn.float32, rows.shape)))  # fmt: skip
        program = Program("one", (*sources, Source("bias", TensorType(jn.float64, bias.shape), bias)), (call,),
                          (("out", Ref("node", 0)), ("sums", Ref("node", 1))), {})  # fmt: skip
        return list(jn.evaluate(import_program(program), *operands))

    out, sums = forward(q, k, v)
    grad = RANDOM.standard_normal(q.shape)
    operands = {"grad": grad, "q": q, "k": k, "v": v, "out": out, "sums": sums, "bias": bias}
    sources = tuple(Source(n, TensorType(DType.from_numpy(a.dtype), a.shape)) for n, a in operands.items())
    call = Call("node", f"aten.{name}_backward.default", (*[Ref(n) for n in list(operands)[:-1]], 0.0, False),
                {"attn_mask": Ref("bias")}, (TensorType(jn.float64, q.shape),) * 3)  # fmt: skip
    outputs = tuple((f"d{n}", Ref("node", n)) for n in range(3))
    found = jn.evaluate(import_program(Program("one", sources, (call,), outputs, {})), *operands.values())
    for at in range(3):
        direction = RANDOM.standard_normal(q.shape)
        step = 1e-5
        moved = [[each + sign * step * direction if n == at else each for n, each in enumerate((q, k, v))] for sign in (1, -1)]
        slope = (np.vdot(grad, forward(*moved[0])[0]) - np.vdot(grad, forward(*moved[1])[0])) / (2 * step)
        assert np.vdot(found[at], direction) == pytest.approx(slope, rel=1e-5)  # sums of the softmax are kept in float32
    assert (found[0][0, :, 1] == 0).all()

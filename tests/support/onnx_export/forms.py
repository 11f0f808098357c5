"""Functions that the exporter may write as one node, of tensors of every number of axes, with a size that a run decides.

Each form is built twice: with the size `n` as a number, and as a name, which is then fed with several sizes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import joinery as jn
import numpy as np

F, I64 = "float32", "int64"
SIZES = (4, 1, 0)
"""What `n` is at runs; 4 where it is a number."""
_SHAPES: tuple[tuple[int | str, ...], ...] = ((), ("n",), (3, "n"), (2, 3, "n"), (2, 3, "n", 4), (2, 4, 3, "n", 2))
"""One shape of each number of axes."""


class Form(NamedTuple):
    """A function, and the dtypes and shapes of its operands."""

    name: str
    build: Callable[..., Any]
    operands: tuple[tuple[str, tuple[int | str, ...]], ...]

    @property
    def sizes(self) -> tuple[int, ...]:
        """What `n` may be. Networks over no batch and transposed convolutions of nothing end onnxruntime 1.32's process."""
        first = self.name.split()[0]
        if first in ("max_pool", "avg_pool", "lp_pool"):
            return (*SIZES, 5, 6, 7, 8)
        return SIZES[:2] if first in ("rnn", "gru", "lstm", "conv_transpose") else SIZES

    def graph(self, size: int | str) -> Any:
        """The graph of the function, whose size `n` is a number or a name."""
        types = [
            jn.TensorType(dtype, [size if axis == "n" else axis for axis in shape], f"x{number}")
            for number, (dtype, shape) in enumerate(self.operands)
        ]
        graph = jn.Graph("form", types)
        found = self.build(*graph.inputs)
        graph.output(*(found if isinstance(found, (tuple, list)) else (found,)))
        return graph

    def arrays(self, size: int, seed: int = 0) -> list[Any]:
        """Arrays of the operands: floats around 0, small integers that are not negative."""
        rng = np.random.default_rng(seed)
        found = []
        for dtype, shape in self.operands:
            sizes = [size if axis == "n" else axis for axis in shape]
            if dtype == "bool":
                found.append(rng.integers(0, 2, sizes).astype(bool))
            elif dtype.startswith("float"):
                found.append(rng.normal(size=sizes).astype(dtype))
            else:
                found.append(rng.integers(0, 3, sizes).astype(dtype))
        return found


def forms() -> Iterator[Form]:
    """Yield every form."""
    for name, build, operands in (*_unary(), *_normed(), *_spatial(), *_multiplied(), *_chosen(), *_networks()):
        yield Form(name, build, tuple(operands))


_Given = tuple[str, Callable[..., Any], Sequence[tuple[str, tuple[int | str, ...]]]]

ACTIVATIONS = (
    "relu", "leaky_relu", "elu", "selu", "celu", "softplus", "mish", "softsign", "hard_sigmoid", "hard_swish", "shrink",
    "thresholded_relu", "silu", "gelu", "sigmoid", "tan", "sinh", "cosh", "asinh", "acosh", "atanh", "erfc", "square", "rsqrt",
)  # fmt: skip
REDUCTIONS = (
    "sum", "prod", "max", "min", "argmax", "argmin", "mean", "var", "stdev", "logsumexp", "reduce_l1", "reduce_l2",
    "sum_square", "log_sum", "norm",
)  # fmt: skip
ALONG = ("cumsum", "cumprod", "cummax", "cummin", "sort", "argsort", "softmax", "logsoftmax", "hardmax", "lp_norm", "flip")


def _unary() -> Iterator[_Given]:
    for shape in _SHAPES:
        rank, x = len(shape), [(F, shape)]
        for name in ACTIVATIONS:
            yield f"{name} {rank}", getattr(jn, name), x
        yield f"clip {rank}", lambda x: jn.clip(x, -0.5, 0.5), x
        yield f"prelu {rank}", lambda x: jn.prelu(x, np.full(1, 0.1, np.float32)), x
        yield f"swiglu {rank}", jn.swiglu, x * 2
        for name in REDUCTIONS:
            function = getattr(jn, name)
            yield f"{name} {rank} all", function, x
            for axis in {0, rank - 1} - {-1} if rank else ():
                yield f"{name} {rank} {axis}", lambda x, function=function, axis=axis: function(x, axis=axis, keepdims=True), x
        if not rank:
            continue
        for name in ALONG:
            function = getattr(jn, name)
            for axis in {0, rank - 1}:
                yield f"{name} {rank} {axis}", lambda x, function=function, axis=axis: function(x, axis=axis), x
        yield f"lp_norm 1 {rank}", lambda x: jn.lp_norm(x, 1), x
        yield f"tile {rank}", lambda x, rank=rank: jn.tile(x, (2,) * rank), x
        yield f"roll {rank}", lambda x: jn.roll(x, 1, -1), x
        yield f"pad {rank}", lambda x: jn.pad(x, 1), x
        yield f"top_k {rank}", lambda x: jn.top_k(x, 1, 0), [(F, (3, *shape[1:]))]
        if rank > 1:
            yield f"tril {rank}", lambda x: (jn.tril(x, 1), jn.triu(x, -1)), x
            yield f"split {rank}", lambda x, rank=rank: jn.split(x, 2, rank - 1), [(F, (*shape[:-1], 4))]


def _normed() -> Iterator[_Given]:
    ones = np.linspace(0.5, 1.5, 4, dtype=np.float32)
    for shape in _SHAPES[1:]:
        rank, x = len(shape), [(F, (*shape[:-1], 4))]
        yield f"layer_norm {rank}", lambda x: jn.layer_norm(x, ones, ones), x
        yield f"layer_norm plain {rank}", jn.layer_norm, x
        yield f"rms_norm {rank}", lambda x: jn.rms_norm(x, ones), x
    for shape in _SHAPES[2:]:
        rank, x = len(shape), [(F, (2, 4, *shape[2:]))]
        yield f"batch_norm {rank}", lambda x: jn.batch_norm(x, ones, ones, ones, ones), x
        yield f"lrn {rank}", lambda x: jn.lrn(x, 3), x
        yield f"lrn last {rank}", lambda x: jn.lrn(x, 3, axis=-1), [(F, (*shape[:-1], 4))]
        yield f"group_norm {rank}", lambda x: jn.group_norm(x, 2, ones, ones), x
        yield f"group_norm of one {rank}", lambda x: jn.group_norm(x, 1, ones, ones), x
        yield f"group_norm of each {rank}", lambda x: jn.group_norm(x, 4, ones, ones), x
        yield f"instance_norm {rank}", lambda x: jn.instance_norm(x, ones, ones), x
        yield f"instance_norm plain {rank}", jn.instance_norm, x


def _spatial() -> Iterator[_Given]:
    for rank, space in ((1, ("n",)), (2, ("n", 6)), (2, ("n", "n")), (3, ("n", 6, 5))):
        x, name = [(F, (2, *space, 3))], f"{rank} {' '.join(map(str, space))}"
        kernel = np.linspace(-1, 1, 3 * 3**rank * 4, dtype=np.float32).reshape(*(3,) * rank, 3, 4)
        for padding in (0, 1):
            yield f"conv {name} {padding}", lambda x, k=kernel, p=padding: jn.conv(x, k, padding=p), x
            turned = kernel.reshape(*(3,) * rank, 4, 3)
            yield f"conv_transpose {name} {padding}", lambda x, k=turned, p=padding: jn.conv_transpose(x, k, 2, padding=p), x
            for pool in ("max_pool", "avg_pool", "lp_pool", "max_pool_with_indices"):
                function = getattr(jn, pool)
                for options in (dict[str, Any](), {"stride": 2}, {"dilation": 2}, {"stride": 2, "ceil_mode": True}):
                    given = {"padding": padding, **options}
                    label = f"{pool} {name} {' '.join(f'{key}={value}' for key, value in given.items())}"
                    yield label, lambda x, function=function, given=given: function(x, 2 + given["padding"], **given), x
                if pool == "avg_pool":
                    yield f"{pool} {name} elements {padding}", lambda x, p=padding: jn.avg_pool(x, 3, 2, padding=p,
                                                                                               count_boundary=False), x
        axes = tuple(range(1, rank + 1))
        for mode in ("linear", "nearest", "cubic"):
            yield f"resize {name} {mode}", lambda x, mode=mode, axes=axes: jn.resize(x, scale=2.0, axes=axes, mode=mode), x
    for shape in _SHAPES[3:]:
        for mode in ("linear", "nearest", "cubic"):
            for axes in ((len(shape) - 1,), tuple(range(2, len(shape)))):
                label = f"resize first {len(shape)} {mode} {len(axes)}"
                given = {"scale": 2.0, "axes": axes, "mode": mode}
                yield label, lambda x, given=given: jn.resize(x, **given), [(F, (2, 3, *shape[2:]))]
    for mode in ("linear", "nearest", "cubic"):
        points = [(F, (2, 5, 6, 3)), (F, (2, "n", 4, 2))]
        yield f"grid_sample {mode}", lambda x, g, mode=mode: jn.grid_sample(x, g, mode), points
    images = [(F, (2, 5, 6, 3)), (F, ("n", 4)), (I64, ("n",))]
    for mode in ("avg", "max"):
        yield f"roi_align {mode}", lambda x, r, b, mode=mode: jn.roi_align(x, r, b * 0, 2, mode=mode), images
    kernel = np.linspace(-1, 1, 3 * 3 * 3 * 4, dtype=np.float32).reshape(3, 3, 3, 4)
    moved = [(F, ("n", 5, 6, 3)), (F, ("n", 3, 4, 18))]
    yield "deform_conv", lambda x, o: jn.deform_conv(x, kernel, o), moved
    for length in (4, 6):
        for name in ("fft", "ifft", "rfft", "irfft"):
            for lead in ((), ("n",), (2, "n")):
                tail = (length, 2) if name != "rfft" else (length,)
                yield f"{name} {length} {len(lead)}", getattr(jn, name), [(F, (*lead, *tail))]
    yield "stft", lambda x: jn.stft(x, 4, 2), [(F, (2, 8))]


def _multiplied() -> Iterator[_Given]:
    for a, b in ((("n", 3), (3, 4)), ((2, 3), (3, "n")), ((2, "n"), ("n", 4)), (("n",), ("n", 2)), ((2, "n", 3), (3, 4)),
                 ((2, 1, "n", 3), (2, 3, 4)), ((2, 3), (3,)), (("n",), ("n",))):  # fmt: skip
        name = f"{len(a)} {len(b)} {a} {b}"
        yield f"matmul {name}", jn.matmul, [(F, a), (F, b)]
        codes = [("uint8", a), ("int8", b)]
        yield f"matmul of codes {name}", lambda x, y: jn.matmul(x.cast(jn.int32) - 1, y.cast(jn.int32)), codes
        yield f"linear {name}", lambda x, y: x @ y + 1.0, [(F, a), (F, b)]
    for c in ((4,), ("n", 4), ("n", 1), (1,), ()):
        yield f"gemm {c}", lambda a, b, c: jn.gemm(a, b, c, 2.0, 3.0), [(F, ("n", 3)), (F, (3, 4)), (F, c)]
        turned = [(F, (3, "n")), (F, (4, 3)), (F, c)]
        yield f"gemm turned {c}", lambda a, b, c: jn.gemm(a, b, c, transpose_a=True, transpose_b=True), turned
    q, k = (F, (2, 4, 3, 8)), (F, (2, 4, "n", 8))
    masks: Sequence[tuple[int | str, ...]] = (
        (3, "n"), (1, "n"), (2, 1, 1, "n"), (2, 1, 3, "n"), (2, 4, 3, "n"), (1, 4, 1, "n"), (1, 1, 3, "n"), (4, 3, "n"),
        (1, 1, "n"),
    )  # fmt: skip
    for is_causal in (False, True):
        yield f"attention {is_causal}", lambda q, k, v, c=is_causal: jn.attention(q, k, v, is_causal=c), [q, k, k]
        for mask in masks:
            for dtype in ("bool", F):
                label = f"attention {mask} {dtype} {is_causal}"
                yield label, lambda q, k, v, m, c=is_causal: jn.attention(q, k, v, m, c), [q, k, k, (dtype, mask)]
    yield "attention of shared keys", jn.attention, [q, (F, (2, 2, "n", 8)), (F, (2, 2, "n", 8))]
    yield "attention, capped", lambda q, k, v: jn.attention(q, k, v, scale=0.2, softcap=2.0), [q, k, k]
    for tables in (("n", 4), (1, "n", 4), (2, "n", 4)):
        angles = [(F, (2, 4, "n", 8)), (F, tables), (F, tables)]
        for interleaved in (False, True):
            yield f"rotary {tables} {interleaved}", lambda x, c, s, i=interleaved: jn.rotary_embedding(x, c, s, None, i), angles
    for where in (("n",), (2, "n")):
        rows = [(F, (2, 4, "n", 8)), (F, (9, 3)), (F, (9, 3)), (I64, where)]
        yield f"rotary at {where}", jn.rotary_embedding, rows


def _chosen() -> Iterator[_Given]:
    for shape in _SHAPES[:4]:
        rank = len(shape)
        yield f"one_hot {rank}", lambda x: jn.one_hot(jn.maximum(x, 0), 5), [(I64, shape)]
        yield f"one_hot of argmax {rank}", lambda x: jn.one_hot(jn.argmax(x, -1), 5), [(F, (*shape, 5))]
        yield f"one_hot first {rank}", lambda x: jn.one_hot(x, 5, jn.int64, 0), [("uint8", shape)]
        yield f"gather {rank}", lambda x, i: jn.gather(x, i), [(F, (3, 2)), (I64, shape)]
    yield "one_hot of a size", lambda x, y: jn.one_hot(jn.maximum(x, 0), y.shape[0]), [(I64, (3, 2)), (F, ("n",))]
    yield "gather_nd", jn.gather_nd, [(F, (3, 3, "n")), (I64, (2, 2))]
    for classes in ((), ("n",), (2, "n")):
        x, target = (F, (3, 4, *classes)), (I64, (3, *classes))
        for reduction in ("mean", "sum", "none"):
            for loss in (jn.nll_loss, jn.cross_entropy):
                label = f"{loss.__name__} {len(classes)} {reduction}"
                yield label, lambda x, t, loss=loss, r=reduction: loss(x, t, reduction=r), [x, target]
    yield "cross_entropy of a batch", jn.cross_entropy, [(F, ("n", 4)), (I64, ("n",))]
    yield "dynamic_quantize", jn.dynamic_quantize, [(F, (3, "n"))]
    for shape in _SHAPES[1:4]:
        yield f"quantize {len(shape)}", lambda x: jn.quantize(x, np.float32(0.1), dtype=jn.uint8), [(F, shape)]
        yield f"where {len(shape)}", jn.where, [("bool", shape), (F, shape), (F, shape)]
    yield "nonzero", jn.nonzero, [(F, (3, "n"))]
    yield "unique", jn.unique, [(I64, ("n",))]
    yield "scatter", jn.scatter_add, [(F, (3, "n")), (F, (3, 2)), (I64, (3, 2))]
    yield "searchsorted", lambda a, v: jn.searchsorted(jn.sort(a), v), [(F, ("n",)), (F, (3,))]


def _networks() -> Iterator[_Given]:
    for name, gates in (("rnn", 1), ("gru", 3), ("lstm", 4)):
        for directions, direction in ((1, "forward"), (2, "bidirectional")):
            w, r = (np.linspace(-1, 1, directions * gates * 3 * k, dtype=np.float32).reshape(directions, -1, k) for k in (2, 3))
            for shape in ((3, "n", 2), ("n", 2, 2)):
                function = getattr(jn, name)
                label = f"{name} {direction} {shape}"
                yield label, lambda x, f=function, w=w, r=r, d=direction: f(x, w, r, direction=d), [(F, shape)]

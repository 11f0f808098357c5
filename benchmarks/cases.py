"""Defines the benchmark cases: the contenders, the float64 reference, and the least work that any machine must do.

A case is made by a function so that its arrays live only while it runs. `Work.limit` is the unavoidable memory traffic
or the arithmetic, whichever takes longer, as a task that is timed in turn with the contenders.
"""

from __future__ import annotations

import importlib.util
import math
import operator
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
from harness import Contender
from machine import MachineLimits, fma_task, multiplies_pairs, traffic_task
from ml_dtypes import bfloat16
from peers import Peers, call
from scipy.special import erf

ROOT = Path(__file__).resolve().parents[1]
SIDE = 4096


@dataclass(frozen=True, slots=True)
class Work:
    """The least work that any implementation must do."""

    bytes_moved: int = 0
    flops: int = 0
    only_reads: bool = False
    pairs: bool = False
    """Whether operands are bfloat16, of which some machines multiply two at a time."""

    def limit(self, machine: MachineLimits, threads: int) -> tuple[Callable[[], float] | None, str]:
        """Returns a function that does this work and nothing else, as fast as the machine can, and returns
        the seconds; with a description. None where only overhead is measured."""
        if not self.bytes_moved and not self.flops:
            return None, ""
        bandwidth = machine.read if self.only_reads else machine.copy_non_temporal
        pairs = self.pairs and multiplies_pairs()
        if self.bytes_moved / bandwidth >= self.flops / (machine.fma_all_threads * (2 if pairs else 1)):
            kind = "read" if self.only_reads else "copied past the caches"
            return traffic_task(self.bytes_moved, threads, self.only_reads), f"{self.bytes_moved / 1e6:.0f} MB {kind}"
        kind = "products of pairs of bfloat16" if pairs else "multiply-adds"
        return fma_task(self.flops, threads, pairs), f"{self.flops / 1e9:.3g} GFLOP of {kind}"


@dataclass(slots=True)
class Case:
    """Contenders that all compute `reference`, to `tolerance` (relative error in the 2-norm)."""

    name: str
    contenders: list[Contender]
    reference: Any
    tolerance: float
    work: Work

    def check(self) -> None:
        """Raises `SystemExit` unless every contender computes the reference."""
        size = np.linalg.norm(self.reference)
        for contender in self.contenders:
            result = eval(contender.statement, dict(contender.names))
            if contender.name == "torch":
                result = result.double()  # NumPy does not read torch's bfloat16
            result = np.asarray(result, dtype=np.float64)
            error = np.linalg.norm(result - self.reference) / size
            if result.shape != self.reference.shape or not error <= self.tolerance:
                raise SystemExit(
                    f"{self.name}: {contender.name} is wrong: shape {result.shape} "
                    f"for {self.reference.shape}, relative error {error:.2e}, allowed {self.tolerance:.0e}"
                )


def random(*shape: int, seed: int) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal(shape, dtype=np.float32)


def wide(array: np.ndarray) -> np.ndarray:
    return array.astype(np.float64)


def load_module(path: Path) -> ModuleType:
    """Loads a Python file outside this folder as a module."""
    spec = importlib.util.spec_from_file_location(path.stem, path)
    if spec is None or spec.loader is None:
        raise SystemExit(f"{path} cannot be loaded")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def onnx_single(peers: Peers, *arguments: Any) -> list[Contender]:
    """Makes a contender of ONNX Runtime on a few nodes; arguments are those of `peers_onnx.single`."""
    if "onnxruntime" not in peers.modules:
        return []
    import peers_onnx  # needs onnx, which is present only together with the peer

    return peers.onnxruntime(peers_onnx.single(*arguments), arguments[1])


# ------------------------------------------------------------ memory bound


def softmax(peers: Peers) -> Case:
    x = random(SIDE, SIDE, seed=1)

    def with_numpy(x: np.ndarray) -> np.ndarray:
        powers = np.exp(x - x.max(axis=1, keepdims=True))
        return powers / powers.sum(axis=1, keepdims=True)

    contenders = [
        *peers.joinery(lambda jn, x: jn.softmax(x, axis=-1), x),
        *onnx_single(peers, [("Softmax", ["x"], {"axis": -1})], {"x": x}),
        *peers.torch(lambda torch, x: torch.softmax(x, dim=-1), x),
        *peers.jax(lambda jax, x: jax.nn.softmax(x, axis=-1), x),
        *peers.numpy(with_numpy, x),
    ]
    return Case("softmax 4096x4096", contenders, with_numpy(wide(x)), 1e-5, Work(2 * x.nbytes))


def logsoftmax(peers: Peers) -> Case:
    x = random(SIDE, SIDE, seed=1)

    def with_numpy(x: np.ndarray) -> np.ndarray:
        below = x - x.max(axis=1, keepdims=True)
        return below - np.log(np.exp(below).sum(axis=1, keepdims=True))

    contenders = [
        *peers.joinery(lambda jn, x: jn.logsoftmax(x, axis=-1), x),
        *onnx_single(peers, [("LogSoftmax", ["x"], {"axis": -1})], {"x": x}),
        *peers.torch(lambda torch, x: torch.log_softmax(x, dim=-1), x),
        *peers.jax(lambda jax, x: jax.nn.log_softmax(x, axis=-1), x),
        *peers.numpy(with_numpy, x),
    ]
    return Case("log softmax 4096x4096", contenders, with_numpy(wide(x)), 1e-5, Work(2 * x.nbytes))


def layer_norm(peers: Peers) -> Case:
    x, scale, bias = random(SIDE, SIDE, seed=2), random(SIDE, seed=3), random(SIDE, seed=4)

    def with_numpy(x: np.ndarray) -> np.ndarray:
        centred = x - x.mean(axis=1, keepdims=True)
        variance = np.mean(np.square(centred), axis=1, keepdims=True)
        return centred / np.sqrt(variance + np.float32(1e-5)) * scale + bias

    def with_jax(jax: Any, x: Any) -> Any:
        centred = x - x.mean(axis=1, keepdims=True)
        variance = (centred * centred).mean(axis=1, keepdims=True)
        return centred * jax.lax.rsqrt(variance + 1e-5) * scale + bias

    step = ("LayerNormalization", ["x", "scale", "bias"], {"axis": -1, "epsilon": 1e-5})
    contenders = [
        *peers.joinery(lambda jn, x: jn.layer_norm(x, scale, bias, epsilon=1e-5), x),
        *onnx_single(peers, [step], {"x": x}, {"scale": scale, "bias": bias}),
        *peers.torch(
            lambda torch, x, w, b: torch.nn.functional.layer_norm(x, (SIDE,), w, b, 1e-5), x, scale, bias
        ),
        *peers.jax(with_jax, x),
        *peers.numpy(with_numpy, x),
    ]
    return Case("layer norm 4096x4096", contenders, with_numpy(wide(x)), 1e-5, Work(2 * x.nbytes))


def gelu(peers: Peers) -> Case:
    x, scale, bias = random(SIDE, SIDE, seed=5), random(SIDE, seed=6), random(SIDE, seed=7)

    def with_float64(x: np.ndarray) -> np.ndarray:
        y = x * wide(scale) + wide(bias)
        return 0.5 * y * (1.0 + erf(y * math.sqrt(0.5)))

    steps = [("Mul", ["x", "w"], {}), ("Add", ["-1", "b"], {}), ("Gelu", ["-1"], {})]
    contenders = [
        *peers.joinery(lambda jn, x: jn.gelu(x * scale + bias), x),
        *onnx_single(peers, steps, {"x": x}, {"w": scale, "b": bias}),
        *peers.torch(lambda torch, x, w, b: torch.nn.functional.gelu(torch.addcmul(b, x, w)), x, scale, bias),
        *peers.jax(lambda jax, x: jax.nn.gelu(x * scale + bias, approximate=False), x),
    ]
    return Case("gelu(x*w+b) 4096x4096", contenders, with_float64(wide(x)), 1e-5, Work(2 * x.nbytes))


def silu(peers: Peers) -> Case:
    x = random(SIDE, SIDE, seed=5)

    def with_numpy(x: np.ndarray) -> np.ndarray:
        return x / (1.0 + np.exp(-x))

    contenders = [
        *peers.joinery(lambda jn, x: jn.silu(x), x),
        *peers.torch(lambda torch, x: torch.nn.functional.silu(x), x),
        *peers.jax(lambda jax, x: jax.nn.silu(x), x),
        *peers.numpy(with_numpy, x),
    ]
    return Case("silu 4096x4096", contenders, with_numpy(wide(x)), 1e-5, Work(2 * x.nbytes))


def sum_axis_0(peers: Peers) -> Case:
    x = random(SIDE, SIDE, seed=8)
    contenders = [
        *peers.joinery(lambda jn, x: jn.sum(x, axis=0), x),
        *onnx_single(
            peers,
            [("ReduceSum", ["x", "axes"], {"keepdims": 0})],
            {"x": x},
            {"axes": np.array([0], np.int64)},
        ),
        *peers.torch(lambda torch, x: x.sum(dim=0), x),
        *peers.jax(lambda jax, x: x.sum(axis=0), x),
        *peers.numpy(lambda x: x.sum(axis=0), x),
    ]
    work = Work(x.nbytes, only_reads=True)
    return Case("sum axis 0 4096x4096", contenders, wide(x).sum(axis=0), 1e-4, work)


def transpose_add(peers: Peers) -> Case:
    x, y = random(SIDE, SIDE, seed=9), random(SIDE, SIDE, seed=10)
    steps = [("Transpose", ["x"], {"perm": [1, 0]}), ("Add", ["-1", "y"], {})]
    contenders = [
        *peers.joinery(lambda jn, x, y: jn.permute(x, (1, 0)) + y, x, y),
        *onnx_single(peers, steps, {"x": x, "y": y}),
        *peers.torch(lambda torch, x, y: x.T + y, x, y),
        *peers.jax(lambda jax, x, y: x.T + y, x, y),
        *peers.numpy(lambda x, y: x.T + y, x, y),
    ]
    return Case("x.T + y 4096x4096", contenders, wide(x).T + wide(y), 1e-7, Work(3 * x.nbytes))


# ------------------------------------------------------------ contractions


def matmul(size: int, constant: bool) -> Callable[[Peers], Case]:
    """Makes x @ y, with both operands given at run time, or with y known beforehand, as a weight is."""

    def make(peers: Peers) -> Case:
        x, y = random(size, size, seed=11), random(size, size, seed=12)
        steps = [("MatMul", ["x", "y"], {})]
        if constant:
            prepared = [
                *peers.joinery(lambda jn, x: x @ y, x),
                *onnx_single(peers, steps, {"x": x}, {"y": y}),
            ]
        else:
            prepared = [
                *peers.joinery(lambda jn, x, y: x @ y, x, y),
                *onnx_single(peers, steps, {"x": x, "y": y}),
            ]
        contenders = [
            *prepared,
            *peers.torch(lambda torch, x, y: x @ y, x, y),
            *peers.jax(lambda jax, x, y: x @ y, x, y),
            *peers.numpy(operator.matmul, x, y),
        ]
        name = f"matmul {size}x{size}x{size}" + (", constant y" if constant else "")
        return Case(name, contenders, wide(x) @ wide(y), 1e-5, Work(3 * x.nbytes, flops=2 * size**3))

    return make


def matmul_bfloat16(rows: int, inner: int, columns: int, constant: bool) -> Callable[[Peers], Case]:
    """Makes x @ y of bfloat16, with both operands given at run time, or with y known beforehand."""

    def make(peers: Peers) -> Case:
        x, y = (random(*shape, seed=11).astype(bfloat16) for shape in ((rows, inner), (inner, columns)))
        contenders = [
            *(peers.joinery(lambda jn, x: x @ y, x) if constant else peers.joinery(lambda jn, x, y: x @ y, x, y)),
            *peers.torch(lambda torch, x, y: x @ y, x, y),
            *peers.jax(lambda jax, x, y: x @ y, x, y),
        ]
        name = f"bfloat16 matmul {rows}x{inner}x{columns}" + (", constant y" if constant else "")
        moved = 2 * (rows * inner + inner * columns + rows * columns)
        few = rows * columns < inner * columns // 8
        work = Work(moved, flops=2 * rows * inner * columns, only_reads=few, pairs=True)
        return Case(name, contenders, wide(x) @ wide(y), 5e-3, work)

    return make


def linear_relu(peers: Peers) -> Case:
    rows, inner, columns = 512, 1024, 1024
    x, w, b = random(rows, inner, seed=13), random(inner, columns, seed=14), random(columns, seed=15)
    transposed = np.ascontiguousarray(w.T)
    steps = [("MatMul", ["x", "w"], {}), ("Add", ["-1", "b"], {}), ("Relu", ["-1"], {})]
    contenders = [
        *peers.joinery(lambda jn, x: jn.relu(x @ w + b), x),
        *onnx_single(peers, steps, {"x": x}, {"w": w, "b": b}),
        *peers.torch(
            lambda torch, x, w, b: torch.relu(torch.nn.functional.linear(x, w, b)), x, transposed, b
        ),
        *peers.jax(lambda jax, x, w, b: jax.nn.relu(x @ w + b), x, w, b),
        *peers.numpy(lambda x: np.maximum(x @ w + b, 0), x),
    ]
    reference = np.maximum(wide(x) @ wide(w) + wide(b), 0)
    traffic = x.nbytes + w.nbytes + rows * columns * 4
    flops = 2 * rows * inner * columns
    return Case("relu(x@w+b) 512x1024x1024", contenders, reference, 1e-5, Work(traffic, flops=flops))


def attention(peers: Peers) -> Case:
    heads, length, size = 12, 512, 64
    query, key, value = (random(heads, length, size, seed=16 + index) for index in range(3))
    scale = np.float32(1 / math.sqrt(size))

    def with_numpy(query: np.ndarray, key: np.ndarray, value: np.ndarray) -> np.ndarray:
        scores = query @ key.transpose(0, 2, 1) * scale
        powers = np.exp(scores - scores.max(axis=-1, keepdims=True))
        return powers / powers.sum(axis=-1, keepdims=True) @ value

    def with_joinery(jn: Any, query: Any, key: Any, value: Any) -> Any:
        scores = query @ jn.permute(key, (0, 2, 1)) * float(scale)
        return jn.softmax(scores, axis=-1) @ value

    def with_torch(torch: Any, query: Any, key: Any, value: Any) -> Any:
        return torch.nn.functional.scaled_dot_product_attention(query[None], key[None], value[None])[0]

    def with_jax(jax: Any, query: Any, key: Any, value: Any) -> Any:
        scores = query @ key.transpose(0, 2, 1) * scale
        return jax.nn.softmax(scores, axis=-1) @ value

    steps: list[tuple[str, list[str], Mapping[str, Any]]] = [
        ("Transpose", ["k"], {"perm": [0, 2, 1]}),
        ("MatMul", ["q", "-1"], {}),
        ("Mul", ["-1", "scale"], {}),
        ("Softmax", ["-1"], {"axis": -1}),
        ("MatMul", ["-1", "v"], {}),
    ]
    contenders = [
        *peers.joinery(with_joinery, query, key, value),
        *onnx_single(peers, steps, {"q": query, "k": key, "v": value}, {"scale": scale}),
        *peers.torch(with_torch, query, key, value),
        *peers.jax(with_jax, query, key, value),
        *peers.numpy(with_numpy, query, key, value),
    ]
    reference = with_numpy(wide(query), wide(key), wide(value))
    flops = 4 * heads * length * length * size
    return Case("attention 12x512x64", contenders, reference, 1e-5, Work(4 * query.nbytes, flops=flops))


# ------------------------------------------------------------ a model, overhead


def minilm(batch: int, seq: int) -> Callable[[Peers], Case]:
    """Makes sentence embeddings for `batch` full sentences of `seq` tokens."""

    def make(peers: Peers) -> Case:
        example = load_module(ROOT / "examples" / "minilm.py")
        witness = load_module(ROOT / "tests" / "support" / "minilm_float64.py")
        import minilm_peers
        import peers_onnx

        model_dir = example.model_dir()
        generator = np.random.default_rng(20)
        ids = generator.integers(1000, 30000, (batch, seq))
        mask = np.ones_like(ids)
        feeds = {"input_ids": ids, "attention_mask": mask}
        narrow = {name: array.astype(np.int32) for name, array in feeds.items()}
        contenders = []
        if "joinery" in peers.modules:
            model = peers.modules["joinery"].compile(
                example.build(model_dir), device="cpu", threads=peers.threads
            )
            contenders.append(call("joinery", model, (ids, mask), ours=True))
        if "onnxruntime" in peers.modules:
            contenders += peers.onnxruntime(peers_onnx.minilm_standard(model_dir), feeds)
            contenders += peers.onnxruntime(
                peers_onnx.minilm_fused(model_dir), narrow, "onnxruntime (contrib ops)"
            )
        if "torch" in peers.modules:
            embed = minilm_peers.torch_minilm(peers.modules["torch"], model_dir)
            contenders += peers.torch(lambda torch, ids, mask: embed(ids, mask), ids, mask)
        if "jax" in peers.modules:
            embed_jax = minilm_peers.jax_minilm(peers.modules["jax"], model_dir)
            contenders += peers.jax(lambda jax, ids, mask: embed_jax(ids, mask), ids, mask)
        tokens, hidden, inner, layers = batch * seq, 384, 1536, 6
        matrices = 4 * hidden * hidden + 2 * hidden * inner
        flops = layers * (2 * tokens * matrices + 4 * tokens * seq * hidden)
        return Case(
            f"minilm ({batch}, {seq})",
            contenders,
            witness.embed(model_dir, ids, mask),
            1e-5,
            Work(4 * layers * matrices, flops, only_reads=True),
        )

    return make


def small_add(peers: Peers) -> Case:
    """Makes an addition of 16 elements, which measures only the cost of a call."""
    x, y = random(16, seed=18), random(16, seed=19)
    contenders = [
        *peers.joinery(lambda jn, x, y: x + y, x, y),
        *onnx_single(peers, [("Add", ["x", "y"], {})], {"x": x, "y": y}),
        *peers.torch(lambda torch, x, y: x + y, x, y),
        *peers.jax(lambda jax, x, y: x + y, x, y),
        Contender("numpy", "x + y", {"x": x, "y": y}),
    ]
    return Case("call overhead, 16-element add", contenders, wide(x) + wide(y), 1e-6, Work())


CASES: dict[str, Callable[[Peers], Case]] = {
    "minilm-1x16": minilm(1, 16),
    "minilm-8x128": minilm(8, 128),
    "minilm-32x128": minilm(32, 128),
    "softmax": softmax,
    "log-softmax": logsoftmax,
    "layer-norm": layer_norm,
    "gelu": gelu,
    "silu": silu,
    "sum-axis-0": sum_axis_0,
    "transpose-add": transpose_add,
    "matmul-256": matmul(256, constant=False),
    "matmul-256-constant": matmul(256, constant=True),
    "matmul-1024": matmul(1024, constant=False),
    "matmul-1024-constant": matmul(1024, constant=True),
    "matmul-2048": matmul(2048, constant=False),
    "matmul-2048-constant": matmul(2048, constant=True),
    "matmul-bfloat16-1024": matmul_bfloat16(1024, 1024, 1024, constant=False),
    "matmul-bfloat16-linear": matmul_bfloat16(1024, 768, 3072, constant=True),
    "matmul-bfloat16-16-rows": matmul_bfloat16(16, 4096, 4096, constant=True),
    "linear-relu": linear_relu,
    "attention": attention,
    "call": small_add,
}

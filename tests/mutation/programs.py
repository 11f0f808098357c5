"""Provides kernels as launches compile them, with launches that reach each of their synchronising instructions."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import joinery as jn
import numpy as np
from joinery.benchmarks import gpu_texts

from .launches import Launch, recorded

ROOT = Path(__file__).resolve().parents[2]
BENCHMARKS, MADE = ROOT / "benchmarks" / "kernels", ROOT / "tests" / "data" / "ttir_descriptors"
LENGTHS = (384, 320, 256)
"""Numbers of attention's keys: 6, 5 and 4 iterations of its loop over three stages. Each stage is refilled, and each one is
the last of a launch."""


def halves(*shape: int) -> Any:
    return np.random.default_rng(shape).standard_normal(shape).astype(np.float16)


def floats(*shape: int) -> Any:
    return np.random.default_rng(shape).standard_normal(shape).astype(np.float32)


def _kernel(folder: Path, name: str, grid: Any, target: str, warps: int, *args: Any) -> None:
    kernel = jn.kernel.from_ttir(folder / f"{name}.ttir")
    kernel.launch(grid, *args, device="ptxsim", target=target, warps=warps)


def _softmax(target: str, warps: int) -> None:
    _kernel(BENCHMARKS, "gpu_softmax", 1, target, warps, floats(1, 1008), np.zeros((1, 1008), np.float32), 1008)


def _layer_norm(target: str, warps: int) -> None:
    args = floats(1, 1008), floats(1008), floats(1008), np.zeros((1, 1008), np.float32), 1008, 1e-5
    _kernel(BENCHMARKS, "gpu_layer_norm", 1, target, warps, *args)


def _matmul(target: str, warps: int) -> None:
    a, b, c = halves(128, 448), halves(448, 128), np.zeros((128, 128), np.float32)
    _kernel(BENCHMARKS, "gpu_matmul_f16", 1, target, warps, a, b, c, 128, 128, 448, 448, 128, 128)


def _described(target: str, warps: int) -> None:
    args = described(halves(128, 448), halves(448, 128), np.zeros((128, 128), np.float16))
    _kernel(BENCHMARKS, "gpu_matmul_described_f16", 1, target, warps, *args, 448)


def _attention(target: str, warps: int) -> None:
    for keys in LENGTHS:
        q, k, v, out = (halves(length, 64) for length in (64, keys, keys, 64))
        _kernel(BENCHMARKS, "gpu_attention_f16", 1, target, warps, q, k, v, out, keys, 0.125, keys * 64, 64)


def _attention_of_rows(target: str, warps: int, causal: bool = False) -> None:
    """Launches the text of the GPU benchmark, with descriptors where the target has tensor copies.

    Causal: the blocks of rows of one launch make 1 to 6 iterations.
    """
    rows = 16 * warps
    kernel = jn.kernel.from_ttir(gpu_texts.attention(rows, 64, 64, "f16", causal, described=target != "sm_80"))
    for keys in LENGTHS[:1] if causal else LENGTHS:
        arrays = [halves(keys, 64), halves(keys, 64), halves(keys, 64), np.zeros((keys, 64), np.float16)]
        tensors = arrays if target == "sm_80" else [jn.TensorDescriptor(x) for x in arrays]
        blocks = keys // rows if causal else 1
        kernel.launch(blocks, *tensors, keys, 0.18, device="ptxsim", target=target, warps=warps)


def _causal_attention(target: str, warps: int) -> None:
    _attention_of_rows(target, warps, causal=True)


def _made_attention(target: str, warps: int) -> None:
    for keys in LENGTHS:
        q, k, v, out = (halves(1, keys, 64) for _ in range(4))
        _kernel(MADE, "attention", 1, target, warps, q, k, v, out, 1, keys, 0.18)


def _persistent(target: str, warps: int) -> None:
    a, b, c = halves(256, 200), halves(128, 200), np.zeros((256, 128), np.float16)
    _kernel(MADE, "persistent", 1, target, warps, a, b, c, 256, 128, 200)


def _persistent_tiles(target: str, warps: int) -> None:
    """Launches the benchmark's text: one program for two tiles, of seven iterations each."""
    kernel = jn.kernel.from_ttir(gpu_texts.matmul_persistent(128, 128, 64, "f16"))
    arrays = halves(256, 448), halves(448, 128), np.zeros((256, 128), np.float16)
    tensors = [jn.TensorDescriptor(x) for x in arrays]
    kernel.launch(1, *tensors, 448, 2, 1, device="ptxsim", target=target, warps=warps)


TRANSPOSED = """
    %at = tt.make_range {end = 128 : i32, start = 0 : i32} : tensor<128xi32>
    %down = tt.expand_dims %at {axis = 1 : i32} : tensor<128xi32> -> tensor<128x1xi32>
    %width = arith.constant dense<128> : tensor<128x1xi32>
    %rows = arith.muli %down, %width : tensor<128x1xi32>
    %rows_all = tt.broadcast %rows : tensor<128x1xi32> -> tensor<128x128xi32>
    %across = tt.expand_dims %at {axis = 0 : i32} : tensor<128xi32> -> tensor<1x128xi32>
    %across_all = tt.broadcast %across : tensor<1x128xi32> -> tensor<128x128xi32>
    %places = arith.addi %rows_all, %across_all : tensor<128x128xi32>
    %base = tt.splat %d : !tt.ptr<f32> -> tensor<128x128x!tt.ptr<f32>>
    %pointers = tt.addptr %base, %places : tensor<128x128x!tt.ptr<f32>>, tensor<128x128xi32>
    %block = tt.load %pointers : tensor<128x128x!tt.ptr<f32>>
    %turned = tt.trans %block {order = array<i32: 1, 0>} : tensor<128x128xf32> -> tensor<128x128xf32>
    tt.store %pointers, %turned : tensor<128x128x!tt.ptr<f32>>
"""


def transposing_product() -> jn.kernel.Kernel:
    """Returns the described product, which first transposes another block in the stages' memory."""
    text = (BENCHMARKS / "gpu_matmul_described_f16.ttir").read_text()
    text = text.replace("%K: i32", "%d: !tt.ptr<f32> {tt.divisibility = 16 : i32}, %K: i32", 1)
    return jn.kernel.from_ttir(text.replace("    %x = tt.get_program_id", TRANSPOSED + "    %x = tt.get_program_id", 1))


def described(*arrays: Any) -> list[jn.TensorDescriptor]:
    """Returns descriptors of A, B and C of the described product."""
    blocks = (128, 64), (64, 128), (128, 128)
    return [jn.TensorDescriptor(x, x.shape, (x.shape[1], 1), block) for x, block in zip(arrays, blocks, strict=True)]


def _transposition(target: str, warps: int) -> None:
    """Transposes twice, so that the memory for the exchange is reused."""
    text = TRANSPOSED.replace("128", "32")
    again = text.replace("%block", "%other").replace("%turned", "%back").split("\n")[-4:]
    body = "\n".join([text, *again])
    kernel = jn.kernel.from_ttir(f"tt.func public @turn(%d: !tt.ptr<f32> {{tt.divisibility = 16 : i32}}) {{{body}tt.return\n}}")
    kernel.launch(1, floats(32, 32), device="ptxsim", target=target, warps=warps)


def _taken(target: str, warps: int) -> None:
    args = described(halves(128, 448), halves(448, 128), np.zeros((128, 128), np.float16))
    transposing_product().launch(1, *args, floats(128, 128), 448, device="ptxsim", target=target, warps=warps)


def _graph(target: str, build: Callable[..., Sequence[jn.Symbol]], *args: Any) -> None:
    graph = jn.Graph("g", [jn.TensorType(str(x.dtype), x.shape, f"x{i}") for i, x in enumerate(args)])
    graph.output(*build(*graph.inputs))
    jn.compile(graph, device="ptxsim", target=target, cache=False)(*args)


def _graph_product(target: str, _: int) -> None:
    """Launches a product so deep that copies or products in flight after the loop concern the first stage,
    where the result is stored."""
    depth = 384 if target == "sm_80" else 448
    _graph(target, lambda x, y: [jn.relu(x @ y)], halves(64, depth), halves(depth, 64))


def _graph_reductions(target: str, _: int) -> None:
    _graph(target, lambda x: [jn.softmax(x, axis=-1), jn.sum(x, axis=0)], floats(8, 1000))


def _graph_of_attention(target: str, rows: tuple[int, int, int], random: Callable[..., Any]) -> None:
    """Launches attention with one code for any number of keys."""
    heads, _, width = rows
    shapes = rows, (heads, "n", width), (heads, "n", width)
    dtype = str(random(1).dtype)
    graph = jn.Graph("g", [jn.TensorType(dtype, shape, name) for shape, name in zip(shapes, "qkv", strict=True)])
    q, k, v = graph.inputs
    scores = (q @ k.transpose(1, 2)).cast(jn.float32) * 0.7
    graph.output(jn.softmax(scores, -1).cast(q.dtype) @ v)
    model = jn.compile(graph, device="ptxsim", target=target, cache=False)
    for keys in LENGTHS[::2] if dtype == "float32" else LENGTHS:  # these have only two stages
        model(random(*rows), random(heads, keys, width), random(heads, keys, width))


def _graph_attention(target: str, _: int) -> None:
    _graph_of_attention(target, (1, 64, 64), halves)


def _graph_attention_of_floats(target: str, _: int) -> None:
    _graph_of_attention(target, (1, 64, 32), floats)


def _graph_attention_of_warpgroups(target: str, _: int) -> None:
    """Launches attention on so many blocks that each has 128 rows."""
    _graph_of_attention(target, (132, 128, 64), halves)


@dataclass(frozen=True, slots=True)
class Program:
    """A program to mutate: for one target, with one number of warps (0: as the compiler chooses)."""

    name: str
    run: Callable[[str, int], None]
    target: str
    warps: int

    def __str__(self) -> str:
        return f"{self.name}, {self.target}" + (f", {self.warps} warps" if self.warps else "")

    def launches(self) -> list[Launch]:
        with recorded(one_block=self.name.endswith("of two warpgroups")) as found:
            self.run(self.target, self.warps)
        return found


def _programs(name: str, run: Callable[[str, int], None], targets: Sequence[str], warps: Sequence[int]) -> list[Program]:
    return [Program(name, run, target, count) for target in targets for count in warps]


BOTH = ("sm_80", "sm_90a")
PROGRAMS = [
    *_programs("softmax", _softmax, ("sm_90a",), (2, 8)),  # the code for sm_80 is the same, but for .target
    *_programs("layer norm", _layer_norm, ("sm_80",), (4,)),
    *_programs("transposition", _transposition, ("sm_80",), (1, 4)),
    *_programs("product", _matmul, BOTH, (4, 8)),
    *_programs("described product", _described, BOTH, (4, 8)),
    *_programs("persistent product", _persistent, ("sm_90a",), (8,)),
    *_programs("persistent product of tiles", _persistent_tiles, ("sm_90a",), (4, 8)),
    *_programs("product after a transposition", _taken, ("sm_90a",), (8,)),
    *_programs("attention", _attention, BOTH, (4, 8)),
    *_programs("attention of rows", _attention_of_rows, BOTH, (4, 8)),
    *_programs("causal attention of rows", _causal_attention, BOTH, (4, 8)),
    *_programs("attention with descriptors it makes", _made_attention, ("sm_90a",), (4,)),
    *_programs("graph of a product", _graph_product, BOTH, (0,)),
    *_programs("graph of reductions", _graph_reductions, ("sm_80",), (0,)),
    *_programs("graph of attention", _graph_attention, BOTH, (0,)),
    *_programs("graph of attention of floats", _graph_attention_of_floats, ("sm_80",), (0,)),  # sm_90a has the same code
    *_programs("graph of attention of two warpgroups", _graph_attention_of_warpgroups, ("sm_90a",), (0,)),
]

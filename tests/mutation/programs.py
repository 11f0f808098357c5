"""Kernels as launches compile them, with one launch each that can be repeated with another text."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import joinery as jn
import numpy as np
from joinery.runtime.ptxsim import Module, PtxCheckError
from joinery.runtime.ptxsim import launch as launching
from joinery.runtime.ptxsim.memory import GlobalMemory

ROOT = Path(__file__).resolve().parents[2]
BENCHMARKS, MADE = ROOT / "benchmarks" / "kernels", ROOT / "tests" / "data" / "ttir_made"
BUDGET = 2_000_000


@dataclass(frozen=True, slots=True)
class Launch:
    """A launch of a kernel, to be repeated: `memory` are its arrays, as they were before and after."""

    text: str
    name: str
    memory: list[Any]
    before: list[Any]
    after: list[Any]
    warnings: frozenset[str]
    start: Callable[[Any], Any]

    def verdict(self, text: str) -> str:
        """How a text is told from the launch's own: the kind of a finding, "values", or "" where it is not."""
        for array, content in zip(self.memory, self.before, strict=True):
            array[...] = content
        try:
            result = self.start(Module(text).kernel(self.name))
        except PtxCheckError as error:
            return error.findings[0].kind
        except (jn.UserError, jn.UnsupportedError) as error:
            return f"refused: {error}"
        if any(not np.array_equal(*each) for each in zip(self.memory, self.after, strict=True)):
            return "values"
        new = {finding.kind for finding in result.findings} - self.warnings
        return f"a warning, {min(new)}" if new else ""


@contextmanager
def recorded() -> Iterator[list[Launch]]:
    """Inside, all launches in the simulator are checked, and recorded."""
    found: list[Launch] = []
    launch, launch_in = launching.Kernel.launch, launching.Kernel.launch_in

    def note(kernel: Any, memory: list[Any], run: Callable[[Any], Any]) -> Any:
        before = [array.copy() for array in memory]
        result = run(kernel)
        warnings = frozenset(finding.kind for finding in result.findings)
        after = [array.copy() for array in memory]
        found.append(Launch(kernel.module.text, kernel.name, memory, before, after, warnings, run))
        return result

    def on_arrays(self: Any, grid: Any, block: Any, args: Any, **options: Any) -> Any:
        options |= {"level": 3, "budget": BUDGET}
        arrays = [each for each in args if isinstance(each, np.ndarray)]
        return note(self, [each.view(np.uint8) for each in arrays], lambda k: launch(k, grid, block, args, **options))

    def on_memory(self: Any, memory: GlobalMemory, variables: Any, grid: Any, words: Any, shared: int, level: int) -> Any:
        return note(self, [memory.octets], lambda k: launch_in(k, memory, variables, grid, words, shared, 3))

    launching.Kernel.launch, launching.Kernel.launch_in = on_arrays, on_memory  # type: ignore[method-assign]
    try:
        yield found
    finally:
        launching.Kernel.launch, launching.Kernel.launch_in = launch, launch_in  # type: ignore[method-assign]


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
    """With 192 keys copies of what is not there any more are on their way to the stage behind the loop."""
    for keys in (256, 192):
        q, k, v, out = (halves(length, 64) for length in (64, keys, keys, 64))
        _kernel(BENCHMARKS, "gpu_attention_f16", 1, target, warps, q, k, v, out, keys, 0.125, keys * 64, 64)


def _persistent(target: str, warps: int) -> None:
    a, b, c = halves(256, 200), halves(128, 200), np.zeros((256, 128), np.float16)
    _kernel(MADE, "persistent", 1, target, warps, a, b, c, 256, 128, 200)


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
    """The described product, which transposes another block in the stages' memory first."""
    text = (BENCHMARKS / "gpu_matmul_described_f16.ttir").read_text()
    text = text.replace("%K: i32", "%d: !tt.ptr<f32> {tt.divisibility = 16 : i32}, %K: i32", 1)
    return jn.kernel.from_ttir(text.replace("    %x = tt.get_program_id", TRANSPOSED + "    %x = tt.get_program_id", 1))


def described(*arrays: Any) -> list[jn.TensorDescriptor]:
    """A, B and C of the described product."""
    blocks = (128, 64), (64, 128), (128, 128)
    return [jn.TensorDescriptor(x, x.shape, (x.shape[1], 1), block) for x, block in zip(arrays, blocks, strict=True)]


def _transposition(target: str, warps: int) -> None:
    """Twice, so that the memory it goes through is used again."""
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
    """So deep that the copies or products on their way behind the loop concern the first stage, where the result is stored."""
    depth = 384 if target == "sm_80" else 448
    _graph(target, lambda x, y: [jn.relu(x @ y)], halves(64, depth), halves(depth, 64))


def _graph_reductions(target: str, _: int) -> None:
    _graph(target, lambda x: [jn.softmax(x, axis=-1), jn.sum(x, axis=0)], floats(8, 1000))


@dataclass(frozen=True, slots=True)
class Program:
    """What is run: for one target, with one number of warps (0: as the compiler chooses)."""

    name: str
    run: Callable[[str, int], None]
    target: str
    warps: int

    def __str__(self) -> str:
        return f"{self.name}, {self.target}" + (f", {self.warps} warps" if self.warps else "")

    def launches(self) -> list[Launch]:
        with recorded() as found:
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
    *_programs("attention", _attention, ("sm_80",), (4,)),
    *_programs("persistent product", _persistent, ("sm_90a",), (8,)),
    *_programs("product after a transposition", _taken, ("sm_90a",), (8,)),
    *_programs("graph of a product", _graph_product, BOTH, (0,)),
    *_programs("graph of reductions", _graph_reductions, ("sm_80",), (0,)),
]

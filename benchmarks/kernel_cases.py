"""Times block kernels from texts that Triton printed (`kernels/`), against libraries and against Triton's
interpreter mode."""

from __future__ import annotations

import math
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from cases import SIDE, Case, Work, random, wide
from harness import BRIEF_PROCESSES, Contender, Measurement
from peers import Peers, call
from startup import fresh_processes

HERE = Path(__file__).resolve().parent
KERNELS = HERE / "kernels"
INTERPRETER_ROUNDS = 2


def launcher(peers: Peers, name: str, grid: tuple[int, ...], arguments: tuple[Any, ...], out: np.ndarray) -> Callable[[], Any]:
    """Returns a function that launches a kernel of `kernels/` and returns the array that it writes."""
    kernel = peers.modules["joinery"].kernel.from_ttir(KERNELS / f"{name}.ttir")

    def run() -> np.ndarray:
        kernel.launch(grid, *arguments, threads=peers.threads)
        return out

    return run


def text(
    peers: Peers, name: str, grid: tuple[int, ...], arguments: tuple[Any, ...], out: np.ndarray
) -> list[Contender]:
    if "joinery" not in peers.modules:
        return []
    return [call("joinery, text", launcher(peers, name, grid, arguments, out), (), ours=True)]


def vec_add(peers: Peers) -> Case:
    x, y = random(SIDE * SIDE, seed=40), random(SIDE * SIDE, seed=41)
    out = np.empty_like(x)
    contenders = [
        *text(peers, "vec_add", (x.size // 1024,), (x, y, out, x.size), out),
        *peers.torch(lambda torch, x, y: x + y, x, y),
        *peers.numpy(np.add, x, y),
    ]
    return Case(f"text: vec_add {x.size}", contenders, wide(x) + wide(y), 1e-6, Work(3 * x.nbytes))


def softmax(columns: int) -> Callable[[Peers], Case]:
    def make(peers: Peers) -> Case:
        x = random(SIDE, columns, seed=42)
        out = np.empty_like(x)
        contenders = [
            *text(peers, "softmax", (SIDE,), (x, out, columns), out),
            *peers.torch(lambda torch, x: torch.softmax(x, dim=-1), x),
        ]
        powers = np.exp(wide(x) - wide(x).max(axis=1, keepdims=True))
        reference = powers / powers.sum(axis=1, keepdims=True)
        return Case(f"text: softmax {SIDE}x{columns}", contenders, reference, 1e-5, Work(2 * x.nbytes))

    return make


def layer_norm(peers: Peers) -> Case:
    x, w, b = random(SIDE, SIDE, seed=43), random(SIDE, seed=44), random(SIDE, seed=45)
    out = np.empty_like(x)
    contenders = [
        *text(peers, "layer_norm", (SIDE,), (x, w, b, out, SIDE, 1e-5), out),
        *peers.torch(lambda torch, x, w, b: torch.nn.functional.layer_norm(x, (SIDE,), w, b, 1e-5), x, w, b),
    ]
    centred = wide(x) - wide(x).mean(axis=1, keepdims=True)
    reference = centred / np.sqrt((centred**2).mean(axis=1, keepdims=True) + 1e-5) * wide(w) + wide(b)
    return Case(f"text: layer_norm {SIDE}x{SIDE}", contenders, reference, 1e-5, Work(2 * x.nbytes))


def matmul(name: str, size: int) -> Callable[[Peers], Case]:
    def make(peers: Peers) -> Case:
        a, b = random(size, size, seed=46), random(size, size, seed=47)
        out = np.empty_like(a)
        tiles = -(-size // 128)
        grid = (tiles * tiles,) if name == "matmul" else (tiles, tiles)
        contenders = [
            *text(peers, name, grid, (a, b, out, size, size, size, size, size, size), out),
            *peers.torch(lambda torch, a, b: a @ b, a, b),
            *peers.numpy(np.matmul, a, b),
        ]
        return Case(f"text: {name} {size}", contenders, wide(a) @ wide(b), 1e-5, Work(3 * a.nbytes, flops=2 * size**3))

    return make


def attention(length: int) -> Callable[[Peers], Case]:
    def make(peers: Peers) -> Case:
        heads, width = 4, 64
        q, k, v = (random(heads, length, width, seed=48 + i) for i in range(3))
        out = np.empty_like(q)
        scale = 1 / math.sqrt(width)
        arguments = (q, k, v, out, length, scale, length * width, width)

        def with_torch(torch: Any, q: Any, k: Any, v: Any) -> Any:
            return torch.nn.functional.scaled_dot_product_attention(q[None], k[None], v[None])[0]

        contenders = [
            *text(peers, "attention", (length // 64, heads), arguments, out),
            *peers.torch(with_torch, q, k, v),
        ]
        scores = wide(q) @ wide(k).transpose(0, 2, 1) * scale
        powers = np.exp(scores - scores.max(axis=-1, keepdims=True))
        reference = powers / powers.sum(axis=-1, keepdims=True) @ wide(v)
        work = Work(4 * q.nbytes, flops=4 * heads * length * length * width)
        return Case(f"text: attention {heads}x{length}x{width}", contenders, reference, 1e-5, work)

    return make


def interpreted(name: str, size: int) -> Callable[..., Measurement]:
    """Measures the text, natively, against the source in Triton's interpreter mode, which runs in processes
    of its own."""

    def measure(peers: Peers, brief: bool = False) -> Measurement:
        samples: dict[str, list[float]] = {}
        ours: tuple[str, ...] = ()
        rounds = 1 if brief else INTERPRETER_ROUNDS
        if "joinery" in peers.modules:
            run, ours = _ours(peers, name, size), ("joinery, text",)
            run()
            samples["joinery, text"] = []
            for _ in range(rounds):
                start = time.perf_counter()
                run()
                samples["joinery, text"].append(time.perf_counter() - start)
        if _has_triton():
            script = [sys.executable, str(HERE / "triton_interpreter.py"), name, str(size)]
            samples |= fresh_processes({"triton, interpreter mode": script}, rounds, () if brief else None)
        return Measurement(f"interpreter: {name} {size}", "", samples, ours)

    return measure


def _has_triton() -> bool:
    from importlib.util import find_spec

    return find_spec("triton") is not None and find_spec("torch") is not None


def _ours(peers: Peers, name: str, size: int) -> Callable[[], Any]:
    if name == "vec_add":
        x, y = random(size, seed=60), random(size, seed=61)
        out = np.empty_like(x)
        return launcher(peers, name, (-(-size // 1024),), (x, y, out, size), out)
    if name == "attention":
        q, k, v = (random(4, size, 64, seed=62 + i) for i in range(3))
        out = np.empty_like(q)
        return launcher(peers, name, (-(-size // 64), 4), (q, k, v, out, size, 0.125, size * 64, 64), out)
    x, y = random(size, size, seed=65), random(size, size, seed=66)
    out = np.empty_like(x)
    tiles = -(-size // 128)
    grid, arguments = {
        "softmax": ((size,), (x, out, size)),
        "layer_norm": ((size,), (x, y[0].copy(), y[1].copy(), out, size, 1e-5)),
        "matmul_masked": ((tiles, tiles), (x, y, out, *(size,) * 6)),
    }[name]
    return launcher(peers, name, grid, arguments, out)


COMPILE = """
import sys, time, json
import joinery as jn
from pathlib import Path
folder = Path(sys.argv[1])
jn.kernel.from_ttir(folder / "vec_add.ttir").asm()
start = time.perf_counter()
kernel = jn.kernel.from_ttir(folder / (sys.argv[2] + ".ttir"))
kernel.asm()
print(time.perf_counter() - start)
"""
TRITON_COMPILE = """
import os, sys, time, tempfile
os.environ["TRITON_CACHE_DIR"] = tempfile.mkdtemp()
import triton
from triton.backends.compiler import GPUTarget
target = GPUTarget("cuda", 80, 32)
triton.compile(sys.argv[1] + "/vec_add.ttir", target=target)
start = time.perf_counter()
triton.compile(sys.argv[1] + "/" + sys.argv[2] + ".ttir", target=target)
print(time.perf_counter() - start)
"""


def compilation(name: str) -> Callable[..., Measurement]:
    """Measures from text to machine code, as the second kernel of a process. Triton compiles the same text to
    a cubin."""

    def measure(peers: Peers, brief: bool = False) -> Measurement:
        commands: dict[str, list[str]] = {}
        ours: tuple[str, ...] = ()
        if "joinery" in peers.modules:
            commands["joinery, text"] = [sys.executable, "-c", COMPILE, str(KERNELS), name]
            ours = ("joinery, text",)
        if _has_triton():
            commands["triton, sm_80"] = [sys.executable, "-c", TRITON_COMPILE, str(KERNELS), name]
        samples = fresh_processes(commands, BRIEF_PROCESSES, ()) if brief else fresh_processes(commands, 5)
        return Measurement(f"compile text: {name}", "", samples, ours)

    return measure


KERNEL_CASES: dict[str, Callable[[Peers], Case]] = {
    "text-vec-add": vec_add,
    "text-softmax-4096": softmax(4096),
    "text-softmax-1000": softmax(1000),
    "text-layer-norm": layer_norm,
    "text-matmul-masked-1024": matmul("matmul_masked", 1024),
    "text-matmul-masked-2048": matmul("matmul_masked", 2048),
    "text-matmul-1024": matmul("matmul", 1024),
    "text-attention-1024": attention(1024),
    "text-attention-4096": attention(4096),
}
KERNEL_MEASUREMENTS: dict[str, Callable[..., Measurement]] = {
    "interpreter-vec-add": interpreted("vec_add", 1 << 22),
    "interpreter-softmax": interpreted("softmax", 1024),
    "interpreter-layer-norm": interpreted("layer_norm", 1024),
    "interpreter-matmul": interpreted("matmul_masked", 1024),
    "interpreter-attention": interpreted("attention", 1024),
    "compile-text-softmax": compilation("softmax"),
    "compile-text-matmul": compilation("matmul_masked"),
    "compile-text-attention": compilation("attention"),
}
